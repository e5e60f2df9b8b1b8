/* recipe_genome.h - merge recipes that evolve: the numbers of a recipe that may change, as one vector.
 *
 *     zt_recipe_genome *g = zt_recipe_genome_of(ctx, "recipe.yaml", text, size, ranges, 3, 4);
 *     for (int i = 0; i < zt_recipe_genome_count(g); i++) zt_recipe_genome_set(g, i, ...);
 *     zt_recipe_genome_put(g, &out);                   // a recipe in JSON, which zt_recipe_parse reads
 *
 * Genes are the numbers under the keys `parameters` of a recipe (merge.h) whose name has a range. With groups above 1 each
 * of them becomes a list of so many numbers, which a merge interpolates from the first layer to the last: one for each group
 * of layers.
 */
#ifndef ZT_RECIPE_GENOME_H
#define ZT_RECIPE_GENOME_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_gene_range {
    const char *name; /* of a parameter: "weight" */
    double low, high; /* low < high */
} zt_gene_range;

typedef struct zt_recipe_genome zt_recipe_genome;

/* From the text of a recipe, YAML or JSON; `name`, its path, is for messages, and models that are not found in the current
 * directory are searched beside it. ranges[range_count] are borrowed. groups 1: as many numbers as the recipe has. NULL with
 * ZT_EDATA: not a recipe, or it has no number with a range; ZT_EUSAGE: groups is not 1 to 256, or a range is empty. */
zt_recipe_genome *zt_recipe_genome_of(zt_ctx *ctx, const char *name, const char *text, size_t size, const zt_gene_range *ranges,
                                      int range_count, int groups);
void zt_recipe_genome_free(zt_recipe_genome *genome); /* NULL: no effect */

int zt_recipe_genome_count(const zt_recipe_genome *genome); /* genes, in the order of the text */
/* Gene `index` below the count: its value; its range, as long as the ranges live. */
double zt_recipe_genome_get(const zt_recipe_genome *genome, int index);
const zt_gene_range *zt_recipe_genome_range(const zt_recipe_genome *genome, int index); /* the same */
/* Sets gene `index` to a value, limited to its range and rounded to six decimals. */
zt_status zt_recipe_genome_set(zt_recipe_genome *genome, int index, double value);
/* 1 less the mean difference of two genomes, each gene in units of its range; 0 if their numbers of genes differ. */
double zt_recipe_genome_overlap(const zt_recipe_genome *a, const zt_recipe_genome *b);
/* Appends the recipe as JSON. */
zt_status zt_recipe_genome_put(const zt_recipe_genome *genome, zt_str *out);

/* Does the text begin like a recipe: has it a key merge_method? */
bool zt_recipe_sniff(const char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
