/* random.c - kernels of random numbers, element i from word i % 4 of Philox(seed, counter, i / 4).
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

enum { PIECE = 1024 };

static bool random_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static void random_setup(zt_cpu_call *c)
{
    c->items[0] = (zt_type_count(&c->out[0].type) + PIECE - 1) / PIECE;
}

static void uniform_four(const uint32_t r[4], double a, double b, float y[4])
{
    for (int k = 0; k < 4; k++) y[k] = (float)(a + (b - a) * ((double)(r[k] >> 8) * 0x1p-24));
}

static void normal_four(const uint32_t r[4], double mean, double std, float y[4])
{
    for (int k = 0; k < 4; k += 2) {
        double u = ((double)(r[k] >> 8) + 1) * 0x1p-24, angle = 2 * M_PI * r[k + 1] * 0x1p-32;
        double size = sqrt(-2 * log(u));
        y[k] = (float)(mean + std * size * cos(angle));
        y[k + 1] = (float)(mean + std * size * sin(angle));
    }
}

static void random_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_random_uniform_attrs *u = c->attrs;
    const zt_random_normal_attrs *a = c->attrs;
    bool uniform = c->kernel->op == ZT_OP_random_uniform;
    uint64_t counter, seed = (uint64_t)(uniform ? u->seed : a->seed);
    int64_t n = zt_type_count(&c->out[0].type), last = end * PIECE < n ? end * PIECE : n;
    float *y = c->out[0].data, four[4];
    uint32_t r[4];
    (void)phase, (void)local;
    memcpy(&counter, c->in[0].data, sizeof counter);
    for (int64_t i = begin * PIECE; i < last; i += 4) {
        zt_philox(seed, counter, (uint64_t)(i / 4), r);
        if (uniform)
            uniform_four(r, u->low, u->high, four);
        else
            normal_four(r, a->mean, a->std, four);
        memcpy(y + i, four, (size_t)(last - i < 4 ? last - i : 4) * sizeof *y);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_random)[] = {
    {.op = ZT_OP_random_uniform, .has = random_has, .setup = random_setup, .run = random_run},
    {.op = ZT_OP_random_normal, .has = random_has, .setup = random_setup, .run = random_run},
    {0},
};
