/* index_rows.cu - rows of a matrix of any type as f32. */
#include "lib/engine/cuda/index_rows.cuh"

KERNEL_OF(zt_rows, zt_cu_rows_args, 32 * ROW_WARPS) { rows_at(a, block(), block_y()); }

KERNEL_OF(zt_rows_packed, zt_cu_rows_args, 32 * ROW_WARPS)
{
    SHARED(uint16_t, whole, [ROW_WARPS][MOST_HALVES + 1]);
    packed_rows_at(a, block(), block_y(), whole);
}
