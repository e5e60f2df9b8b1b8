/* linear_decode.cu - products with few rows of x: a block a tile of 16 rows of w. */
#include "lib/engine/cuda/linear_decode_plain.cuh"

#define PRODUCT(type)                                                                              \
    KERNEL_OF(zt_decode_##type, zt_cu_decode_args, 32 * SLICES)                                          \
    {                                                                                              \
        DYNAMIC_SHARED(char, memory);                                                              \
        x_room r = room_of(a, memory);                                                             \
        share s = decode_share(a.a, block());                                                         \
        float acc[4] = {0};                                                                        \
        decode_codes<false>(a, r, false);                                                             \
        decode_slice<packed_##type>(run_of(a, r, s), acc);                                            \
        decode_finish(a, r, s, acc, 0);                                                               \
    }
ZT_CU_PACKED_TYPES(PRODUCT)

#define PLAIN(name, rounds, tile)                                                                  \
    KERNEL_OF(zt_decode_##name, zt_cu_decode_args, 32 * SLICES)                                          \
    {                                                                                              \
        DYNAMIC_SHARED(char, memory);                                                              \
        x_room r = room_of(a, memory);                                                             \
        decode_numbers<false>(a, r, rounds, false);                                                   \
        tile(a, r, decode_share(a.a, block()), 0);                                                    \
    }
PLAIN(f32, false, decode_plain_tile<float>)
PLAIN(f16, false, decode_plain_tile<f16>)
PLAIN(bf16, false, decode_plain_tile<bf16>)
PLAIN(half, true, decode_half_tile)

/* Three blocks a processor: left alone, nvcc keeps to the registers of four, and spills. */
KERNEL_EACH(zt_decode_pair, zt_cu_decode_args, 32 * SLICES, 3)
{
    DYNAMIC_SHARED(char, memory);
    x_room r = room_of(a, memory);
    decode_pairs<false>(a, r, false);
    decode_pair_tile(a, r, decode_share(a.a, block()), 0);
}
