/* activations.h - private to gemm_quant/: activations to 8 bits, or to twice 8; product.c says how they
 * lie.
 *
 * quantize: 32 f32 to signed bytes q = round(x / d), d = the largest |x| / 127, ties to even;
 * sum[h] is that of q[16h..16h+15].
 *
 * With 16 bits, rows 2u and 2u+1 of a tile are the upper and lower half of token u: whole numbers
 * 256 hi + lo in units of d / 256, lo from -127 to 127. Scales are f32. With AVX2, which multiplies numbers
 * of 16 bits as fast, each word of four columns is (0, 2) in the one row and (1, 3) in the other, i16;
 * their sum is the second row's.
 *
 * With 8 bits two scales are whole numbers, in units of a 16383rd of the larger. Infinity or NaN makes
 * the unit so, and with it every sum that it enters.
 */
#ifndef ZT_CPU_CODES_H
#define ZT_CPU_CODES_H

#include <math.h>

#include "lib/engine/cpu/isa/gemm_quant/unpacked.h"

/* ---- 32 values ------------------------------------------------------------------------------- */

/* The scale of 32 values from the bits of the largest |x| (as integers they keep the order, with
 * NaN on top), and what to multiply by. */
INLINE float inverse_scale(int32_t bits, float *d)
{
    float top = load_f32(&bits);
    *d = top / 127;
    return top > 1e-35f ? 127 / top : 0; /* below, 127 / top might be infinite: all codes 0 */
}

/* The bits of the largest |x| of n, as integers. */
INLINE int32_t top_bits(const float *x, int n)
{
    int32_t top = 0;
    for (int i = 0; i < n; i++) {
        int32_t bits = load_i32(x + i) & 0x7fffffff;
        top = bits > top ? bits : top;
    }
    return top;
}

#if defined(ZT_ISA_avx512)
/* Sixteen to whole numbers; what is none (of infinity and NaN) is the smallest byte. */
INLINE __m512i whole(const float *x, __m512 inv)
{
    __m512i i = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inv));
    return _mm512_max_epi32(i, _mm512_set1_epi32(-128));
}

INLINE __m512i whole_256_of(const float *x, __m512 inv)
{
    __m512 y = _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x), inv), _mm512_set1_ps(256));
    return _mm512_cvtps_epi32(y);
}

#elif defined(ZT_ISA_avx2)
INLINE __m256i rounded(const float *x, __m256 inv)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv));
}

