/* write.c - owns the way from a network to its document: members in the order in which Loom writes
 * them, and ours, which it has no place for, where they say something. */
#include "lib/base/require.h"
#include "lib/io/base64.h"
#include "lib/io/checkpoint.h"
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Weights that go into another file. First they are listed, then (writer) written, in the same order. */
typedef struct network_data {
    zt_arena *names;
    zt_entry *entries; /* [count] */
    int64_t count, room;
    zt_writer *writer;
} network_data;

/* A layer's text is made whole, then goes out. */
typedef struct network_writer {
    const zt_nn *network;
    zt_str text;
    network_data *data; /* NULL: weights are in the text */
} network_writer;

static void put_number(network_writer *writer, const zt_nn_layer *layer, const char *name)
{
    int64_t whole = zt_layer_number(layer, name);
    double real = whole < 0 ? zt_layer_real(layer, name) : 0;
    if (whole > 0) zt_str_printf(&writer->text, ",\"%s\":%" PRId64, name, whole);
    if (real == 0 || isnan(real)) return;
    zt_str_printf(&writer->text, ",\"%s\":", name);
    zt_str_put_double(&writer->text, real);
}

static void put_numbers(network_writer *writer, const zt_nn_layer *layer)
{
    static const char *const names[] = {"input_height",  "input_width",    "input_depth",       "output_height", "output_width",
                                        "output_depth",  "input_channels", "filters",           "kernel_size",   "stride",
                                        "padding",       "output_padding", "num_heads",         "num_kv_heads",  "head_dim",
                                        "d_model",       "seq_length",     "rope_freq_base",    "max_seq_len",   "vocab_size",
                                        "embedding_dim", "num_clusters",   "kmeans_temperature"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_number(writer, layer, names[i]);
    if (layer->kind == ZT_NN_KMEANS)
        zt_str_printf(&writer->text, ",\"output_mode\":\"%s\"", layer->features ? "features" : "probabilities");
}

static void put_list(network_writer *writer, const char *key, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) zt_str_printf(&writer->text, "%s%" PRId64, i ? "," : key, values[i]);
    if (count) zt_str_putc(&writer->text, ']');
}

static void put_softmax(network_writer *writer, const zt_nn_layer *layer)
{
    static const char *const names[] = {"temperature", "softmax_rows", "softmax_cols", "entmax_alpha"};
    if (layer->kind == ZT_NN_SOFTMAX)
        zt_str_printf(&writer->text, ",\"softmax_type\":\"%s\"", zt_nn_softmax_name(layer->softmax));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_number(writer, layer, names[i]);
    if (layer->gumbel_noise) zt_str_puts(&writer->text, ",\"gumbel_noise\":true");
    for (int64_t i = 0; i < layer->mask_count; i++)
        zt_str_printf(&writer->text, "%s%s", i ? "," : ",\"mask\":[", layer->mask[i] ? "true" : "false");
    if (layer->mask_count) zt_str_putc(&writer->text, ']');
    put_list(writer, ",\"hierarchy_levels\":[", layer->levels, layer->level_count);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Loom's codes are cut towards zero: values that are codes already must not fall to the next. */
static void move_inside(const zt_nn_layer *layer, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) values[i] += copysignf(layer->scale / 4, values[i]) * (values[i] != 0);
}

static bool is_cut(const zt_net_weights *weights)
{
    return weights->native && weights->rule == ZT_RULE_LOOM && weights->type > ZT_STORE_BF16;
}

/* The bytes of count weights, *out from zt_alloc. *back: they mean the same numbers, bit for bit. */
static zt_status encode_weights(const zt_nn *network, const zt_nn_layer *layer, const zt_net_weights *weights, int64_t count,
                                void **out, bool *same)
{
    const float *master = network->weights[layer->first_weight].values;
    zt_net_weights read = *weights; /* as it will be */
    if (!zt_nj_reads_by_rule(weights->type)) read.rule = ZT_RULE_LOOM;
    float *values = zt_alloc_array(network->ctx, 2 * (size_t)count, sizeof *values), *decoded = values + count;
    *out = values ? zt_alloc(network->ctx, zt_net_bytes(weights, count)) : NULL;
    zt_status status = *out ? ZT_OK : ZT_ENOMEM;
    if (!status) memcpy(values, master, (size_t)count * sizeof *values);
    if (!status && is_cut(weights)) move_inside(layer, values, count);
    if (!status) status = zt_net_encode(network->ctx, weights, values, count, *out, decoded);
    if (!status) zt_net_decode(&read, *out, count, decoded);
    *same = !status && !memcmp(decoded, master, (size_t)count * sizeof *decoded);
    zt_free(network->ctx, values);
    return status;
}

