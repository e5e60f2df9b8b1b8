/* evolve.c - owns what happens in a generation: ranks, species, and the parents of the next one. */
#include "lib/base/require.h"
#include "lib/dna/evolve_internal.h"

#include <math.h>
#include <stdlib.h>

zt_evolution_settings zt_evolution_defaults(void)
{
    return (zt_evolution_settings){
        .population = 50, .crossover_rate = 0.75, .survivors = 0.25, .species_overlap = 0.5, .stagnation = 15};
}

static zt_status check_number(zt_ctx *ctx, const char *name, double value, double low, double high)
{
    if (value >= low && value <= high) return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "%s is %g: must be %g to %g", name, value, low, high);
}

zt_status zt_evolution_check(zt_ctx *ctx, const zt_evolution_settings *settings)
{
    zt_status status = check_number(ctx, "population", settings->population, 2, EVOLVE_POPULATION);
    if (!status) status = check_number(ctx, "elites", settings->elites, 0, settings->population - 1);
    if (!status) status = check_number(ctx, "crossover rate", settings->crossover_rate, 0, 1);
    if (!status) status = check_number(ctx, "survivors", settings->survivors, 1e-6, 1);
    if (!status) status = check_number(ctx, "species overlap", settings->species_overlap, -1, 1);
    if (!status) status = check_number(ctx, "species limit", settings->species_limit, 0, EVOLVE_POPULATION);
    return status ? status : check_number(ctx, "stagnation", settings->stagnation, 0, EVOLVE_GENERATIONS);
}

zt_evolution *zt_evolution_make(zt_ctx *ctx, const zt_evolution_settings *settings)
{
    size_t count = (size_t)settings->population;
    zt_evolution *evolution = zt_calloc(ctx, 1, sizeof *evolution);
    if (!evolution) return NULL;
    evolution->ctx = ctx;
    evolution->settings = *settings;
    if (!settings->elites) evolution->settings.elites = settings->population < 8 ? 1 : settings->population / 4;
    if (!settings->species_limit) evolution->settings.species_limit = settings->population < 30 ? 2 : settings->population / 15;
    evolution->champion = (zt_evolution_champion){.generation = -1, .member = -1};
    evolution->members = zt_calloc(ctx, 2 * count, sizeof *evolution->members);
    evolution->order = zt_calloc(ctx, count, sizeof *evolution->order);
    evolution->species = zt_calloc(ctx, 2 * count, sizeof *evolution->species);
    if (!evolution->members || !evolution->order || !evolution->species) {
        zt_evolution_free(evolution);
        return NULL;
    }
    evolution->children = evolution->members + count;
    for (size_t i = 0; i < count; i++) evolution->members[i] = (zt_evolution_member){.first = -1, .second = -1, .species = -1};
    return evolution;
}

zt_evolution *zt_evolution_new(zt_ctx *ctx, const zt_evolution_settings *settings)
{
    ZT_REQUIRE(ctx, settings, NULL);
    return zt_evolution_check(ctx, settings) == ZT_OK ? zt_evolution_make(ctx, settings) : NULL;
}

void zt_evolution_free(zt_evolution *evolution)
{
    if (!evolution) return;
    bool swapped = evolution->children < evolution->members;
    zt_free(evolution->ctx, swapped ? evolution->children : evolution->members);
    zt_free(evolution->ctx, evolution->order);
    zt_free(evolution->ctx, evolution->species);
    zt_free(evolution->ctx, evolution);
}

/* ---- getters --------------------------------------------------------------------------------- */

const zt_evolution_settings *zt_evolution_settings_of(const zt_evolution *evolution)
{
    return evolution ? &evolution->settings : NULL;
}

int zt_evolution_generation(const zt_evolution *evolution) { return evolution ? evolution->generation : 0; }
int zt_evolution_elites(const zt_evolution *evolution) { return evolution ? evolution->settings.elites : 0; }

const zt_evolution_member *zt_evolution_member_at(const zt_evolution *evolution, int index)
{
    return evolution && index >= 0 && index < evolution->settings.population ? &evolution->members[index] : NULL;
}

int zt_evolution_species(const zt_evolution *evolution)
{
    int count = 0;
    for (int i = 0; evolution && i < evolution->species_count; i++) count += evolution->species[i].size > 0;
    return count;
}

zt_evolution_champion zt_evolution_champion_of(const zt_evolution *evolution)
{
    return evolution ? evolution->champion : (zt_evolution_champion){.generation = -1, .member = -1};
}

int64_t zt_evolution_count(const zt_evolution *evolution, bool failed)
{
    return !evolution ? 0 : failed ? evolution->failures : evolution->evaluations;
}

