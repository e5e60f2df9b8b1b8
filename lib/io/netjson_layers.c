/* netjson_layers.c - owns going through a frame: that it is JSON, where its layers are, and what
 * their weights are. */
#include "lib/io/json.h"
#include "lib/io/netjson_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_DEPTH = 64,      /* of layers in layers */
    MAX_VALUE = 1 << 20, /* bytes of what is no layer */
    MAX_NAME = 1 << 12
};

/* ---- dtypes ---------------------------------------------------------------------------------- */

typedef struct nj_dtype {
    const char *name, *other; /* in any case of letters */
    zt_dtype dtype;           /* as native weights are held; ZT_DTYPE_COUNT: packed */
    zt_storage storage;
} nj_dtype;

static const nj_dtype dtypes[] = {
    {"float32", "fp32", ZT_F32, ZT_STORE_F32},
    {"float64", "f64", ZT_F64, ZT_STORE_F64},
    {"float16", "f16", ZT_F32, ZT_STORE_F16},
    {"bfloat16", "bf16", ZT_F32, ZT_STORE_BF16},
    {"fp8e4m3", "fp8", ZT_I8, ZT_STORE_FP8E4M3},
    {"fp8e5m2", NULL, ZT_I8, ZT_STORE_FP8E5M2},
    {"int64", "i64", ZT_I64, ZT_STORE_I64},
    {"int32", "i32", ZT_I32, ZT_STORE_I32},
    {"int16", "i16", ZT_I16, ZT_STORE_I16},
    {"int8", "i8", ZT_I8, ZT_STORE_I8},
    {"uint64", "u64", ZT_I64, ZT_STORE_U64},
    {"uint32", "u32", ZT_I32, ZT_STORE_U32},
    {"uint16", "u16", ZT_I16, ZT_STORE_U16},
    {"uint8", "u8", ZT_I8, ZT_STORE_U8},
    {"int4", NULL, ZT_DTYPE_COUNT, ZT_STORE_I4},
    {"uint4", NULL, ZT_DTYPE_COUNT, ZT_STORE_U4},
    {"fp4", "f4", ZT_DTYPE_COUNT, ZT_STORE_FP4},
    {"int2", NULL, ZT_DTYPE_COUNT, ZT_STORE_I2},
    {"uint2", NULL, ZT_DTYPE_COUNT, ZT_STORE_U2},
    {"ternary", NULL, ZT_DTYPE_COUNT, ZT_STORE_TERNARY},
    {"binary", NULL, ZT_DTYPE_COUNT, ZT_STORE_BINARY},
};

/* What no row has is float32, as the original takes it. */
static const nj_dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcasecmp(name, dtypes[i].name) == 0 || (dtypes[i].other && strcasecmp(name, dtypes[i].other) == 0))
            return &dtypes[i];
    return &dtypes[0];
}

const char *zt_netjson_word(zt_storage storage)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].storage == storage) return dtypes[i].name;
    return NULL;
}

bool zt_nj_reads_by_rule(zt_storage storage)
{
    static const zt_storage other[] = {ZT_STORE_FP8E4M3, ZT_STORE_FP8E5M2, ZT_STORE_FP4, ZT_STORE_U64, ZT_STORE_U32,
                                       ZT_STORE_U16,     ZT_STORE_U8,      ZT_STORE_U4,  ZT_STORE_U2};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (other[i] == storage) return true;
    return false;
}

/* ---- one layer ------------------------------------------------------------------------------- */

typedef struct net_layer {
    zt_netjson *net;
    zt_str *path; /* of the layer */
    int depth;
    const nj_dtype *dtype;
    bool native, field;
    float scale;
    nj_span member[NJ_MEMBERS];
    int64_t weights; /* -1: none */
    nj_sizes sizes;
    unsigned seen; /* members that there were, by their rows */
    bool has_layers, top;
} net_layer;

static zt_status fail_at(const net_layer *layer, const char *what)
{
    char text[160];
    return zt_fail(layer->net->base.ctx, ZT_EDATA, "%s: %s: %s", layer->net->base.name,
                   layer->path->len ? zt_escape(text, sizeof text, layer->path->data, layer->path->len) : "the network", what);
}

static zt_status read_weights(net_layer *layer, const char *key, const char *text, size_t size)
{
    char wanted[48];
    zt_netjson *net = layer->net;
    (void)key;
    if (net->base.count >= net->weights_count) return fail_at(layer, "\"weights\" is not a string");
    int length =
        snprintf(wanted, sizeof wanted, "\"#%" PRId64 ":%" PRIu64 "\"", net->base.count, net->weights[net->base.count].bytes);
    if (size != (size_t)length || memcmp(text, wanted, size) != 0) return fail_at(layer, "\"weights\" is not a string");
    layer->weights = net->base.count++;
    return ZT_OK;
}

