// loss_sum.comp - the last step of a loss, by one workgroup: y = sum a / sum b, or sum a / by where there is no b.
// a, b -> y. word: counts of a and b, by, the kind of floats of a (FLOATS), is y f32 and not of the type of FLOATS. b is f32.
// With PARTS of many a the sums of every 4096, a workgroup each, all f32.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"

layout(constant_id = 0) const uint PARTS = 0u;

real sum_of(uint operand, uint count, uint floats)
{
    Sum sum = Sum(0.0, 0.0);
    for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) add_to(sum, get_as(floats, operand, i));
    return group_sum(sum.all);
}

void put_part(uint group)
{
    uint from = group * 4096u, to = min(from + 4096u, call.word[0]);
    if (from >= to) return;
    Sum sum = Sum(0.0, 0.0);
    for (uint i = from + gl_LocalInvocationID.x; i < to; i += GROUP) add_to(sum, Reals(call.at[0]).v[i]);
    real all = group_sum(sum.all);
    if (gl_LocalInvocationID.x == 0u) Reals(call.at[2]).v[group] = all;
}

void main()
{
    if (PARTS != 0u) {
        put_part(row_of_group());
        return;
    }
    precise real y = sum_of(0u, call.word[0], call.word[3]), by = real(call.word[2]);
    if (there(1u)) by = sum_of(1u, call.word[1], 0u);
    y /= by;
    if (gl_LocalInvocationID.x != 0u) return;
    if (call.word[4] != 0u)
        Reals(call.at[2]).v[0] = y;
    else
        put(2u, 0u, y);
}
