/* merge_rank.c - owns ranks by magnitude: which values of a list have the ranks that are kept, and which value has a rank.
 *
 * Ranks are found without sorting: the bits of magnitudes are counted from the highest down, in passes of 11, 11 and 9
 * bits. Exact; memory is that of the counts.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>

/* ---- ranks by magnitude ----------------------------------------------------------------------- */

enum { BINS = 2048, LEVELS = 3 };
static const int level_shifts[LEVELS] = {20, 9, 0};
static const uint32_t level_masks[LEVELS] = {2047, 2047, 511};

/* The search for the value at one rank. */
typedef struct rank_edge {
    int list;
    bool last;           /* the last rank kept, not the first */
    int64_t rank, below; /* below: number of values less than any with `prefix` */
    uint32_t prefix;     /* the highest bits found so far, in place */
    int64_t equal;
} rank_edge;

typedef struct rank_search {
    merge_list_fn *list_values;
    void *arg;
    rank_edge edges[2 * MERGE_SOURCES];
    int list_count, edge_count, level;
    uint64_t *counts; /* [threads][edges][BINS] */
} rank_search;

static inline uint32_t magnitude_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits & 0x7fffffff;
}

static void do_count(merge_work *work, const merge_piece *piece, void *arg)
{
    const rank_search *search = arg;
    const float *lists[MERGE_SOURCES];
    int shift = level_shifts[search->level], above = search->level ? level_shifts[search->level - 1] : 31;
    uint32_t mask = level_masks[search->level];
    search->list_values(work, piece, lists, search->arg);
    for (int edge_index = 0; edge_index < search->edge_count; edge_index++) {
        uint64_t *count = search->counts + ((size_t)piece->thread * (size_t)search->edge_count + (size_t)edge_index) * BINS;
        const float *values = lists[search->edges[edge_index].list];
        uint32_t prefix = search->edges[edge_index].prefix >> above;
        for (int64_t i = 0; i < piece->count; i++) {
            uint32_t bits = magnitude_bits(values[i]);
            if (bits >> above == prefix) count[bits >> shift & mask]++;
        }
    }
}

/* Narrows the search to the bin that holds the rank. */
static void narrow_edge(const rank_search *search, int edge_index, int threads)
{
    rank_edge *edge = (rank_edge *)&search->edges[edge_index];
    for (uint32_t bin = 0; bin <= level_masks[search->level]; bin++) {
        int64_t bin_count = 0;
        for (int thread = 0; thread < threads; thread++)
            bin_count += (int64_t)search->counts[((size_t)thread * (size_t)search->edge_count + (size_t)edge_index) * BINS + bin];
        if (edge->below + bin_count > edge->rank || bin == level_masks[search->level]) {
            edge->prefix |= bin << level_shifts[search->level];
            edge->equal = bin_count;
            return;
        }
        edge->below += bin_count;
    }
}

static zt_status search_all(merge_work *work, rank_search *search)
{
    int threads = zt_pool_size(work->merge->pool);
    size_t cells = (size_t)threads * (size_t)search->edge_count * BINS;
    search->counts = zt_alloc_array(work->merge->ctx, cells + 1, sizeof *search->counts);
    zt_status status = search->counts ? ZT_OK : ZT_ENOMEM;
    for (search->level = 0; search->level < LEVELS && status == ZT_OK; search->level++) {
        memset(search->counts, 0, cells * sizeof *search->counts);
        status = zt_merge_pass(work, do_count, search);
        for (int edge_index = 0; edge_index < search->edge_count && status == ZT_OK; edge_index++)
            narrow_edge(search, edge_index, threads);
    }
    zt_free(work->merge->ctx, search->counts);
    return status;
}

/* ---- values equal to a limit ----------------------------------------------------------------- */

typedef struct equal_count {
    merge_range *ranges;
    int count;
    merge_list_fn *list_values;
    void *arg;
} equal_count;

static void do_equals(merge_work *work, const merge_piece *piece, void *arg)
{
    const equal_count *equals = arg;
    const float *lists[MERGE_SOURCES];
    equals->list_values(work, piece, lists, equals->arg);
    for (int k = 0; k < equals->count; k++) {
        const merge_range *range = &equals->ranges[k];
        if (!range->equal) continue;
        int64_t *equal_counts = range->equal + 2 * piece->index;
        equal_counts[0] = equal_counts[1] = 0;
        for (int64_t i = 0; i < piece->count; i++) {
            equal_counts[0] += fabsf(lists[k][i]) == range->low;
            equal_counts[1] += fabsf(lists[k][i]) == range->high;
        }
    }
}

