/* version.c - what a tool's binary has in it: engines, the processor it runs on, and the
 * adapters of engines with devices: those are asked for only where the tool takes --engine and
 * that does not name another engine, so that `--engine cpu` opens no driver here either. */
#include "lib/run/auto.h"
#include "tools/common/commit.h"
#include "tools/common/internal.h"

#include <inttypes.h>
#include <string.h>

static zt_engine_opts engine_opts(const zt_cli *cli, int64_t threads)
{
    return (zt_engine_opts){.threads = (int)threads,
                            .isa = cli->isa,
                            .tile = cli->tile,
                            .compute = (zt_compute)cli->compute,
                            .strict_bits = cli->strict_bits};
}

zt_engine *zt_cli_engine_with(zt_cli *cli, int64_t threads)
{
    zt_engine_opts opts = engine_opts(cli, threads);
    return zt_engine_open(cli->ctx, cli->engine, &opts);
}

bool zt_cli_may_choose(const zt_cli *cli) { return !strcmp(cli->engine, "auto") && zt_auto_device(); }

zt_engine *zt_cli_engine_for(zt_cli *cli, int64_t threads, const zt_prog *program, const zt_binding *bindings, int count)
{
    zt_engine_opts opts = engine_opts(cli, threads);
    if (!program || !zt_cli_may_choose(cli)) return zt_cli_engine_with(cli, threads);
    return zt_auto_open(cli->ctx, &opts, program, bindings, count);
}

zt_engine *zt_cli_engine(zt_cli *cli) { return zt_cli_engine_with(cli, cli->threads); }

/* ---- adapters -------------------------------------------------------------------------------- */

enum { MAX_ADAPTERS = 16 };

typedef struct adapter_list { /* of one engine */
    const char *engine;
    zt_adapter *adapters;
    int count;          /* -1: none can be asked */
    const char *reason; /* then */
} adapter_list;

typedef void put_fn(zt_str *s, const adapter_list *l);

bool zt_engine_may_be_asked(const zt_cli *cli, const char *engine)
{
    const size_t length = strlen(engine);
    if (!(cli->tool->shared & ZT_SHARE_ENGINE)) return false;
    if (!strcmp(cli->engine, "auto")) return true;
    for (const char *name = cli->engine; name; name = strchr(name, ',')) { /* of a list, each */
        name += *name == ',';
        if (!strncmp(name, engine, length) && (name[length] == 0 || name[length] == ':' || name[length] == ',')) return true;
    }
    return false;
}

/* In a context of their own: no driver is no error here. */
static void put_adapters(zt_str *out, const zt_cli *cli, put_fn *put)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_adapter *adapters = ctx ? zt_alloc_array(ctx, MAX_ADAPTERS, sizeof *adapters) : NULL;
    for (int i = 0; adapters && zt_engine_list(i); i++) {
        adapter_list list = {.engine = zt_engine_list(i), .adapters = adapters};
        if (!zt_engine_may_be_asked(cli, list.engine)) continue;
        list.count = zt_engine_adapters(ctx, list.engine, adapters, MAX_ADAPTERS);
        list.reason = zt_ctx_error(ctx);
        list.count = list.count > MAX_ADAPTERS ? MAX_ADAPTERS : list.count;
        if (list.count) put(out, &list);
        zt_ctx_clear(ctx);
    }
    if (ctx) zt_free(ctx, adapters);
    zt_ctx_free(ctx);
}

/* A line each: "vulkan:0: NAME, cpu, DRIVER, api 1.3.230, 8331 MiB, shared_memory 32768, ..." */
static void put_adapters_text(zt_str *out, const adapter_list *list)
{
    if (list->count < 0) zt_str_printf(out, "%s\n", list->reason);
    for (int i = 0; i < list->count; i++) {
        const zt_adapter *adapter = &list->adapters[i];
        zt_str_printf(out, "%s:%d: ", list->engine, i);
        zt_str_put_escaped(out, adapter->name, strlen(adapter->name));
        zt_str_printf(out, ", %s, ", adapter->type);
        zt_str_put_escaped(out, adapter->driver, strlen(adapter->driver));
        zt_str_printf(out, ", api %s, %zu MiB", adapter->api, adapter->memory >> 20);
        for (int k = 0; k < adapter->n_limits; k++)
            zt_str_printf(out, ", %s %" PRIu64, adapter->limit[k].name, adapter->limit[k].value);
        zt_str_putc(out, '\n');
    }
}

