/* slice.c - rows of the ops that take a part of an axis, or put one into zeros. */
#include "lib/ops/vjp.h"

#include <string.h>

/* ---- slice ----------------------------------------------------------------------------------- */

/* The slice's bounds in x, with those from the end made plain; false: there is no such slice. */
static bool slice_bounds(const zt_slice_attrs *attrs, const zt_type *x, int *axis, int64_t *from, int64_t *to)
{
    if (attrs->axis < -x->rank || attrs->axis >= x->rank) return false;
    *axis = (int)(attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis);
    int64_t n = x->dim[*axis];
    if (attrs->from < -n || attrs->from > n || attrs->to < -n || attrs->to > n) return false;
    *from = attrs->from < 0 ? attrs->from + n : attrs->from;
    *to = attrs->to <= 0 ? attrs->to + n : attrs->to;
    return *from <= *to;
}

static zt_status slice_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_slice_attrs *slice = attrs;
    int axis;
    int64_t from, to;
    zt_status status = zt_row_want_plain(ctx, "x", in[0]);
    if (status) return status;
    if (!slice_bounds(slice, in[0], &axis, &from, &to))
        return zt_row_fail(ctx, ZT_ESHAPE, "slice from %lld to %lld is out of range along axis %lld", (long long)slice->from,
                           (long long)slice->to, (long long)slice->axis);
    out[0] = *in[0];
    out[0].dim[axis] = to - from;
    return ZT_OK;
}

static void slice_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_type *x = in[0].type, *y = out[0].type;
    int axis;
    int64_t from, to, inner = 1, outer = 1;
    (void)error;
    slice_bounds(attrs, x, &axis, &from, &to);
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t o = 0, n = y->dim[axis] * inner; o < outer; o++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (o * x->dim[axis] + from) * inner + i;
            if (out[0].f)
                out[0].f[o * n + i] = in[0].f[at];
            else
                out[0].i[o * n + i] = in[0].i[at];
        }
}

static bool slice_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_slice_attrs a; /* axis, from, to */
    } rows[] = {
        {{ZT_F32, 2, {9, 96}}, {1, 32, 64}}, {{ZT_F32, 2, {9, 99}}, {1, 33, 0}},     {{ZT_F32, 2, {9, 40}}, {0, 2, 7}},
        {{ZT_F32, 3, {3, 5, 7}}, {1, 1, 4}}, {{ZT_F32, 3, {3, 5, 7}}, {-1, -4, -1}}, {{ZT_F16, 2, {4, 33}}, {1, 1, 32}},
        {{ZT_BF16, 1, {33}}, {0, 5, 6}},     {{ZT_I32, 2, {4, 6}}, {0, 0, 0}},       {{ZT_F32, 2, {2, 2048}}, {1, 0, 1500}},
        {{ZT_F32, 2, {4, 6}}, {1, 3, 3}},    {{ZT_F32, 2, {0, 6}}, {1, 1, 3}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, rows[i].x.dtype == ZT_I32 ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    test_case->limit[0] = 1000;
    return true;
}

static void slice_vjp(zt_vjp *vjp)
{
    const zt_slice_attrs *attrs = vjp->attrs;
    zt_slice_put_attrs put = {attrs->axis, attrs->from, attrs->to};
    vjp->dx[0] = zt_build_slice_put(vjp->emit, vjp->dy[0], vjp->in[0], &put);
}

const zt_opdef zt_op_slice = {
    .synopsis = "y[...,i,...] = x[...,from+i,...] up to `to` (exclusive) along `axis`; negative "
                "values of all three count from the end, and to=0 is the end; any but block types, y "
                "has the type of x",
    .n_required = 1,
    .infer = slice_infer,
    .ref = slice_ref,
    .flops = zt_row_no_flops,
    .cases = slice_cases,
    .vjp = slice_vjp,
};

/* ---- slice_put: what slice's gradient is ----------------------------------------------------- */

static zt_status slice_put_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type part;
    const zt_type *like = in[1];
    zt_status status = slice_infer(ctx, attrs, &like, &part);
    if (status) return status;
    out[0] = zt_type_make(in[0]->dtype, like->rank, like->dim);
    part.dtype = in[0]->dtype;
    if (zt_type_equal(&part, in[0])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x must have the shape of the slice");
}

static void slice_put_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_type *x = in[0].type, *y = out[0].type;
    const zt_slice_put_attrs *put = attrs;
    zt_slice_attrs a = {put->axis, put->from, put->to};
    int axis;
    int64_t from, to, inner = 1, outer = 1;
    (void)error;
    slice_bounds(&a, y, &axis, &from, &to);
    for (int d = 0; d < axis; d++) outer *= y->dim[d];
    for (int d = axis + 1; d < y->rank; d++) inner *= y->dim[d];
    memset(out[0].f ? (void *)out[0].f : out[0].i, 0, (size_t)zt_type_count(y) * 8);
    for (int64_t o = 0, n = x->dim[axis] * inner; o < outer; o++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (o * y->dim[axis] + from) * inner + i;
            if (out[0].f)
                out[0].f[at] = in[0].f[o * n + i];
            else
                out[0].i[at] = in[0].i[o * n + i];
        }
}

