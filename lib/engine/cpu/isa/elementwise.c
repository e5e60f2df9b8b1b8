/* elementwise.c - kernels of the ops whose y[i] depends on the inputs' [i] only.
 */
#include "lib/engine/cpu/isa/elements.h"
#include "lib/engine/cpu/isa/activations_f32.h"

/* ---- one gated by another -------------------------------------------------------------------- */

/* Gates are products, rounded after the curve: curves in f32 (1e-7) do, twice as fast as exact ones.
 */
typedef vf gate_curve(vf x);

INLINE vf quick_silu(vf x) { return vf_mul(x, vf_sigmoid(x)); }

/* (1 + tanh u) / 2 is the logistic function of 2 u, which keeps its digits below zero. */
INLINE vf quick_gelu_tanh(vf x)
{
    const float two_root = 1.5957691f; /* 2 sqrt(2 / pi) */
    vf u = vf_fma(vf_mul(x, x), vf_set(0.044715f * two_root), vf_set(two_root));
    return vf_mul(x, vf_sigmoid(vf_mul(x, u)));
}

INLINE vf gelu_erf(vf x) { return single_gelu_erf(x, NULL); }

INLINE vf tanh_slope(vf x)
{
    vf t = vf_tanh(x);
    return vf_sub(vf_set(1), vf_mul(t, t));
}

INLINE void map_gate(const float *x, const float *up, float *y, int64_t n, gate_curve *f, bool past)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (past) {
            fetch_ahead(x + i);
            fetch_ahead(up + i);
        }
        vf_put(y + i, vf_mul(f(vf_load(x + i)), vf_load(up + i)), past);
    }
    int rest = (int)(n - i);
    if (rest)
        vf_store_n(y + i, rest, vf_mul(f(vf_load_n(x + i, rest)), vf_load_n(up + i, rest)));
}

INLINE void run_gate(zt_cpu_call *c, int64_t begin, int64_t end, float *local, gate_curve *f)
{
    int64_t count = zt_type_count(&c->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        const float *x = operand(&c->in[0], at, n, local);
        const float *up = operand(&c->in[1], at, n, local + CHUNK);
        float *y = target(&c->out[0], at, local + 2 * CHUNK);
        map_gate(x, up, y, n, f, streamed(&c->out[0], at));
        put(&c->out[0], at, n, y);
    }
}

static void tanh_prime_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, tanh_slope);
}

static void swiglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(c, begin, end, local, quick_silu);
}

static bool is_erf(const zt_enum_string *form) { return !strcmp(form->s, "erf"); }

static void geglu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_geglu_attrs *a = c->attrs;
    (void)phase;
    if (is_erf(&a->form))
        run_gate(c, begin, end, local, gelu_erf);
    else
        run_gate(c, begin, end, local, quick_gelu_tanh);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise)[] = {
    {.op = ZT_OP_swiglu, .has = narrow_has, .setup = chunks_setup, .run = swiglu_run},
    {.op = ZT_OP_geglu, .has = narrow_has, .setup = chunks_setup, .run = geglu_run},
    {.op = ZT_OP_tanh_prime, .has = narrow_has, .setup = chunks_setup, .run = tanh_prime_run},
    {0},
};