static void put_key(zt_str *out, const char *key, const char *text)
{
    zt_str_printf(out, ",\"%s\":", key);
    zt_str_put_json(out, text, strlen(text));
}

static void put_adapters_json(zt_str *out, const adapter_list *list)
{
    zt_str_printf(out, ",\"%s\":{\"adapters\":[", list->engine);
    for (int i = 0; i < list->count; i++) {
        const zt_adapter *adapter = &list->adapters[i];
        zt_str_printf(out, "%s{\"engine\":\"%s:%d\"", i ? "," : "", list->engine, i);
        put_key(out, "name", adapter->name);
        put_key(out, "type", adapter->type);
        put_key(out, "driver", adapter->driver);
        put_key(out, "api", adapter->api);
        zt_str_printf(out, ",\"memory\":%zu,\"limits\":{", adapter->memory);
        for (int k = 0; k < adapter->n_limits; k++)
            zt_str_printf(out, "%s\"%s\":%" PRIu64, k ? "," : "", adapter->limit[k].name, adapter->limit[k].value);
        zt_str_puts(out, "}}");
    }
    zt_str_putc(out, ']');
    if (list->count < 0) put_key(out, "missing", list->reason);
    zt_str_putc(out, '}');
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void put_text(zt_str *out, const zt_cli *cli)
{
    const zt_tool *tool = cli->tool;
    char model[ZT_CPU_MODEL];
    zt_str_printf(out, "%s %s\ncommit: %s\nengines:", tool->name, ZT_VERSION, zt_commit);
    for (int i = 0; zt_engine_list(i); i++) zt_str_printf(out, " %s", zt_engine_list(i));
    zt_str_printf(out, "\nprocessor: %s, %d to use\ninstructions:", zt_cpu_model(model), zt_cpu_count());
    for (int i = 0; i < ZT_ISA_COUNT; i++)
        if (zt_isa_has((zt_isa)i)) zt_str_printf(out, " %s", zt_isa_name((zt_isa)i));
    zt_str_printf(out, "\narithmetic: %d\n", ZT_ARITHMETIC);
    put_adapters(out, cli, put_adapters_text);
}

static void put_json(zt_str *out, const zt_cli *cli)
{
    const zt_tool *tool = cli->tool;
    char model[ZT_CPU_MODEL];
    zt_str_puts(out, "{\"schema\":\"zt.version/1\",\"name\":");
    zt_str_put_json(out, tool->name, strlen(tool->name));
    zt_str_printf(out, ",\"version\":\"%s\",\"commit\":\"%s\",\"engines\":[", ZT_VERSION, zt_commit);
    for (int i = 0; zt_engine_list(i); i++) zt_str_printf(out, "%s\"%s\"", i ? "," : "", zt_engine_list(i));
    zt_str_puts(out, "],\"cpu\":{\"model\":");
    zt_cpu_model(model);
    zt_str_put_json(out, model, strlen(model));
    zt_str_printf(out, ",\"count\":%d,\"features\":[", zt_cpu_count());
    for (int i = 0; i < ZT_ISA_COUNT; i++)
        if (zt_isa_has((zt_isa)i)) zt_str_printf(out, "%s\"%s\"", i ? "," : "", zt_isa_name((zt_isa)i));
    zt_str_printf(out, "]},\"arithmetic\":%d", ZT_ARITHMETIC);
    put_adapters(out, cli, put_adapters_json);
    zt_str_puts(out, "}\n");
}

zt_status zt_print_version(zt_cli_state *state)
{
    zt_str out;
    zt_str_init(&out, state->cli.ctx);
    if (state->cli.format == ZT_FMT_JSON || state->cli.format == ZT_FMT_NDJSON)
        put_json(&out, &state->cli);
    else
        put_text(&out, &state->cli);
    zt_status status = zt_ctx_status(state->cli.ctx);
    if (status == ZT_OK) status = zt_cli_write(&state->cli, out.data, out.len);
    zt_str_fini(&out);
    return status;
}
