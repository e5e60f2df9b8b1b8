/* fake_cuda.h - a CUDA driver of tests: the real one, or the emulated, behind functions that fail
 * when they are told to and count what is not given back. For one C file each; lib/engine/cuda has
 * to be built in. */
#ifndef ZT_FAKE_CUDA_H
#define ZT_FAKE_CUDA_H

#include "lib/engine/cuda/cu.h"
#include "tests/engine/device_faults.h"

#include <string.h>

#ifndef FAKE_ENGINE /* whose driver it is */
#define FAKE_ENGINE   zt_engine_cuda
#define FAKE_PLATFORM zt_cu_nvidia
#endif

/* ---- the driver, with faults ----------------------------------------------------------------- */

static zt_cu_api real;
static int fault = 999; /* what fails fails with; 2: no memory */

/* X(function, parameters, arguments, objects it makes). Before the
 * call, so that it does nothing. */
// clang-format off
#define CALLS(X)                                                                                   \
    X(DeviceGetCount, (int *n), (n), 0)                                                            \
    X(DeviceGet, (int *d, int i), (d, i), 0)                                                       \
    X(DeviceGetName, (char *p, int n, int d), (p, n, d), 0)                                        \
    X(DeviceGetAttribute, (int *v, int a, int d), (v, a, d), 0)                                    \
    X(PrimaryCtxRetain, (zt_cu_context *c, int d), (c, d), 1)                                      \
    X(CtxSetCurrent, (zt_cu_context c), (c), 0)                                                    \
    X(MemAlloc, (zt_cu_ptr *at, size_t n), (at, n), 1)                                             \
    X(MemHostAlloc, (void **p, size_t n, unsigned f), (p, n, f), 1)                                \
    X(MemGetInfo, (size_t *left, size_t *whole), (left, whole), 0)                                 \
    X(MemcpyHtoDAsync, (zt_cu_ptr to, const void *from, size_t n, zt_cu_stream s),                 \
      (to, from, n, s), 0)                                                                         \
    X(MemcpyDtoHAsync, (void *to, zt_cu_ptr from, size_t n, zt_cu_stream s), (to, from, n, s), 0)  \
    X(MemcpyDtoDAsync, (zt_cu_ptr to, zt_cu_ptr from, size_t n, zt_cu_stream s),                   \
      (to, from, n, s), 0)                                                                         \
    X(MemsetD8Async, (zt_cu_ptr at, unsigned char v, size_t n, zt_cu_stream s), (at, v, n, s), 0)  \
    X(StreamCreate, (zt_cu_stream *s, unsigned f), (s, f), 1)                                      \
    X(StreamSynchronize, (zt_cu_stream s), (s), 0)                                                 \
    X(StreamBeginCapture, (zt_cu_stream s, int m), (s, m), 0)                                      \
    X(GraphInstantiate, (zt_cu_exec *x, zt_cu_graph g, unsigned long long f), (x, g, f), 1)        \
    X(GraphLaunch, (zt_cu_exec x, zt_cu_stream s), (x, s), 0)                                      \
    X(EventCreate, (zt_cu_event *v, unsigned f), (v, f), 1)                                        \
    X(EventRecord, (zt_cu_event v, zt_cu_stream s), (v, s), 0)                                     \
    X(EventSynchronize, (zt_cu_event v), (v), 0)                                                   \
    X(EventElapsedTime, (float *ms, zt_cu_event a, zt_cu_event b), (ms, a, b), 0)                  \
    X(ModuleLoadData, (zt_cu_module *m, const void *p), (m, p), 1)                                 \
    X(ModuleGetFunction, (zt_cu_function *f, zt_cu_module m, const char *n), (f, m, n), 0)         \
    X(LaunchKernel,                                                                                \
      (zt_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
       unsigned bz, unsigned n, zt_cu_stream s, void **p, void **e),                               \
      (f, gx, gy, gz, bx, by, bz, n, s, p, e), 0)                                                  \
    X(LaunchCooperativeKernel,                                                                     \
      (zt_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
       unsigned bz, unsigned n, zt_cu_stream s, void **p),                                         \
      (f, gx, gy, gz, bx, by, bz, n, s, p), 0)                                                     \
    X(OccupancyMaxBlocks, (int *n, zt_cu_function f, int t, size_t s), (n, f, t, s), 0)
/* X(function, parameters, arguments): gives an object back. */
#define ENDS(X)                                                                                    \
    X(PrimaryCtxRelease, (int d), (d)) X(MemFree, (zt_cu_ptr at), (at))                            \
    X(MemFreeHost, (void *p), (p)) X(StreamDestroy, (zt_cu_stream s), (s))                         \
    X(GraphExecDestroy, (zt_cu_exec x), (x)) X(GraphDestroy, (zt_cu_graph g), (g))                 \
    X(EventDestroy, (zt_cu_event v), (v)) X(ModuleUnload, (zt_cu_module m), (m))

#define X(f, params, args, made)                                                                   \
    static int fake_##f params                                                                     \
    {                                                                                              \
        if (hit(#f)) return fault;                                                                 \
        int r = real.f args;                                                                       \
        if (!r) live += made;                                                                      \
        return r;                                                                                  \
    }
CALLS(X)
#undef X
#define X(f, params, args)                                                                         \
    static int fake_##f params                                                                     \
    {                                                                                              \
        live--;                                                                                    \
        return real.f args;                                                                        \
    }
// clang-format on
ENDS(X)
#undef X

/* A capture that fails is over all the same. */
static int fake_StreamEndCapture(zt_cu_stream stream, zt_cu_graph *g)
{
    bool fails = hit("StreamEndCapture");
    int r = real.StreamEndCapture(stream, g);
    if (!fails) live += !r;
    if (!fails) return r;
    if (!r) real.GraphDestroy(*g);
    *g = NULL;
    return fault;
}

/* The engine on that driver. */
static zt_engine *open_fake(zt_ctx *ctx)
{
    zt_cu_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){.vt = &FAKE_ENGINE, .ctx = ctx};
    zt_status status = zt_cu_load(ctx, &FAKE_PLATFORM, &e->cu);
    if (!status) {
        real = e->cu;
        // clang-format off
#define X(f, ...) e->cu.f = fake_##f;
        CALLS(X) ENDS(X)
#undef X
            // clang-format on
            e->cu.StreamEndCapture = fake_StreamEndCapture;
        status = zt_cu_device_open(e, 0);
    }
    if (!status) return &e->base;
    FAKE_ENGINE.close(&e->base);
    return NULL;
}

#endif
