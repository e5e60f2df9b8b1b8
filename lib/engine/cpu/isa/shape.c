/* shape.c - kernels of the ops that put elements in other places: transpose, concat, uncat, repeat. Elements are
 * bytes to them.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"
#include "lib/engine/cpu/isa/stream.h"

/* ---- transpose ------------------------------------------------------------------------------- */

/* y's dimensions without those of 1, neighbours that are so in x too taken together, with strides
 * in elements. `thin` is the one that is innermost in x. */
typedef struct transposed_axes {
    int n, thin;
    int nearest; /* of those before the last the one that is innermost in x; -1: there is none */
    int64_t dim[ZT_MAX_RANK], from[ZT_MAX_RANK], to[ZT_MAX_RANK];
} transposed_axes;

static transposed_axes transposed_axes_of(const zt_ints *axes, const zt_type *x, const zt_type *y)
{
    transposed_axes t = {0};
    int64_t stride[ZT_MAX_RANK], step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int d = 0; d < y->rank; d++) {
        int64_t from = stride[axes->n ? plain_axis(axes->v[d], x) : x->rank - 1 - d];
        if (y->dim[d] == 1) continue;
        bool joins = t.n > 0 && t.from[t.n - 1] == from * y->dim[d];
        if (!joins) t.dim[t.n++] = 1;
        t.dim[t.n - 1] *= y->dim[d];
        t.from[t.n - 1] = from;
    }
    step = 1;
    for (int d = t.n - 1; d >= 0; d--) {
        t.to[d] = step;
        step *= t.dim[d];
        if (t.from[d] == 1) t.thin = d;
    }
    t.nearest = t.n - 2;
    for (int d = t.n - 3; d >= 0; d--)
        if (t.from[d] < t.from[t.nearest]) t.nearest = d;
    return t;
}

enum { SIDE = 256, SPAN = 256, RUNS = 256 };

/* Of y's dimensions the innermost, and the one that is innermost in x, are cut: into SPAN columns
 * and SIDE rows. Where they are the same, neighbours stay neighbours: runs, of which RUNS that are
 * near in x are an item, so that reading goes straight on. The others are counted through. */
static int64_t pieces_of(const transposed_axes *t, int d, int64_t *most)
{
    int last = t->n - 1;
    int64_t size = t->thin != last ? (d == last      ? SPAN
                                      : d == t->thin ? SIDE
                                                     : 1)
                                   : (d == last         ? t->dim[d]
                                      : d == t->nearest ? RUNS
                                                        : 1);
    *most = size;
    return (t->dim[d] + size - 1) / size;
}

static void transpose_setup(zt_cpu_call *call)
{
    transposed_axes t =
        transposed_axes_of(&((const zt_transpose_attrs *)call->attrs)->axes, &call->in[0].type, &call->out[0].type);
    bool empty = zt_type_count(&call->out[0].type) == 0;
    call->items[0] = !empty;
    int64_t most;
    for (int d = 0; d < t.n && !empty; d++) call->items[0] *= pieces_of(&t, d, &most);
    call->aux[0] = beyond_caches(&call->out[0].type);
}

/* x[c * down + r] becomes y[r * across + c], elements of `size` bytes. */
typedef struct transposition {
    const char *x;
    char *y;
    int64_t down, across;
    bool past; /* full lines of y may go past the caches */
} transposition;

/* Rows r.. and columns c.., 16 by 16, of 4 or 2 bytes: words in registers. */
INLINE void transpose_square(int size, const transposition *t, int64_t r, int64_t c)
{
    vf v[LANES];
    const char *x = t->x + (c * t->down + r) * size;
    char *y = t->y + (r * t->across + c) * size;
    for (int l = 0; l < LANES; l++, x += t->down * size)
        v[l] = size == 4 ? vf_load((const float *)(const void *)x) : vf_of_bits(vi_of_u16(x));
    vf_transpose(v);
    for (int l = 0; l < LANES; l++, y += t->across * size) {
        if (size == 2)
            vi_to_u16(y, vi_of_bits(v[l]));
        else if (t->past)
            vf_stream((float *)(void *)y, v[l]);
        else
            vf_store((float *)(void *)y, v[l]);
    }
}

