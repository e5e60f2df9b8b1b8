// random.comp - uniform and normal draws, which depend on seed, counter and place alone: element i takes word i % 4 of
// Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011), as
// lib/base/random.c. Four draws an invocation. Computed in pairs of floats, so that a draw has the bits that f64 gives.
// Operands: the counter, y. word: count, two of the seed, low or mean and high - low or the deviation as pairs.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "math.glsl"
#include "pairs.glsl"

layout(constant_id = 0) const uint NORMAL = 0u;
layout(local_size_x = 64) in;

uvec4 philox(uvec2 seed, uvec2 sequence, uint position)
{
    uvec4 c = uvec4(position, 0u, sequence);
    for (uint turn = 0u; turn < 10u; turn++) {
        uint h0, l0, h1, l1;
        umulExtended(0xD2511F53u, c.x, h0, l0);
        umulExtended(0xCD9E8D57u, c.z, h1, l1);
        c = uvec4(h1 ^ c.y ^ seed.x, l1, h0 ^ c.w ^ seed.y, l0);
        seed += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// 1 / n as a pair.
vec2 part(float n) { return div_pairs(vec2(1.0, 0.0), vec2(n, 0.0)); }

// log of k 2^-24, k from 1 to 2^24: as log_of, with the terms to z^10.
vec2 log_pair(uint k)
{
    float e, m = split_float(float(k), e);
    precise float f = m - 1.0;
    vec2 s = div_pairs(vec2(f, 0.0), pair_sum(m, 1.0)), z = mul_pairs(s, s), y = part(21.0);
    for (float n = 19.0; n > 0.0; n -= 2.0) y = add_pairs(part(n), mul_pairs(y, z));
    y = mul_pairs(y, 2.0 * s);
    return add_pairs(mul_pairs(vec2(e - 24.0, 0.0), vec2(0.693147182464599609, -1.90465429995776799e-9)), y);
}

// Taylor's series of the sine (n = 19) or the cosine (n = 18) of a pair up to pi/4.
vec2 turned_pair(vec2 t, float n)
{
    vec2 z = mul_pairs(t, t), y = vec2(1.0, 0.0);
    for (; n > 1.5; n -= 2.0) y = add_pairs(vec2(1.0, 0.0), mul_pairs(mul_pairs(y, z), -part(n * (n - 1.0))));
    return y;
}

// The cosine and, with `sine`, the sine of 2 pi r 2^-32.
vec2 circle_pair(uint r, bool sine)
{
    uint quarter = r + 0x20000000u >> 30;
    int rest = int(r - (quarter << 30)); // from -2^29 to 2^29
    precise float high = float(rest >> 12) * 4096.0, low = float(rest & 4095);
    vec2 t = mul_pairs(pair_of(high, low), vec2(1.46291807926715968e-9, -4.07094091e-17));
    bool odd = (quarter & 1u) != 0u;
    vec2 y = sine == odd ? turned_pair(t, 18.0) : mul_pairs(t, turned_pair(t, 19.0));
    bool negative = sine ? quarter == 2u || quarter == 3u : quarter == 1u || quarter == 2u;
    return negative ? -y : y;
}

vec2 normal_of(uint first, uint second, bool sine)
{
    vec2 size = sqrt_pair(-2.0 * log_pair((first >> 8) + 1u));
    return mul_pairs(size, circle_pair(second, sine));
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (4u * i >= call.word[0]) return;
    Words counter = Words(call.at[0]);
    uvec4 r = philox(uvec2(call.word[1], call.word[2]), uvec2(counter.v[0], counter.v[1]), i);
    vec2 base = vec2(number(3u), number(4u)), by = vec2(number(5u), number(6u));
    for (uint k = 0u; k < 4u && 4u * i + k < call.word[0]; k++) {
        vec2 z = NORMAL != 0u ? normal_of(k < 2u ? r.x : r.z, k < 2u ? r.y : r.w, (k & 1u) != 0u)
                              : vec2(float(r[k] >> 8) * 5.96046447753906250e-8, 0.0);
        vec2 y = add_pairs(base, mul_pairs(by, z));
        Floats(call.at[1]).v[4u * i + k] = y.x;
    }
}
