/* onnx_gather.h - how the ops of golden/ops/onnx are spelled in zt: operators that read and write
 * at indices. ONNX's indices may be below 0: they count from the end. */
#ifndef ZT_SPELL_ONNX_GATHER_H
#define ZT_SPELL_ONNX_GATHER_H

#include "tests/ops/spell/onnx_reduce.h"

/* Indices as i32, those below 0 plus `sizes`, which broadcasts to them. */
static int from_front(const call *node, int i, int sizes)
{
    i = cast_as(node, i, ZT_I32);
    int below = zt_program_lt(node->p, NULL, i, scalar_i32(node, 0));
    return zt_program_where(node->p, NULL, below, zt_program_add(node->p, NULL, i, sizes), i);
}

static int along_axis(const call *node, int64_t axis)
{
    return from_front(node, node->in[1], scalar_i32(node, (int32_t)dim_of(node, 0, (int)axis)));
}

/* With the axis first its entries are parts; then the indices' dimensions go where it was. */
static int build_onnx_gather(const call *node)
{
    const zt_type *x = &node->type[0], *i = &node->type[1];
    int axis = (int)axis_or(node, "axis", 0, 0);
    zt_transpose_attrs front = {{x->rank, {0}}}, back = {{x->rank - 1 + i->rank, {0}}};
    for (int d = 0; d < x->rank; d++) front.axes.v[d] = d == 0 ? axis : d <= axis ? d - 1 : d;
    for (int d = 0; d < back.axes.n; d++) back.axes.v[d] = d < axis ? i->rank + d : d < axis + i->rank ? d - axis : d;
    int64_t dim[ZT_MAX_RANK];
    memcpy(dim, i->dim, sizeof dim);
    dim[i->rank] = 1;
    int at = reshaped(node, along_axis(node, axis), i->rank + 1, dim);
    int y = zt_program_transpose(node->p, NULL, node->in[0], &front);
    y = zt_program_gather_nd(node->p, NULL, y, at, NULL);
    return back.axes.n ? zt_program_transpose(node->p, NULL, y, &back) : y;
}

static int build_onnx_gather_elements(const call *node)
{
    int64_t axis = axis_or(node, "axis", 0, 0);
    return zt_program_gather_elements(node->p, NULL, node->in[0], along_axis(node, axis),
                                      &(zt_gather_elements_attrs){axis, {"error"}});
}

/* The sizes that tuples of k indices go up to, after `batch` dimensions. */
static int nd_indices(const call *node, int64_t batch)
{
    int32_t size[ZT_MAX_RANK];
    int64_t k = dim_of(node, 1, -1);
    for (int64_t d = 0; d < k; d++) size[d] = (int32_t)node->type[0].dim[batch + d];
    return from_front(node, node->in[1], constant(node, ZT_I32, 1, &k, size));
}

static int build_onnx_gather_nd(const call *node)
{
    int64_t batch = int_or(node, "batch_dims", 0);
    return zt_program_gather_nd(node->p, NULL, node->in[0], nd_indices(node, batch), &(zt_gather_nd_attrs){batch, {"error"}});
}

static zt_enum_string reduction_word(const call *node)
{
    zt_enum_string w = {{0}};
    snprintf(w.s, sizeof w.s, "%s", word_or(node, "reduction", "none"));
    return w;
}

static int build_onnx_scatter_nd(const call *node)
{
    return zt_program_scatter_nd(node->p, NULL, node->in[0], nd_indices(node, 0), node->in[2],
                                 &(zt_scatter_nd_attrs){0, reduction_word(node), {"error"}});
}

static int build_onnx_scatter_elements(const call *node)
{
    int64_t axis = axis_or(node, "axis", 0, 0);
    int i = along_axis(node, axis);
    if (word_is(node, "reduction", "add"))
        return zt_program_scatter_add_elements(node->p, NULL, node->in[0], i, node->in[2],
                                               &(zt_scatter_add_elements_attrs){axis, {"error"}});
    return zt_program_scatter_elements(node->p, NULL, node->in[0], i, node->in[2],
                                       &(zt_scatter_elements_attrs){axis, reduction_word(node), {"error"}});
}

/* A value with one entry for each of axis `at`'s, among `rank` dimensions. */
static int lying_along(const call *node, int x, int64_t n, int at, int rank)
{
    int64_t dim[ZT_MAX_RANK];
    for (int d = 0; d < rank; d++) dim[d] = d == at ? n : 1;
    return reshaped(node, x, rank, dim);
}

/* Entry t of the update goes to write_indices[batch] + t of the cache; circular: modulo size. */
static int build_tensor_scatter(const call *node)
{
    const zt_type *u = &node->type[1];
    int axis = (int)axis_or(node, "axis", -2, 0), rank = u->rank;
    int at = counting_along(node, u->dim[axis], axis, rank);
    if (given(node, 2)) {
        int first = lying_along(node, cast_as(node, node->in[2], ZT_I32), u->dim[0], 0, rank);
        at = zt_program_add(node->p, NULL, first, at);
    }
    if (word_is(node, "mode", "circular")) {
        int count = scalar_i32(node, (int32_t)dim_of(node, 0, axis));
        int rounds = zt_program_div(node->p, NULL, at, count);
        at = zt_program_sub(node->p, NULL, at, zt_program_mul(node->p, NULL, rounds, count));
    }
    return zt_program_scatter_elements(node->p, NULL, node->in[0], spread_to(node, at, u), node->in[1],
                                       &(zt_scatter_elements_attrs){axis, {"none"}, {"error"}});
}

/* Entry t of the first `len` is entry len - 1 - t of them; the others stay. */
static int build_reverse_sequence(const call *node)
{
    const zt_type *x = &node->type[0];
    int batch = (int)axis_or(node, "batch_axis", 1, 0), time = (int)axis_or(node, "time_axis", 0, 0);
    int t = counting_along(node, x->dim[time], time, x->rank);
    int len = lying_along(node, cast_as(node, node->in[1], ZT_I32), x->dim[batch], batch, x->rank);
    int from_end = zt_program_sub(node->p, NULL, zt_program_sub(node->p, NULL, len, scalar_i32(node, 1)), t);
    int i = zt_program_where(node->p, NULL, zt_program_lt(node->p, NULL, t, len), from_end, t);
    return zt_program_gather_elements(node->p, NULL, node->in[0], spread_to(node, i, x),
                                      &(zt_gather_elements_attrs){time, {"error"}});
}

static const spelling onnx_gather_ops[] = {
    {"Gather", .build = build_onnx_gather, .exact = true},
    {"GatherElements", .build = build_onnx_gather_elements, .exact = true},
    {"GatherND", .build = build_onnx_gather_nd, .exact = true},
    {"Scatter", .build = build_onnx_scatter_elements, .exact = true},
    {"ScatterElements", .build = build_onnx_scatter_elements},
    {"ScatterND", .build = build_onnx_scatter_nd},
    {"TensorScatter", .build = build_tensor_scatter, .exact = true},
    {"ReverseSequence", .build = build_reverse_sequence, .exact = true},
};

#endif
