/* index.c - kernels of the ops that read or write at places given as data: rows, single elements, and parts at
 * tuples of indices. Where nothing is computed, elements are bytes.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/place.h"
#include "lib/engine/cpu/pack.h"

/* ---- gather: one row of the output an item --------------------------------------------------- */

static bool gather_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_dtype_info *info = zt_dtype_get(in[0]->dtype);
    (void)attrs;
    return info->decode != NULL && out[0].dtype == ZT_F32 && in[0]->dim[1] % info->block == 0; /* rows are whole bytes */
}

/* gather and scatter_add have the same attributes. */
static bool index_fails(const zt_cpu_call *call) { return ((const zt_gather_attrs *)call->attrs)->oob.s[0] == 'e'; }

static void gather_setup(zt_cpu_call *call) { call->items[0] = zt_type_count(&call->in[1].type); }

static void gather_row(const zt_cpu_arg *x, int64_t i, float *y)
{
    zt_dtype dtype = x->type.dtype;
    int64_t K = x->type.dim[1];
    const char *base = x->data;
    if (x->packed) {
        size_t group = (size_t)(i / ZT_PACK_ROWS) * zt_pack_group_bytes(dtype, K);
        zt_unpack_row(dtype, K, base + group, (int)(i % ZT_PACK_ROWS), y);
        return;
    }
    const zt_dtype_info *info = zt_dtype_get(dtype);
    info->decode(base + i * (K / info->block * info->block_bytes), y, K);
}

static void gather_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t N = call->in[0].type.dim[0], K = call->in[0].type.dim[1];
    float *y = call->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = index_at(&call->in[1], r);
        if (at >= 0 && at < N) {
            gather_row(&call->in[0], at, y + r * K);
            continue;
        }
        if (index_fails(call)) zt_cpu_runtime_error(call, "index", at, N);
        memset(y + r * K, 0, (size_t)K * sizeof *y);
    }
}

/* ---- kv_put: columns of all rows an item, so that rows are written in order ------------------ */

enum { COLUMNS = 64 };

/* ---- scatter_add: columns of all rows an item, so that rows are added in order --------------- */

static bool scatter_add_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void scatter_add_setup(zt_cpu_call *call) { call->items[0] = (call->in[0].type.dim[1] + COLUMNS - 1) / COLUMNS; }

static void scatter_add_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t N = call->in[0].type.dim[0], K = call->in[0].type.dim[1], n = zt_type_count(&call->in[1].type);
    int64_t first = begin * COLUMNS, last = end * COLUMNS < K ? end * COLUMNS : K;
    const float *x = call->in[0].data, *y = call->in[2].data;
    float *z = call->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = 0; r < N; r++) memmove(z + r * K + first, x + r * K + first, (size_t)(last - first) * sizeof *z);
    for (int64_t r = 0; r < n; r++) {
        int64_t at = index_at(&call->in[1], r);
        if (at < 0 || at >= N) {
            if (index_fails(call)) zt_cpu_runtime_error(call, "index", at, N);
            continue;
        }
        for (int64_t k = first; k < last; k++) z[at * K + k] += y[r * K + k];
    }
}

/* ---- one_hot: one index an item -------------------------------------------------------------- */

static void one_hot_setup(zt_cpu_call *call) { call->items[0] = zt_type_count(&call->in[0].type); }

static void one_hot_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_one_hot_attrs *one_hot = call->attrs;
    (void)phase, (void)local;
    for (int64_t e = begin; e < end; e++) {
        int64_t at = index_at(&call->in[0], e);
        float *y = (float *)call->out[0].data + e * one_hot->depth;
        for (int64_t k = 0; k < one_hot->depth; k++) y[k] = 0;
        if (at >= 0 && at < one_hot->depth)
            y[at] = 1;
        else if (one_hot->oob.s[0] == 'e')
            zt_cpu_runtime_error(call, "index", at, one_hot->depth);
    }
}

/* ---- gather_nd: TUPLES parts an item --------------------------------------------------------- */

enum { TUPLES = 64 };

