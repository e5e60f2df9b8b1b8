/* delta_rule.h - private to lib/engine/vulkan: what delta_rule and its gradient share. */
#ifndef ZT_VK_DELTA_RULE_H
#define ZT_VK_DELTA_RULE_H

#include "lib/engine/vulkan/vk.h"

/* What queries are multiplied by, besides the inverse of their length. */
float zt_vk_delta_scale(const zt_delta_rule_attrs *attrs, int64_t D);
/* A pass of its own: what `keys` keys of D numbers are multiplied by, and after each of these what its query is. The attributes
 * of the op begin as delta_rule's do, and inputs 1 and 2 are q and k. */
zt_status zt_vk_delta_factors(zt_vk_engine *engine, zt_vk_call *call, int64_t keys, int64_t D, zt_vk_arg factors);

#endif
