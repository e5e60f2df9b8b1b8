/* attention_mma.cu - kernels of causal attention over caches of f16 on the matrix units. */
#include "lib/engine/cuda/attention_decode.cuh"
#include "lib/engine/cuda/attention_prefill.cuh"

#define ATTENTION(D, warps)                                                                        \
    static_assert(sizeof(few_room<D>) <= ZT_CU_FEW_BYTES(D), "as the host knows it");              \
    static_assert(sizeof(many_room<D, warps>) <= ZT_CU_MANY_BYTES(D, warps), "likewise");          \
    KERNEL_OF(zt_attention_few_##D, zt_cu_attention_args, 128)                                     \
    {                                                                                              \
        DYNAMIC_SHARED(few_room<D>, r);                                                            \
        few_rows<D, 4>(a, block(), block_y(), block_z(), r);                                       \
    }                                                                                              \
    KERNEL_OF(zt_attention_many_##D, zt_cu_attention_args, 32 * warps)                             \
    {                                                                                              \
        typedef many_room<D, warps> room;                                                          \
        DYNAMIC_SHARED(room, r);                                                                   \
        many_rows<D, warps>(a, r);                                                                 \
    }
ATTENTION(64, 4)
ATTENTION(128, 4)
ATTENTION(256, 2)
