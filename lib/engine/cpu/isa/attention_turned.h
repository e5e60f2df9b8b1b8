/* attention_turned.h - private to attention_row.h: keys of a tile, turned as the cache has them: 16 bits or codes of 8, by half or a
 * quarter of the shuffles that they take as f32. Any number of queries then read them, as sixteen keys of a column at a time.
 *
 * Sixteen turned keys, in the order of memory:
 *
 *   f16, AVX-512    for each 32 columns: u16 [32][16 keys], columns in the order 0 8 16 24 1 9 ...
 *   f16, AVX2       for each 16 columns: u16 [2][8][2][8 keys]: keys 0..7, then 8..15: columns 0 and 8, 1 and 9 ...
 *   block types     for each 32 columns: i8 [16][2][16 keys]: columns 0 and 16, 1 and 17 ...; f32 scale[16 keys]
 *
 * Of block types those turn whose number is a code of 8 bits times the scale of 32 columns: exact in f32, so they are the numbers
 * of cache.h. Codes of values are not turned, but stored as 8 bits.
 */
#ifndef ZT_CPU_ATTENTION_TURNED_H
#define ZT_CPU_ATTENTION_TURNED_H

#include "lib/engine/cpu/isa/attention.h"

enum { LINE = 64 };

/* Keys and values of the same head in the stop after this one. They are prefetched while this one is worked on, to the
 * second-level cache, because what is prefetched to the first waits for one of its few places like any load. Of many lines at
 * once some are dropped, so each piece of work prefetches what the same piece of the next stop reads. */
typedef struct ahead {
    const char *keys, *values;
    const size_t *at;
} ahead;

INLINE void prefetch_line(const char *p) { __builtin_prefetch(p, 0, 2); }

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
enum {
#if defined(ZT_ISA_avx512)
    TURNED = 32,     /* columns of f16 turned at once */
    TURNED_ROWS = 4, /* queries side by side, */
    TURNED_KEYS = 4, /* and for so many, registers of sixteen keys */
#else
    TURNED = 16,
    TURNED_ROWS = 4,
    TURNED_KEYS = 2,
#endif
    BLOCK_COLUMNS = 32,
    BLOCK_BYTES = 16 * BLOCK_COLUMNS + 4 * LANES, /* of sixteen keys' codes and scales */
    COLUMNS = 8                                   /* columns whose sums are written out one after the other */
};

/* Registers of sixteen keys that there are sums for beside R queries. */
INLINE int turned_keys(int R) { return R > ROWS ? 1 : TURNED_KEYS; }

/* ---- codes ----------------------------------------------------------------------------------- */

#define EACH_CODED(X) X(Q8_0) X(Q5_0) X(Q4_0) X(IQ4_NL)

static bool is_coded(zt_dtype dtype)
{
#define X(T)                                                                                                                     \
    if (dtype == ZT_##T) return true;
    EACH_CODED(X)
#undef X
    return false;
}

/* Bytes of a block. */
INLINE int code_bytes(zt_dtype dtype) { return dtype == ZT_Q8_0 ? 34 : dtype == ZT_Q5_0 ? 22 : 18; }

/* A block's codes, signed bytes. */
INLINE __m256i block_codes(zt_dtype dtype, const char *p)
{
    const __m256i fifteen = _mm256_set1_epi8(15);
    const __m256i levels =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    if (dtype == ZT_Q8_0) return _mm256_loadu_si256((const void *)(p + 2));
    const __m128i pairs = _mm_loadu_si128((const void *)(p + (dtype == ZT_Q5_0 ? 6 : 2)));
    const __m256i codes =
        _mm256_and_si256(_mm256_inserti128_si256(_mm256_castsi128_si256(pairs), _mm_srli_epi16(pairs, 4), 1), fifteen);
    if (dtype == ZT_IQ4_NL) return _mm256_shuffle_epi8(levels, codes);
    if (dtype == ZT_Q4_0) return _mm256_sub_epi8(codes, _mm256_set1_epi8(8));
    /* byte i of 32 gets byte i / 8 of the word of fifth bits, of that bit i % 8 */
    int32_t word;
    memcpy(&word, p + 2, sizeof word);
    const __m256i places = _mm256_set1_epi64x((int64_t)0x8040201008040201u), sixteen = _mm256_set1_epi8(16);
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte), places);
    const __m256i fifth = _mm256_and_si256(_mm256_cmpeq_epi8(bit, places), sixteen);
    return _mm256_sub_epi8(_mm256_or_si256(codes, fifth), sixteen);
}