/* Sequences from 2^63 are of members' seeds; those below are of the draws here. */
uint64_t zt_evolution_seed(const zt_evolution *evolution, int index)
{
    uint32_t word[4] = {0};
    if (evolution)
        zt_philox(evolution->settings.seed, UINT64_C(1) << 63 | (uint64_t)evolution->generation, (uint64_t)index, word);
    return (uint64_t)word[1] << 32 | word[0];
}

bool zt_evolution_better(const zt_evolution *evolution, double a, double b)
{
    return evolution && (evolution->settings.minimize ? a < b : a > b);
}

/* ---- scores ---------------------------------------------------------------------------------- */

zt_status zt_evolution_score(zt_evolution *evolution, int index, bool valid, double fitness)
{
    if (!evolution) return ZT_EUSAGE;
    ZT_REQUIRE(evolution->ctx, zt_evolution_member_at(evolution, index) && (!valid || isfinite(fitness)), ZT_EUSAGE);
    zt_evolution_member *member = &evolution->members[index];
    if (member->scored) return zt_fail(evolution->ctx, ZT_EUSAGE, "member %d has a fitness already", index);
    member->scored = true;
    member->valid = valid;
    member->fitness = valid ? fitness : 0;
    evolution->evaluations++;
    evolution->failures += !valid;
    return ZT_OK;
}

/* Does member a rank before b? Of equal ones the first. */
static bool ranks_before(const zt_evolution *evolution, int a, int b)
{
    const zt_evolution_member *left = &evolution->members[a], *right = &evolution->members[b];
    if (left->valid != right->valid) return left->valid;
    if (left->valid && left->fitness != right->fitness) return zt_evolution_better(evolution, left->fitness, right->fitness);
    return a < b;
}

/* Merges order[low, middle) and order[middle, high) through the scratch. */
static void merge_orders(zt_evolution *evolution, int *scratch, int low, int middle, int high)
{
    int *order = evolution->order, left = low, right = middle;
    for (int i = low; i < high; i++) {
        bool take_left = left < middle && (right == high || ranks_before(evolution, order[left], order[right]));
        scratch[i] = order[take_left ? left++ : right++];
    }
    for (int i = low; i < high; i++) order[i] = scratch[i];
}

static zt_status sort_members(zt_evolution *evolution)
{
    int count = evolution->settings.population;
    int *scratch = zt_alloc_array(evolution->ctx, (size_t)count, sizeof *scratch);
    if (!scratch) return ZT_ENOMEM;
    for (int i = 0; i < count; i++) evolution->order[i] = i;
    for (int width = 1; width < count; width *= 2)
        for (int low = 0; low + width < count; low += 2 * width)
            merge_orders(evolution, scratch, low, low + width, low + 2 * width < count ? low + 2 * width : count);
    zt_free(evolution->ctx, scratch);
    return ZT_OK;
}

/* ---- species --------------------------------------------------------------------------------- */

static int find_species(const zt_evolution *evolution, int number)
{
    int index = 0;
    while (index < evolution->species_count && evolution->species[index].number != number) index++;
    return index < evolution->species_count ? index : -1;
}

typedef struct divider {
    zt_evolution *evolution;
    zt_overlap_fn *overlap;
    void *user;
    int old_count; /* species of the generation before */
} divider;

/* The species that a member is tried for: the first that fits, and the nearest of those that were tried. */
typedef struct species_search {
    int fitting, nearest; /* -1: none */
    double overlap;       /* with the nearest */
} species_search;

static zt_status try_species(const divider *state, int member, int index, species_search *search)
{
    const zt_evolution *evolution = state->evolution;
    const evolve_species *species = &evolution->species[index];
    double overlap = 1, least = evolution->settings.species_overlap;
    bool before = index < state->old_count, itself = !before && species->representative == member;
    zt_status status =
        least <= -1 || itself ? ZT_OK : state->overlap(state->user, member, species->representative, before, &overlap);
    if (status != ZT_OK) return status;
    if (overlap >= least) search->fitting = index;
    if (search->nearest >= 0 && !(overlap > search->overlap)) return ZT_OK;
    search->nearest = index;
    search->overlap = overlap;
    return ZT_OK;
}

