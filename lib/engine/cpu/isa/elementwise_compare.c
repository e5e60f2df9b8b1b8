/* elementwise_compare.c - kernels of comparisons, and of the questions what a float is. */
// clang-format off
#include "lib/engine/cpu/isa/truth.h"

#include <math.h>

#define TESTS(NAME, T)                                                                             \
    TEST(eq, NAME, T, u == w)                                                                      \
    TEST(ne, NAME, T, u != w)                                                                      \
    TEST(lt, NAME, T, u < w)                                                                       \
    TEST(le, NAME, T, u <= w)                                                                      \
    TEST(gt, NAME, T, u > w)                                                                       \
    TEST(ge, NAME, T, u >= w)
ALL_INTEGERS(TESTS)
TESTS(F32, float)
TESTS(F64, double)

RUN_TEST(eq)
RUN_TEST(ne)
RUN_TEST(lt)
RUN_TEST(le)
RUN_TEST(gt)
RUN_TEST(ge)

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
    static void OP##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        (void)phase;                                                                               \
        for (int64_t item = begin; item < end; item++) {                                           \
            piece part = piece_at(call, item);                                                           \
            uint8_t *y = (uint8_t *)element(&call->out[0], part.at);                                     \
            const void *x = plain(call, &part, 0, local);                                                \
            if (call->in[0].type.dtype == ZT_F64)                                                     \
                OP##_F64(x, call->attrs, y, part.n);                                                     \
            else                                                                                   \
                OP##_F32(x, call->attrs, y, part.n);                                                     \
        }                                                                                          \
    }
ASKS(isnan, u != u)
ASKS(isinf, (u == most && a->positive != 0) || (u == -most && a->negative != 0))
ASKS(isfinite, u > -most && u < most)

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_compare)[] = {
    TRUTH_KERNEL(eq),
    TRUTH_KERNEL(ne),
    TRUTH_KERNEL(lt),
    TRUTH_KERNEL(le),
    TRUTH_KERNEL(gt),
    TRUTH_KERNEL(ge),
    TRUTH_KERNEL(isnan),
    TRUTH_KERNEL(isinf),
    TRUTH_KERNEL(isfinite),
    {0},
};
// clang-format on
