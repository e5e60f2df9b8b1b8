/* onnx_shape.h - how the ops of golden/ops/onnx are spelled in zt: operators that move elements, or
 * that give shapes, which zt knows when a program is bound. */
#ifndef ZT_SPELL_ONNX_SHAPE_H
#define ZT_SPELL_ONNX_SHAPE_H

#include "tests/ops/spell/onnx_gather.h"

static int shaped_like(const call *node, int x, const zt_type *t) { return reshaped(node, x, t->rank, t->dim); }

/* ---- joining and cutting --------------------------------------------------------------------- */

/* Five at a time. */
static int build_onnx_concat(const call *node)
{
    zt_concat_attrs a = {int_or(node, "axis", 0)};
    int y = node->in[0], n = node->n_in;
    for (int k = 1; k < n; k += 4) {
        int in[4];
        for (int j = 0; j < 4; j++) in[j] = k + j < n ? node->in[k + j] : ZT_NONE;
        y = zt_program_concat(node->p, NULL, y, in[0], in[1], in[2], in[3], &a);
    }
    return n == 1 ? shaped_like(node, y, &node->type[0]) : y;
}

/* Entries [from, to) of an axis of n; an end of 0 would be the end of the axis. */
static int cut(const call *node, int x, int64_t axis, int64_t n, int64_t from, int64_t to)
{
    zt_slice_attrs a = from == to ? (zt_slice_attrs){axis, n, 0} : (zt_slice_attrs){axis, from, to};
    return zt_program_slice(node->p, NULL, x, &a);
}

/* Sizes as given, or n / num_outputs rounded up and what is left. */
static int build_onnx_split(const call *node)
{
    int64_t axis = axis_or(node, "axis", 0, 0), n = dim_of(node, 0, (int)axis), size[MAX_ARGS], at = 0;
    int parts = node->n_out, given_sizes = input_ints(node, 1, size, MAX_ARGS);
    if (given_sizes < 0) given_sizes = attr_ints(node, "split", size, MAX_ARGS);
    int first = -1;
    for (int k = 0; k < parts; k++) {
        int64_t each = given_sizes > k ? size[k] : (n + parts - 1) / parts;
        if (each > n - at) each = n - at;
        *(k ? &node->more[k - 1] : &first) = cut(node, node->in[0], axis, n, at, at + each);
        at += each;
    }
    return first;
}

/* Of count entries those that Python's [start:end:step] has: the first, and how many. */
static int64_t stepped(int64_t count, int64_t step, int64_t end, int64_t *start)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
    if (*start < 0) *start += count;
    if (end < 0) end = end < -count ? -1 : end + count;
    if (*start < 0) *start = 0;
    if (*start > high) *start = high;
    if (end < low) end = low;
    if (end > high) end = high;
    int64_t span = step > 0 ? end - *start : *start - end, by = step > 0 ? step : -step;
    return span <= 0 ? 0 : (span - 1) / by + 1;
}

static int listed(const call *node, int input, const char *attr, int64_t *out)
{
    int n = input_ints(node, input, out, ZT_MAX_RANK);
    return n < 0 ? attr_ints(node, attr, out, ZT_MAX_RANK) : n;
}

static int build_onnx_slice(const call *node)
{
    int64_t start[ZT_MAX_RANK], end[ZT_MAX_RANK], axis[ZT_MAX_RANK], step[ZT_MAX_RANK];
    int total = listed(node, 1, "starts", start), axes = listed(node, 3, "axes", axis);
    int steps = input_ints(node, 4, step, ZT_MAX_RANK), y = shaped_like(node, node->in[0], &node->type[0]);
    listed(node, 2, "ends", end);
    for (int k = 0; k < total; k++) {
        int at = axes < 0 ? k : (int)axis[k];
        int64_t by = steps < 0 ? 1 : step[k], size = dim_of(node, 0, at);
        int64_t count = stepped(size, by, end[k], &start[k]);
        y = count == 0 ? cut(node, y, at, size, 0, 0)
                       : zt_program_slice_step(node->p, NULL, y, &(zt_slice_step_attrs){at, start[k], by, count});
    }
    return y;
}

/* ---- the same elements under another shape --------------------------------------------------- */

static int build_flatten_at(const call *node)
{
    int64_t axis = axis_or(node, "axis", 1, 0), dim[2] = {1, 1};
    for (int d = 0; d < node->type[0].rank; d++) dim[d >= axis] *= node->type[0].dim[d];
    return reshaped(node, node->in[0], 2, dim);
}

/* 0: as it was (but for allowzero), -1: what is left. */
static int build_onnx_reshape(const call *node)
{
    int64_t dim[ZT_MAX_RANK], known = 1;
    int count = listed(node, 1, "shape", dim), free_at = -1;
    for (int d = 0; d < count; d++) {
        if (dim[d] == 0 && !int_or(node, "allowzero", 0)) dim[d] = node->type[0].dim[d];
        if (dim[d] < 0)
            free_at = d;
        else
            known *= dim[d];
    }
    if (free_at >= 0) dim[free_at] = known ? zt_type_count(&node->type[0]) / known : 0;
    return reshaped(node, node->in[0], count < 0 ? 0 : count, dim);
}

