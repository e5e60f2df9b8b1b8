/* state_rows.h - private to isa/: where the rows of a recurrence begin and where their states go (lib/ops/state_rows.h).
 * Inputs k and k + 1 of a call are from and to, i32.
 */
#ifndef ZT_CPU_STATE_ROWS_H
#define ZT_CPU_STATE_ROWS_H

#include "lib/engine/cpu/cpu.h"

enum { STATE_ZEROS = -1, STATE_CONTINUED = -2 };

typedef struct state_rows {
    const int32_t *from, *to;
    int64_t slots;
} state_rows;

static inline state_rows state_rows_of(const zt_cpu_call *call, int k, int64_t slots)
{
    return (state_rows){.from = call->in[k].data, .to = call->in[k + 1].data, .slots = slots};
}

/* Slot, STATE_ZEROS or STATE_CONTINUED of row r; STATE_ZEROS and an error: out of range. */
static inline int64_t state_row_from(const state_rows *rows, zt_cpu_call *call, int64_t r)
{
    int64_t slot = rows->from[r];
    if (slot < rows->slots && slot >= (r ? STATE_CONTINUED : STATE_ZEROS)) return slot;
    zt_cpu_runtime_error(call, "state slot", slot, rows->slots);
    return STATE_ZEROS;
}

/* Slot of row r, or -1: none, or out of range with an error. */
static inline int64_t state_row_to(const state_rows *rows, zt_cpu_call *call, int64_t r)
{
    int64_t slot = rows->to[r];
    if (slot < rows->slots && slot >= -1) return slot;
    zt_cpu_runtime_error(call, "state slot", slot, rows->slots);
    return -1;
}

#endif
