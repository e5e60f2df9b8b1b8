/* dot.h - private to isa/linalg.c: LANES rows of a group at a time, on each instruction set: all
 * 16, or with AVX2 8.
 *
 *   fv  f32, one a row            iv  i32, one a row
 *   cv  bytes of codes: four columns of each row (pack.h)
 *
 * fv_of_half, _e8m0, _e4m3 read so many scales of pack.h; cv_look(table, a) has table[a] for every
 * byte below 16.
 * fv_fma(a, b, c) is a * b + c, rounded once where the processor has it (scalar rounds twice).
 * fv_scaled(a, p) is a times a power of two, fv_unscaled a over it, where p = fv_power of that.
 * cv_dots(bits, n, T, c, x, from, y): for every token t and row, y[t] = from + the sum of code
 * times x over the 4 n columns of registers c[0..n-1]. x is i8[n][T][4]. bits, n and T are
 * constants; bits says how far sums stay exact in 16 bits. All of it is exact integer arithmetic. (With
 * AVX2 codes of 8 bits are made signed, which is what from.each else does: they begin at from.whole.)
 *
 * cv_dots_nibbles (avx512) is cv_dots of codes of 4 bits as they are packed.
 *
 * iv_join(a, b) is 256 a + b. An iv may be two whole numbers of 16 bits a row: iv_pair(a, b, n) has
 * the lower 16 bits of a and b, shifted n to the right; iv_unsigned and iv_signed read them from
 * bytes. Of such, each with each: iv_times(a, n) a 2^n, iv_over and iv_rest what is above n bits and
 * below, iv_adds a + b, iv_subs a - b, iv_scales a b / 2^15, rounded. iv_first and iv_second are the one
 * and the other, iv_products(a, b) the sum of their products, iv_add_products(y, a, b) y more.
 * ask_for and cv_load_next ask for their lines in the order in which they stand in the program: the
 * compiler moves other loads about, and memory is read at 60 to 85 per cent of its rate for that.
 * cv_dots_next(T, p, x, from, y) is cv_dots of the eight registers of 8-bit codes at p, each asked
 * for between products, and nothing that stands after it before them: to ask for all eight at once,
 * or for the scales first, costs a tenth of the rate.
 */
#ifndef ZT_CPU_DOT_H
#define ZT_CPU_DOT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lib/engine/cpu/pack.h"

#define INLINE static inline __attribute__((always_inline))
/* Tiles are made anew for every type and size, with all loops unrolled. Plain C gains little from
 * that, and sanitizers take minutes to compile it: they get one loop for all sizes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ONE_FOR_ALL 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define ONE_FOR_ALL 1
#endif
#if defined(ZT_ISA_scalar) || defined(ONE_FOR_ALL)
#define UNROLL
#define TEMPLATE static __attribute__((noinline, unused))
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define TEMPLATE INLINE
#else
#define UNROLL _Pragma("GCC unroll 16")
#define TEMPLATE INLINE
#endif

INLINE int32_t load_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

INLINE float load_f32(const void *p)
{
    float v;
    memcpy(&v, p, 4);
    return v;
}

/* round(v); what no number of 16 bits is, is any. */
INLINE int32_t whole_of(float v) { return v >= -33000 && v <= 33000 ? (int32_t)lrintf(v) : 0; }

/* What sums begin with. */
typedef struct sums_from {
    const uint8_t *each; /* i32[T] */
    int32_t whole;       /* of signed codes of all tokens */
} sums_from;

INLINE void ask_for(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p);
#endif
}

/* Sends for lines, to the second-level cache. They may be past the end of what is there: the processor passes
 * over addresses that nobody has. */
INLINE void send_lines(uintptr_t at, int bytes)
{
#if defined(__x86_64__)
    UNROLL for (int i = 0; i < bytes; i += 64)
        __asm__ volatile("prefetcht1 %0" : : "m"(*(const char *)(at + (size_t)i)));
#else
    (void)at, (void)bytes;
#endif
}

/* Of a stream that is at p the next `bytes`, `reach` further on (zt_cpu_reach; 0: nothing). */
INLINE void send_for(const uint8_t *p, size_t reach, int bytes)
{
    if (reach) send_lines((uintptr_t)p + reach, bytes);
}

#if defined(ZT_ISA_avx512)
/* ---- avx512 ---------------------------------------------------------------------------------- */

