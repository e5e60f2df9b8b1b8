// order.glsl - numbers of any plain type as keys, 64-bit integers: a larger number has a larger key, and no number the
// key 0. Include values.glsl first.

bool is_nan_of(uint type, uvec2 bits)
{
    if (type == F64) return less_whole(uvec2(0u, 0x7ff00000u), uvec2(bits.x, bits.y & 0x7fffffffu), false);
    if (type > BF16) return false;
    uint infinity = type == F32 ? 0x7f800000u : type == F16 ? 0x7c00u : 0x7f80u;
    return (bits.x & (type == F32 ? 0x7fffffffu : 0x7fffu)) > infinity;
}

// Of floats the bits in the upper places: -0 is 0, and of negative ones all bits are changed.
uvec2 float_order(uint type, uvec2 bits)
{
    if (type != F64) bits = uvec2(0u, type == F32 ? bits.x : bits.x << 16);
    if (bits.x == 0u && bits.y == 0x80000000u) bits.y = 0u;
    return (bits.y & 0x80000000u) != 0u ? ~bits : uvec2(bits.x, bits.y | 0x80000000u);
}

// Element i of operand k, or with `largest` false what has the order turned round. NaN is larger than any number.
uvec2 order_at(uint type, uint k, uint i, bool largest)
{
    uvec2 bits = load_whole(type, k, i), key;
    if (type > BF16)
        key = is_signed(type) ? uvec2(bits.x, bits.y ^ 0x80000000u) : bits;
    else if (is_nan_of(type, bits))
        key = uvec2(0xffffffffu);
    else
        key = float_order(type, bits);
    return largest ? key : ~key;
}

struct Entry {
    uvec2 key;
    uint at; // 0xffffffff: none
};
const Entry NO_ENTRY = Entry(uvec2(0u), 0xffffffffu);

// Does a come first: with the larger key, of two that are equal the lower place?
bool comes_first(Entry a, Entry b) { return less_whole(b.key, a.key, false) || (a.key == b.key && a.at < b.at); }
