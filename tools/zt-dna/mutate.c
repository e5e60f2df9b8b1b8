/* mutate.c - zt-dna mutate: a child of one network, changed at random. */
#include "tools/zt-dna/dna_tool.h"
#include "tools/zt-dna/evolve.h"

#include <inttypes.h>
#include <string.h>

static zt_status check_files(zt_cli *cli, const dna_options *options, const char *path)
{
    const zt_container *container = cli->output ? dna_container(cli, options, cli->output, "json") : NULL;
    if (!cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "no output: specify one with -o OUT");
    if (container != zt_container_named("json"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s: mutate writes JSON only: convert the output with zt-convert", cli->output);
    zt_status status = zt_cli_refuse_same(cli, path, cli->output);
    if (status == ZT_OK) status = zt_cli_refuse_same(cli, path, options->report);
    return status;
}

/* ---- options --------------------------------------------------------------------------------- */

static const char *kind_names(const void *user, int index)
{
    (void)user;
    return zt_nn_kind_name((zt_nn_kind)index);
}

/* "Dense,RNN": bits of kinds that can replace a layer. */
static zt_status parse_kinds(zt_cli *cli, const char *text, uint32_t *kinds)
{
    for (const char *word = text; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        char name[40];
        zt_nn_kind kind;
        size_t length = strcspn(word, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word);
        if (!zt_nn_kind_parse(name, &kind))
            return zt_fail_unknown(cli->ctx, ZT_EUSAGE, "option '--kinds': unknown layer type", word, length, kind_names, NULL);
        if (kind == ZT_NN_PARALLEL || kind == ZT_NN_SEQUENTIAL)
            return zt_fail(cli->ctx, ZT_EUSAGE, "option '--kinds': %s contains layers and cannot replace one", name);
        *kinds |= UINT32_C(1) << kind;
    }
    return ZT_OK;
}

zt_status dna_mutation(zt_cli *cli, const dna_options *options, zt_nn_mutation *how)
{
    *how = (zt_nn_mutation){.perturb_rate = options->perturb_rate,
                            .perturb_scale = options->perturb_scale,
                            .noise = (zt_nn_noise)options->noise,
                            .weight_rate = options->weight_rate,
                            .replace_rate = options->replace_rate,
                            .activation_rate = options->activation_rate,
                            .kind_rate = options->kind_rate,
                            .toggle_rate = options->toggle_rate,
                            .link_add_rate = options->link_add_rate,
                            .link_drop_rate = options->link_drop_rate,
                            .kinds = zt_nn_mutation_defaults().kinds,
                            .seed = cli->seed};
    if (!options->kinds) return ZT_OK;
    how->kinds = 0;
    return parse_kinds(cli, options->kinds, &how->kinds);
}

/* ---- does the child run? --------------------------------------------------------------------- */

/* Memory of zeros for the inputs, and for the outputs, of a bound program. */
typedef struct trial {
    zt_ctx *ctx;
    void *memory[2 * ZT_MAX_SYMBOLS];
    int count;
} trial;

static void *add_memory(trial *run, const zt_type *type)
{
    if (run->count == 2 * ZT_MAX_SYMBOLS) return NULL;
    void *memory = zt_calloc(run->ctx, 1, zt_type_bytes(type) + 1);
    if (memory) run->memory[run->count++] = memory;
    return memory;
}

static zt_status run_row(zt_engine *engine, const zt_bound *bound, const zt_store *store, trial *run)
{
    const zt_prog *program = bound->prog;
    const zt_binding one = {"n", 1};
    const void *inputs[ZT_MAX_SYMBOLS] = {NULL};
    void *outputs[1] = {NULL};
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_IN) && i < ZT_MAX_SYMBOLS && status == ZT_OK; i++) {
        inputs[i] = add_memory(run, &bound->type[zt_prog_nth(program, ZT_VALUE_IN, i)]);
        status = inputs[i] ? ZT_OK : ZT_ENOMEM;
    }
    if (status == ZT_OK) outputs[0] = add_memory(run, &bound->type[zt_prog_output(program, 0)->value]);
    if (status == ZT_OK && !outputs[0]) status = ZT_ENOMEM;
    zt_session *session = status == ZT_OK ? zt_session_open(engine, program, store, &(zt_session_opts){0}) : NULL;
    if (status == ZT_OK) status = session ? zt_session_step(session, &one, 1, inputs, outputs) : zt_ctx_status(run->ctx);
    zt_session_close(session);
    return status;
}

