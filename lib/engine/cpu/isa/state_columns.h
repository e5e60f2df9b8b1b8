/* state_columns.h - private to isa/: the item of a recurrence whose state of a head is a matrix [D,E]: 32 of its columns.
 *
 * Columns do not know each other. The D rows of an item are two registers each, which stay in the first-level cache while all
 * rows of a step pass. Sums over D are of four, over d = 0, 4, 8 ..., 1, 5, 9 ... and so on, added in one order (add_sums).
 */
#ifndef ZT_CPU_STATE_COLUMNS_H
#define ZT_CPU_STATE_COLUMNS_H

#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/state_rows.h"

enum { REGISTERS = 2, COLUMNS = REGISTERS * LANES, SUMS = 4 };

typedef struct state_columns {
    int64_t heads, D, E, head, first;
    int count;          /* of COLUMNS */
    float *S;           /* local, [D,32] */
    const float *ahead; /* the state of the next item, [D] rows of E; NULL: not prefetched */
} state_columns;

static inline int64_t state_column_blocks(int64_t E) { return (E + COLUMNS - 1) / COLUMNS; }

/* state: f32[slots,heads,D,E]. */
static inline state_columns state_columns_of(const zt_type *state, int64_t item, float *local)
{
    state_columns of = {.heads = state->dim[1], .D = state->dim[2], .E = state->dim[3], .S = local};
    int64_t blocks = state_column_blocks(of.E);
    of.head = item / blocks;
    of.first = item % blocks * COLUMNS;
    of.count = of.E - of.first < COLUMNS ? (int)(of.E - of.first) : COLUMNS;
    return of;
}

/* Columns of one register that there are: 0 to LANES. */
static inline int lanes_of(const state_columns *of, int i)
{
    int count = of->count - i * LANES;
    return count < 0 ? 0 : count > LANES ? LANES : count;
}

static inline vf load_columns(const state_columns *of, const float *x, int i)
{
    return of->count == COLUMNS ? vf_load(x + i * LANES) : vf_load_n(x + i * LANES, lanes_of(of, i));
}

static inline void store_columns(const state_columns *of, float *x, int i, vf value)
{
    if (of->count == COLUMNS)
        vf_store(x + i * LANES, value);
    else
        vf_store_n(x + i * LANES, lanes_of(of, i), value);
}

/* Where the state of an item in a slot begins: D rows of E. */
static inline int64_t state_at(const state_columns *of, int64_t slot)
{
    return (slot * of->heads + of->head) * of->D * of->E + of->first;
}

/* STATE_CONTINUED: no effect. */
static inline void read_state(const state_columns *of, const float *state, int64_t slot)
{
    if (slot == STATE_ZEROS) memset(of->S, 0, (size_t)(of->D * COLUMNS) * sizeof *of->S);
    if (slot < 0) return;
    const float *head = state + state_at(of, slot);
    for (int64_t d = 0; d < of->D; d++)
        for (int i = 0; i < REGISTERS; i++) vf_store(of->S + d * COLUMNS + i * LANES, load_columns(of, head + d * of->E, i));
}

static inline void write_state(const state_columns *of, float *state, int64_t slot)
{
    if (slot < 0) return;
    float *head = state + state_at(of, slot);
    for (int64_t d = 0; d < of->D; d++)
        for (int i = 0; i < REGISTERS; i++) store_columns(of, head + d * of->E, i, vf_load(of->S + d * COLUMNS + i * LANES));
}

/* The state that an item begins with, where it has one in a slot; NULL: none. Input and output 0 of the call are the states. */
static inline const float *first_state(zt_cpu_call *call, const state_rows *rows, int64_t item)
{
    const state_columns of = state_columns_of(&call->in[0].type, item, NULL);
    const int64_t slot = state_row_from(rows, call, 0);
    return item < call->items[0] && slot >= 0 ? (const float *)call->out[0].data + state_at(&of, slot) : NULL;
}

static inline vf add_sums(const vf sum[SUMS]) { return vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])); }

/* Row d of the next item's state, its i-th register. */
INLINE void prefetch_row(const state_columns *of, int64_t d, int i)
{
    __builtin_prefetch(of->ahead + d * of->E + i * LANES, 0, 2);
}

#endif
