/* values.h - for kernels: one number of a type that the host names, whatever its type. */
#ifndef ZT_CU_VALUES_H
#define ZT_CU_VALUES_H

#include "lib/engine/cuda/prim.h"

/* What a chain computes with: f64 in d, the narrower floats in f, integers and bool in i. */
union value {
    double d;
    float f;
    int64_t i;
};

FN bool is_f64(int t) { return t == ZT_CU_F64; }
FN bool is_f32(int t) { return t >= ZT_CU_F32 && t <= ZT_CU_F8_E8M0; }

/* A kernel that is work<double>(a) where the type, a field of a, is f64, and else work<float>(a). */
// clang-format off
#define KERNEL_OF_FLOATS(name, args, threads, type, work)                                          \
    KERNEL_OF(name, args, threads)                                                                 \
    {                                                                                              \
        if (is_f64(type))                                                                          \
            work<double>(a);                                                                       \
        else                                                                                       \
            work<float>(a);                                                                        \
    }
/* The same of integers and bool too, as work<int64_t>(a). */
#define KERNEL_OF_VALUES(name, args, threads, type, work)                                          \
    KERNEL_OF(name, args, threads)                                                                 \
    {                                                                                              \
        if (is_f64(type))                                                                          \
            work<double>(a);                                                                       \
        else if (is_f32(type))                                                                     \
            work<float>(a);                                                                        \
        else                                                                                       \
            work<int64_t>(a);                                                                      \
    }
// clang-format on

/* ---- floats of a byte ------------------------------------------------------------------------ */

/* As lib/tensor/dtype_small.c has them: `most` the code of the largest number, `overflow` what is
 * larger, `nan` NaN, `infinity` 0 where there is none, nuz without a negative zero. */
struct small_float {
    int fraction, bias;
    uint32_t most, overflow, nan, infinity;
    bool nuz;
};

FN small_float small_of(int t)
{
    switch (t) {
    case ZT_CU_F8_E4M3: return small_float{3, 7, 0x7e, 0x7f, 0x7f, 0, false};
    case ZT_CU_F8_E5M2: return small_float{2, 15, 0x7b, 0x7c, 0x7e, 0x7c, false};
    case ZT_CU_F8_E4M3FNUZ: return small_float{3, 8, 0x7f, 0x80, 0x80, 0, true};
    default: return small_float{2, 16, 0x7f, 0x80, 0x80, 0, true};
    }
}

FN float small_get(int t, uint32_t code)
{
    const small_float s = small_of(t);
    const uint32_t a = code & 0x7f, exponent = a >> s.fraction;
    const uint32_t fraction = a & ((1u << s.fraction) - 1);
    if (t == ZT_CU_F8_E8M0) return bits_as<float>(code == 255 ? 0x7fc00000 : code ? code << 23 : 0x400000);
    if (s.nuz ? code == s.nan : a >= s.overflow && a != s.infinity) return bits_as<float>(0x7fc00000u);
    float f = exponent ? bits_as<float>((exponent + 127 - (uint32_t)s.bias) << 23 | fraction << (23 - s.fraction))
                       : (float)fraction * bits_as<float>((uint32_t)(128 - s.bias - s.fraction) << 23);
    if (!s.nuz && s.infinity && a == s.infinity) f = INFINITY;
    return code & 0x80 ? -f : f;
}

FN uint8_t small_put(int t, float f)
{
    const small_float s = small_of(t);
    const uint32_t u = bits_as<uint32_t>(f), a = u & 0x7fffffff, normal = 128 - (uint32_t)s.bias;
    const uint32_t sign = u >> 31 << 7;
    uint32_t drop = 23 - (uint32_t)s.fraction, keep = a - ((127 - (uint32_t)s.bias) << 23);
    if (a > 0x7f800000) return (uint8_t)(s.nuz ? s.nan : sign | s.nan);
    if (a >> 23 < normal) {
        drop += normal - (a >> 23);
        keep = (a & 0x7fffff) | 0x800000;
        if (drop > 24) drop = 31;
    }
    const uint32_t code = (keep + (1u << (drop - 1)) - 1 + (keep >> drop & 1)) >> drop;
    if (code > s.most) return (uint8_t)(s.nuz ? s.overflow : sign | s.overflow);
    return (uint8_t)(s.nuz && !code ? 0 : sign | code);
}

/* ---- any ------------------------------------------------------------------------------------- */

