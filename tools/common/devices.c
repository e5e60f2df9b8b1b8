/* devices.c - the devices of engines: those that --engine can name (--list-devices), and what one did (--stats). */
#include "tools/common/internal.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEVICES = 16 };

static zt_status put_device(zt_table *table, const char *device, const zt_adapter *adapter)
{
    char memory[32] = "", name[512], driver[1024];
    if (adapter->memory) snprintf(memory, sizeof memory, "%zu", adapter->memory);
    const char *cells[] = {device,
                           adapter->type,
                           zt_escape(name, sizeof name, adapter->name, strlen(adapter->name)),
                           zt_escape(driver, sizeof driver, adapter->driver, strlen(adapter->driver)),
                           adapter->api,
                           memory};
    return zt_table_row(table, cells);
}

/* The processor, with its newest instruction set that the cpu engine uses. */
static zt_status put_processor(zt_table *table, const char *engine)
{
    zt_adapter adapter = {.type = "cpu"};
    char model[ZT_CPU_MODEL];
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    snprintf(adapter.name, sizeof adapter.name, "%s", zt_cpu_model(model));
    snprintf(adapter.api, sizeof adapter.api, "%s", zt_isa_name(zt_isa_best()));
    if (pages > 0 && page > 0) adapter.memory = (size_t)pages * (size_t)page;
    return put_device(table, engine, &adapter);
}

/* Without a driver: a note with -v, or an error if --engine names the engine. */
static zt_status put_devices(zt_cli *cli, zt_table *table, zt_adapter *adapters, const char *engine)
{
    zt_status status = ZT_OK;
    int count = zt_engine_adapters(cli->ctx, engine, adapters, MAX_DEVICES);
    if (count < 0 && strcmp(cli->engine, "auto")) return zt_ctx_status(cli->ctx);
    if (count < 0) {
        zt_log(cli->ctx, ZT_LOG_INFO, "%s", zt_ctx_error(cli->ctx));
        zt_ctx_clear(cli->ctx);
    }
    for (int i = 0; i < count && i < MAX_DEVICES && !status; i++) {
        char device[64];
        snprintf(device, sizeof device, "%s:%d", engine, i);
        status = put_device(table, device, &adapters[i]);
    }
    return status;
}

/* An engine that is not in this build, or unknown. */
static zt_status check_engine(zt_cli *cli)
{
    if (!strcmp(cli->engine, "auto")) return ZT_OK;
    for (int i = 0; zt_engine_list(i); i++)
        if (zt_engine_may_be_asked(cli, zt_engine_list(i))) return ZT_OK;
    zt_engine *engine = zt_engine_open(cli->ctx, cli->engine, NULL);
    zt_engine_close(engine);
    return zt_ctx_status(cli->ctx);
}

zt_status zt_print_devices(zt_cli_state *state)
{
    static const char *const columns[] = {"device", "type", "name", "driver", "api", "#memory"};
    zt_cli *cli = &state->cli;
    zt_adapter *adapters = zt_alloc_array(cli->ctx, MAX_DEVICES, sizeof *adapters);
    zt_table *table = adapters ? zt_table_new(cli, "devices", columns, sizeof columns / sizeof *columns) : NULL;
    zt_status status = table ? check_engine(cli) : ZT_ENOMEM;
    for (int i = 0; zt_engine_list(i) && !status; i++) {
        const char *engine = zt_engine_list(i);
        if (!zt_engine_may_be_asked(cli, engine)) continue;
        if (!strcmp(engine, "cpu"))
            status = put_processor(table, engine);
        else if (zt_engine_has_devices(engine))
            status = put_devices(cli, table, adapters, engine);
    }
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    zt_free(cli->ctx, adapters);
    return status;
}

void zt_cli_note_device(zt_cli *cli, const zt_engine *engine)
{
    zt_engine_report report = engine->vt->report(engine);
    if (report.submits == 0) return;
    zt_cli_note(cli, "device       %9" PRIu64 " submits   (%" PRIu64 " replays, %" PRIu64 " downloads)", report.submits,
                report.replays, report.downloads);
    zt_cli_note(cli, "device memory%9.1f MB        (peak %.1f, allocated in total %.1f, %" PRIu64 " buffers)",
                (double)report.held / 1e6, (double)report.peak / 1e6, (double)report.allocated / 1e6, report.buffers);
    zt_cli_note(cli,
                "device pool  %9" PRIu64 " hits      (%" PRIu64 " misses, %" PRIu64 " allocated, %" PRIu64 " released, %" PRIu64
                " waiting)",
                report.pool_hits, report.pool_misses, report.pool_allocated, report.pool_released, report.pooled);
}
