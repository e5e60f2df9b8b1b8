// rope.comp - rotary positions (rope.glsl) without f64: a table entry is a frequency in 2^-62 quarter turns a position, two
// words, low first, so that the angle is exact modulo whole turns for every position.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rope.glsl"

vec2 turn_of(int pos, uint low, uint high)
{
    uint p = uint(abs(pos)), carry, unused;
    umulExtended(p, low, carry, unused);
    uint q = p * high + carry; // quarter turns in 2^-30, modulo 4
    if (pos < 0) q = ~q + 1u;
    uint quarter = (q + 0x20000000u) >> 30;
    int left = int(q - (quarter << 30));
    return turned(float(left) * (1.5707963267948966 / 1073741824.0), quarter);
}

// A frequency, low word first, divided by d: its bytes and three more of zeros by the 24 bits of d,
// then shifted by d's exponent. What goes over the top are whole turns.
uvec2 divided(uvec2 f, float d)
{
    uint bits = floatBitsToUint(d) & 0x7fffffffu, m = bits & 0x7fffffu | 0x800000u, rest = 0u;
    uvec2 q = uvec2(0u);
    for (int i = 10; i >= 0; i--) {
        uint word = i >= 7 ? f.y >> (8 * i - 56) : i >= 3 ? f.x >> (8 * i - 24) : 0u;
        rest = rest << 8 | word & 255u;
        q = uvec2(q.x << 8 | rest / m, q.y << 8 | q.x >> 24);
        rest %= m;
    }
    int down = int(bits >> 23) - 126;
    if (down >= 64 || down <= -64) return uvec2(0u);
    if (down >= 32) return uvec2(q.y >> (down - 32), 0u);
    if (down > 0) return uvec2(q.x >> down | q.y << (32 - down), q.y >> down);
    if (down == 0) return q;
    if (down <= -32) return uvec2(0u, q.x << (-down - 32));
    return uvec2(q.x << -down, q.y << -down | q.x >> (32 + down));
}

// Sine and cosine of row's angle for pair j.
vec2 turn_of_pair(uint row, uint j)
{
    Words table = Words(call.at[3]);
    uvec2 f = uvec2(table.v[2u * j], table.v[2u * j + 1u]);
    int pos = Ints(call.at[1]).v[row];
    if (!there(2u)) return turn_of(pos, f.x, f.y);
    float d = Floats(call.at[2]).v[j];
    if (isnan(d) || abs(d) < 1e-30) return vec2(uintBitsToFloat(0x7fc00000u));
    f = divided(f, d);
    return turn_of(d < 0.0 ? -pos : pos, f.x, f.y);
}
