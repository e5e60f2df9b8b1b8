/* codes.h - private to isa/linalg.c: activations to 8 bits, or to twice 8; linalg.c says how they
 * lie.
 *
 * quantize: 32 f32 to signed bytes q = round(x / d), d = the largest |x| / 127, ties to even;
 * sum[h] is that of q[16h..16h+15]. Infinity or NaN makes d so, and with it every sum that it
 * enters.
 * whole_256: 32 f32 to whole numbers round(256 x / d), given 1 / d.
 *
 * With 16 bits, rows 2u and 2u+1 of a tile are the upper and lower half of token u: whole numbers
 * 256 hi + lo in units of d = the largest |x| / (127 * 256), lo from -127 to 127. d and the sums
 * with minima are at row 2u, for both.
 *
 * Where minima fold (pack.h: Q4_K, Q5_K), the sums d sum(q) of 8 times 32 columns are rounded to such
 * numbers of 16 bits too: of a product with minima of 6 bits they bring an error of 2^-16 of the
 * largest, where codes of 8 bits brought 2^-8. In their places are i8 hi[4] of the first four and of
 * the others, lo[4] of the same, and what they are multiples of.
 */
#ifndef ZT_CPU_CODES_H
#define ZT_CPU_CODES_H

#include <math.h>

#include "lib/engine/cpu/isa/tiles.h"

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

/* round(v); what no number of 16 bits is, is any. */
INLINE int32_t whole_of(float v) { return v >= -33000 && v <= 33000 ? (int32_t)lrintf(v) : 0; }

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
INLINE void whole_256(const float *x, float inv, int32_t *y)
{
    for (int i = 0; i < 32; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(inv));
        __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(256)));
        _mm256_storeu_si256((__m256i *)(y + i), whole);
    }
}

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

/* Not finite: any number will do, as d is not. */
INLINE void whole_256(const float *x, float inv, int32_t *y)
{
    for (int i = 0; i < 32; i++) y[i] = whole_of(x[i] * inv * 256);
}
#endif

/* ---- sums that fold --------------------------------------------------------------------------- */

/* A word of four bytes. */
INLINE uint32_t word_of_bytes(const int32_t *v)
{
    return (uint32_t)(v[0] & 255) | (uint32_t)(v[1] & 255) << 8 | (uint32_t)(v[2] & 255) << 16 |
           (uint32_t)v[3] << 24;
}

/* Of one row of T, whose 256 columns begin at dst. Not finite: any number will do, as the unit is
 * not. */
INLINE void fold_row(int64_t T, uint8_t *dst)
{
    uint8_t *s = dst + 36 * T;
    const size_t next = 40 * (size_t)T;
    int32_t hi[8], lo[8];
    float sum[8], unit;
    for (int b = 0; b < 8; b++) sum[b] = load_f32(s + (size_t)b * next);
    float inv = inverse_scale(top_bits(sum, 8), &unit);
    unit *= 1 / 256.0f;
    for (int b = 0; b < 8; b++) {
        int32_t y = whole_of(sum[b] * inv * 256);
        hi[b] = (y + 128) >> 8;
        lo[b] = y - 256 * hi[b];
    }
    const uint32_t word[4] = {word_of_bytes(hi), word_of_bytes(hi + 4), word_of_bytes(lo),
                              word_of_bytes(lo + 4)};
    for (int i = 0; i < 4; i++) memcpy(s + (size_t)i * next, &word[i], 4);
    memcpy(s + 4 * next, &unit, 4);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* Token u, or its half: codes to rows of T tokens, d, and what each row of weights wants beside. */
INLINE void put_block(zt_pack_form f, int64_t T, const int8_t *q, float d, const int32_t *sum,
                      uint8_t *dst)
{
    if (T == 1)
        memcpy(dst, q, 32);
    else
        for (int i = 0; i < 8; i++) memcpy(dst + 4 * T * i, q + 4 * i, 4);
    uint8_t *p = dst + 32 * T;
    memcpy(p, &d, 4);
    for (int h = 0; h <= zt_pack_halves(f); h++) {
        int32_t all = zt_pack_halves(f) ? sum[h] : sum[0] + sum[1], whole = -f.offset * all;
        float product = d * (float)all;
        memcpy(p + 4 * T * (1 + h), zt_pack_mins(f) ? (void *)&product : (void *)&whole, 4);
    }
}

#if !defined(ZT_ISA_avx512)
/* Both halves; not finite: any codes will do, as d is not. */
INLINE void put_halves(zt_pack_form f, int64_t T, const float *x, uint8_t *dst)
{
    int8_t hi[32], lo[32];
    int32_t y[32], high[2] = {0}, low[2] = {0}, both[2];
    float d, inv;
    inv = inverse_scale(top_bits(x, 32), &d);
    whole_256(x, inv, y);
    for (int i = 0; i < 32; i++) {
        int32_t v = y[i] > -32768 ? y[i] : -32768, h = (v + 128) >> 8, l = v - 256 * h;
        l = l > -127 ? l : -127;
        hi[i] = (int8_t)h, lo[i] = (int8_t)l;
        high[i / 16] += h, low[i / 16] += l;
    }
    for (int h = 0; h < 2; h++) both[h] = 256 * high[h] + low[h];
    d *= 1 / 256.0f;
    put_block(f, T, hi, d, zt_pack_mins(f) ? both : high, dst);
    put_block(f, T, lo, d, low, dst + 4);
}

/* A row of x to where its first (or only) row of a tile of T lies. */
static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t T, int64_t parts,
                      uint8_t *dst)
{
    for (int64_t k = 0; k < K; k += 32, dst += (size_t)T * code_bytes(f)) {
        int8_t q[32];
        float d;
        int32_t sum[2];
        if (parts == 2) {
            put_halves(f, T, x + k, dst);
        } else {
            quantize(x + k, q, &d, sum);
            put_block(f, T, q, d, sum, dst);
        }
        if (zt_pack_folds(f) && k % 256 == 224) fold_row(T, dst - 7 * T * 40);
    }
}
#endif