/* *work: operations and bytes of a row. */
static zt_status count_work(zt_ctx *ctx, const zt_bound *bound, double *work)
{
    zt_cost_whole whole = {.bytes = 0};
    int *roots = zt_cost_roots(ctx, bound->prog);
    zt_status status = roots ? zt_cost_add(ctx, bound, roots, -1, 1, &whole) : zt_ctx_status(ctx);
    *work = whole.bytes;
    for (int kind = 0; kind < ZT_ROOF_KINDS; kind++) *work += whole.flops[kind];
    zt_free(ctx, roots);
    return status;
}

zt_status dna_check_runs(zt_engine *engine, zt_nn *network, double most)
{
    trial run = {.ctx = zt_nn_ctx(network)};
    zt_prog *program = zt_nn_prog(network, NULL);
    zt_store store = zt_nn_store(network);
    zt_bound *bound = program && store.read ? zt_prog_bind(program, &(zt_binding){"n", 1}, 1) : NULL;
    double work = 0;
    zt_status status = bound ? ZT_OK : zt_ctx_status(run.ctx);
    if (status == ZT_OK && most > 0) status = count_work(run.ctx, bound, &work);
    if (status == ZT_OK && work <= most) status = run_row(engine, bound, &store, &run);
    for (int i = 0; i < run.count; i++) zt_free(run.ctx, run.memory[i]);
    zt_bound_free(bound);
    zt_prog_free(program);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void put_count(zt_str *text, const char *key, int64_t count) { zt_str_printf(text, ",\"%s\":%" PRId64, key, count); }

/* Written whole, to be committed after the child. */
static zt_sink *open_report(zt_cli *cli, const char *path, const zt_nn_mutated *counts)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_str_printf(&text, "{\"schema\":\"zt.dna.mutate/1\",\"seed\":%" PRIu64, cli->seed);
    put_count(&text, "perturbed", counts->perturbed);
    put_count(&text, "activations", counts->activations);
    put_count(&text, "kinds", counts->kinds);
    put_count(&text, "toggles", counts->toggles);
    put_count(&text, "links_added", counts->links_added);
    put_count(&text, "links_dropped", counts->links_dropped);
    put_count(&text, "undone", counts->undone);
    zt_status status = zt_str_puts(&text, "}\n");
    zt_sink *sink = status == ZT_OK ? zt_sink_open(cli->ctx, path, cli->force) : NULL;
    if (sink && zt_sink_write(sink, text.data, text.len)) {
        zt_sink_close(sink);
        sink = NULL;
    }
    zt_str_fini(&text);
    return sink;
}

static zt_status write_child(zt_cli *cli, zt_nn *child)
{
    zt_sink *sink = zt_sink_open(cli->ctx, cli->output, cli->force);
    zt_status status = sink ? zt_nn_write(child, sink) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    return status;
}

zt_status dna_mutate(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    zt_nn_mutation how;
    zt_nn_mutated counts = {0};
    (void)count;
    zt_status status = check_files(cli, options, operands[0]);
    if (status == ZT_OK) status = dna_mutation(cli, options, &how);
    if (status != ZT_OK) return status;
    zt_engine *engine = zt_engine_open(cli->ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_nn *child = engine ? zt_nn_open(cli->ctx, operands[0], cli->seed) : NULL;
    status = child ? zt_nn_mutate(child, &how, &counts) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = dna_check_runs(engine, child, 0);
    zt_sink *report = status == ZT_OK && options->report ? open_report(cli, options->report, &counts) : NULL;
    if (status == ZT_OK && options->report && !report) status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = write_child(cli, child);
    if (status == ZT_OK && report) status = zt_sink_commit(report);
    zt_sink_close(report);
    zt_nn_close(child);
    zt_engine_close(engine);
    return status;
}
