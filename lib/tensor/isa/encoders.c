/* encoders.c - the list of quantizers of one instruction set. */
#include "lib/tensor/isa/encoders.h"

#define HALF    65504.0f
#define E(NAME) ZT_ENCODER(NAME)

const zt_encoder ZT_ENCODER(encoders)[] = {
    {ZT_Q4_0, 8 * HALF, E(exact_q4_0), E(search_q4_0)},
    {ZT_Q4_1, HALF, E(exact_q4_1), E(search_q4_1)},
    {ZT_Q5_0, 16 * HALF, E(exact_q5_0), E(search_q5_0)},
    {ZT_Q5_1, HALF, E(exact_q5_1), E(search_q5_1)},
    {ZT_Q8_0, 127 * HALF, E(exact_q8_0), E(search_q8_0)},
    {ZT_Q1_0, HALF, NULL, E(search_q1_0)},
    {ZT_Q2_0, HALF, NULL, E(search_q2_0)},
    {ZT_TQ1_0, HALF, E(exact_tq1_0), NULL},
    {ZT_TQ2_0, HALF, E(exact_tq2_0), NULL},
    {ZT_MXFP4, 0x1.fffffep127f, E(exact_mxfp4), E(search_mxfp4)},
    {ZT_Q2_K, 15 * HALF, NULL, E(search_q2_k)},
    {ZT_Q4_K, 63 * HALF, NULL, E(search_q4_k)},
    {ZT_Q5_K, 63 * HALF, NULL, E(search_q5_k)},
    {ZT_Q3_K, 31 * 3 * HALF, NULL, E(search_q3_k)},
    {ZT_Q6_K, 127 * 31 * HALF, NULL, E(search_q6_k)},
    {ZT_IQ4_NL, 113 * HALF, NULL, E(search_iq4_nl)},
    {ZT_IQ4_XS, 31 * 113 * HALF, NULL, E(search_iq4_xs)},
    {ZT_NVFP4, 12 * 224, NULL, E(search_nvfp4)},
    {ZT_IQ3_XXS, 62 * 7.75f * HALF, NULL, E(search_iq3_xxs)},
    {ZT_IQ3_S, 15 * 31 * HALF, NULL, E(search_iq3_s)},
    {ZT_IQ2_XXS, 43 * 3.875f * HALF, NULL, E(search_iq2_xxs)},
    {ZT_IQ2_XS, 43 * 3.875f * HALF, NULL, E(search_iq2_xs)},
    {ZT_IQ2_S, 43 * 3.875f * HALF, NULL, E(search_iq2_s)},
    {ZT_IQ1_S, 1.125f * 15 * HALF, NULL, E(search_iq1_s)},
    {ZT_IQ1_M, 1.125f * 15 * HALF, NULL, E(search_iq1_m)},
    {ZT_DTYPE_COUNT, 0, NULL, NULL},
};
