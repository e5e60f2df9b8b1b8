/* onnx_reduce.h - how the ops of golden/ops/onnx are spelled in
 * zt: reductions, selections and sums along an axis. */
#ifndef ZT_SPELL_ONNX_REDUCE_H
#define ZT_SPELL_ONNX_REDUCE_H

#include "tests/ops/spell/onnx_cast.h"

SPELL_FN int cast_as(const call *node, int x, zt_dtype to)
{
    zt_cast_attrs a = zt_cast_defaults();
    a.to = (zt_enum_string){{0}};
    snprintf(a.to.s, sizeof a.to.s, "%s", zt_dtype_get(to)->name);
    return zt_program_cast(node->p, NULL, x, &a);
}

/* A scalar, and 0 1 2 .. n - 1, of an integer type. */
SPELL_FN int scalar_i32(const call *node, int32_t v) { return constant(node, ZT_I32, 0, NULL, &v); }

SPELL_FN int counting(const call *node, int64_t n)
{
    int32_t *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (int32_t)i;
    int y = constant(node, ZT_I32, 1, &n, v);
    free(v);
    return y;
}

SPELL_FN int spread_to(const call *node, int x, const zt_type *t)
{
    zt_broadcast_to_attrs a = {{t->rank, {0}}};
    memcpy(a.shape.dim, t->dim, (size_t)t->rank * sizeof t->dim[0]);
    return zt_program_broadcast_to(node->p, NULL, x, ZT_NONE, &a);
}

/* `value` in all of a shape. */
SPELL_FN int filled(const call *node, double value, const zt_type *t)
{
    int one = cast_as(node, constant(node, ZT_F64, 0, NULL, &value), t->dtype);
    return spread_to(node, one, t);
}

/* The axes to reduce, an input or an attribute; false: none are (an empty list may mean so). */
static bool reduced_axes(const call *node, zt_sum_attrs *a)
{
    int64_t axes[ZT_MAX_RANK];
    int count = input_ints(node, 1, axes, ZT_MAX_RANK);
    if (count < 0) count = attr_ints(node, "axes", axes, ZT_MAX_RANK);
    *a = (zt_sum_attrs){.keepdims = int_or(node, "keepdims", 1)};
    if (count <= 0) return !int_or(node, "noop_with_empty_axes", 0);
    a->axes.n = count;
    memcpy(a->axes.v, axes, (size_t)count * sizeof axes[0]);
    return true;
}

static int plain_sum(const call *node, int x, const zt_sum_attrs *a) { return zt_program_sum(node->p, NULL, x, a); }

/* Before the sum, which reduction, and after it. */
typedef struct reduction {
    const char *name;
    int (*before)(const call *node, int x);
    int (*fold)(const call *node, int x, const zt_sum_attrs *a);
    int (*after)(const call *node, int x);
    bool floats; /* integers go by way of f64 */
} reduction;

static int fold_mean(const call *node, int x, const zt_sum_attrs *a)
{
    return zt_program_mean(node->p, NULL, x, &(zt_mean_attrs){a->axes, a->keepdims});
}
static int fold_prod(const call *node, int x, const zt_sum_attrs *a)
{
    return zt_program_prod(node->p, NULL, x, &(zt_prod_attrs){a->axes, a->keepdims});
}
static int fold_amax(const call *node, int x, const zt_sum_attrs *a)
{
    return zt_program_amax(node->p, NULL, x, &(zt_amax_attrs){a->axes, a->keepdims});
}
static int fold_amin(const call *node, int x, const zt_sum_attrs *a)
{
    return zt_program_amin(node->p, NULL, x, &(zt_amin_attrs){a->axes, a->keepdims});
}
static int fold_logsumexp(const call *node, int x, const zt_sum_attrs *a)
{
    return zt_program_logsumexp(node->p, NULL, x, &(zt_logsumexp_attrs){a->axes, a->keepdims});
}
static int by_abs(const call *node, int x) { return zt_program_abs(node->p, NULL, x); }
static int by_square(const call *node, int x) { return zt_program_square(node->p, NULL, x); }
static int by_sqrt(const call *node, int x) { return zt_program_sqrt(node->p, NULL, x); }
static int by_ln(const call *node, int x) { return zt_program_log(node->p, NULL, x); }

static const reduction reductions[] = {
    {"ReduceSum", NULL, plain_sum, NULL, false},       {"ReduceMean", NULL, fold_mean, NULL, true},
    {"ReduceProd", NULL, fold_prod, NULL, false},      {"ReduceMax", NULL, fold_amax, NULL, false},
    {"ReduceMin", NULL, fold_amin, NULL, false},       {"ReduceL1", by_abs, plain_sum, NULL, true},
    {"ReduceL2", by_square, plain_sum, by_sqrt, true}, {"ReduceSumSquare", by_square, plain_sum, NULL, true},
    {"ReduceLogSum", NULL, plain_sum, by_ln, true},    {"ReduceLogSumExp", NULL, fold_logsumexp, NULL, true},
};

/* The largest of no integers is the least that there is, and the other way round. */
static int build_extreme_of_none(const call *node, const zt_sum_attrs *a, bool largest)
{
    const zt_type *x = &node->type[0];
    zt_type y = zt_type_make(x->dtype, 0, NULL);
    double least, most;
    for (int d = 0; d < x->rank; d++) {
        bool gone = a->axes.n == 0;
        for (int k = 0; k < a->axes.n; k++) gone |= a->axes.v[k] == d || a->axes.v[k] + x->rank == d;
        if (!gone || a->keepdims) y.dim[y.rank++] = gone ? 1 : x->dim[d];
    }
    zt_dtype_range(x->dtype, &least, &most);
    return filled(node, largest ? least : most, &y);
}

