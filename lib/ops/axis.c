/* axis.c - rows of the ops that go along one axis: argmax, argmin, softmax, log_softmax, cumsum. */
#include "lib/ops/vjp.h"

#include <math.h>

/* The lines along an axis: line l has its k-th entry at line_at(l) + k * inner. */
typedef struct lines {
    int64_t n, inner, count; /* entries of a line, from one to the next, how many lines */
} lines;

static zt_status want_axis(zt_ctx *ctx, int64_t axis, const zt_type *x)
{
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    if (axis >= -x->rank && axis < x->rank) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld of %d dimensions", (long long)axis, x->rank);
}

static lines lines_along(int64_t axis, const zt_type *x)
{
    lines l = {.inner = 1, .count = 1};
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    l.n = x->dim[at];
    for (int d = 0; d < x->rank; d++) {
        if (d != at) l.count *= x->dim[d];
        if (d > at) l.inner *= x->dim[d];
    }
    return l;
}

static int64_t line_at(const lines *l, int64_t i)
{
    return i / l->inner * l->n * l->inner + i % l->inner;
}

/* ---- argmax, argmin -------------------------------------------------------------------------- */

static zt_status argmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                              zt_type out[])
{
    const zt_argmax_attrs *a = attrs;
    const zt_type *x = in[0];
    zt_status s = zt_row_want_float(ctx, "x", x);
    if (!s) s = want_axis(ctx, a->axis, x);
    if (!s && a->keepdims != 0 && a->keepdims != 1)
        s = zt_row_fail(ctx, ZT_EUSAGE, "keepdims is %lld, not 0 or 1", (long long)a->keepdims);
    if (s) return s;
    int at = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    out[0] = zt_type_make(ZT_I32, 0, NULL);
    for (int d = 0; d < x->rank; d++)
        if (d != at || a->keepdims) out[0].dim[out[0].rank++] = d == at ? 1 : x->dim[d];
    return ZT_OK;
}

/* Where sign * x is largest. */
static void arg_ref(int64_t axis, double sign, const zt_arg *in, zt_arg *out)
{
    lines l = lines_along(axis, in[0].type);
    for (int64_t r = 0; r < l.count; r++) {
        const double *x = in[0].f + line_at(&l, r);
        int64_t best = -1;
        for (int64_t i = 0; i < l.n; i++) {
            double v = sign * x[i * l.inner];
            if (!isnan(v) && (best < 0 || v > sign * x[best * l.inner])) best = i;
        }
        out[0].i[r] = best < 0 ? 0 : best;
    }
}

static void argmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)t;
    arg_ref(((const zt_argmax_attrs *)attrs)->axis, 1, in, out);
}

static void argmin_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    (void)t;
    arg_ref(((const zt_argmin_attrs *)attrs)->axis, -1, in, out);
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
        zt_argmax_attrs a; /* axis, keepdims */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 1, {100}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 2, {9, 1}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 2, {65, 49}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 2, {1, 4921}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 2, {3, 4096}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 3, {2, 3, 17}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 2, {65, 1}}, ZT_FILL_TIES, {-1, 0}},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {-1, 0}},
        {{ZT_F32, 3, {2, 33, 17}}, ZT_FILL_TIES, {-2, 0}},
        {{ZT_F32, 3, {5, 3, 40}}, ZT_FILL_TIES, {0, 1}},
        {{ZT_F32, 2, {0, 8}}, ZT_FILL_NORMAL, {0, 0}},
        {{ZT_F64, 2, {3, 8}}, ZT_FILL_NORMAL, {1, 1}},
        {{ZT_F16, 2, {3, 40}}, ZT_FILL_NORMAL, {0, 0}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(c, 0, rows[i].fill, &rows[i].x);
    return true;
}

#define ARG(WHICH)                                                                                 \
    "i = where x is " WHICH " along `axis` (below 0 from the end), keepdims=1 leaves 1 where it "  \
    "was; any plain float type to i32, ties to the lowest index; NaN never wins; 0 when all are "  \
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

