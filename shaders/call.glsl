// call.glsl - what every shader shares: how operands are found, and functions of one number.
//
// Operands are device addresses in the push constants: the op's inputs in order, then its outputs;
// an absent one is 0. The last address is the trouble block, for the first bad index. word[] holds
// sizes and attributes, as the C side of the kernel (lib/engine/vulkan/*.c) put them there.
// Functions are written out in exactly rounded steps, so that every device gives nearly the same
// numbers and one device always the same.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Bytes { uint8_t v[]; };
// What invocations found wrong: `count` of them wrote a record. `first_row` is ~row of the first row that was seen, `first_key` the
// same of (row, part) in 32 bits; 0: none.
const uint RECORDS = 20u; // as ZT_VK_RECORDS in lib/engine/vulkan/vk.h
struct Record {
    uint kind, row, part;
    int value, limit, high; // high: the upper word of the value
};
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Trouble {
    uint count, first_row, first_key, unused;
    Record record[RECORDS];
};

// What a shader computes in: f32; its twin NAME_f64, the same text with IN_F64 (mk/shaders.mk), in f64.
#ifdef IN_F64
#define real double
#define real2 dvec2
#define Reals Doubles
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Doubles { double v[]; };
#else
#define real float
#define real2 vec2
#define Reals Floats
#endif

layout(push_constant, scalar) uniform Call {
    uvec2 at[8];
    uint word[16];
} call;

// Where every workgroup has a row; past the last there may be some without.
uint row_of_group() { return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x; }

bool there(uint k) { return (call.at[k].x | call.at[k].y) != 0u; }
float number(uint k) { return uintBitsToFloat(call.word[k]); }
int whole(uint k) { return int(call.word[k]); }
// A number of an attribute: f32 in word k; in f64 its bits, in two words from `bits` on.
real real_number(uint k, uint bits)
{
#ifdef IN_F64
    return packDouble2x32(uvec2(call.word[bits], call.word[bits + 1u]));
#else
    return number(k);
#endif
}

// Kinds of trouble, as error_words in lib/engine/vulkan/replay.c.
const uint BAD_INDEX = 1u, BAD_POSITION = 2u, BAD_SEQUENCE = 3u, BAD_BLOCK = 4u, BAD_LENGTH = 5u, BAD_TARGET = 6u,
           BAD_EXPERT = 7u, BAD_STATE = 8u, BAD_DIVISION = 9u, BAD_EXPONENT = 10u;
// The first by row, then by part of a row, is what the host reports; which invocation comes first is chance. One that comes
// after an earlier row or part leaves, also when that came meanwhile, as among invocations that run at once; the others each
// take a record, the latest in place of the oldest. No invocation waits for another.
void trouble_wide(uint kind, uvec2 value, int limit, uint row, uint part)
{
    Trouble t = Trouble(call.at[7]);
    bool whole_key = row < 0xffffu && part < 0xffffu;
    uint key = row < 0xffffu ? row << 16 | min(part, 0xffffu) : 0xffffffffu;
    if (atomicMax(t.first_row, ~row) > ~row) return;
    uint before = atomicMax(t.first_key, ~key);
    if (before > ~key || (whole_key && before == ~key)) return;
    if (atomicMax(t.first_row, 0u) > ~row || atomicMax(t.first_key, 0u) > ~key) return;
    uint place = atomicAdd(t.count, 1u) % RECORDS;
    t.record[place] = Record(kind, row, part, int(value.x), limit, int(value.y));
}

void trouble(uint kind, int value, int limit, uint row, uint part)
{
    trouble_wide(kind, uvec2(uint(value), value < 0 ? 0xffffffffu : 0u), limit, row, part);
}

float half_to_float(uint h) { return unpackHalf2x16(h).x; }

