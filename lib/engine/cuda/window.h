/* window.h - private to lib/engine/cuda: windows as kernels take them. */
#ifndef ZT_CU_WINDOW_H
#define ZT_CU_WINDOW_H

#include "lib/engine/cuda/args_conv.h"
#include "lib/engine/cuda/strides.h"
#include "lib/ops/window.h"

/* The step's own table of what taps reach goes with it. */
zt_status zt_cu_window_of(zt_cu_call *c, const zt_window *w, zt_cu_window *out);

#endif
