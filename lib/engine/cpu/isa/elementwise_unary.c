/* elementwise_unary.c - kernels of the named functions of one number: a line each. */
#include "lib/engine/cpu/isa/integers.h"
#include "lib/engine/cpu/isa/activations_f32.h"

/* ---- in f32, where that is exact ------------------------------------------------------------- */

// clang-format off
#define IN_F32(NAME, Y)                                                                            \
    INLINE vf NAME##_curve(vf x, const double *p)                                                  \
    {                                                                                              \
        (void)p;                                                                                   \
        return Y;                                                                                  \
    }
// clang-format on
#define ZERO vf_set(0)
IN_F32(neg, vf_of_bits(vi_add(vi_of_bits(x), vi_set(INT32_MIN))))
IN_F32(abs, vf_abs(x))
IN_F32(sign, vf_select(vf_lt(ZERO, x), vf_set(1), vf_select(vf_lt(x, ZERO), vf_set(-1), vf_add(x, ZERO)))) /* 0 or NaN */
IN_F32(floor, vf_floor(x))
IN_F32(ceil, vf_ceil(x))
IN_F32(round, vf_rint(x))
IN_F32(square, vf_mul(x, x))
IN_F32(sqrt, vf_sqrt(x))
IN_F32(recip, vf_div(vf_set(1), x))
IN_F32(relu, vf_select(vf_lt(x, ZERO), ZERO, x))
IN_F32(times, vf_mul(x, vf_set((float)p[0])))
IN_F32(plus, vf_add(x, vf_set((float)p[0])))
/* Rounding is monotone: the ends may be rounded first. */
IN_F32(clamp, vf_select(vf_lt(x, vf_set((float)p[0])), vf_set((float)p[0]),
                        vf_select(vf_lt(vf_set((float)p[1]), x), vf_set((float)p[1]), x)))

/* ---- what runs them -------------------------------------------------------------------------- */

/* MAP(op, curve, what of the attributes the curve reads...) */
// clang-format off
#define MAP(NAME, F, ...)                                                                          \
    static void NAME##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        const zt_##NAME##_attrs *a = call->attrs;                                                     \
        const double p[] = {__VA_ARGS__};                                                          \
        (void)phase, (void)a;                                                                      \
        run_map(call, begin, end, local, F, p);                                                       \
    }
// clang-format on
MAP(neg, neg_curve, 0)
MAP(abs, abs_curve, 0)
MAP(sign, sign_curve, 0)
MAP(floor, floor_curve, 0)
MAP(ceil, ceil_curve, 0)
MAP(round, round_curve, 0)
MAP(square, square_curve, 0)
MAP(sqrt, sqrt_curve, 0)
MAP(recip, recip_curve, 0)
MAP(relu, relu_curve, 0)
MAP(clamp, clamp_curve, a->lo, a->hi)
MAP(rsqrt, exact_rsqrt, 0)
MAP(exp, exact_exp, 0)
MAP(expm1, exact_expm1, 0)
MAP(log, exact_ln, 0)
MAP(log1p, exact_log1p, 0)
MAP(sin, exact_sin, 0)
MAP(cos, exact_cos, 0)
MAP(tan, exact_tan, 0)
MAP(tanh, exact_tanh, 0)
MAP(sigmoid, exact_sigmoid, 0)
MAP(softplus, exact_softplus, 0)
MAP(erf, exact_erf, 0)
MAP(silu, single_silu, 0)
MAP(elu, exact_elu, a->alpha)
MAP(leaky_relu, exact_leaky_relu, a->alpha)
MAP(softcap, exact_softcap, a->cap, 1 / a->cap)
MAP(safe_log, exact_safe_log, a->eps, a->eps > 1e-140 ? -INFINITY : SOFTPLUS_LEAST)

MAP(asin, exact_asin, 0)
MAP(acos, exact_acos, 0)
MAP(atan, exact_atan, 0)
MAP(sinh, exact_sinh, 0)
MAP(cosh, exact_cosh, 0)
MAP(asinh, exact_asinh, 0)
MAP(acosh, exact_acosh, 0)
MAP(atanh, exact_atanh, 0)
MAP(celu, exact_celu, a->alpha, 1 / a->alpha)
MAP(selu, exact_selu, a->gamma, a->gamma * a->alpha)
MAP(hard_sigmoid, exact_hard_sigmoid, a->alpha, a->beta)
MAP(hard_swish, exact_hard_swish, 0)
MAP(mish, exact_mish, 0)
MAP(softsign, exact_softsign, 0)
MAP(shrink, exact_shrink, a->lambd, a->bias)
MAP(thresholded_relu, exact_thresholded_relu, nextafter(a->alpha, INFINITY))

