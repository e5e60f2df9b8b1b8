/* hf_names.c - the names of tensors: which GGUF tensor each one of a Hugging Face model is,
 * and what has to be done to its values.
 *
 * Names are facts from llama.cpp (gguf-py/gguf/tensor_mapping.py, conversion/). Whatever stands
 * before the part that we know ("model.", "transformer.", "bert.", "language_model.model.", ...) is
 * let pass, so that models saved from inside of others load too; a head or final norm that is
 * missing is tied to the embedding or taken as all ones.
 */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is no weight of the language model: the converter leaves it out as well. */
static const struct {
    const char *part;
    hf_set archs;
} left_out[] = {
    {"rotary_emb.", HF_ALL},
    {"position_ids", HF_ALL},
    {"masked_bias", HF_ALL},
    {"vision_", HF_ALL},
    {"mtp.", HF_SET(HF_NEMOTRON_H_MOE)}, /* predicts further tokens */
    {"mlp.act_fn.", HF_SET(HF_APERTUS)},
    {"audio_", HF_ALL},
    {"embed_audio.", HF_LAYERED},
    {"embed_vision.", HF_LAYERED},
    {"visual.", HF_ALL},
    {"vision.", HF_ALL},
    {"multi_modal_projector.", HF_ALL},
    {"mm_projector.", HF_ALL},
    {"pooler.", HF_BERTS},
    {"cls.", HF_BERTS},
    {"head.", HF_SET(HF_MODERNBERT)},
    {"decoder.bias", HF_SET(HF_MODERNBERT)},
    {"decoder.weight", HF_SET(HF_MODERNBERT)},
};

static const char *const suffixes[][2] = {{".weight", ".weight"}, {".bias", ".bias"}, {".gamma", ".weight"},
                                          {".beta", ".bias"},     {"_bias", ".bias"}, {"", ".weight"}};

/* ---- finding a name -------------------------------------------------------------------------- */

typedef struct name_match {
    char name[64]; /* GGUF's */
    unsigned todo;
    int64_t expert; /* of a stacked tensor */
    const hf_name *row;
} name_match;

static bool is_left_out(const hf_import *import, const char *name)
{
    size_t length = strlen(name);
    static const char *const heads[] = {"pooler.", "head."};
    bool classifies = zt_hf_has_classifier(import);
    for (size_t i = 0; classifies && i < sizeof heads / sizeof *heads; i++)
        if (strstr(name, heads[i])) return false;
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (zt_hf_is(import, left_out[i].archs) && strstr(name, left_out[i].part)) return true;
    /* the embedding once more */
    if (zt_hf_is(import, HF_T5S) && import->tensors && strcmp(name, "encoder.embed_tokens.weight") == 0 &&
        zt_checkpoint_find(import->tensors->from, "shared.weight") >= 0)
        return true;
    /* the causal mask */
    return (zt_hf_is(import, HF_SET(HF_GPT2)) && length >= 10 && strcmp(name + length - 10, ".attn.bias") == 0) ||
           (zt_hf_is(import, HF_SET(HF_NEOX)) && length >= 15 && strcmp(name + length - 15, ".attention.bias") == 0);
}

/* "layers.3." -> 3 and what is behind; -1: the name is not a layer's. */
static int64_t after_layer(const char *name, const char **rest)
{
    static const char *const words[] = {"layers.", "layer.", "h.", "blocks.", "block."};
    for (const char *part = name; part; part = strchr(part, '.'), part = part ? part + 1 : NULL) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const char *digit = part + strlen(words[i]), *from = digit;
            int64_t layer = 0;
            if (strncmp(part, words[i], strlen(words[i])) != 0) continue;
            for (; *digit >= '0' && *digit <= '9' && layer < 100000; digit++) layer = 10 * layer + (*digit - '0');
            if (digit > from && *digit == '.') {
                *rest = digit + 1;
                return layer;
            }
        }
    }
    return -1;
}

/* Layers behind the last predict further tokens (multi-token prediction); those that are not known to be heads are left out, as
 * transformers leaves out all. */
