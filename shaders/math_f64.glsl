// math_f64.glsl - the functions of call.glsl and of math.glsl by the same names for twins, which compute in f64: each within
// a few units in the last place. call.glsl includes it.
#extension GL_EXT_control_flow_attributes : require

#define INFINITE     packDouble2x32(uvec2(0u, 0x7ff00000u))
#define NOT_A_NUMBER packDouble2x32(uvec2(0u, 0x7ff80000u))
const double LN2_HIGH = 6.93147180369123816490e-01LF, LN2_LOW = 1.90821492927058770002e-10LF; // of the first, the last 21 bits are 0
const double LN2 = 0.693147180559945309417LF;

uvec2 bits_of(double x) { return unpackDouble2x32(x); }
bool is_minus(double x) { return bits_of(x).y >> 31 != 0u; }
int exponent_of(double x) { return int(bits_of(x).y >> 20 & 2047u) - 1023; }
double power_of_two(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); } // k from -1022 to 1023

// ---- exponentials --------------------------------------------------------------------------------

// x = k ln 2 + r, |r| <= ln 2 / 2: of e^r what Taylor's polynomial of degree 13 leaves out is below 1e-17.
double exp_of(double x)
{
    if (isnan(x)) return x;
    if (x > 709.8LF) return INFINITE;
    if (x < -745.2LF) return 0.0LF;
    precise double k = roundEven(x * 1.44269504088896340736LF), r = x - k * LN2_HIGH, p = 1.0LF / 6227020800.0LF;
    r = r - k * LN2_LOW;
    p = fma(p, r, 1.0LF / 479001600.0LF);
    p = fma(p, r, 1.0LF / 39916800.0LF);
    p = fma(p, r, 1.0LF / 3628800.0LF);
    p = fma(p, r, 1.0LF / 362880.0LF);
    p = fma(p, r, 1.0LF / 40320.0LF);
    p = fma(p, r, 1.0LF / 5040.0LF);
    p = fma(p, r, 1.0LF / 720.0LF);
    p = fma(p, r, 1.0LF / 120.0LF);
    p = fma(p, r, 1.0LF / 24.0LF);
    p = fma(p, r, 1.0LF / 6.0LF);
    p = fma(p, r, 0.5LF);
    p = fma(p, r, 1.0LF);
    p = fma(p, r, 1.0LF);
    int n = int(k), half_n = n / 2;
    return p * power_of_two(half_n) * power_of_two(n - half_n);
}

// e^x - 1. Near 0: Taylor's series.
double expm1_of(double x)
{
    if (abs(x) > 0.35LF) return exp_of(x) - 1.0LF;
    precise double y = 1.0LF / 1307674368000.0LF;
    y = fma(y, x, 1.0LF / 87178291200.0LF);
    y = fma(y, x, 1.0LF / 6227020800.0LF);
    y = fma(y, x, 1.0LF / 479001600.0LF);
    y = fma(y, x, 1.0LF / 39916800.0LF);
    y = fma(y, x, 1.0LF / 3628800.0LF);
    y = fma(y, x, 1.0LF / 362880.0LF);
    y = fma(y, x, 1.0LF / 40320.0LF);
    y = fma(y, x, 1.0LF / 5040.0LF);
    y = fma(y, x, 1.0LF / 720.0LF);
    y = fma(y, x, 1.0LF / 120.0LF);
    y = fma(y, x, 1.0LF / 24.0LF);
    y = fma(y, x, 1.0LF / 6.0LF);
    y = fma(y, x, 0.5LF);
    return fma(y * x, x, x);
}

double sigmoid_of(double x) { return 1.0LF / (1.0LF + exp_of(-x)); }

double tanh_of(double x)
{
    precise double a = abs(x), e = expm1_of(2.0LF * a), y = e / (e + 2.0LF);
    if (isnan(x)) return x;
    if (a > 22.0LF) y = 1.0LF;
    return is_minus(x) ? -y : y;
}

