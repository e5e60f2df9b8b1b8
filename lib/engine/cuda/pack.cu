/* pack.cu - weights of block types from a file's bytes to the form that products read, and back. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/packed.h"

/* A thread a 16-bit part of a block; the rows that fill up the last tile are 0. */
KERNEL(zt_pack, zt_cu_pack_args)
{
    int64_t parts = a.block_bytes / 2, rows = (a.rows + 15) / 16 * 16;
    int64_t at = (int64_t)block() * threads() + thread();
    if (at >= rows * a.units * parts) return;
    int64_t row = at / parts / a.units, unit = at / parts % a.units;
    uint16_t *raw = PTR(uint16_t, a.raw), *packed = PTR(uint16_t, a.packed);
    int64_t to = place_of(&a, row, unit, (int)(at % parts));
    if (a.back) {
        if (row < a.rows) raw[at] = packed[to];
    } else {
        packed[to] = row < a.rows ? raw[at] : (uint16_t)0;
    }
}
