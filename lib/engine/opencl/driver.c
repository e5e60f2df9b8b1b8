/* driver.c - the functions that lib/engine/cuda calls a driver by (driver.h), made of OpenCL's.
 *
 * Memory is shared virtual memory, so that an address is 64 bits which host and kernels both know. A stream is a queue in
 * order. A graph is a list of what would have been enqueued: capturing appends to it, launching enqueues it again.
 */
#include "lib/engine/opencl/api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FATAL = 999, ARGUMENT = 1000, HOST_ALIGN = 4096, PROGRAMS = 64 };

/* ---- objects ----------------------------------------------------------------------------------- */

/* A kernel by its name; its arguments are set when it is launched. */
struct CUfunc_st {
    cl_kernel kernel;
    uint64_t knows; /* the context's count of memory when the kernel was last given the list of it */
    struct CUfunc_st *next;
};

/* A text of kernels, and what was built of it or NULL. */
struct CUmod_st {
    const char *text;
    cl_program program;
};

/* Of a device, one for all engines on it. */
struct CUctx_st {
    cl_device device;
    cl_context context;
    int users;
    pthread_mutex_t lock;
    struct CUmod_st program[PROGRAMS];
    struct CUfunc_st *functions;
    void **memory; /* what was allocated and not freed, for kernels are told of it */
    size_t *bytes, n_memory, room, held;
    uint64_t changes;
};

typedef enum node_kind { KERNEL, COPY, FILL } node_kind;

typedef struct node {
    node_kind kind;
    zt_cu_function function;
    size_t global[3], local[3], shared, bytes; /* bytes: of arguments, or of what is copied */
    void *arguments, *to;
    const void *from;
    unsigned char value;
} node;

struct CUgraph_st {
    node *nodes;
    size_t count, room;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};

struct CUstream_st {
    zt_cu_context context;
    cl_queue queue;
    zt_cu_graph captured; /* NULL: what comes is enqueued at once */
};

struct CUevent_st {
    cl_event event;
};

static struct CUctx_st contexts[ZT_CL_DEVICES];
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local zt_cu_context current;

/* OpenCL's results are negative: those that lib/engine/cuda distinguishes get its numbers. */
static int result_of(int32_t result)
{
    if (result == CL_MEM_OBJECT_ALLOCATION_FAILURE || result == CL_OUT_OF_HOST_MEMORY) return ZT_CU_OUT_OF_MEMORY;
    return result == CL_DEVICE_NOT_AVAILABLE ? FATAL : result;
}

static const char *text_of(int result) { return zt_cl_text(result == FATAL ? CL_DEVICE_NOT_AVAILABLE : result); }

/* ---- devices ----------------------------------------------------------------------------------- */

int zt_cl_devices(cl_device device[ZT_CL_DEVICES])
{
    enum { PLATFORMS = 16 };
    cl_platform platform[PLATFORMS];
    uint32_t n_platforms = 0, count = 0;
    if (zt_cl.clGetPlatformIDs(PLATFORMS, platform, &n_platforms)) return 0;
    for (uint32_t i = 0; i < n_platforms && i < PLATFORMS && count < ZT_CL_DEVICES; i++) {
        uint32_t n = 0;
        if (zt_cl.clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, ZT_CL_DEVICES - count, device + count, &n)) continue;
        count += n < ZT_CL_DEVICES - count ? n : ZT_CL_DEVICES - count;
    }
    return (int)count;
}

uint64_t zt_cl_number(cl_device device, uint32_t what)
{
    uint64_t value = 0; /* of 4 or 8 bytes, on a machine whose low bytes come first */
    return zt_cl.clGetDeviceInfo(device, what, sizeof value, &value, NULL) ? 0 : value;
}

void zt_cl_string(cl_device device, uint32_t what, char *to, size_t room)
{
    size_t bytes = 0;
    to[0] = 0;
    if (zt_cl.clGetDeviceInfo(device, what, 0, NULL, &bytes)) return;
    char *text = calloc(1, bytes + 1);
    if (!text) return;
    if (!zt_cl.clGetDeviceInfo(device, what, bytes, text, NULL)) {
        const size_t length = strnlen(text, bytes < room ? bytes : room - 1);
        memcpy(to, text, length);
        to[length] = 0;
    }
    free(text);
}

