/* elementwise_binary.c - kernels of arithmetic on two values whose shapes broadcast, and of gated units. */
#include "lib/engine/cpu/isa/activations_f32.h"
#include "lib/engine/cpu/isa/integers.h"
#include "lib/engine/cpu/isa/math.h"

#include <math.h>

/* ---- floats ---------------------------------------------------------------------------------- */

typedef vf pairwise(vf a, vf b);

INLINE void zip(const float *a, const float *b, float *y, int64_t n, pairwise *f, bool past)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (past) {
            fetch_ahead(a + i);
            fetch_ahead(b + i);
        }
        vf_put(y + i, f(vf_load(a + i), vf_load(b + i)), past);
    }
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, f(vf_load_n(a + i, rest), vf_load_n(b + i, rest)));
}

INLINE void run_pairs(zt_cpu_call *call, int64_t begin, int64_t end, float *local, pairwise *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        const float *a = spread(call, &part, 0, local), *b = spread(call, &part, 1, local + CHUNK);
        float *r = target(&call->out[0], part.at, local + 2 * CHUNK);
        zip(a, b, r, part.n, f, streamed(&call->out[0], part.at));
        put(&call->out[0], part.at, part.n, r);
    }
}

/* Where no vector function is there. f is known when compiling. */
INLINE void run_each(zt_cpu_call *call, int64_t begin, int64_t end, float *local, float (*f)(float, float))
{
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        const float *a = spread(call, &part, 0, local), *b = spread(call, &part, 1, local + CHUNK);
        float *r = result(&call->out[0], part.at, local + 2 * CHUNK);
        for (int64_t i = 0; i < part.n; i++) r[i] = f(a[i], b[i]);
        put(&call->out[0], part.at, part.n, r);
    }
}

/* NaN wins. */
INLINE vf larger(vf a, vf b) { return vf_select(vf_lt(b, a), a, vf_select(vf_eq(a, a), b, a)); }

INLINE vf smaller(vf a, vf b) { return vf_select(vf_lt(a, b), a, vf_select(vf_eq(a, a), b, a)); }

INLINE vf bent(vf x, vf slope) { return vf_select(vf_lt(vf_set(0), x), x, vf_mul(slope, x)); }

/* Remainders are exact in f64, and what fmod leaves of two floats is one. */
INLINE float remainder_of(float a, float b) { return (float)fmod((double)a, (double)b); }

INLINE double wide_modulus(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

INLINE float modulus(float a, float b) { return (float)wide_modulus((double)a, (double)b); }

/* ---- integers -------------------------------------------------------------------------------- */

// clang-format off
#define LOOPS(NAME, T)                                                                             \
    PAIR_LOOP(add, NAME, T, (uint64_t)u + (uint64_t)w)                                             \
    PAIR_LOOP(sub, NAME, T, (uint64_t)u - (uint64_t)w)                                             \
    PAIR_LOOP(mul, NAME, T, (uint64_t)u *(uint64_t)w)                                              \
    PAIR_LOOP(div, NAME, T,                                                                        \
         w == 0                       ? (good = false, 0)                                          \
         : w == (T)-1 && (T)-1 < (T)1 ? (T)(0 - (uint64_t)u)                                       \
                                      : u / w)                                                     \
    PAIR_LOOP(fmod, NAME, T, w == 0 ? (good = false, 0) : w == (T)-1 && (T)-1 < (T)1 ? 0 : u % w)  \
    PAIR_LOOP(mod, NAME, T,                                                                        \
         w == 0                              ? (good = false, 0)                                   \
         : w == (T)-1 && (T)-1 < (T)1        ? 0                                                   \
         : u % w && (u < (T)1) != (w < (T)1) ? u % w + w                                           \
                                             : u % w)                                              \
    PAIR_LOOP(max, NAME, T, u > w ? u : w)                                                         \
    PAIR_LOOP(min, NAME, T, u < w ? u : w)
// clang-format on
ALL_INTEGERS(LOOPS)

/* f64 as it comes. */
PAIR_LOOP(add, F64, double, u + w)
PAIR_LOOP(sub, F64, double, u - w)
PAIR_LOOP(mul, F64, double, u *w)
PAIR_LOOP(div, F64, double, u / w)
PAIR_LOOP(fmod, F64, double, fmod(u, w))
PAIR_LOOP(mod, F64, double, wide_modulus(u, w))
PAIR_LOOP(max, F64, double, u > w || u != u ? u : w)
PAIR_LOOP(min, F64, double, u < w || u != u ? u : w)

/* RUN(op, what runs its floats, entries of the loops besides integers') */
// clang-format off
#define RUN(OP, FLOATS, ...)                                                                       \
    static void OP##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static int_loop *const loops[ZT_DTYPE_COUNT] = {                                           \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16,                         \
            [ZT_I8] = OP##_I8,   [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32,                         \
            [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,   __VA_ARGS__};                                \
        (void)phase;                                                                               \
        if (loops[call->out[0].type.dtype])                                                           \
            run_int(call, begin, end, loops[call->out[0].type.dtype]);                                   \
        else                                                                                       \
            FLOATS(call, begin, end, local);                                                          \
    }
