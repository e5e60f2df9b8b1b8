/* expert.c - products by expert (lib/ops/expert.c): each row of y by the matrix of a stack that its index names; and of their
 * weights' gradient. */
#include "lib/engine/vulkan/linear.h"

/* ---- expert_linear --------------------------------------------------------------------------- */

static bool expert_linear_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                              const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_has_product(engine, input_types[0], input_types[1], input_types[3]) &&
           zt_type_count(input_types[2]) <= engine->groups[1];
}

static zt_status set_expert_linear(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_expert_linear_attrs *attrs = call->attrs;
    zt_vk_product product = {.w = 1,
                             .b = 3,
                             .act = attrs->act.s,
                             .y = zt_vk_out(0),
                             .beside = zt_vk_in(2),
                             .experts = (int)call->in[1]->dim[0],
                             .each = call->in[0]->rank == 2 ? call->in[2]->dim[1] : 1};
    if (zt_type_count(call->out) == 0) return ZT_OK;
    return zt_vk_set_products(engine, call, &product, 1);
}

/* ---- expert_linear_backward ------------------------------------------------------------------ */

static bool backward_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_type *like = input_types[3];
    (void)attrs;
    return zt_vk_is_float(input_types[0]->dtype) && out[0].dtype == input_types[0]->dtype &&
           like->dim[0] * like->dim[1] <= engine->groups[1] && zt_vk_has_turns(engine, zt_type_count(input_types[2]));
}

/* An invocation an element of the gradient, which goes through all rows. */
static zt_status set_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_type *like = call->in[3];
    (void)engine;
    call->shader = ZT_VK_SHADER_expert_back;
    call->word[0] = (uint32_t)zt_type_count(call->in[2]);
    call->word[1] = (uint32_t)like->dim[2];
    call->word[2] = (uint32_t)like->dim[1];
    call->word[3] = (uint32_t)like->dim[0];
    call->word[4] = (uint32_t)(call->in[0]->rank == 2 && call->in[2]->dim[1] ? call->in[2]->dim[1] : 1);
    call->groups[0] = (uint32_t)((like->dim[2] + 63) / 64);
    call->groups[1] = (uint32_t)(like->dim[0] * like->dim[1]);
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(2), zt_vk_out(0));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_expert[] = {
    {.op = ZT_OP_expert_linear, .has = expert_linear_has, .set = set_expert_linear, .contract = zt_vk_always, .weights = 1u << 1},
    {.op = ZT_OP_expert_linear_backward, .has = backward_has, .set = set_backward},
    {0},
};
