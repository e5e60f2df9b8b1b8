// values.glsl - elements of any plain type, by the type's number: zt_dtype's (lib/tensor/tensor.h), from a push
// word or from a constant, of which the compiler leaves only that type's instructions. Include call.glsl first.
//
//   float load_as(type, k, i)             element i of operand k as f32, from any type
//   void store_as(type, k, i, float)      to a float type, rounded to the nearest; to others see to_whole
//   uvec2 load_whole(type, k, i)          an integer or bool as 64 bits, signed types with their sign
//   void store_whole(type, k, i, uvec2)   the low bits that the type keeps
//   uvec2 load_bits, void store_bits      bits of 1, 2, 4 or 8 bytes
//
// Indices of i32 or i64: load_whole; one that is in range has a high word of 0.
// f64 is converted exactly rounded, by its bits: no device has to compute with it.
#include "integers.glsl"

const uint F64 = 0u, F32 = 1u, F16 = 2u, BF16 = 3u, F8_E4M3 = 4u, F8_E5M2 = 5u, F8_E4M3FNUZ = 6u;
const uint F8_E5M2FNUZ = 7u, F8_E8M0 = 8u, I64 = 9u, I32 = 10u, I16 = 11u, I8 = 12u, U64 = 13u, U32 = 14u;
const uint U16 = 15u, U8 = 16u, BOOL = 17u, I4 = 18u, U4 = 19u, I2 = 20u, U2 = 21u, F4_E2M1 = 22u;

bool is_float(uint type) { return type <= F8_E8M0; }
bool is_signed(uint type) { return type >= I64 && type <= I8; }

uint bytes_of(uint type)
{
    if (type == F64 || type == I64 || type == U64) return 8u;
    if (type == F32 || type == I32 || type == U32) return 4u;
    return type == F16 || type == BF16 || type == I16 || type == U16 ? 2u : 1u;
}

// ---- bits ----------------------------------------------------------------------------------------

uvec2 load_bytes(uint bytes, uvec2 address, uint i)
{
    if (bytes == 8u) return uvec2(Words(address).v[2u * i], Words(address).v[2u * i + 1u]);
    if (bytes == 4u) return uvec2(Words(address).v[i], 0u);
    return uvec2(bytes == 2u ? uint(Halves(address).v[i]) : uint(Bytes(address).v[i]), 0u);
}

void store_bytes(uint bytes, uvec2 address, uint i, uvec2 v)
{
    if (bytes == 8u) {
        Words(address).v[2u * i] = v.x;
        Words(address).v[2u * i + 1u] = v.y;
    } else if (bytes == 4u)
        Words(address).v[i] = v.x;
    else if (bytes == 2u)
        Halves(address).v[i] = uint16_t(v.x);
    else
        Bytes(address).v[i] = uint8_t(v.x);
}

uvec2 load_bits(uint type, uint k, uint i) { return load_bytes(bytes_of(type), call.at[k], i); }
void store_bits(uint type, uint k, uint i, uvec2 v) { store_bytes(bytes_of(type), call.at[k], i, v); }

// ---- integers ------------------------------------------------------------------------------------

// What a type keeps of 64 bits, as 64 bits.
uvec2 wrap_whole(uint type, uvec2 v)
{
    if (type == BOOL) return uvec2(is_zero(v) ? 0u : 1u, 0u);
    uint bits = 8u * bytes_of(type);
    if (bits == 64u) return v;
    if (is_signed(type)) {
        int low = int(v.x << (32u - bits)) >> (32u - bits);
        return uvec2(uint(low), uint(low >> 31));
    }
    return uvec2(bits == 32u ? v.x : v.x & ((1u << bits) - 1u), 0u);
}

uvec2 load_whole(uint type, uint k, uint i) { return wrap_whole(type, load_bits(type, k, i)); }
void store_whole(uint type, uint k, uint i, uvec2 v) { store_bits(type, k, i, type == BOOL ? wrap_whole(type, v) : v); }

// ---- floats of 8 and of 1 byte -------------------------------------------------------------------

// How a number of bits below `drop` is rounded: to the nearest, ties to even, or to odd, so that rounding once
// more to a shorter type is right.
uvec2 round_off(uvec2 m, uint drop, bool odd)
{
    if (drop == 0u) return m;
    if (drop > 63u) return uvec2(odd && !is_zero(m) ? 1u : 0u, 0u);
    uvec2 kept = right_whole(m, drop), rest = sub_whole(m, left_whole(kept, drop));
    uvec2 middle = left_whole(uvec2(1u, 0u), drop - 1u);
    if (odd)
        kept.x |= is_zero(rest) ? 0u : 1u;
    else if (less_whole(middle, rest, false) || (rest == middle && (kept.x & 1u) != 0u))
        kept = add_whole(kept, uvec2(1u, 0u));
    return kept;
}

