/* linear_contract.cu - products with weights that have the bits of docs/arithmetic.md: by chains of sums, and by integers of 8 and
 * of 16 bits. A thread makes one row of w by TOKENS rows of x, in the order of columns.
 */
#include "lib/engine/cuda/contract_blocks.cuh"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/contract.cuh"
#include "lib/engine/cuda/unroll.h"

enum { TOKENS = 4 };

/* Of the thread: its row of w, and its rows of x. */
typedef struct work {
    int64_t m, token;
    int count;
    bytes w;
} work;

FN work work_of(const zt_cu_contract_product_args &a)
{
    work k;
    k.m = (int64_t)block() * threads() + thread();
    k.token = (int64_t)block_y() * TOKENS;
    k.count = a.n - k.token < TOKENS ? (int)(a.n - k.token) : (int)TOKENS;
    k.w = PTR(const uint8_t, a.w) + k.m * a.row_bytes;
    return k;
}

FN void put_sum(const zt_cu_contract_product_args &a, const work &k, int t, float sum)
{
    const int64_t at = (k.token + t) * a.M + k.m;
    if (a.b) sum = sum + PTR(const float, a.b)[k.m];
    PTR(float, a.y)[at] = a.residual ? PTR(const float, a.residual)[at] + sum : sum;
}

/* ---- chains ---------------------------------------------------------------------------------- */

FN float normal_or_zero(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* fma where subnormal numbers are 0. The sum in f64 is never so near the bound that its rounding could cross it: a and b have
 * 8 bits each. */
FN float flushed(float a, float b, float c)
{
    a = normal_or_zero(a), b = normal_or_zero(b), c = normal_or_zero(c);
    const double sum = fma((double)a, (double)b, (double)c);
    return fabs(sum) < 0x1p-126 - 0x1p-151 ? (float)copysign(0.0, sum) : fmaf(a, b, c);
}

/* Columns k .. k + 3, of which the first `columns` exist, to the two sums. */
FN void add_four(int way, const float w[4], const float x[4], int columns, float sum[2])
{
    for (int j = 0; j < 4; j++) {
        if (way == ZT_CU_CONTRACT_PAIRS) {
            const int odd_first = j ^ 1, pair = j / 2;
            if (2 * pair < columns) sum[pair] = flushed(w[odd_first], get(put<bf16>(x[odd_first])), sum[pair]);
        } else if (j < columns) {
            const int chain = way == ZT_CU_CONTRACT_TWO_CHAINS ? j % 2 : 0;
            sum[chain] = fmaf(w[j], x[j], sum[chain]);
        }
    }
}

KERNEL_OF(zt_contract_chains, zt_cu_contract_product_args, 256)
{
    const work k = work_of(a);
    if (k.m >= a.M) return;
    float sum[TOKENS][2] = {{0}};
    for (int64_t column = 0; column < a.K; column += 4) {
        const int columns = a.K - column < 4 ? (int)(a.K - column) : 4;
        float w[4];
        four_at(a.form.dtype, k.w, a.block, a.block_bytes, PTR(const uint16_t, a.grid), column, a.K, w);
        UNROLL_FOR (int t = 0; t < TOKENS; t++) {
            float x[4] = {0, 0, 0, 0};
            if (t >= k.count) continue;
            for (int j = 0; j < columns; j++) x[j] = PTR(const float, a.x)[(k.token + t) * a.K + column + j];
            add_four(a.way, w, x, columns, sum[t]);
        }
    }
    UNROLL_FOR (int t = 0; t < TOKENS; t++)
        if (t < k.count) put_sum(a, k, t, a.way == ZT_CU_CONTRACT_ONE_CHAIN ? sum[t][0] : sum[t][0] + sum[t][1]);
}

/* ---- codes of x ------------------------------------------------------------------------------ */

FN int nearest(float x) { return x == x ? (int)rintf(x) : 0; }

/* Four codes of x as words of bytes: for 16 bits the upper, then the lower bytes. */
FN void encode_four(const float x[4], float inverse, int parts, uint32_t word[2], int32_t *sum)
{
    word[0] = word[1] = 0;
    for (int j = 0; j < 4; j++) {
        int high = nearest(parts == 2 ? x[j] * inverse * 256.0f : x[j] * inverse), low = 0;
        if (parts == 2) {
            const int both = high;
            high = (both + 128) >> 8;
            low = both - 256 * high < -127 ? -127 : both - 256 * high;
        }
        word[0] |= ((uint32_t)high & 255u) << 8 * j;
        word[1] |= ((uint32_t)low & 255u) << 8 * j;
        *sum += parts == 2 ? 256 * high + low : high;
    }
}

/* A thread 32 columns. */
KERNEL_OF(zt_contract_codes, zt_cu_codes_args, 256)
{
    for (int64_t i = first(); i < a.n * (a.K / 32); i += stride()) {
        const float *x = PTR(const float, a.x) + 32 * i;
        uint32_t *codes = PTR(uint32_t, a.codes) + 8 * a.each * i, most = 0;
        for (int k = 0; k < 32; k++) {
            const uint32_t size = bits_as<uint32_t>(x[k]) & 0x7fffffffu;
            most = size > most ? size : most;
        }
        const float top = bits_as<float>(most), inverse = top > 1e-35f ? 127.0f / top : 0;
        zt_cu_contract_head head = {top / 127.0f, {0, 0}, 0};
        if (a.each == 2) head.e = head.e * 0x1p-8f;
        for (int k = 0; k < 8; k++) {
            const float four[4] = {x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]};
            uint32_t word[2];
            encode_four(four, inverse, a.each, word, &head.sum[k / 4]);
            codes[k] = word[0];
            if (a.each == 2) codes[8 + k] = word[1];
        }
        PTR(zt_cu_contract_head, a.sums)[i] = head;
    }
}

