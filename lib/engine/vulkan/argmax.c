/* argmax.c - where a line is largest or smallest. */
#include "lib/engine/vulkan/lines.h"

static bool argmax_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    zt_dtype dtype = input_types[0]->dtype;
    (void)engine, (void)out;
    if (!zt_vk_lines_fit(input_types[0], ((const zt_argmax_attrs *)attrs)->axis, 1)) return false;
    return dtype <= ZT_BF16 || (dtype >= ZT_I64 && dtype <= ZT_U8);
}

static zt_status set_arg(zt_vk_engine *engine, zt_vk_call *call, bool largest)
{
    zt_vk_lines all = zt_vk_lines_of(call->in[0], ((const zt_argmax_attrs *)call->attrs)->axis);
    bool apart = zt_vk_lines_apart(&all);
    call->shader = ZT_VK_SHADER_argmax;
    call->spec[0] = !apart;
    call->word[3] = call->in[0]->dtype;
    call->word[4] = largest;
    zt_vk_put_lines(engine, call, &all, apart);
    return ZT_OK;
}

static zt_status set_argmax(zt_vk_engine *engine, zt_vk_call *call) { return set_arg(engine, call, true); }
static zt_status set_argmin(zt_vk_engine *engine, zt_vk_call *call) { return set_arg(engine, call, false); }

const zt_vk_kernel zt_vk_argmax[] = {
    {.op = ZT_OP_argmax, .has = argmax_has, .set = set_argmax, .contract = zt_vk_always},
    {.op = ZT_OP_argmin, .has = argmax_has, .set = set_argmin, .contract = zt_vk_always},
    {0},
};
