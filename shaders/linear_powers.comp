// linear_powers.comp - of each row of a block type that has codes the power of two by which its scales are integers of 15
// bits (put_powers of lib/engine/cpu/pack.c); NaN where one is not finite. One row an invocation. w -> powers. word: M, K.
#version 460
#extension GL_GOOGLE_include_directive : require
#define PACKED_BLOCKS
#include "call.glsl"
#include "weights.glsl"

layout(local_size_x = 64) in;

uint size_of(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

float power_of_top(float top)
{
    if (isnan(top) || isinf(top)) return uintBitsToFloat(0x7fc00000u);
    if (top <= 0.0) return 1.0;
    int exponent = int(floatBitsToUint(top) >> 23) - 126, up = exponent < 15 - 126 ? 126 : 15 - exponent;
    float power = uintBitsToFloat(uint(up + 127) << 23);
    precise float most = roundEven(top * power);
    return most > 32767.0 ? power * 0.5 : power;
}

void main()
{
    uint m = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (m >= call.word[0]) return;
    Row w = row_of(call.at[0], m, call.word[1]);
    uint scale_top = 0u, least_top = 0u;
    const uint step = LARGE ? 8u : 1u; // the floats of a large block are its head's
    for (uint part = 0u; part * 32u < call.word[1]; part += step) {
        Scales s = scales_of(w, part);
        scale_top = max(scale_top, size_of(s.d[0]));
        if (TYPE == NVFP4) scale_top = max(scale_top, size_of(s.d[1]));
        if (MINIMA) least_top = max(least_top, size_of(s.m[0]));
    }
    precise float scale = uintBitsToFloat(scale_top), least = 0.0;
    if (MINIMA) {
        least = scale * float(MIDDLE);
        least = uintBitsToFloat(least_top) + least;
        least = least / float(1u << least_shift());
    }
    const float times = float(1 << SCALE_BITS);
    precise float top = isnan(scale + least) ? scale + least : max(scale, least) * times;
    Floats(call.at[1]).v[m] = power_of_top(top);
}
