/* delta_rule.c - the row of delta_rule (lib/ops/delta_rule.c): the factors of keys and queries first, then an invocation a column
 * of a head's state, through all rows in order. */
#include "lib/engine/vulkan/delta_rule.h"

#include <math.h>
#include <string.h>

enum { STATE, Q, K, V, G, BETA, FROM, TO }; /* inputs */

static bool delta_rule_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_type *state = input_types[STATE];
    (void)attrs, (void)out;
    return state->dtype == ZT_F32 && state->dim[1] <= engine->groups[1] && state->dim[3] / 64 < engine->groups[0] &&
           zt_vk_has_turns(engine, input_types[Q]->dim[0] * (state->dim[2] / 2 + 8));
}

static uint32_t float_word(float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

float zt_vk_delta_scale(const zt_delta_rule_attrs *attrs, int64_t D)
{
    return (float)(attrs->scale > 0 ? attrs->scale : 1 / sqrt((double)D));
}

zt_status zt_vk_delta_factors(zt_vk_engine *engine, zt_vk_call *call, int64_t keys, int64_t D, zt_vk_arg factors)
{
    const zt_delta_rule_attrs *attrs = call->attrs;
    call->shader = ZT_VK_SHADER_delta_rule_factors;
    call->word[1] = (uint32_t)D;
    call->word[2] = float_word((float)attrs->eps);
    call->word[3] = float_word(zt_vk_delta_scale(attrs, D));
    zt_vk_group_each(engine, call, 0, 2 * keys);
    ZT_VK_ARGS(call, zt_vk_in(Q), zt_vk_in(K), factors);
    return zt_vk_then(engine, call);
}

static zt_status set_delta_rule(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_delta_rule_attrs *attrs = call->attrs;
    const zt_type *state = call->in[STATE], *q = call->in[Q];
    const int64_t heads = state->dim[1], D = state->dim[2], E = state->dim[3], n = q->dim[0], keys = D ? q->dim[1] / D : 0;
    const zt_vk_arg factors = zt_vk_scratch(call, (size_t)(n * keys) * 2 * sizeof(float));
    const zt_vk_arg work = zt_vk_scratch(call, (size_t)(heads * D * E) * sizeof(float));
    zt_status status = zt_vk_delta_factors(engine, call, n * keys, D, factors);
    if (status) return status;
    call->shader = ZT_VK_SHADER_delta_rule;
    call->word[8] = (uint32_t)keys;
    call->word[9] = (uint32_t)heads;
    call->word[10] = (uint32_t)D;
    call->word[11] = (uint32_t)E;
    call->word[12] = attrs->share.s[0] == 't';
    call->word[13] = (uint32_t)n;
    call->word[14] = (uint32_t)state->dim[0];
    call->groups[0] = (uint32_t)((E + 63) / 64);
    call->groups[1] = (uint32_t)heads;
    call->groups[2] = n > 0;
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(K), zt_vk_in(V), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(G), zt_vk_in(BETA),
               zt_vk_in(Q), factors, work, zt_vk_out(1));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_delta_rule[] = {
    {.op = ZT_OP_delta_rule, .has = delta_rule_has, .set = set_delta_rule, .contract = zt_vk_always},
    {0},
};
