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

/* ---- recipes (tree_reader.c) ------------------------------------------------------------------ */

/* What a tree is read into. */
typedef struct zt_tree_reader {
    zt_ctx *ctx;
    zt_arena *arena; /* of the recipe */
    const char *file;
    void *recipe; /* the caller's */
} zt_tree_reader;

/* A row for each key that a map may have; read NULL: mergekit has the key, zt does not. The last row has no name. */
typedef zt_status zt_tree_key_fn(zt_tree_reader *reader, const zt_tree *value, void *into);
typedef struct zt_tree_key {
    const char *name;
    zt_tree_key_fn *read;
} zt_tree_key;

/* Calls the row of each key of the map, but not for null. An unknown key is an error. what: the map, for messages. */
zt_status zt_tree_read_keys(zt_tree_reader *reader, const zt_tree *map, const char *what, const zt_tree_key *keys, void *into);
/* A copy of a scalar's text, which may be empty. */
zt_status zt_tree_read_text(zt_tree_reader *reader, const zt_tree *node, const char *what, const char **out);

/* A name of a list, and what it stands for. The last row has no name. */
typedef struct zt_tree_word {
    const char *name;
    int value;
} zt_tree_word;
bool zt_tree_find_word(const zt_tree_word *words, const char *name, int *value); /* false: *value stays */
/* ZT_EDATA, with all the names, where the node is not one of them. */
zt_status zt_tree_read_word(zt_tree_reader *reader, const zt_tree *node, const char *what, const zt_tree_word *words, int *value);
/* count + 1 elements, all zero, in the arena; NULL: ZT_ENOMEM. */
void *zt_tree_zeroed(zt_tree_reader *reader, int64_t count, size_t size);

/* The recipe of a file, or of "-" for stdin, by the function that makes one of text; NULL on error. */
typedef void *zt_tree_parse_fn(zt_ctx *ctx, const char *name, const char *text, size_t length);
void *zt_tree_open(zt_ctx *ctx, const char *path, zt_tree_parse_fn *parse);

#endif
