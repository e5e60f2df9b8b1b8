/* lineage.c - zt-dna lineage: which model was derived from which, as a table, JSON, a tree or a drawing. */
#include "tools/common/svg.h"
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, NUMBER = 32 };

typedef struct lineage_report {
    zt_cli *cli;
    const dna_options *options;
    char **names; /* of the files */
    int count;
    zt_dna *models[MOST];
    zt_lineage lineage;
} lineage_report;

static zt_status report_progress(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_report_progress(((const lineage_report *)user)->cli, layer, done, all);
}

static bool is_wanted(const void *user, const char *name) { return dna_selected(((const lineage_report *)user)->options, name); }

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_matrix(zt_str *text, const char *key, const double *matrix, int count)
{
    zt_str_printf(text, ",\"%s\":[", key);
    for (int i = 0; i < count * count; i++) {
        zt_str_puts(text, i % count == 0 ? (i ? ",[" : "[") : ",");
        if (isfinite(matrix[i]))
            zt_str_put_double(text, matrix[i]);
        else
            zt_str_puts(text, "null");
        if (i % count == count - 1) zt_str_putc(text, ']');
    }
    zt_str_putc(text, ']');
}

static void put_descent(zt_str *text, const lineage_report *report, int index)
{
    const zt_dna_descent *descent = &report->lineage.descents[index];
    int64_t listed = 0;
    zt_str_puts(text, index ? ",{" : "{");
    dna_put_text(text, "model", report->names[index]);
    zt_str_putc(text, ',');
    if (descent->parent >= 0)
        dna_put_text(text, "parent", report->names[descent->parent]);
    else
        zt_str_puts(text, "\"parent\":null");
    zt_str_putc(text, ',');
    dna_put_text(text, "kind", zt_dna_relation_name(descent->relation));
    dna_put_number(text, "overlap", descent->parent < 0 ? NAN : descent->verdict.overlap);
    dna_put_number(text, "rel_l2", descent->parent < 0 ? NAN : descent->verdict.rel_l2);
    zt_str_puts(text, ",\"frozen\":[");
    for (int64_t row = 0; row < descent->verdict.score_count; row++) {
        if (!descent->verdict.scores[row].same) continue;
        const char *name = zt_dna_get(report->models[descent->parent], descent->verdict.scores[row].layer_a)->name;
        if (listed++) zt_str_putc(text, ',');
        zt_str_put_json(text, name, strlen(name));
    }
    zt_str_puts(text, "]}");
}

