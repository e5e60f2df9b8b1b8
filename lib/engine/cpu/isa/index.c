/* index.c - kernels of the ops that read or write at places given as data. */
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/slots.h"
#include "lib/engine/cpu/pack.h"

/* ---- gather: one row of the output an item --------------------------------------------------- */

static bool gather_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_dtype_info *d = zt_dtype_get(in[0]->dtype);
    (void)attrs, (void)out;
    return d->decode != NULL && in[0]->dim[1] % d->block == 0; /* rows are whole bytes */
}

/* gather and scatter_add have the same attributes. */
static bool index_fails(const zt_cpu_call *c)
{
    return ((const zt_gather_attrs *)c->attrs)->oob.s[0] == 'e';
}

static void gather_setup(zt_cpu_call *c) { c->items[0] = zt_type_count(&c->in[1].type); }

static void gather_row(const zt_cpu_arg *x, int64_t i, float *y)
{
    zt_dtype t = x->type.dtype;
    int64_t K = x->type.dim[1];
    const char *base = x->data;
    if (x->packed) {
        size_t group = (size_t)(i / ZT_PACK_ROWS) * zt_pack_group_bytes(t, K);
        zt_unpack_row(t, K, base + group, (int)(i % ZT_PACK_ROWS), y);
        return;
    }
    const zt_dtype_info *d = zt_dtype_get(t);
    d->decode(base + i * (K / d->block * d->block_bytes), y, K);
}

static void gather_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const int32_t *at = c->in[1].data;
    int64_t N = c->in[0].type.dim[0], K = c->in[0].type.dim[1];
    float *y = c->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) {
        if (at[r] >= 0 && at[r] < N) {
            gather_row(&c->in[0], at[r], y + r * K);
            continue;
        }
        if (index_fails(c)) zt_cpu_runtime_error(c, "index", at[r], N);
        memset(y + r * K, 0, (size_t)K * sizeof *y);
    }
}

/* ---- kv_put: columns of all rows an item, so that rows are written in order ------------------ */

enum { COLUMNS = 64 };

static bool kv_put_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32 || out[0].dtype == ZT_F16;
}

static void kv_put_setup(zt_cpu_call *c)
{
    c->items[0] = (c->in[1].type.dim[1] + COLUMNS - 1) / COLUMNS;
}

static void put_f16(const float *x, char *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_to_f16(dst + 2 * i, vf_load(x + i));
    if (i == n) return;
    uint16_t rest[LANES];
    vf_to_f16(rest, vf_load_n(x + i, (int)(n - i)));
    memcpy(dst + 2 * i, rest, (size_t)(n - i) * sizeof rest[0]);
}

static void kv_put_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t n = c->in[1].type.dim[0], W = c->in[1].type.dim[1];
    bool half = c->out[0].type.dtype == ZT_F16;
    int64_t first = begin * COLUMNS, last = end * COLUMNS < W ? end * COLUMNS : W;
    slots s = slots_of(c, 2, c->in[0].type.dim[0]);
    (void)phase, (void)local;
    for (int64_t t = 0; t < n; t++) {
        int64_t slot = slots_own(&s, c, t);
        if (slot < 0) continue;
        const float *x = (const float *)c->in[1].data + t * W + first;
        if (half)
            put_f16(x, (char *)c->out[0].data + 2 * (slot * W + first), last - first);
        else
            memcpy((float *)c->out[0].data + slot * W + first, x,
                   (size_t)(last - first) * sizeof *x);
    }
}

/* ---- scatter_add: columns of all rows an item, so that rows are added in order --------------- */

static bool scatter_add_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static void scatter_add_setup(zt_cpu_call *c)
{
    c->items[0] = (c->in[0].type.dim[1] + COLUMNS - 1) / COLUMNS;
}

static void scatter_add_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t N = c->in[0].type.dim[0], K = c->in[0].type.dim[1], n = zt_type_count(&c->in[1].type);
    int64_t first = begin * COLUMNS, last = end * COLUMNS < K ? end * COLUMNS : K;
    const float *x = c->in[0].data, *y = c->in[2].data;
    const int32_t *at = c->in[1].data;
    float *z = c->out[0].data;
    (void)phase, (void)local;
    for (int64_t r = 0; r < N; r++)
        memmove(z + r * K + first, x + r * K + first, (size_t)(last - first) * sizeof *z);
    for (int64_t r = 0; r < n; r++) {
        if (at[r] < 0 || at[r] >= N) {
            if (index_fails(c)) zt_cpu_runtime_error(c, "index", at[r], N);
            continue;
        }
        for (int64_t k = first; k < last; k++) z[at[r] * K + k] += y[r * K + k];
    }
}

/* ---- one_hot: one index an item -------------------------------------------------------------- */

static void one_hot_setup(zt_cpu_call *c) { c->items[0] = zt_type_count(&c->in[0].type); }

static void one_hot_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_one_hot_attrs *a = c->attrs;
    const int32_t *at = c->in[0].data;
    (void)phase, (void)local;
    for (int64_t e = begin; e < end; e++) {
        float *y = (float *)c->out[0].data + e * a->depth;
        for (int64_t k = 0; k < a->depth; k++) y[k] = 0;
        if (at[e] >= 0 && at[e] < a->depth)
            y[at[e]] = 1;
        else if (a->oob.s[0] == 'e')
            zt_cpu_runtime_error(c, "index", at[e], a->depth);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_index)[] = {
    {.op = ZT_OP_scatter_add,
     .has = scatter_add_has,
     .setup = scatter_add_setup,
     .run = scatter_add_run},
    {.op = ZT_OP_one_hot, .setup = one_hot_setup, .run = one_hot_run},
    {.op = ZT_OP_gather, .has = gather_has, .setup = gather_setup, .run = gather_run},
    {.op = ZT_OP_kv_put, .has = kv_put_has, .setup = kv_put_setup, .run = kv_put_run},
    {0},
};
