/* api.h - private to lib/engine/opencl: OpenCL, as far as it is used, opened when it is wanted.
 *
 * Nothing of OpenCL is needed to build this: types, numbers and functions are those of Khronos' OpenCL 3.0
 * specification, written down here. loader.c opens the library; driver.c is the table of functions by which
 * lib/engine/cuda speaks to a driver, made of these; program.c builds kernels out of their sources.
 */
#ifndef ZT_CL_API_H
#define ZT_CL_API_H

#include "lib/engine/cuda/driver.h"

typedef struct _cl_platform_id *cl_platform;
typedef struct _cl_device_id *cl_device;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_queue;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef struct _cl_mem *cl_mem;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_PLATFORM_NOT_FOUND = -1001,

    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_EXEC_INFO_SVM_PTRS = 0x11B6,
    CL_PROFILING_COMMAND_END = 0x1283
};
#define CL_DEVICE_TYPE_CPU  2u
#define CL_DEVICE_TYPE_ALL  0xFFFFFFFFu
#define CL_PROFILING_ENABLE 2u
#define CL_MEM_READ_WRITE   1u
#define CL_MEM_READ_ONLY    4u
#define CL_MEM_COPY_HOST    32u
/* A bit each: divisions and roots are rounded correctly; memory that host and device know by one address. */
#define CL_FP_CORRECT_DIVIDE 128u
#define CL_SVM_COARSE        1u

// clang-format off
#define ZT_CL_API(X)                                                                               \
    X(clGetPlatformIDs, int32_t, (uint32_t room, cl_platform *to, uint32_t *n))                    \
    X(clGetDeviceIDs, int32_t,                                                                     \
      (cl_platform of, uint64_t type, uint32_t room, cl_device *to, uint32_t *n))                  \
    X(clGetDeviceInfo, int32_t,                                                                    \
      (cl_device of, uint32_t what, size_t room, void *to, size_t *n))                             \
    X(clCreateContext, cl_context,                                                                 \
      (const intptr_t *properties, uint32_t n, const cl_device *devices, void *notify, void *user, \
       int32_t *result))                                                                           \
    X(clReleaseContext, int32_t, (cl_context c))                                                   \
    X(clCreateCommandQueue, cl_queue,                                                              \
      (cl_context c, cl_device device, uint64_t properties, int32_t *result))                      \
    X(clReleaseCommandQueue, int32_t, (cl_queue q))                                                \
    X(clCreateProgramWithSource, cl_program,                                                       \
      (cl_context c, uint32_t n, const char **text, const size_t *bytes, int32_t *result))         \
    X(clBuildProgram, int32_t,                                                                     \
      (cl_program p, uint32_t n, const cl_device *devices, const char *options, void *notify,      \
       void *user))                                                                                \
    X(clGetProgramBuildInfo, int32_t,                                                              \
      (cl_program p, cl_device device, uint32_t what, size_t room, void *to, size_t *n))           \
    X(clReleaseProgram, int32_t, (cl_program p))                                                   \
    X(clCreateKernel, cl_kernel, (cl_program p, const char *name, int32_t *result))                \
    X(clReleaseKernel, int32_t, (cl_kernel k))                                                     \
    X(clSetKernelArg, int32_t, (cl_kernel k, uint32_t i, size_t bytes, const void *value))         \
    X(clSetKernelExecInfo, int32_t, (cl_kernel k, uint32_t what, size_t bytes, const void *value)) \
    X(clEnqueueNDRangeKernel, int32_t,                                                             \
      (cl_queue q, cl_kernel k, uint32_t dims, const size_t *from, const size_t *global,           \
       const size_t *local, uint32_t n, const cl_event *after, cl_event *done))                    \
    X(clSVMAlloc, void *, (cl_context c, uint64_t flags, size_t bytes, uint32_t alignment))        \
    X(clSVMFree, void, (cl_context c, void *p))                                                    \
    X(clEnqueueSVMMemcpy, int32_t,                                                                 \
      (cl_queue q, uint32_t waits, void *to, const void *from, size_t bytes, uint32_t n,           \
       const cl_event *after, cl_event *done))                                                     \
    X(clEnqueueSVMMemFill, int32_t,                                                                \
      (cl_queue q, void *at, const void *pattern, size_t size, size_t bytes, uint32_t n,           \
       const cl_event *after, cl_event *done))                                                     \
    X(clCreateBuffer, cl_mem,                                                                      \
      (cl_context c, uint64_t flags, size_t bytes, void *host, int32_t *result))                   \
    X(clReleaseMemObject, int32_t, (cl_mem m))                                                     \
    X(clEnqueueMarkerWithWaitList, int32_t,                                                        \
      (cl_queue q, uint32_t n, const cl_event *after, cl_event *done))                             \
    X(clWaitForEvents, int32_t, (uint32_t n, const cl_event *events))                              \
    X(clGetEventProfilingInfo, int32_t,                                                            \
      (cl_event v, uint32_t what, size_t room, void *to, size_t *n))                               \
    X(clReleaseEvent, int32_t, (cl_event v))                                                       \
    X(clFinish, int32_t, (cl_queue q))
// clang-format on

typedef struct zt_cl_api {
    void *library;
#define X(name, result, params) result(*name) params;
    ZT_CL_API(X)
#undef X
} zt_cl_api;

/* The functions, once zt_cl_load has found them. */
extern zt_cl_api zt_cl;

/* Opens the library that ZT_LIBOPENCL names, else libOpenCL.so.1. It stays open: drivers do not expect to go. ZT_ENOTSUP
 * and why. */
zt_status zt_cl_load(zt_ctx *ctx);
/* The functions of driver.h, into *api. */
void zt_cl_fill(zt_cu_api *api);
/* What a result of the table's functions means; static or of the calling thread. */
const char *zt_cl_text(int result);

/* ---- devices (driver.c) ------------------------------------------------------------------------ */

enum { ZT_CL_DEVICES = 64 };
int zt_cl_devices(cl_device device[ZT_CL_DEVICES]); /* of all platforms, in their order */
uint64_t zt_cl_number(cl_device device, uint32_t what);
void zt_cl_string(cl_device device, uint32_t what, char *to, size_t room);

/* ---- programs (program.c) ---------------------------------------------------------------------- */

/* The texts of NAME.cl with what they include, made by the Makefile; NULL after the last. */
extern const unsigned char *const zt_cl_images[];

/* Has a text this kernel? Its name is in it in full, as the first argument of a macro. */
bool zt_cl_source_has(const char *text, const char *kernel);
/* Builds a text for a device; NULL: *result, and zt_cl_text has the first line of the compiler's messages. */
const char *zt_cl_build_message(void); /* that line, of the calling thread; "" where there was none */
cl_program zt_cl_build(cl_context context, cl_device device, const char *text, int *result);

#endif
