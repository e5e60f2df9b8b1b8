/* binary.c - kernels of the ops on two values (and where, on three) whose shapes broadcast. */
#include "lib/engine/cpu/isa/elements.h"
#include "lib/engine/cpu/isa/math.h"

#include <math.h>

/* ---- broadcasting ---------------------------------------------------------------------------- */

/* The output as rows of `cols` elements, in which an operand's step from element to element is 1
 * or, where it is repeated, 0. Where its row begins follows from the dimensions before. */
enum { AUX_COLS, AUX_LEAD, AUX_STEP };

/* Is t repeated along dimension d of out? */
static bool repeats(const zt_type *t, const zt_type *out, int d)
{
    int own = d - (out->rank - t->rank);
    return own < 0 || (t->dim[own] == 1 && out->dim[d] != 1);
}

/* Those that are repeated; of broadcast_to only the first is read. */
static int operands(const zt_cpu_call *c)
{
    return c->kernel->op == ZT_OP_broadcast_to ? 1 : zt_op_info(c->kernel->op)->n_in;
}

static void broadcast_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type;
    int64_t cols = 1, count = zt_type_count(y);
    int lead = y->rank, n = operands(c);
    bool same = true;
    for (int k = 0; k < n; k++)
        c->aux[AUX_STEP + k] = !(lead && repeats(&c->in[k].type, y, lead - 1));
    while (lead && same) {
        for (int k = 0; k < n; k++)
            same = same && repeats(&c->in[k].type, y, lead - 1) == !c->aux[AUX_STEP + k];
        if (same) cols *= y->dim[--lead];
    }
    c->aux[AUX_COLS] = cols;
    c->aux[AUX_LEAD] = lead;
    c->local_bytes = 4 * CHUNK * sizeof(float);
    c->items[0] = count ? count / cols * ((cols + CHUNK - 1) / CHUNK) : 0;
}

/* What an item is: n elements of the output from the `at`-th, and where each operand has them. */
typedef struct piece {
    int64_t at, n, in[3];
} piece;

static int64_t row_begin(const zt_type *t, const zt_type *out, int lead, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        int o = d + out->rank - t->rank;
        if (o < lead && t->dim[d] != 1) {
            int64_t before = row;
            for (int k = lead - 1; k > o; k--) before /= out->dim[k];
            at += before % out->dim[o] * stride;
        }
        stride *= t->dim[d];
    }
    return at;
}

static piece piece_at(const zt_cpu_call *c, int64_t item)
{
    const zt_type *y = &c->out[0].type;
    int64_t cols = c->aux[AUX_COLS], pieces = (cols + CHUNK - 1) / CHUNK;
    int64_t row = item / pieces, i = item % pieces * CHUNK;
    piece p = {.at = row * cols + i, .n = cols - i < CHUNK ? cols - i : CHUNK};
    for (int k = 0; k < operands(c); k++)
        p.in[k] = row_begin(&c->in[k].type, y, (int)c->aux[AUX_LEAD], row) +
                  i * c->aux[AUX_STEP + k];
    return p;
}

/* Operand k of a piece as n floats; a repeated one fills the scratch. */
static const float *spread(const zt_cpu_call *c, const piece *p, int k, float *scratch)
{
    if (c->aux[AUX_STEP + k]) return operand(&c->in[k], p->in[k], p->n, scratch);
    float x = *operand(&c->in[k], p->in[k], 1, scratch);
    for (int64_t i = 0; i < p->n; i++) scratch[i] = x;
    return scratch;
}

/* ---- floats ---------------------------------------------------------------------------------- */

typedef vf pairwise(vf a, vf b);

INLINE void zip(const float *a, const float *b, float *y, int64_t n, pairwise *f)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, f(vf_load(a + i), vf_load(b + i)));
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, f(vf_load_n(a + i, rest), vf_load_n(b + i, rest)));
}