static bool is_behind_last(const hf_import *import, const char *name)
{
    double layers = 0;
    const char *rest;
    if (!zt_hf_is(import, HF_SET(HF_GLM4MOE) | HF_SET(HF_ERNIE_MOE) | HF_DEEPSEEKS) ||
        zt_hf_value(import, "block_count", &layers) != ZT_OK)
        return false;
    const int64_t layer = after_layer(name, &rest);
    int64_t heads = 0;
    if ((double)layer < layers) return strstr(name, "mtp_") != NULL;
    return zt_hf_head_layers(import, &heads) != ZT_OK || (double)layer >= layers + (double)heads;
}

/* Is the text this word, or does it end in "." and this word? */
static bool ends_in(const char *text, size_t length, const char *word, bool prefix)
{
    size_t word_length = strlen(word);
    if (length == word_length) return memcmp(text, word, word_length) == 0;
    return prefix && length > word_length && text[length - word_length - 1] == '.' &&
           memcmp(text + length - word_length, word, word_length) == 0;
}

/* Is the text this word with a number for its '*', or does it end in "." and that? */
static bool fits_pattern(const char *text, size_t length, const char *word, bool prefix, int64_t *number)
{
    const char *star = strchr(word, '*');
    size_t before = (size_t)(star - word), after = strlen(star + 1), digits = 0;
    const char *found = prefix && length > before ? memmem(text, length, word, before) : NULL;
    if (found && found > text && found[-1] == '.') {
        length -= (size_t)(found - text);
        text = found;
    }
    if (length <= before + after || memcmp(text, word, before) != 0) return false;
    for (*number = 0; before + digits < length && digits < 6 && text[before + digits] >= '0' && text[before + digits] <= '9';
         digits++)
        *number = 10 * *number + (text[before + digits] - '0');
    return digits > 0 && before + digits + after == length && memcmp(text + before + digits, star + 1, after) == 0;
}

static const hf_name *find_row(const hf_import *import, const hf_name *table, size_t rows, const char *text, size_t length,
                               bool prefix, int64_t *expert)
{
    for (size_t i = 0; i < rows; i++) {
        if (!zt_hf_is(import, table[i].archs)) continue;
        if (strchr(table[i].hf, '*') ? fits_pattern(text, length, table[i].hf, prefix, expert)
                                     : ends_in(text, length, table[i].hf, prefix))
            return &table[i];
    }
    return NULL;
}

static bool find_name(const hf_import *import, const char *name, name_match *found)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t suffix_length = strlen(suffixes[i][0]);
        const char *rest = name;
        if (length <= suffix_length || strcmp(name + length - suffix_length, suffixes[i][0]) != 0) continue;
        int64_t layer = after_layer(name, &rest);
        size_t stem_length = rest < name + length - suffix_length ? (size_t)(name + length - suffix_length - rest) : 0;
        size_t count;
        const hf_name *table = layer >= 0 ? zt_hf_layer_names(&count) : zt_hf_other_names(&count);
        const hf_name *row = find_row(import, table, count, rest, stem_length, layer < 0, &found->expert);
        if (!row || (suffix_length == 0 && !(row->todo & HF_BARE))) return false;
        if (row->todo & HF_LOW_RANK && strcmp(suffixes[i][1], ".bias") == 0)
            snprintf(found->name, sizeof found->name, "blk.%" PRId64 ".%.*s0.weight", layer, (int)strlen(row->gguf) - 1,
                     row->gguf);
        else if (layer >= 0)
            snprintf(found->name, sizeof found->name, "%sblk.%" PRId64 ".%s%s", zt_hf_is(import, HF_T5S) ? "enc." : "", layer,
                     row->gguf, row->todo & HF_SCALE ? ".scale" : suffixes[i][1]);
        else
            snprintf(found->name, sizeof found->name, "%s%s", row->gguf, suffixes[i][1]);
        found->todo = row->todo;
        found->row = row;
        return true;
    }
    return false;
}

