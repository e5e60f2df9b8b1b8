/* report.c - results: kept in a list, written as a table or as zt.bench/1, added to the history, drawn. */
#include "tools/zt-bench/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

bench_result *bench_add(zt_ctx *ctx, bench_list *list, const char *test, int64_t threads, const char *unit, int64_t most)
{
    bench_result *result = zt_calloc(ctx, 1, sizeof *result);
    if (!result) return NULL;
    result->threads = threads;
    result->samples = zt_calloc(ctx, (size_t)most, sizeof *result->samples);
    result->test = zt_strdup(ctx, test);
    result->unit = zt_strdup(ctx, unit);
    if (!list->first) list->last = &list->first;
    *list->last = result;
    list->last = &result->next;
    return result->samples && result->test && result->unit ? result : NULL; /* the list has it in any case */
}

zt_status bench_list_model(zt_ctx *ctx, bench_list *list, const zt_gguf *model)
{
    list->model = zt_strdup(ctx, zt_gguf_name(model));
    list->model_id = zt_strdup(ctx, zt_gguf_id(model));
    list->model_bytes = zt_gguf_file_size(model);
    return list->model && list->model_id ? ZT_OK : ZT_ENOMEM;
}

void bench_list_free(zt_ctx *ctx, bench_list *list)
{
    for (bench_result *result = list->first, *next; result; result = next) {
        next = result->next;
        zt_free(ctx, result->samples);
        zt_free(ctx, result->test);
        zt_free(ctx, result->unit);
        zt_free(ctx, result->model);
        zt_free(ctx, result->engine);
        zt_free(ctx, result);
    }
    zt_free(ctx, list->roofs);
    zt_free(ctx, list->model);
    zt_free(ctx, list->model_id);
    zt_free(ctx, list->command);
    *list = (bench_list){0};
}

/* The model of a list becomes that of another, which has none yet. */
static void move_model(bench_list *target, bench_list *from)
{
    if (target->model) return;
    target->model = from->model;
    target->model_id = from->model_id;
    target->model_bytes = from->model_bytes;
    from->model = from->model_id = NULL;
}

zt_status bench_list_join(zt_ctx *ctx, bench_list *target, bench_list *from, bool model, const char *engine)
{
    for (bench_result *result = from->first; result; result = result->next) {
        if (model && !(result->model = zt_strdup(ctx, from->model))) return ZT_ENOMEM;
        if (engine && !(result->engine = zt_strdup(ctx, engine))) return ZT_ENOMEM;
    }
    if (!model) move_model(target, from);
    if (!engine) memcpy(target->engine, from->engine, sizeof target->engine);
    if (!from->first) return ZT_OK;
    if (!target->first) target->last = &target->first;
    *target->last = from->first;
    target->last = from->last;
    from->first = NULL;
    return ZT_OK;
}

void bench_put_owner(zt_str *out, const char *model, const char *engine)
{
    if (model) zt_str_printf(out, "%s ", model);
    if (engine) zt_str_printf(out, "%s ", engine);
}