#include <immintrin.h>
enum { LANES = 16 };
typedef __m512 fv;
typedef __m512i iv, cv;

INLINE fv fv_zero(void) { return _mm512_setzero_ps(); }
INLINE fv fv_set(float x) { return _mm512_set1_ps(x); }
INLINE fv fv_load(const void *p) { return _mm512_loadu_ps(p); }
INLINE void fv_store(float *p, fv a) { _mm512_storeu_ps(p, a); }
INLINE fv fv_add(fv a, fv b) { return _mm512_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm512_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm512_fmadd_ps(a, b, c); }
INLINE fv fv_neg(fv a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return _mm512_cvtepi32_ps(a); }
INLINE fv fv_of_half(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE fv fv_of_e8m0(const void *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(p)), one = _mm512_set1_epi32(1);
    return _mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                         _mm512_slli_epi32(_mm512_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e4m3(const void *p)
{
    __m256i h = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(p)), 7);
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(0x1p7f));
}
/* The first (0) or second (1) of the pairs of bfloat16. */
INLINE fv fv_of_brain(const void *p, int second)
{
    __m512i v = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(second ? _mm512_and_si512(v, _mm512_set1_epi32(-65536))
                                      : _mm512_slli_epi32(v, 16));
}
INLINE iv iv_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE iv iv_sub(iv a, iv b) { return _mm512_sub_epi32(a, b); }
INLINE iv iv_add(iv a, iv b) { return _mm512_add_epi32(a, b); }
INLINE iv iv_of_fv(fv a) { return _mm512_cvtps_epi32(a); }
INLINE fv fv_power(fv a) { return _mm512_getexp_ps(a); }
INLINE fv fv_scaled(fv a, fv p) { return _mm512_scalef_ps(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { return _mm512_scalef_ps(a, fv_neg(p)); }
INLINE iv iv_join(iv a, iv b) { return _mm512_add_epi32(_mm512_slli_epi32(a, 8), b); }
INLINE iv iv_pair(iv a, iv b, int n)
{
    a = n ? _mm512_srli_epi32(a, (unsigned)n) : a;
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, (unsigned)(16 - n)));
}
INLINE iv iv_unsigned(const void *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv_signed(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv_times(iv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE iv iv_over(iv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE iv iv_rest(iv a, int n)
{
    return _mm512_and_si512(a, _mm512_set1_epi16((short)((1 << n) - 1)));
}
INLINE iv iv_adds(iv a, iv b) { return _mm512_add_epi16(a, b); }
INLINE iv iv_subs(iv a, iv b) { return _mm512_sub_epi16(a, b); }
INLINE iv iv_first(iv a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 16), 16); }
INLINE iv iv_second(iv a) { return _mm512_srai_epi32(a, 16); }
INLINE iv iv_scales(iv a, iv b) { return _mm512_mulhrs_epi16(a, b); }
INLINE iv iv_products(iv a, iv b) { return _mm512_madd_epi16(a, b); }
INLINE iv iv_add_products(iv y, iv a, iv b) { return _mm512_dpwssd_epi32(y, a, b); }
INLINE iv iv_byte(const void *p, int j) /* byte j of each 32-bit word of a stored cv */
{
    return _mm512_and_si512(_mm512_srli_epi32(_mm512_loadu_si512(p), (unsigned)(8 * j)),
                            _mm512_set1_epi32(255));
}
INLINE cv cv_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE cv cv_load_next(const void *p)
{
    cv v;
    __asm__ volatile("vmovdqu64 %1, %0" : "=v"(v) : "m"(*(const __m512i_u *)p));
    return v;
}
INLINE void cv_store(void *p, cv a) { _mm512_storeu_si512(p, a); }
INLINE cv cv_and(cv a, int mask) { return _mm512_and_si512(a, _mm512_set1_epi8((char)mask)); }
INLINE cv cv_or_and(cv a, cv b, int mask) /* a | (b & mask) */
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8((char)mask), 0xf8);
}
INLINE cv cv_right(cv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE cv cv_left(cv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE cv cv_look(const uint8_t *table, cv a)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), a);
}

typedef int32_t __attribute__((may_alias)) four;

/* y += the products of four columns of each row by those of a token at x. */
INLINE iv add_dots_of(iv y, cv c, const uint8_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
            : "+v"(y)
            : "v"(c), "m"(*(const four *)x));
    return y;
}

