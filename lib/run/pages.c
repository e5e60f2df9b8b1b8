/* pages.c - the table of a cache in blocks: a stack of free blocks, and for each block how many
 * sequences own it. */
#include "lib/run/pages.h"

#include <string.h>

typedef struct sequence {
    int64_t length, blocks; /* positions; entries of its row of the table */
    bool used;
} sequence;

struct zt_pages {
    zt_ctx *ctx;
    int64_t blocks, size, sequences;
    int32_t *table;  /* [sequences][blocks] */
    int32_t *owners; /* of each block */
    int32_t *free;   /* n_free blocks, the next to be given at the end */
    int64_t n_free, peak;
    sequence *seq;
};

zt_pages *zt_pages_open(zt_ctx *ctx, int64_t blocks, int64_t size, int64_t sequences)
{
    if (blocks < 1 || size < 1 || sequences < 1 || blocks > INT32_MAX / size ||
        sequences > INT32_MAX) {
        zt_fail(ctx, ZT_EUSAGE, "pages: %lld blocks of %lld positions for %lld sequences",
                (long long)blocks, (long long)size, (long long)sequences);
        return NULL;
    }
    zt_pages *pages = zt_calloc(ctx, 1, sizeof *pages);
    if (!pages) return NULL;
    *pages = (zt_pages){.ctx = ctx, .blocks = blocks, .size = size, .sequences = sequences};
    pages->owners = zt_calloc(ctx, (size_t)blocks, sizeof *pages->owners);
    pages->free = zt_alloc_array(ctx, (size_t)blocks, sizeof *pages->free);
    pages->seq = zt_calloc(ctx, (size_t)sequences, sizeof *pages->seq);
    if ((size_t)blocks <= SIZE_MAX / sizeof *pages->table)
        pages->table = zt_calloc(ctx, (size_t)sequences, (size_t)blocks * sizeof *pages->table);
    if (!pages->owners || !pages->free || !pages->seq || !pages->table) {
        zt_pages_close(pages);
        return NULL;
    }
    for (int64_t i = 0; i < blocks; i++) pages->free[i] = (int32_t)(blocks - 1 - i);
    pages->n_free = blocks;
    return pages;
}

void zt_pages_close(zt_pages *pages)
{
    if (!pages) return;
    zt_free(pages->ctx, pages->table);
    zt_free(pages->ctx, pages->owners);
    zt_free(pages->ctx, pages->free);
    zt_free(pages->ctx, pages->seq);
    zt_free(pages->ctx, pages);
}

static sequence *find(const zt_pages *pages, int seq)
{
    return seq >= 0 && seq < pages->sequences && pages->seq[seq].used ? &pages->seq[seq] : NULL;
}

static zt_status unknown(const zt_pages *pages, int seq)
{
    return zt_fail(pages->ctx, ZT_EUSAGE, "pages: sequence %d of %lld is not in use", seq,
                   (long long)pages->sequences);
}

static int32_t *row_of(const zt_pages *pages, int seq) { return pages->table + seq * pages->blocks; }

static int64_t blocks_for(const zt_pages *pages, int64_t n) { return n / pages->size + (n % pages->size > 0); }

static void give_back(zt_pages *pages, int seq, int64_t keep)
{
    sequence *s = &pages->seq[seq];
    int32_t *row = row_of(pages, seq);
    while (s->blocks > keep) {
        int32_t block = row[--s->blocks];
        row[s->blocks] = 0;
        if (--pages->owners[block] == 0) pages->free[pages->n_free++] = block;
    }
}

int zt_pages_begin(zt_pages *pages)
{
    for (int64_t i = 0; i < pages->sequences; i++) {
        if (pages->seq[i].used) continue;
        pages->seq[i] = (sequence){.used = true};
        return (int)i;
    }
    zt_fail(pages->ctx, ZT_ENOMEM, "pages: all %lld sequences are in use", (long long)pages->sequences);
    return -1;
}

