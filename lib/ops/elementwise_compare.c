/* elementwise_compare.c - rows of comparisons, and of the questions what a float is: y is bool. */
#include "lib/ops/loops.h"

#include <math.h>

/* ---- comparisons ----------------------------------------------------------------------------- */

TEST(eq, "y = (a == b)", a == b, ZT_OPF_COMMUTATIVE, true)
TEST(ne, "y = (a != b)", a != b, ZT_OPF_COMMUTATIVE, true)
TEST(lt, "y = (a < b)", a < b, 0, true)
TEST(le, "y = (a <= b)", a <= b, 0, true)
TEST(gt, "y = (a > b)", a > b, 0, true)
TEST(ge, "y = (a >= b)", a >= b, 0, true)

/* ---- what is this float ---------------------------------------------------------------------- */

static zt_status is_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = zt_type_make(ZT_BOOL, in[0]->rank, in[0]->dim);
    return zt_row_want_float(ctx, "x", in[0]);
}

/* Whole numbers with a NaN now and then. */
static bool is_cases(int i, zt_case *test_case) { return zt_pairs_first(zt_pairs_float(i, ZT_FILL_TIES, test_case), test_case); }

static bool isinf_cases(int i, zt_case *test_case)
{
    static const zt_isinf_attrs ends[] = {{1, 1}, {0, 1}, {1, 0}};
    zt_case_attrs(test_case, &ends[i % 3], sizeof ends[0]);
    return is_cases(i / 3, test_case);
}

// clang-format off
#define ASKS(NAME, SYNOPSIS, EXPR, CASES)                                                          \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)        \
    {                                                                                              \
        const zt_##NAME##_attrs *a = attrs;                                                        \
        int64_t count = zt_type_count(out[0].type);                                                    \
        (void)a, (void)error;                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                          \
            double x = in[0].f[i];                                                                 \
            out[0].i[i] = EXPR;                                                                    \
        }                                                                                          \
    }                                                                                              \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS "; any plain float type, y bool",                                     \
        .n_required = 1,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE,                                                               \
        .infer = is_infer,                                                                         \
        .ref = NAME##_ref,                                                                         \
        .cases = CASES,                                                                            \
    };
// clang-format on
ASKS(isnan, "y[i] = (x[i] is NaN)", x != x, is_cases)
ASKS(isinf, "y[i] = (x[i] is infinite); negative=0 and positive=0 exclude a sign",
     isinf(x) && (x < 0 ? a->negative != 0 : a->positive != 0), isinf_cases)
ASKS(isfinite, "y[i] = (x[i] is finite)", isfinite(x) != 0, is_cases)
