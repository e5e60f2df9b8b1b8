/* scan.c - running sums and products along an axis. */
#include "lib/engine/vulkan/vk.h"

static bool number_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype) || (input_types[0]->dtype >= ZT_I64 && input_types[0]->dtype <= ZT_U8);
}

static zt_status set_scan(zt_vk_engine *engine, zt_vk_call *call, bool product)
{
    const zt_cumsum_attrs *attrs = call->attrs; /* cumprod's are the same */
    const zt_type *x = call->in[0];
    const int axis = zt_vk_axis(attrs->axis, x->rank);
    const int64_t n = x->dim[axis];
    call->shader = ZT_VK_SHADER_scan;
    call->spec[0] = product;
    call->spec[1] = x->dtype >= ZT_I64;
    call->word[0] = (uint32_t)n;
    call->word[1] = (uint32_t)zt_vk_inner(x, axis);
    call->word[3] = attrs->exclusive != 0;
    call->word[4] = attrs->reverse != 0;
    call->word[5] = (uint32_t)x->dtype;
    zt_vk_group_each(engine, call, 2, n ? zt_type_count(x) / n : 0);
    return ZT_OK;
}

static zt_status set_cumsum(zt_vk_engine *engine, zt_vk_call *call) { return set_scan(engine, call, false); }
static zt_status set_cumprod(zt_vk_engine *engine, zt_vk_call *call) { return set_scan(engine, call, true); }

const zt_vk_kernel zt_vk_scan[] = {
    {.op = ZT_OP_cumsum, .has = number_has, .set = set_cumsum},
    {.op = ZT_OP_cumprod, .has = number_has, .set = set_cumprod},
    {.set = NULL},
};
