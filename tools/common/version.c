/* version.c - what a tool's binary has in it: engines, and the processor it runs on. */
#include "tools/common/internal.h"
#include <string.h>

zt_engine *zt_cli_engine(zt_cli *cli)
{
    zt_engine_opts opts = {.threads = (int)cli->threads, .isa = cli->isa};
    return zt_engine_open(cli->ctx, cli->engine, &opts);
}

static void put_text(zt_str *s, const zt_tool *tool)
{
    char model[ZT_CPU_MODEL];
    zt_str_printf(s, "%s %s\nengines:", tool->name, ZT_VERSION);
    for (int i = 0; zt_engine_list(i); i++)
        zt_str_printf(s, " %s", zt_engine_list(i));
    zt_str_printf(s, "\nprocessor: %s, %d to use\ninstructions:", zt_cpu_model(model),
                  zt_cpu_count());
    for (int i = 0; i <= (int)zt_isa_best(); i++)
        zt_str_printf(s, " %s", zt_isa_name((zt_isa)i));
    zt_str_putc(s, '\n');
}

static void put_json(zt_str *s, const zt_tool *tool)
{
    char model[ZT_CPU_MODEL];
    zt_str_puts(s, "{\"schema\":\"zt.version/1\",\"name\":");
    zt_str_put_json(s, tool->name, strlen(tool->name));
    zt_str_printf(s, ",\"version\":\"%s\",\"engines\":[", ZT_VERSION);
    for (int i = 0; zt_engine_list(i); i++)
        zt_str_printf(s, "%s\"%s\"", i ? "," : "", zt_engine_list(i));
    zt_str_puts(s, "],\"cpu\":{\"model\":");
    zt_str_put_json(s, zt_cpu_model(model), strlen(model));
    zt_str_printf(s, ",\"count\":%d,\"features\":[", zt_cpu_count());
    for (int i = 0; i <= (int)zt_isa_best(); i++)
        zt_str_printf(s, "%s\"%s\"", i ? "," : "", zt_isa_name((zt_isa)i));
    zt_str_puts(s, "]}}\n");
}

zt_status zt_print_version(zt_cli_state *st)
{
    zt_str s;
    zt_str_init(&s, st->pub.ctx);
    if (st->pub.format == ZT_FMT_JSON || st->pub.format == ZT_FMT_NDJSON)
        put_json(&s, st->pub.tool);
    else
        put_text(&s, st->pub.tool);
    zt_status status = zt_ctx_status(st->pub.ctx);
    if (status == ZT_OK)
        status = zt_cli_write(&st->pub, s.data, s.len);
    zt_str_fini(&s);
    return status;
}
