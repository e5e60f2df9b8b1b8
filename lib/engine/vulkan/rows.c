/* rows.c - kernels that take a row at a time: norms, argmax, and pieces of rows. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* One workgroup a row; shaders find theirs by row_of_group() and count them in the word given. */
static void a_group_each(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t rows)
{
    call->word[word] = (uint32_t)rows;
    zt_vk_spread(engine, call, rows, 1);
}

static int64_t last_dim(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

/* ---- norms ----------------------------------------------------------------------------------- */

static bool norm_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype);
}

static zt_status set_norm(zt_vk_engine *engine, zt_vk_call *call, bool layer, int64_t K, double eps)
{
    float epsilon = (float)eps;
    call->shader = ZT_VK_SHADER_norm;
    call->spec[0] = layer;
    call->word[0] = (uint32_t)K;
    memcpy(&call->word[1], &epsilon, sizeof epsilon);
    a_group_each(engine, call, 2, zt_type_count(&call->out[1]));
    return ZT_OK;
}

static zt_status set_rms_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rms_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, false, call->in[1]->dim[0], attrs->eps);
}

static zt_status set_layer_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_layer_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, true, last_dim(call->in[0]), attrs->eps);
}

/* ---- argmax along the last dimension --------------------------------------------------------- */

static bool argmax_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type out[])
{
    const zt_argmax_attrs *argmax = attrs;
    (void)engine, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && (argmax->axis == -1 || argmax->axis == input_types[0]->rank - 1) &&
           last_dim(input_types[0]) > 0;
}

static zt_status set_argmax(zt_vk_engine *engine, zt_vk_call *call)
{
    call->shader = ZT_VK_SHADER_argmax;
    call->word[0] = (uint32_t)last_dim(call->in[0]);
    a_group_each(engine, call, 1, zt_type_count(call->out));
    return ZT_OK;
}

/* ---- slice ----------------------------------------------------------------------------------- */

static bool slice_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_dtype_get(input_types[0]->dtype)->block == 1 &&
           zt_dtype_get(input_types[0]->dtype)->block_bytes % 2 == 0;
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
    call->shader = ZT_VK_SHADER_copy;
    call->spec[0] = each == 2;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)(slice->dim[axis] * inner);
    call->word[2] = (uint32_t)(whole->dim[axis] * inner);
    call->word[3] = (uint32_t)(from * inner);
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_rows[] = {
    {ZT_OP_rms_norm, norm_has, set_rms_norm, 0, NULL, false},
    {ZT_OP_layer_norm, norm_has, set_layer_norm, 0, NULL, false},
    {ZT_OP_argmax, argmax_has, set_argmax, 0, NULL, false},
    {ZT_OP_slice, slice_has, set_slice, 0, NULL, false},
    {0},
};
