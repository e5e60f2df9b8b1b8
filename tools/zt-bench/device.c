/* device.c - the rates of an adapter: copying its own memory, and multiplying matrices. Ops run
 * ahead of the caller there, so that a sample is some of them handed over at once, and waited for.
 */
#include "tools/zt-bench/bench.h"

#include <math.h>
#include <string.h>

enum { MOST = 64, SAMPLES = 3 };        /* ops a sample */
static const double LONG_ENOUGH = 0.02; /* seconds of a sample */

/* Floats copied, rows and columns multiplied: too large for caches, but no minutes of a processor
 * that plays a device. */
static const struct size {
    int64_t copied, side;
} on_device = {16 << 20, 2048}, on_processor = {4 << 20, 256};

typedef struct device_bench {
    zt_run *run;
    zt_tensor *matrix, *square;
} device_bench;

typedef zt_tensor *op_fn(device_bench *d);

static zt_tensor *copy_once(device_bench *device)
{
    return zt_eager_scale(device->run, device->matrix, &(zt_scale_attrs){.by = 0.5});
}

static zt_tensor *multiply_once(device_bench *device)
{
    zt_linear_attrs plain = zt_linear_defaults();
    return zt_eager_linear(device->run, device->square, device->square, NULL, &plain);
}

/* Seconds of times ops, all of them done. What one made goes at once, so that the next finds memory
 * that has been used before. */
static zt_status time_ops(device_bench *device, op_fn *run_op, int times, double *seconds)
{
    zt_status status = ZT_OK;
    double start = zt_seconds();
    for (int i = 0; i < times && !status; i++) {
        zt_scope_begin(device->run);
        status = run_op(device) ? ZT_OK : ZT_ENOTSUP;
        zt_scope_end(device->run);
    }
    if (!status) status = zt_run_sync(device->run);
    *seconds = zt_seconds() - start;
    return status;
}

/* The best of some samples; 0: the engine lacks the op. */
static zt_status best_rate(device_bench *device, op_fn *run_op, double amount, double *rate)
{
    double once = 0, seconds;
    uint64_t fell = zt_run_fallbacks(device->run);
    *rate = 0;
    zt_status status = time_ops(device, run_op, 1, &once); /* uploads what it reads */
    if (!status) status = time_ops(device, run_op, 1, &once);
    if (status || zt_run_fallbacks(device->run) > fell) return status;
    double fit = once > 0 ? LONG_ENOUGH / once : MOST;
    int times = fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
    for (int i = 0; i < SAMPLES && !status; i++) {
        status = time_ops(device, run_op, times, &seconds);
        if (!status && seconds > 0 && amount * times / seconds > *rate) *rate = amount * times / seconds;
    }
    return status;
}

static zt_tensor *make_zeros(zt_ctx *ctx, int rank, const int64_t *dim)
{
    zt_type type = zt_type_make(ZT_F32, rank, dim);
    zt_tensor *tensor = zt_tensor_new(ctx, &type);
    if (tensor) memset(zt_tensor_data(tensor), 0, zt_type_bytes(&type));
    return tensor;
}

zt_status bench_device(zt_ctx *ctx, const char *engine, bool processor, double *copied, double *multiplied)
{
    struct size size = processor ? on_processor : on_device;
    zt_engine *opened = zt_engine_open(ctx, engine, &(zt_engine_opts){.threads = 0});
    device_bench device = {.run = opened ? zt_run_new(opened, false) : NULL};
    if (device.run) device.matrix = make_zeros(ctx, 1, (int64_t[]){size.copied});
    if (device.matrix) device.square = make_zeros(ctx, 2, (int64_t[]){size.side, size.side});
    zt_status status = device.square ? ZT_OK : zt_ctx_status(ctx);
    if (!status) status = best_rate(&device, copy_once, 2.0 * (double)size.copied * sizeof(float), copied);
    if (!status) status = best_rate(&device, multiply_once, 2 * pow((double)size.side, 3), multiplied);
    zt_run_free(device.run);
    zt_tensor_unref(device.matrix);
    zt_tensor_unref(device.square);
    if (opened) zt_engine_close(opened);
    return status ? zt_ctx_status(ctx) : ZT_OK;
}
