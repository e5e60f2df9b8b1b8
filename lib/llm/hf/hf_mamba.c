/* hf_mamba.c - short convolutions (LFM2) and state-space layers (Mamba, Mamba 2, and hybrids of these with attention), read:
 * lengths, which layers are of which kind, and tensors that GGUF has in another shape, with other values or under a name
 * without ".weight".
 *
 *     conv1d      [C,1,K]    GGUF: [C,K]
 *     A_log       logarithms of -A; of Mamba 2 GGUF has a column
 *     D           of Mamba 2 GGUF has a column
 *     norm        of Mamba 2: GGUF has a row for each group
 *
 * Falcon-H1 multiplies by numbers of config.json: in GGUF they are in the matrices.
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/lfm2.py, mamba.py, falcon_h1.py, granite.py, nemotron.py),
 * configuration_*.py of transformers; as facts.
 */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 4096, ANY_CONTEXT = 1 << 20, SIGMOID = 2 };
static const int64_t most_length = 1 << 24;

/* ---- lengths --------------------------------------------------------------------------------- */

typedef struct scan_lengths {
    int64_t inner, heads, head, groups, numbers, filter;
    int64_t rank; /* of the steps of Mamba */
} scan_lengths;

typedef struct length_row {
    const char *name;
    int64_t *length;
} length_row;

static zt_status read_rows(const hf_import *import, const length_row *rows, size_t count)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < count && status == ZT_OK; i++) {
        status = zt_hf_int(import, rows[i].name, rows[i].length);
        if (status == ZT_OK && (*rows[i].length < 1 || *rows[i].length > most_length))
            status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' is %" PRId64 ", expected 1 to %" PRId64,
                             import->folder.data, rows[i].name, *rows[i].length, most_length);
    }
    return status;
}

/* Channels are width times expand, or heads times their length. */
static zt_status read_lengths(const hf_import *import, scan_lengths *to)
{
    double width = 0;
    int64_t expand = 2;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status != ZT_OK) return status;
    *to = (scan_lengths){.groups = 1, .head = 64, .numbers = 128, .filter = 4};
    const json_t *head = zt_hf_get(import, "mamba_d_head");
    const bool no_head = import->arch.id == HF_BAMBA && (!head || json_is_string(head)); /* "auto" */
    const length_row mamba[] = {{"expand", &expand}, {"state_size|d_state", &to->numbers}, {"conv_kernel|d_conv", &to->filter}};
    const length_row heads[] = {{"num_heads", &to->heads}, {"head_dim", &to->head}, {"n_groups", &to->groups}};
    const length_row mixed[] = {
        {"mamba_expand", &expand},       {"mamba_n_heads", &to->heads}, {no_head ? "" : "mamba_d_head", &to->head},
        {"mamba_d_state", &to->numbers}, {"mamba_d_conv", &to->filter}, {"mamba_n_groups", &to->groups}};
    const length_row nemotron[] = {{"mamba_num_heads", &to->heads},
                                   {"mamba_head_dim", &to->head},
                                   {"ssm_state_size", &to->numbers},
                                   {"conv_kernel", &to->filter},
                                   {"n_groups", &to->groups}};
    const bool first = import->arch.id == HF_MAMBA, second = import->arch.id == HF_MAMBA2;
    if (first) to->numbers = 16;
    const bool nemotrons = zt_hf_is(import, HF_NEMOTRONS), bamba = import->arch.id == HF_BAMBA;
    to->groups = second || nemotrons ? 8 : 1;
    if (bamba) to->numbers = 256;
    to->heads = 128;
    if (zt_hf_is(import, HF_MAMBAS)) status = read_rows(import, mamba, sizeof mamba / sizeof *mamba);
    if (status == ZT_OK && second) status = read_rows(import, heads, sizeof heads / sizeof *heads);
    if (zt_hf_is(import, HF_HYBRIDS | HF_SET(HF_FALCON_H1) | HF_SET(HF_BAMBA)))
        status = read_rows(import, mixed, sizeof mixed / sizeof *mixed);
    if (nemotrons) status = read_rows(import, nemotron, sizeof nemotron / sizeof *nemotron);
    if (status != ZT_OK) return status;
    if (no_head) to->head = expand * (int64_t)width / to->heads;
    to->inner = zt_hf_is(import, HF_MAMBAS) ? expand * (int64_t)width : to->heads * to->head;
    to->rank = (int64_t)ceil(width / 16);
    const length_row others[] = {{"intermediate_size|d_inner", &to->inner}, {"time_step_rank|dt_rank", &to->rank}};
    return first ? read_rows(import, others, 2) : ZT_OK;
}

