/* genome_recipe.c - merge recipes as members of a population: their numbers are the genes. */
#include "tools/zt-dna/evolve.h"

#include <string.h>

#define DEFAULT_GENES "weight=0..1,density=0.05..1,t=0..1"

enum { RANGES = 32, NAME = 40, RECIPE_BYTES = 1 << 20 };

typedef struct recipe_population {
    dna_genome genome; /* first: the interface */
    zt_cli *cli;
    const dna_options *options;
    const char *const *operands;
    int operand_count, range_count;
    zt_gene_range ranges[RANGES];
    char names[RANGES][NAME];
} recipe_population;

bool dna_is_recipe(zt_cli *cli, const char *path)
{
    char head[1 << 14];
    size_t size = 0;
    zt_source *source = zt_source_open(cli->ctx, path);
    zt_status status = source ? zt_source_read_some(source, 0, head, sizeof head, 0, &size) : ZT_ENOENT;
    bool recipe = status == ZT_OK && zt_recipe_sniff(head, size);
    zt_source_close(source);
    if (zt_ctx_status(cli->ctx) != ZT_ENOMEM) zt_ctx_clear(cli->ctx); /* who reads it next says what is wrong with it */
    return recipe;
}

/* "NAME=LOW..HIGH,..." */
static zt_status parse_ranges(recipe_population *state, const char *text)
{
    for (const char *word = text; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        char one[100], *equals, *dots = NULL;
        size_t length = strcspn(word, ",");
        zt_gene_range *range = &state->ranges[state->range_count];
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), word);
        equals = strchr(one, '=');
        if (equals) dots = strstr(equals, "..");
        if (dots) *dots = *equals = 0;
        bool good = dots && *one && strlen(one) < NAME && zt_parse_double(equals + 1, &range->low) &&
                    zt_parse_double(dots + 2, &range->high) && range->low < range->high;
        if (!good)
            return zt_fail(state->cli->ctx, ZT_EUSAGE, "option '--genes': '%.*s' is not NAME=LOW..HIGH", (int)length, word);
        if (state->range_count == RANGES - 1)
            return zt_fail(state->cli->ctx, ZT_EUSAGE, "option '--genes': at most %d names are supported", RANGES - 1);
        memcpy(state->names[state->range_count], one, strlen(one) + 1);
        range->name = state->names[state->range_count++];
    }
    return ZT_OK;
}

static zt_recipe_genome *open_recipe(const recipe_population *state, const char *path)
{
    size_t size = 0;
    char *text = zt_read_all(state->cli->ctx, path, &size);
    if (!text) return NULL;
    zt_recipe_genome *genome =
        zt_recipe_genome_of(state->cli->ctx, path, text, size, state->ranges, state->range_count, (int)state->options->groups);
    zt_free(state->cli->ctx, text);
    return genome;
}