/* ---- a tile ---------------------------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* The same of a whole tile of 8 rows at once, or of one of 4, which is half of that: x[r] is what row r is
 * made of (twice each with 16 bits). Codes are turned in registers, scales and sums are made side by
 * side. */

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

/* The largest |x| of 32 for each of eight rows. */
INLINE __m256 tops(const float *const *x, int64_t k)
{
    const __m512i abs = _mm512_set1_epi32(0x7fffffff);
    __m256i v[8], low, high;
    UNROLL for (int r = 0; r < 8; r++) {
        __m512i a = _mm512_and_si512(_mm512_loadu_si512(x[r] + k), abs);
        a = _mm512_max_epi32(a, _mm512_and_si512(_mm512_loadu_si512(x[r] + k + 16), abs));
        v[r] = _mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    }
    across(true, v, &low, &high);
    return _mm256_castsi256_ps(_mm256_max_epi32(low, high));
}

/* inverse_scale of eight. */
INLINE __m256 inverse_scales(int parts, __m256 top, __m256 *d)
{
    const __m256 most = _mm256_set1_ps(127);
    __mmask8 some = _mm256_cmp_ps_mask(top, _mm256_set1_ps(1e-35f), _CMP_GT_OQ);
    *d = _mm256_div_ps(top, most);
    if (parts == 2) *d = _mm256_mul_ps(*d, _mm256_set1_ps(1 / 256.0f));
    return _mm256_maskz_div_ps(some, most, top);
}

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

/* 32 codes of two rows: in lane L of four, words L and 4+L of the first, then of the second. */
INLINE __m512i two_rows(int parts, const float *a, const float *b, float inv_a, float inv_b)
{
    const __m512 ia = _mm512_set1_ps(inv_a), ib = _mm512_set1_ps(inv_b);
    if (parts == 1)
        return _mm512_packs_epi16(_mm512_packs_epi32(whole(a, ia), whole(a + 16, ia)),
                                  _mm512_packs_epi32(whole(b, ib), whole(b + 16, ib)));
    return both_halves(a, ia);
}

/* Four pairs of rows to q[8][8 rows][4], two columns of words a register. */
INLINE void turn_codes(const __m512i *p, __m512i *z)
{
    const __m512i first =
        _mm512_setr_epi32(0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    const __m512i later = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
    UNROLL for (int h = 0; h < 2; h++) {
        __m512i a = _mm512_permutex2var_epi32(p[0], h ? later : first, p[1]);
        __m512i b = _mm512_permutex2var_epi32(p[2], h ? later : first, p[3]);
        z[2 * h] = _mm512_permutex2var_epi64(a, low, b);
        z[2 * h + 1] = _mm512_permutex2var_epi64(a, high, b);
    }
}

/* The sums of each row's codes in two registers, which are 16 columns. */
INLINE __m256i sums_of(__m512i a, __m512i b)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, a);
    s = _mm512_dpbusd_epi32(s, one, b);
    return _mm256_add_epi32(_mm512_castsi512_si256(s), _mm512_extracti64x4_epi64(s, 1));
}

