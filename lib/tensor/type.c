/* type.c - owns zt_type: making, comparing, checking, sizes, and the text of a type. */
#include "lib/base/require.h"
#include "lib/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

zt_type zt_type_make(zt_dtype dtype, int rank, const int64_t *dim)
{
    if (!dim && rank > 0) return (zt_type){.rank = -1};
    zt_type type = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < ZT_MAX_RANK; i++) type.dim[i] = dim[i];
    return type;
}

bool zt_type_equal(const zt_type *left, const zt_type *right)
{
    if (!left || !right) return false;
    if (left->dtype != right->dtype || left->rank != right->rank) return false;
    for (int i = 0; i < left->rank; i++) {
        if (left->dim[i] != right->dim[i]) return false;
    }
    return true;
}

int64_t zt_type_count(const zt_type *type)
{
    if (!type) return 0;
    int64_t product = 1;
    for (int i = 0; i < type->rank && i < ZT_MAX_RANK; i++) product *= type->dim[i];
    return product;
}

size_t zt_type_bytes(const zt_type *type)
{
    if (!type || !zt_dtype_get(type->dtype)) return 0;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    int64_t count = zt_type_count(type); /* in whole blocks, but for packed types */
    return (size_t)(count / info->block + (count % info->block != 0)) * (size_t)info->block_bytes;
}

static bool refuse_type(zt_ctx *ctx, const zt_type *type, const char *why)
{
    char text[ZT_TYPE_TEXT];
    if (ctx) zt_fail(ctx, ZT_ESHAPE, "%s: %s", zt_type_text(type, text), why);
    return false;
}

/* The product of the dimensions that are not 0, so that strides fit too; -1 when it does not. */
static int64_t nonzero_product(const zt_type *type)
{
    int64_t product = 1;
    for (int i = 0; i < type->rank; i++) {
        if (type->dim[i] != 0 && !zt_mul_i64(product, type->dim[i], &product)) return -1;
    }
    return product;
}

bool zt_type_check(zt_ctx *ctx, const zt_type *type, size_t *bytes)
{
    ZT_REQUIRE(ctx, type, false);
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    if (!info) return refuse_type(ctx, type, "invalid dtype");
    if (type->rank < 0 || type->rank > ZT_MAX_RANK) return refuse_type(ctx, type, "the rank must be 0 to 10");
    for (int i = 0; i < type->rank; i++) {
        if (type->dim[i] < 0) return refuse_type(ctx, type, "a dimension is negative");
    }
    int64_t last = type->rank ? type->dim[type->rank - 1] : 1;
    if (last % info->block != 0 && !zt_dtype_is_packed(type->dtype))
        return refuse_type(ctx, type, "the last dimension is not a multiple of the block size");
    int64_t product = nonzero_product(type), size;
    if (product < 0 || !zt_mul_i64(product / info->block + (product % info->block != 0), info->block_bytes, &size))
        return refuse_type(ctx, type, "too large");
    if (bytes) *bytes = zt_type_bytes(type);
    return true;
}

const char *zt_type_text(const zt_type *type, char buffer[ZT_TYPE_TEXT])
{
    if (!type || !buffer) return NULL;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    const char *name = info ? info->name : "?";
    if (type->rank < 0 || type->rank > ZT_MAX_RANK) {
        snprintf(buffer, ZT_TYPE_TEXT, "%s[rank %d]", name, type->rank);
        return buffer;
    }
    /* ZT_MAX_RANK dimensions of at most 20 characters always fit */
    int length = snprintf(buffer, ZT_TYPE_TEXT, "%s[", name);
    for (int i = 0; i < type->rank; i++)
        length += snprintf(buffer + length, ZT_TYPE_TEXT - (size_t)length, i ? ",%lld" : "%lld", (long long)type->dim[i]);
    snprintf(buffer + length, ZT_TYPE_TEXT - (size_t)length, "]");
    return buffer;
}
