/* hf_delta.c - gated delta nets (Qwen3-Next, Qwen3.5), read and written: lengths, which layers are recurrent, layers that predict further
 * tokens, and matrices whose rows GGUF has in another order.
 *
 * Value heads belong to key heads: there are `each` of them for each of G. The source has those of a key head together; GGUF
 * has them so for qwen3next, and for qwen35 the first of each key head, then the second of each, and so on.
 *
 *     qwen3next   in_proj_qkvz   of each key head the rows of q, of k, of its values, of their gates; GGUF: attn_qkv has all q, all
 *                                k, all values, attn_gate the gates
 *     qwen35      in_proj_qkv    q, k, values; the rows of values change places, as those of in_proj_z, in_proj_a and in_proj_b,
 *                                A_log, dt_bias and conv1d and the columns of out_proj do
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/qwen.py), configuration_qwen3_next.py, configuration_qwen3_5.py
 * of transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lengths --------------------------------------------------------------------------------- */

typedef struct delta_lengths {
    int64_t key_heads, heads, key, value, filter;
} delta_lengths;

enum { MOST_LENGTH = 1 << 24 };

static zt_status read_lengths(const hf_import *import, delta_lengths *lengths)
{
    *lengths = (delta_lengths){.key_heads = 16, .heads = 32, .key = 128, .value = 128, .filter = 4};
    const struct {
        const char *name;
        int64_t *length;
    } rows[] = {{"linear_num_key_heads", &lengths->key_heads},
                {"linear_num_value_heads", &lengths->heads},
                {"linear_key_head_dim", &lengths->key},
                {"linear_value_head_dim", &lengths->value},
                {"linear_conv_kernel_dim", &lengths->filter}};
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ZT_OK; i++) {
        status = zt_hf_int(import, rows[i].name, rows[i].length);
        if (status == ZT_OK && (*rows[i].length < 1 || *rows[i].length > MOST_LENGTH))
            status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' is %" PRId64 ", expected 1 to %d", import->folder.data,
                             rows[i].name, *rows[i].length, MOST_LENGTH);
    }
    if (status == ZT_OK && lengths->heads % lengths->key_heads != 0)
        status = zt_fail(import->ctx, ZT_EDATA,
                         "%sconfig.json: linear_num_value_heads %" PRId64 " is not a multiple of linear_num_key_heads %" PRId64,
                         import->folder.data, lengths->heads, lengths->key_heads);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* "mtp.layers.2.input_layernorm.weight": behind "mtp."; NULL: another name. */
static const char *behind_mtp(const char *name)
{
    if (strncmp(name, "model.", 6) == 0) name += 6;
    return strncmp(name, "mtp.", 4) == 0 ? name + 4 : NULL;
}

zt_status zt_hf_further_layers(const hf_import *import, int64_t *count)
{
    zt_status status = zt_hf_int(import, "mtp_num_hidden_layers", count);
    if (status != ZT_OK || *count > 0 || !import->tensors || !import->tensors->from) return status;
    for (int64_t i = 0; i < zt_checkpoint_count(import->tensors->from); i++) { /* Qwen3-Next does not say it */
        zt_entry entry;
        zt_checkpoint_get(import->tensors->from, i, &entry);
        const char *rest = behind_mtp(entry.name);
        if (!rest || strncmp(rest, "layers.", 7) != 0) continue;
        int64_t number = strtol(rest + 7, NULL, 10);
        if (number >= *count && number < MOST_FURTHER) *count = number + 1;
    }
    return ZT_OK;
}

zt_status zt_hf_name_further(const hf_import *import, const char *name, char *out, size_t size)
{
    static const char *const names[][2] = {{"fc.", "eh_proj."},
                                           {"pre_fc_norm_embedding.", "enorm."},
                                           {"pre_fc_norm_hidden.", "hnorm."},
                                           {"norm.", "shared_head.norm."}};
    double layers = 0;
    const char *rest = behind_mtp(name);
    snprintf(out, size, "%s", name);
    if (!rest) return ZT_OK;
    zt_status status = zt_hf_value(import, "block_count", &layers);
    if (strncmp(rest, "layers.", 7) == 0) {
        char *end;
        long number = strtol(rest + 7, &end, 10);
        snprintf(out, size, "model.layers.%lld%s", (long long)layers + (number < MOST_FURTHER ? number : MOST_FURTHER), end);
        return status;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(rest, names[i][0], strlen(names[i][0])) == 0)
            snprintf(out, size, "model.layers.%lld.%s%s", (long long)layers, names[i][1], rest + strlen(names[i][0]));
    return status;
}