/* The tensor of the second half, as *found is that of the first. */
static void find_second_half(const hf_import *import, name_match *found)
{
    const hf_name *row = found->row;
    size_t layer_length = (size_t)(strchr(found->name + 4, '.') - found->name) + 1;
    const char *suffix = strrchr(found->name, '.');
    char text[16];
    snprintf(text, sizeof text, "%s", suffix);
    while (!zt_hf_is(import, row->archs) || strcmp(row->hf, found->row->hf) != 0 || !(row->todo & HF_SECOND_HALF)) row++;
    snprintf(found->name + layer_length, sizeof found->name - layer_length, "%s%s", row->gguf, text);
    found->todo = row->todo;
}

bool zt_hf_place_of(const char *arch, const char *name, zt_hf_place *out)
{
    if (!arch) return false;
    size_t count;
    const hf_arch *archs = zt_hf_archs(&count);
    name_match found;
    for (size_t i = 0; i < count; i++) {
        hf_import import = {.known = true, .arch = archs[i]};
        if (strcmp(archs[i].name, arch) != 0 || is_left_out(&import, name) || !find_name(&import, name, &found)) continue;
        if (found.todo & (HF_FIRST_HALF | HF_TURNED | HF_DELTA | HF_MIXER | HF_FUSED_QKV | HF_RWKV))
            continue; /* a part of a tensor */
        *out = (zt_hf_place){.transposed = found.todo & HF_TRANSPOSE, .expert = found.todo & HF_STACKED ? found.expert : -1};
        out->add = (found.todo & HF_NORM) && zt_hf_is(&import, HF_ADD_ONE) ? 1 : 0;
        out->pairs = (found.todo & (HF_PAIR_Q | HF_PAIR_K)) && zt_hf_is(&import, HF_PAIRED);
        out->kv = found.todo & HF_PAIR_K;
        memcpy(out->name, found.name, sizeof out->name);
        return true;
    }
    return false;
}

/* ---- and back -------------------------------------------------------------------------------- */

/* `scale`: the name ends in .scale. */
static const hf_name *find_gguf_row(const hf_name *table, size_t rows, hf_set archs, const char *text, size_t length, bool scale)
{
    for (size_t i = 0; i < rows; i++)
        if ((table[i].archs & archs) && strlen(table[i].gguf) == length && memcmp(table[i].gguf, text, length) == 0 &&
            !(table[i].todo & HF_SCALE) == !scale)
            return &table[i];
    return NULL;
}

/* "blk.3.attn_q.weight": "3", and behind its point. */
static const char *layer_digits(const char *gguf, size_t *digits)
{
    if (strncmp(gguf, "enc.blk.", 8) == 0) gguf += 4; /* of T5 */
    *digits = strncmp(gguf, "blk.", 4) == 0 ? strspn(gguf + 4, "0123456789") : 0;
    return *digits && gguf[4 + *digits] == '.' ? gguf + 4 : NULL;
}

/* The row of a GGUF's tensor, its layer's digits and its suffix; NULL: it has none. */
static const hf_name *export_row(const hf_arch *arch, const char *gguf, const char **layer, size_t *digits, const char **point)
{
    *layer = layer_digits(gguf, digits);
    const char *stem = *layer ? *layer + *digits + 1 : gguf;
    *point = strrchr(stem, '.');
    if (!*point && (HF_SET(arch->id) & (HF_DELTAS | HF_SCANS))) *point = stem + strlen(stem); /* ssm_a has no suffix */
    size_t length = *point ? (size_t)(*point - stem) : 0;
    bool scale = *point && strcmp(*point, ".scale") == 0;
    bool known = *point && (scale || strcmp(*point, ".weight") == 0 || strcmp(*point, ".bias") == 0 || !**point);
    hf_set set = HF_SET(arch->id);
    if (!known) return NULL;
    size_t count;
    const hf_name *table = *layer ? zt_hf_layer_names(&count) : zt_hf_other_names(&count);
    return find_gguf_row(table, count, set, stem, length, scale);
}

