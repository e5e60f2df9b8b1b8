/* arena.c - owns where values lie in an arena: live ranges (bytes, from a step to a step) get offsets.
 *
 * The largest first, each at the lowest offset that is free during its whole life: that is often
 * the lower bound (the most bytes alive at once) itself. Where it is not, what came to lie on top
 * goes first, and all are placed again, some times, until the arena is within a hundredth of the
 * bound. Then come sweeps, as values are born, or backwards as they die, each into the tightest gap
 * among those alive; programs of very many values get only these, whose cost grows with what is
 * alive.
 */
#include "lib/run/partition.h"

#include <stdlib.h>
#include <string.h>

enum { SEARCH_LIMIT = 2048, MAX_ROUNDS = 32, MAX_COMPARISONS = 1 << 23 /* pairs of live ranges compared */ };

typedef struct range_placer {
    zt_live_range *ranges;
    int count;
    int *order;     /* [n] of placing */
    int *nearby;    /* placed ranges by offset: all of them, or those alive */
    size_t *offset; /* [n] of the attempt */
    size_t best, bound;
} range_placer;

/* ---- the lower bound ------------------------------------------------------------------------- */

/* change[s - first]: bytes born at step s less those that died at s - 1. */
static size_t most_alive(const zt_live_range *ranges, int range_count, int first, int last, int64_t *change)
{
    int64_t bytes_now = 0, most_bytes = 0;
    memset(change, 0, ((size_t)(last - first) + 2) * sizeof *change);
    for (int range_index = 0; range_index < range_count; range_index++) {
        change[ranges[range_index].born - first] += (int64_t)ranges[range_index].bytes;
        if (ranges[range_index].dies < last) change[ranges[range_index].dies + 1 - first] -= (int64_t)ranges[range_index].bytes;
    }
    for (int step_index = 0; step_index < last - first; step_index++) {
        bytes_now += change[step_index];
        if (bytes_now > most_bytes) most_bytes = bytes_now;
    }
    return (size_t)most_bytes;
}

/* ---- orders ---------------------------------------------------------------------------------- */

static int by_size(const void *left, const void *right)
{
    const zt_live_range *left_range = left, *right_range = right;
    if (left_range->bytes != right_range->bytes) return left_range->bytes < right_range->bytes ? 1 : -1;
    return left_range->root - right_range->root;
}

static int by_birth(const void *left, const void *right)
{
    const zt_live_range *left_range = left, *right_range = right;
    return left_range->born != right_range->born ? left_range->born - right_range->born : by_size(left, right);
}

static int by_death(const void *left, const void *right)
{
    const zt_live_range *left_range = left, *right_range = right;
    return left_range->dies != right_range->dies ? right_range->dies - left_range->dies : by_size(left, right);
}

/* ---- placing --------------------------------------------------------------------------------- */

static bool ranges_overlap(const zt_live_range *first, const zt_live_range *second)
{
    return first->born <= second->dies && second->born <= first->dies;
}

/* The gap for a live range beside the n_near ranges, which are sorted by offset: the lowest, or (tight) the
 * smallest that will do. */
static size_t find_gap(const range_placer *placer, const zt_live_range *range, int n_near, bool tight)
{
    size_t end = 0, best = SIZE_MAX, gap_offset = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_live_range *other = &placer->ranges[placer->nearby[i]];
        size_t offset = placer->offset[placer->nearby[i]];
        if (!ranges_overlap(range, other)) continue;
        if (offset >= end && offset - end >= range->bytes && offset - end < best) {
            best = offset - end;
            gap_offset = end;
            if (!tight) return gap_offset;
        }
        if (offset + other->bytes > end) end = offset + other->bytes;
    }
    return best < SIZE_MAX ? gap_offset : end;
}

/* Those that no later range can overlap leave the list. */
static int drop_past(const range_placer *placer, const zt_live_range *range, int n_near, bool backwards)
{
    int kept = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_live_range *other = &placer->ranges[placer->nearby[i]];
        if (backwards ? other->born <= range->dies : other->dies >= range->born) placer->nearby[kept++] = placer->nearby[i];
    }
    return kept;
}

