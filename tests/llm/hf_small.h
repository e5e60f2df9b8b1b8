/* hf_small.h - for tests of Hugging Face directories (hf_writer.h writes them): a small llama, its config
 * and layer; what is asked of any.
 */
#ifndef ZT_TEST_HF_SMALL_H
#define ZT_TEST_HF_SMALL_H

#include "lib/engine/engine.h"
#include "lib/llm/llm.h"
#include "tests/common/hf_writer.h"
#include "tests/common/tap.h"

#define HFSMALL_FN __attribute__((unused)) static

#define D(...) ((int64_t[]){__VA_ARGS__})

#define SIZES                                                                                                                    \
    "\"hidden_size\":8,\"intermediate_size\":6,\"num_hidden_layers\":1,"                                                         \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"max_position_embeddings\":64,"                                        \
    "\"rms_norm_eps\":0.25"
#define LLAMA "{\"model_type\":\"llama\"," SIZES "}"

HFSMALL_FN bool text_key(const zt_gguf *g, const char *key, const char *want)
{
    zt_bytes s;
    return g && zt_gguf_str(g, key, &s) && s.n == strlen(want) && memcmp(s.data, want, s.n) == 0;
}

/* Can the model be run? What it is goes to info. */
HFSMALL_FN zt_status plan(zt_ctx *ctx, zt_gguf *g, zt_llm_info *info)
{
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_llm_opts o = {.engine = e, .kv = ZT_DTYPE_COUNT};
    zt_status s = e ? zt_llm_plan(g, &o, info) : zt_ctx_status(ctx);
    zt_engine_close(e);
    return s;
}

HFSMALL_FN void model_refused(zt_ctx *ctx, const char *path, zt_status want, const char *what)
{
    zt_gguf *g = zt_model_open(ctx, path);
    ok(!g && zt_ctx_status(ctx) == want, "%s: %s", what, zt_ctx_error(ctx));
    zt_gguf_close(g);
    zt_ctx_clear(ctx);
}

static const struct {
    const char *name;
    int rank;
    int64_t dim[2];
} hfsmall_rows[] = {{"embed_tokens", 2, {16, 8}},
                    {"layers.0.input_layernorm", 1, {8}},
                    {"layers.0.self_attn.q_proj", 2, {8, 8}},
                    {"layers.0.self_attn.k_proj", 2, {4, 8}},
                    {"layers.0.self_attn.v_proj", 2, {4, 8}},
                    {"layers.0.self_attn.o_proj", 2, {8, 8}},
                    {"layers.0.post_attention_layernorm", 1, {8}},
                    {"layers.0.mlp.gate_proj", 2, {6, 8}},
                    {"layers.0.mlp.up_proj", 2, {6, 8}},
                    {"layers.0.mlp.down_proj", 2, {8, 6}}};
enum { HFSMALL_ROWS = sizeof hfsmall_rows / sizeof *hfsmall_rows };

/* One layer of a small llama, without the final norm and the head. */
HFSMALL_FN void put_layer(hfw *d, const char *prefix)
{
    char name[200];
    for (size_t i = 0; i < HFSMALL_ROWS; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, hfsmall_rows[i].name);
        hfw_f32(d, name, hfsmall_rows[i].rank, hfsmall_rows[i].dim, i > 0);
    }
}

/* The same as parts of an index. */
HFSMALL_FN void map_layer(char *map, size_t room, const char *prefix, const char *file)
{
    char name[200];
    for (size_t i = 0; i < HFSMALL_ROWS; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, hfsmall_rows[i].name);
        hfw_map(map, room, name, file);
    }
}

#endif
