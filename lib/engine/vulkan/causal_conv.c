/* causal_conv.c - the row of causal_conv (lib/ops/causal_conv.c): an invocation a channel, through all rows in order. */
#include "lib/engine/vulkan/vk.h"

enum { STATE, X, W, FROM, TO, B }; /* inputs */

static bool causal_conv_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                            const zt_type out[])
{
    (void)attrs, (void)out;
    return input_types[X]->dtype == ZT_F32 && zt_vk_has_turns(engine, input_types[X]->dim[0] * (2 * input_types[W]->dim[1] + 1));
}

static zt_status set_causal_conv(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_causal_conv_attrs *attrs = call->attrs;
    const int64_t C = call->in[X]->dim[1], K = call->in[W]->dim[1];
    const zt_vk_arg window = zt_vk_scratch(call, (size_t)(K * C) * sizeof(float));
    call->shader = ZT_VK_SHADER_causal_conv;
    call->word[2] = (uint32_t)call->in[X]->dim[0];
    call->word[3] = (uint32_t)call->in[STATE]->dim[0];
    call->word[4] = (uint32_t)C;
    call->word[5] = (uint32_t)K;
    call->word[6] = attrs->act.s[0] == 's';
    zt_vk_spread(engine, call, C, 64);
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(X), zt_vk_in(W), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(B), zt_vk_out(1), window);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_causal_conv[] = {
    {.op = ZT_OP_causal_conv, .has = causal_conv_has, .set = set_causal_conv, .contract = zt_vk_always},
    {0},
};