static void note_member(net_layer *layer, int member, const char *text, size_t size)
{
    size_t start = (size_t)(text - layer->net->frame.data);
    layer->member[member] = (nj_span){start, start + size};
}

static zt_status read_dtype(net_layer *layer, const char *key, const char *text, size_t size)
{
    zt_str word;
    (void)key;
    note_member(layer, NJ_DTYPE, text, size);
    zt_str_init(&word, layer->net->base.ctx);
    zt_status status = zt_json_string(layer->net->base.ctx, layer->net->base.name, text, size, &word);
    if (status == ZT_OK) layer->dtype = dtype_named(word.len ? word.data : "");
    zt_str_fini(&word);
    return status;
}

static zt_status read_native(net_layer *layer, const char *key, const char *text, size_t size)
{
    (void)key;
    note_member(layer, NJ_NATIVE, text, size);
    layer->native = size == 4 && memcmp(text, "true", 4) == 0;
    return layer->native || (size == 5 && memcmp(text, "false", 5) == 0) ? ZT_OK
                                                                         : fail_at(layer, "\"native\" is not true or false");
}

/* A number; null and 0 are none. */
static zt_status read_scale(net_layer *layer, const char *key, const char *text, size_t size)
{
    (void)key;
    note_member(layer, NJ_SCALE, text, size);
    json_t *json = zt_json_load(layer->net->base.ctx, layer->net->base.name, text, size);
    zt_status status = json ? ZT_OK : zt_ctx_status(layer->net->base.ctx);
    if (json && !json_is_number(json) && !json_is_null(json)) status = fail_at(layer, "\"scale\" is not a number");
    float scale = status == ZT_OK ? (float)json_number_value(json) : 0;
    layer->scale = scale != 0 && isfinite(scale) ? scale : 1;
    json_decref(json);
    return status;
}

static zt_status read_rule(net_layer *layer, const char *key, const char *text, size_t size)
{
    (void)key;
    note_member(layer, NJ_RULE, text, size);
    layer->field = size == 7 && memcmp(text, "\"field\"", 7) == 0;
    return layer->field || (size == 6 && memcmp(text, "\"loom\"", 6) == 0)
               ? ZT_OK
               : fail_at(layer, "\"zt.rule\" is not \"field\" or \"loom\"");
}

static zt_status read_layer(void *user, int64_t i, const char *text, size_t size);
static zt_status read_layer_at(const net_layer *above, const char *text, size_t size);

/* Back to a length that it had; nothing was ever put where memory failed at once. */
static void truncate_path(zt_str *path, size_t length)
{
    path->len = length;
    if (path->data) path->data[length] = 0;
}

/* The layers of a list, below `key`. */
static zt_status read_layers(net_layer *layer, const char *key, const char *text, size_t size)
{
    size_t length = layer->path->len;
    if (layer->depth == MAX_DEPTH) return fail_at(layer, "layers are nested too deeply");
    zt_status status = zt_str_printf(layer->path, "%s%s", length ? "." : "", key);
    layer->depth++;
    if (status == ZT_OK && !(size == 4 && memcmp(text, "null", 4) == 0))
        status = zt_json_items(layer->net->base.ctx, layer->net->base.name, text, size, read_layer, layer);
    layer->depth--;
    truncate_path(layer->path, length);
    layer->has_layers = true;
    return status;
}

/* One layer, below `key` itself. */
static zt_status read_gate(net_layer *layer, const char *key, const char *text, size_t size)
{
    size_t length = layer->path->len;
    if (size == 4 && memcmp(text, "null", 4) == 0) return ZT_OK;
    if (layer->depth == MAX_DEPTH) return fail_at(layer, "layers are nested too deeply");
    zt_status status = zt_str_printf(layer->path, ".%s", key);
    layer->depth++;
    if (status == ZT_OK) status = read_layer_at(layer, text, size);
    layer->depth--;
    truncate_path(layer->path, length);
    return status;
}

/* Members that mean something here; of the network, and of a layer. */
static const struct {
    const char *key;
    bool top, layer;
    zt_status (*read)(net_layer *l, const char *key, const char *text, size_t n);
} members[] = {
    {"layers", true, false, read_layers},
    {"weights", false, true, read_weights},
    {"dtype", false, true, read_dtype},
    {"native", false, true, read_native},
    {"scale", false, true, read_scale},
    {"zt.rule", false, true, read_rule},
    {"parallel_branches", false, true, read_layers},
    {"sequential_layers", false, true, read_layers},
    {"filter_gate", false, true, read_gate},
};

