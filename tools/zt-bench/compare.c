/* compare.c - zt-bench compare: is the new slower than the old, beyond noise?
 *
 * Results are matched by test, threads and unit. The ratio of medians, new / old in time, has a confidence interval (ratio.c).
 * With the threshold t:
 *
 *     slower   the whole interval is above 1 + t, and in files the ratio of the best samples too
 *     faster   the whole interval is below 1 / (1 + t)
 *     same     the whole interval is within these limits
 *     unsure   otherwise: more samples are needed
 *
 * Only "slower" makes the command fail.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Verdicts, as in the table's last column. */
static const char *const verdicts[] = {"slower", "faster", "same", "unsure", "not compared"};
enum { SLOWER, FASTER, SAME, UNSURE, NOT_COMPARED };

/* Two processes differ by pages, clock and neighbours in ways that their samples do not show. The interval of two files is
 * widened by this factor on each side (bench/results/zt-bench.md). */
static const double BETWEEN_RUNS = 0.02;

typedef struct row_comparison {
    const bench_result *old, *now;
    double median[2];
    bench_ratio ratio; /* of the unit's figure, new / old */
    double best_ratio; /* the same for the best tenth of the samples */
    int verdict;
} row_comparison;

typedef struct comparison_report {
    zt_cli *cli;
    const bench_list *old, *now;
    double threshold;     /* .05 */
    int pairs;            /* looks at pairs (bench_ratio_of); 0: files */
    row_comparison *rows; /* [row_count] */
    int64_t row_count;
} comparison_report;

/* ---- options --------------------------------------------------------------------------------- */

zt_status bench_threshold(zt_ctx *ctx, const char *text, double *share)
{
    char number[32], shown[64];
    size_t length = strlen(text);
    bool percent = length > 0 && text[length - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)(length - percent < 31 ? length - percent : 31), text);
    if (length > 30 || !zt_parse_double(number, share) || !isfinite(*share) || *share < 0 ||
        (percent ? *share >= 1e4 : *share >= 100))
        return zt_fail(ctx, ZT_EUSAGE, "--threshold: '%s' is not a fraction such as 5%% or 0.05",
                       zt_escape(shown, sizeof shown, text, length < 40 ? length : 40));
    if (percent) *share /= 100;
    return ZT_OK;
}

/* ---- what can be compared -------------------------------------------------------------------- */

static zt_status fail_machines(zt_cli *cli, const char *what, const char *old, const char *now)
{
    char shown[2][96];
    return zt_fail(cli->ctx, ZT_EDATA, "results from different machines: %s '%s' and '%s' (--force compares them)", what,
                   zt_escape(shown[0], sizeof shown[0], old, strnlen(old, 90)),
                   zt_escape(shown[1], sizeof shown[1], now, strnlen(now, 90)));
}

/* Does a results file not say it? Results of llama-bench and hyperfine name little of their machine. */
static bool is_unknown(const char *text) { return !strcmp(text, BENCH_UNKNOWN) || !strcmp(text, "0"); }

static zt_status check_machines(zt_cli *cli, const bench_list *old, const bench_list *now)
{
    const bench_machine_id *machine_old = &old->machine, *machine_now = &now->machine;
    char count[2][24], unknown[96] = "";
    snprintf(count[0], sizeof count[0], "%" PRId64, machine_old->threads);
    snprintf(count[1], sizeof count[1], "%" PRId64, machine_now->threads);
    const struct {
        const char *what, *old, *now;
    } same[] = {{"os", machine_old->os, machine_now->os},
                {"cpu", machine_old->cpu, machine_now->cpu},
                {"isa", machine_old->isa, machine_now->isa},
                {"processors", count[0], count[1]},
                {"engine", old->engine, now->engine}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        size_t length = strlen(unknown);
        if (is_unknown(same[i].old) || is_unknown(same[i].now))
            snprintf(unknown + length, sizeof unknown - length, "%s%s", length ? ", " : "", same[i].what);
        else if (strcmp(same[i].old, same[i].now))
            return fail_machines(cli, same[i].what, same[i].old, same[i].now);
    }
    if (*unknown) zt_cli_note(cli, "warning: not known to be the same in both results: %s", unknown);
    return ZT_OK;
}

static void note_models(zt_cli *cli, const bench_list *old, const bench_list *now)
{
    if (old->model_id && now->model_id && strcmp(old->model_id, now->model_id))
        zt_cli_note(cli, "warning: the results are for different models");
}

static bool is_comparable(const bench_result *left, const bench_result *right, bool by_name)
{
    return left->threads == right->threads && !strcmp(left->unit, right->unit) && (!by_name || !strcmp(left->test, right->test));
}

/* The result of a list that is compared with `wanted`: of the same name; for two subjects with names of their own, of the same
 * unit. */
