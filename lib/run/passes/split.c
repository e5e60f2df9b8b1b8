/* split.c - the pass split: where an engine lacks some ops, steps are ordered so that the work goes
 * from one engine to the next as seldom as it can.
 *
 * What an engine lacks falls back (lib/run/chain.c), and the plan is cut wherever the engine
 * changes: values that cross go by way of the host. Steps of one engine that could follow each
 * other are put together: as many as are ready, then those of the next engine, and so on, beginning
 * with whichever engine comes out best. Order stays where one step needs another: by values; who
 * reads memory before the step that uses it up; and among functions of the caller's. A program of
 * one engine, or cut once, stays as it is; and so does one in which steps of ref that read each
 * other's values would come together or apart, since between them ref rounds nothing.
 */
#include "lib/run/passes/rewrite.h"
#include "lib/run/schedule.h"

#include <string.h>

enum { SWEEPS = 256, ANY = -1 /* views, which no kernel runs */ };

typedef struct splitting {
    const zt_prog *p;
    int n;         /* steps */
    int *engine;   /* [n]: of the chain, or ANY */
    int *needs;    /* [n]: steps that it waits for */
    int *edge;     /* [n + 1]: where its followers begin */
    int *follower;
    int *waits;    /* [n]: of a try: those still to come, -1: done */
    int *order, *best; /* [n] */
    int *was, *part;   /* [n]: in which part each step was, and would be */
    int ref;           /* the engine that rounds only where the engine changes; ANY: none */
    int parts, best_parts;
} splitting;

/* ---- engines --------------------------------------------------------------------------------- */

/* Types of a step's operands; the rule is asked for those of outputs that nobody wants. */
static zt_status types_of(zt_ctx *ctx, const zt_step *step, const zt_bound *bound, const void *attrs,
                          const zt_type **input_types, zt_type *out)
{
    const zt_opinfo *info = zt_op_info(step->op);
    bool all = true;
    for (int k = 0; k < info->n_in; k++) input_types[k] = step->in[k] < 0 ? NULL : &bound->type[step->in[k]];
    for (int k = 0; k < info->n_out; k++) {
        all = all && step->out[k] >= 0;
        if (step->out[k] >= 0) out[k] = bound->type[step->out[k]];
    }
    return all ? ZT_OK : zt_op_infer(ctx, step->op, attrs, input_types, out);
}

static zt_status pick_all(const zt_prog *program, const zt_bound *bound, zt_chain *chain, int *engine)
{
    for (int s = 0; s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        const zt_type *input_types[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT] = {{0}};
        engine[s] = ANY;
        if (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW) continue;
        zt_status bad = types_of(chain->engine[0]->ctx, step, bound, bound->attrs[s], input_types, out);
        if (bad) return bad;
        engine[s] = zt_chain_pick(chain, false, step->op, bound->attrs[s], input_types, out);
        if (engine[s] < 0) return zt_ctx_status(chain->engine[0]->ctx);
    }
    return ZT_OK;
}

/* engine[s]: its place in the chain, ANY for views. names NULL, or where the chain's go. */
static zt_status find_engines(const zt_prog *program, const zt_pass_opts *options, int *engine,
                              const char *names[ZT_MAX_CHAIN])
{
    zt_chain chain;
    zt_bound *bound = zt_prog_bind(program, options->sample, options->n_sample);
    if (!bound) return zt_ctx_status(options->engine->ctx);
    zt_chain_init(&chain, options->engine);
    for (int i = 0; i < chain.n && names; i++) names[i] = chain.name[i];
    zt_status status = pick_all(program, bound, &chain, engine);
    zt_chain_fini(&chain);
    zt_bound_free(bound);
    return status;
}

zt_status zt_prog_engines(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options,
                          const char **engine)
{
    const char *names[ZT_MAX_CHAIN] = {0};
    int n = zt_prog_n_steps(program);
    int *at = zt_alloc_array(ctx, (size_t)n + 1, sizeof *at);
    zt_status status = at ? find_engines(program, options, at, names) : ZT_ENOMEM;
    for (int i = 0; i < n && !status; i++) engine[i] = at[i] == ANY ? NULL : names[at[i]];
    zt_free(ctx, at);
    return status;
}

