/* times.c - the engine of a run, and with --stats -vv the time of each op on it: by a device's own
 * clock where it has one. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>

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

/* auto goes by the model's program. What is wrong with the model is told when it is opened. */
static zt_engine *open_engine(run_state *run)
{
    zt_llm_opts opts = run_llm_opts(run->cli, run->options);
    int64_t ctx = opts.ctx_len > 0 ? opts.ctx_len : USUAL_CTX;
    zt_binding bindings[] = {{"n", 1}, {"m", 1}, {"ctx", (ctx / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    opts.embed = run->options->embed;
    zt_prog *program = zt_cli_may_choose(run->cli) ? zt_llm_program(run->gguf, &opts) : NULL;
    if (!program)
        zt_ctx_clear(run->ctx);
    zt_engine *engine = zt_cli_engine_for(run->cli, run->cli->threads, program, bindings, 3);
    zt_prog_free(program);
    return engine;
}

zt_status run_open_engine(run_state *run)
{
    run->engine = open_engine(run);
    if (!run->engine)
        return zt_ctx_status(run->ctx);
    if (!run->options->stats || run->cli->verbose < 2)
        return ZT_OK;
    run->times = zt_calloc(run->ctx, 1, sizeof *run->times);
    if (run->times)
        run->engine = zt_engine_trace(run->engine, note_time, run->times);
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

/* The slowest first; ops of equal time are told together. */
void run_report_times(run_state *run)
{
    double total = 0;
    int op = 0;
    if (!run->times)
        return;
    for (int i = 0; i < ZT_OP_COUNT; i++)
        total += run->times->seconds[i];
    for (double seconds = slowest_below(run->times, HUGE_VAL, &op); seconds >= 0;
         seconds = slowest_below(run->times, seconds, &op))
        for (int i = 0; i < ZT_OP_COUNT; i++)
            if (run->times->calls[i] > 0 && run->times->seconds[i] == seconds)
                zt_cli_note(run->cli, "op           %9.3f s       %5.1f %%  %s (%" PRIu64 " times)", seconds,
                            total > 0 ? 100 * seconds / total : 0, zt_op_info((zt_op)i)->name, run->times->calls[i]);
}
