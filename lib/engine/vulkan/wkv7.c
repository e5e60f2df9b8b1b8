/* wkv7.c - the row of wkv7 (lib/ops/wkv7.c): an invocation a column of a head's state, through all rows in order. */
#include "lib/engine/vulkan/vk.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO }; /* inputs */

static bool wkv7_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_type *state = input_types[STATE];
    (void)attrs, (void)out;
    return state->dim[1] <= engine->groups[1] && state->dim[3] / 64 < engine->groups[0] &&
           zt_vk_has_turns(engine, input_types[Q]->dim[0] * (state->dim[2] / 2 + 8));
}

static zt_status set_wkv7(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_type *state = call->in[STATE];
    const int64_t heads = state->dim[1], D = state->dim[2], E = state->dim[3], n = call->in[Q]->dim[0];
    const zt_vk_arg work = zt_vk_scratch(call, (size_t)(heads * D * E) * sizeof(float));
    (void)engine;
    call->shader = ZT_VK_SHADER_wkv7;
    call->word[8] = (uint32_t)heads;
    call->word[9] = (uint32_t)D;
    call->word[10] = (uint32_t)E;
    call->word[11] = (uint32_t)n;
    call->word[12] = (uint32_t)state->dim[0];
    call->groups[0] = (uint32_t)((E + 63) / 64);
    call->groups[1] = (uint32_t)heads;
    call->groups[2] = n > 0;
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(Q), zt_vk_in(W), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(K), zt_vk_in(V),
               zt_vk_in(A), zt_vk_in(B), work, zt_vk_out(1));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_wkv7[] = {
    {.op = ZT_OP_wkv7, .has = wkv7_has, .set = set_wkv7, .contract = zt_vk_always},
    {0},
};
