/* model.c - what goes with the model that runs: adapters, a plan, its engine, its KV cache.
 *
 *   --lora       adapters are applied as the model's tensors are read
 *   --program    the forward pass comes from a file
 *   --plan       program, engine and layout in memory come from a file
 *   --engine     the engine; with --stats -vv the time of each op on it, by a device's own clock where
 *                it has one
 *   --session    the KV cache is read from a file, and written back to it
 */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- adapters: --lora ------------------------------------------------------------------------ */

zt_status run_apply_adapters(run_state *run)
{
    const zt_opt_list *given = &run->options->adapters;
    zt_status status = ZT_OK;
    if (!given->n) return ZT_OK;
    for (int i = 0; i < given->n && status == ZT_OK; i++) status = zt_adapters_add_text(run->cli, &run->adapters, given->item[i]);
    if (status != ZT_OK) return status;
    run->base_model = zt_checkpoint_of_gguf(run->ctx, run->gguf); /* takes it over */
    run->gguf = NULL;
    zt_adapted *adapted = run->base_model ? zt_adapted_new(run->ctx, run->base_model, run->adapters.adapters, run->adapters.count,
                                                           &(zt_adapted_opts){0})
                                          : NULL;
    if (adapted) zt_adapters_tell(run->cli, adapted);
    if (adapted) run->gguf = zt_checkpoint_gguf(zt_adapted_release(adapted));
    return run->gguf ? ZT_OK : zt_ctx_status(run->ctx);
}

void run_close_adapters(run_state *run)
{
    zt_checkpoint_close(run->base_model);
    zt_adapters_close(&run->adapters);
}

/* ---- a forward pass as a program: --program --------------------------------------------------- */

zt_status run_read_forward(run_state *run)
{
    if (!run->options->program) return ZT_OK;
    run->forward = zt_cli_program(run->cli, run->options->program);
    return run->forward ? ZT_OK : zt_ctx_status(run->ctx);
}

/* ---- a plan of the model: --plan ------------------------------------------------------------- */

/* Chooses the engine that the plan was made for. An error if another one was asked for. */
static zt_status choose_engine(run_state *run)
{
    zt_cli *cli = run->cli;
    const char *engine = zt_plan_file_engine(run->plan);
    if (!strcmp(cli->engine, "auto")) cli->engine = engine;
    if (strncmp(cli->engine, engine, strcspn(cli->engine, ":")) != 0 || strlen(engine) != strcspn(cli->engine, ":"))
        return zt_fail(run->ctx, ZT_EDATA, "%s: the plan is for the engine %s, not %s", run->options->plan, engine, cli->engine);
    if (zt_plan_file_isa(run->plan) > cli->isa)
        return zt_fail(run->ctx, ZT_EDATA, "%s: the plan needs %s, but at most %s is available or allowed", run->options->plan,
                       zt_isa_name(zt_plan_file_isa(run->plan)), zt_isa_name(cli->isa));
    cli->isa = zt_plan_file_isa(run->plan);
    return ZT_OK;
}

zt_status run_read_plan(run_state *run)
{
    size_t size;
    const char *name = strcmp(run->options->plan, "-") ? run->options->plan : "stdin";
    char *text = zt_read_all(run->ctx, run->options->plan, &size);
    if (text) run->plan = zt_plan_file_parse(run->ctx, name, text, size);
    zt_free(run->ctx, text);
    return run->plan ? choose_engine(run) : zt_ctx_status(run->ctx);
}

/* ---- the engine, and the time of each op on it ----------------------------------------------- */

struct run_times {
    uint64_t calls[ZT_OP_COUNT];
    double seconds[ZT_OP_COUNT];
};

static void note_time(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    run_times *times = user;
    zt_op op = plan->step[step].op;
    times->calls[op]++;
    times->seconds[op] += seconds;
}

/* "auto" is decided by the model's program. Errors in the model are reported when it is opened. */
static zt_engine *open_engine(run_state *run)
{
    zt_llm_opts opts = run_llm_opts(run);
    int64_t ctx = opts.ctx_len > 0 ? opts.ctx_len : USUAL_CTX;
    zt_binding bindings[] = {{"n", 1}, {"m", 1}, {"ctx", (ctx / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    opts.embed = run->options->embed;
    zt_prog *program = zt_cli_may_choose(run->cli) ? zt_llm_program(run->gguf, &opts) : NULL;
    if (!program) zt_ctx_clear(run->ctx);
    zt_engine *engine = zt_cli_engine_for(run->cli, run->cli->threads, program, bindings, 3);
    zt_prog_free(program);
    return engine;
}

zt_status run_open_engine(run_state *run)
{
    run->engine = open_engine(run);
    if (!run->engine) return zt_ctx_status(run->ctx);
    if (!run->options->stats || run->cli->verbose < 2) return ZT_OK;
    run->times = zt_calloc(run->ctx, 1, sizeof *run->times);
    if (run->times) run->engine = zt_engine_trace(run->engine, note_time, run->times);
    return run->engine && run->times ? ZT_OK : zt_ctx_status(run->ctx);
}

static double slowest_below(const run_times *times, double below, int *found_op)
{
    double slowest = -1;
    for (int i = 0; i < ZT_OP_COUNT; i++)
        if (times->calls[i] > 0 && times->seconds[i] < below && times->seconds[i] > slowest)
            slowest = times->seconds[ *found_op = i];
    return slowest;
}

/* The slowest op first. */
void run_report_times(run_state *run)
{
    double total = 0;
    int op = 0;
    if (!run->times) return;
    for (int i = 0; i < ZT_OP_COUNT; i++) total += run->times->seconds[i];
    for (double seconds = slowest_below(run->times, HUGE_VAL, &op); seconds >= 0;
         seconds = slowest_below(run->times, seconds, &op))
        for (int i = 0; i < ZT_OP_COUNT; i++)
            if (run->times->calls[i] > 0 && run->times->seconds[i] == seconds)
                zt_cli_note(run->cli, "op           %9.3f s       %5.1f %%  %s (%" PRIu64 " times)", seconds,
                            total > 0 ? 100 * seconds / total : 0, zt_op_info((zt_op)i)->name, run->times->calls[i]);
}

/* ---- the KV cache: --session ----------------------------------------------------------------- */

/* The file is a cache and nothing more: which tokens are fed is decided by comparing tokens, so that a
 * run with a session gives the same bits as a run without it. */

/* All that decides which bits the cache holds, as text. */
static const char *arithmetic_key(const run_state *run, char buffer[64])
{
    snprintf(buffer, 64, "zt " ZT_VERSION " arithmetic %d %s %s%s", ZT_ARITHMETIC, zt_engine_inmost(run->engine)->vt->name,
             zt_isa_name(run->cli->isa), run->options->exact ? " exact" : "");
    return buffer;
}

zt_status run_session_load(run_state *run)
{
    char arithmetic[64], key[33];
    if (access(run->options->session, F_OK) != 0) return ZT_OK;
    zt_status status = zt_llm_key(run->gguf, key);
    return status ? status : zt_llm_load(run->llm, key, arithmetic_key(run, arithmetic), run->options->session, &run->fed_ids);
}

zt_status run_session_save(run_state *run)
{
    char arithmetic[64], key[33];
    zt_status status = zt_llm_key(run->gguf, key);
    return status ? status : zt_llm_save(run->llm, key, arithmetic_key(run, arithmetic), run->fed_ids.id, run->options->session);
}
