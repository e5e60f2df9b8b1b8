/* tree.c - owns small documents: YAML read by libyaml, JSON by jansson; look-up, messages. */
#include "lib/dna/tree.h"

#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>
#if defined(ZT_HAVE_YAML)
#include <yaml.h>
#endif

const zt_tree *zt_tree_get(const zt_tree *map, const char *key)
{
    for (int64_t i = 0; map && map->kind == ZT_TREE_MAP && i < map->count; i++)
        if (!strcmp(map->items[2 * i]->text, key)) return map->items[2 * i + 1];
    return NULL;
}

bool zt_tree_is_null(const zt_tree *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; node->kind == ZT_TREE_SCALAR && node->plain && i < sizeof words / sizeof *words; i++)
        if (!strcmp(node->text, words[i])) return true;
    return false;
}

char *zt_tree_read(zt_ctx *ctx, zt_source *source, size_t *length)
{
    const uint64_t size = zt_source_size(source);
    if (size > ZT_TREE_BYTES) {
        zt_fail(ctx, ZT_EDATA, "%s: the recipe is too large (%llu bytes): at most %d", zt_source_name(source),
                (unsigned long long)size, ZT_TREE_BYTES);
        return NULL;
    }
    *length = (size_t)size;
    char *text = zt_alloc(ctx, *length + 1);
    if (text && zt_source_read(source, 0, text, *length) == ZT_OK) return text;
    zt_free(ctx, text);
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

/* ---- YAML, by libyaml's events ---------------------------------------------------------------- */

#if !defined(ZT_HAVE_YAML)

static const zt_tree *parse_yaml(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length)
{
    (void)arena, (void)text, (void)length;
    zt_fail(ctx, ZT_ENOTSUP, "%s: YAML is not supported (zt was built without libyaml): use JSON", file);
    return NULL;
}

#else

enum { ANCHORS = 256 };

typedef struct yaml_reader {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *file;
    yaml_parser_t parser;
    yaml_event_t event; /* the one that is being looked at */
    uint64_t nodes;     /* read so far, aliases with all that they stand for */
    struct {
        const char *name;
        const zt_tree *node;
    } anchors[ANCHORS];
    int anchor_count;
} yaml_reader;

static int line_of(const yaml_event_t *event) { return (int)event->start_mark.line + 1; }

static zt_status fail_here(yaml_reader *reader, const char *what)
{
    return zt_fail(reader->ctx, ZT_EDATA, "%s:%d: %s", reader->file, line_of(&reader->event), what);
}

static zt_status next_event(yaml_reader *reader)
{
    yaml_event_delete(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event)) return ZT_OK;
    if (reader->parser.error == YAML_MEMORY_ERROR)
        return zt_fail(reader->ctx, ZT_ENOMEM, "%s: out of memory (libyaml)", reader->file);
    size_t line = reader->parser.problem_mark.line + 1;
    return zt_fail(reader->ctx, ZT_EDATA, "%s:%zu: not YAML: %s", reader->file, line,
                   reader->parser.problem ? reader->parser.problem : "read error");
}

static zt_status count_nodes(yaml_reader *reader, uint64_t nodes)
{
    reader->nodes += nodes;
    return reader->nodes <= ZT_TREE_NODES ? ZT_OK : fail_here(reader, "too many values for a recipe");
}

static zt_tree *new_yaml_node(yaml_reader *reader, zt_tree_kind kind)
{
    zt_tree *node = count_nodes(reader, 1) == ZT_OK ? zt_arena_alloc(reader->arena, sizeof *node) : NULL;
    if (node) *node = (zt_tree){.kind = kind, .line = line_of(&reader->event), .node_count = 1};
    return node;
}

/* A node is complete: from now on an alias may stand for it. */
static zt_status remember_anchor(yaml_reader *reader, const char *anchor, const zt_tree *node)
{
    if (!anchor) return ZT_OK;
    if (reader->anchor_count == ANCHORS) return fail_here(reader, "too many anchors");
    reader->anchors[reader->anchor_count].name = anchor;
    reader->anchors[reader->anchor_count++].node = node;
    return ZT_OK;
}

static zt_tree *read_alias(yaml_reader *reader)
{
    const char *name = (const char *)reader->event.data.alias.anchor;
    for (int i = reader->anchor_count - 1; i >= 0; i--) {
        const zt_tree *node = reader->anchors[i].node;
        if (strcmp(reader->anchors[i].name, name)) continue;
        if (count_nodes(reader, node->node_count) != ZT_OK) return NULL;
        zt_tree *same = zt_arena_alloc(reader->arena, sizeof *same);
        if (same) *same = *node;
        return same;
    }
    fail_here(reader, "undefined alias");
    return NULL;
}

