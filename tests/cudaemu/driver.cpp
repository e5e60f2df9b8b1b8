/* driver.cpp - the functions of libcuda that zt calls, over the emulated device: what is asked of the
 * driver, its devices and contexts. The others are in driver_*.cpp.
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
#include "driver.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" __attribute__((visibility("default"))) const int zt_cuda_emulation;
const int zt_cuda_emulation = 1;

enum { DEVICES = 8 };

emu_driver driver;
thread_local emu_context *emu_current;
static bool initialized;
static int n_devices;
static emu_context contexts[DEVICES];
static const char *fail_name;
static size_t fail_chars;
static long fail_nth;

static long number(const char *name, long otherwise)
{
    const char *v = getenv(name);
    return v && *v ? atol(v) : otherwise;
}

int emu_enter(const char *name, bool in_context)
{
    if (!initialized) return EMU_NOT_INITIALIZED;
    if (fail_name && strlen(name) == fail_chars && !strncmp(name, fail_name, fail_chars) &&
        --fail_nth == 0)
        return EMU_UNKNOWN;
    if (in_context && (!emu_current || !emu_current->held)) return EMU_INVALID_CONTEXT;
    return in_context ? driver.broken : 0;
}

/* ---- the driver, its devices ----------------------------------------------------------------- */

API cuInit(unsigned)
{
    std::lock_guard<std::recursive_mutex> held(driver.lock);
    if (initialized) return EMU_OK;
    n_devices = (int)number("ZT_CUDA_EMU_DEVICES", 1);
    if (n_devices <= 0) return 100; /* CUDA_ERROR_NO_DEVICE */
    n_devices = std::min<int>(n_devices, DEVICES);
    emu_seed((uint64_t)number("ZT_CUDA_EMU_SEED", 1));
    driver.cooperative = number("ZT_CUDA_EMU_COOPERATIVE", 1) != 0;
    emu_log_launches(getenv("ZT_CUDA_EMU_LAUNCHES"));
    driver.fail_alloc = number("ZT_CUDA_EMU_FAIL_ALLOC", 0);
    fail_name = getenv("ZT_CUDA_EMU_FAIL");
    const char *colon = fail_name ? strchr(fail_name, ':') : nullptr;
    fail_chars = colon ? (size_t)(colon - fail_name) : 0;
    fail_nth = colon ? atol(colon + 1) : 0;
    driver.unified = number("ZT_CUDA_EMU_UNIFIED", 0) != 0;
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
    } all[] = {{1, EMU_THREADS},     {2, EMU_THREADS},
               {3, EMU_THREADS},     {4, 64},
               {5, INT32_MAX},       {6, 65535},
               {7, 65535},           {8, EMU_SHARED_PLAIN},
               {10, 32},             {16, PROCESSORS},
               {18, driver.unified}, {75, 9},
               {76, 0},              {95, driver.cooperative},
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

/* ---- contexts -------------------------------------------------------------------------------- */

API cuDevicePrimaryCtxRetain(emu_context **c, int device)
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
    if (!driver.broken) driver.drain_all();
    if (!driver.broken && (emu_memory_used() || driver.pinned.size() || driver.streams.size()))
        fprintf(stderr, "cudaemu: left behind: %zu bytes, %zu pinned buffers, %zu streams\n",
                emu_memory_used(), driver.pinned.size(), driver.streams.size());
    emu_memory_close();
    for (emu_function *f : driver.functions) delete f;
    driver.functions.clear();
    driver.broken = 0;
    emu_error_clear();
    return EMU_OK;
}
API cuCtxSetCurrent(emu_context *c)
{
    ENTER(false);
    emu_current = c;
    return EMU_OK;
}

/* A context of its own, current from here on: a launch that fails there fails no other's calls. */
API cuCtxCreate_v2(emu_context **c, unsigned, int device)
{
    ENTER(false);
    if (device < 0 || device >= n_devices) return EMU_INVALID_DEVICE;
    *c = emu_current = new emu_context{1, emu_current, driver.broken, {}};
    driver.broken = 0;
    return EMU_OK;
}
API cuCtxDestroy_v2(emu_context *c)
{
    ENTER(false);
    if (!c || c != emu_current || !c->held) return EMU_INVALID_CONTEXT;
    if (!driver.broken) driver.drain_all();
    for (uint64_t at : c->memory) emu_memory_free(at);
    if (driver.broken) emu_error_clear();
    emu_current = c->before;
    driver.broken = c->broken;
    delete c;
    return EMU_OK;
}
