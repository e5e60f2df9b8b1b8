/* scores.c - what zt-train --eval prints: of one network its measures, of several, or of several
 * outputs, a row each. */
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON, with Loom's names of fields ----------------------------------------------- */

static void put_number(zt_str *s, const char *key, double x)
{
    zt_str_printf(s, "\"%s\":", key);
    if (isfinite(x)) zt_str_put_double(s, x);
    else zt_str_puts(s, "null");
}

static void put_measures(zt_str *s, const zt_deviations *d)
{
    zt_str_printf(s, "\"total\":%" PRId64 ",\"correct\":%" PRId64 ",\"failures\":%" PRId64 ",",
                  d->total, d->correct, d->buckets[ZT_DEVIATION_BUCKETS - 1]);
    put_number(s, "accuracy", zt_deviations_accuracy(d));
    zt_str_putc(s, ',');
    put_number(s, "score", zt_deviations_score(d));
    zt_str_putc(s, ',');
    put_number(s, "avg_deviation", zt_deviations_mean(d));
}

/* The samples whose deviation, of output k of n, is in bucket i. */
static void put_samples(zt_str *s, const train_scores *t, int64_t k, int64_t n, int i)
{
    bool first = true;
    zt_str_puts(s, ",\"samples\":[");
    for (int64_t r = 0; r < t->rows; r++) {
        if (t->each[r * n + k].bucket != i) continue;
        zt_str_printf(s, "%s%" PRId64, first ? "" : ",", r);
        first = false;
    }
    zt_str_putc(s, ']');
}

/* Of output k of n; -1: of all, where they are several. */
static void put_buckets(zt_str *s, const train_scores *t, const zt_deviations *d, int64_t k,
                        int64_t n)
{
    zt_str_puts(s, ",\"buckets\":{");
    for (int i = 0; i < ZT_DEVIATION_BUCKETS; i++) {
        const zt_deviation_bucket *b = zt_deviation_bucket_at(i);
        zt_str_printf(s, "%s\"%s\":{", i ? "," : "", b->name);
        put_number(s, "range_min", b->above);
        zt_str_putc(s, ',');
        put_number(s, "range_max", b->up_to);
        zt_str_printf(s, ",\"count\":%" PRId64, d->buckets[i]);
        if (k >= 0) put_samples(s, t, k, n, i);
        zt_str_putc(s, '}');
    }
    zt_str_putc(s, '}');
}

static void put_results(zt_str *s, const train_scores *t)
{
    int64_t n = t->n_values ? t->n_values : 1;
    zt_str_puts(s, ",\"results\":[");
    for (int64_t i = 0; i < t->rows * n; i++) {
        const zt_deviation *d = &t->each[i];
        zt_str_printf(s, "%s{\"sample_index\":%" PRId64 ",", i ? "," : "", i / n);
        if (t->n_values) zt_str_printf(s, "\"output\":%" PRId64 ",", i % n);
        put_number(s, "expected", d->expected);
        zt_str_putc(s, ',');
        put_number(s, "actual", d->actual);
        zt_str_putc(s, ',');
        put_number(s, "deviation", d->deviation);
        zt_str_printf(s, ",\"bucket\":\"%s\"}", zt_deviation_bucket_at(d->bucket)->name);
    }
    zt_str_putc(s, ']');
}

/* The members of a network's object, without braces. */
static void put_network(zt_str *s, const train_scores *t)
{
    put_measures(s, &t->all);
    put_buckets(s, t, &t->all, t->n_values ? -1 : 0, 1);
    for (int64_t k = 0; k < t->n_values; k++) {
        zt_str_printf(s, "%s{\"output\":%" PRId64 ",", k ? "," : ",\"outputs\":[", k);
        put_measures(s, &t->output[k]);
        put_buckets(s, t, &t->output[k], k, t->n_values);
        zt_str_puts(s, k + 1 < t->n_values ? "}" : "}]");
    }
    put_results(s, t);
}

static zt_status print_json(zt_cli *cli, const train_scores *t, int n)
{
    zt_str s;
    zt_str_init(&s, cli->ctx);
    zt_str_puts(&s, "{\"schema\":\"zt.eval/1\",");
    if (n == 1) put_network(&s, t);
    for (int i = 0; i < n && n > 1; i++) {
        zt_str_puts(&s, i ? ",{\"network\":" : "\"networks\":[{\"network\":");
        zt_str_put_json(&s, t[i].name, strlen(t[i].name));
        zt_str_putc(&s, ',');
        put_network(&s, &t[i]);
        zt_str_puts(&s, i + 1 < n ? "}" : "}]");
    }
    zt_str_puts(&s, "}\n");
    zt_status st = zt_ctx_status(cli->ctx);
    if (!st) st = zt_cli_write(cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum { MEASURES = 5 + ZT_DEVIATION_BUCKETS, CELL = 32 };

static const char *const measures[5] = {"samples", "correct", "accuracy", "score", "avg_deviation"};

static const char *measure_name(int i)
{
    return i < 5 ? measures[i] : zt_deviation_bucket_at(i - 5)->name;
}

static void measure_text(const zt_deviations *d, int i, char text[CELL])
{
    const double value[5] = {(double)d->total, (double)d->correct, zt_deviations_accuracy(d),
                             zt_deviations_score(d), zt_deviations_mean(d)};
    if (i < 5) snprintf(text, CELL, "%.10g", value[i]);
    else snprintf(text, CELL, "%" PRId64, d->buckets[i - 5]);
}

/* A measure a row. */
static zt_status print_one(zt_cli *cli, const zt_deviations *d)
{
    static const char *const columns[] = {"measure", "#value"};
    char text[CELL];
    zt_table *t = zt_table_new(cli, "zt.eval/1", columns, 2);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < MEASURES && !s; i++) {
        measure_text(d, i, text);
        s = zt_table_row(t, (const char *const[]){measure_name(i), text});
    }
    if (!s) s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

static zt_status put_row(zt_table *t, const char *network, const char *output,
                         const zt_deviations *d)
{
    char text[MEASURES][CELL];
    const char *cell[2 + MEASURES] = {network, output};
    for (int i = 0; i < MEASURES; i++) {
        measure_text(d, i, text[i]);
        cell[2 + i] = text[i];
    }
    return zt_table_row(t, cell);
}

/* A row a network and, where these are judged one by one, an output. */
static zt_status print_many(zt_cli *cli, const train_scores *scores, int n)
{
    char name[MEASURES][CELL], output[CELL];
    const char *columns[2 + MEASURES] = {"network", "output"};
    for (int i = 0; i < MEASURES; i++) {
        snprintf(name[i], CELL, "#%s", measure_name(i));
        columns[2 + i] = name[i];
    }
    zt_table *t = zt_table_new(cli, "zt.eval/1", columns, 2 + MEASURES);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < n && !s; i++) {
        s = put_row(t, scores[i].name, "all", &scores[i].all);
        for (int64_t k = 0; k < scores[i].n_values && !s; k++) {
            snprintf(output, CELL, "%" PRId64, k);
            s = put_row(t, scores[i].name, output, &scores[i].output[k]);
        }
    }
    if (!s) s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

zt_status train_print_scores(zt_cli *cli, const train_scores *scores, int n)
{
    if (cli->format == ZT_FMT_JSON) return print_json(cli, scores, n);
    return n == 1 && !scores->n_values ? print_one(cli, &scores->all) : print_many(cli, scores, n);
}
