/* place.c - kernels of the ops that put elements by steps, pads, triangles and indices: slice_step,
 * slice_step_put, pad, pad_back, tril, triu, gather_nd, scatter_nd, gather_elements,
 * scatter_elements, scatter_add_elements. Where nothing is computed, elements are bytes.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

static bool any_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static int64_t size_of(const zt_type *t) { return zt_dtype_get(t->dtype)->block_bytes; }

static int plain_axis(int64_t axis, const zt_type *t)
{
    return (int)(axis < 0 ? axis + t->rank : axis);
}

static int64_t count_of(const zt_type *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= t->dim[d];
    return n;
}

/* One element, of 1, 2, 4 or 8 bytes. */
INLINE void put_one(char *to, const char *from, int64_t size)
{
    if (size == 4)
        memcpy(to, from, 4);
    else if (size == 8)
        memcpy(to, from, 8);
    else if (size == 2)
        memcpy(to, from, 2);
    else
        *to = *from;
}

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

static int64_t pad_at(const zt_ints *pads, int d) { return d < pads->n ? pads->v[d] : 0; }

/* Which of n entries is entry i (below 0 and past the end too) by a mode; -1: none, a constant. */
INLINE int64_t source_of(char mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == 'c') return -1;
    if (mode == 'e') return i < 0 ? 0 : n - 1;
    int64_t period = mode == 'w' ? n : n > 1 ? 2 * (n - 1) : 1;
    i = i % period + (i % period < 0 ? period : 0);
    return i < n ? i : period - i;
}

/* Where in x (less: not padded) row r of y begins, in elements; -1: nowhere. */
static int64_t pad_row(const zt_ints *before, char mode, const zt_type *x, const zt_type *y,
                       int64_t r)
{
    int64_t at = 0, step = x->rank ? x->dim[x->rank - 1] : 1;
    for (int d = x->rank - 2; d >= 0; d--) {
        int64_t k = source_of(mode, r % y->dim[d] - pad_at(before, d), x->dim[d]);
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
    s = (inside){x->dim[d], y->dim[d], pad_at(before, d), 0, 0};
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
    int64_t i = t == ZT_F64 || value != value ? 0 : (int64_t)value;
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
            int64_t k = row < 0 ? -1 : source_of(mode, j - s.before, s.n);
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
    while (d + 1 < x->rank && !pad_at(&a->before, d) && !pad_at(&a->after, d)) d++;
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
            int64_t k = source_of(mode, j - s.before, s.n);
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
        int64_t row = r % n, at = diagonal < -row ? -1 : diagonal - (m - row) > 0 ? m : row + diagonal;
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

/* ---- gather_nd: TUPLES parts an item --------------------------------------------------------- */

enum { TUPLES = 64, COLUMNS = 64 };

typedef struct parts {
    int64_t tuples, k, rest, per_batch, span; /* as in lib/ops/nd.c */
} parts;

static parts parts_of(int64_t batch, const zt_type *x, const zt_type *i)
{
    parts p = {.k = i->dim[i->rank - 1]};
    p.tuples = count_of(i, 0, i->rank - 1);
    p.per_batch = count_of(i, (int)batch, i->rank - 1);
    p.span = count_of(x, (int)batch, x->rank);
    p.rest = count_of(x, (int)(batch + p.k), x->rank);
    return p;
}

static int64_t part_at(zt_cpu_call *c, const parts *p, int64_t batch, bool fails, int64_t r)
{
    const int32_t *i = (const int32_t *)c->in[1].data + r * p->k;
    int64_t at = 0;
    for (int64_t k = 0; k < p->k; k++) {
        int64_t n = c->in[0].type.dim[batch + k];
        if (i[k] < 0 || i[k] >= n) {
            if (fails) zt_cpu_trouble(c, "index", i[k], n);
            return -1;
        }
        at = at * n + i[k];
    }
    return r / p->per_batch * p->span + at * p->rest;
}

static void gather_nd_setup(zt_cpu_call *c)
{
    parts p = parts_of(((const zt_gather_nd_attrs *)c->attrs)->batch, &c->in[0].type,
                       &c->in[1].type);
    c->items[0] = (p.tuples + TUPLES - 1) / TUPLES;
}

static void gather_nd_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gather_nd_attrs *a = c->attrs;
    parts p = parts_of(a->batch, &c->in[0].type, &c->in[1].type);
    int64_t size = size_of(&c->in[0].type), bytes = p.rest * size;
    int64_t last = end * TUPLES < p.tuples ? end * TUPLES : p.tuples;
    (void)phase, (void)local;
    for (int64_t r = begin * TUPLES; r < last; r++) {
        int64_t at = part_at(c, &p, a->batch, a->oob.s[0] == 'e', r);
        char *to = (char *)c->out[0].data + r * bytes;
        if (at < 0)
            memset(to, 0, (size_t)bytes);
        else if (p.rest == 1)
            put_one(to, (const char *)c->in[0].data + at * size, size);
        else
            memcpy(to, (const char *)c->in[0].data + at * size, (size_t)bytes);
    }
}

/* ---- scatter_nd: columns of all parts an item, so that they come in order --------------------- */

/* 'n' none, 'a' add, 'u' mul, 'x' max, 'i' min. */
static char how_of(const zt_word *w)
{
    return w->s[0] != 'm' ? w->s[0] : w->s[1] == 'a' ? 'x' : w->s[1];
}

INLINE float merged(char how, float a, float b)
{
    if (how == 'a') return a + b;
    if (how == 'u') return a * b;
    if (how == 'n') return b;
    return a != a ? a : b != b ? b : how == 'x' ? (a > b ? a : b) : (a < b ? a : b);
}

/* Nothing is computed, or it is f32. */
static bool scatter_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_scatter_nd_attrs *a = attrs;
    (void)in;
    return out[0].dtype == ZT_F32 || how_of(&a->reduction) == 'n';
}

