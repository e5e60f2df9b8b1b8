/* encoders.c - the list of quantizers of one instruction set. */
#include "lib/tensor/isa/encoders.h"

#define HALF 65504.0f
#define E(NAME) ZT_ENCODER(NAME)

const zt_encoder ZT_ENCODER(encoders)[] = {
    {ZT_Q4_0, 8 * HALF, E(exact_q4_0), NULL},
    {ZT_Q4_1, HALF, E(exact_q4_1), NULL},
    {ZT_Q5_0, 16 * HALF, E(exact_q5_0), NULL},
    {ZT_Q5_1, HALF, E(exact_q5_1), NULL},
    {ZT_Q8_0, 127 * HALF, E(exact_q8_0), NULL},
    {ZT_TQ1_0, HALF, E(exact_tq1_0), NULL},
    {ZT_TQ2_0, HALF, E(exact_tq2_0), NULL},
    {ZT_MXFP4, 0x1.fffffep127f, E(exact_mxfp4), NULL},
    {ZT_DTYPE_COUNT, 0, NULL, NULL},
};
