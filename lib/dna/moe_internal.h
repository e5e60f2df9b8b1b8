/* moe_internal.h - private to lib/dna: a mixture's recipe as its files share it. */
#ifndef ZT_MOE_INTERNAL_H
#define ZT_MOE_INTERNAL_H

#include "lib/dna/moe.h"

struct zt_moe_recipe {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *name, *text;
    zt_moe_config config;
    zt_dtype dtype;           /* of the result's matrices; ZT_DTYPE_COUNT: as the models have them */
    const char *architecture; /* NULL: by the base's */
};

/* The number at `index` of a sequence of numbers with a standard normal distribution. */
double zt_moe_normal(uint64_t seed, uint64_t sequence, int64_t index);

#endif
