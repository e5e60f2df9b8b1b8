/* arena.c - owns where values lie in an arena: lives (bytes, from a step to a step) get offsets.
 *
 * The largest first, each at the lowest offset that is free during its whole life: that is often
 * the lower bound (the most bytes alive at once) itself. Where it is not, what came to lie on top
 * goes first, and all are placed again, some times, until the arena is within a hundredth of the
 * bound. Then come sweeps, as values are born, or backwards as they die, each into the tightest gap
 * among those alive; programs of very many values get only these, whose cost grows with what is
 * alive.
 */
#include "lib/run/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 2048, CLIMBS = 32, EFFORT = 1 << 23 /* pairs of lives looked at */ };

typedef struct placer {
    zt_live_range *life;
    int n;
    int *order;     /* [n] of placing */
    int *near;      /* placed lives by offset: all of them, or those alive */
    size_t *offset; /* [n] of the attempt */
    size_t best, bound;
} placer;

/* ---- the lower bound ------------------------------------------------------------------------- */

/* change[s - first]: bytes born at step s less those that died at s - 1. */
static size_t most_alive(const zt_live_range *life, int n, int first, int last, int64_t *change)
{
    int64_t now = 0, most = 0;
    memset(change, 0, ((size_t)(last - first) + 2) * sizeof *change);
    for (int i = 0; i < n; i++) {
        change[life[i].born - first] += (int64_t)life[i].bytes;
        if (life[i].dies < last) change[life[i].dies + 1 - first] -= (int64_t)life[i].bytes;
    }
    for (int s = 0; s < last - first; s++) {
        now += change[s];
        if (now > most) most = now;
    }
    return (size_t)most;
}

/* ---- orders ---------------------------------------------------------------------------------- */

static int by_size(const void *left, const void *right)
{
    const zt_live_range *x = left, *y = right;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->root - y->root;
}

static int by_birth(const void *left, const void *right)
{
    const zt_live_range *x = left, *y = right;
    return x->born != y->born ? x->born - y->born : by_size(left, right);
}

static int by_death(const void *left, const void *right)
{
    const zt_live_range *x = left, *y = right;
    return x->dies != y->dies ? y->dies - x->dies : by_size(left, right);
}

/* ---- placing --------------------------------------------------------------------------------- */

static bool meet(const zt_live_range *a, const zt_live_range *b)
{
    return a->born <= b->dies && b->born <= a->dies;
}

/* The gap for l beside the n_near lives, which are sorted by offset: the lowest, or (tight) the
 * smallest that will do. */
static size_t find_gap(const placer *p, const zt_live_range *l, int n_near, bool tight)
{
    size_t end = 0, best = SIZE_MAX, at = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_live_range *other = &p->life[p->near[i]];
        size_t offset = p->offset[p->near[i]];
        if (!meet(l, other)) continue;
        if (offset >= end && offset - end >= l->bytes && offset - end < best) {
            best = offset - end;
            at = end;
            if (!tight) return at;
        }
        if (offset + other->bytes > end) end = offset + other->bytes;
    }
    return best < SIZE_MAX ? at : end;
}

/* Those that no later life can meet leave the list. */
static int drop_past(const placer *p, const zt_live_range *l, int n_near, bool backwards)
{
    int n = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_live_range *other = &p->life[p->near[i]];
        if (backwards ? other->born <= l->dies : other->dies >= l->born) p->near[n++] = p->near[i];
    }
    return n;
}

typedef struct way {
    int (*order)(const void *a, const void *b);
    bool backwards, tight;
} way;

/* Lives in p's order get offsets: the end of the last. sweep NULL: beside all others, at
 * the lowest offset. */
static size_t place(placer *p, const way *sweep)
{
    size_t end = 0;
    int n_near = 0;
    for (int k = 0; k < p->n; k++) {
        int i = p->order[k];
        const zt_live_range *l = &p->life[i];
        if (sweep) n_near = drop_past(p, l, n_near, sweep->backwards);
        p->offset[i] = find_gap(p, l, n_near, sweep && sweep->tight);
        int at = n_near++;
        for (; at > 0 && p->offset[p->near[at - 1]] > p->offset[i]; at--)
            p->near[at] = p->near[at - 1];
        p->near[at] = i;
        if (p->offset[i] + l->bytes > end) end = p->offset[i] + l->bytes;
    }
    return end;
}

static void sort_lives(placer *p, int (*order)(const void *a, const void *b))
{
    qsort(p->life, (size_t)p->n, sizeof *p->life, order);
    for (int i = 0; i < p->n; i++) p->order[i] = i;
}

/* Keeps the offsets if they are the best so far; are they good enough. */
static bool keep(placer *p, size_t end)
{
    if (end < p->best) {
        p->best = end;
        for (int i = 0; i < p->n; i++) p->life[i].offset = p->offset[i];
    }
    return p->best - p->bound <= p->bound / 100;
}

/* Those that end where the arena ends go first. */
static void raise_top(placer *p, size_t end)
{
    int n_top = 0, *scratch = p->near;
    for (int pass = 1; pass >= 0; pass--)
        for (int k = 0; k < p->n; k++) {
            int i = p->order[k];
            if ((p->offset[i] + p->life[i].bytes == end) == pass) scratch[n_top++] = i;
        }
    memcpy(p->order, scratch, (size_t)p->n * sizeof *scratch);
}

static void try_ways(placer *p)
{
    static const way sweeps[] = {
        {by_birth, false, true}, {by_death, true, true}, {by_birth, false, false},
        {by_death, true, false}};
    if (p->n <= MANY) {
        sort_lives(p, by_size);
        for (int i = 0; i < CLIMBS && i * p->n <= EFFORT / (p->n + 1); i++) {
            size_t end = place(p, NULL);
            if (keep(p, end)) return;
            raise_top(p, end);
        }
    }
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        sort_lives(p, sweeps[i].order);
        if (keep(p, place(p, &sweeps[i]))) return;
    }
}

zt_status zt_live_ranges_place(zt_arena *a, zt_live_range *life, int n, int first, int last, size_t *arena,
                         size_t *bound)
{
    size_t room = (size_t)n + 1;
    placer p = {.life = life, .n = n,
                .order = zt_arena_alloc(a, room * sizeof *p.order),
                .near = zt_arena_alloc(a, room * sizeof *p.near),
                .offset = zt_arena_alloc(a, room * sizeof *p.offset), .best = SIZE_MAX};
    int64_t *change = zt_arena_alloc(a, ((size_t)(last - first) + 2) * sizeof *change);
    if (!p.order || !p.near || !p.offset || !change) return ZT_ENOMEM;
    *bound = p.bound = most_alive(life, n, first, last, change);
    try_ways(&p);
    *arena = p.best;
    return ZT_OK;
}
