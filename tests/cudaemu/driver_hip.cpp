/* driver_hip.cpp - the emulated driver by HIP's names, and with an AMD device's limits: waves of 64,
 * 64 KiB of shared memory a block. The functions are CUDA's, and so ZT_CUDA_EMU_* are: driver.cpp.
 */
#include "emu.h"

#include <stddef.h>

typedef struct emu_stream emu_stream;
#define HIP extern "C" __attribute__((visibility("default")))

/* name, CUDA's, parameters, arguments */
#define SAME(X)                                                                                    \
    X(hipInit, cuInit, (unsigned flags), (flags))                                                  \
    X(hipGetDeviceCount, cuDeviceGetCount, (int *n), (n))                                          \
    X(hipDeviceGet, cuDeviceGet, (int *device, int i), (device, i))                                \
    X(hipDeviceGetName, cuDeviceGetName, (char *p, int n, int device), (p, n, device))             \
    X(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *n, int device), (n, device))                \
    X(hipDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **c, int device), (c, device))    \
    X(hipDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int device), (device))            \
    X(hipCtxSetCurrent, cuCtxSetCurrent, (void *c), (c))                                           \
    X(hipMalloc, cuMemAlloc_v2, (uint64_t *at, size_t n), (at, n))                                 \
    X(hipFree, cuMemFree_v2, (uint64_t at), (at))                                                  \
    X(hipHostMalloc, cuMemHostAlloc, (void **p, size_t n, unsigned flags), (p, n, flags))          \
    X(hipHostFree, cuMemFreeHost, (void *p), (p))                                                  \
    X(hipMemGetInfo, cuMemGetInfo_v2, (size_t *left, size_t *whole), (left, whole))                \
    X(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                                    \
      (uint64_t to, const void *from, size_t n, void *s), (to, from, n, s))                        \
    X(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t n, void *s),      \
      (to, from, n, s))                                                                            \
    X(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t n, void *s),   \
      (to, from, n, s))                                                                            \
    X(hipMemsetD8Async, cuMemsetD8Async, (uint64_t at, unsigned char v, size_t n, void *s),        \
      (at, v, n, s))                                                                               \
    X(hipStreamCreateWithFlags, cuStreamCreate, (void **s, unsigned flags), (s, flags))            \
    X(hipStreamDestroy, cuStreamDestroy_v2, (void *s), (s))                                        \
    X(hipStreamSynchronize, cuStreamSynchronize, (void *s), (s))                                   \
    X(hipStreamBeginCapture, cuStreamBeginCapture_v2, (void *s, int mode), (s, mode))              \
    X(hipStreamEndCapture, cuStreamEndCapture, (void *s, void **g), (s, g))                        \
    X(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                                   \
      (void **x, void *g, unsigned long long flags), (x, g, flags))                                \
    X(hipGraphLaunch, cuGraphLaunch, (void *x, void *s), (x, s))                                   \
    X(hipGraphExecDestroy, cuGraphExecDestroy, (void *x), (x))                                     \
    X(hipGraphDestroy, cuGraphDestroy, (void *g), (g))                                             \
    X(hipEventCreateWithFlags, cuEventCreate, (void **v, unsigned flags), (v, flags))              \
    X(hipEventDestroy, cuEventDestroy_v2, (void *v), (v))                                          \
    X(hipEventRecord, cuEventRecord, (void *v, void *s), (v, s))                                   \
    X(hipEventSynchronize, cuEventSynchronize, (void *v), (v))                                     \
    X(hipEventElapsedTime, cuEventElapsedTime, (float *ms, void *from, void *to), (ms, from, to))  \
    X(hipModuleLoadData, cuModuleLoadData, (void **m, const void *image), (m, image))              \
    X(hipModuleUnload, cuModuleUnload, (void *m), (m))                                             \
    X(hipModuleGetFunction, cuModuleGetFunction, (void **f, void *m, const char *name),            \
      (f, m, name))                                                                                \
    X(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                                          \
      cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *n, void *f, int threads, size_t shared), (n, f, threads, shared))

#define X(hip, cuda, params, args)                                                                 \
    extern "C" int cuda params;                                                                    \
    HIP int hip params { return cuda args; }
SAME(X)
#undef X

enum { SHARED = 64 * 1024, DYNAMIC_SHARED_SIZE = 8 };

HIP int hipDriverGetVersion(int *version)
{
    *version = 50221153; /* as 5.2.3 says it */
    return EMU_OK;
}

extern "C" int cuGetErrorString(int result, const char **text);
HIP const char *hipGetErrorString(int result)
{
    const char *text = nullptr;
    return cuGetErrorString(result, &text) == EMU_OK ? text : "hipErrorUnknown";
}

/* HIP numbers attributes in an order of its own. */
extern "C" int cuDeviceGetAttribute(int *value, int attribute, int device);
HIP int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int hip, cuda, value; /* cuda 0: the value */
    } all[] = {{16, 18, 0}, {23, 75, 0}, {29, 5, 0},  {30, 6, 0},      {31, 7, 0},
               {56, 1, 0},  {61, 76, 0}, {63, 16, 0}, {74, 0, SHARED}, {87, 0, 64}};
    for (const auto &a : all) {
        if (a.hip != attribute) continue;
        *value = a.value;
        return a.cuda ? cuDeviceGetAttribute(value, a.cuda, device) : EMU_OK;
    }
    return EMU_INVALID_VALUE;
}

/* All of a block's shared memory, without being asked for. */
extern "C" int cuFuncSetAttribute(void *f, int attribute, int value);
extern "C" int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *s, void **params,
                              void **extra);
HIP int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *s, void **params,
                              void **extra)
{
    if (shared > SHARED) return EMU_INVALID_VALUE;
    int r = cuFuncSetAttribute(f, DYNAMIC_SHARED_SIZE, SHARED);
    return r ? r : cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}
