/* elementwise_bits.c - kernels of the ops on the bits of integers. */
#include "lib/engine/cpu/isa/integers.h"

/* ---- two integers ---------------------------------------------------------------------------- */

/* Past all bits of a T. */
#define FAR(T, w) ((uint64_t)(w) >= 8 * sizeof(T))
// clang-format off
#define BIT_LOOPS(NAME, T)                                                                         \
    PAIR_LOOP(bitwise_and, NAME, T, u &w)                                                          \
    PAIR_LOOP(bitwise_or, NAME, T, u | w)                                                          \
    PAIR_LOOP(bitwise_xor, NAME, T, u ^ w)                                                         \
    PAIR_LOOP(shift_left, NAME, T, FAR(T, w) ? 0 : (uint64_t)u << w)                               \
    PAIR_LOOP(shift_right, NAME, T, FAR(T, w) ? (u < (T)1 && u != 0 ? (T)-1 : (T)0) : u >> w)
// clang-format on
ALL_INTEGERS(BIT_LOOPS)

static void no_floats(zt_cpu_call *call, int64_t begin, int64_t end, float *local)
{
    (void)call, (void)begin, (void)end, (void)local; /* the row refuses them */
}
RUN_PAIRS(bitwise_and, no_floats, )
RUN_PAIRS(bitwise_or, no_floats, )
RUN_PAIRS(bitwise_xor, no_floats, )
RUN_PAIRS(shift_left, no_floats, )
RUN_PAIRS(shift_right, no_floats, )

/* ---- one integer ----------------------------------------------------------------------------- */

#define NOT_LOOP(NAME, T) EACH_LOOP(bitwise_not, NAME, T, ~x)
ALL_INTEGERS(NOT_LOOP)
RUN_EACH_INT(bitwise_not)

#define KERNEL(name)                                                                                                             \
    {                                                                                                                            \
        .op = ZT_OP_##name, .has = int_has, .setup = broadcast_setup, .run = name##_run                                          \
    }

const zt_cpu_kernel ZT_SYM(zt_cpu_elementwise_bits)[] = {
    KERNEL(bitwise_and),
    KERNEL(bitwise_or),
    KERNEL(bitwise_xor),
    KERNEL(shift_left),
    KERNEL(shift_right),
    {.op = ZT_OP_bitwise_not, .has = int_has, .setup = chunks_setup, .run = bitwise_not_int_run},
    {0},
};
