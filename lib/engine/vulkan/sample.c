/* sample.c - the row of op sample_token: a language model's next token, chosen where its logits are. Weights are computed in
 * f64, as on the cpu: so a device needs that and integers of 64 bits. */
#include "lib/engine/vulkan/vk.h"

/* Invocations of a row's workgroup, and how often each of them goes through its part of the row, at most. */
enum { FEW = 128, MANY = 256, TIMES = 30 };
static uint32_t group_of(const zt_vk_engine *engine) { return engine->invocations >= MANY ? MANY : FEW; }

static bool sample_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return input_types[0]->dim[1] / group_of(engine) * TIMES < ZT_VK_TURNS && engine->doubles &&
           zt_vk_is_float(input_types[0]->dtype);
}

static zt_status set_sample(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_type *x = call->in[0], *recent = call->in[7], *banned = call->in[8];
    zt_vk_arg orders = zt_vk_scratch(call, (size_t)zt_type_count(x) * sizeof(uint32_t));
    call->shader = ZT_VK_SHADER_sample;
    call->spec[0] = group_of(engine);
    call->word[8] = (uint32_t)x->dim[1];
    call->word[9] = recent ? (uint32_t)recent->dim[1] : 0;
    call->word[10] = banned ? (uint32_t)banned->dim[banned->rank - 1] : 0;
    call->word[11] = banned && banned->rank == 2;
    zt_vk_group_each(engine, call, 12, x->dim[0]);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(2), zt_vk_in(3), zt_vk_in(4), zt_vk_in(5), zt_vk_in(6), zt_vk_in(7),
               zt_vk_in(8), zt_vk_out(0), orders);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_sample[] = {
    {.op = ZT_OP_sample_token, .has = sample_has, .set = set_sample},
    {0},
};
