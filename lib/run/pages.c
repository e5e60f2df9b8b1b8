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
    zt_pages *p = zt_calloc(ctx, 1, sizeof *p);
    if (!p) return NULL;
    *p = (zt_pages){.ctx = ctx, .blocks = blocks, .size = size, .sequences = sequences};
    p->owners = zt_calloc(ctx, (size_t)blocks, sizeof *p->owners);
    p->free = zt_alloc_array(ctx, (size_t)blocks, sizeof *p->free);
    p->seq = zt_calloc(ctx, (size_t)sequences, sizeof *p->seq);
    if ((size_t)blocks <= SIZE_MAX / sizeof *p->table)
        p->table = zt_calloc(ctx, (size_t)sequences, (size_t)blocks * sizeof *p->table);
    if (!p->owners || !p->free || !p->seq || !p->table) {
        zt_pages_close(p);
        return NULL;
    }
    for (int64_t i = 0; i < blocks; i++) p->free[i] = (int32_t)(blocks - 1 - i);
    p->n_free = blocks;
    return p;
}

void zt_pages_close(zt_pages *p)
{
    if (!p) return;
    zt_free(p->ctx, p->table);
    zt_free(p->ctx, p->owners);
    zt_free(p->ctx, p->free);
    zt_free(p->ctx, p->seq);
    zt_free(p->ctx, p);
}

static sequence *find(const zt_pages *p, int seq)
{
    return seq >= 0 && seq < p->sequences && p->seq[seq].used ? &p->seq[seq] : NULL;
}

static zt_status unknown(const zt_pages *p, int seq)
{
    return zt_fail(p->ctx, ZT_EUSAGE, "pages: sequence %d of %lld is not in use", seq,
                   (long long)p->sequences);
}

static int32_t *row_of(const zt_pages *p, int seq) { return p->table + seq * p->blocks; }

static int64_t blocks_for(const zt_pages *p, int64_t n) { return n / p->size + (n % p->size > 0); }

static void give_back(zt_pages *p, int seq, int64_t keep)
{
    sequence *s = &p->seq[seq];
    int32_t *row = row_of(p, seq);
    while (s->blocks > keep) {
        int32_t block = row[--s->blocks];
        row[s->blocks] = 0;
        if (--p->owners[block] == 0) p->free[p->n_free++] = block;
    }
}

int zt_pages_begin(zt_pages *p)
{
    for (int64_t i = 0; i < p->sequences; i++) {
        if (p->seq[i].used) continue;
        p->seq[i] = (sequence){.used = true};
        return (int)i;
    }
    zt_fail(p->ctx, ZT_ENOMEM, "pages: all %lld sequences are in use", (long long)p->sequences);
    return -1;
}

zt_status zt_pages_reserve(zt_pages *p, int seq, int64_t n)
{
    sequence *s = find(p, seq);
    if (!s) return unknown(p, seq);
    int64_t more = blocks_for(p, n) - s->blocks;
    if (more <= 0) return ZT_OK;
    if (more > p->n_free)
        return zt_fail(p->ctx, ZT_ENOMEM,
                       "pages: sequence %d of %lld positions wants %lld blocks more for %lld, "
                       "%lld of %lld are free",
                       seq, (long long)s->length, (long long)more, (long long)n,
                       (long long)p->n_free, (long long)p->blocks);
    for (int32_t *row = row_of(p, seq); more > 0; more--) {
        int32_t block = p->free[--p->n_free];
        p->owners[block] = 1;
        row[s->blocks++] = block;
    }
    int64_t used = p->blocks - p->n_free;
    if (used > p->peak) p->peak = used;
    return ZT_OK;
}

zt_status zt_pages_append(zt_pages *p, int seq, int64_t n, int32_t *pos, int32_t *seqs)
{
    sequence *s = find(p, seq);
    if (!s) return unknown(p, seq);
    if (n < 0 || n > INT32_MAX)
        return zt_fail(p->ctx, ZT_EUSAGE, "pages: %lld positions more", (long long)n);
    zt_status st = zt_pages_reserve(p, seq, s->length + n);
    if (st) return st;
    for (int64_t i = 0; i < n; i++) {
        if (pos) pos[i] = (int32_t)(s->length + i);
        if (seqs) seqs[i] = seq;
    }
    s->length += n;
    return ZT_OK;
}

int64_t zt_pages_cut(zt_pages *p, int seq, int64_t n)
{
    sequence *s = find(p, seq);
    if (!s) unknown(p, seq);
    if (s && n < 0) zt_fail(p->ctx, ZT_EUSAGE, "pages: cut to %lld positions", (long long)n);
    if (!s || n < 0) return -1;
    if (n < s->length) s->length = n;
    int64_t partly = s->length / p->size;
    if (s->length % p->size && p->owners[row_of(p, seq)[partly]] > 1) s->length = partly * p->size;
    give_back(p, seq, blocks_for(p, s->length));
    return s->length;
}

int zt_pages_share(zt_pages *p, int seq, int64_t n)
{
    const sequence *from = find(p, seq);
    if (!from) unknown(p, seq);
    if (from && n < 0) zt_fail(p->ctx, ZT_EUSAGE, "pages: share %lld positions", (long long)n);
    if (!from || n < 0) return -1;
    int to = zt_pages_begin(p);
    if (to < 0) return -1;
    sequence *s = &p->seq[to];
    if (n > from->length) n = from->length;
    for (; s->blocks < n / p->size; s->blocks++) {
        int32_t block = row_of(p, seq)[s->blocks];
        p->owners[block]++;
        row_of(p, to)[s->blocks] = block;
    }
    s->length = s->blocks * p->size;
    return to;
}

void zt_pages_end(zt_pages *p, int seq)
{
    if (!p || !find(p, seq)) return;
    give_back(p, seq, 0);
    p->seq[seq] = (sequence){0};
}

int64_t zt_pages_length(const zt_pages *p, int seq)
{
    const sequence *s = find(p, seq);
    return s ? s->length : -1;
}

int64_t zt_pages_left(const zt_pages *p) { return p->n_free; }

const int32_t *zt_pages_table(const zt_pages *p) { return p->table; }

zt_pages_count zt_pages_counted(const zt_pages *p)
{
    zt_pages_count c = {.blocks = p->blocks, .size = p->size, .peak = p->peak};
    c.used = p->blocks - p->n_free;
    for (int64_t i = 0; i < p->blocks; i++) c.shared += p->owners[i] > 1;
    for (int64_t i = 0; i < p->sequences; i++) {
        c.sequences += p->seq[i].used;
        c.positions += p->seq[i].length;
    }
    return c;
}
