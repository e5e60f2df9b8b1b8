/* llm.c - kernels of language models: products with packed weights, embeddings, rotary positions,
 * the cache and attention over it. */
#include "lib/engine/vulkan/tile.h"
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/rope.h"

#include <math.h>
#include <string.h>

/* ---- linear ---------------------------------------------------------------------------------- */

static bool linear_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_float(in[0]->dtype) && zt_vk_pack_of(in[1]->dtype) &&
           in[0]->dim[0] <= e->groups[1] && in[1]->dim[0] / 32 < e->groups[0];
}

/* Rows of 8-bit codes that a row of x becomes, as `act` allows against blocks of codes: 1, or with
 * what the first leave 2; 0: x stays as it is. */
static uint32_t codes_a_row(const zt_vk_engine *e, const zt_vk_call *c)
{
    const char *act = ((const zt_linear_attrs *)c->attrs)->act.s;
    bool blocks = zt_dtype_get(c->in[1]->dtype)->kind == 'Q';
    if (!e->dots || e->lanes < 8 || !blocks || !strcmp(act, "f32")) return 0;
    return strcmp(act, "q16") ? 1 : 2;
}

static void linear_codes(const zt_vk_engine *e, zt_vk_call *c)
{
    int64_t n = c->in[0]->dim[0], K = c->in[0]->dim[1], blocks = n * K / 32;
    uint32_t each = codes_a_row(e, c);
    if (!each) return;
    c->shader = ZT_VK_SHADER_codes;
    c->spec[0] = each;
    c->word[0] = (uint32_t)blocks;
    c->word[1] = (uint32_t)(K / 32);
    c->scratch_bytes = (size_t)blocks * each * 40 + 64;
    zt_vk_spread(e, c, blocks, 64);
}

/* Rows of x that an invocation takes: a weight is unpacked once for all of them. */
static uint32_t rows_each(int64_t n) { return n >= 8 ? 8 : n >= 4 ? 4 : 1; }

static zt_status set_linear(zt_vk_engine *e, zt_vk_call *c)
{
    int64_t n = c->in[0]->dim[0], K = c->in[0]->dim[1], M = c->in[1]->dim[0];
    uint32_t codes = codes_a_row(e, c);
    const char *act = ((const zt_linear_attrs *)c->attrs)->act.s;
    bool brain = c->in[1]->dtype == ZT_BF16 && strcmp(act, "f32");
    c->shader = codes ? ZT_VK_SHADER_linear8 : ZT_VK_SHADER_linear;
    c->spec[0] = (uint32_t)c->packed;
    c->spec[1] = rows_each(n);
    c->spec[2] = codes ? codes : brain;
    c->spec[3] = c->plain;
    c->word[0] = (uint32_t)n;
    c->word[1] = (uint32_t)K;
    c->word[2] = (uint32_t)M;
    c->word[3] = c->in[2] ? zt_vk_floats(c->in[2]->dtype) : 0;
    c->groups[0] = (uint32_t)((M + 31) / 32);
    c->groups[1] = (uint32_t)((n + c->spec[1] - 1) / c->spec[1]);
    c->groups[2] = 1;
    return ZT_OK;
}

/* ---- gather ---------------------------------------------------------------------------------- */

static bool gather_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    (void)attrs;
    return out[0].dtype == ZT_F32 && zt_vk_pack_of(in[0]->dtype) &&
           zt_type_count(in[1]) <= e->groups[1];
}

static zt_status set_gather(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_gather_attrs *a = c->attrs;
    (void)e;
    c->shader = ZT_VK_SHADER_gather;
    c->spec[0] = (uint32_t)c->packed;
    c->spec[3] = c->plain;
    c->word[0] = (uint32_t)zt_type_count(c->in[1]);
    c->word[1] = (uint32_t)c->in[0]->dim[1];
    c->word[2] = (uint32_t)c->in[0]->dim[0];
    c->word[3] = !strcmp(a->oob.s, "error");
    c->groups[0] = (c->word[1] + 32 * 32 - 1) / (32 * 32);
    c->groups[1] = c->word[0];
    c->groups[2] = 1;
    return ZT_OK;
}

/* ---- rope ------------------------------------------------------------------------------------ */

/* Quarter turns a position of pair i. */
static double quarters_of(const zt_rope_attrs *a, int64_t i, int64_t dims)
{
    return zt_rope_scale(a, i) * pow(a->theta, -2 * (double)i / (double)dims) / M_PI_2;
}

static int64_t rope_head(const zt_rope_attrs *a, const zt_type *x)
{
    return a->head ? a->head : a->dims ? a->dims : x->dim[x->rank - 1];
}

/* Whole turns a position may be left out, but not before a division: with divisors, which are known
 * only when it runs, frequencies must be below one. */