/* All tokens side by side: their chains are independent, and each register of codes is used up. One or
 * two have each two chains, even and odd columns: one would keep the scheduler full of what waits. */
TEMPLATE void cv_dots(int bits, int n, int T, const cv *c, const uint8_t *x, sums_from from, iv *y)
{
    iv odd[2] = {iv_set(0), iv_set(0)};
    (void)bits;
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < n; i++)
        UNROLL for (int t = 0; t < T; t++) {
            iv *to = T <= 2 && i % 2 ? &odd[t] : &y[t];
            *to = add_dots_of(*to, c[i], x + 4 * (i * T + t));
        }
    UNROLL for (int t = 0; t < T && T <= 2; t++) y[t] = iv_add(y[t], odd[t]);
}

/* The same of codes of 4 bits packed at p, the upper ones as 16 times what they are: shifted once, as
 * sums. */
TEMPLATE void cv_dots_nibbles(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    iv upper[2] = {iv_set(0), iv_set(0)};
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < 4; i++) {
        const cv c = cv_load_next(p + 64 * i), low = cv_and(c, 15), high = cv_and(c, 0xf0);
        UNROLL for (int t = 0; t < T; t++) {
            y[t] = add_dots_of(y[t], low, x + 4 * (i * T + t));
            upper[t] = add_dots_of(upper[t], high, x + 4 * ((4 + i) * T + t));
        }
    }
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_add(y[t], _mm512_srai_epi32(upper[t], 4));
}

TEMPLATE void cv_dots_next(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < 8; i++) {
        cv c = cv_load_next(p + 64 * i);
        UNROLL for (int t = 0; t < T; t++)
            __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0"
                             : "+v"(y[t])
                             : "v"(c), "m"(*(const four *)(x + 4 * (i * T + t)))
                             : "memory");
    }
}

#elif defined(ZT_ISA_avx2)
/* ---- avx2 ------------------------------------------------------------------------------------ */

#include <immintrin.h>
enum { LANES = 8 };
typedef __m256 fv;
typedef __m256i iv, cv;

INLINE fv fv_zero(void) { return _mm256_setzero_ps(); }
INLINE fv fv_set(float x) { return _mm256_set1_ps(x); }
INLINE fv fv_load(const void *p) { return _mm256_loadu_ps(p); }
INLINE void fv_store(float *p, fv a) { _mm256_storeu_ps(p, a); }
INLINE fv fv_add(fv a, fv b) { return _mm256_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm256_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm256_fmadd_ps(a, b, c); }
INLINE fv fv_neg(fv a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return _mm256_cvtepi32_ps(a); }
INLINE fv fv_of_half(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
INLINE fv fv_of_e8m0(const void *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), one = _mm256_set1_epi32(1);
    return _mm256_castsi256_ps(
        _mm256_max_epi32(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23),
                         _mm256_slli_epi32(_mm256_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e4m3(const void *p)
{
    __m128i h = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(p)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(0x1p7f));
}
INLINE fv fv_of_brain(const void *p, int second)
{
    __m256i v = _mm256_loadu_si256(p);
    return _mm256_castsi256_ps(second ? _mm256_and_si256(v, _mm256_set1_epi32(-65536))
                                      : _mm256_slli_epi32(v, 16));
}
INLINE iv iv_set(int32_t x) { return _mm256_set1_epi32(x); }
INLINE iv iv_sub(iv a, iv b) { return _mm256_sub_epi32(a, b); }
INLINE iv iv_add(iv a, iv b) { return _mm256_add_epi32(a, b); }
INLINE iv iv_of_fv(fv a) { return _mm256_cvtps_epi32(a); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_scaled(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { return _mm256_div_ps(a, p); }
INLINE iv iv_join(iv a, iv b) { return _mm256_add_epi32(_mm256_slli_epi32(a, 8), b); }
INLINE iv iv_pair(iv a, iv b, int n)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(a, n), _mm256_slli_epi32(b, 16 - n), 0xaa);
}
INLINE iv iv_unsigned(const void *p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128(p)); }
INLINE iv iv_signed(const void *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(p)); }
INLINE iv iv_times(iv a, int n) { return _mm256_slli_epi16(a, n); }
INLINE iv iv_over(iv a, int n) { return _mm256_srli_epi16(a, n); }
INLINE iv iv_rest(iv a, int n)
{
    return _mm256_and_si256(a, _mm256_set1_epi16((short)((1 << n) - 1)));
}
INLINE iv iv_adds(iv a, iv b) { return _mm256_add_epi16(a, b); }
INLINE iv iv_subs(iv a, iv b) { return _mm256_sub_epi16(a, b); }
INLINE iv iv_first(iv a) { return _mm256_srai_epi32(_mm256_slli_epi32(a, 16), 16); }
INLINE iv iv_second(iv a) { return _mm256_srai_epi32(a, 16); }
INLINE iv iv_scales(iv a, iv b) { return _mm256_mulhrs_epi16(a, b); }
INLINE iv iv_products(iv a, iv b) { return _mm256_madd_epi16(a, b); }
INLINE iv iv_add_products(iv y, iv a, iv b) { return iv_add(y, _mm256_madd_epi16(a, b)); }
INLINE iv iv_byte(const void *p, int j)
{
    return _mm256_and_si256(_mm256_srli_epi32(_mm256_loadu_si256(p), 8 * j),
                            _mm256_set1_epi32(255));
}
INLINE cv cv_load(const void *p) { return _mm256_loadu_si256(p); }
INLINE cv cv_load_next(const void *p)
{
    cv v;
    __asm__ volatile("vmovdqu %1, %0" : "=x"(v) : "m"(*(const __m256i_u *)p));
    return v;
}
INLINE void cv_store(void *p, cv a) { _mm256_storeu_si256(p, a); }
INLINE cv cv_and(cv a, int mask) { return _mm256_and_si256(a, _mm256_set1_epi8((char)mask)); }
INLINE cv cv_or_and(cv a, cv b, int mask) { return _mm256_or_si256(a, cv_and(b, mask)); }
INLINE cv cv_right(cv a, int n) { return _mm256_srli_epi16(a, n); }
INLINE cv cv_left(cv a, int n) { return _mm256_slli_epi16(a, n); }
INLINE cv cv_look(const uint8_t *table, cv a)
{
    __m128i values = _mm_loadu_si128((const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), a);
}

