/* tree.h - private to lib/dna: a small document, YAML or JSON, as maps, lists and scalars.
 *
 * tree.c reads JSON and frees; tree_yaml.c reads YAML by libyaml. Documents are hostile: bytes,
 * depth and nodes are bounded, an alias counts with all that it stands for, no key comes twice.
 */
#ifndef ZT_TREE_H
#define ZT_TREE_H

#include "lib/base/base.h"

typedef enum zt_tree_kind { ZT_TREE_SCALAR, ZT_TREE_LIST, ZT_TREE_MAP } zt_tree_kind;

typedef struct zt_tree zt_tree;
struct zt_tree {
    zt_tree_kind kind;
    bool plain;          /* a scalar without quotes: it may be a number, a switch or nothing */
    int line;            /* from 1; 0: not known */
    const char *text;    /* of a scalar, closed by a zero, with none inside */
    zt_tree **items;     /* of a list its items, of a map key, value, key, value ... */
    int64_t count;       /* items; of a map pairs */
    uint64_t node_count; /* below and with this one, aliases as often as they stand there */
};

enum { ZT_TREE_BYTES = 1 << 20, ZT_TREE_DEPTH = 32, ZT_TREE_NODES = 200000 };

/* All of it lives in the arena. NULL: an error, one line that names file and line. */
const zt_tree *zt_tree_parse(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length);
/* By libyaml; ZT_ENOTSUP where zt was built without it. */
const zt_tree *zt_tree_yaml(zt_ctx *ctx, zt_arena *arena, const char *file, const char *text, size_t length);

const zt_tree *zt_tree_get(const zt_tree *map, const char *key); /* NULL: no such key */
/* ZT_EDATA: "file:line: MESSAGE". */
zt_status zt_tree_fail(zt_ctx *ctx, const char *file, const zt_tree *node, const char *fmt, ...) ZT_PRINTF(4, 5);

#endif
