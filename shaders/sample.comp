// sample.comp - op sample_token: a workgroup a row.
//
// Every entry has a key of 56 bits: its value as an integer of the same order, below that its place turned round; keys are
// all different, so best first is one order. What is cut, and what is drawn, is the key at which the keys from the best on
// have so much: so many of them, or so much weight. It is found digit by digit. Weights are multiples of 2^-40, so that
// their sums are exact and the same whatever their order. Mostly few entries are left by top_k: these go to shared memory.
//
// x, u, temp, top_k, top_p, min_p, penalty, recent, banned, y, orders (a word an entry of x): the last four by the words 0
// to 7. word, from 8 on: entries of a row, recent and banned ones of a row, has each row its own banned ones, rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "call.glsl"
#include "math.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Doubles { double v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Orders { uint v[]; };

layout(constant_id = 0) const uint GROUP = 128u; // invocations; it changes no token
const uint LIST = 1024u, BINS = 256u, PLACE = 24u, DIGITS = 7u;
layout(local_size_x_id = 0) in;
shared uint bin_low[BINS], bin_high[BINS];
shared uint64_t room[GROUP], found[2], list[LIST];
shared uint list_count;

uvec2 address(uint k) { return uvec2(call.word[2u * (k - 7u)], call.word[2u * (k - 7u) + 1u]); }
bool is_there(uvec2 at) { return (at.x | at.y) != 0u; }
double of_row(uint k, uint row, double otherwise) { return there(k) ? Doubles(call.at[k]).v[row] : otherwise; }

// ---- f64 -----------------------------------------------------------------------------------------

// e^x of |x| < 700, within a unit in the last place: x = k ln 2 + r, and a series of degree 13.
double exp_double(double x)
{
    precise double k = roundEven(x * 1.4426950408889634lf);
    precise double r = fma(k, -6.93147180369123816490e-01lf, x);
    r = fma(k, -1.90821492927058770002e-10lf, r);
    precise double y = 1.0lf / 6227020800.0lf;
    y = fma(y, r, 1.0lf / 479001600.0lf);
    y = fma(y, r, 1.0lf / 39916800.0lf);
    y = fma(y, r, 1.0lf / 3628800.0lf);
    y = fma(y, r, 1.0lf / 362880.0lf);
    y = fma(y, r, 1.0lf / 40320.0lf);
    y = fma(y, r, 1.0lf / 5040.0lf);
    y = fma(y, r, 1.0lf / 720.0lf);
    y = fma(y, r, 1.0lf / 120.0lf);
    y = fma(y, r, 1.0lf / 24.0lf);
    y = fma(y, r, 1.0lf / 6.0lf);
    y = fma(y, r, 0.5lf);
    y = fma(y, r, 1.0lf);
    y = fma(y, r, 1.0lf);
    return y * packDouble2x32(uvec2(0u, uint(int(k) + 1023) << 20));
}

// Of a positive number m 2^e: that of m by f32, then a step of Halley's method.
double log_double(double x)
{
    uvec2 bits = unpackDouble2x32(x);
    double m = packDouble2x32(uvec2(bits.x, (bits.y & 0xfffffu) | 0x3ff00000u));
    precise double y = double(log_of(float(m))), e = exp_double(y);
    y += 2.0lf * (m - e) / (m + e);
    return double(int(bits.y >> 20) - 1023) * 6.93147180559945309417e-01lf + y;
}

// ---- sums over the workgroup -----------------------------------------------------------------------

uint64_t group_sum(uint64_t mine)
{
    uint i = gl_LocalInvocationID.x;
    room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) room[i] += room[i + half_n];
        barrier();
    }
    uint64_t sum = room[0];
    barrier();
    return sum;
}

uint64_t group_max(uint64_t mine)
{
    uint i = gl_LocalInvocationID.x;
    room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) room[i] = max(room[i], room[i + half_n]);
        barrier();
    }
    uint64_t top = room[0];
    barrier();
    return top;
}

// ---- keys ------------------------------------------------------------------------------------------