/* The sum of 8. */
INLINE int32_t sum_of(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

INLINE void quantize(const float *x, int8_t *q, float *d, int32_t *sum)
{
    __m256 inv = _mm256_set1_ps(inverse_scale(top_bits(x, 32), d));
    for (int h = 0; h < 2; h++) {
        __m256i a = rounded(x + 16 * h, inv), b = rounded(x + 16 * h + 8, inv);
        __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
        __m128i low = _mm256_castsi256_si128(w), high = _mm256_extracti128_si256(w, 1);
        _mm_storeu_si128((__m128i *)(q + 16 * h), _mm_packs_epi16(low, high));
        sum[h] = sum_of(_mm256_add_epi32(a, b));
    }
}

#else
INLINE void quantize(const float *x, int8_t *q, float *d, int32_t *sum)
{
    float inv = inverse_scale(top_bits(x, 32), d);
    for (int h = 0; h < 2; h++) {
        sum[h] = 0;
        for (int i = 16 * h; i < 16 * h + 16; i++) {
            q[i] = (int8_t)lrintf(x[i] * inv);
            sum[h] += q[i];
        }
    }
}

#endif

/* ---- a row ----------------------------------------------------------------------------------- */

/* 32 columns of a token: codes, what they sum up to in 16 columns each, and the scale. With 16 bits
 * upper halves, then lower. */
typedef struct block {
    int8_t q[2][32];
    int32_t sum[2][2];
    float scale;
} block;

/* What a sum of codes is multiplied by, beside their scale, for minima. */
INLINE float min_unit(zt_pack_form f, int parts)
{
    return parts == 1 && !zt_pack_halves(f) ? 0x1p-12f : 1;
}

/* Where a row lies: of a first pair its codes and what comes behind them, of the next ones `step`
 * further; in a tile of T rows side by side, or for AMX by itself, only the rest side by side. */
typedef struct place {
    uint8_t *codes, *rest;
    size_t step;
    int T;
    bool amx;
} place;

/* Row r of the tile at p. */
INLINE place place_in_tile(zt_pack_form f, int T, int64_t r, uint8_t *p)
{
    const size_t step = (size_t)T * pair_bytes(f);
    return (place){p + 4 * r, p + pair_columns(f) * T + 4 * r, step, T, false};
}

INLINE place place_in_amx(zt_pack_form f, int64_t r, uint8_t *p)
{
    uint8_t *rest = p + 64 * AMX_ROWS + (pair_bytes(f) - 64) * MOST * (r / MOST);
    const size_t step = (size_t)AMX_ROWS * pair_bytes(f);
    return (place){p + 64 * r, rest + 4 * (r % MOST), step, MOST, true};
}

INLINE place next_pair(place p)
{
    p.codes += p.step, p.rest += p.step;
    return p;
}

/* Of the i-th 32 columns the codes of the u-th row from there. */
INLINE void put_words(place p, int i, int u, const int8_t *q)
{
    if (p.amx || p.T == 1) { /* then u is 0 */
        memcpy(p.codes + 32 * i + 64 * u, q, 32);
        return;
    }
    uint8_t *dst = p.codes + 32 * p.T * i + 4 * u;
    for (int j = 0; j < 8; j++) memcpy(dst + 4 * p.T * j, q + 4 * j, 4);
}

/* Of a token two numbers: whole ones in a word, or f32 in two rows. */
INLINE void put_two(int parts, float a, float b, uint8_t *dst)
{
    const uint32_t whole = (uint32_t)(whole_of(a) & 0xffff) | (uint32_t)whole_of(b) << 16;
    const float each[2] = {a, b};
    if (parts == 1)
        memcpy(dst, &whole, 4);
    else
        memcpy(dst, each, 8);
}

/* Two scales to numbers of 14 bits, given the bits of the larger, and what unit these are in; with 16
 * columns a scale both are one, and activations of 16 bits keep them. */
INLINE float scale_unit(zt_pack_form f, int parts, int32_t top, float *d)
{
    float unit = load_f32(&top), inverse = unit > 1e-35f ? 16383 / unit : 0;
    if (parts == 2) return 1;
    if (zt_pack_halves(f)) return d[0] = d[1] = 1, unit;
    for (int i = 0; i < 2; i++) d[i] = rintf(d[i] * inverse);
    return unit / 16383;
}

#if defined(ZT_ISA_avx2)
/* 16 or 32 bytes of q's halves, or of two q: words of two columns of each. */
INLINE void cross_words(const int8_t *a, const int8_t *b, uint8_t *dst)
{
    const __m128i x = _mm_loadu_si128((const void *)a), y = _mm_loadu_si128((const void *)b);
    int32_t words[8];
    _mm_storeu_si128((void *)words, _mm_unpacklo_epi16(x, y));
    _mm_storeu_si128((void *)(words + 4), _mm_unpackhi_epi16(x, y));
    UNROLL for (int j = 0; j < 8; j++) memcpy(dst + 4 * MOST * j, words + j, 4);
}

INLINE int32_t sum_of_8(const int8_t *q)
{
    const __m128i up = _mm_set1_epi8((char)128), x = _mm_loadl_epi64((const void *)q);
    const __m128i sum = _mm_sad_epu8(_mm_xor_si128(x, up), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sum) - 8 * 128;
}

/* What sums of crossed words begin with, less so much times the sum of their columns. */
INLINE int crossed_middle(zt_pack_form f) { return zt_pack_beyond(f) > 1 ? 8 : zt_pack_middle(f); }
INLINE int first_begins(zt_pack_form f) { return zt_pack_beyond(f) == 1 ? 1 << 15 : 0; }
INLINE int second_begins(zt_pack_form f, int i)
{
    const bool halved = zt_pack_beyond(f) == 1; /* vpavgw adds one */
    return first_begins(f) + half_lost(f, 1, i) - halved;
}

INLINE void put_begins(zt_pack_form f, const int32_t first[2], const int32_t second[2], uint8_t *dst)
{
    UNROLL for (int i = 0; i < 2; i++) {
        const uint16_t a = (uint16_t)(first_begins(f) - crossed_middle(f) * first[i]);
        const uint16_t b = (uint16_t)(second_begins(f, i) - crossed_middle(f) * second[i]);
        memcpy(dst + 2 * i, &a, 2);
        memcpy(dst + 4 * MOST + 2 * i, &b, 2);
    }
}

/* A pair of a tile whose words are crossed: codes, and at dst what sums begin with. sum: of all of them. */
INLINE void put_crossed(zt_pack_form f, place to, const block *b, const int32_t sum[2], uint8_t *dst)
{
    const int8_t *q[2] = {b[0].q[0], zt_pack_halves(f) ? b[0].q[0] + 16 : b[1].q[0]};
    const int half = zt_pack_halves(f) ? 8 : 16;
    int32_t first[2], second[2];
    cross_words(q[0], q[1], to.codes);
    if (half == 16) cross_words(q[0] + 16, q[1] + 16, to.codes + 4 * MOST * 8);
    UNROLL for (int i = 0; i < 2; i++) {
        first[i] = second[i] = sum[i];
        if (zt_pack_beyond(f) != 1) continue;
        first[i] = sum_of_8(q[i]) + (half == 16 ? sum_of_8(q[i] + 8) : 0);
        second[i] = sum[i] - first[i];
    }
    put_begins(f, first, second, dst);
}
#endif

/* A pair, of zt_pack_step blocks. */
INLINE void put_pair(zt_pack_form f, place to, int parts, const block *b)
{
    const int last = zt_pack_step(f) - 1, T = to.T;
    uint8_t *p = to.rest;
    int32_t sum[2][2];
    float d[2] = {b[0].scale, b[last].scale}, product[2];
    float unit = scale_unit(f, parts, top_bits(d, 2), d) * sums_unit(f);
    for (int u = 0; u < parts; u++)
        for (int i = 0; i < 2; i++)
            sum[u][i] = last ? b[i].sum[u][0] + b[i].sum[u][1] : b[0].sum[u][i];
#if defined(ZT_ISA_avx2)
    const bool cross = crossed(T, parts);
#else
    const bool cross = false;
#endif
    for (int u = 0; u < parts && !cross; u++)
        for (int i = 0; i <= last; i++) put_words(to, i, u, b[i].q[u]);
    if (parts == 2 || last) put_two(parts, d[0], d[1], p);
    p += last ? 4 * T : 0;
    if (parts == 1) memcpy(p, &unit, 4);
    p += 4 * T;
#if defined(ZT_ISA_avx2)
    if (cross) put_crossed(f, to, b, sum[0], p);
#endif
    for (int u = 0; u < parts && !cross; u++)
        for (int i = 0; i < 2; i++) {
            int32_t whole = half_lost(f, parts, i) - zt_pack_middle(f) * sum[u][i];
            memcpy(p + 4 * T * i + 4 * u, &whole, 4);
        }
    if (!zt_pack_mins(f)) return;
    for (int i = 0; i < 2; i++) {
        int32_t whole = parts == 1 ? sum[0][i] : 256 * sum[0][i] + sum[1][i];
        product[i] = d[i] * (float)whole * min_unit(f, parts);
    }
    put_two(parts, product[0], product[1], p + 8 * T);
}

#if defined(ZT_ISA_avx2)
/* Sixteen to 256 hi + lo. What is none (of infinity and NaN) is any. */
INLINE __m256i whole_16(const float *x, __m256 inv)
{
    const __m256 up = _mm256_set1_ps(256);
    __m256 a = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inv), up);
    __m256 b = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inv), up);
    __m256i v = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    v = _mm256_permute4x64_epi64(v, 0xd8);
    __m256i hi = _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(128)), 8);
    hi = _mm256_slli_epi16(hi, 8);
    return _mm256_add_epi16(hi, _mm256_max_epi16(_mm256_sub_epi16(v, hi), _mm256_set1_epi16(-127)));
}

