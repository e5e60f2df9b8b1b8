/* storage.c - owns the number types that a network's weights are kept in with one scale, by the
 * field's rule and by Loom's. Small floats have their codec in dtype_small.c; codes that are whole
 * numbers, of any width, are packed here.
 */
#include "lib/tensor/storage.h"

#include <math.h>
#include <string.h>

/* ---- the types ------------------------------------------------------------------------------- */

/* How a code stands for a number. */
enum { FLOAT, SMALL, SIGNED, UNSIGNED, TERNARY, BINARY };

static const struct row {
    zt_storage_info info;
    int kind;
} rows[ZT_STORE_COUNT] = {
    {{"f64", "float64", 64, ZT_F64}, FLOAT},
    {{"f32", "float32", 32, ZT_F32}, FLOAT},
    {{"f16", "float16", 16, ZT_F16}, FLOAT},
    {{"bf16", "bfloat16", 16, ZT_BF16}, FLOAT},
    {{"fp8e4m3", "fp8_e4m3", 8, ZT_F8_E4M3}, SMALL},
    {{"fp8e5m2", "fp8_e5m2", 8, ZT_F8_E5M2}, SMALL},
    {{"i64", "int64", 64, ZT_I64}, SIGNED},
    {{"i32", "int32", 32, ZT_I32}, SIGNED},
    {{"i16", "int16", 16, ZT_I16}, SIGNED},
    {{"i8", "int8", 8, ZT_I8}, SIGNED},
    {{"u64", "uint64", 64, ZT_U64}, UNSIGNED},
    {{"u32", "uint32", 32, ZT_U32}, UNSIGNED},
    {{"u16", "uint16", 16, ZT_U16}, UNSIGNED},
    {{"u8", "uint8", 8, ZT_U8}, UNSIGNED},
    {{"i4", "int4", 4, ZT_I4}, SIGNED},
    {{"u4", "uint4", 4, ZT_U4}, UNSIGNED},
    {{"fp4", "f4_e2m1", 4, ZT_F4_E2M1}, SMALL},
    {{"i2", "int2", 2, ZT_I2}, SIGNED},
    {{"u2", "uint2", 2, ZT_U2}, UNSIGNED},
    {{"ternary", "ternary", 2, ZT_I2}, TERNARY},
    {{"binary", "binary", 1, ZT_DTYPE_COUNT}, BINARY},
};

const zt_storage_info *zt_storage_get(zt_storage t)
{
    return (unsigned)t < ZT_STORE_COUNT ? &rows[t].info : NULL;
}

bool zt_storage_parse(const char *name, size_t n, zt_storage *out)
{
    for (int t = 0; t < ZT_STORE_COUNT; t++) {
        const zt_storage_info *i = &rows[t].info;
        if ((strlen(i->name) == n && memcmp(i->name, name, n) == 0) ||
            (strlen(i->loom_name) == n && memcmp(i->loom_name, name, n) == 0)) {
            *out = (zt_storage)t;
            return true;
        }
    }
    return false;
}

/* Floats that Loom keeps as they are. */
static bool is_float(zt_storage t) { return rows[t].kind == FLOAT; }

/* Bits of a code as it is kept. */
static int bits_of(zt_storage t, zt_storage_rule rule)
{
    return rule == ZT_RULE_LOOM && is_float(t) && t != ZT_STORE_F64 ? 32 : rows[t].info.bits;
}

size_t zt_storage_bytes(zt_storage t, zt_storage_rule rule, int64_t n)
{
    int bits = bits_of(t, rule);
    return bits < 8 ? ((size_t)n * (size_t)bits + 7) / 8 : (size_t)n * (size_t)(bits / 8);
}

/* ---- whole numbers to bytes and back --------------------------------------------------------- */

/* Where the code of element i begins in its byte. */
static int shift_of(int bits, zt_storage_rule rule, int64_t i)
{
    int place = (int)(i % (8 / bits)) * bits;
    return rule == ZT_RULE_LOOM ? 8 - bits - place : place;
}

static void put_code(uint8_t *out, int bits, zt_storage_rule rule, int64_t i, uint64_t code)
{
    if (bits >= 8)
        memcpy(out + i * (bits / 8), &code, (size_t)bits / 8); /* little endian */
    else
        out[i * bits / 8] |= (uint8_t)((code & ((1u << bits) - 1)) << shift_of(bits, rule, i));
}

