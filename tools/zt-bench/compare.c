/* compare.c - zt-bench compare: is the new slower than the old, beyond noise?
 *
 * Rows are those that both have, by test, threads and unit. The time that the new takes of what the
 * old takes is a ratio of medians with an interval (ratio.c). "slower" is said when the whole
 * interval lies beyond the threshold, and of files the ratio of the best samples too; "faster" when
 * it lies beyond on the other side, "same" when all of it lies within, and "unsure" of the rest:
 * more samples would tell. Only "slower" makes the answer no.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a row says; the names of the table's last column. */
static const char *const verdicts[] = {"slower", "faster", "same", "unsure", "told"};
enum { SLOWER, FASTER, SAME, UNSURE, TOLD };

/* Two processes differ by their luck, in pages, clock and neighbours, of which no sample of theirs
 * knows: by so much the interval of two files is wider, each way (bench/results/zt-bench.md). */
static const double BETWEEN_RUNS = 0.02;

typedef struct comparison {
    const bench_result *old, *now;
    double median[2];
    bench_ratio is; /* of the unit's figure, new over old */
    double best;    /* the same of the best tenth of the samples */
    int verdict;
} comparison;

typedef struct judgement {
    zt_cli *cli;
    const bench_list *old, *now;
    double threshold; /* .05 */
    int pairs; /* looks at pairs, 0 of files (bench_ratio_of) */
    comparison *row; /* [n] */
    int64_t n;
} judgement;

/* ---- options --------------------------------------------------------------------------------- */

zt_status bench_threshold(zt_ctx *ctx, const char *text, double *share)
{
    char number[32], shown[64];
    size_t n = strlen(text);
    bool percent = n > 0 && text[n - 1] == '%';
    snprintf(number, sizeof number, "%.*s", (int)(n - percent < 31 ? n - percent : 31), text);
    if (n > 30 || !zt_parse_double(number, share) || !isfinite(*share) || *share < 0 ||
        (percent ? *share >= 1e4 : *share >= 100))
        return zt_fail(ctx, ZT_EUSAGE, "--threshold '%s': not a share such as 5%% or 0.05",
                       zt_escape(shown, sizeof shown, text, n < 40 ? n : 40));
    if (percent) *share /= 100;
    return ZT_OK;
}

/* ---- what can be compared -------------------------------------------------------------------- */

static zt_status unlike(zt_cli *cli, const char *what, const char *old, const char *now)
{
    char shown[2][96];
    return zt_fail(cli->ctx, ZT_EDATA, "unlike machines: %s '%s' and '%s' (--force compares)", what,
                   zt_escape(shown[0], sizeof shown[0], old, strnlen(old, 90)),
                   zt_escape(shown[1], sizeof shown[1], now, strnlen(now, 90)));
}

static zt_status check_machines(zt_cli *cli, const bench_list *old, const bench_list *now)
{
    const bench_machine_id *a = &old->machine, *b = &now->machine;
    char count[2][24];
    snprintf(count[0], sizeof count[0], "%" PRId64, a->threads);
    snprintf(count[1], sizeof count[1], "%" PRId64, b->threads);
    const struct {
        const char *what, *old, *now;
    } same[] = {{"os", a->os, b->os}, {"cpu", a->cpu, b->cpu}, {"isa", a->isa, b->isa},
                {"processors", count[0], count[1]}, {"engine", old->engine, now->engine}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(same[i].old, same[i].now))
            return unlike(cli, same[i].what, same[i].old, same[i].now);
    return ZT_OK;
}

static void note_models(zt_cli *cli, const bench_list *old, const bench_list *now)
{
    if (old->model_id && now->model_id && strcmp(old->model_id, now->model_id))
        zt_cli_note(cli, "the models are not the same");
}

static bool alike(const bench_result *a, const bench_result *b, bool by_name)
{
    return a->threads == b->threads && !strcmp(a->unit, b->unit) &&
           (!by_name || !strcmp(a->test, b->test));
}

/* The row of a list that is compared with another's: of its name, or, of two subjects that were put
 * side by side under names of their own, of its unit. */
