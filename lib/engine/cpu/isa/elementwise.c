/* elementwise.c - kernels of the ops whose y[i] depends on the inputs' [i] only.
 */
#include "lib/engine/cpu/isa/elements.h"

/* ---- one input, and one gated by another ----------------------------------------------------- */

INLINE vf times(vf x, float by) { return vf_mul(x, vf_set(by)); }

INLINE vf softcap(vf x, float cap) { return vf_mul(vf_set(cap), vf_tanh(vf_div(x, vf_set(cap)))); }

INLINE vf silu(vf x, float unused)
{
    (void)unused;
    return vf_mul(x, vf_sigmoid(x));
}

/* (1 + tanh u) / 2 is the logistic function of 2 u, which keeps its digits below zero. */
INLINE vf gelu_tanh(vf x, float unused)
{
    (void)unused;
    const float two_root = 1.5957691f; /* 2 sqrt(2 / pi) */
    vf u = vf_fma(vf_mul(x, x), vf_set(0.044715f * two_root), vf_set(two_root));
    return vf_mul(x, vf_sigmoid(vf_mul(x, u)));
}

/* x P(X < x) for a normal X. The tail P(X > |x|) is exp(-x^2/2) R(t), t = 1 / (1 + 0.35 |x|), with
 * R fitted (least squares, weights raised where errors were largest) to 3e-8 relative, |x| < 14. */
INLINE vf gelu_erf(vf x, float unused)
{
    (void)unused;
    static const float r[] = {-0.029145966f, 0.14397186f, -0.25571460f, 0.15917455f, -0.023110094f,
                              0.10550811f,   0.11983284f, 0.13986187f,  0.13962141f};
    const vf one = vf_set(1);
    vf a = vf_abs(x), t = vf_div(one, vf_fma(a, vf_set(0.35f), one)), sum = vf_set(r[0]);
    UNROLL for (int i = 1; i < 9; i++) sum = vf_fma(sum, t, vf_set(r[i]));
    vf tail = vf_mul(vf_mul(sum, t), vf_exp(vf_mul(vf_mul(a, a), vf_set(-0.5f))));
    return vf_mul(x, vf_choose(x, tail, vf_sub(one, tail)));
}

INLINE void map_gate(const float *x, const float *up, float *y, int64_t n, curve *f)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(y + i, vf_mul(f(vf_load(x + i), 0), vf_load(up + i)));
    int rest = (int)(n - i);
    if (rest)
        vf_store_n(y + i, rest, vf_mul(f(vf_load_n(x + i, rest), 0), vf_load_n(up + i, rest)));
}

INLINE void run_gate(zt_cpu_call *c, int64_t begin, int64_t end, float *local, curve *f)
{
    int64_t count = zt_type_count(&c->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        const float *x = operand(&c->in[0], at, n, local);
        const float *up = operand(&c->in[1], at, n, local + CHUNK);
        float *y = result(&c->out[0], at, local + 2 * CHUNK);
        map_gate(x, up, y, n, f);
        put(&c->out[0], at, n, y);
    }
}

static void scale_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scale_attrs *a = c->attrs;
    (void)phase;
    run_map(c, begin, end, local, times, (float)a->by);
}

static void softcap_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_softcap_attrs *a = c->attrs;
    (void)phase;
    run_map(c, begin, end, local, softcap, (float)a->cap);
}

static void silu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_map(c, begin, end, local, silu, 0);
}

INLINE vf tanh_slope(vf x, float unused)
{
    (void)unused;
    vf t = vf_tanh(x);
    return vf_sub(vf_set(1), vf_mul(t, t));
}

static void tanh_prime_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, tanh_slope);
}

static void swiglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, silu);
}

static bool is_erf(const zt_word *form) { return !strcmp(form->s, "erf"); }

static void gelu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_gelu_attrs *a = c->attrs;
    (void)phase;
    if (is_erf(&a->form))
        run_map(c, begin, end, local, gelu_erf, 0);
    else
        run_map(c, begin, end, local, gelu_tanh, 0);
}

static void geglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_geglu_attrs *a = c->attrs;
    (void)phase;
    if (is_erf(&a->form))
        run_gate(c, begin, end, local, gelu_erf);
    else
        run_gate(c, begin, end, local, gelu_tanh);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise)[] = {
    {.op = ZT_OP_scale, .has = narrow_has, .setup = chunks_setup, .run = scale_run},
    {.op = ZT_OP_softcap, .has = narrow_has, .setup = chunks_setup, .run = softcap_run},
    {.op = ZT_OP_silu, .has = narrow_has, .setup = chunks_setup, .run = silu_run},
    {.op = ZT_OP_gelu, .has = narrow_has, .setup = chunks_setup, .run = gelu_run},
    {.op = ZT_OP_swiglu, .has = narrow_has, .setup = chunks_setup, .run = swiglu_run},
    {.op = ZT_OP_geglu, .has = narrow_has, .setup = chunks_setup, .run = geglu_run},
    {.op = ZT_OP_tanh_prime, .has = narrow_has, .setup = chunks_setup, .run = tanh_prime_run},
    {0},
};
