/* driver.h - a driver of GPUs: its functions as far as they are used, opened when they are wanted.
 *
 * Two speak alike: NVIDIA's CUDA, and AMD's HIP, whose functions are the same ones by other names. A third,
 * OpenCL, is made to: lib/engine/opencl has the functions, and kernels of its own by the same names.
 * Nothing of either is needed to build this: types, names and numbers are written down here, HIP's
 * as Debian's 5.2.3 and ROCm 6 have them. platform.c has what differs, loader.c opens.
 */
#ifndef ZT_CU_DRIVER_H
#define ZT_CU_DRIVER_H

#include "lib/base/base.h"
#include "lib/engine/cuda/args.h"
#include "lib/engine/engine.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct CUctx_st *zt_cu_context;
typedef struct CUstream_st *zt_cu_stream;
typedef struct CUevent_st *zt_cu_event;
typedef struct CUgraph_st *zt_cu_graph;
typedef struct CUgraphExec_st *zt_cu_exec;
typedef struct CUmod_st *zt_cu_module;
typedef struct CUfunc_st *zt_cu_function;

/* Results that are distinguished; an attribute of functions; a mode. */
enum {
    ZT_CU_SUCCESS = 0,
    ZT_CU_OUT_OF_MEMORY = 2,
    ZT_CU_NO_DEVICE = 100,
    ZT_CU_INVALID_DEVICE = 101,
    ZT_CU_NO_BINARY = 209,
    ZT_CU_NOT_FOUND = 500,

    ZT_CU_FUNC_DYNAMIC_SHARED = 8,
    ZT_CU_CAPTURE_THREAD_LOCAL = 1,
    ZT_CU_CAPTURE_RELAXED = 2
};

/* Attributes of devices: numbers in CUDA and in HIP, whose order is another. -1: 0 for all. */
// clang-format off
#define ZT_CU_ATTRIBUTES(X)                                                                        \
    X(MAX_THREADS, 1, 56)                                                                          \
    X(MAX_GRID_X, 5, 29)                                                                           \
    X(MAX_GRID_Y, 6, 30)                                                                           \
    X(MAX_GRID_Z, 7, 31)                                                                           \
    X(SHARED, 8, 74)                                                                               \
    X(WARP, 10, 87)                                                                                \
    X(PROCESSORS, 16, 63)                                                                          \
    X(INTEGRATED, 18, 16)                                                                          \
    X(MAJOR, 75, 23)                                                                               \
    X(MINOR, 76, 61)                                                                               \
    X(COOPERATIVE, 95, -1)                                                                         \
    X(SHARED_OPTIN, 97, 74)
// clang-format on
typedef enum zt_cu_attribute {
#define X(name, cuda, hip) ZT_CU_AT_##name,
    ZT_CU_ATTRIBUTES(X)
#undef X
        ZT_CU_ATTRIBUTE_COUNT
} zt_cu_attribute;

/* Name in libcuda, name in HIP's library (none: it has no such, and the pointer stays NULL), name
 * here, parameters: the same in both, enumerations being numbers and addresses 64 bits. */