/* ---- what waits for what --------------------------------------------------------------------- */

typedef struct edges { /* made twice: counted, then written */
    splitting *g;
    bool write;
} edges;

static void add_edge(const edges *e, int from, int to)
{
    if (from < 0 || from == to) return;
    if (e->write) {
        e->g->follower[--e->g->edge[from]] = to;
        e->g->needs[to]++;
    } else {
        e->g->edge[from]++;
    }
}

/* reader[r]: a list of the steps that read memory r so far, through `next` by step and input. */
static void find_edges(const edges *e, const int *root, int *reader, int *next)
{
    const zt_prog *program = e->g->p;
    int caller = -1;
    for (int v = 0; v < zt_prog_n_values(program); v++) reader[v] = -1;
    for (int s = 0; s < e->g->n; s++) {
        const zt_step *step = zt_prog_step(program, s);
        const zt_opinfo *info = zt_op_info(step->op);
        for (int k = 0; k < info->def->donates; k++) {
            int *readers = &reader[root[step->in[k]]];
            for (int r = *readers; r >= 0; r = next[r]) add_edge(e, r / ZT_MAX_IN, s);
            *readers = -1; /* who comes later comes after this step, which came after them */
        }
        if (info->def->flags & ZT_OPF_CALLERS) {
            add_edge(e, caller, s);
            caller = s;
        }
        for (int k = 0; k < info->n_in; k++) {
            if (step->in[k] < 0) continue;
            const zt_value *value = zt_prog_value(program, step->in[k]);
            add_edge(e, value->kind == ZT_VALUE_OP ? value->index : -1, s);
            next[s * ZT_MAX_IN + k] = reader[root[step->in[k]]];
            reader[root[step->in[k]]] = s * ZT_MAX_IN + k;
        }
    }
}

static zt_status make_edges(zt_ctx *ctx, splitting *g)
{
    size_t values = (size_t)zt_prog_n_values(g->p) + 1, n = (size_t)g->n + 1;
    int *root = zt_alloc_array(ctx, values, sizeof *root);
    int *reader = zt_alloc_array(ctx, values, sizeof *reader);
    int *next = zt_alloc_array(ctx, n * ZT_MAX_IN, sizeof *next);
    zt_status status = root && reader && next ? ZT_OK : ZT_ENOMEM;
    if (!status) {
        zt_prog_roots(g->p, root);
        find_edges(&(edges){g, false}, root, reader, next);
        for (int i = 1; i <= g->n; i++) g->edge[i] += g->edge[i - 1];
        g->follower = zt_alloc_array(ctx, (size_t)g->edge[g->n] + 1, sizeof *g->follower);
        if (!g->follower) status = ZT_ENOMEM;
    }
    if (!status) find_edges(&(edges){g, true}, root, reader, next);
    zt_free(ctx, root);
    zt_free(ctx, reader);
    zt_free(ctx, next);
    return status;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Segments that the plan is cut into: a view is of the step's engine before it (lib/run/schedule.c). */
static int parts_of(const splitting *g, const int *order, int *part)
{
    int parts = 0, last = ANY;
    for (int i = 0; i < g->n; i++) {
        int e = g->engine[order[i]];
        if (e == ANY) e = last == ANY ? 0 : last;
        parts += e != last;
        last = e;
        part[order[i]] = parts;
    }
    return parts;
}

/* The kernel whose value, through views, v is; -1: none. */
static int maker_of(const splitting *g, int v)
{
    while (v >= 0 && zt_prog_value(g->p, v)->kind == ZT_VALUE_OP) {
        int s = zt_prog_value(g->p, v)->index;
        if (g->engine[s] != ANY) return s;
        v = zt_prog_step(g->p, s)->in[0];
    }
    return -1;
}

/* Are the steps of ref that read each other's values together where they were, and only there? */
static bool rounds_alike(const splitting *g)
{
    for (int s = 0; s < g->n; s++) {
        const zt_step *step = zt_prog_step(g->p, s);
        for (int k = 0; g->engine[s] == g->ref && k < zt_op_info(step->op)->n_in; k++) {
            int from = maker_of(g, step->in[k]);
            if (from < 0 || g->engine[from] != g->ref) continue;
            if ((g->was[from] == g->was[s]) != (g->part[from] == g->part[s])) return false;
        }
    }
    return true;
}

/* All that are ready, and become so, of an engine; how many kernels. Followers stand later. */
static int sweep(splitting *g, int engine, int *done)
{
    int kernels = 0;
    for (int s = 0; s < g->n; s++) {
        if (g->waits[s] != 0 || (g->engine[s] != engine && g->engine[s] != ANY)) continue;
        g->waits[s] = -1;
        g->order[(*done)++] = s;
        kernels += g->engine[s] != ANY;
        for (int i = g->edge[s]; i < g->edge[s + 1]; i++) g->waits[g->follower[i]]--;
    }
    return kernels;
}

static void try_from(splitting *g, int engine)
{
    int done = 0, idle = 0;
    memcpy(g->waits, g->needs, (size_t)g->n * sizeof *g->waits);
    for (int i = 0; i < SWEEPS && done < g->n && idle < ZT_MAX_CHAIN; i++) {
        idle = sweep(g, engine, &done) ? 0 : idle + 1;
        engine = (engine + 1) % ZT_MAX_CHAIN;
    }
    if (done < g->n) return;
    int parts = parts_of(g, g->order, g->part);
    if (parts >= g->best_parts || (g->ref != ANY && !rounds_alike(g))) return;
    g->best_parts = parts;
    memcpy(g->best, g->order, (size_t)g->n * sizeof *g->best);
}

static zt_status reorder(zt_ctx *ctx, const splitting *g, zt_prog **out)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, g->p);
    for (int i = 0; i < g->n && !status; i++) status = zt_rewrite_copy(&rewrite, g->best[i], NULL);
    return zt_rewrite_end(&rewrite, status, out);
}

