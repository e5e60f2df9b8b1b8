/* onnx_reduce.h - how the ops of golden/ops/onnx are spelled in
 * zt: reductions, selections and sums along an axis. */
#ifndef ZT_SPELL_ONNX_REDUCE_H
#define ZT_SPELL_ONNX_REDUCE_H

#include "tests/ops/spell/onnx_cast.h"


SPELL_FN int cast_as(const call *c, int x, zt_dtype to)
{
    zt_cast_attrs a = zt_cast_defaults();
    a.to = (zt_enum_string){{0}};
    snprintf(a.to.s, sizeof a.to.s, "%s", zt_dtype_get(to)->name);
    return zt_program_cast(c->p, NULL, x, &a);
}

/* A scalar, and 0 1 2 .. n - 1, of an integer type. */
SPELL_FN int scalar_i32(const call *c, int32_t v) { return constant(c, ZT_I32, 0, NULL, &v); }

SPELL_FN int counting(const call *c, int64_t n)
{
    int32_t *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (int32_t)i;
    int y = constant(c, ZT_I32, 1, &n, v);
    free(v);
    return y;
}

SPELL_FN int spread_to(const call *c, int x, const zt_type *t)
{
    zt_broadcast_to_attrs a = {{t->rank, {0}}};
    memcpy(a.shape.dim, t->dim, (size_t)t->rank * sizeof t->dim[0]);
    return zt_program_broadcast_to(c->p, NULL, x, ZT_NONE, &a);
}

/* `value` in all of a shape. */
SPELL_FN int filled(const call *c, double value, const zt_type *t)
{
    int one = cast_as(c, constant(c, ZT_F64, 0, NULL, &value), t->dtype);
    return spread_to(c, one, t);
}

/* The axes to reduce, an input or an attribute; false: none are (an empty list may mean so). */
static bool reduced_axes(const call *c, zt_sum_attrs *a)
{
    int64_t axes[ZT_MAX_RANK];
    int count = input_ints(c, 1, axes, ZT_MAX_RANK);
    if (count < 0) count = attr_ints(c, "axes", axes, ZT_MAX_RANK);
    *a = (zt_sum_attrs){.keepdims = int_or(c, "keepdims", 1)};
    if (count <= 0) return !int_or(c, "noop_with_empty_axes", 0);
    a->axes.n = count;
    memcpy(a->axes.v, axes, (size_t)count * sizeof axes[0]);
    return true;
}

static int plain_sum(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_sum(c->p, NULL, x, a);
}

/* Before the sum, which reduction, and after it. */
typedef struct reduction {
    const char *name;
    int (*before)(const call *c, int x);
    int (*fold)(const call *c, int x, const zt_sum_attrs *a);
    int (*after)(const call *c, int x);
    bool floats; /* integers go by way of f64 */
} reduction;

static int fold_mean(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_mean(c->p, NULL, x, &(zt_mean_attrs){a->axes, a->keepdims});
}
static int fold_prod(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_prod(c->p, NULL, x, &(zt_prod_attrs){a->axes, a->keepdims});
}
static int fold_amax(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_amax(c->p, NULL, x, &(zt_amax_attrs){a->axes, a->keepdims});
}
static int fold_amin(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_amin(c->p, NULL, x, &(zt_amin_attrs){a->axes, a->keepdims});
}
static int fold_logsumexp(const call *c, int x, const zt_sum_attrs *a)
{
    return zt_program_logsumexp(c->p, NULL, x, &(zt_logsumexp_attrs){a->axes, a->keepdims});
}
static int by_abs(const call *c, int x) { return zt_program_abs(c->p, NULL, x); }
static int by_square(const call *c, int x) { return zt_program_square(c->p, NULL, x); }
static int by_sqrt(const call *c, int x) { return zt_program_sqrt(c->p, NULL, x); }
static int by_ln(const call *c, int x) { return zt_program_log(c->p, NULL, x); }

