/* reduce.h - private to lib/engine/vulkan: folds for the rows of other families. */
#ifndef ZT_VK_REDUCE_H
#define ZT_VK_REDUCE_H

#include "lib/engine/vulkan/vk.h"

/* The constant FOLD of shaders/reduce.comp; the last is the logarithm of the sum of exponentials. */
typedef enum zt_vk_fold { ZT_VK_SUM, ZT_VK_PROD, ZT_VK_MAX, ZT_VK_MIN, ZT_VK_LSE } zt_vk_fold;

/* Can elements of this type be folded: floats of 16 bits and more, and integers? */
bool zt_vk_folds(const zt_vk_engine *engine, zt_dtype dtype);
/* The passes of output 0 = the fold of input 0, of type x, over the dimensions marked in `gone`, divided by a count (of
 * integers towards zero). */
zt_status zt_vk_set_reduce(zt_vk_engine *engine, zt_vk_call *call, zt_vk_fold fold, const zt_type *x, const bool *gone,
                           int64_t by);

#endif
