/* slots.h - private to isa/: which row of a cache holds position p of row t's sequence.
 *
 * table[seq[t], p / block] * block + p % block with block = ctx / B; without a table p itself, and
 * only sequence 0. Inputs k.. of a call are pos, seq and table, i32.
 */
#ifndef ZT_CPU_SLOTS_H
#define ZT_CPU_SLOTS_H

#include "lib/engine/cpu/cpu.h"

typedef struct slots {
    const int32_t *pos, *seq, *table; /* seq and table: NULL where absent */
    int64_t ctx, S, B, block;
} slots;

static inline slots slots_of(const zt_cpu_call *call, int k, int64_t ctx)
{
    slots slots_table = {.pos = call->in[k].data, .seq = call->in[k + 1].data, .table = call->in[k + 2].data};
    slots_table.ctx = slots_table.block = ctx;
    slots_table.S = slots_table.B = 1;
    if (!slots_table.table) return slots_table;
    slots_table.S = call->in[k + 2].type.dim[0];
    slots_table.B = call->in[k + 2].type.dim[1];
    slots_table.block = ctx / slots_table.B;
    return slots_table;
}

static inline int64_t slots_seq(const slots *s, int64_t t) { return s->seq ? s->seq[t] : 0; }

/* Are position p and sequence of row t in range? */
static inline bool slots_row_good(const slots *s, zt_cpu_call *call, int64_t t, int64_t p)
{
    int64_t seq = slots_seq(s, t);
    bool good = p >= 0 && p < s->ctx;
    if (!good)
        zt_cpu_runtime_error(call, "position", p, s->ctx);
    else if (seq < 0 || seq >= s->S) {
        zt_cpu_runtime_error(call, "sequence", seq, s->S);
        good = false;
    }
    return good;
}

/* The cache row where the b-th block of a good sequence begins, or -1 and trouble. */
static inline int64_t slots_block(const slots *s, zt_cpu_call *call, int64_t seq, int64_t b)
{
    if (!s->table) return 0;
    int64_t block = s->table[seq * s->B + b];
    if (block >= 0 && block < s->B) return block * s->block;
    zt_cpu_runtime_error(call, "block", block, s->B);
    return -1;
}

/* The slot of row t's own position, or -1 and trouble. */
static inline int64_t slots_own(const slots *s, zt_cpu_call *call, int64_t t)
{
    int64_t p = s->pos[t];
    if (!slots_row_good(s, call, t, p)) return -1;
    int64_t first = slots_block(s, call, slots_seq(s, t), p / s->block);
    return first < 0 ? -1 : first + p % s->block;
}

#endif
