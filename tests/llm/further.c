/* further.c - keys of the rows of tests/llm/further in made models: missing ones, and numbers that make no sense. That the formulas
 * are right is for transformers' logits there to say. */
#include "tests/common/made_llm.h"

#include <math.h>

static void i32_key(ggufw *w, const char *key, int32_t value) { ggufw_plain(w, key, 5, &value, 4); }

static file make_row(const char *arch, int64_t layers, extra_fn *extra, const char *replaced)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    char other[96];
    o.type = mkmodel_type("f32");
    o.layers = layers;
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    if (!replaced) return f;
    snprintf(other, sizeof other, "%s", replaced);
    other[strlen(other) - 1] = '_';
    rename_to(&f, replaced, other);
    return f;
}

#define WINDOW "llama4.attention.sliding_window"

static void no_window(ggufw *w) { ggufw_u32(w, WINDOW, 0); }
static void wide_window(ggufw *w) { ggufw_u32(w, WINDOW, 8192); }
static void low_window(ggufw *w) { i32_key(w, WINDOW, -1); }
static void huge_window(ggufw *w) { ggufw_u32(w, WINDOW, UINT32_MAX); }
static void no_growth(ggufw *w) { ggufw_f32(w, "llama4.attention.temperature_scale", 0); }
static void growth_below(ggufw *w) { ggufw_f32(w, "llama4.attention.temperature_scale", -1); }
static void growth_nan(ggufw *w) { ggufw_f32(w, "llama4.attention.temperature_scale", NAN); }
static void growth_soon(ggufw *w) { ggufw_u32(w, "llama4.attention.temperature_length", 2); }
static void length_zero(ggufw *w) { ggufw_u32(w, "llama4.attention.temperature_length", 0); }
static void length_below(ggufw *w) { i32_key(w, "llama4.attention.temperature_length", -4); }
static void norms_off(ggufw *w) { ggufw_bool(w, "llama4.attention.use_qk_norm", false); }
static void norms_on(ggufw *w) { ggufw_bool(w, "llama4.attention.use_qk_norm", true); }
static void step_zero(ggufw *w) { ggufw_u32(w, "llama4.interleave_moe_layer_step", 0); }
static void step_two(ggufw *w) { ggufw_u32(w, "llama4.interleave_moe_layer_step", 2); }
static void layers_short(ggufw *w) { ggufw_array(w, "llama4.rope.layer_pattern", 7, 3, (uint8_t[]){0, 1, 1}, 3); }
static void layers_turned(ggufw *w) { ggufw_array(w, "llama4.rope.layer_pattern", 7, 4, (uint8_t[]){0, 1, 1, 0}, 4); }
static void layers_usual(ggufw *w) { ggufw_array(w, "llama4.rope.layer_pattern", 7, 4, (uint8_t[]){1, 1, 1, 0}, 4); }

#define INDEXER "deepseek32.attention.indexer."

static void topk_below(ggufw *w) { i32_key(w, INDEXER "top_k", -1); }
static void topk_zero(ggufw *w) { ggufw_u32(w, INDEXER "top_k", 0); }
static void topk_huge(ggufw *w) { ggufw_u32(w, INDEXER "top_k", UINT32_MAX); }
static void topk_all(ggufw *w) { ggufw_u32(w, INDEXER "top_k", N_TOKENS); }
static void topk_more(ggufw *w) { ggufw_u32(w, INDEXER "top_k", 2000000000); }
static void index_heads_zero(ggufw *w) { ggufw_u32(w, INDEXER "head_count", 0); }
static void index_heads_many(ggufw *w) { ggufw_u32(w, INDEXER "head_count", 1 << 24); }
static void index_head_short(ggufw *w) { ggufw_u32(w, INDEXER "key_length", 2); }
static void index_head_other(ggufw *w) { ggufw_u32(w, INDEXER "key_length", 64); }
static void no_query_latent(ggufw *w) { ggufw_u32(w, "deepseek32.attention.q_lora_rank", 0); }

