/* netjson_walk.c - owns going through a frame: that it is JSON, where its layers are, and what
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
        if (strcasecmp(name, dtypes[i].name) == 0 ||
            (dtypes[i].other && strcasecmp(name, dtypes[i].other) == 0))
            return &dtypes[i];
    return &dtypes[0];
}

const char *zt_netjson_word(zt_storage t)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].storage == t)
            return dtypes[i].name;
    return NULL;
}

bool zt_nj_reads_by_rule(zt_storage t)
{
    static const zt_storage other[] = {ZT_STORE_FP8E4M3, ZT_STORE_FP8E5M2, ZT_STORE_FP4,
                                       ZT_STORE_U64,     ZT_STORE_U32,     ZT_STORE_U16,
                                       ZT_STORE_U8,      ZT_STORE_U4,      ZT_STORE_U2};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (other[i] == t)
            return true;
    return false;
}

/* ---- one layer ------------------------------------------------------------------------------- */

typedef struct layer {
    zt_netjson *j;
    zt_str *path; /* of the layer */
    int depth;
    const nj_dtype *dtype;
    bool native, field;
    float scale;
    nj_span member[NJ_MEMBERS];
    int64_t weights; /* -1: none */
    nj_sizes sizes;
    unsigned seen;   /* members that there were, by their rows */
    bool has_layers, top;
} layer;

static zt_status bad(const layer *l, const char *what)
{
    char text[160];
    return zt_fail(l->j->ctx, ZT_EDATA, "%s: %s: %s", l->j->file,
                   l->path->len ? zt_escape(text, sizeof text, l->path->data, l->path->len)
                                : "the network",
                   what);
}

static zt_status read_weights(layer *l, const char *key, const char *text, size_t n)
{
    char want[48];
    zt_netjson *j = l->j;
    (void)key;
    if (j->n >= j->n_weights)
        return bad(l, "weights that are no text");
    int len =
        snprintf(want, sizeof want, "\"#%" PRId64 ":%" PRIu64 "\"", j->n, j->weights[j->n].bytes);
    if (n != (size_t)len || memcmp(text, want, n) != 0)
        return bad(l, "weights that are no text");
    l->weights = j->n++;
    return ZT_OK;
}

static void note(layer *l, int member, const char *text, size_t n)
{
    size_t from = (size_t)(text - l->j->frame.data);
    l->member[member] = (nj_span){from, from + n};
}

static zt_status read_dtype(layer *l, const char *key, const char *text, size_t n)
{
    zt_str s;
    (void)key;
    note(l, NJ_DTYPE, text, n);
    zt_str_init(&s, l->j->ctx);
    zt_status st = zt_json_string(l->j->ctx, l->j->file, text, n, &s);
    if (st == ZT_OK)
        l->dtype = dtype_named(s.len ? s.data : "");
    zt_str_fini(&s);
    return st;
}

static zt_status read_native(layer *l, const char *key, const char *text, size_t n)
{
    (void)key;
    note(l, NJ_NATIVE, text, n);
    l->native = n == 4 && memcmp(text, "true", 4) == 0;
    return l->native || (n == 5 && memcmp(text, "false", 5) == 0)
               ? ZT_OK
               : bad(l, "\"native\" is neither true nor false");
}

/* A number; null and 0 are none. */
static zt_status read_scale(layer *l, const char *key, const char *text, size_t n)
{
    (void)key;
    note(l, NJ_SCALE, text, n);
    json_t *v = zt_json_load(l->j->ctx, l->j->file, text, n);
    zt_status st = v ? ZT_OK : zt_ctx_status(l->j->ctx);
    if (v && !json_is_number(v) && !json_is_null(v))
        st = bad(l, "\"scale\" is no number");
    float scale = st == ZT_OK ? (float)json_number_value(v) : 0;
    l->scale = scale != 0 && isfinite(scale) ? scale : 1;
    json_decref(v);
    return st;
}

static zt_status read_rule(layer *l, const char *key, const char *text, size_t n)
{
    (void)key;
    note(l, NJ_RULE, text, n);
    l->field = n == 7 && memcmp(text, "\"field\"", 7) == 0;
    return l->field || (n == 6 && memcmp(text, "\"loom\"", 6) == 0)
               ? ZT_OK
               : bad(l, "\"zt.rule\" is neither field nor loom");
}

static zt_status read_layer(void *user, int64_t i, const char *text, size_t n);
static zt_status read_one(const layer *above, const char *text, size_t n);

/* Back to a length that it had; nothing was ever put where memory failed at once. */
static void cut(zt_str *path, size_t at)
{
    path->len = at;
    if (path->data)
        path->data[at] = 0;
}

/* The layers of a list, below `key`. */
static zt_status read_layers(layer *l, const char *key, const char *text, size_t n)
{
    size_t at = l->path->len;
    if (l->depth == MAX_DEPTH)
        return bad(l, "layers nested too deep");
    zt_status st = zt_str_printf(l->path, "%s%s", at ? "." : "", key);
    l->depth++;
    if (st == ZT_OK && !(n == 4 && memcmp(text, "null", 4) == 0))
        st = zt_json_items(l->j->ctx, l->j->file, text, n, read_layer, l);
    l->depth--;
    cut(l->path, at);
    l->has_layers = true;
    return st;
}

