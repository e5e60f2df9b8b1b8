/* state_back.h - private to lib/engine/vulkan: what gradients of recurrences share. */
#ifndef ZT_VK_STATE_BACK_H
#define ZT_VK_STATE_BACK_H

#include "lib/engine/vulkan/vk.h"

/* Scratch of a gradient that is computed on the device, at most; a longer step is left to the cpu, which keeps fewer states. */
enum { ZT_VK_STATE_BACK_FLOATS = 128 << 20 };

/* A pass of its own: `count` numbers y[o, i] = sum over j < parts of part[o, j, i], i < inner. */
static inline zt_status zt_vk_sum_parts(zt_vk_engine *engine, zt_vk_call *call, zt_vk_arg part, size_t floats_before,
                                        int64_t count, int64_t parts, int64_t inner, zt_vk_arg y)
{
    part.offset += floats_before * sizeof(float);
    call->shader = ZT_VK_SHADER_state_back;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)parts;
    call->word[2] = (uint32_t)inner;
    zt_vk_spread(engine, call, count, 64);
    ZT_VK_ARGS(call, part, y);
    return zt_vk_then(engine, call);
}

#endif
