// linear_int8.glsl - the product of linear.comp with x as linear_codes.comp left it: exact integers for the columns of a
// pair, then one f32 accumulator for a row of x and a row of w, the pairs in order (docs/quantized-product.md: the
// arithmetic of a pair), so that the bits are those of the cpu engine.
//
// One invocation makes column m of up to ROWS rows of y. The shader that includes this multiplies bytes: dot_bytes, read_codes,
// code_of and read_factors. x's codes, w, b, y, powers of w's rows, grid, other -> y. word: n, K, M, the type of b as FLOATS
// has it; from 4 those of expert.glsl, from 7 rows of a workgroup and those of after.glsl.
#extension GL_EXT_control_flow_attributes : require
#define GRID_AT 5u
#define PACKED_BLOCKS
#include "weights.glsl"
#include "after.glsl"
#include "fused.glsl"
#include "expert.glsl"

layout(constant_id = 1) const uint ROWS = 1u;
layout(constant_id = 2) const uint PARTS = 1u; // rows of codes a row of x
layout(local_size_x = 32) in;

int mul_high(int a, int b) { return (a * b + 16384) >> 15; }
int low_short(int a) { return bitfieldExtract(a, 0, 16); }

// What the sums of a pair are multiplied by: with q8 D and N as integers, else d and n.
struct Factors {
    int scale[2], least[2];
    float by[2], more[2];
};

int times_power(float x, float power)
{
    precise float y = x * power;
    return low_short(int(roundEven(y)));
}

Factors factors_of(Scales s[2], float power)
{
    Factors f;
    const float up = float(1 << SCALE_BITS);
    const int times = MINIMA ? MIDDLE >> least_shift() : 0;
    precise float least_power = power / float(1u << least_shift());
    for (uint i = 0u; i < 2u; i++) {
        const uint k = HALVES ? 0u : i, h = HALVES ? i : 0u;
        if (PARTS == 2u) {
            f.by[i] = scale_of(s[k], h);
            if (!MINIMA) continue;
            precise float middle = f.by[i] * float(MIDDLE), more = middle + least_of(s[k], h);
            f.more[i] = more;
            continue;
        }
        if (SCALE_BITS > 0) {
            precise float d = s[k].d[0] * up, m = s[k].m[0] * up;
            f.scale[i] = low_short(mul_high(times_power(d, power), s[k].s[h] << (15 - SCALE_BITS)));
            if (MINIMA)
                f.least[i] = low_short(times * f.scale[i] -
                                       mul_high(times_power(m, least_power), s[k].n[h] << (15 - SCALE_BITS)));
        } else {
            f.scale[i] = times_power(s[k].d[h], power);
            if (MINIMA) f.least[i] = low_short(times * f.scale[i] + times_power(s[k].m[0], least_power));
        }
    }
    return f;
}

// The two sums of a pair of a row of codes.
void pair_dots(int c[16], Words x, uint at, out int dot[2])
{
    int q[16];
    read_codes(x, at, q);
    const uint n = HALVES ? 4u : 8u;
    for (uint i = 0u; i < 2u; i++) {
        dot[i] = 0;
        for (uint k = 0u; k < n; k++) dot[i] += dot_bytes(c[i * n + k], code_of(q, i * n + k));
    }
}

// Where x's codes lie: pairs and blocks of a row, and the factors of pairs behind all rows.
uint P, S, behind;

// The sum of a row of x with pair p more.
float add_pair(int c[16], Factors f, Words x, uint row, uint p, float sum)
{
    const uint at = 8u * (row * PARTS * S + (HALVES ? p : 2u * p)), lower = 8u * S; // from the upper row of codes to the lower
    int dot[2];
    precise float y = sum;
    uint factor[4];
    pair_dots(c, x, at, dot);
    read_factors(x, behind + 4u * (row * P + p), factor);
    if (PARTS == 2u) {
        int low[2];
        pair_dots(c, x, at + lower, low);
        for (uint i = 0u; i < 2u; i++) {
            precise float by = f.by[i] * uintBitsToFloat(factor[i]);
            y = fused(float(256 * dot[i] + low[i]), by, y);
            if (MINIMA) y = fused(f.more[i], uintBitsToFloat(factor[2u + i]), y);
        }
        return y;
    }
    const uint shift = dot_shift();
    int whole = 0;
    for (uint i = 0u; i < 2u; i++) {
        const int rounding = shift > 0u ? (1 << (shift - 1u)) - int(i) : 0, at_bit = int(16u * i);
        int sum16 = low_short((dot[i] + rounding) >> shift);
        int scale = HALVES ? f.scale[i] : low_short(mul_high(f.scale[i], bitfieldExtract(int(factor[0]), at_bit, 16)));
        whole += sum16 * scale;
        if (MINIMA) whole += f.least[i] * bitfieldExtract(int(factor[2]), at_bit, 16);
    }
    y = fused(float(whole), uintBitsToFloat(factor[1]), y);
    return y;
}

float sum[ROWS];

void main()
{
    const uint n = call.word[0], K = call.word[1], M = call.word[2], each = call.word[7], blocks = K / 32u;
    const uint m = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * each, count = min(each, n - t0);
    P = HALVES ? blocks : (blocks + 1u) / 2u;
    S = HALVES ? P : 2u * P;
    behind = 8u * call.word[6] * PARTS * S;
    Words x = Words(call.at[0]);
    const uint expert = expert_of(t0), w_row = row_in_stack(expert, M, min(m, M - 1u));
    Row w = row_of(call.at[1], w_row, K);
    const float power = Floats(call.at[4]).v[w_row];
    for (uint t = 0u; t < ROWS; t++) sum[t] = 0.0;
    for (uint p = 0u; p < P; p++) {
        int c[16];
        Scales s[2];
        const uint first = HALVES ? p : 2u * p;
        for (uint i = 0u; i < (HALVES ? 1u : 2u); i++) {
            int part[8];
            const bool exists = first + i < blocks;
            codes_of(w, exists ? first + i : first, part);
            for (uint k = 0u; k < 8u; k++) c[8u * i + k] = exists ? part[k] : 0;
            s[i] = scales_of(w, exists ? first + i : first);
            if (!exists) s[i].d[0] = s[i].m[0] = 0.0;
        }
        const Factors f = factors_of(s, power);
        if (FUSED != 0u) {
            for (uint t = 0u; t < ROWS; t++) sum[t] = add_pair(c, f, x, x_row(t0, t), p, sum[t]);
        } else { // for compilers of CPUs, which take long
            [[dont_unroll]] for (uint t = 0u; t < count; t++) sum[t] = add_pair(c, f, x, x_row(t0, t), p, sum[t]);
        }
    }
    if (m >= M || !is_expert(t0, expert, m)) return;
    // A power of two: its inverse is exact.
    const float over = PARTS == 2u ? 1.0 : isnan(power) ? power : uintBitsToFloat((254u << 23) - floatBitsToUint(power));
    const float bias = there(2u) ? get_as(call.word[3], 2u, expert * M + m) : 0.0;
    if (FUSED != 0u) {
        for (uint t = 0u; t < ROWS && t < count; t++) put_product(sum[t], over, bias, (t0 + t) * M + m);
    } else {
        [[dont_unroll]] for (uint t = 0u; t < count; t++) put_product(sum[t], over, bias, (t0 + t) * M + m);
    }
}
