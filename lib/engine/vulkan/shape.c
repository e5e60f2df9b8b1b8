/* shape.c - elements in other places: transpose, concat, uncat, repeat; and bits of another type. */
#include "lib/engine/vulkan/vk.h"

enum { PARTS = 5 };

static zt_status set_transpose(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_ints *axes = &((const zt_transpose_attrs *)call->attrs)->axes;
    const zt_type *x = call->in[0];
    zt_vk_steps steps = {0};
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        int from = axes->n ? zt_vk_axis(axes->v[axis], x->rank) : x->rank - 1 - axis;
        zt_vk_add_axis(&steps, x->dim[from], zt_vk_inner(x, from));
    }
    return zt_vk_move(engine, call, steps);
}

static zt_status set_uncat(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_uncat_attrs *attrs = call->attrs;
    int axis = zt_vk_axis(attrs->axis, call->in[0]->rank);
    int64_t from = 0;
    for (int k = 0; k < attrs->part; k++) from += call->in[1 + k] ? call->in[1 + k]->dim[axis] : 0;
    return zt_vk_move(engine, call, zt_vk_steps_along(call->in[0], axis, from, 1, call->out->dim[axis]));
}

static zt_status set_repeat(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_repeat_attrs *attrs = call->attrs;
    int axis = zt_vk_axis(attrs->axis, call->in[0]->rank);
    int64_t inner = zt_vk_inner(call->in[0], axis), outer = 1;
    for (int before = 0; before <= axis; before++) outer *= call->in[0]->dim[before];
    zt_vk_steps steps = {0};
    zt_vk_add_axis(&steps, inner, 1);
    zt_vk_add_axis(&steps, attrs->times, 0);
    zt_vk_add_axis(&steps, outer, inner);
    return zt_vk_move(engine, call, steps);
}

/* Elements of 1 or 2 bytes as larger ones, where each part's stretch has a whole number of those. */
static zt_status set_concat(zt_vk_engine *engine, zt_vk_call *call)
{
    int axis = zt_vk_axis(((const zt_concat_attrs *)call->attrs)->axis, call->out->rank);
    int64_t inner = zt_vk_inner(call->out, axis), count = zt_type_count(call->out), lengths = 0, by = 1;
    uint32_t bytes = zt_vk_bytes(call->out->dtype);
    for (int k = 0; k < PARTS; k++) lengths |= call->in[k] ? call->in[k]->dim[axis] * inner : 0;
    while (bytes < 4 && lengths % (2 * by) == 0) {
        bytes *= 2;
        by *= 2;
    }
    call->shader = ZT_VK_SHADER_shape_concat;
    call->spec[0] = bytes;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)(count / by);
    call->word[1] = (uint32_t)(call->out->dim[axis] * inner / by);
    for (int k = 0; k < PARTS; k++) call->word[2 + k] = call->in[k] ? (uint32_t)(call->in[k]->dim[axis] * inner / by) : 0;
    zt_vk_spread(engine, call, count / by, 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_shape[] = {
    {.op = ZT_OP_concat, .has = zt_vk_moves, .set = set_concat, .contract = zt_vk_always},
    {.op = ZT_OP_repeat, .has = zt_vk_moves, .set = set_repeat, .contract = zt_vk_always},
    {.op = ZT_OP_transpose, .has = zt_vk_moves, .set = set_transpose, .contract = zt_vk_always},
    {.op = ZT_OP_uncat, .has = zt_vk_moves, .set = set_uncat, .contract = zt_vk_always},
    {.set = NULL},
};
