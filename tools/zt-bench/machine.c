/* machine.c - zt-bench machine: what the machine is, and its roof (lib/engine/roof.h): bandwidth
 * per level of the caches and of memory, arithmetic per instruction set, with one thread and with
 * all, or as many as -t says.
 *
 * The roof is measured -r times. json tells each figure as a result with its samples; the table,
 * which has a row for what the machine is too, the best of them.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };
static const double SECONDS = 0.4; /* for one measurement of everything */

typedef struct found_adapter {
    char engine[24]; /* "vulkan:0" */
    zt_adapter adapter;
} found_adapter;

typedef struct machine_subject {
    zt_cli *cli;
    const bench_options *options;
    bench_list list;
    zt_roof roof; /* the last that was measured */
    found_adapter adapters[MAX_ADAPTERS];
    int adapter_count;
} machine_subject;

/* ---- adapters -------------------------------------------------------------------------------- */

/* Is this engine, or one of its devices, what --engine names? */
static bool is_named(const char *option, const char *engine)
{
    size_t length = strlen(engine);
    return !strcmp(option, "auto") || (!strncmp(option, engine, length) && (option[length] == 0 || option[length] == ':'));
}

/* In a context of their own: no driver is no error here. */
static void find_adapters(machine_subject *subject)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_adapter *adapters = ctx ? zt_alloc_array(ctx, MAX_ADAPTERS, sizeof *adapters) : NULL;
    for (int i = 0; adapters && zt_engine_list(i); i++) {
        const char *engine = zt_engine_list(i);
        if (!is_named(subject->cli->engine, engine)) continue;
        int count = zt_engine_adapters(ctx, engine, adapters, MAX_ADAPTERS);
        for (int k = 0; k < count && k < MAX_ADAPTERS && subject->adapter_count < MAX_ADAPTERS; k++) {
            found_adapter *found = &subject->adapters[subject->adapter_count++];
            found->adapter = adapters[k];
            snprintf(found->engine, sizeof found->engine, "%.16s:%d", engine, k);
        }
        zt_ctx_clear(ctx);
    }
    if (ctx) zt_free(ctx, adapters);
    zt_ctx_free(ctx);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* One more sample of the test; made when it is the first. */
static zt_status add_sample(machine_subject *subject, const char *test, int threads, const char *unit, double number)
{
    bench_result *result = subject->list.first;
    while (result && (result->threads != threads || strcmp(result->test, test))) result = result->next;
    if (!result) result = bench_add(subject->cli->ctx, &subject->list, test, threads, unit, subject->options->reps);
    if (!result) return zt_ctx_status(subject->cli->ctx);
    if (result->count < subject->options->reps) result->samples[result->count++] = number;
    return ZT_OK;
}

/* A figure of the roof: with all threads, and with one too unless -t says which numbers count. */
static zt_status add_pair(machine_subject *subject, const char *test, const char *unit, const double rate[2])
{
    int threads = subject->roof.threads;
    zt_status status = ZT_OK;
    if (!subject->options->threads && threads > 1) status = add_sample(subject, test, 1, unit, rate[ZT_ROOF_ONE] / 1e9);
    return status ? status : add_sample(subject, test, threads, unit, rate[ZT_ROOF_ALL] / 1e9);
}

static zt_status add_roof(machine_subject *subject)
{
    char test[64];
    zt_status status = ZT_OK;
    for (int i = 0; i < subject->roof.n_levels && !status; i++) {
        const zt_roof_level *level = &subject->roof.level[i];
        snprintf(test, sizeof test, "read %s", level->name);
        status = add_pair(subject, test, "GB/s", level->read);
        snprintf(test, sizeof test, "copy %s", level->name);
        if (!status) status = add_pair(subject, test, "GB/s", level->copy);
    }
    for (int i = 0; i < subject->roof.n_peaks && !status; i++) {
        const zt_roof_peak *peak = &subject->roof.peak[i];
        snprintf(test, sizeof test, "%s %s", zt_roof_kind_name(peak->kind), peak->set);
        status = add_pair(subject, test, peak->kind == ZT_ROOF_INT8 ? "GOP/s" : "GFLOP/s", peak->rate);
    }
    return status;
}

