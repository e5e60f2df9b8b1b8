/* hf_gemma.c - EmbeddingGemma's matrices behind the model; and what config.json says of Gemma 3n and Gemma 4, whose sizes differ by layer, read and written: which layers have
 * a window, lengths of heads and feed-forwards, key heads, layers that read another's cache, embeddings for each layer, and of
 * Gemma 3n several streams and how much of a feed-forward is cut off.
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/gemma.py), configuration_gemma3n.py and
 * configuration_gemma4.py of transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 4096 };

#define IS_4(import) zt_hf_is(import, HF_SET(HF_GEMMA4))

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status count_layers(const hf_import *import, int64_t *layers)
{
    double count = 0;
    zt_status status = zt_hf_value(import, "block_count", &count);
    if (status == ZT_OK && !(count >= 1 && count <= MAX_LAYERS))
        status =
            zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %g layers, expected 1 to %d", import->folder.data, count, MAX_LAYERS);
    *layers = (int64_t)count;
    return status;
}

static zt_status fail_list(const hf_import *import, const char *name, int64_t layers, const char *what)
{
    return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' is not a list of %lld %s, one for each layer", import->folder.data,
                   name, (long long)layers, what);
}

/* Which layers have a window: as listed; else all but each fifth (3n) or sixth (4). Gemma 4's last never has one. */
static zt_status find_windows(const hf_import *import, int64_t layers, uint8_t *windowed)
{
    const json_t *types = zt_hf_get(import, "layer_types");
    int64_t period = IS_4(import) ? 6 : 5;
    bool listed = json_is_array(types);
    if ((types && !json_is_null(types) && !listed) || (listed && (int64_t)json_array_size(types) != layers))
        return fail_list(import, "layer_types", layers, "words");
    for (int64_t layer = 0; layer < layers; layer++) {
        const char *word = listed ? json_string_value(json_array_get(types, (size_t)layer)) : NULL;
        windowed[layer] = listed ? word && strcmp(word, "sliding_attention") == 0 : (layer + 1) % period != 0;
        if (listed && !(word && (windowed[layer] || strcmp(word, "full_attention") == 0)))
            return zt_fail(import->ctx, ZT_ENOTSUP,
                           "%sconfig.json: layer_types other than full_attention and sliding_attention are not supported",
                           import->folder.data);
    }
    if (IS_4(import)) windowed[layers - 1] = 0;
    return ZT_OK;
}

static zt_status put_windows(hf_import *import, int64_t layers, const uint8_t *windowed)
{
    int64_t window = 512;
    zt_status status = zt_hf_int(import, "sliding_window", &window);
    if (status == ZT_OK) status = zt_hf_put_int(import, "attention.sliding_window", window);
    return status == ZT_OK ? zt_hf_put_flags(import, "attention.sliding_window_pattern", windowed, (size_t)layers) : status;
}

/* Layers that read the cache of an earlier one, the last ones. */
static zt_status count_shared(const hf_import *import, int64_t layers, int64_t *shared)
{
    *shared = IS_4(import) ? 0 : 15;
    zt_status status = zt_hf_int(import, "num_kv_shared_layers", shared);
    if (status == ZT_OK && *shared >= layers)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: num_kv_shared_layers is %lld, expected fewer than %lld layers",
                         import->folder.data, (long long)*shared, (long long)layers);
    return status;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* What the layers without a window say otherwise of a size, by transformers' per_layer_config, or by a name of its own. */
static zt_status read_global(const hf_import *import, const char *name, const char *own, double *value)
{
    const json_t *layers = zt_hf_get(import, "per_layer_config");
    const char *key;
    json_t *layer;
    json_object_foreach((json_t *)layers, key, layer)
    {
        zt_status status = zt_hf_number(import, json_object_get(layer, name), name, value);
        if (status != ZT_OK) return status;
    }
    return zt_hf_real(import, own, value);
}

