/* layer_sizes.c - sizes that differ by layer: keys that hold a list, one number for each layer, and layers that read the
 * cache of an earlier one. That the formulas are right is for tests/llm/gemma to say: there are transformers' logits. */
#include "tests/common/made_llm.h"

#define HEADS     "llama.attention.head_count"
#define KEY_HEADS "llama.attention.head_count_kv"
#define LENGTH    "llama.feed_forward_length"
#define SHARED    "llama.attention.shared_kv_layers"

enum { I32 = 5, F32 = 6 };

static void put_list(ggufw *w, const char *key, int count, const int32_t *number)
{
    ggufw_array(w, key, I32, (uint64_t)count, number, (size_t)count * sizeof *number);
}

static void key_heads(ggufw *w) { put_list(w, KEY_HEADS, 2, (int32_t[]){2, 2}); }
static void lengths(ggufw *w) { put_list(w, LENGTH, 2, (int32_t[]){64, 64}); }
static void other_key_heads(ggufw *w) { put_list(w, KEY_HEADS, 2, (int32_t[]){2, 1}); }
static void other_lengths(ggufw *w) { put_list(w, LENGTH, 2, (int32_t[]){64, 32}); }
static void three_lengths(ggufw *w) { put_list(w, LENGTH, 3, (int32_t[]){64, 64, 64}); }
static void no_length(ggufw *w) { put_list(w, LENGTH, 2, (int32_t[]){64, 0}); }
static void low_length(ggufw *w) { put_list(w, LENGTH, 2, (int32_t[]){-64, 64}); }
static void huge_length(ggufw *w) { put_list(w, LENGTH, 2, (int32_t[]){64, INT32_MAX}); }
static void no_lengths(ggufw *w) { put_list(w, LENGTH, 0, NULL); }
static void parts(ggufw *w) { ggufw_array(w, LENGTH, F32, 2, (float[]){64, 63.5f}, 8); }
static void words(ggufw *w) { ggufw_strs(w, LENGTH, (char *[]){"64", "64"}, 2); }
static void no_key_heads(ggufw *w) { put_list(w, KEY_HEADS, 2, (int32_t[]){0, 2}); }
static void three_key_heads(ggufw *w) { put_list(w, KEY_HEADS, 2, (int32_t[]){2, 3}); }
static void share(ggufw *w, int32_t count) { ggufw_plain(w, SHARED, I32, &count, sizeof count); }
static void share_none(ggufw *w) { share(w, 0); }
static void share_one(ggufw *w) { share(w, 1); }
static void share_two(ggufw *w) { share(w, 2); }
static void share_below(ggufw *w) { share(w, -1); }
static void share_windows(ggufw *w)
{
    ggufw_u32(w, "llama.attention.sliding_window", 9);
    ggufw_array(w, "llama.attention.sliding_window_pattern", 7, 2, (uint8_t[]){0, 1}, 2);
    share(w, 1);
}
static void window_heads(ggufw *w)
{
    ggufw_u32(w, "llama.attention.sliding_window", 9);
    ggufw_array(w, "llama.attention.sliding_window_pattern", 7, 2, (uint8_t[]){0, 1}, 2);
    ggufw_u32(w, "llama.attention.key_length_swa", 32);
    ggufw_u32(w, "llama.attention.value_length_swa", 32);
}

/* A model of two layers with `extra`; the key that it replaces goes by another name. */
static file listed(extra_fn *extra, const char *replaced)
{
    char other[96];
    file made = make_file("llama", "f32", 2, extra);
    if (!replaced) return made;
    snprintf(other, sizeof other, "%s", replaced);
    other[strlen(other) - 1] = '_';
    rename_to(&made, replaced, other);
    return made;
}

static void test_same(const char *what, extra_fn *extra, const char *replaced)
{
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    file one = make_file("llama", "f32", 2, NULL), two = listed(extra, replaced);
    int64_t count = N_TOKENS * vocab_of(&one);
    float *a = all_logits(&one, &options, count / N_TOKENS), *b = all_logits(&two, &options, count / N_TOKENS);
    ok(a && b && memcmp(a, b, (size_t)count * sizeof *a) == 0, "%s: the same answer", what);
    free(a);
    free(b);
    free(one.bytes);
    free(two.bytes);
}

