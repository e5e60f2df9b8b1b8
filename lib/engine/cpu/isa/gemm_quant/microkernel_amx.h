/* microkernel_amx.h - private to gemm_quant/: the sums of 16 rows of activations by an unpacked pair, by AMX's
 * tile registers.
 *
 * One tile register has 32 columns of the codes of 16 rows of activations, another those of 16 rows of weights
 * (unpacked.h), a third their 256 sums, which are cv_dots': all that follows, and so the bits, are the same. Only
 * where a scale is for 32 columns: 16 take a tile register as long.
 */
#ifndef ZT_CPU_GEMM_QUANT_MICROKERNEL_AMX_H
#define ZT_CPU_GEMM_QUANT_MICROKERNEL_AMX_H

#include "lib/engine/cpu/isa/amx.h"
#include "lib/engine/cpu/isa/gemm_quant/microkernel.h"

#if defined(ZT_ISA_avx512)
enum { AMX_SUM_BYTES = 64 * AMX_ROWS }; /* of 16 rows by 16 */

/* From here on, until amx_end: tmm0 and 1 are sums, 2 and 3 rows of activations, 4 and 5 codes. */
INLINE void amx_begin_tiles(void)
{
    static const amx_shapes shapes = {
        .palette = 1, .bytes = {64, 64, 32, 32, 64, 64}, .lines = {AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, 8, 8}};
    amx_begin(&shapes);
}

/* Begins the two sums of a pair. */
INLINE void amx_begin_dots(const uint8_t *codes, const uint8_t *x)
{
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\t"
                     "tileloadd (%1,%2,1), %%tmm2\n\ttileloadd (%0,%2,1), %%tmm4\n\t"
                     "tdpbssd %%tmm4, %%tmm2, %%tmm0\n\t"
                     "tileloadd 32(%1,%2,1), %%tmm3\n\ttileloadd 512(%0,%2,1), %%tmm5\n\t"
                     "tdpbssd %%tmm5, %%tmm3, %%tmm1"
                     :
                     : "r"(codes), "r"(x), "r"((size_t)64)
                     : "memory");
}

/* Waits for them and stores them: i32[2][16 rows of activations][16]. */
INLINE void amx_store_dots(uint8_t *dot)
{
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 1024(%0,%1,1)" : : "r"(dot), "r"((size_t)64) : "memory");
}

/* The stored sums of TILE_ROWS rows (with parts = 2 of their tokens), with their dot_rounding. */
TEMPLATE void amx_load_dots(zt_pack_form form, int parts, const uint8_t *stored, iv (*dot)[TILE_ROWS])
{
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const int32_t rounding = dot_rounding(form, parts, i);
        iv row[TILE_ROWS];
        UNROLL_FOR (int t = 0; t < TILE_ROWS; t++) {
            row[t] = cv_load(stored + AMX_SUM_BYTES * i + 64 * t);
            if (rounding) row[t] = iv_add(row[t], iv_set(rounding));
            if (parts == 1) dot[i][t] = row[t];
        }
        if (parts == 2) join_rows(TILE_ROWS, row, dot[i]);
    }
}
#else
INLINE void amx_begin_tiles(void) {}
#endif

#endif