INLINE void transpose_each(int size, const transposition *t, int64_t r, int64_t rows, int64_t c, int64_t columns)
{
    for (int64_t i = r; i < rows; i++)
        for (int64_t k = c; k < columns; k++)
            memcpy(t->y + (i * t->across + k) * size, t->x + (k * t->down + i) * size, (size_t)size);
}

/* Lines of x that a later square wants: far apart, so that the processor foresees none. Into the
 * second cache: in the first they would meet in one set. */
INLINE void prefetch_square(int size, const transposition *t, int64_t r, int64_t c)
{
    for (int l = 0; l < LANES; l++) __builtin_prefetch(t->x + ((c + l) * t->down + r) * size, 0, 2);
}

/* By squares that lie above each other in y: a line of x is used up by one square, and the next
 * squares want the lines beside it. */
INLINE void transpose_block(int size, const transposition *t, int64_t rows, int64_t columns)
{
    bool words = size == 4 || size == 2;
    for (int64_t c = 0; c < columns; c += LANES)
        for (int64_t r = 0; r < rows; r += LANES) {
            bool whole = rows - r >= LANES && columns - c >= LANES;
            if (words && columns - c >= 2 * LANES) prefetch_square(size, t, r, c + LANES);
            if (words && whole)
                transpose_square(size, t, r, c);
            else
                transpose_each(size, t, r, rows - r < LANES ? rows : r + LANES, c, columns - c < LANES ? columns : c + LANES);
        }
}

static void transpose_any(int size, const transposition *t, int64_t rows, int64_t columns)
{
    if (size == 4)
        transpose_block(4, t, rows, columns);
    else if (size == 2)
        transpose_block(2, t, rows, columns);
    else if (size == 8)
        transpose_block(8, t, rows, columns);
    else
        transpose_block(1, t, rows, columns);
}

/* A run of whole lines past the caches. */
static void stream_run(const char *x, char *y, int64_t run, bool on)
{
    for (int64_t i = 0; i < run; i += 64) {
        if (on) fetch_ahead(x + i);
        vf_stream((float *)(void *)(y + i), vf_load((const float *)(const void *)(x + i)));
    }
}

/* n runs of neighbours, so many bytes apart in x and y; `past` the caches. */
static void copy_runs(const char *x, int64_t x_step, char *y, int64_t y_step, int64_t run, int64_t n, bool past)
{
    bool on = x_step == run || run >= 4 * AHEAD; /* it reads straight on */
    for (int64_t k = 0; k < n; k++, x += x_step, y += y_step)
        if (past)
            stream_run(x, y, run, on);
        else
            memcpy(y, x, (size_t)run);
}

static void transpose_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    transposed_axes t =
        transposed_axes_of(&((const zt_transpose_attrs *)call->attrs)->axes, &call->in[0].type, &call->out[0].type);
    int64_t size = size_of(&call->in[0].type);
    int last = t.n - 1;
    bool plain = t.n == 0 || t.thin == last;
    int64_t most[ZT_MAX_RANK], pieces[ZT_MAX_RANK];
    (void)phase, (void)local;
    for (int d = 0; d <= last; d++) pieces[d] = pieces_of(&t, d, &most[d]);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = 0, to = 0, rest = i, n[ZT_MAX_RANK];
        for (int d = last; d >= 0; d--) {
            int64_t k = 0;
            if (pieces[d] > 1) {
                k = rest % pieces[d] * most[d];
                rest /= pieces[d];
            }
            n[d] = t.dim[d] - k < most[d] ? t.dim[d] - k : most[d];
            from += k * t.from[d];
            to += k * t.to[d];
        }
        const char *x = (const char *)call->in[0].data + from * size;
        char *y = (char *)call->out[0].data + to * size;
        if (plain) {
            int64_t run = t.n ? t.dim[last] * size : size;
            bool past = call->aux[0] && on_line(y) && run % 64 == 0;
            if (last > 0)
                copy_runs(x, t.from[t.nearest] * size, y, t.to[t.nearest] * size, run, n[t.nearest], past);
            else
                copy_runs(x, 0, y, 0, run, 1, past);
        } else {
            transposition block = {x, y, t.from[last], t.to[t.thin], false};
            block.past = call->aux[0] && on_line(y) && block.across * size % 64 == 0;
            transpose_any((int)size, &block, n[t.thin], n[last]);
        }
    }
}