/* Codes and scales of a block of sixteen keys. Bytes of rows i and i + 8 in turn, four times, are those of a column. */
INLINE void turn_block(zt_dtype dtype, const char *base, const size_t *at, char *to)
{
    __m256i a[LANES], b[LANES];
    UNROLL_FOR (int i = 0; i < LANES; i++) {
        const float scale = load_half(base + at[i]);
        memcpy(to + LANES * BLOCK_COLUMNS + 4 * i, &scale, sizeof scale);
        a[i] = block_codes(dtype, base + at[i]);
    }
    UNROLL_FOR (int round = 0; round < 2; round++) {
        UNROLL_FOR (int i = 0; i < 8; i++) {
            b[2 * i] = _mm256_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm256_unpackhi_epi8(a[i], a[i + 8]);
        }
        UNROLL_FOR (int i = 0; i < 8; i++) {
            a[2 * i] = _mm256_unpacklo_epi8(b[i], b[i + 8]);
            a[2 * i + 1] = _mm256_unpackhi_epi8(b[i], b[i + 8]);
        }
    }
    UNROLL_FOR (int i = 0; i < LANES; i++) _mm256_storeu_si256((void *)(to + 32 * i), a[i]);
}

/* ---- halves ---------------------------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* TURNED columns of sixteen keys. */
INLINE void turn_halves(const char *base, const size_t *at, char *to)
{
    __m512i k[LANES], t[LANES];
    const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    UNROLL_FOR (int i = 0; i < LANES; i++) k[i] = _mm512_loadu_si512(base + at[i]);
    UNROLL_FOR (int i = 0; i < 8; i++) /* words of two keys: of columns 0..3, 4..7 of each lane */
    {
        t[i] = _mm512_unpacklo_epi16(k[2 * i], k[2 * i + 1]);
        t[8 + i] = _mm512_unpackhi_epi16(k[2 * i], k[2 * i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) /* of four keys: of two columns */
    {
        const int from = 2 * i, into = i / 4 * 8 + i % 4;
        k[into] = _mm512_unpacklo_epi32(t[from], t[from + 1]);
        k[into + 4] = _mm512_unpackhi_epi32(t[from], t[from + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) /* of eight keys: of one column, and those 8, 16, 24 after it */
    {
        const int from = 2 * i, into = i / 2 * 4 + i % 2;
        t[into] = _mm512_unpacklo_epi64(k[from], k[from + 1]);
        t[into + 2] = _mm512_unpackhi_epi64(k[from], k[from + 1]);
    }
    UNROLL_FOR (int c = 0; c < 8; c++, to += 8 * LANES) {
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(t[2 * c], low, t[2 * c + 1]));
        _mm512_storeu_si512(to + 4 * LANES, _mm512_permutex2var_epi64(t[2 * c], high, t[2 * c + 1]));
    }
}
#else
/* TURNED columns of sixteen keys, eight by eight: words of rows i and i + 4 in turn, three times, are those of a column. */
INLINE void turn_halves(const char *base, const size_t *at, char *to)
{
    UNROLL_FOR (int upper = 0; upper < 2; upper++) {
        __m256i a[8], b[8];
        UNROLL_FOR (int i = 0; i < 8; i++) b[i] = _mm256_loadu_si256((const void *)(base + at[8 * upper + i]));
        UNROLL_FOR (int i = 0; i < 4; i++) {
            a[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
            a[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
        }
        UNROLL_FOR (int i = 0; i < 4; i++) {
            b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
            b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
        }
        UNROLL_FOR (int i = 0; i < 4; i++) {
            a[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
            a[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
        }
        UNROLL_FOR (int i = 0; i < 8; i++) _mm256_storeu_si256((void *)(to + 256 * upper + 32 * i), a[i]);
    }
}
#endif

/* ---- turned keys ----------------------------------------------------------------------------- */

/* Bytes of sixteen keys. */
INLINE size_t turned_bytes(zt_dtype dtype, int64_t D)
{
    return (size_t)(dtype == ZT_F16 ? 2 * LANES * D : D / BLOCK_COLUMNS * BLOCK_BYTES);
}

/* Where columns d..d+COLUMNS-1 begin, and the bytes from one to the next. */
INLINE const char *turned_at(zt_dtype dtype, const char *keys, int64_t d)
{
    if (dtype != ZT_F16) return keys + d / BLOCK_COLUMNS * BLOCK_BYTES + d % 16 * 32 + d % BLOCK_COLUMNS / 16 * 16;
    return keys + d / TURNED * TURNED * 2 * LANES + d % TURNED / 8 * (TURNED == 32 ? 32 : 16);
}

INLINE int turned_step(zt_dtype dtype) { return dtype == ZT_F16 && TURNED == 32 ? 128 : 32; }

/* A column of sixteen keys; block types' less their scale. */
INLINE vf turned_column(zt_dtype dtype, const char *p)
{
    if (dtype != ZT_F16) return vf_of_vi(vi_of_i8(p));
#if defined(ZT_ISA_avx512)
    return vf_of_f16(p);
#else
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)), _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 256)))};
#endif
}

/* Turned keys of a tile, sixteen by sixteen from that of s.first on; and the prefetch of the next tile's (of halves with AVX-512 every
 * other key's). */
INLINE void turn_tile(zt_dtype dtype, const run *w, span s, const size_t *at, const char *base, const ahead *next)
{
    char *to = (char *)w->keys;
    const int64_t D = w->s.D;
    for (int j = s.first / LANES * LANES; j < s.last; j += LANES, to += turned_bytes(dtype, D)) {
        for (int64_t d = 0; d < D && dtype != ZT_F16; d += BLOCK_COLUMNS) {
            const int64_t byte = d / BLOCK_COLUMNS * code_bytes(dtype);
            turn_block(dtype, base + byte, at + j, to + d / BLOCK_COLUMNS * BLOCK_BYTES);
            UNROLL_FOR (int i = 0; i < LANES; i++) prefetch_line(next->keys + next->at[j + i] + byte);
        }
        for (int64_t d = 0; d < D && dtype == ZT_F16; d += TURNED) {
            turn_halves(base + 2 * d, at + j, to + d * 2 * LANES);
            UNROLL_FOR (int i = 0; i < LANES; i += 2)
                prefetch_line(next->keys + next->at[j + i + (int)(2 * d % LINE / 32)] + 2 * d);
        }
    }
}

/* Scores that R queries, from the i-th of their head on, have of N times sixteen turned keys, from the j-th of their tile on, as
 * score_keys computes them. */
INLINE void score_turned(zt_dtype dtype, int R, int N, const run *w, int64_t i, int j, const char *keys, const ahead *next)
{
    vf y[TURNED_ROWS][TURNED_KEYS];
    const int64_t D = w->s.D;
    const size_t apart = turned_bytes(dtype, D);
    const float *q[TURNED_ROWS];
    UNROLL_FOR (int r = 0; r < R; r++) {
        q[r] = query(w, i + r);
        UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_set(0);
    }
    for (int64_t d = 0; d < D; d += COLUMNS) {
        const char *k = turned_at(dtype, keys, d), *scale = keys + d / BLOCK_COLUMNS * BLOCK_BYTES + LANES * BLOCK_COLUMNS;
#if defined(ZT_ISA_avx512)
        /* of halves that turn_tile has left */
        const char *line = next->keys + d / TURNED * LINE;
        const size_t *odd = next->at + d % TURNED * 2 + 1;
#else
        (void)next;
#endif
        UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            vf v[TURNED_KEYS];
#if defined(ZT_ISA_avx512)
            if (i == 0 && dtype == ZT_F16) prefetch_line(line + odd[2 * c]);
#endif
            UNROLL_FOR (int n = 0; n < N; n++) {
                v[n] = turned_column(dtype, k + (size_t)n * apart + c * turned_step(dtype));
                if (dtype != ZT_F16) v[n] = vf_mul(v[n], vf_load((const float *)(const void *)(scale + (size_t)n * apart)));
            }
            UNROLL_FOR (int r = 0; r < R; r++) {
                const vf x = vf_set(q[r][d + c]);
                UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_fma(x, v[n], y[r][n]);
            }
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int n = 0; n < N; n++) vf_store(w->score + (i + r) * TILE + j + LANES * n, y[r][n]);
    }
}

