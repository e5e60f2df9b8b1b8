/* linear.c - the row of linear, and what rows with products x w^T + b share. */
#include "lib/ops/linear.h"
#include "lib/ops/vjp.h"

#include <string.h>

static const char *const act_words[] = {"f32", "q8", "q16"};

/* ---- what rows with products share ------------------------------------------------------------- */

zt_status zt_linear_want_x(zt_ctx *ctx, const zt_enum_string *act, const zt_type *x)
{
    zt_status status = zt_row_word(ctx, "act", act, act_words, ZT_LEN(act_words));
    if (status) return status;
    if (x->dtype != ZT_F32 && x->dtype != ZT_F16 && x->dtype != ZT_BF16)
        return zt_row_fail(ctx, ZT_ESHAPE, "x has dtype %s: must be f32, f16 or bf16", zt_dtype_get(x->dtype)->name);
    return zt_row_want(ctx, "x", x, x->dtype, 2);
}

zt_status zt_linear_want(zt_ctx *ctx, const char *w_name, const char *b_name, const zt_type *x, const zt_type *w,
                         const zt_type *b, zt_type *out)
{
    zt_status status = ZT_OK;
    if (!zt_dtype_is_float(w->dtype) || w->rank != 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s must be a matrix of a float or block type", w_name);
    if (w->dim[1] != x->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld columns, but x has %lld", w_name, (long long)w->dim[1],
                           (long long)x->dim[1]);
    if (b) status = zt_row_want(ctx, b_name, b, b->dtype == x->dtype ? x->dtype : ZT_F32, 1);
    if (!status && b && b->dim[0] != w->dim[0])
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld entries, but %s has %lld rows", b_name, (long long)b->dim[0], w_name,
                             (long long)w->dim[0]);
    if (!status) *out = zt_type_make(x->dtype, 2, (int64_t[]){x->dim[0], w->dim[0]});
    return status;
}

/* Eight sums side by side: a compiler may not reorder one sum of doubles, and waits 4 cycles for
 * each addition of it. */
static double dot(const double *a, const double *b, int64_t n)
{
    double sum[8] = {0}, total = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++) sum[j] += a[k + j] * b[k + j];
    for (; k < n; k++) total += a[k] * b[k];
    return total + ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

double zt_linear_at(const zt_arg *x, const zt_arg *w, const zt_arg *b, int64_t r, int64_t m)
{
    int64_t K = x->type->dim[1];
    return dot(x->f + r * K, w->f + m * K, K) + (b->type ? b->f[m] : 0);
}

/* ---- linear ---------------------------------------------------------------------------------- */

static zt_status linear_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_linear_attrs *linear = attrs;
    zt_status status = zt_linear_want_x(ctx, &linear->act, in[0]);
    return status ? status : zt_linear_want(ctx, "w", "b", in[0], in[1], in[2], &out[0]);
}

static void linear_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    int64_t n = in[0].type->dim[0], M = in[1].type->dim[0];
    for (int64_t m = 0; m < M; m++)
        for (int64_t r = 0; r < n; r++) out[0].f[r * M + m] = zt_linear_at(&in[0], &in[1], &in[2], r, m);
}

static double linear_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return 2 * (double)zt_type_count(out) * (double)in[0]->dim[1];
}

typedef struct linear_case {
    int64_t n, K, M;
    zt_dtype w;
    bool b;
    int act; /* of act_words */
} linear_case;

/* Every weight dtype meets these: one token, a few, more rows than a tile; M in whole groups of 16
 * rows and not; with and without bias. Every word of act. */
