/* tensormap.cpp - the emulated driver's cuTensorMapEncodeTiled, which refuses what the real one
 * does, and what zt does not use. */
#include "tensormap.h"
#include "emu.h"

#include <string.h>

#define API extern "C" __attribute__((visibility("default"))) int

enum { OF_16_BITS = 1, SWIZZLE_128 = 3 };

static bool in(uint64_t n, uint64_t low, uint64_t high) { return n >= low && n <= high; }

API cuTensorMapEncodeTiled(zt_cu_tensor_map *map, int type, uint32_t rank, void *at,
                           const uint64_t *size, const uint64_t *step, const uint32_t *box,
                           const uint32_t *every, int interleave, int swizzle, int, int fill)
{
    const auto address = reinterpret_cast<uintptr_t>(at);
    if (!map || reinterpret_cast<uintptr_t>(map) % 64 || type != OF_16_BITS || rank != 3 ||
        address % 16 || interleave || swizzle != SWIZZLE_128 || fill)
        return EMU_INVALID_VALUE;
    for (int d = 0; d < 3; d++)
        if (!in(size[d], 1, (uint64_t)1 << 32) || !in(box[d], 1, 256) || every[d] != 1)
            return EMU_INVALID_VALUE;
    for (int d = 0; d < 2; d++)
        if (step[d] % 16 || step[d] >= (uint64_t)1 << 40) return EMU_INVALID_VALUE;
    if (box[0] != 64 || box[2] != 1) return EMU_NOT_SUPPORTED; /* the real one takes less, too */
    const emu_tensor t = {EMU_TENSOR,
                          address,
                          {(int64_t)size[0], (int64_t)size[1], (int64_t)size[2]},
                          {(int64_t)step[0], (int64_t)step[1]},
                          {box[0], box[1]}};
    memset(map, 0, sizeof *map);
    memcpy(map, &t, sizeof t);
    return EMU_OK;
}

const emu_tensor *emu_tensor_of(const zt_cu_tensor_map *map)
{
    const auto *t = reinterpret_cast<const emu_tensor *>(map);
    if (t->mark != EMU_TENSOR) emu_fail(EMU_ILLEGAL_ADDRESS, "no tensor map is there");
    return t;
}
