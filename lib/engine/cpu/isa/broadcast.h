/* broadcast.h - private to isa/: work on operands whose shapes broadcast, cut into pieces. */
#ifndef ZT_CPU_BROADCAST_H
#define ZT_CPU_BROADCAST_H

#include "lib/engine/cpu/isa/elements.h"

/* The output as rows of `cols` elements, in which an operand's step from element to element is 1
 * or, where it is repeated, 0. Where its row begins follows from the dimensions before. */
enum { AUX_COLS, AUX_LEAD, AUX_STEP };

/* Is t repeated along dimension d of out? */
INLINE bool repeats(const zt_type *type, const zt_type *out, int d)
{
    int own = d - (out->rank - type->rank);
    return own < 0 || (type->dim[own] == 1 && out->dim[d] != 1);
}

/* Those that are repeated; of broadcast_to only the first is read. */
INLINE int operands(const zt_cpu_call *call)
{
    return call->kernel->op == ZT_OP_broadcast_to ? 1 : zt_op_info(call->kernel->op)->n_in;
}

INLINE void broadcast_setup(zt_cpu_call *call)
{
    const zt_type *y = &call->out[0].type;
    int64_t cols = 1, count = zt_type_count(y);
    int lead = y->rank, n = operands(call);
    bool same = true;
    for (int k = 0; k < n; k++) call->aux[AUX_STEP + k] = !(lead && repeats(&call->in[k].type, y, lead - 1));
    while (lead && same) {
        for (int k = 0; k < n; k++) same = same && repeats(&call->in[k].type, y, lead - 1) == !call->aux[AUX_STEP + k];
        if (same) cols *= y->dim[--lead];
    }
    call->aux[AUX_COLS] = cols;
    call->aux[AUX_LEAD] = lead;
    call->local_bytes = 4 * CHUNK * sizeof(float);
    call->items[0] = count ? count / cols * ((cols + CHUNK - 1) / CHUNK) : 0;
}

/* What an item is: n elements of the output from the `at`-th, and where each operand has them. */
typedef struct piece {
    int64_t at, n, in[3];
} piece;

INLINE int64_t row_begin(const zt_type *type, const zt_type *out, int lead, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        int o = d + out->rank - type->rank;
        if (o < lead && type->dim[d] != 1) {
            int64_t before = row;
            for (int k = lead - 1; k > o; k--) before /= out->dim[k];
            at += before % out->dim[o] * stride;
        }
        stride *= type->dim[d];
    }
    return at;
}

INLINE piece piece_at(const zt_cpu_call *call, int64_t item)
{
    const zt_type *y = &call->out[0].type;
    int64_t cols = call->aux[AUX_COLS], pieces = (cols + CHUNK - 1) / CHUNK;
    int64_t row = item / pieces, i = item % pieces * CHUNK;
    piece part = {.at = row * cols + i, .n = cols - i < CHUNK ? cols - i : CHUNK};
    for (int k = 0; k < operands(call); k++)
        part.in[k] = row_begin(&call->in[k].type, y, (int)call->aux[AUX_LEAD], row) + i * call->aux[AUX_STEP + k];
    return part;
}

/* Operand k of a piece as n floats; a repeated one fills the scratch. */
INLINE const float *spread(const zt_cpu_call *call, const piece *part, int k, float *scratch)
{
    if (call->aux[AUX_STEP + k]) return operand(&call->in[k], part->in[k], part->n, scratch);
    float x = *operand(&call->in[k], part->in[k], 1, scratch);
    for (int64_t i = 0; i < part->n; i++) scratch[i] = x;
    return scratch;
}

#endif
