// triangular.comp - one triangle of matrices, the rest 0. word: count, rows, columns, the diagonal, 1 where entries up to
// it stay, else 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"

layout(constant_id = 0) const uint BYTES = 4u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    int past = int(i % call.word[2]) - int(i / call.word[2] % call.word[1]);
    bool stays = call.word[4] != 0u ? past <= whole(3) : past >= whole(3);
    uvec2 v = uvec2(0u);
    if (stays) v = load_bytes(BYTES, call.at[0], i);
    store_bytes(BYTES, call.at[1], i, v);
}
