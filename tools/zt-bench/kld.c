/* kld.c - zt-bench kld A B -i TEXT: how far model B's probabilities are from model A's.
 *
 * The text goes in windows as zt-run --perplexity takes it; both models read the same tokens, and
 * of every token that is scored both rows of logits are held against each other (zt_kl in llm.h).
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct kld_side {
    const char *name;
    zt_gguf *file;
    zt_vocab *vocab;
    zt_ids ids;
    zt_llm *llm;
    zt_score score;
} kld_side;

typedef struct kld_subject {
    zt_cli *cli;
    const bench_options *options;
    zt_engine *engine;
    int64_t threads, window, from, windows;
    kld_side first, second;
    zt_kl divergence;
    bench_list list;
} kld_subject;

/* ---- what is compared ------------------------------------------------------------------------ */

static zt_status open_side(kld_subject *subject, kld_side *side, const char *text, size_t bytes)
{
    zt_ctx *ctx = subject->cli->ctx;
    side->file = zt_model_open(ctx, side->name);
    side->vocab = side->file ? zt_vocab_open(side->file) : NULL;
    if (!side->vocab) return zt_ctx_status(ctx);
    return zt_vocab_encode(side->vocab, text, bytes, ZT_TOK_BOS_RULE, &side->ids);
}

/* Probabilities of different tokens say nothing of each other. */
static zt_status check_tokens(const kld_subject *subject)
{
    const zt_ids *ids_a = &subject->first.ids, *ids_b = &subject->second.ids;
    int64_t tokens = (int64_t)ids_a->count;
    if (ids_a->count != ids_b->count || (ids_a->count && memcmp(ids_a->id, ids_b->id, ids_a->count * sizeof *ids_a->id)))
        return zt_fail(subject->cli->ctx, ZT_EDATA, "%s: tokenizes the text differently from %s", subject->second.name,
                       subject->first.name);
    if (tokens < subject->window)
        return zt_fail(subject->cli->ctx, ZT_EDATA, "%s: %" PRId64 " tokens are too few for a window of %" PRId64 ": see --ctx",
                       subject->options->input, tokens, subject->window);
    return ZT_OK;
}

static zt_status open_llm(kld_subject *subject, kld_side *side)
{
    zt_llm_opts llm_options = {.engine = subject->engine,
                               .ctx_len = subject->window,
                               .exact = subject->options->exact,
                               .kv = ZT_DTYPE_COUNT,
                               .strict = subject->cli->strict};
    side->llm = zt_llm_open(side->file, &llm_options);
    if (!side->llm) return zt_ctx_status(subject->cli->ctx);
    int64_t most = zt_llm_get(side->llm).ctx_len;
    if (subject->window > most) subject->window = most; /* all that the model was trained for */
    return ZT_OK;
}

static zt_status open_both(kld_subject *subject)
{
    size_t bytes;
    char *text = zt_read_all(subject->cli->ctx, subject->options->input, &bytes);
    zt_status status =
        text ? zt_foreign_text_fail(subject->cli->ctx, subject->options->input, text, bytes) : zt_ctx_status(subject->cli->ctx);
    if (!status) status = open_side(subject, &subject->first, text, bytes);
    if (!status) status = open_side(subject, &subject->second, text, bytes);
    zt_free(subject->cli->ctx, text);
    if (!status) subject->engine = zt_cli_engine_with(subject->cli, subject->threads);
    if (!status && !subject->engine) status = zt_ctx_status(subject->cli->ctx);
    if (!status) status = open_llm(subject, &subject->first);
    if (!status) status = open_llm(subject, &subject->second);
    if (!status) status = check_tokens(subject);
    return status;
}

static void close_side(zt_ctx *ctx, kld_side *side)
{
    zt_llm_close(side->llm);
    zt_ids_fini(ctx, &side->ids);
    zt_vocab_free(side->vocab);
    zt_gguf_close(side->file);
}

/* ---- measure --------------------------------------------------------------------------------- */

static zt_status score_models(kld_subject *subject)
{
    zt_status status = ZT_OK;
    subject->windows = (int64_t)subject->first.ids.count / subject->window;
    subject->from = subject->options->from < 0 ? subject->window / 2 : subject->options->from;
    if (subject->from > subject->window - 2)
        return zt_fail(subject->cli->ctx, ZT_EUSAGE,
                       "--from %" PRId64 ": no token of a window of %" PRId64 " tokens is left to score", subject->from,
                       subject->window);
    for (int64_t i = 0; i < subject->windows && !status; i++) {
        const int32_t *ids = zt_score_window(subject->first.vocab, &subject->first.ids, subject->window, i);
        status = zt_cli_interrupted() ? ZT_EINTR
                                      : zt_llm_score_pair(subject->first.llm, subject->second.llm, ids, (size_t)subject->window,
                                                          (size_t)subject->from, &subject->first.score, &subject->second.score,
                                                          &subject->divergence);
        zt_progress(subject->cli,
                    &(zt_work){"kld", subject->options->input, "windows", (double)(i + 1), (double)subject->windows});
    }
    return status;
}

