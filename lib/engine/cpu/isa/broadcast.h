/* broadcast.h - private to isa/: work on operands whose shapes broadcast, cut into pieces. */
#ifndef ZT_CPU_BROADCAST_H
#define ZT_CPU_BROADCAST_H

#include "lib/engine/cpu/isa/elements.h"

/* The output as rows of `cols` elements, in which an operand's step from element to element is 1
 * or, where it is repeated, 0. Where its row begins follows from the dimensions before. */
enum { AUX_COLS, AUX_LEAD, AUX_STEP };

/* Is t repeated along dimension d of out? */
INLINE bool repeats(const zt_type *t, const zt_type *out, int d)
{
    int own = d - (out->rank - t->rank);
    return own < 0 || (t->dim[own] == 1 && out->dim[d] != 1);
}

/* Those that are repeated; of broadcast_to only the first is read. */
INLINE int operands(const zt_cpu_call *c)
{
    return c->kernel->op == ZT_OP_broadcast_to ? 1 : zt_op_info(c->kernel->op)->n_in;
}

INLINE void broadcast_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type;
    int64_t cols = 1, count = zt_type_count(y);
    int lead = y->rank, n = operands(c);
    bool same = true;
    for (int k = 0; k < n; k++)
        c->aux[AUX_STEP + k] = !(lead && repeats(&c->in[k].type, y, lead - 1));
    while (lead && same) {
        for (int k = 0; k < n; k++)
            same = same && repeats(&c->in[k].type, y, lead - 1) == !c->aux[AUX_STEP + k];
        if (same) cols *= y->dim[--lead];
    }
    c->aux[AUX_COLS] = cols;
    c->aux[AUX_LEAD] = lead;
    c->local_bytes = 4 * CHUNK * sizeof(float);
    c->items[0] = count ? count / cols * ((cols + CHUNK - 1) / CHUNK) : 0;
}

/* What an item is: n elements of the output from the `at`-th, and where each operand has them. */
typedef struct piece {
    int64_t at, n, in[3];
} piece;

INLINE int64_t row_begin(const zt_type *t, const zt_type *out, int lead, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        int o = d + out->rank - t->rank;
        if (o < lead && t->dim[d] != 1) {
            int64_t before = row;
            for (int k = lead - 1; k > o; k--) before /= out->dim[k];
            at += before % out->dim[o] * stride;
        }
        stride *= t->dim[d];
    }
    return at;
}

INLINE piece piece_at(const zt_cpu_call *c, int64_t item)
{
    const zt_type *y = &c->out[0].type;
    int64_t cols = c->aux[AUX_COLS], pieces = (cols + CHUNK - 1) / CHUNK;
    int64_t row = item / pieces, i = item % pieces * CHUNK;
    piece p = {.at = row * cols + i, .n = cols - i < CHUNK ? cols - i : CHUNK};
    for (int k = 0; k < operands(c); k++)
        p.in[k] =
            row_begin(&c->in[k].type, y, (int)c->aux[AUX_LEAD], row) + i * c->aux[AUX_STEP + k];
    return p;
}

/* Operand k of a piece as n floats; a repeated one fills the scratch. */
INLINE const float *spread(const zt_cpu_call *c, const piece *p, int k, float *scratch)
{
    if (c->aux[AUX_STEP + k]) return operand(&c->in[k], p->in[k], p->n, scratch);
    float x = *operand(&c->in[k], p->in[k], 1, scratch);
    for (int64_t i = 0; i < p->n; i++) scratch[i] = x;
    return scratch;
}

#endif
