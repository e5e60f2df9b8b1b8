/* strides.c - where the elements of operands that broadcast are, and elements moved in steps. */
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

/* ---- moves ----------------------------------------------------------------------------------- */

bool zt_vk_moves(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)input_types;
    return zt_dtype_get(out[0].dtype)->block == 1;
}

uint32_t zt_vk_bytes(zt_dtype dtype) { return (uint32_t)zt_dtype_get(dtype)->block_bytes; }

int64_t zt_vk_inner(const zt_type *type, int axis)
{
    int64_t count = 1;
    for (int inner = axis + 1; inner < type->rank; inner++) count *= type->dim[inner];
    return count;
}

void zt_vk_add_axis(zt_vk_steps *steps, int64_t dim, int64_t step)
{
    int last = steps->axis_count - 1;
    if (dim == 1) return;
    if (last >= 0 && step == steps->steps[last] * steps->dims[last]) {
        steps->dims[last] *= dim;
        return;
    }
    steps->dims[steps->axis_count] = dim;
    steps->steps[steps->axis_count++] = step;
}

zt_vk_steps zt_vk_steps_along(const zt_type *whole, int axis, int64_t from, int64_t by, int64_t count)
{
    int64_t inner = zt_vk_inner(whole, axis), outer = 1;
    for (int before = 0; before < axis; before++) outer *= whole->dim[before];
    zt_vk_steps steps = {.base = from * inner};
    zt_vk_add_axis(&steps, inner, 1);
    zt_vk_add_axis(&steps, count, by * inner);
    zt_vk_add_axis(&steps, outer, whole->dim[axis] * inner);
    return steps;
}

/* Two elements as one of twice the size, where all of them lie so. */
static bool widen_elements(zt_vk_steps *steps)
{
    bool even = steps->axis_count > 0 && steps->steps[0] == 1 && steps->dims[0] % 2 == 0 && steps->base % 2 == 0;
    for (int axis = 1; axis < steps->axis_count && even; axis++) even = steps->steps[axis] % 2 == 0;
    if (!even) return false;
    steps->dims[0] /= 2;
    steps->base /= 2;
    for (int axis = 1; axis < steps->axis_count; axis++) steps->steps[axis] /= 2;
    return true;
}

static zt_status set_table(zt_vk_engine *engine, zt_vk_call *call, const zt_vk_steps *steps)
{
    const size_t axes = (size_t)steps->axis_count;
    call->table_words = 2 * axes;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    for (size_t axis = 0; axis < axes && call->table; axis++) {
        call->table[axis] = (uint32_t)steps->dims[axis];
        call->table[axes + axis] = (uint32_t)steps->steps[axis];
    }
    return call->table ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_vk_move(zt_vk_engine *engine, zt_vk_call *call, zt_vk_steps steps)
{
    uint32_t bytes = zt_vk_bytes(call->out->dtype);
    int64_t count = 1;
    while (bytes < 4 && widen_elements(&steps)) bytes *= 2;
    for (int axis = 0; axis < steps.axis_count; axis++) count *= steps.dims[axis];
    call->shader = ZT_VK_SHADER_shape;
    call->spec[0] = bytes;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)steps.axis_count;
    call->word[2] = (uint32_t)steps.steps[0];
    call->word[5] = (uint32_t)steps.base;
    zt_vk_spread(engine, call, count, 64);
    if (steps.axis_count <= 1) {
        ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_out(0));
        return ZT_OK;
    }
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_table(0), zt_vk_out(0));
    return set_table(engine, call, &steps);
}
