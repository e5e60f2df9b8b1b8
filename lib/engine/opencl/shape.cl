/* shape.cl - elements in other places: they are moved as bits of 1, 2, 4, 8 or 16 bytes. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_shape.h"

/* ---- in steps ---------------------------------------------------------------------------------- */

#define MOVE(name, type)                                                                                                         \
    KERNEL(name, zt_cu_move_args)                                                                                                \
    {                                                                                                                            \
        EACH_OF(i, a.n)                                                                                                          \
        {                                                                                                                        \
            const int64_t at = a.base + offset_at(a.n_dims, a.dim, a.step, i);                                                   \
            PTR(type, a.y)[a.put ? at : i] = PTR(const type, a.x)[a.put ? i : at];                                               \
        }                                                                                                                        \
    }
MOVE(zt_cu_move_1, uint8_t)
MOVE(zt_cu_move_2, uint16_t)
MOVE(zt_cu_move_4, uint32_t)
MOVE(zt_cu_move_8, uint64_t)
MOVE(zt_cu_move_16, ulong2)

/* ---- rows for columns -------------------------------------------------------------------------- */

enum { TILE = 32, TILE_ROWS = 8 }; /* a work-group has TILE * TILE_ROWS work-items */

/* A tile at a time goes through local memory, so that both sides are read and written in a row. */
#define TRANSPOSE(name, type)                                                                                                    \
    KERNEL(name, zt_cu_transpose_args)                                                                                           \
    {                                                                                                                            \
        __local type tile[TILE][TILE + 1];                                                                                       \
        const int64_t across = (a.columns + TILE - 1) / TILE, r0 = block() / across * TILE, c0 = block() % across * TILE;        \
        const int fast = thread() % TILE, slow = thread() / TILE;                                                                \
        for (int64_t b = block_y(); b < a.batches; b += blocks_y()) {                                                            \
            __global const type *x = PTR(const type, a.x) + offset_at(a.n_dims, a.dim, a.x_at, b);                               \
            __global type *y = PTR(type, a.y) + offset_at(a.n_dims, a.dim, a.y_at, b);                                           \
            for (int k = slow; k < TILE; k += TILE_ROWS)                                                                         \
                if (r0 + fast < a.rows && c0 + k < a.columns) tile[k][fast] = x[r0 + fast + (c0 + k) * a.x_step];                \
            meet();                                                                                                              \
            for (int k = slow; k < TILE; k += TILE_ROWS)                                                                         \
                if (r0 + k < a.rows && c0 + fast < a.columns) y[(r0 + k) * a.y_step + c0 + fast] = tile[fast][k];                \
            meet();                                                                                                              \
        }                                                                                                                        \
    }
TRANSPOSE(zt_cu_transpose_1, uint8_t)
TRANSPOSE(zt_cu_transpose_2, uint16_t)
TRANSPOSE(zt_cu_transpose_4, uint32_t)
TRANSPOSE(zt_cu_transpose_8, uint64_t)

/* ---- one triangle of matrices ------------------------------------------------------------------ */

#define TRIANGLE(name, type)                                                                                                     \
    KERNEL(name, zt_cu_triangle_args)                                                                                            \
    {                                                                                                                            \
        EACH_OF(i, a.n)                                                                                                          \
        {                                                                                                                        \
            const int64_t past = i % a.columns - i / a.columns % a.rows;                                                         \
            const bool stays = a.sign > 0 ? past <= a.diagonal : past >= a.diagonal;                                             \
            PTR(type, a.y)[i] = stays ? PTR(const type, a.x)[i] : (type)0;                                                       \
        }                                                                                                                        \
    }
TRIANGLE(zt_cu_triangle_1, uint8_t)
TRIANGLE(zt_cu_triangle_2, uint16_t)
TRIANGLE(zt_cu_triangle_4, uint32_t)
TRIANGLE(zt_cu_triangle_8, uint64_t)