void bench_machine_here(const zt_cli *cli, bench_machine_id *machine)
{
    struct utsname names;
    *machine = (bench_machine_id){.os = "unknown", .version = ZT_VERSION, .threads = zt_cpu_count()};
    if (uname(&names) == 0)
        snprintf(machine->os, sizeof machine->os, "%.64s %.64s %.64s", names.sysname, names.release, names.machine);
    zt_cpu_model(machine->cpu);
    snprintf(machine->isa, sizeof machine->isa, "%s", zt_isa_name(cli->isa));
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_text(zt_str *out, const char *key, const char *text)
{
    zt_str_printf(out, "\"%s\":", key);
    zt_str_put_json(out, text, strlen(text));
}

static void put_member(zt_str *out, const char *key, const char *text)
{
    put_text(out, key, text);
    zt_str_puts(out, ",");
}

/* JSON has no numbers that are none. */
static void put_number(zt_str *text, const char *before, double number)
{
    if (isfinite(number))
        zt_str_printf(text, "%s%.9g", before, number);
    else
        zt_str_printf(text, "%snull", before);
}

static void put_machine(zt_str *text, const zt_cli *cli, const bench_list *list)
{
    bench_machine_id machine = list->machine;
    if (!machine.os[0]) bench_machine_here(cli, &machine);
    zt_str_puts(text, "\"machine\":{");
    put_text(text, "os", machine.os);
    zt_str_puts(text, ",");
    put_text(text, "cpu", machine.cpu);
    zt_str_puts(text, ",");
    put_text(text, "isa", machine.isa);
    zt_str_printf(text, ",\"threads\":%" PRId64 ",", machine.threads);
    put_text(text, "version", machine.version);
    if (list->put_machine) list->put_machine(text, list->user);
    zt_str_putc(text, '}');
}

static void put_counts(zt_str *text, const bench_result *result)
{
    const char *before = ",\"counters\":{";
    for (int i = 0; i < BENCH_COUNTS; i++) {
        if (result->counts[i] < 0) continue;
        zt_str_printf(text, "%s\"%s\":", before, bench_count_name(i));
        put_number(text, "", result->counts[i]);
        before = ",";
    }
    zt_str_putc(text, '}'); /* the last five are always there */
}

static void put_result(zt_str *text, const bench_result *result, const bench_summary *summary, const char *subject)
{
    zt_str_puts(text, "{");
    if (subject) put_member(text, "subject", subject);
    if (result->model) put_member(text, "model", result->model);
    if (result->engine) put_member(text, "engine", result->engine);
    put_text(text, "test", result->test);
    zt_str_printf(text, ",\"threads\":%" PRId64 ",", result->threads);
    put_text(text, "unit", result->unit);
    put_number(text, ",\"median\":", summary->median);
    put_number(text, ",\"min\":", summary->min);
    put_number(text, ",\"max\":", summary->max);
    put_number(text, ",\"mad\":", summary->mad);
    put_number(text, ",\"ci95\":[", summary->ci95[0]);
    put_number(text, ",", summary->ci95[1]);
    zt_str_puts(text, "],\"samples\":[");
    for (int64_t i = 0; i < result->count; i++) put_number(text, i ? "," : "", result->samples[i]);
    zt_str_puts(text, "]");
    if (result->standard_error > 0) put_number(text, ",\"error\":", result->standard_error);
    if (result->flops > 0 || result->bytes > 0) {
        put_number(text, ",\"flops\":", result->flops);
        put_number(text, ",\"bytes\":", result->bytes);
    }
    if (result->counted) put_counts(text, result);
    if (result->has_energy) {
        put_number(text, ",\"energy\":{\"joules_per_token\":", result->joules);
        put_number(text, ",\"watts\":", result->watts);
        zt_str_puts(text, "}");
    }
    if (result->roof > 0) {
        put_number(text, ",\"roof\":", result->roof);
        put_number(text, ",\"roof_share\":", bench_roof_share(result, summary->median));
    }
    zt_str_puts(text, "}");
}

static void put_model(zt_str *text, const bench_list *list)
{
    zt_str_puts(text, "\"model\":{");
    put_text(text, "file", list->model);
    zt_str_puts(text, ",");
    put_text(text, "id", list->model_id);
    zt_str_printf(text, ",\"bytes\":%" PRIu64 "},", list->model_bytes);
}

/* Results; each after another that was put, and with its subject where there are two. */
static void put_results(zt_str *text, const bench_list *list, const char *subject, bool first, double *scratch)
{
    for (const bench_result *result = list->first; result; result = result->next) {
        bench_summary summary = bench_summarize(result->samples, result->count, scratch);
        zt_str_puts(text, first ? "" : ",");
        put_result(text, result, &summary, subject);
        first = false;
    }
}

/* Of one list, or of two. */
static zt_status write_json(zt_cli *cli, const bench_list *list, const bench_list *old, const zt_str *more, double *scratch)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_str_puts(&text, "{\"schema\":\"zt.bench/1\",");
    put_machine(&text, cli, list);
    zt_str_puts(&text, ",");
    if (list->engine[0]) put_member(&text, "engine", list->engine);
    if (list->command) put_member(&text, "command", list->command);
    if (list->model) put_model(&text, list);
    if (more) zt_str_printf(&text, "%s,", more->data ? more->data : "");
    zt_str_puts(&text, "\"results\":[");
    if (old) put_results(&text, old, "old", true, scratch);
    put_results(&text, list, old ? "new" : NULL, !old || !old->first, scratch);
    zt_str_puts(&text, "]}\n");
    zt_status status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = bench_write(cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

const char *bench_number(char out[BENCH_NUMBER], double number, int digits)
{
    int whole = isfinite(number) && number != 0 ? 1 + (int)floor(log10(fabs(number))) : 1;
    int places = digits > whole ? digits - whole : 0;
    if (!isfinite(number) || whole > 20 || number == 0)
        snprintf(out, BENCH_NUMBER, "%.*g", digits, number);
    else
        snprintf(out, BENCH_NUMBER, "%.*f", places < 15 ? places : 15, number);
    return out;
}

/* The first two columns are there where the list is of several models or engines, the last two with --energy. */
enum { N_COLUMNS = 14, OF_ENERGY = 2 };
static const char *const columns[N_COLUMNS] = {
    "model", "engine", "test",      "#threads",   "unit",        "#median",           "#min",
    "#max",  "#mad",   "#ci95_low", "#ci95_high", "#roof_share", "#joules_per_token", "#watts"};

/* Of N_COLUMNS cells those of the columns that the list has. Returns their number. */
static int keep_columns(const bench_result *first, const char *const cells[N_COLUMNS], const char *kept[N_COLUMNS])
{
    const int last = first && first->has_energy ? N_COLUMNS : N_COLUMNS - OF_ENERGY;
    int count = 0;
    for (int i = 0; i < last; i++) {
        if ((i == 0 && !(first && first->model)) || (i == 1 && !(first && first->engine))) continue;
        kept[count++] = cells[i];
    }
    return count;
}

static zt_status add_row(zt_table *table, const bench_result *result, const bench_summary *summary)
{
    const double value[] = {summary->median, summary->min, summary->max, summary->mad, summary->ci95[0], summary->ci95[1]};
    char threads[24], number[6][BENCH_NUMBER], share[24] = "", joules[BENCH_NUMBER], watts[BENCH_NUMBER];
    snprintf(threads, sizeof threads, "%" PRId64, result->threads);
    const char *cell[N_COLUMNS] = {result->model, result->engine, result->test, threads, result->unit}, *kept[N_COLUMNS];
    for (int i = 0; i < 6; i++) cell[5 + i] = bench_number(number[i], value[i], 5);
    if (result->roof > 0) snprintf(share, sizeof share, "%.3f", bench_roof_share(result, summary->median));
    cell[11] = share;
    cell[12] = bench_number(joules, result->joules, 4);
    cell[13] = bench_number(watts, result->watts, 4);
    keep_columns(result, cell, kept);
    return zt_table_row(table, kept);
}

static zt_status print_table(zt_cli *cli, const bench_list *list, double *scratch)
{
    const char *kept[N_COLUMNS];
    const int count = keep_columns(list->first, columns, kept);
    zt_table *table = zt_table_new(cli, "bench", kept, count);
    zt_status status = table ? ZT_OK : zt_ctx_status(cli->ctx);
    for (const bench_result *result = list->first; result && status == ZT_OK; result = result->next) {
        bench_summary summary = bench_summarize(result->samples, result->count, scratch);
        status = add_row(table, result, &summary);
    }
    if (status == ZT_OK) status = bench_write_table(cli, table);
    zt_table_free(table);
    return status;
}

/* ---- junit ----------------------------------------------------------------------------------- */

/* Seconds that the samples stand for, where their unit is a time. */
static double find_seconds(const bench_result *result)
{
    double sum = 0, unit = !strcmp(result->unit, "us") ? 1e-6 : !strcmp(result->unit, "s");
    for (int64_t i = 0; i < result->count; i++) sum += result->samples[i] * unit;
    return sum;
}

static const char *format_text(zt_arena *arena, const bench_result *result, double *scratch)
{
    char text[256];
    bench_summary summary = bench_summarize(result->samples, result->count, scratch);
    snprintf(text, sizeof text, "%.6g %s, %" PRId64 " samples from %.6g to %.6g, interval %.6g to %.6g", summary.median,
             result->unit, result->count, summary.min, summary.max, summary.ci95[0], summary.ci95[1]);
    return zt_arena_strndup(arena, text, strlen(text));
}

static const char *format_name(zt_ctx *ctx, zt_arena *arena, const bench_result *result)
{
    char more[64];
    snprintf(more, sizeof more, " (%" PRId64 " threads, ", result->threads);
    zt_str name;
    zt_str_init(&name, ctx);
    bench_put_owner(&name, result->model, result->engine);
    zt_str_printf(&name, "%s%s%s)", result->test, more, result->unit);
    const char *kept = name.data ? zt_arena_strndup(arena, name.data, name.len) : NULL;
    zt_str_fini(&name);
    return kept;
}

static zt_status write_junit(zt_cli *cli, const bench_list *list, double *scratch)
{
    int64_t count = 0, i = 0;
    for (const bench_result *result = list->first; result; result = result->next) count++;
    zt_arena *arena = zt_arena_new(cli->ctx, 0);
    bench_case *cases = arena ? zt_arena_alloc(arena, (size_t)(count + 1) * sizeof *cases) : NULL;
    for (const bench_result *result = list->first; result && cases; result = result->next, i++)
        cases[i] =
            (bench_case){format_name(cli->ctx, arena, result), format_text(arena, result, scratch), find_seconds(result), NULL};
    zt_status status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = bench_junit(cli, cli->operands[0], cases, count);
    zt_arena_free(arena);
    return status;
}

bool bench_is_list(const zt_cli *cli) { return cli->format == ZT_FMT_JSON || cli->format == ZT_FMT_JUNIT; }

zt_status bench_print(zt_cli *cli, const bench_list *list)
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    if (!scratch) return zt_ctx_status(cli->ctx);
    zt_status status = cli->format == ZT_FMT_JSON    ? write_json(cli, list, NULL, NULL, scratch)
                       : cli->format == ZT_FMT_JUNIT ? write_junit(cli, list, scratch)
                                                     : print_table(cli, list, scratch);
    zt_free(cli->ctx, scratch);
    return status;
}

zt_status bench_print_both(zt_cli *cli, const bench_list *old, const bench_list *now, const zt_str *more)
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status status = scratch ? write_json(cli, now, old, more, scratch) : zt_ctx_status(cli->ctx);
    zt_free(cli->ctx, scratch);
    return status;
}

