/* index_rows.cuh - rows of a matrix of any type as f32: block x of row n, of ROW_WARPS warps, each with some
 * of its columns. */
#ifndef ZT_CU_INDEX_ROWS_CUH
#define ZT_CU_INDEX_ROWS_CUH

#include "lib/engine/cuda/packed.h"

enum { ROW_WARPS = 4, MOST_HALVES = 105 }; /* 16-bit parts of the largest packed block */

/* Row number n's, -1 and trouble where there is none. */
FN int64_t row_of(const zt_cu_rows_args &a, int64_t n, bool tell)
{
    int64_t i = PTR(const int32_t, a.i)[n];
    if (i >= 0 && i < a.rows) return i;
    if (tell && a.strict) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_INDEX, n, i, a.rows);
    return -1;
}

/* As they lie in a file: four columns a thread. */
FN void rows_at(const zt_cu_rows_args &a, int64_t x, int64_t n)
{
    const int64_t at = x * 32 * ROW_WARPS + thread(), row = row_of(a, n, at == 0), k = at * 4;
    float v[4];
    bytes from = PTR(const uint8_t, a.w) + (row < 0 ? 0 : row * a.row_bytes);
    four_at(a.w_type, from, a.block, a.block_bytes, PTR(const uint16_t, a.grid), k,
            row < 0 ? 0 : a.K, v);
    for (int j = 0; j < 4; j++)
        if (k + j < a.K) PTR(float, a.y)[n * a.K + k + j] = v[j];
}

/* Packed: a warp puts a block together as the file had it, then its lanes decode it. */
FN void packed_rows_at(const zt_cu_rows_args &a, int64_t x, int64_t n,
                       uint16_t (*whole)[MOST_HALVES + 1])
{
    const int64_t units = a.pack.units, unit = x * ROW_WARPS + warp();
    const int64_t row = row_of(a, n, x == 0 && thread() == 0);
    bool any = unit < units && row >= 0;
    uint16_t *own = whole[warp()];
    for (int i = lane(); any && i < a.block_bytes / 2; i += 32)
        own[i] = PTR(const uint16_t, a.w)[place_of(&a.pack, row, unit, i)];
    warp_barrier();
    for (int i = 4 * lane(); unit < units && i < a.block; i += 128) {
        float v[4] = {0, 0, 0, 0};
        if (any) block_four(a.w_type, (bytes)own, 0, i, v);
        for (int j = 0; j < 4; j++) PTR(float, a.y)[n * a.K + unit * a.block + i + j] = v[j];
    }
}

#endif
