/* driver.cpp - the functions of libcuda that zt calls, over the emulated device.
 *
 * Read once, at cuInit: ZT_CUDA_EMU_MEMORY bytes of device memory; ZT_CUDA_EMU_DEVICES how many
 * there are; ZT_CUDA_EMU_SEED the order of blocks and threads; ZT_CUDA_EMU_FAIL_ALLOC=N the N-th
 * allocation, of the device or pinned, fails for want of memory; ZT_CUDA_EMU_FAIL=cuName:N the N-th
 * call of that function fails; ZT_CUDA_EMU_COOPERATIVE=0: blocks cannot wait for each other;
 * ZT_CUDA_EMU_LAUNCHES=FILE: a line for each launch, kernel, blocks and threads;
 * ZT_CUDA_EMU_UNIFIED=1 a device whose memory is the host's: then pinned memory is its own too,
 * else a kernel that touches that fails; ZT_CUDA_EMU_WGMMA=wrong|order|fails: sums of warpgroups
 * are, have another, do. A launch that failed is an error of every call until the context is gone;
 * cuGetErrorString then names kernel, block and thread.
 */
#include "work.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) const int zt_cuda_emulation;
const int zt_cuda_emulation = 1;

enum { DEVICES = 8, PROCESSORS = 4 };

static std::recursive_mutex lock;
static bool initialized;
static int n_devices, cooperative;
static struct context {
    int held;
    /* Of cuCtxCreate: what was current, and what calls gave, before; its own memory. */
    context *before;
    int broken;
    std::vector<uint64_t> memory;
} contexts[DEVICES];
static thread_local context *current;
static int broken; /* of a launch: what every call gives */
static std::vector<emu_stream *> streams;
static std::vector<std::pair<unsigned char *, size_t>> pinned;
static bool unified;
static std::vector<emu_function *> functions;
static const emu_kernel *kernels;
static const char *fail_name;
static size_t fail_chars;
static long fail_nth, fail_alloc;

emu_kernel::emu_kernel(const char *its_name, size_t its_bytes, void (*its_run)(const void *))
    : name(its_name), bytes(its_bytes), run(its_run), next(kernels)
{
    kernels = this;
}

static long number(const char *name, long otherwise)
{
    const char *v = getenv(name);
    return v && *v ? atol(v) : otherwise;
}

/* 0, or what the call gives at once. */
static int enter(const char *name, bool in_context)
{
    if (!initialized) return EMU_NOT_INITIALIZED;
    if (fail_name && strlen(name) == fail_chars && !strncmp(name, fail_name, fail_chars) &&
        --fail_nth == 0)
        return EMU_UNKNOWN;
    if (in_context && (!current || !current->held)) return EMU_INVALID_CONTEXT;
    return in_context ? broken : 0;
}
#define ENTER(in_context)                                                                          \
    std::lock_guard<std::recursive_mutex> held(lock);                                              \
    if (int r = enter(__func__, in_context)) return r

static int drained(emu_stream *s)
{
    int r = emu_drain(s);
    if (r) broken = r;
    return r;
}
static int drain_all()
{
    for (emu_stream *s : streams)
        if (int r = drained(s)) return r;
    return EMU_OK;
}
static bool known(const emu_stream *s)
{
    return std::find(streams.begin(), streams.end(), s) != streams.end();
}

/* ---- the driver, its devices ----------------------------------------------------------------- */

API cuInit(unsigned)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (initialized) return EMU_OK;
    n_devices = (int)number("ZT_CUDA_EMU_DEVICES", 1);
    if (n_devices <= 0) return 100; /* CUDA_ERROR_NO_DEVICE */
    n_devices = std::min<int>(n_devices, DEVICES);
    emu_seed((uint64_t)number("ZT_CUDA_EMU_SEED", 1));
    cooperative = number("ZT_CUDA_EMU_COOPERATIVE", 1) != 0;
    emu_log_launches(getenv("ZT_CUDA_EMU_LAUNCHES"));
    fail_alloc = number("ZT_CUDA_EMU_FAIL_ALLOC", 0);
    fail_name = getenv("ZT_CUDA_EMU_FAIL");
    const char *colon = fail_name ? strchr(fail_name, ':') : nullptr;
    fail_chars = colon ? (size_t)(colon - fail_name) : 0;
    fail_nth = colon ? atol(colon + 1) : 0;
    unified = number("ZT_CUDA_EMU_UNIFIED", 0) != 0;
    emu_wgmma_mode(getenv("ZT_CUDA_EMU_WGMMA"));
    long memory = number("ZT_CUDA_EMU_MEMORY", (long)8 << 30);
    if (int r = emu_memory_open((size_t)memory)) return r;
    initialized = true;
    return EMU_OK;
}

