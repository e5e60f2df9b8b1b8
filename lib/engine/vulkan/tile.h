/* tile.h - rows of keys in a tile of attention, by the device's limits. Numbers only: no Vulkan. */
#ifndef ZT_VK_TILE_H
#define ZT_VK_TILE_H

#include <stdint.h>

/* As many as fill half of the shared memory with head_dim floats of key and of value each, from 8
 * to 64, a multiple of 8. A limit that is not known (0) gives 32; no head_dim counts as 64. */
static inline int zt_vk_tile(uint32_t shared_bytes, int64_t head_dim)
{
    enum { LEAST = 8, MOST = 64, UNKNOWN = 32, USUAL_HEAD = 64 };
    if (shared_bytes == 0) return UNKNOWN;
    if (head_dim <= 0) head_dim = USUAL_HEAD;
    if (head_dim > shared_bytes) return LEAST;
    int64_t rows = shared_bytes / 2 / (head_dim * 2 * 4);
    rows -= rows % 8;
    return (int)(rows < LEAST ? LEAST : rows > MOST ? MOST : rows);
}

#endif