static zt_status put_bool(hf_import *import, const char *suffix, bool value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", import->arch.name, suffix);
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, value);
}

static zt_status put_lengths(hf_import *import, const scan_lengths *of)
{
    const bool first = import->arch.id == HF_MAMBA;
    const struct {
        const char *suffix;
        int64_t value;
    } keys[] = {{"ssm.conv_kernel", of->filter},
                {"ssm.inner_size", of->inner},
                {"ssm.state_size", of->numbers},
                {"ssm.time_step_rank", first ? of->rank : of->heads},
                {"ssm.group_count", first ? 0 : of->groups}};
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == ZT_OK; i++)
        if (keys[i].value > 0) status = zt_hf_put_int(import, keys[i].suffix, keys[i].value);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

typedef enum layer_word { WORD_ATTENTION, WORD_RECURRENT, WORD_FEED_FORWARD, WORD_EXPERTS, WORD_UNKNOWN } layer_word;

static layer_word word_of(const char *word)
{
    static const struct {
        const char *word;
        layer_word kind;
    } words[] = {{"full_attention", WORD_ATTENTION},
                 {"attention", WORD_ATTENTION},
                 {"*", WORD_ATTENTION},
                 {"conv", WORD_RECURRENT},
                 {"mamba", WORD_RECURRENT},
                 {"linear_attention", WORD_RECURRENT},
                 {"M", WORD_RECURRENT},
                 {"moe", WORD_EXPERTS},
                 {"E", WORD_EXPERTS},
                 {"mlp", WORD_FEED_FORWARD},
                 {"-", WORD_FEED_FORWARD}};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0) return words[i].kind;
    return WORD_UNKNOWN;
}

/* The kind of layer i: of a list of words, or of a text with a letter for each. */
static layer_word kind_at(const json_t *types, size_t i)
{
    const char *text = json_string_value(types);
    if (!text) return word_of(json_string_value(json_array_get(types, i)));
    return i < strlen(text) ? word_of((const char[]){text[i], 0}) : WORD_UNKNOWN;
}

/* Bamba's attn_layer_indices as a word for each layer. */
static json_t *list_kinds(const hf_import *import, double layers)
{
    const json_t *indices = zt_hf_get(import, "attn_layer_indices");
    json_t *list = layers <= MOST_LAYERS ? json_array() : NULL;
    for (int64_t layer = 0; list && layer < (int64_t)layers; layer++) {
        bool attends = false;
        for (size_t i = 0; i < json_array_size(indices); i++)
            attends = attends || json_integer_value(json_array_get(indices, i)) == layer;
        json_array_append_new(list, json_string(attends ? "attention" : "mamba"));
    }
    return list;
}

