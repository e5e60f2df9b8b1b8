// scan.comp - running sums and products along an axis, a line a workgroup: every invocation has a stretch of it, whose
// whole the later ones begin with, so that one order holds on every device. Floats run as pairs, a long line's last entry
// being as good as its first. word: n, elements after the axis, lines, exclusive, reverse, the type.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "math.glsl"
#include "pairs.glsl"

layout(constant_id = 0) const uint PRODUCT = 0u;
layout(constant_id = 1) const uint WHOLE = 0u; // of integers
layout(local_size_x = 64) in;
shared uvec2 stretch[64];

// Of floats, an entry in two words: a pair, or f64.
#ifdef IN_F64
const uvec2 ONE = uvec2(0u, 0x3ff00000u);
uvec2 joined_floats(uvec2 a, uvec2 b)
{
    precise double x = packDouble2x32(a), y = packDouble2x32(b), z;
    if (PRODUCT != 0u)
        z = x * y;
    else
        z = x + y;
    return unpackDouble2x32(z);
}
uvec2 words_of(double v) { return unpackDouble2x32(v); }
double number_of(uvec2 v) { return packDouble2x32(v); }
#else
const uvec2 ONE = uvec2(0x3f800000u, 0u);
uvec2 joined_floats(uvec2 a, uvec2 b)
{
    vec2 x = uintBitsToFloat(a), y = uintBitsToFloat(b), z = PRODUCT != 0u ? mul_pairs(x, y) : add_pairs(x, y);
    // past the largest number, or of a NaN, the rest is none
    return floatBitsToUint(isinf(z.x) || isnan(z.y) ? vec2(PRODUCT != 0u ? x.x * y.x : x.x + y.x, 0.0) : z);
}
uvec2 words_of(float v) { return uvec2(floatBitsToUint(v), 0u); }
float number_of(uvec2 v) { return uintBitsToFloat(v.x); }
#endif

uvec2 first_value()
{
    if (PRODUCT == 0u) return uvec2(0u);
    if (WHOLE != 0u) return uvec2(1u, 0u);
    return ONE;
}

uvec2 joined(uvec2 a, uvec2 b)
{
    if (WHOLE == 0u) return joined_floats(a, b);
    return PRODUCT != 0u ? mul_whole(a, b) : add_whole(a, b);
}

uvec2 load_entry(uint i)
{
    return WHOLE != 0u ? load_whole(call.word[5], 0u, i) : words_of(get(0u, i));
}

void store_entry(uint i, uvec2 v)
{
    if (WHOLE != 0u)
        store_whole(call.word[5], 1u, i, v);
    else
        put(1u, i, number_of(v));
}

void main()
{
    uint line = row_of_group(), t = gl_LocalInvocationID.x, n = call.word[0], inner = call.word[1];
    if (line >= call.word[2]) return;
    uint each = (n + 63u) / 64u, begin = min(t * each, n), end = min(begin + each, n);
    uint origin = line / inner * n * inner + line % inner;
    uvec2 sum = first_value();
    for (uint i = begin; i < end; i++) sum = joined(sum, load_entry(origin + (call.word[4] != 0u ? n - 1u - i : i) * inner));
    stretch[t] = sum;
    barrier();
    sum = first_value();
    for (uint k = 0u; k < t && begin < n; k++) sum = joined(sum, stretch[k]);
    for (uint i = begin; i < end; i++) {
        uint at = origin + (call.word[4] != 0u ? n - 1u - i : i) * inner;
        uvec2 next = joined(sum, load_entry(at));
        store_entry(at, call.word[3] != 0u ? sum : next);
        sum = next;
    }
}
