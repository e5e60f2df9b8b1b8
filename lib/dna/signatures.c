/* signatures.c - owns signatures as files: checkpoints whose tensors are signatures, with what they
 * are of in the metadata, and JSON.
 *
 * In a checkpoint tensors are f16, brought to a mean square of 1 so that f16 is fine enough, or
 * f32, as signatures are, of networks and by Loom's rule. "zt.dna.rule" is "field" or "loom",
 * "zt.dna.net" 1 for a network; arrays of texts, one for each tensor: "zt.dna.types",
 * "zt.dna.dtypes", "zt.dna.places" ("z,y,x,l"), "zt.dna.lengths". */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES, DTYPES, PLACES, LENGTHS, TEXTS };

static const char *const meta_keys[TEXTS] = {"zt.dna.types", "zt.dna.dtypes", "zt.dna.places", "zt.dna.lengths"};
#define KEY_RULE "zt.dna.rule"
#define KEY_NET  "zt.dna.net"

/* ---- reading a checkpoint -------------------------------------------------------------------- */

static bool read_place(const char *text, int64_t place[4])
{
    for (int k = 0; k < 4; k++) {
        char *end;
        place[k] = strtoll(text, &end, 10);
        if (end == text || *end != (k < 3 ? ',' : 0)) return false;
        text = end + 1;
    }
    return true;
}

static zt_status read_text(zt_dna *model, int64_t index, int which, const char *text)
{
    zt_dna_layer *layer = &model->layers[index];
    bool good = true;
    if (which == TYPES) layer->type = text;
    if (which == DTYPES) layer->dtype = text;
    if (which == PLACES) good = read_place(text, layer->place);
    if (which == LENGTHS) good = zt_parse_double(text, &model->lengths[index]) && model->lengths[index] >= 0;
    return good ? ZT_OK
                : zt_fail(model->ctx, ZT_EDATA, "%s: invalid '%s' of '%s'", zt_dna_name(model), meta_keys[which], layer->name);
}

static zt_status read_texts(zt_dna *model, int which)
{
    zt_meta *meta = zt_checkpoint_meta(model->checkpoint);
    int64_t key_index = zt_meta_find(meta, meta_keys[which]);
    const zt_meta_item *item = key_index >= 0 ? zt_meta_get(meta, key_index) : NULL;
    zt_gguf_kind kind;
    uint64_t count = 0;
    size_t next = 0;
    zt_status status = ZT_OK;
    if (!item || !zt_meta_array(item, &kind, &count) || count != (uint64_t)model->layer_count)
        return zt_fail(model->ctx, ZT_EDATA, "%s: '%s' does not have one element for each of the %" PRId64 " tensors",
                       zt_dna_name(model), meta_keys[which], model->layer_count);
    for (int64_t i = 0; i < model->layer_count && status == ZT_OK; i++) {
        zt_bytes element = zt_meta_next_str(item, &next);
        char *text = element.data ? zt_arena_strndup(model->texts, element.data, element.n) : NULL;
        if (!element.data)
            return zt_fail(model->ctx, ZT_EDATA, "%s: '%s' is not a list of strings", zt_dna_name(model), meta_keys[which]);
        status = text ? read_text(model, i, which, text) : ZT_ENOMEM;
    }
    return status;
}

bool zt_dna_holds_signatures(zt_dna *model) { return zt_meta_find(zt_checkpoint_meta(model->checkpoint), KEY_RULE) >= 0; }

static zt_status read_rule(zt_dna *model, const char *text, size_t length)
{
    bool loom = length == 4 && memcmp(text, "loom", 4) == 0;
    model->rule = loom ? ZT_RULE_LOOM : ZT_RULE_FIELD;
    return loom || (length == 5 && memcmp(text, "field", 5) == 0)
               ? ZT_OK
               : zt_fail(model->ctx, ZT_EDATA, "%s: invalid signature rule: must be field or loom", zt_dna_name(model));
}