/* All scores of R queries of a tile whose keys turn_tile has turned. */
INLINE void score_queries(zt_dtype dtype, int R, const run *w, int64_t i, span s, const ahead *next)
{
    const char *keys = (const char *)w->keys;
    int j = s.first / LANES * LANES;
    UNROLL_FOR (int n = TURNED_KEYS; n > 0; n--) {
        for (; n <= turned_keys(R) && j + LANES * (n - 1) < s.last;
             j += LANES * n, keys += (size_t)n * turned_bytes(dtype, w->s.D))
            score_turned(dtype, R, n, w, i, j, keys, next);
    }
}

/* ---- values of block types ------------------------------------------------------------------- */

/* In w->values: i8 [TILE][D], then f32 scale[D / 32][TILE]. */
INLINE float *value_scales(const run *w, int64_t d) { return w->values + TILE * w->s.D / 4 + d / BLOCK_COLUMNS * TILE; }

/* Codes and scales of a tile's values, and the prefetch of the next one's. */
INLINE void open_values(zt_dtype dtype, const run *w, span s, const size_t *at, const char *base, const ahead *next)
{
    char *codes = (char *)w->values;
    for (int64_t d = 0; d < w->s.D; d += BLOCK_COLUMNS) {
        float *scale = value_scales(w, d);
        const int64_t byte = d / BLOCK_COLUMNS * code_bytes(dtype);
        for (int j = s.first; j < s.last; j++) {
            const char *p = base + at[j] + byte;
            scale[j] = load_half(p);
            _mm256_storeu_si256((void *)(codes + j * w->s.D + d), block_codes(dtype, p));
            prefetch_line(next->values + next->at[j] + byte);
        }
    }
}

/* Registers of values from column d on, N of them of one block, times the weights of R queries from the i-th on: key by key. */
INLINE void weigh_codes(int R, int N, const run *w, part p, int64_t i, span s, int64_t d)
{
    const float *weight = w->score + i * TILE, *scale = value_scales(w, d);
    const char *codes = (const char *)w->values + d;
    vf a[TURNED_ROWS][2];
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_load(p.acc + (i + r) * w->s.Dp + d + LANES * k);
    }
    for (int j = s.first; j < s.last; j++) {
        vf v[2];
        UNROLL_FOR (int k = 0; k < N; k++) v[k] = vf_mul(vf_of_vi(vi_of_i8(codes + j * w->s.D + LANES * k)), vf_set(scale[j]));
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(weight[r * TILE + j]);
            UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_fma(x, v[k], a[r][k]);
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) vf_store(p.acc + (i + r) * w->s.Dp + d + LANES * k, a[r][k]);
    }
}
#endif

#endif
