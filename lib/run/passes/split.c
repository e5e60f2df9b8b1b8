/* split.c - the pass split: where an engine lacks some ops, steps are ordered so that the work goes
 * from one engine to the next as seldom as it can.
 *
 * What an engine lacks falls back (lib/run/fallback.c), and the program is partitioned wherever the engine
 * changes: values that cross go by way of the host. Steps of one engine that could follow each
 * other are put together: as many as are ready, then those of the next engine, and so on, beginning
 * with whichever engine comes out best. Order stays where one step needs another: by values; who
 * reads memory before the step that uses it up; and among functions of the caller's. A program of
 * one engine, or cut once, stays as it is; and so does one in which steps of ref that read each
 * other's values would come together or apart, since between them ref rounds nothing.
 */
#include "lib/base/require.h"
#include "lib/run/passes/rewrite.h"
#include "lib/run/partition.h"

#include <string.h>

enum { SWEEPS = 256, ANY = -1 /* views, which no kernel runs */ };

typedef struct split_state {
    const zt_prog *program;
    int step_count; /* steps */
    int *engine;    /* [n]: of the chain, or ANY */
    int *needs;     /* [n]: steps that it waits for */
    int *edge;      /* [n + 1]: where its followers begin */
    int *follower;
    int *waits;        /* [n]: of a try: those still to come, -1: done */
    int *order, *best; /* [n] */
    int *was, *part;   /* [n]: in which part each step was, and would be */
    int ref;           /* the engine that rounds only where the engine changes; ANY: none */
    int parts, best_parts;
} split_state;

/* ---- engines --------------------------------------------------------------------------------- */

/* Types of a step's operands; the rule is asked for those of outputs that nobody wants. */
static zt_status types_of(zt_ctx *ctx, const zt_step *step, const zt_bound *bound, const void *attrs, const zt_type **input_types,
                          zt_type *output_types)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    bool all = true;
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = step->in[input] < 0 ? NULL : &bound->type[step->in[input]];
    for (int output = 0; output < op_info->n_out; output++) {
        all = all && step->out[output] >= 0;
        if (step->out[output] >= 0) output_types[output] = bound->type[step->out[output]];
    }
    return all ? ZT_OK : zt_op_infer(ctx, step->op, attrs, input_types, output_types);
}

static zt_status pick_all(const zt_prog *program, const zt_bound *bound, zt_chain *chain, int *engine_of)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        const zt_type *input_types[ZT_MAX_IN] = {0};
        zt_type output_types[ZT_MAX_OUT] = {{0}};
        engine_of[step_index] = ANY;
        if (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW) continue;
        zt_status bad = types_of(chain->engines[0]->ctx, step, bound, bound->attrs[step_index], input_types, output_types);
        if (bad) return bad;
        engine_of[step_index] = zt_chain_pick(chain, false, step->op, bound->attrs[step_index], input_types, output_types);
        if (engine_of[step_index] < 0) return zt_ctx_status(chain->engines[0]->ctx);
    }
    return ZT_OK;
}

/* engine[s]: its place in the chain, ANY for views. names NULL, or where the chain's go. */
static zt_status find_engines(const zt_prog *program, const zt_pass_opts *options, int *engine, const char *names[ZT_MAX_CHAIN])
{
    zt_chain chain;
    zt_bound *bound = zt_prog_bind(program, options->sample, options->n_sample);
    if (!bound) return zt_ctx_status(options->engine->ctx);
    zt_chain_init(&chain, options->engine);
    for (int i = 0; i < chain.count && names; i++) names[i] = chain.names[i];
    zt_status status = pick_all(program, bound, &chain, engine);
    zt_chain_fini(&chain);
    zt_bound_free(bound);
    return status;
}

zt_status zt_prog_engines(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, const char **engine)
{
    ZT_REQUIRE(ctx, program && options && options->engine && engine, ZT_EUSAGE);
    const char *names[ZT_MAX_CHAIN] = {0};
    int step_count = zt_prog_n_steps(program);
    int *engine_of = zt_alloc_array(ctx, (size_t)step_count + 1, sizeof *engine_of);
    zt_status status = engine_of ? find_engines(program, options, engine_of, names) : ZT_ENOMEM;
    for (int step_index = 0; step_index < step_count && !status; step_index++)
        engine[step_index] = engine_of[step_index] == ANY ? NULL : names[engine_of[step_index]];
    zt_free(ctx, engine_of);
    return status;
}

/* ---- what waits for what --------------------------------------------------------------------- */

typedef struct edge_writer { /* made twice: counted, then written */
    split_state *splitting;
    bool write;
} edge_writer;

