/* loader.c - OpenCL's library, opened when it is wanted and never before, and what this engine is to lib/engine/cuda. */
#include "lib/engine/opencl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zt_cl_api zt_cl;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the library ------------------------------------------------------------------------------- */

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static bool find_function(void *library, const char *symbol, void *function, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, bytes);
    return address != NULL;
}

static zt_status open_library(zt_ctx *ctx)
{
    const char *named = getenv("ZT_LIBOPENCL"), *file = named && *named ? named : "libOpenCL.so.1", *lacks = NULL;
    zt_cl_api found = {.library = dlopen(file, RTLD_NOW | RTLD_LOCAL)};
    if (!found.library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine opencl: no loader: %s", why ? why : file);
    }
#define X(name, result, params)                                                                                                  \
    if (!find_function(found.library, #name, &found.name, sizeof found.name) && !lacks) lacks = #name;
    ZT_CL_API(X)
#undef X
    if (lacks) return zt_fail(ctx, ZT_ENOTSUP, "engine opencl: the loader lacks %s: OpenCL 2.0 or later is needed", lacks);
    zt_cl = found;
    return ZT_OK;
}

zt_status zt_cl_load(zt_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    zt_status status = zt_cl.library ? ZT_OK : open_library(ctx);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- results ----------------------------------------------------------------------------------- */

static const char *name_of(int result)
{
    static const struct {
        int result;
        const char *name;
    } names[] = {
        {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
        {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
        {-3, "CL_COMPILER_NOT_AVAILABLE"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
        {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
        {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
        {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
        {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
        {-30, "CL_INVALID_VALUE"},
        {-33, "CL_INVALID_DEVICE"},
        {-34, "CL_INVALID_CONTEXT"},
        {-36, "CL_INVALID_COMMAND_QUEUE"},
        {-38, "CL_INVALID_MEM_OBJECT"},
        {-43, "CL_INVALID_BUILD_OPTIONS"},
        {-44, "CL_INVALID_PROGRAM"},
        {-46, "CL_INVALID_KERNEL_NAME"},
        {-48, "CL_INVALID_KERNEL"},
        {-49, "CL_INVALID_ARG_INDEX"},
        {-50, "CL_INVALID_ARG_VALUE"},
        {-51, "CL_INVALID_ARG_SIZE"},
        {-52, "CL_INVALID_KERNEL_ARGS"},
        {-54, "CL_INVALID_WORK_GROUP_SIZE"},
        {-55, "CL_INVALID_WORK_ITEM_SIZE"},
        {-59, "CL_INVALID_OPERATION"},
        {-61, "CL_INVALID_BUFFER_SIZE"},
        {CL_PLATFORM_NOT_FOUND, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].result == result) return names[i].name;
    return NULL;
}

const char *zt_cl_text(int result)
{
    static _Thread_local char number[32];
    const char *name = name_of(result);
    if (result == CL_BUILD_PROGRAM_FAILURE && zt_cl_build_message()[0]) return zt_cl_build_message();
    if (name) return name;
    snprintf(number, sizeof number, "error %d", result);
    return number;
}

/* ---- the platform ------------------------------------------------------------------------------ */

static zt_status load(zt_ctx *ctx, zt_cu_api *api)
{
    zt_status status = zt_cl_load(ctx);
    if (!status) zt_cl_fill(api);
    return status;
}

static bool has_kernel(const char *name)
{
    for (const unsigned char *const *image = zt_cl_images; *image; image++)
        if (zt_cl_source_has((const char *)*image, name)) return true;
    return false;
}

/* Kernels are given addresses inside of structs, which a device must know as the host does. */
static const char *lacks(int index)
{
    cl_device device[ZT_CL_DEVICES];
    if (index >= zt_cl_devices(device)) return "is not there";
    if (!zt_cl_number(device[index], CL_DEVICE_AVAILABLE)) return "is not available";
    if (!zt_cl_number(device[index], CL_DEVICE_COMPILER_AVAILABLE)) return "has no compiler";
    if (!(zt_cl_number(device[index], CL_DEVICE_SVM_CAPABILITIES) & CL_SVM_COARSE))
        return "has no shared virtual memory (of OpenCL 2.0), which the kernels need";
    return NULL;
}

static void describe(int index, zt_adapter *adapter)
{
    cl_device device[ZT_CL_DEVICES];
    char version[128], driver[256];
    if (index >= zt_cl_devices(device)) return;
    zt_cl_string(device[index], CL_DEVICE_VERSION, version, sizeof version);
    zt_cl_string(device[index], CL_DEVICE_DRIVER_VERSION, driver, sizeof driver);
    snprintf(adapter->driver, sizeof adapter->driver, "%s, driver %s", version, driver);
    if (zt_cl_number(device[index], CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) adapter->type = "cpu";
}

/* What the calls are that stand behind the table's functions. */
static const char *const calls[ZT_CU_CALL_COUNT] = {
    [ZT_CU_CALL_DeviceGetCount] = "clGetDeviceIDs",      [ZT_CU_CALL_DeviceGet] = "clGetDeviceIDs",
    [ZT_CU_CALL_DeviceGetName] = "clGetDeviceInfo",      [ZT_CU_CALL_DeviceGetAttribute] = "clGetDeviceInfo",
    [ZT_CU_CALL_PrimaryCtxRetain] = "clCreateContext",   [ZT_CU_CALL_MemAlloc] = "clSVMAlloc",
    [ZT_CU_CALL_MemHostAlloc] = "aligned_alloc",         [ZT_CU_CALL_MemcpyHtoDAsync] = "clEnqueueSVMMemcpy",
    [ZT_CU_CALL_MemcpyDtoHAsync] = "clEnqueueSVMMemcpy", [ZT_CU_CALL_MemcpyDtoDAsync] = "clEnqueueSVMMemcpy",
    [ZT_CU_CALL_MemsetD8Async] = "clEnqueueSVMMemFill",  [ZT_CU_CALL_StreamCreate] = "clCreateCommandQueue",
    [ZT_CU_CALL_StreamSynchronize] = "clFinish",         [ZT_CU_CALL_GraphInstantiate] = "malloc",
    [ZT_CU_CALL_GraphLaunch] = "clEnqueueNDRangeKernel", [ZT_CU_CALL_EventRecord] = "clEnqueueMarkerWithWaitList",
    [ZT_CU_CALL_EventSynchronize] = "clWaitForEvents",   [ZT_CU_CALL_EventElapsedTime] = "clGetEventProfilingInfo",
    [ZT_CU_CALL_ModuleGetFunction] = "clBuildProgram",   [ZT_CU_CALL_LaunchKernel] = "clEnqueueNDRangeKernel",
};

static const int attributes[] = {
#define X(name, cuda, hip) ZT_CU_AT_##name,
    ZT_CU_ATTRIBUTES(X)
#undef X
};

const zt_cu_platform zt_cu_khronos = {
    .engine = "opencl",
    .prefix = "",
    .language = "OpenCL",
    .named_by = "ZT_LIBOPENCL",
    .images = zt_cl_images,
    .symbols = calls,
    .attributes = attributes,
    .wave = 32,
    .major = 1000,
    .minor = 10,
    .load = load,
    .has_kernel = has_kernel,
    .lacks = lacks,
    .describe = describe,
};
