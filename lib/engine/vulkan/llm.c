/* llm.c - kernels of language models: products with packed weights, embeddings, rotary positions,
 * the cache and attention over it. */
#include "lib/engine/vulkan/tile.h"
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/rope.h"

#include <math.h>
#include <string.h>

/* ---- linear ---------------------------------------------------------------------------------- */

static bool linear_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && zt_vk_pack_of(input_types[1]->dtype) &&
           input_types[0]->dim[0] <= engine->groups[1] && input_types[1]->dim[0] / 32 < engine->groups[0];
}

/* Rows of 8-bit codes that a row of x becomes, as `act` allows against blocks of codes: 1, or with
 * what the first leave 2; 0: x stays as it is. */
static uint32_t codes_a_row(const zt_vk_engine *engine, const zt_vk_call *call)
{
    const char *act = ((const zt_linear_attrs *)call->attrs)->act.s;
    bool blocks = zt_dtype_get(call->in[1]->dtype)->kind == 'Q';
    if (!engine->dots || engine->lanes < 8 || !blocks || !strcmp(act, "f32")) return 0;
    return strcmp(act, "q16") ? 1 : 2;
}

static void linear_codes(const zt_vk_engine *engine, zt_vk_call *call)
{
    int64_t tokens = call->in[0]->dim[0], K = call->in[0]->dim[1], blocks = tokens * K / 32;
    uint32_t each = codes_a_row(engine, call);
    if (!each) return;
    call->shader = ZT_VK_SHADER_codes;
    call->spec[0] = each;
    call->word[0] = (uint32_t)blocks;
    call->word[1] = (uint32_t)(K / 32);
    call->scratch_bytes = (size_t)blocks * each * 40 + 64;
    zt_vk_spread(engine, call, blocks, 64);
}

/* Rows of x that an invocation takes: a weight is unpacked once for all of them. */
static uint32_t rows_each(int64_t n) { return n >= 8 ? 8 : n >= 4 ? 4 : 1; }

static zt_status set_linear(zt_vk_engine *engine, zt_vk_call *call)
{
    int64_t tokens = call->in[0]->dim[0], K = call->in[0]->dim[1], M = call->in[1]->dim[0];
    uint32_t codes = codes_a_row(engine, call);
    const char *act = ((const zt_linear_attrs *)call->attrs)->act.s;
    bool brain = call->in[1]->dtype == ZT_BF16 && strcmp(act, "f32");
    call->shader = codes ? ZT_VK_SHADER_linear8 : ZT_VK_SHADER_linear;
    call->spec[0] = (uint32_t)call->packed;
    call->spec[1] = rows_each(tokens);
    call->spec[2] = codes ? codes : brain;
    call->spec[3] = call->plain;
    call->word[0] = (uint32_t)tokens;
    call->word[1] = (uint32_t)K;
    call->word[2] = (uint32_t)M;
    call->word[3] = call->in[2] ? zt_vk_floats(call->in[2]->dtype) : 0;
    call->groups[0] = (uint32_t)((M + 31) / 32);
    call->groups[1] = (uint32_t)((tokens + call->spec[1] - 1) / call->spec[1]);
    call->groups[2] = 1;
    return ZT_OK;
}

/* ---- gather ---------------------------------------------------------------------------------- */

static bool gather_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type out[])
{
    (void)attrs;
    return out[0].dtype == ZT_F32 && zt_vk_pack_of(input_types[0]->dtype) &&
           zt_type_count(input_types[1]) <= engine->groups[1];
}

static zt_status set_gather(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gather_attrs *attrs = call->attrs;
    (void)engine;
    call->shader = ZT_VK_SHADER_gather;
    call->spec[0] = (uint32_t)call->packed;
    call->spec[3] = call->plain;
    call->word[0] = (uint32_t)zt_type_count(call->in[1]);
    call->word[1] = (uint32_t)call->in[0]->dim[1];
    call->word[2] = (uint32_t)call->in[0]->dim[0];
    call->word[3] = !strcmp(attrs->oob.s, "error");
    call->groups[0] = (call->word[1] + 32 * 32 - 1) / (32 * 32);
    call->groups[1] = call->word[0];
    call->groups[2] = 1;
    return ZT_OK;
}

/* ---- rope ------------------------------------------------------------------------------------ */

/* Quarter turns a position of pair i. */
static double quarters_of(const zt_rope_attrs *attrs, int64_t i, int64_t dims)
{
    return zt_rope_scale(attrs, i) * pow(attrs->theta, -2 * (double)i / (double)dims) / M_PI_2;
}

static int64_t rope_head(const zt_rope_attrs *attrs, const zt_type *rows)
{
    return attrs->head ? attrs->head : attrs->dims ? attrs->dims : rows->dim[rows->rank - 1];
}

/* Whole turns a position may be left out, but not before a division: with divisors, which are known
 * only when it runs, frequencies must be below one. */
