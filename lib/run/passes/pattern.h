/* pattern.h - private to lib/run/passes: the expansions of fused rows as patterns.
 *
 * A row's `expand` is run with an emitter that only records what is emitted: a small graph. Its
 * values are numbers: fused input k is k; output o of node j is ZT_DAG_OUT(j, o).
 */
#ifndef ZT_PATTERN_H
#define ZT_PATTERN_H

#include "lib/run/passes/rewrite.h"

enum { ZT_DAG_NODES = 16 };
#define ZT_DAG_OUT(node, k) (ZT_MAX_IN + (node)*ZT_MAX_OUT + (k))
#define ZT_DAG_VALUES       ZT_DAG_OUT(ZT_DAG_NODES, 0)

typedef struct zt_dag {
    int n;
    bool failed, no_dims;       /* no_dims: rows get no dimensions, which symbols may change */
    zt_step node[ZT_DAG_NODES]; /* attrs in `attrs` */
    int out[ZT_MAX_OUT];        /* of the fused op; ZT_NONE: not there */
    zt_type type[ZT_DAG_VALUES];
    int64_t attrs[ZT_DAG_NODES][ZT_MAX_ATTR_BYTES / 8];
} zt_dag;

/* Expands a row for inputs of these types (NULL: absent). False where it has no expansion for them
 * in so many nodes. */
bool zt_dag_expand(zt_dag *dag, zt_op op, const void *attrs, const zt_type *const input_types[], bool no_dims);

/* Where a fused attribute may be read from: the attribute `attr` of a node's op. */
typedef struct zt_source {
    short node, attr;
} zt_source;

enum { ZT_MAX_SOURCES = 8 };

typedef struct zt_origin {
    int n;
    zt_source at[ZT_MAX_SOURCES]; /* the one of its own name first */
} zt_origin;

typedef struct zt_pattern {
    zt_op op;
    int order; /* in the table: for sorting */
    int n;     /* nodes */
    zt_op node[ZT_DAG_NODES];
    int in[ZT_DAG_NODES][ZT_MAX_IN]; /* values of the graph, or ZT_NONE */
    int out[ZT_MAX_OUT];
    unsigned sinks;    /* nodes that no other node reads, as bits */
    zt_origin *gather; /* [the fused op's attributes]; n 0: as in `attrs` */
    void *attrs;
} zt_pattern;

/* The patterns of all rows that give the bits of their expansion, largest first. */
zt_status zt_patterns_make(zt_arena *arena, zt_pattern **list, int *n);

#endif
