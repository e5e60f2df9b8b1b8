/* fused.c - rows of several ops in one: what each means is its expansion. */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- rms_norm with a sum before or after it -------------------------------------------------- */

static zt_status want_like_x(zt_ctx *ctx, const char *name, const zt_type *x, const zt_type *t)
{
    if (zt_type_equal(x, t)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s is not of x's type", name);
}

static zt_status want_norm(zt_ctx *ctx, const zt_type *x, const zt_type *g)
{
    zt_status s = zt_row_want(ctx, "x", x, ZT_F32, -1);
    if (!s) s = zt_row_want(ctx, "g", g, ZT_F32, 1);
    if (s) return s;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    if (g->dim[0] == zt_row_cols(x)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "g has %lld entries for %lld columns", (long long)g->dim[0],
                       (long long)zt_row_cols(x));
}

/* y = x r g of one row; r. */
static double norm_row(const double *x, const double *g, double eps, int64_t K, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < K; i++) sum += x[i] * x[i];
    double r = 1 / sqrt((K ? sum / (double)K : 0) + eps);
    for (int64_t i = 0; i < K; i++) y[i] = x[i] * r * g[i];
    return r;
}

static double norm_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 5 * (double)zt_type_count(out);
}

static const zt_case_type norm_shapes[] = {{ZT_F32, 2, {2, 33}},    {ZT_F32, 2, {9, 640}},
                                           {ZT_F32, 1, {7}},        {ZT_F32, 3, {2, 3, 40}},
                                           {ZT_F32, 2, {0, 16}},    {ZT_F32, 2, {3, 2}}};

static bool norm_case(int i, double eps, int residual, int g, zt_case *c)
{
    if (i >= ZT_LEN(norm_shapes)) return false;
    int64_t K = norm_shapes[i].dim[norm_shapes[i].rank - 1];
    memcpy(c->attrs, &eps, sizeof eps); /* the only attribute of both */
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_type_in(c, residual, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_in(c, g, ZT_FILL_NORMAL, 0, ZT_F32, 1, &K);
    return true;
}

static zt_status add_rms_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                    zt_type out[])
{
    (void)attrs;
    zt_status s = want_norm(ctx, in[0], in[2]);
    if (!s) s = want_like_x(ctx, "residual", in[0], in[1]);
    if (s) return s;
    out[0] = out[1] = out[2] = *in[0];
    out[2].dim[out[2].rank - 1] = 1;
    return ZT_OK;
}

static void add_rms_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    const zt_add_rms_norm_attrs *a = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)t;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        for (int64_t i = 0; i < K; i++) {
            y[i] = in[0].f[r * K + i] + in[1].f[r * K + i];
            if (out[1].type) out[1].f[r * K + i] = y[i];
        }
        double rstd = norm_row(y, in[2].f, a->eps, K, y);
        if (out[2].type) out[2].f[r] = rstd;
    }
}

static bool add_rms_norm_cases(int i, zt_case *c) { return norm_case(i, i ? 1e-5 : 0.5, 1, 2, c); }

static void add_rms_norm_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_add_rms_norm_attrs *a = attrs;
    out[1] = zt_e_add(e, in[0], in[1]);
    out[0] = zt_e_rms_norm(e, out[1], in[2], &(zt_rms_norm_attrs){a->eps, 0}, &out[2]);
}

const zt_opdef zt_op_add_rms_norm = {
    .synopsis = "sum = x + residual, y = sum * rstd * g, rstd = 1 / sqrt(mean(sum^2) + eps); x, "
                "residual, sum and y f32[...,K], g f32[K], rstd f32[...,1]",
    .n_required = 3,
    .infer = add_rms_norm_infer,
    .ref = add_rms_norm_ref,
    .flops = norm_flops,
    .cases = add_rms_norm_cases,
    .expand = add_rms_norm_expand,
};

static zt_status norm_add_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                zt_type out[])
{
    (void)attrs;
    zt_status s = want_norm(ctx, in[0], in[1]);
    out[0] = *in[0];
    return s ? s : want_like_x(ctx, "residual", in[0], in[2]);
}

static void norm_add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    const zt_norm_add_attrs *a = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)t;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        norm_row(in[0].f + r * K, in[1].f, a->eps, K, y);
        for (int64_t i = 0; i < K; i++) y[i] += in[2].f[r * K + i];
    }
}

static bool norm_add_cases(int i, zt_case *c) { return norm_case(i, i ? 1e-6 : 0.5, 2, 1, c); }