// Below 3 the series of positive terms 2 / sqrt(pi) e^(-x^2) x (2 x^2)^n / (1 3 ... (2n + 1)); beyond, 1 less e^(-x^2)
// times the continued fraction of Laplace, from its 40th term.
double erf_of(double x)
{
    precise double a = abs(x), y = 1.0LF, f = a;
    if (isnan(x)) return x;
    if (a < 3.0LF) {
        precise double z = 2.0LF * x * x, t = 1.0LF;
        [[dont_unroll]] for (int n = 1; n <= 64; n++) {
            t = t * z / double(2 * n + 1);
            y += t;
        }
        return 1.12837916709551257390LF * x * y * exp_of(-x * x);
    }
    [[dont_unroll]] for (int n = 40; n >= 1; n--) f = a + 0.5LF * double(n) / f;
    y = 1.0LF - (a > 6.0LF ? 0.0LF : exp_of(-a * a) / (f * 1.77245385090551602730LF));
    return x < 0.0LF ? -y : y;
}

double gelu_tanh_of(double x)
{
    precise double u = 0.797884560802865355880LF * x * (1.0LF + 0.044715LF * x * x);
    return x * sigmoid_of(2.0LF * u);
}
double gelu_erf_of(double x) { return 0.5LF * x * (1.0LF + erf_of(x * 0.707106781186547524401LF)); }

// As curves.glsl names them; f64 has no shorter ones. And scale's factor, which f64 holds whole.
double quick_silu(double x) { return x * sigmoid_of(x); }
double quick_gelu_tanh(double x) { return gelu_tanh_of(x); }
double times_both(double x, double a, double b) { return x * a; }

// ---- logarithms and powers -----------------------------------------------------------------------

// x = m 2^e with m from sqrt(1/2) to sqrt(2), of a positive finite number.
double split_float(double x, out double e)
{
    e = 0.0LF;
    if (bits_of(x).y < 0x100000u) {
        x *= 18014398509481984.0LF;
        e = -54.0LF;
    }
    uvec2 u = bits_of(x);
    uint high = u.y & 0xfffffu;
    bool upper = high > 0x6a09eu;
    e += double(exponent_of(x) + (upper ? 1 : 0));
    return packDouble2x32(uvec2(u.x, high | (upper ? 0x3fe00000u : 0x3ff00000u)));
}

// log m = 2 s (1 + z / 3 + z^2 / 5 + ...) with s = (m - 1) / (m + 1), z = s^2 <= 0.0295: what is left out of the sum in
// brackets, less 1.
double log_tail(double z)
{
    precise double y = 1.0LF / 23.0LF;
    y = fma(y, z, 1.0LF / 21.0LF);
    y = fma(y, z, 1.0LF / 19.0LF);
    y = fma(y, z, 1.0LF / 17.0LF);
    y = fma(y, z, 1.0LF / 15.0LF);
    y = fma(y, z, 1.0LF / 13.0LF);
    y = fma(y, z, 1.0LF / 11.0LF);
    y = fma(y, z, 1.0LF / 9.0LF);
    y = fma(y, z, 1.0LF / 7.0LF);
    y = fma(y, z, 1.0LF / 5.0LF);
    return fma(y, z, 1.0LF / 3.0LF) * z;
}

double log_of(double x)
{
    if (isnan(x) || x < 0.0LF) return NOT_A_NUMBER;
    if (x == 0.0LF) return -INFINITE;
    if (isinf(x)) return x;
    double e, m = split_float(x, e);
    precise double f = m - 1.0LF, s = f / (2.0LF + f);
    precise double y = fma(2.0LF * s, log_tail(s * s), -s * f);
    y = fma(e, LN2_LOW, y) + f;
    return fma(e, LN2_HIGH, y);
}

// log(1 + x): what rounding 1 + x to u loses is made up for by x / (u - 1).
double log1p_of(double x)
{
    precise double u = 1.0LF + x, whole_part = u - 1.0LF;
    if (whole_part == 0.0LF || (isinf(u) && x > 0.0LF)) return x;
    precise double y = log_of(u) * (x / whole_part);
    return x < -1.0LF || isnan(x) ? NOT_A_NUMBER : y;
}

// log(1 + e^x)
double softplus_of(double x) { return (x > 0.0LF || isnan(x) ? x : 0.0LF) + log1p_of(exp_of(-abs(x))); }

double upper_half(double x)
{
    uvec2 u = bits_of(x);
    return packDouble2x32(uvec2(u.x & 0xf8000000u, u.y));
}

