/* vector.h - private to gemm_quant/: the numbers of a group's 16 rows, on each instruction set
 * (vector_scalar.h, vector_avx2.h, vector_avx512.h,
 * vector_neon.h), and codes unpacked from a packed group.
 *
 *   fv                      f32, one a row
 *   iv                      i32, one a row; of iv16_* two i16 a row, the first in the lower half
 *   cv                      bytes of codes: columns 4i..4i+3 of each row (pack.h)
 *
 *   fv_fma(a, b, c)         a b + c, rounded once (scalar: fused.h)
 *   fv_of_f16, e8m0, e4m3   16 scales of pack.h
 *   fv_fma_flushed          fv_fma, between flush_begin and flush_end (../denormals.h)
 *   fv_of_bf16(p, 0 or 1)   the first or second of each pair of columns
 *   fv_power(a)             powers of two as fv_mul_power(x, p) and fv_div_power(x, p) want them
 *   iv_of_fv(a)             rounded to integers, ties to even; any integer where that is not one
 *   iv_of_bytes(p, j)       byte j of each row of a stored cv
 *   iv_join_halves(a, b)    256 a + b (not AVX2)
 *   iv16_pair(a, b, n)      the lower 16 bits of a >> n and of b >> n
 *   iv16_of_u8, iv16_of_i8  two bytes a row
 *   iv16_first, _second     one of the two as i32
 *   iv16_shl, _shr(a, n)    a 2^n; what is above n bits
 *   iv16_low_bits(a, n)     the lower n bits
 *   iv16_scale(a, b)        a b / 2^15, rounded
 *   iv16_dot(a, b)          i32: a[0] b[0] + a[1] b[1]
 *   iv16_dot_add(y, a, b)   y + iv16_dot(a, b)
 *   cv_lookup(table, a)     table[a] for every byte, a < 16
 *   cv_or_and(a, b, mask)   a | (b & mask)
 *   cv_load_in_order(p)     a load that stays where it is in the program
 *
 * prefetch_l1 and cv_load_in_order request lines in the order in which they stand in the program: the
 * compiler moves other loads about, and memory is then read at 60 to 85 per cent of its rate.
 */
#ifndef ZT_CPU_GEMM_QUANT_VECTOR_H
#define ZT_CPU_GEMM_QUANT_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lib/engine/cpu/isa/fused.h"
#include "lib/engine/cpu/pack.h"

#define INLINE static inline __attribute__((always_inline))
/* Tiles are made anew for every type and size, with all loops unrolled (UNROLL_FOR) but for those that are better short
 * (ROLLED_FOR, which the compiler would unroll by itself). Plain C gains little from that, and sanitizers take
 * minutes to compile it: they get one loop for all sizes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ONE_FOR_ALL_SIZES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define ONE_FOR_ALL_SIZES 1
#endif
#if defined(ZT_ISA_scalar) || defined(ONE_FOR_ALL_SIZES)
#define UNROLL_FOR for
#define ROLLED_FOR for
#define TEMPLATE static __attribute__((noinline, unused))
#elif defined(__clang__)
#define UNROLL_FOR _Pragma("clang loop unroll(full)") for
#define ROLLED_FOR _Pragma("clang loop unroll(disable)") for
#define TEMPLATE INLINE
#else
#define UNROLL_FOR _Pragma("GCC unroll 16") for
#define ROLLED_FOR _Pragma("GCC unroll 1") for
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
INLINE int32_t round_to_int(float v) { return v >= -33000 && v <= 33000 ? (int32_t)lrintf(v) : 0; }

INLINE void prefetch_l1(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p);
#endif
}

#if defined(ZT_ISA_avx2)
#define PREFETCH "prefetcht0"
#else
#define PREFETCH "prefetcht1"
#endif

/* Sends for lines, to the second-level cache (with AVX2 to the first, which is 1 to 2 per cent). They may be
 * past the end of what is there: the processor passes over addresses that nobody has. */
INLINE void prefetch_l2(uintptr_t at, int bytes)
{
#if defined(__x86_64__)
    UNROLL_FOR (int i = 0; i < bytes; i += 64) __asm__ volatile(PREFETCH " %0" : : "m"(*(const char *)(at + (size_t)i)));
#else
    (void)at, (void)bytes;
#endif
}

/* Of a stream that is at p the next `bytes`, `reach` further on (zt_cpu_reach; 0: nothing). */
INLINE void prefetch_stream(const uint8_t *p, size_t reach, int bytes)
{
    if (reach) prefetch_l2((uintptr_t)p + reach, bytes);
}

/* Where rows of activations are made a whole tile at a time (activations_tile.h), and groups unpacked for many tiles
 * (unpacked.h). */
#if defined(ZT_ISA_avx512) || defined(ZT_ISA_avx2)
#define WHOLE_TILES 1
#endif

#if defined(ZT_ISA_avx512)
#include "lib/engine/cpu/isa/gemm_quant/vector_avx512.h"
#elif defined(ZT_ISA_avx2)
#include "lib/engine/cpu/isa/gemm_quant/vector_avx2.h"
#elif defined(ZT_ISA_neon)
#include "lib/engine/cpu/isa/gemm_quant/vector_neon.h"
#else
#include "lib/engine/cpu/isa/gemm_quant/vector_scalar.h"
#endif

/* ---- codes of 32 columns -------------------------------------------------------------------- */

/* n places to the left, or -n to the right. */
INLINE cv cv_shift(cv a, int n) { return n > 0 ? cv_shl(a, n) : n < 0 ? cv_shr(a, -n) : a; }

/* Codes, or what they stand for, lie in up to two of the f.bits registers that they are packed in. */
INLINE int low_register(zt_pack_form form, int i) { return form.bits == 8 ? i : form.bits < 4 ? i / 4 : i % 4; }
INLINE int high_register(zt_pack_form form, int i)
{
    return form.bits == 3 ? 2 : form.bits == 5 ? 4 : form.bits == 6 ? 4 + i / 4 : low_register(form, i);
}

/* The i-th of eight registers of codes of those packed in v. */
INLINE cv cv_code(zt_pack_form form, const cv *packed, int i)
{
    const cv low = packed[low_register(form, i)], up = packed[high_register(form, i)];
    cv codes = low;
    if (form.bits < 4) codes = cv_and(cv_shift(low, -2 * (i % 4)), 3);
    if (form.bits >= 4 && form.bits < 8) codes = cv_and(cv_shift(low, i / 4 * -4), 15);
    if (form.bits == 3) codes = cv_or_and(codes, cv_shift(up, 2 - i), 4);
    if (form.bits == 5) codes = cv_or_and(codes, cv_shift(up, 4 - i), 16);
    if (form.bits == 6) codes = cv_or_and(codes, cv_shift(up, 4 - 2 * (i % 4)), 48);
    return form.table ? cv_lookup(zt_pack_table_values[form.table], codes) : codes;
}

/* All eight of those packed at p. */
TEMPLATE void cv_unpack(zt_pack_form form, bool in_order, const uint8_t *p, cv codes[8])
{
    cv packed[8];
    UNROLL_FOR (int i = 0; i < form.bits; i++) packed[i] = in_order ? cv_load_in_order(p + 64 * i) : cv_load(p + 64 * i);
    UNROLL_FOR (int i = 0; i < 8; i++) codes[i] = cv_code(form, packed, i);
}

#endif