/* Device i; NULL: there is none. */
static cl_device device_at(int index)
{
    cl_device device[ZT_CL_DEVICES];
    return index >= 0 && index < zt_cl_devices(device) ? device[index] : NULL;
}

static int cl_init(unsigned flags)
{
    cl_device device[ZT_CL_DEVICES];
    (void)flags;
    return zt_cl_devices(device) > 0 ? ZT_CU_SUCCESS : ZT_CU_NO_DEVICE;
}

static int cl_driver_get_version(int *version)
{
    *version = 0;
    return ZT_CU_SUCCESS;
}

static int cl_device_get_count(int *count)
{
    cl_device device[ZT_CL_DEVICES];
    *count = zt_cl_devices(device);
    return ZT_CU_SUCCESS;
}

static int cl_device_get(int *device, int index)
{
    *device = index;
    return ZT_CU_SUCCESS;
}

static int cl_device_get_name(char *name, int room, int device)
{
    zt_cl_string(device_at(device), CL_DEVICE_NAME, name, (size_t)room);
    return ZT_CU_SUCCESS;
}

/* "OpenCL 3.0 PoCL ...": 3, or 0. */
static int version_part(cl_device device, bool minor)
{
    char text[128];
    zt_cl_string(device, CL_DEVICE_VERSION, text, sizeof text);
    char *dot = strchr(text, '.'), *space = strchr(text, ' ');
    if (!dot || !space || space > dot) return 0;
    return atoi(minor ? dot + 1 : space + 1);
}

static int cl_device_get_attribute(int *value, int attribute, int index)
{
    const cl_device device = device_at(index);
    uint64_t number = 0;
    switch ((zt_cu_attribute)attribute) {
    case ZT_CU_AT_MAX_THREADS: number = zt_cl_number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE); break;
    case ZT_CU_AT_MAX_GRID_X: number = INT32_MAX; break;
    case ZT_CU_AT_MAX_GRID_Y:
    case ZT_CU_AT_MAX_GRID_Z: number = UINT16_MAX; break;
    case ZT_CU_AT_SHARED:
    case ZT_CU_AT_SHARED_OPTIN: number = zt_cl_number(device, CL_DEVICE_LOCAL_MEM_SIZE); break;
    case ZT_CU_AT_WARP: number = 32; break; /* kernels of this engine know no warps */
    case ZT_CU_AT_PROCESSORS: number = zt_cl_number(device, CL_DEVICE_MAX_COMPUTE_UNITS); break;
    case ZT_CU_AT_MAJOR: number = (uint64_t)version_part(device, false); break;
    case ZT_CU_AT_MINOR: number = (uint64_t)version_part(device, true); break;
    default: break; /* INTEGRATED: memory of the host is not given to kernels; COOPERATIVE: no */
    }
    *value = number < INT32_MAX ? (int)number : INT32_MAX;
    return ZT_CU_SUCCESS;
}

static int cl_device_total_mem(size_t *bytes, int device)
{
    *bytes = (size_t)zt_cl_number(device_at(device), CL_DEVICE_GLOBAL_MEM_SIZE);
    return ZT_CU_SUCCESS;
}

/* ---- contexts ---------------------------------------------------------------------------------- */

static int cl_primary_ctx_retain(zt_cu_context *out, int device)
{
    int32_t result = CL_SUCCESS;
    zt_cu_context context = &contexts[device];
    pthread_mutex_lock(&contexts_lock);
    if (context->users == 0) {
        *context = (struct CUctx_st){.device = device_at(device)};
        pthread_mutex_init(&context->lock, NULL);
        context->context = zt_cl.clCreateContext(NULL, 1, &context->device, NULL, NULL, &result);
    }
    if (result == CL_SUCCESS) context->users++;
    pthread_mutex_unlock(&contexts_lock);
    *out = context;
    return result_of(result);
}