static bool slice_put_cases(int i, zt_case *test_case)
{
    const zt_type *like = &test_case->in[1];
    if (!slice_cases(i, test_case)) return false;
    test_case->in[1] = test_case->in[0];
    test_case->fill[1] = test_case->fill[0];
    test_case->limit[1] = test_case->limit[0];
    return slice_infer(NULL, test_case->attrs, &like, &test_case->in[0]) == ZT_OK;
}

static void slice_put_vjp(zt_vjp *vjp)
{
    const zt_slice_put_attrs *attrs = vjp->attrs;
    zt_slice_attrs part = {attrs->axis, attrs->from, attrs->to};
    vjp->dx[0] = zt_build_slice(vjp->emit, vjp->dy[0], &part);
}

const zt_opdef zt_op_slice_put = {
    .synopsis = "y = zeros in the shape of like and the type of x, except y[...,from+i,...] = "
                "x[...,i,...] up to `to` along `axis`, as in slice; any but block types",
    .n_required = 2,
    .infer = slice_put_infer,
    .ref = slice_put_ref,
    .flops = zt_row_no_flops,
    .cases = slice_put_cases,
    .vjp = slice_put_vjp,
    .constant = 2,
};

/* ---- slice_step, slice_step_put -------------------------------------------------------------- */

typedef zt_slice_step_attrs step_attrs; /* both ops' */

/* How many entries there are, the first being *from of n; -1: they are not all there. */
static int64_t steps_of(const step_attrs *a, int64_t n, int64_t *from)
{
    *from = a->from < 0 ? a->from + n : a->from;
    int64_t step = a->step, room = step > 0 ? n - 1 - *from : *from; /* entries past the first */
    if (step == 0 || step < -INT64_MAX || a->count < 0) return -1;
    if (n == 0 && a->count == 0) return 0;
    if (*from < 0 || *from >= n) return -1;
    int64_t fit = room / (step > 0 ? step : -step) + 1;
    return a->count == 0 ? fit : a->count <= fit ? a->count : -1;
}

static zt_status step_type(zt_ctx *ctx, const step_attrs *a, const zt_type *x, zt_type *y)
{
    int64_t from, count;
    zt_status status = zt_row_want_plain(ctx, "x", x);
    if (!status) status = zt_row_axis(ctx, a->axis, x->rank);
    if (status) return status;
    int at = zt_plain_axis(a->axis, x->rank);
    count = steps_of(a, x->dim[at], &from);
    if (count < 0)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld entries from %lld with step %lld are out of range for an axis of %lld",
                           (long long)a->count, (long long)a->from, (long long)a->step, (long long)x->dim[at]);
    *y = *x;
    y->dim[at] = count;
    return ZT_OK;
}

static zt_status slice_step_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return step_type(ctx, attrs, in[0], &out[0]);
}

/* Every element of `part`, and where it is in `whole`. */
static void walk_steps(const step_attrs *a, const zt_arg *whole, const zt_arg *part, bool into)
{
    int at = zt_plain_axis(a->axis, whole->type->rank);
    int64_t inner = 1, from, n = whole->type->dim[at], count = part->type->dim[at];
    zt_arg w = *whole, p = *part;
    steps_of(a, n, &from);
    for (int d = at + 1; d < whole->type->rank; d++) inner *= whole->type->dim[d];
    for (int64_t i = 0, all = zt_type_count(part->type); i < all; i++) {
        int64_t outer = i / inner / count, k = i / inner % count;
        int64_t there = (outer * n + from + k * a->step) * inner + i % inner;
        if (into)
            zt_row_move(&p, i, &w, there);
        else
            zt_row_move(&w, there, &p, i);
    }
}

static void slice_step_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    walk_steps(attrs, &in[0], &out[0], false);
}