/* The row's name, with the expert's number for '*'. */
static zt_status put_row_name(zt_str *name, const hf_name *row, int64_t expert)
{
    const char *star = strchr(row->hf, '*');
    if (!star) return zt_str_puts(name, row->hf);
    return zt_str_printf(name, "%.*s%" PRId64 "%s", (int)(star - row->hf), row->hf, expert, star + 1);
}

zt_status zt_hf_export_name(zt_ctx *ctx, const hf_arch *arch, const char *gguf, int64_t expert, zt_str *name, unsigned *todo)
{
    zt_status named;
    if ((HF_SET(arch->id) & HF_RWKVS) && zt_hf_rwkv_export_name(arch, gguf, expert, name, &named)) {
        *todo = HF_RWKV;
        return named;
    }
    size_t digits;
    const char *layer, *point;
    const hf_name *row = export_row(arch, gguf, &layer, &digits, &point);
    char text[160];
    if (!row)
        return zt_fail(ctx, ZT_ENOTSUP, "unexpected tensor '%s' in a %s model of transformers",
                       zt_escape(text, sizeof text, gguf, strlen(gguf)), arch->type);
    *todo = row->todo;
    zt_str_clear(name);
    bool head = strcmp(row->gguf, "output") == 0;
    bool bare = head || strcmp(row->hf, "shared") == 0;
    zt_status status = zt_str_puts(name, layer ? arch->layers : bare ? "" : arch->prefix);
    if (status == ZT_OK && layer) status = zt_str_put(name, layer, digits + 1);
    if (status == ZT_OK) status = put_row_name(name, row, expert);
    const char *suffix = row->todo & (HF_UNDERSCORE | HF_BARE) ? "_bias" : point;
    if (row->todo & HF_BARE && strcmp(point, ".bias") != 0) suffix = "";
    if (row->todo & HF_MIXER && !*suffix && !(row->todo & HF_BARE)) suffix = ".weight";
    return status == ZT_OK ? zt_str_puts(name, suffix) : status;
}

bool zt_hf_module_of(const char *arch, const char *tensor, char module[ZT_HF_MODULE], zt_hf_place *out)
{
    enum { SUFFIX = sizeof ".weight" };
    char name[ZT_HF_MODULE + SUFFIX];
    size_t count, digits;
    const char *layer, *point;
    const hf_arch *archs = zt_hf_archs(&count);
    if (!arch || !tensor) return false;
    for (size_t i = 0; i < count; i++) {
        const hf_name *row = strcmp(archs[i].name, arch) ? NULL : export_row(&archs[i], tensor, &layer, &digits, &point);
        if (!row || strcmp(point, ".weight") != 0 || (row->todo & (HF_STACKED | HF_GROUPED | HF_BARE)) || strchr(row->hf, '*'))
            continue;
        const char *before = layer ? archs[i].layers : strcmp(row->gguf, "output") ? archs[i].prefix : "";
        int length = layer ? snprintf(name, sizeof name, "%s%.*s.%s.weight", before, (int)digits, layer, row->hf)
                           : snprintf(name, sizeof name, "%s%s.weight", before, row->hf);
        if (length >= ZT_HF_MODULE || !zt_hf_place_of(arch, name, out) || strcmp(out->name, tensor) != 0) continue;
        snprintf(module, ZT_HF_MODULE, "%.*s", length - (int)strlen(".weight"), name);
        return true;
    }
    return false;
}

