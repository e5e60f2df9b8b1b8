/* linear_decode.cu - products with few rows of x: a block a tile of 16 rows of w. */
#include "lib/engine/cuda/linear_decode_plain.cuh"

#define PRODUCT(type)                                                                              \
    KERNEL_OF(zt_few_##type, zt_cu_few_args, 32 * SLICES)                                          \
    {                                                                                              \
        DYNAMIC_SHARED(char, memory);                                                              \
        x_room r = room_of(a, memory);                                                             \
        share s = few_share(a.a, block());                                                         \
        float acc[4] = {0};                                                                        \
        few_codes<false>(a, r, false);                                                             \
        few_slice<packed_##type>(run_of(a, r, s), acc);                                            \
        few_finish(a, r, s, acc, 0);                                                               \
    }
ZT_CU_PACKED_TYPES(PRODUCT)

#define PLAIN(name, rounds, tile)                                                                  \
    KERNEL_OF(zt_few_##name, zt_cu_few_args, 32 * SLICES)                                          \
    {                                                                                              \
        DYNAMIC_SHARED(char, memory);                                                              \
        x_room r = room_of(a, memory);                                                             \
        few_numbers<false>(a, r, rounds, false);                                                   \
        tile(a, r, few_share(a.a, block()), 0);                                                    \
    }
PLAIN(f32, false, few_plain_tile<float>)
PLAIN(f16, false, few_plain_tile<f16>)
PLAIN(bf16, false, few_plain_tile<bf16>)
PLAIN(half, true, few_half_tile)

/* Three blocks a processor: left alone, nvcc keeps to the registers of four, and spills. */
KERNEL_EACH(zt_few_pair, zt_cu_few_args, 32 * SLICES, 3)
{
    DYNAMIC_SHARED(char, memory);
    x_room r = room_of(a, memory);
    few_pairs<false>(a, r, false);
    few_pair_tile(a, r, few_share(a.a, block()), 0);
}
