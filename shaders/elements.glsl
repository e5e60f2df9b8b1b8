// elements.glsl - functions of integers, tests, casts: of elements of any plain type, as the bits that values.glsl
// loads. Numbers of functions are those of the lists in lib/engine/vulkan/elementwise.c. Include values.glsl first.


// Kinds of ops, as in elementwise.c; the last two are of floats and pointwise_values.comp's alone.
const uint ONE_INTEGER = 0u, TWO_INTEGERS = 1u, TEST_OF = 2u, WHERE = 3u, CAST = 4u, FILL = 5u, FLOAT = 6u, TWO_FLOATS = 7u;

// ---- integers ------------------------------------------------------------------------------------

// Of 64 bits, of which the type keeps the low ones; by: scale's factor.
uvec2 of_integer(uint f, bool sign, uvec2 a, uvec2 by)
{
    bool negative = sign && int(a.y) < 0;
    switch (f) {
    case 0u: return neg_whole(a);
    case 1u: return magnitude_of(a, sign);
    case 2u: return negative ? uvec2(0xffffffffu) : uvec2(is_zero(a) ? 0u : 1u, 0u);
    case 3u: return mul_whole(a, a);
    case 4u: return negative ? uvec2(0u) : a;
    case 5u: return ~a;
    case 6u: return mul_whole(a, by);
    }
    return a;
}

// Whether b shifts none of a type's bits out completely.
bool shifts(uint type, uvec2 b) { return b.y == 0u && b.x < 8u * bytes_of(type); }

uvec2 of_integers(uint f, uint type, uvec2 a, uvec2 b)
{
    bool sign = is_signed(type);
    uvec2 rest;
    switch (f) {
    case 0u: return add_whole(a, b);
    case 1u: return sub_whole(a, b);
    case 2u: return mul_whole(a, b);
    case 3u: return divide_whole(a, b, sign, rest);
    case 4u:
        divide_whole(a, b, sign, rest);
        return sign && !is_zero(rest) && int(rest.y ^ b.y) < 0 ? add_whole(rest, b) : rest;
    case 5u: divide_whole(a, b, sign, rest); return rest;
    case 6u: return less_whole(b, a, sign) ? a : b;
    case 7u: return less_whole(a, b, sign) ? a : b;
    case 8u: return sign && int(b.y) < 0 ? uvec2(0u) : power_whole(a, b);
    case 9u: return a & b;
    case 10u: return a | b;
    case 11u: return a ^ b;
    case 12u: return shifts(type, b) ? left_whole(a, b.x) : uvec2(0u);
    case 13u:
        if (sign) return right_signed(a, shifts(type, b) ? b.x : 63u);
        return shifts(type, b) ? right_whole(a, b.x) : uvec2(0u);
    }
    return a;
}

// The errors that element i of a function of two integers has.
void report_integers(uint f, uint type, uvec2 b, uint i)
{
    if (f >= 3u && f <= 5u && is_zero(b)) trouble(BAD_DIVISION, 0, -1, i, 0u);
    if (f == 8u && is_signed(type) && int(b.y) < 0) trouble(BAD_EXPONENT, int(b.x), -1, i, 0u);
}

// ---- tests ---------------------------------------------------------------------------------------

// An element as a number of 64 bits that has its order: of a float its bits, below 0 negated.
uvec2 order_of(uint type, uvec2 bits, out bool sign, out uvec2 infinite)
{
    sign = is_float(type) || is_signed(type);
    infinite = uvec2(0xffffffffu, 0x7fffffffu);
    if (!is_float(type)) return wrap_whole(type, bits);
    if (type >= F8_E4M3) {
        bits = uvec2(floatBitsToUint(small_to_float(type, bits.x)), 0u);
        type = F32;
    }
    infinite = type == F64 ? uvec2(0u, 0x7ff00000u) : uvec2(type == F32 ? 0x7f800000u : type == F16 ? 0x7c00u : 0x7f80u, 0u);
    uint top = 8u * bytes_of(type) - 1u;
    uvec2 high = left_whole(uvec2(1u, 0u), top);
    return is_zero(bits & high) ? bits : neg_whole(bits & ~high);
}