/* What weights want of a row: see put_block. */
INLINE __m256i wanted(zt_pack_form f, int parts, __m256i sum, __m256 d)
{
    if (!zt_pack_mins(f)) return _mm256_mullo_epi32(sum, _mm256_set1_epi32(-f.offset));
    if (parts == 2)
        sum = _mm256_blend_epi32(
            _mm256_add_epi32(_mm256_slli_epi32(sum, 8), _mm256_srli_epi64(sum, 32)), sum, 0xaa);
    return _mm256_castps_si256(_mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)));
}

/* Two words of each row of codes, and a number of each row. */
INLINE void store_codes(int T, uint8_t *dst, __m512i z)
{
    if (T == 8)
        _mm512_storeu_si512(dst, z);
    else
        _mm256_storeu_si256((__m256i *)(void *)dst,
                            _mm512_castsi512_si256(_mm512_shuffle_i64x2(z, z, 0x08)));
}

INLINE void store_each(int T, uint8_t *dst, __m256i v)
{
    if (T == 8)
        _mm256_storeu_si256((__m256i *)(void *)dst, v);
    else
        _mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(v));
}

INLINE __m256 load_each(int T, const uint8_t *p)
{
    if (T == 8) return _mm256_loadu_ps((const float *)(const void *)p);
    return _mm256_castps128_ps256(_mm_loadu_ps((const float *)(const void *)p));
}

/* fold_row of all T rows. */
INLINE void fold_tile(int T, uint8_t *dst)
{
    uint8_t *s = dst + 36 * T;
    const int next = 40 * T;
    const __m256i abs = _mm256_set1_epi32(0x7fffffff), byte = _mm256_set1_epi32(255);
    __m256i top = _mm256_setzero_si256(), word[4] = {top, top, top, top};
    __m256 unit;
    UNROLL for (int b = 0; b < 8; b++) {
        __m256i bits = _mm256_castps_si256(load_each(T, s + b * next));
        top = _mm256_max_epi32(top, _mm256_and_si256(bits, abs));
    }
    __m256 by = inverse_scales(2, _mm256_castsi256_ps(top), &unit);
    UNROLL for (int b = 0; b < 8; b++) {
        __m256 v = _mm256_mul_ps(load_each(T, s + b * next), by);
        __m256i y = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(256)));
        __m256i hi = _mm256_srai_epi32(_mm256_add_epi32(y, _mm256_set1_epi32(128)), 8);
        __m256i lo = _mm256_sub_epi32(y, _mm256_slli_epi32(hi, 8));
        hi = _mm256_slli_epi32(_mm256_and_si256(hi, byte), 8 * (b % 4));
        lo = _mm256_slli_epi32(_mm256_and_si256(lo, byte), 8 * (b % 4));
        word[b / 4] = _mm256_or_si256(word[b / 4], hi);
        word[2 + b / 4] = _mm256_or_si256(word[2 + b / 4], lo);
    }
    UNROLL for (int i = 0; i < 4; i++) store_each(T, s + i * next, word[i]);
    store_each(T, s + 4 * next, _mm256_castps_si256(unit));
}

INLINE void put_tile_block(zt_pack_form f, int T, int parts, const float *const *x, int64_t k,
                           uint8_t *dst)
{
    __m256 d, by = inverse_scales(parts, tops(x, k), &d);
    float inv[8];
    __m512i p[4], z[4];
    _mm256_storeu_ps(inv, by);
    UNROLL for (int r = 0; r < 8; r += 2)
        p[r / 2] = two_rows(parts, x[r] + k, x[r + 1] + k, inv[r], inv[r + 1]);
    turn_codes(p, z);
    UNROLL for (int i = 0; i < 4; i++) store_codes(T, dst + 8 * T * i, z[i]);
    store_each(T, dst + 32 * T, _mm256_castps_si256(d));
    __m256i a = sums_of(z[0], z[1]), b = sums_of(z[2], z[3]);
    if (!zt_pack_halves(f)) a = _mm256_add_epi32(a, b);
    store_each(T, dst + 36 * T, wanted(f, parts, a, d));
    if (zt_pack_halves(f)) store_each(T, dst + 40 * T, wanted(f, parts, b, d));
}

