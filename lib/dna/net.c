/* net.c - owns what a network's layers are made of, from its frame: which layers its grid has, and
 * the parts in each, its own weights, branches and steps. */
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_PATH = 1 << 12 }; /* as lib/io/netjson_layers.c has it */

typedef struct net_reader {
    zt_dna *model;
    zt_netjson *frame;
    int64_t part_capacity, layer_capacity; /* of parts, of layers */
} net_reader;

static zt_status fail_at_path(const net_reader *reader, const char *path, const char *what)
{
    return zt_fail(reader->model->ctx, ZT_EDATA, "%s: '%s' %s", zt_dna_name(reader->model), path, what);
}

/* One more part; its index. */
static zt_status add_part(net_reader *reader, dna_part part, int64_t *index)
{
    zt_dna *model = reader->model;
    if (model->part_count == reader->part_capacity) {
        int64_t room = reader->part_capacity ? 2 * reader->part_capacity : 64;
        dna_part *more = zt_realloc(model->ctx, model->parts, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        model->parts = more;
        reader->part_capacity = room;
    }
    *index = model->part_count;
    model->parts[model->part_count++] = part;
    model->parts[*index].next = model->part_count;
    return ZT_OK;
}

/* How many weights there are; where a layer does not say, all that its bytes have places for. */
static int64_t count_weights(const net_reader *reader, int64_t tensor)
{
    zt_net_weights are = zt_netjson_weights(reader->frame, tensor);
    int64_t count = zt_netjson_elements(reader->frame, tensor);
    uint64_t bytes = zt_netjson_get(reader->frame, tensor)->bytes;
    return count >= 0 ? count : (int64_t)(bytes * 8 / (unsigned)zt_storage_get(are.type)->bits);
}

static zt_status add_layer(net_reader *reader, json_t *layer, char *path, size_t length, int depth, int64_t *index);

/* The layers of a list within a layer. Links to elsewhere are no part of it. */
static zt_status add_list(net_reader *reader, json_t *layer, const char *key, char *path, size_t length, int depth)
{
    json_t *list = json_object_get(layer, key), *item;
    size_t i;
    int64_t index;
    zt_status status = ZT_OK;
    json_array_foreach(list, i, item)
    {
        if (json_is_true(json_object_get(item, "is_remote_link"))) continue;
        int added = snprintf(path + length, MAX_PATH - length, ".%s.%zu", key, i);
        if (added < 0 || (size_t)added >= MAX_PATH - length) return fail_at_path(reader, path, "is too long a path");
        status = add_layer(reader, item, path, length + (size_t)added, depth + 1, &index);
        if (status != ZT_OK) break;
    }
    path[length] = 0;
    return status;
}

/* The gate of a filter counts behind the branches. */
static zt_status add_gate(net_reader *reader, json_t *layer, char *path, size_t length, int depth)
{
    int64_t index;
    json_t *gate = json_object_get(layer, "filter_gate");
    if (!json_is_object(gate)) return ZT_OK;
    int added = snprintf(path + length, MAX_PATH - length, ".filter_gate");
    if (added < 0 || (size_t)added >= MAX_PATH - length) return fail_at_path(reader, path, "is too long a path");
    zt_status status = add_layer(reader, gate, path, length + (size_t)added, depth + 1, &index);
    path[length] = 0;
    return status;
}

static bool is_container(const char *type) { return strcmp(type, "Parallel") == 0 || strcmp(type, "Sequential") == 0; }

/* Softmax and residual layers, and what has no weights, are the number 1. */
static zt_status add_leaf(net_reader *reader, char *path, size_t length, int64_t *index)
{
    snprintf(path + length, MAX_PATH - length, ".weights");
    int64_t tensor = zt_checkpoint_find(reader->model->checkpoint, path);
    path[length] = 0;
    if (tensor < 0) return add_part(reader, (dna_part){.tensor = -1, .count = 1}, index);
    dna_part part = {
        .tensor = tensor, .count = count_weights(reader, tensor), .weights = zt_netjson_weights(reader->frame, tensor)};
    if (part.count == 0) part = (dna_part){.tensor = -1, .count = 1};
    return add_part(reader, part, index);
}

static zt_status add_layer(net_reader *reader, json_t *layer, char *path, size_t length, int depth, int64_t *index)
{
    const char *type = json_string_value(json_object_get(layer, "type"));
    if (!json_is_object(layer)) return fail_at_path(reader, path, "is not a layer");
    if (depth > MAX_DEPTH) return fail_at_path(reader, path, "is nested too deeply");
    if (!is_container(type ? type : "")) return add_leaf(reader, path, length, index);
    zt_status status = add_part(reader, (dna_part){.tensor = -1, .is_group = true}, index);
    if (status == ZT_OK) status = add_list(reader, layer, "parallel_branches", path, length, depth);
    if (status == ZT_OK) status = add_list(reader, layer, "sequential_layers", path, length, depth);
    if (status == ZT_OK) status = add_gate(reader, layer, path, length, depth);
    if (status != ZT_OK) return status;
    dna_part *part = &reader->model->parts[*index];
    part->next = reader->model->part_count;
    for (int64_t i = *index + 1; i < part->next; i = reader->model->parts[i].next) part->count += reader->model->parts[i].count;
    return ZT_OK;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static zt_status add_top_layer(net_reader *reader, json_t *layer, int64_t index)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    char path[MAX_PATH];
    zt_dna *model = reader->model;
    zt_dna_layer *layer_out = &model->layers[index];
    const char *type = json_string_value(json_object_get(layer, "type"));
    const char *dtype = json_string_value(json_object_get(layer, "dtype"));
    int length = snprintf(path, sizeof path, "layers.%" PRId64, index);
    zt_status status = add_layer(reader, layer, path, (size_t)length, 1, &model->first_parts[index]);
    if (status != ZT_OK) return status;
    const dna_part *part = &model->parts[model->first_parts[index]];
    for (int k = 0; k < 4; k++) layer_out->place[k] = json_integer_value(json_object_get(layer, axis[k]));
    snprintf(path, sizeof path, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, layer_out->place[0], layer_out->place[1],
             layer_out->place[2], layer_out->place[3]);
    layer_out->count = part->count;
    layer_out->shape = zt_type_make(ZT_F32, 1, &layer_out->count);
    layer_out->name = zt_arena_strndup(model->texts, path, strlen(path));
    layer_out->type = zt_arena_strndup(model->texts, type ? type : "", strlen(type ? type : ""));
    layer_out->dtype = part->tensor >= 0
                           ? zt_netjson_word(part->weights.type)
                           : zt_arena_strndup(model->texts, dtype ? dtype : "float32", strlen(dtype ? dtype : "float32"));
    return layer_out->name && layer_out->type && layer_out->dtype ? ZT_OK : ZT_ENOMEM;
}

/* The frame must be of the checkpoint's tensors. */
static bool frame_matches(const net_reader *reader)
{
    const zt_dna *model = reader->model;
    bool same = zt_netjson_count(reader->frame) == zt_checkpoint_count(model->checkpoint);
    for (int64_t i = 0; same && i < zt_netjson_count(reader->frame); i++) {
        const zt_array *array = zt_netjson_get(reader->frame, i);
        zt_entry entry;
        zt_checkpoint_get(model->checkpoint, i, &entry);
        same = strcmp(array->name, entry.name) == 0 && array->bytes == entry.bytes;
    }
    return same;
}

/* Layers are looked at one by one: what a text of JSON can be blown up to is never held. */
static zt_status read_layer(void *user, int64_t index, const char *text, size_t length)
{
    net_reader *reader = user;
    zt_dna *model = reader->model;
    if (index == reader->layer_capacity) {
        int64_t room = index ? 2 * index : 64;
        zt_dna_layer *more = zt_realloc(model->ctx, model->layers, (size_t)room * sizeof *more);
        if (more) model->layers = more;
        int64_t *first = more ? zt_realloc(model->ctx, model->first_parts, (size_t)room * sizeof *first) : NULL;
        if (!first) return ZT_ENOMEM;
        model->first_parts = first;
        reader->layer_capacity = room;
    }
    json_t *layer = zt_json_load(model->ctx, zt_dna_name(model), text, length);
    if (!layer) return zt_ctx_status(model->ctx);
    model->layers[index] = (zt_dna_layer){.count = 0};
    zt_status status = add_top_layer(reader, layer, index);
    json_decref(layer);
    model->layer_count = index + 1;
    return status;
}

static zt_status read_member(void *user, const char *key, const char *text, size_t length)
{
    net_reader *reader = user;
    return strcmp(key, "layers") == 0
               ? zt_json_items(reader->model->ctx, zt_dna_name(reader->model), text, length, read_layer, reader)
               : ZT_OK;
}

zt_status zt_dna_net_layers(zt_dna *model, zt_bytes frame)
{
    net_reader reader = {.model = model, .frame = zt_netjson_from_frame(model->ctx, frame.data, frame.n)};
    if (!reader.frame) return zt_ctx_status(model->ctx);
    zt_status status =
        frame_matches(&reader)
            ? zt_json_members(model->ctx, zt_dna_name(model), frame.data, frame.n, read_member, &reader)
            : zt_fail(model->ctx, ZT_EDATA, "%s: the stored network structure does not match the tensors", zt_dna_name(model));
    zt_netjson_close(reader.frame);
    return status;
}
