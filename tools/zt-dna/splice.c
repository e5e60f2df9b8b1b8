/* splice.c - zt-dna splice: a child of two models, and a report of how it came about. */
#include "tools/zt-dna/dna_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const modes[] = {DNA_MODES(ZT_WORD_ONLY)};

typedef struct splice_state {
    zt_cli *cli;
    const dna_options *options;
    zt_dna *model_a, *model_b, *child;
    zt_dna_compare_opts compare_options;
} splice_state;

static zt_status report_progress(void *user, const char *layer, int64_t done, int64_t all)
{
    return dna_report_progress(((const splice_state *)user)->cli, layer, done, all);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void put_config(const splice_state *splice, zt_str *text)
{
    const dna_options *options = splice->options;
    zt_str_puts(text, "{\"schema\":\"zt.dna.splice/1\",");
    dna_put_text(text, "mode", modes[options->mode]);
    zt_str_putc(text, ',');
    dna_put_text(text, "rule", options->rule == ZT_RULE_LOOM ? "loom" : "field");
    dna_put_number(text, "alpha", options->alpha);
    dna_put_number(text, "ratio", options->ratio);
    dna_put_number(text, "fitness_a", options->fitness_a);
    dna_put_number(text, "fitness_b", options->fitness_b);
    zt_str_printf(text, ",\"seed\":%" PRIu64, splice->cli->seed);
}

static void put_layers(const splice_state *splice, zt_str *text)
{
    int64_t mixed = 0, common = 0;
    zt_str_puts(text, ",\"similarities\":{");
    for (int64_t layer_index = 0; layer_index < zt_dna_count(splice->model_a); layer_index++) {
        const zt_splice_row *row = zt_dna_splice_row(splice->child, layer_index);
        mixed += row->mixed;
        if (row->layer_b < 0) continue;
        if (common++) zt_str_putc(text, ',');
        zt_str_put_json(text, zt_dna_get(splice->model_a, layer_index)->name,
                        strlen(zt_dna_get(splice->model_a, layer_index)->name));
        zt_str_putc(text, ':');
        if (isfinite(row->similarity))
            zt_str_put_double(text, row->similarity);
        else
            zt_str_puts(text, "null");
    }
    zt_str_printf(text, "},\"mixed\":%" PRId64 ",\"layers\":[", mixed);
    for (int64_t layer_index = 0; layer_index < zt_dna_count(splice->model_a); layer_index++) {
        const zt_splice_row *row = zt_dna_splice_row(splice->child, layer_index);
        zt_str_puts(text, layer_index ? ",{" : "{");
        dna_put_text(text, "name", zt_dna_get(splice->model_a, layer_index)->name);
        zt_str_printf(text, ",\"in_b\":%s,\"mixed\":%s", row->layer_b < 0 ? "false" : "true", row->mixed ? "true" : "false");
        dna_put_number(text, "alpha", row->mixed && splice->options->mode == ZT_SPLICE_BLEND ? row->alpha : NAN);
        zt_str_putc(text, '}');
    }
    zt_str_putc(text, ']');
}

static zt_status put_overlap(const splice_state *splice, const char *key, zt_dna *parent, zt_str *text)
{
    zt_dna_verdict verdict = {.ctx = NULL};
    zt_status status = zt_dna_compare(splice->child, parent, &splice->compare_options, &verdict);
    if (status == ZT_OK) dna_put_number(text, key, verdict.overlap);
    zt_dna_verdict_free(&verdict);
    return status;
}

static zt_status put_dna(const char *key, zt_dna *model, zt_str *text)
{
    zt_str_printf(text, ",\"%s\":", key);
    return dna_put_signatures(model, zt_dna_is_net(model), text);
}

/* Of networks the signatures are told whole, of checkpoints what they are of. */
static zt_status make_report(const splice_state *splice, zt_str *text)
{
    put_config(splice, text);
    put_layers(splice, text);
    zt_status status = put_overlap(splice, "child_vs_a", splice->model_a, text);
    if (status == ZT_OK) status = put_overlap(splice, "child_vs_b", splice->model_b, text);
    if (status == ZT_OK) status = put_dna("dna_a", splice->model_a, text);
    if (status == ZT_OK) status = put_dna("dna_b", splice->model_b, text);
    if (status == ZT_OK) status = put_dna("dna_child", splice->child, text);
    return status == ZT_OK ? zt_str_puts(text, "}\n") : status;
}

/* ---- the child ------------------------------------------------------------------------------- */

static zt_status check_options(zt_cli *cli, const dna_options *options, char **operands)
{
    const char *out = cli->output;
    if (!out) return zt_fail(cli->ctx, ZT_EUSAGE, "no output: specify one with -o CHILD");
    if (!strcmp(operands[0], "-") && !strcmp(operands[1], "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "both models cannot be stdin");
    zt_status status = ZT_OK;
    for (int i = 0; i < 2 && status == ZT_OK; i++) {
        status = zt_cli_refuse_same(cli, operands[i], out);
        if (status == ZT_OK) status = zt_cli_refuse_same(cli, operands[i], options->report);
    }
    return status;
}

static zt_status make_child(splice_state *splice)
{
    const dna_options *options = splice->options;
    zt_splice_opts how = {.mode = (zt_splice_mode)options->mode,
                          .alpha = options->alpha,
                          .ratio = options->ratio,
                          .fitness_a = options->fitness_a,
                          .fitness_b = options->fitness_b,
                          .seed = splice->cli->seed};
    int64_t mixed = 0;
    splice->child = zt_dna_splice(splice->model_a, splice->model_b, &how, &splice->compare_options);
    for (int64_t i = 0; splice->child && i < zt_dna_count(splice->model_a); i++)
        mixed += zt_dna_splice_row(splice->child, i)->mixed;
    if (splice->child && mixed == 0)
        return zt_fail(splice->cli->ctx, ZT_ESHAPE,
                       "%s: none of the %" PRId64 " layers matches a layer of %s in type, shape and dtype",
                       zt_dna_name(splice->model_a), zt_dna_count(splice->model_a), zt_dna_name(splice->model_b));
    return splice->child ? ZT_OK : zt_ctx_status(splice->cli->ctx);
}

/* A is the template: what B alone has is not in the child. */
static void print_left_out(const splice_state *splice)
{
    const char *first = NULL;
    int64_t count = 0;
    char shown[160];
    for (int64_t i = 0; i < zt_dna_count(splice->model_b); i++) {
        const char *name = zt_dna_get(splice->model_b, i)->name;
        if (zt_dna_find(splice->model_a, name) >= 0) continue;
        first = first ? first : name;
        count++;
    }
    if (count)
        zt_cli_note(splice->cli, "warning: %" PRId64 " layer%s only in %s %s not in the child: '%s'%s", count,
                    count == 1 ? "" : "s", zt_dna_name(splice->model_b), count == 1 ? "is" : "are",
                    zt_escape(shown, sizeof shown, first, strlen(first)), count == 1 ? "" : ", ...");
}

/* The child, and then the report: where one fails there is no report, and no child without one that
 * could be written. */
static zt_status write_both(splice_state *splice)
{
    const dna_options *options = splice->options;
    zt_str report;
    zt_str_init(&report, splice->cli->ctx);
    zt_status status = options->report ? make_report(splice, &report) : ZT_OK;
    zt_sink *sink =
        status == ZT_OK && options->report ? zt_sink_open(splice->cli->ctx, options->report, splice->cli->force) : NULL;
    if (status == ZT_OK && options->report)
        status = sink ? zt_sink_write(sink, report.data, report.len) : zt_ctx_status(splice->cli->ctx);
    if (status == ZT_OK) status = dna_write(splice->cli, options, splice->child, modes[options->mode]);
    if (status == ZT_OK && sink) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_str_fini(&report);
    return status;
}

zt_status dna_splice(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    splice_state splice = {.cli = cli, .options = options};
    (void)count;
    splice.compare_options = (zt_dna_compare_opts){.threads = dna_threads(cli), .progress = report_progress, .user = &splice};
    zt_status status = check_options(cli, options, operands);
    if (status != ZT_OK) return status;
    splice.model_a = dna_open(cli, options, operands[0]);
    splice.model_b = splice.model_a ? dna_open(cli, options, operands[1]) : NULL;
    status = splice.model_b ? make_child(&splice) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) print_left_out(&splice);
    if (status == ZT_OK) status = write_both(&splice);
    zt_dna_close(splice.child);
    zt_dna_close(splice.model_a);
    zt_dna_close(splice.model_b);
    return status;
}