INLINE void put_tile_of(zt_pack_form f, int T, int parts, const float *const *x, int64_t K,
                        uint8_t *dst)
{
    for (int64_t k = 0; k < K; k += 32, dst += (size_t)T * code_bytes(f)) {
        put_tile_block(f, T, parts, x, k, dst);
        if (zt_pack_folds(f) && k % 256 == 224) fold_tile(T, dst - 7 * T * 40);
    }
}

static void put_tile(zt_pack_form f, const float *const *x, int64_t K, int64_t T, int64_t parts,
                     uint8_t *dst)
{
    if (T == 8 && parts == 2)
        put_tile_of(f, 8, 2, x, K, dst);
    else if (T == 8)
        put_tile_of(f, 8, 1, x, K, dst);
    else if (parts == 2)
        put_tile_of(f, 4, 2, x, K, dst);
    else
        put_tile_of(f, 4, 1, x, K, dst);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* Up to eight blocks of 32 of a row, which begin at x[r], as quantize makes them. */
INLINE void put_eight(zt_pack_form f, const float *const *x, int n, int64_t T, uint8_t *dst)
{
    __m256 scale, by = inverse_scales(1, tops(x, 0), &scale);
    __m256i v[8], low, high;
    int8_t q[8][32];
    float inv[8], d[8];
    int32_t sum[2][8];
    _mm256_storeu_ps(inv, by);
    _mm256_storeu_ps(d, scale);
    UNROLL for (int r = 0; r < 8; r++) {
        const __m512 i = _mm512_set1_ps(inv[r]);
        v[r] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm512_cvtepi32_epi8(whole(x[r], i))),
            _mm512_cvtepi32_epi8(whole(x[r] + 16, i)), 1);
        _mm256_storeu_si256((__m256i *)(void *)q[r], v[r]);
        v[r] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), v[r]);
    }
    across(false, v, &low, &high);
    _mm256_storeu_si256((__m256i *)(void *)sum[0], low);
    _mm256_storeu_si256((__m256i *)(void *)sum[1], high);
    for (int r = 0; r < n; r++, dst += (size_t)T * code_bytes(f))
        put_block(f, T, q[r], d[r], (int32_t[]){sum[0][r], sum[1][r]}, dst);
}

/* The same of both halves. */
INLINE void put_eight_halves(zt_pack_form f, const float *const *x, int n, int64_t T, uint8_t *dst)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m256 scale, by = inverse_scales(2, tops(x, 0), &scale);
    float inv[8], d[8];
    _mm256_storeu_ps(inv, by);
    _mm256_storeu_ps(d, scale);
    for (int r = 0; r < n; r++, dst += (size_t)T * code_bytes(f)) {
        int8_t q[64];
        int32_t sum[4], both[2]; /* of the upper halves, 16 columns each, then of the lower */
        __m512i v = both_halves(x[r], _mm512_set1_ps(inv[r]));
        _mm512_storeu_si512(q, _mm512_permutexvar_epi32(turn, v));
        v = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), v);
        __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
        _mm_storeu_si128((__m128i *)(void *)sum,
                         _mm_add_epi32(_mm256_castsi256_si128(half),
                                       _mm256_extracti128_si256(half, 1)));
        for (int h = 0; h < 2; h++) both[h] = 256 * sum[h] + sum[2 + h];
        put_block(f, T, q, d[r], zt_pack_mins(f) ? both : sum, dst);
        put_block(f, T, q + 32, d[r], sum + 2, dst + 4);
    }
}

/* A row of x to where its first (or only) row of a tile of T lies. */
static void put_codes(zt_pack_form f, const float *x, int64_t K, int64_t T, int64_t parts,
                      uint8_t *dst)
{
    for (int64_t k = 0; k < K; k += 256, dst += 8 * (size_t)T * code_bytes(f)) {
        const float *at[8];
        int n = K - k < 256 ? (int)((K - k) / 32) : 8;
        for (int r = 0; r < 8; r++) at[r] = x + k + 32 * (r < n ? r : n - 1);
        if (parts == 2)
            put_eight_halves(f, at, n, T, dst);
        else
            put_eight(f, at, n, T, dst);
        if (zt_pack_folds(f)) fold_row(T, dst);
    }
}
#endif

#endif
