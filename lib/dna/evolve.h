/* evolve.h - populations that evolve: which members of a generation become parents of the next.
 *
 *     zt_evolution *all = zt_evolution_new(ctx, &settings);            // generation 0
 *     for (;;) {
 *         ... make the file of each member from its parents' files, and measure its fitness ...
 *         zt_evolution_score(all, i, true, fitness);                   // each member
 *         zt_evolution_divide(all, overlap, user);                     // into species
 *         zt_evolution_next(all);                                      // the next generation
 *     }
 *
 * Members are numbers here: what a member is, and how a child is made, is the caller's. From one generation to the next:
 *
 *     elites      the best members are carried over unchanged, with their fitness
 *     species     members whose overlap with the species' representative (its best member of the generation before) is at
 *                 least species_overlap; a member's first parent's species is tried first, then the others by age. A member
 *                 of none begins a new one; where there are species_limit already, it goes to that of the highest overlap
 *     children    the other places are divided among the species by the mean rank of their members, so that a new species
 *                 competes with its own members first (fitness sharing, as in NEAT); a species whose best fitness has not
 *                 risen for `stagnation` generations has none, unless it has the best member of all
 *     parents     drawn from the best `survivors` of a species; with crossover_rate there are two
 *
 * Only ranks count, so that fitness may be negative, or a loss (`minimize`). A member that failed ranks below all others and
 * is no parent. All draws depend on seed, generation and index: the same scores give the same generations.
 */
#ifndef ZT_EVOLVE_H
#define ZT_EVOLVE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_evolution_settings {
    int population;         /* 2 to 65536 */
    int elites;             /* below population; 0: a quarter of it, at least 1 */
    double crossover_rate;  /* probability that a child has two parents */
    double survivors;       /* share of a species' members that can be parents, above 0 */
    double species_overlap; /* -1: all members are one species */
    int species_limit;      /* most species; 0: a fifteenth of the population, at least 2 */
    int stagnation;         /* 0: species never stagnate */
    bool minimize;          /* the lowest fitness is the best */
    uint64_t seed;
} zt_evolution_settings;
/* Population 50, elites 0, crossover 0.75, survivors 0.25, overlap 0.5, limit 0, stagnation 15, maximize, seed 0. */
zt_evolution_settings zt_evolution_defaults(void);

typedef struct zt_evolution_member {
    int first, second;         /* parents, members of the generation before; -1: none */
    double weight_a, weight_b; /* their ranks, higher is better: the fitness of a crossover; of no parent 0 */
    bool elite;                /* `first`, unchanged */
    int species;               /* its number; after zt_evolution_next that of `first`; -1: not known */
    bool scored, valid;        /* has been measured; has a fitness */
    double fitness;
} zt_evolution_member;

typedef struct zt_evolution_champion {
    int generation, member; /* -1: no member had a fitness so far */
    double fitness;
} zt_evolution_champion;

typedef struct zt_evolution zt_evolution;

/* ZT_EUSAGE (NULL): a setting is out of range; the message names it. */
zt_evolution *zt_evolution_new(zt_ctx *ctx, const zt_evolution_settings *settings);
void zt_evolution_free(zt_evolution *evolution); /* NULL: no effect */

/* All live as long as the evolution and change with it. */
const zt_evolution_settings *zt_evolution_settings_of(const zt_evolution *evolution);
int zt_evolution_generation(const zt_evolution *evolution); /* from 0 */
/* NULL: no member of that index. */
const zt_evolution_member *zt_evolution_member_at(const zt_evolution *evolution, int index);
int zt_evolution_elites(const zt_evolution *evolution);                        /* members carried over */
int zt_evolution_species(const zt_evolution *evolution);                       /* number of species that have members */
zt_evolution_champion zt_evolution_champion_of(const zt_evolution *evolution); /* the best of all generations */
int64_t zt_evolution_count(const zt_evolution *evolution, bool failed);        /* fitnesses measured; those that failed */
/* The seed of what is drawn for a member of the current generation. */
uint64_t zt_evolution_seed(const zt_evolution *evolution, int index);
/* Is fitness a better than b? */
bool zt_evolution_better(const zt_evolution *evolution, double a, double b);

/* Records a fitness. valid false: there is none (`fitness` is ignored). The order of calls does not matter. ZT_EUSAGE: no such
 * member, scored already, or a valid fitness that is not finite. */
zt_status zt_evolution_score(zt_evolution *evolution, int index, bool valid, double fitness);

/* *overlap of member `index` with the representative of a species, which is member `of` of the generation before, or of the
 * same generation (`before` false). */
typedef zt_status zt_overlap_fn(void *user, int index, int of, bool before, double *overlap);
/* Divides a generation whose members are all scored into species, and finds the champion. ZT_EUSAGE: a member has no score. */
zt_status zt_evolution_divide(zt_evolution *evolution, zt_overlap_fn *overlap, void *user);
/* Plans the next generation; after zt_evolution_divide. ZT_EDATA: no member has a fitness. */
zt_status zt_evolution_next(zt_evolution *evolution);

/* Appends the state as one JSON object. */
zt_status zt_evolution_put(const zt_evolution *evolution, zt_str *out);
/* The state from such an object. `name` is for messages. ZT_EDATA (NULL): not a state. */
zt_evolution *zt_evolution_of(zt_ctx *ctx, const char *name, const char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