/* Heads of keys of each layer, 0 where there is no attention; and lengths of the feed-forward, where only some layers have one. */
static zt_status put_kinds(hf_import *import)
{
    int32_t heads[MOST_LAYERS], length[MOST_LAYERS];
    double layers = 0;
    int64_t key_heads = 8, ff = 0;
    json_t *listed = NULL;
    char key[128];
    const bool sole = zt_hf_is(import, HF_NEMOTRONS), sparse = import->arch.id == HF_NEMOTRON_H_MOE;
    const json_t *types = zt_hf_get(import, sole ? "hybrid_override_pattern|layers_block_type|layer_types" : "layer_types");
    zt_status status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK) status = zt_hf_int(import, "num_key_value_heads", &key_heads);
    if (status == ZT_OK) status = zt_hf_int(import, sparse ? "moe_intermediate_size" : "intermediate_size", &ff);
    if (status != ZT_OK) return status;
    if (import->arch.id == HF_BAMBA) types = listed = list_kinds(import, layers);
    size_t count = json_is_string(types) ? strlen(json_string_value(types)) : json_array_size(types);
    if (layers > MOST_LAYERS || (double)count != layers || key_heads > INT32_MAX || ff > INT32_MAX) {
        json_decref(listed);
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %g layers, and their kinds are a list of %zu", import->folder.data,
                       layers, count);
    }
    for (size_t i = 0; i < count; i++) {
        layer_word kind = kind_at(types, i), fed = sparse ? WORD_EXPERTS : WORD_FEED_FORWARD;
        if (kind != WORD_ATTENTION && kind != WORD_RECURRENT && !(kind == fed && sole))
            return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with a layer %zu of this kind are not supported",
                           import->folder.data, import->arch.name, i);
        heads[i] = kind == WORD_ATTENTION ? (int32_t)key_heads : 0;
        length[i] = kind == fed ? (int32_t)ff : 0;
    }
    json_decref(listed);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", import->arch.name);
    status = zt_gguf_put_array(import->writer, key, ZT_GGUF_I32, heads, (int64_t)count);
    if (status != ZT_OK || !sole) return status;
    snprintf(key, sizeof key, "%s.feed_forward_length", import->arch.name);
    return zt_gguf_put_array(import->writer, key, ZT_GGUF_I32, length, (int64_t)count);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* LFM2 may say a length of which two thirds, in whole steps, are the feed-forward's. */
static zt_status put_short_conv(hf_import *import)
{
    int64_t ff = 12288, multiple = 256, filter = 3;
    double multiplier = 1;
    zt_status status = zt_hf_int(import, "conv_L_cache", &filter);
    if (status == ZT_OK) status = zt_hf_put_int(import, "shortconv.l_cache", filter);
    if (status == ZT_OK) status = put_kinds(import);
    if (status != ZT_OK || import->arch.id == HF_LFM2MOE)
        return status == ZT_OK ? zt_hf_put_int(import, "expert_gating_func", SIGMOID) : status;
    const length_row rows[] = {{"block_ff_dim|intermediate_size", &ff}, {"block_multiple_of", &multiple}};
    status = read_rows(import, rows, 2);
    if (status == ZT_OK) status = zt_hf_real(import, "block_ffn_dim_multiplier", &multiplier);
    if (status == ZT_OK && !(multiplier > 0 && multiplier < 1e6))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: block_ffn_dim_multiplier is %g, expected a number above 0",
                         import->folder.data, multiplier);
    if (status == ZT_OK && !json_is_false(zt_hf_get(import, "block_auto_adjust_ff_dim"))) {
        ff = (int64_t)(multiplier * (double)(2 * ff / 3));
        ff = multiple * ((ff + multiple - 1) / multiple);
    }
    return status == ZT_OK ? zt_hf_put_int(import, "feed_forward_length", ff) : status;
}