// clang-format off
#define ZT_CU_API(X)                                                                               \
    X(cuInit, hipInit, Init, (unsigned flags))                                                     \
    X(cuDriverGetVersion, hipDriverGetVersion, DriverGetVersion, (int *version))                   \
    X(cuGetErrorName, none, GetErrorName, (int r, const char **name))                              \
    X(cuGetErrorString, none, GetErrorString, (int r, const char **text))                          \
    X(cuDeviceGetCount, hipGetDeviceCount, DeviceGetCount, (int *n))                               \
    X(cuDeviceGet, hipDeviceGet, DeviceGet, (int *device, int i))                                  \
    X(cuDeviceGetName, hipDeviceGetName, DeviceGetName, (char *name, int room, int device))        \
    X(cuDeviceGetAttribute, hipDeviceGetAttribute, DeviceGetAttribute,                             \
      (int *value, int attribute, int device))                                                     \
    X(cuDeviceTotalMem_v2, hipDeviceTotalMem, DeviceTotalMem, (size_t *bytes, int device))         \
    X(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain, PrimaryCtxRetain,                       \
      (zt_cu_context *c, int device))                                                              \
    X(cuDevicePrimaryCtxRelease_v2, hipDevicePrimaryCtxRelease, PrimaryCtxRelease, (int device))   \
    X(cuCtxSetCurrent, hipCtxSetCurrent, CtxSetCurrent, (zt_cu_context c))                         \
    X(cuMemAlloc_v2, hipMalloc, MemAlloc, (zt_cu_ptr *at, size_t bytes))                           \
    X(cuMemFree_v2, hipFree, MemFree, (zt_cu_ptr at))                                              \
    X(cuMemHostAlloc, hipHostMalloc, MemHostAlloc, (void **p, size_t bytes, unsigned flags))       \
    X(cuMemFreeHost, hipHostFree, MemFreeHost, (void *p))                                          \
    X(cuMemGetInfo_v2, hipMemGetInfo, MemGetInfo, (size_t *left, size_t *whole))                   \
    X(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, MemcpyHtoDAsync,                                   \
      (zt_cu_ptr to, const void *from, size_t n, zt_cu_stream s))                                  \
    X(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, MemcpyDtoHAsync,                                   \
      (void *to, zt_cu_ptr from, size_t n, zt_cu_stream s))                                        \
    X(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, MemcpyDtoDAsync,                                   \
      (zt_cu_ptr to, zt_cu_ptr from, size_t n, zt_cu_stream s))                                    \
    X(cuMemsetD8Async, hipMemsetD8Async, MemsetD8Async,                                            \
      (zt_cu_ptr at, unsigned char v, size_t n, zt_cu_stream s))                                   \
    X(cuStreamCreate, hipStreamCreateWithFlags, StreamCreate, (zt_cu_stream *s, unsigned flags))   \
    X(cuStreamDestroy_v2, hipStreamDestroy, StreamDestroy, (zt_cu_stream s))                       \
    X(cuStreamSynchronize, hipStreamSynchronize, StreamSynchronize, (zt_cu_stream s))              \
    X(cuStreamBeginCapture_v2, hipStreamBeginCapture, StreamBeginCapture,                          \
      (zt_cu_stream s, int mode))                                                                  \
    X(cuStreamEndCapture, hipStreamEndCapture, StreamEndCapture, (zt_cu_stream s, zt_cu_graph *g)) \
    X(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags, GraphInstantiate,                 \
      (zt_cu_exec *x, zt_cu_graph g, unsigned long long flags))                                    \
    X(cuGraphLaunch, hipGraphLaunch, GraphLaunch, (zt_cu_exec x, zt_cu_stream s))                  \
    X(cuGraphExecDestroy, hipGraphExecDestroy, GraphExecDestroy, (zt_cu_exec x))                   \
    X(cuGraphDestroy, hipGraphDestroy, GraphDestroy, (zt_cu_graph g))                              \
    X(cuEventCreate, hipEventCreateWithFlags, EventCreate, (zt_cu_event *v, unsigned flags))       \
    X(cuEventDestroy_v2, hipEventDestroy, EventDestroy, (zt_cu_event v))                           \
    X(cuEventRecord, hipEventRecord, EventRecord, (zt_cu_event v, zt_cu_stream s))                 \
    X(cuEventSynchronize, hipEventSynchronize, EventSynchronize, (zt_cu_event v))                  \
    X(cuEventElapsedTime, hipEventElapsedTime, EventElapsedTime,                                   \
      (float *ms, zt_cu_event from, zt_cu_event to))                                               \
    X(cuModuleLoadData, hipModuleLoadData, ModuleLoadData, (zt_cu_module *m, const void *image))   \
    X(cuModuleUnload, hipModuleUnload, ModuleUnload, (zt_cu_module m))                             \
    X(cuModuleGetFunction, hipModuleGetFunction, ModuleGetFunction,                                \
      (zt_cu_function *f, zt_cu_module m, const char *name))                                       \
    X(cuFuncSetAttribute, none, FuncSetAttribute, (zt_cu_function f, int attribute, int value))    \
    X(cuLaunchKernel, hipModuleLaunchKernel, LaunchKernel,                                         \
      (zt_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
       unsigned bz, unsigned shared, zt_cu_stream s, void **params, void **extra))                 \
    X(cuLaunchCooperativeKernel, none, LaunchCooperativeKernel,                                    \
      (zt_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
       unsigned bz, unsigned shared, zt_cu_stream s, void **params))                               \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, OccupancyMaxBlocks,                      \
      (int *blocks, zt_cu_function f, int threads, size_t shared))