zt_status zt_dna_read_signatures(zt_dna *model)
{
    zt_meta *meta = zt_checkpoint_meta(model->checkpoint);
    zt_bytes rule = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_RULE)));
    model->of_net = zt_meta_find(meta, KEY_NET) >= 0;
    model->lengths = zt_calloc(model->ctx, (size_t)model->layer_count + 1, sizeof *model->lengths);
    zt_status status = model->lengths ? read_rule(model, rule.data ? rule.data : "", rule.n) : ZT_ENOMEM;
    for (int which = 0; which < TEXTS && status == ZT_OK; which++) status = read_texts(model, which);
    for (int64_t i = 0; i < model->layer_count && status == ZT_OK; i++)
        if (model->layers[i].shape.dtype != ZT_F16 && model->layers[i].shape.dtype != ZT_F32)
            status = zt_fail(model->ctx, ZT_EDATA, "%s: '%s' has an invalid dtype: must be f16 or f32", zt_dna_name(model),
                             model->layers[i].name);
    return status;
}

/* ---- reading JSON ---------------------------------------------------------------------------- */

typedef struct json_reading {
    zt_dna *model;
    int64_t capacity;
} json_reading;

static zt_status fail_layer(const json_reading *reading, int64_t index, const char *what)
{
    return zt_fail(reading->model->ctx, ZT_EDATA, "%s: layer %" PRId64 " has no valid %s", zt_dna_name(reading->model), index,
                   what);
}

static zt_status make_room(json_reading *reading)
{
    zt_dna *model = reading->model;
    if (model->layer_count < reading->capacity) return ZT_OK;
    int64_t room = reading->capacity ? 2 * reading->capacity : 64;
    size_t capacity_size = (size_t)room;
    zt_dna_layer *layer = zt_realloc(model->ctx, model->layers, capacity_size * sizeof *layer);
    if (layer) model->layers = layer;
    double *length = layer ? zt_realloc(model->ctx, model->lengths, capacity_size * sizeof *length) : NULL;
    if (length) model->lengths = length;
    float **given = length ? zt_realloc(model->ctx, model->json_values, capacity_size * sizeof *given) : NULL;
    if (!given) return ZT_ENOMEM;
    model->json_values = given;
    reading->capacity = room;
    return ZT_OK;
}

static zt_status copy_text(zt_dna *model, json_t *layer, const char *name, const char **out)
{
    json_t *text = json_object_get(layer, name);
    if (!json_is_string(text)) return zt_fail(model->ctx, ZT_EDATA, "%s: a layer has no %s", zt_dna_name(model), name);
    *out = zt_arena_strndup(model->texts, json_string_value(text), json_string_length(text));
    return *out ? ZT_OK : ZT_ENOMEM;
}

static zt_status copy_shape(const json_reading *reading, json_t *layer, int64_t index, zt_dna_layer *out)
{
    json_t *shape = json_object_get(layer, "shape");
    size_t rank = json_array_size(shape);
    int64_t count = 1;
    if (!json_is_array(shape) || rank > ZT_MAX_RANK) return fail_layer(reading, index, "shape");
    out->shape = (zt_type){.dtype = ZT_F32, .rank = (int)rank};
    for (size_t k = 0; k < rank; k++) {
        out->shape.dim[k] = json_integer_value(json_array_get(shape, k));
        if (!zt_mul_i64(count, out->shape.dim[k], &count)) return fail_layer(reading, index, "shape");
    }
    out->count = count;
    return ZT_OK;
}

static zt_status copy_weights(const json_reading *reading, json_t *layer, int64_t index)
{
    zt_dna *model = reading->model;
    json_t *weights = json_object_get(layer, "weights"), *item;
    size_t position;
    if (!json_is_array(weights) || (int64_t)json_array_size(weights) != model->layers[index].count)
        return fail_layer(reading, index, "weights of the size of its shape");
    model->json_values[index] = zt_alloc_array(model->ctx, (size_t)model->layers[index].count + 1, sizeof(float));
    if (!model->json_values[index]) return ZT_ENOMEM;
    json_array_foreach(weights, position, item) model->json_values[index][position] =
        json_is_number(item) ? (float)json_number_value(item) : NAN;
    return ZT_OK;
}