static const bench_result *find_row(const bench_list *list, const bench_result *wanted, bool paired)
{
    const bench_result *row = list->first, *by_unit = list->first;
    while (row && !is_comparable(row, wanted, true)) row = row->next;
    if (row || !paired) return row;
    while (by_unit && !is_comparable(by_unit, wanted, false)) by_unit = by_unit->next;
    return by_unit;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Is more better? Only of rates. */
static bool is_rate(const char *unit)
{
    size_t length = strlen(unit);
    return length >= 2 && !strcmp(unit + length - 2, "/s");
}

/* User and system time, which the kernel measures in ticks, are printed but not compared. */
static bool is_informative(const char *test)
{
    size_t length = strcspn(test, " "); /* behind it: values of --parameter-scan */
    return (length == 4 && !strncmp(test, "user", 4)) || (length == 3 && !strncmp(test, "sys", 3));
}

static int find_verdict(const row_comparison *comparison, double threshold)
{
    bool rate = is_rate(comparison->now->unit);
    double low = rate ? 1 / comparison->ratio.ci95[1] : comparison->ratio.ci95[0];
    double high = rate ? 1 / comparison->ratio.ci95[0] : comparison->ratio.ci95[1];
    if (is_informative(comparison->now->test)) return NOT_COMPARED;
    double best = rate ? 1 / comparison->best_ratio : comparison->best_ratio;
    if (low > 1 + threshold) return best > 1 + threshold ? SLOWER : UNSURE;
    if (high < 1 / (1 + threshold)) return FASTER;
    return low >= 1 / (1 + threshold) && high <= 1 + threshold ? SAME : UNSURE;
}

static bool is_positive(const bench_result *result)
{
    for (int64_t i = 0; i < result->count; i++)
        if (!(result->samples[i] > 0)) return false;
    return true;
}

/* The sample that one tenth of the sorted samples are better than. */
static double find_best(const double *sorted, int64_t count, bool rate)
{
    return rate ? sorted[count - 1 - (count - 1) / 10] : sorted[(count - 1) / 10];
}

/* Noise only adds time. Where it affected more than half of a file's samples, the medians differ, but the best samples do not.
 * Pairs share the noise, so their interval is enough. */
static double ratio_of_best(const row_comparison *comparison, bool paired, double *scratch)
{
    bool rate = is_rate(comparison->now->unit);
    if (paired) return comparison->ratio.ratio;
    bench_sort(scratch, comparison->old->samples, comparison->old->count);
    double old = find_best(scratch, comparison->old->count, rate);
    bench_sort(scratch, comparison->now->samples, comparison->now->count);
    return find_best(scratch, comparison->now->count, rate) / old;
}

/* What the two rows of comparison say. scratch: room for the samples of one. */
static zt_status compare_two(const comparison_report *report, row_comparison *comparison, double *scratch)
{
    const bench_result *old = comparison->old, *now = comparison->now;
    comparison->ratio = (bench_ratio){NAN, {0, INFINITY}};
    comparison->median[0] = bench_summarize(old->samples, old->count, scratch).median;
    comparison->median[1] = bench_summarize(now->samples, now->count, scratch).median;
    zt_status status = ZT_OK; /* no ratio of samples that may be 0 */
    if (is_positive(old) && is_positive(now))
        status = bench_ratio_of(report->cli->ctx, (bench_samples){old->samples, old->count},
                                (bench_samples){now->samples, now->count}, report->pairs, report->cli->seed, &comparison->ratio);
    comparison->best_ratio = isnan(comparison->ratio.ratio) ? 1 : ratio_of_best(comparison, report->pairs, scratch);
    if (!report->pairs) {
        comparison->ratio.ci95[0] /= 1 + BETWEEN_RUNS;
        comparison->ratio.ci95[1] *= 1 + BETWEEN_RUNS;
    }
    comparison->verdict = find_verdict(comparison, report->threshold);
    return status;
}

static zt_status compare_row(comparison_report *report, const bench_result *now, double *scratch)
{
    const bench_result *old = find_row(report->old, now, report->pairs);
    if (!old) {
        zt_cli_note(report->cli, "only in NEW: %s", now->test);
        return ZT_OK;
    }
    row_comparison *comparison = &report->rows[report->row_count++];
    *comparison = (row_comparison){.old = old, .now = now};
    zt_status status = compare_two(report, comparison, scratch);
    if (comparison->verdict == SLOWER) zt_cli_no(report->cli);
    return status;
}

static zt_status compare_rows(comparison_report *report)
{
    int64_t count = 0;
    for (const bench_result *row = report->now->first; row; row = row->next) count++;
    double *scratch = zt_calloc(report->cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    report->rows = scratch ? zt_calloc(report->cli->ctx, (size_t)count + 1, sizeof *report->rows) : NULL;
    zt_status status = report->rows ? ZT_OK : zt_ctx_status(report->cli->ctx);
    for (const bench_result *row = report->now->first; row && !status; row = row->next)
        status = compare_row(report, row, scratch);
    for (const bench_result *row = report->old->first; row && !status; row = row->next)
        if (!find_row(report->now, row, report->pairs)) zt_cli_note(report->cli, "only in OLD: %s", row->test);
    zt_free(report->cli->ctx, scratch);
    if (!status && report->row_count == 0) status = zt_fail(report->cli->ctx, ZT_EDATA, "no result is in both OLD and NEW");
    return status;
}

/* ---- output ---------------------------------------------------------------------------------- */

enum { N_COLUMNS = 9 };
static const char *const columns[N_COLUMNS] = {"test", "#threads", "unit", "#old", "#new", "#ratio", "#low", "#high", "verdict"};

static zt_status add_row(zt_table *table, const row_comparison *comparison)
{
    const double value[] = {comparison->median[0], comparison->median[1], comparison->ratio.ratio, comparison->ratio.ci95[0],
                            comparison->ratio.ci95[1]};
    char threads[24], number[5][BENCH_NUMBER];
    snprintf(threads, sizeof threads, "%" PRId64, comparison->now->threads);
    const char *cell[N_COLUMNS] = {comparison->now->test, threads, comparison->now->unit};
    for (int i = 0; i < (isfinite(comparison->ratio.ratio) ? isfinite(comparison->ratio.ci95[1]) ? 5 : 3 : 2); i++)
        cell[3 + i] = bench_number(number[i], value[i], i < 2 ? 5 : 4);
    cell[8] = verdicts[comparison->verdict];
    return zt_table_row(table, cell);
}

static zt_status print_rows(const comparison_report *report)
{
    zt_table *table = zt_table_new(report->cli, "compare", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(report->cli->ctx);
    for (int64_t i = 0; i < report->row_count && !status; i++) status = add_row(table, &report->rows[i]);
    if (!status) status = bench_write_table(report->cli, table);
    zt_table_free(table);
    return status;
}

static void put_row(zt_str *text, const row_comparison *comparison)
{
    zt_str_puts(text, "{\"test\":");
    zt_str_put_json(text, comparison->now->test, strlen(comparison->now->test));
    zt_str_printf(text, ",\"threads\":%" PRId64 ",\"unit\":", comparison->now->threads);
    zt_str_put_json(text, comparison->now->unit, strlen(comparison->now->unit));
    zt_str_printf(text, ",\"old\":%.9g,\"new\":%.9g", comparison->median[0], comparison->median[1]);
    if (isfinite(comparison->ratio.ratio))
        zt_str_printf(text, ",\"ratio\":%.9g", comparison->ratio.ratio);
    else
        zt_str_puts(text, ",\"ratio\":null");
    if (isfinite(comparison->ratio.ci95[1]))
        zt_str_printf(text, ",\"ci95\":[%.9g,%.9g]", comparison->ratio.ci95[0], comparison->ratio.ci95[1]);
    else
        zt_str_puts(text, ",\"ci95\":null");
    zt_str_printf(text, ",\"verdict\":\"%s\"}", verdicts[comparison->verdict]);
}

static zt_status print_json(const comparison_report *report)
{
    zt_str text;
    zt_str_init(&text, report->cli->ctx);
    zt_str_printf(&text, "\"threshold\":%.9g,\"paired\":%s,\"seed\":%" PRIu64 ",\"comparisons\":[", report->threshold,
                  report->pairs ? "true" : "false", report->cli->seed);
    for (int64_t row = 0; row < report->row_count; row++) {
        zt_str_puts(&text, row ? "," : "");
        put_row(&text, &report->rows[row]);
    }
    zt_str_puts(&text, "]");
    zt_status status = zt_ctx_status(report->cli->ctx);
    if (!status) status = bench_print_both(report->cli, report->old, report->now, &text);
    zt_str_fini(&text);
    return status;
}

/* ---- junit: a case a row, failed where it is slower ------------------------------------------ */

static zt_status fill_case(zt_arena *arena, const row_comparison *comparison, bench_case *out)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %.6g, was %.6g %s, ratio %.4f, interval %.4f to %.4f", verdicts[comparison->verdict],
             comparison->median[1], comparison->median[0], comparison->now->unit, comparison->ratio.ratio,
             comparison->ratio.ci95[0], comparison->ratio.ci95[1]);
    char *message = zt_arena_strndup(arena, text, strlen(text));
    snprintf(text, sizeof text, " (%" PRId64 " threads, %.32s)", comparison->now->threads, comparison->now->unit);
    size_t name_length = strlen(comparison->now->test), suffix_length = strlen(text) + 1;
    char *name = zt_arena_alloc(arena, name_length + suffix_length);
    if (!message || !name) return ZT_ENOMEM;
    memcpy(name, comparison->now->test, name_length);
    memcpy(name + name_length, text, suffix_length);
    *out = (bench_case){.name = name, .text = message, .failure = comparison->verdict == SLOWER ? message : NULL};
    return ZT_OK;
}

static zt_status print_junit(const comparison_report *report)
{
    zt_arena *arena = zt_arena_new(report->cli->ctx, 0);
    bench_case *cases = arena ? zt_arena_alloc(arena, (size_t)(report->row_count + 1) * sizeof *cases) : NULL;
    zt_status status = cases ? ZT_OK : zt_ctx_status(report->cli->ctx);
    for (int64_t i = 0; i < report->row_count && !status; i++) status = fill_case(arena, &report->rows[i], &cases[i]);
    if (!status) status = bench_junit(report->cli, "compare", cases, report->row_count);
    zt_arena_free(arena);
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

int bench_sides(const bench_options *options) { return options->vs ? 2 : 1; }

int bench_turn(int sides, int64_t round, int turn) { return sides == 2 && round & 1 ? 1 - turn : turn; }

int64_t bench_most(const bench_options *options) { return options->reps << (options->looks - 1); }

zt_status bench_more(zt_cli *cli, const bench_options *options, const bench_result *old, const bench_result *now, int64_t *rounds)
{
    comparison_report report = {.cli = cli, .threshold = options->beyond, .pairs = options->looks};
    row_comparison comparison = {.old = old, .now = now};
    if (*rounds >= bench_most(options)) return ZT_OK;
    double *scratch = zt_calloc(cli->ctx, (size_t)*rounds, sizeof *scratch);
    zt_status status = scratch ? compare_two(&report, &comparison, scratch) : zt_ctx_status(cli->ctx);
    if (!status && comparison.verdict == UNSURE && !isnan(comparison.ratio.ratio)) *rounds *= 2;
    zt_free(cli->ctx, scratch);
    return status;
}

zt_status bench_more_of(zt_cli *cli, const bench_options *options, const bench_list lists[2], int64_t *rounds)
{
    zt_status status = ZT_OK;
    int64_t had = *rounds;
    for (const bench_result *now = lists[1].first; now && !status && *rounds == had; now = now->next) {
        const bench_result *old = find_row(&lists[0], now, true);
        if (old) status = bench_more(cli, options, old, now, rounds);
    }
    return status;
}

/* ---- commands -------------------------------------------------------------------------------- */

static zt_status print_comparison(zt_cli *cli, const bench_options *options, const bench_list *old, const bench_list *now,
                                  int pairs)
{
    comparison_report report = {.cli = cli, .old = old, .now = now, .threshold = options->beyond, .pairs = pairs};
    zt_status status = compare_rows(&report);
    if (!status)
        status = cli->format == ZT_FMT_JSON    ? print_json(&report)
                 : cli->format == ZT_FMT_JUNIT ? print_junit(&report)
                                               : print_rows(&report);
    zt_free(cli->ctx, report.rows);
    return status;
}

zt_status bench_answer(zt_cli *cli, const bench_options *options, const bench_list lists[2])
{
    zt_status status = ZT_OK;
    for (int k = 0; k < bench_sides(options) && !status; k++) status = bench_keep(cli, options, &lists[k]);
    if (status) return status;
    return options->vs ? print_comparison(cli, options, &lists[0], &lists[1], options->looks) : bench_print(cli, &lists[0]);
}

zt_status bench_compare(zt_cli *cli, const bench_options *options)
{
    bench_list old = {0}, now = {0};
    if (options->vs) return bench_versus(cli, options);
    if (zt_cli_refuse_given(cli, BENCH_MEASURING "|reps|prompt|generate|depth|exact|bind|ops|history|progress",
                            "compare without --vs: nothing is measured"))
        return ZT_EUSAGE;
    if (cli->n_operands != 3)
        return zt_fail(cli->ctx, ZT_EUSAGE, "compare needs two files, OLD and NEW, got %d", cli->n_operands - 1);
    zt_status status = bench_read(cli->ctx, cli->operands[1], &old);
    if (!status) status = bench_read(cli->ctx, cli->operands[2], &now);
    if (!status && !cli->force) status = check_machines(cli, &old, &now);
    if (!status) note_models(cli, &old, &now);
    if (!status) status = print_comparison(cli, options, &old, &now, 0);
    bench_list_free(cli->ctx, &old);
    bench_list_free(cli->ctx, &now);
    return status;
}