static bool slice_step_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        step_attrs a; /* axis, from, step, count */
    } rows[] = {
        {{ZT_F32, 1, {9}}, {0, 0, 2, 0}},          {{ZT_F32, 1, {9}}, {0, -1, -1, 0}},
        {{ZT_F32, 2, {9, 40}}, {0, 1, 3, 2}},      {{ZT_F32, 2, {9, 40}}, {-1, 38, -5, 0}},
        {{ZT_F32, 3, {3, 5, 7}}, {1, -1, -2, 3}},  {{ZT_F32, 3, {3, 5, 7}}, {1, 2, 100, 0}},
        {{ZT_F32, 2, {0, 6}}, {1, 1, 2, 2}},       {{ZT_F32, 2, {4, 0}}, {1, 0, 1, 0}},
        {{ZT_F32, 2, {65, 1000}}, {1, -1, -1, 0}}, {{ZT_F16, 2, {4, 33}}, {1, 1, 2, 0}},
        {{ZT_F64, 2, {4, 5}}, {0, 3, -1, 0}},      {{ZT_I64, 2, {4, 6}}, {0, 0, 3, 0}},
        {{ZT_U8, 2, {4, 6}}, {1, 5, -2, 0}},       {{ZT_BOOL, 1, {9}}, {0, 1, 1, 5}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_plain_in(test_case, 0, ZT_FILL_NORMAL, 100, &rows[i].x);
    return true;
}

static zt_slice_step_put_attrs put_attrs(const step_attrs *a)
{
    return (zt_slice_step_put_attrs){a->axis, a->from, a->step, a->count};
}

static void slice_step_vjp(zt_vjp *vjp)
{
    zt_slice_step_put_attrs a = put_attrs(vjp->attrs);
    vjp->dx[0] = zt_build_slice_step_put(vjp->emit, vjp->dy[0], vjp->in[0], &a);
}

const zt_opdef zt_op_slice_step = {
    .synopsis = "y[...,k,...] = x[...,from + k step,...] along `axis` for k < `count` (0: as many as "
                "there are); a negative from counts from the end, step=-1 reverses; any but block "
                "types, y has the type of x",
    .n_required = 1,
    .infer = slice_step_infer,
    .ref = slice_step_ref,
    .flops = zt_row_no_flops,
    .cases = slice_step_cases,
    .vjp = slice_step_vjp,
};

static zt_status slice_step_put_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type part, whole = *in[1];
    whole.dtype = in[0]->dtype;
    zt_status status = step_type(ctx, attrs, &whole, &part);
    out[0] = whole;
    if (status || zt_type_equal(&part, in[0])) return status;
    char text[ZT_TYPE_TEXT];
    return zt_row_fail(ctx, ZT_ESHAPE, "x must have type %s: the selected entries of like", zt_type_text(&part, text));
}

static void slice_step_put_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    for (int64_t i = 0, n = zt_type_count(out->type); i < n; i++) zt_row_zero(&out[0], i);
    walk_steps(attrs, &out[0], &in[0], true);
}

static bool slice_step_put_cases(int i, zt_case *test_case)
{
    if (!slice_step_cases(i, test_case)) return false;
    zt_type part;
    test_case->in[1] = test_case->in[0];
    test_case->fill[1] = ZT_FILL_ZERO;
    if (step_type(NULL, (const step_attrs *)test_case->attrs, &test_case->in[1], &part)) return false;
    test_case->in[0] = part;
    return true;
}

static void slice_step_put_vjp(zt_vjp *vjp)
{
    const zt_slice_step_put_attrs *attrs = vjp->attrs;
    zt_type x = vjp->emit->type(vjp->emit->user, vjp->in[0]);
    int64_t known = x.dim[zt_plain_axis(attrs->axis, x.rank)];
    step_attrs back = {attrs->axis, attrs->from, attrs->step, known > 0 ? known : attrs->count};
    vjp->dx[0] = known == 0 ? zt_build_fill_like(vjp->emit, vjp->in[0], &(zt_fill_like_attrs){0})
                            : zt_build_slice_step(vjp->emit, vjp->dy[0], &back);
}

const zt_opdef zt_op_slice_step_put = {
    .synopsis = "y = zeros in the shape of like and the type of x, except y[...,from + k step,...] = "
                "x[...,k,...] along `axis`, as in slice_step; any but block types",
    .n_required = 2,
    .infer = slice_step_put_infer,
    .ref = slice_step_put_ref,
    .flops = zt_row_no_flops,
    .cases = slice_step_put_cases,
    .vjp = slice_step_put_vjp,
    .constant = 2,
};
