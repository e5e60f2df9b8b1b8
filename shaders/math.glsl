// math.glsl - logarithms, powers, circular and hyperbolic functions of f32, each within a few units in the last
// place, written out in exactly rounded steps as those of call.glsl are. Include call.glsl first. Those of f64 are in
// math_f64.glsl, which twins have instead.
#ifndef IN_F64

#define INFINITE     uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)
const float LN2_HIGH = 0.693359375, LN2_LOW = -2.12194440e-4;

// ---- logarithms and powers -----------------------------------------------------------------------

// x = m 2^e with m from sqrt(1/2) to sqrt(2), of a positive finite number.
float split_float(float x, out float e)
{
    e = 0.0;
    if (x < 1.17549435e-38) {
        x *= 8388608.0;
        e = -23.0;
    }
    uint u = floatBitsToUint(x), low = u & 0x7fffffu;
    bool upper = low > 0x3504f3u;
    e += float(int(u >> 23) - 127 + (upper ? 1 : 0));
    return uintBitsToFloat(low | (upper ? 0x3f000000u : 0x3f800000u));
}

// log m = 2 s (1 + z / 3 + z^2 / 5 + ...) with s = (m - 1) / (m + 1), z = s^2 <= 0.0295: what is left out of
// the sum in brackets, less 1.
float log_tail(float z)
{
    precise float y = 1.0 / 13.0;
    y = fma(y, z, 1.0 / 11.0);
    y = fma(y, z, 1.0 / 9.0);
    y = fma(y, z, 1.0 / 7.0);
    y = fma(y, z, 1.0 / 5.0);
    return fma(y, z, 1.0 / 3.0) * z;
}

float log_of(float x)
{
    if (isnan(x) || x < 0.0) return NOT_A_NUMBER;
    if (x == 0.0) return -INFINITE;
    if (isinf(x)) return x;
    float e, m = split_float(x, e);
    precise float f = m - 1.0, s = f / (2.0 + f);
    // 2 s = f - s f, of which f is exact
    precise float y = fma(2.0 * s, log_tail(s * s), -s * f);
    y = fma(e, LN2_LOW, y) + f;
    return fma(e, LN2_HIGH, y);
}

// log(1 + x): what rounding 1 + x to u loses is made up for by x / (u - 1).
float log1p_of(float x)
{
    precise float u = 1.0 + x, whole = u - 1.0;
    if (whole == 0.0 || (isinf(u) && x > 0.0)) return x;
    precise float y = log_of(u) * (x / whole);
    return x < -1.0 || isnan(x) ? NOT_A_NUMBER : y;
}

// e^x - 1. Near 0: Taylor's series.
float expm1_of(float x)
{
    if (abs(x) > 0.35) return exp_of(x) - 1.0;
    precise float y = 1.0 / 40320.0;
    y = fma(y, x, 1.0 / 5040.0);
    y = fma(y, x, 1.0 / 720.0);
    y = fma(y, x, 1.0 / 120.0);
    y = fma(y, x, 1.0 / 24.0);
    y = fma(y, x, 1.0 / 6.0);
    y = fma(y, x, 0.5);
    return fma(y * x, x, x);
}

// log(1 + e^x)
float softplus_of(float x) { return (x > 0.0 || isnan(x) ? x : 0.0) + log1p_of(exp_of(-abs(x))); }

// a b - p, p being a b rounded: by halves of 12 bits, since a device may round twice in fma.
float product_rest(float a, float b, float p)
{
    float a_high = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    precise float a_low = a - a_high, b_low = b - b_high;
    precise float rest = a_high * b_high - p;
    rest = rest + a_high * b_low;
    rest = rest + a_low * b_high;
    rest = rest + a_low * b_low;
    return rest;
}

// a + b - s, s being a + b rounded.
float sum_rest(float a, float b, float s)
{
    precise float b_in = s - a, a_in = s - b_in, rest = (a - a_in) + (b - b_in);
    return rest;
}

// a^b of a > 0, not 1, by e^(b log a), the logarithm being the sum of two floats.
float positive_power(float a, float b)
{
    float e, m = split_float(a, e);
    precise float d = m + 1.0, left = m - (d - 1.0), f = m - 1.0, s = f / d, back = s * d;
    precise float s_rest = ((f - back) - product_rest(s, d, back) - s * left) / d; // f / (m + 1) = s + s_rest
    precise float high = e * LN2_HIGH, s2 = 2.0 * s, sum = high + s2;
    precise float low = sum_rest(high, s2, sum) + (e * LN2_LOW + (s2 * log_tail(s * s) + 2.0 * s_rest));
    precise float log_a = sum + low, log_rest = low - (log_a - sum);
    precise float p = b * log_a, p_rest = product_rest(b, log_a, p) + b * log_rest;
    precise float y = exp_of(p), z = y + y * p_rest;
    return isinf(y) || isinf(p) ? y : z;
}