static void scatter_nd_setup(zt_cpu_call *c)
{
    parts p = parts_of(((const zt_scatter_nd_attrs *)c->attrs)->batch, &c->in[0].type,
                       &c->in[1].type);
    c->items[0] = zt_type_count(&c->in[0].type) ? (p.rest + COLUMNS - 1) / COLUMNS : 0;
}

static void scatter_nd_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scatter_nd_attrs *a = c->attrs;
    parts p = parts_of(a->batch, &c->in[0].type, &c->in[1].type);
    int64_t size = size_of(&c->in[0].type), first = begin * COLUMNS;
    int64_t n = (end * COLUMNS < p.rest ? end * COLUMNS : p.rest) - first;
    int64_t all = zt_type_count(&c->in[0].type) / p.rest;
    char how = how_of(&a->reduction), *z = c->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = 0; r < all; r++)
        memmove(z + (r * p.rest + first) * size,
                (const char *)c->in[0].data + (r * p.rest + first) * size, (size_t)(n * size));
    for (int64_t r = 0; r < p.tuples; r++) {
        int64_t at = part_at(c, &p, a->batch, a->oob.s[0] == 'e', r);
        const char *u = (const char *)c->in[2].data + (r * p.rest + first) * size;
        char *to = z + (at + first) * size;
        if (at < 0) continue;
        if (how == 'n') memcpy(to, u, (size_t)(n * size));
        for (int64_t j = 0; j < n && how != 'n'; j++)
            ((float *)(void *)to)[j] = merged(how, ((float *)(void *)to)[j], ((const float *)(const void *)u)[j]);
    }
}

/* ---- gather_elements: BATCH elements an item ------------------------------------------------- */

enum { BATCH = 1024 };

static void elements_setup(zt_cpu_call *c)
{
    c->items[0] = (zt_type_count(&c->in[1].type) + BATCH - 1) / BATCH;
}

static void gather_elements_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gather_elements_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type, *t = &c->in[1].type;
    int along = plain_axis(a->axis, x);
    int64_t n = zt_type_count(t), last = end * BATCH < n ? end * BATCH : n, size = size_of(x);
    const int32_t *at = c->in[1].data;
    char *y = c->out[0].data;
    (void)phase, (void)local;
    for (int64_t e = begin * BATCH; e < last; e++) {
        int64_t from = 0, step = 1, rest = e;
        if (at[e] < 0 || at[e] >= x->dim[along]) {
            if (a->oob.s[0] == 'e') zt_cpu_trouble(c, "index", at[e], x->dim[along]);
            memset(y + e * size, 0, (size_t)size);
            continue;
        }
        for (int d = x->rank - 1; d >= 0; d--) {
            from += (d == along ? at[e] : rest % t->dim[d]) * step;
            step *= x->dim[d];
            rest /= t->dim[d];
        }
        put_one(y + e * size, (const char *)c->in[0].data + from * size, size);
    }
}

