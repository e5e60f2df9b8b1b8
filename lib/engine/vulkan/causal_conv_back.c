/* causal_conv_back.c - the row of causal_conv_backward (lib/ops/causal_conv_back.c): an invocation a channel. */
#include "lib/engine/vulkan/vk.h"

enum { STATE, X, W, FROM, TO, B, DSTATE1, DY }; /* inputs */
enum { DSTATE, DX, DW, DB };                    /* outputs */

/* Numbers of scratch: what slots hold, the states before rows, cotangents of the state and of slots. */
static int64_t scratch_floats(const zt_type *const in[])
{
    const int64_t slots = in[STATE]->dim[0], entries = in[W]->dim[1] - 1;
    return (slots + in[X]->dim[0] + 1 + slots) * entries * in[X]->dim[1];
}

static bool causal_conv_back_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                                 const zt_type out[])
{
    const int64_t slots = input_types[STATE]->dim[0], K = input_types[W]->dim[1];
    (void)attrs, (void)out;
    return input_types[X]->dtype == ZT_F32 && scratch_floats(input_types) < INT32_MAX &&
           zt_vk_has_turns(engine, (2 * slots + 2) * K + input_types[X]->dim[0] * (7 * K + 2));
}

static zt_status set_causal_conv_back(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_causal_conv_backward_attrs *attrs = call->attrs;
    const int64_t C = call->in[X]->dim[1], K = call->in[W]->dim[1];
    const zt_vk_arg room = zt_vk_scratch(call, (size_t)scratch_floats(call->in) * sizeof(float));
    call->shader = ZT_VK_SHADER_causal_conv_back;
    call->word[12] = (uint32_t)call->in[X]->dim[0];
    call->word[13] = (uint32_t)call->in[STATE]->dim[0];
    call->word[14] = (uint32_t)C;
    call->word[15] = (uint32_t)K | (attrs->act.s[0] == 's' ? UINT32_C(1) << 31 : 0);
    zt_vk_spread(engine, call, C, 64);
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(X), zt_vk_in(W), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(B), zt_vk_in(DSTATE1),
               zt_vk_in(DY), zt_vk_out(DSTATE), zt_vk_out(DX), zt_vk_out(DW), call->in[B] ? zt_vk_out(DB) : zt_vk_none(), room);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_causal_conv_back[] = {
    {.op = ZT_OP_causal_conv_backward, .has = causal_conv_back_has, .set = set_causal_conv_back},
    {0},
};
