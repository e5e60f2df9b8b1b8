/* net.c - owns what a network's layers are made of, from its frame: which layers its grid has, and
 * the parts in each, its own weights, branches and steps. */
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_PATH = 1 << 12 }; /* as lib/io/netjson_walk.c has it */

typedef struct net {
    zt_dna *d;
    zt_netjson *j;
    int64_t room, layers_room; /* of parts, of layers */
} net;

static zt_status bad(const net *w, const char *path, const char *what)
{
    return zt_fail(w->d->ctx, ZT_EDATA, "%s: '%s' %s", zt_dna_name(w->d), path, what);
}

/* One more part; its index. */
static zt_status add_part(net *w, dna_part p, int64_t *at)
{
    zt_dna *d = w->d;
    if (d->n_parts == w->room) {
        int64_t room = w->room ? 2 * w->room : 64;
        dna_part *more = zt_realloc(d->ctx, d->part, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        d->part = more;
        w->room = room;
    }
    *at = d->n_parts;
    d->part[d->n_parts++] = p;
    d->part[*at].next = d->n_parts;
    return ZT_OK;
}

/* How many weights there are; where a layer does not say, all that its bytes have places for. */
static int64_t elements(const net *w, int64_t t)
{
    zt_net_weights are = zt_netjson_weights(w->j, t);
    int64_t n = zt_netjson_elements(w->j, t);
    uint64_t bytes = zt_netjson_get(w->j, t)->bytes;
    return n >= 0 ? n : (int64_t)(bytes * 8 / (unsigned)zt_storage_get(are.type)->bits);
}

static zt_status add_layer(net *w, json_t *layer, char *path, size_t len, int depth, int64_t *at);

/* The layers of a list within a layer. Links to elsewhere are no part of it. */
static zt_status add_list(net *w, json_t *layer, const char *key, char *path, size_t len, int depth)
{
    json_t *list = json_object_get(layer, key), *item;
    size_t i;
    int64_t at;
    zt_status s = ZT_OK;
    json_array_foreach(list, i, item)
    {
        if (json_is_true(json_object_get(item, "is_remote_link"))) continue;
        int n = snprintf(path + len, MAX_PATH - len, ".%s.%zu", key, i);
        if (n < 0 || (size_t)n >= MAX_PATH - len) return bad(w, path, "is a path too long");
        s = add_layer(w, item, path, len + (size_t)n, depth + 1, &at);
        if (s != ZT_OK) break;
    }
    path[len] = 0;
    return s;
}

/* The gate of a filter counts behind the branches. */
static zt_status add_gate(net *w, json_t *layer, char *path, size_t len, int depth)
{
    int64_t at;
    json_t *gate = json_object_get(layer, "filter_gate");
    if (!json_is_object(gate)) return ZT_OK;
    int n = snprintf(path + len, MAX_PATH - len, ".filter_gate");
    if (n < 0 || (size_t)n >= MAX_PATH - len) return bad(w, path, "is a path too long");
    zt_status s = add_layer(w, gate, path, len + (size_t)n, depth + 1, &at);
    path[len] = 0;
    return s;
}

static bool is_container(const char *type)
{
    return strcmp(type, "Parallel") == 0 || strcmp(type, "Sequential") == 0;
}

/* Softmax and residual layers, and what has no weights, are the number 1. */
static zt_status add_leaf(net *w, char *path, size_t len, int64_t *at)
{
    snprintf(path + len, MAX_PATH - len, ".weights");
    int64_t t = zt_checkpoint_find(w->d->from, path);
    path[len] = 0;
    if (t < 0) return add_part(w, (dna_part){.tensor = -1, .n = 1}, at);
    dna_part p = {.tensor = t, .n = elements(w, t), .are = zt_netjson_weights(w->j, t)};
    if (p.n == 0) p = (dna_part){.tensor = -1, .n = 1};
    return add_part(w, p, at);
}

static zt_status add_layer(net *w, json_t *layer, char *path, size_t len, int depth, int64_t *at)
{
    const char *type = json_string_value(json_object_get(layer, "type"));
    if (!json_is_object(layer)) return bad(w, path, "is no layer");
    if (depth > MAX_DEPTH) return bad(w, path, "is too deep in other layers");
    if (!is_container(type ? type : "")) return add_leaf(w, path, len, at);
    zt_status s = add_part(w, (dna_part){.tensor = -1, .group = true}, at);
    if (s == ZT_OK) s = add_list(w, layer, "parallel_branches", path, len, depth);
    if (s == ZT_OK) s = add_list(w, layer, "sequential_layers", path, len, depth);
    if (s == ZT_OK) s = add_gate(w, layer, path, len, depth);
    if (s != ZT_OK) return s;
    dna_part *p = &w->d->part[*at];
    p->next = w->d->n_parts;
    for (int64_t i = *at + 1; i < p->next; i = w->d->part[i].next) p->n += w->d->part[i].n;
    return ZT_OK;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static zt_status top_layer(net *w, json_t *layer, int64_t i)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    char path[MAX_PATH];
    zt_dna *d = w->d;
    zt_dna_layer *to = &d->layer[i];
    const char *type = json_string_value(json_object_get(layer, "type"));
    const char *dtype = json_string_value(json_object_get(layer, "dtype"));
    int len = snprintf(path, sizeof path, "layers.%" PRId64, i);
    zt_status s = add_layer(w, layer, path, (size_t)len, 1, &d->first[i]);
    if (s != ZT_OK) return s;
    const dna_part *p = &d->part[d->first[i]];
    for (int k = 0; k < 4; k++) to->place[k] = json_integer_value(json_object_get(layer, axis[k]));
    snprintf(path, sizeof path, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, to->place[0],
             to->place[1], to->place[2], to->place[3]);
    to->n = p->n;
    to->shape = zt_type_make(ZT_F32, 1, &to->n);
    to->name = zt_arena_strndup(d->texts, path, strlen(path));
    to->type = zt_arena_strndup(d->texts, type ? type : "", strlen(type ? type : ""));
    to->dtype = p->tensor >= 0 ? zt_netjson_word(p->are.type)
                               : zt_arena_strndup(d->texts, dtype ? dtype : "float32",
                                                  strlen(dtype ? dtype : "float32"));
    return to->name && to->type && to->dtype ? ZT_OK : ZT_ENOMEM;
}

/* The frame must be of the checkpoint's tensors. */
static bool is_of(const net *w)
{
    const zt_dna *d = w->d;
    bool same = zt_netjson_count(w->j) == zt_checkpoint_count(d->from);
    for (int64_t i = 0; same && i < zt_netjson_count(w->j); i++) {
        const zt_array *a = zt_netjson_get(w->j, i);
        zt_entry e;
        zt_checkpoint_get(d->from, i, &e);
        same = strcmp(a->name, e.name) == 0 && a->bytes == e.bytes;
    }
    return same;
}

/* Layers are looked at one by one: what a text of JSON can be blown up to is never held. */
static zt_status next_layer(void *user, int64_t i, const char *text, size_t n)
{
    net *w = user;
    zt_dna *d = w->d;
    if (i == w->layers_room) {
        int64_t room = i ? 2 * i : 64;
        zt_dna_layer *more = zt_realloc(d->ctx, d->layer, (size_t)room * sizeof *more);
        if (more) d->layer = more;
        int64_t *first = more ? zt_realloc(d->ctx, d->first, (size_t)room * sizeof *first) : NULL;
        if (!first) return ZT_ENOMEM;
        d->first = first;
        w->layers_room = room;
    }
    json_t *layer = zt_json_load(d->ctx, zt_dna_name(d), text, n);
    if (!layer) return zt_ctx_status(d->ctx);
    d->layer[i] = (zt_dna_layer){.n = 0};
    zt_status s = top_layer(w, layer, i);
    json_decref(layer);
    d->n = i + 1;
    return s;
}

static zt_status next_member(void *user, const char *key, const char *text, size_t n)
{
    net *w = user;
    return strcmp(key, "layers") == 0
               ? zt_json_items(w->d->ctx, zt_dna_name(w->d), text, n, next_layer, w)
               : ZT_OK;
}

zt_status zt_dna_net_layers(zt_dna *d, zt_bytes frame)
{
    net w = {.d = d, .j = zt_netjson_from_frame(d->ctx, frame.data, frame.n)};
    if (!w.j) return zt_ctx_status(d->ctx);
    zt_status s =
        is_of(&w) ? zt_json_members(d->ctx, zt_dna_name(d), frame.data, frame.n, next_member, &w)
                  : zt_fail(d->ctx, ZT_EDATA, "%s: its frame is of other tensors than there are",
                            zt_dna_name(d));
    zt_netjson_close(w.j);
    return s;
}
