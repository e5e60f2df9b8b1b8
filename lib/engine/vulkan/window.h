/* window.h - private to lib/engine/vulkan: windows of convolution and pooling, for shaders/window.glsl. */
#ifndef ZT_VK_WINDOW_H
#define ZT_VK_WINDOW_H

#include "lib/engine/vulkan/vk.h"
#include "lib/ops/window.h"

/* Are all places that windows reach within 32 bits, and are taps few enough for a table? */
bool zt_vk_window_fits(const zt_window *window);
/* The step's table of windows, and spec[3], the dimensions that it has. */
zt_status zt_vk_set_window(zt_vk_engine *engine, zt_vk_call *call, const zt_window *window);

#endif
