/* ensemble.c - owns what zt-train --eval prints of several networks together: pairs, votes, the majority vote. */
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CELL = 32 };

struct train_ensemble {
    zt_cli *cli;
    const train_scores *scores; /* [count] */
    int count;
    int64_t predictions; /* of each network: one for each sample, or for each of its outputs */
    bool **masks;        /* [count]: which of them are correct */
    zt_ensemble_pair *pairs;
    int pair_count;    /* those of enough coverage */
    double *votes;     /* [count]: of one prediction */
    zt_deviations all; /* of the majority vote, of classes */
};

static int64_t count_predictions(const train_scores *scores) { return scores->rows * (scores->n_values ? scores->n_values : 1); }

/* A class is correct if it is the expected one, a value if it is within the first bucket of deviations. */
static bool is_correct(const train_scores *scores, const zt_deviation *deviation)
{
    return scores->are_classes ? deviation->actual == deviation->expected : deviation->bucket == 0;
}

/* The majority vote on prediction i. */
static zt_deviation vote_on(const train_ensemble *ensemble, int64_t i, int *supporters)
{
    for (int model = 0; model < ensemble->count; model++) ensemble->votes[model] = ensemble->scores[model].each[i].actual;
    double winner = zt_majority_vote(ensemble->votes, ensemble->count, supporters);
    return zt_deviation_of(ensemble->scores->each[i].expected, winner);
}

static zt_status make_lists(train_ensemble *ensemble)
{
    zt_ctx *ctx = ensemble->cli->ctx;
    size_t count = (size_t)ensemble->count;
    ensemble->masks = zt_calloc(ctx, count, sizeof *ensemble->masks);
    ensemble->votes = zt_calloc(ctx, count, sizeof *ensemble->votes);
    ensemble->pairs = zt_calloc(ctx, count * (count - 1) / 2, sizeof *ensemble->pairs);
    if (!ensemble->masks || !ensemble->votes || !ensemble->pairs) return ZT_ENOMEM;
    for (int model = 0; model < ensemble->count; model++) {
        bool *mask = ensemble->masks[model] = zt_calloc(ctx, (size_t)ensemble->predictions + 1, sizeof *mask);
        if (!mask) return ZT_ENOMEM;
        for (int64_t i = 0; i < ensemble->predictions; i++)
            mask[i] = is_correct(&ensemble->scores[model], &ensemble->scores[model].each[i]);
    }
    return ZT_OK;
}

train_ensemble *train_ensemble_open(zt_cli *cli, const train_scores *scores, int count, double min_coverage)
{
    for (int model = 1; model < count; model++)
        if (count_predictions(&scores[model]) != count_predictions(scores) || scores[model].are_classes != scores->are_classes) {
            zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s predict different things: %" PRId64 " %s and %" PRId64 " %s", scores->name,
                    scores[model].name, count_predictions(scores), scores->are_classes ? "classes" : "values",
                    count_predictions(&scores[model]), scores[model].are_classes ? "classes" : "values");
            return NULL;
        }
    train_ensemble *ensemble = zt_calloc(cli->ctx, 1, sizeof *ensemble);
    if (!ensemble) return NULL;
    *ensemble = (train_ensemble){.cli = cli, .scores = scores, .count = count, .predictions = count_predictions(scores)};
    if (make_lists(ensemble)) {
        train_ensemble_free(ensemble);
        return NULL;
    }
    ensemble->pair_count =
        zt_ensemble_pairs((const bool *const *)ensemble->masks, count, ensemble->predictions, min_coverage, ensemble->pairs);
    for (int64_t i = 0; i < ensemble->predictions && scores->are_classes; i++) {
        zt_deviation deviation = vote_on(ensemble, i, NULL);
        zt_deviations_add(&ensemble->all, &deviation);
    }
    return ensemble;
}