// To the nearest, ties to even, which packHalf2x16 does not promise. Below 2^-14 steps are of
// 2^-24: those of floats from 0.5 to 1, so that adding 0.5 rounds.
uint float_to_half(float f)
{
    uint bits = floatBitsToUint(f), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 0x7e00u;
    if (a >= 0x477ff000u) return sign | 0x7c00u;
    if (a >= 0x38800000u) return sign | (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13;
    precise float small = uintBitsToFloat(a) + 0.5;
    return sign | (floatBitsToUint(small) - 0x3f000000u);
}

uint float_to_brain(float f)
{
    uint u = floatBitsToUint(f);
    return isnan(f) ? u >> 16 | 0x40u : u + 0x7fffu + (u >> 16 & 1u) >> 16;
}
float brain_to_float(uint h) { return uintBitsToFloat(h << 16); }

#ifndef IN_F64
void put_at(uint floats, uvec2 address, uint i, float v)
{
    if (floats == 0u)
        Floats(address).v[i] = v;
    else
        Halves(address).v[i] = uint16_t(floats == 1u ? float_to_half(v) : float_to_brain(v));
}
#endif

// Operands of the op's own float type: 0 f32, 1 f16, 2 bf16. All is computed in f32; twins have f64 alone.
layout(constant_id = 4) const uint FLOATS = 0u;
#ifdef IN_F64
double get_as(uint floats, uint k, uint i) { return Doubles(call.at[k]).v[i]; }
double get(uint k, uint i) { return Doubles(call.at[k]).v[i]; }
void put_at(uint floats, uvec2 address, uint i, double v) { Doubles(address).v[i] = v; }
void put(uint k, uint i, double v) { Doubles(call.at[k]).v[i] = v; }
#include "math_f64.glsl"
#else
float get_as(uint floats, uint k, uint i)
{
    if (floats == 0u) return Floats(call.at[k]).v[i];
    uint h = uint(Halves(call.at[k]).v[i]);
    return floats == 1u ? half_to_float(h) : brain_to_float(h);
}
float get(uint k, uint i) { return get_as(FLOATS, k, i); }
void put_as(uint floats, uint k, uint i, float v)
{
    if (floats == 0u)
        Floats(call.at[k]).v[i] = v;
    else
        Halves(call.at[k]).v[i] = uint16_t(floats == 1u ? float_to_half(v) : float_to_brain(v));
}
void put(uint k, uint i, float v) { put_as(FLOATS, k, i, v); }

// 2^k for whole k of any size that matters, and e^x by x = k ln 2 + r, |r| <= ln 2 / 2: a
// polynomial of degree 7 (Taylor: what is left out is below 2e-9 of e^r).
float exp_of(float x)
{
    if (isnan(x)) return x;
    if (x > 88.8) return uintBitsToFloat(0x7f800000u);
    if (x < -104.0) return 0.0;
    precise float k = roundEven(x * 1.4426950408889634);
    precise float r = x - k * 0.693359375; // exactly; an fma would not be protected by precise
    r = r + k * 2.12194440e-4;
    precise float p = 1.0 / 5040.0;
    p = fma(p, r, 1.0 / 720.0);
    p = fma(p, r, 1.0 / 120.0);
    p = fma(p, r, 1.0 / 24.0);
    p = fma(p, r, 1.0 / 6.0);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    int n = int(k), half_n = n / 2;
    return p * uintBitsToFloat(uint(half_n + 127) << 23) *
           uintBitsToFloat(uint(n - half_n + 127) << 23);
}

float sigmoid_of(float x) { return 1.0 / (1.0 + exp_of(-x)); }

// Near 0 the difference of exponentials loses digits: there x - x^3/3 + 2x^5/15 - ... instead.
float tanh_of(float x)
{
    precise float a = abs(x), y;
    if (a < 0.25) {
        precise float z = x * x;
        y = fma(z, -1382.0 / 155925.0, 62.0 / 2835.0);
        y = fma(y, z, -17.0 / 315.0);
        y = fma(y, z, 2.0 / 15.0);
        y = fma(y, z, -1.0 / 3.0);
        return fma(y * z, x, x);
    }
    y = 1.0 - 2.0 / (exp_of(2.0 * a) + 1.0);
    return x < 0.0 ? -y : y;
}

// Abramowitz and Stegun 7.1.26 is too coarse (1e-7 absolute): the series near 0, a fitted tail
// beyond.
float erf_of(float x)
{
    precise float a = abs(x), y;
    if (a < 1.0) {
        precise float z = x * x, t = 1.0;
        y = 1.0;
        for (int n = 1; n <= 10; n++) { // sum of (-z)^n / (n! (2n + 1))
            t = t * -z / float(n);
            y += t / float(2 * n + 1);
        }
        return 1.1283791670955126 * x * y;
    }
    // 1 - e^(-x^2) times the continued fraction of Laplace, from its 30th term.
    precise float f = a;
    for (int n = 30; n >= 1; n--) f = a + 0.5 * float(n) / f;
    y = 1.0 - exp_of(-a * a) / (f * 1.7724538509055160);
    return x < 0.0 ? -y : y;
}

float gelu_tanh_of(float x)
{
    precise float u = 0.79788456080286536 * x * (1.0 + 0.044715 * x * x);
    return x * sigmoid_of(2.0 * u);
}
float gelu_erf_of(float x) { return 0.5 * x * (1.0 + erf_of(x * 0.70710678118654752)); }
#endif