static void destroy_context(zt_cu_context context)
{
    for (struct CUfunc_st *function = context->functions, *next; function; function = next) {
        next = function->next;
        zt_cl.clReleaseKernel(function->kernel);
        free(function);
    }
    for (int i = 0; i < PROGRAMS; i++)
        if (context->program[i].program) zt_cl.clReleaseProgram(context->program[i].program);
    for (size_t i = 0; i < context->n_memory; i++) zt_cl.clSVMFree(context->context, context->memory[i]);
    free(context->memory);
    free(context->bytes);
    zt_cl.clReleaseContext(context->context);
    pthread_mutex_destroy(&context->lock);
    memset(context, 0, sizeof *context);
}

static int cl_primary_ctx_release(int device)
{
    pthread_mutex_lock(&contexts_lock);
    if (contexts[device].users > 0 && --contexts[device].users == 0) destroy_context(&contexts[device]);
    pthread_mutex_unlock(&contexts_lock);
    return ZT_CU_SUCCESS;
}

static int cl_ctx_set_current(zt_cu_context context)
{
    current = context;
    return ZT_CU_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Room for one more in the context's list. */
static bool has_room(zt_cu_context context)
{
    if (context->n_memory < context->room) return true;
    const size_t room = context->room ? 2 * context->room : 64;
    void **memory = realloc(context->memory, room * sizeof *memory);
    if (memory) context->memory = memory;
    size_t *bytes = memory ? realloc(context->bytes, room * sizeof *bytes) : NULL;
    if (!bytes) return false;
    context->bytes = bytes;
    context->room = room;
    return true;
}

static int cl_mem_alloc(zt_cu_ptr *at, size_t bytes)
{
    zt_cu_context context = current;
    pthread_mutex_lock(&context->lock);
    void *memory = has_room(context) ? zt_cl.clSVMAlloc(context->context, CL_MEM_READ_WRITE, bytes, 0) : NULL;
    if (memory) {
        context->bytes[context->n_memory] = bytes;
        context->memory[context->n_memory++] = memory;
        context->held += bytes;
        context->changes++;
    }
    pthread_mutex_unlock(&context->lock);
    *at = (zt_cu_ptr)(uintptr_t)memory;
    return memory ? ZT_CU_SUCCESS : ZT_CU_OUT_OF_MEMORY;
}

static int cl_mem_free(zt_cu_ptr at)
{
    zt_cu_context context = current;
    void *memory = (void *)(uintptr_t)at;
    pthread_mutex_lock(&context->lock);
    for (size_t i = context->n_memory; i-- > 0;) {
        if (context->memory[i] != memory) continue;
        context->held -= context->bytes[i];
        context->memory[i] = context->memory[--context->n_memory];
        context->bytes[i] = context->bytes[context->n_memory];
        context->changes++;
        break;
    }
    pthread_mutex_unlock(&context->lock);
    zt_cl.clSVMFree(context->context, memory);
    return ZT_CU_SUCCESS;
}

static int cl_mem_host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = aligned_alloc(HOST_ALIGN, (bytes + HOST_ALIGN - 1) / HOST_ALIGN * HOST_ALIGN);
    return *out ? ZT_CU_SUCCESS : ZT_CU_OUT_OF_MEMORY;
}

static int cl_mem_free_host(void *memory)
{
    free(memory);
    return ZT_CU_SUCCESS;
}

static int cl_mem_get_info(size_t *left, size_t *whole)
{
    *whole = (size_t)zt_cl_number(current->device, CL_DEVICE_GLOBAL_MEM_SIZE);
    pthread_mutex_lock(&current->lock);
    *left = *whole > current->held ? *whole - current->held : 0;
    pthread_mutex_unlock(&current->lock);
    return ZT_CU_SUCCESS;
}

/* ---- what is enqueued, or captured ------------------------------------------------------------- */

