/* tree.c - owns small documents: JSON read by jansson, look-up, messages. */
#include "lib/dna/tree.h"

#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>

const zt_tree *zt_tree_get(const zt_tree *map, const char *key)
{
    for (int64_t i = 0; map && map->kind == ZT_TREE_MAP && i < map->count; i++)
        if (!strcmp(map->items[2 * i]->text, key)) return map->items[2 * i + 1];
    return NULL;
}

zt_status zt_tree_fail(zt_ctx *ctx, const char *file, const zt_tree *node, const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (!node || !node->line) return zt_fail(ctx, ZT_EDATA, "%s: %s", file, what);
    return zt_fail(ctx, ZT_EDATA, "%s:%d: %s", file, node->line, what);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct json_reader {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *file;
    uint64_t nodes;
} json_reader;

static zt_tree *new_node(json_reader *reader, zt_tree_kind kind, int64_t slots)
{
    if (++reader->nodes > ZT_TREE_NODES) {
        zt_fail(reader->ctx, ZT_EDATA, "%s: more than %d values", reader->file, ZT_TREE_NODES);
        return NULL;
    }
    zt_tree *node = zt_arena_alloc(reader->arena, sizeof *node);
    zt_tree **item = node ? zt_arena_alloc(reader->arena, (size_t)(slots + 1) * sizeof *item) : NULL;
    if (!item) return NULL;
    *node = (zt_tree){.kind = kind, .items = item, .node_count = 1};
    return node;
}

static zt_tree *new_scalar(json_reader *reader, const char *text, size_t length, bool plain)
{
    zt_tree *node = new_node(reader, ZT_TREE_SCALAR, 0);
    if (!node || !(node->text = zt_arena_strndup(reader->arena, text, length))) return NULL;
    node->plain = plain;
    if (strlen(node->text) == length) return node;
    zt_fail(reader->ctx, ZT_EDATA, "%s: a text with a zero byte", reader->file);
    return NULL;
}

static zt_tree *new_number(json_reader *reader, const json_t *number)
{
    zt_str text;
    zt_str_init(&text, reader->ctx);
    zt_status status = json_is_integer(number) ? zt_str_printf(&text, "%lld", (long long)json_integer_value(number))
                                               : zt_str_put_double(&text, json_real_value(number));
    zt_tree *node = status == ZT_OK ? new_scalar(reader, text.data, text.len, true) : NULL;
    zt_str_fini(&text);
    return node;
}

static zt_tree *convert_value(json_reader *reader, json_t *value, int depth);

static zt_tree *convert_list(json_reader *reader, json_t *list, int depth)
{
    zt_tree *node = new_node(reader, ZT_TREE_LIST, (int64_t)json_array_size(list));
    for (size_t i = 0; node && i < json_array_size(list); i++) {
        zt_tree *item = convert_value(reader, json_array_get(list, i), depth + 1);
        if (!item) return NULL;
        node->items[node->count++] = item;
        node->node_count += item->node_count;
    }
    return node;
}

static zt_tree *convert_map(json_reader *reader, json_t *map, int depth)
{
    zt_tree *node = new_node(reader, ZT_TREE_MAP, 2 * (int64_t)json_object_size(map));
    const char *key;
    json_t *value;
    if (!node) return NULL;
    json_object_foreach(map, key, value)
    {
        zt_tree *key_node = new_scalar(reader, key, strlen(key), false);
        zt_tree *value_node = key_node ? convert_value(reader, value, depth + 1) : NULL;
        if (!value_node) return NULL;
        node->items[2 * node->count] = key_node;
        node->items[2 * node->count++ + 1] = value_node;
        node->node_count += key_node->node_count + value_node->node_count;
    }
    return node;
}

static zt_tree *convert_value(json_reader *reader, json_t *value, int depth)
{
    if (depth > ZT_TREE_DEPTH) {
        zt_fail(reader->ctx, ZT_EDATA, "%s: deeper than %d", reader->file, ZT_TREE_DEPTH);
        return NULL;
    }
    if (json_is_object(value)) return convert_map(reader, value, depth);
    if (json_is_array(value)) return convert_list(reader, value, depth);
    if (json_is_string(value)) return new_scalar(reader, json_string_value(value), json_string_length(value), false);
    if (json_is_number(value)) return new_number(reader, value);
    const char *word = json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null";
    return new_scalar(reader, word, strlen(word), true);
}

/* A JSON object; YAML, of which that is nearly a part, is asked for all else. */
static const zt_tree *tree_json(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length)
{
    json_reader reader = {.ctx = ctx, .arena = arena, .file = file};
    json_t *document = zt_json_load(ctx, file, text, length);
    const zt_tree *tree = document ? convert_value(&reader, document, 0) : NULL;
    json_decref(document);
    return tree;
}

/* Whole and sound JSON? Without a message. */
static bool is_json(const char *text, size_t length)
{
    json_t *document = zt_json_parse(text, length, 0, NULL);
    bool valid = json_is_object(document);
    json_decref(document);
    return valid;
}

const zt_tree *zt_tree_parse(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length)
{
    if (length > ZT_TREE_BYTES) {
        zt_fail(ctx, ZT_EDATA, "%s: %zu bytes are no recipe: at most %d", file, length, ZT_TREE_BYTES);
        return NULL;
    }
    return is_json(text, length) ? tree_json(ctx, arena, file, text, length) : zt_tree_yaml(ctx, arena, file, text, length);
}
