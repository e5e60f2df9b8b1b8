/* truth.h - private to isa/: kernels whose results are bytes, 0 or 1: comparisons and logic. */
#ifndef ZT_ISA_TRUTH_H
#define ZT_ISA_TRUTH_H

#include "lib/engine/cpu/isa/broadcast.h"

/* n elements, each operand with its step; y: bytes. */
typedef void test_loop(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n);

// clang-format off
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
// clang-format on

/* Bytes of an operand of any type but block types: where they lie, floats as f32. */
static inline const void *plain(const zt_cpu_call *call, const piece *part, int k, float *scratch)
{
    zt_dtype dtype = call->in[k].type.dtype;
    if (!zt_dtype_is_float(dtype) || dtype == ZT_F64) return element(&call->in[k], part->in[k]);
    return operand(&call->in[k], part->in[k], call->aux[AUX_STEP + k] ? part->n : 1, scratch);
}

static inline void run_test(zt_cpu_call *call, int64_t begin, int64_t end, float *local, test_loop *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        f(plain(call, &part, 0, local), call->aux[AUX_STEP], plain(call, &part, 1, local + CHUNK), call->aux[AUX_STEP + 1],
          element(&call->out[0], part.at), part.n);
    }
}

// clang-format off
#define RUN_TEST(OP)                                                                               \
    static void OP##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static test_loop *const loops[ZT_DTYPE_COUNT] = {                                          \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16, [ZT_I8] = OP##_I8,      \
            [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32, [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,      \
            [ZT_BOOL] = OP##_U8, [ZT_F32] = OP##_F32, [ZT_F16] = OP##_F32, [ZT_BF16] = OP##_F32,   \
            [ZT_F64] = OP##_F64};                                                                  \
        (void)phase;                                                                               \
        run_test(call, begin, end, local, loops[call->in[0].type.dtype]);                                \
    }
// clang-format on

INLINE bool test_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return narrow(in[0]->dtype) || in[0]->dtype == ZT_F64 || !zt_dtype_is_float(in[0]->dtype);
}

/* An entry of a list. */
#define TRUTH_KERNEL(name)                                                                                                       \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = test_has, .setup = broadcast_setup, .run = name##_run                                         \
    }

#endif