/* Which layers are recurrent: as listed, or all but the last of every `interval`; none behind the last. */
static zt_status put_kinds(hf_import *import, int64_t layers, int64_t further, int64_t interval)
{
    enum { MOST_LAYERS = 4096 };
    uint8_t flag[MOST_LAYERS] = {0};
    const json_t *types = zt_hf_get(import, "layer_types");
    if (layers + further > MOST_LAYERS || (types && (int64_t)json_array_size(types) != layers))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %" PRId64 " layers, and layer_types has %zu", import->folder.data,
                       layers + further, json_array_size(types));
    for (int64_t i = 0; i < layers; i++) {
        const char *type = types ? json_string_value(json_array_get(types, (size_t)i)) : "";
        flag[i] = types ? type && strcmp(type, "linear_attention") == 0 : (i + 1) % interval != 0;
        if (types && (!type || (!flag[i] && strcmp(type, "full_attention") != 0)))
            return zt_fail(import->ctx, ZT_ENOTSUP,
                           "%sconfig.json: layer_types other than full_attention and linear_attention are not supported",
                           import->folder.data);
    }
    return zt_hf_put_flags(import, "attention.recurrent_layers", flag, (size_t)(layers + further));
}

/* Columns of a head that rotate: a quarter, where config.json says nothing; and how images divide them, which text does not. */
static zt_status put_rope(hf_import *import)
{
    const json_t *rope = zt_hf_get(import, "rope_parameters|rope_scaling"),
                 *part = json_object_get(rope, "partial_rotary_factor");
    const json_t *sections = json_object_get(rope, "mrope_section");
    double share = 0.25, head = 0;
    int32_t section[4] = {11, 11, 10, 0};
    char key[128];
    zt_status status =
        zt_hf_number(import, part ? part : zt_hf_get(import, "partial_rotary_factor"), "partial_rotary_factor", &share);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.key_length", &head);
    if (status == ZT_OK && !(share > 0 && share <= 1))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: partial_rotary_factor is %g, expected above 0 and at most 1",
                         import->folder.data, share);
    if (status == ZT_OK) status = zt_hf_put_int(import, "rope.dimension_count", (int64_t)(share * head));
    if (status != ZT_OK || !zt_hf_is(import, HF_QWEN35S)) return status;
    for (size_t i = 0; sections && i < 4; i++) section[i] = (int32_t)json_integer_value(json_array_get(sections, i));
    snprintf(key, sizeof key, "%s.rope.dimension_sections", import->arch.name);
    return zt_gguf_put_array(import->writer, key, ZT_GGUF_I32, section, 4);
}

zt_status zt_hf_put_delta(hf_import *import)
{
    delta_lengths lengths;
    double layers = 0;
    int64_t further = 0, interval = 4;
    zt_status status = read_lengths(import, &lengths);
    if (status == ZT_OK) status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK) status = zt_hf_further_layers(import, &further);
    if (status == ZT_OK) status = zt_hf_int(import, "full_attention_interval", &interval);
    if (status == ZT_OK && interval < 1)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: full_attention_interval is 0, expected at least 1",
                         import->folder.data);
    if (status == ZT_OK) status = put_kinds(import, (int64_t)layers, further, interval);
    if (status == ZT_OK) status = put_rope(import);
    const struct {
        const char *suffix;
        int64_t value;
    } keys[] = {{"ssm.conv_kernel", lengths.filter},
                {"ssm.state_size", lengths.key},
                {"ssm.group_count", lengths.key_heads},
                {"ssm.time_step_rank", lengths.heads},
                {"ssm.inner_size", lengths.value * lengths.heads},
                /* transformers' class of Qwen3.5 does not keep it, and so the converter writes the usual one */
                {"full_attention_interval", zt_hf_is(import, HF_QWEN35S) ? 4 : interval},
                {"nextn_predict_layers", further}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == ZT_OK; i++)
        if (keys[i].value > 0) status = zt_hf_put_int(import, keys[i].suffix, keys[i].value);
    return status;
}

/* ---- rows in another order ------------------------------------------------------------------- */

/* The source's place of a value's row or column: GGUF has head g of turn j at j G + g, the source at g each + j. */
static int64_t value_place(const hf_delta_order *order, int64_t place)
{
    int64_t head = place / order->value, within = place % order->value;
    return (head % order->key_heads * order->each + head / order->key_heads) * order->value + within;
}

