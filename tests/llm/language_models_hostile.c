/* language_models_hostile.c - headers of language models that cannot be are refused before a weight is read, in
 * words that name the key or tensor. */
#include "tests/common/made_llm.h"

static void test_numbers(void)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"attention.head_count", 0, "head_count is 0"},
        {"attention.head_count", 5, "multiple"},
        {"attention.head_count", 8, "rope.dimension_count"},
        {"attention.head_count", 2, "attn_k.weight"},
        {"attention.head_count_kv", 0, "head_count_kv is 0"},
        {"attention.head_count_kv", 3, "multiple"},
        {"attention.head_count_kv", 4, "attn_k.weight"},
        {"block_count", 0, "block_count is 0"},
        {"block_count", 3, "'blk.2.attn_norm.weight' is missing"},
        {"block_count", 0xffffffffu, "block_count is"},
        {"embedding_length", 0, "embedding_length is 0"},
        {"embedding_length", 128, "expected"},
        {"embedding_length", 0xffffffffu, "embedding_length"},
        {"feed_forward_length", 96, "ffn_gate.weight"},
        {"context_length", 0, "context_length is 0"},
        {"rope.dimension_count", 15, "odd"},
        {"rope.dimension_count", 64, "rope.dimension_count"},
        {"rope.freq_base", 0x7fc00000u, "freq_base"},
        {"attention.layer_norm_rms_epsilon", 0xff800000u, "epsilon"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_key("llama", row[i].key, row[i].value, row[i].word);
}

static void stray_tensor(ggufw *w) { add_vector(w, "blk.0.attn_sinks.weight", 4, 1); }
static void stray_layer(ggufw *w) { add_vector(w, "blk.2.attn_q.bias", 64, 1); }
static void experts(ggufw *w) { ggufw_u32(w, "llama.expert_count", 8); }
static void dynamic(ggufw *w) { ggufw_str(w, "llama.rope.scaling.type", "dynamic"); }
static void long_bias(ggufw *w) { add_vector(w, "blk.0.attn_q.bias", 65, 1); }

static void test_shapes(void)
{
    static const struct {
        extra_fn *extra;
        const char *from, *to;
        zt_status want;
        const char *word;
    } row[] = {
        {NULL, "blk.1.ffn_up.weight", "blk.1.ffn_uq.weight", ZT_EDATA, "'blk.1.ffn_up.weight' is missing"},
        {NULL, "output_norm.weight", "output_morm.weight", ZT_EDATA, "'output_norm.weight' is missing"},
        {NULL, "token_embd.weight", "token_embt.weight", ZT_EDATA, "token_embd.weight"},
        {long_bias, "", "", ZT_EDATA, "expected f32[64], found f32[65]"},
        {stray_tensor, "", "", ZT_ENOTSUP, "blk.0.attn_sinks.weight"},
        {stray_layer, "", "", ZT_ENOTSUP, "blk.2.attn_q.bias"},
        {experts, "", "", ZT_EDATA, "expert_used_count"},
        {dynamic, "", "", ZT_ENOTSUP, "rope scaling"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file file_data = make_file("llama", "q8_0", 2, row[i].extra);
        rename_to(&file_data, row[i].from, row[i].to);
        expect(&file_data, row[i].want, row[i].word, row[i].word);
        free(file_data.bytes);
    }
    file file_data = make_file("llama", "q8_0", 2, NULL);
    rename_to(&file_data, "general.architecture", "general.archilecture");
    expect(&file_data, ZT_EDATA, "general.architecture", "no architecture");
    free(file_data.bytes);
    file_data = make_file("llama", "q8_0", 2, NULL);
    rename_to(&file_data, "llama", "ll\x1bma"); /* the first is the architecture's name */
    expect(&file_data, ZT_ENOTSUP, "ll\\x1bma", "an unknown architecture with an escape in its name");
    free(file_data.bytes);
    file_data.bytes = mkmodel_uneven(290, 300, &file_data.n);
    expect(&file_data, ZT_EDATA, "(290, 300)", "a vocabulary shorter than the embedding");
    free(file_data.bytes);
}

int main(void)
{
    test_numbers();
    test_shapes();
    return tap_done();
}
