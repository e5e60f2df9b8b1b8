/* shape.cu - elements in other places. They are moved as bits of 1, 2, 4, 8 or 16 bytes. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/values.h"

struct alignas(16) bits128 {
    uint64_t v[2];
};

/* ---- in steps -------------------------------------------------------------------------------- */

template <class T> FN void move(const zt_cu_move_args &a)
{
    const T *x = PTR(const T, a.x);
    T *y = PTR(T, a.y);
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t at = a.base + offset_at(a.n_dims, a.dim, a.step, i);
        if (a.put)
            y[at] = x[i];
        else
            y[i] = x[at];
    }
}

KERNEL_OF(zt_cu_move_1, zt_cu_move_args, 256) { move<uint8_t>(a); }
KERNEL_OF(zt_cu_move_2, zt_cu_move_args, 256) { move<uint16_t>(a); }
KERNEL_OF(zt_cu_move_4, zt_cu_move_args, 256) { move<uint32_t>(a); }
KERNEL_OF(zt_cu_move_8, zt_cu_move_args, 256) { move<uint64_t>(a); }
KERNEL_OF(zt_cu_move_16, zt_cu_move_args, 256) { move<bits128>(a); }

/* ---- rows for columns ------------------------------------------------------------------------ */

enum { TILE = 32, TILE_ROWS = 8 }; /* a block has TILE * TILE_ROWS threads */

/* A tile a time goes through shared memory, so that both sides are read and written in a row. */
template <class T> FN void turn(const zt_cu_transpose_args &a, T (&tile)[TILE][TILE + 1])
{
    const int64_t across = (a.columns + TILE - 1) / TILE;
    const int64_t r0 = block() / across * TILE, c0 = block() % across * TILE;
    const int fast = thread() % TILE, slow = thread() / TILE;
    for (int64_t b = block_y(); b < a.batches; b += blocks_y()) {
        const T *x = PTR(const T, a.x) + offset_at(a.n_dims, a.dim, a.x_at, b);
        T *y = PTR(T, a.y) + offset_at(a.n_dims, a.dim, a.y_at, b);
        for (int k = slow; k < TILE; k += TILE_ROWS)
            if (r0 + fast < a.rows && c0 + k < a.columns)
                tile[k][fast] = x[r0 + fast + (c0 + k) * a.x_step];
        barrier();
        for (int k = slow; k < TILE; k += TILE_ROWS)
            if (r0 + k < a.rows && c0 + fast < a.columns)
                y[(r0 + k) * a.y_step + c0 + fast] = tile[fast][k];
        barrier();
    }
}

#define TURN(bytes, type)                                                                          \
    KERNEL_OF(zt_cu_transpose_##bytes, zt_cu_transpose_args, 256)                                            \
    {                                                                                              \
        SHARED(type, tile, [TILE][TILE + 1]);                                                      \
        turn<type>(a, tile);                                                                       \
    }
TURN(1, uint8_t)
TURN(2, uint16_t)
TURN(4, uint32_t)
TURN(8, uint64_t)
