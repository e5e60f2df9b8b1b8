/* triangular.c - tril and triu. */
#include "lib/engine/vulkan/vk.h"

static zt_status set_triangle(zt_vk_engine *engine, zt_vk_call *call, bool lower, int64_t diagonal)
{
    const zt_type *x = call->in[0];
    const int64_t far = INT32_MAX;
    call->shader = ZT_VK_SHADER_triangular;
    call->spec[0] = zt_vk_bytes(x->dtype);
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)zt_type_count(x);
    call->word[1] = (uint32_t)x->dim[x->rank - 2];
    call->word[2] = (uint32_t)x->dim[x->rank - 1];
    call->word[3] = (uint32_t)(diagonal > far ? far : diagonal < -far ? -far : diagonal);
    call->word[4] = lower;
    zt_vk_spread(engine, call, zt_type_count(x), 64);
    return ZT_OK;
}

static zt_status set_tril(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_triangle(engine, call, true, ((const zt_tril_attrs *)call->attrs)->diagonal);
}

static zt_status set_triu(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_triangle(engine, call, false, ((const zt_triu_attrs *)call->attrs)->diagonal);
}

const zt_vk_kernel zt_vk_triangular[] = {
    {.op = ZT_OP_tril, .has = zt_vk_moves, .set = set_tril},
    {.op = ZT_OP_triu, .has = zt_vk_moves, .set = set_triu},
    {.set = NULL},
};