/* Appends to what a stream captures; its arguments are copied. */
static int capture(zt_cu_stream stream, node one)
{
    zt_cu_graph graph = stream->captured;
    if (graph->count == graph->room) {
        const size_t room = graph->room ? 2 * graph->room : 64;
        node *nodes = realloc(graph->nodes, room * sizeof *nodes);
        if (!nodes) return ZT_CU_OUT_OF_MEMORY;
        graph->nodes = nodes;
        graph->room = room;
    }
    if (one.kind == KERNEL) {
        void *copy = malloc(one.bytes);
        if (!copy) return ZT_CU_OUT_OF_MEMORY;
        one.arguments = memcpy(copy, one.arguments, one.bytes);
    }
    graph->nodes[graph->count++] = one;
    return ZT_CU_SUCCESS;
}

/* A struct that is larger than every device takes as an argument goes as memory: the kernel is declared so. */
static int32_t set_arguments(zt_cu_context context, const node *one, cl_mem *large)
{
    int32_t result = CL_SUCCESS;
    cl_kernel kernel = one->function->kernel;
    if (one->bytes <= ARGUMENT) {
        result = zt_cl.clSetKernelArg(kernel, 0, one->bytes, one->arguments);
    } else {
        *large = zt_cl.clCreateBuffer(context->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST, one->bytes, one->arguments, &result);
        if (!result) result = zt_cl.clSetKernelArg(kernel, 0, sizeof *large, large);
    }
    if (!result) result = zt_cl.clSetKernelArg(kernel, 1, one->shared ? one->shared : sizeof(uint64_t), NULL);
    if (!result && one->function->knows != context->changes && context->n_memory) {
        result = zt_cl.clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, context->n_memory * sizeof *context->memory,
                                           context->memory);
        one->function->knows = context->changes;
    }
    return result;
}

static int32_t enqueue_kernel(zt_cu_stream stream, const node *one)
{
    zt_cu_context context = stream->context;
    cl_mem large = NULL;
    pthread_mutex_lock(&context->lock); /* a kernel's arguments are the kernel's, whoever launches it */
    int32_t result = set_arguments(context, one, &large);
    if (!result)
        result =
            zt_cl.clEnqueueNDRangeKernel(stream->queue, one->function->kernel, 3, NULL, one->global, one->local, 0, NULL, NULL);
    if (large) zt_cl.clReleaseMemObject(large);
    pthread_mutex_unlock(&context->lock);
    return result;
}

static int32_t enqueue(zt_cu_stream stream, const node *one)
{
    switch (one->kind) {
    case KERNEL: return enqueue_kernel(stream, one);
    case COPY: return zt_cl.clEnqueueSVMMemcpy(stream->queue, 0, one->to, one->from, one->bytes, 0, NULL, NULL);
    default: return zt_cl.clEnqueueSVMMemFill(stream->queue, one->to, &one->value, 1, one->bytes, 0, NULL, NULL);
    }
}

static int put_node(zt_cu_stream stream, node one)
{
    return stream->captured ? capture(stream, one) : result_of(enqueue(stream, &one));
}