INLINE void make_fine(const float *x, block *b)
{
    const __m256i even_odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256 inv = _mm256_set1_ps(inverse_scale(top_bits(x, 32), &b->scale));
    for (int h = 0; h < 2; h++) {
        __m256i v = whole_16(x + 16 * h, inv);
        b->sum[0][h] = 0;
        b->sum[1][h] = sum_of(_mm256_madd_epi16(v, _mm256_set1_epi16(1)));
        v = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, even_odd), 0xd8);
        _mm_storeu_si128((__m128i *)(b->q[0] + 16 * h), _mm256_castsi256_si128(v));
        _mm_storeu_si128((__m128i *)(b->q[1] + 16 * h), _mm256_extracti128_si256(v, 1));
    }
}
#elif defined(ZT_ISA_scalar)
/* Not finite: any codes will do, as the scale is not. */
INLINE void make_fine(const float *x, block *b)
{
    float inv = inverse_scale(top_bits(x, 32), &b->scale);
    memset(b->sum, 0, sizeof b->sum);
    for (int i = 0; i < 32; i++) {
        int32_t y = whole_of(x[i] * inv * 256), v = y > -32768 ? y : -32768;
        int32_t h = (v + 128) >> 8, l = v - 256 * h;
        l = l > -127 ? l : -127;
        b->q[0][i] = (int8_t)h, b->q[1][i] = (int8_t)l;
        b->sum[0][i / 16] += h, b->sum[1][i / 16] += l;
    }
}
#endif