static void norm_add_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_norm_add_attrs *a = attrs;
    int y = zt_e_rms_norm(e, in[0], in[1], &(zt_rms_norm_attrs){a->eps, 0}, NULL);
    out[0] = zt_e_add(e, y, in[2]);
}

const zt_opdef zt_op_norm_add = {
    .synopsis = "y = x * rstd * g + residual, rstd = 1 / sqrt(mean(x^2) + eps); x, residual and y "
                "f32[...,K], g f32[K]",
    .n_required = 3,
    .infer = norm_add_infer,
    .ref = norm_add_ref,
    .flops = norm_flops,
    .cases = norm_add_cases,
    .expand = norm_add_expand,
};

/* ---- rope by tables -------------------------------------------------------------------------- */

static const char *const pair_words[] = {"halves", "neighbours"};

static zt_status rope_table_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                  zt_type out[])
{
    const zt_rope_table_attrs *a = attrs;
    const zt_type *x = in[0], *c = in[1];
    zt_status s = zt_row_word(ctx, "pair", &a->pair, pair_words, ZT_LEN(pair_words));
    if (!s) s = zt_row_want_float(ctx, "x", x);
    if (s) return s;
    if (c->rank != 2 || c->dtype != x->dtype || !zt_type_equal(c, in[2]))
        return zt_row_fail(ctx, ZT_ESHAPE, "cos and sin are not two like matrices of x's dtype");
    if (x->rank < 2 || x->dim[x->rank - 2] != c->dim[0])
        return zt_row_fail(ctx, ZT_ESHAPE, "the tables have %lld rows, not one a row of x",
                           (long long)c->dim[0]);
    if (c->dim[1] > x->dim[x->rank - 1] / 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld pairs are more than %lld columns have",
                           (long long)c->dim[1], (long long)x->dim[x->rank - 1]);
    out[0] = *x;
    return ZT_OK;
}

static void rope_table_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)
{
    const zt_rope_table_attrs *a = attrs;
    int64_t half = in[1].type->dim[1], seq = in[1].type->dim[0], K = zt_row_cols(in[0].type);
    int64_t rows = zt_row_rows(in[0].type);
    bool halves = strcmp(a->pair.s, "neighbours") != 0;
    (void)t;
    memmove(out[0].f, in[0].f, (size_t)(rows * K) * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < half; i++) {
            double *y = out[0].f + r * K;
            int64_t at = r % seq * half + i, p = halves ? i : 2 * i, q = halves ? i + half : p + 1;
            double c = in[1].f[at], s = in[2].f[at], first = y[p], second = y[q];
            y[p] = first * c - second * s;
            y[q] = first * s + second * c;
        }
}

static bool rope_table_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        int64_t half;
        const char *pair;
    } rows[] = {
        {{ZT_F32, 3, {2, 5, 8}}, 4, "halves"},     {{ZT_F32, 3, {2, 5, 8}}, 4, "neighbours"},
        {{ZT_F32, 2, {7, 33}}, 12, "halves"},      {{ZT_F32, 4, {2, 3, 5, 6}}, 2, "neighbours"},
        {{ZT_F32, 3, {0, 5, 8}}, 4, "halves"},     {{ZT_F32, 2, {4, 6}}, 0, "halves"},
        {{ZT_F16, 2, {4, 64}}, 32, "neighbours"},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_rope_table_attrs a = {{{0}}};
    memcpy(a.pair.s, rows[i].pair, strlen(rows[i].pair));
    zt_case_attrs(c, &a, sizeof a);
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &rows[i].x);
    int64_t table[] = {rows[i].x.dim[rows[i].x.rank - 2], rows[i].half};
    for (int k = 1; k < 3; k++) zt_case_in(c, k, ZT_FILL_NORMAL, 0, rows[i].x.dtype, 2, table);
    return true;
}

/* The transpose of a turn: the other way round. */
static void rope_table_vjp(zt_vjp *v)
{
    int back = zt_e_neg(v->e, v->in[2]);
    v->dx[0] = zt_e_rope_table(v->e, v->dy[0], v->in[1], back, v->attrs);
}

const zt_opdef zt_op_rope_table = {
    .synopsis = "pairs of columns of x[...,t,:] turn by tables: (a c - b s, a s + b c), c = "
                "cos[t,i] and s = sin[t,i]; the pair i is (i, i+half), or pair=neighbours (2i, 2i+1); "
                "columns past 2 half stay; x any plain float type, cos and sin [seq,half] of it",
    .n_required = 3,
    .infer = rope_table_infer,
    .ref = rope_table_ref,
    .flops = norm_flops,
    .cases = rope_table_cases,
    .vjp = rope_table_vjp,
    .constant = 2 | 4,
};
