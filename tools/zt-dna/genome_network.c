/* genome_network.c - networks as members of a population: children by splice and mutation. */
#include "tools/zt-dna/evolve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ATTEMPTS = 16, HELD = 4096 }; /* HELD: members whose signatures are in memory */

#define HELD_VALUES ((int64_t)1 << 24)

/* Operations and bytes of a row beyond which a child is not tried: its fitness shows whether it runs. */
#define CHECKED_WORK 1e8

typedef struct held_member {
    char *path;
    zt_dna_signatures *signatures;
} held_member;

typedef struct network_genome {
    dna_genome genome; /* first: the interface */
    zt_cli *cli;
    const dna_options *options;
    const char *const *operands;
    int operand_count;
    zt_nn_mutation mutation;
    zt_engine *engine;
    held_member *held; /* [HELD] members of this generation and the one before */
    zt_map *held_paths;
    int held_count;
    int64_t held_values;
} network_genome;

static int64_t count_changes(const zt_nn_mutated *counts)
{
    return counts->perturbed + counts->activations + counts->kinds + counts->toggles + counts->links_added +
           counts->links_dropped;
}

static zt_status write_network(zt_cli *cli, const zt_nn *network, const char *path)
{
    zt_sink *sink = zt_sink_open(cli->ctx, path, true);
    zt_status status = sink ? zt_nn_write(network, sink) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    return status;
}

/* ---- crossover ------------------------------------------------------------------------------- */

/* Replaces the weights of a layer and of the layers inside it by the next of `values`. */
static zt_status put_masters(zt_nn *network, const zt_nn_layer *layer, const float **values, int64_t *left)
{
    zt_status status = ZT_OK;
    for (int64_t k = layer->first_weight; k < layer->first_weight + layer->weight_count && status == ZT_OK; k++) {
        const zt_nn_weight *weight = zt_nn_weight_at(network, k);
        int64_t count = zt_type_count(&weight->type);
        if (count > *left) return zt_fail(zt_nn_ctx(network), ZT_EDATA, "%s: weights are missing", zt_nn_name(network));
        status = zt_nn_put(network, weight->name, *values, count);
        *values += count;
        *left -= count;
    }
    for (int64_t i = 0; i < layer->branch_count && status == ZT_OK; i++)
        status = put_masters(network, &layer->branches[i], values, left);
    for (int64_t i = 0; i < layer->step_count && status == ZT_OK; i++)
        status = put_masters(network, &layer->steps[i], values, left);
    return layer->gate && status == ZT_OK ? put_masters(network, layer->gate, values, left) : status;
}

/* The weights of a child of two networks, in the network of its first parent. */
static zt_status put_child(zt_nn *network, zt_dna *child)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < zt_dna_count(child) && status == ZT_OK; i++) {
        float *values = NULL;
        int64_t left = 0;
        status = zt_dna_masters(child, i, &values, &left);
        const float *next = values;
        const zt_nn_layer *layer = zt_nn_find(network, zt_dna_get(child, i)->place);
        if (status == ZT_OK && layer && left) status = put_masters(network, layer, &next, &left);
        zt_free(zt_nn_ctx(network), values);
    }
    return status;
}

/* A child that is not mutated: of two parents a splice. */
typedef struct parents {
    const zt_evolution_member *member; /* whose weights are the parents' ranks */
    const char *a, *b;                 /* files; b NULL: none */
} parents;

static zt_status splice_into(network_genome *state, const parents *from, uint64_t seed, zt_nn *network)
{
    const dna_options *options = state->options;
    zt_splice_opts how = {.mode = (zt_splice_mode)options->mode,
                          .alpha = options->alpha,
                          .ratio = options->ratio,
                          .fitness_a = from->member->weight_a,
                          .fitness_b = from->member->weight_b,
                          .seed = seed};
    zt_dna_compare_opts work = {.threads = 1};
    zt_dna *first = dna_open(state->cli, options, from->a), *second = first ? dna_open(state->cli, options, from->b) : NULL;
    zt_dna *child = second ? zt_dna_splice(first, second, &how, &work) : NULL;
    zt_status status = child ? put_child(network, child) : zt_ctx_status(state->cli->ctx);
    zt_dna_close(child);
    zt_dna_close(second);
    zt_dna_close(first);
    return status;
}

static zt_nn *open_child(network_genome *state, const parents *from, uint64_t seed)
{
    zt_nn *network = zt_nn_open(state->cli->ctx, from->a, seed);
    if (!network || !from->b || splice_into(state, from, seed, network) == ZT_OK) return network;
    zt_nn_close(network);
    return NULL;
}

/* ---- mutation -------------------------------------------------------------------------------- */

/* Does the network compute a row? An error that is not of the memory says that it does not, and is cleared. */
static zt_status check_child(const network_genome *state, zt_nn *network, bool *runs)
{
    zt_ctx *ctx = state->cli->ctx;
    *runs = dna_check_runs(state->engine, network, CHECKED_WORK) == ZT_OK;
    if (zt_ctx_status(ctx) == ZT_ENOMEM) return ZT_ENOMEM;
    zt_ctx_clear(ctx);
    return ZT_OK;
}