/* ---- where it goes --------------------------------------------------------------------------- */

zt_status bench_write(zt_cli *cli, const char *bytes, size_t length)
{
    if (!cli->output) return zt_cli_write(cli, bytes, length);
    return zt_sink_put_file(cli->ctx, cli->output, cli->force, bytes, length);
}

zt_status bench_write_table(zt_cli *cli, zt_table *table)
{
    if (!cli->output) return zt_table_print(table);
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_status status = zt_table_put(table, false, &text);
    if (!status) status = bench_write(cli, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- history and drawings ---------------------------------------------------------------------- */

zt_status bench_check_plot(zt_cli *cli, const bench_options *options)
{
    if (!options->plot) return ZT_OK;
    if (options->vs || (options->no_roof && !bench_plots_depths(cli, options)))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--plot needs a roofline, but %s does not measure one",
                       options->vs ? "--vs" : "--no-roof");
    if (!cli->force && access(options->plot, F_OK) == 0)
        return zt_fail(cli->ctx, ZT_ECREATE, "%s: already exists (use -f to overwrite)", options->plot);
    return ZT_OK;
}

zt_status bench_write_plot(zt_cli *cli, const char *path, const zt_str *svg)
{
    zt_status status = zt_ctx_status(cli->ctx);
    return status ? status : zt_sink_put_file(cli->ctx, path, cli->force, svg->data, svg->len);
}

zt_status bench_keep(zt_cli *cli, const bench_options *options, const bench_list *list)
{
    zt_status status = options->history ? bench_history_add(cli, options->history, options->commit, list) : ZT_OK;
    if (status || !options->plot) return status;
    return bench_plots_depths(cli, options) ? bench_plot_depths(cli, options->plot, list)
                                            : bench_roofline(cli, options->plot, list);
}