int64_t zt_hf_delta_place(const hf_delta_order *order, int64_t place)
{
    int64_t keys = order->key_heads * order->key, block = 2 * order->key + 2 * order->each * order->value;
    int64_t values = order->each * order->value;
    switch (order->part) {
    case HF_DELTA_QKV: return place < 2 * keys ? place : 2 * keys + value_place(order, place - 2 * keys);
    case HF_DELTA_VALUES:
    case HF_DELTA_COLUMNS: return value_place(order, place);
    case HF_DELTA_NEXT_QKV:
        if (place < 2 * keys) return place % keys / order->key * block + place / keys * order->key + place % order->key;
        return (place - 2 * keys) / values * block + 2 * order->key + (place - 2 * keys) % values;
    case HF_DELTA_NEXT_GATE: return place / values * block + 2 * order->key + values + place % values;
    }
    return place;
}

static zt_status refuse_shape(const hf_import *import, const char *name, const zt_type *type)
{
    char text[ZT_TYPE_TEXT];
    return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, which does not fit config.json", import->path, name,
                   zt_type_text(type, text));
}

/* What GGUF has of A_log: -exp. */
static zt_status add_rates(hf_import *import, hf_tensor *tensor, const hf_delta_order *order)
{
    int64_t count = tensor->type.dim[0];
    size_t element = (size_t)zt_dtype_get(tensor->from)->block_bytes;
    char *raw = zt_alloc_array(import->ctx, (size_t)count, element);
    float *logs = zt_alloc_array(import->ctx, (size_t)count, sizeof *logs),
          *values = zt_alloc_array(import->ctx, (size_t)count, sizeof *values);
    zt_status status = raw && logs && values
                           ? zt_checkpoint_read(import->tensors->from, tensor->source, 0, raw, (size_t)count * element)
                           : ZT_ENOMEM;
    if (status == ZT_OK) {
        zt_dtype_get(tensor->from)->decode(raw, logs, count);
        for (int64_t i = 0; i < count; i++) values[i] = (float)-exp((double)logs[order ? zt_hf_delta_place(order, i) : i]);
        tensor->type.dtype = ZT_F32;
        tensor->values = values;
        status = zt_hf_tensors_add(import->tensors, tensor);
    }
    zt_free(import->ctx, raw);
    zt_free(import->ctx, logs);
    zt_free(import->ctx, values);
    return status;
}

/* Sets the order of the tensor's rows, or columns; `length` of them must there be. */
static zt_status set_order(hf_import *import, hf_tensor *tensor, const delta_lengths *lengths, hf_delta_part part, int64_t value,
                           int64_t length)
{
    int axis = part == HF_DELTA_COLUMNS ? tensor->type.rank - 1 : 0;
    if (tensor->type.rank < 1 || tensor->type.dim[axis] != length) return refuse_shape(import, tensor->name, &tensor->type);
    hf_delta_order *order = zt_arena_alloc(import->tensors->arena, sizeof *order);
    if (!order) return ZT_ENOMEM;
    *order = (hf_delta_order){part, lengths->key_heads, lengths->heads / lengths->key_heads, lengths->key, value};
    tensor->order = order;
    return ZT_OK;
}

/* qwen3next's matrix of q, k, values and gates, as two. */
static zt_status add_next(hf_import *import, hf_tensor *tensor, const delta_lengths *lengths)
{
    char gate[ZT_HF_NAME];
    int64_t keys = lengths->key_heads * lengths->key, values = lengths->heads * lengths->value;
    zt_status status = set_order(import, tensor, lengths, HF_DELTA_NEXT_QKV, lengths->value, 2 * keys + 2 * values);
    if (status == ZT_OK && tensor->type.rank != 2) status = refuse_shape(import, tensor->name, &tensor->type);
    if (status != ZT_OK) return status;
    tensor->type.dim[0] = 2 * keys + values;
    status = zt_hf_tensors_add(import->tensors, tensor);
    snprintf(gate, sizeof gate, "%s", tensor->name);
    char *what = strstr(gate, "attn_qkv");
    if (status != ZT_OK || !what) return status;
    snprintf(what, sizeof gate - (size_t)(what - gate), "attn_gate.weight");
    tensor->name = gate;
    tensor->type.dim[0] = 2 * keys + 2 * values;
    status = set_order(import, tensor, lengths, HF_DELTA_NEXT_GATE, lengths->value, 2 * keys + 2 * values);
    tensor->type.dim[0] = values;
    return status == ZT_OK ? zt_hf_tensors_add(import->tensors, tensor) : status;
}