static void test_refused(extra_fn *extra, const char *replaced, const char *word)
{
    file made = listed(extra, replaced);
    expect(&made, ZT_EDATA, word, word);
    free(made.bytes);
}

static zt_llm_info info_of(const file *made, int *states)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_llm_info info = {0};
    if (model_open(&o, ctx, made, &(setup){.engine = "ref", .threads = 1, .ctx_len = 64}) == ZT_OK) {
        info = zt_llm_get(o.m);
        *states = zt_prog_count(zt_llm_prog(o.m), ZT_VALUE_STATE);
    }
    model_close(&o);
    zt_ctx_free(ctx);
    return info;
}

/* The second layer reads the first one's cache: half of the memory, and the same bits for any chunk. */
static void test_shared(void)
{
    static const int64_t chunk[] = {1, 7, 64};
    int states = 0, own_states = 0;
    file shared = make_file("llama", "q8_0", 2, share_one), own = make_file("llama", "q8_0", 2, NULL);
    size_t kv_bytes = info_of(&shared, &states).kv_bytes, own_bytes = info_of(&own, &own_states).kv_bytes;
    ok(states == 2 && own_states == 4 && 2 * kv_bytes == own_bytes, "a shared cache is there once: %d states, %zu bytes of %zu",
       states, kv_bytes, own_bytes);
    int64_t V = vocab_of(&own);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .chunk = N_TOKENS};
    setup ref = {.engine = "ref", .threads = 1, .exact = true};
    setup exact = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    float *want = all_logits(&shared, &options, V), *other = all_logits(&own, &options, V);
    ok(want && other && memcmp(want, other, (size_t)(N_TOKENS * V) * sizeof *want) != 0, "its keys are other keys");
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        options.chunk = chunk[i];
        float *got = all_logits(&shared, &options, V);
        ok(want && got && memcmp(want, got, (size_t)(N_TOKENS * V) * sizeof *want) == 0, "chunks of %d: the same bits",
           (int)chunk[i]);
        free(got);
    }
    float *a = all_logits(&shared, &ref, V), *b = all_logits(&shared, &exact, V);
    ok(nmse(a, b, N_TOKENS * V) < 1e-9, "cpu --exact is ref: NMSE %.2g", nmse(a, b, N_TOKENS * V));
    free(a);
    free(b);
    free(want);
    free(other);
    free(shared.bytes);
    free(own.bytes);
}

/* Keys of Gemma 3n and 4: missing, and of values that they cannot have. */
static void test_gemma_keys(void)
{
    static const struct {
        const char *arch, *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"gemma4", "embedding_length_per_layer_input", 0x7fffffff, "embedding_length_per_layer_input is not a length"},
        {"gemma4", "embedding_length_per_layer_input", 33, "'per_layer_token_embd.weight': expected q8_0[400,66]"},
        {"gemma4", "attention.shared_kv_layers", 2, "shared_kv_layers is not below block_count (2, 2)"},
        {"gemma4", "attention.key_length_swa", 0, "key_length_swa is 0"},
        {"gemma4", "attention.key_length_swa", 0x80000000u, "key_length_swa is 2147483648"},
        {"gemma4", "attention.value_length_swa", 0, "value_length_swa is 0"},
        {"gemma4", "rope.dimension_count_swa", 15, "rope.dimension_count_swa is odd or more than the head length (15, 16)"},
        {"gemma4", "rope.dimension_count_swa", 18, "rope.dimension_count_swa is odd or more than the head length (18, 16)"},
        {"gemma4", "rope.dimension_count", 16, "'rope_freqs.weight': expected f32[8], found f32[16]"},
        {"gemma4", "attention.sliding_window", 0, "sliding_window is 0"},
        {"gemma3n", "embedding_length_per_layer_input", 0, "embedding_length_per_layer_input is not a length"},
        {"gemma3n", "altup.num_inputs", 0, "altup.num_inputs is 0"},
        {"gemma3n", "altup.num_inputs", 1, "altup.num_inputs is below 2"},
        {"gemma3n", "altup.num_inputs", 17, "altup.num_inputs is 17"},
        {"gemma3n", "altup.num_inputs", 3, "expected q8_0[2,64,64], found q8_0[3,64,64]"},
        {"gemma3n", "altup.active_idx", 4, "altup.active_idx is not below altup.num_inputs (4, 4)"},
        {"gemma3n", "altup.active_idx", 0xffffffffu, "altup.active_idx is not below altup.num_inputs"},
    };
    static const char *const missing[][2] = {
        {"gemma4", "embedding_length_per_layer_input"},
        {"gemma4", "attention.shared_kv_layers"},
        {"gemma4", "attention.sliding_window"},
        {"gemma3n", "attention.shared_kv_layers"},
        {"gemma3n", "activation_sparsity_scale"},
        {"gemma3n", "altup.num_inputs"},
        {"gemma3n", "altup.active_idx"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_key(row[i].arch, row[i].key, row[i].value, row[i].word);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        char key[96], other[96];
        file made = make_file(missing[i][0], "q8_0", 2, NULL);
        snprintf(key, sizeof key, "%s.%s", missing[i][0], missing[i][1]);
        snprintf(other, sizeof other, "%s", key);
        other[strlen(other) - 1] = '_';
        rename_to(&made, key, other);
        expect(&made, ZT_EDATA, key, key);
        free(made.bytes);
    }
}

