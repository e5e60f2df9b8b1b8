/* matmul_weight.c - the row of the product by a weight of any type, or by its transpose. */
#include "lib/ops/vjp.h"

static zt_status matmul_weight_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_matmul_weight_attrs *matmul = attrs;
    const zt_type *x = in[0], *w = in[1];
    const int rows = matmul->tb ? 1 : 0;
    if (matmul->tb != 0 && matmul->tb != 1)
        return zt_row_fail(ctx, ZT_EUSAGE, "tb is %lld: must be 0 or 1", (long long)matmul->tb);
    if (x->dtype != ZT_F32 && x->dtype != ZT_F16 && x->dtype != ZT_BF16)
        return zt_row_fail(ctx, ZT_ESHAPE, "x has dtype %s: must be f32, f16 or bf16", zt_dtype_get(x->dtype)->name);
    zt_status status = zt_row_want(ctx, "x", x, x->dtype, 2);
    if (status) return status;
    if (!zt_dtype_is_float(w->dtype) || w->rank != 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "w must be a matrix of a float or block type");
    if (w->dim[rows] != x->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "x has %lld columns, but w has %lld %s", (long long)x->dim[1], (long long)w->dim[rows],
                           matmul->tb ? "columns" : "rows");
    out[0] = zt_type_make(x->dtype, 2, (int64_t[]){x->dim[0], w->dim[1 - rows]});
    return ZT_OK;
}

static void matmul_weight_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_matmul_weight_attrs *matmul = attrs;
    int64_t N = out[0].type->dim[0], M = out[0].type->dim[1], K = in[0].type->dim[1];
    (void)error;
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++) sum += in[0].f[n * K + k] * in[1].f[matmul->tb ? m * K + k : k * M + m];
            out[0].f[n * M + m] = sum;
        }
}

static double matmul_weight_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return 2 * (double)zt_type_count(out) * (double)in[0]->dim[1];
}

typedef struct weight_case {
    int64_t n, rows, columns; /* of x; of w */
} weight_case;

/* Every type of weights, as they are and transposed: one row and more than a tile, whole groups of 16 rows and not, more rows
 * and columns than a block of sums. Then shapes of plain types that are not whole vectors, and empty ones. */
static bool matmul_weight_cases(int i, zt_case *test_case)
{
    static const zt_dtype types[] = {ZT_F64,     ZT_F32,    ZT_F16,   ZT_BF16,  ZT_Q4_0,  ZT_Q4_1,    ZT_Q5_0,    ZT_Q5_1,
                                     ZT_Q8_0,    ZT_Q2_K,   ZT_Q3_K,  ZT_Q4_K,  ZT_Q5_K,  ZT_Q6_K,    ZT_IQ4_NL,  ZT_IQ4_XS,
                                     ZT_MXFP4,   ZT_NVFP4,  ZT_Q1_0,  ZT_Q2_0,  ZT_TQ1_0, ZT_TQ2_0,   ZT_IQ3_XXS, ZT_IQ3_S,
                                     ZT_IQ2_XXS, ZT_IQ2_XS, ZT_IQ2_S, ZT_IQ1_S, ZT_IQ1_M, ZT_F8_E4M3, ZT_F8_E5M2};
    static const weight_case each[] = {{1, 33, 256}, {19, 48, 768}, {9, 530, 256}};
    static const weight_case odd[] = {{2, 5, 33}, {270, 17, 35}, {3, 600, 7}, {0, 16, 32}, {3, 0, 4}, {3, 4, 0}, {13, 1100, 50}};
    static const zt_dtype plain[] = {ZT_F32, ZT_F16, ZT_BF16, ZT_F64};
    const int of_types = 2 * ZT_LEN(types) * ZT_LEN(each), of_odd = 2 * ZT_LEN(plain) * ZT_LEN(odd);
    zt_matmul_weight_attrs attrs = {i % 2};
    zt_dtype x = ZT_F32, w;
    weight_case c;
    if (i < of_types) {
        c = each[i / 2 % ZT_LEN(each)], w = types[i / 2 / ZT_LEN(each)];
    } else if (i < of_types + of_odd) {
        c = odd[(i - of_types) / 2 % ZT_LEN(odd)], w = plain[(i - of_types) / 2 / ZT_LEN(odd)];
    } else {
        const int more = i - of_types - of_odd;
        if (more >= 8) return false;
        c = each[1], w = more < 4 ? ZT_Q4_K : ZT_BF16, x = more / 2 % 2 ? ZT_BF16 : ZT_F16;
    }
    zt_case_attrs(test_case, &attrs, sizeof attrs);
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, x, 2, (int64_t[]){c.n, attrs.tb ? c.columns : c.rows});
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, w, 2, (int64_t[]){c.rows, c.columns});
    return true;
}

/* y = x w: dx = dy w^T, dw = x^T dy; y = x w^T: dx = dy w, dw = dy^T x. */
static void matmul_weight_vjp(zt_vjp *vjp)
{
    const zt_matmul_weight_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], w = vjp->in[1], dy = vjp->dy[0];
    if (vjp->want[0]) vjp->dx[0] = zt_build_matmul_weight(emit, dy, w, &(zt_matmul_weight_attrs){!attrs->tb});
    if (vjp->want[1])
        vjp->dx[1] =
            zt_build_as(emit, zt_build_matmul(emit, attrs->tb ? dy : x, attrs->tb ? x : dy, &(zt_matmul_attrs){1, 0}), w);
}

const zt_opdef zt_op_matmul_weight = {
    .synopsis = "y[n,m] = sum_k x[n,k] w[k,m]; tb=1: w is transposed, [m,k]; x f32, f16 or bf16, w a "
                "matrix of any float or block type, y of the type of x. For products with a weight "
                "that is not trained, whose gradient with respect to x is such a product too",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = matmul_weight_infer,
    .ref = matmul_weight_ref,
    .flops = matmul_weight_flops,
    .cases = matmul_weight_cases,
    .vjp = matmul_weight_vjp,
    .weights = 2,
};