static zt_status print_json(const lineage_report *report)
{
    zt_str text;
    zt_str_init(&text, report->cli->ctx);
    zt_str_puts(&text, "{\"schema\":\"zt.dna.lineage/1\",\"models\":[");
    for (int i = 0; i < report->count; i++) {
        if (i) zt_str_putc(&text, ',');
        zt_str_put_json(&text, report->names[i], strlen(report->names[i]));
    }
    zt_str_putc(&text, ']');
    put_matrix(&text, "overlap", report->lineage.overlap, report->count);
    put_matrix(&text, "cosine", report->lineage.cosine, report->count);
    put_matrix(&text, "rel_l2", report->lineage.rel_l2, report->count);
    zt_str_puts(&text, ",\"tree\":[");
    for (int i = 0; i < report->count; i++) put_descent(&text, report, i);
    zt_status status = zt_str_puts(&text, "]}\n");
    if (status == ZT_OK) status = zt_cli_write(report->cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { OWN = 7 }; /* columns before the matrix's */

static zt_status put_row(zt_table *table, const lineage_report *report, int index)
{
    const zt_dna_descent *descent = &report->lineage.descents[index];
    char text[4][NUMBER] = {"", "", "", ""}, cell[MOST][NUMBER];
    const char *row[OWN + MOST];
    if (descent->parent >= 0) {
        snprintf(text[0], NUMBER, "%.7f", descent->verdict.overlap);
        snprintf(text[1], NUMBER, "%.5g", descent->verdict.rel_l2);
        snprintf(text[2], NUMBER, "%" PRId64, descent->verdict.same_count);
        snprintf(text[3], NUMBER, "%" PRId64, descent->verdict.score_count);
    }
    row[0] = report->names[index];
    row[1] = descent->parent < 0 ? "" : report->names[descent->parent];
    row[2] = zt_dna_relation_name(descent->relation);
    for (int column = 0; column < 4; column++) row[3 + column] = text[column];
    for (int j = 0; j < report->count; j++) {
        snprintf(cell[j], NUMBER, "%.6f", report->lineage.overlap[index * report->count + j]);
        row[OWN + j] = cell[j];
    }
    return zt_table_row(table, row);
}

static zt_status print_table(const lineage_report *report)
{
    static const char *const own[OWN] = {"model", "parent", "kind", "#overlap", "#rel_l2", "#frozen", "#layers"};
    const char *columns[OWN + MOST];
    char numbered[MOST][NUMBER];
    for (int column = 0; column < OWN; column++) columns[column] = own[column];
    for (int j = 0; j < report->count; j++) {
        snprintf(numbered[j], NUMBER, "#with_%d", j + 1);
        columns[OWN + j] = numbered[j];
    }
    zt_table *table = zt_table_new(report->cli, "dna.lineage", columns, OWN + report->count);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < report->count && status == ZT_OK; i++) status = put_row(table, report, i);
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void put_node(zt_str *text, const lineage_report *report, int index, int depth)
{
    const zt_dna_descent *descent = &report->lineage.descents[index];
    for (int level = 1; level < depth; level++) zt_str_puts(text, "   ");
    if (depth) zt_str_puts(text, "`- ");
    zt_str_put_escaped(text, report->names[index], strlen(report->names[index]));
    if (descent->parent >= 0)
        zt_str_printf(text, "  %s, relative L2 %.3g, %" PRId64 " of %" PRId64 " layers identical",
                      zt_dna_relation_name(descent->relation), descent->verdict.rel_l2, descent->verdict.same_count,
                      descent->verdict.score_count);
    zt_str_putc(text, '\n');
    for (int j = 0; j < report->count; j++)
        if (report->lineage.descents[j].parent == index) put_node(text, report, j, depth + 1);
}

static zt_status print_tree(const lineage_report *report)
{
    zt_str text;
    zt_str_init(&text, report->cli->ctx);
    for (int i = 0; i < report->count; i++)
        if (report->lineage.descents[i].parent < 0) put_node(&text, report, i, 0);
    for (int i = 0; i < report->count; i++) {
        zt_str_putc(&text, '\n');
        for (int j = 0; j < report->count; j++) {
            double overlap = report->lineage.overlap[i * report->count + j];
            bool same = report->lineage.rel_l2[i * report->count + j] == 0;
            dna_put_cell(&text, overlap, same, report->cli->color == 1);
        }
        zt_str_putc(&text, ' ');
        zt_str_put_escaped(&text, report->names[i], strlen(report->names[i]));
    }
    zt_status status = zt_str_putc(&text, '\n');
    if (status == ZT_OK) status = zt_cli_write(report->cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- a drawing ------------------------------------------------------------------------------- */

static zt_status draw_matrix(const lineage_report *report)
{
    zt_str text, what;
    zt_str_init(&text, report->cli->ctx);
    zt_str_init(&what, report->cli->ctx);
    dna_draw_begin(&text, report->count, report->count, "overlap of each pair of models");
    for (int i = 0; i < report->count; i++) {
        dna_draw_row(&text, i, report->names[i]);
        for (int j = 0; j < report->count; j++) {
            zt_str_clear(&what);
            zt_str_printf(&what, "%s, %s", report->names[i], report->names[j]);
            dna_draw_cell(&text, i, j, report->lineage.overlap[i * report->count + j],
                          report->lineage.rel_l2[i * report->count + j] == 0, what.data ? what.data : "");
        }
    }
    zt_svg_end(&text);
    zt_status status = dna_write_plot(report->cli, report->options, &text);
    zt_str_fini(&text);
    zt_str_fini(&what);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static zt_status print_report(const lineage_report *report)
{
    zt_status status = report->options->plot ? draw_matrix(report) : ZT_OK;
    if (status != ZT_OK || report->options->map) return status != ZT_OK ? status : print_tree(report);
    return report->cli->format == ZT_FMT_JSON ? print_json(report) : print_table(report);
}

zt_status dna_lineage(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    lineage_report report = {.cli = cli, .options = options, .names = operands, .count = count};
    zt_dna_compare_opts how = {.threads = dna_threads(cli), .wanted = is_wanted, .progress = report_progress, .user = &report};
    double min_cosine = zt_cli_given(cli, "threshold") ? options->threshold : 0.5;
    int stdins = 0;
    if (count > MOST) return zt_fail(cli->ctx, ZT_EUSAGE, "%d models, the limit is %d", count, MOST);
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        stdins += !strcmp(operands[i], "-");
        status = zt_cli_refuse_same(cli, operands[i], options->plot);
    }
    if (status != ZT_OK) return status;
    if (stdins > 1) return zt_fail(cli->ctx, ZT_EUSAGE, "only one model can be stdin");
    for (int i = 0; i < count && status == ZT_OK; i++) {
        report.models[i] = dna_open(cli, options, operands[i]);
        status = report.models[i] ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (status == ZT_OK) status = zt_dna_lineage(report.models, count, &how, min_cosine, &report.lineage);
    if (status == ZT_OK) status = print_report(&report);
    zt_lineage_free(&report.lineage);
    for (int i = 0; i < count; i++) zt_dna_close(report.models[i]);
    return status;
}
