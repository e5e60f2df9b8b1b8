/* topk.c - the first entries of a line in order. */
#include "lib/engine/vulkan/lines.h"

static bool topk_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    zt_dtype dtype = input_types[0]->dtype;
    (void)engine, (void)attrs, (void)out;
    return input_types[0]->rank > 0 && (dtype <= ZT_BF16 || (dtype >= ZT_I64 && dtype <= ZT_U8));
}

static zt_status set_topk(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_topk_attrs *attrs = call->attrs;
    zt_vk_lines all = zt_vk_lines_of(call->in[0], attrs->axis);
    call->shader = ZT_VK_SHADER_topk;
    call->word[3] = call->in[0]->dtype;
    call->word[4] = attrs->largest != 0;
    call->word[5] = (uint32_t)(attrs->k ? attrs->k : all.count);
    zt_vk_put_lines(engine, call, &all, false);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_topk[] = {
    {.op = ZT_OP_topk, .has = topk_has, .set = set_topk},
    {0},
};
