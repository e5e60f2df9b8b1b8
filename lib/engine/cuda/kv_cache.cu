/* kv_cache.cu - rows into the cache, alone and after rotation. A block a row. */
#include "lib/engine/cuda/kv_cache.cuh"

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
    rope_kv_write(a, block(), turn);
}
