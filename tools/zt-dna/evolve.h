/* evolve.h - private to zt-dna: mutate and evolve.
 *
 *     mutate.c          one child of one network
 *     evolve.c          the command: generation after generation
 *     evolve_run.h, .c  a run in a directory: its files, its state, its settings (evolve_settings.c)
 *     evolve_champion.c the file of the best member
 *     genome_network.c  networks as members: splice and mutation
 *     genome_recipe.c   merge recipes as members: their numbers
 *     score.h           who measures the fitness
 */
#ifndef ZT_DNA_EVOLVE_H
#define ZT_DNA_EVOLVE_H

#include "tools/zt-dna/dna_tool.h"

/* mutate.c: the rates, kinds and seed of the options. ZT_EUSAGE: an unknown kind. */
zt_status dna_mutation(zt_cli *cli, const dna_options *options, zt_nn_mutation *how);
/* Runs one row of zeros; not where that would be more than `most` operations and bytes (0: no limit). */
zt_status dna_check_runs(zt_engine *engine, zt_nn *network, double most);

/* What the members of a population are: how their files are made, and compared. Files are replaced. */
typedef struct dna_genome dna_genome;
struct dna_genome {
    const char *suffix; /* of their files: "json" */
    /* A member of generation 0, from the operands. */
    zt_status (*first)(dna_genome *genome, int index, uint64_t seed, const char *path);
    /* A child of a and b (NULL: of a alone), whose ranks are the member's weights. */
    zt_status (*breed)(dna_genome *genome, const zt_evolution_member *member, const char *a, const char *b, uint64_t seed,
                       const char *path);
    zt_status (*overlap)(dna_genome *genome, const char *a, const char *b, double *overlap);
    void (*close)(dna_genome *genome);
};

/* operands[count]: networks, or recipes; borrowed. */
dna_genome *dna_network_genome(zt_cli *cli, const dna_options *options, const char *const *operands, int count);
dna_genome *dna_recipe_genome(zt_cli *cli, const dna_options *options, const char *const *operands, int count);
/* Is the file a merge recipe? false also where it cannot be read; the context has ZT_ENOMEM where there was no memory to read it. */
bool dna_is_recipe(zt_cli *cli, const char *path);

#endif