/* The parent's species, else the first that fits, else a new one, or the nearest where no more are allowed. */
static zt_status place_member(const divider *state, int member)
{
    zt_evolution *evolution = state->evolution;
    int parents = find_species(evolution, evolution->members[member].species);
    species_search search = {.fitting = -1, .nearest = -1};
    zt_status status = parents >= 0 ? try_species(state, member, parents, &search) : ZT_OK;
    for (int i = 0; i < evolution->species_count && search.fitting < 0 && status == ZT_OK; i++)
        if (i != parents) status = try_species(state, member, i, &search);
    if (status != ZT_OK) return status;
    int found = search.fitting;
    if (found < 0 && evolution->species_count >= evolution->settings.species_limit) found = search.nearest;
    if (found < 0) {
        found = evolution->species_count++;
        evolution->species[found] =
            (evolve_species){.number = evolution->next_species++, .representative = member, .best_member = -1};
    }
    evolution->species[found].size++;
    evolution->members[member].species = evolution->species[found].number;
    return ZT_OK;
}

/* The best member of each species, by `order`; and whether the species' fitness rose. */
static void find_best(zt_evolution *evolution)
{
    for (int i = 0; i < evolution->settings.population; i++) {
        int index = evolution->order[i];
        const zt_evolution_member *member = &evolution->members[index];
        evolve_species *species = &evolution->species[find_species(evolution, member->species)];
        if (species->best_member >= 0 || !member->valid) continue;
        bool rose = !species->has_best || zt_evolution_better(evolution, member->fitness, species->best);
        species->best_member = index;
        species->stale = rose ? 0 : species->stale + 1;
        if (rose) species->best = member->fitness;
        species->has_best = true;
    }
}

static void find_champion(zt_evolution *evolution)
{
    const zt_evolution_member *best = &evolution->members[evolution->order[0]];
    zt_evolution_champion *champion = &evolution->champion;
    if (!best->valid || (champion->member >= 0 && !zt_evolution_better(evolution, best->fitness, champion->fitness))) return;
    *champion = (zt_evolution_champion){evolution->generation, evolution->order[0], best->fitness};
}

/* Species without members end. */
static void drop_empty(zt_evolution *evolution)
{
    int kept = 0;
    for (int i = 0; i < evolution->species_count; i++)
        if (evolution->species[i].size) evolution->species[kept++] = evolution->species[i];
    evolution->species_count = kept;
}

zt_status zt_evolution_divide(zt_evolution *evolution, zt_overlap_fn *overlap, void *user)
{
    if (!evolution) return ZT_EUSAGE;
    ZT_REQUIRE(evolution->ctx, overlap && !evolution->divided, ZT_EUSAGE);
    divider state = {.evolution = evolution, .overlap = overlap, .user = user, .old_count = evolution->species_count};
    for (int i = 0; i < evolution->settings.population; i++)
        if (!evolution->members[i].scored) return zt_fail(evolution->ctx, ZT_EUSAGE, "member %d has no fitness yet", i);
    for (int i = 0; i < evolution->species_count; i++) {
        evolution->species[i].size = 0;
        evolution->species[i].best_member = -1;
    }
    zt_status status = sort_members(evolution);
    for (int i = 0; i < evolution->settings.population && status == ZT_OK; i++) status = place_member(&state, i);
    if (status != ZT_OK) return status;
    drop_empty(evolution);
    find_best(evolution);
    find_champion(evolution);
    evolution->divided = true;
    return ZT_OK;
}

/* ---- the next generation --------------------------------------------------------------------- */

/* The rank of a member, from the population's size of the best to 1; of one that failed 0. */
static void rank_members(const zt_evolution *evolution, double *ranks)
{
    int count = evolution->settings.population;
    for (int i = 0; i < count; i++)
        ranks[evolution->order[i]] = evolution->members[evolution->order[i]].valid ? (double)(count - i) : 0;
}

/* The mean rank of a species' members; 0: it has no children. */
static double share_of(const zt_evolution *evolution, const evolve_species *species, const double *ranks)
{
    double sum = 0;
    int limit = evolution->settings.stagnation;
    bool best_of_all = evolution->members[evolution->order[0]].species == species->number;
    if (species->best_member < 0 || (limit && species->stale >= limit && !best_of_all)) return 0;
    for (int i = 0; i < evolution->settings.population; i++)
        if (evolution->members[i].species == species->number) sum += ranks[i];
    return sum / species->size;
}

/* Divides `places` by the shares: whole parts, then one more for the largest remainders. */
static void divide_places(const zt_evolution *evolution, double *shares, int places, int *counts)
{
    double sum = 0;
    int left = places;
    for (int i = 0; i < evolution->species_count; i++) sum += shares[i];
    for (int i = 0; i < evolution->species_count; i++) {
        double exact = sum > 0 ? shares[i] / sum * places : 0;
        counts[i] = (int)exact;
        if (counts[i] > left) counts[i] = left;
        left -= counts[i];
        shares[i] = shares[i] > 0 ? exact - counts[i] : -1;
    }
    while (left-- > 0) {
        int best = 0;
        for (int i = 1; i < evolution->species_count; i++)
            if (shares[i] > shares[best]) best = i;
        counts[best]++;
        shares[best] = shares[best] - 1;
    }
}

