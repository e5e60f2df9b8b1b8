/* evolve_internal.h - private to lib/dna: a population, for evolve.c (what happens in a generation) and evolve_state.c. */
#ifndef ZT_EVOLVE_INTERNAL_H
#define ZT_EVOLVE_INTERNAL_H

#include "lib/dna/evolve.h"

enum { EVOLVE_POPULATION = 1 << 16, EVOLVE_GENERATIONS = 1 << 30 };

typedef struct evolve_species {
    int number;         /* counted from 0 over all generations */
    int representative; /* its best member of the generation before; of a new one, a member of this generation */
    int size;           /* members of this generation */
    int best_member;    /* of this generation; -1: none has a fitness */
    double best;        /* the best fitness so far */
    bool has_best;
    int stale; /* generations since it rose */
} evolve_species;

struct zt_evolution {
    zt_ctx *ctx;
    zt_evolution_settings settings;
    int generation;
    zt_evolution_member *members, *children; /* [population] */
    int *order;                              /* [population] members from the best to the worst */
    evolve_species *species;                 /* [2 population] by age */
    int species_count, next_species;
    zt_evolution_champion champion;
    int64_t evaluations, failures;
    bool divided;
};

/* An evolution of generation 0 with settings that were checked. NULL: no memory. */
zt_evolution *zt_evolution_make(zt_ctx *ctx, const zt_evolution_settings *settings);
/* ZT_EUSAGE, or `status`: a setting is out of range. */
zt_status zt_evolution_check(zt_ctx *ctx, const zt_evolution_settings *settings);

#endif