float pow_of(float a, float b)
{
    float size = abs(a);
    bool whole = isinf(b) || floor(b) == b, odd = whole && abs(b) < 16777216.0 && fract(0.5 * b) != 0.0;
    if (b == 0.0 || a == 1.0) return 1.0;
    if (isnan(a) || isnan(b)) return NOT_A_NUMBER;
    if (a < 0.0 && !isinf(a) && !whole) return NOT_A_NUMBER;
    float y;
    if (size == 1.0)
        y = 1.0;
    else if (size == 0.0 || isinf(a) || isinf(b))
        y = (size > 1.0) == (b > 0.0) ? INFINITE : 0.0;
    else
        y = positive_power(size, b);
    return odd && floatBitsToUint(a) >> 31 != 0u ? -y : y;
}

// ---- circular functions --------------------------------------------------------------------------

// 2 / pi: a word of zeros, and what follows its point.
const uint TWO_OVER_PI[8] = uint[8](0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
                                    0xfe5163abu);

// Of a > 2^7, the quarter of the circle it is in and the rest, from -1/2 to 1/2 quarters, by Payne and Hanek: with
// a = m 2^at, of a 2 / pi only the bits below 4 matter, and so of 2 / pi only those below 2^(2 - at).
float far_angle(float a, out uint quarter)
{
    uint u = floatBitsToUint(a), m = u & 0x7fffffu | 0x800000u, first = (u >> 23) - 120u; // at + 30
    uint word = first >> 5, bit = first & 31u, part[3];
    for (uint k = 0u; k < 3u; k++) {
        uint high = TWO_OVER_PI[word + k], low = TWO_OVER_PI[word + k + 1u];
        part[k] = bit == 0u ? high : high << bit | low >> (32u - bit);
    }
    uint h0, l0, h1, l1, h2, l2, carry, over, over2; // m times these 96 bits; the point is 2 bits into `middle`
    umulExtended(m, part[0], h0, l0);
    umulExtended(m, part[1], h1, l1);
    umulExtended(m, part[2], h2, l2);
    uint low = uaddCarry(l1, h2, carry), middle = uaddCarry(uaddCarry(l0, h1, over), carry, over2);
    quarter = (h0 + over + over2) << 2 | middle >> 30;
    uint head = middle << 2 | low >> 30, tail = low << 2;
    bool negative = head >> 31 != 0u; // above one half: the next quarter less a rest
    if (negative) {
        quarter++;
        head = ~head;
        tail = ~tail;
    }
    int lead = max(findMSB(head), 0); // no float is nearer to a multiple of pi/2 than 2^-30
    uint kept = lead == 31 ? head : head << (31 - lead) | tail >> (lead + 1);
    float rest = float(kept >> 8) * uintBitsToFloat(uint(lead + 72) << 23);
    return negative ? -rest : rest;
}

// x = quarter pi/2 + r, |r| little more than pi/4: by three parts of pi/2, of which the quarter times the first two
// is exact.
float angle_of(float x, out uint quarter)
{
    if (abs(x) > 128.0) {
        float part = far_angle(abs(x), quarter);
        if (x < 0.0) quarter = 0u - quarter;
        return 1.57079632679 * (x < 0.0 ? -part : part);
    }
    precise float k = roundEven(x * 0.63661977236758134);
    quarter = uint(int(k));
    precise float r = x - k * 1.5703125;
    r = r - k * 4.83751296997070312e-4;
    r = r - k * 7.54978995489188216e-8;
    return r;
}

float near_sin(float r)
{
    precise float z = r * r, y = 1.0 / 362880.0;
    y = fma(y, z, -1.0 / 5040.0);
    y = fma(y, z, 1.0 / 120.0);
    y = fma(y, z, -1.0 / 6.0);
    return fma(y * z, r, r);
}

float near_cos(float r)
{
    precise float z = r * r, y = -1.0 / 3628800.0;
    y = fma(y, z, 1.0 / 40320.0);
    y = fma(y, z, -1.0 / 720.0);
    y = fma(y, z, 1.0 / 24.0);
    y = fma(y, z, -0.5);
    return fma(y, z, 1.0);
}

// The sine of x + turn pi/2.
float turned_sin(float x, uint turn)
{
    uint quarter;
    if (isnan(x) || isinf(x)) return NOT_A_NUMBER;
    float r = angle_of(x, quarter);
    quarter += turn;
    float y = (quarter & 1u) != 0u ? near_cos(r) : near_sin(r);
    return (quarter & 2u) != 0u ? -y : y;
}

float sin_of(float x) { return turned_sin(x, 0u); }
float cos_of(float x) { return turned_sin(x, 1u); }

float tan_of(float x)
{
    uint quarter;
    if (isnan(x) || isinf(x)) return NOT_A_NUMBER;
    float r = angle_of(x, quarter);
    return (quarter & 1u) != 0u ? -near_cos(r) / near_sin(r) : near_sin(r) / near_cos(r);
}

