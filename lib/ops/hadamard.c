/* hadamard.c - the row of rotations by a Hadamard matrix. Each column of what comes out is a mean of many that went in, with signs:
 * so a few large columns do not decide the scale of a quantized block (Ashkboos et al., "QuaRot", 2024). The matrix is
 * Sylvester's, symmetric and orthogonal: a second rotation is the way back, and products of rotated rows are those of the rows.
 */
#include "lib/ops/hadamard.h"
#include "lib/ops/vjp.h"

#include <math.h>

static zt_status hadamard_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_hadamard_attrs *hadamard = attrs;
    zt_status status = zt_row_want(ctx, "x", in[0], ZT_F32, -1);
    if (status) return status;
    if (hadamard->head < 0) return zt_row_fail(ctx, ZT_EUSAGE, "head is %lld: must be nonnegative", (long long)hadamard->head);
    if (in[0]->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x has no columns");
    if (hadamard->head && zt_row_cols(in[0]) % hadamard->head)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld columns are not a multiple of the head size %lld", (long long)zt_row_cols(in[0]),
                           (long long)hadamard->head);
    out[0] = *in[0];
    return ZT_OK;
}

/* x of `size` numbers by the matrix, without its scale. */
static void rotate_block(double *x, int64_t size)
{
    for (int64_t apart = 1; apart < size; apart *= 2)
        for (int64_t i = 0; i < size; i++) {
            if (i & apart) continue;
            double a = x[i], b = x[i + apart];
            x[i] = a + b;
            x[i + apart] = a - b;
        }
}

static void hadamard_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_hadamard_attrs *hadamard = attrs;
    const int64_t count = zt_type_count(in[0].type), columns = count ? zt_row_cols(in[0].type) : 1;
    const int64_t size = zt_hadamard_size(hadamard->head ? hadamard->head : columns);
    (void)error;
    for (int64_t i = 0; i < count; i++) out[0].f[i] = in[0].f[i] / sqrt((double)size);
    for (int64_t i = 0; i < count; i += size) rotate_block(out[0].f + i, size);
}

static double hadamard_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_hadamard_attrs *hadamard = attrs;
    const double count = (double)zt_type_count(out);
    return count > 0 ? count * (1 + log2((double)zt_hadamard_size(hadamard->head ? hadamard->head : zt_row_cols(in[0])))) : 0;
}

static bool hadamard_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t rows, columns, head;
    } rows[] = {{3, 192, 64},   {1, 128, 128}, {9, 256, 0}, {2, 512, 256}, {5, 96, 96}, {4, 24, 8},
                {2, 1152, 576}, {7, 33, 0},    {3, 18, 6},  {0, 64, 64},   {1, 1, 1},   {70, 40, 40}};
    if (i >= ZT_LEN(rows)) return false;
    zt_hadamard_attrs attrs = {rows[i].head};
    zt_case_attrs(test_case, &attrs, sizeof attrs);
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].rows, rows[i].columns});
    return true;
}

static void hadamard_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_hadamard(vjp->emit, vjp->dy[0], vjp->attrs); }

const zt_opdef zt_op_hadamard = {
    .synopsis =
        "y = x H, for each `size` columns by themselves: H[i,j] = (-1)^popcount(i and j) / sqrt(size), size the largest "
        "power of two that divides head (0: the columns of a row); x f32, its columns a multiple of head; its own inverse",
    .n_required = 1,
    .flags = ZT_OPF_SUMS,
    .infer = hadamard_infer,
    .ref = hadamard_ref,
    .flops = hadamard_flops,
    .cases = hadamard_cases,
    .vjp = hadamard_vjp,
};
