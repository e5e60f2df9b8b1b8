/* norm.c - kernels of normalisation over the last dimension, alone and fused with a sum; f32. */
#include "lib/engine/cpu/isa/norm.h"

/* ---- rms_norm: one group of columns an item -------------------------------------------------- */

/* A row is written from the caches, past them if the output is large, with nothing else read
 * meanwhile: to prefetch the next row then, or to sum it up, takes longer. */
static void norm_setup(zt_cpu_call *call)
{
    call->items[0] = zt_type_count(&call->out[1].type); /* rows */
    call->aux[0] = beyond_caches(&call->out[0].type);
}

static void rms_norm_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_rms_norm_attrs *rms_norm = call->attrs;
    const float *x = call->in[0].data, *g = call->in[1].data;
    float *y = call->out[0].data, *out = call->out[1].data;
    int64_t K = call->in[1].type.dim[0];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        float rstd = rstd_of(x + i * K, K, rms_norm->eps);
        if (y && call->aux[0] && on_line(y + i * K))
            norm_group(x + i * K, g, y + i * K, K, rstd, true);
        else if (y)
            norm_group(x + i * K, g, y + i * K, K, rstd, false);
        if (out) out[i] = rstd;
    }
}

/* ---- layer_norm: one row an item ------------------------------------------------------------- */

/* Sums of 64 lanes in f32, of K / 64 values each: of x - from, or of its squares. While it goes
 * over the row again the next one comes from memory. */
INLINE float sum_around(const float *x, int64_t K, float from, bool square)
{
    vf zero = vf_set(0), sum[4] = {zero, zero, zero, zero}, middle = vf_set(from);
    int64_t i = 0;
    for (; i + 4 * LANES <= K; i += 4 * LANES)
        UNROLL_FOR (int j = 0; j < 4; j++) {
            vf v = vf_sub(vf_load(x + i + j * LANES), middle);
            if (square) __builtin_prefetch(x + K + i + j * LANES, 0, 2);
            sum[j] = square ? vf_fma(v, v, sum[j]) : vf_add(sum[j], v);
        }
    for (; i < K; i += LANES) {
        int n = K - i < LANES ? (int)(K - i) : LANES;
        vf v = vf_first(n, vf_sub(vf_load_n(x + i, n), middle), zero);
        sum[0] = square ? vf_fma(v, v, sum[0]) : vf_add(sum[0], v);
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* (x - m) r g + b; g and b NULL: 1 and 0. */
INLINE vf normed(vf x, vf m, vf r, const float *g, const float *b, int n)
{
    vf v = vf_mul(vf_sub(x, m), r);
    if (g) v = vf_mul(v, n >= LANES ? vf_load(g) : vf_load_n(g, n));
    return b ? vf_add(v, n >= LANES ? vf_load(b) : vf_load_n(b, n)) : v;
}

INLINE void norm_row(const float *x, const float *g, const float *b, float *y, int64_t K, float mean, float rstd, bool past)
{
    vf m = vf_set(mean), r = vf_set(rstd);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES)
        vf_put(y + i, normed(vf_load(x + i), m, r, g ? g + i : NULL, b ? b + i : NULL, LANES), past);
    int n = (int)(K - i);
    if (n) vf_store_n(y + i, n, normed(vf_load_n(x + i, n), m, r, g ? g + i : NULL, b ? b + i : NULL, n));
}

static void layer_norm_row(const float *x, const float *g, const float *b, float *y, int64_t K, float mean, float rstd, bool past)
{
    if (past && g && b) /* known here, so that the loop holds nothing else */
        norm_row(x, g, b, y, K, mean, rstd, true);
    else
        norm_row(x, g, b, y, K, mean, rstd, past);
}

static void layer_norm_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_layer_norm_attrs *layer_norm = call->attrs;
    const zt_type *type = &call->in[0].type;
    const float *x = call->in[0].data;
    float *y = call->out[0].data, *means = call->out[1].data, *rstds = call->out[2].data;
    int64_t K = type->dim[type->rank - 1];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        const float *row = x + i * K;
        float mean = K ? (float)((double)sum_around(row, K, 0, false) / (double)K) : 0;
        double square = K ? (double)sum_around(row, K, mean, true) / (double)K : 0;
        float rstd = (float)(1 / sqrt(square + layer_norm->eps));
        if (y)
            layer_norm_row(row, call->in[1].data, call->in[2].data, y + i * K, K, mean, rstd, call->aux[0] && on_line(y + i * K));
        if (means) means[i] = mean;
        if (rstds) rstds[i] = rstd;
    }
}

/* ---- norms beside a sum ---------------------------------------------------------------------- */

/* y = a + b, and of y what rstd_of gives. */
INLINE float add_to(const float *a, const float *b, float *y, int64_t K, double eps)
{
    vf sum = vf_set(0);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) {
        vf v = vf_add(vf_load(a + i), vf_load(b + i));
        vf_store(y + i, v);
        sum = vf_fma(v, v, sum);
    }
    int rest = (int)(K - i);
    if (rest) {
        vf v = vf_add(vf_load_n(a + i, rest), vf_load_n(b + i, rest));
        vf_store_n(y + i, rest, v);
        sum = vf_fma(v, v, sum);
    }
    return rstd_from(sum, K, eps);
}

/* The sum goes where it is wanted, else to scratch. */
static void add_rms_norm_setup(zt_cpu_call *call)
{
    rows_setup(call);
    call->local_bytes = (size_t)cols_of(&call->in[0].type) * sizeof(float);
}

static void add_rms_norm_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_add_rms_norm_attrs *add_rms_norm = call->attrs;
    const float *x = call->in[0].data, *residual = call->in[1].data, *g = call->in[2].data;
    float *y = call->out[0].data, *sums = call->out[1].data, *rstds = call->out[2].data;
    int64_t K = cols_of(&call->in[0].type);
    (void)phase;
    for (int64_t r = begin; r < end; r++) {
        float *sum = sums ? sums + r * K : local;
        float rstd = add_to(x + r * K, residual + r * K, sum, K, add_rms_norm->eps);
        if (y) norm_group(sum, g, y + r * K, K, rstd, false);
        if (rstds) rstds[r] = rstd;
    }
}

static void norm_add_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_norm_add_attrs *norm_add = call->attrs;
    const float *x = call->in[0].data, *g = call->in[1].data, *residual = call->in[2].data;
    float *y = call->out[0].data;
    int64_t K = cols_of(&call->in[0].type);
    (void)phase, (void)local;
    for (int64_t r = begin; r < end; r++) {
        vf rstd = vf_set(rstd_of(x + r * K, K, norm_add->eps));
        for (int64_t i = 0; i < K; i += LANES) {
            int n = K - i < LANES ? (int)(K - i) : LANES;
            vf v = vf_mul(vf_mul(vf_load_n(x + r * K + i, n), rstd), vf_load_n(g + i, n));
            vf_store_n(y + r * K + i, n, vf_add(v, vf_load_n(residual + r * K + i, n)));
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_norm)[] = {
    {.op = ZT_OP_rms_norm, .has = norm_has, .setup = norm_setup, .run = rms_norm_run},
    {.op = ZT_OP_layer_norm, .has = norm_has, .setup = norm_setup, .run = layer_norm_run},
    {.op = ZT_OP_add_rms_norm, .has = norm_has, .setup = add_rms_norm_setup, .run = add_rms_norm_run},
    {.op = ZT_OP_norm_add, .has = norm_has, .setup = rows_setup, .run = norm_add_run},
    {0},
};
