// loss_sum.comp - the last step of a loss, by one workgroup: y = sum a / sum b, or sum a / by where there is no b.
// a, b -> y. word: counts of a and b, by, the kind of floats of a (FLOATS), is y f32 and not of the type of FLOATS. b is f32.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"

float sum_of(uint operand, uint count, uint floats)
{
    Sum sum = Sum(0.0, 0.0);
    for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) add_to(sum, get_as(floats, operand, i));
    return group_sum(sum.all);
}

void main()
{
    precise float y = sum_of(0u, call.word[0], call.word[3]), by = number(2);
    if (there(1u)) by = sum_of(1u, call.word[1], 0u);
    y /= by;
    if (gl_LocalInvocationID.x != 0u) return;
    if (call.word[4] != 0u)
        Floats(call.at[2]).v[0] = y;
    else
        put(2u, 0u, y);
}
