/* pages.c - the table of a cache in blocks: a stack of free blocks, and for each block how many
 * sequences own it. */
#include "lib/run/pages.h"

#include <string.h>

typedef struct page_sequence {
    int64_t length, blocks; /* positions; entries of its row of the table */
    bool used;
} page_sequence;

struct zt_pages {
    zt_ctx *ctx;
    int64_t blocks, size, sequences;
    int32_t *table;  /* [sequences][blocks] */
    int32_t *owners; /* of each block */
    int32_t *free;   /* n_free blocks, the next to be given at the end */
    int64_t n_free, peak;
    page_sequence *sequence;
};

zt_pages *zt_pages_open(zt_ctx *ctx, int64_t blocks, int64_t size, int64_t sequences)
{
    if (blocks < 1 || size < 1 || sequences < 1 || blocks > INT32_MAX / size || sequences > INT32_MAX) {
        zt_fail(ctx, ZT_EUSAGE, "pages: invalid size: %lld blocks of %lld positions for %lld sequences", (long long)blocks,
                (long long)size, (long long)sequences);
        return NULL;
    }
    zt_pages *pages = zt_calloc(ctx, 1, sizeof *pages);
    if (!pages) return NULL;
    *pages = (zt_pages){.ctx = ctx, .blocks = blocks, .size = size, .sequences = sequences};
    pages->owners = zt_calloc(ctx, (size_t)blocks, sizeof *pages->owners);
    pages->free = zt_alloc_array(ctx, (size_t)blocks, sizeof *pages->free);
    pages->sequence = zt_calloc(ctx, (size_t)sequences, sizeof *pages->sequence);
    if ((size_t)blocks <= SIZE_MAX / sizeof *pages->table)
        pages->table = zt_calloc(ctx, (size_t)sequences, (size_t)blocks * sizeof *pages->table);
    if (!pages->owners || !pages->free || !pages->sequence || !pages->table) {
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
    zt_free(pages->ctx, pages->sequence);
    zt_free(pages->ctx, pages);
}

static page_sequence *find_sequence(const zt_pages *pages, int seq)
{
    return seq >= 0 && seq < pages->sequences && pages->sequence[seq].used ? &pages->sequence[seq] : NULL;
}

static zt_status fail_unknown(const zt_pages *pages, int seq)
{
    return zt_fail(pages->ctx, ZT_EUSAGE, "pages: sequence %d of %lld is not in use", seq, (long long)pages->sequences);
}

static int32_t *row_of(const zt_pages *pages, int seq) { return pages->table + seq * pages->blocks; }

static int64_t blocks_for(const zt_pages *pages, int64_t count) { return count / pages->size + (count % pages->size > 0); }

static void give_back(zt_pages *pages, int seq, int64_t keep)
{
    page_sequence *sequence = &pages->sequence[seq];
    int32_t *row = row_of(pages, seq);
    while (sequence->blocks > keep) {
        int32_t block = row[--sequence->blocks];
        row[sequence->blocks] = 0;
        if (--pages->owners[block] == 0) pages->free[pages->n_free++] = block;
    }
}

int zt_pages_begin(zt_pages *pages)
{
    if (!pages) return -1;
    for (int64_t i = 0; i < pages->sequences; i++) {
        if (pages->sequence[i].used) continue;
        pages->sequence[i] = (page_sequence){.used = true};
        return (int)i;
    }
    zt_fail(pages->ctx, ZT_ENOMEM, "pages: all %lld sequences are in use", (long long)pages->sequences);
    return -1;
}

zt_status zt_pages_reserve(zt_pages *pages, int seq, int64_t count)
{
    if (!pages) return ZT_EUSAGE;
    page_sequence *sequence = find_sequence(pages, seq);
    if (!sequence) return fail_unknown(pages, seq);
    int64_t more = blocks_for(pages, count) - sequence->blocks;
    if (more <= 0) return ZT_OK;
    if (more > pages->n_free)
        return zt_fail(pages->ctx, ZT_ENOMEM,
                       "pages: out of blocks: sequence %d of %lld positions needs %lld more blocks for "
                       "%lld, but %lld of %lld are free",
                       seq, (long long)sequence->length, (long long)more, (long long)count, (long long)pages->n_free,
                       (long long)pages->blocks);
    for (int32_t *row = row_of(pages, seq); more > 0; more--) {
        int32_t block = pages->free[--pages->n_free];
        pages->owners[block] = 1;
        row[sequence->blocks++] = block;
    }
    int64_t used = pages->blocks - pages->n_free;
    if (used > pages->peak) pages->peak = used;
    return ZT_OK;
}

zt_status zt_pages_append(zt_pages *pages, int seq, int64_t count, int32_t *positions, int32_t *seqs)
{
    if (!pages) return ZT_EUSAGE;
    page_sequence *sequence = find_sequence(pages, seq);
    if (!sequence) return fail_unknown(pages, seq);
    if (count < 0 || count > INT32_MAX)
        return zt_fail(pages->ctx, ZT_EUSAGE, "pages: cannot append %lld positions", (long long)count);
    zt_status status = zt_pages_reserve(pages, seq, sequence->length + count);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        if (positions) positions[i] = (int32_t)(sequence->length + i);
        if (seqs) seqs[i] = seq;
    }
    sequence->length += count;
    return ZT_OK;
}

