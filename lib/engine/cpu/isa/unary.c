/* unary.c - kernels of the named functions of one number. */
#include "lib/engine/cpu/isa/elements.h"

#include <math.h>

/* ---- with vectors ---------------------------------------------------------------------------- */

INLINE vf neg(vf x, float p)
{
    (void)p;
    return vf_of_bits(vi_add(vi_of_bits(x), vi_set(INT32_MIN)));
}

INLINE vf absolute(vf x, float p)
{
    (void)p;
    return vf_abs(x);
}

INLINE vf square(vf x, float p)
{
    (void)p;
    return vf_mul(x, x);
}

INLINE vf recip(vf x, float p)
{
    (void)p;
    return vf_div(vf_set(1), x);
}

INLINE vf exponential(vf x, float p)
{
    (void)p;
    return vf_exp(x);
}

INLINE vf tangent(vf x, float p)
{
    (void)p;
    return vf_tanh(x);
}

INLINE vf sigmoid(vf x, float p)
{
    (void)p;
    return vf_sigmoid(x);
}

INLINE vf shifted(vf x, float by) { return vf_add(x, vf_set(by)); }

#define RUN_MAP(NAME, F, P)                                                                        \
    static void NAME##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        const zt_##NAME##_attrs *a = c->attrs;                                                     \
        (void)phase, (void)a;                                                                      \
        run_map(c, begin, end, local, F, (float)(P));                                              \
    }
RUN_MAP(neg, neg, 0)
RUN_MAP(abs, absolute, 0)
RUN_MAP(square, square, 0)
RUN_MAP(recip, recip, 0)
RUN_MAP(exp, exponential, 0)
RUN_MAP(tanh, tangent, 0)
RUN_MAP(sigmoid, sigmoid, 0)
RUN_MAP(add_scalar, shifted, a->by)

/* ---- one after the other --------------------------------------------------------------------- */

/* Through f64, so that a result is rounded once. */
INLINE double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* y of the float x, compiled into a loop of its own. */
#define RUN_EACH(NAME, Y)                                                                          \
    static void NAME##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        const zt_##NAME##_attrs *a = c->attrs;                                                     \
        int64_t count = zt_type_count(&c->out[0].type);                                            \
        float *scratch = local;                                                                    \
        (void)phase, (void)a;                                                                      \
        for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {            \
            int64_t n = count - at < CHUNK ? count - at : CHUNK;                                   \
            const float *in = operand(&c->in[0], at, n, scratch);                                  \
            float *y = result(&c->out[0], at, scratch + CHUNK);                                    \
            for (int64_t i = 0; i < n; i++) {                                                      \
                float x = in[i];                                                                   \
                y[i] = (float)(Y);                                                                 \
            }                                                                                      \
            put(&c->out[0], at, n, y);                                                             \
        }                                                                                          \
    }
RUN_EACH(sign, x != x ? x : (float)((x > 0) - (x < 0)))
RUN_EACH(floor, floorf(x))
RUN_EACH(ceil, ceilf(x))
RUN_EACH(round, rintf(x))
RUN_EACH(sqrt, sqrtf(x))
RUN_EACH(rsqrt, 1 / sqrt((double)x))
RUN_EACH(relu, x < 0 ? 0 : x)
RUN_EACH(expm1, expm1((double)x))
RUN_EACH(ln, log((double)x))
RUN_EACH(log1p, log1p((double)x))
RUN_EACH(sin, sin((double)x))
RUN_EACH(cos, cos((double)x))
RUN_EACH(tan, tan((double)x))
RUN_EACH(erf, erf((double)x))
RUN_EACH(softplus, softplus((double)x))
RUN_EACH(elu, x > 0 ? (double)x : a->alpha * expm1((double)x))
RUN_EACH(leaky_relu, x > 0 ? x : (float)a->alpha * x)
RUN_EACH(clamp, x < (float)a->lo ? (float)a->lo : x > (float)a->hi ? (float)a->hi : x)
RUN_EACH(safe_log, log(softplus((double)x) + a->eps))
RUN_EACH(pow_scalar, pow((double)x, a->exponent))

#define KERNEL(name)                                                                               \
    {.op = ZT_OP_##name, .has = narrow_has, .setup = chunks_setup, .run = name##_run}

const zt_cpu_kernel ZT_SYM(zt_cpu_unary)[] = {
    KERNEL(neg),  KERNEL(abs),   KERNEL(square), KERNEL(recip), KERNEL(exp),        KERNEL(tanh),
    KERNEL(sign), KERNEL(floor), KERNEL(ceil),   KERNEL(round), KERNEL(add_scalar), KERNEL(sqrt),
    KERNEL(sin),  KERNEL(rsqrt), KERNEL(relu),   KERNEL(expm1), KERNEL(leaky_relu), KERNEL(ln),
    KERNEL(cos),  KERNEL(log1p), KERNEL(tan),    KERNEL(erf),   KERNEL(softplus),   KERNEL(elu),
    KERNEL(clamp), KERNEL(sigmoid), KERNEL(safe_log), KERNEL(pow_scalar),
    {0},
};
