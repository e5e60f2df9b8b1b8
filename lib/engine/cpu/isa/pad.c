/* pad.c - kernels of pad and its gradient. Where nothing is computed, elements are bytes. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"
#include "lib/ops/pad.h"

#include <math.h>

/* ---- pad: one row of y an item --------------------------------------------------------------- */

/* Where in x (less: not padded) row r of y begins, in elements; -1: nowhere. */
static int64_t pad_row(const zt_ints *before, char mode, const zt_type *x, const zt_type *y, int64_t r)
{
    int64_t at = 0, step = x->rank ? x->dim[x->rank - 1] : 1;
    for (int d = x->rank - 2; d >= 0; d--) {
        int64_t k = zt_pad_source(mode, r % y->dim[d] - zt_pad_at(before, d), x->dim[d]);
        if (k < 0) return -1;
        at += k * step;
        step *= x->dim[d];
        r /= y->dim[d];
    }
    return at;
}

/* Of y's last dimension the entries that x has: [first, last). */
typedef struct inside {
    int64_t n, m, before, first, last;
} inside;

static inside inside_of(const zt_ints *before, const zt_type *x, const zt_type *y)
{
    int d = x->rank - 1;
    inside s = {1, 1, 0, 0, 1};
    if (d < 0) return s;
    s = (inside){x->dim[d], y->dim[d], zt_pad_at(before, d), 0, 0};
    s.first = s.before > 0 ? s.before : 0;
    s.last = s.before + s.n < s.m ? s.before + s.n : s.m;
    if (s.first > s.m) s.first = s.m;
    if (s.last < s.first) s.last = s.first;
    return s;
}

static void pad_setup(zt_cpu_call *call)
{
    const zt_type *y = &call->out[0].type;
    call->items[0] = zt_type_count(y) ? count_of(y, 0, y->rank - 1) : 0;
}

/* The constant in bytes of y's dtype. */
static void constant_of(zt_dtype dtype, double value, char bytes[8])
{
    float f = (float)value;
    int64_t i = fabs(value) < 0x1p63 ? (int64_t)value : 0; /* what no integer is: 0 */
    if (dtype == ZT_BOOL) i = value != 0;
    if (dtype == ZT_F64)
        memcpy(bytes, &value, 8);
    else if (zt_dtype_get(dtype)->encode)
        zt_dtype_get(dtype)->encode(&f, bytes, 1);
    else
        memcpy(bytes, &i, 8); /* little endian: the low bytes first */
}

static void pad_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_pad_attrs *pad = call->attrs;
    const zt_type *x = &call->in[0].type, *y = &call->out[0].type;
    inside s = inside_of(&pad->before, x, y);
    int64_t size = size_of(y);
    char none[8], mode = pad->mode.s[0];
    (void)phase, (void)local;
    constant_of(y->dtype, pad->value, none);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = pad_row(&pad->before, mode, x, y, r);
        const char *from = (const char *)call->in[0].data + (row < 0 ? 0 : row) * size;
        char *to = (char *)call->out[0].data + r * s.m * size;
        for (int64_t j = 0; j < s.m; j++) {
            if (row >= 0 && j == s.first && s.last > s.first) {
                memcpy(to + j * size, from + (j - s.before) * size, (size_t)((s.last - s.first) * size));
                j = s.last - 1;
                continue;
            }
            int64_t k = row < 0 ? -1 : zt_pad_source(mode, j - s.before, s.n);
            put_one(to + j * size, k < 0 ? none : from + k * size, size);
        }
    }
}

/* ---- pad_back: what lies before the first padded dimension an item --------------------------- */

static void pad_back_setup(zt_cpu_call *call)
{
    const zt_pad_back_attrs *pad_back = call->attrs;
    const zt_type *x = &call->out[0].type;
    int d = 0;
    while (d + 1 < x->rank && !zt_pad_at(&pad_back->before, d) && !zt_pad_at(&pad_back->after, d)) d++;
    call->items[0] = zt_type_count(x) ? count_of(x, 0, d) : 0;
    call->aux[0] = call->items[0] ? zt_type_count(x) / call->items[0] : 0; /* elements of dx an item */
    const zt_type *y = &call->in[0].type;
    call->aux[1] = count_of(y, d, y->rank - 1); /* rows of dy an item */
}

static void pad_back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_pad_back_attrs *pad_back = call->attrs;
    const zt_type *x = &call->out[0].type, *y = &call->in[0].type;
    inside s = inside_of(&pad_back->before, x, y);
    float *dx = call->out[0].data;
    char mode = pad_back->mode.s[0];
    (void)phase, (void)local;
    memset(dx + begin * call->aux[0], 0, (size_t)((end - begin) * call->aux[0]) * sizeof *dx);
    for (int64_t r = begin * call->aux[1]; r < end * call->aux[1]; r++) {
        int64_t row = pad_row(&pad_back->before, mode, x, y, r);
        const float *from = (const float *)call->in[0].data + r * s.m;
        for (int64_t j = 0; j < s.m && row >= 0; j++) {
            int64_t k = zt_pad_source(mode, j - s.before, s.n);
            if (k >= 0) dx[row + k] += from[j];
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_pad)[] = {
    {.op = ZT_OP_pad, .has = any_has, .setup = pad_setup, .run = pad_run},
    {.op = ZT_OP_pad_back, .has = f32_has, .setup = pad_back_setup, .run = pad_back_run},
    {0},
};
