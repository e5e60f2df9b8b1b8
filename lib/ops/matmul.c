/* matmul.c - the row of the product of two matrices, or of many. */
#include "lib/ops/loops.h"

/* ---- matmul ---------------------------------------------------------------------------------- */

/* Rows, columns of an operand as it is multiplied. */
static int64_t mat_rows(const zt_type *type, int64_t transposed) { return type->dim[type->rank - (transposed ? 1 : 2)]; }

static int64_t mat_cols(const zt_type *type, int64_t transposed) { return type->dim[type->rank - (transposed ? 2 : 1)]; }

static zt_type mat_lead(const zt_type *type) { return zt_type_make(type->dtype, type->rank - 2, type->dim); }

static zt_status matmul_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_matmul_attrs *matmul = attrs;
    const zt_type *a = in[0], *b = in[1];
    zt_status status = zt_row_want_number(ctx, "a", a);
    if (status) return status;
    if (a->dtype != b->dtype) return zt_row_fail(ctx, ZT_ESHAPE, "a and b have different dtypes");
    if (a->rank < 2 || b->rank < 2)
        return zt_row_fail(ctx, ZT_ESHAPE, "%s must have at least 2 dimensions", a->rank < 2 ? "a" : "b");
    if (mat_cols(a, matmul->ta) != mat_rows(b, matmul->tb))
        return zt_row_fail(ctx, ZT_ESHAPE, "a has %lld columns, but b has %lld rows", (long long)mat_cols(a, matmul->ta),
                           (long long)mat_rows(b, matmul->tb));
    zt_type la = mat_lead(a), lb = mat_lead(b);
    status = zt_row_broadcast(ctx, &la, &lb, &out[0]);
    out[0].dim[out[0].rank++] = mat_rows(a, matmul->ta);
    out[0].dim[out[0].rank++] = mat_cols(b, matmul->tb);
    return status;
}

/* Matrices of a batch begin at elements a, b and y of the operands. */
static void multiply_matrices(const zt_matmul_attrs *attrs, const zt_arg *in, zt_arg *out, int64_t a, int64_t b, int64_t y,
                              int64_t N, int64_t K, int64_t M)
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) {
            double sum = 0;
            uint64_t integer_sum = 0;
            for (int64_t k = 0; k < K; k++) {
                int64_t left = a + (attrs->ta ? k * N + n : n * K + k), right = b + (attrs->tb ? m * K + k : k * M + m);
                if (out->f)
                    sum += in[0].f[left] * in[1].f[right];
                else
                    integer_sum += (uint64_t)in[0].i[left] * (uint64_t)in[1].i[right];
            }
            if (out->f)
                out->f[y + n * M + m] = sum;
            else
                out->i[y + n * M + m] = wrapped(out->type->dtype, integer_sum);
        }
}

static void matmul_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_matmul_attrs *matmul = attrs;
    int64_t sa[ZT_MAX_RANK], sb[ZT_MAX_RANK], batches = 1;
    int64_t N = mat_rows(in[0].type, matmul->ta), K = mat_cols(in[0].type, matmul->ta);
    int64_t M = mat_cols(in[1].type, matmul->tb);
    zt_type la = mat_lead(in[0].type), lb = mat_lead(in[1].type), ly = mat_lead(out[0].type);
    (void)error;
    zt_row_strides(&la, &ly, sa);
    zt_row_strides(&lb, &ly, sb);
    for (int d = 0; d < ly.rank; d++) batches *= ly.dim[d];
    for (int64_t i = 0; i < batches; i++) {
        int64_t ia = 0, ib = 0, rest = i;
        for (int d = ly.rank - 1; d >= 0; d--) {
            ia += rest % ly.dim[d] * sa[d];
            ib += rest % ly.dim[d] * sb[d];
            rest /= ly.dim[d];
        }
        multiply_matrices(matmul, in, out, ia * N * K, ib * K * M, i * N * M, N, K, M);
    }
}

static double matmul_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_matmul_attrs *matmul = attrs;
    return 2 * (double)zt_type_count(out) * (double)mat_cols(in[0], matmul->ta);
}

