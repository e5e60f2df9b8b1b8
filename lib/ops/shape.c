/* shape.c - rows of the ops that move elements, or look at the same bytes in another way. */
#include "lib/ops/vjp.h"

#include <string.h>

static zt_status reshape_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                               zt_type out[])
{
    const zt_reshape_attrs *a = attrs;
    if (a->shape.n < 0 || a->shape.n > ZT_MAX_RANK)
        return zt_row_fail(ctx, ZT_EUSAGE, "shape has %lld dimensions, at most %d are possible",
                           (long long)a->shape.n, ZT_MAX_RANK);
    int64_t count = 1;
    bool empty = false;
    for (int64_t d = 0; d < a->shape.n; d++) {
        if (a->shape.dim[d] < 0)
            return zt_row_fail(ctx, ZT_ESHAPE, "dimension %lld of shape is negative", (long long)d);
        if (a->shape.dim[d] == 0)
            empty = true;
        else if (!zt_mul_i64(count, a->shape.dim[d], &count))
            return zt_row_fail(ctx, ZT_ESHAPE, "the elements of shape cannot be counted");
    }
    if (empty) count = 0;
    if (count != zt_type_count(in[0]))
        return zt_row_fail(ctx, ZT_ESHAPE, "shape has %lld elements, x %lld", (long long)count,
                           (long long)zt_type_count(in[0]));
    out[0] = zt_type_make(in[0]->dtype, (int)a->shape.n, a->shape.dim);
    return ZT_OK;
}

