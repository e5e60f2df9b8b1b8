/* slice.c - pieces along one dimension. */
#include "lib/engine/vulkan/vk.h"

static bool slice_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_dtype_get(input_types[0]->dtype)->block == 1 && zt_dtype_get(input_types[0]->dtype)->block_bytes % 2 == 0;
}

/* By words, or where elements have 2 bytes by those. */
static zt_status set_slice(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_slice_attrs *attrs = call->attrs;
    const zt_type *whole = call->in[0], *slice = call->out;
    int axis = (int)(attrs->axis < 0 ? attrs->axis + whole->rank : attrs->axis);
    int64_t bytes = zt_dtype_get(whole->dtype)->block_bytes, each = bytes == 2 ? 2 : 4;
    int64_t inner = bytes / each, count = zt_type_count(slice) * inner;
    int64_t from = attrs->from < 0 ? attrs->from + whole->dim[axis] : attrs->from;
    for (int inner_axis = axis + 1; inner_axis < whole->rank; inner_axis++) inner *= whole->dim[inner_axis];
    call->shader = ZT_VK_SHADER_slice;
    call->spec[0] = each == 2;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)(slice->dim[axis] * inner);
    call->word[2] = (uint32_t)(whole->dim[axis] * inner);
    call->word[3] = (uint32_t)(from * inner);
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_slice[] = {
    {.op = ZT_OP_slice, .has = slice_has, .set = set_slice},
    {0},
};