#if !defined(ZT_ISA_scalar)
/* ---- eight blocks of 32 values --------------------------------------------------------------- */

/* What is left of eight registers, of each in one lane: the largest, or the sum, of its lower four
 * in *low and of its upper four in *high. */
INLINE void across(bool largest, __m256i *v, __m256i *low, __m256i *high)
{
#define BOTH(a, b) (largest ? _mm256_max_epi32(a, b) : _mm256_add_epi32(a, b))
    UNROLL for (int r = 0; r < 8; r += 2)
        v[r] = BOTH(_mm256_unpacklo_epi32(v[r], v[r + 1]), _mm256_unpackhi_epi32(v[r], v[r + 1]));
    UNROLL for (int r = 0; r < 8; r += 4)
        v[r] = BOTH(_mm256_unpacklo_epi64(v[r], v[r + 2]), _mm256_unpackhi_epi64(v[r], v[r + 2]));
#undef BOTH
    *low = _mm256_permute2x128_si256(v[0], v[4], 0x20);
    *high = _mm256_permute2x128_si256(v[0], v[4], 0x31);
}

/* Eight of the largest |x| of 32, as integers. */
INLINE __m256i top_eight(const float *x)
{
#if defined(ZT_ISA_avx512)
    const __m512i abs = _mm512_set1_epi32(0x7fffffff);
    __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), abs);
    a = _mm512_max_epi32(a, _mm512_and_si512(_mm512_loadu_si512(x + 16), abs));
    return _mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
#else
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    __m256i top = _mm256_setzero_si256();
    UNROLL for (int i = 0; i < 32; i += 8) {
        const __m256i a = _mm256_loadu_si256((const void *)(x + i));
        top = _mm256_max_epi32(top, _mm256_and_si256(a, abs));
    }
    return top;
#endif
}

/* The largest |x| of 32 for each of eight rows. */
INLINE __m256 tops(const float *const *x, int64_t k)
{
    __m256i v[8], low, high;
    UNROLL for (int r = 0; r < 8; r++) v[r] = top_eight(x[r] + k);
    across(true, v, &low, &high);
    return _mm256_castsi256_ps(_mm256_max_epi32(low, high));
}

/* inverse_scale of eight. */
INLINE __m256 inverse_scales(int parts, __m256 top, __m256 *d)
{
    const __m256 most = _mm256_set1_ps(127);
    const __m256 some = _mm256_cmp_ps(top, _mm256_set1_ps(1e-35f), _CMP_GT_OQ);
    *d = _mm256_div_ps(top, most);
    if (parts == 2) *d = _mm256_mul_ps(*d, _mm256_set1_ps(1 / 256.0f));
    return _mm256_and_ps(some, _mm256_div_ps(most, top));
}
#endif

/* ---- all of a row ---------------------------------------------------------------------------- */

#if !defined(ZT_ISA_avx512)
INLINE void make_block(int parts, const float *x, block *b)
{
    if (parts == 1) {
        quantize(x, b->q[0], &b->scale, b->sum[0]);
        return;
    }
    make_fine(x, b);
    b->scale *= 1 / 256.0f;
}