static bool linear_case_at(int i, linear_case *c, zt_dtype *x)
{
    static const linear_case odd[] = {
        {2, 33, 5, ZT_F32, false, 0},      {1, 1, 1, ZT_F32, true, 0},        {7, 100, 17, ZT_F16, true, 0},
        {9, 35, 33, ZT_BF16, false, 0},    {3, 33, 18, ZT_BF16, true, 1},     {65, 7, 3, ZT_F32, false, 1},
        {0, 64, 16, ZT_F32, false, 0},     {0, 32, 16, ZT_Q8_0, true, 1},     {3, 64, 0, ZT_F32, false, 0},
        {3, 0, 4, ZT_F32, true, 0},        {65, 576, 192, ZT_Q4_1, false, 1}, {2, 576, 1536, ZT_Q4_1, false, 1},
        {65, 576, 192, ZT_Q4_1, false, 2}, {0, 32, 16, ZT_Q8_0, true, 2},     {1, 1536, 576, ZT_Q8_0, false, 0},
    };
    static const zt_dtype types[] = {ZT_F64,    ZT_F32,     ZT_F16,   ZT_BF16,    ZT_Q4_0,   ZT_Q4_1,  ZT_Q5_0,
                                     ZT_Q5_1,   ZT_Q8_0,    ZT_Q2_K,  ZT_Q3_K,    ZT_Q4_K,   ZT_Q5_K,  ZT_Q6_K,
                                     ZT_IQ4_NL, ZT_IQ4_XS,  ZT_MXFP4, ZT_NVFP4,   ZT_Q1_0,   ZT_Q2_0,  ZT_TQ1_0,
                                     ZT_TQ2_0,  ZT_IQ3_XXS, ZT_IQ3_S, ZT_IQ2_XXS, ZT_IQ2_XS, ZT_IQ2_S, ZT_IQ1_S,
                                     ZT_IQ1_M,  ZT_IQ2_K,   ZT_IQ3_K, ZT_IQ4_K,   ZT_IQ5_K,  ZT_IQ6_K};
    /* x of 16 bits by weights of every kind. */
    static const zt_dtype beside[] = {ZT_F32,  ZT_F16,  ZT_BF16,    ZT_Q4_0,    ZT_Q8_0,
                                      ZT_Q4_K, ZT_Q6_K, ZT_IQ3_XXS, ZT_F8_E4M3, ZT_F8_E5M2};
    static const linear_case halves[] = {
        {1, 256, 33, 0, true, 0},
        {3, 256, 17, 0, false, 1},
        {9, 256, 16, 0, true, 2},
        {19, 512, 40, 0, false, 0},
    };
    static const linear_case each[] = {
        {1, 256, 33, 0, false, 0}, {7, 512, 48, 0, true, 1}, {9, 256, 16, 0, false, 1},  {19, 768, 100, 0, true, 0},
        {1, 1024, 7, 0, true, 1},  {2, 512, 80, 0, true, 2}, {13, 256, 35, 0, false, 2},
    };
    *x = ZT_F32;
    if (i < ZT_LEN(odd)) {
        *c = odd[i];
        return true;
    }
    i -= ZT_LEN(odd);
    if (i < ZT_LEN(types) * ZT_LEN(each)) {
        *c = each[i % ZT_LEN(each)];
        c->w = types[i / ZT_LEN(each)];
        return true;
    }
    i -= ZT_LEN(types) * ZT_LEN(each);
    if (i >= ZT_LEN(beside) * ZT_LEN(halves)) return false;
    *c = halves[i % ZT_LEN(halves)];
    c->w = beside[i / ZT_LEN(halves)];
    *x = i % 2 ? ZT_BF16 : ZT_F16;
    return true;
}

static bool linear_cases(int i, zt_case *test_case)
{
    linear_case l;
    zt_dtype x; /* and of b */
    if (!linear_case_at(i, &l, &x)) return false;
    zt_linear_attrs a = zt_linear_defaults();
    strcpy(a.act.s, act_words[l.act]);
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, x, 2, (int64_t[]){l.n, l.K});
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, l.w, 2, (int64_t[]){l.M, l.K});
    if (l.b) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, x, 1, &l.M);
    return true;
}

/* dx = dy w, dw = dy^T x, db = dy summed over rows. */
static void linear_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    if (vjp->want[0])
        vjp->dx[0] = zt_build_matmul(emit, vjp->dy[0], zt_build_as(emit, vjp->in[1], vjp->dy[0]), &(zt_matmul_attrs){0, 0});
    if (vjp->want[1])
        vjp->dx[1] = zt_build_as(emit, zt_build_matmul(emit, vjp->dy[0], vjp->in[0], &(zt_matmul_attrs){1, 0}), vjp->in[1]);
    if (vjp->want[2]) vjp->dx[2] = zt_build_as(emit, zt_build_sum_to(emit, vjp->dy[0], vjp->in[2]), vjp->in[2]);
}

const zt_opdef zt_op_linear = {
    .synopsis = "y[t,m] = sum_k x[t,k] w[m,k] + b[m]; x f32, f16 or bf16 [n,K], w any float or block "
                "type [M,K], b (optional) f32 or the type of x [M], y [n,M] of the type of x. act is "
                "the precision of activations: act=f32 uses x unchanged; act=q8 lets an engine "
                "quantize x to 8 bits in blocks of 32 columns for weights of block types, and round "
                "x to bf16 for bf16 weights; act=q16 uses two 8-bit terms, of x and of the residual "
                "of the first",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = linear_infer,
    .ref = linear_ref,
    .flops = linear_flops,
    .cases = linear_cases,
    .vjp = linear_vjp,
    .weights = 2,
};
