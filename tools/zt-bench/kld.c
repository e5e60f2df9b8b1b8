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

typedef struct side {
    const char *name;
    zt_gguf *file;
    zt_vocab *vocab;
    zt_ids ids;
    zt_llm *llm;
    zt_score score;
} side;

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    zt_engine *engine;
    int64_t threads, window, from, windows;
    side a, b;
    zt_kl kl;
    bench_list list;
} subject;

/* ---- what is compared ------------------------------------------------------------------------ */

static zt_status open_side(subject *s, side *d, const char *text, size_t bytes)
{
    zt_ctx *ctx = s->cli->ctx;
    d->file = zt_model_open(ctx, d->name);
    d->vocab = d->file ? zt_vocab_open(d->file) : NULL;
    if (!d->vocab) return zt_ctx_status(ctx);
    return zt_vocab_encode(d->vocab, text, bytes, ZT_TOK_BOS_RULE, &d->ids);
}

/* Probabilities of different tokens say nothing of each other. */
static zt_status check_tokens(const subject *s)
{
    const zt_ids *a = &s->a.ids, *b = &s->b.ids;
    int64_t tokens = (int64_t)a->count;
    if (a->count != b->count || (a->count && memcmp(a->id, b->id, a->count * sizeof *a->id)))
        return zt_fail(s->cli->ctx, ZT_EDATA, "%s: reads the text as other tokens than %s",
                       s->b.name, s->a.name);
    if (tokens < s->window)
        return zt_fail(s->cli->ctx, ZT_EDATA,
                       "%s: %" PRId64 " tokens are too few for a window of %" PRId64 ": see --ctx",
                       s->o->input, tokens, s->window);
    return ZT_OK;
}

static zt_status open_llm(subject *s, side *d)
{
    zt_llm_opts lo = {.engine = s->engine, .ctx_len = s->window, .exact = s->o->exact,
                      .kv = ZT_DTYPE_COUNT, .strict = s->cli->strict};
    d->llm = zt_llm_open(d->file, &lo);
    if (!d->llm) return zt_ctx_status(s->cli->ctx);
    int64_t most = zt_llm_get(d->llm).ctx_len;
    if (s->window > most) s->window = most; /* all that the model was trained for */
    return ZT_OK;
}

static zt_status open_both(subject *s)
{
    size_t bytes;
    char *text = zt_read_all(s->cli->ctx, s->o->input, &bytes);
    zt_status st = text ? zt_foreign_text_fail(s->cli->ctx, s->o->input, text, bytes)
                        : zt_ctx_status(s->cli->ctx);
    if (!st) st = open_side(s, &s->a, text, bytes);
    if (!st) st = open_side(s, &s->b, text, bytes);
    zt_free(s->cli->ctx, text);
    if (!st) s->engine = zt_cli_engine_with(s->cli, s->threads);
    if (!st && !s->engine) st = zt_ctx_status(s->cli->ctx);
    if (!st) st = open_llm(s, &s->a);
    if (!st) st = open_llm(s, &s->b);
    if (!st) st = check_tokens(s);
    return st;
}

static void close_side(zt_ctx *ctx, side *d)
{
    zt_llm_close(d->llm);
    zt_ids_fini(ctx, &d->ids);
    zt_vocab_free(d->vocab);
    zt_gguf_close(d->file);
}

/* ---- measure --------------------------------------------------------------------------------- */

static zt_status score(subject *s)
{
    zt_status st = ZT_OK;
    s->windows = (int64_t)s->a.ids.count / s->window;
    s->from = s->o->from < 0 ? s->window / 2 : s->o->from;
    if (s->from > s->window - 2)
        return zt_fail(s->cli->ctx, ZT_EUSAGE,
                       "--from %" PRId64 ": of a window of %" PRId64
                       " tokens none is left to score", s->from, s->window);
    for (int64_t i = 0; i < s->windows && !st; i++) {
        const int32_t *ids = zt_score_window(s->a.vocab, &s->a.ids, s->window, i);
        st = zt_cli_interrupted() ? ZT_EINTR
                                  : zt_llm_score_pair(s->a.llm, s->b.llm, ids, (size_t)s->window,
                                                      (size_t)s->from, &s->a.score, &s->b.score,
                                                      &s->kl);
        zt_progress(s->cli, &(zt_work){"kld", s->o->input, "windows", (double)(i + 1),
                                       (double)s->windows});
    }
    return st;
}

/* ---- figures --------------------------------------------------------------------------------- */

