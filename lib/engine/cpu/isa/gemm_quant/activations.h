/* activations.h - private to gemm_quant/: activations quantized to 8 bits, or to two times 8 (layout.h has how
 * they lie).
 *
 *   q8     q = round(x / d), d = the largest |x| of 32 columns / 127, ties to even
 *   q16    256 upper + lower in units of d / 256, lower from -127 to 127: rows 2u and 2u + 1 of a tile are the upper
 *          and the lower half of token u, and scales are f32. With AVX2, which multiplies numbers of 16 bits as
 *          fast, each word of four columns is i16 columns (0, 2) in the one row and (1, 3) in the other; their sum
 *          is the second row's.
 *
 * With q8 two scales are integers, in units of a 16383rd of the larger. Infinity or NaN makes the unit so, and with
 * it every sum that it enters.
 */
#ifndef ZT_CPU_GEMM_QUANT_ACTIVATIONS_H
#define ZT_CPU_GEMM_QUANT_ACTIVATIONS_H

#include <math.h>

#include "lib/engine/cpu/isa/gemm_quant/layout.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_crossed.h"

/* ---- 32 values ------------------------------------------------------------------------------- */

/* The scale of 32 values from the bits of the largest |x| (as integers they keep the order, with
 * NaN on top), and what to multiply by. */
INLINE float inverse_scale(int32_t bits, float *scale)
{
    float top = load_f32(&bits);
    *scale = top / 127;
    return top > 1e-35f ? 127 / top : 0; /* below, 127 / top might be infinite: all codes 0 */
}

/* The bits of the largest |x| of n, as integers. */
INLINE int32_t max_abs_bits(const float *x, int count)
{
    int32_t top = 0;
    for (int i = 0; i < count; i++) {
        int32_t bits = load_i32(x + i) & 0x7fffffff;
        top = bits > top ? bits : top;
    }
    return top;
}

#if defined(ZT_ISA_avx512)
/* Sixteen to integers; of infinity and NaN it is the smallest byte. */
INLINE __m512i round_16(const float *x, __m512 inverse)
{
    __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
    return _mm512_max_epi32(rounded, _mm512_set1_epi32(-128));
}

INLINE __m512i round_16_times_256(const float *x, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x), inverse), _mm512_set1_ps(256));
    return _mm512_cvtps_epi32(scaled);
}

#elif defined(ZT_ISA_avx2)
INLINE __m256i round_8(const float *x, __m256 inverse) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse)); }

/* The sum of 8. */
INLINE int32_t sum_lanes(__m256i lanes)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

INLINE void quantize_q8(const float *x, int8_t *q, float *scale, int32_t *sum)
{
    __m256 inverse = _mm256_set1_ps(inverse_scale(max_abs_bits(x, 32), scale));
    for (int half = 0; half < 2; half++) {
        __m256i a = round_8(x + 16 * half, inverse), b = round_8(x + 16 * half + 8, inverse);
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
        __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
        _mm_storeu_si128((__m128i *)(q + 16 * half), _mm_packs_epi16(low, high));
        sum[half] = sum_lanes(_mm256_add_epi32(a, b));
    }
}

#else
INLINE void quantize_q8(const float *x, int8_t *q, float *scale, int32_t *sum)
{
    float inverse = inverse_scale(max_abs_bits(x, 32), scale);
    for (int half = 0; half < 2; half++) {
        sum[half] = 0;
        for (int i = 16 * half; i < 16 * half + 16; i++) {
            q[i] = (int8_t)lrintf(x[i] * inverse);
            sum[half] += q[i];
        }
    }
}

#endif

/* ---- a row ----------------------------------------------------------------------------------- */

/* 32 columns of a token: codes, their sums for each 16 columns, and the scale. With q16 [0] are the upper halves, [1]
 * the lower. */
typedef struct act_block {
    int8_t q[2][32];
    int32_t sum[2][2];
    float scale;
} act_block;

/* The unit of Q: minima are multiplied by scale * sum of codes * this. */
INLINE float min_unit(zt_pack_form form, int parts) { return parts == 1 && !zt_pack_scale_per_16(form) ? 0x1p-12f : 1; }

/* Stores the codes of the pair's i-th 32 columns, of the row-th row from `place`. */
INLINE void put_words(row_place place, int i, int row, const int8_t *q)
{
    if (place.amx || place.T == 1) { /* then row is 0, or a line of AMX */
        memcpy(place.codes + 32 * i + 64 * row, q, 32);
        return;
    }
    uint8_t *dst = place.codes + 32 * place.T * i + 4 * row;
    for (int j = 0; j < 8; j++) memcpy(dst + 4 * place.T * j, q + 4 * j, 4);
}

