/* read.c - owns the way from a document to layers: members of a layer, layers in it, its place. */
#include "lib/base/near.h"
#include "lib/base/require.h"
#include "lib/io/json.h"
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MAX_CELLS = 1 << 24, MAX_PATH = 1 << 12, MAX_LAYERS = 1 << 18 };

typedef struct network_reader {
    zt_nn *network;
    zt_netjson *document;
    int depth;
    int64_t layers; /* so far, those within others too */
} network_reader;

zt_status zt_layer_vbad(const zt_nn *network, const zt_nn_layer *layer, const char *fmt, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    return zt_fail(network->ctx, ZT_EDATA, "%s: %s (%s): %s", network->name, layer->path, zt_nn_kind_name(layer->kind), text);
}

zt_status zt_layer_bad(const zt_nn *network, const zt_nn_layer *layer, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    zt_status status = zt_layer_vbad(network, layer, fmt, args);
    va_end(args);
    return status;
}

/* ---- members --------------------------------------------------------------------------------- */

typedef struct number_row {
    const char *name;
    size_t offset;
} number_row;

#define ROW(key) {#key, offsetof(zt_nn_layer, key)},
static const number_row ints[] = {ZT_NN_INTS(ROW)};
static const number_row reals[] = {ZT_NN_REALS(ROW)};
#undef ROW

int64_t zt_layer_number(const zt_nn_layer *layer, const char *name)
{
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (!strcmp(ints[i].name, name)) return *(const int64_t *)((const char *)layer + ints[i].offset);
    return -1;
}

double zt_layer_real(const zt_nn_layer *layer, const char *name)
{
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!strcmp(reals[i].name, name)) return *(const double *)((const char *)layer + reals[i].offset);
    return NAN;
}

/* A whole number from 0 to `most`; one that is not there is 0. */
static zt_status get_int(const network_reader *reader, const zt_nn_layer *layer, json_t *object, const char *key, int64_t most,
                         int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    double number = value ? json_number_value(value) : 0;
    if (value && !json_is_number(value) && !json_is_null(value))
        return zt_layer_bad(reader->network, layer, "\"%s\" is not a number", key);
    if (!(number >= 0) || number > (double)most || number != floor(number))
        return zt_layer_bad(reader->network, layer, "\"%s\" is %g: must be an integer from 0 to %" PRId64, key, number, most);
    *out = (int64_t)number;
    return ZT_OK;
}

static zt_status get_numbers(const network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof ints / sizeof *ints && !status; i++)
        status = get_int(reader, layer, object, ints[i].name, NN_MAX_DIM, (int64_t *)((char *)layer + ints[i].offset));
    for (size_t i = 0; i < sizeof reals / sizeof *reals && !status; i++) {
        const json_t *value = json_object_get(object, reals[i].name);
        double number = value ? json_number_value(value) : 0;
        if ((value && !json_is_number(value) && !json_is_null(value)) || !isfinite(number))
            status = zt_layer_bad(reader->network, layer, "\"%s\" is not a number", reals[i].name);
        *(double *)((char *)layer + reals[i].offset) = number;
    }
    return status;
}

static zt_status get_bool(const network_reader *reader, const zt_nn_layer *layer, json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_true(value);
    return !value || json_is_boolean(value) || json_is_null(value)
               ? ZT_OK
               : zt_layer_bad(reader->network, layer, "\"%s\" is not true or false", key);
}

/* A member's text, "" where there is none. */
static zt_status get_text(const network_reader *reader, const zt_nn_layer *layer, json_t *object, const char *key,
                          const char **out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_string(value) ? json_string_value(value) : "";
    return !value || json_is_string(value) || json_is_null(value)
               ? ZT_OK
               : zt_layer_bad(reader->network, layer, "\"%s\" is not a string", key);
}

static const char *kind_name(const void *user, int i)
{
    (void)user;
    return i < ZT_NN_KINDS ? zt_nn_kind_name((zt_nn_kind)i) : NULL;
}