zt_status zt_hf_gemma_heads(const hf_import *import, double *global, double *local)
{
    *global = 512;
    *local = 256;
    zt_status status = zt_hf_real(import, "head_dim", local);
    if (status == ZT_OK) status = read_global(import, "head_dim", "global_head_dim", global);
    if (status == ZT_OK && !(*global >= 1 && *local >= 1 && *global <= UINT32_MAX && *local <= UINT32_MAX))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: head_dim is %g and global_head_dim %g, expected at least 1",
                         import->folder.data, *local, *global);
    return status;
}

static zt_status put_heads(hf_import *import)
{
    double global, local;
    zt_status status = zt_hf_gemma_heads(import, &global, &local);
    const struct {
        const char *suffix;
        double value;
    } rows[] = {{"attention.key_length", global},      {"attention.value_length", global}, {"attention.key_length_swa", local},
                {"attention.value_length_swa", local}, {"rope.dimension_count", global},   {"rope.dimension_count_swa", local}};
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++)
        status = zt_hf_put_int(import, rows[i].suffix, (int64_t)rows[i].value);
    return status;
}

/* A list where layers without a window may have another number, which they have only with attention_k_eq_v. */
static zt_status put_key_heads(hf_import *import, int64_t layers, const uint8_t *windowed)
{
    double local = 4, global = NAN;
    int32_t heads[MAX_LAYERS];
    zt_status status = zt_hf_real(import, "num_key_value_heads", &local);
    if (status == ZT_OK) status = read_global(import, "num_key_value_heads", "num_global_key_value_heads", &global);
    if (status == ZT_OK && !(local >= 1 && local <= INT32_MAX && (isnan(global) || (global >= 1 && global <= INT32_MAX))))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %g key heads, and %g without a window, expected at least 1",
                         import->folder.data, local, global);
    if (status != ZT_OK || isnan(global))
        return status == ZT_OK ? zt_hf_put_int(import, "attention.head_count_kv", (int64_t)local) : status;
    if (!json_is_true(zt_hf_get(import, "attention_k_eq_v")) && global != local)
        return zt_fail(import->ctx, ZT_ENOTSUP,
                       "%sconfig.json: num_global_key_value_heads without attention_k_eq_v is not supported",
                       import->folder.data);
    for (int64_t layer = 0; layer < layers; layer++) heads[layer] = (int32_t)(windowed[layer] ? local : global);
    return zt_hf_put_ints(import, "attention.head_count_kv", heads, (size_t)layers);
}

/* Lengths of the feed-forward: of 3n a list, or one number; of 4 twice as long where a layer reads another's cache. */
static zt_status put_lengths(hf_import *import, int64_t layers, int64_t shared)
{
    const json_t *given = zt_hf_get(import, "intermediate_size");
    double length = IS_4(import) ? 9216 : 16384;
    int32_t lengths[MAX_LAYERS];
    bool twice = IS_4(import) && json_is_true(zt_hf_get(import, "use_double_wide_mlp")), listed = json_is_array(given);
    if (listed && (IS_4(import) || (int64_t)json_array_size(given) != layers))
        return fail_list(import, "intermediate_size", layers, "numbers");
    if (!listed && IS_4(import) && !twice) {
        int64_t one = (int64_t)length;
        zt_status status = zt_hf_int(import, "intermediate_size", &one);
        return status == ZT_OK ? zt_hf_put_int(import, "feed_forward_length", one) : status;
    }
    for (int64_t layer = 0; layer < layers; layer++) {
        zt_status status =
            zt_hf_number(import, listed ? json_array_get(given, (size_t)layer) : given, "intermediate_size", &length);
        if (status != ZT_OK) return status;
        double value = twice && layer >= layers - shared ? 2 * length : length;
        if (!(value >= 1 && value <= INT32_MAX))
            return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: intermediate_size is %g, expected at least 1",
                           import->folder.data, value);
        lengths[layer] = (int32_t)value;
    }
    return zt_hf_put_ints(import, "feed_forward_length", lengths, (size_t)layers);
}

/* ---- streams and activation sparsity of Gemma 3n --------------------------------------------- */