/* Stores two numbers of a token: with q8 as i16 in a word, with q16 as f32 in its two rows. */
INLINE void put_two(int parts, float a, float b, uint8_t *dst)
{
    const uint32_t whole = (uint32_t)(round_to_int(a) & 0xffff) | (uint32_t)round_to_int(b) << 16;
    const float floats[2] = {a, b};
    if (parts == 1)
        memcpy(dst, &whole, 4);
    else
        memcpy(dst, floats, 8);
}

/* Makes two scales integers of 14 bits and returns their unit. top: the bits of the larger. With a scale for 16 columns
 * both become 1; with q16 they stay. */
INLINE float scale_unit(zt_pack_form form, int parts, int32_t top, float *scale)
{
    float unit = load_f32(&top), inverse = unit > 1e-35f ? 16383 / unit : 0;
    if (parts == 2) return 1;
    if (zt_pack_scale_per_16(form)) return scale[0] = scale[1] = 1, unit;
    for (int i = 0; i < 2; i++) scale[i] = rintf(scale[i] * inverse);
    return unit / 16383;
}

/* The sums of q for each of a pair's two scales. */
INLINE void pair_sums(zt_pack_form form, int parts, const act_block *block, int32_t sum[2][2])
{
    const bool per_16 = zt_pack_scale_per_16(form);
    for (int u = 0; u < parts; u++)
        for (int i = 0; i < 2; i++) sum[u][i] = per_16 ? block[0].sum[u][i] : block[i].sum[u][0] + block[i].sum[u][1];
}

/* Stores what follows the codes of a pair, but for what sums begin with; returns where that goes. */
INLINE uint8_t *put_factors(zt_pack_form form, row_place place, int parts, const act_block *block, int32_t sum[2][2])
{
    const int last = zt_pack_pair_slices(form) - 1, T = place.T;
    uint8_t *p = place.factors;
    float scale[2] = {block[0].scale, block[last].scale}, product[2];
    float unit = scale_unit(form, parts, max_abs_bits(scale, 2), scale) * integer_unit(form);
    if (parts == 2 || last) put_two(parts, scale[0], scale[1], p);
    p += last ? 4 * T : 0;
    if (parts == 1) memcpy(p, &unit, 4);
    p += 4 * T;
    if (!zt_pack_has_mins(form)) return p;
    for (int i = 0; i < 2; i++) {
        int32_t whole = parts == 1 ? sum[0][i] : 256 * sum[0][i] + sum[1][i];
        product[i] = scale[i] * (float)whole * min_unit(form, parts);
    }
    put_two(parts, product[0], product[1], p + 8 * T);
    return p;
}

/* Stores a pair of a row, of zt_pack_pair_slices blocks. */
INLINE void put_pair(zt_pack_form form, row_place place, int parts, const act_block *block)
{
    const int T = place.T;
    int32_t sum[2][2];
    pair_sums(form, parts, block, sum);
    for (int u = 0; u < parts; u++)
        for (int i = 0; i < zt_pack_pair_slices(form); i++) put_words(place, i, u, block[i].q[u]);
    uint8_t *start = put_factors(form, place, parts, block, sum);
    for (int u = 0; u < parts; u++)
        for (int i = 0; i < 2; i++) {
            int32_t whole = dot_rounding(form, parts, i) - zt_pack_middle(form) * sum[u][i];
            memcpy(start + 4 * T * i + 4 * u, &whole, 4);
        }
}

#if defined(ZT_ISA_avx2)
/* ---- crossed words (tile_crossed.h) ---------------------------------------------------------- */

/* 16 bytes of each scale: words of two columns of each. */
INLINE void put_crossed_words(const int8_t *a, const int8_t *b, uint8_t *dst)
{
    const __m128i x = _mm_loadu_si128((const void *)a), y = _mm_loadu_si128((const void *)b);
    int32_t words[8];
    _mm_storeu_si128((void *)words, _mm_unpacklo_epi16(x, y));
    _mm_storeu_si128((void *)(words + 4), _mm_unpackhi_epi16(x, y));
    UNROLL_FOR (int j = 0; j < 8; j++) memcpy(dst + 4 * TILE_ROWS * j, words + j, 4);
}

