/* hf_llama4.c - what config.json says of Llama 4 beside numbers, read and written: which layers see a chunk of positions alone, which
 * do not rotate, how queries grow, and norms without weights. The converter writes no key for what all Llama 4 models have alike; where
 * config.json differs from that, zt writes keys of llama.cpp's names, or its own (rope.layer_pattern, attention.use_qk_norm).
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/llama.py), configuration_llama4.py of transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 1024, PERIOD = 4, CHUNK = 8192, GROWTH_LENGTH = 8192, NO_UNIT_NORMS = 128 };

#define GROWTH 0.1

typedef struct layer_lists {
    int64_t layers, chunk;
    bool any_chunk;
    uint8_t chunked[MAX_LAYERS], rotated[MAX_LAYERS];
} layer_lists;

/* What holds without a key: all but the last of every four layers. */
static bool usual(int64_t layer) { return layer % PERIOD < PERIOD - 1; }

/* ---- import ---------------------------------------------------------------------------------- */

static zt_status refuse(const hf_import *import, const char *what)
{
    return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %s", import->folder.data, what);
}

/* Which layers rotate: a list, 1 for those that do; or all but each so many-th. */
static zt_status read_rotated(const hf_import *import, layer_lists *lists)
{
    const json_t *list = zt_hf_get(import, "no_rope_layers");
    int64_t interval = PERIOD;
    zt_status status = zt_hf_int(import, "no_rope_layer_interval", &interval);
    bool listed = json_array_size(list) > 0;
    if (status != ZT_OK) return status;
    if (listed && (int64_t)json_array_size(list) < lists->layers)
        return refuse(import, "'no_rope_layers' does not have one entry per layer");
    if (!listed && interval < 1) return refuse(import, "'no_rope_layer_interval' is 0, expected 1 or more");
    for (int64_t layer = 0; layer < lists->layers; layer++)
        lists->rotated[layer] =
            listed ? json_integer_value(json_array_get(list, (size_t)layer)) != 0 : (layer + 1) % interval != 0;
    return ZT_OK;
}

/* Which layers see a chunk: as listed, else those that rotate. */
static zt_status read_chunked(const hf_import *import, layer_lists *lists)
{
    const json_t *types = zt_hf_get(import, "layer_types"), *size = zt_hf_get(import, "attention_chunk_size");
    lists->chunk = json_is_null(size) ? 0 : CHUNK;
    zt_status status = zt_hf_int(import, "attention_chunk_size", &lists->chunk);
    if (status != ZT_OK) return status;
    bool listed = json_is_array(types);
    if (listed && (int64_t)json_array_size(types) != lists->layers)
        return refuse(import, "'layer_types' does not have one entry per layer");
    for (int64_t layer = 0; layer < lists->layers; layer++) {
        const char *type = json_string_value(json_array_get(types, (size_t)layer));
        bool chunked = type && strcmp(type, "chunked_attention") == 0;
        if (listed && !chunked && !(type && strcmp(type, "full_attention") == 0))
            return refuse(import, "'layer_types' is neither chunked_attention nor full_attention for each layer");
        lists->chunked[layer] = listed ? chunked : lists->rotated[layer] && lists->chunk > 0;
        lists->any_chunk = lists->any_chunk || lists->chunked[layer];
    }
    if (lists->any_chunk && lists->chunk == 0)
        return refuse(import, "'attention_chunk_size' is 0 or null, but layers have chunks");
    return ZT_OK;
}

static zt_status put_layer_lists(hf_import *import, const layer_lists *lists)
{
    bool other_chunks = false, other_rope = false;
    zt_status status = ZT_OK;
    for (int64_t layer = 0; layer < lists->layers; layer++) {
        other_chunks = other_chunks || lists->chunked[layer] != usual(layer);
        other_rope = other_rope || lists->rotated[layer] != (lists->any_chunk ? usual(layer) : true);
    }
    if (!lists->any_chunk || lists->chunk != CHUNK)
        status = zt_hf_put_int(import, "attention.sliding_window", lists->any_chunk ? lists->chunk : 0);
    if (status == ZT_OK && lists->any_chunk && other_chunks)
        status = zt_hf_put_flags(import, "attention.sliding_window_pattern", lists->chunked, (size_t)lists->layers);
    if (status == ZT_OK && other_rope)
        status = zt_hf_put_flags(import, "rope.layer_pattern", lists->rotated, (size_t)lists->layers);
    return status;
}