zt_status zt_hf_second_half(zt_ctx *ctx, const hf_arch *arch, const char *gguf, zt_str *name)
{
    size_t digits;
    const char *layer, *point;
    const hf_name *first = export_row(arch, gguf, &layer, &digits, &point), *row = first;
    if (!first || !(first->todo & HF_FIRST_HALF)) return zt_fail(ctx, ZT_EBUG, "tensor '%s' is not a half", gguf);
    while (!(row->archs & HF_SET(arch->id)) || strcmp(row->hf, first->hf) != 0 || !(row->todo & HF_SECOND_HALF)) row++;
    zt_str_clear(name);
    return zt_str_printf(name, "blk.%.*s.%s%s", (int)digits, layer, row->gguf, point);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static bool has_end(const char *name, const char *end)
{
    return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

bool zt_model_stays_f32(const char *name, const zt_type *type)
{
    if (!name || !type) return false;
    const char *point = strrchr(name, '.');
    return type->rank < 2 || (point && strcmp(point, ".bias") == 0) || strcmp(name, "position_embd.weight") == 0 ||
           strcmp(name, "token_types.weight") == 0 || strstr(name, ".ffn_gate_inp") != NULL ||
           strstr(name, ".ssm_conv1d.") != NULL || strstr(name, ".shortconv.conv.") != NULL || has_end(name, ".ssm_a") ||
           has_end(name, ".ssm_d") || strstr(name, "_coef.weight") != NULL || strstr(name, "_norm.weight") != NULL ||
           strstr(name, ".time_mix_w1.") != NULL || strstr(name, ".time_mix_w2.") != NULL ||
           strstr(name, ".time_mix_lerp_fused.") != NULL;
}

/* Half of the rows, where the tensor is a half: of a matrix, or of each of several; of biases of several in turns half of their
 * values. False: they are odd, or it is neither. */
static bool take_half(const name_match *found, zt_type *type)
{
    if (!(found->todo & (HF_FIRST_HALF | HF_SECOND_HALF)) || found->todo & HF_HEADS) return true;
    if (type->rank != 2 && type->rank != 3) return false;
    int64_t *rows = &type->dim[(found->todo & HF_IN_TURNS) && type->rank == 2 ? 1 : type->rank - 2];
    if (*rows % 2 != 0) return false;
    *rows /= 2;
    return true;
}

/* As the converter has it; f64 becomes f32. */
static zt_status plan_tensor(const hf_import *import, const zt_entry *entry, const name_match *found, hf_tensor *tensor)
{
    char text[160], type_text[ZT_TYPE_TEXT];
    zt_escape(text, sizeof text, entry->name, strlen(entry->name));
    const zt_dtype_info *dtype = entry->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(entry->type.dtype) : NULL;
    bool floats = dtype && dtype->kind == 'F' && dtype->block_bytes >= 2; /* none of a byte */
    bool blocks = entry->type.dtype == ZT_MXFP4 && entry->type.rank == 2 &&
                  !(found->todo & (HF_TRANSPOSE | HF_TURNED | HF_IN_TURNS | HF_HEADS)) &&
                  !zt_model_stays_f32(found->name, &entry->type);
    if (entry->type.rank < 0 || !(floats || blocks))
        return zt_fail(import->ctx, ZT_ENOTSUP, "%s: tensor '%s' has the unsupported type %s",
                       zt_checkpoint_name(import->tensors->from), text, entry->dtype);
    if (entry->type.rank > 4)
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, expected at most 4 dimensions",
                       zt_checkpoint_name(import->tensors->from), text, zt_type_text(&entry->type, type_text));
    *tensor = (hf_tensor){.name = found->name, .type = entry->type, .from = entry->type.dtype};
    tensor->in_turns = found->todo & HF_IN_TURNS;
    tensor->transposed = (found->todo & HF_TURNED) && entry->type.rank == 3;
    if (tensor->transposed)
        tensor->type =
            zt_type_make(entry->type.dtype, 3, (int64_t[]){entry->type.dim[0], entry->type.dim[2], entry->type.dim[1]});
    if (!take_half(found, &tensor->type))
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, whose rows are not two halves",
                       zt_checkpoint_name(import->tensors->from), text, zt_type_text(&entry->type, type_text));
    if (found->todo & (HF_DELTA | HF_MIXER) && blocks)
        return zt_fail(import->ctx, ZT_ENOTSUP, "%s: tensor '%s' has the unsupported type %s",
                       zt_checkpoint_name(import->tensors->from), text, entry->dtype);
    tensor->half = found->todo & HF_FIRST_HALF ? 1 : found->todo & HF_SECOND_HALF ? 2 : 0;
    if ((entry->type.dtype == ZT_F64 && !tensor->transposed) || zt_model_stays_f32(found->name, &tensor->type))
        tensor->type.dtype = ZT_F32;
    if ((found->todo & HF_NORM) && zt_hf_is(import, HF_ADD_ONE)) {
        tensor->type.dtype = ZT_F32;
        tensor->add = 1;
    }
    if ((found->todo & HF_TRANSPOSE) && entry->type.rank == 2) {
        tensor->type.dim[0] = entry->type.dim[1];
        tensor->type.dim[1] = entry->type.dim[0];
        tensor->transposed = true;
    }
    return ZT_OK;
}