/* Pairs of products in 16 bits. Codes of 8 bits would overflow: there the code is made signed
 * (which is what init would have done) and its sign goes to x; |code - 128| * 127 * 2 fits. */
INLINE __m256i pairs(int bits, __m256i c, const uint8_t *x)
{
    __m256i v = _mm256_set1_epi32(load_i32(x));
    if (bits < 8) return _mm256_maddubs_epi16(c, v);
    c = _mm256_xor_si256(c, _mm256_set1_epi8((char)128));
    return _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(v, c));
}

/* Four tokens side by side: there are 16 registers. */
TEMPLATE void cv_dots(int bits, int n, int T, const cv *c, const uint8_t *x, sums_from from, iv *y)
{
    /* How many pair sums fit in 16 bits: 15 * 127 * 2 * 8, 31 * 127 * 2 * 4, 63 * 127 * 2 * 2. */
    const int run = bits <= 4 ? n : bits == 5 ? 4 : bits == 6 ? 2 : 1, side = T < 4 ? T : 4;
    const __m256i one = _mm256_set1_epi16(1);
    UNROLL for (int u = 0; u < T; u += side) {
        UNROLL for (int t = u; t < u + side; t++)
            y[t] = iv_set(bits < 8 ? load_i32(from.each + 4 * t) : from.whole);
        UNROLL for (int i = 0; i < n; i += run) {
            __m256i s[4];
            UNROLL for (int t = 0; t < side; t++) s[t] = pairs(bits, c[i], x + 4 * (i * T + u + t));
            UNROLL for (int j = i + 1; j < i + run; j++)
                UNROLL for (int t = 0; t < side; t++) {
                    s[t] = _mm256_add_epi16(s[t], pairs(bits, c[j], x + 4 * (j * T + u + t)));
                    __asm__("" : "+x"(s[t])); /* else gcc 12 adds them all at the end, and spills */
                }
            UNROLL for (int t = 0; t < side; t++)
                y[u + t] = _mm256_add_epi32(y[u + t], _mm256_madd_epi16(s[t], one));
        }
    }
}

#else
/* ---- scalar ---------------------------------------------------------------------------------- */

enum { LANES = 16 };
typedef struct fv {
    float v[16];
} fv;
typedef struct iv {
    int32_t v[16];
} iv;
typedef struct cv {
    uint8_t v[64];
} cv;

