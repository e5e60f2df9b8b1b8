/* version.c - what a tool's binary has in it: engines, the processor it runs on, and the
 * adapters of engines with devices: those are asked for only where the tool takes --engine and
 * that does not name another engine, so that `--engine cpu` opens no driver here either. */
#include "lib/run/auto.h"
#include "tools/common/internal.h"

#include <inttypes.h>
#include <string.h>

static zt_engine_opts engine_opts(const zt_cli *cli, int64_t threads)
{
    return (zt_engine_opts){.threads = (int)threads, .isa = cli->isa, .tile = cli->tile,
                            .compute = (zt_compute)cli->compute};
}

zt_engine *zt_cli_engine_with(zt_cli *cli, int64_t threads)
{
    zt_engine_opts opts = engine_opts(cli, threads);
    return zt_engine_open(cli->ctx, cli->engine, &opts);
}

bool zt_cli_may_choose(const zt_cli *cli)
{
    return !strcmp(cli->engine, "auto") && zt_auto_device();
}

zt_engine *zt_cli_engine_for(zt_cli *cli, int64_t threads, const zt_prog *p, const zt_binding *b,
                             int n)
{
    zt_engine_opts opts = engine_opts(cli, threads);
    if (!p || !zt_cli_may_choose(cli)) return zt_cli_engine_with(cli, threads);
    return zt_auto_open(cli->ctx, &opts, p, b, n);
}

zt_engine *zt_cli_engine(zt_cli *cli) { return zt_cli_engine_with(cli, cli->threads); }

/* ---- adapters -------------------------------------------------------------------------------- */

enum { MAX_ADAPTERS = 16 };

typedef struct listing { /* of one engine */
    const char *engine;
    zt_adapter *adapter;
    int n;           /* -1: none can be asked */
    const char *why; /* then */
} listing;

typedef void put_fn(zt_str *s, const listing *l);

static bool may_be_asked(const zt_cli *cli, const char *engine)
{
    size_t n = strlen(engine);
    return (cli->tool->shared & ZT_SHARE_ENGINE) &&
           (!strcmp(cli->engine, "auto") || (!strncmp(cli->engine, engine, n) &&
                                             (cli->engine[n] == 0 || cli->engine[n] == ':')));
}

/* In a context of their own: no driver is no error here. */
static void put_adapters(zt_str *s, const zt_cli *cli, put_fn *put)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_adapter *a = ctx ? zt_alloc_array(ctx, MAX_ADAPTERS, sizeof *a) : NULL;
    for (int i = 0; a && zt_engine_list(i); i++) {
        listing l = {.engine = zt_engine_list(i), .adapter = a};
        if (!may_be_asked(cli, l.engine)) continue;
        l.n = zt_engine_adapters(ctx, l.engine, a, MAX_ADAPTERS);
        l.why = zt_ctx_error(ctx);
        l.n = l.n > MAX_ADAPTERS ? MAX_ADAPTERS : l.n;
        if (l.n) put(s, &l);
        zt_ctx_clear(ctx);
    }
    if (ctx) zt_free(ctx, a);
    zt_ctx_free(ctx);
}

/* A line each: "vulkan:0: NAME, cpu, DRIVER, api 1.3.230, 8331 MiB, shared_memory 32768, ..." */
static void put_adapters_text(zt_str *s, const listing *l)
{
    if (l->n < 0) zt_str_printf(s, "%s\n", l->why);
    for (int i = 0; i < l->n; i++) {
        const zt_adapter *a = &l->adapter[i];
        zt_str_printf(s, "%s:%d: ", l->engine, i);
        zt_str_put_escaped(s, a->name, strlen(a->name));
        zt_str_printf(s, ", %s, ", a->type);
        zt_str_put_escaped(s, a->driver, strlen(a->driver));
        zt_str_printf(s, ", api %s, %zu MiB", a->api, a->memory >> 20);
        for (int k = 0; k < a->n_limits; k++)
            zt_str_printf(s, ", %s %" PRIu64, a->limit[k].name, a->limit[k].value);
        zt_str_putc(s, '\n');
    }
}

