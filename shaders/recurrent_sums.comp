// recurrent_sums.comp - y[j] = the sum over rows of a[row,j] b[row,j], or of a alone. Operands: a, b or
// none, y. word: columns, rows, elements of a and of b from row to row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint j = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (j >= call.word[0]) return;
    precise float sum = 0.0;
    for (uint row = 0u; row < call.word[1]; row++) {
        float a = Floats(call.at[0]).v[row * call.word[2] + j];
        if (there(1u))
            sum = fma(a, Floats(call.at[1]).v[row * call.word[3] + j], sum);
        else
            sum += a;
    }
    Floats(call.at[2]).v[j] = sum;
}