zt_status zt_hf_gemma_streams(const hf_import *import, double *others)
{
    int64_t streams = 4;
    zt_status status = zt_hf_int(import, "altup_num_inputs", &streams);
    *others = (double)streams - 1;
    if (status == ZT_OK && streams < 2)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: altup_num_inputs is %lld, expected at least 2",
                         import->folder.data, (long long)streams);
    return status;
}

/* The deviation below which a standard normal variable is with probability p: the root of erf by Newton's steps. */
static double normal_quantile(double p)
{
    const double root = 0.70710678118654752440, density = 0.39894228040143267794;
    double x = 0;
    if (p <= 0) return -INFINITY;
    for (int step = 0; step < 200; step++) {
        double error = 0.5 * erfc(-x * root) - p, slope = density * exp(-0.5 * x * x);
        double next = x - fmax(fmin(error / slope, 0.5), -0.5);
        if (next == x) break;
        x = next;
    }
    return x;
}

/* Bounds in deviations, of the share of the feed-forward that is cut off: as listed, or one for all. */
static zt_status put_cutoffs(hf_import *import, int64_t layers)
{
    const json_t *given = zt_hf_get(import, "activation_sparsity_pattern");
    float cutoff[MAX_LAYERS];
    bool listed = json_is_array(given);
    if (listed && (int64_t)json_array_size(given) != layers)
        return fail_list(import, "activation_sparsity_pattern", layers, "numbers");
    for (int64_t layer = 0; layer < layers; layer++) {
        /* where config.json is silent: ten layers of 35 or more, as published */
        double share = given && !json_is_null(given) ? 0 : layers > 10 && layer < 10 ? 0.95 : 0;
        zt_status status =
            zt_hf_number(import, listed ? json_array_get(given, (size_t)layer) : given, "activation_sparsity_pattern", &share);
        if (status != ZT_OK) return status;
        if (!(share >= 0 && share < 1))
            return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: activation_sparsity_pattern has %g, expected 0 to below 1",
                           import->folder.data, share);
        cutoff[layer] = (float)normal_quantile((double)(float)share);
    }
    return zt_hf_put_reals(import, "activation_sparsity_scale", cutoff, (size_t)layers);
}

static zt_status put_streams(hf_import *import, int64_t layers)
{
    double others;
    int64_t active = 0;
    zt_status status = zt_hf_gemma_streams(import, &others);
    if (status == ZT_OK) status = zt_hf_int(import, "altup_active_idx", &active);
    if (status == ZT_OK) status = zt_hf_put_int(import, "altup.active_idx", active);
    if (status == ZT_OK) status = zt_hf_put_int(import, "altup.num_inputs", (int64_t)others + 1);
    return status == ZT_OK ? put_cutoffs(import, layers) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* What zt does not run. */
static zt_status check_kind(const hf_import *import)
{
    const json_t *around = zt_hf_get(import, "use_bidirectional_attention");
    const char *word = json_string_value(around);
    if (!around || json_is_null(around) || (word && strcmp(word, "vision") == 0)) return ZT_OK;
    return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with use_bidirectional_attention '%s' are not supported",
                   import->folder.data, import->arch.name, word ? word : "?");
}

zt_status zt_hf_put_gemma(hf_import *import)
{
    int64_t layers = 0, shared = 0, per_layer = 256;
    uint8_t windowed[MAX_LAYERS];
    zt_status status = check_kind(import);
    if (status == ZT_OK) status = count_layers(import, &layers);
    if (status == ZT_OK) status = find_windows(import, layers, windowed);
    if (status == ZT_OK) status = put_windows(import, layers, windowed);
    if (status == ZT_OK) status = count_shared(import, layers, &shared);
    if (status == ZT_OK) status = zt_hf_put_int(import, "attention.shared_kv_layers", shared);
    if (status == ZT_OK) status = put_lengths(import, layers, shared);
    if (status == ZT_OK) status = zt_hf_int(import, "hidden_size_per_layer_input", &per_layer);
    bool none = json_is_null(zt_hf_get(import, "hidden_size_per_layer_input"));
    if (status == ZT_OK) status = zt_hf_put_int(import, "embedding_length_per_layer_input", none ? 0 : per_layer);
    if (status != ZT_OK || !IS_4(import)) return status == ZT_OK ? put_streams(import, layers) : status;
    status = put_key_heads(import, layers, windowed);
    return status == ZT_OK ? put_heads(import) : status;
}

