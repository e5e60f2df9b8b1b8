/* index.c - rows of a matrix at places given as data. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static bool gather_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs;
    return out[0].dtype == ZT_F32 && input_types[1]->dtype == ZT_I32 && zt_vk_pack_of(input_types[0]->dtype) &&
           zt_type_count(input_types[1]) <= engine->groups[1];
}

static zt_status set_gather(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gather_attrs *attrs = call->attrs;
    (void)engine;
    call->shader = ZT_VK_SHADER_index_gather;
    call->spec[0] = (uint32_t)call->packed[0];
    call->spec[3] = call->plain[0];
    call->word[0] = (uint32_t)zt_type_count(call->in[1]);
    call->word[1] = (uint32_t)call->in[0]->dim[1];
    call->word[2] = (uint32_t)call->in[0]->dim[0];
    call->word[3] = !strcmp(attrs->oob.s, "error");
    call->groups[0] = (call->word[1] + 32 * 32 - 1) / (32 * 32);
    call->groups[1] = call->word[0];
    call->groups[2] = 1;
    return ZT_OK;
}

const zt_vk_kernel zt_vk_index[] = {
    {.op = ZT_OP_gather, .has = gather_has, .set = set_gather, .weights = 1u << 0},
    {0},
};
