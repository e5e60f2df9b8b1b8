/* type.c - owns zt_type: making, comparing, checking, sizes, and the text of a type. */
#include "lib/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

zt_type zt_type_make(zt_dtype dtype, int rank, const int64_t *dim)
{
    zt_type t = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < ZT_MAX_RANK; i++)
        t.dim[i] = dim[i];
    return t;
}

bool zt_type_equal(const zt_type *a, const zt_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i])
            return false;
    }
    return true;
}

int64_t zt_type_count(const zt_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

size_t zt_type_bytes(const zt_type *t)
{
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    int64_t n = zt_type_count(t); /* in whole blocks, but for packed types */
    return (size_t)(n / d->block + (n % d->block != 0)) * (size_t)d->block_bytes;
}

static bool refuse(zt_ctx *ctx, const zt_type *t, const char *why)
{
    char text[ZT_TYPE_TEXT];
    if (ctx)
        zt_fail(ctx, ZT_ESHAPE, "%s: %s", zt_type_text(t, text), why);
    return false;
}

/* The product of the dimensions that are not 0, so that strides fit too; -1 when it does not. */
static int64_t span(const zt_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] != 0 && !zt_mul_i64(n, t->dim[i], &n))
            return -1;
    }
    return n;
}

bool zt_type_check(zt_ctx *ctx, const zt_type *t, size_t *bytes)
{
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    if (!d)
        return refuse(ctx, t, "no such dtype");
    if (t->rank < 0 || t->rank > ZT_MAX_RANK)
        return refuse(ctx, t, "the rank must be 0 to 8");
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0)
            return refuse(ctx, t, "a dimension is negative");
    }
    int64_t last = t->rank ? t->dim[t->rank - 1] : 1;
    if (last % d->block != 0 && !zt_dtype_is_packed(t->dtype))
        return refuse(ctx, t, "the last dimension is not in whole blocks");
    int64_t n = span(t), size;
    if (n < 0 || !zt_mul_i64(n / d->block + (n % d->block != 0), d->block_bytes, &size))
        return refuse(ctx, t, "too large");
    if (bytes)
        *bytes = zt_type_bytes(t);
    return true;
}

const char *zt_type_text(const zt_type *t, char buf[ZT_TYPE_TEXT])
{
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    const char *name = d ? d->name : "?";
    if (t->rank < 0 || t->rank > ZT_MAX_RANK) {
        snprintf(buf, ZT_TYPE_TEXT, "%s[rank %d]", name, t->rank);
        return buf;
    }
    /* ZT_MAX_RANK dimensions of at most 20 characters always fit */
    int n = snprintf(buf, ZT_TYPE_TEXT, "%s[", name);
    for (int i = 0; i < t->rank; i++)
        n +=
            snprintf(buf + n, ZT_TYPE_TEXT - (size_t)n, i ? ",%lld" : "%lld", (long long)t->dim[i]);
    snprintf(buf + n, ZT_TYPE_TEXT - (size_t)n, "]");
    return buf;
}