/* ---- scatter_elements, scatter_add_elements: all from the axis on, for one index before it ---- */

static bool scatter_elements_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_scatter_elements_attrs *a = attrs;
    (void)in;
    return out[0].dtype == ZT_F32 || how_of(&a->reduction) == 'n';
}

/* The op's first attribute is the axis. */
static void scatter_elements_setup(zt_cpu_call *c)
{
    const zt_type *x = &c->in[0].type;
    int at = plain_axis(((const zt_gather_elements_attrs *)c->attrs)->axis, x);
    c->items[0] = zt_type_count(x) ? count_of(x, 0, at) : 0;
}

/* Which of i's blocks before the axis is x's block o; -1: i has none there. */
static int64_t block_of(const zt_type *x, const zt_type *i, int at, int64_t o)
{
    int64_t block = 0, step = 1;
    for (int d = at - 1; d >= 0; d--) {
        int64_t k = o % x->dim[d];
        if (k >= i->dim[d]) return -1;
        block += k * step;
        step *= i->dim[d];
        o /= x->dim[d];
    }
    return block;
}

/* Elements of i's block, in order, into x's block at z. */
static void scatter_block(zt_cpu_call *c, char how, bool fails, int at, int64_t block, char *z)
{
    const zt_type *x = &c->in[0].type, *t = &c->in[1].type;
    int64_t n = count_of(t, at, t->rank), size = size_of(x), inner = count_of(x, at + 1, x->rank);
    const int32_t *index = (const int32_t *)c->in[1].data + block * n;
    const char *u = (const char *)c->in[2].data + block * n * size;
    for (int64_t e = 0; e < n; e++) {
        int64_t to = 0, step = 1, rest = e;
        if (index[e] < 0 || index[e] >= x->dim[at]) {
            if (fails) zt_cpu_trouble(c, "index", index[e], x->dim[at]);
            continue;
        }
        for (int d = x->rank - 1; d > at; d--) {
            to += rest % t->dim[d] * step;
            step *= x->dim[d];
            rest /= t->dim[d];
        }
        to += index[e] * inner;
        if (how == 'n') {
            put_one(z + to * size, u + e * size, size);
        } else {
            float *f = (float *)(void *)z + to;
            *f = merged(how, *f, ((const float *)(const void *)u)[e]);
        }
    }
}

static void scatter_blocks(zt_cpu_call *c, char how, bool fails, int64_t axis, int64_t begin,
                           int64_t end)
{
    const zt_type *x = &c->in[0].type;
    int at = plain_axis(axis, x);
    int64_t bytes = count_of(x, at, x->rank) * size_of(x);
    for (int64_t o = begin; o < end; o++) {
        char *z = (char *)c->out[0].data + o * bytes;
        int64_t block = block_of(x, &c->in[1].type, at, o);
        memmove(z, (const char *)c->in[0].data + o * bytes, (size_t)bytes);
        if (block >= 0) scatter_block(c, how, fails, at, block, z);
    }
}

static void scatter_elements_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scatter_elements_attrs *a = c->attrs;
    (void)phase, (void)local;
    scatter_blocks(c, how_of(&a->reduction), a->oob.s[0] == 'e', a->axis, begin, end);
}

static void scatter_add_elements_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end,
                                     void *local)
{
    const zt_scatter_add_elements_attrs *a = c->attrs;
    (void)phase, (void)local;
    scatter_blocks(c, 'a', a->oob.s[0] == 'e', a->axis, begin, end);
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
    KERNEL(gather_nd, any_has, gather_nd_setup),
    KERNEL(scatter_nd, scatter_has, scatter_nd_setup),
    KERNEL(gather_elements, any_has, elements_setup),
    KERNEL(scatter_elements, scatter_elements_has, scatter_elements_setup),
    KERNEL(scatter_add_elements, f32_has, scatter_elements_setup),
    {0},
};