static zt_status read_layer(json_reading *reading, json_t *layer, int64_t index)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    zt_dna *model = reading->model;
    json_t *length = json_object_get(layer, "length");
    zt_dna_layer *out = &model->layers[index];
    model->json_values[index] = NULL;
    *out = (zt_dna_layer){.count = 0};
    model->layer_count = index + 1;
    model->lengths[index] = json_is_number(length) ? json_number_value(length) : NAN;
    for (int k = 0; k < 4; k++) out->place[k] = json_integer_value(json_object_get(layer, axis[k]));
    if (model->lengths[index] < 0) return fail_layer(reading, index, "nonnegative length");
    zt_status status = copy_text(model, layer, "name", &out->name);
    if (status == ZT_OK) status = copy_text(model, layer, "type", &out->type);
    if (status == ZT_OK) status = copy_text(model, layer, "dtype", &out->dtype);
    if (status == ZT_OK) status = copy_shape(reading, layer, index, out);
    return status == ZT_OK ? copy_weights(reading, layer, index) : status;
}

static zt_status read_next_layer(void *user, int64_t index, const char *text, size_t length)
{
    json_reading *reading = user;
    zt_status status = make_room(reading);
    json_t *layer = status == ZT_OK ? zt_json_load(reading->model->ctx, zt_dna_name(reading->model), text, length) : NULL;
    if (!layer) return status == ZT_OK ? zt_ctx_status(reading->model->ctx) : status;
    status = read_layer(reading, layer, index);
    json_decref(layer);
    return status;
}

static zt_status read_member(void *user, const char *name, const char *text, size_t length)
{
    json_reading *reading = user;
    if (strcmp(name, "layers") == 0 && reading->model->layer_count == 0)
        return zt_json_items(reading->model->ctx, zt_dna_name(reading->model), text, length, read_next_layer, reading);
    if (strcmp(name, "rule") == 0 && length >= 2) return read_rule(reading->model, text + 1, length - 2);
    if (strcmp(name, "net") == 0) reading->model->of_net = length == 4 && memcmp(text, "true", 4) == 0;
    return ZT_OK;
}