INLINE void put_row(zt_pack_form f, const float *x, int64_t K, int parts, place to)
{
    const int step = zt_pack_step(f);
    for (int64_t k = 0; k < K; k += 32 * step, to = next_pair(to)) {
        block b[2];
        make_block(parts, x + k, &b[0]);
        if (step == 2 && k + 32 < K)
            make_block(parts, x + k + 32, &b[1]);
        else if (step == 2)
            b[1] = (block){.scale = 0};
        put_pair(f, to, parts, b);
    }
}

/* A row of x to where its first (or only) row lies: the same, with `parts` known to the compiler. (Most rows come
 * a tile at once: activations_tile.h.) */
static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t parts, place to)
{
    if (parts == 2)
        put_row(f, x, K, 2, to);
    else
        put_row(f, x, K, 1, to);
}
#endif

#if defined(ZT_ISA_avx512)
/* 32 numbers to 16 bits: in lane L of four, words L and 4+L of the upper halves, then of the
 * lower. */
INLINE __m512i both_halves(const float *x, __m512 inv)
{
    const __m512i half = _mm512_set1_epi16(128), least = _mm512_set1_epi16(-127);
    __m512i v = _mm512_packs_epi32(whole_256_of(x, inv), whole_256_of(x + 16, inv));
    __m512i hi = _mm512_srai_epi16(_mm512_add_epi16(v, half), 8);
    __m512i lo = _mm512_sub_epi16(v, _mm512_slli_epi16(hi, 8));
    return _mm512_packs_epi16(hi, _mm512_max_epi16(lo, least));
}

/* The same row by row. */
INLINE __m512i by_rows(__m512i v)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(turn, v);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* Eight blocks of a row, which begin at x[r], as quantize makes them. */
INLINE void make_eight(const float *const *x, block *b)
{
    __m256 d, by = inverse_scales(1, tops(x, 0), &d);
    __m256i v[8], low, high;
    float inv[8], scale[8];
    int32_t sum[2][8];
    _mm256_storeu_ps(inv, by);
    _mm256_storeu_ps(scale, d);
    UNROLL for (int r = 0; r < 8; r++) {
        const __m512 i = _mm512_set1_ps(inv[r]);
        v[r] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm512_cvtepi32_epi8(whole(x[r], i))),
            _mm512_cvtepi32_epi8(whole(x[r] + 16, i)), 1);
        _mm256_storeu_si256((__m256i *)(void *)b[r].q[0], v[r]);
        v[r] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), v[r]);
    }
    across(false, v, &low, &high);
    _mm256_storeu_si256((__m256i *)(void *)sum[0], low);
    _mm256_storeu_si256((__m256i *)(void *)sum[1], high);
    for (int r = 0; r < 8; r++) {
        for (int h = 0; h < 2; h++) b[r].sum[0][h] = sum[h][r];
        b[r].scale = scale[r];
    }
}

/* The same of both halves. */
INLINE void make_eight_halves(const float *const *x, block *b)
{
    __m256 d, by = inverse_scales(2, tops(x, 0), &d);
    float inv[8], scale[8];
    _mm256_storeu_ps(inv, by);
    _mm256_storeu_ps(scale, d);
    for (int r = 0; r < 8; r++) {
        __m512i v = both_halves(x[r], _mm512_set1_ps(inv[r]));
        _mm512_storeu_si512(b[r].q, by_rows(v));
        v = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), v);
        __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
        _mm_storeu_si128((__m128i *)(void *)b[r].sum,
                         _mm_add_epi32(_mm256_castsi256_si128(half),
                                       _mm256_extracti128_si256(half, 1)));
        b[r].scale = scale[r];
    }
}

/* A row of x to where its first (or only) row lies. */
static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t parts, place to)
{
    const int step = zt_pack_step(f);
    for (int64_t k = 0; k < K; k += 256) {
        const float *at[8];
        block b[8];
        int n = K - k < 256 ? (int)((K - k) / 32) : 8;
        for (int r = 0; r < 8; r++) at[r] = x + k + 32 * (r < n ? r : n - 1);
        if (parts == 2)
            make_eight_halves(at, b);
        else
            make_eight(at, b);
        if (n % step) b[n] = (block){.scale = 0};
        for (int r = 0; r < n; r += step, to = next_pair(to)) put_pair(f, to, (int)parts, b + r);
    }
}
#endif

#endif
