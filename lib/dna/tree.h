/* tree.h - private to lib/dna: a small document, YAML or JSON, as maps, lists and scalars.
 *
 * Documents are not trusted: bytes, depth and nodes are bounded, an alias counts as all the nodes it refers to, a key may
 * not occur twice.
 */
#ifndef ZT_TREE_H
#define ZT_TREE_H

#include "lib/base/base.h"

typedef enum zt_tree_kind { ZT_TREE_SCALAR, ZT_TREE_LIST, ZT_TREE_MAP } zt_tree_kind;

typedef struct zt_tree zt_tree;
struct zt_tree {
    zt_tree_kind kind;
    bool plain;          /* a scalar without quotes: it may be a number, a switch or null */
    int line;            /* from 1; 0: not known */
    const char *text;    /* of a scalar; NUL-terminated, without NUL inside */
    zt_tree **items;     /* a list: items; a map: key, value, key, value ... */
    int64_t count;       /* items; in a map, pairs */
    uint64_t node_count; /* in this subtree, counting aliases at each use */
};

enum { ZT_TREE_BYTES = 1 << 20, ZT_TREE_DEPTH = 32, ZT_TREE_NODES = 200000 };

/* The document of a source, to be freed by zt_free; at most ZT_TREE_BYTES. NULL on error. */
char *zt_tree_read(zt_ctx *ctx, zt_source *source, size_t *length);
/* The tree is allocated in the arena. NULL on error; the message has file and line. */
const zt_tree *zt_tree_parse(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length);

const zt_tree *zt_tree_get(const zt_tree *map, const char *key); /* NULL: no such key */
bool zt_tree_is_null(const zt_tree *node); /* YAML's null: nothing, "~", "null", "Null" or "NULL", without quotes */
/* ZT_EDATA: "file:line: MESSAGE". */
zt_status zt_tree_fail(zt_ctx *ctx, const char *file, const zt_tree *node, const char *fmt, ...) ZT_PRINTF(4, 5);

#endif
