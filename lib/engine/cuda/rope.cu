/* rope.cu - rotary positions, and rows into the cache. A block a row. */
#include "lib/engine/cuda/rope_kv_write.cuh"

/* ---- turns ----------------------------------------------------------------------------------- */

/* Into the block's table: sine and cosine of each pair at this position, `amplitude` times. */
FN void turns_of(const zt_cu_rope_args &a, int64_t row, float (*turn)[2])
{
    double pos = PTR(const int32_t, a.pos)[row];
    for (int i = thread(); i < a.dims / 2; i += threads()) {
        double quarters = pos * a.turns[i];
        if (a.tab) quarters /= (double)PTR(const float, a.tab)[i];
        turn_of(quarters, &turn[i][0], &turn[i][1]);
        turn[i][0] *= a.amplitude;
        turn[i][1] *= a.amplitude;
    }
}

/* A thread a pair, or a column that does not turn: head - dims / 2 of them a head. */
template <class T> FN void rope_row(const zt_cu_rope_args &a, float (*turn)[2])
{
    int64_t row = block(), half = a.dims / 2, each = a.head - half;
    const T *x = PTR(const T, a.x) + row * a.cols;
    T *y = PTR(T, a.y) + row * a.cols;
    turns_of(a, row, turn);
    barrier();
    for (int64_t k = thread(); k < a.cols / a.head * each; k += threads()) {
        int64_t h = k / each * a.head, i = k % each;
        if (i >= half) {
            y[h + i + half] = x[h + i + half];
            continue;
        }
        int64_t p = h + (a.neighbours ? 2 * i : i), q = a.neighbours ? p + 1 : p + half;
        float s = turn[i][0], c = turn[i][1], first = get(x[p]), second = get(x[q]);
        y[p] = put<T>(first * c - second * s);
        y[q] = put<T>(first * s + second * c);
    }
}

#define ROPE(name, number)                                                                         \
    KERNEL_OF(name, zt_cu_rope_args, 256)                                                          \
    {                                                                                              \
        SHARED(float, turn, [ZT_CU_PAIRS][2]);                                                     \
        rope_row<number>(a, turn);                                                                 \
    }
ROPE(zt_rope_f32, float)
ROPE(zt_rope_f16, f16)
ROPE(zt_rope_bf16, bf16)

/* ---- the cache ------------------------------------------------------------------------------- */

template <class T> FN void put_row(const zt_cu_put_args &a)
{
    int64_t row = block(), pos = PTR(const int32_t, a.slots.pos)[row];
    int64_t slot = slot_of(a.slots, row, pos, thread() == 0 && block_y() == 0 ? a.trouble : 0, row);
    const float *x = PTR(const float, a.x) + row * a.W;
    T *cache = PTR(T, a.cache) + slot * a.W;
    for (int64_t i = (int64_t)block_y() * threads() + thread(); slot >= 0 && i < a.W;
         i += (int64_t)blocks_y() * threads())
        cache[i] = put<T>(x[i]);
}

KERNEL(zt_put_f32, zt_cu_put_args) { put_row<float>(a); }
KERNEL(zt_put_f16, zt_cu_put_args) { put_row<f16>(a); }

/* ---- both ------------------------------------------------------------------------------------ */

KERNEL_OF(zt_rope_kv_write, zt_cu_rope_kv_write_args, 256)
{
    SHARED(float, turn, [ZT_CU_PAIRS][2]);
    seat(a, block(), turn);
}
