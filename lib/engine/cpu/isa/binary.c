/* binary.c - kernels of arithmetic on two values whose shapes broadcast. */
#include "lib/engine/cpu/isa/broadcast.h"
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

INLINE void run_pairs(zt_cpu_call *c, int64_t begin, int64_t end, float *local, pairwise *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        const float *a = spread(c, &p, 0, local), *b = spread(c, &p, 1, local + CHUNK);
        float *r = target(&c->out[0], p.at, local + 2 * CHUNK);
        zip(a, b, r, p.n, f, streamed(&c->out[0], p.at));
        put(&c->out[0], p.at, p.n, r);
    }
}

/* Where no vector function is there. f is known when compiling. */
INLINE void run_each(zt_cpu_call *c, int64_t begin, int64_t end, float *local,
                     float (*f)(float, float))
{
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        const float *a = spread(c, &p, 0, local), *b = spread(c, &p, 1, local + CHUNK);
        float *r = result(&c->out[0], p.at, local + 2 * CHUNK);
        for (int64_t i = 0; i < p.n; i++) r[i] = f(a[i], b[i]);
        put(&c->out[0], p.at, p.n, r);
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

/* n elements, each operand with its step; false when one is divided by zero. */
typedef bool int_loop(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n);

/* Sums and products as unsigned, where they wrap; y keeps the low bits. */
#define LOOP(OP, NAME, T, EXPR)                                                                    \
    static bool OP##_##NAME(const void *a, int64_t sa, const void *b, int64_t sb, void *y,         \
                            int64_t n)                                                             \
    {                                                                                              \
        const T *p = a, *q = b;                                                                    \
        T *r = y;                                                                                  \
        bool good = true;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T u = p[i * sa], w = q[i * sb];                                                        \
            r[i] = (T)(EXPR);                                                                      \
        }                                                                                          \
        return good;                                                                               \
    }
#define LOOPS(NAME, T)                                                                             \
    LOOP(add, NAME, T, (uint64_t)u + (uint64_t)w)                                                  \
    LOOP(sub, NAME, T, (uint64_t)u - (uint64_t)w)                                                  \
    LOOP(mul, NAME, T, (uint64_t)u *(uint64_t)w)                                                   \
    LOOP(div, NAME, T,                                                                             \
         w == 0                       ? (good = false, 0)                                          \
         : w == (T)-1 && (T)-1 < (T)1 ? (T)(0 - (uint64_t)u)                                       \
                                      : u / w)                                                     \
    LOOP(fmod, NAME, T, w == 0 ? (good = false, 0) : w == (T)-1 && (T)-1 < (T)1 ? 0 : u % w)       \
    LOOP(mod, NAME, T,                                                                             \
         w == 0                              ? (good = false, 0)                                   \
         : w == (T)-1 && (T)-1 < (T)1        ? 0                                                   \
         : u % w && (u < (T)1) != (w < (T)1) ? u % w + w                                           \
                                             : u % w)                                              \
    LOOP(max, NAME, T, u > w ? u : w)                                                              \
    LOOP(min, NAME, T, u < w ? u : w)                                                              \
    LOOP(bitwise_and, NAME, T, u &w)                                                               \
    LOOP(bitwise_or, NAME, T, u | w)                                                               \
    LOOP(bitwise_xor, NAME, T, u ^ w)                                                              \
    LOOP(shift_left, NAME, T, FAR(T, w) ? 0 : (uint64_t)u << w)                                    \
    LOOP(shift_right, NAME, T, FAR(T, w) ? (u < (T)1 && u != 0 ? -1 : 0) : u >> w)
/* Past all bits of a T. */
#define FAR(T, w) ((uint64_t)(w) >= 8 * sizeof(T))
ALL_INTEGERS(LOOPS)

/* f64 as it comes. */
LOOP(add, F64, double, u + w)
LOOP(sub, F64, double, u - w)
LOOP(mul, F64, double, u *w)
LOOP(div, F64, double, u / w)
LOOP(fmod, F64, double, fmod(u, w))
LOOP(mod, F64, double, wide_modulus(u, w))
LOOP(max, F64, double, u > w || u != u ? u : w)
LOOP(min, F64, double, u < w || u != u ? u : w)