static bool matmul_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type a, b;
        zt_matmul_attrs at;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {33, 5}}, {0, 0}},
        {{ZT_F32, 2, {33, 2}}, {ZT_F32, 2, {33, 5}}, {1, 0}},
        {{ZT_F32, 2, {2, 33}}, {ZT_F32, 2, {5, 33}}, {0, 1}},
        {{ZT_F32, 2, {33, 2}}, {ZT_F32, 2, {5, 33}}, {1, 1}},
        {{ZT_F32, 2, {65, 100}}, {ZT_F32, 2, {100, 49}}, {0, 0}},
        {{ZT_F32, 2, {65, 100}}, {ZT_F32, 2, {65, 49}}, {1, 0}},
        {{ZT_F32, 3, {3, 4, 7}}, {ZT_F32, 3, {3, 7, 5}}, {0, 0}},
        {{ZT_F32, 4, {2, 3, 4, 7}}, {ZT_F32, 4, {2, 3, 5, 7}}, {0, 1}},
        {{ZT_F32, 3, {3, 4, 7}}, {ZT_F32, 2, {7, 5}}, {0, 0}},
        {{ZT_F32, 4, {2, 1, 4, 7}}, {ZT_F32, 3, {3, 7, 5}}, {0, 0}},
        {{ZT_F32, 2, {1, 1}}, {ZT_F32, 2, {1, 1}}, {0, 0}},
        {{ZT_F32, 2, {3, 0}}, {ZT_F32, 2, {0, 4}}, {0, 0}},
        {{ZT_F32, 2, {0, 3}}, {ZT_F32, 2, {3, 4}}, {0, 0}},
        {{ZT_F32, 2, {13, 600}}, {ZT_F32, 2, {600, 150}}, {0, 0}},
        {{ZT_F32, 2, {600, 99}}, {ZT_F32, 2, {150, 600}}, {1, 1}},
        {{ZT_F16, 2, {600, 13}}, {ZT_F16, 2, {35, 600}}, {1, 1}},
        {{ZT_F64, 2, {3, 4}}, {ZT_F64, 2, {4, 5}}, {0, 0}},
        {{ZT_F16, 2, {9, 40}}, {ZT_F16, 2, {40, 17}}, {0, 0}},
        {{ZT_BF16, 2, {9, 40}}, {ZT_BF16, 2, {40, 17}}, {0, 0}},
        {{ZT_F32, 2, {7, 300}}, {ZT_F32, 2, {300, 64}}, {0, 0}},
        {{ZT_F32, 2, {530, 33}}, {ZT_F32, 2, {33, 1040}}, {0, 0}},
        {{ZT_F32, 3, {9, 70, 20}}, {ZT_F32, 3, {9, 130, 70}}, {1, 1}},
        {{ZT_F16, 2, {37, 300}}, {ZT_F16, 2, {300, 70}}, {0, 0}},
        {{ZT_F16, 3, {2, 37, 300}}, {ZT_F16, 2, {35, 300}}, {0, 1}},
        {{ZT_BF16, 2, {37, 1101}}, {ZT_BF16, 2, {1101, 70}}, {0, 0}},
        {{ZT_BF16, 2, {37, 1101}}, {ZT_BF16, 2, {35, 1101}}, {0, 1}},
        {{ZT_BF16, 2, {601, 37}}, {ZT_BF16, 2, {601, 35}}, {1, 0}},
        {{ZT_BF16, 3, {2, 33, 37}}, {ZT_BF16, 3, {2, 35, 33}}, {1, 1}},
        {{ZT_I32, 2, {9, 40}}, {ZT_I32, 2, {40, 17}}, {0, 0}},
        {{ZT_I8, 2, {9, 40}}, {ZT_I8, 2, {17, 40}}, {0, 1}},
        {{ZT_U8, 3, {2, 40, 9}}, {ZT_U8, 2, {40, 17}}, {1, 0}},
        {{ZT_I64, 3, {3, 4, 7}}, {ZT_I64, 3, {3, 7, 5}}, {0, 0}},
        {{ZT_U64, 2, {40, 9}}, {ZT_U64, 2, {17, 40}}, {1, 1}},
        {{ZT_I16, 2, {3, 0}}, {ZT_I16, 2, {0, 4}}, {0, 0}},
        {{ZT_U16, 2, {3, 8}}, {ZT_U16, 2, {8, 4}}, {0, 0}},
        {{ZT_U32, 2, {3, 8}}, {ZT_U32, 2, {8, 4}}, {0, 0}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].at, sizeof rows[i].at);
    zt_fill fill = zt_dtype_is_float(rows[i].a.dtype) ? ZT_FILL_NORMAL : ZT_FILL_IDS;
    zt_case_type_in(test_case, 0, fill, &rows[i].a);
    zt_case_type_in(test_case, 1, fill, &rows[i].b);
    test_case->limit[0] = test_case->limit[1] = 120;
    return true;
}

/* y = A B: dA = dy B^T, dB = A^T dy, each transposed back where the operand was. */
static void matmul_vjp(zt_vjp *vjp)
{
    const zt_matmul_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int a = vjp->in[0], b = vjp->in[1], dy = vjp->dy[0];
    if (vjp->want[0]) {
        int da = attrs->ta ? zt_build_matmul(emit, b, dy, &(zt_matmul_attrs){attrs->tb, 1})
                           : zt_build_matmul(emit, dy, b, &(zt_matmul_attrs){0, !attrs->tb});
        vjp->dx[0] = zt_build_reduced(emit, da, a);
    }
    if (vjp->want[1]) {
        int db = attrs->tb ? zt_build_matmul(emit, dy, a, &(zt_matmul_attrs){1, attrs->ta})
                           : zt_build_matmul(emit, a, dy, &(zt_matmul_attrs){!attrs->ta, 0});
        vjp->dx[1] = zt_build_reduced(emit, db, b);
    }
}

const zt_opdef zt_op_matmul = {
    .synopsis = "y[...,n,m] = sum_k a[...,n,k] b[...,k,m]; ta=1: a is transposed, [...,k,n]; tb=1: b "
                "is transposed, [...,m,k]; batch dimensions broadcast as in NumPy; a, b and y of the "
                "same plain float or integer type; integers wrap",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = matmul_infer,
    .ref = matmul_ref,
    .flops = matmul_flops,
    .cases = matmul_cases,
    .vjp = matmul_vjp,
};
