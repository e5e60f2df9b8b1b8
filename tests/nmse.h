/* nmse.h - for tests: normalised mean squared errors. */
#ifndef ZT_NMSE_H
#define ZT_NMSE_H

#include "lib/ops/ops.h"

#include <math.h>
#include <string.h>

static double as_double(const zt_type *t, const void *data, int64_t i)
{
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    const char *at = (const char *)data + i / info->block * info->block_bytes;
    double d;
    float f[256]; /* a block */
    if (t->dtype == ZT_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    info->decode(at, f, info->block);
    return (double)f[i % info->block];
}

/* 0 when equal; infinite when not comparable: a NaN on one side, or an integer that differs. */
static double error_of(const zt_type *t, const void *got, const void *want)
{
    double num = 0, den = 0;
    if (!zt_dtype_is_float(t->dtype)) return memcmp(got, want, zt_type_bytes(t)) ? INFINITY : 0;
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double g = as_double(t, got, i), w = as_double(t, want, i);
        if (g == w || (isnan(g) && isnan(w))) continue;
        if (!isfinite(g) || !isfinite(w)) return INFINITY;
        num += (g - w) * (g - w);
    }
    if (num == 0) return 0;
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double w = as_double(t, want, i);
        den += isfinite(w) ? w * w : 0;
    }
    return den > 0 ? num / den : INFINITY;
}

#endif