/* What CUDA alone has, the last of them from 12.0 on: elsewhere the pointers stay NULL. */
struct zt_cu_tensor_map;
#define ZT_CU_API_NEWER(X)                                                                         \
    X(cuCtxCreate_v2, CtxCreate, (zt_cu_context *c, unsigned flags, int device))                   \
    X(cuCtxDestroy_v2, CtxDestroy, (zt_cu_context c))                                              \
    X(cuTensorMapEncodeTiled, TensorMapEncodeTiled,                                                \
      (struct zt_cu_tensor_map *map, int type, unsigned rank, void *at, const uint64_t *size,      \
       const uint64_t *step, const uint32_t *box, const uint32_t *every, int interleave,           \
       int swizzle, int promotion, int fill))
// clang-format on

enum {
#define X(cuda, hip, name, params) ZT_CU_CALL_##name,
    ZT_CU_API(X)
#undef X
        ZT_CU_CALL_COUNT
};

/* Whose driver it is, with what differs: NVIDIA's, or AMD's, that speaks HIP (platform.c), or OpenCL's
 * (lib/engine/opencl/loader.c). */
struct zt_cu_api;
typedef struct zt_cu_platform {
    const char *engine;           /* "cuda" */
    const char *prefix;           /* of the functions' names: "cu" */
    const char *language;         /* "CUDA" */
    const char *named_by;         /* the environment variable that names the library */
    const char *const *libraries; /* else the first of these that there is; NULL after the last */
    const char *oldest;           /* the oldest driver that has all functions */
    const char *compiler;         /* of the images */
    /* The kernels' images, one for each .cu file here, made by the Makefile; NULL after the last,
     * and at once where zt was built without that compiler. Of a driver that speaks otherwise, what its
     * ModuleLoadData takes. */
    const unsigned char *const *images;
    const char *const *symbols; /* ZT_CU_CALL_COUNT; NULL: no such function */
    const char *text;           /* the function that gives an error's text itself, or NULL */
    const int *attributes;      /* ZT_CU_ATTRIBUTE_COUNT */
    int least;                  /* compute capability that all kernels need, times 10 */
    int wave;                   /* threads that may go in step; 32 may in both */
    int fp8;                    /* least capability with products of fp8, times 10; 0: none */
    int major, minor;           /* what a version counts by: major * 1000 + minor * 10 + ... */
    /* A driver that speaks otherwise, with functions made of its own, and kernels of its own; NULL of CUDA and HIP.
     * `symbols` are then the calls that messages name. */
    zt_status (*load)(zt_ctx *ctx, struct zt_cu_api *api); /* fills in the functions */
    bool (*has_kernel)(const char *name);                  /* an op whose row launches a kernel that is not there is left */
    const char *(*lacks)(int device);                      /* what the kernels need and device `device` lacks, or NULL */
    void (*describe)(int device, zt_adapter *adapter);     /* what zt_cu_adapters does not know */
} zt_cu_platform;
extern const zt_cu_platform zt_cu_nvidia, zt_cu_amd, zt_cu_khronos;

typedef struct zt_cu_api {
    const zt_cu_platform *platform;
    void *library;
#define X(cuda, hip, name, params) int(*name) params;
    ZT_CU_API(X)
#undef X
#define X(cuda, name, params) int(*name) params;
    ZT_CU_API_NEWER(X)
#undef X
    const char *(*text)(int r);
    bool emulated; /* tests/cudaemu: kernels need no image */
    int version;   /* that the driver speaks: 12040 of CUDA 12.4 */
} zt_cu_api;

/* ZT_ENOTSUP and why where there is no driver. */
zt_status zt_cu_load(zt_ctx *ctx, const zt_cu_platform *platform, zt_cu_api *cu);
void zt_cu_unload(zt_cu_api *cu);

/* A library beside the driver, `what` by its name: functions is a struct of as many pointers to
 * functions as there are symbols, whose list ends with NULL. ZT_ENOTSUP and why. */
typedef void zt_cu_call_fn(void);
zt_status zt_cu_beside(zt_ctx *ctx, const char *file, const char *what, const char *const *symbols, void *functions,
                       void **library);
/* Those of a library that is open: the first that it lacks, or NULL. */
const char *zt_cu_symbols(void *library, const char *const *symbols, void *functions);

/* A result of the driver, as all its calls: *value is 0 where it knows no such. */
int zt_cu_attribute_of(const zt_cu_api *cu, zt_cu_attribute at, int device, int *value);
/* ZT_ENOMEM "cuda: cuMemAlloc: out of memory" and the like; ZT_OK for success. */
zt_status zt_cu_check(zt_ctx *ctx, const zt_cu_api *cu, int r, const char *call);

#endif
