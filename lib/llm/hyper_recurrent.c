/* hyper_recurrent.c - hyper-parameters of recurrent layers, read from a file and checked. Key names and defaults are facts from
 * llama.cpp (src/llama-arch.cpp, src/models/qwen35.cpp).
 */
#include "lib/llm/hyper_internal.h"

enum { MAX_FILTER = 256, MAX_KEY = 1024 }; /* as the ops causal_conv and delta_rule take them */

/* Which layers are recurrent: attention.recurrent_layers has an entry for each layer, also for those behind the last; else
 * all are but the last of every full_attention_interval. */
static void read_kinds(zt_key_reader *reader, zt_hyper *hyper)
{
    int64_t flag[ZT_MAX_LAYERS], entry_count = 0, all = hyper->n_layers + hyper->extra_layers;
    zt_gguf_kind kind;
    if (reader->arch->recurrent == ZT_LAYER_ATTENTION) return;
    int64_t interval = zt_hyper_count(reader, "full_attention_interval", 4, ZT_MAX_LAYERS);
    bool listed = zt_gguf_array(reader->gguf, zt_hyper_key(reader, "attention.recurrent_layers"), &kind, &entry_count);
    zt_hyper_require(reader, listed || !zt_gguf_i64(reader->gguf, reader->key, &entry_count),
                     "attention.recurrent_layers is not a list", entry_count, all);
    if (listed && reader->status == ZT_OK)
        zt_hyper_require(reader, entry_count == all && zt_gguf_array_i64(reader->gguf, reader->key, flag, all),
                         "attention.recurrent_layers is not 0 or 1 for each layer", entry_count, all);
    for (int64_t layer = 0; layer < hyper->n_layers && reader->status == ZT_OK; layer++) {
        bool recurrent = listed ? flag[layer] != 0 : (layer + 1) % interval != 0;
        if (recurrent) hyper->layer[layer].kind = reader->arch->recurrent;
        hyper->recurrent = hyper->recurrent || recurrent;
    }
}

static void read_delta_net(zt_key_reader *reader, zt_hyper *hyper)
{
    zt_delta_sizes *sizes = &hyper->delta;
    if (reader->arch->recurrent != ZT_LAYER_DELTA_NET) return;
    sizes->filter = zt_hyper_count(reader, "ssm.conv_kernel", 0, MAX_FILTER);
    sizes->key = zt_hyper_count(reader, "ssm.state_size", 0, MAX_KEY);
    sizes->key_heads = zt_hyper_count(reader, "ssm.group_count", 0, ZT_MAX_WIDTH);
    sizes->heads = zt_hyper_count(reader, "ssm.time_step_rank", 0, ZT_MAX_WIDTH);
    sizes->value_width = zt_hyper_count(reader, "ssm.inner_size", 0, ZT_MAX_WIDTH);
    zt_hyper_require(reader, sizes->value_width % sizes->heads == 0, "ssm.inner_size is not a multiple of ssm.time_step_rank",
                     sizes->value_width, sizes->heads);
    zt_hyper_require(reader, sizes->heads % sizes->key_heads == 0, "ssm.time_step_rank is not a multiple of ssm.group_count",
                     sizes->heads, sizes->key_heads);
    sizes->key_width = sizes->key_heads * sizes->key; /* below 2^34 */
    zt_hyper_require(reader, sizes->key_width <= ZT_MAX_WIDTH, "ssm.group_count times ssm.state_size is too large",
                     sizes->key_heads, sizes->key);
    sizes->value = sizes->value_width / sizes->heads;
    sizes->width = 2 * sizes->key_width + sizes->value_width;
    sizes->both = 2 * sizes->heads;
}

void zt_hyper_read_recurrent(zt_key_reader *reader, zt_hyper *hyper)
{
    read_kinds(reader, hyper);
    read_delta_net(reader, hyper);
}