static zt_status pair_rows(const hf_import *import, const name_match *found, hf_tensor *tensor)
{
    double heads = 0;
    int64_t rows = tensor->type.rank ? tensor->type.dim[0] : 0;
    if (!(found->todo & (HF_PAIR_Q | HF_PAIR_K)) || !zt_hf_is(import, HF_PAIRED)) return ZT_OK;
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK && (found->todo & HF_PAIR_K)) {
        status = zt_hf_value(import, "attention.head_count_kv", &heads);
        if (status == ZT_OK && zt_hf_is(import, HF_SCANS))
            status = zt_hf_real(import, "num_key_value_heads", &heads); /* a list in GGUF */
    }
    tensor->heads = (int64_t)heads;
    if (status == ZT_OK && (tensor->heads < 1 || rows % tensor->heads != 0 || rows / tensor->heads % 2 != 0))
        status = zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s': %" PRId64 " rows cannot be split into %" PRId64 " heads",
                         import->path, found->name, rows, tensor->heads);
    return status;
}

/* Rows of q, k and v by key head, each with as many query heads. */
static zt_status group_rows(const hf_import *import, const name_match *found, hf_tensor *tensor)
{
    double heads = 0, key_heads = 0;
    int64_t rows = tensor->type.rank ? tensor->type.dim[0] : 0;
    if (!(found->todo & HF_GROUPED)) return ZT_OK;
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    key_heads = heads;
    if (status == ZT_OK && zt_hf_is(import, HF_FALCONS)) status = zt_hf_falcon_groups(import, &key_heads);
    tensor->heads = (int64_t)heads;
    tensor->groups = (int64_t)key_heads;
    if (status == ZT_OK && (tensor->groups < 1 || tensor->heads < 1 || tensor->heads % tensor->groups != 0 ||
                            rows % (tensor->heads + 2 * tensor->groups) != 0))
        status = zt_fail(import->ctx, ZT_EDATA,
                         "%s: tensor '%s': %" PRId64 " rows cannot be split into %" PRId64 " heads and %" PRId64
                         " heads of keys and values",
                         import->path, found->name, rows, tensor->heads, tensor->groups);
    return status;
}

static zt_status stack_tensor(hf_import *import, const name_match *found, const hf_tensor *matrix, const char *named)
{
    double experts = 0;
    zt_status status = zt_hf_is(import, HF_SET(HF_GEMMA3N)) ? zt_hf_gemma_streams(import, &experts)
                                                            : zt_hf_value(import, "expert_count", &experts);
    if (status != ZT_OK) return status;
    return zt_hf_tensors_stack(import->tensors, matrix, found->expert, (int64_t)experts, matrix->source, named);
}

/* As the converter has it, for tokens of other senses, whose embeddings come from elsewhere. */
static zt_status pad_rows(const hf_import *import, const name_match *found, hf_tensor *tensor)
{
    int64_t rows = 0;
    if (!(found->todo & HF_PADDED) || !zt_hf_is(import, HF_SET(HF_GEMMA3N)) || tensor->type.rank != 2) return ZT_OK;
    zt_status status = zt_hf_int(import, "vocab_size", &rows);
    if (status != ZT_OK || rows <= tensor->type.dim[0] || tensor->type.dim[0] < 1 || rows > tensor->type.dim[0] + (1 << 20))
        return status;
    tensor->given = zt_type_count(&tensor->type);
    tensor->type.dim[0] = rows;
    return ZT_OK;
}

