/* systolic.c - owns systolic runs: a clock by which all places of the grid run at once, each on
 * what another held after the cycle before. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* What the grid's places hold, by zt_layer_index; rank 0: nothing yet. */
typedef struct mesh {
    nn_low *w;
    int64_t places;
    nn_value *now, *next;
} mesh;

/* What place i reads: of a link its target, else the place before it. */
static const nn_value *source_of(const mesh *m, const zt_nn_layer *l, int64_t i)
{
    int64_t from = i ? i - 1 : 0;
    for (int k = 0; l && l->link && !l->disabled && k < 4; k++)
        if (l->target[k] >= m->w->nn->extent[k])
            return zt_layer_bad(m->w->nn, l,
                                "its link's target %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                                " is beyond the grid",
                                l->target[0], l->target[1], l->target[2], l->target[3]),
                   NULL;
    if (l && l->link && !l->disabled) from = zt_layer_index(m->w->nn, l->target);
    return &m->now[from];
}

/* All places at once: nothing of this cycle is read. */
static bool cycle(mesh *m)
{
    const zt_nn *nn = m->w->nn;
    for (int64_t i = 0, k = 0; i < m->places; i++) {
        const zt_nn_layer *l = k < nn->n ? nn->layer[k] : NULL;
        if (l && zt_layer_index(nn, l->place) != i) l = NULL;
        k += l != NULL;
        const nn_value *x = source_of(m, l, i);
        if (!x) return false;
        m->next[i] = x->rank == 0 ? m->now[i] : l ? zt_layer_of_grid(m->w, l, *x) : *x;
        if (x->rank > 0 && m->next[i].id < 0) return false;
    }
    memcpy(m->now, m->next, (size_t)m->places * sizeof *m->now);
    return true;
}

/* The last place's value; none and a message where it has none. */
static nn_value run(mesh *m, nn_value x, int64_t cycles, int *each)
{
    for (int64_t i = 0; i < m->places; i++) m->now[i] = zt_layer_none();
    m->now[0] = x;
    for (int64_t c = 0; c < cycles; c++) {
        if (!cycle(m)) return zt_layer_none();
        for (int64_t i = 0; each && i < m->places; i++) each[c * m->places + i] = m->now[i].id;
    }
    const nn_value *last = &m->now[m->places - 1];
    if (last->rank == 0)
        zt_fail(m->w->nn->ctx, ZT_EUSAGE,
                "%s: nothing has come to its last place after %" PRId64 " cycles", m->w->nn->name,
                cycles);
    return *last;
}

nn_value zt_layer_clock(nn_low *w, nn_value x, int64_t cycles, int *each)
{
    const zt_nn *nn = w->nn;
    mesh m = {.w = w, .places = 1};
    for (int k = 0; k < 4; k++) m.places *= nn->extent[k]; /* reading has bounded it */
    if (cycles > NN_MAX_RUNS / m.places) {
        zt_fail(nn->ctx, ZT_EUSAGE,
                "%s: %" PRId64 " cycles of %" PRId64 " places: at most %d of both", nn->name,
                cycles, m.places, NN_MAX_RUNS);
        return zt_layer_none();
    }
    m.now = zt_calloc(nn->ctx, 2 * (size_t)m.places, sizeof *m.now);
    m.next = m.now ? m.now + m.places : NULL;
    nn_value y = m.now ? run(&m, x, cycles, each) : zt_layer_none();
    zt_free(nn->ctx, m.now);
    return y;
}