typedef struct parts {
    int64_t tuples, k, rest, per_batch, span; /* as in lib/ops/index_nd.c */
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

static int64_t part_at(zt_cpu_call *call, const parts *p, int64_t batch, bool fails, int64_t r)
{
    int64_t at = 0;
    for (int64_t k = 0; k < p->k; k++) {
        int64_t n = call->in[0].type.dim[batch + k], i = index_at(&call->in[1], r * p->k + k);
        if (i < 0 || i >= n) {
            if (fails) zt_cpu_runtime_error(call, "index", i, n);
            return -1;
        }
        at = at * n + i;
    }
    return r / p->per_batch * p->span + at * p->rest;
}

static void gather_nd_setup(zt_cpu_call *call)
{
    parts p = parts_of(((const zt_gather_nd_attrs *)call->attrs)->batch, &call->in[0].type, &call->in[1].type);
    call->items[0] = (p.tuples + TUPLES - 1) / TUPLES;
}

static void gather_nd_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gather_nd_attrs *gather_nd = call->attrs;
    parts p = parts_of(gather_nd->batch, &call->in[0].type, &call->in[1].type);
    int64_t size = size_of(&call->in[0].type), bytes = p.rest * size;
    int64_t last = end * TUPLES < p.tuples ? end * TUPLES : p.tuples;
    (void)phase, (void)local;
    for (int64_t r = begin * TUPLES; r < last; r++) {
        int64_t at = part_at(call, &p, gather_nd->batch, gather_nd->oob.s[0] == 'e', r);
        char *to = (char *)call->out[0].data + r * bytes;
        if (at < 0)
            memset(to, 0, (size_t)bytes);
        else if (p.rest == 1)
            put_one(to, (const char *)call->in[0].data + at * size, size);
        else
            memcpy(to, (const char *)call->in[0].data + at * size, (size_t)bytes);
    }
}

/* ---- scatter_nd: columns of all parts an item, so that they come in order -------------------- */

/* 'n' none, 'a' add, 'u' mul, 'x' max, 'i' min. */
static char how_of(const zt_enum_string *w) { return w->s[0] != 'm' ? w->s[0] : w->s[1] == 'a' ? 'x' : w->s[1]; }

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
    const zt_scatter_nd_attrs *scatter_nd = attrs;
    (void)in;
    return out[0].dtype == ZT_F32 || how_of(&scatter_nd->reduction) == 'n';
}

static void scatter_nd_setup(zt_cpu_call *call)
{
    parts p = parts_of(((const zt_scatter_nd_attrs *)call->attrs)->batch, &call->in[0].type, &call->in[1].type);
    call->items[0] = zt_type_count(&call->in[0].type) ? (p.rest + COLUMNS - 1) / COLUMNS : 0;
}

static void scatter_nd_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scatter_nd_attrs *scatter_nd = call->attrs;
    parts p = parts_of(scatter_nd->batch, &call->in[0].type, &call->in[1].type);
    int64_t size = size_of(&call->in[0].type), first = begin * COLUMNS;
    int64_t n = (end * COLUMNS < p.rest ? end * COLUMNS : p.rest) - first;
    int64_t all = zt_type_count(&call->in[0].type) / p.rest;
    char how = how_of(&scatter_nd->reduction), *z = call->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = 0; r < all; r++)
        memmove(z + (r * p.rest + first) * size, (const char *)call->in[0].data + (r * p.rest + first) * size,
                (size_t)(n * size));
    for (int64_t r = 0; r < p.tuples; r++) {
        int64_t at = part_at(call, &p, scatter_nd->batch, scatter_nd->oob.s[0] == 'e', r);
        const char *u = (const char *)call->in[2].data + (r * p.rest + first) * size;
        char *to = z + (at + first) * size;
        if (at < 0) continue;
        if (how == 'n') memcpy(to, u, (size_t)(n * size));
        for (int64_t j = 0; j < n && how != 'n'; j++)
            ((float *)(void *)to)[j] = merged(how, ((float *)(void *)to)[j], ((const float *)(const void *)u)[j]);
    }
}

/* ---- gather_elements: BATCH elements an item ------------------------------------------------- */

enum { BATCH = 1024 };

static void elements_setup(zt_cpu_call *call) { call->items[0] = (zt_type_count(&call->in[1].type) + BATCH - 1) / BATCH; }

static void gather_elements_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gather_elements_attrs *gather_elements = call->attrs;
    const zt_type *x = &call->in[0].type, *t = &call->in[1].type;
    int along = plain_axis(gather_elements->axis, x);
    int64_t n = zt_type_count(t), last = end * BATCH < n ? end * BATCH : n, size = size_of(x);
    char *y = call->out[0].data;
    (void)phase, (void)local;
    for (int64_t e = begin * BATCH; e < last; e++) {
        int64_t from = 0, step = 1, rest = e, at = index_at(&call->in[1], e);
        if (at < 0 || at >= x->dim[along]) {
            if (gather_elements->oob.s[0] == 'e') zt_cpu_runtime_error(call, "index", at, x->dim[along]);
            memset(y + e * size, 0, (size_t)size);
            continue;
        }
        for (int d = x->rank - 1; d >= 0; d--) {
            from += (d == along ? at : rest % t->dim[d]) * step;
            step *= x->dim[d];
            rest /= t->dim[d];
        }
        put_one(y + e * size, (const char *)call->in[0].data + from * size, size);
    }
}

