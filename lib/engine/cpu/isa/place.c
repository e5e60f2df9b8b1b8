/* place.c - kernels of the ops that put elements by steps, pads and triangles: slice_step,
 * slice_step_put, pad, pad_back, tril, triu. Where nothing is computed, elements are bytes.
 */
#include "lib/ops/pad.h"
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"

#include <math.h>

/* ---- slice_step, slice_step_put: all of the axis for one index before it an item ------------- */

typedef struct stepped {
    int64_t inner, size, line, from, step, count; /* bytes; bytes; bytes of the whole axis; ... */
} stepped;

static stepped stepped_of(const zt_slice_step_attrs *a, const zt_type *whole, const zt_type *part)
{
    int at = plain_axis(a->axis, whole);
    stepped s = {.size = size_of(part), .count = part->dim[at]};
    s.inner = s.size * count_of(whole, at + 1, whole->rank);
    s.line = s.inner * whole->dim[at];
    s.from = (a->from < 0 ? a->from + whole->dim[at] : a->from) * s.inner;
    s.step = s.count > 1 ? a->step * s.inner : 0; /* alone it may be any number */
    return s;
}

INLINE void copy_steps(const stepped *s, char *to, int64_t to_step, const char *from,
                       int64_t from_step)
{
    for (int64_t k = 0; k < s->count; k++, to += to_step, from += from_step) {
        if (s->inner == s->size)
            put_one(to, from, s->size);
        else
            memcpy(to, from, (size_t)s->inner);
    }
}

static void slice_step_setup(zt_cpu_call *c)
{
    int at = plain_axis(((const zt_slice_step_attrs *)c->attrs)->axis, &c->out[0].type);
    bool empty = zt_type_count(&c->out[0].type) == 0;
    c->items[0] = empty ? 0 : count_of(&c->out[0].type, 0, at);
}

static void slice_step_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    stepped s = stepped_of(c->attrs, &c->in[0].type, &c->out[0].type);
    (void)phase, (void)local;
    for (int64_t o = begin; o < end; o++)
        copy_steps(&s, (char *)c->out[0].data + o * s.count * s.inner, s.inner,
                   (const char *)c->in[0].data + o * s.line + s.from, s.step);
}

static void slice_step_put_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    stepped s = stepped_of(c->attrs, &c->out[0].type, &c->in[0].type);
    (void)phase, (void)local;
    for (int64_t o = begin; o < end; o++) {
        char *to = (char *)c->out[0].data + o * s.line;
        memset(to, 0, (size_t)s.line);
        if (s.count)
            copy_steps(&s, to + s.from, s.step,
                       (const char *)c->in[0].data + o * s.count * s.inner, s.inner);
    }
}

/* ---- pad: one row of y an item --------------------------------------------------------------- */

/* Where in x (less: not padded) row r of y begins, in elements; -1: nowhere. */
static int64_t pad_row(const zt_ints *before, char mode, const zt_type *x, const zt_type *y,
                       int64_t r)
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

static void pad_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type;
    c->items[0] = zt_type_count(y) ? count_of(y, 0, y->rank - 1) : 0;
}

/* The constant in bytes of y's dtype. */
static void constant_of(zt_dtype t, double value, char bytes[8])
{
    float f = (float)value;
    int64_t i = fabs(value) < 0x1p63 ? (int64_t)value : 0; /* what no integer is: 0 */
    if (t == ZT_BOOL) i = value != 0;
    if (t == ZT_F64)
        memcpy(bytes, &value, 8);
    else if (zt_dtype_get(t)->encode)
        zt_dtype_get(t)->encode(&f, bytes, 1);
    else
        memcpy(bytes, &i, 8); /* little endian: the low bytes first */
}

static void pad_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_pad_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type, *y = &c->out[0].type;
    inside s = inside_of(&a->before, x, y);
    int64_t size = size_of(y);
    char none[8], mode = a->mode.s[0];
    (void)phase, (void)local;
    constant_of(y->dtype, a->value, none);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = pad_row(&a->before, mode, x, y, r);
        const char *from = (const char *)c->in[0].data + (row < 0 ? 0 : row) * size;
        char *to = (char *)c->out[0].data + r * s.m * size;
        for (int64_t j = 0; j < s.m; j++) {
            if (row >= 0 && j == s.first && s.last > s.first) {
                memcpy(to + j * size, from + (j - s.before) * size,
                       (size_t)((s.last - s.first) * size));
                j = s.last - 1;
                continue;
            }
            int64_t k = row < 0 ? -1 : zt_pad_source(mode, j - s.before, s.n);
            put_one(to + j * size, k < 0 ? none : from + k * size, size);
        }
    }
}

