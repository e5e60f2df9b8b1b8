/* topk.c - the first entries of a line in order. */
#include "lib/engine/vulkan/lines.h"

/* Few entries of a line are selected one after the other; many are ranked, each among all. */
enum { MOST_SELECTED = 64, GROUP = 64 };

static int64_t count_of(const zt_topk_attrs *attrs, const zt_vk_lines *all) { return attrs->k ? attrs->k : all->count; }

static bool topk_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_topk_attrs *topk = attrs;
    zt_dtype dtype = input_types[0]->dtype;
    (void)engine, (void)out;
    if (!input_types[0]->rank || !(dtype <= ZT_BF16 || (dtype >= ZT_I64 && dtype <= ZT_U8))) return false;
    zt_vk_lines all = zt_vk_lines_of(input_types[0], topk->axis);
    int64_t selected = count_of(topk, &all);
    return selected > MOST_SELECTED ? all.count < ZT_VK_TURNS : (selected + 1) * (all.count / GROUP + 8) < ZT_VK_TURNS;
}

static zt_status set_topk(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_topk_attrs *attrs = call->attrs;
    zt_vk_lines all = zt_vk_lines_of(call->in[0], attrs->axis);
    bool ranked = count_of(attrs, &all) > MOST_SELECTED;
    call->shader = ZT_VK_SHADER_topk;
    call->spec[0] = ranked;
    call->word[3] = call->in[0]->dtype;
    call->word[4] = attrs->largest != 0;
    call->word[5] = (uint32_t)count_of(attrs, &all);
    zt_vk_put_lines(engine, call, &all, false);
    if (ranked) zt_vk_spread(engine, call, all.lines * all.count, GROUP);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_topk[] = {
    {.op = ZT_OP_topk, .has = topk_has, .set = set_topk, .contract = zt_vk_always},
    {0},
};
