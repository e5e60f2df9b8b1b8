/* activations_tile.h - private to gemm_quant/: put_codes of a whole tile of 8 rows at once, where takes_tile says so
 * (AVX-512: or of one of 4, which is half of that): x[r] is what row r is made of (twice each with 16 bits). Codes
 * are turned in registers, scales and sums are made side by side.
 */
#ifndef ZT_CPU_CODES_TILE_H
#define ZT_CPU_CODES_TILE_H

#include "lib/engine/cpu/isa/gemm_quant/activations.h"

#if !defined(ZT_ISA_scalar)
/* ---- what comes behind the codes ------------------------------------------------------------- */

/* A number of each row. */
INLINE void store_each(int T, uint8_t *dst, __m256i v)
{
    if (T == 8)
        _mm256_storeu_si256((__m256i *)(void *)dst, v);
    else
        _mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(v));
}

/* The lower 16 bits of both. */
INLINE __m256i two_words(__m256i a, __m256i b)
{
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}

/* put_two of each row. */
INLINE void store_two(int T, int parts, uint8_t *dst, __m256 a, __m256 b)
{
    if (parts == 1)
        store_each(T, dst, two_words(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b)));
    else
        store_each(T, dst, _mm256_castps_si256(_mm256_blend_ps(a, _mm256_moveldup_ps(b), 0xaa)));
}

/* scale_unit of each row. */
INLINE __m256 scale_units(zt_pack_form f, int parts, __m256 *d)
{
    const __m256 one = _mm256_set1_ps(1), most = _mm256_set1_ps(16383);
    __m256i top = _mm256_max_epi32(_mm256_castps_si256(d[0]), _mm256_castps_si256(d[1]));
    __m256 unit = _mm256_castsi256_ps(top);
    if (parts == 2) return one;
    if (zt_pack_halves(f)) return d[0] = d[1] = one, unit;
    const __m256 some = _mm256_cmp_ps(unit, _mm256_set1_ps(1e-35f), _CMP_GT_OQ);
    const __m256 inverse = _mm256_and_ps(some, _mm256_div_ps(most, unit));
    UNROLL for (int i = 0; i < 2; i++)
        d[i] = _mm256_round_ps(_mm256_mul_ps(d[i], inverse), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_div_ps(unit, most);
}

/* What minima of each row are multiplied by. */
INLINE __m256 for_mins(zt_pack_form f, int parts, __m256 d, __m256i sum)
{
    if (parts == 2)
        sum = _mm256_add_epi32(_mm256_slli_epi32(sum, 8), _mm256_srli_epi64(sum, 32));
    return _mm256_mul_ps(_mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)),
                         _mm256_set1_ps(min_unit(f, parts)));
}

/* What lies behind the codes, as put_pair puts it, but for what sums begin with: where that goes. */
INLINE uint8_t *put_tile_scales(zt_pack_form f, int T, int parts, __m256 *d, const __m256i *sum,
                                uint8_t *p)
{
    const __m256 unit = scale_units(f, parts, d);
    if (parts == 2 || !zt_pack_halves(f)) store_two(T, parts, p, d[0], d[1]);
    p += zt_pack_halves(f) ? 0 : 4 * T;
    if (parts == 1)
        store_each(T, p, _mm256_castps_si256(_mm256_mul_ps(unit, _mm256_set1_ps(sums_unit(f)))));
    p += 4 * T;
    if (zt_pack_mins(f))
        store_two(T, parts, p + 8 * T, for_mins(f, parts, d[0], sum[0]),
                  for_mins(f, parts, d[1], sum[1]));
    return p;
}

#endif

#if defined(ZT_ISA_avx512)
/* ---- a tile ---------------------------------------------------------------------------------- */

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

