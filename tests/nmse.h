/* nmse.h - for tests: normalised mean squared errors, and those that an op may have. */
#ifndef ZT_NMSE_H
#define ZT_NMSE_H

#include "lib/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bits that activations go to against block types: 8, 16; 0: they stay f32. */
static int activation_bits(zt_op op, const zt_case *c)
{
    zt_linear_attrs a;
    memcpy(&a, c->attrs, sizeof a);
    return op != ZT_OP_linear || strcmp(a.act.s, "f32") == 0 ? 0 : atoi(a.act.s + 1);
}

/* Ops whose values are long sums of products (or, sum_to, of what was broadcast). */
static bool is_dot_product(zt_op op)
{
    static const char *const of[] = {"linear", "matmul", "attention", "sdpa",     "conv",
                                     "rnn",    "lstm",   "gru",       "spectral", "rfft",
                                     "irfft",  "sum_to", "paged",     "scatter_add"};
    const char *name = zt_op_info(op)->name;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (!strncmp(name, of[i], strlen(of[i]))) return true;
    return false;
}

/* Normalised mean squared error, sum (y - ref)^2 / sum ref^2, that a case may have. f32 arithmetic
 * has 2^-24 = 6e-8, squared 4e-15, a step; a value in 16 bits may round to the other side here and
 * there, and one in 8 bits as well. */
static double tolerance(zt_op op, const zt_case *c, const zt_type *out)
{
    const zt_dtype_info *d = zt_dtype_get(out->dtype);
    char kind = zt_dtype_get(c->in[1].dtype)->kind;
    int bits = activation_bits(op, c);
    double narrow = out->dtype == ZT_F16 ? 1e-6 : out->dtype == ZT_BF16 ? 4e-6 : 0;
    if (bits && kind == 'Q') /* x in 8 bits a block of 32: (amax/127)^2/12 of 1 is 3e-5 */
        return narrow + (bits == 8 ? 5e-4 : 5e-4 / 254 / 254);
    if (bits && c->in[1].dtype == ZT_BF16) /* x in bf16: 2^-18 for the worst value */
        return narrow + 4e-6;
    if (op == ZT_OP_kv_put) return 0;                 /* only rounds, and so does ref's download */
    if (narrow > 0) return narrow;
    if (d->kind == 'F' && d->block_bytes == 1) return 1e-3;
    if (out->dtype == ZT_F64) return 1e-20;
    return is_dot_product(op) ? 1e-10 : 1e-12;
}

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
