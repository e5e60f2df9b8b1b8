// reduce_spread.comp - a reduced value repeated along the axes that it lacks. x -> y, and a list where the words are too
// few. word: elements of y, by (what they are divided by), how many dimensions; then of each, from the last, its size and
// its step in x, 0 where it is repeated.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

uint listed(uint i) { return there(2u) ? Words(call.at[2]).v[i] : call.word[3u + i]; }

void main()
{
    uint i = row_of_group() * 64u + gl_LocalInvocationID.x, rest = i, at = 0u;
    if (i >= call.word[0]) return;
    for (uint d = 0u; d < call.word[2]; d++) {
        at += rest % listed(2u * d) * listed(2u * d + 1u);
        rest /= listed(2u * d);
    }
    precise real y = get(0u, at) / real(call.word[1]);
    put(1u, i, y);
}