static void add_edge(const edge_writer *edges, int from, int to)
{
    if (from < 0 || from == to) return;
    if (edges->write) {
        edges->splitting->follower[--edges->splitting->edge[from]] = to;
        edges->splitting->needs[to]++;
    } else {
        edges->splitting->edge[from]++;
    }
}

/* reader[r]: a list of the steps that read memory r so far, through `next` by step and input. */
static void find_edges(const edge_writer *edges, const int *root, int *reader, int *next)
{
    const zt_prog *program = edges->splitting->program;
    int caller = -1;
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) reader[value_id] = -1;
    for (int step_index = 0; step_index < edges->splitting->step_count; step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        const zt_opinfo *op_info = zt_op_info(step->op);
        for (int donated = 0; donated < op_info->def->donates; donated++) {
            int *readers = &reader[root[step->in[donated]]];
            for (int read_index = *readers; read_index >= 0; read_index = next[read_index])
                add_edge(edges, read_index / ZT_MAX_IN, step_index);
            *readers = -1; /* who comes later comes after this step, which came after them */
        }
        if (op_info->def->flags & ZT_OPF_CALLERS) {
            add_edge(edges, caller, step_index);
            caller = step_index;
        }
        for (int input = 0; input < op_info->n_in; input++) {
            if (step->in[input] < 0) continue;
            const zt_value *value = zt_prog_value(program, step->in[input]);
            add_edge(edges, value->kind == ZT_VALUE_OP ? value->index : -1, step_index);
            next[step_index * ZT_MAX_IN + input] = reader[root[step->in[input]]];
            reader[root[step->in[input]]] = step_index * ZT_MAX_IN + input;
        }
    }
}

static zt_status make_edges(zt_ctx *ctx, split_state *splitting)
{
    size_t value_slots = (size_t)zt_prog_n_values(splitting->program) + 1, step_slots = (size_t)splitting->step_count + 1;
    int *root = zt_alloc_array(ctx, value_slots, sizeof *root);
    int *reader = zt_alloc_array(ctx, value_slots, sizeof *reader);
    int *next = zt_alloc_array(ctx, step_slots * ZT_MAX_IN, sizeof *next);
    zt_status status = root && reader && next ? ZT_OK : ZT_ENOMEM;
    if (!status) {
        zt_prog_roots(splitting->program, root);
        find_edges(&(edge_writer){splitting, false}, root, reader, next);
        for (int step_index = 1; step_index <= splitting->step_count; step_index++)
            splitting->edge[step_index] += splitting->edge[step_index - 1];
        splitting->follower =
            zt_alloc_array(ctx, (size_t)splitting->edge[splitting->step_count] + 1, sizeof *splitting->follower);
        if (!splitting->follower) status = ZT_ENOMEM;
    }
    if (!status) find_edges(&(edge_writer){splitting, true}, root, reader, next);
    zt_free(ctx, root);
    zt_free(ctx, reader);
    zt_free(ctx, next);
    return status;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Segments of the partition: a view is of the step's engine before it (lib/run/partition.c). */
static int parts_of(const split_state *splitting, const int *order, int *part)
{
    int parts = 0, last = ANY;
    for (int step_index = 0; step_index < splitting->step_count; step_index++) {
        int engine = splitting->engine[order[step_index]];
        if (engine == ANY) engine = last == ANY ? 0 : last;
        parts += engine != last;
        last = engine;
        part[order[step_index]] = parts;
    }
    return parts;
}

/* The kernel whose value, through views, the value is; -1: none. */
static int maker_of(const split_state *splitting, int value_id)
{
    while (value_id >= 0 && zt_prog_value(splitting->program, value_id)->kind == ZT_VALUE_OP) {
        int step_index = zt_prog_value(splitting->program, value_id)->index;
        if (splitting->engine[step_index] != ANY) return step_index;
        value_id = zt_prog_step(splitting->program, step_index)->in[0];
    }
    return -1;
}

/* Are the steps of ref that read each other's values together where they were, and only there? */
static bool rounds_alike(const split_state *splitting)
{
    for (int step_index = 0; step_index < splitting->step_count; step_index++) {
        const zt_step *step = zt_prog_step(splitting->program, step_index);
        for (int input = 0; splitting->engine[step_index] == splitting->ref && input < zt_op_info(step->op)->n_in; input++) {
            int from = maker_of(splitting, step->in[input]);
            if (from < 0 || splitting->engine[from] != splitting->ref) continue;
            if ((splitting->was[from] == splitting->was[step_index]) != (splitting->part[from] == splitting->part[step_index]))
                return false;
        }
    }
    return true;
}

/* All that are ready, and become so, of an engine; how many kernels. Followers stand later. */
static int sweep_engine(split_state *splitting, int engine, int *done)
{
    int kernels = 0;
    for (int step_index = 0; step_index < splitting->step_count; step_index++) {
        if (splitting->waits[step_index] != 0 ||
            (splitting->engine[step_index] != engine && splitting->engine[step_index] != ANY))
            continue;
        splitting->waits[step_index] = -1;
        splitting->order[(*done)++] = step_index;
        kernels += splitting->engine[step_index] != ANY;
        for (int i = splitting->edge[step_index]; i < splitting->edge[step_index + 1]; i++)
            splitting->waits[splitting->follower[i]]--;
    }
    return kernels;
}

static void try_order_from(split_state *splitting, int engine)
{
    int done = 0, idle = 0;
    memcpy(splitting->waits, splitting->needs, (size_t)splitting->step_count * sizeof *splitting->waits);
    for (int step_index = 0; step_index < SWEEPS && done < splitting->step_count && idle < ZT_MAX_CHAIN; step_index++) {
        idle = sweep_engine(splitting, engine, &done) ? 0 : idle + 1;
        engine = (engine + 1) % ZT_MAX_CHAIN;
    }
    if (done < splitting->step_count) return;
    int parts = parts_of(splitting, splitting->order, splitting->part);
    if (parts >= splitting->best_parts || (splitting->ref != ANY && !rounds_alike(splitting))) return;
    splitting->best_parts = parts;
    memcpy(splitting->best, splitting->order, (size_t)splitting->step_count * sizeof *splitting->best);
}

static zt_status reorder_steps(zt_ctx *ctx, const split_state *splitting, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, splitting->program);
    for (int step_index = 0; step_index < splitting->step_count && !status; step_index++)
        status = zt_rewrite_copy(&rewrite, splitting->best[step_index], NULL);
    return zt_rewrite_end(&rewrite, status, rewritten);
}

