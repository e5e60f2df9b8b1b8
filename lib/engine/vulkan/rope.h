/* rope.h - private to lib/engine/vulkan: rotations by positions as passes of other ops. */
#ifndef ZT_VK_ROPE_H
#define ZT_VK_ROPE_H

#include "lib/engine/vulkan/vk.h"

bool zt_vk_has_rope(const zt_vk_engine *engine, const zt_rope_attrs *rope, const zt_type *rows, bool divided);
/* The step's table: the angles of pairs. */
zt_status zt_vk_put_angles(zt_vk_engine *engine, zt_vk_call *call, const zt_rope_attrs *rope, const zt_type *rows);
/* Describes the pass that turns `rows`; its operands are x, positions, divisors, the table, y. */
void zt_vk_set_rope(zt_vk_engine *engine, zt_vk_call *call, const zt_rope_attrs *rope, const zt_type *rows);

#endif
