/* generate.c - the prompt through the model, its logits to a file, then token after token.
 *
 * r->fed is what the KV cache holds. Of a prompt only what comes after the longest common prefix is
 * fed: tokens are compared, so that nothing depends on how a text was taken apart before.
 *
 * With --speculate a draft is fed behind the last token, in one
 * batch. Each token is chosen as ever, from the row of the one before
 * it; while it is the one that was fed there, the next row is its.
 */
#include "lib/io/npy.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --all-logits keeps no more than this many bytes of logits at a time. */
#define LOGITS_BYTES (256u << 20)

/* ---- feeding --------------------------------------------------------------------------------- */

static zt_status forget(run *r, size_t keep)
{
    r->fed.count = keep;
    return zt_llm_rewind(r->llm, (int64_t)keep);
}

/* Are logits changed before the next token is chosen? */
static bool changes_logits(const run *r)
{
    return zt_sampler_penalises(&r->o->sampler) || r->o->ignore_eos;
}

bool run_wants_best(const run *r)
{
    const run_options *o = r->o;
    return o->sampler.temp == 0 && !zt_sampler_penalises(&o->sampler) && o->logprobs < 0 &&
           !o->logits && r->choices == r->vocab_rows;
}

/* Nothing but the likeliest token is asked for: the engine chooses it, and keeps its logits. */
bool run_engine_chooses(const run *r)
{
    return run_wants_best(r) && !changes_logits(r);
}

static zt_sampler sampler_of(const run *r)
{
    zt_sampler s = r->o->sampler;
    s.seed = r->seed;
    return s;
}

/* How the engine is to draw; *s has to live as long. */
static zt_draw drawing_of(const run *r, zt_sampler *s)
{
    *s = sampler_of(r);
    return (zt_draw){.sampler = s, .history = r->fed.id, .n_history = r->fed.count,
                     .banned = r->ends.id, .n_banned = r->o->ignore_eos ? r->ends.count : 0};
}

/* Is no more asked for than the token, of an engine that may draw it? */
static bool may_draw(const run *r)
{
    const run_options *o = r->o;
    zt_sampler s;
    zt_draw d = drawing_of(r, &s);
    return !o->perplexity && !o->logits && o->logprobs < 0 && zt_draw_fits(&d);
}

bool run_engine_draws(const run *r, zt_sampler *s, zt_draw *d)
{
    *d = drawing_of(r, s);
    return zt_llm_draws(r->llm) && may_draw(r) && r->choices == r->vocab_rows;
}

/* What is wanted of the tokens fed. */
typedef enum answer { NOTHING, LAST, ALL } answer;

/* The answer becomes r->logits or r->next, of which the first row counts now. */
static zt_status feed(run *r, const int32_t *id, size_t n, answer want)
{
    zt_status s;
    zt_sampler sampler;
    zt_draw d;
    if (want && run_engine_draws(r, &sampler, &d))
        s = zt_llm_draw(r->llm, id, n, want == ALL, &d, r->next);
    else if (want && run_engine_chooses(r))
        s = (want == ALL ? zt_llm_nexts : zt_llm_next)(r->llm, id, n, r->next);
    else
        s = zt_llm_feed(r->llm, id, n, want == ALL, want ? r->logits : NULL);
    r->row = 0;
    for (size_t i = 0; i < n && s == ZT_OK; i++)
        s = zt_ids_push(r->ctx, &r->fed, id[i]);
    return s;
}

/* How many tokens the cache and r->ids begin with alike, `most` at most. */
static size_t common(const run *r, size_t most)
{
    size_t n = 0;
    while (n < most && n < r->fed.count && r->fed.id[n] == r->ids.id[n])
        n++;
    return n;
}

/* The last token must be fed for its logits; with --all-logits all must. */
static zt_status forget_what_differs(run *r)
{
    size_t most = r->o->all_logits || r->o->no_kv_cache ? 0 : r->n_prompt - 1;
    r->reused = common(r, most);
    zt_log(r->ctx, ZT_LOG_DEBUG, "prompt: %zu tokens, %zu of them in the cache", r->n_prompt,
           r->reused);
    return forget(r, r->reused);
}

static zt_sink *begin_npy(run *r)
{
    int64_t rows = r->o->all_logits ? (int64_t)r->n_prompt : 1;
    zt_type t = zt_type_make(ZT_F32, 2, (int64_t[]){rows, r->vocab_rows});
    zt_sink *npy = zt_sink_open(r->ctx, r->o->logits, r->cli->force);
    if (npy && zt_npy_write_header(npy, r->ctx, &t) == ZT_OK)
        return npy;
    zt_sink_close(npy);
    return NULL;
}