/* ---- matrices behind EmbeddingGemma ----------------------------------------------------------- */

enum { MOST_MODULES = 2 };

static bool ends_in(const char *text, const char *word)
{
    size_t length = text ? strlen(text) : 0, word_length = strlen(word);
    return length >= word_length && strcmp(text + length - word_length, word) == 0;
}

static zt_status fail_module(const hf_import *import, const char *path, const char *what)
{
    char text[160];
    return zt_fail(import->ctx, ZT_ENOTSUP, "%smodules.json: the module '%s' %s", import->folder.data,
                   zt_escape(text, sizeof text, path, strlen(path)), what);
}

/* The matrix as f32, and its sizes as keys: module `number`, from 2. */
static zt_status add_matrix(hf_import *import, zt_checkpoint *weights, const char *path, int number)
{
    zt_entry entry;
    char name[32], key[40];
    int64_t index = zt_checkpoint_find(weights, "linear.weight");
    if (index < 0 || zt_checkpoint_count(weights) != 1) return fail_module(import, path, "has other tensors than linear.weight");
    zt_checkpoint_get(weights, index, &entry);
    const zt_dtype_info *dtype = entry.type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(entry.type.dtype) : NULL;
    size_t bytes = 0;
    if (entry.type.rank != 2 || !dtype || dtype->kind != 'F' || !dtype->decode ||
        !zt_type_check(import->ctx, &entry.type, &bytes))
        return fail_module(import, path, "has a linear.weight that is not a matrix of floating-point numbers");
    int64_t count = zt_type_count(&entry.type);
    char *raw = zt_alloc(import->ctx, bytes);
    float *values = zt_alloc_array(import->ctx, (size_t)count, sizeof *values);
    zt_status status = raw && values ? zt_checkpoint_read(weights, index, 0, raw, bytes) : ZT_ENOMEM;
    if (status == ZT_OK) {
        dtype->decode(raw, values, count);
        snprintf(name, sizeof name, "dense_%d.weight", number);
        hf_tensor tensor = {.name = name, .source = -1, .from = ZT_F32, .values = values};
        tensor.type = zt_type_make(ZT_F32, 2, entry.type.dim);
        status = zt_hf_tensors_add(import->tensors, &tensor);
    }
    zt_free(import->ctx, raw);
    zt_free(import->ctx, values);
    snprintf(key, sizeof key, "dense_%d_feat_in", number);
    if (status == ZT_OK) status = zt_hf_put_int(import, key, entry.type.dim[1]);
    snprintf(key, sizeof key, "dense_%d_feat_out", number);
    return status == ZT_OK ? zt_hf_put_int(import, key, entry.type.dim[0]) : status;
}

static zt_status add_module(hf_import *import, const char *path, int number)
{
    char file[300];
    zt_status status = ZT_OK;
    if (!path || !*path || *path == '.' || strpbrk(path, "/\\") || strlen(path) >= 256)
        return fail_module(import, path ? path : "", "has no folder");
    if (number >= 2 + MOST_MODULES) return fail_module(import, path, "is the third of its kind, expected at most two");
    snprintf(file, sizeof file, "%s/config.json", path);
    json_t *config = zt_hf_load(import, file, &status);
    const char *curve = json_string_value(json_object_get(config, "activation_function"));
    if (status == ZT_OK && (json_is_true(json_object_get(config, "bias")) || (curve && !ends_in(curve, ".Identity"))))
        status = fail_module(import, path, "has a bias or an activation function");
    json_decref(config);
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    if (status != ZT_OK) return status;
    const char *whole = zt_hf_file(import, file);
    zt_checkpoint *weights = whole ? zt_checkpoint_open(import->ctx, whole, 0) : NULL;
    status = weights ? add_matrix(import, weights, path, number) : zt_ctx_status(import->ctx);
    zt_checkpoint_close(weights);
    return status;
}