static const bench_result *find(const bench_list *l, const bench_result *like, bool paired)
{
    const bench_result *r = l->first, *by_unit = l->first;
    while (r && !alike(r, like, true)) r = r->next;
    if (r || !paired) return r;
    while (by_unit && !alike(by_unit, like, false)) by_unit = by_unit->next;
    return by_unit;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Of a rate more is better, of all else less. */
static bool is_rate(const char *unit)
{
    size_t n = strlen(unit);
    return n >= 2 && !strcmp(unit + n - 2, "/s");
}

/* Parts of a command's time, which the system tells apart by ticks: they are told, not judged. */
static bool is_told(const char *test) { return !strcmp(test, "user") || !strcmp(test, "sys"); }

static int verdict_of(const comparison *c, double threshold)
{
    bool rate = is_rate(c->now->unit);
    double low = rate ? 1 / c->is.ci95[1] : c->is.ci95[0];
    double high = rate ? 1 / c->is.ci95[0] : c->is.ci95[1];
    if (is_told(c->now->test)) return TOLD;
    double best = rate ? 1 / c->best : c->best;
    if (low > 1 + threshold) return best > 1 + threshold ? SLOWER : UNSURE;
    if (high < 1 / (1 + threshold)) return FASTER;
    return low >= 1 / (1 + threshold) && high <= 1 + threshold ? SAME : UNSURE;
}

static bool positive(const bench_result *r)
{
    for (int64_t i = 0; i < r->n; i++)
        if (!(r->samples[i] > 0)) return false;
    return true;
}

/* Of samples in rising order, the one that a tenth are better than. */
static double best_of(const double *x, int64_t n, bool rate)
{
    return rate ? x[n - 1 - (n - 1) / 10] : x[(n - 1) / 10];
}

/* Noise only takes time. Where it took it from more than half of a file's samples the medians
 * differ, but the best of both still are alike; of pairs, which share it, the interval says all. */
static double ratio_of_best(const comparison *c, bool paired, double *scratch)
{
    bool rate = is_rate(c->now->unit);
    if (paired) return c->is.ratio;
    bench_sort(scratch, c->old->samples, c->old->n);
    double old = best_of(scratch, c->old->n, rate);
    bench_sort(scratch, c->now->samples, c->now->n);
    return best_of(scratch, c->now->n, rate) / old;
}

/* What the two rows of c say. scratch: room for the samples of one. */
static zt_status compare_two(const judgement *j, comparison *c, double *scratch)
{
    const bench_result *old = c->old, *now = c->now;
    c->is = (bench_ratio){NAN, {0, INFINITY}};
    c->median[0] = bench_summarize(old->samples, old->n, scratch).median;
    c->median[1] = bench_summarize(now->samples, now->n, scratch).median;
    zt_status s = ZT_OK; /* a ratio of what may be 0 says nothing */
    if (positive(old) && positive(now))
        s = bench_ratio_of(j->cli->ctx, (bench_samples){old->samples, old->n},
                           (bench_samples){now->samples, now->n}, j->pairs, j->cli->seed, &c->is);
    c->best = isnan(c->is.ratio) ? 1 : ratio_of_best(c, j->pairs, scratch);
    if (!j->pairs) {
        c->is.ci95[0] /= 1 + BETWEEN_RUNS;
        c->is.ci95[1] *= 1 + BETWEEN_RUNS;
    }
    c->verdict = verdict_of(c, j->threshold);
    return s;
}

static zt_status compare_row(judgement *j, const bench_result *now, double *scratch)
{
    const bench_result *old = find(j->old, now, j->pairs);
    if (!old) {
        zt_cli_note(j->cli, "only in the new: %s", now->test);
        return ZT_OK;
    }
    comparison *c = &j->row[j->n++];
    *c = (comparison){.old = old, .now = now};
    zt_status s = compare_two(j, c, scratch);
    if (c->verdict == SLOWER) zt_cli_no(j->cli);
    return s;
}

static zt_status compare_rows(judgement *j)
{
    int64_t n = 0;
    for (const bench_result *r = j->now->first; r; r = r->next) n++;
    double *scratch = zt_calloc(j->cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    j->row = scratch ? zt_calloc(j->cli->ctx, (size_t)n + 1, sizeof *j->row) : NULL;
    zt_status s = j->row ? ZT_OK : zt_ctx_status(j->cli->ctx);
    for (const bench_result *r = j->now->first; r && !s; r = r->next)
        s = compare_row(j, r, scratch);
    for (const bench_result *r = j->old->first; r && !s; r = r->next)
        if (!find(j->now, r, j->pairs)) zt_cli_note(j->cli, "only in the old: %s", r->test);
    zt_free(j->cli->ctx, scratch);
    if (!s && j->n == 0) s = zt_fail(j->cli->ctx, ZT_EDATA, "nothing that both have measured");
    return s;
}

/* ---- the answer ------------------------------------------------------------------------------ */

enum { N_COLUMNS = 9 };
static const char *const columns[N_COLUMNS] = {"test",   "#threads", "unit",  "#old",   "#new",
                                               "#ratio", "#low",     "#high", "verdict"};

static zt_status add_row(zt_table *t, const comparison *c)
{
    const double value[] = {c->median[0], c->median[1], c->is.ratio, c->is.ci95[0], c->is.ci95[1]};
    char threads[24], number[5][BENCH_NUMBER];
    snprintf(threads, sizeof threads, "%" PRId64, c->now->threads);
    const char *cell[N_COLUMNS] = {c->now->test, threads, c->now->unit};
    for (int i = 0; i < (isfinite(c->is.ratio) ? isfinite(c->is.ci95[1]) ? 5 : 3 : 2); i++)
        cell[3 + i] = bench_number(number[i], value[i], i < 2 ? 5 : 4);
    cell[8] = verdicts[c->verdict];
    return zt_table_row(t, cell);
}

static zt_status print_rows(const judgement *j)
{
    zt_table *t = zt_table_new(j->cli, "compare", columns, N_COLUMNS);
    zt_status s = t ? ZT_OK : zt_ctx_status(j->cli->ctx);
    for (int64_t i = 0; i < j->n && !s; i++) s = add_row(t, &j->row[i]);
    if (!s) s = bench_write_table(j->cli, t);
    zt_table_free(t);
    return s;
}

static void put_row(zt_str *s, const comparison *c)
{
    zt_str_puts(s, "{\"test\":");
    zt_str_put_json(s, c->now->test, strlen(c->now->test));
    zt_str_printf(s, ",\"threads\":%" PRId64 ",\"unit\":", c->now->threads);
    zt_str_put_json(s, c->now->unit, strlen(c->now->unit));
    zt_str_printf(s, ",\"old\":%.9g,\"new\":%.9g", c->median[0], c->median[1]);
    if (isfinite(c->is.ratio))
        zt_str_printf(s, ",\"ratio\":%.9g", c->is.ratio);
    else
        zt_str_puts(s, ",\"ratio\":null");
    if (isfinite(c->is.ci95[1]))
        zt_str_printf(s, ",\"ci95\":[%.9g,%.9g]", c->is.ci95[0], c->is.ci95[1]);
    else
        zt_str_puts(s, ",\"ci95\":null");
    zt_str_printf(s, ",\"verdict\":\"%s\"}", verdicts[c->verdict]);
}

static zt_status print_json(const judgement *j)
{
    zt_str s;
    zt_str_init(&s, j->cli->ctx);
    zt_str_printf(&s, "\"threshold\":%.9g,\"paired\":%s,\"seed\":%" PRIu64 ",\"comparisons\":[",
                  j->threshold, j->pairs ? "true" : "false", j->cli->seed);
    for (int64_t i = 0; i < j->n; i++) {
        zt_str_puts(&s, i ? "," : "");
        put_row(&s, &j->row[i]);
    }
    zt_str_puts(&s, "]");
    zt_status st = zt_ctx_status(j->cli->ctx);
    if (!st) st = bench_print_both(j->cli, j->old, j->now, &s);
    zt_str_fini(&s);
    return st;
}

/* ---- junit: a case a row, failed where it is slower ------------------------------------------ */

static zt_status fill_case(zt_arena *a, const comparison *c, bench_case *to)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %.6g, was %.6g %s, ratio %.4f, interval %.4f to %.4f",
             verdicts[c->verdict], c->median[1], c->median[0], c->now->unit, c->is.ratio,
             c->is.ci95[0], c->is.ci95[1]);
    char *said = zt_arena_strndup(a, text, strlen(text));
    snprintf(text, sizeof text, " (%" PRId64 " threads, %.32s)", c->now->threads, c->now->unit);
    size_t n = strlen(c->now->test), more = strlen(text) + 1;
    char *name = zt_arena_alloc(a, n + more);
    if (!said || !name) return ZT_ENOMEM;
    memcpy(name, c->now->test, n);
    memcpy(name + n, text, more);
    *to = (bench_case){.name = name, .text = said, .failure = c->verdict == SLOWER ? said : NULL};
    return ZT_OK;
}

