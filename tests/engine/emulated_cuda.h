/* emulated_cuda.h - for tests of the engine cuda on the emulated driver alone (ZT_LIBCUDA names it). */
#ifndef ZT_TEST_EMULATED_CUDA_H
#define ZT_TEST_EMULATED_CUDA_H

#include "lib/engine/cuda/cu.h"
#include "tests/engine/device.h"

/* NULL after a skip that says why: no driver, or a real one. */
static inline zt_engine *device_emulated(zt_ctx *ctx)
{
    zt_engine *e = device_open(ctx, "cuda");
    if (!e || ((zt_cu_engine *)e)->cu.emulated) return e;
    skip("cuda: the driver is not the emulated one");
    zt_engine_close(e);
    return NULL;
}

#endif
