/* hyper_recurrent.c - hyper-parameters of recurrent layers, read from a file and checked. Key names and defaults are facts from
 * llama.cpp (src/llama-arch.cpp, src/models/qwen35.cpp, lfm2.cpp, mamba.cpp, mamba2.cpp, rwkv7.cpp, arwkv7.cpp).
 */
#include "lib/llm/arch/hyper_internal.h"

/* As the ops causal_conv, delta_rule and selective_scan take them. */
enum { MAX_FILTER = 256, MAX_KEY = 1024, MAX_NUMBERS = 4096 };

/* ---- kinds ---------------------------------------------------------------------------------- */

void zt_hyper_set_kind(zt_key_reader *reader, zt_hyper *hyper, zt_layer_sizes *sizes)
{
    const zt_arch *arch = reader->arch;
    if (arch->kinds != ZT_KINDS_BY_HEADS) return;
    if (arch->sole_feed_forward) {
        zt_hyper_require(reader, sizes->ff == 0 || sizes->n_kv_heads == 0, "a layer has both key heads and a feed-forward",
                         sizes->n_kv_heads, sizes->ff);
        sizes->kind = sizes->ff > 0 ? ZT_LAYER_FEED_FORWARD : sizes->n_kv_heads > 0 ? ZT_LAYER_ATTENTION : arch->recurrent;
    } else {
        zt_hyper_require(reader, sizes->ff > 0, "a layer has no feed-forward", sizes->ff, 1);
        sizes->kind = sizes->n_kv_heads > 0 ? ZT_LAYER_ATTENTION : arch->recurrent;
    }
    hyper->recurrent = hyper->recurrent || sizes->kind == arch->recurrent;
    if (sizes->n_kv_heads == 0) sizes->n_kv_heads = 1; /* which is not read */
}

/* Which layers are recurrent: attention.recurrent_layers has an entry for each layer, also for those behind the last; else
 * all are but the last of every full_attention_interval. */
