/* pad.h - what padding means, for its row and for kernels: where a padded entry comes from. */
#ifndef ZT_OPS_PAD_H
#define ZT_OPS_PAD_H

#include "lib/ops/ops.h"

/* Entries before (or after) dimension d; an empty list is none. */
static inline int64_t zt_pad_at(const zt_ints *pads, int d) { return d < pads->n ? pads->v[d] : 0; }

/* Which entry of n is entry i (below 0 and past the end too) by a mode; -1: none, a constant. */
static inline int64_t zt_pad_source(char mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == 'c') return -1;
    if (mode == 'e') return i < 0 ? 0 : n - 1;
    int64_t period = mode == 'w' ? n : n > 1 ? 2 * (n - 1) : 1;
    i = i % period + (i % period < 0 ? period : 0);
    return i < n ? i : period - i;
}

#endif