float double_to_float(uvec2 d, bool odd)
{
    uint sign = d.y & 0x80000000u, high = d.y & 0x7fffffffu, e = high >> 20;
    if (e == 2047u) return uintBitsToFloat(sign | (((high & 0xfffffu) | d.x) != 0u ? 0x7fc00000u : 0x7f800000u));
    uvec2 m = uvec2(d.x, high & 0xfffffu | (e != 0u ? 0x100000u : 0u));
    int scaled = int(e) - 896; // the exponent of a float
    if (scaled > 254) return uintBitsToFloat(sign | 0x7f800000u);
    uint kept = round_off(m, scaled > 0 ? 29u : uint(30 - scaled), odd).x;
    return uintBitsToFloat(sign | kept + (scaled > 0 ? uint(scaled - 1) << 23 : 0u));
}

uvec2 float_to_double(float f)
{
    uint u = floatBitsToUint(f), sign = u & 0x80000000u, a = u & 0x7fffffffu, e = a >> 23;
    uvec2 m = left_whole(uvec2(a, 0u), 29u);
    if (e == 255u) return uvec2(m.x, sign | m.y + 0x70000000u);
    if (e != 0u) return uvec2(m.x, sign | m.y + 0x38000000u);
    if (a == 0u) return uvec2(0u, sign);
    int top = findMSB(a); // a * 2^-149
    m = left_whole(uvec2(a, 0u), uint(52 - top));
    return uvec2(m.x, sign | (m.y & 0xfffffu) + (uint(top + 874) << 20));
}

// As lib/tensor/dtype_small.c has them: fraction bits, the exponent's bias, the code of the largest number, of
// what is larger, of NaN, and of infinity (0: none); nuz: no negative zero.
struct small_float {
    uint fraction, bias, most, overflow, nan, infinity;
    bool nuz;
};
small_float small_of(uint type)
{
    if (type == F8_E4M3) return small_float(3u, 7u, 0x7eu, 0x7fu, 0x7fu, 0u, false);
    if (type == F8_E5M2) return small_float(2u, 15u, 0x7bu, 0x7cu, 0x7eu, 0x7cu, false);
    if (type == F8_E4M3FNUZ) return small_float(3u, 8u, 0x7fu, 0x80u, 0x80u, 0u, true);
    return small_float(2u, 16u, 0x7fu, 0x80u, 0x80u, 0u, true);
}

float small_to_float(uint type, uint code)
{
    small_float s = small_of(type);
    uint a = code & 0x7fu, e = a >> s.fraction, part = a & ((1u << s.fraction) - 1u);
    if (type == F8_E8M0) return uintBitsToFloat(code == 255u ? 0x7fc00000u : code != 0u ? code << 23 : 0x400000u);
    if (s.nuz ? code == s.nan : a >= s.overflow && a != s.infinity) return uintBitsToFloat(0x7fc00000u);
    uint bits = (e + 127u - s.bias) << 23 | part << (23u - s.fraction);
    float f = e != 0u ? uintBitsToFloat(bits) : float(part) * uintBitsToFloat((128u - s.bias - s.fraction) << 23);
    if (!s.nuz && s.infinity != 0u && a == s.infinity) f = uintBitsToFloat(0x7f800000u);
    return (code & 0x80u) != 0u ? -f : f;
}

uint float_to_small(uint type, float f)
{
    small_float s = small_of(type);
    uint u = floatBitsToUint(f), a = u & 0x7fffffffu, normal = 128u - s.bias, sign = u >> 31 << 7;
    uint drop = 23u - s.fraction, keep = a - ((127u - s.bias) << 23);
    if (a > 0x7f800000u) return s.nuz ? s.nan : sign | s.nan;
    if (a >> 23 < normal) {
        drop += normal - (a >> 23);
        keep = a & 0x7fffffu | 0x800000u;
        if (drop > 24u) drop = 31u;
    }
    uint code = keep + (1u << (drop - 1u)) - 1u + (keep >> drop & 1u) >> drop;
    if (code > s.most) return s.nuz ? s.overflow : sign | s.overflow;
    return s.nuz && code == 0u ? 0u : sign | code;
}

// ---- any type ------------------------------------------------------------------------------------

// |v| * 2^0 as a float, to the nearest or to odd.
float whole_to_float(uvec2 v, bool sign, bool odd)
{
    bool negative = sign && int(v.y) < 0;
    uvec2 m = negative ? neg_whole(v) : v;
    int top = highest_bit(m);
    if (top < 0) return 0.0;
    uvec2 kept = top > 23 ? round_off(m, uint(top - 23), odd) : left_whole(m, uint(23 - top));
    return uintBitsToFloat(kept.x + (uint(top + 126) << 23) | (negative ? 0x80000000u : 0u));
}

uvec2 whole_to_double(uvec2 v, bool sign)
{
    bool negative = sign && int(v.y) < 0;
    uvec2 m = negative ? neg_whole(v) : v;
    int top = highest_bit(m);
    if (top < 0) return uvec2(0u);
    m = top > 52 ? round_off(m, uint(top - 52), false) : left_whole(m, uint(52 - top));
    return uvec2(m.x, m.y + (uint(top + 1022) << 20) | (negative ? 0x80000000u : 0u));
}