INLINE int32_t sum_of_8(const int8_t *q)
{
    const __m128i up = _mm_set1_epi8((char)128), x = _mm_loadl_epi64((const void *)q);
    const __m128i sum = _mm_sad_epu8(_mm_xor_si128(x, up), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sum) - 8 * 128;
}

/* Stores two i16 for each of 8 rows, or for one row. */
INLINE void store_starts(int rows, __m256i first, __m256i second, uint8_t *dst)
{
    const __m256i words = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa);
    const int32_t one = _mm256_cvtsi256_si32(words);
    if (rows == 1)
        memcpy(dst, &one, 4);
    else
        _mm256_storeu_si256((void *)dst, words);
}

/* What the two sums of a pair begin with: a and b of tile_crossed.h, each less the middle times the sum of its
 * columns. first, second: the sums of q of the first and the second half of each scale's columns, a row a lane. */
INLINE void put_crossed_start(zt_pack_form form, int rows, __m256i first[2], __m256i second[2], uint8_t *dst)
{
    const int shift = zt_pack_dot_shift(form), begin = shift == 1 ? 1 << 15 : 0;
    const __m256i middle = _mm256_set1_epi32(shift > 1 ? 8 : zt_pack_middle(form));
    __m256i a[2], b[2];
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const int more = dot_rounding(form, 1, i) - (shift == 1); /* vpavgw adds one */
        if (shift != 1) first[i] = second[i] = _mm256_add_epi32(first[i], second[i]);
        a[i] = _mm256_sub_epi32(_mm256_set1_epi32(begin), _mm256_mullo_epi32(first[i], middle));
        b[i] = _mm256_sub_epi32(_mm256_set1_epi32(begin + more), _mm256_mullo_epi32(second[i], middle));
    }
    store_starts(rows, a[0], a[1], dst);
    store_starts(rows, b[0], b[1], dst + 4 * TILE_ROWS);
}

/* put_pair of a row of a tile of crossed words. */
INLINE void put_crossed_pair(zt_pack_form form, row_place place, const act_block *block)
{
    const bool per_16 = zt_pack_scale_per_16(form);
    const int8_t *q[2] = {block[0].q[0], per_16 ? block[0].q[0] + 16 : block[1].q[0]};
    int32_t sum[2][2];
    __m256i first[2], second[2];
    pair_sums(form, 1, block, sum);
    put_crossed_words(q[0], q[1], place.codes);
    if (!per_16) put_crossed_words(q[0] + 16, q[1] + 16, place.codes + 4 * TILE_ROWS * 8);
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const int32_t half = sum_of_8(q[i]) + (per_16 ? 0 : sum_of_8(q[i] + 8));
        first[i] = _mm256_set1_epi32(half), second[i] = _mm256_set1_epi32(sum[0][i] - half);
    }
    put_crossed_start(form, 1, first, second, put_factors(form, place, 1, block, sum));
}

#endif

#if defined(ZT_ISA_avx2)
/* Sixteen to 256 upper + lower as i16. Of infinity and NaN it is any number. */
INLINE __m256i round_16_to_16_bits(const float *x, __m256 inverse)
{
    const __m256 times = _mm256_set1_ps(256);
    __m256 a = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inverse), times);
    __m256 b = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inverse), times);
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m256i upper = _mm256_srai_epi16(_mm256_add_epi16(words, _mm256_set1_epi16(128)), 8);
    upper = _mm256_slli_epi16(upper, 8);
    return _mm256_add_epi16(upper, _mm256_max_epi16(_mm256_sub_epi16(words, upper), _mm256_set1_epi16(-127)));
}

INLINE void quantize_q16(const float *x, act_block *block)
{
    const __m256i even_odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256 inverse = _mm256_set1_ps(inverse_scale(max_abs_bits(x, 32), &block->scale));
    for (int upper = 0; upper < 2; upper++) {
        __m256i value = round_16_to_16_bits(x + 16 * upper, inverse);
        block->sum[0][upper] = 0;
        block->sum[1][upper] = sum_lanes(_mm256_madd_epi16(value, _mm256_set1_epi16(1)));
        value = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(value, even_odd), 0xd8);
        _mm_storeu_si128((__m128i *)(block->q[0] + 16 * upper), _mm256_castsi256_si128(value));
        _mm_storeu_si128((__m128i *)(block->q[1] + 16 * upper), _mm256_extracti128_si256(value, 1));
    }
}
#elif !defined(ZT_ISA_avx512)
/* If x is not finite any codes will do, as the scale is not finite either. */
INLINE void quantize_q16(const float *x, act_block *block)
{
    float inverse = inverse_scale(max_abs_bits(x, 32), &block->scale);
    memset(block->sum, 0, sizeof block->sum);
    for (int i = 0; i < 32; i++) {
        int32_t rounded = round_to_int(x[i] * inverse * 256), value = rounded > -32768 ? rounded : -32768;
        int32_t upper = (value + 128) >> 8, lower = value - 256 * upper;
        lower = lower > -127 ? lower : -127;
        block->q[0][i] = (int8_t)upper, block->q[1][i] = (int8_t)lower;
        block->sum[0][i / 16] += upper, block->sum[1][i / 16] += lower;
    }
}
#endif

