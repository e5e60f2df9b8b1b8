/* argmax.c - rows of argmax and argmin along an axis. */
#include "lib/ops/lines.h"
#include "lib/ops/loops.h"

#include <math.h>

/* ---- argmax, argmin -------------------------------------------------------------------------- */

static zt_status argmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_argmax_attrs *argmax = attrs;
    const zt_type *x = in[0];
    zt_status status = zt_row_want_number(ctx, "x", x);
    if (!status) status = want_line_axis(ctx, argmax->axis, x);
    if (!status && argmax->keepdims != 0 && argmax->keepdims != 1)
        status = zt_row_fail(ctx, ZT_EUSAGE, "keepdims is %lld: must be 0 or 1", (long long)argmax->keepdims);
    if (status) return status;
    int at = (int)(argmax->axis < 0 ? argmax->axis + x->rank : argmax->axis);
    out[0] = zt_type_make(ZT_I32, 0, NULL);
    for (int d = 0; d < x->rank; d++)
        if (d != at || argmax->keepdims) out[0].dim[out[0].rank++] = d == at ? 1 : x->dim[d];
    return ZT_OK;
}

/* Of floats `inner` elements apart, where sign * x is largest. */
static int64_t best_float(double sign, const double *x, int64_t count, int64_t inner)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        double v = sign * x[i * inner];
        if (!isnan(v) && (best < 0 || v > sign * x[best * inner])) best = i;
    }
    return best < 0 ? 0 : best;
}

static int64_t best_integer(double sign, const int64_t *x, int64_t count, int64_t inner, int64_t flip)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        int64_t v = x[i * inner], held = x[best * inner];
        if (sign > 0 ? lesser(held, v, flip) : lesser(v, held, flip)) best = i;
    }
    return best;
}

static void arg_ref(int64_t axis, double sign, const zt_arg *in, zt_arg *out)
{
    lines along = lines_along(axis, in[0].type);
    for (int64_t r = 0; r < along.count; r++) {
        int64_t at = line_at(&along, along.n, r);
        out[0].i[r] = in[0].f ? best_float(sign, in[0].f + at, along.n, along.inner)
                              : best_integer(sign, in[0].i + at, along.n, along.inner, flip_of(in[0].type));
    }
}

static void argmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    arg_ref(((const zt_argmax_attrs *)attrs)->axis, 1, in, out);
}

static void argmin_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    arg_ref(((const zt_argmin_attrs *)attrs)->axis, -1, in, out);
}

static double argmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return (double)zt_type_count(in[0]);
}

static bool argmax_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_fill fill;
        zt_argmax_attrs a; /* axis, keepdims */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, ZT_FILL_NORMAL, {-1, 0}},   {{ZT_F32, 1, {100}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 2, {9, 1}}, ZT_FILL_NORMAL, {-1, 0}},    {{ZT_F32, 2, {65, 49}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 2, {1, 4921}}, ZT_FILL_NORMAL, {-1, 0}}, {{ZT_F32, 2, {3, 4096}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 3, {2, 3, 17}}, ZT_FILL_TIES, {-1, 0}},  {{ZT_F32, 2, {65, 1}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {-1, 0}},    {{ZT_F32, 3, {2, 33, 17}}, ZT_FILL_TIES, {-2, 0}},
        {{ZT_F32, 3, {5, 3, 40}}, ZT_FILL_TIES, {0, 1}},   {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {0, 0}},
        {{ZT_F64, 2, {3, 8}}, ZT_FILL_NORMAL, {1, 1}},     {{ZT_F16, 2, {3, 40}}, ZT_FILL_NORMAL, {0, 0}},
        {{ZT_I32, 2, {65, 49}}, ZT_FILL_IDS, {-1, 0}},     {{ZT_U64, 2, {5, 40}}, ZT_FILL_IDS, {0, 0}},
        {{ZT_I8, 3, {2, 3, 17}}, ZT_FILL_IDS, {1, 1}},     {{ZT_U8, 1, {33}}, ZT_FILL_IDS, {0, 0}},
        {{ZT_I64, 2, {4, 0}}, ZT_FILL_IDS, {1, 0}},        {{ZT_I16, 2, {4, 9}}, ZT_FILL_IDS, {-1, 0}},
        {{ZT_U16, 2, {4, 9}}, ZT_FILL_IDS, {-1, 0}},       {{ZT_U32, 2, {4, 9}}, ZT_FILL_IDS, {-1, 0}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, rows[i].fill, &rows[i].x);
    test_case->limit[0] = 9;
    return true;
}

#define ARG(WHICH)                                                                                                               \
    "i = where x is " WHICH " along `axis` (negative: from the end), keepdims=1 keeps it with "                                  \
    "size 1; any plain float or integer type to i32, ties to the lowest index; NaN never wins; 0 when all are "                  \
    "NaN or there are none"

const zt_opdef zt_op_argmax = {
    .synopsis = ARG("largest"),
    .n_required = 1,
    .infer = argmax_infer,
    .ref = argmax_ref,
    .flops = argmax_flops,
    .cases = argmax_cases,
};

const zt_opdef zt_op_argmin = {
    .synopsis = ARG("smallest"),
    .n_required = 1,
    .infer = argmax_infer,
    .ref = argmin_ref,
    .flops = argmax_flops,
    .cases = argmax_cases,
};