INLINE void run_pairs(zt_cpu_call *c, int64_t begin, int64_t end, float *local, pairwise *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        const float *a = spread(c, &p, 0, local), *b = spread(c, &p, 1, local + CHUNK);
        float *r = result(&c->out[0], p.at, local + 2 * CHUNK);
        zip(a, b, r, p.n, f);
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
INLINE vf larger(vf a, vf b)
{
    return vf_select(vf_lt(b, a), a, vf_select(vf_eq(a, a), b, a));
}

INLINE vf smaller(vf a, vf b)
{
    return vf_select(vf_lt(a, b), a, vf_select(vf_eq(a, a), b, a));
}

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

/* X(NAME, C type) */
#define INTEGERS(X)                                                                                \
    X(I64, int64_t) X(I32, int32_t) X(I16, int16_t) X(I8, int8_t)                                  \
    X(U64, uint64_t) X(U32, uint32_t) X(U16, uint16_t) X(U8, uint8_t)

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
         w == 0 ? (good = false, 0) : w == (T)-1 && (T)-1 < (T)1 ? (T)(0 - (uint64_t)u) : u / w)      \
    LOOP(fmod, NAME, T, w == 0 ? (good = false, 0) : w == (T)-1 && (T)-1 < (T)1 ? 0 : u % w)       \
    LOOP(mod, NAME, T,                                                                             \
         w == 0                        ? (good = false, 0)                                         \
         : w == (T)-1 && (T)-1 < (T)1  ? 0                                                         \
         : u % w && (u < (T)1) != (w < (T)1) ? u % w + w                                           \
                                       : u % w)                                                    \
    LOOP(max, NAME, T, u > w ? u : w)                                                              \
    LOOP(min, NAME, T, u < w ? u : w)                                                              \
    LOOP(bitwise_and, NAME, T, u & w)                                                              \
    LOOP(bitwise_or, NAME, T, u | w)                                                               \
    LOOP(bitwise_xor, NAME, T, u ^ w)                                                              \
    LOOP(shift_left, NAME, T, FAR(T, w) ? 0 : (uint64_t)u << w)                                    \
    LOOP(shift_right, NAME, T, FAR(T, w) ? (u < (T)1 && u != 0 ? -1 : 0) : u >> w)
/* Past all bits of a T. */
#define FAR(T, w) ((uint64_t)(w) >= 8 * sizeof(T))
INTEGERS(LOOPS)

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
            zt_cpu_trouble(c, "an integer is divided by zero", 0, -1);
    }
}

/* RUN(op, what runs its floats, entries of the loops besides integers') */
#define RUN(OP, FLOATS, ...)                                                                            \
    static void OP##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static int_loop *const loops[ZT_DTYPE_COUNT] = {                                           \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16, [ZT_I8] = OP##_I8,      \
            [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32, [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,      \
            __VA_ARGS__};                                                                          \
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

/* ---- comparisons and logic: a byte for each element ------------------------------------------ */

#define TESTS(NAME, T)                                                                             \
    TEST(eq, NAME, T, u == w)                                                                      \
    TEST(ne, NAME, T, u != w)                                                                      \
    TEST(lt, NAME, T, u < w)                                                                       \
    TEST(le, NAME, T, u <= w)                                                                      \
    TEST(gt, NAME, T, u > w)                                                                       \
    TEST(ge, NAME, T, u >= w)                                                                      \
    TEST(logical_and, NAME, T, u != 0 && w != 0)                                                   \
    TEST(logical_or, NAME, T, u != 0 || w != 0)                                                    \
    TEST(logical_xor, NAME, T, (u != 0) != (w != 0))
#define TEST(OP, NAME, T, EXPR)                                                                    \
    static bool OP##_##NAME(const void *a, int64_t sa, const void *b, int64_t sb, void *y,         \
                            int64_t n)                                                             \
    {                                                                                              \
        const T *p = a, *q = b;                                                                    \
        uint8_t *r = y;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T u = p[i * sa], w = q[i * sb];                                                        \
            r[i] = EXPR;                                                                           \
        }                                                                                          \
        return true;                                                                               \
    }
