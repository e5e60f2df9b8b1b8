/* state_rows.cuh - where rows of a recurrence begin and where their states go: zt_state_start of lib/ops/ops.h. A thread has its
 * own part of the states and goes through all rows in order, so that a row that starts from a slot reads what the rows before it
 * stored there.
 */
#ifndef ZT_CU_STATE_ROWS_CUH
#define ZT_CU_STATE_ROWS_CUH

#include "lib/engine/cuda/args_state.h"
#include "lib/engine/cuda/prim.h"

enum { STATE_ZEROS = -1, STATE_CONTINUED = -2 };

/* Slot, STATE_ZEROS or STATE_CONTINUED of row r. tells: out of range is reported. */
FN int64_t start_of(const zt_cu_state_rows &rows, int64_t r, bool tells)
{
    const int64_t slot = PTR(const int32_t, rows.from)[r];
    if (slot < rows.slots && slot >= (r ? STATE_CONTINUED : STATE_ZEROS)) return slot;
    if (tells) trouble(PTR(zt_cu_runtime_error, rows.trouble), ZT_CU_STATE, 2 * r, slot, rows.slots);
    return STATE_ZEROS;
}

/* Slot of row r, or -1. */
FN int64_t end_of(const zt_cu_state_rows &rows, int64_t r, bool tells)
{
    const int64_t slot = PTR(const int32_t, rows.to)[r];
    if (slot < rows.slots && slot >= -1) return slot;
    if (tells) trouble(PTR(zt_cu_runtime_error, rows.trouble), ZT_CU_STATE, 2 * r + 1, slot, rows.slots);
    return -1;
}

#endif