static int put_copy(zt_cu_stream stream, void *to, const void *from, size_t bytes)
{
    return put_node(stream, (node){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

static int cl_memcpy_htod(zt_cu_ptr to, const void *from, size_t n, zt_cu_stream stream)
{
    return put_copy(stream, (void *)(uintptr_t)to, from, n);
}

static int cl_memcpy_dtoh(void *to, zt_cu_ptr from, size_t n, zt_cu_stream stream)
{
    return put_copy(stream, to, (const void *)(uintptr_t)from, n);
}

static int cl_memcpy_dtod(zt_cu_ptr to, zt_cu_ptr from, size_t n, zt_cu_stream stream)
{
    return put_copy(stream, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, n);
}

static int cl_memset(zt_cu_ptr at, unsigned char value, size_t n, zt_cu_stream stream)
{
    return put_node(stream, (node){.kind = FILL, .to = (void *)(uintptr_t)at, .value = value, .bytes = n});
}

/* extra: the bytes of the arguments, which are one struct. */
static int cl_launch_kernel(zt_cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, zt_cu_stream stream, void **params, void **extra)
{
    return put_node(stream, (node){.kind = KERNEL,
                                   .function = function,
                                   .global = {(size_t)gx * bx, (size_t)gy * by, (size_t)gz * bz},
                                   .local = {bx, by, bz},
                                   .shared = shared,
                                   .arguments = params[0],
                                   .bytes = *(const size_t *)extra[0]});
}

/* ---- streams and graphs ------------------------------------------------------------------------ */

static int cl_stream_create(zt_cu_stream *out, unsigned flags)
{
    int32_t result = CL_SUCCESS;
    zt_cu_stream stream = calloc(1, sizeof *stream);
    (void)flags;
    if (!stream) return ZT_CU_OUT_OF_MEMORY;
    stream->context = current;
    stream->queue = zt_cl.clCreateCommandQueue(current->context, current->device, CL_PROFILING_ENABLE, &result);
    if (result) free(stream);
    *out = result ? NULL : stream;
    return result_of(result);
}

static int cl_stream_destroy(zt_cu_stream stream)
{
    zt_cl.clReleaseCommandQueue(stream->queue);
    free(stream);
    return ZT_CU_SUCCESS;
}

static int cl_stream_synchronize(zt_cu_stream stream) { return result_of(zt_cl.clFinish(stream->queue)); }

static int cl_stream_begin_capture(zt_cu_stream stream, int mode)
{
    (void)mode;
    stream->captured = calloc(1, sizeof *stream->captured);
    return stream->captured ? ZT_CU_SUCCESS : ZT_CU_OUT_OF_MEMORY;
}

static int cl_stream_end_capture(zt_cu_stream stream, zt_cu_graph *graph)
{
    *graph = stream->captured;
    stream->captured = NULL;
    return ZT_CU_SUCCESS;
}

static void free_nodes(struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i].kind == KERNEL) free(graph->nodes[i].arguments);
    free(graph->nodes);
}

static int cl_graph_destroy(zt_cu_graph graph)
{
    free_nodes(graph);
    free(graph);
    return ZT_CU_SUCCESS;
}

/* Takes the graph's nodes over. */
static int cl_graph_instantiate(zt_cu_exec *out, zt_cu_graph graph, unsigned long long flags)
{
    zt_cu_exec executable = calloc(1, sizeof *executable);
    (void)flags;
    *out = executable;
    if (!executable) return ZT_CU_OUT_OF_MEMORY;
    executable->graph = *graph;
    *graph = (struct CUgraph_st){0};
    return ZT_CU_SUCCESS;
}

static int cl_graph_exec_destroy(zt_cu_exec executable)
{
    free_nodes(&executable->graph);
    free(executable);
    return ZT_CU_SUCCESS;
}

static int cl_graph_launch(zt_cu_exec executable, zt_cu_stream stream)
{
    int32_t result = CL_SUCCESS;
    for (size_t i = 0; i < executable->graph.count && !result; i++) result = enqueue(stream, &executable->graph.nodes[i]);
    return result_of(result);
}

/* ---- events ------------------------------------------------------------------------------------ */

static int cl_event_create(zt_cu_event *out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof **out);
    return *out ? ZT_CU_SUCCESS : ZT_CU_OUT_OF_MEMORY;
}

static int cl_event_destroy(zt_cu_event event)
{
    if (event->event) zt_cl.clReleaseEvent(event->event);
    free(event);
    return ZT_CU_SUCCESS;
}

static int cl_event_record(zt_cu_event event, zt_cu_stream stream)
{
    if (event->event) zt_cl.clReleaseEvent(event->event);
    event->event = NULL;
    return result_of(zt_cl.clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event->event));
}

static int cl_event_synchronize(zt_cu_event event)
{
    return event->event ? result_of(zt_cl.clWaitForEvents(1, &event->event)) : ZT_CU_SUCCESS;
}

