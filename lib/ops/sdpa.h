/* sdpa.h - private to the rows and kernels of scaled dot-product attention: sizes, and who sees
 * whom.
 *
 * sdpa and sdpa_grad have one struct of attributes under two names.
 */
#ifndef ZT_OPS_SDPA_H
#define ZT_OPS_SDPA_H

#include "lib/ops/ops.h"

#include <string.h>

typedef struct zt_sdpa {
    int64_t b, h, g;     /* batch, query heads, key heads */
    int64_t s, t, d, dv; /* queries, keys, columns of a key, of a value */
    bool bshd;           /* [b,s,h,d], not [b,h,s,d] */
} zt_sdpa;

static inline zt_sdpa zt_sdpa_sizes(const zt_sdpa_attrs *a, const zt_type *q, const zt_type *k, const zt_type *v)
{
    bool bshd = !strcmp(a->layout.s, "bshd");
    int head = bshd ? 2 : 1, row = bshd ? 1 : 2;
    return (zt_sdpa){.b = q->dim[0],
                     .h = q->dim[head],
                     .g = k->dim[head],
                     .s = q->dim[row],
                     .t = k->dim[row],
                     .d = q->dim[3],
                     .dv = v->dim[3],
                     .bshd = bshd};
}

/* Where row i of n of head `head` of H begins, in elements. */
static inline int64_t zt_sdpa_row(const zt_sdpa *z, int64_t batch, int64_t head, int64_t i, int64_t H, int64_t n, int64_t cols)
{
    return (z->bshd ? (batch * n + i) * H + head : (batch * H + head) * n + i) * cols;
}

static inline double zt_sdpa_scale(const zt_sdpa_attrs *a, const zt_sdpa *z)
{
    return a->scale != 0 ? a->scale : z->d ? 1 / __builtin_sqrt((double)z->d) : 1;
}

typedef struct zt_sdpa_span {
    int64_t lo, hi;
} zt_sdpa_span;

/* The keys lo..hi-1 that query i may see of the first n, masks apart. */
static inline zt_sdpa_span zt_sdpa_seen(const zt_sdpa_attrs *a, const zt_sdpa *z, int64_t n, int64_t i)
{
    int64_t pos = i + a->offset + (strcmp(a->align.s, "end") ? 0 : n - z->s);
    int64_t right = a->causal && (a->right < 0 || a->right > 0) ? 0 : a->right;
    zt_sdpa_span span = {0, n};
    if (right >= 0 && pos + right + 1 < n) span.hi = pos + right + 1;
    if (a->left >= 0 && pos - a->left > 0) span.lo = pos - a->left;
    if (span.hi < 0) span.hi = 0;
    if (span.lo > span.hi) span.lo = span.hi;
    return span;
}

/* Offset and windows are so bounded that their sums with positions are no matter. */
#define ZT_SDPA_FAR ((int64_t)1 << 40)

#endif