/* Keys that llama.cpp wants and that say nothing, and the epsilon under its other name. */
static zt_status put_plain_mamba(hf_import *import)
{
    double epsilon = 1e-5;
    zt_status status = zt_hf_put_int(import, "context_length", ANY_CONTEXT);
    if (status == ZT_OK) status = zt_hf_put_int(import, "feed_forward_length", 0);
    if (status == ZT_OK) status = zt_hf_put_int(import, "attention.head_count", 0);
    if (status == ZT_OK) status = zt_hf_real(import, "layer_norm_epsilon|rms_norm_eps", &epsilon);
    if (status == ZT_OK) status = zt_hf_put_real(import, "attention.layer_norm_rms_epsilon", epsilon);
    if (status != ZT_OK || import->arch.id != HF_MAMBA) return status;
    const char *type = json_string_value(zt_hf_get(import, "model_type"));
    return put_bool(import, "ssm.dt_b_c_rms", type && strcmp(type, "falcon_mamba") == 0);
}

/* What no key says: numbers that must be what the architecture means. */
static zt_status check_numbers(const hf_import *import)
{
    const struct {
        const char *name;
        hf_set archs;
        double value;
    } rows[] = {{"mixer_rms_eps", HF_SET(HF_MAMBA), 1e-6}};
    const json_t *limit = zt_hf_get(import, "time_step_limit|mamba_dt_limit");
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ZT_OK; i++) {
        double value = rows[i].value;
        if (zt_hf_is(import, rows[i].archs)) status = zt_hf_real(import, rows[i].name, &value);
        if (status == ZT_OK && value != rows[i].value)
            status = zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with %s %g are not supported",
                             import->folder.data, import->arch.name, rows[i].name, value);
    }
    const json_t *low = json_array_get(limit, 0), *high = json_array_get(limit, 1);
    bool bounded =
        (json_is_number(low) && json_number_value(low) > 0) || (json_is_number(high) && json_number_value(high) < 1e30);
    if (status == ZT_OK && bounded && import->arch.id != HF_MAMBA)
        status = zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with a time_step_limit are not supported",
                         import->folder.data, import->arch.name);
    if (status == ZT_OK && import->arch.id == HF_FALCON_H1 && json_is_true(zt_hf_get(import, "mamba_rms_norm")) &&
        !json_is_false(zt_hf_get(import, "mamba_norm_before_gate")))
        status = zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with mamba_norm_before_gate are not supported",
                         import->folder.data, import->arch.name);
    return status;
}

/* Hybrids without positions. */
static zt_status put_positions(hf_import *import)
{
    const char *embedding = json_string_value(zt_hf_get(import, "position_embedding_type"));
    if (zt_hf_is(import, HF_HYBRIDS) && embedding && strcmp(embedding, "nope") != 0)
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with position_embedding_type '%s' are not supported",
                       import->folder.data, import->arch.name, embedding);
    zt_status status = put_bool(import, "rope.scaling.finetuned", false);
    return status == ZT_OK ? zt_hf_put_int(import, "context_length", ANY_CONTEXT) : status;
}

/* Bamba rotates half of each head, by halves of that. The converter takes pairs for it that the model does not have. */
static zt_status put_half_rope(hf_import *import)
{
    double width = 0, heads = 1;
    int64_t columns = -1;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count", &heads);
    if (status != ZT_OK) return status;
    if (zt_hf_get(import, "attn_rotary_emb")) status = zt_hf_int(import, "attn_rotary_emb", &columns);
    if (status == ZT_OK && columns >= 0 && heads >= 1 && 2 * columns != (int64_t)width / (int64_t)heads)
        return zt_fail(import->ctx, ZT_ENOTSUP,
                       "%sconfig.json: bamba models with attn_rotary_emb %" PRId64
                       " are not supported: expected half of a head, %" PRId64,
                       import->folder.data, columns, (int64_t)width / (int64_t)heads / 2);
    if (status == ZT_OK) status = put_bool(import, "rope.scaling.finetuned", true);
    return status == ZT_OK ? zt_hf_put_text(import, "rope.pair", "halves") : status;
}