zt_status zt_hf_add_delta(hf_import *import, hf_tensor *tensor)
{
    delta_lengths lengths;
    char name[ZT_HF_NAME];
    const char *what = strchr(tensor->name + 4, '.');
    zt_status status = read_lengths(import, &lengths);
    if (status != ZT_OK) return status;
    int64_t keys = lengths.key_heads * lengths.key, values = lengths.heads * lengths.value;
    bool next = !zt_hf_is(import, HF_QWEN35S), turned = !next && lengths.heads != lengths.key_heads;
    if (next && strcmp(what, ".attn_qkv.weight") == 0) return add_next(import, tensor, &lengths);
    if (strcmp(what, ".ssm_conv1d.weight") == 0) {
        if (tensor->type.rank == 3 && tensor->type.dim[1] == 1)
            tensor->type = zt_type_make(ZT_F32, 2, (int64_t[]){tensor->type.dim[0], tensor->type.dim[2]});
        if (turned) status = set_order(import, tensor, &lengths, HF_DELTA_QKV, lengths.value, 2 * keys + values);
    } else if (strcmp(what, ".attn_qkv.weight") == 0) {
        if (turned) status = set_order(import, tensor, &lengths, HF_DELTA_QKV, lengths.value, 2 * keys + values);
    } else if (strcmp(what, ".attn_gate.weight") == 0) {
        if (turned) status = set_order(import, tensor, &lengths, HF_DELTA_VALUES, lengths.value, values);
    } else if (strcmp(what, ".ssm_out.weight") == 0) {
        if (turned) status = set_order(import, tensor, &lengths, HF_DELTA_COLUMNS, lengths.value, values);
    } else if (turned) { /* one row for each head */
        status = set_order(import, tensor, &lengths, HF_DELTA_VALUES, 1, lengths.heads);
    }
    if (status != ZT_OK) return status;
    if (strcmp(what, ".ssm_a.weight") != 0) return zt_hf_tensors_add(import->tensors, tensor);
    snprintf(name, sizeof name, "%.*s", (int)(strlen(tensor->name) - strlen(".weight")), tensor->name);
    tensor->name = name;
    if (tensor->type.rank != 1) return refuse_shape(import, name, &tensor->type);
    const hf_delta_order *order = tensor->order;
    tensor->order = NULL;
    return add_rates(import, tensor, order);
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool is_of(const hf_export *export, hf_set archs) { return archs & HF_SET(export->arch->id); }

static zt_status set_kinds(hf_export *export)
{
    json_t *types = json_array();
    for (int64_t layer = 0; types && layer < export->hyper.n_layers; layer++) {
        bool recurrent = export->hyper.layer[layer].kind != ZT_LAYER_ATTENTION;
        if (json_array_append_new(types, json_string(recurrent ? "linear_attention" : "full_attention")) != 0) break;
    }
    return set(export, "layer_types", types);
}

/* Of Qwen3.5 all of rope is one object; of Qwen3-Next two numbers. */
static zt_status set_rope(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    int64_t section[4] = {11, 11, 10, 0};
    char key[128];
    json_t *share = json_real((double)hyper->rope_dims / (double)hyper->head),
           *rope = json_object_get(export->config, "rope_scaling");
    if (!is_of(export, HF_QWEN35S)) return set(export, "partial_rotary_factor", share);
    rope = json_is_object(rope) ? json_deep_copy(rope) : json_pack("{ss}", "rope_type", "default");
    zt_gguf_array_i64(export->gguf, zt_export_key(export, "rope.dimension_sections", key), section, 4);
    zt_status status = zt_export_set(export, rope, "partial_rotary_factor", share);
    if (status == ZT_OK) status = zt_export_set(export, rope, "rope_theta", zt_export_number(hyper->rope.theta));
    if (status == ZT_OK) status = zt_export_set(export, rope, "mrope_interleaved", json_true());
    json_t *sections = json_array();
    for (int i = 0; sections && i < (section[3] ? 4 : 3); i++) json_array_append_new(sections, json_integer(section[i]));
    if (status == ZT_OK) status = zt_export_set(export, rope, "mrope_section", sections);
    json_object_del(export->config, "rope_scaling");
    json_object_del(export->config, "rope_theta");
    return status == ZT_OK ? set(export, "rope_parameters", rope) : status;
}

zt_status zt_export_delta(hf_export *export)
{
    const zt_delta_sizes *sizes = &export->hyper.delta;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"linear_num_key_heads", sizes->key_heads},
                {"linear_num_value_heads", sizes->heads},
                {"linear_key_head_dim", sizes->key},
                {"linear_value_head_dim", sizes->value},
                {"linear_conv_kernel_dim", sizes->filter},
                {"num_hidden_layers", export->hyper.n_layers},
                {"mtp_num_hidden_layers", export->hyper.extra_layers}};
    int64_t interval = 4;
    if (!is_of(export, HF_DELTAS)) return ZT_OK;
    zt_export_int(export, "full_attention_interval", &interval);
    zt_status status = set(export, "full_attention_interval", json_integer(interval));
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ZT_OK; i++)
        status = set(export, rows[i].name, json_integer(rows[i].value));
    if (status == ZT_OK) status = set_kinds(export);
    return status == ZT_OK ? set_rope(export) : status;
}