/* A driver that fails is no failure of the machine's other figures. */
static zt_status add_device(machine_subject *subject, const found_adapter *adapter)
{
    char test[64];
    double rate[2] = {0, 0};
    const char *const name[] = {"copy", "linear f32"}, *const unit[] = {"GB/s", "GFLOP/s"};
    zt_status status =
        bench_device(subject->cli->ctx, adapter->engine, !strcmp(adapter->adapter.type, "cpu"), &rate[0], &rate[1]);
    if (status) {
        zt_cli_note(subject->cli, "%s: %s", adapter->engine, zt_ctx_error(subject->cli->ctx));
        zt_ctx_clear(subject->cli->ctx);
        return ZT_OK;
    }
    for (int i = 0; i < 2 && !status; i++) {
        snprintf(test, sizeof test, "%s %s", name[i], adapter->engine);
        if (rate[i] > 0) status = add_sample(subject, test, 0, unit[i], rate[i] / 1e9);
    }
    return status;
}

static zt_status take_samples(machine_subject *subject, const int64_t *thread_counts, int count)
{
    zt_status status = ZT_OK;
    double total = (double)(count * subject->options->reps), done = 0;
    for (int64_t round = 0; round < subject->options->reps && !status; round++)
        for (int i = 0; i < count && !status; i++) {
            zt_roof_opts options = {.threads = (int)thread_counts[i], .isa = subject->cli->isa, .seconds = SECONDS};
            status = zt_cli_interrupted() ? ZT_EINTR : zt_roof_measure(subject->cli->ctx, &options, &subject->roof);
            if (!status) status = add_roof(subject);
            for (int k = 0; k < subject->adapter_count && i == 0 && !status; k++)
                status = add_device(subject, &subject->adapters[k]);
            zt_progress(subject->cli, &(zt_work){"machine", NULL, "samples", ++done, total});
        }
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 5 };
static const char *const columns[N_COLUMNS] = {"name", "#threads", "#value", "unit", "detail"};

static zt_status add_fact(zt_table *table, const char *name, const char *detail)
{
    const char *cell[N_COLUMNS] = {name, NULL, NULL, NULL, detail};
    return zt_table_row(table, cell);
}

static zt_status add_count(zt_table *table, const char *name, size_t length, const char *unit, const char *detail)
{
    char value[24];
    snprintf(value, sizeof value, "%zu", length);
    const char *cell[N_COLUMNS] = {name, NULL, value, unit, detail};
    return zt_table_row(table, cell);
}

static zt_status add_level(zt_table *table, const zt_roof_level *level, bool memory)
{
    char detail[64];
    snprintf(detail, sizeof detail, level->sharers == 1 ? "per processor" : "shared by %d processors", level->sharers);
    return add_count(table, level->name, level->bytes, "bytes", memory ? NULL : detail);
}

static zt_status add_adapter(zt_table *table, const found_adapter *adapter)
{
    char detail[1024];
    snprintf(detail, sizeof detail, "%s, %s, %s, api %s", adapter->adapter.name, adapter->adapter.type, adapter->adapter.driver,
             adapter->adapter.api);
    return add_count(table, adapter->engine, adapter->adapter.memory, "bytes", detail);
}

static zt_status add_facts(machine_subject *subject, zt_table *table)
{
    bench_machine_id machine;
    bench_machine_here(subject->cli, &machine);
    zt_status status = add_fact(table, "os", machine.os);
    if (!status) status = add_fact(table, "cpu", machine.cpu);
    if (!status) status = add_fact(table, "isa", machine.isa);
    if (!status) status = add_count(table, "processors", (size_t)machine.threads, NULL, NULL);
    for (int i = 0; i < subject->roof.n_levels && !status; i++)
        status = add_level(table, &subject->roof.level[i], i == subject->roof.n_levels - 1);
    if (!status) status = add_fact(table, "huge pages", subject->roof.huge ? "yes" : "no");
    for (int i = 0; i < subject->adapter_count && !status; i++) status = add_adapter(table, &subject->adapters[i]);
    return status;
}

