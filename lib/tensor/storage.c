/* storage.c - owns the number types that a network's weights are kept in with one scale, by the
 * field's rule and by Loom's. Small floats have their codec in dtype_small.c; codes that are whole
 * numbers, of any width, are packed here.
 */
#include "lib/base/require.h"
#include "lib/tensor/storage.h"

#include <math.h>
#include <string.h>

/* ---- the types ------------------------------------------------------------------------------- */

/* How a code stands for a number. */
enum { FLOAT, SMALL, SIGNED, UNSIGNED, TERNARY, BINARY };

static const struct storage_row {
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

const zt_storage_info *zt_storage_get(zt_storage storage)
{
    return (unsigned)storage < ZT_STORE_COUNT ? &rows[storage].info : NULL;
}

bool zt_storage_parse(const char *name, size_t length, zt_storage *out)
{
    for (int storage = 0; storage < ZT_STORE_COUNT; storage++) {
        const zt_storage_info *info = &rows[storage].info;
        if ((strlen(info->name) == length && memcmp(info->name, name, length) == 0) ||
            (strlen(info->loom_name) == length && memcmp(info->loom_name, name, length) == 0)) {
            *out = (zt_storage)storage;
            return true;
        }
    }
    return false;
}

/* Floats that Loom keeps as they are. */
static bool is_float(zt_storage storage) { return rows[storage].kind == FLOAT; }

/* Bits of a code as it is kept. */
static int code_bits(zt_storage storage, zt_storage_rule rule)
{
    return rule == ZT_RULE_LOOM && is_float(storage) && storage != ZT_STORE_F64 ? 32 : rows[storage].info.bits;
}

size_t zt_storage_bytes(zt_storage storage, zt_storage_rule rule, int64_t count)
{
    if ((unsigned)storage >= ZT_STORE_COUNT) return 0;
    int bits = code_bits(storage, rule);
    return bits < 8 ? ((size_t)count * (size_t)bits + 7) / 8 : (size_t)count * (size_t)(bits / 8);
}

/* ---- whole numbers to bytes and back --------------------------------------------------------- */

/* Where the code of element `index` begins in its byte. */
static int code_shift(int bits, zt_storage_rule rule, int64_t index)
{
    int place = (int)(index % (8 / bits)) * bits;
    return rule == ZT_RULE_LOOM ? 8 - bits - place : place;
}

static void put_code(uint8_t *out, int bits, zt_storage_rule rule, int64_t index, uint64_t code)
{
    if (bits >= 8)
        memcpy(out + index * (bits / 8), &code, (size_t)bits / 8); /* little endian */
    else
        out[index * bits / 8] |= (uint8_t)((code & ((1u << bits) - 1)) << code_shift(bits, rule, index));
}

static uint64_t get_code(const uint8_t *codes, int bits, zt_storage_rule rule, int64_t index)
{
    uint64_t code = 0;
    if (bits >= 8)
        memcpy(&code, codes + index * (bits / 8), (size_t)bits / 8);
    else
        code = (uint64_t)codes[index * bits / 8] >> code_shift(bits, rule, index) & ((1u << bits) - 1);
    return code;
}

static int64_t signed_value(uint64_t code, int bits)
{
    return bits == 64 ? (int64_t)code : (int64_t)(code << (64 - bits)) >> (64 - bits);
}

/* ---- the field's rule ------------------------------------------------------------------------ */

/* The largest number that a code stands for, and the least. */
static double largest_value(zt_storage storage)
{
    double least, most = 1;
    if (rows[storage].kind != TERNARY && rows[storage].kind != BINARY) zt_dtype_range(rows[storage].info.dtype, &least, &most);
    return most;
}

static double smallest_value(zt_storage storage)
{
    double least = -1, most;
    if (rows[storage].kind != TERNARY && rows[storage].kind != BINARY) zt_dtype_range(rows[storage].info.dtype, &least, &most);
    return least;
}

float zt_storage_scale(zt_storage storage, const float *values, int64_t count)
{
    if ((unsigned)storage >= ZT_STORE_COUNT) return 0;
    if (!values && count) return 0;
    double most = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double magnitude = fabs((double)values[i]);
        sum += magnitude;
        most = magnitude > most ? magnitude : most;
    }
    bool mean = rows[storage].kind == TERNARY || rows[storage].kind == BINARY;
    float scale = (float)(mean ? sum / (double)(count ? count : 1) : most / largest_value(storage));
    return is_float(storage) || !(scale > 0) || isinf(scale) ? 1 : scale;
}