zt_status zt_pages_reserve(zt_pages *pages, int seq, int64_t n)
{
    sequence *s = find(pages, seq);
    if (!s) return unknown(pages, seq);
    int64_t more = blocks_for(pages, n) - s->blocks;
    if (more <= 0) return ZT_OK;
    if (more > pages->n_free)
        return zt_fail(pages->ctx, ZT_ENOMEM,
                       "pages: sequence %d of %lld positions wants %lld blocks more for %lld, "
                       "%lld of %lld are free",
                       seq, (long long)s->length, (long long)more, (long long)n,
                       (long long)pages->n_free, (long long)pages->blocks);
    for (int32_t *row = row_of(pages, seq); more > 0; more--) {
        int32_t block = pages->free[--pages->n_free];
        pages->owners[block] = 1;
        row[s->blocks++] = block;
    }
    int64_t used = pages->blocks - pages->n_free;
    if (used > pages->peak) pages->peak = used;
    return ZT_OK;
}

zt_status zt_pages_append(zt_pages *pages, int seq, int64_t n, int32_t *pos, int32_t *seqs)
{
    sequence *s = find(pages, seq);
    if (!s) return unknown(pages, seq);
    if (n < 0 || n > INT32_MAX)
        return zt_fail(pages->ctx, ZT_EUSAGE, "pages: %lld positions more", (long long)n);
    zt_status status = zt_pages_reserve(pages, seq, s->length + n);
    if (status) return status;
    for (int64_t i = 0; i < n; i++) {
        if (pos) pos[i] = (int32_t)(s->length + i);
        if (seqs) seqs[i] = seq;
    }
    s->length += n;
    return ZT_OK;
}

int64_t zt_pages_cut(zt_pages *pages, int seq, int64_t n)
{
    sequence *s = find(pages, seq);
    if (!s) unknown(pages, seq);
    if (s && n < 0) zt_fail(pages->ctx, ZT_EUSAGE, "pages: cut to %lld positions", (long long)n);
    if (!s || n < 0) return -1;
    if (n < s->length) s->length = n;
    int64_t partly = s->length / pages->size;
    if (s->length % pages->size && pages->owners[row_of(pages, seq)[partly]] > 1) s->length = partly * pages->size;
    give_back(pages, seq, blocks_for(pages, s->length));
    return s->length;
}

int zt_pages_share(zt_pages *pages, int seq, int64_t n)
{
    const sequence *from = find(pages, seq);
    if (!from) unknown(pages, seq);
    if (from && n < 0) zt_fail(pages->ctx, ZT_EUSAGE, "pages: share %lld positions", (long long)n);
    if (!from || n < 0) return -1;
    int to = zt_pages_begin(pages);
    if (to < 0) return -1;
    sequence *s = &pages->seq[to];
    if (n > from->length) n = from->length;
    for (; s->blocks < n / pages->size; s->blocks++) {
        int32_t block = row_of(pages, seq)[s->blocks];
        pages->owners[block]++;
        row_of(pages, to)[s->blocks] = block;
    }
    s->length = s->blocks * pages->size;
    return to;
}

void zt_pages_end(zt_pages *pages, int seq)
{
    if (!pages || !find(pages, seq)) return;
    give_back(pages, seq, 0);
    pages->seq[seq] = (sequence){0};
}

int64_t zt_pages_length(const zt_pages *pages, int seq)
{
    const sequence *s = find(pages, seq);
    return s ? s->length : -1;
}

int64_t zt_pages_left(const zt_pages *pages) { return pages->n_free; }

const int32_t *zt_pages_table(const zt_pages *pages) { return pages->table; }

zt_pages_count zt_pages_counted(const zt_pages *pages)
{
    zt_pages_count c = {.blocks = pages->blocks, .size = pages->size, .peak = pages->peak};
    c.used = pages->blocks - pages->n_free;
    for (int64_t i = 0; i < pages->blocks; i++) c.shared += pages->owners[i] > 1;
    for (int64_t i = 0; i < pages->sequences; i++) {
        c.sequences += pages->seq[i].used;
        c.positions += pages->seq[i].length;
    }
    return c;
}