/* ---- pad_back: what lies before the first padded dimension an item --------------------------- */

static void pad_back_setup(zt_cpu_call *c)
{
    const zt_pad_back_attrs *a = c->attrs;
    const zt_type *x = &c->out[0].type;
    int d = 0;
    while (d + 1 < x->rank && !zt_pad_at(&a->before, d) && !zt_pad_at(&a->after, d)) d++;
    c->items[0] = zt_type_count(x) ? count_of(x, 0, d) : 0;
    c->aux[0] = c->items[0] ? zt_type_count(x) / c->items[0] : 0; /* elements of dx an item */
    const zt_type *y = &c->in[0].type;
    c->aux[1] = count_of(y, d, y->rank - 1); /* rows of dy an item */
}

static void pad_back_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_pad_back_attrs *a = c->attrs;
    const zt_type *x = &c->out[0].type, *y = &c->in[0].type;
    inside s = inside_of(&a->before, x, y);
    float *dx = c->out[0].data;
    char mode = a->mode.s[0];
    (void)phase, (void)local;
    memset(dx + begin * c->aux[0], 0, (size_t)((end - begin) * c->aux[0]) * sizeof *dx);
    for (int64_t r = begin * c->aux[1]; r < end * c->aux[1]; r++) {
        int64_t row = pad_row(&a->before, mode, x, y, r);
        const float *from = (const float *)c->in[0].data + r * s.m;
        for (int64_t j = 0; j < s.m && row >= 0; j++) {
            int64_t k = zt_pad_source(mode, j - s.before, s.n);
            if (k >= 0) dx[row + k] += from[j];
        }
    }
}

/* ---- tril, triu: one row an item ------------------------------------------------------------- */

static void rows_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type;
    c->items[0] = zt_type_count(y) ? count_of(y, 0, y->rank - 1) : 0;
}

/* sign 1: the entries up to the diagonal stay; -1: those from it on. */
static void triangle(zt_cpu_call *c, int sign, int64_t diagonal, int64_t begin, int64_t end)
{
    const zt_type *y = &c->out[0].type;
    int64_t m = y->dim[y->rank - 1], n = y->dim[y->rank - 2], size = size_of(y);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = r % n, at = diagonal >= m ? m : diagonal <= -n ? -1 : row + diagonal;
        int64_t first = sign > 0 ? 0 : at, last = sign > 0 ? at + 1 : m;
        first = first < 0 ? 0 : first > m ? m : first;
        last = last > m ? m : last < first ? first : last;
        const char *from = (const char *)c->in[0].data + r * m * size;
        char *to = (char *)c->out[0].data + r * m * size;
        memset(to, 0, (size_t)(first * size));
        memcpy(to + first * size, from + first * size, (size_t)((last - first) * size));
        memset(to + last * size, 0, (size_t)((m - last) * size));
    }
}

static void tril_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    triangle(c, 1, ((const zt_tril_attrs *)c->attrs)->diagonal, begin, end);
}

static void triu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    triangle(c, -1, ((const zt_triu_attrs *)c->attrs)->diagonal, begin, end);
}

#define KERNEL(NAME, HAS, SETUP)                                                                   \
    {.op = ZT_OP_##NAME, .has = HAS, .setup = SETUP, .run = NAME##_run}

const zt_cpu_kernel ZT_SYM(zt_cpu_place)[] = {
    KERNEL(slice_step, any_has, slice_step_setup),
    KERNEL(slice_step_put, any_has, slice_step_setup),
    KERNEL(pad, any_has, pad_setup),
    KERNEL(pad_back, f32_has, pad_back_setup),
    KERNEL(tril, any_has, rows_setup),
    KERNEL(triu, any_has, rows_setup),
    {0},
};
