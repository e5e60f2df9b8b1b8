/* dtypes.h - the logical dtypes of golden cases (their READMEs list them) and what holds them here.
 * Raw values are an element each, as the npz has them; `pack` makes zt's where these differ. */
#ifndef ZT_SPELL_DTYPES_H
#define ZT_SPELL_DTYPES_H

#include "lib/tensor/tensor.h"

#include <string.h>

typedef struct logical {
    const char *name;
    int onnx;       /* its number in attributes such as `to` */
    const char *zt; /* the dtype here; one that zt does not have leaves a case out, by dtype */
    void (*pack)(const void *raw, int64_t n, void *zt); /* NULL: the same bytes */
} logical;

/* One code, or one value, an element: several in a byte here, the first in the lowest bits. */
static void pack_bits(const void *raw, int64_t n, int bits, void *zt)
{
    const unsigned char *code = raw;
    unsigned char *to = zt;
    for (int64_t i = 0; i < n; i++) to[i * bits / 8] |= (unsigned char)((code[i] & ((1 << bits) - 1)) << (i * bits % 8));
}
static void pack_4(const void *raw, int64_t n, void *zt) { pack_bits(raw, n, 4, zt); }
static void pack_2(const void *raw, int64_t n, void *zt) { pack_bits(raw, n, 2, zt); }

static const logical logicals[] = {
    {"float32", 1, "f32", 0},
    {"uint8", 2, "u8", 0},
    {"int8", 3, "i8", 0},
    {"uint16", 4, "u16", 0},
    {"int16", 5, "i16", 0},
    {"int32", 6, "i32", 0},
    {"int64", 7, "i64", 0},
    {"bool", 9, "bool", 0},
    {"float16", 10, "f16", 0},
    {"float64", 11, "f64", 0},
    {"uint32", 12, "u32", 0},
    {"uint64", 13, "u64", 0},
    {"bfloat16", 16, "bf16", 0},
    {"float8_e4m3fn", 17, "f8_e4m3", 0},
    {"float8_e4m3fnuz", 18, "f8_e4m3fnuz", 0},
    {"float8_e5m2", 19, "f8_e5m2", 0},
    {"float8_e5m2fnuz", 20, "f8_e5m2fnuz", 0},
    {"uint4", 21, "u4", pack_4},
    {"int4", 22, "i4", pack_4},
    {"float4_e2m1fn", 23, "f4_e2m1", pack_4},
    {"float8_e8m0fnu", 24, "f8_e8m0", 0},
    {"uint2", 25, "u2", pack_2},
    {"int2", 26, "i2", pack_2},
};

/* NULL: not in the table. */
__attribute__((unused)) static const logical *logical_named(const char *name)
{
    for (size_t i = 0; i < sizeof logicals / sizeof logicals[0]; i++)
        if (name && !strcmp(logicals[i].name, name)) return &logicals[i];
    return NULL;
}

__attribute__((unused)) static const logical *logical_number(int64_t onnx)
{
    for (size_t i = 0; i < sizeof logicals / sizeof logicals[0]; i++)
        if (logicals[i].onnx == onnx) return &logicals[i];
    return NULL;
}

/* The dtype that holds logical dtype `name`; false: none does. */
static bool dtype_of(const char *name, zt_dtype *out)
{
    const logical *l = logical_named(name);
    return l && zt_dtype_parse(l->zt, strlen(l->zt), out);
}

#endif
