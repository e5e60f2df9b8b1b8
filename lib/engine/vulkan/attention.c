/* attention.c - attention over a cache: alone, with sinks, with linear biases, in chunks of positions. */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/alibi.h"
#include "lib/tensor/block_row.h"

#include <math.h>
#include <string.h>

enum { MAX_HEAD = 1024, TILE = 64 };
enum { PLAIN, WITH_SINKS, ALIBI, CHUNKED }; /* KIND of shaders/attention.comp */
enum { SINKS = 3, QUERY_AT = 6 };           /* inputs: of sinks, pos in their place without them; of linear biases */

/* Turns of loops of an invocation, for the last position of a cache. */
static int64_t turns_of(const zt_vk_engine *engine, const zt_attention_attrs *attrs, int64_t ctx)
{
    const int64_t width = zt_vk_width(engine), keys = TILE / width, columns = (attrs->head + width - 1) / width;
    const int64_t seen = attrs->window && attrs->window < ctx ? attrs->window : ctx;
    return (seen / TILE + 2) * (keys * (attrs->head / 4 + 4) + TILE + columns * (TILE / 4 + 8));
}

static bool attention_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_attention_attrs *attention = attrs;
    (void)out;
    if (zt_is_block_cache(input_types[1]->dtype) || !zt_type_equal(input_types[1], input_types[2])) return false;
    return attention->head <= MAX_HEAD && input_types[0]->dim[0] <= engine->groups[1] &&
           zt_vk_has_turns(engine, turns_of(engine, attention, input_types[1]->dim[0]));
}

static uint32_t float_word(float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

/* The slopes of linear biases, the step's table. */
static zt_status put_slopes(zt_vk_engine *engine, zt_vk_call *call, double bias, int64_t heads)
{
    call->table_words = (size_t)heads;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    for (int64_t head = 0; call->table && head < heads; head++)
        call->table[head] = float_word((float)zt_alibi_slope(bias, heads, head));
    return call->table || !heads ? ZT_OK : ZT_ENOMEM;
}

static zt_status set_kind(zt_vk_engine *engine, zt_vk_call *call, uint32_t kind)
{
    const zt_attention_attrs *attrs = call->attrs;
    const int64_t D = attrs->head, H = call->in[0]->dim[1] / D, W = call->in[1]->dim[1];
    const int pos = kind == WITH_SINKS ? SINKS + 1 : SINKS;
    const uint32_t width = zt_vk_width(engine);
    zt_status status =
        kind != ALIBI || !H ? ZT_OK : put_slopes(engine, call, ((const zt_attention_alibi_attrs *)call->attrs)->bias, H);
    if (status) return status;
    call->shader = ZT_VK_SHADER_attention;
    call->spec[0] = call->in[1]->dtype == ZT_F16;
    call->spec[1] = 1; /* columns of a head that an invocation has: powers of two, so that pipelines are few */
    while (call->spec[1] * width < (uint32_t)D) call->spec[1] *= 2;
    call->spec[2] = width;
    call->spec[3] = kind;
    call->word[4] = (uint32_t)D;
    call->word[5] = (uint32_t)H;
    call->word[6] = (uint32_t)W;
    call->word[7] = W ? (uint32_t)(H / (W / D)) : 1;
    call->word[8] = (uint32_t)(attrs->window < INT32_MAX ? attrs->window : kind == CHUNKED ? INT32_MAX : 0);
    call->word[9] = float_word((float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)D)));
    call->word[10] = float_word((float)attrs->softcap);
    zt_vk_set_slots(call, 11, call->in[1], call->in[pos + 2]);
    call->groups[0] = (uint32_t)H;
    call->groups[1] = (uint32_t)call->in[0]->dim[0];
    call->groups[2] = 1;
    const zt_vk_arg more = kind == WITH_SINKS ? zt_vk_in(SINKS) : kind == ALIBI ? zt_vk_in(QUERY_AT) : zt_vk_none();
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(2), zt_vk_in(pos), zt_vk_in(pos + 1), zt_vk_in(pos + 2), zt_vk_out(0),
               more, kind == ALIBI ? zt_vk_table(0) : zt_vk_none());
    return ZT_OK;
}

static zt_status set_attention(zt_vk_engine *engine, zt_vk_call *call) { return set_kind(engine, call, PLAIN); }
static zt_status set_sinks(zt_vk_engine *engine, zt_vk_call *call) { return set_kind(engine, call, WITH_SINKS); }
static zt_status set_alibi(zt_vk_engine *engine, zt_vk_call *call) { return set_kind(engine, call, ALIBI); }
static zt_status set_chunked(zt_vk_engine *engine, zt_vk_call *call) { return set_kind(engine, call, CHUNKED); }

const zt_vk_kernel zt_vk_attention[] = {
    {.op = ZT_OP_attention, .has = attention_has, .set = set_attention, .contract = zt_vk_always},
    {.op = ZT_OP_attention_sinks, .has = attention_has, .set = set_sinks, .contract = zt_vk_always},
    {.op = ZT_OP_attention_alibi, .has = attention_has, .set = set_alibi, .contract = zt_vk_always},
    {.op = ZT_OP_attention_chunked, .has = attention_has, .set = set_chunked, .contract = zt_vk_always},
    {0},
};
