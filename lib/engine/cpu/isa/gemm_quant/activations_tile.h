/* activations_tile.h - private to gemm_quant/: put_row_codes of a whole tile of 8 rows at once, where tile_at_once says so
 * (AVX-512: or of a tile of 4, half of that). x[r] is what row r is made of (with q16 each is there twice). Codes are
 * transposed in registers; scales and sums are made side by side.
 */
#ifndef ZT_CPU_CODES_TILE_H
#define ZT_CPU_CODES_TILE_H

#include "lib/engine/cpu/isa/gemm_quant/activations.h"

#if defined(WHOLE_TILES)
/* ---- what comes behind the codes ------------------------------------------------------------- */

/* Stores a number of each row. */
INLINE void store_rows_of_tile(int T, uint8_t *dst, __m256i numbers)
{
    if (T == 8)
        _mm256_storeu_si256((__m256i *)(void *)dst, numbers);
    else
        _mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(numbers));
}

/* The lower 16 bits of a and of b, in one word. */
INLINE __m256i join_words(__m256i a, __m256i b) { return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa); }

/* put_two of each row. */
INLINE void store_two_factors(int T, int parts, uint8_t *dst, __m256 first, __m256 second)
{
    if (parts == 1)
        store_rows_of_tile(T, dst, join_words(_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second)));
    else
        store_rows_of_tile(T, dst, _mm256_castps_si256(_mm256_blend_ps(first, _mm256_moveldup_ps(second), 0xaa)));
}

/* scale_unit of each row. */
INLINE __m256 tile_scale_units(zt_pack_form f, int parts, __m256 *scale)
{
    const __m256 one = _mm256_set1_ps(1), limit = _mm256_set1_ps(16383);
    __m256i top = _mm256_max_epi32(_mm256_castps_si256(scale[0]), _mm256_castps_si256(scale[1]));
    __m256 unit = _mm256_castsi256_ps(top);
    if (parts == 2) return one;
    if (zt_pack_scale_per_16(f)) return scale[0] = scale[1] = one, unit;
    const __m256 not_tiny = _mm256_cmp_ps(unit, _mm256_set1_ps(1e-35f), _CMP_GT_OQ);
    const __m256 inverse = _mm256_and_ps(not_tiny, _mm256_div_ps(limit, unit));
    UNROLL_FOR (int i = 0; i < 2; i++) scale[i] = _mm256_round_ps(_mm256_mul_ps(scale[i], inverse), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_div_ps(unit, limit);
}

/* Q of each row. */
INLINE __m256 tile_min_factors(zt_pack_form f, int parts, __m256 scale, __m256i sum)
{
    if (parts == 2) sum = _mm256_add_epi32(_mm256_slli_epi32(sum, 8), _mm256_srli_epi64(sum, 32));
    return _mm256_mul_ps(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)), _mm256_set1_ps(min_unit(f, parts)));
}

/* put_factors of each row. */
INLINE uint8_t *put_tile_factors(zt_pack_form form, int T, int parts, __m256 *scale, const __m256i *sum, uint8_t *p)
{
    const __m256 unit = tile_scale_units(form, parts, scale);
    if (parts == 2 || !zt_pack_scale_per_16(form)) store_two_factors(T, parts, p, scale[0], scale[1]);
    p += zt_pack_scale_per_16(form) ? 0 : 4 * T;
    if (parts == 1) store_rows_of_tile(T, p, _mm256_castps_si256(_mm256_mul_ps(unit, _mm256_set1_ps(integer_unit(form)))));
    p += 4 * T;
    if (zt_pack_has_mins(form))
        store_two_factors(T, parts, p + 8 * T, tile_min_factors(form, parts, scale[0], sum[0]),
                          tile_min_factors(form, parts, scale[1], sum[1]));
    return p;
}

#endif

#if defined(ZT_ISA_avx512)
/* ---- a tile ---------------------------------------------------------------------------------- */

/* 32 codes of two rows. Quarter L of the register has words L and 4+L of the first row, then of the second. */
INLINE __m512i quantize_two_rows(int parts, const float *a, const float *b, float inv_a, float inv_b)
{
    const __m512 by_a = _mm512_set1_ps(inv_a), by_b = _mm512_set1_ps(inv_b);
    if (parts == 1)
        return _mm512_packs_epi16(_mm512_packs_epi32(round_16(a, by_a), round_16(a + 16, by_a)),
                                  _mm512_packs_epi32(round_16(b, by_b), round_16(b + 16, by_b)));
    return split_halves(a, by_a);
}

