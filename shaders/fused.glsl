// fused.glsl - a b + c rounded once. GPUs have an instruction for that; drivers that run on a CPU may round twice (Mesa's
// llvmpipe does), and then it is made of sums and products that are exact.
#ifndef FUSED_GLSL
#define FUSED_GLSL
layout(constant_id = 7) const uint FUSED = 0u; // fma rounds once; set for every pipeline

float fused(float a, float b, float c)
{
    if (FUSED != 0u) {
        precise float once = fma(a, b, c);
        return once;
    }
    precise float p = a * b, s = p + c;
    if (isnan(s) || isinf(s)) return s;
    // p + e = a b: of halves of 12 bits all products are exact (Dekker).
    float a_high = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    precise float a_low = a - a_high, b_low = b - b_high, e = a_high * b_high - p;
    e = e + a_high * b_low;
    e = e + a_low * b_high;
    e = e + a_low * b_low;
    // s + t = p + c, and v + r = t + e; v is rounded to odd, so that s + v is rounded as if it were exact.
    precise float back = s - p, t = (p - (s - back)) + (c - back);
    precise float v = t + e, own = v - t, r = (t - (v - own)) + (e - own);
    uint bits = floatBitsToUint(v);
    if (r != 0.0 && (bits & 1u) == 0u) bits = (r > 0.0) == (v > 0.0) ? bits + 1u : bits - 1u;
    precise float y = s + uintBitsToFloat(bits);
    return y;
}
#endif