/* The members of a species that can be parents, the best first; their number. */
static int list_parents(const zt_evolution *evolution, const evolve_species *species, int *parents)
{
    int valid = 0;
    for (int i = 0; i < evolution->settings.population; i++) {
        int index = evolution->order[i];
        if (evolution->members[index].species == species->number && evolution->members[index].valid) parents[valid++] = index;
    }
    int kept = (int)ceil(evolution->settings.survivors * species->size);
    return kept < 1 ? 1 : kept < valid ? kept : valid;
}

enum { DRAW_FIRST, DRAW_CROSSOVER, DRAW_SECOND };

static double draw(const zt_evolution *evolution, int child, int what)
{
    return zt_uniform(evolution->settings.seed, (uint64_t)evolution->generation, (uint64_t)child * 4 + (uint64_t)what);
}

static zt_evolution_member make_child(const zt_evolution *evolution, int child, const int *parents, int count,
                                      const double *ranks)
{
    int first = (int)(draw(evolution, child, DRAW_FIRST) * count), second = -1;
    if (count > 1 && draw(evolution, child, DRAW_CROSSOVER) < evolution->settings.crossover_rate) {
        second = (int)(draw(evolution, child, DRAW_SECOND) * (count - 1));
        second += second >= first;
    }
    int member = parents[first], other = second < 0 ? -1 : parents[second];
    return (zt_evolution_member){.first = member,
                                 .second = other,
                                 .weight_a = ranks[member],
                                 .weight_b = other < 0 ? 0 : ranks[other],
                                 .species = evolution->members[member].species};
}

static int add_elites(zt_evolution *evolution)
{
    int count = 0;
    for (int i = 0; i < evolution->settings.elites; i++) {
        const zt_evolution_member *member = &evolution->members[evolution->order[i]];
        if (!member->valid) break;
        evolution->children[count++] = (zt_evolution_member){.first = evolution->order[i],
                                                             .second = -1,
                                                             .elite = true,
                                                             .species = member->species,
                                                             .scored = true,
                                                             .valid = true,
                                                             .fitness = member->fitness};
    }
    return count;
}

static void add_children(zt_evolution *evolution, double *ranks, double *shares, int *counts)
{
    int *parents = counts + evolution->settings.population, child = add_elites(evolution);
    rank_members(evolution, ranks);
    for (int i = 0; i < evolution->species_count; i++) shares[i] = share_of(evolution, &evolution->species[i], ranks);
    divide_places(evolution, shares, evolution->settings.population - child, counts);
    for (int i = 0; i < evolution->species_count; i++) {
        int parent_count = counts[i] ? list_parents(evolution, &evolution->species[i], parents) : 0;
        for (int k = 0; k < counts[i]; k++, child++)
            evolution->children[child] = make_child(evolution, child, parents, parent_count, ranks);
    }
}

/* The best member of each species, or its first one where all failed. */
static void set_representatives(zt_evolution *evolution)
{
    for (int i = evolution->settings.population - 1; i >= 0; i--) {
        evolve_species *species = &evolution->species[find_species(evolution, evolution->members[i].species)];
        species->representative = species->best_member >= 0 ? species->best_member : i;
    }
}

zt_status zt_evolution_next(zt_evolution *evolution)
{
    if (!evolution) return ZT_EUSAGE;
    ZT_REQUIRE(evolution->ctx, evolution->divided && evolution->generation < EVOLVE_GENERATIONS, ZT_EUSAGE);
    size_t count = (size_t)evolution->settings.population;
    if (!evolution->members[evolution->order[0]].valid)
        return zt_fail(evolution->ctx, ZT_EDATA, "no member of generation %d has a fitness", evolution->generation);
    double *ranks = zt_calloc(evolution->ctx, 2 * count, sizeof *ranks);
    int *counts = ranks ? zt_calloc(evolution->ctx, 2 * count, sizeof *counts) : NULL;
    if (counts) {
        add_children(evolution, ranks, ranks + count, counts);
        set_representatives(evolution);
        zt_evolution_member *members = evolution->members;
        evolution->members = evolution->children;
        evolution->children = members;
        evolution->generation++;
        evolution->divided = false;
    }
    zt_free(evolution->ctx, counts);
    zt_free(evolution->ctx, ranks);
    return counts ? ZT_OK : ZT_ENOMEM;
}
