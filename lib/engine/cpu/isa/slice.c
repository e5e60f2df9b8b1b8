/* slice.c - kernels of the ops that take a part of an axis, or put one into zeros. Elements are bytes. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"

/* ---- slice: PIECE bytes at most of one run of neighbours an item ----------------------------- */

enum { PIECE = 16 << 10 };

/* Bytes: of a run in y, from run to run in x, and before the first in x; and pieces of a run. */
enum { AUX_RUN, AUX_STEP, AUX_FIRST, AUX_PIECES };

static void slice_setup(zt_cpu_call *call)
{
    const zt_slice_attrs *slice = call->attrs;
    const zt_type *x = &call->in[0].type, *y = &call->out[0].type;
    int axis = (int)(slice->axis < 0 ? slice->axis + x->rank : slice->axis);
    int64_t inner = zt_dtype_get(x->dtype)->block_bytes, outer = 1;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    call->aux[AUX_RUN] = y->dim[axis] * inner;
    call->aux[AUX_STEP] = x->dim[axis] * inner;
    call->aux[AUX_FIRST] = (slice->from < 0 ? slice->from + x->dim[axis] : slice->from) * inner;
    call->aux[AUX_PIECES] = (call->aux[AUX_RUN] + PIECE - 1) / PIECE;
    call->items[0] = outer * call->aux[AUX_PIECES];
}

static void slice_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const char *x = (const char *)call->in[0].data + call->aux[AUX_FIRST];
    char *y = call->out[0].data;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        int64_t run = i / call->aux[AUX_PIECES], at = i % call->aux[AUX_PIECES] * PIECE;
        int64_t n = call->aux[AUX_RUN] - at < PIECE ? call->aux[AUX_RUN] - at : PIECE;
        memcpy(y + run * call->aux[AUX_RUN] + at, x + run * call->aux[AUX_STEP] + at, (size_t)n);
    }
}

/* ---- slice_put: all of the axis for one index before it an item ------------------------------ */

static void slice_put_setup(zt_cpu_call *call)
{
    const zt_slice_put_attrs *slice_put = call->attrs;
    const zt_type *x = &call->in[0].type, *y = &call->out[0].type;
    int at = plain_axis(slice_put->axis, y);
    int64_t inner = inner_of(y, at);
    call->items[0] = outer_of(y, at);
    call->aux[0] = y->dim[at] * inner;
    call->aux[1] = (slice_put->from < 0 ? slice_put->from + y->dim[at] : slice_put->from) * inner;
    call->aux[2] = x->dim[at] * inner;
}

static void slice_put_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t whole = call->aux[0], first = call->aux[1], run = call->aux[2];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && whole > 0; i++) {
        char *y = (char *)call->out[0].data + i * whole;
        memset(y, 0, (size_t)first);
        if (run > 0) memcpy(y + first, (const char *)call->in[0].data + i * run, (size_t)run);
        memset(y + first + run, 0, (size_t)(whole - first - run));
    }
}

/* ---- slice_step, slice_step_put: all of the axis for one index before it an item ------------- */

typedef struct stepped {
    int64_t inner, size, line, from, step, count; /* bytes; bytes; bytes of the whole axis; ... */
} stepped;

static stepped stepped_of(const zt_slice_step_attrs *slice_step, const zt_type *whole, const zt_type *part)
{
    int at = plain_axis(slice_step->axis, whole);
    stepped s = {.size = size_of(part), .count = part->dim[at]};
    s.inner = s.size * count_of(whole, at + 1, whole->rank);
    s.line = s.inner * whole->dim[at];
    s.from = (slice_step->from < 0 ? slice_step->from + whole->dim[at] : slice_step->from) * s.inner;
    s.step = s.count > 1 ? slice_step->step * s.inner : 0; /* alone it may be any number */
    return s;
}

INLINE void copy_steps(const stepped *s, char *to, int64_t to_step, const char *from, int64_t from_step)
{
    for (int64_t k = 0; k < s->count; k++, to += to_step, from += from_step) {
        if (s->inner == s->size)
            put_one(to, from, s->size);
        else
            memcpy(to, from, (size_t)s->inner);
    }
}

static void slice_step_setup(zt_cpu_call *call)
{
    int at = plain_axis(((const zt_slice_step_attrs *)call->attrs)->axis, &call->out[0].type);
    bool empty = zt_type_count(&call->out[0].type) == 0;
    call->items[0] = empty ? 0 : count_of(&call->out[0].type, 0, at);
}

static void slice_step_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    stepped s = stepped_of(call->attrs, &call->in[0].type, &call->out[0].type);
    (void)phase, (void)local;
    for (int64_t o = begin; o < end; o++)
        copy_steps(&s, (char *)call->out[0].data + o * s.count * s.inner, s.inner,
                   (const char *)call->in[0].data + o * s.line + s.from, s.step);
}

static void slice_step_put_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    stepped s = stepped_of(call->attrs, &call->out[0].type, &call->in[0].type);
    (void)phase, (void)local;
    for (int64_t o = begin; o < end; o++) {
        char *to = (char *)call->out[0].data + o * s.line;
        memset(to, 0, (size_t)s.line);
        if (s.count) copy_steps(&s, to + s.from, s.step, (const char *)call->in[0].data + o * s.count * s.inner, s.inner);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_slice)[] = {
    {.op = ZT_OP_slice, .has = any_has, .setup = slice_setup, .run = slice_run},
    {.op = ZT_OP_slice_put, .has = any_has, .setup = slice_put_setup, .run = slice_put_run},
    {.op = ZT_OP_slice_step, .has = any_has, .setup = slice_step_setup, .run = slice_step_run},
    {.op = ZT_OP_slice_step_put, .has = any_has, .setup = slice_step_setup, .run = slice_step_put_run},
    {0},
};