/* Pairs of rows as two_rows gives them, to lines of 64 bytes. */
INLINE void store_rows(const __m512i *p, uint8_t *dst)
{
    UNROLL for (int r = 0; r < 4; r++, dst += 128) {
        __m512i v = by_rows(p[r]);
        _mm256_storeu_si256((__m256i *)(void *)dst, _mm512_castsi512_si256(v));
        _mm256_storeu_si256((__m256i *)(void *)(dst + 64), _mm512_extracti64x4_epi64(v, 1));
    }
}

/* Two words of each row of codes. */
INLINE void store_words(int T, uint8_t *dst, __m512i z)
{
    if (T == 8)
        _mm512_storeu_si512(dst, z);
    else
        _mm256_storeu_si256((__m256i *)(void *)dst,
                            _mm512_castsi512_si256(_mm512_shuffle_i64x2(z, z, 0x08)));
}

/* 32 columns of each row: scales, and what the codes of each 16 sum up to. */
typedef struct tile_part {
    __m256 scale;
    __m256i sum[2];
} tile_part;

/* i: of the pair's. */
INLINE tile_part put_tile_part(place to, int i, int parts, const float *const *x, int64_t k)
{
    __m256 d, by = inverse_scales(parts, tops(x, k), &d);
    float inv[8];
    __m512i p[4], z[4];
    _mm256_storeu_ps(inv, by);
    UNROLL for (int r = 0; r < 8; r += 2)
        p[r / 2] = two_rows(parts, x[r] + k, x[r + 1] + k, inv[r], inv[r + 1]);
    turn_codes(p, z);
    if (to.amx)
        store_rows(p, to.codes + 32 * i);
    else
        UNROLL for (int j = 0; j < 4; j++)
            store_words(to.T, to.codes + 32 * to.T * i + 8 * to.T * j, z[j]);
    return (tile_part){d, {sums_of(z[0], z[1]), sums_of(z[2], z[3])}};
}

/* What sums begin with. */
INLINE void put_tile_begins(zt_pack_form f, int T, int parts, const __m256i *sum, uint8_t *p)
{
    UNROLL for (int i = 0; i < 2; i++) {
        const __m256i whole = _mm256_set1_epi32(half_lost(f, parts, i));
        __m256i off = _mm256_mullo_epi32(sum[i], _mm256_set1_epi32(-zt_pack_middle(f)));
        store_each(T, p + 4 * T * i, _mm256_add_epi32(whole, off));
    }
}

/* Codes of zeros, for the second 32 columns of a pair that has only the first. */
INLINE void clear_second(place to)
{
    if (to.amx)
        for (int r = 0; r < MOST; r++) memset(to.codes + 64 * r + 32, 0, 32);
    else
        memset(to.codes + 32 * to.T, 0, 32 * (size_t)to.T);
}

INLINE void put_tile_pair(zt_pack_form f, place to, int parts, const float *const *x, int64_t k,
                          int64_t K)
{
    const __m256i zero = _mm256_setzero_si256();
    tile_part a = put_tile_part(to, 0, parts, x, k), b = {_mm256_setzero_ps(), {zero, zero}};
    __m256i sum[2] = {a.sum[0], a.sum[1]};
    if (zt_pack_halves(f)) {
        b.scale = a.scale;
    } else {
        if (k + 32 < K)
            b = put_tile_part(to, 1, parts, x, k + 32);
        else
            clear_second(to);
        sum[0] = _mm256_add_epi32(a.sum[0], a.sum[1]);
        sum[1] = _mm256_add_epi32(b.sum[0], b.sum[1]);
    }
    uint8_t *p = put_tile_scales(f, to.T, parts, (__m256[]){a.scale, b.scale}, sum, to.rest);
    put_tile_begins(f, to.T, parts, sum, p);
}

INLINE void put_tile_of(zt_pack_form f, place to, int parts, const float *const *x, int64_t K)
{
    for (int64_t k = 0; k < K; k += pair_columns(f), to = next_pair(to))
        put_tile_pair(f, to, parts, x, k, K);
}