static zt_status split(zt_ctx *ctx, splitting *g, const zt_pass_opts *opts, zt_prog **out)
{
    const char *names[ZT_MAX_CHAIN] = {0};
    zt_status status = find_engines(g->p, opts, g->engine, names);
    for (int i = 0; i < g->n; i++) g->order[i] = i;
    if (status || (g->parts = parts_of(g, g->order, g->was)) < 3) return status;
    g->ref = ANY;
    for (int i = 0; i < ZT_MAX_CHAIN; i++)
        if (names[i] && !strcmp(names[i], zt_engine_ref.name)) g->ref = i;
    status = make_edges(ctx, g);
    g->best_parts = g->parts;
    for (int e = 0; e < ZT_MAX_CHAIN && !status; e++) try_from(g, e);
    return status || g->best_parts == g->parts ? status : reorder(ctx, g, out);
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    size_t n = (size_t)zt_prog_n_steps(program) + 2;
    if (!opts->engine || zt_prog_n_symbols(program) > opts->n_sample) return ZT_OK;
    splitting g = {.p = program, .n = zt_prog_n_steps(program)};
    g.engine = zt_alloc_array(ctx, n, sizeof *g.engine);
    g.needs = zt_calloc(ctx, n, sizeof *g.needs);
    g.edge = zt_calloc(ctx, n, sizeof *g.edge);
    g.waits = zt_alloc_array(ctx, n, sizeof *g.waits);
    g.order = zt_alloc_array(ctx, n, sizeof *g.order);
    g.best = zt_alloc_array(ctx, n, sizeof *g.best);
    g.was = zt_alloc_array(ctx, n, sizeof *g.was);
    g.part = zt_alloc_array(ctx, n, sizeof *g.part);
    bool room = g.engine && g.needs && g.edge && g.waits && g.order && g.best && g.was && g.part;
    zt_status status = room ? split(ctx, &g, opts, out) : ZT_ENOMEM;
    void *const all[] = {g.engine, g.needs, g.edge, g.waits, g.order,
                         g.best,   g.was,   g.part, g.follower};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    return status;
}

const zt_pass zt_pass_split = {
    .name = "split",
    .help = "order steps so that engines change seldom, where one lacks some ops",
    .run = run,
};