// 0: NaN, which does not count.
uint order_of(float v)
{
    uint bits = floatBitsToUint(v);
    if (isnan(v)) return 0u;
    if (bits == 0x80000000u) bits = 0u; // -0
    return bits >> 31 != 0u ? ~bits : bits | 0x80000000u;
}
float value_of(uint64_t key)
{
    uint bits = uint(key >> PLACE);
    return uintBitsToFloat(bits >> 31 != 0u ? bits & 0x7fffffffu : ~bits);
}
uint64_t key_of(uint order, uint i)
{
    return order == 0u ? uint64_t(0u) : uint64_t(order) << PLACE | uint64_t((1u << PLACE) - 1u - i);
}
int place_of(uint64_t key) { return int((1u << PLACE) - 1u - (uint(key) & ((1u << PLACE) - 1u))); }

// Is the j-th of a list named before it already? So each is changed by one invocation.
bool is_repeated(uvec2 names, uint from, uint j)
{
    for (uint k = 0u; k < j; k++)
        if (Ints(names).v[from + k] == Ints(names).v[from + j]) return true;
    return false;
}

void wait_for_all()
{
    memoryBarrierBuffer();
    barrier();
}

// The orders of the row, with the penalty and without what is banned.
void make_orders(uint row, uint n, Orders order)
{
    uint i0 = gl_LocalInvocationID.x, recent_count = call.word[9], banned_count = call.word[10];
    uint banned_from = call.word[11] != 0u ? row * banned_count : 0u, recent_from = row * recent_count;
    uvec2 recent = address(7u), banned = address(8u);
    double by = of_row(6u, row, 1.0lf);
    for (uint i = i0; i < n; i += GROUP) order.v[row * n + i] = order_of(get(0u, row * n + i));
    wait_for_all();
    for (uint j = i0; is_there(recent) && by != 1.0lf && j < recent_count; j += GROUP) {
        int i = Ints(recent).v[recent_from + j];
        if (i < 0 || uint(i) >= n || is_repeated(recent, recent_from, j)) continue;
        precise double v = double(get(0u, row * n + uint(i))), changed = v > 0.0lf ? v / by : v * by;
        order.v[row * n + uint(i)] = order_of(float(changed));
    }
    wait_for_all();
    for (uint j = i0; is_there(banned) && j < banned_count; j += GROUP) {
        int i = Ints(banned).v[banned_from + j];
        if (i >= 0 && uint(i) < n && !is_repeated(banned, banned_from, j)) order.v[row * n + uint(i)] = 0u;
    }
    wait_for_all();
}

// ---- what is left ------------------------------------------------------------------------------------

Orders orders;
bool listed;         // the entries are those of `list`
uint from, count;    // where those of the row begin in orders; how many there are
uint64_t best, least; // keys; the latter of those that are left
double bar;          // and values

uint64_t key_at(uint i)
{
    uint64_t key = listed ? list[i] : key_of(orders.v[from + i], i);
    return key >= least ? key : uint64_t(0u);
}

// In multiples of 2^-40; temp 0: each counts 1.
uint64_t weight_of(uint64_t key, double temp)
{
    precise double v = double(value_of(key)), top = double(value_of(best));
    if (key == uint64_t(0u)) return uint64_t(0u);
    if (temp == 0.0lf) return uint64_t(1u);
    if (v < bar && key != best) return uint64_t(0u);
    if (v == top) return uint64_t(1u) << 40;
    precise double x = (v - top) / temp;
    if (!(x > -60.0lf)) return uint64_t(0u);
    precise double w = exp_double(x) * 1099511627776.0lf + 0.5lf;
    return uint64_t(w);
}

uint64_t weight_of_all(double temp)
{
    uint64_t sum = uint64_t(0u);
    for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) sum += weight_of(key_at(i), temp);
    return group_sum(sum);
}

void clear_bins()
{
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < BINS; i += GROUP) bin_low[i] = bin_high[i] = 0u;
    barrier();
}

void add_to_bin(uint b, uint64_t w)
{
    uint low = uint(w), was = atomicAdd(bin_low[b], low);
    uint high = uint(w >> 32) + (was + low < was ? 1u : 0u);
    if (high != 0u) atomicAdd(bin_high[b], high);
}
uint64_t bin_at(uint b) { return uint64_t(bin_high[b]) << 32 | uint64_t(bin_low[b]); }

// The bin, from the last one down, at which sums reach `target`, and what is missing when it begins. Somewhere they do.
void find_bin(uint64_t target)
{
    barrier();
    if (gl_LocalInvocationID.x == 0u) {
        uint64_t sum = uint64_t(0u);
        uint b = BINS - 1u;
        for (; b > 0u && sum + bin_at(b) < target; b--) sum += bin_at(b);
        found[0] = uint64_t(b);
        found[1] = target - sum;
    }
    barrier();
}

