/* integers.h - private to isa/: loops over integers of every type, for the kernels of one and of two values. */
#ifndef ZT_ISA_INTEGERS_H
#define ZT_ISA_INTEGERS_H

#include "lib/engine/cpu/isa/broadcast.h"

/* ---- two values ------------------------------------------------------------------------------ */

/* n elements, each operand with its step; false when one is divided by zero. */
typedef bool pair_loop(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n);

/* Sums and products are unsigned, where they wrap; y keeps the low bits. */
// clang-format off
#define PAIR_LOOP(OP, NAME, T, EXPR)                                                               \
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
// clang-format on

/* An output over an input is safe: element i is written after it was read, and a repeated operand
 * is smaller than the output. */
static inline void run_int_pairs(zt_cpu_call *call, int64_t begin, int64_t end, pair_loop *f)
{
    for (int64_t item = begin; item < end; item++) {
        piece part = piece_at(call, item);
        if (!f(element(&call->in[0], part.in[0]), call->aux[AUX_STEP], element(&call->in[1], part.in[1]), call->aux[AUX_STEP + 1],
               element(&call->out[0], part.at), part.n))
            zt_cpu_runtime_error(call, "integer division by zero", 0, -1);
    }
}

/* RUN_PAIRS(op, what runs its floats, entries of the loops besides integers') */
// clang-format off
#define RUN_PAIRS(OP, FLOATS, ...)                                                                 \
    static void OP##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)       \
    {                                                                                              \
        static pair_loop *const loops[ZT_DTYPE_COUNT] = {                                          \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16,                         \
            [ZT_I8] = OP##_I8,   [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32,                         \
            [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8,   __VA_ARGS__};                                \
        (void)phase;                                                                               \
        if (loops[call->out[0].type.dtype])                                                           \
            run_int_pairs(call, begin, end, loops[call->out[0].type.dtype]);                             \
        else                                                                                       \
            FLOATS(call, begin, end, local);                                                          \
    }

/* ---- one value ------------------------------------------------------------------------------- */

#define EACH_LOOP(OP, NAME, T, EXPR)                                                               \
    static void OP##_##NAME(const void *in, void *out, int64_t n)                                  \
    {                                                                                              \
        const T *p = in;                                                                           \
        T *y = out;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T x = p[i], none = 0;                                                            \
            y[i] = (T)(EXPR);                                                                      \
            (void)none;                                                                            \
        }                                                                                          \
    }
// clang-format on

typedef void each_loop(const void *in, void *out, int64_t n);

static inline void run_each_int(zt_cpu_call *call, int64_t begin, int64_t end, each_loop *f)
{
    int64_t count = zt_type_count(&call->out[0].type);
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at < count; at += CHUNK)
        f(element(&call->in[0], at), element(&call->out[0], at), count - at < CHUNK ? count - at : CHUNK);
}

// clang-format off
#define RUN_EACH_INT(OP)                                                                           \
    static void OP##_int_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)   \
    {                                                                                              \
        static each_loop *const loops[ZT_DTYPE_COUNT] = {                                          \
            [ZT_I64] = OP##_I64, [ZT_I32] = OP##_I32, [ZT_I16] = OP##_I16, [ZT_I8] = OP##_I8,      \
            [ZT_U64] = OP##_U64, [ZT_U32] = OP##_U32, [ZT_U16] = OP##_U16, [ZT_U8] = OP##_U8};     \
        (void)phase, (void)local;                                                                  \
        run_each_int(call, begin, end, loops[call->out[0].type.dtype]);                                  \
    }
// clang-format on

INLINE bool int_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    char kind = zt_dtype_get(out[0].dtype)->kind;
    (void)attrs, (void)in;
    return kind == 'I' || kind == 'U';
}

#endif
