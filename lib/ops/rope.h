/* rope.h - what rope's angles are, for its row and for kernels. */
#ifndef ZT_OPS_ROPE_H
#define ZT_OPS_ROPE_H

#include "lib/ops/ops.h"

/* What the positions are multiplied by for pair i, before its own theta^(-2i/dims). */
double zt_rope_scale(const zt_rope_attrs *a, int64_t i);

/* theta^(-2i/dims), rounded to nearest even once: the exponent is a double, -2 i / dims. */
double zt_rope_power(double theta, int64_t i, int64_t dims);

/* Of rope_put: those of its rope. */
static inline zt_rope_attrs zt_rope_put_rope(const zt_rope_put_attrs *a)
{
    return (zt_rope_attrs){a->theta, a->dims, a->head, a->pair, a->scale, a->amplitude, a->extend, a->low, a->high};
}

#endif
