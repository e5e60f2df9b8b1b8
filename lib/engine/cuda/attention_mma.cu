/* attention_mma.cu - kernels of causal attention over caches of f16 on the matrix units. */
#include "lib/engine/cuda/attention_decode.cuh"
#include "lib/engine/cuda/attention_prefill.cuh"

#define ATTENTION(D, warps)                                                                        \
    static_assert(sizeof(decode_room<D>) <= ZT_CU_DECODE_BYTES(D), "as the host knows it");              \
    static_assert(sizeof(prefill_room<D, warps>) <= ZT_CU_PREFILL_BYTES(D, warps), "likewise");          \
    KERNEL_OF(zt_attention_decode_##D, zt_cu_attention_args, 128)                                     \
    {                                                                                              \
        DYNAMIC_SHARED(decode_room<D>, r);                                                            \
        decode_rows<D, 4>(a, block(), block_y(), block_z(), r);                                       \
    }                                                                                              \
    KERNEL_OF(zt_attention_prefill_##D, zt_cu_attention_args, 32 * warps)                             \
    {                                                                                              \
        typedef prefill_room<D, warps> room;                                                          \
        DYNAMIC_SHARED(room, r);                                                                   \
        prefill_rows<D, warps>(a, r);                                                                 \
    }
ATTENTION(64, 4)
ATTENTION(128, 4)
ATTENTION(256, 2)
