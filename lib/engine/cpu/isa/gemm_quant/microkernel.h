/* microkernel.h - private to gemm_quant/: the 16 rows of a group at a time, on each instruction set
 * (microkernel_avx512.h, microkernel_avx2.h, microkernel_scalar.h).
 *
 *   fv  f32, one a row            iv  i32, one a row
 *   cv  bytes of codes: four columns of each row (pack.h)
 *
 * fv_of_half, _e8m0, _e4m3 read so many scales of pack.h; cv_look(table, a) has table[a] for every
 * byte below 16.
 * fv_fma(a, b, c) is a * b + c, rounded once where the processor has it (scalar rounds twice).
 * fv_scaled(a, p) is a times a power of two, fv_unscaled a over it, where p = fv_power of that.
 * SIDE rows of activations fit the registers side by side.
 * cv_dots(bits, n, T, step, c, x, from, y): for every row t of activations and of weights, y[t] = from +
 * the sum of code times x over the 4 n columns of registers c[0..n-1]. x is T rows of i8[n][step][4].
 * bits, n, T and step are constants; bits says how far sums stay exact in 16 bits. All of it is exact integer
 * arithmetic. (With AVX2 codes of 8 bits are made signed, which is what from.each else does: they begin
 * at from.whole.)
 * cv_dots_fine is the same of tokens of 16 bits, two rows each (activations.h): y[T / 2].
 * cv_dots_opened (AVX-512), cv_dots_opened_fine (not scalar): of codes that lie opened at p (unpacked.h).
 *
 * cv_dots_packed (AVX2, in place of cv_dots and cv_dots_fine) takes codes as they are packed, cv_dots_nibbles
 * (AVX-512) those of 4 bits. cv_dots_crossed(beyond, n, T, step, p, x, from, y) (AVX2) is both sums of a pair at
 * once, less `beyond` bits: of n words of x, crossed (tile_codes.h), by codes that cv_cross has put at p.
 *
 * iv_join(a, b) (not AVX2) is 256 a + b. An iv may be two whole numbers of 16 bits a row: iv_pair(a, b, n) has
 * the lower 16 bits of a and b, shifted n to the right; iv_unsigned and iv_signed read them from
 * bytes. Of such, each with each: iv_times(a, n) a 2^n, iv_over and iv_rest what is above n bits and
 * below, iv_adds a + b, iv_subs a - b, iv_scales a b / 2^15, rounded. iv_first and iv_second are the one
 * and the other, iv_products(a, b) the sum of their products, iv_add_products(y, a, b) y more.
 * ask_for and cv_load_next ask for their lines in the order in which they stand in the program: the
 * compiler moves other loads about, and memory is read at 60 to 85 per cent of its rate for that.
 * cv_dots_next(T, p, x, from, y) (not AVX2) is cv_dots of the eight registers of 8-bit codes at p, each asked
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
/* Tiles are made anew for every type and size, with all loops UNROLLed but for those that are better short
 * (ROLLED, which the compiler would unroll by itself). Plain C gains little from that, and sanitizers take
 * minutes to compile it: they get one loop for all sizes. */
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
#define ROLLED
#define TEMPLATE static __attribute__((noinline, unused))
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define TEMPLATE INLINE
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")
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

#if defined(ZT_ISA_avx2)
#define SEND "prefetcht0"
#else
#define SEND "prefetcht1"
#endif

/* Sends for lines, to the second-level cache (with AVX2 to the first, which is 1 to 2 per cent). They may be
 * past the end of what is there: the processor passes over addresses that nobody has. */