static bool reshape_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_dims shape;
    } rows[] = {
        {{ZT_F32, 2, {4, 6}}, {3, {2, 3, 4}}}, {{ZT_F32, 3, {2, 3, 4}}, {1, {24}}},
        {{ZT_F32, 1, {1}}, {0, {0}}},          {{ZT_F32, 2, {0, 6}}, {3, {3, 0, 5}}},
        {{ZT_F16, 2, {3, 33}}, {1, {99}}},     {{ZT_I32, 1, {12}}, {2, {3, 4}}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_reshape_attrs a = {.shape = rows[i].shape};
    zt_case_attrs(c, &a, sizeof a);
    zt_case_type_in(c, 0, rows[i].x.dtype == ZT_I32 ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    c->limit[0] = 1000;
    return true;
}

static void reshape_vjp(zt_vjp *v)
{
    v->dx[0] = zt_build_reshape_like(v->e, v->dy[0], v->in[0]);
}

const zt_opdef zt_op_reshape = {
    .synopsis = "y has x's elements in row-major order under another shape of as many; a view",
    .n_required = 1,
    .flags = ZT_OPF_VIEW,
    .infer = reshape_infer,
    .ref = zt_row_same_ref,
    .flops = zt_row_no_flops,
    .cases = reshape_cases,
    .vjp = reshape_vjp,
};

/* ---- slice ----------------------------------------------------------------------------------- */

/* The slice's bounds in x, with those from the end made plain; false: there is no such slice. */
static bool slice_bounds(const zt_slice_attrs *a, const zt_type *x, int *axis, int64_t *from,
                         int64_t *to)
{
    if (a->axis < -x->rank || a->axis >= x->rank) return false;
    *axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t n = x->dim[*axis];
    if (a->from < -n || a->from > n || a->to < -n || a->to > n) return false;
    *from = a->from < 0 ? a->from + n : a->from;
    *to = a->to <= 0 ? a->to + n : a->to;
    return *from <= *to;
}

static zt_status slice_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                             zt_type out[])
{
    const zt_slice_attrs *a = attrs;
    int axis;
    int64_t from, to;
    zt_status s = zt_row_want_plain(ctx, "x", in[0]);
    if (s) return s;
    if (!slice_bounds(a, in[0], &axis, &from, &to))
        return zt_row_fail(ctx, ZT_ESHAPE, "x has no slice from %lld to %lld along axis %lld",
                           (long long)a->from, (long long)a->to, (long long)a->axis);
    out[0] = *in[0];
    out[0].dim[axis] = to - from;
    return ZT_OK;
}

static void slice_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_type *x = in[0].type, *y = out[0].type;
    int axis;
    int64_t from, to, inner = 1, outer = 1;
    (void)t;
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

static bool slice_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_slice_attrs a; /* axis, from, to */
    } rows[] = {
        {{ZT_F32, 2, {9, 96}}, {1, 32, 64}},     {{ZT_F32, 2, {9, 99}}, {1, 33, 0}},
        {{ZT_F32, 2, {9, 40}}, {0, 2, 7}},       {{ZT_F32, 3, {3, 5, 7}}, {1, 1, 4}},
        {{ZT_F32, 3, {3, 5, 7}}, {-1, -4, -1}},  {{ZT_F16, 2, {4, 33}}, {1, 1, 32}},
        {{ZT_BF16, 1, {33}}, {0, 5, 6}},         {{ZT_I32, 2, {4, 6}}, {0, 0, 0}},
        {{ZT_F32, 2, {2, 2048}}, {1, 0, 1500}},  {{ZT_F32, 2, {4, 6}}, {1, 3, 3}},
        {{ZT_F32, 2, {0, 6}}, {1, 1, 3}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(c, 0, rows[i].x.dtype == ZT_I32 ? ZT_FILL_IDS : ZT_FILL_NORMAL, &rows[i].x);
    c->limit[0] = 1000;
    return true;
}

static void slice_vjp(zt_vjp *v)
{
    const zt_slice_attrs *a = v->attrs;
    zt_slice_put_attrs put = {a->axis, a->from, a->to};
    v->dx[0] = zt_build_slice_put(v->e, v->dy[0], v->in[0], &put);
}

const zt_opdef zt_op_slice = {
    .synopsis = "y[...,i,...] = x[...,from+i,...] up to `to` along `axis`; below 0 all three count "
                "from the end, and to=0 is the end itself; any but block types, y has x's",
    .n_required = 1,
    .infer = slice_infer,
    .ref = slice_ref,
    .flops = zt_row_no_flops,
    .cases = slice_cases,
    .vjp = slice_vjp,
};

/* ---- slice_put: what slice's gradient is ----------------------------------------------------- */

static zt_status slice_put_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                 zt_type out[])
{
    zt_type part;
    const zt_type *like = in[1];
    zt_status s = slice_infer(ctx, attrs, &like, &part);
    if (s) return s;
    out[0] = zt_type_make(in[0]->dtype, like->rank, like->dim);
    part.dtype = in[0]->dtype;
    if (zt_type_equal(&part, in[0])) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x is not of the slice's shape");
}

static void slice_put_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_type *x = in[0].type, *y = out[0].type;
    const zt_slice_put_attrs *put = attrs;
    zt_slice_attrs a = {put->axis, put->from, put->to};
    int axis;
    int64_t from, to, inner = 1, outer = 1;
    (void)t;
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

static bool slice_put_cases(int i, zt_case *c)
{
    const zt_type *like = &c->in[1];
    if (!slice_cases(i, c)) return false;
    c->in[1] = c->in[0];
    c->fill[1] = c->fill[0];
    c->limit[1] = c->limit[0];
    return slice_infer(NULL, c->attrs, &like, &c->in[0]) == ZT_OK;
}

static void slice_put_vjp(zt_vjp *v)
{
    const zt_slice_put_attrs *a = v->attrs;
    zt_slice_attrs part = {a->axis, a->from, a->to};
    v->dx[0] = zt_build_slice(v->e, v->dy[0], &part);
}

const zt_opdef zt_op_slice_put = {
    .synopsis = "y is 0, of like's shape and x's type, but for y[...,from+i,...] = x[...,i,...] up "
                "to `to` along `axis`, as slice counts them; any but block types",
    .n_required = 2,
    .infer = slice_put_infer,
    .ref = slice_put_ref,
    .flops = zt_row_no_flops,
    .cases = slice_put_cases,
    .vjp = slice_put_vjp,
    .constant = 2,
};