/* ---- rows of w ------------------------------------------------------------------------------- */

FN int least_shift(const zt_cu_contract_form &form) { return form.shift + (form.halves ? 0 : 3); }

/* By which the scales of a row are integers of 15 bits; NaN: one is not finite. */
FN float power_under(float top)
{
    if (!(top <= 0x1.fffffep127f)) return bits_as<float>(0x7fc00000u);
    if (top <= 0) return 1;
    const int exponent = (int)(bits_as<uint32_t>(top) >> 23) - 126;
    const float power = power_of_two(exponent < 15 - 126 ? 126 : 15 - exponent);
    return rintf(top * power) > 32767 ? power * 0.5f : power;
}

FN float larger_size(float a, float b)
{
    const uint32_t u = bits_as<uint32_t>(a) & 0x7fffffffu, v = bits_as<uint32_t>(b) & 0x7fffffffu;
    return bits_as<float>(u > v ? u : v);
}

FN float power_of_row(const zt_cu_contract_product_args &a, bytes w)
{
    const int scales = a.form.dtype == ZT_CU_NVFP4 ? a.block / 16 : 1; /* that are floats, of a block */
    float d = 0, m = 0;
    for (int64_t i = 0; i < a.K / a.block * scales; i++) {
        const block_scale s = scale_at(a.form.dtype, w + i / scales * a.block_bytes, (int)(i % scales));
        d = larger_size(d, s.d), m = larger_size(m, s.m);
    }
    if (d != d || m != m) return bits_as<float>(0x7fc00000u);
    if (a.form.minima) {
        m = (m + d * (float)a.form.middle) / (float)(1 << least_shift(a.form));
        d = m > d ? m : d;
    }
    return power_under(d * (float)(1 << a.form.bits));
}

/* 64 columns of a row, or 32 where a scale is for 16: codes of w less the middle, and its two scales. */
typedef struct code_pair {
    uint32_t word[16];
    block_scale s[2];
} code_pair;

/* Of the 32 columns from `column` on. */
FN void load_codes(const zt_cu_contract_product_args &a, bytes w, int64_t column, uint32_t word[8])
{
    bytes b = w + column / a.block * a.block_bytes;
    for (int i = 0; i < 8; i++) {
        int c[4];
        block_codes(a.form.dtype, b, PTR(const uint16_t, a.grid), (int)(column % a.block) + 4 * i, c);
        word[i] = 0;
        for (int j = 0; j < 4; j++) word[i] |= ((uint32_t)(c[j] - a.form.middle) & 255u) << 8 * j;
    }
}

FN code_pair load_pair(const zt_cu_contract_product_args &a, bytes w, int64_t pair)
{
    const int each = a.form.halves ? 16 : 32;
    code_pair p = {};
    for (int i = 0; i < 2; i++) {
        const int64_t column = (2 * pair + i) * each;
        if (column >= a.K) continue;
        if (column % 32 == 0) load_codes(a, w, column, p.word + 8 * i);
        p.s[i] = scale_at(a.form.dtype, w + column / a.block * a.block_bytes, (int)(column % a.block) / each);
    }
    return p;
}

/* ---- products of a pair ---------------------------------------------------------------------- */

/* What the sums of a pair are multiplied by: integers for 8 bits, else d and n. */
typedef struct pair_factors {
    int D[2], N[2];
    float d[2], n[2];
} pair_factors;

FN int short_of(int x) { return (int16_t)(uint16_t)x; }
FN int mul_high(int x, int y) { return (x * y + 16384) >> 15; }

FN pair_factors factors_of(const zt_cu_contract_form &form, const code_pair &p, float power)
{
    const float up = (float)(1 << form.bits), least_power = power / (float)(1 << least_shift(form));
    const int times = form.minima ? form.middle >> least_shift(form) : 0;
    pair_factors f = {};
    for (int i = 0; i < 2; i++) {
        const block_scale &s = p.s[i];
        f.d[i] = s.d * (float)s.by;
        f.n[i] = f.d[i] * (float)form.middle + (form.bits ? -(s.m * (float)s.less) : s.m);
        f.D[i] = short_of(nearest(s.d * up * power));
        if (form.bits) f.D[i] = short_of(mul_high(f.D[i], s.by * (1 << (15 - form.bits))));
        if (!form.minima) continue;
        const int least = short_of(nearest(s.m * up * least_power));
        f.N[i] = short_of(times * f.D[i] + (form.bits ? -mul_high(least, s.less * (1 << (15 - form.bits))) : least));
    }
    return f;
}