static const char *act_name(const void *user, int i)
{
    (void)user;
    return ZT_NN_LINEAR + i < ZT_NN_ACTS ? zt_nn_act_name((zt_nn_act)(ZT_NN_LINEAR + i)) : NULL;
}

static const char *dtype_name(const void *user, int i)
{
    (void)user;
    return i < ZT_STORE_COUNT ? zt_netjson_word((zt_storage)i) : NULL;
}

static zt_status fail_unknown(const network_reader *reader, const zt_nn_layer *layer, const char *key, const char *name)
{
    char text[80];
    zt_near_hint hint;
    zt_name_fn *known = !strcmp(key, "activation") ? act_name : !strcmp(key, "dtype") ? dtype_name : NULL;
    return zt_layer_bad(reader->network, layer, "unknown %s '%s'%s", key, zt_escape(text, sizeof text, name, strlen(name)),
                        known ? zt_near(hint, name, known, NULL) : "");
}

/* Names; one that is there must be known. */
static zt_status get_names(const network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    char text[80];
    zt_near_hint hint;
    const char *type, *act, *dtype, *softmax, *mode, *combine;
    static const char *const modes[] = {"concat", "add", "avg", "filter", "grid_scatter"};
    zt_status status = get_text(reader, layer, object, "type", &type);
    if (!status && !zt_nn_kind_parse(type, &layer->kind))
        status = zt_fail(reader->network->ctx, ZT_EDATA, "%s: %s: unknown layer type '%s'%s", reader->network->name, layer->path,
                         zt_escape(text, sizeof text, type, strlen(type)), zt_near(hint, type, kind_name, NULL));
    if (!status) status = get_text(reader, layer, object, "activation", &act);
    if (!status) status = get_text(reader, layer, object, "dtype", &dtype);
    if (!status) status = get_text(reader, layer, object, "softmax_type", &softmax);
    if (!status) status = get_text(reader, layer, object, "output_mode", &mode);
    if (!status) status = get_text(reader, layer, object, "combine_mode", &combine);
    if (status) return status;
    if (!zt_nn_act_parse(act, &layer->activation) && *act) return fail_unknown(reader, layer, "activation", act);
    if (!zt_nn_dtype_parse(dtype, &layer->dtype) && *dtype) return fail_unknown(reader, layer, "dtype", dtype);
    if (!zt_nn_softmax_parse(softmax, &layer->softmax) && *softmax) return fail_unknown(reader, layer, "softmax type", softmax);
    layer->features = !strcmp(mode, "features");
    if (!layer->features && *mode && strcmp(mode, "probabilities") != 0) return fail_unknown(reader, layer, "output mode", mode);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(*combine ? combine : "concat", modes[i])) layer->combine = modes[i];
    return layer->combine ? ZT_OK : fail_unknown(reader, layer, "combine mode", combine);
}

static zt_status get_mask(const network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    const json_t *list = json_object_get(object, "mask"), *value;
    size_t i, length = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(reader->network, layer, "\"mask\" is not a list");
    uint8_t *mask = zt_arena_alloc(reader->network->arena, length + 1);
    if (!mask) return ZT_ENOMEM;
    json_array_foreach(list, i, value)
    {
        if (!json_is_boolean(value)) return zt_layer_bad(reader->network, layer, "mask[%zu] is not true or false", i);
        mask[i] = json_is_true(value);
    }
    layer->mask = mask;
    layer->mask_count = (int64_t)length;
    return length ? zt_layer_add_mask(reader->network, layer) : ZT_OK;
}