#define ROWS(expr)                                                                                 \
    do {                                                                                           \
        for (int r = 0; r < 16; r++) y.v[r] = (expr);                                              \
        return y;                                                                                  \
    } while (0)
INLINE fv fv_zero(void) { return (fv){{0}}; }
INLINE fv fv_set(float x) { fv y; ROWS(x); }
INLINE fv fv_load(const void *p) { fv y; memcpy(&y, p, sizeof y); return y; }
INLINE void fv_store(float *p, fv a) { memcpy(p, &a, sizeof a); }
INLINE fv fv_add(fv a, fv b) { fv y; ROWS(a.v[r] + b.v[r]); }
INLINE fv fv_mul(fv a, fv b) { fv y; ROWS(a.v[r] * b.v[r]); }
INLINE fv fv_fma(fv a, fv b, fv c) { fv y; ROWS(a.v[r] * b.v[r] + c.v[r]); }
INLINE fv fv_neg(fv a) { fv y; ROWS(-a.v[r]); }
INLINE fv fv_of_iv(iv a) { fv y; ROWS((float)a.v[r]); }
INLINE fv fv_of_half(const void *p)
{
    fv y;
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    ROWS(zt_f16_to_f32(h[r]));
}
INLINE fv fv_of_e8m0(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e8m0(b[r])); }
INLINE fv fv_of_e4m3(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e4m3(b[r])); }
INLINE fv fv_of_brain(const void *p, int second)
{
    fv y;
    uint16_t h[32];
    memcpy(h, p, sizeof h);
    ROWS(zt_bf16_to_f32(h[2 * r + second]));
}
INLINE iv iv_set(int32_t x) { iv y; ROWS(x); }
INLINE iv iv_sub(iv a, iv b) { iv y; ROWS(a.v[r] - b.v[r]); }
INLINE iv iv_add(iv a, iv b) { iv y; ROWS(a.v[r] + b.v[r]); }
INLINE iv iv_join(iv a, iv b) { iv y; ROWS(256 * a.v[r] + b.v[r]); }
INLINE iv iv_of_fv(fv a) { iv y; ROWS(whole_of(a.v[r])); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_scaled(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { fv y; ROWS(a.v[r] / p.v[r]); }
INLINE int32_t low_of(int32_t a) { return (int16_t)(a & 0xffff); }
INLINE int32_t high_of(int32_t a) { return (int16_t)((uint32_t)a >> 16); }
INLINE int32_t both_of(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)(a & 0xffff) | (uint32_t)b << 16);
}
INLINE iv iv_pair(iv a, iv b, int n) { iv y; ROWS(both_of(a.v[r] >> n, b.v[r] >> n)); }
INLINE iv iv_unsigned(const void *p)
{
    iv y;
    const uint8_t *b = p;
    ROWS(both_of(b[2 * r], b[2 * r + 1]));
}
INLINE iv iv_signed(const void *p)
{
    iv y;
    const int8_t *b = p;
    ROWS(both_of(b[2 * r], b[2 * r + 1]));
}
#define EACH(l, h) ROWS(both_of(l, h))
#define LOW(a)     low_of(a.v[r])
#define HIGH(a)    high_of(a.v[r])
INLINE iv iv_times(iv a, int n) { iv y; EACH(LOW(a) * (1 << n), HIGH(a) * (1 << n)); }
INLINE iv iv_over(iv a, int n) { iv y; EACH((LOW(a) & 0xffff) >> n, (HIGH(a) & 0xffff) >> n); }
INLINE iv iv_rest(iv a, int n) { iv y; EACH(LOW(a) & ((1 << n) - 1), HIGH(a) & ((1 << n) - 1)); }
INLINE iv iv_adds(iv a, iv b) { iv y; EACH(LOW(a) + LOW(b), HIGH(a) + HIGH(b)); }
INLINE iv iv_subs(iv a, iv b) { iv y; EACH(LOW(a) - LOW(b), HIGH(a) - HIGH(b)); }
INLINE iv iv_first(iv a) { iv y; ROWS(LOW(a)); }
INLINE iv iv_second(iv a) { iv y; ROWS(HIGH(a)); }
INLINE int32_t scale_by(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }
INLINE iv iv_scales(iv a, iv b) { iv y; EACH(scale_by(LOW(a), LOW(b)), scale_by(HIGH(a), HIGH(b))); }
/* As in vectors, what is too large wraps. */
INLINE int32_t wrapped(int64_t a) { return (int32_t)(uint32_t)(uint64_t)a; }
INLINE int64_t products_of(int32_t a, int32_t b)
{
    return (int64_t)low_of(a) * low_of(b) + (int64_t)high_of(a) * high_of(b);
}
INLINE iv iv_products(iv a, iv b) { iv y; ROWS(wrapped(products_of(a.v[r], b.v[r]))); }
INLINE iv iv_add_products(iv x, iv a, iv b)
{
    iv y;
    ROWS(wrapped(x.v[r] + products_of(a.v[r], b.v[r])));
}
#undef EACH
#undef LOW
#undef HIGH
INLINE iv iv_byte(const void *p, int j) { iv y; const uint8_t *b = p; ROWS(b[4 * r + j]); }
#undef ROWS

