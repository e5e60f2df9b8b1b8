/* linear_half.cuh - what is read of rows of 16-bit numbers for the matrix units. Of 32 columns a lane
 * has four that follow each other of each 16, so that every mma has 16 that do, as wgmma has; which
 * of those go to which place of the operands does not matter while both agree. */
#ifndef ZT_CU_LINEAR_HALF_CUH
#define ZT_CU_LINEAR_HALF_CUH

#include "lib/engine/cuda/linear.h"

FN void multiply(f16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_f16(d, a, b); }
FN void multiply(bf16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_bf16(d, a, b); }

/* The lane's columns of the 32 from column `unit` on, of part h. */
FN int64_t column_of(int64_t unit, int h) { return unit + 16 * h + lane() % 4 * 4; }

/* Those of a row of 16-bit numbers as four words; what is past K, or no row, 0. */
FN void eight(const uint16_t *row, bool any, bool wide, int64_t unit, int64_t K, uint32_t word[4])
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        const int64_t k = column_of(unit, h);
        vec<uint32_t, 2> v = {{0, 0}};
        if (any && wide && k < K) {
            v = weight_vec<2>((const uint32_t *)(row + k));
        } else if (any) {
            for (int j = 0; j < 4; j++)
                if (k + j < K) v.v[j / 2] |= (uint32_t)row[k + j] << j % 2 * 16;
        }
        word[2 * h] = v.v[0];
        word[2 * h + 1] = v.v[1];
    }
}

/* 16 rows by 32 columns (low: rows g, high: g + 8) by eight rows of x. */
template <class T>
FN void by_halves(const uint32_t low[4], const uint32_t high[4], const uint32_t x[4], float acc[4])
{
    const uint32_t one[4] = {low[0], high[0], low[1], high[1]};
    const uint32_t two[4] = {low[2], high[2], low[3], high[3]};
    multiply(T(), acc, one, x);
    multiply(T(), acc, two, x + 2);
}

#endif