/* The same with what the compiler may know of T and amx. */
#define PUT_TILE(T_, amx_, parts)                                                                  \
    do {                                                                                           \
        to.T = T_, to.amx = amx_;                                                                  \
        put_tile_of(f, to, parts, x, K);                                                           \
    } while (0)
static void put_tile(zt_pack_form f, const float *const *x, int64_t K, int64_t parts, place to)
{
    if (to.amx && parts == 2)
        PUT_TILE(8, true, 2);
    else if (to.amx)
        PUT_TILE(8, true, 1);
    else if (to.T == 8 && parts == 2)
        PUT_TILE(8, false, 2);
    else if (to.T == 8)
        PUT_TILE(8, false, 1);
    else if (parts == 2)
        PUT_TILE(4, false, 2);
    else
        PUT_TILE(4, false, 1);
}
#undef PUT_TILE

INLINE bool takes_tile(int64_t T, int64_t parts) { return (void)parts, T >= 4; }

#elif defined(ZT_ISA_avx2)
/* ---- a tile, whose words are crossed (tile_codes.h) ----------------------------------------------- */

/* 32 codes of each of eight rows, what each 8 of them sum up to, and the scales. */
typedef struct tile_part {
    __m256i q[8], sum[4];
    __m256 scale;
} tile_part;

/* sum[i]: of columns 8i.. of all rows. */
INLINE void sums_of_8_columns(const __m256i *q, __m256i *sum)
{
    const __m256i up = _mm256_set1_epi8((char)128), zero = _mm256_setzero_si256();
    __m256i m[4]; /* of two rows: columns 0.. of both, 8.., and in the upper lane 16.., 24.. */
    UNROLL for (int r = 0; r < 8; r += 2) {
        const __m256i a = _mm256_sad_epu8(_mm256_xor_si256(q[r], up), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_xor_si256(q[r + 1], up), zero);
        m[r / 2] = _mm256_or_si256(a, _mm256_slli_epi64(b, 32));
        m[r / 2] = _mm256_sub_epi32(m[r / 2], _mm256_set1_epi32(8 * 128));
    }
    UNROLL for (int i = 0; i < 2; i++) {
        const __m256i a = i ? _mm256_unpackhi_epi64(m[0], m[1]) : _mm256_unpacklo_epi64(m[0], m[1]);
        const __m256i b = i ? _mm256_unpackhi_epi64(m[2], m[3]) : _mm256_unpacklo_epi64(m[2], m[3]);
        sum[i] = _mm256_permute2x128_si256(a, b, 0x20);
        sum[2 + i] = _mm256_permute2x128_si256(a, b, 0x31);
    }
}

INLINE tile_part make_tile_part(const float *const *x, int64_t k)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    float inv[8];
    tile_part y;
    _mm256_storeu_ps(inv, inverse_scales(1, tops(x, k), &y.scale));
    UNROLL for (int r = 0; r < 8; r++) {
        const __m256 by = _mm256_set1_ps(inv[r]);
        const float *p = x[r] + k;
        const __m256i a = _mm256_packs_epi32(rounded(p, by), rounded(p + 8, by));
        const __m256i b = _mm256_packs_epi32(rounded(p + 16, by), rounded(p + 24, by));
        y.q[r] = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), in_order);
    }
    sums_of_8_columns(y.q, y.sum);
    return y;
}

/* Words of eight rows side by side: those of the lower lanes from dst on, of the upper `apart` words further. */
INLINE void turn_words(__m256i *v, int apart, uint8_t *dst)
{
    __m256i t[8];
    UNROLL for (int r = 0; r < 8; r += 2) {
        t[r] = _mm256_unpacklo_epi32(v[r], v[r + 1]);
        t[r + 1] = _mm256_unpackhi_epi32(v[r], v[r + 1]);
    }
    UNROLL for (int j = 0; j < 4; j++, dst += 4 * MOST) {
        const __m256i *s = t + j / 2;
        const __m256i a = j % 2 ? _mm256_unpackhi_epi64(s[0], s[2]) : _mm256_unpacklo_epi64(s[0], s[2]);
        const __m256i b = j % 2 ? _mm256_unpackhi_epi64(s[4], s[6]) : _mm256_unpacklo_epi64(s[4], s[6]);
        _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_storeu_si256((void *)(dst + 4 * MOST * apart), _mm256_permute2x128_si256(a, b, 0x31));
    }
}

