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

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Trouble {
    uint lock, kind, row, part;
    int value, limit;
};

layout(push_constant, scalar) uniform Call {
    uvec2 at[8];
    uint word[16];
} call;

bool there(uint k) { return (call.at[k].x | call.at[k].y) != 0u; }
float number(uint k) { return uintBitsToFloat(call.word[k]); }
int whole(uint k) { return int(call.word[k]); }

// Kinds of trouble, as trouble_words in lib/engine/vulkan/replay.c.
const uint BAD_INDEX = 1u, BAD_POSITION = 2u, BAD_SEQUENCE = 3u, BAD_BLOCK = 4u;
// The first by row, then by part of a row, stays: which invocation comes first is chance.
void trouble(uint kind, int value, int limit, uint row, uint part)
{
    Trouble t = Trouble(call.at[7]);
    for (bool done = false; !done;) {
        if (atomicCompSwap(t.lock, 0u, 1u) != 0u) continue;
        memoryBarrierBuffer();
        if (t.kind == 0u || row < t.row || (row == t.row && part < t.part)) {
            t.kind = kind;
            t.row = row;
            t.part = part;
            t.value = value;
            t.limit = limit;
        }
        memoryBarrierBuffer();
        atomicExchange(t.lock, 0u);
        done = true;
    }
}

float half_to_float(uint h) { return unpackHalf2x16(h).x; }
uint float_to_half(float f) { return packHalf2x16(vec2(f, 0.0)) & 0xffffu; }

// 2^k for whole k of any size that matters, and e^x by x = k ln 2 + r, |r| <= ln 2 / 2: a
// polynomial of degree 7 (Taylor: what is left out is below 2e-9 of e^r).
float exp_of(float x)
{
    if (isnan(x)) return x;
    if (x > 88.8) return uintBitsToFloat(0x7f800000u);
    if (x < -104.0) return 0.0;
    precise float k = roundEven(x * 1.4426950408889634);
    precise float r = fma(k, -0.693359375, x);
    r = fma(k, 2.12194440e-4, r);
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
