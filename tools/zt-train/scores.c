/* scores.c - what zt-train --eval prints: of one network its measures, of several, or of several
 * outputs, a row each. */
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON, with Loom's names of fields ----------------------------------------------- */

void train_put_number(zt_str *text, const char *key, double number)
{
    zt_str_printf(text, "\"%s\":", key);
    if (isfinite(number))
        zt_str_put_double(text, number);
    else
        zt_str_puts(text, "null");
}

void train_put_measures(zt_str *text, const zt_deviations *deviations)
{
    zt_str_printf(text, "\"total\":%" PRId64 ",\"correct\":%" PRId64 ",\"failures\":%" PRId64 ",", deviations->total,
                  deviations->correct, deviations->buckets[ZT_DEVIATION_BUCKETS - 1]);
    train_put_number(text, "accuracy", zt_deviations_accuracy(deviations));
    zt_str_putc(text, ',');
    train_put_number(text, "score", zt_deviations_score(deviations));
    zt_str_putc(text, ',');
    train_put_number(text, "avg_deviation", zt_deviations_mean(deviations));
}

/* The samples whose deviation, of output k of shown, is in bucket i. */
static void put_samples(zt_str *text, const train_scores *scores, int64_t k, int64_t shown, int index)
{
    bool first = true;
    zt_str_puts(text, ",\"samples\":[");
    for (int64_t row = 0; row < scores->rows; row++) {
        if (scores->each[row * shown + k].bucket != index) continue;
        zt_str_printf(text, "%s%" PRId64, first ? "" : ",", row);
        first = false;
    }
    zt_str_putc(text, ']');
}

/* Of output k of count; -1: of all, where they are several. */
static void put_buckets(zt_str *text, const train_scores *scores, const zt_deviations *deviations, int64_t k, int64_t count)
{
    zt_str_puts(text, ",\"buckets\":{");
    for (int i = 0; i < ZT_DEVIATION_BUCKETS; i++) {
        const zt_deviation_bucket *bucket = zt_deviation_bucket_at(i);
        zt_str_printf(text, "%s\"%s\":{", i ? "," : "", bucket->name);
        train_put_number(text, "range_min", bucket->above);
        zt_str_putc(text, ',');
        train_put_number(text, "range_max", bucket->up_to);
        zt_str_printf(text, ",\"count\":%" PRId64, deviations->buckets[i]);
        if (k >= 0) put_samples(text, scores, k, count, i);
        zt_str_putc(text, '}');
    }
    zt_str_putc(text, '}');
}

static void put_results(zt_str *text, const train_scores *scores)
{
    int64_t count = scores->n_values ? scores->n_values : 1;
    zt_str_puts(text, ",\"results\":[");
    for (int64_t i = 0; i < scores->rows * count; i++) {
        const zt_deviation *deviation = &scores->each[i];
        zt_str_printf(text, "%s{\"sample_index\":%" PRId64 ",", i ? "," : "", i / count);
        if (scores->n_values) zt_str_printf(text, "\"output\":%" PRId64 ",", i % count);
        train_put_number(text, "expected", deviation->expected);
        zt_str_putc(text, ',');
        train_put_number(text, "actual", deviation->actual);
        zt_str_putc(text, ',');
        train_put_number(text, "deviation", deviation->deviation);
        zt_str_printf(text, ",\"bucket\":\"%s\"}", zt_deviation_bucket_at(deviation->bucket)->name);
    }
    zt_str_putc(text, ']');
}

/* The members of a network's object, without braces. */
static void put_network(zt_str *text, const train_scores *scores)
{
    train_put_measures(text, &scores->all);
    put_buckets(text, scores, &scores->all, scores->n_values ? -1 : 0, 1);
    for (int64_t k = 0; k < scores->n_values; k++) {
        zt_str_printf(text, "%s{\"output\":%" PRId64 ",", k ? "," : ",\"outputs\":[", k);
        train_put_measures(text, &scores->output[k]);
        put_buckets(text, scores, &scores->output[k], k, scores->n_values);
        zt_str_puts(text, k + 1 < scores->n_values ? "}" : "}]");
    }
    put_results(text, scores);
}

