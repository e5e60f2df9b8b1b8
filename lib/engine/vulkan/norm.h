/* norm.h - private to lib/engine/vulkan: a norm of rows as a pass of another op. */
#ifndef ZT_VK_NORM_H
#define ZT_VK_NORM_H

#include "lib/engine/vulkan/vk.h"

/* Describes the pass that norms `rows` groups of K columns; its operands are x, gains, y, rstd. */
void zt_vk_set_rms_norm(zt_vk_engine *engine, zt_vk_call *call, int64_t K, int64_t rows, double eps);

#endif
