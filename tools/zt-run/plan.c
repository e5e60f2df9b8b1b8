/* plan.c - --plan: the program that runs, its engine and where it lies in memory, from a file. */
#include "tools/zt-run/run.h"

#include <string.h>

/* The engine that the plan was made for, unless another one was asked for. */
static zt_status choose_engine(run_state *run)
{
    zt_cli *cli = run->cli;
    const char *engine = zt_plan_file_engine(run->plan);
    if (!strcmp(cli->engine, "auto")) cli->engine = engine;
    if (strncmp(cli->engine, engine, strcspn(cli->engine, ":")) != 0 ||
        strlen(engine) != strcspn(cli->engine, ":"))
        return zt_fail(run->ctx, ZT_EDATA, "%s: the plan is for the engine %s, not %s", run->options->plan, engine, cli->engine);
    if (zt_plan_file_isa(run->plan) > cli->isa)
        return zt_fail(run->ctx, ZT_EDATA, "%s: the plan is for %s, at most %s is there or wanted", run->options->plan,
                       zt_isa_name(zt_plan_file_isa(run->plan)), zt_isa_name(cli->isa));
    cli->isa = zt_plan_file_isa(run->plan);
    return ZT_OK;
}

zt_status run_read_plan(run_state *run)
{
    size_t size;
    const char *name = strcmp(run->options->plan, "-") ? run->options->plan : "stdin";
    char *text = zt_read_all(run->ctx, run->options->plan, &size);
    if (text)
        run->plan = zt_plan_file_parse(run->ctx, name, text, size);
    zt_free(run->ctx, text);
    return run->plan ? choose_engine(run) : zt_ctx_status(run->ctx);
}
