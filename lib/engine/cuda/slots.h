/* slots.h - which row of a cache holds a position of a sequence: zt_slots_find of lib/ops/row.h. */
#ifndef ZT_CU_SLOTS_H
#define ZT_CU_SLOTS_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/prim.h"

/* The slot of position p of row t's sequence, or -1, and trouble number `order` where there is one.
 */
FN int64_t slot_of(const zt_cu_slots &s, int64_t t, int64_t p, zt_cu_ptr at, int64_t order)
{
    int64_t seq = s.seq ? PTR(const int32_t, s.seq)[t] : 0, block = 0;
    uint32_t kind = 0;
    int64_t value = 0, limit = 0;
    if (p < 0 || p >= s.ctx) {
        kind = ZT_CU_POSITION, value = p, limit = s.ctx;
    } else if (seq < 0 || seq >= s.S) {
        kind = ZT_CU_SEQUENCE, value = seq, limit = s.S;
    } else if (s.table) {
        block = PTR(const int32_t, s.table)[seq * s.B + p / s.block];
        if (block < 0 || block >= s.B) kind = ZT_CU_BLOCK, value = block, limit = s.B;
    }
    if (kind) {
        if (at) trouble(PTR(zt_cu_runtime_error, at), kind, order, value, limit);
        return -1;
    }
    return s.table ? block * s.block + p % s.block : p;
}

#endif
