/* chain.c - which engine runs an op: the one asked for, or the next that has a kernel. */
#include "lib/run/schedule.h"

#include <string.h>

/* What an engine falls back to. Other devices go by way of the CPU. */
static const struct {
    const char *name;
    const char *next[ZT_MAX_CHAIN - 1];
    bool spills;
} fallback[] = {
    {"ref", {NULL, NULL}, false},
    {"cpu", {"ref", NULL}, false},
    {"cuda", {"cpu", "ref"}, true},
    {"hip", {"cpu", "ref"}, true},
    {NULL, {"cpu", "ref"}, false},
};

void zt_chain_init(zt_chain *c, zt_engine *e)
{
    int row = 0;
    const char *name = zt_engine_inmost(e)->vt->name;
    *c = (zt_chain){.engine = {e}, .name = {name}, .n = 1};
    while (fallback[row].name && strcmp(fallback[row].name, name) != 0) row++;
    for (int i = 0; i < ZT_MAX_CHAIN - 1 && fallback[row].next[i]; i++)
        c->name[c->n++] = fallback[row].next[i];
    c->spills = fallback[row].spills;
}

void zt_chain_fini(zt_chain *c)
{
    for (int i = 1; i < c->n; i++) zt_engine_close(c->engine[i]);
    if (c->n) zt_free(c->engine[0]->ctx, c->apart_from);
    c->n = 0;
}

static zt_engine *chain_engine(zt_chain *c, int i)
{
    if (!c->engine[i]) {
        zt_engine_opts opts = {.threads = 0, .isa = zt_isa_best()};
        c->engine[i] = zt_engine_open(c->engine[0]->ctx, c->name[i], &opts);
    }
    return c->engine[i];
}

int zt_chain_pick(zt_chain *c, bool strict, zt_op op, const void *attrs, const zt_type *const in[],
                  const zt_type *out)
{
    char text[ZT_TYPE_TEXT];
    for (int i = c->apart && !strict; i < (strict ? 1 : c->n); i++) {
        zt_engine *e = chain_engine(c, i);
        if (!e) return -1;
        if (e->vt->has(e, op, attrs, in, out)) return i;
    }
    zt_fail(c->engine[0]->ctx, ZT_ENOTSUP, "engine %s has no kernel for op %s giving %s",
            c->name[0], zt_op_info(op)->name, zt_type_text(out, text));
    return -1;
}

bool zt_chain_spill(zt_chain *c, bool strict, zt_status s, const char *what)
{
    zt_ctx *ctx = c->engine[0]->ctx;
    if (s != ZT_ENOMEM || !c->spills || strict) return false;
    zt_log(ctx, ZT_LOG_WARN, "%s; %s runs on %s", zt_ctx_error(ctx), what, c->name[1]);
    zt_ctx_clear(ctx);
    return true;
}