/* Feed the prompt in pieces; after the last, r->logits begins with the last token's, or there is
 * r->next. */
static zt_status feed_pieces(run *r, zt_sink *npy)
{
    bool all = r->o->all_logits;
    zt_status s = forget_what_differs(r);
    size_t V = (size_t)r->vocab_rows, most = all ? (size_t)r->rows : (size_t)r->o->chunk, n;
    for (size_t at = r->fed.count; at < r->n_prompt && s == ZT_OK; at += n) {
        if (zt_cli_interrupted())
            return ZT_EINTR;
        n = r->n_prompt - at < most ? r->n_prompt - at : most;
        bool last = at + n == r->n_prompt;
        s = feed(r, r->ids.id + at, n, all ? ALL : last ? LAST : NOTHING);
        if (s == ZT_OK && npy && (all || last))
            s = zt_sink_write(npy, r->logits, (all ? n : 1) * V * sizeof(float));
        if (all && last)
            memmove(r->logits, r->logits + (n - 1) * V, V * sizeof(float));
        if (r->n_prompt > most)
            zt_progress(r->cli, &(zt_work){"prompt", r->o->input, "tokens", (double)(at + n),
                                           (double)r->n_prompt});
    }
    return s == ZT_OK && npy ? zt_sink_commit(npy) : s;
}

static zt_status feed_prompt(run *r)
{
    zt_sink *npy = r->o->logits ? begin_npy(r) : NULL;
    if (r->o->logits && !npy)
        return zt_ctx_status(r->ctx);
    zt_status s = feed_pieces(r, npy);
    zt_sink_close(npy);
    return s;
}

float *run_logits(const run *r)
{
    return r->logits + r->row * (size_t)r->vocab_rows;
}

/* ---- token after token ----------------------------------------------------------------------- */

static bool ends_text(const run *r, int32_t id)
{
    if (!r->o->eos)
        return zt_vocab_is_eog(r->vocab, id);
    for (size_t i = 0; i < r->ends.count; i++)
        if (r->ends.id[i] == id)
            return true;
    return false;
}

static int32_t choose(run *r)
{
    zt_sampler sampler;
    zt_draw d;
    if (!r->logits || run_engine_chooses(r) || run_engine_draws(r, &sampler, &d))
        return r->next[r->row];
    float *logits = run_logits(r);
    for (size_t i = 0; r->o->ignore_eos && i < r->ends.count; i++)
        if (r->ends.id[i] < r->choices)
            logits[r->ends.id[i]] = -INFINITY;
    return zt_sample(&sampler, logits, r->choices, r->ids.id, r->ids.count, (int64_t)r->ids.count,
                     r->scratch);
}

/* A token's id, if those are wanted, and its text, if it is not the one that ends the text. */
static zt_status put_token(run *r, int32_t id, bool ends)
{
    zt_status s = ZT_OK;
    if (r->o->ids) {
        char text[16];
        const char *gap = r->ids.count > r->n_prompt + 1 ? " " : "";
        int n = snprintf(text, sizeof text, "%s%" PRId32, gap, id);
        s = run_write(r, text, (size_t)n);
    }
    return s == ZT_OK && !ends ? run_text_put(r, id) : s;
}

/* Feed the last token; without a cache, all of them. */
static zt_status feed_last(run *r)
{
    size_t from = r->o->no_kv_cache ? 0 : r->ids.count - 1;
    zt_status s = forget(r, from);
    return s == ZT_OK ? feed(r, r->ids.id + from, r->ids.count - from, LAST) : s;
}

/* Was the last token fed already, behind the one before it? Then so was its answer. */
static bool foreseen(run *r)
{
    size_t at = r->ids.count - 1;
    if (r->fed.count <= at || r->fed.id[at] != r->ids.id[at])
        return false;
    r->row++;
    r->accepted++;
    return true;
}

/* How many tokens may be tried behind the last: the context and -n have room for them. */
static size_t draft_room(const run *r)
{
    size_t room = (size_t)zt_llm_get(r->llm).ctx_len - r->ids.count, made = r->ids.count - r->n_prompt;
    size_t wanted = r->o->n < 0 ? room : (size_t)r->o->n - made - 1;
    return wanted < room ? wanted : room;
}