static const reduction reductions[] = {
    {"ReduceSum", NULL, plain_sum, NULL, false},
    {"ReduceMean", NULL, fold_mean, NULL, true},
    {"ReduceProd", NULL, fold_prod, NULL, false},
    {"ReduceMax", NULL, fold_amax, NULL, false},
    {"ReduceMin", NULL, fold_amin, NULL, false},
    {"ReduceL1", by_abs, plain_sum, NULL, true},
    {"ReduceL2", by_square, plain_sum, by_sqrt, true},
    {"ReduceSumSquare", by_square, plain_sum, NULL, true},
    {"ReduceLogSum", NULL, plain_sum, by_ln, true},
    {"ReduceLogSumExp", NULL, fold_logsumexp, NULL, true},
};

/* The largest of no integers is the least that there is, and the other way round. */
static int build_extreme_of_none(const call *c, const zt_sum_attrs *a, bool largest)
{
    const zt_type *x = &c->type[0];
    zt_type y = zt_type_make(x->dtype, 0, NULL);
    double least, most;
    for (int d = 0; d < x->rank; d++) {
        bool gone = a->axes.n == 0;
        for (int k = 0; k < a->axes.n; k++)
            gone |= a->axes.v[k] == d || a->axes.v[k] + x->rank == d;
        if (!gone || a->keepdims) y.dim[y.rank++] = gone ? 1 : x->dim[d];
    }
    zt_dtype_range(x->dtype, &least, &most);
    return filled(c, largest ? least : most, &y);
}

static int build_onnx_reduce(const call *c)
{
    const reduction *r = reductions;
    zt_dtype t = c->type[0].dtype;
    zt_sum_attrs a;
    int y = c->in[0];
    while (strcmp(r->name, c->op)) r++;
    bool by_f64 = r->floats && !zt_dtype_is_float(t), is_bool = t == ZT_BOOL;
    bool extreme = r->fold == fold_amax || r->fold == fold_amin;
    if (extreme && !zt_dtype_is_float(t) && count_of(c, 0) == 0 && reduced_axes(c, &a))
        return build_extreme_of_none(c, &a, r->fold == fold_amax);
    if (by_f64 || is_bool) y = cast_as(c, y, is_bool ? ZT_U8 : ZT_F64);
    if (r->before) y = r->before(c, y);
    if (reduced_axes(c, &a)) {
        y = r->fold(c, y, &a);
    } else if (!r->before && !r->after) {
        y = reshaped(c, y, c->type[0].rank, c->type[0].dim);
    }
    if (r->after) y = r->after(c, y);
    return by_f64 || is_bool ? cast_as(c, y, t) : y;
}

/* CumSum, CumProd: the axis is an input. */
static int build_onnx_cumulate(const call *c)
{
    int64_t axis = 0;
    input_ints(c, 1, &axis, 1);
    zt_cumsum_attrs a = {axis, int_or(c, "exclusive", 0), int_or(c, "reverse", 0)};
    if (!strcmp(c->op, "CumSum")) return zt_program_cumsum(c->p, NULL, c->in[0], &a);
    return zt_program_cumprod(c->p, NULL, c->in[0],
                           &(zt_cumprod_attrs){a.axis, a.exclusive, a.reverse});
}

/* ---- selections ------------------------------------------------------------------------------ */

/* Integers by way of f64; the last index of several: the first from the other end. */
static int arg_of(const call *c, int64_t axis, int64_t keepdims, bool least, bool last)
{
    int x = c->in[0];
    if (!zt_dtype_is_float(c->type[0].dtype)) x = cast_as(c, x, ZT_F64);
    if (last) x = zt_program_slice_step(c->p, NULL, x, &(zt_slice_step_attrs){axis, -1, -1, 0});
    int i = least ? zt_program_argmin(c->p, NULL, x, &(zt_argmin_attrs){axis, keepdims})
                  : zt_program_argmax(c->p, NULL, x, &(zt_argmax_attrs){axis, keepdims});
    if (!last) return i;
    return zt_program_sub(c->p, NULL, scalar_i32(c, (int32_t)dim_of(c, 0, (int)axis) - 1), i);
}