static int build_squeeze(const call *node)
{
    const zt_type *x = &node->type[0];
    int64_t axes[ZT_MAX_RANK], dim[ZT_MAX_RANK];
    int count = listed(node, 1, "axes", axes), rank = 0;
    for (int d = 0; d < x->rank; d++) {
        bool gone = count < 0 && x->dim[d] == 1;
        for (int k = 0; k < count; k++) gone |= axes[k] == d || axes[k] + x->rank == d;
        if (!gone) dim[rank++] = x->dim[d];
    }
    return reshaped(node, node->in[0], rank, dim);
}

static int build_unsqueeze(const call *node)
{
    const zt_type *x = &node->type[0];
    int64_t axes[ZT_MAX_RANK], dim[ZT_MAX_RANK];
    int count = listed(node, 1, "axes", axes), rank = x->rank + count, at = 0;
    for (int d = 0; d < rank; d++) {
        bool new = false;
        for (int k = 0; k < count; k++) new |= axes[k] == d || axes[k] + rank == d;
        dim[d] = new ? 1 : x->dim[at++];
    }
    return reshaped(node, node->in[0], rank, dim);
}

/* [n, c, h, w] as the six dimensions `six`, which are turned by `axes` and joined to [n, ...]. */
static int by_six(const call *node, const int64_t *six, const int64_t *axes, const int64_t *four)
{
    zt_transpose_attrs turn = {{6, {0}}};
    memcpy(turn.axes.v, axes, 6 * sizeof axes[0]);
    int y = zt_program_transpose(node->p, NULL, reshaped(node, node->in[0], 6, six), &turn);
    return reshaped(node, y, 4, four);
}

static int build_depth_to_space(const call *node)
{
    const int64_t *x = node->type[0].dim, b = int_or(node, "blocksize", 1), rest = x[1] / (b * b);
    const int64_t four[] = {x[0], rest, x[2] * b, x[3] * b};
    const int64_t crd[] = {x[0], rest, b, b, x[2], x[3]}, dcr[] = {x[0], b, b, rest, x[2], x[3]};
    if (word_is(node, "mode", "CRD")) return by_six(node, crd, (int64_t[]){0, 1, 4, 2, 5, 3}, four);
    return by_six(node, dcr, (int64_t[]){0, 3, 4, 1, 5, 2}, four);
}

static int build_space_to_depth(const call *node)
{
    const int64_t *x = node->type[0].dim, b = int_or(node, "blocksize", 1);
    const int64_t four[] = {x[0], x[1] * b * b, x[2] / b, x[3] / b};
    const int64_t six[] = {x[0], x[1], x[2] / b, b, x[3] / b, b};
    if (word_is(node, "mode", "CRD")) return by_six(node, six, (int64_t[]){0, 1, 3, 5, 2, 4}, four);
    return by_six(node, six, (int64_t[]){0, 3, 5, 1, 2, 4}, four);
}

/* ---- repeating and filling ------------------------------------------------------------------- */

/* The shape and x's dimensions broadcast to each other. */
static int build_expand(const call *node)
{
    int64_t dim[ZT_MAX_RANK];
    int count = input_ints(node, 1, dim, ZT_MAX_RANK), more = node->type[0].rank - count;
    zt_type y = zt_type_make(node->type[0].dtype, more > 0 ? node->type[0].rank : count, dim);
    for (int d = y.rank - 1; d >= 0; d--) {
        int at = d - (y.rank - node->type[0].rank);
        int64_t own = at >= 0 ? node->type[0].dim[at] : 1;
        int64_t want = d >= y.rank - count ? dim[d - (y.rank - count)] : 1;
        y.dim[d] = own == 1 ? want : own;
    }
    return spread_to(node, node->in[0], &y);
}

/* Axis by axis: everything from it on once more in a dimension of its own. */
static int build_tile(const call *node)
{
    int64_t times[ZT_MAX_RANK];
    zt_type its_type = node->type[0];
    int y = shaped_like(node, node->in[0], &its_type), n = input_ints(node, 1, times, ZT_MAX_RANK);
    for (int d = 0; d < n; d++) {
        int64_t outer = 1, inner = 1;
        for (int k = 0; k < its_type.rank; k++) *(k < d ? &outer : &inner) *= its_type.dim[k];
        zt_type wide = zt_type_make(its_type.dtype, 3, (int64_t[]){outer, times[d], inner});
        y = spread_to(node, reshaped(node, y, 3, (int64_t[]){outer, 1, inner}), &wide);
        its_type.dim[d] *= times[d];
        y = shaped_like(node, y, &its_type);
    }
    return y;
}

static int build_constant_of_shape(const call *node)
{
    const json_t *value = json_object_get(node->attrs, "value");
    zt_type t = zt_type_make(ZT_F32, (int)count_of(node, 0), (int64_t[ZT_MAX_RANK]){0});
    dtype_of(node->out_dtype[0], &t.dtype);
    input_ints(node, 0, t.dim, ZT_MAX_RANK);
    return filled(node, json_number(json_array_get(json_object_get(value, "values"), 0)), &t);
}