/* Feed the last token, and behind it what is likely to follow. */
static zt_status feed_ahead(run *r)
{
    int32_t batch[ZT_DRAFT_ROWS] = {r->ids.id[r->ids.count - 1]};
    const int32_t *draft;
    size_t k = zt_drafts_next(r->drafts, r->ids.id, r->ids.count, draft_room(r), &draft);
    zt_status s = zt_ctx_status(r->ctx);
    if (s == ZT_OK)
        s = forget(r, r->ids.count - 1);
    memcpy(batch + 1, draft, k * sizeof *draft);
    double before = zt_seconds();
    if (s == ZT_OK)
        s = feed(r, batch, 1 + k, k ? ALL : LAST);
    zt_drafts_took(r->drafts, 1 + k, zt_seconds() - before);
    r->drafted += k;
    r->batches += k > 0;
    return s;
}

static zt_status go_on(run *r)
{
    if (!r->drafts)
        return feed_last(r);
    return foreseen(r) ? ZT_OK : feed_ahead(r);
}

zt_status run_next_token(run *r)
{
    zt_status s = r->o->logprobs >= 0 ? run_note_likeliest(r) : ZT_OK;
    int32_t id = choose(r);
    if (id < 0)
        return zt_fail(r->ctx, ZT_EDATA, "%s: no logit is a number after token %zu",
                       zt_gguf_name(r->gguf), r->ids.count);
    bool ends = ends_text(r, id);
    if (s == ZT_OK)
        s = zt_ids_push(r->ctx, &r->ids, id);
    if (s == ZT_OK && r->o->logprobs >= 0)
        s = run_put_logprobs(r, id);
    if (s == ZT_OK)
        s = put_token(r, id, ends);
    if (r->first == 0)
        r->first = zt_seconds();
    if (ends)
        r->stop = "eos";
    else if (!r->stop && r->o->n >= 0 && r->ids.count - r->n_prompt >= (size_t)r->o->n)
        r->stop = "length";
    else if (!r->stop && (int64_t)r->ids.count > zt_llm_get(r->llm).ctx_len)
        r->stop = "ctx";
    return s;
}

/* What was fed ahead of the text is forgotten, and the token at which it ended, as if never fed. */
static zt_status forget_ahead(run *r)
{
    size_t keep = r->ids.count - (r->stop && r->ids.count > r->n_prompt);
    return r->fed.count > keep ? forget(r, keep) : ZT_OK;
}

static zt_status generate(run *r)
{
    zt_status s = ZT_OK;
    if (r->o->n == 0)
        r->stop = "length";
    while (s == ZT_OK && !r->stop) {
        s = zt_cli_interrupted() ? ZT_EINTR : run_next_token(r);
        if (s == ZT_OK && !r->stop)
            s = go_on(r);
    }
    zt_status rest = run_text_end(r);
    if (rest == ZT_OK)
        rest = forget_ahead(r);
    return s == ZT_OK ? rest : s;
}

/* The cache then holds all of r->ids. */
zt_status run_catch_up(run *r)
{
    size_t keep = common(r, r->ids.count);
    zt_status s = forget(r, keep);
    if (s != ZT_OK || keep == r->ids.count)
        return s;
    return feed(r, r->ids.id + keep, r->ids.count - keep, NOTHING);
}

zt_status run_check_room(const run *r)
{
    int64_t limit = zt_llm_get(r->llm).ctx_len;
    if ((int64_t)r->n_prompt <= limit)
        return ZT_OK;
    return zt_fail(r->ctx, ZT_ENOMEM,
                   "the prompt has %zu tokens, the context %" PRId64 ": see --ctx", r->n_prompt,
                   limit);
}

zt_status run_answer(run *r)
{
    run_text_begin(r);
    r->asked = zt_seconds();
    zt_status s = run_check_room(r);
    if (s == ZT_OK)
        s = feed_prompt(r);
    r->prompted = zt_seconds();
    r->first = 0;
    r->drafted = r->accepted = r->batches = 0;
    if (s == ZT_OK)
        s = generate(r);
    r->ended = zt_seconds();
    return s;
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* --eos "2,7" into ids. */
static zt_status parse_eos(run *r)
{
    int64_t id;
    zt_status s = ZT_OK;
    for (const char *c = r->o->eos, *next; s == ZT_OK && c; c = next) {
        char text[16];
        size_t n = strcspn(c, ",");
        next = c[n] ? c + n + 1 : NULL;
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text), c);
        if (!zt_parse_i64(text, &id) || id < 0 || id >= zt_vocab_size(r->vocab))
            s = zt_fail(r->ctx, ZT_EUSAGE, "--eos: '%s': not token ids from 0 to %" PRId32,
                        r->o->eos, zt_vocab_size(r->vocab) - 1);
        else
            s = zt_ids_push(r->ctx, &r->ends, (int32_t)id);
    }
    return s;
}

