/* tensormap.h - what the emulated driver keeps in a tensor map: three dimensions of 16-bit numbers,
 * in boxes whose rows have 128 bytes, their chunks mixed up. */
#ifndef ZT_EMU_TENSORMAP_H
#define ZT_EMU_TENSORMAP_H

#include "lib/engine/cuda/args_wgmma.h"

struct emu_tensor {
    uint64_t mark;
    uintptr_t at;
    int64_t size[3], step[2]; /* numbers; bytes of a row, of a matrix */
    uint32_t box[2];
};
enum : uint64_t { EMU_TENSOR = 0x746172656e736f72 };
static_assert(sizeof(emu_tensor) <= sizeof(zt_cu_tensor_map), "room for it");

/* Else the launch fails. */
const emu_tensor *emu_tensor_of(const zt_cu_tensor_map *map);

#endif
