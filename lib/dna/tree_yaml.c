/* tree_yaml.c - owns the reading of YAML, by libyaml's events. */
#include "lib/dna/tree.h"

#if !defined(ZT_HAVE_YAML)

const zt_tree *zt_tree_yaml(zt_ctx *ctx, zt_arena *a, const char *file, const char *text, size_t n)
{
    (void)a, (void)text, (void)n;
    zt_fail(ctx, ZT_ENOTSUP, "%s: zt was built without libyaml: JSON is read, YAML is not", file);
    return NULL;
}

#else

#include <string.h>
#include <yaml.h>

enum { ANCHORS = 256 };

typedef struct yaml_reader {
    zt_ctx *ctx;
    zt_arena *a;
    const char *file;
    yaml_parser_t parser;
    yaml_event_t event; /* the one that is being looked at */
    uint64_t nodes;     /* read so far, aliases with all that they stand for */
    struct {
        const char *name;
        const zt_tree *node;
    } anchor[ANCHORS];
    int n_anchors;
} yaml_reader;

static int line_of(const yaml_event_t *e) { return (int)e->start_mark.line + 1; }

static zt_status bad(yaml_reader *r, const char *what)
{
    return zt_fail(r->ctx, ZT_EDATA, "%s:%d: %s", r->file, line_of(&r->event), what);
}

static zt_status advance(yaml_reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event)) return ZT_OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return zt_fail(r->ctx, ZT_ENOMEM, "%s: no memory for libyaml", r->file);
    size_t line = r->parser.problem_mark.line + 1;
    return zt_fail(r->ctx, ZT_EDATA, "%s:%zu: not YAML: %s", r->file, line,
                   r->parser.problem ? r->parser.problem : "it cannot be read");
}

static zt_status count(yaml_reader *r, uint64_t nodes)
{
    r->nodes += nodes;
    return r->nodes <= ZT_TREE_NODES ? ZT_OK : bad(r, "more values than a recipe can have");
}

static zt_tree *new_node(yaml_reader *r, zt_tree_kind kind)
{
    zt_tree *t = count(r, 1) == ZT_OK ? zt_arena_alloc(r->a, sizeof *t) : NULL;
    if (t) *t = (zt_tree){.kind = kind, .line = line_of(&r->event), .nodes = 1};
    return t;
}

/* A node is complete: from now on an alias may stand for it. */
static zt_status remember(yaml_reader *r, const char *anchor, const zt_tree *t)
{
    if (!anchor) return ZT_OK;
    if (r->n_anchors == ANCHORS) return bad(r, "too many anchors");
    r->anchor[r->n_anchors].name = anchor;
    r->anchor[r->n_anchors++].node = t;
    return ZT_OK;
}

static zt_tree *of_alias(yaml_reader *r)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    for (int i = r->n_anchors - 1; i >= 0; i--) {
        const zt_tree *t = r->anchor[i].node;
        if (strcmp(r->anchor[i].name, name)) continue;
        if (count(r, t->nodes) != ZT_OK) return NULL;
        zt_tree *same = zt_arena_alloc(r->a, sizeof *same);
        if (same) *same = *t;
        return same;
    }
    bad(r, "an alias of nothing above it");
    return NULL;
}

static zt_tree *of_scalar(yaml_reader *r)
{
    zt_tree *t = new_node(r, ZT_TREE_SCALAR);
    size_t n = r->event.data.scalar.length;
    if (!t) return NULL;
    t->plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    t->text = zt_arena_strndup(r->a, (const char *)r->event.data.scalar.value, n);
    if (!t->text) return NULL;
    if (strlen(t->text) == n) return t;
    bad(r, "a text with a zero byte");
    return NULL;
}

static zt_tree *of_event(yaml_reader *r, int depth);

static zt_status append(yaml_reader *r, zt_tree *t, int64_t *room, zt_tree *item)
{
    int64_t n = t->kind == ZT_TREE_MAP ? 2 * t->n : t->n;
    (void)r;
    if (!item) return ZT_EDATA;
    if (n + 2 > *room) {
        int64_t more = *room ? *room * 2 : 8;
        zt_tree **grown = zt_arena_alloc(r->a, (size_t)more * sizeof *grown);
        if (!grown) return ZT_ENOMEM;
        if (n) memcpy(grown, t->item, (size_t)n * sizeof *grown);
        t->item = grown;
        *room = more;
    }
    t->item[n] = item;
    t->nodes += item->nodes;
    return ZT_OK;
}

