/* driver_kernel.cpp - the emulated driver's modules, which are all kernels of this library, and their
 * launches. */
#include "driver.h"

#include <string.h>

static const emu_kernel *kernels;

emu_kernel::emu_kernel(const char *its_name, size_t its_bytes, void (*its_run)(const void *))
    : name(its_name), bytes(its_bytes), run(its_run), next(kernels)
{
    kernels = this;
}

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
        *f = new emu_function{k, EMU_SHARED_PLAIN, EMU_SHARED_PLAIN};
        driver.functions.push_back(*f);
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
    f->most = EMU_SHARED_MOST;
    return EMU_OK;
}
static int add_launch(emu_function *f, const unsigned grid[3], const unsigned threads[3],
                      unsigned shared, emu_stream *s, void **params, bool together)
{
    emu_command c = {};
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > 65535 ||
        grid[2] > 65535 || !threads[0] || threads[0] > EMU_THREADS || threads[1] != 1 ||
        threads[2] != 1 || shared > f->dynamic)
        return EMU_INVALID_VALUE;
    c.kind = emu_command::LAUNCH;
    c.launch = {f->kernel, nullptr, {(int)grid[0], (int)grid[1], (int)grid[2]}, (int)threads[0],
                shared, f->most, together};
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
    if (!driver.cooperative) return EMU_NOT_SUPPORTED;
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
