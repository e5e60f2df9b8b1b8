// pad.comp - entries added at the ends of axes, or taken away. Operands: x, the table, y. word: count, axes, mode, two of
// the constant's bits. Table: of each axis, the last first, the sizes of y and of x, the entries before.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "pad.glsl"

layout(constant_id = 0) const uint BYTES = 4u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint rest = i, from = 0u, step = 1u, axes = call.word[1];
    bool inside = true;
    Words table = Words(call.at[1]);
    for (uint axis = 0u; axis < axes; axis++) {
        uint size = table.v[3u * axis], own = table.v[3u * axis + 1u], next = rest / size;
        int k = pad_source(call.word[2], int(rest - next * size) - int(table.v[3u * axis + 2u]), int(own));
        inside = inside && k >= 0;
        from += uint(k) * step;
        step *= own;
        rest = next;
    }
    uvec2 v = uvec2(call.word[3], call.word[4]);
    if (inside) v = load_bytes(BYTES, call.at[0], from);
    store_bytes(BYTES, call.at[2], i, v);
}
