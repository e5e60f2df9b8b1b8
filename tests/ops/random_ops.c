/* random_ops.c - the ops that draw: the same draws as the host's, on every engine; their distribution;
 * and other draws with another counter or seed. */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>

enum { N = 1 << 18 };

static float y[N], z[N];

static bool draw(zt_engine *engine, zt_op op, double at, double by, int64_t seed, int64_t counter, float *to)
{
    zt_type type = zt_type_make(ZT_I64, 0, NULL);
    zt_random_uniform_attrs u = {{2, {512, N / 512}}, seed, at, by};
    zt_random_normal_attrs n = {{2, {512, N / 512}}, seed, at, by};
    oneop call = {.op = op,
                  .attrs = op == ZT_OP_random_uniform ? (void *)&u : (void *)&n,
                  .in = {&type},
                  .data = {&counter},
                  .result = {to}};
    return zt_op_infer(NULL, op, call.attrs, call.in, call.out) == ZT_OK && oneop_run(engine, &call) == ZT_OK;
}

/* Draw i, from words of Philox(3, 2^40, i / 4): 24 bits of its own, or Box and Muller's transform
 * of two. */
static double host_draw(zt_op op, int i)
{
    uint32_t r[4];
    zt_philox(3, 1ull << 40, (uint64_t)i / 4, r);
    if (op == ZT_OP_random_uniform) return (r[i % 4] >> 8) * 0x1p-24;
    const uint32_t *pair = r + i % 4 / 2 * 2;
    double size = sqrt(-2 * log(((pair[0] >> 8) + 1) * 0x1p-24)), angle = pair[1] * 0x1p-31 * M_PI;
    return size * (i % 2 ? sin(angle) : cos(angle));
}

static bool as_host(zt_op op)
{
    for (int i = 0; i < N; i++) {
        double want = host_draw(op, i);
        if (!(fabs((double)y[i] - want) <= 6e-8 * fabs(want) + 1e-15)) return false;
    }
    return true;
}

/* Mean, variance, fourth moment: within five deviations of what N draws have. */
static void moments(const char *name, double mean, double variance, double fourth)
{
    double m = 0, v = 0, f = 0;
    for (int i = 0; i < N; i++) m += (double)y[i] / N;
    for (int i = 0; i < N; i++) v += pow((double)y[i] - mean, 2) / N;
    for (int i = 0; i < N; i++) f += pow((double)y[i] - mean, 4) / N;
    ok(fabs(m - mean) < 5 * sqrt(variance / N), "%s: mean %.5f", name, m);
    ok(fabs(v - variance) < 5 * sqrt((fourth - variance * variance) / N), "%s: variance %.5f", name, v);
    ok(fabs(f - fourth) < 0.05 * fourth, "%s: fourth moment %.5f", name, f);
}

/* Neighbours, and the same positions of another draw, do not go together. */
static void apart(const char *name, const float *a, const float *b, int n, double mean, double variance)
{
    double c = 0;
    for (int i = 0; i < n; i++) c += ((double)a[i] - mean) * ((double)b[i] - mean) / n;
    ok(fabs(c) < 5 * variance / sqrt(n), "%s: correlation %.5f", name, c / variance);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int isa = -1; isa <= (int)zt_isa_best(); isa++) {
        zt_engine_opts opts = {.threads = 2, .isa = isa < 0 ? ZT_ISA_SCALAR : (zt_isa)isa};
        zt_engine *engine = zt_engine_open(ctx, isa < 0 ? "ref" : "cpu", &opts);
        const char *name = isa < 0 ? "ref" : zt_isa_name((zt_isa)isa);
        ok(draw(engine, ZT_OP_random_uniform, 0, 1, 3, INT64_C(1) << 40, y) && as_host(ZT_OP_random_uniform),
           "%s: uniform draws are Philox's", name);
        ok(draw(engine, ZT_OP_random_normal, 0, 1, 3, INT64_C(1) << 40, y) && as_host(ZT_OP_random_normal),
           "%s: normal draws are Philox's", name);
        zt_engine_close(engine);
    }
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
    draw(engine, ZT_OP_random_uniform, -1, 3, 1, 0, y);
    moments("uniform from -1 to 3", 1, 16 / 12.0, 256 / 80.0);
    apart("uniform, neighbours", y, y + 1, N - 1, 1, 16 / 12.0);
    draw(engine, ZT_OP_random_uniform, -1, 3, 1, 1, z);
    apart("uniform, the next counter", y, z, N, 1, 16 / 12.0);
    draw(engine, ZT_OP_random_normal, 2, 3, 1, 0, y);
    moments("normal of mean 2, deviation 3", 2, 9, 243);
    apart("normal, neighbours", y, y + 1, N - 1, 2, 9);
    draw(engine, ZT_OP_random_normal, 2, 3, 2, 0, z);
    apart("normal, another seed", y, z, N, 2, 9);
    zt_engine_close(engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