// a b - p, p being a b rounded: by halves of 26 bits, since a device may round twice in fma.
double product_rest(double a, double b, double p)
{
    double a_high = upper_half(a), b_high = upper_half(b);
    precise double a_low = a - a_high, b_low = b - b_high;
    precise double rest = a_high * b_high - p;
    rest = rest + a_high * b_low;
    rest = rest + a_low * b_high;
    rest = rest + a_low * b_low;
    return rest;
}

// a + b - s, s being a + b rounded.
double sum_rest(double a, double b, double s)
{
    precise double b_in = s - a, a_in = s - b_in, rest = (a - a_in) + (b - b_in);
    return rest;
}

// a^b of a > 0, not 1, by e^(b log a), the logarithm being the sum of two numbers.
double positive_power(double a, double b)
{
    double e, m = split_float(a, e);
    precise double d = m + 1.0LF, left = m - (d - 1.0LF), f = m - 1.0LF, s = f / d, back = s * d;
    precise double s_rest = ((f - back) - product_rest(s, d, back) - s * left) / d; // f / (m + 1) = s + s_rest
    precise double high = e * LN2_HIGH, s2 = 2.0LF * s, sum = high + s2;
    precise double low = sum_rest(high, s2, sum) + (e * LN2_LOW + (s2 * log_tail(s * s) + 2.0LF * s_rest));
    precise double log_a = sum + low, log_rest = low - (log_a - sum);
    precise double p = b * log_a;
    if (abs(p) > 800.0LF || isnan(p)) return p > 0.0LF ? INFINITE : 0.0LF;
    precise double p_rest = product_rest(b, log_a, p) + b * log_rest, y = exp_of(p), z = y + y * p_rest;
    return isinf(y) ? y : z;
}

double pow_of(double a, double b)
{
    double size = abs(a);
    bool whole_b = isinf(b) || floor(b) == b;
    bool odd = whole_b && abs(b) < 9007199254740992.0LF && floor(0.5LF * b) != 0.5LF * b;
    if (b == 0.0LF || a == 1.0LF) return 1.0LF;
    if (isnan(a) || isnan(b)) return NOT_A_NUMBER;
    if (a < 0.0LF && !isinf(a) && !whole_b) return NOT_A_NUMBER;
    double y;
    if (size == 1.0LF)
        y = 1.0LF;
    else if (size == 0.0LF || isinf(a) || isinf(b))
        y = (size > 1.0LF) == (b > 0.0LF) ? INFINITE : 0.0LF;
    else
        y = positive_power(size, b);
    return odd && is_minus(a) ? -y : y;
}

// ---- circular functions --------------------------------------------------------------------------

// 2 / pi: two words of zeros, and what follows its point.
const uint TWO_OVER_PI[40] = uint[40](
    0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
    0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u,
    0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu,
    0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
    0x1f8d5d08u, 0x56033046u, 0xfc7b6babu);

const uint ANGLE_WORDS = 6u; // of 2 / pi: 2^-192 of a quarter is below 2^-60 of the least rest of any number

// Of a > 2^20, the quarter of the circle that it is in and the rest, from -1/2 to 1/2 quarters, by Payne and Hanek: with
// a = m 2^at, of a 2 / pi only the bits below 4 matter, and so of 2 / pi only those below 2^(2 - at).
double far_angle(double a, out uint quarter)
{
    uvec2 u = bits_of(a), m = uvec2(u.x, u.y & 0xfffffu | 0x100000u);
    uint first = uint(exponent_of(a) - 52 + 62), word = first >> 5, bit = first & 31u, all[ANGLE_WORDS];
    for (uint k = 0u; k < ANGLE_WORDS; k++) all[k] = 0u;
    [[dont_unroll]] for (uint k = ANGLE_WORDS; k-- > 0u;) {
        uint high = TWO_OVER_PI[word + k], low = TWO_OVER_PI[word + k + 1u];
        uint part = bit == 0u ? high : high << bit | low >> (32u - bit);
        [[dont_unroll]] for (uint j = 0u; j < 2u && j <= k; j++) {
            uint upper, lower, carry, over;
            umulExtended(part, j == 0u ? m.x : m.y, upper, lower);
            all[k - j] = uaddCarry(all[k - j], lower, carry);
            if (k < j + 1u) continue;
            all[k - j - 1u] = uaddCarry(all[k - j - 1u], upper, over);
            uint next = uaddCarry(all[k - j - 1u], carry, carry);
            all[k - j - 1u] = next;
            over += carry;
            for (uint i = k - j - 1u; i-- > 0u && over != 0u;) all[i] = uaddCarry(all[i], over, over);
        }
    }
    quarter = all[0] >> 30;
    bool negative = (all[0] >> 29 & 1u) != 0u; // above one half: the next quarter less a rest
    if (negative) quarter++;
    precise double rest = 0.0LF;
    for (uint k = ANGLE_WORDS; k-- > 0u;) {
        uint part = all[k] << 2 | (k + 1u < ANGLE_WORDS ? all[k + 1u] >> 30 : 0u);
        rest = (rest + double(negative ? ~part : part)) * 2.32830643653869628906e-10LF;
    }
    return negative ? -rest : rest;
}

