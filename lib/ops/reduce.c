/* reduce.c - rows of the ops that walk the last dimension. */
#include "lib/ops/row.h"

#include <math.h>

/* ---- argmax ---------------------------------------------------------------------------------- */

static zt_status argmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                              zt_type out[])
{
    (void)attrs;
    zt_status s = zt_row_want(ctx, "x", in[0], ZT_F32, -1);
    if (!s && in[0]->rank < 1) s = zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    if (!s) out[0] = zt_type_make(ZT_I32, in[0]->rank - 1, in[0]->dim);
    return s;
}

static void argmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    int64_t rows = zt_row_rows(in[0].type), V = zt_row_cols(in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0].f + r * V;
        int64_t best = -1;
        for (int64_t i = 0; i < V; i++)
            if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
        out[0].i[r] = best < 0 ? 0 : best;
    }
}

static double argmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[0]);
}

static bool argmax_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, ZT_FILL_NORMAL},   {{ZT_F32, 1, {100}}, ZT_FILL_NORMAL},
        {{ZT_F32, 2, {9, 1}}, ZT_FILL_NORMAL},    {{ZT_F32, 2, {65, 49}}, ZT_FILL_TIES},
        {{ZT_F32, 2, {1, 4921}}, ZT_FILL_NORMAL}, {{ZT_F32, 2, {3, 4096}}, ZT_FILL_TIES},
        {{ZT_F32, 3, {2, 3, 17}}, ZT_FILL_TIES},  {{ZT_F32, 2, {65, 1}}, ZT_FILL_TIES},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_type_in(c, 0, rows[i].fill, &rows[i].x);
    return true;
}

const zt_opdef zt_op_argmax = {
    .synopsis = "i[...] = where x[...,V] is largest: f32 to i32, ties to the lowest index; NaN "
                "never wins; 0 when all are NaN or V is 0",
    .n_required = 1,
    .infer = argmax_infer,
    .ref = argmax_ref,
    .flops = argmax_flops,
    .cases = argmax_cases,
};

/* ---- softmax --------------------------------------------------------------------------------- */

static zt_status softmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                               zt_type out[])
{
    (void)attrs;
    zt_status s = zt_row_want(ctx, "x", in[0], ZT_F32, -1);
    if (!s && in[0]->rank < 1) s = zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    out[0] = *in[0];
    return s;
}

static void softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    (void)attrs, (void)t;
    int64_t rows = zt_row_rows(in[0].type), K = zt_row_cols(in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0].f + r * K;
        double *y = out[0].f + r * K, max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < K; i++) max = x[i] > max ? x[i] : max;
        for (int64_t i = 0; i < K; i++) sum += y[i] = exp(x[i] - max);
        for (int64_t i = 0; i < K; i++) y[i] /= sum;
    }
}

static double softmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 10 * (double)zt_type_count(out);
}

static bool softmax_cases(int i, zt_case *c)
{
    static const zt_case_type more[] = {{ZT_F32, 2, {2, 4921}}, {ZT_F32, 2, {5, 1}}};
    zt_case_type t;
    int n = 0;
    while (zt_case_shape(n, 1, &t)) n++;
    if (i >= n + ZT_LEN(more)) return false;
    if (i >= n)
        t = more[i - n];
    else
        zt_case_shape(i, 1, &t);
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &t);
    return true;
}

const zt_opdef zt_op_softmax = {
    .synopsis = "y[...,i] = exp(x[...,i] - max) / sum over the last dimension; f32",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = softmax_infer,
    .ref = softmax_ref,
    .flops = softmax_flops,
    .cases = softmax_cases,
};