void train_ensemble_free(train_ensemble *ensemble)
{
    if (!ensemble) return;
    zt_ctx *ctx = ensemble->cli->ctx;
    for (int model = 0; ensemble->masks && model < ensemble->count; model++) zt_free(ctx, ensemble->masks[model]);
    zt_free(ctx, ensemble->masks);
    zt_free(ctx, ensemble->votes);
    zt_free(ctx, ensemble->pairs);
    zt_free(ctx, ensemble);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static zt_status print_pairs(const train_ensemble *ensemble)
{
    static const char *const columns[] = {"a", "b", "#coverage", "#overlap", "#similarity"};
    char text[3][CELL];
    zt_table *table = zt_table_new(ensemble->cli, "zt.ensemble/1", columns, 5);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < ensemble->pair_count && !status; i++) {
        const zt_ensemble_pair *pair = &ensemble->pairs[i];
        snprintf(text[0], CELL, "%.10g", pair->coverage);
        snprintf(text[1], CELL, "%.10g", pair->overlap);
        snprintf(text[2], CELL, "%.10g", pair->similarity);
        status = zt_table_row(table, (const char *const[]){ensemble->scores[pair->a].name, ensemble->scores[pair->b].name,
                                                           text[0], text[1], text[2]});
    }
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* A row for each prediction: what each network says, and the majority. */
static zt_status print_votes(const train_ensemble *ensemble)
{
    enum { FIXED = 5 };
    static const char *const fixed[FIXED] = {"#sample", "#output", "#expected", "#majority", "#supporters"};
    zt_ctx *ctx = ensemble->cli->ctx;
    int columns = FIXED + ensemble->count;
    int64_t each = ensemble->scores->n_values ? ensemble->scores->n_values : 1;
    const char **names = zt_calloc(ctx, (size_t)columns, sizeof *names);
    const char **cells = zt_calloc(ctx, (size_t)columns, sizeof *cells);
    char(*texts)[CELL] = zt_calloc(ctx, (size_t)columns, sizeof *texts);
    for (int i = 0; names && i < columns; i++) names[i] = i < FIXED ? fixed[i] : ensemble->scores[i - FIXED].name;
    for (int i = 0; cells && texts && i < columns; i++) cells[i] = texts[i];
    zt_table *table = names && cells && texts ? zt_table_new(ensemble->cli, "zt.ensemble/1", names, columns) : NULL;
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t row = 0; row < ensemble->predictions && !status; row++) {
        int supporters;
        zt_deviation vote = vote_on(ensemble, row, &supporters);
        snprintf(texts[0], CELL, "%" PRId64, row / each);
        snprintf(texts[1], CELL, "%" PRId64, row % each);
        snprintf(texts[2], CELL, "%.10g", vote.expected);
        snprintf(texts[3], CELL, "%.10g", vote.actual);
        snprintf(texts[4], CELL, "%d", supporters);
        for (int model = 0; model < ensemble->count; model++)
            snprintf(texts[FIXED + model], CELL, "%.10g", ensemble->scores[model].each[row].actual);
        status = zt_table_row(table, cells);
    }
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    zt_free(ctx, names);
    zt_free(ctx, cells);
    zt_free(ctx, texts);
    return status;
}

zt_status train_print_ensemble(const train_ensemble *ensemble, int what)
{
    if (what == TRAIN_ENSEMBLE_PAIRS) return print_pairs(ensemble);
    if (!ensemble->scores->are_classes)
        return zt_fail(ensemble->cli->ctx, ZT_EUSAGE, "%s predicts values: a majority vote needs classes",
                       ensemble->scores->name);
    return what == TRAIN_ENSEMBLE_VOTES ? print_votes(ensemble) : train_print_measures(ensemble->cli, &ensemble->all);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_pairs(const train_ensemble *ensemble, zt_str *text)
{
    zt_str_puts(text, "\"pairs\":[");
    for (int i = 0; i < ensemble->pair_count; i++) {
        const zt_ensemble_pair *pair = &ensemble->pairs[i];
        const char *a = ensemble->scores[pair->a].name, *b = ensemble->scores[pair->b].name;
        zt_str_puts(text, i ? ",{\"a\":" : "{\"a\":");
        zt_str_put_json(text, a, strlen(a));
        zt_str_puts(text, ",\"b\":");
        zt_str_put_json(text, b, strlen(b));
        zt_str_putc(text, ',');
        train_put_number(text, "coverage", pair->coverage);
        zt_str_putc(text, ',');
        train_put_number(text, "overlap", pair->overlap);
        zt_str_putc(text, ',');
        train_put_number(text, "similarity", pair->similarity);
        zt_str_putc(text, '}');
    }
    zt_str_putc(text, ']');
}

void train_put_ensemble(const train_ensemble *ensemble, zt_str *text)
{
    zt_str_puts(text, ",\"ensemble\":{");
    put_pairs(ensemble, text);
    if (ensemble->scores->are_classes) {
        zt_str_puts(text, ",\"majority\":{");
        train_put_measures(text, &ensemble->all);
        zt_str_puts(text, ",\"votes\":[");
        for (int64_t i = 0; i < ensemble->predictions; i++) {
            if (i) zt_str_putc(text, ',');
            zt_str_put_double(text, vote_on(ensemble, i, NULL).actual);
        }
        zt_str_puts(text, "]}");
    }
    zt_str_putc(text, '}');
}