static bool rope_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type out[])
{
    const zt_rope_attrs *rope = attrs;
    int64_t dims = rope->dims ? rope->dims : rope_head(rope, input_types[0]);
    (void)out;
    for (int64_t i = 0; input_types[2] && i < dims / 2; i++) {
        double quarters = quarters_of(rope, i, dims);
        if (!(quarters >= 0 && quarters < 4)) return false;
    }
    return zt_vk_is_float(input_types[0]->dtype) && input_types[0]->dim[0] <= engine->groups[1];
}

static zt_status set_rope(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rope_attrs *attrs = call->attrs;
    const zt_type *rotated = call->in[0];
    int64_t rows = rotated->dim[0], cols = rows ? zt_type_count(rotated) / rows : 0;
    int64_t head = rope_head(attrs, rotated), dims = attrs->dims ? attrs->dims : head;
    float amplitude = (float)attrs->amplitude;
    call->shader = ZT_VK_SHADER_rope;
    call->word[0] = (uint32_t)cols;
    call->word[1] = (uint32_t)head;
    call->word[2] = (uint32_t)dims;
    call->word[3] = !strcmp(attrs->pair.s, "neighbours");
    memcpy(&call->word[4], &amplitude, sizeof amplitude);
    call->groups[0] = (uint32_t)((cols + 63) / 64);
    call->groups[1] = (uint32_t)rows;
    call->groups[2] = 1;
    call->table_words = (size_t)dims;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int64_t i = 0; i < dims / 2; i++) {
        double quarters = quarters_of(attrs, i, dims);
        quarters -= 4 * floor(quarters / 4); /* a position is whole: whole turns do not count */
        uint64_t fixed = (uint64_t)ldexp(quarters, 62);
        call->table[2 * i] = (uint32_t)fixed;
        call->table[2 * i + 1] = (uint32_t)(fixed >> 32);
    }
    return ZT_OK;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* ctx, S, B, block from word `at` on (lib/ops/row.h: zt_slots_make). */
static void set_slots(zt_vk_call *call, int word, const zt_type *cache, const zt_type *table)
{
    int64_t ctx = cache->dim[0], S = table ? table->dim[0] : 1, B = table ? table->dim[1] : 1;
    call->word[word] = (uint32_t)ctx;
    call->word[word + 1] = (uint32_t)S;
    call->word[word + 2] = (uint32_t)B;
    call->word[word + 3] = (uint32_t)(B ? ctx / B : 0);
}

static bool kv_put_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return input_types[1]->dim[0] <= engine->groups[1];
}

static zt_status set_kv_put(zt_vk_engine *engine, zt_vk_call *call)
{
    (void)engine;
    call->shader = ZT_VK_SHADER_kv_put;
    call->spec[0] = call->in[0]->dtype == ZT_F16;
    call->word[0] = (uint32_t)call->in[1]->dim[1];
    set_slots(call, 1, call->in[0], call->in[4]);
    call->groups[0] = (call->word[0] + 63) / 64;
    call->groups[1] = (uint32_t)call->in[1]->dim[0];
    call->groups[2] = 1;
    return ZT_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { MOST_HEAD = 512 }; /* MOST_D of shaders/attention.comp */

static bool attention_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[],
                          const zt_type out[])
{
    const zt_attention_attrs *attention = attrs;
    (void)out;
    return attention->head <= MOST_HEAD && input_types[0]->dim[0] <= engine->groups[1] && input_types[0]->dtype == ZT_F32;
}

static zt_status set_attention(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_attention_attrs *attrs = call->attrs;
    int64_t D = attrs->head, H = call->in[0]->dim[1] / D, W = call->in[1]->dim[1];
    float scale = (float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)D)), cap = (float)attrs->softcap;
    int64_t window = attrs->window < INT32_MAX ? attrs->window : 0;
    call->shader = ZT_VK_SHADER_attention;
    call->spec[0] = call->in[1]->dtype == ZT_F16;
    call->spec[1] = (uint32_t)zt_vk_tile(engine->shared_bytes, D);
    call->spec[2] = zt_vk_width(engine);
    call->word[0] = (uint32_t)D;
    call->word[1] = (uint32_t)H;
    call->word[2] = (uint32_t)W;
    call->word[3] = (uint32_t)(H / (W / D));
    call->word[4] = (uint32_t)window;
    memcpy(&call->word[5], &scale, sizeof scale);
    memcpy(&call->word[6], &cap, sizeof cap);
    set_slots(call, 7, call->in[1], call->in[5]);
    call->groups[0] = (uint32_t)H;
    call->groups[1] = (uint32_t)call->in[0]->dim[0];
    call->groups[2] = 1;
    return ZT_OK;
}

const zt_vk_kernel zt_vk_llm[] = {
    {ZT_OP_linear, linear_has, set_linear, 2, linear_codes, false},
    {ZT_OP_gather, gather_has, set_gather, 1, NULL, false},
    {ZT_OP_rope, rope_has, set_rope, 0, NULL, false},
    {ZT_OP_kv_put, kv_put_has, set_kv_put, 0, NULL, false},
    {ZT_OP_attention, attention_has, set_attention, 0, NULL, false},
    {0},
};