static zt_tree *of_list(yaml_reader *r, int depth)
{
    zt_tree *t = new_node(r, ZT_TREE_LIST);
    int64_t room = 0;
    zt_status s = t ? advance(r) : ZT_ENOMEM;
    while (s == ZT_OK && r->event.type != YAML_SEQUENCE_END_EVENT) {
        s = append(r, t, &room, of_event(r, depth + 1));
        t->n++;
        if (s == ZT_OK) s = advance(r);
    }
    return s == ZT_OK ? t : NULL;
}

static zt_status check_key(yaml_reader *r, const zt_tree *map, const zt_tree *key)
{
    char shown[80];
    if (!key) return ZT_EDATA;
    if (key->kind != ZT_TREE_SCALAR) return bad(r, "a key that is no text");
    if (!strcmp(key->text, "<<")) return bad(r, "merge keys ('<<') are not read");
    if (!zt_tree_get(map, key->text)) return ZT_OK;
    return zt_tree_fail(r->ctx, r->file, key, "key '%s' comes twice",
                        zt_escape(shown, sizeof shown, key->text, strlen(key->text)));
}

static zt_tree *of_map(yaml_reader *r, int depth)
{
    zt_tree *t = new_node(r, ZT_TREE_MAP);
    int64_t room = 0;
    zt_status s = t ? advance(r) : ZT_ENOMEM;
    while (s == ZT_OK && r->event.type != YAML_MAPPING_END_EVENT) {
        zt_tree *key = of_event(r, depth + 1);
        s = check_key(r, t, key);
        if (s == ZT_OK) s = append(r, t, &room, key);
        if (s == ZT_OK) s = advance(r);
        zt_tree *value = s == ZT_OK ? of_event(r, depth + 1) : NULL;
        if (s == ZT_OK && !value) s = ZT_EDATA;
        if (s != ZT_OK) break;
        t->item[2 * t->n++ + 1] = value;
        t->nodes += value->nodes;
        s = advance(r);
    }
    return s == ZT_OK ? t : NULL;
}

/* The anchor and the tag of the event, whichever kind it is. */
static void marks_of(const yaml_event_t *e, const char **anchor, const char **tag)
{
    const yaml_char_t *a = NULL, *t = NULL;
    if (e->type == YAML_SCALAR_EVENT) a = e->data.scalar.anchor, t = e->data.scalar.tag;
    if (e->type == YAML_SEQUENCE_START_EVENT)
        a = e->data.sequence_start.anchor, t = e->data.sequence_start.tag;
    if (e->type == YAML_MAPPING_START_EVENT)
        a = e->data.mapping_start.anchor, t = e->data.mapping_start.tag;
    *anchor = (const char *)a;
    *tag = (const char *)t;
}

/* The node that begins with the event; the event that ends it is the reader's after that. */
static zt_tree *of_event(yaml_reader *r, int depth)
{
    const char *anchor, *tag;
    zt_tree *t = NULL;
    marks_of(&r->event, &anchor, &tag);
    if (tag) return bad(r, "tags are not read"), NULL;
    if (depth > ZT_TREE_DEPTH) return bad(r, "nested too deeply"), NULL;
    if (anchor && !(anchor = zt_arena_strndup(r->a, anchor, strlen(anchor)))) return NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT: return of_alias(r);
    case YAML_SCALAR_EVENT: t = of_scalar(r); break;
    case YAML_SEQUENCE_START_EVENT: t = of_list(r, depth); break;
    case YAML_MAPPING_START_EVENT: t = of_map(r, depth); break;
    default: return bad(r, "a value was expected"), NULL;
    }
    return t && remember(r, anchor, t) == ZT_OK ? t : NULL;
}

/* One document, and nothing behind it. */
static const zt_tree *document(yaml_reader *r)
{
    zt_status s = advance(r); /* the stream's beginning */
    if (s == ZT_OK) s = advance(r);
    if (s == ZT_OK && r->event.type == YAML_STREAM_END_EVENT) s = bad(r, "it is empty");
    if (s == ZT_OK) s = advance(r);
    const zt_tree *t = s == ZT_OK ? of_event(r, 0) : NULL;
    if (t) s = advance(r);
    if (t && s == ZT_OK) s = advance(r);
    if (t && s == ZT_OK && r->event.type != YAML_STREAM_END_EVENT) s = bad(r, "a second document");
    return s == ZT_OK ? t : NULL;
}

const zt_tree *zt_tree_yaml(zt_ctx *ctx, zt_arena *a, const char *file, const char *text, size_t n)
{
    yaml_reader r = {.ctx = ctx, .a = a, .file = file};
    if (!yaml_parser_initialize(&r.parser)) {
        zt_fail(ctx, ZT_ENOMEM, "%s: no memory for libyaml", file);
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    const zt_tree *t = document(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return t;
}

#endif