static uint64_t get_code(const uint8_t *in, int bits, zt_storage_rule rule, int64_t i)
{
    uint64_t code = 0;
    if (bits >= 8)
        memcpy(&code, in + i * (bits / 8), (size_t)bits / 8);
    else
        code = (uint64_t)in[i * bits / 8] >> shift_of(bits, rule, i) & ((1u << bits) - 1);
    return code;
}

static int64_t signed_of(uint64_t code, int bits)
{
    return bits == 64 ? (int64_t)code : (int64_t)(code << (64 - bits)) >> (64 - bits);
}

/* ---- the field's rule ------------------------------------------------------------------------ */

/* The largest number that a code stands for, and the least. */
static double most_of(zt_storage t)
{
    double least, most = 1;
    if (rows[t].kind != TERNARY && rows[t].kind != BINARY)
        zt_dtype_range(rows[t].info.dtype, &least, &most);
    return most;
}

static double least_of(zt_storage t)
{
    double least = -1, most;
    if (rows[t].kind != TERNARY && rows[t].kind != BINARY)
        zt_dtype_range(rows[t].info.dtype, &least, &most);
    return least;
}

float zt_storage_scale(zt_storage t, const float *x, int64_t n)
{
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = fabs((double)x[i]);
        sum += a;
        most = a > most ? a : most;
    }
    bool mean = rows[t].kind == TERNARY || rows[t].kind == BINARY;
    float scale = (float)(mean ? sum / (double)(n ? n : 1) : most / most_of(t));
    return is_float(t) || !(scale > 0) || isinf(scale) ? 1 : scale;
}

static uint64_t field_code(zt_storage t, double x)
{
    double least = least_of(t), most = most_of(t), whole = rint(x);
    if (rows[t].kind == BINARY) return x >= 0;
    if (whole >= most) /* 2^63 and 2^64 less one are no doubles */
        return rows[t].kind == TERNARY  ? 1
               : rows[t].kind == SIGNED ? (UINT64_MAX >> 1) >> (64 - rows[t].info.bits)
                                        : UINT64_MAX >> (64 - rows[t].info.bits);
    if (whole < least) whole = least;
    return whole < 0 ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

enum { CHUNK = 1024 };

/* Floats by their codec, x / scale cut at the type's range. */
static void encode_floats(zt_storage t, const float *x, int64_t n, float scale, uint8_t *out)
{
    const zt_dtype_info *d = zt_dtype_get(rows[t].info.dtype);
    float most = (float)most_of(t), chunk[CHUNK];
    bool plain = is_float(t);
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t i = 0; i < m; i++) {
            float y = plain ? x[at + i] : x[at + i] / scale;
            chunk[i] = t == ZT_STORE_F64 ? y : y > most ? most : y < -most ? -most : y;
        }
        d->encode(chunk, out + at / d->block * d->block_bytes, m);
    }
}

/* ---- Loom's rule ----------------------------------------------------------------------------- */

/* x / scale towards zero as a signed number of at least eight bits. */
static int64_t loom_code(zt_storage t, float x, float scale)
{
    int bits = rows[t].info.bits < 8 ? 8 : rows[t].info.bits;
    float q = x / scale;
    if (rows[t].kind == BINARY) return x > 0 ? 1 : -1;
    if (!(fabsf(q) < 0x1p63f)) return bits == 64 ? INT64_MIN : 0; /* as the processor has it */
    return signed_of((uint64_t)(int64_t)q, bits);
}

/* What Loom's floats keep of x. By the codec: of a mask on its bits gcc 12 makes nothing here. */
static float loom_float(zt_storage t, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return t == ZT_STORE_BF16 ? zt_bf16_to_f32((uint16_t)(bits >> 16)) : x;
}

float zt_loom_morph(zt_storage t, float x, float scale)
{
    return is_float(t) ? loom_float(t, x) : (float)loom_code(t, x, scale) * scale;
}