// Of a float's bits, m * 2^shift: towards zero, what is out of range to its end.
uvec2 cut_to_whole(uint type, uvec2 m, int shift, bool negative)
{
    int top = highest_bit(m) + shift, bits = int(8u * bytes_of(type)) - (is_signed(type) ? 1 : 0);
    if (top < 0 || (negative && !is_signed(type))) return uvec2(0u);
    if (top >= bits) {
        uvec2 end = bits == 64 ? uvec2(0u) : left_whole(uvec2(1u, 0u), uint(bits));
        return negative ? neg_whole(end) : sub_whole(end, uvec2(1u, 0u));
    }
    m = shift < 0 ? right_whole(m, uint(-shift)) : left_whole(m, uint(shift));
    return negative ? neg_whole(m) : m;
}

// A float as an integer of a type; NaN gives 0. To bool: is it not 0.
uvec2 to_whole(uint type, float f)
{
    uint u = floatBitsToUint(f), a = u & 0x7fffffffu, e = a >> 23;
    if (type == BOOL) return uvec2(a != 0u ? 1u : 0u, 0u);
    if (a > 0x7f800000u) return uvec2(0u);
    return cut_to_whole(type, uvec2(e != 0u ? a & 0x7fffffu | 0x800000u : a, 0u), int(max(e, 1u)) - 150, u >> 31 != 0u);
}

uvec2 double_to_whole(uint type, uvec2 d)
{
    uint high = d.y & 0x7fffffffu, e = high >> 20;
    if (type == BOOL) return uvec2((high | d.x) != 0u ? 1u : 0u, 0u);
    if (e == 2047u && ((high & 0xfffffu) | d.x) != 0u) return uvec2(0u);
    uvec2 m = uvec2(d.x, high & 0xfffffu | (e != 0u ? 0x100000u : 0u));
    return cut_to_whole(type, m, int(max(e, 1u)) - 1075, d.y >> 31 != 0u);
}

// Bits of a float type as f32, exactly but for f64's; and back.
float bits_to_float(uint type, uvec2 v)
{
    if (type == F64) return double_to_float(v, false);
    if (type == F32) return uintBitsToFloat(v.x);
    if (type == F16) return half_to_float(v.x);
    return type == BF16 ? brain_to_float(v.x) : small_to_float(type, v.x);
}

uvec2 float_to_bits(uint type, float f)
{
    if (type == F64) return float_to_double(f);
    if (type == F32) return uvec2(floatBitsToUint(f), 0u);
    if (type == F16) return uvec2(float_to_half(f), 0u);
    return uvec2(type == BF16 ? float_to_brain(f) : float_to_small(type, f), 0u);
}

float load_as(uint type, uint k, uint i)
{
    uvec2 v = load_bits(type, k, i);
    return is_float(type) ? bits_to_float(type, v) : whole_to_float(wrap_whole(type, v), is_signed(type), false);
}

void store_as(uint type, uint k, uint i, float f) { store_bits(type, k, i, float_to_bits(type, f)); }

// ---- several to a byte ---------------------------------------------------------------------------

bool is_packed(uint type) { return type >= I4 && type <= F4_E2M1; }
uint packed_width(uint type) { return type == I2 || type == U2 ? 2u : 4u; }

float load_packed(uint type, uint k, uint i)
{
    uint width = packed_width(type), at = i * width;
    uint code = uint(Bytes(call.at[k]).v[at >> 3]) >> (at & 7u) & (1u << width) - 1u;
    if (type == U4 || type == U2) return float(code);
    if (type != F4_E2M1) return float(int(code << 32u - width) >> int(32u - width));
    uint size = code & 7u;
    float f = size < 2u ? 0.5 * float(size) : float(2u + (size & 1u)) * uintBitsToFloat((size >> 1) + 125u << 23);
    return code > 7u ? -f : f;
}

// The code of an element, from the bits of one of any plain type: integers' low bits; f4_e2m1 to the nearest, ties to
// even, what is too large to the largest, NaN to -0.
uint packed_code(uint type, uint from, uvec2 bits)
{
    if (type != F4_E2M1) {
        uvec2 v = wrap_whole(from, bits);
        if (from == F64) v = double_to_whole(I64, bits);
        if (is_float(from) && from != F64) v = to_whole(I64, bits_to_float(from, bits));
        return v.x & (1u << packed_width(type)) - 1u;
    }
    float f = from == F64 ? double_to_float(bits, true) : 0.0;
    if (!is_float(from)) f = whole_to_float(wrap_whole(from, bits), is_signed(from), true);
    if (is_float(from) && from != F64) f = bits_to_float(from, bits);
    float size = abs(f);
    uint code = size <= 0.25 ? 0u : size < 0.75 ? 1u : size <= 1.25 ? 2u : size < 1.75 ? 3u : size <= 2.5 ? 4u
                : size < 3.5 ? 5u : size <= 5.0 ? 6u : 7u;
    return isnan(f) ? 8u : floatBitsToUint(f) >> 31 << 3 | code;
}