static zt_status get_levels(const network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    const json_t *list = json_object_get(object, "hierarchy_levels"), *value;
    size_t i, length = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(reader->network, layer, "\"hierarchy_levels\" is not a list");
    int64_t *level = zt_arena_alloc(reader->network->arena, (length + 1) * sizeof *level);
    if (!level) return ZT_ENOMEM;
    json_array_foreach(list, i, value)
    {
        level[i] = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
        if (level[i] < 1 || level[i] > NN_MAX_DIM)
            return zt_layer_bad(reader->network, layer, "hierarchy_levels[%zu] is not a valid size", i);
    }
    layer->levels = level;
    layer->level_count = (int64_t)length;
    return ZT_OK;
}

static zt_status get_link(const network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    static const char *const key[4] = {"target_z", "target_y", "target_x", "target_l"};
    zt_status status = get_bool(reader, layer, object, "is_remote_link", &layer->is_link);
    for (int k = 0; k < 4 && !status; k++) status = get_int(reader, layer, object, key[k], MAX_CELLS, &layer->target[k]);
    return status;
}

/* ---- known members ---------------------------------------------------------------------------- */

/* A member that nothing reads is an error: what it was meant to do would not happen. */
static const char *const network_members[] = {"id", "depth", "rows", "cols", "layers_per_cell", "layers", NULL};

#define NAME(key) #key,
static const char *const layer_members[] = {ZT_NN_INTS(NAME) ZT_NN_REALS(NAME) "z",
                                            "y",
                                            "x",
                                            "l",
                                            "type",
                                            "activation",
                                            "dtype",
                                            "softmax_type",
                                            "output_mode",
                                            "combine_mode",
                                            "weights",
                                            "native",
                                            "scale",
                                            "zt.rule",
                                            "mask",
                                            "hierarchy_levels",
                                            "is_disabled",
                                            "gumbel_noise",
                                            "use_tiling",
                                            "is_remote_link",
                                            "target_z",
                                            "target_y",
                                            "target_x",
                                            "target_l",
                                            "parallel_branches",
                                            "sequential_layers",
                                            "filter_gate",
                                            NULL};
#undef NAME

static bool is_one(const char *const *names, const char *key)
{
    while (*names && strcmp(*names, key)) names++;
    return *names != NULL;
}

zt_status zt_nn_check_member(const zt_nn *network, const char *key)
{
    char what[200], shown[120];
    if (is_one(network_members, key) || strcmp(key, "zt.gguf") == 0) /* metadata: lib/io */
        return ZT_OK;
    snprintf(what, sizeof what, "%s: unknown member", zt_escape(shown, sizeof shown, network->name, strlen(network->name)));
    return zt_fail_unknown(network->ctx, ZT_EDATA, what, key, strlen(key), zt_near_list, network_members);
}