/* Growth of queries, on unless it is said to be off. */
static zt_status put_growth(hf_import *import)
{
    const json_t *tuning = zt_hf_get(import, "attn_temperature_tuning");
    bool off = json_is_false(tuning) || (json_is_number(tuning) && json_number_value(tuning) == 0);
    double scale = GROWTH;
    int64_t length = GROWTH_LENGTH;
    zt_status status = zt_hf_real(import, "attn_scale", &scale);
    if (status == ZT_OK) status = zt_hf_int(import, "floor_scale", &length);
    if (off) scale = 0;
    if (status == ZT_OK && scale != GROWTH) status = zt_hf_put_real(import, "attention.temperature_scale", scale);
    return status == ZT_OK && length != GROWTH_LENGTH ? zt_hf_put_int(import, "attention.temperature_length", length) : status;
}

static zt_status put_unit_norms(hf_import *import)
{
    const json_t *given = zt_hf_get(import, "use_qk_norm");
    double experts = 0;
    char key[128];
    if (given && !json_is_boolean(given) && !json_is_null(given)) return refuse(import, "'use_qk_norm' is not true or false");
    zt_status status = zt_hf_value(import, "expert_count", &experts);
    bool normed = !json_is_false(given);
    if (status != ZT_OK || normed == (experts != NO_UNIT_NORMS)) return status;
    snprintf(key, sizeof key, "%s.attention.use_qk_norm", import->arch.name);
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, normed);
}

/* The list of layers with experts must be what their distance says. */
static zt_status check_sparse_layers(const hf_import *import, int64_t layers)
{
    const json_t *list = zt_hf_get(import, "moe_layers");
    double step = 1;
    zt_status status = zt_hf_value(import, "interleave_moe_layer_step", &step);
    if (status != ZT_OK || !json_is_array(list)) return status;
    size_t place = 0;
    for (int64_t layer = 0; layer < layers; layer++)
        if (step >= 1 && (layer + 1) % (int64_t)step == 0 && json_integer_value(json_array_get(list, place++)) != layer)
            return zt_fail(import->ctx, ZT_ENOTSUP,
                           "%sconfig.json: llama4 models with moe_layers that differ from interleave_moe_layer_step %g are not "
                           "supported",
                           import->folder.data, step);
    if (place == json_array_size(list)) return ZT_OK;
    return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: 'moe_layers' has %zu entries, expected %zu", import->folder.data,
                   json_array_size(list), place);
}

zt_status zt_hf_put_llama4(hf_import *import)
{
    layer_lists lists = {0};
    double layers = 0;
    zt_status status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK && layers > MAX_LAYERS)
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: too many layers: %g", import->folder.data, layers);
    lists.layers = (int64_t)layers;
    if (status == ZT_OK) status = read_rotated(import, &lists);
    if (status == ZT_OK) status = read_chunked(import, &lists);
    if (status == ZT_OK) status = check_sparse_layers(import, lists.layers);
    if (status == ZT_OK) status = put_layer_lists(import, &lists);
    if (status == ZT_OK) status = put_growth(import);
    return status == ZT_OK ? put_unit_norms(import) : status;
}

/* ---- export ---------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

zt_status zt_export_llama4(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    if (export->arch->id != HF_LLAMA4) return ZT_OK;
    json_t *types = json_array(), *rotated = json_array();
    for (int64_t layer = 0; types && rotated && layer < hyper->n_layers; layer++) {
        json_array_append_new(types, json_string(hyper->local[layer] ? "chunked_attention" : "full_attention"));
        json_array_append_new(rotated, json_integer(hyper->rotated[layer]));
    }
    zt_status status = set(export, "layer_types", types), other = set(export, "no_rope_layers", rotated);
    if (status == ZT_OK) status = other;
    if (status == ZT_OK)
        status = set(export, "attention_chunk_size", hyper->window > 0 ? json_integer(hyper->window) : json_null());
    if (status == ZT_OK) status = set(export, "attn_temperature_tuning", json_boolean(hyper->temperature != 0));
    if (status == ZT_OK && hyper->temperature != 0) status = set(export, "attn_scale", zt_export_number(hyper->temperature));
    if (status == ZT_OK) status = set(export, "floor_scale", json_integer(hyper->temper_length));
    return status == ZT_OK ? set(export, "use_qk_norm", json_boolean(hyper->unit_norms)) : status;
}