INTEGERS(TESTS)
TESTS(F32, float)
TESTS(F64, double)

/* Bytes of an operand of any type but block types: where they lie, floats as f32. */
static const void *plain(const zt_cpu_call *c, const piece *p, int k, float *scratch)
{
    zt_dtype t = c->in[k].type.dtype;
    if (!zt_dtype_is_float(t) || t == ZT_F64) return element(&c->in[k], p->in[k]);
    return operand(&c->in[k], p->in[k], c->aux[AUX_STEP + k] ? p->n : 1, scratch);
}

static void run_test(zt_cpu_call *c, int64_t begin, int64_t end, float *local, int_loop *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        f(plain(c, &p, 0, local), c->aux[AUX_STEP], plain(c, &p, 1, local + CHUNK),
          c->aux[AUX_STEP + 1], element(&c->out[0], p.at), p.n);
    }
}

#define RUN_TEST(OP)                                                                               \
    static void OP##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static int_loop *const loops[ZT_DTYPE_COUNT] = {                                           \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16, [ZT_I8] = OP##_I8,      \
            [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32, [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,      \
            [ZT_BOOL] = OP##_U8, [ZT_F32] = OP##_F32, [ZT_F16] = OP##_F32, [ZT_BF16] = OP##_F32,   \
            [ZT_F64] = OP##_F64};                                                                  \
        (void)phase;                                                                               \
        run_test(c, begin, end, local, loops[c->in[0].type.dtype]);                                \
    }
RUN_TEST(eq)
RUN_TEST(ne)
RUN_TEST(lt)
RUN_TEST(le)
RUN_TEST(gt)
RUN_TEST(ge)
RUN_TEST(logical_and)
RUN_TEST(logical_or)
RUN_TEST(logical_xor)

static bool test_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return narrow(in[0]->dtype) || in[0]->dtype == ZT_F64 || !zt_dtype_is_float(in[0]->dtype);
}

/* ---- where: elements are chosen as bits ------------------------------------------------------ */

#define TRUTH(NAME, T)                                                                             \
    static void truth_##NAME(const void *x, int64_t step, uint8_t *y, int64_t n)                   \
    {                                                                                              \
        const T *p = x;                                                                            \
        for (int64_t i = 0; i < n; i++) y[i] = p[i * step] != 0;                                   \
    }
INTEGERS(TRUTH)
TRUTH(F32, float)
TRUTH(F64, double)

static void (*const truths[ZT_DTYPE_COUNT])(const void *, int64_t, uint8_t *, int64_t) = {
    [ZT_I64] = truth_I64, [ZT_I32] = truth_I32, [ZT_I16] = truth_I16,
    [ZT_I8] = truth_I8,   [ZT_U64] = truth_U64, [ZT_U32] = truth_U32,
    [ZT_U16] = truth_U16, [ZT_U8] = truth_U8,   [ZT_BOOL] = truth_U8,
    [ZT_F32] = truth_F32, [ZT_F16] = truth_F32, [ZT_BF16] = truth_F32,
    [ZT_F64] = truth_F64};

static void logical_not_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        uint8_t *y = (uint8_t *)element(&c->out[0], p.at);
        truths[c->in[0].type.dtype](plain(c, &p, 0, local), c->aux[AUX_STEP], y, p.n);
        for (int64_t i = 0; i < p.n; i++) y[i] = !y[i];
    }
}

/* isnan, isinf and isfinite: |x| beside infinity, and x's sign. */
#define ASK(OP, NAME, T, EXPR)                                                                     \
    static void OP##_##NAME(const void *x, const zt_##OP##_attrs *a, uint8_t *y, int64_t n)        \
    {                                                                                              \
        const T *p = x, most = (T)INFINITY;                                                        \
        (void)a, (void)most;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T u = p[i];                                                                            \
            y[i] = EXPR;                                                                           \
        }                                                                                          \
    }
