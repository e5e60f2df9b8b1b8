/* cuda_unified.c - a device whose memory is the host's (ZT_CUDA_EMU_UNIFIED): weights that stay as
 * they are in the file are read into memory that kernels see, and never copied; those that are
 * repacked are; results are what they were; all is given back. Skipped, aloud, without the emulated
 * driver. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/run/run.h"
#include "tests/engine/emulated_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, COLUMNS = 256 };

static int (*copy)(zt_cu_ptr to, const void *from, size_t n, zt_cu_stream s);
static size_t copied;
static int told;

static int counted(zt_cu_ptr to, const void *from, size_t n, zt_cu_stream s)
{
    copied += n;
    return copy(to, from, n, s);
}

static void hear(void *user, zt_level level, const char *line)
{
    (void)user, (void)level;
    told += strstr(line, "unified memory") != NULL;
}

static zt_status find_w(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)name;
    *type = *(const zt_type *)user;
    *handle = 0;
    return ZT_OK;
}

/* Numbers, or blocks whose scales are 1. */
static zt_status read_w(void *user, int64_t handle, size_t offset, void *dst, size_t count)
{
    const zt_type *its_type = user;
    (void)handle;
    for (size_t i = 0; i < count && its_type->dtype == ZT_F32; i += 4) {
        float v = (float)((offset + i) / 4 % 13) - 6;
        memcpy((char *)dst + i, &v, 4);
    }
    for (size_t i = 0; i < count && its_type->dtype == ZT_Q8_0; i++) {
        size_t at = (offset + i) % 34;
        ((uint8_t *)dst)[i] = at == 0 ? 0 : at == 1 ? 0x3c : (uint8_t)((offset + i) % 5);
    }
    return ZT_OK;
}

static float y[2][2 * ROWS]; /* of cpu, of cuda */

static zt_status multiply(zt_engine *engine, const zt_prog *program, zt_type *w, float *out)
{
    static float x[2 * COLUMNS];
    const zt_store store = {.user = w, .find = find_w, .read = read_w};
    zt_session *session = zt_session_open(engine, program, &store, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    for (int i = 0; i < 2 * COLUMNS; i++) x[i] = (float)(i % 7) - 3;
    zt_status st = session ? zt_session_step(session, NULL, 0, in, (void *[]){out}) : zt_ctx_status(engine->ctx);
    zt_session_close(session);
    return st;
}

static void of_dtype(zt_ctx *ctx, zt_dtype dtype, bool stays)
{
    const int64_t dim[] = {ROWS, COLUMNS}, of_x[] = {2, COLUMNS};
    zt_type w = zt_type_make(dtype, 2, dim);
    zt_prog *program = zt_prog_new(ctx);
    int a = zt_prog_in(program, "x", ZT_F32, 2, of_x), b = zt_prog_data(program, "w", dtype, 2, dim, "w");
    zt_prog_out(program, "y", zt_program_linear(program, NULL, a, b, ZT_NONE, NULL));
    zt_engine *cpu = zt_engine_open(ctx, "cpu", NULL), *cuda = zt_engine_open(ctx, "cuda", NULL);
    zt_cu_engine *e = (zt_cu_engine *)cuda;
    bool same = true;
    copied = 0;
    if (e) copy = e->cu.MemcpyHtoDAsync, e->cu.MemcpyHtoDAsync = counted;
    zt_status status = cpu && cuda ? multiply(cpu, program, &w, y[0]) : zt_ctx_status(ctx);
    if (!status) status = multiply(cuda, program, &w, y[1]);
    for (int i = 0; i < 2 * ROWS; i++) same = same && y[0][i] == y[1][i]; /* small integers */
    ok(!status && same && y[0][1] != 0, "%s: the products are the cpu's%s%s", zt_dtype_get(dtype)->name, status ? ": " : "",
       zt_ctx_error(ctx));
    size_t bytes = zt_type_bytes(&w);
    ok(stays ? copied < bytes : copied >= bytes, "%s: %zu bytes were copied, the weight has %zu", zt_dtype_get(dtype)->name,
       copied, bytes);
    zt_engine_close(cpu);
    zt_engine_close(cuda);
    zt_prog_free(program);
    zt_ctx_clear(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    setenv("ZT_CUDA_EMU_UNIFIED", "1", 1);
    zt_log_set(ctx, ZT_LOG_INFO, hear, NULL);
    zt_engine *engine = device_emulated(ctx);
    if (engine) {
        ok(((zt_cu_engine *)engine)->unified && told == 1, "the engine sees it, and says so");
        of_dtype(ctx, ZT_F32, true);
        of_dtype(ctx, ZT_Q8_0, false);
    }
    return device_done(ctx, engine);
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
