/* tree.c - owns small documents: JSON read by jansson, look-up, messages. */
#include "lib/dna/tree.h"

#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>

const zt_tree *zt_tree_get(const zt_tree *map, const char *key)
{
    for (int64_t i = 0; map && map->kind == ZT_TREE_MAP && i < map->n; i++)
        if (!strcmp(map->item[2 * i]->text, key)) return map->item[2 * i + 1];
    return NULL;
}

zt_status zt_tree_fail(zt_ctx *ctx, const char *file, const zt_tree *at, const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (!at || !at->line) return zt_fail(ctx, ZT_EDATA, "%s: %s", file, what);
    return zt_fail(ctx, ZT_EDATA, "%s:%d: %s", file, at->line, what);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct json_reader {
    zt_ctx *ctx;
    zt_arena *a;
    const char *file;
    uint64_t nodes;
} json_reader;

static zt_tree *new_node(json_reader *r, zt_tree_kind kind, int64_t slots)
{
    if (++r->nodes > ZT_TREE_NODES) {
        zt_fail(r->ctx, ZT_EDATA, "%s: more than %d values", r->file, ZT_TREE_NODES);
        return NULL;
    }
    zt_tree *t = zt_arena_alloc(r->a, sizeof *t);
    zt_tree **item = t ? zt_arena_alloc(r->a, (size_t)(slots + 1) * sizeof *item) : NULL;
    if (!item) return NULL;
    *t = (zt_tree){.kind = kind, .item = item, .nodes = 1};
    return t;
}

static zt_tree *scalar(json_reader *r, const char *text, size_t n, bool plain)
{
    zt_tree *t = new_node(r, ZT_TREE_SCALAR, 0);
    if (!t || !(t->text = zt_arena_strndup(r->a, text, n))) return NULL;
    t->plain = plain;
    if (strlen(t->text) == n) return t;
    zt_fail(r->ctx, ZT_EDATA, "%s: a text with a zero byte", r->file);
    return NULL;
}

static zt_tree *number(json_reader *r, const json_t *j)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_status st = json_is_integer(j) ? zt_str_printf(&s, "%lld", (long long)json_integer_value(j))
                                      : zt_str_put_double(&s, json_real_value(j));
    zt_tree *t = st == ZT_OK ? scalar(r, s.data, s.len, true) : NULL;
    zt_str_fini(&s);
    return t;
}

static zt_tree *of_json(json_reader *r, json_t *j, int depth);

static zt_tree *of_list(json_reader *r, json_t *j, int depth)
{
    zt_tree *t = new_node(r, ZT_TREE_LIST, (int64_t)json_array_size(j));
    for (size_t i = 0; t && i < json_array_size(j); i++) {
        zt_tree *item = of_json(r, json_array_get(j, i), depth + 1);
        if (!item) return NULL;
        t->item[t->n++] = item;
        t->nodes += item->nodes;
    }
    return t;
}

static zt_tree *of_map(json_reader *r, json_t *j, int depth)
{
    zt_tree *t = new_node(r, ZT_TREE_MAP, 2 * (int64_t)json_object_size(j));
    const char *key;
    json_t *value;
    if (!t) return NULL;
    json_object_foreach(j, key, value)
    {
        zt_tree *k = scalar(r, key, strlen(key), false);
        zt_tree *v = k ? of_json(r, value, depth + 1) : NULL;
        if (!v) return NULL;
        t->item[2 * t->n] = k;
        t->item[2 * t->n++ + 1] = v;
        t->nodes += k->nodes + v->nodes;
    }
    return t;
}

static zt_tree *of_json(json_reader *r, json_t *j, int depth)
{
    if (depth > ZT_TREE_DEPTH) {
        zt_fail(r->ctx, ZT_EDATA, "%s: deeper than %d", r->file, ZT_TREE_DEPTH);
        return NULL;
    }
    if (json_is_object(j)) return of_map(r, j, depth);
    if (json_is_array(j)) return of_list(r, j, depth);
    if (json_is_string(j)) return scalar(r, json_string_value(j), json_string_length(j), false);
    if (json_is_number(j)) return number(r, j);
    const char *word = json_is_true(j) ? "true" : json_is_false(j) ? "false" : "null";
    return scalar(r, word, strlen(word), true);
}

/* A JSON object; YAML, of which that is nearly a part, is asked for all else. */
static const zt_tree *tree_json(zt_ctx *ctx, zt_arena *a, const char *file, const char *text,
                                size_t n)
{
    json_reader r = {.ctx = ctx, .a = a, .file = file};
    json_t *j = zt_json_load(ctx, file, text, n);
    const zt_tree *t = j ? of_json(&r, j, 0) : NULL;
    json_decref(j);
    return t;
}

/* Whole and sound JSON? Without a message. */
static bool is_json(const char *text, size_t n)
{
    json_t *j = zt_json_parse(text, n, 0, NULL);
    bool is = json_is_object(j);
    json_decref(j);
    return is;
}

const zt_tree *zt_tree_parse(zt_ctx *ctx, zt_arena *a, const char *file, const char *text, size_t n)
{
    if (n > ZT_TREE_BYTES) {
        zt_fail(ctx, ZT_EDATA, "%s: %zu bytes are no recipe: at most %d", file, n, ZT_TREE_BYTES);
        return NULL;
    }
    return is_json(text, n) ? tree_json(ctx, a, file, text, n)
                            : zt_tree_yaml(ctx, a, file, text, n);
}