/* The next tensor of another file. */
static zt_status put_data(network_writer *writer, const zt_nn_layer *layer, const zt_net_weights *weights, const void *bytes,
                          size_t size)
{
    network_data *data = writer->data;
    if (data->writer) return zt_writer_put(data->writer, bytes, size);
    if (data->count == data->room) {
        int64_t room = data->room ? 2 * data->room : 64;
        zt_entry *entries = zt_realloc(writer->network->ctx, data->entries, (size_t)room * sizeof *entries);
        if (!entries) return ZT_ENOMEM;
        data->entries = entries, data->room = room;
    }
    char *name = zt_arena_alloc(data->names, strlen(layer->path) + sizeof ".weights");
    if (!name) return ZT_ENOMEM;
    memcpy(name, layer->path, strlen(layer->path));
    memcpy(name + strlen(layer->path), ".weights", sizeof ".weights");
    bool floats = !weights->native;
    int64_t count = floats ? (int64_t)(size / sizeof(float)) : (int64_t)size;
    data->entries[data->count] = (zt_entry){
        .name = name, .dtype = floats ? "f32" : "u8", .type = zt_type_make(floats ? ZT_F32 : ZT_U8, 1, &count), .bytes = size};
    return zt_str_printf(&writer->text, "#%" PRId64 ":%zu", data->count++, size);
}

static zt_status put_weights(network_writer *writer, const zt_nn_layer *layer)
{
    void *bytes = NULL;
    bool same = true;
    int64_t count = zt_nn_layer_size(writer->network, layer);
    zt_net_weights weights = {
        .type = layer->dtype, .native = layer->exact && layer->dtype != ZT_STORE_F32, .rule = layer->rule, .scale = layer->scale};
    if (count == 0) return ZT_OK;
    zt_status status = encode_weights(writer->network, layer, &weights, count, &bytes, &same);
    if (!status && !same) { /* codes of more digits than f32 has: the masters tell all */
        zt_free(writer->network->ctx, bytes);
        weights.native = false;
        status = encode_weights(writer->network, layer, &weights, count, &bytes, &same);
    }
    if (!status) zt_str_puts(&writer->text, ",\"weights\":\"");
    if (!status && writer->data) status = put_data(writer, layer, &weights, bytes, zt_net_bytes(&weights, count));
    if (!status && !writer->data) status = zt_base64_put(&writer->text, bytes, zt_net_bytes(&weights, count));
    zt_free(writer->network->ctx, bytes);
    zt_str_puts(&writer->text, weights.native ? "\",\"native\":true,\"scale\":" : "\",\"scale\":");
    zt_str_put_double(&writer->text, (double)layer->scale);
    bool masters = !weights.native && layer->dtype != ZT_STORE_F32;
    if ((weights.native || masters) && layer->rule == ZT_RULE_FIELD) zt_str_puts(&writer->text, ",\"zt.rule\":\"field\"");
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status put_layer(network_writer *writer, const zt_nn_layer *layer);

static zt_status put_layers(network_writer *writer, const char *key, const zt_nn_layer *list, int64_t count)
{
    zt_status status = ZT_OK;
    if (count == 0) return ZT_OK;
    zt_str_puts(&writer->text, key);
    for (int64_t i = 0; i < count && !status; i++) {
        if (i) zt_str_putc(&writer->text, ',');
        status = put_layer(writer, &list[i]);
    }
    zt_str_putc(&writer->text, ']');
    return status;
}

static void put_extensions(network_writer *writer, const zt_nn_layer *layer)
{
    static const char *const key[4] = {"target_z", "target_y", "target_x", "target_l"};
    put_number(writer, layer, "eps");
    if (layer->disabled) zt_str_puts(&writer->text, ",\"is_disabled\":true");
    if (layer->is_link) zt_str_puts(&writer->text, ",\"is_remote_link\":true");
    for (int k = 0; k < 4 && layer->is_link; k++) zt_str_printf(&writer->text, ",\"%s\":%" PRId64, key[k], layer->target[k]);
}

static zt_status put_layer(network_writer *writer, const zt_nn_layer *layer)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    for (int k = 0; k < 4; k++) zt_str_printf(&writer->text, "%s\"%s\":%" PRId64, k ? "," : "{", axis[k], layer->place[k]);
    zt_str_printf(&writer->text, ",\"type\":\"%s\",\"activation\":\"%s\",\"dtype\":\"%s\"", zt_nn_kind_name(layer->kind),
                  zt_nn_act_name(layer->activation), zt_netjson_word(layer->dtype));
    put_numbers(writer, layer);
    put_softmax(writer, layer);
    zt_status status = put_weights(writer, layer);
    if (!status) status = put_layers(writer, ",\"parallel_branches\":[", layer->branches, layer->branch_count);
    if (layer->kind == ZT_NN_PARALLEL) zt_str_printf(&writer->text, ",\"combine_mode\":\"%s\"", layer->combine);
    if (!status) status = put_layers(writer, ",\"sequential_layers\":[", layer->steps, layer->step_count);
    if (!status && layer->gate) {
        zt_str_puts(&writer->text, ",\"filter_gate\":");
        status = put_layer(writer, layer->gate);
    }
    if (layer->use_tiling) zt_str_puts(&writer->text, ",\"use_tiling\":true");
    put_number(writer, layer, "tile_size");
    put_extensions(writer, layer);
    zt_str_putc(&writer->text, '}');
    return status ? status : zt_ctx_status(writer->network->ctx);
}

