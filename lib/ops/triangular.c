/* triangular.c - rows of tril and triu. */
#include "lib/ops/vjp.h"

static zt_status tril_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    if (status || in[0]->rank >= 2) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "x must have at least 2 dimensions");
}

/* sign 1: entries up to the diagonal stay; -1: those from it on. */
static void keep_triangle(int sign, int64_t diagonal, const zt_arg *in, zt_arg *out)
{
    int64_t m = in->type->dim[in->type->rank - 1], n = in->type->dim[in->type->rank - 2];
    for (int64_t i = 0, all = zt_type_count(in->type); i < all; i++) {
        int64_t past = i % m - i / m % n; /* right of the main diagonal */
        if (sign > 0 ? past <= diagonal : past >= diagonal)
            zt_row_move(in, i, out, i);
        else
            zt_row_zero(out, i);
    }
}

static void tril_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    keep_triangle(1, ((const zt_tril_attrs *)attrs)->diagonal, in, out);
}

static void triu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    keep_triangle(-1, ((const zt_triu_attrs *)attrs)->diagonal, in, out);
}

static bool tril_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_tril_attrs a;
    } rows[] = {
        {{ZT_F32, 2, {5, 5}}, {0}},        {{ZT_F32, 2, {3, 7}}, {2}},      {{ZT_F32, 2, {7, 3}}, {-2}},
        {{ZT_F32, 3, {2, 33, 40}}, {-40}}, {{ZT_F32, 3, {2, 33, 40}}, {1}}, {{ZT_F32, 3, {2, 3, 4}}, {100}},
        {{ZT_F32, 2, {0, 4}}, {0}},        {{ZT_F16, 2, {5, 33}}, {1}},     {{ZT_F64, 2, {5, 4}}, {0}},
        {{ZT_I64, 2, {4, 5}}, {0}},        {{ZT_BOOL, 2, {4, 5}}, {1}},     {{ZT_U16, 2, {4, 5}}, {-1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 9, &rows[i].x);
    return true;
}

static void tril_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_tril(vjp->emit, vjp->dy[0], vjp->attrs); }

static void triu_vjp(zt_vjp *vjp) { vjp->dx[0] = zt_build_triu(vjp->emit, vjp->dy[0], vjp->attrs); }

// clang-format off
#define TRIANGLE(NAME, WHICH)                                                                      \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = "y[...,r,c] = x[...,r,c] where c - r " WHICH " `diagonal`, else 0; any but "   \
                    "block types, y has the type of x",                                                      \
        .n_required = 1,                                                                           \
        .infer = tril_infer,                                                                       \
        .ref = NAME##_ref,                                                                         \
        .flops = zt_row_no_flops,                                                                  \
        .cases = tril_cases,                                                                       \
        .vjp = NAME##_vjp,                                                                         \
    };
// clang-format on
TRIANGLE(tril, "<=")
TRIANGLE(triu, ">=")