static void read_kinds(zt_key_reader *reader, zt_hyper *hyper)
{
    int64_t flag[ZT_MAX_LAYERS], entry_count = 0, all = hyper->n_layers + hyper->extra_layers;
    zt_gguf_kind kind;
    for (int64_t layer = 0; layer < hyper->n_layers && reader->arch->kinds == ZT_KINDS_ALL; layer++)
        hyper->layer[layer].kind = reader->arch->recurrent;
    hyper->recurrent = hyper->recurrent || reader->arch->kinds == ZT_KINDS_ALL;
    if (reader->arch->recurrent == ZT_LAYER_ATTENTION || reader->arch->kinds != ZT_KINDS_BY_INTERVAL) return;
    int64_t interval = zt_hyper_count(reader, "full_attention_interval", 4, ZT_MAX_LAYERS);
    bool listed = zt_gguf_array(reader->gguf, zt_hyper_key(reader, "attention.recurrent_layers"), &kind, &entry_count);
    zt_hyper_require(reader, listed || !zt_hyper_i64(reader, "attention.recurrent_layers", &entry_count),
                     "attention.recurrent_layers is not a list", entry_count, all);
    if (listed && reader->status == ZT_OK)
        zt_hyper_require(reader, entry_count == all && zt_gguf_array_i64(reader->gguf, reader->key, flag, all),
                         "attention.recurrent_layers is not 0 or 1 for each layer", entry_count, all);
    for (int64_t layer = 0; layer < all && listed && reader->status == ZT_OK; layer++)
        zt_hyper_require(reader, flag[layer] == 0 || flag[layer] == 1, "attention.recurrent_layers is not 0 or 1 for each layer",
                         flag[layer], layer);
    for (int64_t layer = 0; layer < hyper->n_layers && reader->status == ZT_OK; layer++) {
        bool recurrent = listed ? flag[layer] != 0 : (layer + 1) % interval != 0;
        if (recurrent) hyper->layer[layer].kind = reader->arch->recurrent;
        hyper->recurrent = hyper->recurrent || recurrent;
    }
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Short convolutions: b, c and x by one matrix, of which the convolution takes b x. */
static void read_short_conv(zt_key_reader *reader, zt_hyper *hyper)
{
    hyper->mamba.filter = zt_hyper_count(reader, "shortconv.l_cache", 0, MAX_FILTER);
    hyper->mamba.in_rows = 3 * hyper->width;
}

/* State-space layers. ssm.time_step_rank is the number of heads of Mamba 2; of Mamba, columns of the steps before dt's matrix. */
static void read_mamba(zt_key_reader *reader, zt_hyper *hyper)
{
    zt_mamba_sizes *sizes = &hyper->mamba;
    bool first = reader->arch->recurrent == ZT_LAYER_MAMBA;
    int64_t normed = 0;
    sizes->filter = zt_hyper_count(reader, "ssm.conv_kernel", 0, MAX_FILTER);
    sizes->numbers = zt_hyper_count(reader, "ssm.state_size", 0, MAX_NUMBERS);
    sizes->inner = zt_hyper_count(reader, "ssm.inner_size", 0, ZT_MAX_WIDTH);
    sizes->heads = sizes->step_rank = zt_hyper_count(reader, "ssm.time_step_rank", 0, ZT_MAX_WIDTH);
    sizes->groups = first ? 1 : zt_hyper_count(reader, "ssm.group_count", 0, ZT_MAX_WIDTH);
    sizes->inputs = sizes->groups * sizes->numbers; /* below 2^37 */
    zt_hyper_require(reader, sizes->inputs <= ZT_MAX_WIDTH, "ssm.group_count times ssm.state_size is too large", sizes->groups,
                     sizes->numbers);
    sizes->mixed = first ? sizes->inner : sizes->inner + 2 * sizes->inputs;
    sizes->in_rows = first ? 2 * sizes->inner : sizes->inner + sizes->mixed + sizes->heads;
    sizes->x_rows = sizes->step_rank + 2 * sizes->inputs;
    sizes->per_group = sizes->inner / sizes->groups;
    if (zt_hyper_flag(reader, "ssm.dt_b_c_rms", &normed)) sizes->normed = first && normed;
    if (sizes->normed)
        zt_hyper_require(reader, sizes->x_rows <= sizes->inner,
                         "ssm.inner_size is below ssm.time_step_rank plus twice ssm.state_size", sizes->inner, sizes->x_rows);
    if (first) return;
    zt_hyper_require(reader, sizes->inner % sizes->heads == 0, "ssm.inner_size is not a multiple of ssm.time_step_rank",
                     sizes->inner, sizes->heads);
    zt_hyper_require(reader, sizes->heads % sizes->groups == 0, "ssm.time_step_rank is not a multiple of ssm.group_count",
                     sizes->heads, sizes->groups);
}

/* RWKV-7. Layer 0 has matrices of the rank of a where others have those of the share of its values, and does not use them. */
static void read_time_mix(zt_key_reader *reader, zt_hyper *hyper)
{
    zt_time_mix_sizes *sizes = &hyper->time_mix;
    const bool channels = reader->arch->parts & ZT_PART_CHANNEL_MIX;
    int64_t shifts = 2, wanted = channels ? 2 : 1, gate = 0;
    sizes->head = zt_hyper_count(reader, "wkv.head_size", 0, MAX_KEY);
    zt_hyper_require(reader, hyper->width % sizes->head == 0, "embedding_length is not a multiple of wkv.head_size", hyper->width,
                     sizes->head);
    sizes->heads = hyper->width / sizes->head;
    sizes->decay_rank = zt_hyper_count(reader, "attention.decay_lora_rank", 0, ZT_MAX_WIDTH);
    sizes->rate_rank = zt_hyper_count(reader, "attention.iclr_lora_rank", 0, ZT_MAX_WIDTH);
    int64_t share_rank = zt_hyper_count(reader, "attention.value_residual_mix_lora_rank", 0, ZT_MAX_WIDTH);
    bool gated = channels || (zt_hyper_i64(reader, "attention.gate_lora_rank", &gate) && gate != 0);
    sizes->gate_rank = gated ? zt_hyper_count(reader, "attention.gate_lora_rank", 0, ZT_MAX_WIDTH) : 0;
    sizes->lerps = gated ? 6 : 5;
    zt_hyper_i64(reader, "token_shift_count", &shifts);
    zt_hyper_require(reader, shifts == wanted, "token_shift_count is not that of the architecture", shifts, wanted);
    int64_t length = zt_hyper_count(reader, "feed_forward_length", 0, ZT_MAX_WIDTH);
    if (channels) sizes->channels = length;
    if (!channels) hyper->ff = length;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        hyper->layer[layer].share_rank = layer ? share_rank : sizes->rate_rank;
        hyper->layer[layer].ff = hyper->ff;
        hyper->layer[layer].up_width = 2 * hyper->ff;
    }
}

void zt_hyper_read_time_parts(zt_key_reader *reader, zt_hyper *hyper)
{
    if (reader->arch->recurrent != ZT_LAYER_TIME_MIX) return;
    if (hyper->time_mix.gate_rank == 0) hyper->parts &= ~ZT_PART_TIME_GATE;
    char name[ZT_WEIGHT_NAME];
    bool normed = zt_gguf_find(reader->gguf, zt_weight_name(ZT_W_TIME_NORM, 0, name)) >= 0;
    if (reader->arch->time_norm_may && !normed) hyper->parts &= ~ZT_PART_TIME_NORM;
}

static void read_mixers(zt_key_reader *reader, zt_hyper *hyper)
{
    const zt_layer_kind kind = reader->arch->recurrent;
    if (kind == ZT_LAYER_SHORT_CONV) read_short_conv(reader, hyper);
    if (kind == ZT_LAYER_TIME_MIX) read_time_mix(reader, hyper);
    if (kind == ZT_LAYER_MAMBA || kind == ZT_LAYER_MAMBA2 || kind == ZT_LAYER_BESIDE_MAMBA2) read_mamba(reader, hyper);
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
    read_mixers(reader, hyper);
}
