/* compare.c - zt-dna compare: two models side by side. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

static bool is_wanted(const void *user, const char *name) { return dna_selected(((const dna_report *)user)->options, name); }

static zt_status report_progress(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_report_progress(((const dna_report *)user)->cli, layer, done, all);
}

/* In words, on stderr. */
static void sum_up(const dna_report *report)
{
    const zt_dna_verdict *verdict = report->verdict;
    char missing[96] = "";
    if (verdict->only_a || verdict->only_b)
        snprintf(missing, sizeof missing, "; %lld only in A, %lld only in B", (long long)verdict->only_a,
                 (long long)verdict->only_b);
    zt_cli_note(report->cli, "overlap %.6f, relative L2 %.3g; %lld of %lld layers identical%s", verdict->overlap, verdict->rel_l2,
                (long long)verdict->same_count, (long long)verdict->score_count, missing);
}

static zt_status print_report(const dna_report *report)
{
    zt_status status = report->options->plot ? dna_print_map(report, true) : ZT_OK;
    if (status != ZT_OK || report->options->map) return status != ZT_OK ? status : dna_print_map(report, false);
    if (report->cli->format == ZT_FMT_JSON) return dna_print_json(report);
    sum_up(report);
    if (report->options->shifts) return dna_print_shifts(report);
    return report->options->by == DNA_BY_BLOCK ? dna_print_blocks(report) : dna_print_layers(report);
}

static zt_status compare_models(zt_cli *cli, const dna_options *options, zt_dna *model_a, zt_dna *model_b)
{
    zt_dna_verdict verdict = {.ctx = NULL};
    dna_report report = {.cli = cli, .options = options, .model_a = model_a, .model_b = model_b, .verdict = &verdict};
    zt_dna_compare_opts how = {.threads = dna_threads(cli),
                               .ranks = !options->shifts && !options->map,
                               .shifts = options->shifts || (cli->format == ZT_FMT_JSON && !options->map),
                               .wanted = is_wanted,
                               .progress = report_progress,
                               .user = &report};
    zt_status status = zt_dna_compare(model_a, model_b, &how, &verdict);
    if (status == ZT_OK) status = print_report(&report);
    if (status == ZT_OK && !(verdict.overlap >= options->threshold)) zt_cli_no(cli);
    zt_dna_verdict_free(&verdict);
    return status;
}

zt_status dna_compare(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    (void)count;
    if (!strcmp(operands[0], "-") && !strcmp(operands[1], "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "both models cannot be stdin");
    if (options->shifts + options->map + (options->by == DNA_BY_BLOCK) > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "options '--shifts', '--map' and '--by block' exclude each other");
    for (int i = 0; i < 2; i++) {
        zt_status same = zt_cli_refuse_same(cli, operands[i], options->plot);
        if (same != ZT_OK) return same;
    }
    zt_dna *model_a = dna_open(cli, options, operands[0]);
    zt_dna *model_b = model_a ? dna_open(cli, options, operands[1]) : NULL;
    zt_status status = model_b ? compare_models(cli, options, model_a, model_b) : zt_ctx_status(cli->ctx);
    zt_dna_close(model_a);
    zt_dna_close(model_b);
    return status;
}