/* The tensor, and of a first half the second. */
static zt_status add_halves(hf_import *import, name_match *found, hf_tensor *tensor)
{
    zt_status status = zt_hf_tensors_add(import->tensors, tensor);
    if (status != ZT_OK || tensor->half != 1) return status;
    find_second_half(import, found);
    tensor->name = found->name;
    tensor->half = 2;
    if (found->todo & HF_HEADS) status = zt_hf_split_heads(import, tensor, true);
    if (status != ZT_OK) return status;
    return zt_hf_tensors_add(import->tensors, tensor);
}

static zt_status refuse_tensor(const hf_import *import, const char *name)
{
    char text[160];
    return zt_fail(import->ctx, ZT_ENOTSUP, "%s: unexpected tensor '%s' in a %s model", import->path,
                   zt_escape(text, sizeof text, name, strlen(name)), import->arch.name);
}

/* NAME_blocks and NAME_scales, which are one tensor. */
static zt_status add_mxfp4(hf_import *import, int64_t index, const char *name)
{
    char stem[200], text[ZT_TYPE_TEXT];
    name_match found;
    hf_tensor tensor;
    snprintf(stem, sizeof stem, "%.*s", (int)zt_hf_mxfp4_stem(name), name);
    if (!find_name(import, stem, &found) || !(found.todo & HF_TURNED)) return refuse_tensor(import, name);
    zt_status status = zt_hf_plan_mxfp4(import, index, &tensor);
    if (status != ZT_OK || tensor.source < 0) return status;
    tensor.name = found.name;
    tensor.half = found.todo & HF_FIRST_HALF ? 1 : 0;
    tensor.in_turns = tensor.half != 0;
    if (!take_half(&found, &tensor.type))
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, whose rows are not two halves",
                       zt_checkpoint_name(import->tensors->from), found.name, zt_type_text(&tensor.type, text));
    return add_halves(import, &found, &tensor);
}

static zt_status add_tensor(hf_import *import, int64_t index)
{
    zt_entry entry;
    name_match found;
    hf_tensor tensor;
    char further[200];
    zt_checkpoint_get(import->tensors->from, index, &entry);
    if (zt_hf_is(import, HF_DELTAS)) {
        zt_status named = zt_hf_name_further(import, entry.name, further, sizeof further);
        if (named != ZT_OK) return named;
        entry.name = further;
    }
    const bool behind = is_behind_last(import, entry.name);
    import->behind += behind;
    if (behind || is_left_out(import, entry.name)) return ZT_OK;
    if (zt_hf_is(import, HF_SET(HF_GPT_OSS)) && zt_hf_mxfp4_stem(entry.name)) return add_mxfp4(import, index, entry.name);
    if (!find_name(import, entry.name, &found)) return refuse_tensor(import, entry.name);
    /* a tied head is the embedding once more; of gemma, unless config.json says that it is not */
    if (strcmp(found.name, "output.weight") == 0 && zt_checkpoint_count(import->tensors->from) > 1 &&
        (json_is_true(zt_hf_get(import, "tie_word_embeddings")) ||
         (zt_hf_is(import, HF_GEMMAS | HF_LAYERED) && !json_is_false(zt_hf_get(import, "tie_word_embeddings")))))
        snprintf(found.name, sizeof found.name, "tied");
    zt_status status = plan_tensor(import, &entry, &found, &tensor);
    if (status == ZT_OK) status = pair_rows(import, &found, &tensor);
    if (status == ZT_OK) status = group_rows(import, &found, &tensor);
    if (status == ZT_OK) status = pad_rows(import, &found, &tensor);
    if (status == ZT_OK && found.todo & HF_HEADS) status = zt_hf_split_heads(import, &tensor, false);
    tensor.source = index;
    if (strcmp(found.name, "output.weight") == 0 && zt_hf_has_unit_head(import)) tensor.unit_rows = true;
    if (status == ZT_OK && (found.todo & HF_FUSED_QKV)) return zt_hf_add_packed(import, &tensor);
    if (status == ZT_OK && (found.todo & HF_DELTA)) return zt_hf_add_delta(import, &tensor);
    if (status == ZT_OK && (found.todo & HF_MIXER)) return zt_hf_add_mixer(import, &tensor);
    if (status == ZT_OK && (found.todo & HF_RWKV)) return zt_hf_add_rwkv(import, &tensor);
    if (status == ZT_OK && (found.todo & HF_STACKED)) return stack_tensor(import, &found, &tensor, entry.name);
    return status == ZT_OK ? add_halves(import, &found, &tensor) : status;
}