zt_status zt_hf_put_dense_modules(hf_import *import)
{
    zt_status status = ZT_OK;
    json_t *modules = zt_hf_load(import, "modules.json", &status), *module;
    size_t i;
    int number = 2;
    json_array_foreach(modules, i, module)
    {
        if (status != ZT_OK || !ends_in(json_string_value(json_object_get(module, "type")), ".Dense")) continue;
        status = add_module(import, json_string_value(json_object_get(module, "path")), number++);
    }
    json_decref(modules);
    return status;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

/* A list with a value for each layer. */
static zt_status set_list(hf_export *export, const char *name, json_t *(*value)(const zt_hyper *hyper, int64_t layer))
{
    json_t *list = json_array();
    for (int64_t layer = 0; list && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(list, value(&export->hyper, layer)) != 0) break;
    return set(export, name, list);
}

static json_t *layer_type(const zt_hyper *hyper, int64_t layer)
{
    return json_string(hyper->local[layer] ? "sliding_attention" : "full_attention");
}

static json_t *layer_length(const zt_hyper *hyper, int64_t layer) { return json_integer(hyper->layer[layer].ff); }

/* The share that a bound cuts off. */
static json_t *layer_sparsity(const zt_hyper *hyper, int64_t layer)
{
    return zt_export_number(0.5 * erfc(-hyper->layer[layer].cutoff * 0.70710678118654752440));
}

/* The layer without a window, or with one, that is the first; NULL: there is none. */
static const zt_layer_sizes *first_layer(const zt_hyper *hyper, bool windowed)
{
    for (int64_t layer = 0; layer < hyper->n_layers; layer++)
        if (hyper->local[layer] == windowed) return &hyper->layer[layer];
    return NULL;
}

static zt_status refuse(const hf_export *export, const char *what)
{
    return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have %s", export->file, export->arch->type, what);
}

/* Are sizes of the layers what transformers derives from few numbers? */
static zt_status check_layers(const hf_export *export, int64_t shared)
{
    const zt_hyper *hyper = &export->hyper;
    const zt_layer_sizes *first = hyper->layer;
    bool four = export->arch->id == HF_GEMMA4,
         twice = four && shared > 0 && hyper->layer[hyper->n_layers - 1].ff == 2 * first->ff;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        const zt_layer_sizes *sizes = &hyper->layer[layer], *alike = first_layer(hyper, hyper->local[layer]);
        bool wide = twice && layer >= hyper->n_layers - shared;
        if (sizes->n_heads != first->n_heads || sizes->n_kv_heads != alike->n_kv_heads)
            return refuse(export, "these numbers of heads");
        if (four && sizes->ff != (wide ? 2 : 1) * first->ff) return refuse(export, "these lengths of the feed-forward");
    }
    return four && hyper->local[hyper->n_layers - 1] ? refuse(export, "a last layer with a window") : ZT_OK;
}

/* With a window and without. */
static zt_status put_ropes(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    json_t *both = json_object(), *local = json_pack("{ss}", "rope_type", "default"), *global = json_object();
    float divisors[1 << 13];
    int64_t pairs = zt_export_values(export, "rope_freqs.weight", divisors, sizeof divisors / sizeof *divisors), turning = 0;
    while (turning < pairs && divisors[turning] == 1) turning++;
    bool proportional = export->arch->id == HF_GEMMA4;
    zt_status status = zt_export_set(export, both, "sliding_attention", local);
    if (status == ZT_OK) status = zt_export_set(export, both, "full_attention", global);
    if (status == ZT_OK) status = set(export, "rope_parameters", both);
    if (status == ZT_OK) status = zt_export_set(export, local, "rope_theta", zt_export_number(hyper->local_rope.theta));
    if (status == ZT_OK) status = zt_export_set(export, global, "rope_theta", zt_export_number(hyper->rope.theta));
    if (status == ZT_OK)
        status = zt_export_set(export, global, "rope_type", json_string(proportional ? "proportional" : "default"));
    for (int64_t i = turning; i < pairs && status == ZT_OK; i++)
        if (divisors[i] != ZT_HF_STILL) status = refuse(export, "these divisors in rope_freqs.weight");
    if (status != ZT_OK || !proportional) return status;
    return zt_export_set(export, global, "partial_rotary_factor", zt_export_number((double)turning / (double)hyper->rope_half));
}

