/* times.c - the engine of a run, and with --stats -vv the time of each op on it: by a device's own
 * clock where it has one. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>

struct run_times {
    uint64_t calls[ZT_OP_COUNT];
    double seconds[ZT_OP_COUNT];
};

static void note(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    run_times *t = user;
    zt_op op = plan->step[step].op;
    t->calls[op]++;
    t->seconds[op] += seconds;
}

/* auto goes by the model's program. What is wrong with the model is told when it is opened. */
static zt_engine *open_engine(run *r)
{
    zt_llm_opts opts = run_llm_opts(r->cli, r->o);
    int64_t ctx = opts.ctx_len > 0 ? opts.ctx_len : USUAL_CTX;
    zt_binding b[] = {{"n", 1}, {"m", 1}, {"ctx", (ctx / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    opts.embed = r->o->embed;
    zt_prog *p = zt_cli_may_choose(r->cli) ? zt_llm_program(r->gguf, &opts) : NULL;
    if (!p)
        zt_ctx_clear(r->ctx);
    zt_engine *e = zt_cli_engine_for(r->cli, r->cli->threads, p, b, 3);
    zt_prog_free(p);
    return e;
}

zt_status run_open_engine(run *r)
{
    r->engine = open_engine(r);
    if (!r->engine)
        return zt_ctx_status(r->ctx);
    if (!r->o->stats || r->cli->verbose < 2)
        return ZT_OK;
    r->times = zt_calloc(r->ctx, 1, sizeof *r->times);
    if (r->times)
        r->engine = zt_engine_trace(r->engine, note, r->times);
    return r->engine && r->times ? ZT_OK : zt_ctx_status(r->ctx);
}

static double larger(const run_times *t, double below, int *op)
{
    double most = -1;
    for (int i = 0; i < ZT_OP_COUNT; i++)
        if (t->calls[i] > 0 && t->seconds[i] < below && t->seconds[i] > most)
            most = t->seconds[*op = i];
    return most;
}

/* The slowest first; ops of equal time are told together. */
void run_report_times(run *r)
{
    double all = 0;
    int op = 0;
    if (!r->times)
        return;
    for (int i = 0; i < ZT_OP_COUNT; i++)
        all += r->times->seconds[i];
    for (double s = larger(r->times, HUGE_VAL, &op); s >= 0; s = larger(r->times, s, &op))
        for (int i = 0; i < ZT_OP_COUNT; i++)
            if (r->times->calls[i] > 0 && r->times->seconds[i] == s)
                zt_cli_note(r->cli, "op           %9.3f s       %5.1f %%  %s (%" PRIu64 " times)",
                            s, all > 0 ? 100 * s / all : 0, zt_op_info((zt_op)i)->name,
                            r->times->calls[i]);
}