/* The sums of the two scales with codes of x, 32 columns `apart` words after 32. */
FN void pair_dots(const code_pair &p, const uint32_t *x, int64_t apart, bool halves, bool both, int dot[2])
{
    dot[0] = dot[1] = 0;
    for (int i = 0; i < (both ? 16 : 8); i += 4) {
        const vec<uint32_t, 4> q = load_vec<4>(x + i % 8 + i / 8 * apart);
        for (int j = 0; j < 4; j++) {
            int &sum = dot[i / (halves ? 4 : 8)];
            sum = dot4(p.word[i + j], q.v[j], sum);
        }
    }
}

/* Row `row` of x: the heads of a pair's scales, of which the second is 0 behind the last column. */
FN void load_heads(const zt_cu_contract_product_args &a, int64_t row, int64_t pair, bool both, float e[2], int sum[2])
{
    const zt_cu_contract_head *head = PTR(const zt_cu_contract_head, a.heads) + row * (a.K / 32);
    const zt_cu_contract_head u = head[a.form.halves ? pair : 2 * pair];
    e[0] = u.e, e[1] = u.e;
    sum[0] = u.sum[0], sum[1] = u.sum[1];
    if (a.form.halves) return;
    sum[0] += sum[1];
    e[1] = 0, sum[1] = 0;
    if (both) e[1] = head[2 * pair + 1].e, sum[1] = head[2 * pair + 1].sum[0] + head[2 * pair + 1].sum[1];
}

/* The sum with a pair more, of 8 bits. */
FN float add_integers(const zt_cu_contract_form &form, const pair_factors &f, const int dot[2], const float e[2],
                      const int sum[2], float y)
{
    const float top = larger_size(e[0], e[1]), inverse = top > 1e-35f && top <= 0x1.fffffep127f ? 16383.0f / top : 0;
    const float unit = (form.halves ? top : top / 16383.0f) * (float)(1 << (form.shift + (form.halves ? 0 : 15)));
    uint32_t whole = 0;
    for (int i = 0; i < 2; i++) {
        const int E = form.halves ? 1 : nearest(e[i] * inverse);
        const int Q = form.halves ? sum[i] : short_of(nearest((float)E * (float)sum[i] * 0x1p-12f));
        const int rounding = form.shift ? (1 << (form.shift - 1)) - i : 0, S = short_of((dot[i] + rounding) >> form.shift);
        const int A = form.halves ? f.D[i] : short_of(mul_high(f.D[i], E));
        whole += (uint32_t)(S * A);
        if (form.minima) whole += (uint32_t)(f.N[i] * Q);
    }
    return fmaf((float)(int32_t)whole, unit, y);
}

/* The same of 16 bits. */
FN float add_floats(const zt_cu_contract_form &form, const pair_factors &f, const int dot[2], const float e[2],
                    const int sum[2], float y)
{
    for (int i = 0; i < 2; i++) {
        y = fmaf((float)dot[i], f.d[i] * e[i], y);
        if (form.minima) y = fmaf(f.n[i], e[i] * (float)sum[i], y);
    }
    return y;
}

KERNEL_OF(zt_contract_integers, zt_cu_contract_product_args, 256)
{
    const work k = work_of(a);
    if (k.m >= a.M) return;
    const bool wide = a.way == ZT_CU_CONTRACT_16_BITS;
    const int64_t blocks = a.K / 32, pairs = a.form.halves ? blocks : (blocks + 1) / 2, parts = wide ? 2 : 1;
    const float power = wide ? 1 : power_of_row(a, k.w);
    float y[TOKENS] = {0};
    for (int64_t p = 0; p < pairs && power == power; p++) {
        const code_pair w = load_pair(a, k.w, p);
        const pair_factors f = factors_of(a.form, w, power);
        const bool both = !a.form.halves && 2 * p + 1 < blocks;
        UNROLL_FOR (int t = 0; t < TOKENS; t++) {
            if (t >= k.count) continue;
            const uint32_t *x = PTR(const uint32_t, a.x) + ((k.token + t) * blocks + (a.form.halves ? p : 2 * p)) * 8 * parts;
            int dot[2], low[2], sum[2];
            float e[2];
            load_heads(a, k.token + t, p, both, e, sum);
            pair_dots(w, x, 8 * parts, a.form.halves, both, dot);
            if (wide) pair_dots(w, x + 8, 8 * parts, a.form.halves, both, low);
            for (int i = 0; i < 2 && wide; i++) dot[i] = 256 * dot[i] + low[i];
            y[t] = wide ? add_floats(a.form, f, dot, e, sum, y[t]) : add_integers(a.form, f, dot, e, sum, y[t]);
        }
    }
    UNROLL_FOR (int t = 0; t < TOKENS; t++)
        if (t < k.count) put_sum(a, k, t, y[t] / power);
}