float zt_loom_simulate(zt_storage t, float x, float scale)
{
    float q = x / scale;
    int bits = rows[t].info.bits;
    if (is_float(t)) return loom_float(t, x);
    if (rows[t].kind == BINARY) return x > 0 ? scale : -scale;
    if (rows[t].kind == TERNARY) return q > 0.5f ? scale : q < -0.5f ? -scale : 0;
    if (bits >= 32) return x;
    if (bits == 2) return truncf(q * 2) / 2 * scale;
    if (bits == 4) return truncf(q) * scale;
    return (float)(fabsf(q) < 0x1p63f ? signed_of((uint64_t)(int64_t)q, 8) : 0) * scale;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void encode_loom(zt_storage t, const float *x, int64_t n, float scale, uint8_t *out)
{
    int bits = bits_of(t, ZT_RULE_LOOM);
    for (int64_t i = 0; i < n; i++) {
        float kept = loom_float(t, x[i]);
        double wide = kept;
        uint64_t code = 0;
        if (t == ZT_STORE_F64)
            memcpy(&code, &wide, 8);
        else if (is_float(t))
            memcpy(&code, &kept, 4);
        else
            code = (uint64_t)loom_code(t, x[i], scale);
        if (rows[t].kind == BINARY) code = x[i] > 0;
        put_code(out, bits, ZT_RULE_LOOM, i, code);
    }
}

zt_status zt_storage_encode(zt_ctx *ctx, zt_storage t, zt_storage_rule rule, const float *x,
                            int64_t n, float scale, void *out)
{
    int kind = rows[t].kind;
    if (kind != FLOAT && (!(scale > 0) || isinf(scale)))
        return zt_fail(ctx, ZT_EUSAGE, "%s: a scale of %g", rows[t].info.name, (double)scale);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return zt_fail(ctx, ZT_EDATA, "%s: weight %lld is %s", rows[t].info.name, (long long)i,
                           isnan(x[i]) ? "NaN" : "infinite");
    memset(out, 0, zt_storage_bytes(t, rule, n));
    if (rule == ZT_RULE_LOOM) {
        encode_loom(t, x, n, scale, out);
    } else if (kind == FLOAT || kind == SMALL) {
        encode_floats(t, x, n, scale, out);
    } else {
        for (int64_t i = 0; i < n; i++)
            put_code(out, rows[t].info.bits, rule, i, field_code(t, (double)x[i] / (double)scale));
    }
    return ZT_OK;
}

static float loom_value(zt_storage t, uint64_t code, float scale)
{
    double wide;
    float f;
    memcpy(&wide, &code, 8);
    memcpy(&f, &code, 4);
    if (t == ZT_STORE_F64) return (float)wide;
    if (is_float(t)) return f;
    if (rows[t].kind == BINARY) return code ? scale : -scale;
    return (float)signed_of(code, rows[t].info.bits) * scale;
}

static float field_value(zt_storage t, uint64_t code, float scale)
{
    if (rows[t].kind == BINARY) return code ? scale : -scale;
    if (rows[t].kind == UNSIGNED) return (float)((double)code * (double)scale);
    return (float)((double)signed_of(code, rows[t].info.bits) * (double)scale);
}

void zt_storage_decode(zt_storage t, zt_storage_rule rule, const void *codes, int64_t n,
                       float scale, float *y)
{
    int bits = bits_of(t, rule), kind = rows[t].kind;
    if (rule == ZT_RULE_FIELD && (kind == FLOAT || kind == SMALL)) {
        zt_dtype_get(rows[t].info.dtype)->decode(codes, y, n);
        for (int64_t i = 0; kind == SMALL && i < n; i++) y[i] *= scale;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t code = get_code(codes, bits, rule, i);
        y[i] = rule == ZT_RULE_LOOM ? loom_value(t, code, scale) : field_value(t, code, scale);
    }
}

/* ---- Loom's blocks --------------------------------------------------------------------------- */

/* To the nearest of -8 .. 7, halves away from 0. */
static uint8_t nibble(float x, float scale)
{
    float q = scale > 0 ? roundf(x / scale) : 0;
    return (uint8_t)((int)(q > 7 ? 7 : q < -8 ? -8 : q) & 15);
}

void zt_loom_q4_encode(const float *x, int64_t n, zt_loom_q4 *out)
{
    for (int64_t at = 0; at < n; at += 32, out++) {
        float v[32] = {0}, most = 0;
        for (int i = 0; i < 32 && at + i < n; i++) {
            v[i] = x[at + i];
            most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
        }
        out->scale = most / 7;
        for (int j = 0; j < 16; j++)
            out->codes[j] =
                (uint8_t)(nibble(v[2 * j], out->scale) | nibble(v[2 * j + 1], out->scale) << 4);
    }
}

void zt_loom_q4_decode(const zt_loom_q4 *blocks, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t code = blocks[i / 32].codes[i % 32 / 2] >> i % 2 * 4 & 15;
        y[i] = (float)signed_of(code, 4) * blocks[i / 32].scale;
    }
}
