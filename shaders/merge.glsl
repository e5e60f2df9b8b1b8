// merge.glsl - what the ops at indices share: indices of i32 and i64, and what is done with an element that comes to a
// place. Include values.glsl first. Flags, from the second byte of word 5 on: is an index out of range an error, are
// indices i64, the type of x, how elements are merged,
// do f64 become f32, how many buckets there are.

uint flags() { return call.word[5]; }
bool fails() { return (flags() & 0x100u) != 0u; }
uint type_of_i() { return (flags() & 0x200u) != 0u ? I64 : I32; }
uint type_of_x() { return flags() >> 10 & 31u; }
uint how_merged() { return flags() >> 15 & 7u; }
bool narrows() { return (flags() & 0x40000u) != 0u; }
uint bucket_count() { return flags() >> 20; }

// The first index of the invocation that is out of range: a loop notes it, and the end of main reports it.
bool bad_found = false;
uvec2 bad_value;
uint bad_limit, bad_row, bad_part;

// Index number i of operand k, below n; false: it is out of range, which is an error of (row, part) where `report`.
bool index_at(uint k, uint i, uint n, bool report, uint row, uint part, out uint index)
{
    uvec2 v = load_whole(type_of_i(), k, i);
    bool good = v.y == 0u && v.x < n;
    if (!good && report && !bad_found) {
        bad_found = true;
        bad_value = v;
        bad_limit = n;
        bad_row = row;
        bad_part = part;
    }
    index = v.x;
    return good;
}

void report_bad_index()
{
    if (bad_found && fails()) trouble_wide(BAD_INDEX, bad_value, int(bad_limit), bad_row, bad_part);
}

// zt_vk_merge. NaN wins.
const uint PUT = 0u, ADD = 1u, TIMES = 2u, LARGER = 3u, SMALLER = 4u;

real merged(uint how, real a, real b)
{
    precise real y = a + b;
    if (how == TIMES) y = a * b;
    if (how == LARGER || how == SMALLER) {
        if (isnan(b) || isnan(a))
            y = isnan(b) ? b : a;
        else
            y = (how == LARGER) == (a > b) ? a : b;
    }
    return y;
}

uvec2 merged(uint how, uvec2 a, uvec2 b, bool sign)
{
    switch (how) {
    case ADD: return add_whole(a, b);
    case TIMES: return mul_whole(a, b);
    case LARGER: return less_whole(a, b, sign) ? b : a;
    }
    return less_whole(b, a, sign) ? b : a;
}

// Element `from` of operand 2 comes to place `to` of operand 3, which is f32, or of f64 itself, where floats are merged and not put.
void merge(uint to, uint from)
{
    uint type = type_of_x(), how = how_merged();
    if (how == PUT)
        store_bits(type, 3u, to, load_bits(type, 2u, from));
    else if (is_float(type))
        Reals(call.at[3]).v[to] = merged(how, Reals(call.at[3]).v[to], get_as(type - F32, 2u, from));
    else
        store_whole(type, 3u, to, merged(how, load_whole(type, 3u, to), load_whole(type, 2u, from), is_signed(type)));
}