zt_status zt_dna_parse(zt_dna *model, const char *text, size_t length)
{
    json_reading reading = {.model = model};
    zt_status status = make_room(&reading);
    return status == ZT_OK ? zt_json_members(model->ctx, zt_dna_name(model), text, length, read_member, &reading) : status;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct signature_writing {
    zt_dna *model;
    zt_entry *entries;
    double *lengths;
    char **texts[TEXTS];
    int64_t count;
    int64_t *layers; /* of each entry */
    zt_arena *arena;
    zt_dtype dtype;
} signature_writing;

static zt_status list_layer(signature_writing *writing, int64_t index)
{
    const zt_dna_layer *layer = &writing->model->layers[index];
    char place[96], length[40];
    zt_entry *entry = &writing->entries[writing->count];
    *entry = (zt_entry){.name = layer->name, .dtype = zt_dtype_get(writing->dtype)->name, .type = layer->shape};
    entry->type.dtype = writing->dtype;
    entry->bytes = (uint64_t)layer->count * (uint64_t)zt_dtype_get(writing->dtype)->block_bytes;
    snprintf(place, sizeof place, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, layer->place[0], layer->place[1],
             layer->place[2], layer->place[3]);
    snprintf(length, sizeof length, "%.17g", writing->lengths[index]);
    const char *texts[TEXTS] = {layer->type, layer->dtype, place, length};
    for (int text_index = 0; text_index < TEXTS; text_index++) {
        writing->texts[text_index][writing->count] =
            zt_arena_strndup(writing->arena, texts[text_index], strlen(texts[text_index]));
        if (!writing->texts[text_index][writing->count]) return ZT_ENOMEM;
    }
    writing->layers[writing->count++] = index;
    return ZT_OK;
}

/* The signature of layer i at x, and its length. */
static zt_status sign_layer(signature_writing *writing, int64_t index, float **values)
{
    *values = zt_alloc_array(writing->model->ctx, (size_t)writing->model->layers[index].count + 1, sizeof **values);
    return *values ? zt_dna_sign(writing->model, index, *values, &writing->lengths[index]) : ZT_ENOMEM;
}

/* Lengths come before the data: a first look at all layers. */
static zt_status list_all(signature_writing *writing)
{
    zt_dna *model = writing->model;
    zt_status status = ZT_OK;
    for (int64_t layer_index = 0; layer_index < model->layer_count && status == ZT_OK; layer_index++) {
        float *values = NULL;
        if (model->layers[layer_index].count == 0) continue; /* nothing that zt can read */
        status = sign_layer(writing, layer_index, &values);
        if (status == ZT_OK) status = list_layer(writing, layer_index);
        zt_free(model->ctx, values);
    }
    return status;
}

static zt_status put_texts(const signature_writing *writing, zt_meta *meta)
{
    const char *rule = writing->model->rule == ZT_RULE_LOOM ? "loom" : "field";
    zt_bytes *strings = zt_alloc_array(writing->model->ctx, (size_t)writing->count + 1, sizeof *strings);
    zt_status status = strings ? zt_meta_put_str(meta, KEY_RULE, rule, strlen(rule)) : ZT_ENOMEM;
    if (status == ZT_OK && zt_dna_is_net(writing->model)) status = zt_meta_put_u32(meta, KEY_NET, 1);
    for (int text_index = 0; text_index < TEXTS && status == ZT_OK; text_index++) {
        for (int64_t i = 0; i < writing->count; i++)
            strings[i] = (zt_bytes){.data = writing->texts[text_index][i], .n = strlen(writing->texts[text_index][i])};
        status = zt_meta_put_strs(meta, meta_keys[text_index], strings, writing->count);
    }
    zt_free(writing->model->ctx, strings);
    return status;
}

static zt_status put_all(signature_writing *writing, zt_writer *out)
{
    zt_status status = ZT_OK;
    for (int64_t entry_index = 0; entry_index < writing->count && status == ZT_OK; entry_index++) {
        int64_t index = writing->layers[entry_index], count = writing->model->layers[index].count;
        float *values = NULL, factor = (float)sqrt((double)count);
        status = sign_layer(writing, index, &values);
        for (int64_t j = 0; j < count && status == ZT_OK && writing->dtype == ZT_F16; j++) {
            uint16_t half = zt_f32_to_f16(values[j] * factor);
            memcpy((char *)values + 2 * j, &half, sizeof half); /* behind what is still to be read */
        }
        if (status == ZT_OK) status = zt_writer_put(out, values, (size_t)writing->entries[entry_index].bytes);
        zt_free(writing->model->ctx, values);
    }
    return status == ZT_OK ? zt_writer_commit(out) : status;
}

static zt_status write_all(signature_writing *writing, const char *path, const zt_checkpoint_opts *options)
{
    zt_ctx *ctx = writing->model->ctx;
    zt_meta *meta = zt_meta_new(ctx);
    zt_status status = meta ? list_all(writing) : ZT_ENOMEM;
    if (status == ZT_OK) status = put_texts(writing, meta);
    zt_writer *writer = status == ZT_OK ? zt_writer_open(ctx, path, options, meta, writing->entries, writing->count) : NULL;
    if (status == ZT_OK) status = writer ? put_all(writing, writer) : zt_ctx_status(ctx);
    zt_writer_close(writer);
    zt_meta_free(meta);
    return status;
}

zt_status zt_dna_write_signatures(zt_dna *model, const char *path, const zt_checkpoint_opts *options)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, path && options, ZT_EUSAGE);
    size_t capacity = (size_t)model->layer_count + 1;
    bool exact = zt_dna_is_net(model) || model->rule == ZT_RULE_LOOM;
    signature_writing writing = {.model = model, .dtype = exact ? ZT_F32 : ZT_F16};
    writing.entries = zt_calloc(model->ctx, capacity, sizeof *writing.entries);
    writing.lengths = zt_calloc(model->ctx, capacity, sizeof *writing.lengths);
    writing.layers = zt_calloc(model->ctx, capacity, sizeof *writing.layers);
    writing.arena = zt_arena_new(model->ctx, 0);
    bool complete = writing.entries && writing.lengths && writing.layers && writing.arena;
    for (int k = 0; k < TEXTS && complete; k++)
        complete = (writing.texts[k] = zt_calloc(model->ctx, capacity, sizeof *writing.texts[k]));
    zt_status status = complete ? write_all(&writing, path, options) : ZT_ENOMEM;
    for (int k = 0; k < TEXTS; k++) zt_free(model->ctx, writing.texts[k]);
    zt_free(model->ctx, writing.entries);
    zt_free(model->ctx, writing.lengths);
    zt_free(model->ctx, writing.layers);
    zt_arena_free(writing.arena);
    return status;
}
