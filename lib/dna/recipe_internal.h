/* recipe_internal.h - private to lib/dna: what the files that build recipes share. recipe.c has models
 * and slices, recipe_values.c settings.
 */
#ifndef ZT_RECIPE_INTERNAL_H
#define ZT_RECIPE_INTERNAL_H

#include "lib/dna/merge_internal.h"
#include "lib/dna/tree.h"

typedef struct builder {
    zt_recipe *r;
    zt_ctx *ctx;
} builder;

#define REFUSE(at, ...) zt_tree_fail(b->ctx, b->r->name, at, __VA_ARGS__)

/* Cleared, in the recipe's arena. */
void *zt_recipe_room(builder *b, int64_t n, size_t size);

/* A row for each key that a map may have; fn NULL: mergekit has it, zt does not. */
typedef zt_status recipe_key_fn(builder *b, const zt_tree *value, void *into);
typedef struct recipe_key {
    const char *name;
    recipe_key_fn *fn;
} recipe_key;
/* Each key by its row; null is as if it were not there. */
zt_status zt_recipe_keys(builder *b, const zt_tree *map, const char *what, const recipe_key *rows,
                         void *into);
bool zt_recipe_is_null(const zt_tree *t);
zt_status zt_recipe_text(builder *b, const zt_tree *t, const char *what, const char **out);

/* recipe_values.c: "parameters", into a merge_scope. */
recipe_key_fn zt_recipe_parameters;

#endif