/* The child, mutated by the draws of a seed; *good: something changed, or need not, and it runs. */
static zt_nn *mutate_child(network_genome *state, const parents *from, uint64_t seed, uint64_t draw, bool *good)
{
    zt_nn_mutation how = state->mutation;
    zt_nn_mutated counts = {0};
    zt_nn *network = open_child(state, from, seed);
    how.seed = draw;
    zt_status status = network ? zt_nn_mutate(network, &how, &counts) : zt_ctx_status(state->cli->ctx);
    *good = from->b || count_changes(&counts) > 0;
    if (status == ZT_OK && *good) status = check_child(state, network, good);
    if (status == ZT_OK) return network;
    zt_nn_close(network);
    return NULL;
}

/* Mutates with one seed after the other until something changes, so that no member is a copy of its parent, and the child runs.
 * If none does, the child is not mutated. */
static zt_status make_child(network_genome *state, const parents *from, uint64_t seed, const char *path)
{
    bool good = false;
    zt_nn *network = NULL;
    zt_status status = ZT_OK;
    for (int attempt = 0; attempt < ATTEMPTS && status == ZT_OK && !good; attempt++) {
        zt_nn_close(network);
        network = mutate_child(state, from, seed, seed + (uint64_t)attempt, &good);
        status = network ? ZT_OK : zt_ctx_status(state->cli->ctx);
    }
    if (status == ZT_OK && !good) {
        zt_nn_close(network);
        network = open_child(state, from, seed);
        status = network ? ZT_OK : zt_ctx_status(state->cli->ctx);
    }
    if (status == ZT_OK) status = write_network(state->cli, network, path);
    zt_nn_close(network);
    return status;
}

static zt_status make_first(dna_genome *genome, int index, uint64_t seed, const char *path)
{
    network_genome *state = (network_genome *)genome;
    return make_child(state, &(parents){.a = state->operands[index % state->operand_count]}, seed, path);
}

static zt_status breed(dna_genome *genome, const zt_evolution_member *member, const char *a, const char *b, uint64_t seed,
                       const char *path)
{
    return make_child((network_genome *)genome, &(parents){member, a, b}, seed, path);
}

/* ---- overlaps -------------------------------------------------------------------------------- */

static void forget_members(network_genome *state)
{
    for (int i = 0; i < state->held_count; i++) {
        zt_dna_release(state->held[i].signatures);
        zt_free(state->cli->ctx, state->held[i].path);
    }
    zt_map_free(state->held_paths);
    state->held_paths = NULL;
    state->held_count = 0;
    state->held_values = 0;
}

/* The signatures of a file; from memory where they were needed before. NULL: the error is in the context. */
static const zt_dna_signatures *hold_member(network_genome *state, const char *path)
{
    zt_ctx *ctx = state->cli->ctx;
    int64_t index = state->held_paths ? zt_map_find(state->held_paths, path) : -1;
    if (index >= 0) return state->held[index].signatures;
    if (!state->held_paths) state->held_paths = zt_map_new(ctx, HELD);
    zt_dna *model = state->held_paths ? dna_open(state->cli, state->options, path) : NULL;
    held_member member = {.path = model ? zt_strdup(ctx, path) : NULL};
    member.signatures = member.path ? zt_dna_hold(model) : NULL;
    zt_dna_close(model);
    if (!member.signatures || zt_map_put(state->held_paths, member.path, strlen(member.path), state->held_count) != ZT_OK) {
        zt_dna_release(member.signatures);
        zt_free(ctx, member.path);
        return NULL;
    }
    state->held_values += zt_dna_held_values(member.signatures);
    state->held[state->held_count++] = member;
    return member.signatures;
}

static zt_status find_overlap(dna_genome *genome, const char *a, const char *b, double *overlap)
{
    network_genome *state = (network_genome *)genome;
    if (state->held_count > HELD - 2 || state->held_values > HELD_VALUES) forget_members(state);
    const zt_dna_signatures *left = hold_member(state, a), *right = left ? hold_member(state, b) : NULL;
    *overlap = zt_dna_held_overlap(left, right);
    return right ? ZT_OK : zt_ctx_status(state->cli->ctx);
}

static void close_genome(dna_genome *genome)
{
    network_genome *state = (network_genome *)genome;
    forget_members(state);
    zt_engine_close(state->engine);
    zt_free(state->cli->ctx, state->held);
    zt_free(state->cli->ctx, state);
}

dna_genome *dna_network_genome(zt_cli *cli, const dna_options *options, const char *const *operands, int count)
{
    network_genome *state = zt_calloc(cli->ctx, 1, sizeof *state);
    if (!state) return NULL;
    *state = (network_genome){.genome = {"json", make_first, breed, find_overlap, close_genome},
                              .cli = cli,
                              .options = options,
                              .operands = operands,
                              .operand_count = count};
    state->held = zt_calloc(cli->ctx, HELD, sizeof *state->held);
    state->engine = zt_engine_open(cli->ctx, "cpu", &(zt_engine_opts){.threads = 1});
    if (state->held && state->engine && dna_mutation(cli, options, &state->mutation) == ZT_OK) return &state->genome;
    close_genome(&state->genome);
    return NULL;
}
