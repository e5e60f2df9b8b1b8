// linear_bytes.comp - products of bytes (linear_int8.glsl) by products of integers, on devices without better ones.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

int dot_bytes(int a, int b)
{
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += bitfieldExtract(a, 8 * k, 8) * bitfieldExtract(b, 8 * k, 8);
    return sum;
}

void read_codes(Words x, uint at, out int q[16])
{
    for (uint i = 0u; i < 16u; i++) q[i] = int(x.v[at + i]);
}
int code_of(int q[16], uint i) { return q[i]; }

void read_factors(Words x, uint at, out uint factor[4])
{
    for (uint i = 0u; i < 4u; i++) factor[i] = x.v[at + i];
}
#include "linear_int8.glsl"
