// pool_max.comp - the largest element of each window, and its index in its plane. The first of equal
// ones stays; a NaN is above all. Of any plain type, whose bits are copied. Operands: x, the window's table,
// y, i. word: windows.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#define WINDOW_AT 1u
#include "window.glsl"

layout(constant_id = 0) const uint TYPE = F32;
layout(local_size_x = 64) in;

bool is_nan(uvec2 x)
{
    if (TYPE == F64) return less_whole(uvec2(0u, 0x7ff00000u), uvec2(x.x, x.y & 0x7fffffffu), false);
    return isnan(bits_to_float(TYPE, x));
}

// f64 as a whole number of the same order, of which both zeros are 0.
uvec2 order_of(uvec2 x)
{
    uvec2 size = uvec2(x.x, x.y & 0x7fffffffu);
    return int(x.y) < 0 ? neg_whole(size) : size;
}

// Is x above top?
bool is_larger(uvec2 x, uvec2 top)
{
    if (!is_float(TYPE)) return less_whole(wrap_whole(TYPE, top), wrap_whole(TYPE, x), is_signed(TYPE));
    if (is_nan(x) || is_nan(top)) return is_nan(x) && !is_nan(top);
    if (TYPE == F64) return less_whole(order_of(top), order_of(x), true);
    return bits_to_float(TYPE, x) > bits_to_float(TYPE, top);
}

// Of a window of nothing: minus infinity, or the least integer.
uvec2 least()
{
    uint sign = 1u << (8u * bytes_of(TYPE) - 1u & 31u);
    if (TYPE == F64) return uvec2(0u, 0xfff00000u);
    if (is_float(TYPE)) return float_to_bits(TYPE, uintBitsToFloat(0xff800000u));
    return !is_signed(TYPE) ? uvec2(0u) : TYPE == I64 ? uvec2(0u, sign) : uvec2(sign, 0u);
}

void main()
{
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (e >= call.word[0]) return;
    uint o = e % n_small(), plane = e / n_small() * n_large(), taps = tap_count();
    Start start = start_of_small(o);
    uvec2 top = least();
    int best = -1;
    for (uint tap = 0u; tap < taps; tap++) {
        int i = large_at(start, tap);
        if (i < 0) continue;
        uvec2 x = load_bits(TYPE, 0u, plane + uint(i));
        if (best >= 0 && !is_larger(x, top)) continue;
        best = i;
        top = x;
    }
    if (there(2u)) store_bits(TYPE, 2u, e, top);
    if (there(3u)) Ints(call.at[3]).v[e] = best;
}