static zt_tree *read_scalar(yaml_reader *reader)
{
    zt_tree *node = new_yaml_node(reader, ZT_TREE_SCALAR);
    size_t length = reader->event.data.scalar.length;
    if (!node) return NULL;
    node->plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = zt_arena_strndup(reader->arena, (const char *)reader->event.data.scalar.value, length);
    if (!node->text) return NULL;
    if (strlen(node->text) == length) return node;
    fail_here(reader, "string contains a zero byte");
    return NULL;
}

static zt_tree *read_event(yaml_reader *reader, int depth);

static zt_status append_item(yaml_reader *reader, zt_tree *node, int64_t *room, zt_tree *item)
{
    int64_t count = node->kind == ZT_TREE_MAP ? 2 * node->count : node->count;
    (void)reader;
    if (!item) return ZT_EDATA;
    if (count + 2 > *room) {
        int64_t more = *room ? *room * 2 : 8;
        zt_tree **grown = zt_arena_alloc(reader->arena, (size_t)more * sizeof *grown);
        if (!grown) return ZT_ENOMEM;
        if (count) memcpy(grown, node->items, (size_t)count * sizeof *grown);
        node->items = grown;
        *room = more;
    }
    node->items[count] = item;
    node->node_count += item->node_count;
    return ZT_OK;
}

static zt_tree *read_list(yaml_reader *reader, int depth)
{
    zt_tree *node = new_yaml_node(reader, ZT_TREE_LIST);
    int64_t room = 0;
    zt_status status = node ? next_event(reader) : ZT_ENOMEM;
    while (status == ZT_OK && reader->event.type != YAML_SEQUENCE_END_EVENT) {
        status = append_item(reader, node, &room, read_event(reader, depth + 1));
        node->count++;
        if (status == ZT_OK) status = next_event(reader);
    }
    return status == ZT_OK ? node : NULL;
}

static zt_status check_key(yaml_reader *reader, const zt_tree *map, const zt_tree *key)
{
    char shown[80];
    if (!key) return ZT_EDATA;
    if (key->kind != ZT_TREE_SCALAR) return fail_here(reader, "key is not a string");
    if (!strcmp(key->text, "<<")) return fail_here(reader, "merge keys ('<<') are not supported");
    if (!zt_tree_get(map, key->text)) return ZT_OK;
    return zt_tree_fail(reader->ctx, reader->file, key, "duplicate key '%s'",
                        zt_escape(shown, sizeof shown, key->text, strlen(key->text)));
}

static zt_tree *read_map(yaml_reader *reader, int depth)
{
    zt_tree *node = new_yaml_node(reader, ZT_TREE_MAP);
    int64_t room = 0;
    zt_status status = node ? next_event(reader) : ZT_ENOMEM;
    while (status == ZT_OK && reader->event.type != YAML_MAPPING_END_EVENT) {
        zt_tree *key = read_event(reader, depth + 1);
        status = check_key(reader, node, key);
        if (status == ZT_OK) status = append_item(reader, node, &room, key);
        if (status == ZT_OK) status = next_event(reader);
        zt_tree *value = status == ZT_OK ? read_event(reader, depth + 1) : NULL;
        if (status == ZT_OK && !value) status = ZT_EDATA;
        if (status != ZT_OK) break;
        node->items[2 * node->count++ + 1] = value;
        node->node_count += value->node_count;
        status = next_event(reader);
    }
    return status == ZT_OK ? node : NULL;
}

/* The anchor and the tag of the event, whichever kind it is. */
static void marks_of(const yaml_event_t *event, const char **anchor, const char **tag)
{
    const yaml_char_t *a = NULL, *t = NULL;
    if (event->type == YAML_SCALAR_EVENT) a = event->data.scalar.anchor, t = event->data.scalar.tag;
    if (event->type == YAML_SEQUENCE_START_EVENT) a = event->data.sequence_start.anchor, t = event->data.sequence_start.tag;
    if (event->type == YAML_MAPPING_START_EVENT) a = event->data.mapping_start.anchor, t = event->data.mapping_start.tag;
    *anchor = (const char *)a;
    *tag = (const char *)t;
}