/* One layer, below `key` itself. */
static zt_status read_gate(layer *l, const char *key, const char *text, size_t n)
{
    size_t at = l->path->len;
    if (n == 4 && memcmp(text, "null", 4) == 0)
        return ZT_OK;
    if (l->depth == MAX_DEPTH)
        return bad(l, "layers nested too deep");
    zt_status st = zt_str_printf(l->path, ".%s", key);
    l->depth++;
    if (st == ZT_OK)
        st = read_one(l, text, n);
    l->depth--;
    cut(l->path, at);
    return st;
}

/* Members that mean something here; of the network, and of a layer. */
static const struct {
    const char *key;
    bool top, layer;
    zt_status (*read)(layer *l, const char *key, const char *text, size_t n);
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

static zt_status read_member(void *user, const char *key, const char *text, size_t n)
{
    layer *l = user;
    for (unsigned i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(key, members[i].key) != 0 || !(l->top ? members[i].top : members[i].layer))
            continue;
        if (l->seen >> i & 1)
            return bad(l, "a member is there twice");
        l->seen |= 1u << i;
        return members[i].read(l, key, text, n);
    }
    if (n > MAX_VALUE)
        return bad(l, "a member of more than 1 MiB");
    json_t *v = zt_json_load(l->j->ctx, l->j->file, text, n);
    zt_nj_note_size(&l->sizes, key, v);
    json_decref(v);
    return v ? ZT_OK : zt_ctx_status(l->j->ctx);
}

/* What the layer's weights are, now that all its members are known; and what zt calls them. */
static zt_dtype store_fence(const layer *l)
{
    const nj_dtype *d = l->dtype;
    nj_weights *w = &l->j->weights[l->weights];
    bool field = l->native && l->field && zt_nj_reads_by_rule(d->storage);
    w->are = (zt_net_weights){.type = d->storage,
                              .native = l->native,
                              .rule = field ? ZT_RULE_FIELD : ZT_RULE_LOOM,
                              .scale = l->scale};
    memcpy(w->member, l->member, sizeof w->member);
    if (!l->native)
        return dtypes[0].dtype;
    return field && d->dtype < ZT_DTYPE_COUNT ? zt_storage_get(d->storage)->dtype : d->dtype;
}

/* The layer's weights, whose dtype is known now, as a tensor. */
static zt_status add_tensor(const layer *l)
{
    zt_netjson *j = l->j;
    zt_array *a = &j->tensor[l->weights];
    const nj_dtype *d = l->native ? l->dtype : &dtypes[0];
    zt_dtype held = store_fence(l);
    bool packed = held == ZT_DTYPE_COUNT;
    size_t bytes = (size_t)j->weights[l->weights].bytes;
    size_t item = packed ? 1 : (size_t)zt_dtype_get(held)->block_bytes;
    int64_t *dim = zt_arena_alloc(j->keep, sizeof *dim);
    if (!dim)
        return ZT_ENOMEM;
    if (bytes % item != 0)
        return bad(l, "weights that are no whole elements");
    zt_str name;
    zt_str_init(&name, j->ctx);
    zt_status st = zt_str_printf(&name, "%s.weights", l->path->data);
    nj_weights *w = &j->weights[l->weights];
    *dim = (int64_t)(bytes / item);
    w->count = packed ? zt_nj_count(&l->sizes, &w->are, bytes) : *dim;
    *a = (zt_array){.name = st == ZT_OK ? zt_arena_strndup(j->keep, name.data, name.len) : NULL,
                    .dtype = d->name,
                    .type = zt_type_make(held, 1, dim),
                    .bytes = bytes,
                    .rank = 1,
                    .dim = dim};
    zt_str_fini(&name);
    return a->name ? ZT_OK : ZT_ENOMEM;
}

/* A layer at the path, within `above`. */
static zt_status read_one(const layer *above, const char *text, size_t n)
{
    layer l = {.j = above->j,
               .path = above->path,
               .depth = above->depth,
               .dtype = &dtypes[0],
               .scale = 1,
               .weights = -1};
    if (l.path->len > MAX_NAME)
        return bad(&l, "a name that is too long");
    zt_status st = zt_json_members(l.j->ctx, l.j->file, text, n, read_member, &l);
    return st == ZT_OK && l.weights >= 0 ? add_tensor(&l) : st;
}

static zt_status read_layer(void *user, int64_t i, const char *text, size_t n)
{
    const layer *above = user;
    size_t at = above->path->len;
    zt_status st = zt_str_printf(above->path, ".%" PRId64, i);
    if (st == ZT_OK)
        st = read_one(above, text, n);
    cut(above->path, at);
    return st;
}

zt_status zt_nj_walk(zt_netjson *j)
{
    zt_str path;
    zt_str_init(&path, j->ctx);
    layer top = {.j = j, .path = &path, .top = true, .weights = -1};
    j->tensor = zt_calloc(j->ctx, (size_t)j->n_weights + 1, sizeof *j->tensor);
    zt_status st = j->tensor ? zt_str_put(&j->frame, "", 0) : ZT_ENOMEM;
    if (st == ZT_OK)
        st = zt_json_members(j->ctx, j->file, j->frame.data, j->frame.len, read_member, &top);
    if (st == ZT_OK && !top.has_layers)
        st = bad(&top, "there are no \"layers\"");
    if (st == ZT_OK && j->n != j->n_weights)
        st = bad(&top, "\"weights\" that are no layer's");
    zt_str_fini(&path);
    return st;
}
