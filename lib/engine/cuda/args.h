/* args.h - what host and kernels of the CUDA engine both know: addresses, dtypes, troubles.
 *
 * A kernel takes one struct by value, its arguments: fixed-width integers, floats and addresses, at
 * most ZT_CU_ARGS bytes. Those of a family are in args_FAMILY.h beside this file, or in it where
 * there are few. C17 (the host side) and C++ (nvcc, and g++ for the emulation) both read them.
 */
#ifndef ZT_CU_ARGS_H
#define ZT_CU_ARGS_H

#include <stdint.h>

typedef uint64_t zt_cu_ptr; /* of device memory; 0: none */

enum { ZT_CU_ARGS = 4000 };

/* The dtypes, numbered as zt_dtype (kernels.c holds them to it). */
// clang-format off
#define ZT_CU_DTYPES(X)                                                                            \
    X(F64) X(F32) X(F16) X(BF16) X(F8_E4M3) X(F8_E5M2) X(F8_E4M3FNUZ) X(F8_E5M2FNUZ) X(F8_E8M0)    \
    X(I64) X(I32) X(I16) X(I8) X(U64) X(U32) X(U16) X(U8) X(BOOL) X(I4) X(U4) X(I2) X(U2)          \
    X(F4_E2M1) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4) X(NVFP4) X(Q1_0)         \
    X(Q2_0) X(TQ1_0) X(TQ2_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS) X(IQ3_XXS)         \
    X(IQ3_S) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ1_S) X(IQ1_M) X(IQ2_K) X(IQ3_K) X(IQ4_K)     \
    X(IQ5_K) X(IQ6_K)
// clang-format on

typedef enum zt_cu_dtype {
#define X(name) ZT_CU_##name,
    ZT_CU_DTYPES(X)
#undef X
        ZT_CU_DTYPE_COUNT
} zt_cu_dtype;

/* What only the device can find, a block a step. The lowest `order` stays, so that the message
 * does not depend on which thread came first: orders are places in the order of the reference
 * loop. Who writes a block also sets the word at `flag`: where that is 0 the host reads no more. */
typedef struct zt_cu_runtime_error {
    uint32_t lock, kind; /* kind 0: none; below: replay.c has the words */
    int64_t order, value, limit;
    zt_cu_ptr flag;
} zt_cu_runtime_error;

enum {
    ZT_CU_INDEX = 1,
    ZT_CU_POSITION,
    ZT_CU_SEQUENCE,
    ZT_CU_BLOCK,
    ZT_CU_LENGTH,
    ZT_CU_TARGET,
    ZT_CU_EXPERT,
    ZT_CU_STATE,
    ZT_CU_DIVISION, /* of an integer by zero: no value, no limit */
    ZT_CU_TROUBLES
};

#endif