static zt_status print_junit(const judgement *j)
{
    zt_arena *a = zt_arena_new(j->cli->ctx, 0);
    bench_case *c = a ? zt_arena_alloc(a, (size_t)(j->n + 1) * sizeof *c) : NULL;
    zt_status s = c ? ZT_OK : zt_ctx_status(j->cli->ctx);
    for (int64_t i = 0; i < j->n && !s; i++) s = fill_case(a, &j->row[i], &c[i]);
    if (!s) s = bench_junit(j->cli, "compare", c, j->n);
    zt_arena_free(a);
    return s;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

int bench_sides(const bench_options *o) { return o->vs ? 2 : 1; }

int bench_turn(int sides, int64_t round, int turn)
{
    return sides == 2 && round & 1 ? 1 - turn : turn;
}

int64_t bench_most(const bench_options *o) { return o->reps << (o->looks - 1); }

zt_status bench_more(zt_cli *cli, const bench_options *o, const bench_result *old,
                     const bench_result *now, int64_t *rounds)
{
    judgement j = {.cli = cli, .threshold = o->beyond, .pairs = o->looks};
    comparison c = {.old = old, .now = now};
    if (*rounds >= bench_most(o)) return ZT_OK;
    double *scratch = zt_calloc(cli->ctx, (size_t)*rounds, sizeof *scratch);
    zt_status s = scratch ? compare_two(&j, &c, scratch) : zt_ctx_status(cli->ctx);
    if (!s && c.verdict == UNSURE && !isnan(c.is.ratio)) *rounds *= 2;
    zt_free(cli->ctx, scratch);
    return s;
}

zt_status bench_more_of(zt_cli *cli, const bench_options *o, const bench_list l[2],
                        int64_t *rounds)
{
    zt_status s = ZT_OK;
    int64_t had = *rounds;
    for (const bench_result *now = l[1].first; now && !s && *rounds == had; now = now->next) {
        const bench_result *old = find(&l[0], now, true);
        if (old) s = bench_more(cli, o, old, now, rounds);
    }
    return s;
}

/* ---- commands -------------------------------------------------------------------------------- */

static zt_status judge(zt_cli *cli, const bench_options *o, const bench_list *old,
                       const bench_list *now, int pairs)
{
    judgement j = {.cli = cli, .old = old, .now = now, .threshold = o->beyond, .pairs = pairs};
    zt_status s = compare_rows(&j);
    if (!s)
        s = cli->format == ZT_FMT_JSON    ? print_json(&j)
            : cli->format == ZT_FMT_JUNIT ? print_junit(&j)
                                          : print_rows(&j);
    zt_free(cli->ctx, j.row);
    return s;
}

zt_status bench_answer(zt_cli *cli, const bench_options *o, const bench_list l[2])
{
    zt_status s = ZT_OK;
    for (int k = 0; k < bench_sides(o) && !s; k++) s = bench_keep(cli, o, &l[k]);
    if (s) return s;
    return o->vs ? judge(cli, o, &l[0], &l[1], o->looks) : bench_print(cli, &l[0]);
}

zt_status bench_compare(zt_cli *cli, const bench_options *o)
{
    bench_list old = {0}, now = {0};
    if (o->vs) return bench_versus(cli, o);
    if (zt_cli_refuse_given(cli, BENCH_MEASURING "|reps|prompt|generate|exact|bind|ops|history|progress",
                            "compare without --vs: nothing is measured"))
        return ZT_EUSAGE;
    if (cli->n_operands != 3)
        return zt_fail(cli->ctx, ZT_EUSAGE, "compare takes two files, OLD and NEW, not %d",
                       cli->n_operands - 1);
    zt_status s = bench_read(cli->ctx, cli->operands[1], &old);
    if (!s) s = bench_read(cli->ctx, cli->operands[2], &now);
    if (!s && !cli->force) s = check_machines(cli, &old, &now);
    if (!s) note_models(cli, &old, &now);
    if (!s) s = judge(cli, o, &old, &now, 0);
    bench_list_free(cli->ctx, &old);
    bench_list_free(cli->ctx, &now);
    return s;
}
