/* attention.c - attention over a cache. */
#include "lib/engine/vulkan/tile.h"
#include "lib/engine/vulkan/vk.h"

#include <math.h>
#include <string.h>

enum { MOST_HEAD = 512 }; /* MOST_D of shaders/attention.comp */

static bool attention_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_attention_attrs *attention = attrs;
    (void)out;
    return attention->head <= MOST_HEAD && input_types[0]->dim[0] <= engine->groups[1] && input_types[0]->dtype == ZT_F32;
}

static zt_status set_attention(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_attention_attrs *attrs = call->attrs;
    int64_t D = attrs->head, H = call->in[0]->dim[1] / D, W = call->in[1]->dim[1];
    float scale = (float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)D)), cap = (float)attrs->softcap;
    int64_t window = attrs->window < INT32_MAX ? attrs->window : 0;
    call->shader = ZT_VK_SHADER_attention;
    call->spec[0] = call->in[1]->dtype == ZT_F16;
    call->spec[1] = (uint32_t)zt_vk_tile(engine->shared_bytes, D);
    call->spec[2] = zt_vk_width(engine);
    call->word[0] = (uint32_t)D;
    call->word[1] = (uint32_t)H;
    call->word[2] = (uint32_t)W;
    call->word[3] = (uint32_t)(H / (W / D));
    call->word[4] = (uint32_t)window;
    memcpy(&call->word[5], &scale, sizeof scale);
    memcpy(&call->word[6], &cap, sizeof cap);
    zt_vk_set_slots(call, 7, call->in[1], call->in[5]);
    call->groups[0] = (uint32_t)H;
    call->groups[1] = (uint32_t)call->in[0]->dim[0];
    call->groups[2] = 1;
    return ZT_OK;
}

const zt_vk_kernel zt_vk_attention[] = {
    {.op = ZT_OP_attention, .has = attention_has, .set = set_attention},
    {0},
};
