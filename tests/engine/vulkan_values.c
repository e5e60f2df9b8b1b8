/* vulkan_values.c - elements on the engine on Vulkan beyond their cases (conformance.c): functions over the whole range of
 * their arguments, in units in the last place; random draws, which have the bits of the reference engine's; what is wrong with
 * integers, in its words. Skipped, aloud, where there is no adapter. */
#include "tests/common/one_op.h"
#include "tests/engine/device.h"

#include <math.h>

enum { VALUES = 4096, DRAWS = 100000, ULPS = 8 };

static zt_ctx *ctx;
static zt_engine *device, *ref;

/* ---- functions ------------------------------------------------------------------------------- */

/* Arguments from 2^low to 2^high, with both signs where they have two. */
static const struct {
    zt_op op;
    double low, high;
    bool both;
} ranges[] = {
    {ZT_OP_exp, -20, 6.4, true},     {ZT_OP_expm1, -30, 6.4, true},  {ZT_OP_log, -126, 127.9, false},
    {ZT_OP_log, -0.01, 0.01, false}, {ZT_OP_log1p, -30, 127, false}, {ZT_OP_sin, -20, 12, true},
    {ZT_OP_sin, 12, 127, true},      {ZT_OP_cos, -20, 12, true},     {ZT_OP_cos, 12, 127, true},
    {ZT_OP_tan, -20, 12, true},      {ZT_OP_atan, -30, 60, true},    {ZT_OP_asin, -20, 0, true},
    {ZT_OP_acos, -20, -0.01, true},  {ZT_OP_sinh, -20, 6.4, true},   {ZT_OP_cosh, -20, 6.4, true},
    {ZT_OP_asinh, -20, 120, true},   {ZT_OP_acosh, 0.1, 120, false}, {ZT_OP_atanh, -20, -0.01, true},
    {ZT_OP_rsqrt, -120, 120, false}, {ZT_OP_softplus, -20, 6, true}, {ZT_OP_tanh, -20, 5, true},
    {ZT_OP_sigmoid, -20, 5, true},   {ZT_OP_floor, -20, 30, true},   {ZT_OP_round, -20, 30, true},
};

/* How far apart, in units in the last place of `want`. */
static double ulps_of(float got, float want)
{
    if (isnan(want) || isinf(want) || want == 0) return got == want || (isnan(got) && isnan(want)) ? 0 : INFINITY;
    int exponent = ilogbf(want);
    return fabs((double)got - (double)want) / ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
}

static bool run_one(zt_engine *engine, const oneop *call, void *result)
{
    oneop one = *call;
    one.result[0] = result;
    return oneop_has(engine, &one) && oneop_run(engine, &one) == ZT_OK;
}

static void test_function(int row)
{
    static float x[VALUES], got[VALUES], want[VALUES];
    const zt_type type = zt_type_make(ZT_F32, 1, (int64_t[]){VALUES});
    const oneop call = {.op = ranges[row].op, .in = {&type}, .data = {x}, .out = {type}};
    double worst = 0, at = 0;
    for (int i = 0; i < VALUES; i++) {
        double exponent = ranges[row].low + (ranges[row].high - ranges[row].low) * i / (VALUES - 1);
        x[i] = (float)(ranges[row].both && i % 2 ? -exp2(exponent) : exp2(exponent));
    }
    bool good = run_one(device, &call, got) && run_one(ref, &call, want);
    for (int i = 0; i < VALUES && good; i++) {
        if (ulps_of(got[i], want[i]) <= worst) continue;
        worst = ulps_of(got[i], want[i]);
        at = (double)x[i];
    }
    ok(good && worst <= ULPS, "%s from 2^%g to 2^%g within %d units in the last place: %.3g at %.9g",
       zt_op_info(ranges[row].op)->name, ranges[row].low, ranges[row].high, ULPS, worst, at);
}

/* ---- random draws ---------------------------------------------------------------------------- */

static void test_random(zt_op op, const void *attrs)
{
    static float got[DRAWS], want[DRAWS];
    static const int64_t counter = 12345678901;
    const zt_type scalar = zt_type_make(ZT_I64, 0, NULL), type = zt_type_make(ZT_F32, 1, (int64_t[]){DRAWS});
    const oneop call = {.op = op, .attrs = attrs, .in = {&scalar}, .data = {&counter}, .out = {type}};
    int differ = 0;
    bool good = run_one(device, &call, got) && run_one(ref, &call, want);
    for (int i = 0; i < DRAWS && good; i++) differ += memcmp(&got[i], &want[i], sizeof got[i]) != 0;
    ok(good && differ == 0, "%s: %d of %d draws have other bits than on ref", zt_op_info(op)->name, differ, DRAWS);
}

/* ---- integers -------------------------------------------------------------------------------- */

/* What an engine says of a op b. */
static void run_message(zt_engine *engine, zt_op op, const int64_t *b, char text[400])
{
    static const int64_t a[3] = {7, -9, 11};
    int64_t y[3];
    const zt_type type = zt_type_make(ZT_I64, 1, (int64_t[]){3});
    const oneop call = {.op = op, .in = {&type, &type}, .data = {a, b}, .out = {type}};
    run_one(engine, &call, y);
    snprintf(text, 400, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void test_message(zt_op op, int64_t bad)
{
    const int64_t b[3] = {2, bad, bad};
    char got[400], want[400];
    run_message(device, op, b, got);
    run_message(ref, op, b, want);
    ok(*want && !strcmp(got, want), "%s by %lld: %s", zt_op_info(op)->name, (long long)bad, got);
}

int main(void)
{
    ctx = zt_ctx_new();
    device = device_open(ctx, "vulkan");
    if (!device) return device_done(ctx, NULL);
    ref = zt_engine_open(ctx, "ref", NULL);
    const zt_dims shape = {1, {DRAWS}};
    for (int row = 0; row < (int)(sizeof ranges / sizeof ranges[0]); row++) test_function(row);
    test_random(ZT_OP_random_uniform, &(zt_random_uniform_attrs){shape, 99, -0.1, 2.7});
    test_random(ZT_OP_random_normal, &(zt_random_normal_attrs){shape, -1234567890123, 0.3, 1.7});
    test_message(ZT_OP_div, 0);
    test_message(ZT_OP_mod, 0);
    test_message(ZT_OP_fmod, 0);
    test_message(ZT_OP_pow, -2);
    zt_engine_close(ref);
    return device_done(ctx, device);
}