#if defined(WHOLE_TILES)
/* ---- eight blocks of 32 values --------------------------------------------------------------- */

/* Reduces eight registers to a lane each, by maximum or sum: lane i of *low has the lower four lanes of register i, of
 * *high the upper four. */
INLINE void reduce_8(bool largest, __m256i *lanes, __m256i *low, __m256i *high)
{
#define BOTH(a, b) (largest ? _mm256_max_epi32(a, b) : _mm256_add_epi32(a, b))
    UNROLL_FOR (int r = 0; r < 8; r += 2)
        lanes[r] = BOTH(_mm256_unpacklo_epi32(lanes[r], lanes[r + 1]), _mm256_unpackhi_epi32(lanes[r], lanes[r + 1]));
    UNROLL_FOR (int r = 0; r < 8; r += 4)
        lanes[r] = BOTH(_mm256_unpacklo_epi64(lanes[r], lanes[r + 2]), _mm256_unpackhi_epi64(lanes[r], lanes[r + 2]));
#undef BOTH
    *low = _mm256_permute2x128_si256(lanes[0], lanes[4], 0x20);
    *high = _mm256_permute2x128_si256(lanes[0], lanes[4], 0x31);
}

/* Reduces 32 |x| to the largest of each eighth lane, as integers. */
INLINE __m256i max_abs_lanes(const float *x)
{
#if defined(ZT_ISA_avx512)
    const __m512i abs = _mm512_set1_epi32(0x7fffffff);
    __m512i lanes = _mm512_and_si512(_mm512_loadu_si512(x), abs);
    lanes = _mm512_max_epi32(lanes, _mm512_and_si512(_mm512_loadu_si512(x + 16), abs));
    return _mm256_max_epi32(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
#else
    const __m256i abs = _mm256_set1_epi32(0x7fffffff);
    __m256i top = _mm256_setzero_si256();
    UNROLL_FOR (int i = 0; i < 32; i += 8) {
        const __m256i lanes = _mm256_loadu_si256((const void *)(x + i));
        top = _mm256_max_epi32(top, _mm256_and_si256(lanes, abs));
    }
    return top;
#endif
}

/* The largest |x| of 32 for each of eight rows. */
INLINE __m256 row_maxima(const float *const *x, int64_t k)
{
    __m256i lanes[8], low, high;
    UNROLL_FOR (int r = 0; r < 8; r++) lanes[r] = max_abs_lanes(x[r] + k);
    reduce_8(true, lanes, &low, &high);
    return _mm256_castsi256_ps(_mm256_max_epi32(low, high));
}

/* inverse_scale of eight. */
INLINE __m256 inverse_scales(int parts, __m256 top, __m256 *scale)
{
    const __m256 limit = _mm256_set1_ps(127);
    const __m256 not_tiny = _mm256_cmp_ps(top, _mm256_set1_ps(1e-35f), _CMP_GT_OQ);
    *scale = _mm256_div_ps(top, limit);
    if (parts == 2) *scale = _mm256_mul_ps(*scale, _mm256_set1_ps(1 / 256.0f));
    return _mm256_and_ps(not_tiny, _mm256_div_ps(limit, top));
}
#endif

/* ---- all of a row ---------------------------------------------------------------------------- */

#if !defined(ZT_ISA_avx512)
INLINE void quantize_block(int parts, const float *x, act_block *block)
{
    if (parts == 1) {
        quantize_q8(x, block->q[0], &block->scale, block->sum[0]);
        return;
    }
    quantize_q16(x, block);
    block->scale *= 1 / 256.0f;
}

INLINE void put_row(zt_pack_form form, const float *x, int64_t K, int parts, row_place place)
{
    const int slices = zt_pack_pair_slices(form);
    for (int64_t k = 0; k < K; k += 32 * slices, place = next_pair(place)) {
        act_block block[2];
        quantize_block(parts, x + k, &block[0]);
        if (slices == 2 && k + 32 < K)
            quantize_block(parts, x + k + 32, &block[1]);
        else if (slices == 2)
            block[1] = (act_block){.scale = 0};
#if defined(ZT_ISA_avx2)
        if (place.T == TILE_ROWS && parts == 1) {
            put_crossed_pair(form, place, block);
            continue;
        }
#endif
        put_pair(form, place, parts, block);
    }
}

/* Stores a row of x at `place`, that of its first (or only) row, with `parts` known to the compiler. (Most rows come a
 * tile at once: activations_tile.h.) */
static void put_row_codes(zt_pack_form form, const float *x, int64_t K, int64_t parts, row_place place)
{
    if (parts == 2)
        put_row(form, x, K, 2, place);
    else
        put_row(form, x, K, 1, place);
}
#endif

#if defined(ZT_ISA_avx512)
/* 32 numbers to 16 bits. Quarter L of the register has words L and 4+L of the upper halves, then of the lower. */
INLINE __m512i split_halves(const float *x, __m512 inverse)
{
    const __m512i rounding = _mm512_set1_epi16(128), lowest = _mm512_set1_epi16(-127);
    __m512i words = _mm512_packs_epi32(round_16_times_256(x, inverse), round_16_times_256(x + 16, inverse));
    __m512i upper = _mm512_srai_epi16(_mm512_add_epi16(words, rounding), 8);
    __m512i lower = _mm512_sub_epi16(words, _mm512_slli_epi16(upper, 8));
    return _mm512_packs_epi16(upper, _mm512_max_epi16(lower, lowest));
}

/* The same in order: the upper halves, then the lower. */
INLINE __m512i order_by_row(__m512i words)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, words);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* quantize_q8 of eight blocks of a row, which begin at x[r]. */
INLINE void quantize_8_blocks(const float *const *x, act_block *block)
{
    __m256 scales, inverses = inverse_scales(1, row_maxima(x, 0), &scales);
    __m256i words[8], low, high;
    float inv[8], scale[8];
    int32_t sum[2][8];
    _mm256_storeu_ps(inv, inverses);
    _mm256_storeu_ps(scale, scales);
    UNROLL_FOR (int r = 0; r < 8; r++) {
        const __m512 factor = _mm512_set1_ps(inv[r]);
        words[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(round_16(x[r], factor))),
                                           _mm512_cvtepi32_epi8(round_16(x[r] + 16, factor)), 1);
        _mm256_storeu_si256((__m256i *)(void *)block[r].q[0], words[r]);
        words[r] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), words[r]);
    }
    reduce_8(false, words, &low, &high);
    _mm256_storeu_si256((__m256i *)(void *)sum[0], low);
    _mm256_storeu_si256((__m256i *)(void *)sum[1], high);
    for (int r = 0; r < 8; r++) {
        for (int h = 0; h < 2; h++) block[r].sum[0][h] = sum[h][r];
        block[r].scale = scale[r];
    }
}