zt_status zt_hf_put_mamba(hf_import *import)
{
    scan_lengths lengths;
    if (zt_hf_is(import, HF_LFM2S)) return put_short_conv(import);
    zt_status status = check_numbers(import);
    if (status == ZT_OK) status = read_lengths(import, &lengths);
    if (status == ZT_OK) status = put_lengths(import, &lengths);
    if (status != ZT_OK) return status;
    if (zt_hf_is(import, HF_MAMBAS)) return put_plain_mamba(import);
    if (import->arch.id == HF_FALCON_H1) return ZT_OK;
    status = import->arch.id == HF_BAMBA ? put_half_rope(import) : put_positions(import);
    return status == ZT_OK ? put_kinds(import) : status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static zt_status refuse_shape(const hf_import *import, const hf_tensor *tensor)
{
    char text[ZT_TYPE_TEXT];
    return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, which does not fit config.json", import->path, tensor->name,
                   zt_type_text(&tensor->type, text));
}

/* -exp of what GGUF has no logarithm of. */
static zt_status add_decays(hf_import *import, hf_tensor *tensor)
{
    int64_t count = zt_type_count(&tensor->type);
    size_t element = (size_t)zt_dtype_get(tensor->from)->block_bytes;
    char *raw = zt_alloc_array(import->ctx, (size_t)count, element);
    float *values = zt_alloc_array(import->ctx, (size_t)count, sizeof *values);
    zt_status status =
        raw && values ? zt_checkpoint_read(import->tensors->from, tensor->source, 0, raw, (size_t)count * element) : ZT_ENOMEM;
    if (status == ZT_OK) {
        zt_dtype_get(tensor->from)->decode(raw, values, count);
        for (int64_t i = 0; i < count; i++) values[i] = (float)-exp((double)values[i]);
        tensor->type.dtype = ZT_F32;
        tensor->values = values;
        status = zt_hf_tensors_add(import->tensors, tensor);
    }
    zt_free(import->ctx, raw);
    zt_free(import->ctx, values);
    return status;
}

static double number_at(const json_t *list, size_t i)
{
    const json_t *value = json_is_array(list) ? json_array_get(list, i) : list;
    return json_is_number(value) ? json_number_value(value) : 1;
}

/* Multipliers are numbers, or lists of as many as they need, or missing. */
static zt_status check_multipliers(hf_import *import)
{
    static const struct {
        const char *key;
        size_t count; /* 0: a number */
    } rows[] = {{"mlp_multipliers", 2},         {"ssm_multipliers", HF_MOST_RUNS}, {"key_multiplier", 0},
                {"attention_in_multiplier", 0}, {"attention_out_multiplier", 0},   {"ssm_out_multiplier", 0},
                {"ssm_in_multiplier", 0},       {"lm_head_multiplier", 0},         {"embedding_multiplier", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = zt_hf_get(import, rows[i].key);
        bool good = !value || json_is_null(value) ||
                    (rows[i].count ? json_is_array(value) && json_array_size(value) == rows[i].count : json_is_number(value));
        for (size_t k = 0; good && k < rows[i].count && value; k++)
            good = json_is_null(value) || json_is_number(json_array_get(value, k));
        if (good) continue;
        return rows[i].count
                   ? zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %s is not a list of %zu numbers", import->folder.data,
                             rows[i].key, rows[i].count)
                   : zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: %s is not a number", import->folder.data, rows[i].key);
    }
    return ZT_OK;
}