/* ---- what is missing ------------------------------------------------------------------------- */

static hf_tensor *find_added(const hf_import *import, const char *name)
{
    for (int64_t i = 0; i < import->tensors->count; i++)
        if (strcmp(import->tensors->list[i].name, name) == 0) return &import->tensors->list[i];
    return NULL;
}

/* The head that is tied: the embedding, where that was left out; else not needed. A head that config.json says is not tied
 * is not an embedding. */
static void resolve_tied_head(hf_import *import)
{
    hf_tensor *tied = find_added(import, "tied");
    bool embedded = find_added(import, "token_embd.weight") != NULL;
    bool untied = json_is_false(zt_hf_get(import, "tie_word_embeddings"));
    if (!embedded && !tied && !untied) tied = find_added(import, "output.weight");
    if (!tied) return;
    if (!embedded)
        tied->name = "token_embd.weight";
    else
        *tied = import->tensors->list[--import->tensors->count];
}

static zt_status add_constant(hf_import *import, const char *name, float value, int64_t count)
{
    float *values = zt_alloc_array(import->ctx, (size_t)count, sizeof *values);
    if (!values) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) values[i] = value;
    hf_tensor tensor = {.name = name, .source = -1, .from = ZT_F32, .values = values};
    tensor.type = zt_type_make(ZT_F32, 1, &count);
    zt_status status = zt_hf_tensors_add(import->tensors, &tensor);
    zt_free(import->ctx, values);
    return status;
}

/* A final norm that was not saved does not scale. */
static zt_status add_final_norm(hf_import *import)
{
    const hf_tensor *embedding = find_added(import, "token_embd.weight");
    if (zt_hf_is(import, HF_BERTS | HF_T5S | HF_LFM2S) || !embedding || embedding->type.rank != 2 ||
        find_added(import, "output_norm.weight"))
        return ZT_OK;
    int64_t width = embedding->type.dim[1];
    zt_log(import->ctx, ZT_LOG_WARN, "%s: the weights of the last norm are missing: 1 is used for all of them", import->path);
    zt_status status = add_constant(import, "output_norm.weight", 1, width);
    return status == ZT_OK && zt_hf_is(import, HF_BIASED_NORMS) ? add_constant(import, "output_norm.bias", 0, width) : status;
}

/* Gemma 4: only with attention_k_eq_v are keys the values of a layer. */
static zt_status check_values(hf_import *import)
{
    if (!zt_hf_is(import, HF_LAYERED) || json_is_true(zt_hf_get(import, "attention_k_eq_v"))) return ZT_OK;
    for (int64_t i = 0; i < import->tensors->count; i++) {
        char value[80];
        int layer, end = 0;
        if (sscanf(import->tensors->list[i].name, "blk.%d.attn_k.weight%n", &layer, &end) != 1 || end == 0) continue;
        snprintf(value, sizeof value, "blk.%d.attn_v.weight", layer);
        if (!find_added(import, value))
            return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' (v_proj) is missing, and attention_k_eq_v is not true",
                           import->path, value);
    }
    return ZT_OK;
}

zt_status zt_hf_add_tensors(hf_import *import)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < zt_checkpoint_count(import->tensors->from); i++) status = add_tensor(import, i);
    if (status == ZT_OK) status = zt_hf_tensors_check_stacks(import->tensors);
    if (status != ZT_OK) return status;
    if (import->behind)
        zt_log(import->ctx, ZT_LOG_INFO, "%s: %" PRId64 " tensors of multi-token-prediction heads are left out", import->path,
               import->behind);
    resolve_tied_head(import);
    status = check_values(import);
    return status == ZT_OK ? add_final_norm(import) : status;
}