/* ---- figures --------------------------------------------------------------------------------- */

static zt_status add_figure(kld_subject *subject, const char *test, double value, double error, const char *unit)
{
    bench_result *result = bench_add(subject->cli->ctx, &subject->list, test, subject->threads, unit, 1);
    if (!result) return zt_ctx_status(subject->cli->ctx);
    result->samples[result->count++] = value;
    result->standard_error = error;
    return ZT_OK;
}

static zt_status add_divergence(kld_subject *subject)
{
    static const struct {
        const char *test;
        double q;
    } quantiles[] = {{"kl_min", 0},   {"kl_median", .5},  {"kl_p90", .9}, {"kl_p95", .95},
                     {"kl_p99", .99}, {"kl_p99.9", .999}, {"kl_max", 1}};
    double error, mean = zt_kl_mean(&subject->divergence, &error);
    zt_status status = add_figure(subject, "kl_mean", mean, error, "nats");
    zt_kl_sort(&subject->divergence);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles && !status; i++)
        status = add_figure(subject, quantiles[i].test, zt_kl_quantile(&subject->divergence, quantiles[i].q), 0, "nats");
    return status;
}

static zt_status add_figures(kld_subject *subject)
{
    double count = (double)subject->divergence.count, same = (double)subject->divergence.same_top / count, error;
    zt_status status = add_divergence(subject);
    if (!status) status = add_figure(subject, "same_top", same, count > 1 ? sqrt(same * (1 - same) / (count - 1)) : 0, "share");
    double value = zt_score_perplexity(&subject->first.score, &error);
    if (!status) status = add_figure(subject, "perplexity_a", value, error, "");
    value = zt_score_perplexity(&subject->second.score, &error);
    if (!status) status = add_figure(subject, "perplexity_b", value, error, "");
    value = zt_kl_ratio(&subject->divergence, &error);
    if (!status) status = add_figure(subject, "perplexity_ratio", value, error, "");
    if (!status) status = add_figure(subject, "tokens", count, 0, "");
    return status ? status : add_figure(subject, "windows", (double)subject->windows, 0, "");
}

enum { N_COLUMNS = 4 };
static const char *const columns[N_COLUMNS] = {"test", "#value", "#error", "unit"};

static zt_status print_rows(kld_subject *subject)
{
    zt_table *table = zt_table_new(subject->cli, "kld", columns, N_COLUMNS);
    zt_status status = table ? ZT_OK : zt_ctx_status(subject->cli->ctx);
    for (const bench_result *result = subject->list.first; result && !status; result = result->next) {
        char value[32], error[32];
        snprintf(value, sizeof value, "%.8g", result->samples[0]);
        snprintf(error, sizeof error, "%.3g", result->standard_error);
        const char *cell[N_COLUMNS] = {result->test, value, result->standard_error > 0 ? error : NULL, result->unit};
        status = zt_table_row(table, cell);
    }
    if (!status) status = bench_write_table(subject->cli, table);
    zt_table_free(table);
    return status;
}

static zt_status run_kld(kld_subject *subject)
{
    zt_status status = open_both(subject);
    if (!status) status = score_models(subject);
    if (!status) status = add_figures(subject);
    if (!status) status = bench_list_model(subject->cli->ctx, &subject->list, subject->second.file);
    if (status) return status;
    snprintf(subject->list.engine, sizeof subject->list.engine, "%s", subject->engine->vt->name);
    status = bench_keep(subject->cli, subject->options, &subject->list);
    if (status) return status;
    return bench_is_list(subject->cli) ? bench_print(subject->cli, &subject->list) : print_rows(subject);
}

zt_status bench_kld(zt_cli *cli, const bench_options *options)
{
    bench_numbers threads;
    zt_status status = bench_threads_of(cli->ctx, options, &threads);
    if (!status && threads.count > 1)
        status = zt_fail(cli->ctx, ZT_EUSAGE, "-t '%s': kld needs one number of threads", options->threads);
    if (!status && cli->n_operands != 3) status = zt_fail(cli->ctx, ZT_EUSAGE, "kld needs two models: kld A B -i TEXT");
    if (!status && !options->input) status = zt_fail(cli->ctx, ZT_EUSAGE, "no text: specify one with -i");
    if (status) return status;
    kld_subject subject = {.cli = cli,
                           .options = options,
                           .threads = threads.values[0],
                           .window = options->ctx,
                           .first.name = cli->operands[1],
                           .second.name = cli->operands[2]};
    status = run_kld(&subject);
    bench_list_free(cli->ctx, &subject.list);
    zt_kl_fini(cli->ctx, &subject.divergence);
    close_side(cli->ctx, &subject.first);
    close_side(cli->ctx, &subject.second);
    if (subject.engine) zt_engine_close(subject.engine);
    return status;
}
