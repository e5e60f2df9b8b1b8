/* matmul_weight.c - the product by a weight of any type, or by its transpose. */
#include "lib/engine/vulkan/matmul.h"

static bool has_matmul_weight(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                              const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && zt_vk_pack_of(input_types[1]->dtype);
}

static zt_status set_matmul_weight(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_matmul_weight_attrs *attrs = call->attrs;
    const int64_t N = call->out->dim[0], M = call->out->dim[1];
    call->shader = ZT_VK_SHADER_matmul_weight;
    call->spec[0] = (uint32_t)call->packed[1];
    call->spec[3] = call->plain[1];
    call->word[0] = (uint32_t)N;
    call->word[1] = (uint32_t)call->in[0]->dim[1];
    call->word[2] = (uint32_t)M;
    call->word[3] = (uint32_t)call->in[1]->dim[1];
    call->word[4] = attrs->tb != 0;
    zt_vk_set_small_tiles(engine, call, 5, N, M, 1);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_out(0), zt_vk_none(), zt_vk_none(), zt_vk_grid(call, 1));
    return zt_vk_put_grids(engine, call);
}

const zt_vk_kernel zt_vk_matmul_weight[] = {
    {.op = ZT_OP_matmul_weight, .has = has_matmul_weight, .set = set_matmul_weight, .weights = 1u << 1},
    {0},
};