/* ---- softmax, log_softmax -------------------------------------------------------------------- */

/* Of the ops here whose attributes begin with an axis, and whose y is like x. */
static zt_status along_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                             zt_type out[])
{
    zt_status s = zt_row_want_float(ctx, "x", in[0]);
    out[0] = *in[0];
    return s ? s : want_axis(ctx, ((const zt_softmax_attrs *)attrs)->axis, in[0]);
}

static double line_top(const lines *l, const double *x)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < l->n; i++) top = x[i * l->inner] > top ? x[i * l->inner] : top;
    return top;
}

static void softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    lines l = lines_along(((const zt_softmax_attrs *)attrs)->axis, in[0].type);
    (void)t;
    for (int64_t r = 0; r < l.count; r++) {
        const double *x = in[0].f + line_at(&l, r);
        double *y = out[0].f + line_at(&l, r), top = line_top(&l, x), sum = 0;
        for (int64_t i = 0; i < l.n; i++) sum += y[i * l.inner] = exp(x[i * l.inner] - top);
        for (int64_t i = 0; i < l.n; i++) y[i * l.inner] /= sum;
    }
}

static void log_softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    lines l = lines_along(((const zt_log_softmax_attrs *)attrs)->axis, in[0].type);
    (void)t;
    for (int64_t r = 0; r < l.count; r++) {
        const double *x = in[0].f + line_at(&l, r);
        double *y = out[0].f + line_at(&l, r), top = line_top(&l, x), sum = 0;
        for (int64_t i = 0; i < l.n; i++) sum += exp(x[i * l.inner] - top);
        sum = log(sum);
        for (int64_t i = 0; i < l.n; i++) y[i * l.inner] = x[i * l.inner] - top - sum;
    }
}

static double softmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 10 * (double)zt_type_count(out);
}

static bool softmax_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_softmax_attrs a;
    } more[] = {
        {{ZT_F32, 2, {2, 4921}}, {-1}},      {{ZT_F32, 2, {5, 1}}, {-1}},
        {{ZT_F32, 3, {3, 33, 5}}, {1}},      {{ZT_F32, 3, {3, 7, 40}}, {-3}},
        {{ZT_F32, 3, {2, 1000, 19}}, {-2}},  {{ZT_F32, 2, {0, 5}}, {0}},
        {{ZT_F64, 2, {3, 5}}, {1}},          {{ZT_F16, 2, {3, 40}}, {1}},
        {{ZT_BF16, 2, {3, 40}}, {0}},
    };
    zt_case_type t;
    int n = 0;
    while (zt_case_shape(n, 1, &t)) n++;
    if (i >= n + ZT_LEN(more)) return false;
    if (i >= n) {
        t = more[i - n].x;
        zt_case_attrs(c, &more[i - n].a, sizeof more[i - n].a);
    } else {
        zt_case_shape(i, 1, &t);
    }
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &t);
    return true;
}

/* The sum along the axis, which stays as 1 and is repeated by what comes next. */
static int line_sum(const zt_vjp *v, int x)
{
    int64_t axis = ((const zt_softmax_attrs *)v->attrs)->axis;
    return zt_build_sum(v->e, x, &(zt_sum_attrs){{1, {axis}}, 1});
}

static void softmax_vjp(zt_vjp *v)
{
    const zt_emit *e = v->e;
    int y = v->out[0], dy = v->dy[0];
    v->dx[0] = zt_build_mul(e, y, zt_build_sub(e, dy, line_sum(v, zt_build_mul(e, y, dy))));
}

static void log_softmax_vjp(zt_vjp *v)
{
    const zt_emit *e = v->e;
    int y = v->out[0], dy = v->dy[0];
    v->dx[0] = zt_build_sub(e, dy, zt_build_mul(e, zt_build_exp(e, y), line_sum(v, dy)));
}

const zt_opdef zt_op_softmax = {
    .synopsis = "y[...,i,...] = exp(x[...,i,...] - max) / sum along `axis` (below 0 from the end); "
                "any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = along_infer,
    .ref = softmax_ref,
    .flops = softmax_flops,
    .cases = softmax_cases,
    .vjp = softmax_vjp,
};

