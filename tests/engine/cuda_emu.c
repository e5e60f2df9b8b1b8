/* cuda_emu.c - the emulated GPU (tests/cudaemu) itself: kernels that are right come out right in
 * every order of threads, and each planted fault ends its launch with a line that names kernel,
 * block and thread.
 */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/cu.h"
#include "tests/cudaemu/planted.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 512, HOST = -1, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, TOO_LARGE = 720 };

static struct {
#define X(symbol, hip, name, params) int(*name) params;
    ZT_CU_API(X)
#undef X
#define X(symbol, name, params) int(*name) params;
    ZT_CU_API_NEWER(X)
#undef X
} cu;
static zt_cu_stream stream;
static zt_cu_module module;
static emu_args args; /* x, y, z: N floats each */
static float x[N], y[N];
static unsigned blocks = 1; /* of a faulty kernel */
static bool together;       /* in a cooperative launch */

/* HIP's names of it are there too. */
static bool find_hip(void *lib)
{
    bool good = dlsym(lib, zt_cu_amd.text) != NULL;
    for (int i = 0; i < ZT_CU_CALL_COUNT; i++) good = good && (!zt_cu_amd.symbols[i] || dlsym(lib, zt_cu_amd.symbols[i]));
    return ok(good, "and what HIP has of them");
}