/* The tokens that end a text, where they are wanted as a list. */
static zt_status list_ends(run *r)
{
    zt_status s = ZT_OK;
    if (r->o->eos)
        return parse_eos(r);
    for (int32_t id = 0; (r->o->ignore_eos || r->o->jsonl) && id < zt_vocab_size(r->vocab); id++)
        if (s == ZT_OK && zt_vocab_is_eog(r->vocab, id))
            s = zt_ids_push(r->ctx, &r->ends, id);
    return s;
}

static zt_status make_buffers(run *r)
{
    r->vocab_rows = zt_llm_get(r->llm).vocab;
    r->choices = zt_vocab_size(r->vocab);
    if (r->choices > r->vocab_rows)
        r->choices = r->vocab_rows;
    size_t row = (size_t)r->vocab_rows * sizeof(float);
    int64_t fit = (int64_t)(LOGITS_BYTES / row) + 1;
    r->rows = r->o->all_logits ? (int64_t)r->n_prompt : 1;
    r->rows = r->rows < r->o->chunk ? r->rows : r->o->chunk;
    r->rows = r->rows < fit ? r->rows : fit;
    bool ahead = r->o->speculate && !r->o->jsonl;
    if (ahead && r->rows < ZT_DRAFT_ROWS)
        r->rows = ZT_DRAFT_ROWS;
    if (ahead)
        r->drafts = zt_drafts_open(r->ctx, r->vocab_rows);
    r->logits = zt_alloc_array(r->ctx, (size_t)r->rows, row);
    r->scratch = zt_alloc_array(r->ctx, 2, row);
    return r->logits && r->scratch ? zt_ctx_status(r->ctx) : ZT_ENOMEM;
}

zt_status run_open_llm(run *r, int64_t max_tokens, bool embed)
{
    zt_llm_opts opts = run_llm_opts(r->cli, r->o);
    if ((r->o->plan && run_read_plan(r) != ZT_OK) || run_open_engine(r) != ZT_OK)
        return zt_ctx_status(r->ctx);
    opts.engine = r->engine;
    opts.planned = r->plan;
    opts.max_tokens = max_tokens;
    opts.embed = embed;
    r->seed = r->cli->seed;
    zt_status s = r->o->jsonl ? run_size_batch(r, &opts) : ZT_OK;
    if (s == ZT_OK)
        s = list_ends(r);
    /* Greedy choice needs no more than the best, unless logits are changed before. What requests
     * of --jsonl ask for, only they say. */
    bool best = r->o->sampler.temp == 0;
    bool drawn = r->o->jsonl || (may_draw(r) && (!best || changes_logits(r)));
    opts.draws = drawn && !embed && zt_engine_inmost(r->engine)->vt->devices;
    opts.greedy = best && (r->o->jsonl || !changes_logits(r));
    if (s == ZT_OK)
        r->llm = zt_llm_open(r->gguf, &opts);
    r->loaded = zt_seconds();
    if (!r->llm)
        return zt_ctx_status(r->ctx);
    s = zt_vocab_check_rows(r->vocab, zt_llm_get(r->llm).vocab);
    if (s == ZT_OK && !embed)
        s = make_buffers(r);
    return s == ZT_OK && r->o->session ? run_session_load(r) : s;
}

/* What ends the output: the object, or the end of a line where one is wanted. */
static zt_status finish(run *r)
{
    if (r->o->json)
        return run_report_json(r);
    return r->o->ids || (r->terminal && r->ids.count > r->n_prompt) ? run_write(r, "\n", 1) : ZT_OK;
}

zt_status run_generate(run *r)
{
    zt_status s = run_encode_prompt(r);
    if (s == ZT_OK)
        s = run_open_llm(r, r->o->n < 0 ? 0 : (int64_t)r->n_prompt + r->o->n, false);
    if (s == ZT_OK)
        s = run_answer(r);
    if (r->o->session && (s == ZT_OK || s == ZT_EINTR)) {
        zt_status saved = run_session_save(r);
        s = s == ZT_OK ? saved : s;
    }
    if (s == ZT_OK)
        s = finish(r);
    if (s == ZT_OK && r->o->stats)
        run_report_stats(r);
    return s;
}