static uint64_t field_code(zt_storage storage, double value)
{
    double least = smallest_value(storage), most = largest_value(storage), whole = rint(value);
    if (rows[storage].kind == BINARY) return value >= 0;
    if (whole >= most) /* 2^63 and 2^64 less one are no doubles */
        return rows[storage].kind == TERNARY  ? 1
               : rows[storage].kind == SIGNED ? (UINT64_MAX >> 1) >> (64 - rows[storage].info.bits)
                                              : UINT64_MAX >> (64 - rows[storage].info.bits);
    if (whole < least) whole = least;
    return whole < 0 ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

enum { CHUNK = 1024 };

/* Floats by their codec, values / scale cut at the type's range. */
static void encode_floats(zt_storage storage, const float *values, int64_t count, float scale, uint8_t *out)
{
    const zt_dtype_info *info = zt_dtype_get(rows[storage].info.dtype);
    float most = (float)largest_value(storage), chunk[CHUNK];
    bool plain = is_float(storage);
    for (int64_t start = 0; start < count; start += CHUNK) {
        int64_t part = count - start < CHUNK ? count - start : CHUNK;
        for (int64_t i = 0; i < part; i++) {
            float scaled = plain ? values[start + i] : values[start + i] / scale;
            chunk[i] = storage == ZT_STORE_F64 ? scaled : scaled > most ? most : scaled < -most ? -most : scaled;
        }
        info->encode(chunk, out + start / info->block * info->block_bytes, part);
    }
}

/* ---- Loom's rule ----------------------------------------------------------------------------- */

/* value / scale towards zero as a signed number of at least eight bits. */
static int64_t loom_code(zt_storage storage, float value, float scale)
{
    int bits = rows[storage].info.bits < 8 ? 8 : rows[storage].info.bits;
    float quotient = value / scale;
    if (rows[storage].kind == BINARY) return value > 0 ? 1 : -1;
    if (!(fabsf(quotient) < 0x1p63f)) return bits == 64 ? INT64_MIN : 0; /* as the processor has it */
    return signed_value((uint64_t)(int64_t)quotient, bits);
}

/* What Loom's floats keep of `value`. By the codec: of a mask on its bits gcc 12 makes nothing here. */
static float loom_float(zt_storage storage, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return storage == ZT_STORE_BF16 ? zt_bf16_to_f32((uint16_t)(bits >> 16)) : value;
}

float zt_loom_morph(zt_storage storage, float value, float scale)
{
    if ((unsigned)storage >= ZT_STORE_COUNT) return value;
    return is_float(storage) ? loom_float(storage, value) : (float)loom_code(storage, value, scale) * scale;
}

float zt_loom_simulate(zt_storage storage, float value, float scale)
{
    if ((unsigned)storage >= ZT_STORE_COUNT) return value;
    float quotient = value / scale;
    int bits = rows[storage].info.bits;
    if (is_float(storage)) return loom_float(storage, value);
    if (rows[storage].kind == BINARY) return value > 0 ? scale : -scale;
    if (rows[storage].kind == TERNARY) return quotient > 0.5f ? scale : quotient < -0.5f ? -scale : 0;
    if (bits >= 32) return value;
    if (bits == 2) return truncf(quotient * 2) / 2 * scale;
    if (bits == 4) return truncf(quotient) * scale;
    return (float)(fabsf(quotient) < 0x1p63f ? signed_value((uint64_t)(int64_t)quotient, 8) : 0) * scale;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void encode_loom(zt_storage storage, const float *values, int64_t count, float scale, uint8_t *out)
{
    int bits = code_bits(storage, ZT_RULE_LOOM);
    for (int64_t i = 0; i < count; i++) {
        float kept = loom_float(storage, values[i]);
        double wide = kept;
        uint64_t code = 0;
        if (storage == ZT_STORE_F64)
            memcpy(&code, &wide, 8);
        else if (is_float(storage))
            memcpy(&code, &kept, 4);
        else
            code = (uint64_t)loom_code(storage, values[i], scale);
        if (rows[storage].kind == BINARY) code = values[i] > 0;
        put_code(out, bits, ZT_RULE_LOOM, i, code);
    }
}

zt_status zt_storage_encode(zt_ctx *ctx, zt_storage storage, zt_storage_rule rule, const float *values, int64_t count,
                            float scale, void *out)
{
    ZT_REQUIRE(ctx, (values || !count) && out, ZT_EUSAGE);
    ZT_REQUIRE(ctx, (unsigned)storage < ZT_STORE_COUNT && count >= 0, ZT_EUSAGE);
    int kind = rows[storage].kind;
    if (kind != FLOAT && (!(scale > 0) || isinf(scale)))
        return zt_fail(ctx, ZT_EUSAGE, "%s: invalid scale %g: must be finite and greater than 0", rows[storage].info.name,
                       (double)scale);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return zt_fail(ctx, ZT_EDATA, "%s: weight %lld is %s", rows[storage].info.name, (long long)i,
                           isnan(values[i]) ? "NaN" : "infinite");
    memset(out, 0, zt_storage_bytes(storage, rule, count));
    if (rule == ZT_RULE_LOOM) {
        encode_loom(storage, values, count, scale, out);
    } else if (kind == FLOAT || kind == SMALL) {
        encode_floats(storage, values, count, scale, out);
    } else {
        for (int64_t i = 0; i < count; i++)
            put_code(out, rows[storage].info.bits, rule, i, field_code(storage, (double)values[i] / (double)scale));
    }
    return ZT_OK;
}

static float loom_value(zt_storage storage, uint64_t code, float scale)
{
    double wide;
    float single;
    memcpy(&wide, &code, 8);
    memcpy(&single, &code, 4);
    if (storage == ZT_STORE_F64) return (float)wide;
    if (is_float(storage)) return single;
    if (rows[storage].kind == BINARY) return code ? scale : -scale;
    return (float)signed_value(code, rows[storage].info.bits) * scale;
}

static float field_value(zt_storage storage, uint64_t code, float scale)
{
    if (rows[storage].kind == BINARY) return code ? scale : -scale;
    if (rows[storage].kind == UNSIGNED) return (float)((double)code * (double)scale);
    return (float)((double)signed_value(code, rows[storage].info.bits) * (double)scale);
}

void zt_storage_decode(zt_storage storage, zt_storage_rule rule, const void *codes, int64_t count, float scale, float *values)
{
    if ((unsigned)storage >= ZT_STORE_COUNT || !codes || !values) return;
    if ((!codes && count) || !values) return;
    int bits = code_bits(storage, rule), kind = rows[storage].kind;
    if (rule == ZT_RULE_FIELD && (kind == FLOAT || kind == SMALL)) {
        zt_dtype_get(rows[storage].info.dtype)->decode(codes, values, count);
        for (int64_t i = 0; kind == SMALL && i < count; i++) values[i] *= scale;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t code = get_code(codes, bits, rule, i);
        values[i] = rule == ZT_RULE_LOOM ? loom_value(storage, code, scale) : field_value(storage, code, scale);
    }
}

/* ---- Loom's blocks --------------------------------------------------------------------------- */

/* To the nearest of -8 .. 7, halves away from 0. */
static uint8_t q4_code(float value, float scale)
{
    float quotient = scale > 0 ? roundf(value / scale) : 0;
    return (uint8_t)((int)(quotient > 7 ? 7 : quotient < -8 ? -8 : quotient) & 15);
}

void zt_loom_q4_encode(const float *values, int64_t count, zt_loom_q4 *out)
{
    if ((!values && count) || !out) return;
    for (int64_t start = 0; start < count; start += 32, out++) {
        float block[32] = {0}, most = 0;
        for (int i = 0; i < 32 && start + i < count; i++) {
            block[i] = values[start + i];
            most = fabsf(block[i]) > most ? fabsf(block[i]) : most;
        }
        out->scale = most / 7;
        for (int j = 0; j < 16; j++)
            out->codes[j] = (uint8_t)(q4_code(block[2 * j], out->scale) | q4_code(block[2 * j + 1], out->scale) << 4);
    }
}

void zt_loom_q4_decode(const zt_loom_q4 *blocks, int64_t count, float *values)
{
    if (!blocks || !values) return;
    for (int64_t i = 0; i < count; i++) {
        uint64_t code = blocks[i / 32].codes[i % 32 / 2] >> i % 2 * 4 & 15;
        values[i] = (float)signed_value(code, 4) * blocks[i / 32].scale;
    }
}