// The key at which the weights from the best on reach `target`, from 1 to that of all.
uint64_t reach(double temp, uint64_t target)
{
    uint64_t prefix = uint64_t(0u);
    for (int shift = 8 * int(DIGITS - 1u); shift >= 0; shift -= 8) {
        clear_bins();
        for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) {
            uint64_t key = key_at(i);
            if (key == uint64_t(0u) || key >> (shift + 8) != prefix) continue;
            uint64_t w = weight_of(key, temp);
            if (w != uint64_t(0u)) add_to_bin(uint(key >> shift) & 255u, w);
        }
        find_bin(target);
        prefix = prefix << 8 | found[0];
        target = found[1];
    }
    return prefix;
}

// Eighths below the best: bin 255 is that of the best.
uint bin_of(uint64_t key)
{
    precise float v = value_of(key), top = value_of(best), below = v == top ? 0.0 : (top - v) * 8.0;
    return below < float(BINS - 1u) ? BINS - 1u - uint(below) : 0u;
}

// All entries, or the k best and some more in shared memory, where they fit. Returns how many there are at most.
uint64_t gather_best(uint64_t k)
{
    clear_bins();
    if (gl_LocalInvocationID.x == 0u) list_count = 0u;
    for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) {
        uint64_t key = key_at(i);
        if (key != uint64_t(0u)) atomicAdd(bin_low[bin_of(key)], 1u);
    }
    barrier();
    uint64_t all = uint64_t(0u), kept = uint64_t(0u);
    for (uint i = 0u; i < BINS; i++) all += bin_at(i);
    k = min(k, all);
    find_bin(k);
    uint first = uint(found[0]);
    for (uint i = first; i < BINS; i++) kept += bin_at(i);
    if (kept > uint64_t(LIST)) return k;
    for (uint i = gl_LocalInvocationID.x; i < count; i += GROUP) {
        uint64_t key = key_at(i);
        if (key != uint64_t(0u) && bin_of(key) >= first) list[atomicAdd(list_count, 1u)] = key;
    }
    barrier();
    listed = true;
    count = uint(kept);
    if (k < kept) least = reach(0.0lf, k);
    return k;
}

// The weight that is the part p of all; 1 at least.
uint64_t part_of(double p, uint64_t all)
{
    precise double part = ceil(p * double(all));
    if (!(part > 1.0lf)) return uint64_t(1u);
    return part < double(all) ? uint64_t(part) : all;
}

void main()
{
    uint row = row_of_group(), n = call.word[8], i0 = gl_LocalInvocationID.x;
    if (row >= call.word[12]) return;
    double temp = of_row(2u, row, 1.0lf), top_p = of_row(4u, row, 1.0lf), min_p = of_row(5u, row, 0.0lf);
    double u = of_row(1u, row, 0.0lf);
    int wanted = there(3u) ? Ints(call.at[3]).v[row] : 0;
    orders = Orders(address(10u));
    listed = false;
    from = row * n;
    count = n;
    best = uint64_t(0u);
    least = uint64_t(1u);
    bar = packDouble2x32(uvec2(0u, 0xfff00000u)); // minus infinity
    make_orders(row, n, orders);
    for (uint i = i0; i < n; i += GROUP) best = max(best, key_at(i));
    best = group_max(best);
    if (best == uint64_t(0u) || !(temp > 0.0lf)) {
        if (i0 == 0u) Ints(address(9u)).v[row] = best != uint64_t(0u) ? place_of(best) : -1;
        return;
    }
    uint64_t k = gather_best(uint64_t(wanted <= 0 || uint(wanted) > n ? n : uint(wanted)));
    if (!listed && weight_of_all(0.0lf) > k) least = reach(0.0lf, k);
    if (top_p < 1.0lf) {
        uint64_t all = weight_of_all(1.0lf);
        least = reach(1.0lf, part_of(top_p, all));
    }
    if (min_p > 0.0lf) bar = double(value_of(best)) + log_double(min_p);
    uint64_t all = weight_of_all(temp);
    uint64_t want = uint64_t(floor((u - floor(u)) * double(all))) + uint64_t(1u);
    uint64_t key = reach(temp, want < all ? want : all);
    if (i0 == 0u) Ints(address(9u)).v[row] = place_of(key);
}