/* An output over an input is safe: element i is written after it was read, and a repeated operand
 * is smaller than the output. */
static void run_int(zt_cpu_call *c, int64_t begin, int64_t end, int_loop *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        if (!f(element(&c->in[0], p.in[0]), c->aux[AUX_STEP], element(&c->in[1], p.in[1]),
               c->aux[AUX_STEP + 1], element(&c->out[0], p.at), p.n))
            zt_cpu_runtime_error(c, "an integer is divided by zero", 0, -1);
    }
}

/* RUN(op, what runs its floats, entries of the loops besides integers') */
#define RUN(OP, FLOATS, ...)                                                                       \
    static void OP##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static int_loop *const loops[ZT_DTYPE_COUNT] = {                                           \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16,                         \
            [ZT_I8] = OP##_I8,   [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32,                         \
            [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,   __VA_ARGS__};                                \
        (void)phase;                                                                               \
        if (loops[c->out[0].type.dtype])                                                           \
            run_int(c, begin, end, loops[c->out[0].type.dtype]);                                   \
        else                                                                                       \
            FLOATS(c, begin, end, local);                                                          \
    }
#define FLOATS(OP, HOW, F)                                                                         \
    static void OP##_floats(zt_cpu_call *c, int64_t begin, int64_t end, float *local)              \
    {                                                                                              \
        HOW(c, begin, end, local, F);                                                              \
    }
FLOATS(add, run_pairs, vf_add)
FLOATS(sub, run_pairs, vf_sub)
FLOATS(mul, run_pairs, vf_mul)
FLOATS(div, run_pairs, vf_div)
FLOATS(max, run_pairs, larger)
FLOATS(min, run_pairs, smaller)
FLOATS(mod, run_each, modulus)
FLOATS(fmod, run_each, remainder_of)
RUN(add, add_floats, [ZT_F64] = add_F64)
RUN(sub, sub_floats, [ZT_F64] = sub_F64)
RUN(mul, mul_floats, [ZT_F64] = mul_F64)
RUN(div, div_floats, [ZT_F64] = div_F64)
RUN(max, max_floats, [ZT_F64] = max_F64)
RUN(min, min_floats, [ZT_F64] = min_F64)
RUN(mod, mod_floats, [ZT_F64] = mod_F64)
RUN(fmod, fmod_floats, [ZT_F64] = fmod_F64)

static void pow_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(c, begin, end, local, exact_pow);
}

static bool number_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    char kind = zt_dtype_get(out[0].dtype)->kind;
    (void)attrs, (void)in;
    return narrow(out[0].dtype) || out[0].dtype == ZT_F64 || kind == 'I' || kind == 'U';
}

/* ---- bits ------------------------------------------------------------------------------------ */

static void no_floats(zt_cpu_call *c, int64_t begin, int64_t end, float *local)
{
    (void)c, (void)begin, (void)end, (void)local; /* the row refuses them */
}
RUN(bitwise_and, no_floats, )
RUN(bitwise_or, no_floats, )
RUN(bitwise_xor, no_floats, )
RUN(shift_left, no_floats, )
RUN(shift_right, no_floats, )

static void prelu_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    run_pairs(c, begin, end, local, bent);
}

/* ---- the list -------------------------------------------------------------------------------- */

#define NUMBER(name)                                                                               \
    {                                                                                              \
        .op = ZT_OP_##name, .has = number_has, .setup = broadcast_setup, .run = name##_run         \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_binary)[] = {
    NUMBER(add),
    NUMBER(sub),
    NUMBER(mul),
    NUMBER(div),
    NUMBER(max),
    NUMBER(min),
    NUMBER(mod),
    NUMBER(fmod),
    NUMBER(bitwise_and),
    NUMBER(bitwise_or),
    NUMBER(bitwise_xor),
    NUMBER(shift_left),
    NUMBER(shift_right),
    {.op = ZT_OP_pow, .has = narrow_has, .setup = broadcast_setup, .run = pow_run},
    {.op = ZT_OP_prelu, .has = narrow_has, .setup = broadcast_setup, .run = prelu_run},
    {0},
};
