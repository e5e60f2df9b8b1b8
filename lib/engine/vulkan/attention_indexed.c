/* attention_indexed.c - attention to the keys that an indexer chooses: its scores of all positions, the choice, then attention to
 * the slots chosen. */
#include "lib/engine/vulkan/vk.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, INDEX_Q, INDEX_K, INDEX_W, POS, SEQ, TABLE }; /* inputs */

static bool attention_indexed_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                                  const zt_type out[])
{
    const zt_attention_indexed_attrs *indexed = attrs;
    const int64_t n = input_types[Q]->dim[0], ctx = input_types[K]->dim[0], H = input_types[Q]->dim[1] / indexed->head;
    const int64_t topk = indexed->topk < ctx ? indexed->topk : ctx;
    (void)out;
    const int64_t D = indexed->head, E = input_types[INDEX_K]->dim[1], I = input_types[INDEX_W]->dim[1];
    return n <= engine->groups[1] && n * ctx < INT32_MAX && n * H * (topk + 1) < INT32_MAX &&
           zt_vk_has_turns(engine, I * (E + 32)) && zt_vk_has_turns(engine, ctx / 2 * 5 + 64) &&
           zt_vk_has_turns(engine, (topk / 64 + 1) * (D + 40) + topk * (D / 64 + 2) + 64);
}

static uint32_t float_word(float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

static zt_status score_positions(zt_vk_engine *engine, zt_vk_call *call, int64_t topk, zt_vk_arg scores)
{
    const zt_type *keys = call->in[INDEX_K];
    call->shader = ZT_VK_SHADER_attention_indexed_scores;
    call->spec[0] = keys->dtype == ZT_F16;
    call->word[0] = (uint32_t)keys->dim[1];
    call->word[1] = (uint32_t)call->in[INDEX_W]->dim[1];
    call->word[2] = (uint32_t)topk;
    zt_vk_set_slots(call, 3, call->in[K], call->in[TABLE]);
    call->groups[0] = (uint32_t)((keys->dim[0] + 63) / 64);
    call->groups[1] = (uint32_t)call->in[Q]->dim[0];
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(INDEX_Q), zt_vk_in(INDEX_K), zt_vk_in(INDEX_W), zt_vk_in(POS), zt_vk_in(SEQ), zt_vk_in(TABLE),
               scores);
    return zt_vk_then(engine, call);
}

static zt_status choose_positions(zt_vk_engine *engine, zt_vk_call *call, int64_t topk, zt_vk_arg scores, zt_vk_arg choice)
{
    call->shader = ZT_VK_SHADER_attention_indexed_choose;
    call->word[0] = (uint32_t)topk;
    zt_vk_set_slots(call, 1, call->in[K], call->in[TABLE]);
    call->groups[0] = 1;
    call->groups[1] = (uint32_t)call->in[Q]->dim[0];
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(POS), zt_vk_in(SEQ), zt_vk_in(TABLE), scores, choice);
    return zt_vk_then(engine, call);
}

static zt_status set_attention_indexed(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_attention_indexed_attrs *attrs = call->attrs;
    const int64_t n = call->in[Q]->dim[0], D = attrs->head, H = call->in[Q]->dim[1] / D, W = call->in[K]->dim[1];
    const int64_t ctx = call->in[K]->dim[0], topk = attrs->topk < ctx ? attrs->topk : ctx;
    const zt_vk_arg scores = zt_vk_scratch(call, (size_t)(n * ctx) * sizeof(float));
    const zt_vk_arg choice = zt_vk_scratch(call, (size_t)(n * (topk + 1)) * sizeof(int32_t));
    const zt_vk_arg weights = zt_vk_scratch(call, (size_t)(n * H * topk) * sizeof(float));
    zt_status status = score_positions(engine, call, topk, scores);
    if (!status) status = choose_positions(engine, call, topk, scores, choice);
    if (status) return status;
    call->shader = ZT_VK_SHADER_attention_indexed;
    call->spec[0] = call->in[K]->dtype == ZT_F16;
    call->word[0] = (uint32_t)D;
    call->word[1] = (uint32_t)H;
    call->word[2] = (uint32_t)W;
    call->word[3] = W ? (uint32_t)(H / (W / D)) : 1;
    call->word[4] = float_word(attrs->scale != 0 ? (float)attrs->scale : 1 / sqrtf((float)D));
    call->word[5] = float_word((float)attrs->softcap);
    call->word[6] = (uint32_t)topk;
    call->groups[0] = (uint32_t)H;
    call->groups[1] = (uint32_t)n;
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(Q), zt_vk_in(K), zt_vk_in(V), choice, weights, zt_vk_out(0));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_attention_indexed[] = {
    {.op = ZT_OP_attention_indexed, .has = attention_indexed_has, .set = set_attention_indexed},
    {0},
};