static zt_status add(subject *s, const char *test, double x, double error, const char *unit)
{
    bench_result *r = bench_add(s->cli->ctx, &s->list, test, s->threads, unit, 1);
    if (!r) return zt_ctx_status(s->cli->ctx);
    r->samples[r->n++] = x;
    r->error = error;
    return ZT_OK;
}

static zt_status add_divergence(subject *s)
{
    static const struct {
        const char *test;
        double q;
    } at[] = {{"kl_min", 0},     {"kl_median", .5}, {"kl_p90", .9}, {"kl_p95", .95},
              {"kl_p99", .99}, {"kl_p99.9", .999}, {"kl_max", 1}};
    double error, mean = zt_kl_mean(&s->kl, &error);
    zt_status st = add(s, "kl_mean", mean, error, "nats");
    zt_kl_sort(&s->kl);
    for (size_t i = 0; i < sizeof at / sizeof *at && !st; i++)
        st = add(s, at[i].test, zt_kl_quantile(&s->kl, at[i].q), 0, "nats");
    return st;
}

static zt_status add_figures(subject *s)
{
    double n = (double)s->kl.count, same = (double)s->kl.same_top / n, error;
    zt_status st = add_divergence(s);
    if (!st) st = add(s, "same_top", same, n > 1 ? sqrt(same * (1 - same) / (n - 1)) : 0, "share");
    double x = zt_score_perplexity(&s->a.score, &error);
    if (!st) st = add(s, "perplexity_a", x, error, "");
    x = zt_score_perplexity(&s->b.score, &error);
    if (!st) st = add(s, "perplexity_b", x, error, "");
    x = zt_kl_ratio(&s->kl, &error);
    if (!st) st = add(s, "perplexity_ratio", x, error, "");
    if (!st) st = add(s, "tokens", n, 0, "");
    return st ? st : add(s, "windows", (double)s->windows, 0, "");
}

enum { N_COLUMNS = 4 };
static const char *const columns[N_COLUMNS] = {"test", "#value", "#error", "unit"};

static zt_status print_rows(subject *s)
{
    zt_table *t = zt_table_new(s->cli, "kld", columns, N_COLUMNS);
    zt_status st = t ? ZT_OK : zt_ctx_status(s->cli->ctx);
    for (const bench_result *r = s->list.first; r && !st; r = r->next) {
        char value[32], error[32];
        snprintf(value, sizeof value, "%.8g", r->samples[0]);
        snprintf(error, sizeof error, "%.3g", r->error);
        const char *cell[N_COLUMNS] = {r->test, value, r->error > 0 ? error : NULL, r->unit};
        st = zt_table_row(t, cell);
    }
    if (!st) st = bench_write_table(s->cli, t);
    zt_table_free(t);
    return st;
}

static zt_status run(subject *s)
{
    zt_status st = open_both(s);
    if (!st) st = score(s);
    if (!st) st = add_figures(s);
    if (!st) st = bench_list_model(s->cli->ctx, &s->list, s->b.file);
    if (st) return st;
    snprintf(s->list.engine, sizeof s->list.engine, "%s", s->engine->vt->name);
    st = bench_keep(s->cli, s->o, &s->list);
    if (st) return st;
    return bench_is_list(s->cli) ? bench_print(s->cli, &s->list) : print_rows(s);
}

zt_status bench_kld(zt_cli *cli, const bench_options *o)
{
    int64_t count[BENCH_MAX_COUNTS] = {zt_cpu_count()};
    int n = 1;
    zt_status st = o->threads ? bench_threads(cli->ctx, o->threads, count, &n) : ZT_OK;
    if (!st && n > 1)
        st = zt_fail(cli->ctx, ZT_EUSAGE, "-t '%s': kld wants one number", o->threads);
    if (!st && cli->n_operands != 3)
        st = zt_fail(cli->ctx, ZT_EUSAGE, "kld wants two models: kld A B -i TEXT");
    if (!st && !o->input) st = zt_fail(cli->ctx, ZT_EUSAGE, "no text: name one with -i");
    if (st) return st;
    subject s = {.cli = cli, .o = o, .threads = count[0], .window = o->ctx,
                 .a.name = cli->operands[1], .b.name = cli->operands[2]};
    st = run(&s);
    bench_list_free(cli->ctx, &s.list);
    zt_kl_fini(cli->ctx, &s.kl);
    close_side(cli->ctx, &s.a);
    close_side(cli->ctx, &s.b);
    if (s.engine) zt_engine_close(s.engine);
    return st;
}
