/* genome_network.c - networks as members of a population: children by splice and mutation. */
#include "tools/zt-dna/evolve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ATTEMPTS = 16, HELD = 4096 }; /* HELD: members whose signatures are in memory */

#define HELD_VALUES ((int64_t)1 << 24)

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

/* Mutates with one seed after the other until something changes, so that no member is a copy of its parent. */
static zt_status mutate_file(network_genome *state, const char *from, bool crossed, uint64_t seed, const char *path)
{
    zt_nn_mutation how = state->mutation;
    zt_nn_mutated counts = {0};
    zt_nn *network = zt_nn_open(state->cli->ctx, from, seed);
    zt_status status = network ? ZT_OK : zt_ctx_status(state->cli->ctx);
    for (int attempt = 0; attempt < ATTEMPTS && status == ZT_OK && (attempt == 0 || (!crossed && !count_changes(&counts)));
         attempt++) {
        how.seed = seed + (uint64_t)attempt;
        status = zt_nn_mutate(network, &how, &counts);
    }
    if (status == ZT_OK) status = write_network(state->cli, network, path);
    zt_nn_close(network);
    return status;
}

static zt_status make_first(dna_genome *genome, int index, uint64_t seed, const char *path)
{
    network_genome *state = (network_genome *)genome;
    return mutate_file(state, state->operands[index % state->operand_count], false, seed, path);
}

static zt_status splice_files(network_genome *state, const zt_evolution_member *member, const char *a, const char *b,
                              uint64_t seed, const char *path)
{
    const dna_options *options = state->options;
    zt_splice_opts how = {.mode = (zt_splice_mode)options->mode,
                          .alpha = options->alpha,
                          .ratio = options->ratio,
                          .fitness_a = member->weight_a,
                          .fitness_b = member->weight_b,
                          .seed = seed};
    zt_dna_compare_opts work = {.threads = 1};
    zt_checkpoint_opts file = {.to = zt_container_named("json"), .force = true};
    zt_dna *first = dna_open(state->cli, options, a), *second = first ? dna_open(state->cli, options, b) : NULL;
    zt_dna *child = second ? zt_dna_splice(first, second, &how, &work) : NULL;
    zt_status status = child ? zt_dna_write(child, path, &file) : zt_ctx_status(state->cli->ctx);
    zt_dna_close(child);
    zt_dna_close(second);
    zt_dna_close(first);
    return status;
}

static zt_status breed(dna_genome *genome, const zt_evolution_member *member, const char *a, const char *b, uint64_t seed,
                       const char *path)
{
    network_genome *state = (network_genome *)genome;
    char crossed[4096 + 8];
    if (!b) return mutate_file(state, a, false, seed, path);
    snprintf(crossed, sizeof crossed, "%.*s.cross", (int)(strlen(path) - strlen(".json")), path);
    zt_status status = splice_files(state, member, a, b, seed, crossed);
    if (status == ZT_OK) status = mutate_file(state, crossed, true, seed, path);
    unlink(crossed);
    return status;
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
    if (state->held && dna_mutation(cli, options, &state->mutation) == ZT_OK) return &state->genome;
    close_genome(&state->genome);
    return NULL;
}