const zt_opdef zt_op_log_softmax = {
    .synopsis = "y[...,i,...] = x[...,i,...] - max - ln sum exp(x - max) along `axis` (below 0 from "
                "the end); any plain float type, y has x's",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = along_infer,
    .ref = log_softmax_ref,
    .flops = softmax_flops,
    .cases = softmax_cases,
    .vjp = log_softmax_vjp,
};

/* ---- cumsum ---------------------------------------------------------------------------------- */

static zt_status cumsum_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                              zt_type out[])
{
    const zt_cumsum_attrs *a = attrs;
    char kind = zt_dtype_get(in[0]->dtype)->kind;
    if (kind != 'F' && kind != 'I' && kind != 'U')
        return zt_row_fail(ctx, ZT_ESHAPE, "x is %s, not a plain float or integer type",
                           zt_dtype_get(in[0]->dtype)->name);
    if ((a->exclusive != 0 && a->exclusive != 1) || (a->reverse != 0 && a->reverse != 1))
        return zt_row_fail(ctx, ZT_EUSAGE, "exclusive and reverse are 0 or 1");
    out[0] = *in[0];
    return want_axis(ctx, a->axis, in[0]);
}

static void cumsum_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_cumsum_attrs *a = attrs;
    lines l = lines_along(a->axis, in[0].type);
    (void)t;
    for (int64_t r = 0; r < l.count; r++) {
        double sum = 0;
        uint64_t isum = 0;
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = line_at(&l, r) + (a->reverse ? l.n - 1 - i : i) * l.inner;
            double x = in[0].f ? in[0].f[at] : 0;
            uint64_t ix = in[0].f ? 0 : (uint64_t)in[0].i[at];
            if (in[0].f)
                out[0].f[at] = a->exclusive ? sum : sum + x;
            else
                out[0].i[at] = (int64_t)(a->exclusive ? isum : isum + ix);
            sum += x;
            isum += ix;
        }
    }
}

static bool cumsum_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_cumsum_attrs a; /* axis, exclusive, reverse */
    } rows[] = {
        {{ZT_F32, 1, {33}}, {-1, 0, 0}},       {{ZT_F32, 2, {2, 33}}, {1, 1, 0}},
        {{ZT_F32, 2, {9, 40}}, {0, 0, 1}},     {{ZT_F32, 3, {2, 5, 7}}, {1, 1, 1}},
        {{ZT_F32, 2, {3, 5000}}, {-1, 0, 0}},  {{ZT_F32, 3, {2, 300, 33}}, {1, 0, 0}},
        {{ZT_F32, 2, {0, 5}}, {0, 0, 0}},      {{ZT_F32, 1, {1}}, {0, 1, 0}},
        {{ZT_F64, 2, {3, 5}}, {0, 0, 0}},      {{ZT_F16, 2, {3, 40}}, {1, 0, 0}},
        {{ZT_I32, 2, {3, 5}}, {1, 0, 0}},      {{ZT_I64, 2, {3, 5}}, {0, 1, 1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    bool is_int = zt_dtype_get(rows[i].x.dtype)->kind != 'F';
    zt_case_type_in(c, 0, is_int ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    c->limit[0] = 100;
    return true;
}

static void cumsum_vjp(zt_vjp *v)
{
    const zt_cumsum_attrs *a = v->attrs;
    v->dx[0] = zt_build_cumsum(v->e, v->dy[0],
                           &(zt_cumsum_attrs){a->axis, a->exclusive, !a->reverse});
}

const zt_opdef zt_op_cumsum = {
    .synopsis = "y[...,i,...] = the sum of x up to i along `axis` (below 0 from the end); exclusive=1 "
                "without i, reverse=1 from the end; any plain float or integer type, y has x's",
    .n_required = 1,
    .infer = cumsum_infer,
    .ref = cumsum_ref,
    .cases = cumsum_cases,
    .vjp = cumsum_vjp,
};