typedef struct sweep_kind {
    int (*order)(const void *a, const void *b);
    bool backwards, tight;
} sweep_kind;

/* Ranges in placer's order get offsets: the end of the last. sweep NULL: beside all others, at
 * the lowest offset. */
static size_t place_ranges(range_placer *placer, const sweep_kind *sweep)
{
    size_t end = 0;
    int n_near = 0;
    for (int k = 0; k < placer->count; k++) {
        int i = placer->order[k];
        const zt_live_range *range = &placer->ranges[i];
        if (sweep) n_near = drop_past(placer, range, n_near, sweep->backwards);
        placer->offset[i] = find_gap(placer, range, n_near, sweep && sweep->tight);
        int position = n_near++;
        for (; position > 0 && placer->offset[placer->nearby[position - 1]] > placer->offset[i]; position--)
            placer->nearby[position] = placer->nearby[position - 1];
        placer->nearby[position] = i;
        if (placer->offset[i] + range->bytes > end) end = placer->offset[i] + range->bytes;
    }
    return end;
}

static void sort_ranges(range_placer *placer, int (*order)(const void *a, const void *b))
{
    qsort(placer->ranges, (size_t)placer->count, sizeof *placer->ranges, order);
    for (int i = 0; i < placer->count; i++) placer->order[i] = i;
}

/* Keeps the offsets if they are the best so far; are they good enough. */
static bool keep_if_best(range_placer *placer, size_t end)
{
    if (end < placer->best) {
        placer->best = end;
        for (int i = 0; i < placer->count; i++) placer->ranges[i].offset = placer->offset[i];
    }
    return placer->best - placer->bound <= placer->bound / 100;
}

/* Those that end where the arena ends go first. */
static void raise_top(range_placer *placer, size_t end)
{
    int n_top = 0, *scratch = placer->nearby;
    for (int pass = 1; pass >= 0; pass--)
        for (int k = 0; k < placer->count; k++) {
            int i = placer->order[k];
            if ((placer->offset[i] + placer->ranges[i].bytes == end) == pass) scratch[n_top++] = i;
        }
    memcpy(placer->order, scratch, (size_t)placer->count * sizeof *scratch);
}

static void try_sweeps(range_placer *placer)
{
    static const sweep_kind sweeps[] = {
        {by_birth, false, true}, {by_death, true, true}, {by_birth, false, false}, {by_death, true, false}};
    if (placer->count <= SEARCH_LIMIT) {
        sort_ranges(placer, by_size);
        for (int i = 0; i < MAX_ROUNDS && i * placer->count <= MAX_COMPARISONS / (placer->count + 1); i++) {
            size_t end = place_ranges(placer, NULL);
            if (keep_if_best(placer, end)) return;
            raise_top(placer, end);
        }
    }
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        sort_ranges(placer, sweeps[i].order);
        if (keep_if_best(placer, place_ranges(placer, &sweeps[i]))) return;
    }
}

zt_status zt_live_ranges_place(zt_arena *memory, zt_live_range *ranges, int range_count, int first, int last, size_t *arena_bytes,
                               size_t *liveness_bytes)
{
    size_t room = (size_t)range_count + 1;
    range_placer placer = {.ranges = ranges,
                           .count = range_count,
                           .order = zt_arena_alloc(memory, room * sizeof *placer.order),
                           .nearby = zt_arena_alloc(memory, room * sizeof *placer.nearby),
                           .offset = zt_arena_alloc(memory, room * sizeof *placer.offset),
                           .best = SIZE_MAX};
    int64_t *change = zt_arena_alloc(memory, ((size_t)(last - first) + 2) * sizeof *change);
    if (!placer.order || !placer.nearby || !placer.offset || !change) return ZT_ENOMEM;
    *liveness_bytes = placer.bound = most_alive(ranges, range_count, first, last, change);
    try_sweeps(&placer);
    *arena_bytes = placer.best;
    return ZT_OK;
}