INLINE void send_lines(uintptr_t at, int bytes)
{
#if defined(__x86_64__)
    UNROLL for (int i = 0; i < bytes; i += 64)
        __asm__ volatile(SEND " %0" : : "m"(*(const char *)(at + (size_t)i)));
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
#include "lib/engine/cpu/isa/gemm_quant/microkernel_avx512.h"
#elif defined(ZT_ISA_avx2)
#include "lib/engine/cpu/isa/gemm_quant/microkernel_avx2.h"
#else
#include "lib/engine/cpu/isa/gemm_quant/microkernel_scalar.h"
#endif

/* ---- all: codes of 32 columns ---------------------------------------------------------------- */

/* n places to the left, or -n to the right. */
INLINE cv cv_shift(cv a, int n)
{
    return n > 0 ? cv_left(a, n) : n < 0 ? cv_right(a, -n) : a;
}

#if defined(ZT_ISA_scalar)
TEMPLATE void cv_dots_next(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    cv c[8];
    UNROLL for (int i = 0; i < 8; i++) c[i] = cv_load_next(p + 64 * i);
    cv_dots(8, 8, T, T, c, x, from, y);
}
#endif

#if !defined(ZT_ISA_avx2)
/* Of two rows of halves a token. */
TEMPLATE void join_rows(int T, const iv *row, iv *y)
{
    UNROLL for (int u = 0; u < T / 2; u++) y[u] = iv_join(row[2 * u], row[2 * u + 1]);
}

TEMPLATE void cv_dots_fine(int bits, int n, int T, int step, const cv *c, const uint8_t *x,
                           sums_from from, iv *y)
{
    iv row[SIDE];
    cv_dots(bits, n, T, step, c, x, from, row);
    join_rows(T, row, y);
}
#endif

#if defined(ZT_ISA_avx512)
TEMPLATE void cv_dots_opened_fine(int n, int T, int step, const uint8_t *p, const uint8_t *x,
                                  sums_from from, iv *y)
{
    iv row[SIDE];
    cv_dots_opened(8, n, T, step, p, x, from, row);
    join_rows(T, row, y);
}
#endif

/* Codes, or what they stand for, lie in up to two of the f.bits registers that they are packed in. */
INLINE int packed_in(zt_pack_form f, int i) { return f.bits == 8 ? i : f.bits < 4 ? i / 4 : i % 4; }
INLINE int upper_in(zt_pack_form f, int i)
{
    return f.bits == 3 ? 2 : f.bits == 5 ? 4 : f.bits == 6 ? 4 + i / 4 : packed_in(f, i);
}

/* The i-th of eight registers of codes of those packed in v. */
INLINE cv cv_code(zt_pack_form f, const cv *v, int i)
{
    const cv low = v[packed_in(f, i)], up = v[upper_in(f, i)];
    cv c = low;
    if (f.bits < 4) c = cv_and(cv_shift(low, -2 * (i % 4)), 3);
    if (f.bits >= 4 && f.bits < 8) c = cv_and(cv_shift(low, i / 4 * -4), 15);
    if (f.bits == 3) c = cv_or_and(c, cv_shift(up, 2 - i), 4);
    if (f.bits == 5) c = cv_or_and(c, cv_shift(up, 4 - i), 16);
    if (f.bits == 6) c = cv_or_and(c, cv_shift(up, 4 - 2 * (i % 4)), 48);
    return f.look ? cv_look(zt_pack_values[f.look], c) : c;
}

/* All eight of those packed at p. */
TEMPLATE void cv_unpack(zt_pack_form f, bool in_order, const uint8_t *p, cv c[8])
{
    cv v[8];
    UNROLL for (int i = 0; i < f.bits; i++)
        v[i] = in_order ? cv_load_next(p + 64 * i) : cv_load(p + 64 * i);
    UNROLL for (int i = 0; i < 8; i++) c[i] = cv_code(f, v, i);
}

#if defined(ZT_ISA_avx2)
/* cv_dots, with P = 2 cv_dots_fine, of n registers of the codes packed at p, from `first` on. Each is unpacked
 * where it is multiplied: there are no registers for all. */
TEMPLATE void cv_dots_packed(zt_pack_form f, int first, int n, int T, int P, int step, const uint8_t *p,
                             const uint8_t *x, sums_from from, iv *y)
{
    const int bits = zt_pack_wide(f);
    const bool twos = n == 8 && f.bits >= 4 && f.bits < 8; /* the i-th lies where the i + 4-th does */
    cv v[8];
    iv s[SIDE];
    if (P == 2)
        begin_fine(T, from, y);
    else
        begin_dots(bits, T, from, y);
    UNROLL for (int k = 0; k < n; k++) {
        const int i = first + (twos ? k % 2 * 4 + k / 2 : k), low = packed_in(f, i), up = upper_in(f, i);
        if (!twos || k % 2 == 0) v[low] = cv_load_next(p + 64 * low);
        if (up != low) v[up] = cv_load(p + 64 * up);
        const cv c = cv_code(f, v, i);
        const uint8_t *xi = x + 4 * step * (i - first);
        if (P == 2)
            add_fine_dots(T, c, xi, y);
        else
            dots_of(bits, n, T, k, bits == 8 ? cv_signed(c) : c, xi, s, y);
    }
}

/* The codes packed at p, crossed, to 16 n registers (of 8 bits twice as many). */
TEMPLATE void cv_cross(zt_pack_form f, const uint8_t *p, uint8_t *to)
{
    const int halves = zt_pack_halves(f), n = halves ? 4 : 8;
    cv a[8], b[8];
    cv_unpack(f, false, p, a);
    if (!halves) cv_unpack(f, false, p + ZT_PACK_CODES(f.bits), b);
    UNROLL for (int i = 0; i < 2 * n; i++, to += 64) {
        const cv c = iv_pair(a[i / 2], halves ? a[4 + i / 2] : b[i / 2], i % 2 * 16);
        cv_store(to, zt_pack_wide(f) == 8 ? cv_upper(c) : c);
        if (zt_pack_wide(f) == 8) cv_store(to + 64 * 2 * n, cv_lower(c));
    }
}
#endif

#endif