int64_t zt_pages_cut(zt_pages *pages, int seq, int64_t count)
{
    if (!pages) return 0;
    page_sequence *sequence = find_sequence(pages, seq);
    if (!sequence) fail_unknown(pages, seq);
    if (sequence && count < 0) zt_fail(pages->ctx, ZT_EUSAGE, "pages: cannot truncate to %lld positions", (long long)count);
    if (!sequence || count < 0) return -1;
    if (count < sequence->length) sequence->length = count;
    int64_t partly = sequence->length / pages->size;
    if (sequence->length % pages->size && pages->owners[row_of(pages, seq)[partly]] > 1) sequence->length = partly * pages->size;
    give_back(pages, seq, blocks_for(pages, sequence->length));
    return sequence->length;
}

int zt_pages_share(zt_pages *pages, int seq, int64_t count)
{
    if (!pages) return -1;
    const page_sequence *from = find_sequence(pages, seq);
    if (!from) fail_unknown(pages, seq);
    if (from && count < 0) zt_fail(pages->ctx, ZT_EUSAGE, "pages: cannot share %lld positions", (long long)count);
    if (!from || count < 0) return -1;
    int copy = zt_pages_begin(pages);
    if (copy < 0) return -1;
    page_sequence *sequence = &pages->sequence[copy];
    if (count > from->length) count = from->length;
    for (; sequence->blocks < count / pages->size; sequence->blocks++) {
        int32_t block = row_of(pages, seq)[sequence->blocks];
        pages->owners[block]++;
        row_of(pages, copy)[sequence->blocks] = block;
    }
    sequence->length = sequence->blocks * pages->size;
    return copy;
}

void zt_pages_end(zt_pages *pages, int seq)
{
    if (!pages || !find_sequence(pages, seq)) return;
    give_back(pages, seq, 0);
    pages->sequence[seq] = (page_sequence){0};
}

int64_t zt_pages_length(const zt_pages *pages, int seq)
{
    if (!pages) return 0;
    const page_sequence *sequence = find_sequence(pages, seq);
    return sequence ? sequence->length : -1;
}

int64_t zt_pages_left(const zt_pages *pages) { return pages ? pages->n_free : 0; }

const int32_t *zt_pages_table(const zt_pages *pages) { return pages ? pages->table : NULL; }

zt_pages_count zt_pages_counted(const zt_pages *pages)
{
    if (!pages) return (zt_pages_count){0};
    zt_pages_count counted = {.blocks = pages->blocks, .size = pages->size, .peak = pages->peak};
    counted.used = pages->blocks - pages->n_free;
    for (int64_t i = 0; i < pages->blocks; i++) counted.shared += pages->owners[i] > 1;
    for (int64_t i = 0; i < pages->sequences; i++) {
        counted.sequences += pages->sequence[i].used;
        counted.positions += pages->sequence[i].length;
    }
    return counted;
}