static zt_status split_program(zt_ctx *ctx, split_state *splitting, const zt_pass_opts *options, zt_prog **rewritten)
{
    const char *names[ZT_MAX_CHAIN] = {0};
    zt_status status = find_engines(splitting->program, options, splitting->engine, names);
    for (int step_index = 0; step_index < splitting->step_count; step_index++) splitting->order[step_index] = step_index;
    if (status || (splitting->parts = parts_of(splitting, splitting->order, splitting->was)) < 3) return status;
    splitting->ref = ANY;
    for (int i = 0; i < ZT_MAX_CHAIN; i++)
        if (names[i] && !strcmp(names[i], zt_engine_ref.name)) splitting->ref = i;
    status = make_edges(ctx, splitting);
    splitting->best_parts = splitting->parts;
    for (int engine_index = 0; engine_index < ZT_MAX_CHAIN && !status; engine_index++) try_order_from(splitting, engine_index);
    return status || splitting->best_parts == splitting->parts ? status : reorder_steps(ctx, splitting, rewritten);
}

static zt_status run_split_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    size_t step_slots = (size_t)zt_prog_n_steps(program) + 2;
    if (!options->engine || zt_prog_n_symbols(program) > options->n_sample) return ZT_OK;
    split_state splitting = {.program = program, .step_count = zt_prog_n_steps(program)};
    splitting.engine = zt_alloc_array(ctx, step_slots, sizeof *splitting.engine);
    splitting.needs = zt_calloc(ctx, step_slots, sizeof *splitting.needs);
    splitting.edge = zt_calloc(ctx, step_slots, sizeof *splitting.edge);
    splitting.waits = zt_alloc_array(ctx, step_slots, sizeof *splitting.waits);
    splitting.order = zt_alloc_array(ctx, step_slots, sizeof *splitting.order);
    splitting.best = zt_alloc_array(ctx, step_slots, sizeof *splitting.best);
    splitting.was = zt_alloc_array(ctx, step_slots, sizeof *splitting.was);
    splitting.part = zt_alloc_array(ctx, step_slots, sizeof *splitting.part);
    bool room = splitting.engine && splitting.needs && splitting.edge && splitting.waits && splitting.order && splitting.best &&
                splitting.was && splitting.part;
    zt_status status = room ? split_program(ctx, &splitting, options, rewritten) : ZT_ENOMEM;
    void *const all[] = {splitting.engine, splitting.needs, splitting.edge, splitting.waits,   splitting.order,
                         splitting.best,   splitting.was,   splitting.part, splitting.follower};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    return status;
}

const zt_pass zt_pass_split = {
    .name = "split",
    .help = "reorder steps to reduce switches between engines",
    .run = run_split_pass,
};