static zt_status count_equals(merge_work *work, merge_range *ranges, int count, merge_list_fn *list_values, void *arg)
{
    equal_count equals = {ranges, count, list_values, arg};
    bool any = false;
    for (int k = 0; k < count; k++) {
        if (!ranges[k].some_low && !ranges[k].some_high) continue;
        ranges[k].equal = zt_alloc_array(work->merge->ctx, (size_t)work->piece_count * 2 + 1, sizeof *ranges[k].equal);
        if (!ranges[k].equal) return ZT_ENOMEM;
        any = true;
    }
    zt_status status = any ? zt_merge_pass(work, do_equals, &equals) : ZT_OK;
    for (int k = 0; k < count && status == ZT_OK; k++)
        for (int side = 0; side < 2 && ranges[k].equal; side++)
            for (int64_t i = 0, sum = 0, here; i < work->piece_count; i++, sum += here) {
                here = ranges[k].equal[2 * i + side];
                ranges[k].equal[2 * i + side] = sum;
            }
    return status;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void set_edge(const rank_edge *edge, merge_range *range)
{
    if (edge->last) {
        range->high = bits_to_float(edge->prefix);
        range->take_high = range->end_rank - edge->below;
        range->some_high = range->take_high < edge->equal && range->high > 0;
    } else {
        range->low = bits_to_float(edge->prefix);
        range->skip_low = range->first_rank - edge->below;
        range->some_low = range->skip_low > 0 && range->low > 0;
    }
}

zt_status zt_merge_rank_limits(merge_work *work, merge_range *ranges, int count, merge_list_fn *list_values, void *arg)
{
    rank_search search = {.list_values = list_values, .arg = arg, .list_count = count};
    for (int k = 0; k < count; k++) {
        if (ranges[k].first_rank > 0) search.edges[search.edge_count++] = (rank_edge){.list = k, .rank = ranges[k].first_rank};
        if (ranges[k].end_rank < work->element_count)
            search.edges[search.edge_count++] = (rank_edge){.list = k, .last = true, .rank = ranges[k].end_rank - 1};
        ranges[k].low = 0;
        ranges[k].high = INFINITY;
    }
    zt_status status = search.edge_count ? search_all(work, &search) : ZT_OK;
    for (int edge_index = 0; edge_index < search.edge_count && status == ZT_OK; edge_index++)
        set_edge(&search.edges[edge_index], &ranges[search.edges[edge_index].list]);
    return status == ZT_OK ? count_equals(work, ranges, count, list_values, arg) : status;
}

void zt_merge_free_ranges(merge_work *work, merge_range *ranges, int count)
{
    for (int k = 0; k < count; k++) zt_free(work->merge->ctx, ranges[k].equal);
}

void zt_merge_keep_range(const merge_range *range, const merge_piece *piece, const float *ranked, float *values)
{
    int64_t low_seen = range->equal ? range->equal[2 * piece->index] : 0,
            high_seen = range->equal ? range->equal[2 * piece->index + 1] : 0;
    for (int64_t i = 0; range->equal && i < piece->count; i++) {
        float magnitude = fabsf(ranked[i]);
        if (magnitude == range->low && range->some_low && low_seen++ < range->skip_low) values[i] = 0;
        if (magnitude == range->high && range->some_high && high_seen++ >= range->take_high) values[i] = 0;
    }
}

/* ---- values at ranks --------------------------------------------------------------------------- */

zt_status zt_merge_rank_values(merge_work *work, const int64_t *ranks, int count, merge_list_fn *list_values, void *arg,
                               float *values)
{
    rank_search search = {.list_values = list_values, .arg = arg, .list_count = 1, .edge_count = count};
    for (int i = 0; i < count; i++) search.edges[i] = (rank_edge){.rank = ranks[i]};
    zt_status status = search_all(work, &search);
    for (int i = 0; i < count; i++) values[i] = bits_to_float(search.edges[i].prefix);
    return status;
}