static int build_onnx_arg(const call *c)
{
    int i = arg_of(c, int_or(c, "axis", 0), int_or(c, "keepdims", 1), !strcmp(c->op, "ArgMin"),
                   int_or(c, "select_last_index", 0) != 0);
    return cast_as(c, i, ZT_I64);
}

/* 0 1 2 .. n - 1 along one axis of `rank`. */
static int counting_along(const call *c, int64_t n, int axis, int rank)
{
    int64_t dim[ZT_MAX_RANK];
    for (int d = 0; d < rank; d++) dim[d] = d == axis ? n : 1;
    return reshaped(c, counting(c, n), rank, dim);
}

static int build_hardmax(const call *c)
{
    int64_t axis = axis_or(c, "axis", -1, 0);
    int i = arg_of(c, axis, 1, false, false);
    int all = counting_along(c, dim_of(c, 0, (int)axis), (int)axis, c->type[0].rank);
    return cast_as(c, zt_program_eq(c->p, NULL, i, all), c->type[0].dtype);
}

/* Entry k of a list of values, as a scalar. */
static int entry_of(const call *c, int list, int64_t k)
{
    return reshaped(c, zt_program_slice(c->p, NULL, list, &(zt_slice_attrs){0, k, k + 1}), 0, NULL);
}

/* An index below 0 counts from the end; one out of range is nowhere. */
static int build_onnx_one_hot(const call *c)
{
    int64_t depth = (int64_t)value_of(c, 1, 0), dim[ZT_MAX_RANK], axis = int_or(c, "axis", -1);
    int rank = c->type[0].rank + 1;
    if (axis < 0) axis += rank;
    for (int d = 0, k = 0; d < rank; d++) dim[d] = d == axis ? 1 : c->type[0].dim[k++];
    int i = reshaped(c, cast_as(c, c->in[0], ZT_I32), rank, dim);
    int below = zt_program_lt(c->p, NULL, i, scalar_i32(c, 0));
    i = zt_program_where(c->p, NULL, below,
                      zt_program_add(c->p, NULL, i, scalar_i32(c, (int32_t)depth)), i);
    int hot = zt_program_eq(c->p, NULL, i, counting_along(c, depth, (int)axis, rank));
    return zt_program_where(c->p, NULL, hot, entry_of(c, c->in[2], 1), entry_of(c, c->in[2], 0));
}

static int build_onnx_topk(const call *c)
{
    zt_topk_attrs a = {(int64_t)value_of(c, 1, 0), int_or(c, "axis", -1), int_or(c, "largest", 1)};
    int i, y = zt_program_topk(c->p, NULL, c->in[0], &a, &i);
    c->more[0] = cast_as(c, i, ZT_I64);
    return y;
}

static const char *takes_none(const call *c)
{
    return value_of(c, 1, 0) == 0 ? "k of 0: zt's 0 says all" : NULL;
}

static const spelling onnx_reduce_ops[] = {
    {"ReduceSum", .build = build_onnx_reduce},
    {"ReduceMean", .build = build_onnx_reduce},
    {"ReduceProd", .build = build_onnx_reduce},
    {"ReduceMax", .build = build_onnx_reduce},
    {"ReduceMin", .build = build_onnx_reduce},
    {"ReduceL1", .build = build_onnx_reduce},
    {"ReduceL2", .build = build_onnx_reduce},
    {"ReduceSumSquare", .build = build_onnx_reduce},
    {"ReduceLogSum", .build = build_onnx_reduce},
    {"ReduceLogSumExp", .build = build_onnx_reduce},
    {"CumSum", .build = build_onnx_cumulate},
    {"CumProd", .build = build_onnx_cumulate},
    {"ArgMax", .build = build_onnx_arg},
    {"ArgMin", .build = build_onnx_arg},
    {"Hardmax", .build = build_hardmax},
    {"OneHot", .build = build_onnx_one_hot, .exact = true},
    {"TopK", .build = build_onnx_topk, .without = takes_none},
    {"Compress", .no = "the shape of its output hangs on values"},
    {"NonZero", .no = "the shape of its output hangs on values"},
};

#endif
