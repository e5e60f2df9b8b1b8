/* read.c - owns the way from a document to layers: members of a layer, layers in it, its place. */
#include "lib/base/near.h"
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

typedef struct reader {
    zt_nn *nn;
    zt_netjson *j;
    int depth;
    int64_t layers; /* so far, those within others too */
} reader;

zt_status zt_layer_vbad(const zt_nn *nn, const zt_nn_layer *l, const char *fmt, va_list ap)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    return zt_fail(nn->ctx, ZT_EDATA, "%s: %s (%s): %s", nn->name, l->path,
                   zt_nn_kind_name(l->kind), text);
}

zt_status zt_layer_bad(const zt_nn *nn, const zt_nn_layer *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    zt_status s = zt_layer_vbad(nn, l, fmt, ap);
    va_end(ap);
    return s;
}

/* ---- members --------------------------------------------------------------------------------- */

typedef struct number {
    const char *name;
    size_t offset;
} number;

#define ROW(key) {#key, offsetof(zt_nn_layer, key)},
static const number ints[] = {ZT_NN_INTS(ROW)};
static const number reals[] = {ZT_NN_REALS(ROW)};
#undef ROW

int64_t zt_layer_number(const zt_nn_layer *l, const char *name)
{
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (!strcmp(ints[i].name, name))
            return *(const int64_t *)((const char *)l + ints[i].offset);
    return -1;
}

double zt_layer_real(const zt_nn_layer *l, const char *name)
{
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!strcmp(reals[i].name, name))
            return *(const double *)((const char *)l + reals[i].offset);
    return NAN;
}

/* A whole number from 0 to `most`; one that is not there is 0. */
static zt_status get_int(const reader *r, const zt_nn_layer *l, json_t *from, const char *key,
                         int64_t most, int64_t *out)
{
    const json_t *v = json_object_get(from, key);
    double x = v ? json_number_value(v) : 0;
    if (v && !json_is_number(v) && !json_is_null(v))
        return zt_layer_bad(r->nn, l, "\"%s\" is no number", key);
    if (!(x >= 0) || x > (double)most || x != floor(x))
        return zt_layer_bad(r->nn, l, "\"%s\" is %g, not a whole number from 0 to %" PRId64, key, x,
                            most);
    *out = (int64_t)x;
    return ZT_OK;
}

static zt_status get_numbers(const reader *r, zt_nn_layer *l, json_t *from)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; i < sizeof ints / sizeof *ints && !s; i++)
        s = get_int(r, l, from, ints[i].name, NN_MAX_DIM, (int64_t *)((char *)l + ints[i].offset));
    for (size_t i = 0; i < sizeof reals / sizeof *reals && !s; i++) {
        const json_t *v = json_object_get(from, reals[i].name);
        double x = v ? json_number_value(v) : 0;
        if ((v && !json_is_number(v) && !json_is_null(v)) || !isfinite(x))
            s = zt_layer_bad(r->nn, l, "\"%s\" is no number", reals[i].name);
        *(double *)((char *)l + reals[i].offset) = x;
    }
    return s;
}

static zt_status get_bool(const reader *r, const zt_nn_layer *l, json_t *from, const char *key,
                          bool *out)
{
    const json_t *v = json_object_get(from, key);
    *out = json_is_true(v);
    return !v || json_is_boolean(v) || json_is_null(v)
               ? ZT_OK
               : zt_layer_bad(r->nn, l, "\"%s\" is neither true nor false", key);
}

