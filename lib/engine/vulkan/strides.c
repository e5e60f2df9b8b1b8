/* strides.c - where the elements of operands that broadcast are. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* Elements from one index to the next of an axis of the whole in an operand, 0 where it is repeated. */
static uint32_t step_of(const zt_type *type, const zt_type *whole, int axis)
{
    int own_axis = axis - (whole->rank - type->rank);
    if (own_axis < 0 || type->dim[own_axis] == 1) return 0;
    uint32_t step = 1;
    for (int k = own_axis + 1; k < type->rank; k++) step *= (uint32_t)type->dim[k];
    return step;
}

zt_vk_strides zt_vk_strides_of(const zt_type *const input_types[], int operand_count, const zt_type *whole)
{
    zt_vk_strides strides = {0};
    for (int axis = whole->rank - 1; axis >= 0; axis--) {
        uint32_t size = (uint32_t)whole->dim[axis], step[ZT_MAX_IN] = {0};
        bool merge = strides.axis_count > 0;
        if (size == 1) continue;
        for (int operand_index = 0; operand_index < operand_count; operand_index++) {
            if (input_types[operand_index]) step[operand_index] = step_of(input_types[operand_index], whole, axis);
            merge = merge && step[operand_index] ==
                                 strides.steps[operand_index][strides.axis_count - 1] * strides.dims[strides.axis_count - 1];
        }
        for (int operand_index = 0; operand_index < operand_count && !merge; operand_index++)
            strides.steps[operand_index][strides.axis_count] = step[operand_index];
        if (merge)
            strides.dims[strides.axis_count - 1] *= size;
        else
            strides.dims[strides.axis_count++] = size;
    }
    return strides;
}

zt_status zt_vk_set_strides(zt_vk_engine *engine, zt_vk_call *call, int operand_count, const zt_type *whole)
{
    const zt_vk_strides strides = zt_vk_strides_of(call->in, operand_count, whole);
    const size_t axes = (size_t)strides.axis_count;
    call->word[0] = (uint32_t)zt_type_count(whole);
    call->word[1] = (uint32_t)axes;
    for (int operand = 0; operand < operand_count; operand++) call->word[2 + operand] = strides.steps[operand][0];
    zt_vk_spread(engine, call, zt_type_count(whole), 64);
    if (axes <= 1) return ZT_OK;
    call->table_words = axes * (1 + (size_t)operand_count);
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    memcpy(call->table, strides.dims, axes * sizeof *call->table);
    for (size_t operand = 0; operand < (size_t)operand_count; operand++)
        memcpy(call->table + axes * (1 + operand), strides.steps[operand], axes * sizeof *call->table);
    return ZT_OK;
}