static zt_status put_four(hf_export *export, int64_t shared)
{
    const zt_hyper *hyper = &export->hyper;
    const zt_layer_sizes *global = first_layer(hyper, false), *local = first_layer(hyper, true);
    char name[ZT_WEIGHT_NAME];
    int64_t layer = 0;
    if (!local) local = global;
    while (hyper->local[layer]) layer++;
    bool alike = zt_gguf_find(export->gguf, zt_weight_name(ZT_W_V, layer, name)) < 0 && hyper->layer[layer].cache == layer;
    bool experts = hyper->parts & ZT_PART_EXPERTS, twice = hyper->layer[hyper->n_layers - 1].ff != hyper->layer[0].ff;
    if (!alike && local->n_kv_heads != global->n_kv_heads) return refuse(export, "other key heads in layers without a window");
    const struct {
        const char *name;
        json_t *value;
    } rows[] = {
        {"head_dim", json_integer(local->head)},
        {"global_head_dim", json_integer(global->head)},
        {"num_key_value_heads", json_integer(local->n_kv_heads)},
        {"num_global_key_value_heads", alike ? json_integer(global->n_kv_heads) : json_null()},
        {"attention_k_eq_v", json_boolean(alike)},
        {"intermediate_size", json_integer(hyper->layer[0].ff)},
        {"use_double_wide_mlp", json_boolean(twice && shared > 0)},
        {"enable_moe_block", json_boolean(experts)},
        {"num_experts", experts ? json_integer(hyper->n_experts) : json_null()},
        {"top_k_experts", experts ? json_integer(hyper->experts_used) : json_null()},
        {"moe_intermediate_size", experts ? json_integer(hyper->expert_ff) : json_null()},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (status == ZT_OK)
            status = set(export, rows[i].name, rows[i].value);
        else
            json_decref(rows[i].value);
    }
    json_object_del(export->config, "num_experts_per_tok"); /* which the table of keys writes */
    return status;
}

static zt_status put_three(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    zt_status status = set_list(export, "intermediate_size", layer_length);
    if (status == ZT_OK) status = set_list(export, "activation_sparsity_pattern", layer_sparsity);
    if (status == ZT_OK) status = set(export, "altup_num_inputs", json_integer(hyper->streams));
    if (status == ZT_OK) status = set(export, "altup_active_idx", json_integer(hyper->active_stream));
    return status == ZT_OK ? set(export, "laurel_rank", json_integer(hyper->laurel_rank)) : status;
}

/* The matrix as NUMBER_Dense/model.safetensors, in f32. */
static zt_status put_matrix(hf_export *export, const char *tensor, const char *folder, const zt_type *type)
{
    char head[160], name[64];
    int64_t count = zt_type_count(type), handle;
    zt_type stored;
    zt_store store = zt_gguf_store(export->gguf);
    size_t bytes = (size_t)count * sizeof(float), raw_bytes = zt_type_bytes(type);
    int length = snprintf(head + 8, sizeof head - 8,
                          "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],\"data_offsets\":[0,%zu]}}",
                          (long long)type->dim[0], (long long)type->dim[1], bytes);
    while (length % 8) head[8 + length++] = ' ';
    for (int i = 0; i < 8; i++) head[i] = (char)((uint64_t)length >> 8 * i);
    zt_status status = store.find(store.user, tensor, &stored, &handle);
    char *file = zt_alloc(export->ctx, 8 + (size_t)length + bytes), *raw = zt_alloc(export->ctx, raw_bytes);
    float *values = zt_alloc_array(export->ctx, (size_t)count, sizeof *values);
    if (status == ZT_OK && !(file && raw && values)) status = ZT_ENOMEM;
    if (status == ZT_OK) status = store.read(store.user, handle, 0, raw, raw_bytes);
    if (status == ZT_OK) {
        zt_dtype_get(type->dtype)->decode(raw, values, count);
        memcpy(file, head, 8 + (size_t)length);
        memcpy(file + 8 + length, values, bytes);
        snprintf(name, sizeof name, "%s/model.safetensors", folder);
        status = zt_export_file(export, name, file, 8 + (size_t)length + bytes);
    }
    zt_free(export->ctx, values);
    zt_free(export->ctx, raw);
    zt_free(export->ctx, file);
    return status;
}