static zt_status read_member(void *user, const char *key, const char *text, size_t size)
{
    net_layer *layer = user;
    for (unsigned i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(key, members[i].key) != 0 || !(layer->top ? members[i].top : members[i].layer)) continue;
        if (layer->seen >> i & 1) return fail_at(layer, "duplicate member");
        layer->seen |= 1u << i;
        return members[i].read(layer, key, text, size);
    }
    if (size > MAX_VALUE) return fail_at(layer, "a member exceeds 1 MiB");
    json_t *json = zt_json_load(layer->net->base.ctx, layer->net->base.name, text, size);
    zt_nj_note_size(&layer->sizes, key, json);
    json_decref(json);
    return json ? ZT_OK : zt_ctx_status(layer->net->base.ctx);
}

/* What the layer's weights are, now that all its members are known; and what zt calls them. */
static zt_dtype resolve_coding(const net_layer *layer)
{
    const nj_dtype *dtype = layer->dtype;
    nj_weights *weights = &layer->net->weights[layer->weights];
    bool field = layer->native && layer->field && zt_nj_reads_by_rule(dtype->storage);
    weights->coding = (zt_net_weights){
        .type = dtype->storage, .native = layer->native, .rule = field ? ZT_RULE_FIELD : ZT_RULE_LOOM, .scale = layer->scale};
    memcpy(weights->member, layer->member, sizeof weights->member);
    if (!layer->native) return dtypes[0].dtype;
    return field && dtype->dtype < ZT_DTYPE_COUNT ? zt_storage_get(dtype->storage)->dtype : dtype->dtype;
}

/* The layer's weights, whose dtype is known now, as a tensor. */
static zt_status add_tensor(const net_layer *layer)
{
    zt_netjson *net = layer->net;
    zt_array *array = &net->tensors[layer->weights];
    const nj_dtype *dtype = layer->native ? layer->dtype : &dtypes[0];
    zt_dtype held = resolve_coding(layer);
    bool packed = held == ZT_DTYPE_COUNT;
    size_t bytes = (size_t)net->weights[layer->weights].bytes;
    size_t item = packed ? 1 : (size_t)zt_dtype_get(held)->block_bytes;
    int64_t *dim = zt_arena_alloc(net->base.arena, sizeof *dim);
    if (!dim) return ZT_ENOMEM;
    if (bytes % item != 0) return fail_at(layer, "\"weights\" is not a whole number of elements");
    zt_str name;
    zt_str_init(&name, net->base.ctx);
    zt_status status = zt_str_printf(&name, "%s.weights", layer->path->data);
    nj_weights *weights = &net->weights[layer->weights];
    *dim = (int64_t)(bytes / item);
    weights->count = packed ? zt_nj_count(&layer->sizes, &weights->coding, bytes) : *dim;
    *array = (zt_array){.name = status == ZT_OK ? zt_arena_strndup(net->base.arena, name.data, name.len) : NULL,
                        .dtype = dtype->name,
                        .type = zt_type_make(held, 1, dim),
                        .bytes = bytes,
                        .rank = 1,
                        .dim = dim};
    zt_str_fini(&name);
    return array->name ? ZT_OK : ZT_ENOMEM;
}

/* A layer at the path, within `above`. */
static zt_status read_layer_at(const net_layer *above, const char *text, size_t size)
{
    net_layer layer = {
        .net = above->net, .path = above->path, .depth = above->depth, .dtype = &dtypes[0], .scale = 1, .weights = -1};
    if (layer.path->len > MAX_NAME) return fail_at(&layer, "the layer path is too long");
    zt_status status = zt_json_members(layer.net->base.ctx, layer.net->base.name, text, size, read_member, &layer);
    return status == ZT_OK && layer.weights >= 0 ? add_tensor(&layer) : status;
}

static zt_status read_layer(void *user, int64_t i, const char *text, size_t size)
{
    const net_layer *above = user;
    size_t length = above->path->len;
    zt_status status = zt_str_printf(above->path, ".%" PRId64, i);
    if (status == ZT_OK) status = read_layer_at(above, text, size);
    truncate_path(above->path, length);
    return status;
}

zt_status zt_nj_read_layers(zt_netjson *net)
{
    zt_str path;
    zt_str_init(&path, net->base.ctx);
    net_layer top = {.net = net, .path = &path, .top = true, .weights = -1};
    net->tensors = zt_calloc(net->base.ctx, (size_t)net->weights_count + 1, sizeof *net->tensors);
    zt_status status = net->tensors ? zt_str_put(&net->frame, "", 0) : ZT_ENOMEM;
    if (status == ZT_OK)
        status = zt_json_members(net->base.ctx, net->base.name, net->frame.data, net->frame.len, read_member, &top);
    if (status == ZT_OK && !top.has_layers) status = fail_at(&top, "no member \"layers\"");
    if (status == ZT_OK && net->base.count != net->weights_count) status = fail_at(&top, "\"weights\" outside a layer");
    zt_str_fini(&path);
    return status;
}
