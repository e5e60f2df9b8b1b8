// elementwise_blocks.comp - a cast from a block type to f32, 32 columns an invocation. word: parts of all rows, K, rows of a matrix
// of a stack.
#version 460
#extension GL_GOOGLE_include_directive : require
#define GRID_AT 5u
#include "call.glsl"
#include "weights.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u, K = call.word[1];
    if (i >= call.word[0]) return;
    uint parts = (K + 31u) / 32u, row = i / parts, part = i % parts;
    float v[32];
    part_of(row_of(call.at[0], row_in_stack(row / call.word[2], call.word[2], row % call.word[2]), K), part, v);
    for (uint k = 0u; k < 32u && part * 32u + k < K; k++) Floats(call.at[1]).v[row * K + part * 32u + k] = v[k];
}
