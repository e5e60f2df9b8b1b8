/* scan.c - rows of the running sums and products along an axis. */
#include "lib/ops/lines.h"
#include "lib/ops/vjp.h"

/* ---- cumsum ---------------------------------------------------------------------------------- */

static zt_status cumsum_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_cumsum_attrs *cumsum = attrs;
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    if (status) return status;
    if ((cumsum->exclusive != 0 && cumsum->exclusive != 1) || (cumsum->reverse != 0 && cumsum->reverse != 1))
        return zt_row_fail(ctx, ZT_EUSAGE, "exclusive and reverse must be 0 or 1");
    out[0] = *in[0];
    return want_line_axis(ctx, cumsum->axis, in[0]);
}

static void cumsum_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_cumsum_attrs *cumsum = attrs;
    lines along = lines_along(cumsum->axis, in[0].type);
    (void)error;
    for (int64_t r = 0; r < along.count; r++) {
        double sum = 0;
        uint64_t isum = 0;
        for (int64_t i = 0; i < along.n; i++) {
            int64_t at = line_at(&along, along.n, r) + (cumsum->reverse ? along.n - 1 - i : i) * along.inner;
            double x = in[0].f ? in[0].f[at] : 0;
            uint64_t ix = in[0].f ? 0 : (uint64_t)in[0].i[at];
            if (in[0].f)
                out[0].f[at] = cumsum->exclusive ? sum : sum + x;
            else
                out[0].i[at] = (int64_t)(cumsum->exclusive ? isum : isum + ix);
            sum += x;
            isum += ix;
        }
    }
}

static bool cumsum_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_cumsum_attrs a; /* axis, exclusive, reverse */
    } rows[] = {
        {{ZT_F32, 1, {33}}, {-1, 0, 0}},     {{ZT_F32, 2, {2, 33}}, {1, 1, 0}},    {{ZT_F32, 2, {9, 40}}, {0, 0, 1}},
        {{ZT_F32, 3, {2, 5, 7}}, {1, 1, 1}}, {{ZT_F32, 2, {3, 5000}}, {-1, 0, 0}}, {{ZT_F32, 3, {2, 300, 33}}, {1, 0, 0}},
        {{ZT_F32, 2, {0, 5}}, {0, 0, 0}},    {{ZT_F32, 1, {1}}, {0, 1, 0}},        {{ZT_F64, 2, {3, 5}}, {0, 0, 0}},
        {{ZT_F16, 2, {3, 40}}, {1, 0, 0}},   {{ZT_I32, 2, {3, 5}}, {1, 0, 0}},     {{ZT_I64, 2, {3, 5}}, {0, 1, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    return true;
}

static void cumsum_vjp(zt_vjp *vjp)
{
    const zt_cumsum_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_cumsum(vjp->emit, vjp->dy[0], &(zt_cumsum_attrs){attrs->axis, attrs->exclusive, !attrs->reverse});
}

const zt_opdef zt_op_cumsum = {
    .synopsis = "y[...,i,...] = the sum of x up to i along `axis` (negative: from the end); "
                "exclusive=1 excludes i, reverse=1 sums from the end; any plain float or integer "
                "type, y has the type of x",
    .n_required = 1,
    .infer = cumsum_infer,
    .ref = cumsum_ref,
    .cases = cumsum_cases,
    .vjp = cumsum_vjp,
};

/* ---- cumprod --------------------------------------------------------------------------------- */

static zt_status cumprod_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_cumprod_attrs *cumprod = attrs;
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    if (status) return status;
    if ((cumprod->exclusive != 0 && cumprod->exclusive != 1) || (cumprod->reverse != 0 && cumprod->reverse != 1))
        return zt_row_fail(ctx, ZT_EUSAGE, "exclusive and reverse must be 0 or 1");
    out[0] = *in[0];
    return zt_row_axis(ctx, cumprod->axis, in[0]->rank);
}

static void cumprod_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_cumprod_attrs *cumprod = attrs;
    lines along = lines_along(cumprod->axis, in->type);
    (void)error;
    for (int64_t r = 0; r < along.count; r++) {
        double f = 1;
        uint64_t n = 1;
        for (int64_t i = 0; i < along.n; i++) {
            int64_t at = line_at(&along, along.n, r) + (cumprod->reverse ? along.n - 1 - i : i) * along.inner;
            double old = f;
            uint64_t was = n;
            if (out->f) f *= in->f[at];
            if (out->f) out->f[at] = cumprod->exclusive ? old : f;
            if (out->i) n *= (uint64_t)in->i[at];
            if (out->i) out->i[at] = zt_row_wrap(out->type->dtype, cumprod->exclusive ? was : n);
        }
    }
}

static bool cumprod_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_cumprod_attrs a; /* axis, exclusive, reverse */
    } rows[] = {
        {{ZT_F32, 1, {33}}, {-1, 0, 0}},     {{ZT_F32, 2, {2, 33}}, {1, 1, 0}},     {{ZT_F32, 2, {9, 40}}, {0, 0, 1}},
        {{ZT_F32, 3, {2, 5, 7}}, {1, 1, 1}}, {{ZT_F32, 3, {2, 30, 33}}, {1, 0, 0}}, {{ZT_F32, 2, {0, 5}}, {0, 0, 0}},
        {{ZT_F32, 1, {1}}, {0, 1, 0}},       {{ZT_F64, 2, {3, 5}}, {0, 0, 0}},      {{ZT_F16, 2, {3, 10}}, {1, 0, 0}},
        {{ZT_I32, 2, {3, 5}}, {1, 0, 0}},    {{ZT_U8, 2, {3, 5}}, {1, 0, 1}},       {{ZT_I64, 2, {3, 5}}, {0, 1, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_POSITIVE, 9, &rows[i].x);
    return true;
}

/* dx_i = sum over j of dy_j y_j / x_i, where x_i is a factor of y_j. (Not at zeros: NaN.) */
static void cumprod_vjp(zt_vjp *vjp)
{
    const zt_cumprod_attrs *attrs = vjp->attrs;
    int share = zt_build_cumsum(vjp->emit, zt_build_mul(vjp->emit, vjp->dy[0], vjp->out[0]),
                                &(zt_cumsum_attrs){attrs->axis, attrs->exclusive, !attrs->reverse});
    vjp->dx[0] = zt_build_div(vjp->emit, share, vjp->in[0]);
}

const zt_opdef zt_op_cumprod = {
    .synopsis = "y[...,i,...] = the product of x up to i along `axis` (negative: from the end); "
                "exclusive=1 excludes i, reverse=1 multiplies from the end; any plain float or "
                "integer type, y has the type of x; the gradient divides by x",
    .n_required = 1,
    .infer = cumprod_infer,
    .ref = cumprod_ref,
    .cases = cumprod_cases,
    .vjp = cumprod_vjp,
};