bool is_nan_of(uvec2 order, uvec2 infinite) { return less_whole(infinite, magnitude_of(order, true), false); }

bool not_zero(uint type, uvec2 bits)
{
    bool sign;
    uvec2 infinite;
    return !is_zero(order_of(type, bits, sign, infinite));
}

// ends: of isinf, whether an infinity below and above 0 counts.
bool test(uint f, uint type, uvec2 a, uvec2 b, uvec2 ends)
{
    bool sign;
    uvec2 infinite, x = order_of(type, a, sign, infinite), y = order_of(type, b, sign, infinite);
    bool nan_x = is_float(type) && is_nan_of(x, infinite), nan = nan_x || (is_float(type) && is_nan_of(y, infinite));
    switch (f) {
    case 0u: return !nan && x == y;
    case 1u: return nan || x != y;
    case 2u: return !nan && less_whole(x, y, sign);
    case 3u: return !nan && !less_whole(y, x, sign);
    case 4u: return !nan && less_whole(y, x, sign);
    case 5u: return !nan && !less_whole(x, y, sign);
    case 6u: return !is_zero(x) && !is_zero(y);
    case 7u: return !is_zero(x) || !is_zero(y);
    case 8u: return is_zero(x) != is_zero(y);
    case 9u: return is_zero(x);
    case 10u: return nan_x;
    case 11u: return magnitude_of(x, true) == infinite && (int(x.y) < 0 ? ends.x : ends.y) != 0u;
    case 12u: return less_whole(magnitude_of(x, true), infinite, false);
    }
    return false;
}

// ---- casts ---------------------------------------------------------------------------------------

// What is too large for a float of one byte becomes the largest.
float cut_small(uint type, float f, bool saturate)
{
    if (!saturate || type < F8_E4M3 || isnan(f)) return f;
    float most = small_to_float(type, small_of(type).most);
    return f > most ? most : f < -most ? -most : f;
}

uvec2 cast_bits(uint from, uint to, uvec2 bits, bool saturate)
{
    bool odd = to > F32; // it is rounded once more
    if (!is_float(to)) {
        if (from == F64) return double_to_whole(to, bits);
        return is_float(from) ? to_whole(to, bits_to_float(from, bits)) : wrap_whole(to, wrap_whole(from, bits));
    }
    if (is_float(from)) {
        if (from == F64 && to == F64) return bits;
        float f = from == F64 ? double_to_float(bits, odd) : bits_to_float(from, bits);
        return float_to_bits(to, cut_small(to, f, saturate));
    }
    uvec2 v = wrap_whole(from, bits);
    if (to == F64) return whole_to_double(v, is_signed(from));
    return float_to_bits(to, cut_small(to, whole_to_float(v, is_signed(from), odd), saturate));
}

// ---- ops -----------------------------------------------------------------------------------------

// Element i of an op of one value or two, but where; more: what the op's attributes are in two words.
uvec2 element_of(uint kind, uint f, uint type, uint to, uvec2 a, uvec2 b, uvec2 more, uint i)
{
    uvec2 y = more;
    if (kind == ONE_INTEGER) y = of_integer(f, is_signed(type), wrap_whole(type, a), more);
    if (kind == TWO_INTEGERS) {
        b = wrap_whole(type, b);
        report_integers(f, type, b, i);
        y = of_integers(f, type, wrap_whole(type, a), b);
    }
    if (kind == TEST_OF) y = uvec2(test(f, type, a, b, more) ? 1u : 0u, 0u);
    if (kind == CAST) y = cast_bits(type, to, a, more.x != 0u);
    return y;
}