static bool find_all(const char *program)
{
    char self[PATH_MAX], path[PATH_MAX + 32];
    const char *given = getenv("ZT_LIBCUDA");
    snprintf(self, sizeof self, "%s", program);
    snprintf(path, sizeof path, "%s/libcuda-emu.so", dirname(self));
    void *lib = dlopen(given && strstr(given, "cuda-emu") ? given : path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) return false;
// clang-format off
#define X(symbol, hip, name, params)                                                               \
    {                                                                                              \
        void *found = dlsym(lib, #symbol);                                                         \
        memcpy(&cu.name, &found, sizeof found);                                                    \
        ok(found != NULL, "%s is there", #symbol);                                                 \
    }
    ZT_CU_API(X)
#undef X
#define X(symbol, name, params)                                                                    \
    {                                                                                              \
        void *found = dlsym(lib, #symbol);                                                         \
        memcpy(&cu.name, &found, sizeof found);                                                    \
        ok(found != NULL, "%s is there", #symbol);                                                 \
    }
    // clang-format on
    ZT_CU_API_NEWER(X)
#undef X
    const int *emulated = dlsym(lib, "zt_cuda_emulation");
    ok(emulated && *emulated, "it says what it is");
    return find_hip(lib) && tap_failed == 0;
}

/* x as 16 rows of 64 numbers of 16 bits, in boxes of `high` rows. */
static int map_x(uint32_t high, int swizzle, uint64_t row)
{
    const uint64_t size[3] = {64, 16, 1}, step[2] = {row, 16 * row};
    const uint32_t box[3] = {64, high, 1}, every[3] = {1, 1, 1};
    return cu.TensorMapEncodeTiled(&args.map, 1, 3, (void *)(uintptr_t)args.x, size, step, box, every, 0, swizzle, 0, 0);
}

static void begin(void)
{
    zt_cu_context c;
    cu.PrimaryCtxRetain(&c, 0);
    cu.CtxSetCurrent(c);
    cu.StreamCreate(&stream, 0);
    cu.ModuleLoadData(&module, NULL);
    cu.MemAlloc(&args.x, sizeof x);
    cu.MemAlloc(&args.y, sizeof y);
    cu.MemAlloc(&args.z, sizeof y);
    cu.MemAlloc(&args.word, sizeof(uint32_t));
    cu.MemsetD8Async(args.word, 0, sizeof(uint32_t), stream);
    for (int i = 0; i < N; i++) x[i] = (float)(i % 37 - 18);
    cu.MemcpyHtoDAsync(args.x, x, sizeof x, stream);
    cu.MemsetD8Async(args.y, 0, sizeof y, stream);
    cu.MemsetD8Async(args.z, 0, sizeof y, stream);
    map_x(8, 3, 128);
}

static void end(void)
{
    cu.MemFree(args.x);
    cu.MemFree(args.y);
    cu.MemFree(args.z);
    cu.MemFree(args.word);
    cu.StreamDestroy(stream);
    cu.PrimaryCtxRelease(0);
}

static int launch_kernel(const char *kernel, const emu_args *a, unsigned grid, unsigned threads)
{
    zt_cu_function f;
    emu_args copy = *a;
    void *params[] = {&copy};
    int r = cu.ModuleGetFunction(&f, module, kernel);
    if (!r)
        r = together ? cu.LaunchCooperativeKernel(f, grid, 1, 1, threads, 1, 1, 0, stream, params)
                     : cu.LaunchKernel(f, grid, 1, 1, threads, 1, 1, 0, stream, params, NULL);
    if (!r) r = cu.StreamSynchronize(stream);
    if (!r) cu.MemcpyDtoHAsync(y, args.y, sizeof y, stream);
    return r;
}

/* ---- what is right --------------------------------------------------------------------------- */

static void right(const char *kernel, int flip)
{
    bool good = true;
    for (int again = 0; again < 20 && good; again++) {
        good = launch_kernel(kernel, &args, 2, 256) == 0;
        for (int i = 0; i < N; i++) good = good && y[i] == x[i ^ flip];
    }
    ok(good, "%s gives the same in twenty orders", kernel);
}

/* Blocks that wait for each other: each has what the third after it had. */
static void grids(void)
{
    bool good = true;
    together = true;
    for (int again = 0; again < 20 && good; again++) {
        good = launch_kernel("emu_grid", &args, 2, 256) == 0;
        for (int i = 0; i < N; i++) good = good && y[i] == x[(i + 3 * 256) % N];
    }
    ok(good, "emu_grid gives the same in twenty orders");
    int count = 0, r = 0;
    zt_cu_function f;
    cu.ModuleGetFunction(&f, module, "emu_grid");
    r = cu.OccupancyMaxBlocks(&count, f, 256, 0);
    ok(r == 0 && count >= 1, "so many blocks of it on a processor: %d", count);
    r = launch_kernel("emu_grid", &args, 4096, 256);
    ok(r == TOO_LARGE, "blocks that do not all fit: %d", r);
    together = false;
}

static void sums(void)
{
    emu_args a = args;
    uint32_t count;
    float want = 0;
    bool good = true;
    a.n = N;
    for (int i = 0; i < N; i++) want += x[i];
    cu.MemsetD8Async(args.z, 0, sizeof y, stream);
    int r = launch_kernel("emu_sum", &a, 1, 256);
    for (int i = 0; i < 256; i++) good = good && y[i] == want;
    cu.MemcpyDtoHAsync(&count, args.z, sizeof count, stream);
    ok(!r && good && count == 256, "the sum of a block reaches every thread; atomics count them");
}

static void products(void)
{
    emu_args a = args;
    bool good = true;
    a.n = 16;
    ok(launch_kernel("emu_mma", &a, 1, 32) == 0, "mma_f16 runs");
    for (int i = 0; i < 16 * 8; i++) {
        float want = 0;
        for (int k = 0; k < 16; k++) want += x[i / 8 * 16 + k] * x[(16 + i % 8) * 16 + k];
        good = good && y[i] == want;
    }
    ok(good, "and multiplies");
    int8_t bytes[24 * 64];
    int32_t got[16 * 8];
    a.n = 64;
    for (int i = 0; i < 24 * 64; i++) bytes[i] = (int8_t)(i * 7 % 251 - 125);
    cu.MemcpyHtoDAsync(args.x, bytes, sizeof bytes, stream);
    ok(launch_kernel("emu_mma_s8", &a, 1, 32) == 0, "mma_s8 runs");
    memcpy(got, y, sizeof got);
    for (int i = 0; i < 16 * 8; i++) {
        int32_t want = 0;
        for (int k = 0; k < 64; k++) want += bytes[i / 8 * 64 + k] * bytes[(16 + i % 8) * 64 + k];
        good = good && got[i] == want;
    }
    ok(good, "and multiplies");
    cu.MemcpyHtoDAsync(args.x, x, sizeof x, stream);
}

/* What AMD's GPUs have instead of matrix units and copies beside the thread. */
static void waves(void)
{
    const char *const kernels[] = {"emu_wave_mma", "emu_wave_rows", "emu_wave_copy"};
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        float unlike = 0, likes = 0;
        int r = launch_kernel(kernels[k], &args, 1, 256);
        for (int i = 0; i < 256; i++) unlike += y[i], likes += y[256 + i];
        ok(!r && unlike == 0 && likes > 256, "%s: %g words as they should be, %g not", kernels[k], (double)likes, (double)unlike);
    }
}

static void async_copies(void)
{
    bool good = launch_kernel("emu_copy_waited", &args, 1, 32) == 0;
    for (int i = 0; i < 128; i++) good = good && y[i] == (i < 126 ? x[i] : 0);
    ok(good, "a copy that is waited for is there, with zeros past its bytes");
}

/* Boxes of a tensor, with zeros where it ends, and products of a warpgroup. */
static void boxes(void)
{
    const uint16_t *from = (const uint16_t *)x, *got = (const uint16_t *)y;
    bool good = launch_kernel("emu_box", &args, 1, 128) == 0;
    for (int i = 0; i < 8 * 64 && good; i++)
        good = got[i] == (i / 64 < 4 && i % 64 < 56 ? from[(12 + i / 64) * 64 + 8 + i % 64] : 0);
    ok(good, "a box that is waited for is there, with zeros outside of the tensor");
    good = launch_kernel("emu_wgmma_ones", &args, 1, 128) == 0;
    for (int i = 0; i < N; i++) good = good && y[i] == 16;
    ok(good, "a warpgroup multiplies");
    ok(map_x(8, 0, 128) && map_x(257, 3, 128) && map_x(8, 3, 120), "maps that it does not take");
    ok(map_x(8, 3, 128) == 0, "and one that it does");
}

/* What fails in a context of its own fails there alone. */
static void contexts(void)
{
    zt_cu_context own;
    zt_cu_stream before = stream;
    ok(cu.CtxCreate(&own, 0, 0) == 0 && cu.StreamCreate(&stream, 0) == 0, "a context of its own");
    ok(launch_kernel("emu_ends_early", &args, 1, 64) == LAUNCH_FAILED && cu.StreamSynchronize(stream), "a launch fails there");
    cu.StreamDestroy(stream);
    stream = before;
    ok(cu.CtxDestroy(own) == 0 && launch_kernel("emu_reverse", &args, 2, 256) == 0 && y[0] == x[255],
       "and the one before goes on");
}

/* Every f16 and bf16 is what its dtype says, and itself again. */
static void numbers(void)
{
    static float got[2 * 65536], want[65536];
    static uint16_t back[2 * 65536], all[65536];
    emu_args a = args;
    cu.MemAlloc(&a.y, sizeof got);
    cu.MemAlloc(&a.z, sizeof back);
    bool good = launch_kernel("emu_numbers", &a, 256, 256) == 0;
    cu.MemcpyDtoHAsync(got, a.y, sizeof got, stream);
    cu.MemcpyDtoHAsync(back, a.z, sizeof back, stream);
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        zt_dtype_get(k ? ZT_BF16 : ZT_F16)->decode(all, want, 65536);
        for (int i = 0; i < 65536; i++) {
            float g = got[2 * i + k];
            good = good && (want[i] != want[i] ? g != g : g == want[i] && back[2 * i + k] == i);
        }
    }
    ok(good, "all of f16 and bf16");
    cu.MemFree(a.y);
    cu.MemFree(a.z);
}

/* ---- what is not ----------------------------------------------------------------------------- */

/* Fails in every one of ten orders, with a line that has `says`; and the device is lost with it.
 * count: of the arguments; HOST: x is an address of the host. */
static void wrong(const char *kernel, int64_t count, unsigned threads, int status, const char *says)
{
    bool good = true;
    const char *text = "";
    char line[600] = "";
    for (int again = 0; again < 10; again++) {
        end();
        begin();
        emu_args here = args;
        here.n = count;
        if (count == HOST) here.x = (uint64_t)(uintptr_t)x;
        good = good && launch_kernel(kernel, &here, blocks, threads) == status;
        cu.GetErrorString(status, &text);
        snprintf(line, sizeof line, "%s", text);
        good = good && strstr(line, kernel) && strstr(line, "thread") && strstr(line, says);
        good = good && cu.StreamSynchronize(stream) == status;
    }
    ok(good, "%s: %s", kernel, says);
    diag("%s", line);
    end();
    begin();
    ok(launch_kernel("emu_reverse", &args, 2, 256) == 0, "a new context works");
}

static void faults(void)
{
    wrong("emu_no_barrier", 0, 256, ILLEGAL_ADDRESS, "with no barrier between");
    wrong("emu_no_second_barrier", 0, 256, ILLEGAL_ADDRESS, "with no barrier between");
    wrong("emu_no_warp_barrier", 0, 256, ILLEGAL_ADDRESS, "with no barrier between");
    wrong("emu_warp_barrier_for_block", 0, 256, ILLEGAL_ADDRESS, "with no barrier between");
    wrong("emu_device_no_barrier", 0, 256, ILLEGAL_ADDRESS, "wrote in this launch");
    blocks = 2;
    wrong("emu_blocks_no_atomic", 0, 256, ILLEGAL_ADDRESS, "wrote in this launch");
    wrong("emu_grid", 0, 256, LAUNCH_FAILED, "a grid barrier of blocks one by one");
    together = true;
    wrong("emu_no_grid_barrier", 0, 256, ILLEGAL_ADDRESS, "wrote in this launch");
    wrong("emu_no_second_grid_barrier", 0, 256, ILLEGAL_ADDRESS, "wrote in this launch");
    wrong("emu_not_all_at_grid", 0, 256, LAUNCH_FAILED, "which the others ended without");
    wrong("emu_not_all_threads_at_grid", 0, 256, LAUNCH_FAILED, "waits at grid barrier, which 1 threads ended without");
    together = false;
    blocks = 1;
    wrong("emu_copy", N + 1, 32, ILLEGAL_ADDRESS, "reads 4 bytes at byte 2048 of an allocation of 2048");
    wrong("emu_shared_outside", 1, 256, ILLEGAL_ADDRESS, "outside of the shared arrays");
    wrong("emu_host_pointer", HOST, 32, ILLEGAL_ADDRESS, "where nothing is allocated");
    wrong("emu_misaligned", 1, 32, ILLEGAL_ADDRESS, "not aligned");
    wrong("emu_ends_early", 5, 64, LAUNCH_FAILED, "waits at barrier, which 1 threads ended without");
    wrong("emu_half_a_warp", 0, 32, LAUNCH_FAILED, "waits at a reduction");
    wrong("emu_copy_not_waited", 0, 32, LAUNCH_FAILED, "ends before its copies");
    wrong("emu_box_not_waited", 0, 128, ILLEGAL_ADDRESS, "where a box is on its way");
    wrong("emu_box_not_fenced", 0, 128, LAUNCH_FAILED, "a copy before mbarrier_fence");
    wrong("emu_box_too_small", 0, 128, LAUNCH_FAILED, "waits at an mbarrier");
    wrong("emu_box_over_box", 0, 128, ILLEGAL_ADDRESS, "copies over byte");
    wrong("emu_no_mbarrier", 0, 32, LAUNCH_FAILED, "no mbarrier is there");
    wrong("emu_too_many_arrive", 0, 32, LAUNCH_FAILED, "more arrivals than the mbarrier counts");
    wrong("emu_wgmma_not_fenced", 0, 128, LAUNCH_FAILED, "a wgmma before its fence");
    wrong("emu_wgmma_not_waited", 0, 128, LAUNCH_FAILED, "ends before its products");
    wrong("emu_wgmma_not_waited", 1, 128, ILLEGAL_ADDRESS, "which a product reads that nobody");
}

int main(int argc, char **argv)
{
    (void)argc;
    unsetenv("ZT_CUDA_EMU_FAIL");
    if (!find_all(argv[0])) {
        if (!tap_failed) skip("no libcuda-emu.so: %s", dlerror());
        return tap_done();
    }
    ok(cu.Init(0) == 0, "cuInit");
    begin();
    right("emu_reverse", 255);
    right("emu_warp_reverse", 31);
    right("emu_device_barrier", 1);
    grids();
    sums();
    products();
    waves();
    async_copies();
    boxes();
    contexts();
    numbers();
    faults();
    end();
    return tap_done();
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
