/* logic.c - kernels of comparisons, of what asks or chooses by truth, and of broadcast_to. */
#include "lib/engine/cpu/isa/broadcast.h"

/* n elements, each operand with its step; y: bytes. */
typedef void test_loop(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n);

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
    static void OP##_##NAME(const void *a, int64_t sa, const void *b, int64_t sb, void *y,         \
                            int64_t n)                                                             \
    {                                                                                              \
        const T *p = a, *q = b;                                                                    \
        uint8_t *r = y;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T u = p[i * sa], w = q[i * sb];                                                        \
            r[i] = EXPR;                                                                           \
        }                                                                                          \
    }
ALL_INTEGERS(TESTS)
TESTS(F32, float)
TESTS(F64, double)

/* Bytes of an operand of any type but block types: where they lie, floats as f32. */
static const void *plain(const zt_cpu_call *c, const piece *p, int k, float *scratch)
{
    zt_dtype t = c->in[k].type.dtype;
    if (!zt_dtype_is_float(t) || t == ZT_F64) return element(&c->in[k], p->in[k]);
    return operand(&c->in[k], p->in[k], c->aux[AUX_STEP + k] ? p->n : 1, scratch);
}

static void run_test(zt_cpu_call *c, int64_t begin, int64_t end, float *local, test_loop *f)
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
        static test_loop *const loops[ZT_DTYPE_COUNT] = {                                          \
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
ALL_INTEGERS(TRUTH)
TRUTH(F32, float)
TRUTH(F64, double)

static void (*const truths[ZT_DTYPE_COUNT])(const void *, int64_t, uint8_t *, int64_t) = {
    [ZT_I64] = truth_I64, [ZT_I32] = truth_I32, [ZT_I16] = truth_I16, [ZT_I8] = truth_I8,
    [ZT_U64] = truth_U64, [ZT_U32] = truth_U32, [ZT_U16] = truth_U16, [ZT_U8] = truth_U8,
    [ZT_BOOL] = truth_U8, [ZT_F32] = truth_F32, [ZT_F16] = truth_F32, [ZT_BF16] = truth_F32,
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
                      element(&c->in[2], p.in[2]), c->aux[AUX_STEP + 2], element(&c->out[0], p.at),
                      p.n);
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

#define COMPARE(name)                                                                              \
    {                                                                                              \
        .op = ZT_OP_##name, .has = test_has, .setup = broadcast_setup, .run = name##_run           \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_logic)[] = {
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
    COMPARE(isnan),
    COMPARE(isinf),
    COMPARE(isfinite),
    COMPARE(where),
    {.op = ZT_OP_broadcast_to, .has = plain_has, .setup = broadcast_setup, .run = broadcast_to_run},
    {0},
};
