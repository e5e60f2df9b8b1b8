/* random.c - rows of random numbers: uniform and normal. A draw hangs on the seed, the counter and
 * its place alone: element i takes word i % 4 of Philox(seed, counter, i / 4).
 */
#include "lib/ops/row.h"

#include <math.h>

static zt_status draws_infer(zt_ctx *ctx, const zt_dims *shape, double a, double b, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want(ctx, "counter", in[0], ZT_I64, 0);
    if (status) return status;
    if (!isfinite(a) || !isfinite(b)) return zt_row_fail(ctx, ZT_EUSAGE, "parameters %g and %g must be finite", a, b);
    if (in[1] && shape->n) return zt_row_fail(ctx, ZT_EUSAGE, "like and shape exclude each other");
    if (!in[1] && (shape->n < 0 || shape->n > ZT_MAX_RANK))
        return zt_row_fail(ctx, ZT_EUSAGE, "shape has %lld dimensions: at most %d", (long long)shape->n, ZT_MAX_RANK);
    out[0] = in[1] ? zt_type_make(ZT_F32, in[1]->rank, in[1]->dim) : zt_type_make(ZT_F32, (int)shape->n, shape->dim);
    return ZT_OK;
}

static bool draws_case(int i, zt_case *test_case, zt_dims *shape, int64_t *seed)
{
    static const zt_dims shapes[] = {{1, {7}}, {2, {3, 33}}, {0, {0}}, {2, {0, 5}}, {1, {5000}}};
    static const int64_t seeds[] = {0, 1234567890123, -1};
    if (i > ZT_LEN(shapes)) return false;
    *shape = i < ZT_LEN(shapes) ? shapes[i] : (zt_dims){0, {0}};
    *seed = seeds[i % 3];
    zt_case_in(test_case, 0, ZT_FILL_IDS, 1000, ZT_I64, 0, NULL);
    if (i == ZT_LEN(shapes)) zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, ZT_F16, 2, (int64_t[]){5, 9});
    return true;
}

static double draws_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 20 * (double)zt_type_count(out);
}

#define DRAWS                                                                                                                    \
    "; deterministic in seed, counter (an i64 scalar) and element index, on any engine; y f32 of "                               \
    "the shape of like, else of `shape`"

/* ---- random_uniform -------------------------------------------------------------------------- */

static zt_status random_uniform_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_random_uniform_attrs *random = attrs;
    return draws_infer(ctx, &random->shape, random->low, random->high, in, out);
}

static void random_uniform_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_random_uniform_attrs *random = attrs;
    int64_t count = zt_type_count(out[0].type);
    uint32_t r[4] = {0};
    (void)error;
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) zt_philox((uint64_t)random->seed, (uint64_t)in[0].i[0], (uint64_t)(i / 4), r);
        out[0].f[i] = random->low + (random->high - random->low) * ((double)(r[i % 4] >> 8) * 0x1p-24);
    }
}

static bool random_uniform_cases(int i, zt_case *test_case)
{
    zt_random_uniform_attrs a = {.low = i % 2 ? -3 : 0, .high = i % 2 ? 0.5 : 1};
    if (!draws_case(i, test_case, &a.shape, &a.seed)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

const zt_opdef zt_op_random_uniform = {
    .synopsis = "y[i] = low + (high - low) u, u uniform in [0, 1) with 24 bits" DRAWS,
    .n_required = 1,
    .flags = ZT_OPF_RANDOM,
    .infer = random_uniform_infer,
    .ref = random_uniform_ref,
    .flops = draws_flops,
    .cases = random_uniform_cases,
    .constant = 2,
};

/* ---- random_normal --------------------------------------------------------------------------- */

static zt_status random_normal_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_random_normal_attrs *random = attrs;
    return draws_infer(ctx, &random->shape, random->mean, random->std, in, out);
}

/* Box and Muller: words 0 and 1 make the first two, 2 and 3 the others, by cosine and sine. */
static void random_normal_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_random_normal_attrs *random = attrs;
    int64_t count = zt_type_count(out[0].type);
    uint32_t r[4] = {0};
    (void)error;
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) zt_philox((uint64_t)random->seed, (uint64_t)in[0].i[0], (uint64_t)(i / 4), r);
        const uint32_t *pair = r + i % 4 / 2 * 2;
        double u = ((double)(pair[0] >> 8) + 1) * 0x1p-24, angle = 2 * M_PI * pair[1] * 0x1p-32;
        double size = sqrt(-2 * log(u));
        out[0].f[i] = random->mean + random->std * size * (i % 2 ? sin(angle) : cos(angle));
    }
}

static bool random_normal_cases(int i, zt_case *test_case)
{
    zt_random_normal_attrs a = {.mean = i % 2 ? -3 : 0, .std = i % 2 ? 0.5 : 1};
    if (!draws_case(i, test_case, &a.shape, &a.seed)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

const zt_opdef zt_op_random_normal = {
    .synopsis = "y[i] = mean + std z, z from the standard normal distribution" DRAWS,
    .n_required = 1,
    .flags = ZT_OPF_RANDOM,
    .infer = random_normal_infer,
    .ref = random_normal_ref,
    .flops = draws_flops,
    .cases = random_normal_cases,
    .constant = 2,
};