/* The same with q16. */
INLINE void quantize_8_blocks_q16(const float *const *x, act_block *block)
{
    __m256 scales, inverses = inverse_scales(2, row_maxima(x, 0), &scales);
    float inv[8], scale[8];
    _mm256_storeu_ps(inv, inverses);
    _mm256_storeu_ps(scale, scales);
    for (int r = 0; r < 8; r++) {
        __m512i words = split_halves(x[r], _mm512_set1_ps(inv[r]));
        _mm512_storeu_si512(block[r].q, order_by_row(words));
        words = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), words);
        __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64(words, 1));
        _mm_storeu_si128((__m128i *)(void *)block[r].sum,
                         _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
        block[r].scale = scale[r];
    }
}

/* Stores a row of x at `place`, that of its first (or only) row. */
static void put_row_codes(zt_pack_form form, const float *x, int64_t K, int64_t parts, row_place place)
{
    const int slices = zt_pack_pair_slices(form);
    for (int64_t k = 0; k < K; k += 256) {
        const float *starts[8];
        act_block block[8];
        int count = K - k < 256 ? (int)((K - k) / 32) : 8;
        for (int b = 0; b < 8; b++) starts[b] = x + k + 32 * (b < count ? b : count - 1);
        if (parts == 2)
            quantize_8_blocks_q16(starts, block);
        else
            quantize_8_blocks(starts, block);
        if (count % slices) block[count] = (act_block){.scale = 0};
        for (int b = 0; b < count; b += slices, place = next_pair(place)) put_pair(form, place, (int)parts, block + b);
    }
}
#endif

#endif