/* "model.layers.4.self_attn.q_proj.weight" of four layers: "mtp.layers.0.self_attn.q_proj.weight". */
zt_status zt_export_name_further(const hf_export *export, zt_str *name)
{
    static const char *const names[][2] = {{"eh_proj.", "fc."},
                                           {"enorm.", "pre_fc_norm_embedding."},
                                           {"hnorm.", "pre_fc_norm_hidden."},
                                           {"shared_head.norm.", "norm."}};
    size_t prefix = strlen(export->arch->layers);
    char *rest, whole[200];
    if (!is_of(export, HF_DELTAS) || strncmp(name->data, export->arch->layers, prefix) != 0) return ZT_OK;
    long layer = strtol(name->data + prefix, &rest, 10);
    if (layer < export->hyper.n_layers || *rest != '.') return ZT_OK;
    snprintf(whole, sizeof whole, "mtp.layers.%lld%s", (long long)(layer - export->hyper.n_layers), rest);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(rest + 1, names[i][0], strlen(names[i][0])) == 0)
            snprintf(whole, sizeof whole, "mtp.%s%s", names[i][1], rest + 1 + strlen(names[i][0]));
    zt_str_clear(name);
    return zt_str_puts(name, whole);
}

/* The place in GGUF of a value's row or column there. */
static int64_t stored_value(const hf_delta_order *order, int64_t place)
{
    int64_t head = place / order->value, within = place % order->value;
    return (head % order->each * order->key_heads + head / order->each) * order->value + within;
}

int64_t zt_export_delta_place(const hf_delta_order *order, int64_t place, bool *gate)
{
    int64_t keys = order->key_heads * order->key, values = order->each * order->value, block = 2 * order->key + 2 * values;
    int64_t head = place / block, within = place % block;
    *gate = false;
    switch (order->part) {
    case HF_DELTA_QKV: return place < 2 * keys ? place : 2 * keys + stored_value(order, place - 2 * keys);
    case HF_DELTA_VALUES:
    case HF_DELTA_COLUMNS: return stored_value(order, place);
    case HF_DELTA_NEXT_QKV:
    case HF_DELTA_NEXT_GATE: break;
    }
    if (within < 2 * order->key) return within / order->key * keys + head * order->key + within % order->key;
    *gate = within >= 2 * order->key + values;
    return head * values + (*gate ? within - 2 * order->key - values : 2 * keys + within - 2 * order->key);
}

/* The order of a tensor that is named HF_DELTA; false: all stays in place. */
bool zt_export_delta_order(const hf_export *export, const char *gguf, hf_delta_order *order)
{
    const zt_delta_sizes *sizes = &export->hyper.delta;
    const char *what = strchr(gguf + 4, '.');
    bool next = export->arch->id == HF_QWEN3NEXT, qkv = what && strcmp(what, ".attn_qkv.weight") == 0;
    *order = (hf_delta_order){HF_DELTA_VALUES, sizes->key_heads, sizes->heads / sizes->key_heads, sizes->key, sizes->value};
    if (next && qkv) order->part = HF_DELTA_NEXT_QKV;
    if (!what || next) return what && qkv;
    if (qkv || strcmp(what, ".ssm_conv1d.weight") == 0)
        order->part = HF_DELTA_QKV;
    else if (strcmp(what, ".ssm_out.weight") == 0)
        order->part = HF_DELTA_COLUMNS;
    else if (strcmp(what, ".attn_gate.weight") != 0)
        order->value = 1; /* one row for each head */
    return sizes->heads != sizes->key_heads;
}

/* The f32 whose -exp is the rate, or comes nearest. */
float zt_export_rate(float rate)
{
    float near = (float)log(-(double)rate), found = near;
    for (int i = -2; i <= 2; i++) {
        float other = near;
        for (int step = 0; step < abs(i); step++) other = nextafterf(other, i < 0 ? -INFINITY : INFINITY);
        if ((float)-exp((double)other) == rate) found = other;
    }
    return found;
}
