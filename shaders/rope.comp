// rope.comp - one pair of columns an invocation, a row of x each y. word: columns of a row, head,
// dims, neighbours, amplitude. at[3] is the table of pairs (frequency in 2^-62 quarter turns a
// position, two words, low first), so that the angle is exact modulo whole turns for every
// position.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

// Taylor for |x| <= pi / 4.
vec2 sine_cosine(float x)
{
    precise float z = x * x;
    precise float s = fma(z, 1.0 / 362880.0, -1.0 / 5040.0);
    s = fma(s, z, 1.0 / 120.0);
    s = fma(s, z, -1.0 / 6.0);
    s = fma(s * z, x, x);
    precise float c = fma(z, -1.0 / 3628800.0, 1.0 / 40320.0);
    c = fma(c, z, -1.0 / 720.0);
    c = fma(c, z, 1.0 / 24.0);
    c = fma(c, z, -0.5);
    c = fma(c, z, 1.0);
    return vec2(s, c);
}

vec2 turn_of(int pos, uint low, uint high)
{
    uint p = uint(abs(pos)), carry, unused;
    umulExtended(p, low, carry, unused);
    uint q = p * high + carry; // quarter turns in 2^-30, modulo 4
    if (pos < 0) q = ~q + 1u;
    uint quarter = (q + 0x20000000u) >> 30;
    int left = int(q - (quarter << 30));
    vec2 sc = sine_cosine(float(left) * (1.5707963267948966 / 1073741824.0));
    quarter &= 3u;
    if ((quarter & 1u) != 0u) sc = vec2(sc.y, -sc.x);
    return quarter >= 2u ? -sc : sc;
}

void main()
{
    uint cols = call.word[0], head = call.word[1], dims = call.word[2], half_d = dims / 2u;
    uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    uint heads = cols / head, turned = heads * half_d;
    Floats x = Floats(call.at[0]), y = Floats(call.at[4]);
    if (i < turned) {
        uint h = i / half_d, j = i % half_d;
        uint a = row * cols + h * head + (call.word[3] != 0u ? 2u * j : j);
        uint b = call.word[3] != 0u ? a + 1u : a + half_d;
        Words table = Words(call.at[3]);
        int pos = Ints(call.at[1]).v[row];
        vec2 sc = turn_of(pos, table.v[2u * j], table.v[2u * j + 1u]) * number(4);
        precise float xa = x.v[a], xb = x.v[b];
        precise float ya = xa * sc.y - xb * sc.x, yb = xa * sc.x + xb * sc.y;
        y.v[a] = ya;
        y.v[b] = yb;
    } else if (i < turned + heads * (head - dims)) {
        uint k = i - turned, h = k / (head - dims);
        uint at = row * cols + h * head + dims + k % (head - dims);
        y.v[at] = x.v[at];
    }
}