/* cross_words of eight rows, of both halves of a or of a and b. */
INLINE void put_tile_words(zt_pack_form f, const tile_part *a, const tile_part *b, uint8_t *dst)
{
    const __m256i halves = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    __m256i v[8];
    if (zt_pack_halves(f)) {
        UNROLL for (int r = 0; r < 8; r++)
            v[r] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(a->q[r], 0xd8), halves);
        turn_words(v, 4, dst);
        return;
    }
    UNROLL for (int r = 0; r < 8; r++) v[r] = _mm256_unpacklo_epi16(a->q[r], b->q[r]);
    turn_words(v, 8, dst);
    UNROLL for (int r = 0; r < 8; r++) v[r] = _mm256_unpackhi_epi16(a->q[r], b->q[r]);
    turn_words(v, 8, dst + 4 * MOST * 4);
}

/* put_begins of eight rows. */
INLINE void put_tile_begins(zt_pack_form f, const __m256i *first, const __m256i *second, uint8_t *p)
{
    const __m256i middle = _mm256_set1_epi32(crossed_middle(f));
    __m256i a[2], b[2];
    UNROLL for (int i = 0; i < 2; i++) {
        a[i] = _mm256_sub_epi32(_mm256_set1_epi32(first_begins(f)), _mm256_mullo_epi32(first[i], middle));
        b[i] = _mm256_sub_epi32(_mm256_set1_epi32(second_begins(f, i)),
                                _mm256_mullo_epi32(second[i], middle));
    }
    store_each(MOST, p, two_words(a[0], a[1]));
    store_each(MOST, p + 4 * MOST, two_words(b[0], b[1]));
}

INLINE void put_tile_pair(zt_pack_form f, place to, const float *const *x, int64_t k, int64_t K)
{
    const tile_part a = make_tile_part(x, k);
    tile_part b = {.scale = a.scale};
    __m256i first[2], second[2], sum[2];
    if (zt_pack_halves(f)) {
        first[0] = a.sum[0], second[0] = a.sum[1], first[1] = a.sum[2], second[1] = a.sum[3];
    } else {
        b = k + 32 < K ? make_tile_part(x, k + 32) : (tile_part){.scale = _mm256_setzero_ps()};
        first[0] = _mm256_add_epi32(a.sum[0], a.sum[1]), second[0] = _mm256_add_epi32(a.sum[2], a.sum[3]);
        first[1] = _mm256_add_epi32(b.sum[0], b.sum[1]), second[1] = _mm256_add_epi32(b.sum[2], b.sum[3]);
    }
    put_tile_words(f, &a, &b, to.codes);
    UNROLL for (int i = 0; i < 2; i++) {
        sum[i] = _mm256_add_epi32(first[i], second[i]);
        if (zt_pack_beyond(f) != 1) first[i] = second[i] = sum[i];
    }
    uint8_t *p = put_tile_scales(f, MOST, 1, (__m256[]){a.scale, b.scale}, sum, to.rest);
    put_tile_begins(f, first, second, p);
}

static void put_tile(zt_pack_form f, const float *const *x, int64_t K, int64_t parts, place to)
{
    (void)parts;
    for (int64_t k = 0; k < K; k += pair_columns(f), to = next_pair(to)) put_tile_pair(f, to, x, k, K);
}

INLINE bool takes_tile(int64_t T, int64_t parts) { return T == MOST && parts == 1; }
#endif

#endif