static zt_status print_json(zt_cli *cli, const train_scores *scores, int count, const train_ensemble *ensemble)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_str_puts(&text, "{\"schema\":\"zt.eval/1\",");
    if (count == 1) put_network(&text, scores);
    for (int i = 0; i < count && count > 1; i++) {
        zt_str_puts(&text, i ? ",{\"network\":" : "\"networks\":[{\"network\":");
        zt_str_put_json(&text, scores[i].name, strlen(scores[i].name));
        zt_str_putc(&text, ',');
        put_network(&text, &scores[i]);
        zt_str_puts(&text, i + 1 < count ? "}" : "}]");
    }
    if (ensemble) train_put_ensemble(ensemble, &text);
    zt_str_puts(&text, "}\n");
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = zt_cli_write(cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum { MEASURES = 5 + ZT_DEVIATION_BUCKETS, CELL = 32 };

static const char *const measures[5] = {"samples", "correct", "accuracy", "score", "avg_deviation"};

static const char *measure_name(int index) { return index < 5 ? measures[index] : zt_deviation_bucket_at(index - 5)->name; }

static void measure_text(const zt_deviations *deviations, int index, char text[CELL])
{
    const double value[5] = {(double)deviations->total, (double)deviations->correct, zt_deviations_accuracy(deviations),
                             zt_deviations_score(deviations), zt_deviations_mean(deviations)};
    if (index < 5)
        snprintf(text, CELL, "%.10g", value[index]);
    else
        snprintf(text, CELL, "%" PRId64, deviations->buckets[index - 5]);
}

/* A measure a row. */
zt_status train_print_measures(zt_cli *cli, const zt_deviations *deviations)
{
    static const char *const columns[] = {"measure", "#value"};
    char text[CELL];
    zt_table *table = zt_table_new(cli, "zt.eval/1", columns, 2);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < MEASURES && !status; i++) {
        measure_text(deviations, i, text);
        status = zt_table_row(table, (const char *const[]){measure_name(i), text});
    }
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

static zt_status put_row(zt_table *table, const char *network, const char *output, const zt_deviations *deviations)
{
    char text[MEASURES][CELL];
    const char *cell[2 + MEASURES] = {network, output};
    for (int i = 0; i < MEASURES; i++) {
        measure_text(deviations, i, text[i]);
        cell[2 + i] = text[i];
    }
    return zt_table_row(table, cell);
}

/* A row a network and, where these are judged one by one, an output. */
static zt_status print_many(zt_cli *cli, const train_scores *scores, int count)
{
    char name[MEASURES][CELL], output[CELL];
    const char *columns[2 + MEASURES] = {"network", "output"};
    for (int i = 0; i < MEASURES; i++) {
        snprintf(name[i], CELL, "#%s", measure_name(i));
        columns[2 + i] = name[i];
    }
    zt_table *table = zt_table_new(cli, "zt.eval/1", columns, 2 + MEASURES);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < count && !status; i++) {
        status = put_row(table, scores[i].name, "all", &scores[i].all);
        for (int64_t k = 0; k < scores[i].n_values && !status; k++) {
            snprintf(output, CELL, "%" PRId64, k);
            status = put_row(table, scores[i].name, output, &scores[i].output[k]);
        }
    }
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

zt_status train_print_scores(zt_cli *cli, const train_options *options, const train_scores *scores, int count)
{
    bool json = cli->format == ZT_FMT_JSON;
    train_ensemble *ensemble = NULL;
    if (count > 1 && (json || options->ensemble >= 0)) {
        ensemble = train_ensemble_open(cli, scores, count, options->min_coverage);
        if (!ensemble) return zt_ctx_status(cli->ctx);
    }
    zt_status status = json                              ? print_json(cli, scores, count, ensemble)
                       : options->ensemble >= 0          ? train_print_ensemble(ensemble, options->ensemble)
                       : count == 1 && !scores->n_values ? train_print_measures(cli, &scores->all)
                                                         : print_many(cli, scores, count);
    train_ensemble_free(ensemble);
    return status;
}
