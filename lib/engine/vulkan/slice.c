/* slice.c - parts of an axis, and parts put into zeros. */
#include "lib/engine/vulkan/vk.h"

/* From `from` on, which counts from the end where it is below 0. */
static zt_status take_part(zt_vk_engine *engine, zt_vk_call *call, int64_t at, int64_t from, int64_t by)
{
    const zt_type *whole = call->in[0];
    int axis = zt_vk_axis(at, whole->rank);
    if (from < 0) from += whole->dim[axis];
    return zt_vk_move(engine, call, zt_vk_steps_along(whole, axis, from, by, call->out->dim[axis]));
}

static zt_status put_part(zt_vk_engine *engine, zt_vk_call *call, int64_t at, int64_t from, int64_t by)
{
    const zt_type *whole = call->out;
    int axis = zt_vk_axis(at, whole->rank);
    if (from < 0) from += whole->dim[axis];
    call->shader = ZT_VK_SHADER_slice_put;
    call->spec[0] = zt_vk_bytes(whole->dtype);
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)zt_type_count(whole);
    call->word[1] = (uint32_t)zt_vk_inner(whole, axis);
    call->word[2] = (uint32_t)whole->dim[axis];
    call->word[3] = (uint32_t)call->in[0]->dim[axis];
    call->word[4] = (uint32_t)from;
    call->word[5] = (uint32_t)by;
    zt_vk_spread(engine, call, zt_type_count(whole), 64);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_out(0));
    return ZT_OK;
}

/* A step that leads out of an axis: no second entry is there. */
static int64_t bounded_step(int64_t step) { return step > INT32_MAX ? INT32_MAX : step < -INT32_MAX ? -INT32_MAX : step; }

static zt_status set_slice(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_slice_attrs *attrs = call->attrs;
    return take_part(engine, call, attrs->axis, attrs->from, 1);
}

static zt_status set_slice_put(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_slice_put_attrs *attrs = call->attrs;
    return put_part(engine, call, attrs->axis, attrs->from, 1);
}

static zt_status set_slice_step(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_slice_step_attrs *attrs = call->attrs;
    return take_part(engine, call, attrs->axis, attrs->from, bounded_step(attrs->step));
}

static zt_status set_slice_step_put(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_slice_step_put_attrs *attrs = call->attrs;
    return put_part(engine, call, attrs->axis, attrs->from, bounded_step(attrs->step));
}

const zt_vk_kernel zt_vk_slice[] = {
    {.op = ZT_OP_slice, .has = zt_vk_moves, .set = set_slice, .contract = zt_vk_always},
    {.op = ZT_OP_slice_put, .has = zt_vk_moves, .set = set_slice_put},
    {.op = ZT_OP_slice_step, .has = zt_vk_moves, .set = set_slice_step},
    {.op = ZT_OP_slice_step_put, .has = zt_vk_moves, .set = set_slice_step_put},
    {.set = NULL},
};