/* The instructions behind a test's name; NULL: it is no arithmetic. */
static const char *find_instructions(const zt_roof *roof, const char *test)
{
    char name[64];
    for (int i = 0; i < roof->n_peaks; i++) {
        snprintf(name, sizeof name, "%s %s", zt_roof_kind_name(roof->peak[i].kind), roof->peak[i].set);
        if (!strcmp(name, test)) return roof->peak[i].how;
    }
    return NULL;
}

static zt_status add_best(machine_subject *subject, zt_table *table, const bench_result *result)
{
    char threads[24] = "", value[32];
    double best = 0;
    for (int64_t i = 0; i < result->count; i++) best = result->samples[i] > best ? result->samples[i] : best;
    if (result->threads) snprintf(threads, sizeof threads, "%" PRId64, result->threads);
    snprintf(value, sizeof value, "%.1f", best);
    const char *cell[N_COLUMNS] = {result->test, threads, value, result->unit, find_instructions(&subject->roof, result->test)};
    return zt_table_row(table, cell);
}

static zt_status print_rows(machine_subject *subject)
{
    zt_table *table = zt_table_new(subject->cli, "machine", columns, N_COLUMNS);
    zt_status status = table ? add_facts(subject, table) : zt_ctx_status(subject->cli->ctx);
    for (const bench_result *result = subject->list.first; result && !status; result = result->next)
        status = add_best(subject, table, result);
    if (!status) status = bench_write_table(subject->cli, table);
    zt_table_free(table);
    return status;
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_key(zt_str *out, const char *key, const char *text)
{
    zt_str_printf(out, "\"%s\":", key);
    zt_str_put_json(out, text, strlen(text));
}

static void put_machine(zt_str *out, const void *user)
{
    const machine_subject *subject = user;
    int last = subject->roof.n_levels - 1;
    zt_str_printf(out, ",\"memory\":%zu,\"huge_pages\":%s,\"caches\":[", subject->roof.level[last].bytes,
                  subject->roof.huge ? "true" : "false");
    for (int i = 0; i < last; i++)
        zt_str_printf(out, "%s{\"name\":\"%s\",\"bytes\":%zu,\"processors\":%d}", i ? "," : "", subject->roof.level[i].name,
                      subject->roof.level[i].bytes, subject->roof.level[i].sharers);
    zt_str_puts(out, "],\"adapters\":[");
    for (int adapter_index = 0; adapter_index < subject->adapter_count; adapter_index++) {
        const found_adapter *adapter = &subject->adapters[adapter_index];
        zt_str_puts(out, adapter_index ? ",{" : "{");
        put_key(out, "engine", adapter->engine);
        zt_str_putc(out, ',');
        put_key(out, "name", adapter->adapter.name);
        zt_str_putc(out, ',');
        put_key(out, "type", adapter->adapter.type);
        zt_str_putc(out, ',');
        put_key(out, "driver", adapter->adapter.driver);
        zt_str_putc(out, ',');
        put_key(out, "api", adapter->adapter.api);
        zt_str_printf(out, ",\"memory\":%zu}", adapter->adapter.memory);
    }
    zt_str_putc(out, ']');
}

zt_status bench_machine(zt_cli *cli, const bench_options *options)
{
    bench_numbers threads;
    zt_status status = bench_threads_of(cli->ctx, options, &threads);
    if (!status && cli->n_operands > 1)
        status = zt_fail(cli->ctx, ZT_EUSAGE, "unexpected argument '%s': machine takes none", cli->operands[1]);
    if (status) return status;
    machine_subject *subject = zt_calloc(cli->ctx, 1, sizeof *subject);
    if (!subject) return ZT_ENOMEM;
    subject->cli = cli;
    subject->options = options;
    subject->list.put_machine = put_machine;
    subject->list.user = subject;
    find_adapters(subject);
    status = take_samples(subject, threads.values, threads.count);
    if (!status) status = bench_roof_add(cli->ctx, &subject->list, &subject->roof);
    if (!status) status = bench_keep(cli, options, &subject->list);
    if (!status) status = bench_is_list(cli) ? bench_print(cli, &subject->list) : print_rows(subject);
    bench_list_free(cli->ctx, &subject->list);
    zt_free(cli->ctx, subject);
    return status;
}
