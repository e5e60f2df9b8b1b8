/* plan.c - --plan: the program that runs, its engine and where it lies in memory, from a file. */
#include "tools/zt-run/run.h"

#include <string.h>

/* The engine that the plan was made for, unless another one was asked for. */
static zt_status choose_engine(run *r)
{
    zt_cli *cli = r->cli;
    const char *engine = zt_plan_file_engine(r->plan);
    if (!strcmp(cli->engine, "auto")) cli->engine = engine;
    if (strncmp(cli->engine, engine, strcspn(cli->engine, ":")) != 0 ||
        strlen(engine) != strcspn(cli->engine, ":"))
        return zt_fail(r->ctx, ZT_EDATA, "%s: the plan is for the engine %s, not %s", r->o->plan,
                       engine, cli->engine);
    if (zt_plan_file_isa(r->plan) > cli->isa)
        return zt_fail(r->ctx, ZT_EDATA, "%s: the plan is for %s, at most %s is there or wanted",
                       r->o->plan, zt_isa_name(zt_plan_file_isa(r->plan)), zt_isa_name(cli->isa));
    cli->isa = zt_plan_file_isa(r->plan);
    return ZT_OK;
}

zt_status run_read_plan(run *r)
{
    size_t n;
    const char *name = strcmp(r->o->plan, "-") ? r->o->plan : "stdin";
    char *text = zt_read_all(r->ctx, r->o->plan, &n);
    if (text) r->plan = zt_plan_file_parse(r->ctx, name, text, n);
    zt_free(r->ctx, text);
    return r->plan ? choose_engine(r) : zt_ctx_status(r->ctx);
}