static void test_indexer(void)
{
    static const struct {
        extra_fn *extra;
        const char *replaced, *word;
    } row[] = {
        {topk_below, INDEXER "top_k", "top_k is -1"},
        {topk_zero, INDEXER "top_k", "top_k is 0"},
        {topk_huge, INDEXER "top_k", "top_k is 4294967295"},
        {index_heads_zero, INDEXER "head_count", "head_count is 0"},
        {index_heads_many, INDEXER "head_count", "too large"},
        {index_head_short, INDEXER "key_length", "is above attention.indexer.key_length"},
        {index_head_other, INDEXER "key_length", "indexer.attn_q_b.weight"},
        {no_query_latent, "deepseek32.attention.q_lora_rank", "attention.q_lora_rank"},
        {NULL, INDEXER "top_k", "top_k' is missing"},
        {NULL, INDEXER "key_length", "key_length' is missing"},
        {NULL, INDEXER "head_count", "head_count' is missing"},
        {NULL, "blk.1.indexer.k_norm.bias", "'blk.1.indexer.k_norm.bias' is missing"},
        {NULL, "blk.0.indexer.proj.weight", "'blk.0.indexer.proj.weight' is missing"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_row("deepseek32", 2, row[i].extra, row[i].replaced);
        expect(&f, ZT_EDATA, row[i].word, row[i].word);
        free(f.bytes);
    }
}

/* An indexer that chooses all: as many keys as there are, or more; that chooses fewer gives another answer. */
static void test_choice(void)
{
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    file few = make_row("deepseek32", 2, NULL, NULL), all = make_row("deepseek32", 2, topk_all, INDEXER "top_k"),
         more = make_row("deepseek32", 2, topk_more, INDEXER "top_k");
    int64_t vocab = vocab_of(&few);
    size_t bytes = (size_t)(N_TOKENS * vocab) * sizeof(float);
    float *a = all_logits(&few, &options, vocab), *b = all_logits(&all, &options, vocab), *c = all_logits(&more, &options, vocab);
    ok(a && b && c && memcmp(a, b, bytes) != 0, "fewer keys: another answer");
    ok(a && b && c && memcmp(b, c, bytes) == 0, "all keys: the same, however many more the indexer may choose");
    ok(a && b && memcmp(a, b, (size_t)(5 * vocab) * sizeof(float)) == 0, "the first tokens see all keys there are");
    free(a), free(b), free(c);
    free(few.bytes), free(all.bytes), free(more.bytes);
}

static void test_refused(void)
{
    static const struct {
        extra_fn *extra;
        const char *replaced, *word;
    } row[] = {
        {low_window, WINDOW, "sliding_window is -1"},
        {huge_window, WINDOW, "sliding_window is 4294967295"},
        {growth_below, NULL, "temperature_scale is -1"},
        {growth_nan, NULL, "temperature_scale is nan"},
        {length_zero, NULL, "temperature_length is 0"},
        {length_below, NULL, "temperature_length is -4"},
        {step_zero, NULL, "interleave_moe_layer_step is 0"},
        {step_two, NULL, "'blk.0.ffn_gate.weight' is missing"},
        {layers_short, NULL, "rope.layer_pattern does not have one entry per layer"},
        {NULL, "llama4.expert_count", "'llama4.expert_count' is missing"},
        {NULL, "llama4.expert_used_count", "'llama4.expert_used_count' is missing"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_row("llama4", 4, row[i].extra, row[i].replaced);
        expect(&f, ZT_EDATA, row[i].word, row[i].word);
        free(f.bytes);
    }
}

static void test_effects(void)
{
    static const struct {
        const char *what;
        extra_fn *extra;
        const char *replaced;
        bool changes;
    } row[] = {
        {"chunks longer than the text", wide_window, WINDOW, true},
        {"no chunks: all layers rotate", no_window, WINDOW, true},
        {"growth that begins far behind the text", no_growth, NULL, false},
        {"growth within the text", growth_soon, NULL, true},
        {"norms, as without the key", norms_on, NULL, false},
        {"no norms", norms_off, NULL, true},
        {"other layers rotate", layers_turned, NULL, true},
        {"the layers that rotate anyhow", layers_usual, NULL, false},
    };
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    file plain = make_row("llama4", 4, NULL, NULL);
    size_t bytes = (size_t)(N_TOKENS * vocab_of(&plain)) * sizeof(float);
    float *a = all_logits(&plain, &options, vocab_of(&plain));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_row("llama4", 4, row[i].extra, row[i].replaced);
        float *b = all_logits(&f, &options, vocab_of(&f));
        bool same = a && b && memcmp(a, b, bytes) == 0;
        ok(a && b && same != row[i].changes, "%s: %s", row[i].what, row[i].changes ? "another answer" : "the same answer");
        free(b);
        free(f.bytes);
    }
    free(a);
    free(plain.bytes);
}

int main(void)
{
    test_refused();
    test_effects();
    test_indexer();
    test_choice();
    return tap_done();
}