/* A member's text, "" where there is none. */
static zt_status get_text(const reader *r, const zt_nn_layer *l, json_t *from, const char *key,
                          const char **out)
{
    const json_t *v = json_object_get(from, key);
    *out = json_is_string(v) ? json_string_value(v) : "";
    return !v || json_is_string(v) || json_is_null(v)
               ? ZT_OK
               : zt_layer_bad(r->nn, l, "\"%s\" is no text", key);
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

static zt_status unknown(const reader *r, const zt_nn_layer *l, const char *key, const char *name)
{
    char text[80];
    zt_near_hint hint;
    zt_name_fn *known = !strcmp(key, "activation") ? act_name : !strcmp(key, "dtype") ? dtype_name : NULL;
    return zt_layer_bad(r->nn, l, "%s '%s' is not known%s", key,
                        zt_escape(text, sizeof text, name, strlen(name)),
                        known ? zt_near(hint, name, known, NULL) : "");
}

/* Names; one that is there must be known. */
static zt_status get_names(const reader *r, zt_nn_layer *l, json_t *from)
{
    char text[80];
    zt_near_hint hint;
    const char *type, *act, *dtype, *softmax, *mode, *combine;
    static const char *const modes[] = {"concat", "add", "avg", "filter", "grid_scatter"};
    zt_status s = get_text(r, l, from, "type", &type);
    if (!s && !zt_nn_kind_parse(type, &l->kind))
        s = zt_fail(r->nn->ctx, ZT_EDATA, "%s: %s: layer type '%s' is not known%s", r->nn->name,
                    l->path, zt_escape(text, sizeof text, type, strlen(type)),
                    zt_near(hint, type, kind_name, NULL));
    if (!s) s = get_text(r, l, from, "activation", &act);
    if (!s) s = get_text(r, l, from, "dtype", &dtype);
    if (!s) s = get_text(r, l, from, "softmax_type", &softmax);
    if (!s) s = get_text(r, l, from, "output_mode", &mode);
    if (!s) s = get_text(r, l, from, "combine_mode", &combine);
    if (s) return s;
    if (!zt_nn_act_parse(act, &l->act) && *act) return unknown(r, l, "activation", act);
    if (!zt_nn_dtype_parse(dtype, &l->dtype) && *dtype) return unknown(r, l, "dtype", dtype);
    if (!zt_nn_softmax_parse(softmax, &l->softmax) && *softmax)
        return unknown(r, l, "softmax type", softmax);
    l->features = !strcmp(mode, "features");
    if (!l->features && *mode && strcmp(mode, "probabilities") != 0)
        return unknown(r, l, "output mode", mode);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(*combine ? combine : "concat", modes[i])) l->combine = modes[i];
    return l->combine ? ZT_OK : unknown(r, l, "combine mode", combine);
}

static zt_status get_mask(const reader *r, zt_nn_layer *l, json_t *from)
{
    const json_t *list = json_object_get(from, "mask"), *v;
    size_t i, n = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(r->nn, l, "\"mask\" is no list");
    uint8_t *mask = zt_arena_alloc(r->nn->keep, n + 1);
    if (!mask) return ZT_ENOMEM;
    json_array_foreach(list, i, v)
    {
        if (!json_is_boolean(v))
            return zt_layer_bad(r->nn, l, "mask[%zu] is neither true nor false", i);
        mask[i] = json_is_true(v);
    }
    l->mask = mask;
    l->n_mask = (int64_t)n;
    return n ? zt_layer_add_mask(r->nn, l) : ZT_OK;
}

static zt_status get_levels(const reader *r, zt_nn_layer *l, json_t *from)
{
    const json_t *list = json_object_get(from, "hierarchy_levels"), *v;
    size_t i, n = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(r->nn, l, "\"hierarchy_levels\" is no list");
    int64_t *level = zt_arena_alloc(r->nn->keep, (n + 1) * sizeof *level);
    if (!level) return ZT_ENOMEM;
    json_array_foreach(list, i, v)
    {
        level[i] = json_is_integer(v) ? (int64_t)json_integer_value(v) : 0;
        if (level[i] < 1 || level[i] > NN_MAX_DIM)
            return zt_layer_bad(r->nn, l, "hierarchy_levels[%zu] is no size", i);
    }
    l->levels = level;
    l->n_levels = (int64_t)n;
    return ZT_OK;
}