INLINE cv cv_load(const void *p) { cv y; memcpy(&y, p, sizeof y); return y; }
INLINE cv cv_load_next(const void *p) { return cv_load(p); }
INLINE void cv_store(void *p, cv a) { memcpy(p, &a, sizeof a); }
#define BYTES(expr)                                                                                \
    do {                                                                                           \
        for (int b = 0; b < 64; b++) y.v[b] = (uint8_t)(expr);                                     \
        return y;                                                                                  \
    } while (0)
INLINE cv cv_and(cv a, int mask) { cv y; BYTES(a.v[b] & mask); }
INLINE cv cv_or_and(cv a, cv c, int mask) { cv y; BYTES(a.v[b] | (c.v[b] & mask)); }
INLINE cv cv_right(cv a, int n) { cv y; BYTES(a.v[b] >> n); }
INLINE cv cv_left(cv a, int n) { cv y; BYTES(a.v[b] << n); }
INLINE cv cv_look(const uint8_t *table, cv a) { cv y; BYTES(table[a.v[b]]); }
#undef BYTES

TEMPLATE void cv_dots(int bits, int n, int T, const cv *c, const uint8_t *x, sums_from from, iv *y)
{
    (void)bits;
    for (int t = 0; t < T; t++) {
        iv acc = iv_set(load_i32(from.each + 4 * t));
        for (int i = 0; i < n; i++) {
            int8_t v[4];
            memcpy(v, x + 4 * (i * T + t), 4);
            for (int r = 0; r < 16; r++)
                for (int j = 0; j < 4; j++) acc.v[r] += c[i].v[4 * r + j] * v[j];
        }
        y[t] = acc;
    }
}

#endif

/* ---- all: codes of 32 columns ---------------------------------------------------------------- */

/* n places to the left, or -n to the right. */
INLINE cv cv_shift(cv a, int n)
{
    return n > 0 ? cv_left(a, n) : n < 0 ? cv_right(a, -n) : a;
}

#if !defined(ZT_ISA_avx512)
TEMPLATE void cv_dots_next(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    cv c[8];
    UNROLL for (int i = 0; i < 8; i++) c[i] = cv_load_next(p + 64 * i);
    cv_dots(8, 8, T, c, x, from, y);
}
#endif

/* The eight registers of codes packed at p (of the first row wanted), or what they stand for. */
TEMPLATE void cv_unpack(zt_pack_form f, bool in_order, const uint8_t *p, cv c[8])
{
    cv v[8];
    UNROLL for (int i = 0; i < f.bits; i++)
        v[i] = in_order ? cv_load_next(p + 64 * i) : cv_load(p + 64 * i);
    if (f.bits == 8) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = v[i];
        return;
    }
    if (f.bits < 4) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = cv_and(cv_shift(v[i / 4], -2 * (i % 4)), 3);
    } else {
        UNROLL for (int i = 0; i < 4; i++) {
            c[i] = cv_and(v[i], 15);
            c[4 + i] = cv_and(cv_right(v[i], 4), 15);
        }
    }
    if (f.bits == 3) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = cv_or_and(c[i], cv_shift(v[2], 2 - i), 4);
    }
    if (f.bits == 5) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = cv_or_and(c[i], cv_shift(v[4], 4 - i), 16);
    }
    if (f.bits == 6) {
        UNROLL for (int i = 0; i < 8; i++)
            c[i] = cv_or_and(c[i], cv_shift(v[4 + i / 4], 4 - 2 * (i % 4)), 48);
    }
    if (f.look) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = cv_look(zt_pack_values[f.look], c[i]);
    }
}

#endif