// x = quarter pi/2 + r, |r| little more than pi/4: by three parts of pi/2, of which the quarter times the first two
// is exact.
double angle_of(double x, out uint quarter)
{
    if (abs(x) > 1048576.0LF) {
        double part = far_angle(abs(x), quarter);
        if (x < 0.0LF) quarter = 0u - quarter;
        return 1.57079632679489661923LF * (x < 0.0LF ? -part : part);
    }
    precise double k = roundEven(x * 0.636619772367581343076LF);
    quarter = uint(int(k));
    precise double r = x - k * 1.57079632673412561417e+00LF;
    r = r - k * 6.07710050630396597660e-11LF;
    r = r - k * 2.02226624879595063154e-21LF;
    return r;
}

double near_sin(double r)
{
    precise double z = r * r, y = -1.0LF / 121645100408832000.0LF;
    y = fma(y, z, 1.0LF / 355687428096000.0LF);
    y = fma(y, z, -1.0LF / 1307674368000.0LF);
    y = fma(y, z, 1.0LF / 6227020800.0LF);
    y = fma(y, z, -1.0LF / 39916800.0LF);
    y = fma(y, z, 1.0LF / 362880.0LF);
    y = fma(y, z, -1.0LF / 5040.0LF);
    y = fma(y, z, 1.0LF / 120.0LF);
    y = fma(y, z, -1.0LF / 6.0LF);
    return fma(y * z, r, r);
}

double near_cos(double r)
{
    precise double z = r * r, y = -1.0LF / 6402373705728000.0LF;
    y = fma(y, z, 1.0LF / 20922789888000.0LF);
    y = fma(y, z, -1.0LF / 87178291200.0LF);
    y = fma(y, z, 1.0LF / 479001600.0LF);
    y = fma(y, z, -1.0LF / 3628800.0LF);
    y = fma(y, z, 1.0LF / 40320.0LF);
    y = fma(y, z, -1.0LF / 720.0LF);
    y = fma(y, z, 1.0LF / 24.0LF);
    y = fma(y, z, -0.5LF);
    return fma(y, z, 1.0LF);
}

// The sine of x + turn pi/2.
double turned_sin(double x, uint turn)
{
    uint quarter;
    if (isnan(x) || isinf(x)) return NOT_A_NUMBER;
    double r = angle_of(x, quarter);
    quarter += turn;
    double y = (quarter & 1u) != 0u ? near_cos(r) : near_sin(r);
    return (quarter & 2u) != 0u ? -y : y;
}

double sin_of(double x) { return turned_sin(x, 0u); }
double cos_of(double x) { return turned_sin(x, 1u); }

double tan_of(double x)
{
    uint quarter;
    if (isnan(x) || isinf(x)) return NOT_A_NUMBER;
    double r = angle_of(x, quarter);
    return (quarter & 1u) != 0u ? -near_cos(r) / near_sin(r) : near_sin(r) / near_cos(r);
}