static zt_status get_link(const reader *r, zt_nn_layer *l, json_t *from)
{
    static const char *const key[4] = {"target_z", "target_y", "target_x", "target_l"};
    zt_status s = get_bool(r, l, from, "is_remote_link", &l->link);
    for (int k = 0; k < 4 && !s; k++) s = get_int(r, l, from, key[k], MAX_CELLS, &l->target[k]);
    return s;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status read_layer(reader *r, json_t *from, const char *path, zt_nn_layer *l);

/* The layers of a list, or of one member, within a layer. */
static zt_status read_inner(reader *r, const zt_nn_layer *l, json_t *from, const char *key,
                            zt_nn_layer **out, int64_t *n)
{
    char path[MAX_PATH];
    json_t *list = json_object_get(from, key);
    bool one = json_is_object(list);
    size_t many = one ? 1 : json_array_size(list);
    zt_status s = ZT_OK;
    if (list && !one && !json_is_array(list) && !json_is_null(list))
        return zt_layer_bad(r->nn, l, "\"%s\" is no list of layers", key);
    if (many == 0) return ZT_OK;
    if (++r->depth > NN_MAX_DEPTH) return zt_layer_bad(r->nn, l, "layers nested too deep");
    *out = zt_arena_alloc(r->nn->keep, many * sizeof **out);
    if (!*out) return ZT_ENOMEM;
    for (size_t i = 0; i < many && !s; i++) {
        int len = one ? snprintf(path, sizeof path, "%s.%s", l->path, key)
                      : snprintf(path, sizeof path, "%s.%s.%zu", l->path, key, i);
        if (len < 0 || len >= MAX_PATH) return zt_layer_bad(r->nn, l, "a path too long");
        s = read_layer(r, one ? list : json_array_get(list, i), path, *out + i);
    }
    *n = (int64_t)many;
    r->depth--;
    return s;
}

static zt_status read_all_inner(reader *r, zt_nn_layer *l, json_t *from)
{
    int64_t gates = 0;
    zt_status s = read_inner(r, l, from, "parallel_branches", &l->branch, &l->n_branches);
    if (!s) s = read_inner(r, l, from, "sequential_layers", &l->step, &l->n_steps);
    if (!s) s = read_inner(r, l, from, "filter_gate", &l->gate, &gates);
    return s || gates < 2 ? s : zt_layer_bad(r->nn, l, "\"filter_gate\" is more than one layer");
}

static zt_status check_needs(const zt_nn *nn, const zt_nn_layer *l)
{
    const nn_kind *k = zt_layer_kind_of(l->kind);
    for (int i = 0; i < 5 && k->needs[i]; i++)
        if (zt_layer_number(l, k->needs[i]) < 1) return zt_layer_bad(nn, l, "%s is 0", k->needs[i]);
    return ZT_OK;
}

static zt_status read_layer(reader *r, json_t *from, const char *path, zt_nn_layer *l)
{
    *l = (zt_nn_layer){.path = zt_arena_strndup(r->nn->keep, path, strlen(path)),
                       .act = ZT_NN_LINEAR,
                       .dtype = ZT_STORE_F32,
                       .rule = ZT_RULE_LOOM,
                       .scale = 1};
    const char *rule = "";
    if (!l->path) return ZT_ENOMEM;
    if (++r->layers > MAX_LAYERS) return zt_layer_bad(r->nn, l, "more than %d layers", MAX_LAYERS);
    if (!json_is_object(from)) return zt_layer_bad(r->nn, l, "it is no layer");
    zt_status s = get_names(r, l, from);
    const char *key;
    json_t *member;
    json_object_foreach(from, key, member) if (!s) s = zt_layer_check_member(r->nn, l, key);
    if (!s) s = get_numbers(r, l, from);
    if (!s) s = get_bool(r, l, from, "is_disabled", &l->disabled);
    if (!s) s = get_bool(r, l, from, "gumbel_noise", &l->gumbel_noise);
    if (!s) s = get_bool(r, l, from, "use_tiling", &l->use_tiling);
    if (!s) s = get_text(r, l, from, "zt.rule", &rule); /* which netjson has checked */
    if (!s && !strcmp(rule, "field")) l->rule = ZT_RULE_FIELD;
    if (!s) s = get_mask(r, l, from);
    if (!s) s = get_levels(r, l, from);
    if (!s) s = get_link(r, l, from);
    if (!s) zt_layer_settle(l);
    bool borrows = l->link && r->depth > 0; /* in the grid a link has a function of its own */
    if (!s && !borrows) s = check_needs(r->nn, l);
    if (!s) s = zt_layer_take_weights(r->nn, l, r->j, borrows);
    return s ? s : read_all_inner(r, l, from);
}

/* ---- the grid -------------------------------------------------------------------------------- */

static zt_status put_layer(zt_nn *nn, zt_nn_layer *l)
{
    if (nn->n == nn->room) {
        int64_t room = nn->room ? 2 * nn->room : 32;
        zt_nn_layer **more = zt_realloc(nn->ctx, nn->layer, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        nn->layer = more;
        nn->room = room;
    }
    nn->layer[nn->n++] = l;
    return ZT_OK;
}

static zt_status next_layer(void *user, int64_t i, const char *text, size_t n)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    char path[40];
    reader *r = user;
    zt_nn_layer *l = zt_arena_alloc(r->nn->keep, sizeof *l);
    if (!l) return ZT_ENOMEM;
    snprintf(path, sizeof path, "layers.%" PRId64, i);
    json_t *from = zt_json_load(r->nn->ctx, r->nn->name, text, n);
    if (!from) return zt_ctx_status(r->nn->ctx);
    zt_status s = read_layer(r, from, path, l);
    for (int k = 0; k < 4 && !s; k++) s = get_int(r, l, from, axis[k], MAX_CELLS, &l->place[k]);
    json_decref(from);
    return s ? s : put_layer(r->nn, l);
}

static zt_status read_id(zt_nn *nn, const char *text, size_t n)
{
    json_t *v = zt_json_load(nn->ctx, nn->name, text, n);
    if (!v) return zt_ctx_status(nn->ctx);
    const char *id = json_is_string(v) ? json_string_value(v) : "";
    nn->id = zt_arena_strndup(nn->keep, id, strlen(id));
    json_decref(v);
    return nn->id ? ZT_OK : ZT_ENOMEM;
}

static zt_status next_member(void *user, const char *key, const char *text, size_t n)
{
    static const char *const axis[4] = {"depth", "rows", "cols", "layers_per_cell"};
    reader *r = user;
    zt_nn *nn = r->nn;
    if (!strcmp(key, "layers")) return zt_json_items(nn->ctx, nn->name, text, n, next_layer, r);
    if (!strcmp(key, "id")) return read_id(nn, text, n);
    for (int k = 0; k < 4; k++) {
        if (strcmp(key, axis[k]) != 0) continue;
        json_t *v = zt_json_load(nn->ctx, nn->name, text, n);
        if (!v) return zt_ctx_status(nn->ctx);
        nn->extent[k] = json_is_integer(v) ? (int64_t)json_integer_value(v) : 0;
        json_decref(v);
        if (nn->extent[k] < 1 || nn->extent[k] > MAX_CELLS)
            return zt_fail(nn->ctx, ZT_EDATA, "%s: \"%s\" is no size of a grid", nn->name, key);
        return ZT_OK;
    }
    return zt_nn_check_member(nn, key);
}

int64_t zt_layer_index(const zt_nn *nn, const int64_t place[4])
{
    int64_t i = 0;
    for (int k = 0; k < 4; k++) i = i * nn->extent[k] + place[k];
    return i;
}

static int by_place(const void *a, const void *b)
{
    const int64_t *p = (*(zt_nn_layer *const *)a)->place, *q = (*(zt_nn_layer *const *)b)->place;
    int k = 0;
    while (k < 3 && p[k] == q[k]) k++;
    return p[k] < q[k] ? -1 : p[k] > q[k];
}

/* Layers go to their places: each within the grid, no two in one. */
static zt_status place_layers(zt_nn *nn)
{
    int64_t cells = 1;
    for (int k = 0; k < 4; k++)
        if (!zt_mul_i64(cells, nn->extent[k], &cells) || cells < 1 || cells > MAX_CELLS)
            return zt_fail(nn->ctx, ZT_EDATA, "%s: a grid of no size or more than %d places",
                           nn->name, MAX_CELLS);
    for (int64_t i = 0; i < nn->n; i++)
        for (int k = 0; k < 4; k++)
            if (nn->layer[i]->place[k] >= nn->extent[k])
                return zt_layer_bad(nn, nn->layer[i],
                                    "its place %" PRId64 " is beyond the grid's %" PRId64,
                                    nn->layer[i]->place[k], nn->extent[k]);
    qsort(nn->layer, (size_t)nn->n, sizeof *nn->layer, by_place);
    for (int64_t i = 1; i < nn->n; i++)
        if (zt_layer_index(nn, nn->layer[i - 1]->place) == zt_layer_index(nn, nn->layer[i]->place))
            return zt_layer_bad(nn, nn->layer[i], "its place is that of %s",
                                nn->layer[i - 1]->path);
    return ZT_OK;
}

zt_nn_layer *zt_nn_find(const zt_nn *nn, const int64_t place[4])
{
    int64_t lo = 0, hi = nn->n, want;
    for (int k = 0; k < 4; k++)
        if (place[k] < 0 || place[k] >= nn->extent[k]) return NULL;
    want = zt_layer_index(nn, place);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (zt_layer_index(nn, nn->layer[mid]->place) < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < nn->n && zt_layer_index(nn, nn->layer[lo]->place) == want ? nn->layer[lo] : NULL;
}

/* XXH3-128 of the frame's bytes, seeded by the document's size. */
static void make_hash(zt_nn *nn, const char *frame, size_t n, uint64_t size)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(frame, n, size);
    snprintf(nn->hash, sizeof nn->hash, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64,
             (uint64_t)h.low64);
}

static zt_status read_all(zt_nn *nn, zt_source *source)
{
    reader r = {.nn = nn, .j = zt_netjson_from(nn->ctx, source)};
    size_t n = 0;
    if (!r.j) return zt_ctx_status(nn->ctx);
    const char *frame = zt_netjson_frame(r.j, &n);
    make_hash(nn, frame, n, zt_source_size(source));
    zt_status s = zt_json_members(nn->ctx, nn->name, frame, n, next_member, &r);
    if (!s) s = place_layers(nn);
    zt_netjson_close(r.j);
    return s;
}

zt_nn *zt_nn_from(zt_ctx *ctx, zt_source *source, uint64_t seed)
{
    zt_nn *nn = zt_calloc(ctx, 1, sizeof *nn);
    if (!nn) return NULL;
    nn->ctx = ctx;
    nn->seed = seed;
    nn->keep = zt_arena_new(ctx, 0);
    if (nn->keep)
        nn->name =
            zt_arena_strndup(nn->keep, zt_source_name(source), strlen(zt_source_name(source)));
    if (nn->name && read_all(nn, source) == ZT_OK) return nn;
    zt_nn_close(nn);
    return NULL;
}

zt_nn *zt_nn_open(zt_ctx *ctx, const char *path, uint64_t seed)
{
    zt_source *s = zt_source_open(ctx, path);
    zt_nn *nn = s ? zt_nn_from(ctx, s, seed) : NULL;
    zt_source_close(s);
    return nn;
}

void zt_nn_close(zt_nn *nn)
{
    if (!nn) return;
    for (int64_t i = 0; i < nn->n_masters; i++) zt_free(nn->ctx, nn->masters[i]);
    zt_free(nn->ctx, nn->masters);
    zt_free(nn->ctx, nn->weight);
    zt_free(nn->ctx, nn->masked);
    zt_free(nn->ctx, nn->layer);
    zt_map_free(nn->names);
    zt_arena_free(nn->keep);
    zt_free(nn->ctx, nn);
}

zt_ctx *zt_nn_ctx(const zt_nn *nn) { return nn->ctx; }
const char *zt_nn_id(const zt_nn *nn) { return nn->hash; }
const char *zt_nn_name(const zt_nn *nn) { return nn->name; }
int64_t zt_nn_extent(const zt_nn *nn, int axis) { return nn->extent[axis]; }
int64_t zt_nn_count(const zt_nn *nn) { return nn->n; }
zt_nn_layer *zt_nn_layer_at(const zt_nn *nn, int64_t i) { return nn->layer[i]; }