FN value load_value(int t, zt_cu_ptr at, int64_t i)
{
    value v;
    v.i = 0;
    switch (t) {
    case ZT_CU_F64: v.d = PTR(const double, at)[i]; break;
    case ZT_CU_F32: v.f = PTR(const float, at)[i]; break;
    case ZT_CU_F16: v.f = get(PTR(const f16, at)[i]); break;
    case ZT_CU_BF16: v.f = get(PTR(const bf16, at)[i]); break;
    case ZT_CU_I64:
    case ZT_CU_U64: v.i = PTR(const int64_t, at)[i]; break;
    case ZT_CU_I32: v.i = PTR(const int32_t, at)[i]; break;
    case ZT_CU_I16: v.i = PTR(const int16_t, at)[i]; break;
    case ZT_CU_I8: v.i = PTR(const int8_t, at)[i]; break;
    case ZT_CU_U32: v.i = PTR(const uint32_t, at)[i]; break;
    case ZT_CU_U16: v.i = PTR(const uint16_t, at)[i]; break;
    default: v.i = PTR(const uint8_t, at)[i]; break;
    }
    if (t >= ZT_CU_F8_E4M3 && t <= ZT_CU_F8_E8M0) v.f = small_get(t, (uint32_t)v.i);
    return v;
}

FN void store_value(int t, zt_cu_ptr at, int64_t i, value v)
{
    switch (t) {
    case ZT_CU_F64: PTR(double, at)[i] = v.d; break;
    case ZT_CU_F32: PTR(float, at)[i] = v.f; break;
    case ZT_CU_F16: PTR(f16, at)[i] = put<f16>(v.f); break;
    case ZT_CU_BF16: PTR(bf16, at)[i] = put<bf16>(v.f); break;
    case ZT_CU_I64:
    case ZT_CU_U64: PTR(int64_t, at)[i] = v.i; break;
    case ZT_CU_I32:
    case ZT_CU_U32: PTR(int32_t, at)[i] = (int32_t)v.i; break;
    case ZT_CU_I16:
    case ZT_CU_U16: PTR(int16_t, at)[i] = (int16_t)v.i; break;
    default: PTR(uint8_t, at)[i] = is_f32(t) ? small_put(t, v.f) : (uint8_t)v.i; break;
    }
}

FN int bits_of(int t)
{
    switch (t) {
    case ZT_CU_I64:
    case ZT_CU_U64: return 64;
    case ZT_CU_I32:
    case ZT_CU_U32: return 32;
    case ZT_CU_I16:
    case ZT_CU_U16: return 16;
    default: return 8;
    }
}
FN bool is_signed(int t) { return t >= ZT_CU_I64 && t <= ZT_CU_I8; }

/* What an integer type keeps of the low bits. */
FN int64_t wrapped(int t, uint64_t v)
{
    int unused = 64 - bits_of(t);
    if (t == ZT_CU_BOOL) return v != 0;
    return is_signed(t) ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused);
}

/* A float as one of type t, which keeps fewer digits. */
FN value to_float(int t, double x)
{
    value v;
    v.i = 0;
    if (t == ZT_CU_F64) v.d = x;
    if (t == ZT_CU_F32) v.f = (float)x;
    if (t == ZT_CU_F16) v.f = get(put<f16>(x));
    if (t == ZT_CU_BF16) v.f = get(put<bf16>(x));
    if (t > ZT_CU_BF16) v.f = f64_to_odd(x); /* of a byte: rounded as it is stored */
    return v;
}

/* As W, which is what its type is computed in: double of f64, float of narrower floats, int64_t. */
// clang-format off
#define AS(W, field)                                                                               \
    FN W as_wide(value v, W) { return v.field; }                                                   \
    FN value of_wide(W x)                                                                          \
    {                                                                                              \
        value v;                                                                                   \
        v.i = 0;                                                                                   \
        v.field = x;                                                                               \
        return v;                                                                                  \
    }
// clang-format on
AS(double, d)
AS(float, f)
AS(int64_t, i)
#undef AS
template <class W> FN W load_as(int t, zt_cu_ptr at, int64_t i) { return as_wide(load_value(t, at, i), W()); }
template <class W> FN void store_as(int t, zt_cu_ptr at, int64_t i, W x) { store_value(t, at, i, of_wide(x)); }

/* Where element i of a value of these dimensions, the last first, is in another. */
FN int64_t offset_at(int n, const int64_t *dim, const int64_t *step, int64_t i)
{
    int64_t at = 0;
    if (n == 1) return i * step[0];
    for (int d = 0; d < n; d++) {
        const int64_t left = (i | dim[d]) >> 31 ? i / dim[d] : (int64_t)((uint32_t)i / (uint32_t)dim[d]);
        at += (i - left * dim[d]) * step[d];
        i = left;
    }
    return at;
}

#endif