/* Four pairs of rows to q[8][8 rows][4], two columns of words a register. */
INLINE void transpose_codes(const __m512i *pairs, __m512i *words)
{
    const __m512i first = _mm512_setr_epi32(0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    const __m512i later = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
    UNROLL_FOR (int odd = 0; odd < 2; odd++) {
        __m512i upper_rows = _mm512_permutex2var_epi32(pairs[0], odd ? later : first, pairs[1]);
        __m512i lower_rows = _mm512_permutex2var_epi32(pairs[2], odd ? later : first, pairs[3]);
        words[2 * odd] = _mm512_permutex2var_epi64(upper_rows, low, lower_rows);
        words[2 * odd + 1] = _mm512_permutex2var_epi64(upper_rows, high, lower_rows);
    }
}

/* The sums of each row's codes in two registers, which are 16 columns. */
INLINE __m256i sum_16_columns(__m512i a, __m512i b)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, a);
    sums = _mm512_dpbusd_epi32(sums, one, b);
    return _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
}

/* Stores pairs of rows, as quantize_two_rows gives them, for AMX: a row in each 64 bytes. */
INLINE void store_amx_rows(const __m512i *pairs, uint8_t *dst)
{
    UNROLL_FOR (int r = 0; r < 4; r++, dst += 128) {
        __m512i rows = order_by_row(pairs[r]);
        _mm256_storeu_si256((__m256i *)(void *)dst, _mm512_castsi512_si256(rows));
        _mm256_storeu_si256((__m256i *)(void *)(dst + 64), _mm512_extracti64x4_epi64(rows, 1));
    }
}

/* Stores two words of codes of each row. */
INLINE void store_tile_words(int T, uint8_t *dst, __m512i words)
{
    if (T == 8)
        _mm512_storeu_si512(dst, words);
    else
        _mm256_storeu_si256((__m256i *)(void *)dst, _mm512_castsi512_si256(_mm512_shuffle_i64x2(words, words, 0x08)));
}

/* 32 columns of each row: scales, and the sums of each 16 codes. */
typedef struct tile_codes32 {
    __m256 scale;
    __m256i sum[2];
} tile_codes32;

/* The i-th 32 columns of a pair. */
INLINE tile_codes32 put_tile_codes32(row_place place, int i, int parts, const float *const *x, int64_t k)
{
    __m256 scale, inverses = inverse_scales(parts, row_maxima(x, k), &scale);
    float inv[8];
    __m512i pairs[4], words[4];
    _mm256_storeu_ps(inv, inverses);
    UNROLL_FOR (int r = 0; r < 8; r += 2) pairs[r / 2] = quantize_two_rows(parts, x[r] + k, x[r + 1] + k, inv[r], inv[r + 1]);
    transpose_codes(pairs, words);
    if (place.amx)
        store_amx_rows(pairs, place.codes + 32 * i);
    else
        UNROLL_FOR (int j = 0; j < 4; j++) store_tile_words(place.T, place.codes + 32 * place.T * i + 8 * place.T * j, words[j]);
    return (tile_codes32){scale, {sum_16_columns(words[0], words[1]), sum_16_columns(words[2], words[3])}};
}

/* Stores what sums begin with. */
INLINE void put_tile_start(zt_pack_form form, int T, int parts, const __m256i *sum, uint8_t *p)
{
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const __m256i whole = _mm256_set1_epi32(dot_rounding(form, parts, i));
        __m256i middle_sum = _mm256_mullo_epi32(sum[i], _mm256_set1_epi32(-zt_pack_middle(form)));
        store_rows_of_tile(T, p + 4 * T * i, _mm256_add_epi32(whole, middle_sum));
    }
}

/* Clears the codes of the second 32 columns, of a pair that has only the first. */
INLINE void clear_second_32(row_place place)
{
    if (place.amx)
        for (int r = 0; r < TILE_ROWS; r++) memset(place.codes + 64 * r + 32, 0, 32);
    else
        memset(place.codes + 32 * place.T, 0, 32 * (size_t)place.T);
}