static int build_onnx_reduce(const call *node)
{
    const reduction *r = reductions;
    zt_dtype t = node->type[0].dtype;
    zt_sum_attrs a;
    int y = node->in[0];
    while (strcmp(r->name, node->op)) r++;
    bool by_f64 = r->floats && !zt_dtype_is_float(t), is_bool = t == ZT_BOOL;
    bool extreme = r->fold == fold_amax || r->fold == fold_amin;
    if (extreme && !zt_dtype_is_float(t) && count_of(node, 0) == 0 && reduced_axes(node, &a))
        return build_extreme_of_none(node, &a, r->fold == fold_amax);
    if (by_f64 || is_bool) y = cast_as(node, y, is_bool ? ZT_U8 : ZT_F64);
    if (r->before) y = r->before(node, y);
    if (reduced_axes(node, &a)) {
        y = r->fold(node, y, &a);
    } else if (!r->before && !r->after) {
        y = reshaped(node, y, node->type[0].rank, node->type[0].dim);
    }
    if (r->after) y = r->after(node, y);
    return by_f64 || is_bool ? cast_as(node, y, t) : y;
}

/* CumSum, CumProd: the axis is an input. */
static int build_onnx_cumulate(const call *node)
{
    int64_t axis = 0;
    input_ints(node, 1, &axis, 1);
    zt_cumsum_attrs a = {axis, int_or(node, "exclusive", 0), int_or(node, "reverse", 0)};
    if (!strcmp(node->op, "CumSum")) return zt_program_cumsum(node->p, NULL, node->in[0], &a);
    return zt_program_cumprod(node->p, NULL, node->in[0], &(zt_cumprod_attrs){a.axis, a.exclusive, a.reverse});
}

/* ---- selections ------------------------------------------------------------------------------ */

/* Integers by way of f64; the last index of several: the first from the other end. */
static int arg_of(const call *node, int64_t axis, int64_t keepdims, bool least, bool last)
{
    int x = node->in[0];
    if (!zt_dtype_is_float(node->type[0].dtype)) x = cast_as(node, x, ZT_F64);
    if (last) x = zt_program_slice_step(node->p, NULL, x, &(zt_slice_step_attrs){axis, -1, -1, 0});
    int i = least ? zt_program_argmin(node->p, NULL, x, &(zt_argmin_attrs){axis, keepdims})
                  : zt_program_argmax(node->p, NULL, x, &(zt_argmax_attrs){axis, keepdims});
    if (!last) return i;
    return zt_program_sub(node->p, NULL, scalar_i32(node, (int32_t)dim_of(node, 0, (int)axis) - 1), i);
}

static int build_onnx_arg(const call *node)
{
    int i = arg_of(node, int_or(node, "axis", 0), int_or(node, "keepdims", 1), !strcmp(node->op, "ArgMin"),
                   int_or(node, "select_last_index", 0) != 0);
    return cast_as(node, i, ZT_I64);
}

/* 0 1 2 .. n - 1 along one axis of `rank`. */
static int counting_along(const call *node, int64_t n, int axis, int rank)
{
    int64_t dim[ZT_MAX_RANK];
    for (int d = 0; d < rank; d++) dim[d] = d == axis ? n : 1;
    return reshaped(node, counting(node, n), rank, dim);
}

static int build_hardmax(const call *node)
{
    int64_t axis = axis_or(node, "axis", -1, 0);
    int i = arg_of(node, axis, 1, false, false);
    int all = counting_along(node, dim_of(node, 0, (int)axis), (int)axis, node->type[0].rank);
    return cast_as(node, zt_program_eq(node->p, NULL, i, all), node->type[0].dtype);
}

/* Entry k of a list of values, as a scalar. */
static int entry_of(const call *node, int list, int64_t k)
{
    return reshaped(node, zt_program_slice(node->p, NULL, list, &(zt_slice_attrs){0, k, k + 1}), 0, NULL);
}

/* An index below 0 counts from the end; one out of range is nowhere. */
static int build_onnx_one_hot(const call *node)
{
    int64_t depth = (int64_t)value_of(node, 1, 0), dim[ZT_MAX_RANK], axis = int_or(node, "axis", -1);
    int rank = node->type[0].rank + 1;
    if (axis < 0) axis += rank;
    for (int d = 0, k = 0; d < rank; d++) dim[d] = d == axis ? 1 : node->type[0].dim[k++];
    int i = reshaped(node, cast_as(node, node->in[0], ZT_I32), rank, dim);
    int below = zt_program_lt(node->p, NULL, i, scalar_i32(node, 0));
    i = zt_program_where(node->p, NULL, below, zt_program_add(node->p, NULL, i, scalar_i32(node, (int32_t)depth)), i);
    int hot = zt_program_eq(node->p, NULL, i, counting_along(node, depth, (int)axis, rank));
    return zt_program_where(node->p, NULL, hot, entry_of(node, node->in[2], 1), entry_of(node, node->in[2], 0));
}

static int build_onnx_topk(const call *node)
{
    zt_topk_attrs a = {(int64_t)value_of(node, 1, 0), int_or(node, "axis", -1), int_or(node, "largest", 1)};
    int i, y = zt_program_topk(node->p, NULL, node->in[0], &a, &i);
    node->more[0] = cast_as(node, i, ZT_I64);
    return y;
}

static const char *takes_none(const call *node) { return value_of(node, 1, 0) == 0 ? "k of 0: zt's 0 says all" : NULL; }

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
