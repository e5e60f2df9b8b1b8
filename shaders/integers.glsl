// integers.glsl - whole numbers of 64 bits as two words, the low one first, with the same results on every
// device, whether or not it computes with such numbers itself. Narrower types are widened when they are
// loaded (values.glsl); sums, differences and products wrap.

bool is_zero(uvec2 a) { return (a.x | a.y) == 0u; }

uvec2 add_whole(uvec2 a, uvec2 b)
{
    uint carry, low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 sub_whole(uvec2 a, uvec2 b)
{
    uint borrow, low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}

uvec2 neg_whole(uvec2 a) { return sub_whole(uvec2(0u), a); }

uvec2 mul_whole(uvec2 a, uvec2 b)
{
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

// Is a < b? `sign`: of signed numbers.
bool less_whole(uvec2 a, uvec2 b, bool sign)
{
    uint flip = sign ? 0x80000000u : 0u;
    return a.y == b.y ? a.x < b.x : (a.y ^ flip) < (b.y ^ flip);
}

// n < 64.
uvec2 left_whole(uvec2 a, uint n)
{
    if (n == 0u) return a;
    return n < 32u ? uvec2(a.x << n, a.y << n | a.x >> (32u - n)) : uvec2(0u, a.x << (n - 32u));
}

uvec2 right_whole(uvec2 a, uint n)
{
    if (n == 0u) return a;
    return n < 32u ? uvec2(a.x >> n | a.y << (32u - n), a.y >> n) : uvec2(a.y >> (n - 32u), 0u);
}

// With the sign moved in.
uvec2 right_signed(uvec2 a, uint n)
{
    bool negative = int(a.y) < 0;
    uvec2 shifted = right_whole(negative ? ~a : a, n);
    return negative ? ~shifted : shifted;
}

// The place of the highest bit, -1 of 0.
int highest_bit(uvec2 a) { return a.y != 0u ? 32 + findMSB(a.y) : findMSB(a.x); }

// a / b of unsigned numbers, b not 0; bit by bit where they have more than 32 bits.
uvec2 divide_unsigned(uvec2 a, uvec2 b, out uvec2 rest)
{
    if ((a.y | b.y) == 0u) {
        uint q = a.x / b.x;
        rest = uvec2(a.x - q * b.x, 0u);
        return uvec2(q, 0u);
    }
    uvec2 q = uvec2(0u);
    rest = uvec2(0u);
    for (int i = highest_bit(a); i >= 0; i--) {
        bool over = rest.y >> 31 != 0u;
        rest = left_whole(rest, 1u);
        rest.x |= right_whole(a, uint(i)).x & 1u;
        q = left_whole(q, 1u);
        if (over || !less_whole(rest, b, false)) {
            rest = sub_whole(rest, b);
            q.x |= 1u;
        }
    }
    return q;
}

uvec2 magnitude_of(uvec2 a, bool sign) { return sign && int(a.y) < 0 ? neg_whole(a) : a; }

// Towards zero, and what that leaves, with a's sign; of 0: 0.
uvec2 divide_whole(uvec2 a, uvec2 b, bool sign, out uvec2 rest)
{
    rest = uvec2(0u);
    if (is_zero(b)) return uvec2(0u);
    uvec2 q = divide_unsigned(magnitude_of(a, sign), magnitude_of(b, sign), rest);
    if (sign && int(a.y) < 0) rest = neg_whole(rest);
    return sign && int(a.y ^ b.y) < 0 ? neg_whole(q) : q;
}

// By squares; 0^0 is 1.
uvec2 power_whole(uvec2 a, uvec2 b)
{
    uvec2 y = uvec2(1u, 0u);
    for (; !is_zero(b); b = right_whole(b, 1u)) {
        if ((b.x & 1u) != 0u) y = mul_whole(y, a);
        a = mul_whole(a, a);
    }
    return y;
}
