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

typedef struct device {
    zt_run *run;
    zt_tensor *x, *square;
} device;

typedef zt_tensor *op_fn(device *d);

static zt_tensor *copy_once(device *d)
{
    return zt_eager_scale(d->run, d->x, &(zt_scale_attrs){.by = 0.5});
}

static zt_tensor *multiply_once(device *d)
{
    zt_linear_attrs plain = zt_linear_defaults();
    return zt_eager_linear(d->run, d->square, d->square, NULL, &plain);
}

/* Seconds of n ops, all of them done. What one made goes at once, so that the next finds memory
 * that has been used before. */
static zt_status time_ops(device *d, op_fn *op, int n, double *seconds)
{
    zt_status s = ZT_OK;
    double start = zt_seconds();
    for (int i = 0; i < n && !s; i++) {
        zt_scope_begin(d->run);
        s = op(d) ? ZT_OK : ZT_ENOTSUP;
        zt_scope_end(d->run);
    }
    if (!s) s = zt_run_sync(d->run);
    *seconds = zt_seconds() - start;
    return s;
}

/* The best of some samples; 0: the engine lacks the op. */
static zt_status best_rate(device *d, op_fn *op, double amount, double *rate)
{
    double once = 0, seconds;
    uint64_t fell = zt_run_fallbacks(d->run);
    *rate = 0;
    zt_status s = time_ops(d, op, 1, &once); /* uploads what it reads */
    if (!s) s = time_ops(d, op, 1, &once);
    if (s || zt_run_fallbacks(d->run) > fell) return s;
    double fit = once > 0 ? LONG_ENOUGH / once : MOST;
    int n = fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
    for (int i = 0; i < SAMPLES && !s; i++) {
        s = time_ops(d, op, n, &seconds);
        if (!s && seconds > 0 && amount * n / seconds > *rate) *rate = amount * n / seconds;
    }
    return s;
}

static zt_tensor *zeros(zt_ctx *ctx, int rank, const int64_t *dim)
{
    zt_type t = zt_type_make(ZT_F32, rank, dim);
    zt_tensor *x = zt_tensor_new(ctx, &t);
    if (x) memset(zt_tensor_data(x), 0, zt_type_bytes(&t));
    return x;
}

zt_status bench_device(zt_ctx *ctx, const char *engine, bool processor, double *copied,
                       double *multiplied)
{
    struct size size = processor ? on_processor : on_device;
    zt_engine *e = zt_engine_open(ctx, engine, &(zt_engine_opts){.threads = 0});
    device d = {.run = e ? zt_run_new(e, false) : NULL};
    if (d.run) d.x = zeros(ctx, 1, (int64_t[]){size.copied});
    if (d.x) d.square = zeros(ctx, 2, (int64_t[]){size.side, size.side});
    zt_status s = d.square ? ZT_OK : zt_ctx_status(ctx);
    if (!s) s = best_rate(&d, copy_once, 2.0 * (double)size.copied * sizeof(float), copied);
    if (!s) s = best_rate(&d, multiply_once, 2 * pow((double)size.side, 3), multiplied);
    zt_run_free(d.run);
    zt_tensor_unref(d.x);
    zt_tensor_unref(d.square);
    if (e) zt_engine_close(e);
    return s ? zt_ctx_status(ctx) : ZT_OK;
}