/* What Falcon-H1 multiplies the rows of a matrix by. The first matrix of a state-space layer has a number for each part. */
static zt_status add_scaled(hf_import *import, hf_tensor *tensor, const char *what)
{
    static const struct {
        const char *stem, *first, *second;
        size_t entry;
    } rows[] = {{"ffn_down.weight", "mlp_multipliers", NULL, 1},
                {"ffn_gate.weight", "mlp_multipliers", NULL, 0},
                {"attn_k.weight", "key_multiplier", "attention_in_multiplier", 0},
                {"attn_q.weight", "attention_in_multiplier", NULL, 0},
                {"attn_v.weight", "attention_in_multiplier", NULL, 0},
                {"attn_output.weight", "attention_out_multiplier", NULL, 0},
                {"ssm_out.weight", "ssm_out_multiplier", NULL, 0},
                {"ssm_in.weight", "ssm_in_multiplier", NULL, 0},
                {"output.weight", "lm_head_multiplier", NULL, 0},
                {"token_embd.weight", "embedding_multiplier", NULL, 0}};
    scan_lengths of;
    hf_factors *factors = zt_arena_alloc(import->tensors->arena, sizeof *factors);
    zt_status status = factors ? read_lengths(import, &of) : ZT_ENOMEM;
    if (status == ZT_OK) status = check_multipliers(import);
    if (status != ZT_OK) return status;
    *factors = (hf_factors){.all = {1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].stem, what) != 0) continue;
        factors->all[0] = number_at(zt_hf_get(import, rows[i].first), rows[i].entry);
        if (rows[i].second) factors->all[1] = number_at(zt_hf_get(import, rows[i].second), 0);
    }
    if (strcmp(what, "ssm_in.weight") == 0) {
        const int64_t inputs = of.groups * of.numbers, length[HF_MOST_RUNS] = {of.inner, of.inner, inputs, inputs, of.heads};
        const json_t *list = zt_hf_get(import, "ssm_multipliers");
        factors->run_count = HF_MOST_RUNS;
        for (size_t run = 0; run < HF_MOST_RUNS; run++) {
            factors->end[run] = (run ? factors->end[run - 1] : 0) + length[run];
            factors->run[run] = json_is_array(list) ? number_at(list, run) : 1;
        }
        if (tensor->type.rank != 2 || tensor->type.dim[0] != factors->end[HF_MOST_RUNS - 1]) return refuse_shape(import, tensor);
    }
    tensor->factors = factors;
    return zt_hf_tensors_add(import->tensors, tensor);
}

zt_status zt_hf_add_mixer(hf_import *import, hf_tensor *tensor)
{
    scan_lengths of = {0};
    char bare[ZT_HF_NAME];
    zt_type *type = &tensor->type;
    const char *what = strncmp(tensor->name, "blk.", 4) == 0 ? strchr(tensor->name + 4, '.') + 1 : tensor->name;
    const bool second = !zt_hf_is(import, HF_LFM2S | HF_SET(HF_MAMBA));
    zt_status status = second ? read_lengths(import, &of) : ZT_OK;
    if (status != ZT_OK) return status;
    if (strstr(what, "conv")) {
        if (type->rank == 3 && type->dim[1] == 1) *type = zt_type_make(type->dtype, 2, (int64_t[]){type->dim[0], type->dim[2]});
        type->dtype = ZT_F32;
        return zt_hf_tensors_add(import->tensors, tensor);
    }
    if (strcmp(what, "ssm_norm.weight") == 0) {
        if (type->rank != 1 || type->dim[0] != of.inner || of.inner % of.groups) return refuse_shape(import, tensor);
        *type = zt_type_make(ZT_F32, 2, (int64_t[]){of.groups, of.inner / of.groups});
        return zt_hf_tensors_add(import->tensors, tensor);
    }
    const bool decays = strcmp(what, "ssm_a.weight") == 0, skips = strcmp(what, "ssm_d.weight") == 0;
    if (!decays && !skips && strcmp(what, "ffn_norm.weight") != 0) return add_scaled(import, tensor, what);
    snprintf(bare, sizeof bare, "%.*s", (int)(strlen(tensor->name) - strlen(".weight")), tensor->name);
    tensor->name = bare;
    type->dtype = ZT_F32;
    if (second && (decays || skips)) {
        if (type->rank != 1) return refuse_shape(import, tensor);
        *type = zt_type_make(ZT_F32, 2, (int64_t[]){type->dim[0], 1});
    }
    return decays ? add_decays(import, tensor) : zt_hf_tensors_add(import->tensors, tensor);
}