static zt_status write_recipe(const recipe_population *state, const zt_recipe_genome *genome, const char *path)
{
    zt_str text;
    zt_str_init(&text, state->cli->ctx);
    zt_status status = zt_recipe_genome_put(genome, &text);
    if (status == ZT_OK) status = zt_sink_put_file(state->cli->ctx, path, true, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- children -------------------------------------------------------------------------------- */

enum { DRAW_WHETHER, DRAW_NOISE, DRAW_PARENT, DRAW_ONE, DRAW_CHANGE, DRAW_NEW };

/* A gene, changed: drawn anew from its range with --replace-rate, else with noise. */
static double change_gene(const dna_options *options, const zt_gene_range *range, double value, uint64_t seed, uint64_t gene)
{
    double width = range->high - range->low;
    if (options->replace_rate > 0 && zt_uniform(seed, DRAW_CHANGE, gene) < options->replace_rate)
        return range->low + width * zt_uniform(seed, DRAW_NEW, gene);
    return value + options->perturb_scale * width * zt_nn_noise_at((zt_nn_noise)options->noise, seed, DRAW_NOISE, gene);
}

/* Changes each gene with --perturb-rate, and one at least. */
static zt_status perturb(const recipe_population *state, zt_recipe_genome *genome, uint64_t seed)
{
    const dna_options *options = state->options;
    int count = zt_recipe_genome_count(genome), one = (int)(zt_uniform(seed, DRAW_ONE, 0) * count);
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        const zt_gene_range *range = zt_recipe_genome_range(genome, i);
        if (i != one && zt_uniform(seed, DRAW_WHETHER, (uint64_t)i) >= options->perturb_rate) continue;
        status = zt_recipe_genome_set(genome, i, change_gene(options, range, zt_recipe_genome_get(genome, i), seed, (uint64_t)i));
    }
    return status;
}

/* As zt-dna splice mixes weights, by the parents' ranks. */
static zt_status cross(const recipe_population *state, zt_recipe_genome *child, const zt_recipe_genome *other,
                       const zt_evolution_member *member, uint64_t seed)
{
    const dna_options *options = state->options;
    int count = zt_recipe_genome_count(child);
    double all = member->weight_a + member->weight_b, share = all > 0 ? member->weight_b / all : 0.5;
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        double a = zt_recipe_genome_get(child, i), b = zt_recipe_genome_get(other, i), value = a;
        if (options->mode == ZT_SPLICE_BLEND)
            value = a + share * (b - a);
        else if (options->mode == ZT_SPLICE_POINT)
            value = i < (int)(options->ratio * count) ? a : b;
        else
            value = zt_uniform(seed, DRAW_PARENT, (uint64_t)i) < share ? b : a;
        status = zt_recipe_genome_set(child, i, value);
    }
    return status;
}

/* The first member of each operand is the recipe itself. */
static zt_status make_first(dna_genome *genome, int index, uint64_t seed, const char *path)
{
    recipe_population *state = (recipe_population *)genome;
    zt_recipe_genome *child = open_recipe(state, state->operands[index % state->operand_count]);
    zt_status status = child ? ZT_OK : zt_ctx_status(state->cli->ctx);
    if (status == ZT_OK && index >= state->operand_count) status = perturb(state, child, seed);
    if (status == ZT_OK) status = write_recipe(state, child, path);
    zt_recipe_genome_free(child);
    return status;
}

static zt_status breed(dna_genome *genome, const zt_evolution_member *member, const char *a, const char *b, uint64_t seed,
                       const char *path)
{
    recipe_population *state = (recipe_population *)genome;
    zt_recipe_genome *child = open_recipe(state, a), *other = child && b ? open_recipe(state, b) : NULL;
    zt_status status = child && (other || !b) ? ZT_OK : zt_ctx_status(state->cli->ctx);
    if (status == ZT_OK && other && zt_recipe_genome_count(child) == zt_recipe_genome_count(other))
        status = cross(state, child, other, member, seed);
    if (status == ZT_OK) status = perturb(state, child, seed);
    if (status == ZT_OK) status = write_recipe(state, child, path);
    zt_recipe_genome_free(other);
    zt_recipe_genome_free(child);
    return status;
}

static zt_status find_overlap(dna_genome *genome, const char *a, const char *b, double *overlap)
{
    recipe_population *state = (recipe_population *)genome;
    zt_recipe_genome *left = open_recipe(state, a), *right = left ? open_recipe(state, b) : NULL;
    zt_status status = right ? ZT_OK : zt_ctx_status(state->cli->ctx);
    *overlap = zt_recipe_genome_overlap(left, right);
    zt_recipe_genome_free(right);
    zt_recipe_genome_free(left);
    return status;
}

static void close_genome(dna_genome *genome)
{
    recipe_population *state = (recipe_population *)genome;
    zt_free(state->cli->ctx, state);
}

dna_genome *dna_recipe_genome(zt_cli *cli, const dna_options *options, const char *const *operands, int count)
{
    recipe_population *state = zt_calloc(cli->ctx, 1, sizeof *state);
    if (!state) return NULL;
    state->genome = (dna_genome){"json", make_first, breed, find_overlap, close_genome};
    state->cli = cli;
    state->options = options;
    state->operands = operands;
    state->operand_count = count;
    if (parse_ranges(state, options->genes ? options->genes : DEFAULT_GENES) == ZT_OK) return &state->genome;
    close_genome(&state->genome);
    return NULL;
}
