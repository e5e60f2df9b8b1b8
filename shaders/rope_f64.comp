// rope_f64.comp - rotary positions (rope.glsl) with angles in f64: a table entry is the quarter turns a position. The steps
// are the cpu engine's (lib/engine/cpu/isa/rope.c), so that both get the same bits.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rope.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Doubles { uvec2 v[]; };

vec2 turn_of_pair(uint row, uint j)
{
    const double magic = 6755399441055744.0LF; // 1.5 2^52 leaves the nearest whole number in the lowest bits
    precise double q = double(Ints(call.at[1]).v[row]) * packDouble2x32(Doubles(call.at[3]).v[j]);
    if (there(2u)) q = q / double(Floats(call.at[2]).v[j]);
    precise double t = q + magic, whole_turns = t - magic, left = q - whole_turns, radians = left * 1.57079632679489661923LF;
    return turned(float(radians), unpackDouble2x32(t).x & 3u);
}