INLINE void put_tile_pair(zt_pack_form form, row_place place, int parts, const float *const *x, int64_t k, int64_t K)
{
    const __m256i zero = _mm256_setzero_si256();
    tile_codes32 low = put_tile_codes32(place, 0, parts, x, k), high = {_mm256_setzero_ps(), {zero, zero}};
    __m256i sum[2] = {low.sum[0], low.sum[1]};
    if (zt_pack_scale_per_16(form)) {
        high.scale = low.scale;
    } else {
        if (k + 32 < K)
            high = put_tile_codes32(place, 1, parts, x, k + 32);
        else
            clear_second_32(place);
        sum[0] = _mm256_add_epi32(low.sum[0], low.sum[1]);
        sum[1] = _mm256_add_epi32(high.sum[0], high.sum[1]);
    }
    uint8_t *p = put_tile_factors(form, place.T, parts, (__m256[]){low.scale, high.scale}, sum, place.factors);
    put_tile_start(form, place.T, parts, sum, p);
}

INLINE void put_tile_pairs(zt_pack_form form, row_place place, int parts, const float *const *x, int64_t K)
{
    for (int64_t k = 0; k < K; k += pair_columns(form), place = next_pair(place)) put_tile_pair(form, place, parts, x, k, K);
}

/* The same with T, amx and parts known to the compiler. */
// clang-format off
#define PUT_TILE(T_, amx_, parts)                                                                  \
    do {                                                                                           \
        place.T = T_, place.amx = amx_;                                                                \
        put_tile_pairs(form, place, parts, x, K);                                                      \
    } while (0)
// clang-format on
static void put_tile_rows(zt_pack_form form, const float *const *x, int64_t K, int64_t parts, row_place place)
{
    if (place.amx && parts == 2)
        PUT_TILE(8, true, 2);
    else if (place.amx)
        PUT_TILE(8, true, 1);
    else if (place.T == 8 && parts == 2)
        PUT_TILE(8, false, 2);
    else if (place.T == 8)
        PUT_TILE(8, false, 1);
    else if (parts == 2)
        PUT_TILE(4, false, 2);
    else
        PUT_TILE(4, false, 1);
}
#undef PUT_TILE

INLINE bool tile_at_once(int64_t T, int64_t parts) { return (void)parts, T >= 4; }

#elif defined(ZT_ISA_avx2)
/* ---- a tile of crossed words (tile_crossed.h) ------------------------------------------------ */

/* 32 codes of each of eight rows, the sums of each 8 of them, and the scales. */
typedef struct tile_codes32 {
    __m256i q[8], sum[4];
    __m256 scale;
} tile_codes32;

/* sum[i]: of columns 8i.. of all rows. */
INLINE void sum_8_columns(const __m256i *q, __m256i *sum)
{
    const __m256i bias = _mm256_set1_epi8((char)128), zero = _mm256_setzero_si256();
    __m256i sums_of_two[4]; /* of two rows: columns 0.. of both, 8.., and in the upper lane 16.., 24.. */
    UNROLL_FOR (int r = 0; r < 8; r += 2) {
        const __m256i a = _mm256_sad_epu8(_mm256_xor_si256(q[r], bias), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_xor_si256(q[r + 1], bias), zero);
        sums_of_two[r / 2] = _mm256_or_si256(a, _mm256_slli_epi64(b, 32));
        sums_of_two[r / 2] = _mm256_sub_epi32(sums_of_two[r / 2], _mm256_set1_epi32(8 * 128));
    }
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const __m256i a =
            i ? _mm256_unpackhi_epi64(sums_of_two[0], sums_of_two[1]) : _mm256_unpacklo_epi64(sums_of_two[0], sums_of_two[1]);
        const __m256i b =
            i ? _mm256_unpackhi_epi64(sums_of_two[2], sums_of_two[3]) : _mm256_unpacklo_epi64(sums_of_two[2], sums_of_two[3]);
        sum[i] = _mm256_permute2x128_si256(a, b, 0x20);
        sum[2 + i] = _mm256_permute2x128_si256(a, b, 0x31);
    }
}