/* A constant that is a float needs no f64: the result is rounded once all the same. */
static void scale_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const double by = ((const zt_scale_attrs *)call->attrs)->by;
    (void)phase;
    if ((double)(float)by == by)
        run_map(call, begin, end, local, times_curve, &by);
    else
        run_map(call, begin, end, local, exact_times, &by);
}

static void add_scalar_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const double by = ((const zt_add_scalar_attrs *)call->attrs)->by;
    (void)phase;
    if ((double)(float)by == by)
        run_map(call, begin, end, local, plus_curve, &by);
    else
        run_map(call, begin, end, local, exact_plus, &by);
}

static void pow_scalar_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const double by = ((const zt_pow_scalar_attrs *)call->attrs)->exponent;
    const double p[] = {by, rint(by) != by ? 2 : rint(by / 2) != by / 2, pow(0, by)};
    (void)phase;
    if (by == 2)
        run_map(call, begin, end, local, square_curve, p);
    else
        run_map(call, begin, end, local, exact_pow_scalar, p);
}

static void gelu_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gelu_attrs *gelu = call->attrs;
    (void)phase;
    if (!strcmp(gelu->form.s, "erf"))
        run_map(call, begin, end, local, single_gelu_erf, NULL);
    else
        run_map(call, begin, end, local, single_gelu_tanh, NULL);
}

/* ---- integers -------------------------------------------------------------------------------- */

// clang-format off
#define LOOPS(NAME, T)                                                                             \
    EACH_LOOP(neg, NAME, T, -(uint64_t)x)                                                          \
    EACH_LOOP(abs, NAME, T, x < none ? -(uint64_t)x : (uint64_t)x)                                 \
    EACH_LOOP(sign, NAME, T, (x > none) - (x < none))                                              \
    EACH_LOOP(square, NAME, T, (uint64_t)x *(uint64_t)x)                                           \
    EACH_LOOP(relu, NAME, T, x < none ? none : x)
// clang-format on
ALL_INTEGERS(LOOPS)

RUN_EACH_INT(neg)
RUN_EACH_INT(abs)
RUN_EACH_INT(sign)
RUN_EACH_INT(square)
RUN_EACH_INT(relu)

/* ---- the list -------------------------------------------------------------------------------- */

#define KERNEL(name)                                                                                                             \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = narrow_has, .setup = chunks_setup, .run = name##_run                                          \
    }
#define INTEGER(name)                                                                                                            \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = int_has, .setup = chunks_setup, .run = name##_int_run                                         \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_unary)[] = {
    KERNEL(neg),          KERNEL(abs),        KERNEL(square), KERNEL(recip),      KERNEL(exp),    KERNEL(tanh),
    KERNEL(sign),         KERNEL(floor),      KERNEL(ceil),   KERNEL(round),      KERNEL(sqrt),   KERNEL(sin),
    KERNEL(rsqrt),        KERNEL(relu),       KERNEL(expm1),  KERNEL(cos),        KERNEL(log),    KERNEL(log1p),
    KERNEL(tan),          KERNEL(erf),        KERNEL(clamp),  KERNEL(softplus),   KERNEL(elu),    KERNEL(leaky_relu),
    KERNEL(sigmoid),      KERNEL(silu),       KERNEL(gelu),   KERNEL(scale),      KERNEL(asin),   KERNEL(add_scalar),
    KERNEL(softcap),      KERNEL(safe_log),   KERNEL(acos),   KERNEL(pow_scalar), KERNEL(atan),   KERNEL(sinh),
    KERNEL(cosh),         KERNEL(asinh),      KERNEL(acosh),  KERNEL(atanh),      KERNEL(celu),   KERNEL(selu),
    KERNEL(hard_sigmoid), KERNEL(hard_swish), KERNEL(mish),   KERNEL(softsign),   KERNEL(shrink), KERNEL(thresholded_relu),
    INTEGER(neg),         INTEGER(abs),       INTEGER(sign),  INTEGER(square),    INTEGER(relu),  {0},
};