// clang-format on
#define FLOATS(OP, HOW, F)                                                                                                       \
    static void OP##_floats(zt_cpu_call *call, int64_t begin, int64_t end, float *local) { HOW(call, begin, end, local, F); }
FLOATS(add, run_pairs, vf_add)
FLOATS(sub, run_pairs, vf_sub)
FLOATS(mul, run_pairs, vf_mul)
FLOATS(div, run_pairs, vf_div)
FLOATS(max, run_pairs, larger)
FLOATS(min, run_pairs, smaller)
FLOATS(mod, run_each, modulus)
FLOATS(fmod, run_each, remainder_of)
RUN_PAIRS(add, add_floats, [ZT_F64] = add_F64)
RUN_PAIRS(sub, sub_floats, [ZT_F64] = sub_F64)
RUN_PAIRS(mul, mul_floats, [ZT_F64] = mul_F64)
RUN_PAIRS(div, div_floats, [ZT_F64] = div_F64)
RUN_PAIRS(max, max_floats, [ZT_F64] = max_F64)
RUN_PAIRS(min, min_floats, [ZT_F64] = min_F64)
RUN_PAIRS(mod, mod_floats, [ZT_F64] = mod_F64)
RUN_PAIRS(fmod, fmod_floats, [ZT_F64] = fmod_F64)

static void pow_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(call, begin, end, local, exact_pow);
}

static bool number_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    char kind = zt_dtype_get(out[0].dtype)->kind;
    (void)attrs, (void)in;
    return narrow(out[0].dtype) || out[0].dtype == ZT_F64 || kind == 'I' || kind == 'U';
}

static void prelu_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(call, begin, end, local, bent);
}

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
    if (rest) vf_store_n(y + i, rest, vf_mul(f(vf_load_n(x + i, rest)), vf_load_n(up + i, rest)));
}

INLINE void run_gate(zt_cpu_call *call, int64_t begin, int64_t end, float *local, gate_curve *f)
{
    int64_t count = zt_type_count(&call->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        const float *x = operand(&call->in[0], at, n, local);
        const float *up = operand(&call->in[1], at, n, local + CHUNK);
        float *y = target(&call->out[0], at, local + 2 * CHUNK);
        map_gate(x, up, y, n, f, streamed(&call->out[0], at));
        put(&call->out[0], at, n, y);
    }
}

static void tanh_prime_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(call, begin, end, local, tanh_slope);
}

static void swiglu_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_gate(call, begin, end, local, quick_silu);
}

static bool is_erf(const zt_enum_string *form) { return !strcmp(form->s, "erf"); }

static void geglu_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_geglu_attrs *geglu = call->attrs;
    (void)phase;
    if (is_erf(&geglu->form))
        run_gate(call, begin, end, local, gelu_erf);
    else
        run_gate(call, begin, end, local, quick_gelu_tanh);
}

/* ---- the list -------------------------------------------------------------------------------- */

#define NUMBER(name)                                                                                                             \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = number_has, .setup = broadcast_setup, .run = name##_run                                       \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_binary)[] = {
    NUMBER(add),
    NUMBER(sub),
    NUMBER(mul),
    NUMBER(div),
    NUMBER(max),
    NUMBER(min),
    NUMBER(mod),
    NUMBER(fmod),
    {.op = ZT_OP_pow, .has = narrow_has, .setup = broadcast_setup, .run = pow_run},
    {.op = ZT_OP_prelu, .has = narrow_has, .setup = broadcast_setup, .run = prelu_run},
    {.op = ZT_OP_swiglu, .has = narrow_has, .setup = chunks_setup, .run = swiglu_run},
    {.op = ZT_OP_geglu, .has = narrow_has, .setup = chunks_setup, .run = geglu_run},
    {.op = ZT_OP_tanh_prime, .has = narrow_has, .setup = chunks_setup, .run = tanh_prime_run},
    {0},
};