zt_status zt_layer_check_member(const zt_nn *network, const zt_nn_layer *layer, const char *key)
{
    char shown[80];
    zt_near_hint hint;
    if (is_one(layer_members, key)) return ZT_OK;
    return zt_layer_bad(network, layer, "unknown member '%s'%s", zt_escape(shown, sizeof shown, key, strlen(key)),
                        zt_near(hint, key, zt_near_list, layer_members));
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status read_layer(network_reader *reader, json_t *object, const char *path, zt_nn_layer *layer);

/* The layers of a list, or of one member, within a layer. */
static zt_status read_inner(network_reader *reader, const zt_nn_layer *layer, json_t *object, const char *key, zt_nn_layer **out,
                            int64_t *count_out)
{
    char path[MAX_PATH];
    json_t *list = json_object_get(object, key);
    bool one = json_is_object(list);
    size_t count = one ? 1 : json_array_size(list);
    zt_status status = ZT_OK;
    if (list && !one && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(reader->network, layer, "\"%s\" is not a list of layers", key);
    if (count == 0) return ZT_OK;
    if (++reader->depth > NN_MAX_DEPTH) return zt_layer_bad(reader->network, layer, "layers are nested too deeply");
    *out = zt_arena_alloc(reader->network->arena, count * sizeof **out);
    if (!*out) return ZT_ENOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        int len = one ? snprintf(path, sizeof path, "%s.%s", layer->path, key)
                      : snprintf(path, sizeof path, "%s.%s.%zu", layer->path, key, i);
        if (len < 0 || len >= MAX_PATH) return zt_layer_bad(reader->network, layer, "the layer path is too long");
        status = read_layer(reader, one ? list : json_array_get(list, i), path, *out + i);
    }
    *count_out = (int64_t)count;
    reader->depth--;
    return status;
}

static zt_status read_all_inner(network_reader *reader, zt_nn_layer *layer, json_t *object)
{
    int64_t gates = 0;
    zt_status status = read_inner(reader, layer, object, "parallel_branches", &layer->branches, &layer->branch_count);
    if (!status) status = read_inner(reader, layer, object, "sequential_layers", &layer->steps, &layer->step_count);
    if (!status) status = read_inner(reader, layer, object, "filter_gate", &layer->gate, &gates);
    return status || gates < 2 ? status : zt_layer_bad(reader->network, layer, "\"filter_gate\" has more than one layer");
}

static zt_status check_needs(const zt_nn *network, const zt_nn_layer *layer)
{
    const nn_kind *kind = zt_layer_kind_of(layer->kind);
    for (int i = 0; i < 5 && kind->needs[i]; i++)
        if (zt_layer_number(layer, kind->needs[i]) < 1)
            return zt_layer_bad(network, layer, "%s is 0: must be at least 1", kind->needs[i]);
    return ZT_OK;
}

static zt_status read_layer(network_reader *reader, json_t *object, const char *path, zt_nn_layer *layer)
{
    *layer = (zt_nn_layer){.path = zt_arena_strndup(reader->network->arena, path, strlen(path)),
                           .activation = ZT_NN_LINEAR,
                           .dtype = ZT_STORE_F32,
                           .rule = ZT_RULE_LOOM,
                           .scale = 1};
    const char *rule = "";
    if (!layer->path) return ZT_ENOMEM;
    if (++reader->layers > MAX_LAYERS)
        return zt_layer_bad(reader->network, layer, "too many layers: at most %d are supported", MAX_LAYERS);
    if (!json_is_object(object)) return zt_layer_bad(reader->network, layer, "not a layer: must be an object");
    zt_status status = get_names(reader, layer, object);
    const char *key;
    json_t *member;
    json_object_foreach(object, key, member) if (!status) status = zt_layer_check_member(reader->network, layer, key);
    if (!status) status = get_numbers(reader, layer, object);
    if (!status) status = get_bool(reader, layer, object, "is_disabled", &layer->disabled);
    if (!status) status = get_bool(reader, layer, object, "gumbel_noise", &layer->gumbel_noise);
    if (!status) status = get_bool(reader, layer, object, "use_tiling", &layer->use_tiling);
    if (!status) status = get_text(reader, layer, object, "zt.rule", &rule); /* which netjson has checked */
    if (!status && !strcmp(rule, "field")) layer->rule = ZT_RULE_FIELD;
    if (!status) status = get_mask(reader, layer, object);
    if (!status) status = get_levels(reader, layer, object);
    if (!status) status = get_link(reader, layer, object);
    if (!status) zt_layer_settle(layer);
    bool borrows = layer->is_link && reader->depth > 0; /* in the grid a link has a function of its own */
    if (!status && !borrows) status = check_needs(reader->network, layer);
    if (!status) status = zt_layer_take_weights(reader->network, layer, reader->document, borrows);
    return status ? status : read_all_inner(reader, layer, object);
}

/* ---- the grid -------------------------------------------------------------------------------- */

static zt_status add_layer(zt_nn *network, zt_nn_layer *layer)
{
    if (network->layer_count == network->layer_capacity) {
        int64_t room = network->layer_capacity ? 2 * network->layer_capacity : 32;
        zt_nn_layer **more = zt_realloc(network->ctx, network->layers, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        network->layers = more;
        network->layer_capacity = room;
    }
    network->layers[network->layer_count++] = layer;
    return ZT_OK;
}

static zt_status read_next_layer(void *user, int64_t index, const char *text, size_t length)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    char path[40];
    network_reader *reader = user;
    zt_nn_layer *layer = zt_arena_alloc(reader->network->arena, sizeof *layer);
    if (!layer) return ZT_ENOMEM;
    snprintf(path, sizeof path, "layers.%" PRId64, index);
    json_t *object = zt_json_load(reader->network->ctx, reader->network->name, text, length);
    if (!object) return zt_ctx_status(reader->network->ctx);
    zt_status status = read_layer(reader, object, path, layer);
    for (int k = 0; k < 4 && !status; k++) status = get_int(reader, layer, object, axis[k], MAX_CELLS, &layer->place[k]);
    json_decref(object);
    return status ? status : add_layer(reader->network, layer);
}

static zt_status read_id(zt_nn *network, const char *text, size_t length)
{
    json_t *value = zt_json_load(network->ctx, network->name, text, length);
    if (!value) return zt_ctx_status(network->ctx);
    const char *id = json_is_string(value) ? json_string_value(value) : "";
    network->id = zt_arena_strndup(network->arena, id, strlen(id));
    json_decref(value);
    return network->id ? ZT_OK : ZT_ENOMEM;
}

static zt_status read_member(void *user, const char *key, const char *text, size_t length)
{
    static const char *const axis[4] = {"depth", "rows", "cols", "layers_per_cell"};
    network_reader *reader = user;
    zt_nn *network = reader->network;
    if (!strcmp(key, "layers")) return zt_json_items(network->ctx, network->name, text, length, read_next_layer, reader);
    if (!strcmp(key, "id")) return read_id(network, text, length);
    for (int k = 0; k < 4; k++) {
        if (strcmp(key, axis[k]) != 0) continue;
        json_t *value = zt_json_load(network->ctx, network->name, text, length);
        if (!value) return zt_ctx_status(network->ctx);
        network->extent[k] = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
        json_decref(value);
        if (network->extent[k] < 1 || network->extent[k] > MAX_CELLS)
            return zt_fail(network->ctx, ZT_EDATA, "%s: \"%s\" is not a valid grid size", network->name, key);
        return ZT_OK;
    }
    return zt_nn_check_member(network, key);
}

int64_t zt_layer_index(const zt_nn *network, const int64_t place[4])
{
    int64_t i = 0;
    for (int k = 0; k < 4; k++) i = i * network->extent[k] + place[k];
    return i;
}

static int compare_places(const void *left, const void *right)
{
    const int64_t *first = (*(zt_nn_layer *const *)left)->place, *second = (*(zt_nn_layer *const *)right)->place;
    int axis = 0;
    while (axis < 3 && first[axis] == second[axis]) axis++;
    return first[axis] < second[axis] ? -1 : first[axis] > second[axis];
}

/* Layers go to their places: each within the grid, no two in one. */
static zt_status place_layers(zt_nn *network)
{
    int64_t cells = 1;
    for (int k = 0; k < 4; k++)
        if (!zt_mul_i64(cells, network->extent[k], &cells) || cells < 1 || cells > MAX_CELLS)
            return zt_fail(network->ctx, ZT_EDATA, "%s: the grid is empty or has more than %d places", network->name, MAX_CELLS);
    for (int64_t i = 0; i < network->layer_count; i++)
        for (int k = 0; k < 4; k++)
            if (network->layers[i]->place[k] >= network->extent[k])
                return zt_layer_bad(network, network->layers[i],
                                    "grid position %" PRId64 " is out of range: the grid has %" PRId64,
                                    network->layers[i]->place[k], network->extent[k]);
    qsort(network->layers, (size_t)network->layer_count, sizeof *network->layers, compare_places);
    for (int64_t i = 1; i < network->layer_count; i++)
        if (zt_layer_index(network, network->layers[i - 1]->place) == zt_layer_index(network, network->layers[i]->place))
            return zt_layer_bad(network, network->layers[i], "the grid position is already taken by %s",
                                network->layers[i - 1]->path);
    return ZT_OK;
}

zt_nn_layer *zt_nn_find(const zt_nn *network, const int64_t place[4])
{
    if (!network) return NULL;
    ZT_REQUIRE(network->ctx, place, NULL);
    int64_t low = 0, high = network->layer_count, want;
    for (int k = 0; k < 4; k++)
        if (place[k] < 0 || place[k] >= network->extent[k]) return NULL;
    want = zt_layer_index(network, place);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (zt_layer_index(network, network->layers[middle]->place) < want)
            low = middle + 1;
        else
            high = middle;
    }
    return low < network->layer_count && zt_layer_index(network, network->layers[low]->place) == want ? network->layers[low]
                                                                                                      : NULL;
}

