/* shape.c - kernels of the ops that move elements without looking at them. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

/* ---- slice: PIECE bytes at most of one run of neighbours an item ----------------------------- */

enum { PIECE = 16 << 10 };

/* Bytes: of a run in y, from run to run in x, and before the first in x; and pieces of a run. */
enum { AUX_RUN, AUX_STEP, AUX_FIRST, AUX_PIECES };

static bool slice_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static void slice_setup(zt_cpu_call *c)
{
    const zt_slice_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type, *y = &c->out[0].type;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t inner = zt_dtype_get(x->dtype)->block_bytes, outer = 1;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    c->aux[AUX_RUN] = y->dim[axis] * inner;
    c->aux[AUX_STEP] = x->dim[axis] * inner;
    c->aux[AUX_FIRST] = (a->from < 0 ? a->from + x->dim[axis] : a->from) * inner;
    c->aux[AUX_PIECES] = (c->aux[AUX_RUN] + PIECE - 1) / PIECE;
    c->items[0] = outer * c->aux[AUX_PIECES];
}

static void slice_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const char *x = (const char *)c->in[0].data + c->aux[AUX_FIRST];
    char *y = c->out[0].data;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        int64_t run = i / c->aux[AUX_PIECES], at = i % c->aux[AUX_PIECES] * PIECE;
        int64_t n = c->aux[AUX_RUN] - at < PIECE ? c->aux[AUX_RUN] - at : PIECE;
        memcpy(y + run * c->aux[AUX_RUN] + at, x + run * c->aux[AUX_STEP] + at, (size_t)n);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_shape)[] = {
    {.op = ZT_OP_slice, .has = slice_has, .setup = slice_setup, .run = slice_run},
    {0},
};