static int build_eye_like(const call *node)
{
    zt_type t = node->type[0];
    int64_t k = int_or(node, "k", 0);
    dtype_of(node->out_dtype[0], &t.dtype);
    int y = zt_program_tril(node->p, NULL, filled(node, 1, &t), &(zt_tril_attrs){k});
    return zt_program_triu(node->p, NULL, y, &(zt_triu_attrs){k});
}

static int build_range(const call *node)
{
    double start = value_of(node, 0, 0), limit = value_of(node, 1, 0), delta = value_of(node, 2, 0);
    int64_t n = (int64_t)fmax(ceil((limit - start) / delta), 0);
    int k = cast_as(node, counting(node, n), node->type[0].dtype);
    return zt_program_add(node->p, NULL, node->in[0], zt_program_mul(node->p, NULL, k, node->in[2]));
}

static int build_onnx_pad(const call *node)
{
    const zt_type *x = &node->type[0];
    int64_t pads[2 * ZT_MAX_RANK], axes[ZT_MAX_RANK];
    int count = input_ints(node, 1, pads, 2 * ZT_MAX_RANK);
    int given_axes = input_ints(node, 3, axes, ZT_MAX_RANK);
    zt_pad_attrs a = {{x->rank, {0}}, {x->rank, {0}}, {{0}}, 0};
    if (count < 0) count = attr_ints(node, "pads", pads, 2 * ZT_MAX_RANK);
    snprintf(a.mode.s, sizeof a.mode.s, "%s", word_or(node, "mode", "constant"));
    a.value = count_of(node, 2) ? value_of(node, 2, 0) : number(node, "value");
    for (int k = 0; k < count / 2; k++) {
        int64_t d = given_axes < 0 ? k : axes[k] < 0 ? axes[k] + x->rank : axes[k];
        a.before.v[d] = pads[k];
        a.after.v[d] = pads[count / 2 + k];
    }
    return zt_program_pad(node->p, NULL, node->in[0], &a);
}

static int build_trilu(const call *node)
{
    int64_t k = 0;
    input_ints(node, 1, &k, 1);
    return int_or(node, "upper", 1) ? zt_program_triu(node->p, NULL, node->in[0], &(zt_triu_attrs){k})
                                    : zt_program_tril(node->p, NULL, node->in[0], &(zt_tril_attrs){k});
}

/* ---- what is known of x without its values, and dropout, which does nothing when it is off --- */

static int build_shape(const call *node)
{
    int64_t total = node->type[0].rank, from = int_or(node, "start", 0), to = int_or(node, "end", total);
    if (from < 0) from += total;
    if (to < 0) to += total;
    from = from < 0 ? 0 : from > total ? total : from;
    to = to < from ? from : to > total ? total : to;
    int64_t count = to - from;
    return constant(node, ZT_I64, 1, &count, node->type[0].dim + from);
}

static int build_size(const call *node)
{
    int64_t n = zt_type_count(&node->type[0]);
    return constant(node, ZT_I64, 0, NULL, &n);
}

static const char *drops(const call *node)
{
    bool training = count_of(node, 2) && value_of(node, 2, 0) != 0;
    double ratio = count_of(node, 1) ? value_of(node, 1, 0) : 0.5;
    return training && ratio != 0 ? "dropout in training: its values are random" : NULL;
}

static int build_dropout(const call *node)
{
    zt_type mask = node->type[0];
    mask.dtype = ZT_BOOL;
    if (node->n_out > 1) node->more[0] = filled(node, 1, &mask);
    return shaped_like(node, node->in[0], &node->type[0]);
}

static const spelling onnx_shape_ops[] = {
    {"Concat", .build = build_onnx_concat, .exact = true},
    {"Split", .build = build_onnx_split, .exact = true},
    {"Slice", .build = build_onnx_slice, .exact = true},
    {"Flatten", .build = build_flatten_at, .exact = true},
    {"Reshape", .build = build_onnx_reshape, .exact = true},
    {"Squeeze", .build = build_squeeze, .exact = true},
    {"Unsqueeze", .build = build_unsqueeze, .exact = true},
    {"Transpose", .op = ZT_OP_transpose, .attrs = "perm:axes", .exact = true},
    {"DepthToSpace", .build = build_depth_to_space, .exact = true},
    {"SpaceToDepth", .build = build_space_to_depth, .exact = true},
    {"Expand", .build = build_expand, .exact = true},
    {"Tile", .build = build_tile, .exact = true},
    {"ConstantOfShape", .build = build_constant_of_shape, .exact = true},
    {"EyeLike", .build = build_eye_like, .exact = true},
    {"Range", .build = build_range},
    {"Pad", .build = build_onnx_pad, .exact = true},
    {"Trilu", .build = build_trilu, .exact = true},
    {"Shape", .build = build_shape, .exact = true},
    {"Size", .build = build_size, .exact = true},
    {"Dropout", .build = build_dropout, .without = drops, .exact = true},
};

#endif