static zt_status put_head(network_writer *writer)
{
    static const char *const axis[4] = {"depth", "rows", "cols", "layers_per_cell"};
    const char *id = writer->network->id ? writer->network->id : "network";
    zt_str_puts(&writer->text, "{\"id\":");
    zt_str_put_json(&writer->text, id, strlen(id));
    for (int k = 0; k < 4; k++) zt_str_printf(&writer->text, ",\"%s\":%" PRId64, axis[k], writer->network->extent[k]);
    zt_str_puts(&writer->text, ",\"layers\":[");
    return zt_ctx_status(writer->network->ctx);
}

static zt_status flush_text(network_writer *writer, zt_sink *out, zt_status status)
{
    if (!status) status = zt_sink_write(out, writer->text.data, writer->text.len);
    zt_str_clear(&writer->text);
    return status;
}

zt_status zt_nn_write(const zt_nn *network, zt_sink *out)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, out, ZT_EUSAGE);
    network_writer writer = {.network = network};
    zt_str_init(&writer.text, network->ctx);
    zt_status status = flush_text(&writer, out, put_head(&writer));
    for (int64_t layer_index = 0; layer_index < network->layer_count && !status; layer_index++) {
        zt_str_puts(&writer.text, layer_index ? ",\n" : "\n");
        status = flush_text(&writer, out, put_layer(&writer, network->layers[layer_index]));
    }
    if (!status) status = flush_text(&writer, out, zt_str_puts(&writer.text, "\n]}\n"));
    zt_str_fini(&writer.text);
    return status;
}

/* ---- weights in another file ----------------------------------------------------------------- */

/* The document without its weights, which are listed or written. */
static zt_status put_document(network_writer *writer)
{
    zt_status status = put_head(writer);
    for (int64_t layer_index = 0; layer_index < writer->network->layer_count && !status; layer_index++) {
        zt_str_puts(&writer->text, layer_index ? ",\n" : "\n");
        status = put_layer(writer, writer->network->layers[layer_index]);
    }
    return status ? status : zt_str_puts(&writer->text, "\n]}\n");
}

/* The weights go out, and what else would be text is made again. */
static zt_status write_data(network_writer *writer, const char *path, bool force)
{
    zt_ctx *ctx = writer->network->ctx;
    zt_meta *meta = zt_meta_new(ctx);
    zt_checkpoint_opts options = {.to = zt_container_named("safetensors"), .force = force};
    zt_status status = meta ? zt_meta_put_str(meta, "zt.netjson", writer->text.data, writer->text.len) : ZT_ENOMEM;
    if (!status) writer->data->writer = zt_writer_open(ctx, path, &options, meta, writer->data->entries, writer->data->count);
    if (!status && !writer->data->writer) status = zt_ctx_status(ctx);
    network_writer again = {.network = writer->network, .data = writer->data};
    zt_str_init(&again.text, ctx);
    if (!status) status = put_document(&again);
    if (!status) status = zt_writer_commit(writer->data->writer);
    zt_writer_close(writer->data->writer);
    zt_str_fini(&again.text);
    zt_meta_free(meta);
    return status;
}

zt_status zt_nn_write_beside(const zt_nn *network, zt_sink *out, const char *data_path, bool force)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, out && data_path, ZT_EUSAGE);
    const char *slash = strrchr(data_path, '/'), *name = slash ? slash + 1 : data_path;
    network_data data = {.names = zt_arena_new(network->ctx, 0)};
    network_writer writer = {.network = network, .data = &data};
    zt_str head;
    zt_str_init(&head, network->ctx);
    zt_str_init(&writer.text, network->ctx);
    zt_status status = data.names ? put_document(&writer) : ZT_ENOMEM;
    if (!status) status = write_data(&writer, data_path, force);
    if (!status) status = zt_str_puts(&head, "{\"" ZT_NETJSON_DATA "\":");
    if (!status) status = zt_str_put_json(&head, name, strlen(name));
    if (!status) status = zt_str_putc(&head, ',');
    if (!status) status = zt_sink_write(out, head.data, head.len);
    if (!status) status = zt_sink_write(out, writer.text.data + 1, writer.text.len - 1);
    zt_str_fini(&head);
    zt_str_fini(&writer.text);
    zt_free(network->ctx, data.entries);
    zt_arena_free(data.names);
    return status;
}