static zt_status put_module(hf_export *export, json_t *modules, int number, const char *tensor, const zt_type *type)
{
    char folder[16], name[64];
    snprintf(folder, sizeof folder, "%d_Dense", number);
    snprintf(name, sizeof name, "%s/config.json", folder);
    json_t *config = json_pack("{sIsIsbss}", "in_features", (json_int_t)type->dim[1], "out_features", (json_int_t)type->dim[0],
                               "bias", 0, "activation_function", "torch.nn.modules.linear.Identity");
    zt_status status = zt_export_folder(export, folder);
    if (status == ZT_OK) status = zt_export_json(export, name, config);
    json_decref(config);
    if (status == ZT_OK) status = put_matrix(export, tensor, folder, type);
    json_t *entry =
        json_pack("{sissssss}", "idx", number, "name", folder, "path", folder, "type", "sentence_transformers.models.Dense");
    if (status == ZT_OK && json_array_append(modules, entry) != 0) status = zt_fail(export->ctx, ZT_ENOMEM, "out of memory");
    json_decref(entry);
    return status;
}

zt_status zt_export_dense_modules(hf_export *export, json_t *modules)
{
    static const char *const tensors[] = {"dense_2.weight", "dense_3.weight"};
    zt_status status = ZT_OK;
    for (int i = 0; i < MOST_MODULES && status == ZT_OK; i++) {
        zt_type type;
        int64_t index = zt_gguf_find(export->gguf, tensors[i]);
        if (index < 0) continue;
        zt_gguf_tensor(export->gguf, index, &type, NULL, NULL);
        status = put_module(export, modules, 2 + i, tensors[i], &type);
    }
    return status;
}

/* Without a pooling_type there is no modules.json to name the matrices in. */
static zt_status put_around(hf_export *export)
{
    int64_t type = 0;
    if (export->hyper.dense_2 && (!zt_export_int(export, "pooling_type", &type) || type < 1))
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: tensor 'dense_2.weight' cannot be written without a pooling_type",
                       export->file);
    return set(export, "use_bidirectional_attention", json_true());
}

zt_status zt_export_gemma(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    int64_t shared = 0;
    if (export->arch->id == HF_GEMMA_EMBEDDING) return put_around(export);
    if (!(HF_LAYERED & HF_SET(export->arch->id))) return ZT_OK;
    while (hyper->layer[hyper->n_layers - 1 - shared].cache != hyper->n_layers - 1 - shared) shared++;
    zt_status status = check_layers(export, shared);
    if (status == ZT_OK) status = set_list(export, "layer_types", layer_type);
    if (status == ZT_OK) status = set(export, "num_kv_shared_layers", json_integer(shared));
    if (status == ZT_OK) status = set(export, "sliding_window", json_integer(hyper->window));
    if (status == ZT_OK) status = set(export, "hidden_size_per_layer_input", json_integer(hyper->per_layer));
    if (status == ZT_OK) status = set(export, "vocab_size_per_layer_input", json_integer(hyper->vocab));
    if (status == ZT_OK) status = put_ropes(export);
    if (status != ZT_OK) return status;
    return export->arch->id == HF_GEMMA4 ? put_four(export, shared) : put_three(export);
}