/* XXH3-128 of the frame's bytes, seeded by the document's size. */
static void make_hash(zt_nn *network, const char *frame, size_t length, uint64_t size)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(frame, length, size);
    snprintf(network->hash, sizeof network->hash, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

static zt_status read_all(zt_nn *network, zt_source *source)
{
    network_reader reader = {.network = network, .document = zt_netjson_from(network->ctx, source)};
    size_t length = 0;
    if (!reader.document) return zt_ctx_status(network->ctx);
    const char *frame = zt_netjson_frame(reader.document, &length);
    make_hash(network, frame, length, zt_source_size(source));
    zt_status status = zt_json_members(network->ctx, network->name, frame, length, read_member, &reader);
    if (!status) status = place_layers(network);
    zt_netjson_close(reader.document);
    return status;
}

zt_nn *zt_nn_from(zt_ctx *ctx, zt_source *source, uint64_t seed)
{
    ZT_REQUIRE(ctx, source, NULL);
    zt_nn *network = zt_calloc(ctx, 1, sizeof *network);
    if (!network) return NULL;
    network->ctx = ctx;
    network->seed = seed;
    network->arena = zt_arena_new(ctx, 0);
    if (network->arena) network->name = zt_arena_strndup(network->arena, zt_source_name(source), strlen(zt_source_name(source)));
    if (network->name && read_all(network, source) == ZT_OK) return network;
    zt_nn_close(network);
    return NULL;
}

zt_nn *zt_nn_open(zt_ctx *ctx, const char *path, uint64_t seed)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    zt_nn *network = source ? zt_nn_from(ctx, source, seed) : NULL;
    zt_source_close(source);
    return network;
}

void zt_nn_close(zt_nn *network)
{
    if (!network) return;
    for (int64_t i = 0; i < network->master_count; i++) zt_free(network->ctx, network->masters[i]);
    zt_free(network->ctx, network->masters);
    zt_free(network->ctx, network->weights);
    zt_free(network->ctx, network->masked);
    zt_free(network->ctx, network->layers);
    zt_map_free(network->weight_names);
    zt_arena_free(network->arena);
    zt_free(network->ctx, network);
}

zt_ctx *zt_nn_ctx(const zt_nn *network) { return network ? network->ctx : NULL; }
const char *zt_nn_id(const zt_nn *network) { return network->hash; }
const char *zt_nn_name(const zt_nn *network) { return network ? network->name : NULL; }
int64_t zt_nn_extent(const zt_nn *network, int axis)
{
    if (!network || axis < 0 || axis > 3) return 0;
    return network ? network->extent[axis] : 0;
}
int64_t zt_nn_count(const zt_nn *network) { return network ? network->layer_count : 0; }
zt_nn_layer *zt_nn_layer_at(const zt_nn *network, int64_t index) { return network ? network->layers[index] : NULL; }