/* A bound of activation sparsity that is not below infinity; the made model's is 0.25 in layer 0. */
static void test_cutoffs(void)
{
    static const uint32_t bits[] = {0x7f800000u, 0x7fc00000u};
    static const char key[] = "gemma3n.activation_sparsity_scale";
    enum { BEFORE = 4 + 4 + 8 }; /* kinds of the value and of its entries, and their number */
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        file made = make_file("gemma3n", "q8_0", 2, NULL);
        char *at = memmem(made.bytes, made.n, key, strlen(key));
        if (at) memcpy(at + strlen(key) + BEFORE, &bits[i], sizeof bits[i]);
        expect(&made, ZT_EDATA, "in layer 0, expected a number below infinity", "a bound");
        free(made.bytes);
    }
}

int main(void)
{
    test_gemma_keys();
    test_cutoffs();
    test_same("key heads as a list", key_heads, KEY_HEADS);
    test_same("lengths of the feed-forward as a list", lengths, LENGTH);
    test_same("no layer shares", share_none, NULL);
    test_refused(other_key_heads, KEY_HEADS, "'blk.1.attn_k.weight': expected f32[16,64], found f32[32,64]");
    test_refused(other_lengths, LENGTH, "'blk.1.ffn_gate.weight': expected f32[32,64], found f32[64,64]");
    test_refused(three_lengths, LENGTH, LENGTH " is not 2 whole numbers, one for each layer");
    test_refused(no_lengths, LENGTH, LENGTH " is not 2 whole numbers");
    test_refused(parts, LENGTH, LENGTH " is not 2 whole numbers");
    test_refused(words, LENGTH, LENGTH " is not 2 whole numbers");
    test_refused(no_length, LENGTH, LENGTH " is 0 in layer 1");
    test_refused(low_length, LENGTH, LENGTH " is -64 in layer 0");
    test_refused(huge_length, LENGTH, LENGTH " is 2147483647 in layer 1");
    test_refused(no_key_heads, KEY_HEADS, KEY_HEADS " is 0 in layer 0");
    test_refused(three_key_heads, KEY_HEADS, "not a multiple of the number of key heads (4, 3)");
    test_refused(share_two, NULL, "shared_kv_layers is not below block_count (2, 2)");
    test_refused(share_below, NULL, "shared_kv_layers is not below block_count (-1, 2)");
    test_refused(share_windows, NULL, "shared_kv_layers leaves no cache for a layer (1, 1)");
    test_refused(window_heads, NULL, "'blk.1.attn_q.weight': expected f32[128,64], found f32[64,64]");
    test_shared();
    return tap_done();
}
