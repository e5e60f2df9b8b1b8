/* selective_scan.c - the row of selective_scan (lib/ops/selective_scan.c): an invocation a channel, through all rows in order. */
#include "lib/engine/vulkan/vk.h"

enum { STATE, X, DT, A, B, C, FROM, TO, D }; /* inputs */

static bool selective_scan_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                               const zt_type out[])
{
    (void)attrs, (void)out;
    return input_types[X]->dtype == ZT_F32 && zt_vk_has_turns(engine, input_types[X]->dim[0] * (input_types[STATE]->dim[2] + 32));
}

static zt_status set_selective_scan(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_type *state = call->in[STATE], *a = call->in[A];
    const int64_t width = state->dim[1], N = state->dim[2], n = call->in[X]->dim[0], heads = a->dim[0];
    const zt_vk_arg work = zt_vk_scratch(call, (size_t)(width * N) * sizeof(float));
    call->shader = ZT_VK_SHADER_selective_scan;
    call->word[8] = (uint32_t)n;
    call->word[9] = (uint32_t)state->dim[0];
    call->word[10] = (uint32_t)heads;
    call->word[11] = (uint32_t)(heads ? width / heads : 0);
    call->word[12] = (uint32_t)N;
    call->word[13] = (uint32_t)(N ? call->in[B]->dim[1] / N : 1);
    call->word[14] = a->dim[1] > 1;
    zt_vk_spread(engine, call, n ? width : 0, 64);
    ZT_VK_ARGS(call, zt_vk_in(STATE), zt_vk_in(X), zt_vk_in(DT), zt_vk_in(FROM), zt_vk_in(TO), zt_vk_in(A), zt_vk_in(B),
               zt_vk_in(C), zt_vk_in(D), zt_vk_out(1), work);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_selective_scan[] = {
    {.op = ZT_OP_selective_scan, .has = selective_scan_has, .set = set_selective_scan, .contract = zt_vk_always},
    {0},
};