API cuDriverGetVersion(int *version)
{
    *version = 13000;
    return EMU_OK;
}

static const struct {
    int result;
    const char *name, *text;
} results[] = {
    {EMU_OK, "CUDA_SUCCESS", "no error"},
    {EMU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {EMU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {EMU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {EMU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {EMU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {EMU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {EMU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {EMU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {EMU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", nullptr},
    {EMU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", nullptr},
    {EMU_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {EMU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {EMU_CAPTURE, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {EMU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int told(int result, const char **text, bool name)
{
    *text = nullptr;
    for (const auto &r : results)
        if (r.result == result) *text = name ? r.name : r.text ? r.text : emu_error();
    return *text ? EMU_OK : EMU_INVALID_VALUE;
}
API cuGetErrorName(int result, const char **text) { return told(result, text, true); }
API cuGetErrorString(int result, const char **text) { return told(result, text, false); }

API cuDeviceGetCount(int *n)
{
    ENTER(false);
    *n = n_devices;
    return EMU_OK;
}
API cuDeviceGet(int *device, int i)
{
    ENTER(false);
    if (i < 0 || i >= n_devices) return EMU_INVALID_DEVICE;
    *device = i;
    return EMU_OK;
}
API cuDeviceGetName(char *name, int room, int device)
{
    ENTER(false);
    if (device < 0 || device >= n_devices || room < 1) return EMU_INVALID_VALUE;
    snprintf(name, (size_t)room, "emulated device %d", device);
    return EMU_OK;
}
API cuDeviceGetAttribute(int *value, int attribute, int)
{
    const struct {
        int attribute, value;
    } all[] = {{1, EMU_THREADS}, {2, EMU_THREADS},
               {3, EMU_THREADS}, {4, 64},
               {5, INT32_MAX},   {6, 65535},
               {7, 65535},       {8, EMU_SHARED_PLAIN},
               {10, 32},         {16, PROCESSORS},
               {18, unified},    {75, 9},
               {76, 0},          {95, cooperative},
               {97, EMU_SHARED_MOST}};
    ENTER(false);
    for (const auto &a : all)
        if (a.attribute == attribute) {
            *value = a.value;
            return EMU_OK;
        }
    return EMU_INVALID_VALUE;
}
API cuDeviceTotalMem_v2(size_t *bytes, int)
{
    ENTER(false);
    *bytes = emu_memory_total();
    return EMU_OK;
}

API cuDevicePrimaryCtxRetain(context **c, int device)
{
    ENTER(false);
    if (device < 0 || device >= n_devices) return EMU_INVALID_DEVICE;
    contexts[device].held++;
    *c = &contexts[device];
    return EMU_OK;
}
/* With the last of them all that was made in a context goes; what nobody freed is told, unless a
 * launch had failed: then nothing can be freed. */
API cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER(false);
    if (device < 0 || device >= n_devices || !contexts[device].held) return EMU_INVALID_CONTEXT;
    if (--contexts[device].held) return EMU_OK;
    for (const auto &c : contexts)
        if (c.held) return EMU_OK;
    if (!broken) drain_all();
    if (!broken && (emu_memory_used() || pinned.size() || streams.size()))
        fprintf(stderr, "cudaemu: left behind: %zu bytes, %zu pinned buffers, %zu streams\n",
                emu_memory_used(), pinned.size(), streams.size());
    emu_memory_close();
    for (emu_function *f : functions) delete f;
    functions.clear();
    broken = 0;
    emu_error_clear();
    return EMU_OK;
}
API cuCtxSetCurrent(context *c)
{
    ENTER(false);
    current = c;
    return EMU_OK;
}

/* A context of its own, current from here on: a launch that fails there fails no other's calls. */
API cuCtxCreate_v2(context **c, unsigned, int device)
{
    ENTER(false);
    if (device < 0 || device >= n_devices) return EMU_INVALID_DEVICE;
    *c = current = new context{1, current, broken, {}};
    broken = 0;
    return EMU_OK;
}
API cuCtxDestroy_v2(context *c)
{
    ENTER(false);
    if (!c || c != current || !c->held) return EMU_INVALID_CONTEXT;
    if (!broken) drain_all();
    for (uint64_t at : c->memory) emu_memory_free(at);
    if (broken) emu_error_clear();
    current = c->before;
    broken = c->broken;
    delete c;
    return EMU_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool fails_to_alloc() { return fail_alloc > 0 && --fail_alloc == 0; }

API cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
    ENTER(true);
    if (fails_to_alloc()) return EMU_OUT_OF_MEMORY;
    int r = emu_memory_alloc(bytes, at);
    if (!r && current->before) current->memory.push_back(*at);
    return r;
}
API cuMemFree_v2(uint64_t at)
{
    ENTER(true);
    auto &own = current->memory;
    own.erase(std::remove(own.begin(), own.end(), at), own.end());
    int r = drain_all(), freed = emu_memory_free(at);
    return r ? r : freed;
}
API cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
    ENTER(true);
    if (!bytes) return EMU_INVALID_VALUE;
    uint64_t at = 0;
    if (fails_to_alloc()) return EMU_OUT_OF_MEMORY;
    if (int r = unified ? emu_memory_alloc(bytes, &at) : EMU_OK) return r;
    auto *made = unified ? reinterpret_cast<unsigned char *>(at)
                         : new (std::nothrow) unsigned char[bytes];
    if (!made) return EMU_OUT_OF_MEMORY;
    memset(made, 0xFF, bytes);
    pinned.push_back({made, bytes});
    *p = made;
    return EMU_OK;
}
API cuMemFreeHost(void *p)
{
    ENTER(true);
    int r = drain_all();
    for (size_t i = 0; i < pinned.size(); i++)
        if (pinned[i].first == p) {
            if (unified)
                emu_memory_free(reinterpret_cast<uint64_t>(p));
            else
                delete[] pinned[i].first;
            pinned.erase(pinned.begin() + (long)i);
            return r;
        }
    return EMU_INVALID_VALUE;
}
API cuMemGetInfo_v2(size_t *left, size_t *whole)
{
    ENTER(true);
    *whole = emu_memory_total();
    *left = *whole - emu_memory_used();
    return EMU_OK;
}

static bool is_pinned(const void *p, size_t n)
{
    for (const auto &a : pinned) {
        auto at = static_cast<const unsigned char *>(p) - a.first;
        if (at >= 0 && (size_t)at < a.second) return n <= a.second - (size_t)at;
    }
    return false;
}

static int add_copy(emu_stream *s, void *to, const void *from, size_t n, unsigned char devices)
{
    emu_command c = {};
    if (!known(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::COPY;
    c.to = to;
    c.from = from;
    c.n = n;
    c.value = devices;
    /* Pageable memory: read now; written now. */
    bool pageable = (devices == 1 && !is_pinned(from, n)) || (devices == 2 && !is_pinned(to, n));
    if (pageable && s->capturing) return EMU_CAPTURE;
    if (pageable && devices == 1) {
        auto bytes = static_cast<const unsigned char *>(from);
        c.bytes = std::make_shared<std::vector<unsigned char>>(bytes, bytes + n);
    }
    emu_add(s, c);
    return pageable && devices == 2 ? drained(s) : EMU_OK;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, reinterpret_cast<void *>(to), from, n, 1);
}
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, to, reinterpret_cast<void *>(from), n, 2);
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n, 3);
}
API cuMemsetD8Async(uint64_t at, unsigned char v, size_t n, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!known(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::SET;
    c.to = reinterpret_cast<void *>(at);
    c.n = n;
    c.value = v;
    emu_add(s, c);
    return EMU_OK;
}

/* ---- streams, graphs, events ----------------------------------------------------------------- */

API cuStreamCreate(emu_stream **s, unsigned)
{
    ENTER(true);
    *s = new emu_stream();
    streams.push_back(*s);
    return EMU_OK;
}
API cuStreamDestroy_v2(emu_stream *s)
{
    ENTER(false);
    auto it = std::find(streams.begin(), streams.end(), s);
    if (it == streams.end()) return EMU_INVALID_HANDLE;
    int r = broken ? broken : drained(s);
    streams.erase(it);
    delete s;
    return r;
}
API cuStreamSynchronize(emu_stream *s)
{
    ENTER(true);
    if (!known(s)) return EMU_INVALID_HANDLE;
    return s->capturing ? EMU_CAPTURE : drained(s);
}
API cuStreamBeginCapture_v2(emu_stream *s, int)
{
    ENTER(true);
    if (!known(s) || s->capturing) return EMU_INVALID_VALUE;
    s->capturing = true;
    s->captured.clear();
    return EMU_OK;
}
API cuStreamEndCapture(emu_stream *s, emu_graph **g)
{
    ENTER(true);
    if (!known(s) || !s->capturing) return EMU_INVALID_VALUE;
    s->capturing = false;
    *g = new emu_graph();
    (*g)->commands = std::make_shared<emu_commands>(std::move(s->captured));
    s->captured.clear();
    return EMU_OK;
}
API cuGraphInstantiateWithFlags(emu_graph **x, emu_graph *g, unsigned long long)
{
    ENTER(true);
    *x = new emu_graph(*g);
    return EMU_OK;
}
API cuGraphLaunch(emu_graph *x, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!known(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::GRAPH;
    c.graph = x->commands;
    emu_add(s, c);
    return EMU_OK;
}
API cuGraphExecDestroy(emu_graph *x)
{
    ENTER(false);
    delete x;
    return EMU_OK;
}
API cuGraphDestroy(emu_graph *g)
{
    ENTER(false);
    delete g;
    return EMU_OK;
}

API cuEventCreate(emu_event **v, unsigned)
{
    ENTER(true);
    *v = new emu_event();
    return EMU_OK;
}
API cuEventDestroy_v2(emu_event *v)
{
    ENTER(false);
    if (!broken) drain_all();
    delete v;
    return EMU_OK;
}
API cuEventRecord(emu_event *v, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!known(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::EVENT;
    c.event = v;
    v->recorded = true;
    v->done = false;
    emu_add(s, c);
    return EMU_OK;
}
API cuEventSynchronize(emu_event *v)
{
    ENTER(true);
    return v->recorded && !v->done ? drain_all() : EMU_OK;
}
API cuEventElapsedTime(float *ms, emu_event *from, emu_event *to)
{
    ENTER(true);
    if (!from->recorded || !to->recorded) return EMU_INVALID_HANDLE;
    if (!from->done || !to->done) return EMU_NOT_READY;
    *ms = (float)((to->at - from->at) * 1e3);
    return EMU_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

API cuModuleLoadData(void **module, const void *)
{
    ENTER(true);
    *module = &kernels;
    return EMU_OK;
}
API cuModuleUnload(void *)
{
    ENTER(false);
    return EMU_OK;
}
API cuModuleGetFunction(emu_function **f, void *, const char *name)
{
    ENTER(true);
    for (const emu_kernel *k = kernels; k; k = k->next) {
        if (strcmp(k->name, name)) continue;
        *f = new emu_function{k, EMU_SHARED_PLAIN};
        functions.push_back(*f);
        return EMU_OK;
    }
    return EMU_NOT_FOUND;
}
API cuFuncSetAttribute(emu_function *f, int attribute, int value)
{
    ENTER(true);
    if (attribute != 8) return EMU_OK; /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
    if (value < 0 || value > EMU_SHARED_MOST) return EMU_INVALID_VALUE;
    f->dynamic = (size_t)value;
    return EMU_OK;
}
static int add_launch(emu_function *f, const unsigned grid[3], const unsigned threads[3],
                      unsigned shared, emu_stream *s, void **params, bool together)
{
    emu_command c = {};
    if (!known(s)) return EMU_INVALID_HANDLE;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > 65535 ||
        grid[2] > 65535 || !threads[0] || threads[0] > EMU_THREADS || threads[1] != 1 ||
        threads[2] != 1 || shared > f->dynamic)
        return EMU_INVALID_VALUE;
    c.kind = emu_command::LAUNCH;
    c.launch = {f->kernel, nullptr, {(int)grid[0], (int)grid[1], (int)grid[2]}, (int)threads[0],
                shared, together};
    auto bytes = static_cast<const unsigned char *>(params[0]);
    c.bytes = std::make_shared<std::vector<unsigned char>>(bytes, bytes + f->kernel->bytes);
    emu_add(s, c);
    return EMU_OK;
}
API cuLaunchKernel(emu_function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, emu_stream *s, void **params, void **extra)
{
    ENTER(true);
    const unsigned grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    return extra ? EMU_INVALID_VALUE : add_launch(f, grid, threads, shared, s, params, false);
}
API cuLaunchCooperativeKernel(emu_function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, emu_stream *s,
                              void **params)
{
    ENTER(true);
    const unsigned grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
    if (!cooperative) return EMU_NOT_SUPPORTED;
    if ((uint64_t)gx * gy * gz * bx > EMU_THREADS) return EMU_TOO_LARGE;
    return add_launch(f, grid, threads, shared, s, params, true);
}
/* The fibers of all blocks that run at once are those of the largest block. */
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, emu_function *f, int threads, size_t shared)
{
    ENTER(true);
    if (threads <= 0 || shared > f->dynamic) return EMU_INVALID_VALUE;
    *n = EMU_THREADS / PROCESSORS / threads;
    return EMU_OK;
}