#define ASKS(OP, EXPR)                                                                             \
    ASK(OP, F32, float, EXPR)                                                                      \
    ASK(OP, F64, double, EXPR)                                                                     \
    static void OP##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        (void)phase;                                                                               \
        for (int64_t item = begin; item < end; item++) {                                           \
            piece p = piece_at(c, item);                                                           \
            uint8_t *y = (uint8_t *)element(&c->out[0], p.at);                                     \
            const void *x = plain(c, &p, 0, local);                                                \
            if (c->in[0].type.dtype == ZT_F64)                                                     \
                OP##_F64(x, c->attrs, y, p.n);                                                     \
            else                                                                                   \
                OP##_F32(x, c->attrs, y, p.n);                                                     \
        }                                                                                          \
    }
ASKS(isnan, u != u)
ASKS(isinf, (u == most && a->positive != 0) || (u == -most && a->negative != 0))
ASKS(isfinite, u > -most && u < most)

#define CHOOSE(BITS)                                                                               \
    static void choose_##BITS(const uint8_t *c, const void *a, int64_t sa, const void *b,          \
                              int64_t sb, void *y, int64_t n)                                      \
    {                                                                                              \
        const uint##BITS##_t *p = a, *q = b;                                                       \
        uint##BITS##_t *r = y;                                                                     \
        for (int64_t i = 0; i < n; i++) r[i] = c[i] ? p[i * sa] : q[i * sb];                       \
    }
CHOOSE(8)
CHOOSE(16)
CHOOSE(32)
CHOOSE(64)

static void where_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    static void (*const choose[])(const uint8_t *, const void *, int64_t, const void *, int64_t,
                                  void *, int64_t) = {
        [1] = choose_8, [2] = choose_16, [4] = choose_32, [8] = choose_64};
    int bytes = zt_dtype_get(c->out[0].type.dtype)->block_bytes;
    uint8_t *mask = (uint8_t *)((float *)local + CHUNK);
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        truths[c->in[0].type.dtype](plain(c, &p, 0, local), c->aux[AUX_STEP], mask, p.n);
        choose[bytes](mask, element(&c->in[1], p.in[1]), c->aux[AUX_STEP + 1],
                      element(&c->in[2], p.in[2]), c->aux[AUX_STEP + 2],
                      element(&c->out[0], p.at), p.n);
    }
}

/* ---- broadcast_to ---------------------------------------------------------------------------- */

static bool plain_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true; /* block types are refused by the row */
}

static void broadcast_to_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    size_t bytes = (size_t)zt_dtype_get(c->out[0].type.dtype)->block_bytes;
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_at(c, item);
        const char *x = element(&c->in[0], p.in[0]);
        char *y = element(&c->out[0], p.at);
        size_t all = (size_t)p.n * bytes, done = c->aux[AUX_STEP] ? all : bytes;
        memcpy(y, x, done);
        for (; done < all; done *= 2) memcpy(y + done, y, done < all - done ? done : all - done);
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

#define NUMBER(name)                                                                               \
    {.op = ZT_OP_##name, .has = number_has, .setup = broadcast_setup, .run = name##_run}
#define COMPARE(name)                                                                              \
    {.op = ZT_OP_##name, .has = test_has, .setup = broadcast_setup, .run = name##_run}

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
    COMPARE(isnan),
    COMPARE(isinf),
    COMPARE(isfinite),
    {.op = ZT_OP_prelu, .has = narrow_has, .setup = broadcast_setup, .run = prelu_run},
    {.op = ZT_OP_pow, .has = narrow_has, .setup = broadcast_setup, .run = pow_run},
    COMPARE(eq),
    COMPARE(ne),
    COMPARE(lt),
    COMPARE(le),
    COMPARE(gt),
    COMPARE(ge),
    COMPARE(logical_and),
    COMPARE(logical_or),
    COMPARE(logical_xor),
    COMPARE(logical_not),
    {.op = ZT_OP_broadcast_to, .has = plain_has, .setup = broadcast_setup, .run = broadcast_to_run},
    {.op = ZT_OP_where, .has = test_has, .setup = broadcast_setup, .run = where_run},
    {0},
};
