/* fallback.c - which engine runs an op: the one asked for, or the next that has a kernel. */
#include "lib/engine/contract_bits.h"
#include "lib/run/partition.h"

#include <string.h>

/* What an engine falls back to. Other devices go by way of the CPU. */
static const struct {
    const char *name;
    const char *next[ZT_MAX_CHAIN - 1];
    bool spills;
} fallback[] = {
    {"ref", {NULL, NULL}, false},  {"cpu", {"ref", NULL}, false},    {"cuda", {"cpu", "ref"}, true},
    {"hip", {"cpu", "ref"}, true}, {"opencl", {"cpu", "ref"}, true}, {"vulkan", {"cpu", "ref"}, true},
    {NULL, {"cpu", "ref"}, false},
};

void zt_chain_init(zt_chain *chain, zt_engine *engine)
{
    int row = 0;
    const char *name = zt_engine_inmost(engine)->vt->name;
    *chain = (zt_chain){.engines = {engine}, .names = {name}, .count = 1};
    while (fallback[row].name && strcmp(fallback[row].name, name) != 0) row++;
    for (int i = 0; i < ZT_MAX_CHAIN - 1 && fallback[row].next[i]; i++) chain->names[chain->count++] = fallback[row].next[i];
    chain->spills = fallback[row].spills;
}

void zt_chain_fini(zt_chain *chain)
{
    for (int i = 1; i < chain->count; i++) zt_engine_close(chain->engines[i]);
    if (chain->count) zt_free(chain->engines[0]->ctx, chain->skip_first_for);
    chain->count = 0;
}

static zt_engine *chain_engine(zt_chain *chain, int i)
{
    if (!chain->engines[i]) {
        zt_engine_opts opts = {.threads = 0, .isa = zt_isa_best()};
        chain->engines[i] = zt_engine_open(chain->engines[0]->ctx, chain->names[i], &opts);
    }
    return chain->engines[i];
}

int zt_chain_pick(zt_chain *chain, bool strict, zt_op op, const void *attrs, const zt_type *const input_types[],
                  const zt_type *output_types)
{
    char text[ZT_TYPE_TEXT];
    for (int i = chain->skip_first && !strict; i < (strict ? 1 : chain->count); i++) {
        zt_engine *engine = chain_engine(chain, i);
        if (!engine) return -1;
        if (!engine->vt->has(engine, op, attrs, input_types, output_types)) continue;
        if (!chain->engines[0]->strict_bits || zt_engine_has_contract_bits(engine, op, attrs, input_types, output_types))
            return i;
        zt_fail(engine->ctx, ZT_ENOTSUP, "engine %s: op %s with output %s does not have the bits of arithmetic %d",
                chain->names[i], zt_op_info(op)->name, zt_type_text(output_types, text), ZT_ARITHMETIC);
        return -1;
    }
    zt_fail(chain->engines[0]->ctx, ZT_ENOTSUP, "engine %s has no kernel for op %s with output %s", chain->names[0],
            zt_op_info(op)->name, zt_type_text(output_types, text));
    return -1;
}

bool zt_chain_spill(zt_chain *chain, bool strict, zt_status status, const char *what)
{
    zt_ctx *ctx = chain->engines[0]->ctx;
    if (status != ZT_ENOMEM || !chain->spills || strict) return false;
    zt_log(ctx, ZT_LOG_WARN, "%s; falling back to %s for %s", zt_ctx_error(ctx), chain->names[1], what);
    zt_ctx_clear(ctx);
    return true;
}
