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
        const int64_t at = a.base + walk_to(a.n_dims, a.dim, a.step, i);
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
        const T *x = PTR(const T, a.x) + walk_to(a.n_dims, a.dim, a.x_at, b);
        T *y = PTR(T, a.y) + walk_to(a.n_dims, a.dim, a.y_at, b);
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

/* ---- triangles ------------------------------------------------------------------------------- */

template <class T> FN void triangle(const zt_cu_triangle_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t past = i % a.columns - i / a.columns % a.rows;
        const bool stays = a.sign > 0 ? past <= a.diagonal : past >= a.diagonal;
        PTR(T, a.y)[i] = stays ? PTR(const T, a.x)[i] : T(0);
    }
}

KERNEL_OF(zt_cu_triangle_1, zt_cu_triangle_args, 256) { triangle<uint8_t>(a); }
KERNEL_OF(zt_cu_triangle_2, zt_cu_triangle_args, 256) { triangle<uint16_t>(a); }
KERNEL_OF(zt_cu_triangle_4, zt_cu_triangle_args, 256) { triangle<uint32_t>(a); }
KERNEL_OF(zt_cu_triangle_8, zt_cu_triangle_args, 256) { triangle<uint64_t>(a); }

/* ---- padding --------------------------------------------------------------------------------- */

/* Which entry of n is entry i (below 0 and past the end too); -1: none. As zt_pad_source. */
FN int64_t pad_source(int mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == 'c') return -1;
    if (mode == 'e') return i < 0 ? 0 : n - 1;
    const int64_t period = mode == 'w' ? n : n > 1 ? 2 * (n - 1) : 1;
    i = i % period + (i % period < 0 ? period : 0);
    return i < n ? i : period - i;
}

template <class T> FN void pad(const zt_cu_pad_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = 0; d < a.n_dims && at >= 0; d++) {
            const int64_t k = pad_source(a.mode, rest % a.dim[d] - a.before[d], a.size[d]);
            at = k < 0 ? -1 : at + k * step;
            step *= a.size[d];
            rest /= a.dim[d];
        }
        PTR(T, a.y)[i] = at < 0 ? (T)a.fill : PTR(const T, a.x)[at];
    }
}

KERNEL_OF(zt_cu_pad_1, zt_cu_pad_args, 256) { pad<uint8_t>(a); }
KERNEL_OF(zt_cu_pad_2, zt_cu_pad_args, 256) { pad<uint16_t>(a); }
KERNEL_OF(zt_cu_pad_4, zt_cu_pad_args, 256) { pad<uint32_t>(a); }
KERNEL_OF(zt_cu_pad_8, zt_cu_pad_args, 256) { pad<uint64_t>(a); }

template <class W> FN void pad_back(const zt_cu_pad_back_args &a)
{
    for (int64_t i = first(); i < a.n; i += stride()) {
        const int64_t in = i % a.inner, k = i / a.inner % a.size, out = i / a.inner / a.size;
        W sum = 0;
        for (int64_t p = 0; p < a.padded; p++)
            if (pad_source(a.mode, p - a.before, a.size) == k)
                sum += load_as<W>(a.x_type, a.x, (out * a.padded + p) * a.inner + in);
        store_as(a.y_type, a.y, i, sum);
    }
}

KERNEL_OF(zt_cu_pad_back, zt_cu_pad_back_args, 256)
{
    if (a.x_type == ZT_CU_F64)
        pad_back<double>(a);
    else
        pad_back<float>(a);
}