static void put_key(zt_str *s, const char *key, const char *text)
{
    zt_str_printf(s, ",\"%s\":", key);
    zt_str_put_json(s, text, strlen(text));
}

static void put_adapters_json(zt_str *s, const listing *l)
{
    zt_str_printf(s, ",\"%s\":{\"adapters\":[", l->engine);
    for (int i = 0; i < l->n; i++) {
        const zt_adapter *a = &l->adapter[i];
        zt_str_printf(s, "%s{\"engine\":\"%s:%d\"", i ? "," : "", l->engine, i);
        put_key(s, "name", a->name);
        put_key(s, "type", a->type);
        put_key(s, "driver", a->driver);
        put_key(s, "api", a->api);
        zt_str_printf(s, ",\"memory\":%zu,\"limits\":{", a->memory);
        for (int k = 0; k < a->n_limits; k++)
            zt_str_printf(s, "%s\"%s\":%" PRIu64, k ? "," : "", a->limit[k].name,
                          a->limit[k].value);
        zt_str_puts(s, "}}");
    }
    zt_str_putc(s, ']');
    if (l->n < 0) put_key(s, "missing", l->why);
    zt_str_putc(s, '}');
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void put_text(zt_str *s, const zt_cli *cli)
{
    const zt_tool *tool = cli->tool;
    char model[ZT_CPU_MODEL];
    zt_str_printf(s, "%s %s\nengines:", tool->name, ZT_VERSION);
    for (int i = 0; zt_engine_list(i); i++)
        zt_str_printf(s, " %s", zt_engine_list(i));
    zt_str_printf(s, "\nprocessor: %s, %d to use\ninstructions:", zt_cpu_model(model),
                  zt_cpu_count());
    for (int i = 0; i <= (int)zt_isa_best(); i++)
        zt_str_printf(s, " %s", zt_isa_name((zt_isa)i));
    zt_str_putc(s, '\n');
    put_adapters(s, cli, put_adapters_text);
}

static void put_json(zt_str *s, const zt_cli *cli)
{
    const zt_tool *tool = cli->tool;
    char model[ZT_CPU_MODEL];
    zt_str_puts(s, "{\"schema\":\"zt.version/1\",\"name\":");
    zt_str_put_json(s, tool->name, strlen(tool->name));
    zt_str_printf(s, ",\"version\":\"%s\",\"engines\":[", ZT_VERSION);
    for (int i = 0; zt_engine_list(i); i++)
        zt_str_printf(s, "%s\"%s\"", i ? "," : "", zt_engine_list(i));
    zt_str_puts(s, "],\"cpu\":{\"model\":");
    zt_cpu_model(model);
    zt_str_put_json(s, model, strlen(model));
    zt_str_printf(s, ",\"count\":%d,\"features\":[", zt_cpu_count());
    for (int i = 0; i <= (int)zt_isa_best(); i++)
        zt_str_printf(s, "%s\"%s\"", i ? "," : "", zt_isa_name((zt_isa)i));
    zt_str_puts(s, "]}");
    put_adapters(s, cli, put_adapters_json);
    zt_str_puts(s, "}\n");
}

zt_status zt_print_version(zt_cli_state *st)
{
    zt_str s;
    zt_str_init(&s, st->pub.ctx);
    if (st->pub.format == ZT_FMT_JSON || st->pub.format == ZT_FMT_NDJSON)
        put_json(&s, &st->pub);
    else
        put_text(&s, &st->pub);
    zt_status status = zt_ctx_status(st->pub.ctx);
    if (status == ZT_OK)
        status = zt_cli_write(&st->pub, s.data, s.len);
    zt_str_fini(&s);
    return status;
}
