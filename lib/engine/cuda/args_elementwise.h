/* args_elementwise.h - arguments of elementwise.cu's kernels, and the numbers of its functions. */
#ifndef ZT_CU_ARGS_ELEMENTWISE_H
#define ZT_CU_ARGS_ELEMENTWISE_H

#include "lib/engine/cuda/args.h"

/* Functions of one float and of two: f_NAME of functions.h. */
// clang-format off
#define ZT_CU_UNARY_OPS(X)                                                                         \
    X(neg) X(abs) X(sign) X(floor) X(ceil) X(round) X(square) X(sqrt) X(rsqrt) X(recip) X(exp)     \
    X(expm1) X(log) X(log1p) X(sin) X(cos) X(tan) X(tanh) X(sigmoid) X(softplus) X(relu) X(erf)     \
    X(elu) X(leaky_relu) X(clamp) X(safe_log) X(add_scalar) X(pow_scalar) X(asin) X(acos) X(atan)  \
    X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(celu) X(selu) X(hard_sigmoid) X(hard_swish)       \
    X(mish) X(softsign) X(shrink) X(thresholded_relu) X(scale) X(softcap) X(silu)
#define ZT_CU_BINARY_OPS(X)                                                                        \
    X(add) X(sub) X(mul) X(div) X(pow) X(mod) X(fmod) X(max) X(min) X(prelu) X(swiglu)             \
    X(tanh_prime)
#define ZT_CU_UNARY(X)  ZT_CU_UNARY_OPS(X) X(gelu_tanh) X(gelu_erf)
#define ZT_CU_BINARY(X) ZT_CU_BINARY_OPS(X) X(geglu_tanh) X(geglu_erf)
/* Of integers alone; of two of any kind to bool; of a float to bool; and the rest. */
#define ZT_CU_BITS(X)                                                                              \
    X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(bitwise_not) X(shift_left) X(shift_right)
#define ZT_CU_TESTS(X)                                                                             \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) X(logical_or) X(logical_xor) X(logical_not)
// clang-format on
#define ZT_CU_ASKS(X)  X(isnan) X(isinf) X(isfinite)
#define ZT_CU_OTHER(X) X(where) X(cast) X(fill)
#define ZT_CU_OPS(X)   ZT_CU_UNARY_OPS(X) ZT_CU_BINARY_OPS(X) ZT_CU_BITS(X) ZT_CU_TESTS(X) ZT_CU_ASKS(X)

typedef enum zt_cu_fn {
#define X(name) ZT_CU_F_##name,
    ZT_CU_UNARY(X) ZT_CU_BINARY(X) ZT_CU_BITS(X) ZT_CU_TESTS(X) ZT_CU_ASKS(X) ZT_CU_OTHER(X)
#undef X
        ZT_CU_F_COUNT
} zt_cu_fn;

enum { ZT_CU_RANK = 10, ZT_CU_CHAIN_IN = 8, ZT_CU_CHAIN_OUT = 6, ZT_CU_CHAIN_OPS = 64 };

/* An op of a chain: its value is number ZT_CU_CHAIN_IN + its place. */
typedef struct zt_cu_chain_op {
    double p, q;    /* its attributes */
    uint8_t fn;     /* zt_cu_fn */
    uint8_t of, to; /* zt_cu_dtype: of its operands (where: of the chosen), of its value */
    uint8_t of0;    /* of the first operand */
    uint8_t in[3];  /* values; 0 to 7 are the inputs */
    uint8_t out;    /* the output that it is, plus 1; 0: none */
} zt_cu_chain_op;

/* y[i] of n elements: element i of input k is at the sum of its index along each dimension, the
 * last first, times the step; 0 where it is repeated. */
typedef struct zt_cu_chain_args {
    int64_t n;
    zt_cu_ptr x[ZT_CU_CHAIN_IN], y[ZT_CU_CHAIN_OUT]; /* 0: none */
    zt_cu_ptr ops;                                   /* zt_cu_chain_op[n_ops], or 0: `one` is all */
    zt_cu_ptr trouble;
    zt_cu_chain_op one;
    int32_t n_ops, n_in, n_dims;
    uint8_t x_type[ZT_CU_CHAIN_IN], y_type[ZT_CU_CHAIN_OUT]; /* zt_cu_dtype */
    int64_t dim[ZT_CU_RANK], step[ZT_CU_CHAIN_IN][ZT_CU_RANK];
} zt_cu_chain_args;

/* y[i] = f(x[i]), floats of one type. */
typedef struct zt_cu_map_args {
    zt_cu_ptr x, y;
    int64_t n;
    double p, q;
    int32_t fn, vectors; /* zt_cu_fn; addresses allow four at once */
} zt_cu_map_args;

/* y[i] = f(a[i / a_each % a_size], b[the same]) */
typedef struct zt_cu_map2_args {
    zt_cu_ptr a, b, y;
    int64_t n, a_each, a_size, b_each, b_size;
    int32_t fn, vectors;
} zt_cu_map2_args;

#endif
