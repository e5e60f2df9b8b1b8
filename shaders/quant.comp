// quant.comp - numbers as codes times a scale, from a zero point. x, scale, zero -> y. word: elements, entries along the
// axis (1: all elements have one scale), elements from one entry to the next, entries of a block (0: each has its own
// scale), blocks along the axis, the types of x, of scale and of the codes, do floats saturate.
// QUANTIZE, an invocation a word of y: codes of a byte and less lie side by side. Else, an invocation an element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"

layout(constant_id = 0) const uint QUANTIZE = 0u;
layout(local_size_x = 64) in;

uint code_type() { return call.word[7]; }
bool codes_are_floats() { return is_float(code_type()) || code_type() == F4_E2M1; }
bool codes_are_signed() { return is_signed(code_type()) || code_type() == I4 || code_type() == I2; }

uint code_bits()
{
    uint type = code_type();
    if (type < I4) return 8u * bytes_of(type);
    return type == I2 || type == U2 ? 2u : 4u;
}

uint scale_of(uint i)
{
    uint size = call.word[1], inner = call.word[2], block = call.word[3];
    if (size == 1u && block == 0u) return 0u;
    uint k = i / inner % size;
    if (block == 0u) return k;
    return (i / inner / size * call.word[4] + k / block) * inner + i % inner;
}

// ---- codes ---------------------------------------------------------------------------------------

// Of 4 bits: one for the fraction, no infinity.
float code_to_float(uint code)
{
    if (code_type() != F4_E2M1) return small_to_float(code_type(), code);
    uint e = code >> 1 & 3u, part = code & 1u;
    float f = e == 0u ? 0.5 * float(part) : (1.0 + 0.5 * float(part)) * float(1u << (e - 1u));
    return (code & 8u) != 0u ? -f : f;
}

// To the nearest, ties to even: steps are of 0.5 to 2, of 1 to 4, else of 2. NaN is -0.
uint float_to_code(float f)
{
    if (code_type() != F4_E2M1) return float_to_small(code_type(), f);
    if (isnan(f)) return 8u;
    uint sign = floatBitsToUint(f) >> 31 << 3;
    float a = abs(f);
    if (a < 2.0) return sign | uint(roundEven(a * 2.0));
    if (a < 4.0) return sign | uint(roundEven(a)) + 2u;
    return sign | min(uint(roundEven(min(a, 6.0) * 0.5)) + 4u, 7u);
}

// Code i of operand k as an integer of 64 bits.
uvec2 code_at(uint k, uint i)
{
    uint bits = code_bits();
    if (bits >= 8u) return load_whole(code_type(), k, i);
    uint per = 8u / bits, byte = load_bits(U8, k, i / per).x, shift = i % per * bits;
    if (!codes_are_signed()) return uvec2(bitfieldExtract(byte, int(shift), int(bits)), 0u);
    int code = bitfieldExtract(int(byte), int(shift), int(bits));
    return uvec2(uint(code), code < 0 ? 0xffffffffu : 0u);
}

// ---- to codes ------------------------------------------------------------------------------------

// x / scale to the nearest, which a division need not give.
float quotient_of(uint i, uint k)
{
    precise float x = load_as(call.word[5], 0u, i), scale = load_as(call.word[6], 1u, k), q = x / scale;
    precise float rest = fma(-q, scale, x), more = rest / scale;
    if (isinf(q) || isnan(q) || isinf(rest) || isnan(more) || isinf(scale)) return q;
    return q + more;
}

// The integers of the codes from the least to the largest.
uvec2 end_of_codes(bool largest)
{
    uint bits = code_bits();
    if (!codes_are_signed()) return largest ? uvec2(bits == 32u ? 0xffffffffu : (1u << bits) - 1u, 0u) : uvec2(0u);
    uint half_n = 1u << (bits - 1u);
    return largest ? uvec2(half_n - 1u, 0u) : neg_whole(uvec2(half_n, 0u));
}

// Beyond 2^40 the zero point does not matter.
uvec2 float_to_whole(float f)
{
    float a = min(abs(f), 1099511627776.0);
    uint high = uint(floor(a * 2.3283064365386963e-10));
    precise float rest = a - float(high) * 4294967296.0;
    uvec2 v = uvec2(uint(rest), high);
    return f < 0.0 ? neg_whole(v) : v;
}

uint integer_code(uint i, uint k)
{
    float q = quotient_of(i, k);
    uvec2 v = isnan(q) ? uvec2(0u) : float_to_whole(roundEven(q)), least = end_of_codes(false), most = end_of_codes(true);
    if (there(2u)) v = add_whole(v, code_at(2u, k));
    if (less_whole(v, least, true)) v = least;
    if (less_whole(most, v, true)) v = most;
    return code_bits() == 32u ? v.x : v.x & ((1u << code_bits()) - 1u);
}

// The sum is rounded to odd, so that rounding it once more, to a code, is right.
uint float_code(uint i, uint k)
{
    precise float q = quotient_of(i, k), y = q;
    if (there(2u)) {
        precise float zero = code_to_float(code_at(2u, k).x);
        y = q + zero;
        precise float back = y - q, lost = (q - (y - back)) + (zero - back);
        uint bits = floatBitsToUint(y);
        if (lost != 0.0 && !isnan(lost) && !isinf(y) && (bits & 1u) == 0u)
            y = uintBitsToFloat(bits + ((lost > 0.0) == (y > 0.0) ? 1u : 0xffffffffu));
    }
    uint type = code_type();
    if (call.word[8] != 0u && !isnan(y)) {
        float most = type == F4_E2M1 ? 6.0 : small_to_float(type, small_of(type).most);
        y = clamp(y, -most, most);
    }
    return float_to_code(y);
}

void quantize(uint w)
{
    uint bits = code_bits(), each = 32u / bits, first = w * each, n = call.word[0], codes = 0u;
    if (first >= n) return;
    uint to = min(first + each, n);
    for (uint i = first; i < to; i++) {
        uint k = scale_of(i);
        codes |= (codes_are_floats() ? float_code(i, k) : integer_code(i, k)) << ((i - first) * bits);
    }
    if (to == first + each) {
        Words(call.at[3]).v[w] = codes;
        return;
    }
    for (uint b = 0u; b * 8u < (to - first) * bits; b++) Bytes(call.at[3]).v[4u * w + b] = uint8_t(codes >> (8u * b));
}

// ---- from codes ----------------------------------------------------------------------------------

void dequantize(uint i)
{
    if (i >= call.word[0]) return;
    uint k = scale_of(i);
    precise float x, scale = load_as(call.word[6], 1u, k);
    if (codes_are_floats()) {
        x = code_to_float(code_at(0u, i).x);
        if (there(2u)) x -= code_to_float(code_at(2u, k).x);
    } else {
        uvec2 code = code_at(0u, i);
        if (there(2u)) code = sub_whole(code, code_at(2u, k));
        x = whole_to_float(code, true, false);
    }
    precise float y = x * scale;
    store_as(call.word[6], 3u, i, y);
}

void main()
{
    uint e = row_of_group() * 64u + gl_LocalInvocationID.x;
    if (QUANTIZE != 0u)
        quantize(e);
    else
        dequantize(e);
}