INLINE tile_codes32 quantize_tile_codes32(const float *const *x, int64_t k)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    float inv[8];
    tile_codes32 codes;
    _mm256_storeu_ps(inv, inverse_scales(1, row_maxima(x, k), &codes.scale));
    UNROLL_FOR (int r = 0; r < 8; r++) {
        const __m256 factor = _mm256_set1_ps(inv[r]);
        const float *p = x[r] + k;
        const __m256i a = _mm256_packs_epi32(round_8(p, factor), round_8(p + 8, factor));
        const __m256i b = _mm256_packs_epi32(round_8(p + 16, factor), round_8(p + 24, factor));
        codes.q[r] = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), in_order);
    }
    sum_8_columns(codes.q, codes.sum);
    return codes;
}

/* Words of eight rows side by side: those of the lower lanes from dst on, of the upper `apart` words further. */
INLINE void transpose_words(__m256i *rows, int apart, uint8_t *dst)
{
    __m256i pairs[8];
    UNROLL_FOR (int r = 0; r < 8; r += 2) {
        pairs[r] = _mm256_unpacklo_epi32(rows[r], rows[r + 1]);
        pairs[r + 1] = _mm256_unpackhi_epi32(rows[r], rows[r + 1]);
    }
    UNROLL_FOR (int j = 0; j < 4; j++, dst += 4 * TILE_ROWS) {
        const __m256i *from = pairs + j / 2;
        const __m256i low = j % 2 ? _mm256_unpackhi_epi64(from[0], from[2]) : _mm256_unpacklo_epi64(from[0], from[2]);
        const __m256i high = j % 2 ? _mm256_unpackhi_epi64(from[4], from[6]) : _mm256_unpacklo_epi64(from[4], from[6]);
        _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(low, high, 0x20));
        _mm256_storeu_si256((void *)(dst + 4 * TILE_ROWS * apart), _mm256_permute2x128_si256(low, high, 0x31));
    }
}

/* put_crossed_words of eight rows: of both halves of a, or of a and b. */
INLINE void put_crossed_tile_words(zt_pack_form form, const tile_codes32 *a, const tile_codes32 *b, uint8_t *dst)
{
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    __m256i rows[8];
    if (zt_pack_scale_per_16(form)) {
        UNROLL_FOR (int r = 0; r < 8; r++) rows[r] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(a->q[r], 0xd8), order);
        transpose_words(rows, 4, dst);
        return;
    }
    UNROLL_FOR (int r = 0; r < 8; r++) rows[r] = _mm256_unpacklo_epi16(a->q[r], b->q[r]);
    transpose_words(rows, 8, dst);
    UNROLL_FOR (int r = 0; r < 8; r++) rows[r] = _mm256_unpackhi_epi16(a->q[r], b->q[r]);
    transpose_words(rows, 8, dst + 4 * TILE_ROWS * 4);
}

INLINE void put_tile_pair(zt_pack_form form, row_place place, const float *const *x, int64_t k, int64_t K)
{
    const tile_codes32 low = quantize_tile_codes32(x, k);
    tile_codes32 high = {.scale = low.scale};
    __m256i first[2], second[2], sum[2];
    if (zt_pack_scale_per_16(form)) {
        first[0] = low.sum[0], second[0] = low.sum[1], first[1] = low.sum[2], second[1] = low.sum[3];
    } else {
        high = k + 32 < K ? quantize_tile_codes32(x, k + 32) : (tile_codes32){.scale = _mm256_setzero_ps()};
        first[0] = _mm256_add_epi32(low.sum[0], low.sum[1]), second[0] = _mm256_add_epi32(low.sum[2], low.sum[3]);
        first[1] = _mm256_add_epi32(high.sum[0], high.sum[1]), second[1] = _mm256_add_epi32(high.sum[2], high.sum[3]);
    }
    put_crossed_tile_words(form, &low, &high, place.codes);
    UNROLL_FOR (int i = 0; i < 2; i++) sum[i] = _mm256_add_epi32(first[i], second[i]);
    uint8_t *start = put_tile_factors(form, TILE_ROWS, 1, (__m256[]){low.scale, high.scale}, sum, place.factors);
    put_crossed_start(form, TILE_ROWS, first, second, start);
}

static void put_tile_rows(zt_pack_form form, const float *const *x, int64_t K, int64_t parts, row_place place)
{
    (void)parts;
    for (int64_t k = 0; k < K; k += pair_columns(form), place = next_pair(place)) put_tile_pair(form, place, x, k, K);
}

INLINE bool tile_at_once(int64_t T, int64_t parts) { return T == TILE_ROWS && parts == 1; }
#endif

#endif
