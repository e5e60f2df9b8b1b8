// curves.glsl - exp, tanh and the logistic function within 1e-7, and quotients and roots that are rounded once: the
// steps of lib/engine/cpu/isa/curves.h, so that both engines get the same bits.

#include "fused.glsl"

// a / b, rounded once to nearest even wherever quotient and remainder are normal numbers: a GPU may be off by two units.
// A CPU divides so by itself.
float quotient_of(float a, float b)
{
    if (FUSED == 0u) {
        precise float exact = a / b;
        return exact;
    }
    precise float q = a / b, y = 1.0 / b;
    if (q == 0.0 || isinf(q) || isnan(q) || isinf(y) || y == 0.0) return q;
    precise float e = fma(-b, y, 1.0);
    y = fma(y, e, y);
    e = fma(-q, b, a);
    q = fma(e, y, q);
    e = fma(-q, b, a);
    q = fma(e, y, q);
    return q;
}

// x (a + b), b being what a leaves out of a number, rounded once.
float times_both(float x, float a, float b)
{
    precise float y = x * a;
    if (b == 0.0 || isinf(y) || isnan(y)) return y;
    precise float rest = fused(x, a, -y);
    rest = fused(x, b, rest);
    y = y + rest;
    return y;
}

// 2^n for n from -126 to 127.
float two_to(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

const float MAGIC = 12582912.0; // 1.5 2^23 leaves the nearest whole number in the lowest bits

// x = n ln 2 + r: exp(r) - 1.
float expm1_reduced(float x, out int n)
{
    precise float t = fused(x, 1.44269504, MAGIC), whole = t - MAGIC;
    precise float r = fused(whole, -0.693359375, x);
    r = fused(whole, 2.12194440e-4, r);
    const float c[] = {1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5};
    precise float q = 1.0 / 5040.0;
    for (uint i = 0u; i < 5u; i++) q = fused(q, r, c[i]);
    n = floatBitsToInt(t) - floatBitsToInt(MAGIC);
    precise float square = r * r, e = fused(square, q, r);
    return e;
}

// exp of x <= 0 or NaN; 0 below -104.
float exp_below(float x)
{
    int n;
    precise float e = expm1_reduced(-104.0 > x ? -104.0 : x, n), y = 1.0 + e;
    int half_n = n >> 1;
    y = y * two_to(half_n);
    y = y * two_to(n - half_n);
    return y;
}

// Infinity above 88.73.
float quick_exp(float x) { return exp_below(89.0 < x ? 89.0 : x); }

float quick_tanh(float x)
{
    int n;
    precise float a = 10.0 < abs(x) ? 10.0 : abs(x);
    precise float m = expm1_reduced(a + a, n), scale = two_to(n), rest = scale - 1.0;
    precise float e = fused(m, scale, rest), below = e + 2.0;
    float t = quotient_of(e, below);
    return uintBitsToFloat(floatBitsToUint(t) | (floatBitsToUint(x) & 0x80000000u));
}

float quick_sigmoid(float x)
{
    precise float e = exp_below(0.0 - abs(x)), sum = 1.0 + e;
    return quotient_of((floatBitsToUint(x) & 0x80000000u) != 0u ? e : 1.0, sum);
}

float quick_silu(float x)
{
    precise float y = x * quick_sigmoid(x);
    return y;
}

float quick_gelu_tanh(float x)
{
    precise float square = x * x, u = fused(square, 0.044715 * 1.5957691, 1.5957691), v = x * u;
    precise float y = x * quick_sigmoid(v);
    return y;
}

// sum / K + eps as two numbers, eps as two; 1 / sqrt of that, as if it had been computed in f64.
float root_mean(float sum, float K, float eps, float eps_rest)
{
    precise float q = quotient_of(sum, K), left = fused(-q, K, sum), low = left / K;
    precise float s = q + eps, back = s - q, e = (q - (s - back)) + (eps - back);
    low = low + eps_rest + e;
    precise float top = s + low, lost = low - (top - s);
    precise float y = 1.0 / sqrt(top), p = y * y, pe = fused(y, y, -p);
    precise float a = top * p, ae = fused(top, p, -a);
    precise float h = (1.0 - a) - ae;
    h = h - top * pe;
    h = h - lost * p;
    precise float root = fused(0.5 * y, h, y);
    return isnan(root) || isinf(y) ? y : root;
}
