/* vjp_shape.h - how the ops of golden/ops/vjp are spelled in zt: slices with steps. */
#ifndef ZT_SPELL_VJP_SHAPE_H
#define ZT_SPELL_VJP_SHAPE_H

#include "tests/ops/spell/onnx_shape.h"

/* x[start:stop:step, ...] of the first axes, as Python counts. */
static int build_vjp_slice(const call *node)
{
    int64_t start[ZT_MAX_RANK], stop[ZT_MAX_RANK], step[ZT_MAX_RANK];
    int total = attr_ints(node, "starts", start, ZT_MAX_RANK), y = shaped_like(node, node->in[0], &node->type[0]);
    int steps = attr_ints(node, "steps", step, ZT_MAX_RANK);
    attr_ints(node, "stops", stop, ZT_MAX_RANK);
    for (int d = 0; d < total; d++) {
        int64_t by = d < steps ? step[d] : 1, size = dim_of(node, 0, d);
        int64_t count = stepped(size, by, stop[d], &start[d]);
        y = count == 0 ? cut(node, y, d, size, 0, 0)
                       : zt_program_slice_step(node->p, NULL, y, &(zt_slice_step_attrs){d, start[d], by, count});
    }
    return y;
}

static const spelling vjp_shape_ops[] = {
    {"slice", .build = build_vjp_slice},
};

#endif