// From tan(pi/8) to 1 by arctan t = pi/4 + arctan((t - 1) / (t + 1)), above it by pi/2 - arctan(1 / t).
float atan_of(float x)
{
    precise float a = abs(x), t = a > 1.0 ? 1.0 / a : a, base = 0.0, rest = 0.0;
    if (t > 0.41421356) {
        t = (t - 1.0) / (t + 1.0);
        base = 0.785398163397448310;
        rest = -2.18556950e-8; // pi/4 - base
    }
    precise float z = t * t, y = 1.0 / 21.0;
    y = fma(y, z, -1.0 / 19.0);
    y = fma(y, z, 1.0 / 17.0);
    y = fma(y, z, -1.0 / 15.0);
    y = fma(y, z, 1.0 / 13.0);
    y = fma(y, z, -1.0 / 11.0);
    y = fma(y, z, 1.0 / 9.0);
    y = fma(y, z, -1.0 / 7.0);
    y = fma(y, z, 1.0 / 5.0);
    y = fma(y, z, -1.0 / 3.0);
    y = fma(y * z, t, t);
    if (a > 1.0) {
        y = 1.57079637050628662 - base + (-4.37113900e-8 - rest - y);
        return x < 0.0 ? -y : y;
    }
    y = base + (rest + y);
    return x < 0.0 ? -y : y;
}

float asin_of(float x)
{
    precise float d = (1.0 - x) * (1.0 + x);
    return abs(x) > 1.0 ? NOT_A_NUMBER : atan_of(x / sqrt(d));
}
float acos_of(float x)
{
    precise float y = sqrt((1.0 - x) / (1.0 + x));
    return abs(x) > 1.0 || isnan(x) ? NOT_A_NUMBER : 2.0 * atan_of(y);
}

// ---- hyperbolic functions ------------------------------------------------------------------------

float sinh_of(float x)
{
    precise float a = abs(x), z = x * x, y = 1.0 / 362880.0;
    if (a < 0.7) {
        y = fma(y, z, 1.0 / 5040.0);
        y = fma(y, z, 1.0 / 120.0);
        y = fma(y, z, 1.0 / 6.0);
        return fma(y * z, x, x);
    }
    y = exp_of(a < 80.0 ? a : 0.5 * a);
    y = a < 80.0 ? 0.5 * y - 0.5 / y : 0.5 * y * y;
    return x < 0.0 ? -y : y;
}

float cosh_of(float x)
{
    precise float a = abs(x), y = exp_of(a < 80.0 ? a : 0.5 * a);
    return a < 80.0 ? 0.5 * y + 0.5 / y : 0.5 * y * y;
}

float asinh_of(float x)
{
    precise float a = abs(x), z = a * a, y;
    if (isinf(x) || isnan(x)) return x;
    y = a > 1e8 ? log_of(a) + 0.69314718 : log1p_of(a + z / (1.0 + sqrt(z + 1.0)));
    return x < 0.0 ? -y : y;
}

float acosh_of(float x)
{
    precise float t = x - 1.0;
    if (x < 1.0 || isnan(x)) return NOT_A_NUMBER;
    return x > 1e8 ? log_of(x) + 0.69314718 : log1p_of(t + sqrt(fma(t, t, 2.0 * t)));
}

float atanh_of(float x)
{
    precise float a = abs(x), y = 0.5 * log1p_of(2.0 * a / (1.0 - a));
    if (a >= 1.0 || isnan(x)) return a == 1.0 ? x * INFINITE : NOT_A_NUMBER;
    return x < 0.0 ? -y : y;
}

// ---- remainders ----------------------------------------------------------------------------------

// a - b trunc(a / b), exactly: by whole numbers, eight bits of the quotient at a time.
float fmod_of(float a, float b)
{
    uint u = floatBitsToUint(a), sign = u & 0x80000000u, v = floatBitsToUint(b) & 0x7fffffffu;
    u &= 0x7fffffffu;
    if (u >= 0x7f800000u || v > 0x7f800000u || v == 0u) return NOT_A_NUMBER;
    if (u < v) return a;
    int ea = int(max(u >> 23, 1u)), eb = int(max(v >> 23, 1u));
    uint rest = u & 0x7fffffu | (u >> 23 != 0u ? 0x800000u : 0u), by = v & 0x7fffffu | (v >> 23 != 0u ? 0x800000u : 0u);
    rest %= by;
    for (int n = ea - eb; n > 0; n -= 8) rest = (rest << min(n, 8)) % by;
    if (rest == 0u) return uintBitsToFloat(sign);
    int up = 23 - findMSB(rest), e = eb - up;
    if (e > 0) return uintBitsToFloat(sign | (rest << up) - 0x800000u + (uint(e) << 23));
    return uintBitsToFloat(sign | rest << (eb - 1));
}

// With the sign of b.
float mod_of(float a, float b)
{
    precise float r = fmod_of(a, b);
    if (r == 0.0) return uintBitsToFloat(floatBitsToUint(b) & 0x80000000u);
    return (r < 0.0) != (b < 0.0) && !isnan(r) ? r + b : r;
}
#endif