/* ---- scatter_elements, scatter_add_elements: all from the axis on, for one index before it --- */

static bool scatter_elements_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_scatter_elements_attrs *scatter_elements = attrs;
    (void)in;
    return out[0].dtype == ZT_F32 || how_of(&scatter_elements->reduction) == 'n';
}

/* The op's first attribute is the axis. */
static void scatter_elements_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[0].type;
    int at = plain_axis(((const zt_gather_elements_attrs *)call->attrs)->axis, x);
    call->items[0] = zt_type_count(x) ? count_of(x, 0, at) : 0;
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
static void scatter_block(zt_cpu_call *call, char how, bool fails, int at, int64_t block, char *z)
{
    const zt_type *x = &call->in[0].type, *t = &call->in[1].type;
    int64_t n = count_of(t, at, t->rank), size = size_of(x), inner = count_of(x, at + 1, x->rank);
    const char *u = (const char *)call->in[2].data + block * n * size;
    for (int64_t e = 0; e < n; e++) {
        int64_t to = 0, step = 1, rest = e, index = index_at(&call->in[1], block * n + e);
        if (index < 0 || index >= x->dim[at]) {
            if (fails) zt_cpu_runtime_error(call, "index", index, x->dim[at]);
            continue;
        }
        for (int d = x->rank - 1; d > at; d--) {
            to += rest % t->dim[d] * step;
            step *= x->dim[d];
            rest /= t->dim[d];
        }
        to += index * inner;
        if (how == 'n') {
            put_one(z + to * size, u + e * size, size);
        } else {
            float *f = (float *)(void *)z + to;
            *f = merged(how, *f, ((const float *)(const void *)u)[e]);
        }
    }
}

static void scatter_blocks(zt_cpu_call *call, char how, bool fails, int64_t axis, int64_t begin, int64_t end)
{
    const zt_type *x = &call->in[0].type;
    int at = plain_axis(axis, x);
    int64_t bytes = count_of(x, at, x->rank) * size_of(x);
    for (int64_t o = begin; o < end; o++) {
        char *z = (char *)call->out[0].data + o * bytes;
        int64_t block = block_of(x, &call->in[1].type, at, o);
        memmove(z, (const char *)call->in[0].data + o * bytes, (size_t)bytes);
        if (block >= 0) scatter_block(call, how, fails, at, block, z);
    }
}

static void scatter_elements_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scatter_elements_attrs *scatter_elements = call->attrs;
    (void)phase, (void)local;
    scatter_blocks(call, how_of(&scatter_elements->reduction), scatter_elements->oob.s[0] == 'e', scatter_elements->axis, begin,
                   end);
}

static void scatter_add_elements_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scatter_add_elements_attrs *scatter_add_elements = call->attrs;
    (void)phase, (void)local;
    scatter_blocks(call, 'a', scatter_add_elements->oob.s[0] == 'e', scatter_add_elements->axis, begin, end);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_index)[] = {
    {.op = ZT_OP_scatter_add, .has = scatter_add_has, .setup = scatter_add_setup, .run = scatter_add_run},
    {.op = ZT_OP_one_hot, .setup = one_hot_setup, .run = one_hot_run},
    {.op = ZT_OP_gather, .has = gather_has, .setup = gather_setup, .run = gather_run},
    {.op = ZT_OP_gather_nd, .has = any_has, .setup = gather_nd_setup, .run = gather_nd_run},
    {.op = ZT_OP_scatter_nd, .has = scatter_has, .setup = scatter_nd_setup, .run = scatter_nd_run},
    {.op = ZT_OP_gather_elements, .has = any_has, .setup = elements_setup, .run = gather_elements_run},
    {.op = ZT_OP_scatter_elements, .has = scatter_elements_has, .setup = scatter_elements_setup, .run = scatter_elements_run},
    {.op = ZT_OP_scatter_add_elements, .has = f32_has, .setup = scatter_elements_setup, .run = scatter_add_elements_run},
    {0},
};
