/* recipe_internal.h - private to lib/dna: what the files that build recipes share. recipe.c has models
 * and slices, recipe_values.c settings.
 */
#ifndef ZT_RECIPE_INTERNAL_H
#define ZT_RECIPE_INTERNAL_H

#include "lib/dna/merge_internal.h"
#include "lib/dna/tree.h"

typedef struct recipe_builder {
    zt_recipe *recipe;
    zt_ctx *ctx;
} recipe_builder;

#define REFUSE(at, ...) zt_tree_fail(builder->ctx, builder->recipe->name, at, __VA_ARGS__)

/* Cleared, in the recipe's arena. */
void *zt_recipe_alloc(recipe_builder *builder, int64_t count, size_t size);

/* A row for each key that a map may have; fn NULL: mergekit has it, zt does not. */
typedef zt_status recipe_key_fn(recipe_builder *b, const zt_tree *value, void *into);
typedef struct recipe_key {
    const char *name;
    recipe_key_fn *read;
} recipe_key;
/* Each key by its row; null is as if it were not there. */
zt_status zt_recipe_keys(recipe_builder *builder, const zt_tree *map, const char *what, const recipe_key *rows, void *into);
bool zt_recipe_is_null(const zt_tree *node);
zt_status zt_recipe_text(recipe_builder *builder, const zt_tree *node, const char *what, const char **out);

/* recipe_values.c: "parameters", into a merge_scope. */
recipe_key_fn zt_recipe_parameters;

#endif