// From tan(pi/8) to 1 by arctan t = pi/4 + arctan((t - 1) / (t + 1)), above it by pi/2 - arctan(1 / t).
double atan_of(double x)
{
    precise double a = abs(x), t = a > 1.0LF ? 1.0LF / a : a, base = 0.0LF, y = 0.0LF;
    if (t > 0.414213562373095LF) {
        t = (t - 1.0LF) / (t + 1.0LF);
        base = 0.785398163397448309616LF;
    }
    precise double z = t * t;
    [[dont_unroll]] for (int n = 22; n >= 1; n--) y = ((n & 1) != 0 ? -1.0LF : 1.0LF) / double(2 * n + 1) + y * z;
    y = fma(y * z, t, t);
    y = base + y;
    if (a > 1.0LF) y = 1.57079632679489661923LF - y;
    if (isnan(x)) return x;
    return x < 0.0LF ? -y : y;
}

double asin_of(double x)
{
    precise double d = (1.0LF - x) * (1.0LF + x);
    return abs(x) > 1.0LF ? NOT_A_NUMBER : atan_of(x / sqrt(d));
}
double acos_of(double x)
{
    precise double y = sqrt((1.0LF - x) / (1.0LF + x));
    return abs(x) > 1.0LF || isnan(x) ? NOT_A_NUMBER : 2.0LF * atan_of(y);
}

// ---- hyperbolic functions ------------------------------------------------------------------------

double sinh_of(double x)
{
    precise double a = abs(x), e = a < 700.0LF ? expm1_of(a) : exp_of(0.5LF * a), y;
    y = a < 700.0LF ? 0.5LF * (e + e / (e + 1.0LF)) : 0.5LF * e * e;
    return x < 0.0LF ? -y : y;
}

double cosh_of(double x)
{
    precise double a = abs(x), y = exp_of(a < 700.0LF ? a : 0.5LF * a);
    return a < 700.0LF ? 0.5LF * y + 0.5LF / y : 0.5LF * y * y;
}

double asinh_of(double x)
{
    precise double a = abs(x), z = a * a, y;
    if (isinf(x) || isnan(x)) return x;
    y = a > 1e9LF ? log_of(a) + LN2 : log1p_of(a + z / (1.0LF + sqrt(z + 1.0LF)));
    return x < 0.0LF ? -y : y;
}

double acosh_of(double x)
{
    precise double t = x - 1.0LF;
    if (x < 1.0LF || isnan(x)) return NOT_A_NUMBER;
    return x > 1e9LF ? log_of(x) + LN2 : log1p_of(t + sqrt(fma(t, t, 2.0LF * t)));
}

double atanh_of(double x)
{
    precise double a = abs(x), y = 0.5LF * log1p_of(2.0LF * a / (1.0LF - a));
    if (a >= 1.0LF || isnan(x)) return a == 1.0LF ? x * INFINITE : NOT_A_NUMBER;
    return x < 0.0LF ? -y : y;
}

// ---- remainders ----------------------------------------------------------------------------------

// The exponent of a positive finite number, also of a subnormal one.
int binary_exponent(double x) { return bits_of(x).y < 0x100000u ? exponent_of(x * 18014398509481984.0LF) - 54 : exponent_of(x); }

// a - b trunc(a / b), exactly: b times a power of two, from 0 to 2097, is taken off while there is one that fits, each time at
// least the highest bit.
double fmod_of(double a, double b)
{
    precise double rest = abs(a), by = abs(b);
    if (isnan(a) || isinf(a) || isnan(b) || by == 0.0LF) return NOT_A_NUMBER;
    if (isinf(b)) return a;
    int exponent = binary_exponent(by);
    for (uint turn = 0u; turn < 4096u && rest >= by; turn++) {
        int times = binary_exponent(rest) - exponent;
        precise double less = by * power_of_two(min(times, 1000)) * power_of_two(clamp(times - 1000, 0, 1000)) * power_of_two(max(times - 2000, 0));
        if (less > rest) less *= 0.5LF;
        rest -= less;
    }
    return is_minus(a) ? -rest : rest;
}

// With the sign of b.
double mod_of(double a, double b)
{
    precise double r = fmod_of(a, b);
    if (r == 0.0LF) return is_minus(b) ? -0.0LF : 0.0LF;
    return (r < 0.0LF) != (b < 0.0LF) && !isnan(r) ? r + b : r;
}