static bool rope_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    const zt_rope_attrs *a = attrs;
    int64_t dims = a->dims ? a->dims : rope_head(a, in[0]);
    (void)out;
    for (int64_t i = 0; in[2] && i < dims / 2; i++) {
        double quarters = quarters_of(a, i, dims);
        if (!(quarters >= 0 && quarters < 4)) return false;
    }
    return zt_vk_is_float(in[0]->dtype) && in[0]->dim[0] <= e->groups[1];
}

static zt_status set_rope(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_rope_attrs *a = c->attrs;
    const zt_type *x = c->in[0];
    int64_t rows = x->dim[0], cols = rows ? zt_type_count(x) / rows : 0;
    int64_t head = rope_head(a, x), dims = a->dims ? a->dims : head;
    float amplitude = (float)a->amplitude;
    c->shader = ZT_VK_SHADER_rope;
    c->word[0] = (uint32_t)cols;
    c->word[1] = (uint32_t)head;
    c->word[2] = (uint32_t)dims;
    c->word[3] = !strcmp(a->pair.s, "neighbours");
    memcpy(&c->word[4], &amplitude, sizeof amplitude);
    c->groups[0] = (uint32_t)((cols + 63) / 64);
    c->groups[1] = (uint32_t)rows;
    c->groups[2] = 1;
    c->table_words = (size_t)dims;
    c->table = zt_alloc_array(e->base.ctx, c->table_words, sizeof *c->table);
    if (!c->table) return ZT_ENOMEM;
    for (int64_t i = 0; i < dims / 2; i++) {
        double quarters = quarters_of(a, i, dims);
        quarters -= 4 * floor(quarters / 4); /* a position is whole: whole turns do not count */
        uint64_t fixed = (uint64_t)ldexp(quarters, 62);
        c->table[2 * i] = (uint32_t)fixed;
        c->table[2 * i + 1] = (uint32_t)(fixed >> 32);
    }
    return ZT_OK;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* ctx, S, B, block from word `at` on (lib/ops/row.h: zt_slots_make). */
static void set_slots(zt_vk_call *c, int at, const zt_type *cache, const zt_type *table)
{
    int64_t ctx = cache->dim[0], S = table ? table->dim[0] : 1, B = table ? table->dim[1] : 1;
    c->word[at] = (uint32_t)ctx;
    c->word[at + 1] = (uint32_t)S;
    c->word[at + 2] = (uint32_t)B;
    c->word[at + 3] = (uint32_t)(B ? ctx / B : 0);
}

static bool kv_put_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    (void)attrs, (void)out;
    return in[1]->dim[0] <= e->groups[1];
}

static zt_status set_kv_put(zt_vk_engine *e, zt_vk_call *c)
{
    (void)e;
    c->shader = ZT_VK_SHADER_kv_put;
    c->spec[0] = c->in[0]->dtype == ZT_F16;
    c->word[0] = (uint32_t)c->in[1]->dim[1];
    set_slots(c, 1, c->in[0], c->in[4]);
    c->groups[0] = (c->word[0] + 63) / 64;
    c->groups[1] = (uint32_t)c->in[1]->dim[0];
    c->groups[2] = 1;
    return ZT_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { MOST_HEAD = 512 }; /* MOST_D of shaders/attention.comp */

static bool attention_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                          const zt_type out[])
{
    const zt_attention_attrs *a = attrs;
    (void)out;
    return a->head <= MOST_HEAD && in[0]->dim[0] <= e->groups[1] && in[0]->dtype == ZT_F32;
}

static zt_status set_attention(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_attention_attrs *a = c->attrs;
    int64_t D = a->head, H = c->in[0]->dim[1] / D, W = c->in[1]->dim[1];
    float scale = (float)(a->scale != 0 ? a->scale : 1 / sqrt((double)D)), cap = (float)a->softcap;
    int64_t window = a->window < INT32_MAX ? a->window : 0;
    c->shader = ZT_VK_SHADER_attention;
    c->spec[0] = c->in[1]->dtype == ZT_F16;
    c->spec[1] = (uint32_t)zt_vk_tile(e->shared_bytes, D);
    c->spec[2] = zt_vk_width(e);
    c->word[0] = (uint32_t)D;
    c->word[1] = (uint32_t)H;
    c->word[2] = (uint32_t)W;
    c->word[3] = (uint32_t)(H / (W / D));
    c->word[4] = (uint32_t)window;
    memcpy(&c->word[5], &scale, sizeof scale);
    memcpy(&c->word[6], &cap, sizeof cap);
    set_slots(c, 7, c->in[1], c->in[5]);
    c->groups[0] = (uint32_t)H;
    c->groups[1] = (uint32_t)c->in[0]->dim[0];
    c->groups[2] = 1;
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
