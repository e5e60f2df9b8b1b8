/* arena.c - owns where values lie in an arena: lives (bytes, from a step to a step) get offsets.
 *
 * No order of placing is the best for every program, so several are tried, until one comes within a
 * hundredth of the lower bound (the most bytes alive at once): the largest first, each at the lowest
 * offset that is free during its whole life; and as they are born, or backwards as they die, each
 * into the tightest gap among those alive. Programs of very many values get only the last two, whose
 * cost grows with what is alive at once.
 */
#include "lib/run/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 4096 };

typedef struct placer {
    zt_life *life;
    int n;
    int *near;      /* placed lives by offset: all of them, or those alive */
    size_t *offset; /* [n] of the attempt */
} placer;

/* ---- the lower bound ------------------------------------------------------------------------- */

/* change[s - first]: bytes born at step s less those that died at s - 1. */
static size_t most_alive(const zt_life *life, int n, int first, int last, int64_t *change)
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

static int by_size(const void *a, const void *b)
{
    const zt_life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->root - y->root;
}

static int by_birth(const void *a, const void *b)
{
    const zt_life *x = a, *y = b;
    return x->born != y->born ? x->born - y->born : by_size(a, b);
}

static int by_death(const void *a, const void *b)
{
    const zt_life *x = a, *y = b;
    return x->dies != y->dies ? y->dies - x->dies : by_size(a, b);
}

/* ---- placing --------------------------------------------------------------------------------- */

static bool meet(const zt_life *a, const zt_life *b)
{
    return a->born <= b->dies && b->born <= a->dies;
}

/* The gap for l beside the n_near lives, which are sorted by offset: the lowest, or (tight) the
 * smallest that will do. */
static size_t find_gap(const placer *p, const zt_life *l, int n_near, bool tight)
{
    size_t end = 0, best = SIZE_MAX, at = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_life *other = &p->life[p->near[i]];
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
static int drop_past(const placer *p, const zt_life *l, int n_near, bool backwards)
{
    int n = 0;
    for (int i = 0; i < n_near; i++) {
        const zt_life *other = &p->life[p->near[i]];
        if (backwards ? other->born <= l->dies : other->dies >= l->born) p->near[n++] = p->near[i];
    }
    return n;
}

typedef struct way {
    int (*order)(const void *a, const void *b);
    bool sweep, backwards, tight;
} way;

/* The lives, sorted as the way says, get offsets: the end of the last. */
static size_t place(placer *p, const way *w)
{
    size_t end = 0;
    int n_near = 0;
    qsort(p->life, (size_t)p->n, sizeof *p->life, w->order);
    for (int i = 0; i < p->n; i++) {
        const zt_life *l = &p->life[i];
        if (w->sweep) n_near = drop_past(p, l, n_near, w->backwards);
        p->offset[i] = find_gap(p, l, n_near, w->tight);
        int at = n_near++;
        for (; at > 0 && p->offset[p->near[at - 1]] > p->offset[i]; at--)
            p->near[at] = p->near[at - 1];
        p->near[at] = i;
        if (p->offset[i] + l->bytes > end) end = p->offset[i] + l->bytes;
    }
    return end;
}

zt_status zt_lives_place(zt_arena *a, zt_life *life, int n, int first, int last, size_t *arena,
                         size_t *bound)
{
    static const way ways[] = {{by_size, false, false, false},
                               {by_birth, true, false, true},
                               {by_death, true, true, true},
                               {by_size, false, false, true},
                               {by_birth, true, false, false},
                               {by_death, true, true, false}};
    placer p = {.life = life, .n = n,
                .near = zt_arena_alloc(a, ((size_t)n + 1) * sizeof *p.near),
                .offset = zt_arena_alloc(a, ((size_t)n + 1) * sizeof *p.offset)};
    int64_t *change = zt_arena_alloc(a, ((size_t)(last - first) + 2) * sizeof *change);
    if (!p.near || !p.offset || !change) return ZT_ENOMEM;
    *bound = most_alive(life, n, first, last, change);
    *arena = SIZE_MAX;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (n > MANY && !ways[i].sweep) continue;
        size_t end = place(&p, &ways[i]);
        if (end < *arena) {
            *arena = end;
            for (int k = 0; k < n; k++) life[k].offset = p.offset[k];
        }
        if (*arena - *bound <= *bound / 100) break;
    }
    return ZT_OK;
}
