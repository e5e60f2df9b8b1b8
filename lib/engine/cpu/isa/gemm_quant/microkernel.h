/* microkernel.h - private to gemm_quant/: integer dot products of a group's 16 rows by rows of activations,
 * a file for each instruction set (microkernel_scalar.h, _avx2.h, _avx512.h; AMX's: microkernel_amx.h).
 *
 * All of it is exact integer arithmetic. A product takes registers of codes (four columns of each row) by rows of
 * activations, which are i8[registers][row_step][4]: with T rows side by side row t's word of register i is at
 * x + 4 (i row_step + t). Template arguments (bits, count, T, row_step) are constants.
 *
 *   what each file has
 *     REGISTER_ROWS        rows of activations whose sums fit the registers
 *     pair_dots            the two sums of a pair, by packed codes
 *     unpacked_dots        one sum, of codes that lie unpacked (not scalar)
 *   inside scalar and avx512
 *     cv_dots              y[t] = start + the sum of code times x, of codes in registers
 *     streamed_dots        the same of codes in memory, for tiles of few rows: each register is loaded where it is
 *                          multiplied, in order; false: this form has none
 *   inside avx2
 *     cv_dots_packed       the same of packed codes
 *     cv_dots_crossed      both sums of a pair at once, of crossed words (tile_crossed.h)
 *
 * With act=q16 (parts = 2) two rows are a token, and sums are of 256 upper + lower.
 */
#ifndef ZT_CPU_GEMM_QUANT_MICROKERNEL_H
#define ZT_CPU_GEMM_QUANT_MICROKERNEL_H

#include "lib/engine/cpu/isa/gemm_quant/layout.h"

/* What sums begin with. */
typedef struct sums_start {
    const uint8_t *each; /* i32[T] */
    int32_t common;      /* AVX2 and NEON, signed codes: of all rows */
} sums_start;

/* The i-th sum of a pair. each: those of its rows. */
INLINE sums_start start_of_sums(zt_pack_form form, int parts, int i, const uint8_t *each)
{
    return (sums_start){each, dot_rounding(form, parts, i)};
}

/* A tile of so few rows waits for memory: it requests lines in the order in which they lie. (How far ahead codes
 * are then prefetched is zt_cpu_reach_of_codes.) */
enum { STREAMED_ROWS = 2 };

#if defined(ZT_ISA_avx512)
#include "lib/engine/cpu/isa/gemm_quant/microkernel_avx512.h"
#elif defined(ZT_ISA_avx2)
#include "lib/engine/cpu/isa/gemm_quant/microkernel_avx2.h"
#elif defined(ZT_ISA_neon)
#include "lib/engine/cpu/isa/gemm_quant/microkernel_neon.h"
#else
#include "lib/engine/cpu/isa/gemm_quant/microkernel_scalar.h"
#endif

#if !defined(ZT_ISA_avx2)
/* ---- scalar, avx512 and neon ---------------------------------------------------------------------- */

/* Sums of tokens from those of their two rows. */
TEMPLATE void join_rows(int T, const iv *row, iv *y)
{
    UNROLL_FOR (int u = 0; u < T / 2; u++) y[u] = iv_join_halves(row[2 * u], row[2 * u + 1]);
}

/* cv_dots of tokens of 16 bits. */
TEMPLATE void cv_dots_q16(int bits, int count, int T, int row_step, const cv *codes, const uint8_t *x, sums_start start, iv *y)
{
    iv row[REGISTER_ROWS];
    cv_dots(bits, count, T, row_step, codes, x, start, row);
    join_rows(T, row, y);
}

/* The sums of `rows` rows of a tile of T by codes packed at q, where T is few. false: this form has none. */
TEMPLATE bool dots_in_order(zt_pack_form form, int T, int rows, int parts, const uint8_t *q, const uint8_t *x, sums_start start,
                            iv *dot)
{
    iv row[STREAMED_ROWS];
    if (T > STREAMED_ROWS || !streamed_dots(form, rows, q, x, start, row)) return false;
    if (parts == 2)
        join_rows(rows, row, dot);
    else
        UNROLL_FOR (int t = 0; t < rows; t++) dot[t] = row[t];
    return true;
}

/* The two sums of rows t to t + rows - 1 of a tile of T (with parts = 2 of their tokens), by codes packed at q. */
TEMPLATE void pair_dots(zt_pack_form form, int T, int t, int rows, int parts, const uint8_t *q, const uint8_t *x,
                        iv (*dot)[TILE_ROWS])
{
    const int per_16 = zt_pack_scale_per_16(form), registers = per_16 ? 4 : 8;
    const uint8_t *each = x + (pair_columns(form) + pair_scale_bytes(form)) * T + 4 * t;
    cv codes[8];
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const sums_start start = start_of_sums(form, parts, i, each + 4 * T * i);
        const uint8_t *xi = x + 4 * registers * T * i + 4 * t, *qi = q + (per_16 ? 0 : ZT_PACK_CODE_BYTES(form.bits) * i);
        const int first = per_16 ? 4 * i : 0; /* register of the codes at qi */
        if (dots_in_order(form, T, rows, parts, qi, xi, start, dot[i])) continue;
        if (first == 0) cv_unpack(form, T <= STREAMED_ROWS, qi, codes);
        if (parts == 2)
            cv_dots_q16(zt_pack_value_bits(form), registers, rows, T, codes + first, xi, start, dot[i]);
        else
            cv_dots(zt_pack_value_bits(form), registers, rows, T, codes + first, xi, start, dot[i]);
    }
}
#endif

#if defined(ZT_ISA_avx512)
/* The sums of T rows, or their tokens, by `count` registers of codes that lie unpacked at p. */
TEMPLATE void unpacked_dots(int parts, int bits, int count, int T, int row_step, const uint8_t *p, const uint8_t *x,
                            sums_start start, iv *y)
{
    cv codes[8];
    UNROLL_FOR (int j = 0; j < count; j++) codes[j] = cv_load(p + 64 * j);
    if (parts == 2)
        cv_dots_q16(bits, count, T, row_step, codes, x, start, y);
    else
        cv_dots(bits, count, T, row_step, codes, x, start, y);
}
#endif

#endif
