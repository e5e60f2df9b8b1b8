/* elementwise_logic.c - kernels of logic, and of where. */
// clang-format off
#include "lib/engine/cpu/isa/truth.h"

#define TESTS(NAME, T)                                                                             \
    TEST(logical_and, NAME, T, u != 0 && w != 0)                                                   \
    TEST(logical_or, NAME, T, u != 0 || w != 0)                                                    \
    TEST(logical_xor, NAME, T, (u != 0) != (w != 0))
ALL_INTEGERS(TESTS)
TESTS(F32, float)
TESTS(F64, double)

RUN_TEST(logical_and)
RUN_TEST(logical_or)
RUN_TEST(logical_xor)

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
// clang-format on

static void logical_not_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        uint8_t *y = (uint8_t *)element(&call->out[0], part.at);
        truths[call->in[0].type.dtype](plain(call, &part, 0, local), call->aux[AUX_STEP], y, part.n);
        for (int64_t i = 0; i < part.n; i++) y[i] = !y[i];
    }
}

/* ---- where: elements are chosen as bits ------------------------------------------------------ */

// clang-format off
#define CHOOSE(BITS)                                                                               \
    static void choose_##BITS(const uint8_t *c, const void *a, int64_t sa, const void *b,          \
                              int64_t sb, void *y, int64_t n)                                      \
    {                                                                                              \
        const uint##BITS##_t *p = a, *q = b;                                                       \
        uint##BITS##_t *r = y;                                                                     \
        for (int64_t i = 0; i < n; i++) r[i] = c[i] ? p[i * sa] : q[i * sb];                       \
    }
// clang-format on
CHOOSE(8)
CHOOSE(16)
CHOOSE(32)
CHOOSE(64)

static void where_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    static void (*const choose[])(const uint8_t *, const void *, int64_t, const void *, int64_t, void *,
                                  int64_t) = {[1] = choose_8, [2] = choose_16, [4] = choose_32, [8] = choose_64};
    int bytes = zt_dtype_get(call->out[0].type.dtype)->block_bytes;
    uint8_t *mask = (uint8_t *)((float *)local + CHUNK);
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        truths[call->in[0].type.dtype](plain(call, &part, 0, local), call->aux[AUX_STEP], mask, part.n);
        choose[bytes](mask, element(&call->in[1], part.in[1]), call->aux[AUX_STEP + 1], element(&call->in[2], part.in[2]),
                      call->aux[AUX_STEP + 2], element(&call->out[0], part.at), part.n);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_logic)[] = {
    TRUTH_KERNEL(logical_and), TRUTH_KERNEL(logical_or), TRUTH_KERNEL(logical_xor),
    TRUTH_KERNEL(logical_not), TRUTH_KERNEL(where),      {0},
};