/* The node that begins with the event; the event that ends it is the reader's after that. */
static zt_tree *read_event(yaml_reader *reader, int depth)
{
    const char *anchor, *tag;
    zt_tree *node = NULL;
    marks_of(&reader->event, &anchor, &tag);
    if (tag) return fail_here(reader, "tags are not supported"), NULL;
    if (depth > ZT_TREE_DEPTH) return fail_here(reader, "nested too deeply"), NULL;
    if (anchor && !(anchor = zt_arena_strndup(reader->arena, anchor, strlen(anchor)))) return NULL;
    switch (reader->event.type) {
    case YAML_ALIAS_EVENT: return read_alias(reader);
    case YAML_SCALAR_EVENT: node = read_scalar(reader); break;
    case YAML_SEQUENCE_START_EVENT: node = read_list(reader, depth); break;
    case YAML_MAPPING_START_EVENT: node = read_map(reader, depth); break;
    default: return fail_here(reader, "expected a value"), NULL;
    }
    return node && remember_anchor(reader, anchor, node) == ZT_OK ? node : NULL;
}

/* One document, and nothing behind it. */
static const zt_tree *read_document(yaml_reader *reader)
{
    zt_status status = next_event(reader); /* the stream's beginning */
    if (status == ZT_OK) status = next_event(reader);
    if (status == ZT_OK && reader->event.type == YAML_STREAM_END_EVENT) status = fail_here(reader, "empty document");
    if (status == ZT_OK) status = next_event(reader);
    const zt_tree *node = status == ZT_OK ? read_event(reader, 0) : NULL;
    if (node) status = next_event(reader);
    if (node && status == ZT_OK) status = next_event(reader);
    if (node && status == ZT_OK && reader->event.type != YAML_STREAM_END_EVENT)
        status = fail_here(reader, "unexpected second document");
    return status == ZT_OK ? node : NULL;
}

static const zt_tree *parse_yaml(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length)
{
    yaml_reader reader = {.ctx = ctx, .arena = arena, .file = file};
    if (!yaml_parser_initialize(&reader.parser)) {
        zt_fail(ctx, ZT_ENOMEM, "%s: out of memory (libyaml)", file);
        return NULL;
    }
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    const zt_tree *node = read_document(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    return node;
}

#endif

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct json_reader {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *file;
    uint64_t nodes;
} json_reader;

static zt_tree *new_json_node(json_reader *reader, zt_tree_kind kind, int64_t slots)
{
    if (++reader->nodes > ZT_TREE_NODES) {
        zt_fail(reader->ctx, ZT_EDATA, "%s: too many values: at most %d", reader->file, ZT_TREE_NODES);
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
    zt_tree *node = new_json_node(reader, ZT_TREE_SCALAR, 0);
    if (!node || !(node->text = zt_arena_strndup(reader->arena, text, length))) return NULL;
    node->plain = plain;
    if (strlen(node->text) == length) return node;
    zt_fail(reader->ctx, ZT_EDATA, "%s: string contains a zero byte", reader->file);
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
    zt_tree *node = new_json_node(reader, ZT_TREE_LIST, (int64_t)json_array_size(list));
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
    zt_tree *node = new_json_node(reader, ZT_TREE_MAP, 2 * (int64_t)json_object_size(map));
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
        zt_fail(reader->ctx, ZT_EDATA, "%s: nested too deeply: at most %d levels", reader->file, ZT_TREE_DEPTH);
        return NULL;
    }
    if (json_is_object(value)) return convert_map(reader, value, depth);
    if (json_is_array(value)) return convert_list(reader, value, depth);
    if (json_is_string(value)) return new_scalar(reader, json_string_value(value), json_string_length(value), false);
    if (json_is_number(value)) return new_number(reader, value);
    const char *word = json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null";
    return new_scalar(reader, word, strlen(word), true);
}

/* A JSON object. Everything else is read as YAML. */
static const zt_tree *parse_json(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length)
{
    json_reader reader = {.ctx = ctx, .arena = arena, .file = file};
    json_t *document = zt_json_load(ctx, file, text, length);
    const zt_tree *tree = document ? convert_value(&reader, document, 0) : NULL;
    json_decref(document);
    return tree;
}

/* Is the text a valid JSON object? Without a message. */
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
        zt_fail(ctx, ZT_EDATA, "%s: the recipe is too large (%zu bytes): at most %d", file, length, ZT_TREE_BYTES);
        return NULL;
    }
    return is_json(text, length) ? parse_json(ctx, arena, file, text, length) : parse_yaml(ctx, arena, file, text, length);
}