static int cl_event_elapsed_time(float *milliseconds, zt_cu_event from, zt_cu_event to)
{
    uint64_t begin = 0, end = 0;
    int32_t result = zt_cl.clGetEventProfilingInfo(from->event, CL_PROFILING_COMMAND_END, sizeof begin, &begin, NULL);
    if (!result) result = zt_cl.clGetEventProfilingInfo(to->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    *milliseconds = end > begin ? (float)(end - begin) * 1e-6f : 0;
    return result_of(result);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

/* image: a text. Nothing is built before a kernel of it is asked for. */
static int cl_module_load_data(zt_cu_module *out, const void *image)
{
    int i = 0;
    pthread_mutex_lock(&current->lock);
    while (i < PROGRAMS - 1 && current->program[i].text && current->program[i].text != image) i++;
    current->program[i].text = image;
    *out = &current->program[i];
    pthread_mutex_unlock(&current->lock);
    return ZT_CU_SUCCESS;
}

static int cl_module_unload(zt_cu_module module)
{
    (void)module; /* it is the context's */
    return ZT_CU_SUCCESS;
}

static int build_function(zt_cu_context context, zt_cu_module module, const char *name, zt_cu_function *out)
{
    int32_t result = CL_SUCCESS;
    if (!module->program) module->program = zt_cl_build(context->context, context->device, module->text, &result);
    if (!module->program) return result_of(result);
    zt_cu_function function = calloc(1, sizeof *function);
    if (!function) return ZT_CU_OUT_OF_MEMORY;
    function->kernel = zt_cl.clCreateKernel(module->program, name, &result);
    if (result) {
        free(function);
        return result_of(result);
    }
    function->knows = UINT64_MAX;
    function->next = context->functions;
    context->functions = *out = function;
    return ZT_CU_SUCCESS;
}

static int cl_module_get_function(zt_cu_function *function, zt_cu_module module, const char *name)
{
    if (!zt_cl_source_has(module->text, name)) return ZT_CU_NOT_FOUND;
    pthread_mutex_lock(&current->lock);
    int result = build_function(current, module, name, function);
    pthread_mutex_unlock(&current->lock);
    return result;
}

void zt_cl_fill(zt_cu_api *api)
{
    api->Init = cl_init;
    api->DriverGetVersion = cl_driver_get_version;
    api->DeviceGetCount = cl_device_get_count;
    api->DeviceGet = cl_device_get;
    api->DeviceGetName = cl_device_get_name;
    api->DeviceGetAttribute = cl_device_get_attribute;
    api->DeviceTotalMem = cl_device_total_mem;
    api->PrimaryCtxRetain = cl_primary_ctx_retain;
    api->PrimaryCtxRelease = cl_primary_ctx_release;
    api->CtxSetCurrent = cl_ctx_set_current;
    api->MemAlloc = cl_mem_alloc;
    api->MemFree = cl_mem_free;
    api->MemHostAlloc = cl_mem_host_alloc;
    api->MemFreeHost = cl_mem_free_host;
    api->MemGetInfo = cl_mem_get_info;
    api->MemcpyHtoDAsync = cl_memcpy_htod;
    api->MemcpyDtoHAsync = cl_memcpy_dtoh;
    api->MemcpyDtoDAsync = cl_memcpy_dtod;
    api->MemsetD8Async = cl_memset;
    api->StreamCreate = cl_stream_create;
    api->StreamDestroy = cl_stream_destroy;
    api->StreamSynchronize = cl_stream_synchronize;
    api->StreamBeginCapture = cl_stream_begin_capture;
    api->StreamEndCapture = cl_stream_end_capture;
    api->GraphInstantiate = cl_graph_instantiate;
    api->GraphLaunch = cl_graph_launch;
    api->GraphExecDestroy = cl_graph_exec_destroy;
    api->GraphDestroy = cl_graph_destroy;
    api->EventCreate = cl_event_create;
    api->EventDestroy = cl_event_destroy;
    api->EventRecord = cl_event_record;
    api->EventSynchronize = cl_event_synchronize;
    api->EventElapsedTime = cl_event_elapsed_time;
    api->ModuleLoadData = cl_module_load_data;
    api->ModuleUnload = cl_module_unload;
    api->ModuleGetFunction = cl_module_get_function;
    api->LaunchKernel = cl_launch_kernel;
    api->text = text_of;
}