/* ---- concat, uncat: a run of one part an item ------------------------------------------------ */

enum { PARTS = 5 };

static void concat_setup(zt_cpu_call *call)
{
    const zt_type *y = &call->out[0].type;
    int at = plain_axis(((const zt_concat_attrs *)call->attrs)->axis, y);
    call->items[0] = outer_of(y, at) * PARTS;
}

static void concat_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_type *y = &call->out[0].type;
    int at = plain_axis(((const zt_concat_attrs *)call->attrs)->axis, y);
    int64_t inner = inner_of(y, at), first[PARTS + 1] = {0}, run[PARTS] = {0};
    (void)phase, (void)local;
    for (int k = 0; k < PARTS; k++) {
        if (call->in[k].data) run[k] = call->in[k].type.dim[at] * inner;
        first[k + 1] = first[k] + run[k];
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / PARTS, k = i % PARTS;
        if (run[k] == 0) continue;
        char *to = (char *)call->out[0].data + o * first[PARTS] + first[k];
        memcpy(to, (const char *)call->in[k].data + o * run[k], (size_t)run[k]);
    }
}

static void uncat_setup(zt_cpu_call *call)
{
    const zt_uncat_attrs *uncat = call->attrs;
    const zt_type *x = &call->in[0].type;
    int at = plain_axis(uncat->axis, x);
    call->items[0] = outer_of(x, at);
    call->aux[0] = x->dim[at] * inner_of(x, at);
    call->aux[1] = 0;
    for (int k = 0; k < uncat->part; k++)
        if (call->in[1 + k].data) call->aux[1] += call->in[1 + k].type.dim[at] * inner_of(x, at);
    call->aux[2] = call->out[0].type.dim[at] * inner_of(x, at);
}

static void uncat_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t whole = call->aux[0], first = call->aux[1], run = call->aux[2];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && run > 0; i++)
        memcpy((char *)call->out[0].data + i * run, (const char *)call->in[0].data + i * whole + first, (size_t)run);
}

/* ---- repeat: one entry of the axis an item --------------------------------------------------- */

static void repeat_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[0].type;
    int at = plain_axis(((const zt_repeat_attrs *)call->attrs)->axis, x);
    call->items[0] = outer_of(x, at) * x->dim[at];
    call->aux[0] = inner_of(x, at);
}

static void repeat_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t inner = call->aux[0], times = ((const zt_repeat_attrs *)call->attrs)->times;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && inner > 0; i++)
        for (int64_t k = 0; k < times; k++)
            memcpy((char *)call->out[0].data + (i * times + k) * inner, (const char *)call->in[0].data + i * inner,
                   (size_t)inner);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_shape)[] = {
    {.op = ZT_OP_transpose, .has = any_has, .setup = transpose_setup, .run = transpose_run},
    {.op = ZT_OP_concat, .has = any_has, .setup = concat_setup, .run = concat_run},
    {.op = ZT_OP_uncat, .has = any_has, .setup = uncat_setup, .run = uncat_run},
    {.op = ZT_OP_repeat, .has = any_has, .setup = repeat_setup, .run = repeat_run},
    {0},
};
