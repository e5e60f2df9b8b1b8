/* draft_model.c - a draft model, or a model's own head, follows a text and proposes how it goes on.
 *
 * `fed` is what the model's cache holds: the text in the model's own tokens, then what it drafted. Before a draft, the
 * cache is cut where it differs from the text, and the rest of the text is read.
 *
 * A token of the draft model is measured first: where it costs so much that no draft can gain, or pay for reading the text,
 * nothing more is tried.
 *
 * To read a long prompt costs something too, so the model does it only after a trial: it reads the last few tokens of the
 * text, behind a gap, and what it would have drafted there is compared with the text. Then a draft's gain is known before
 * it is paid for. A text that is longer than the model's context, or than it is worth, is read from a later token on.
 *
 * A head reads each token with the hidden state of the token before it:
 *
 *     text      t0  t1  t2  t3                of the model, which was fed t0 t1 t2 and gave t3
 *     head          t1  t2  t3  d4  d5        drafted: d4, d5, d6
 *     hidden        h0  h1  h2  s3  s4        h of the model, s of the head itself
 *
 * What it read with states of its own is read again, once the model has fed those tokens.
 */
#include "lib/llm/draft_model.h"
#include "lib/base/require.h"
#include "lib/llm/draft_pace.h"
#include "lib/llm/draft_words.h"
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    MOST = ZT_DRAFT_ROWS - 1,
    FIRST_TRIAL = 8,     /* tokens of an answer before the first trial */
    TRIAL_ROWS = 8,      /* predictions of a trial, at most, */
    TRIAL_PAST = 8,      /* and the tokens before them */
    FEW = 4,             /* so many tokens are read with the first drafted one's step, */
    SMALL = 64,          /* and so many without a trial of their cost */
    MEASURE_SHARE = 400, /* tokens are measured after so many times what that took */
    WINDOW = 256,        /* the end of the text that is read where all of it costs too much */
    HORIZON = 256        /* tokens of an answer that a long prompt must pay for, at most */
};

struct zt_draft_model {
    zt_ctx *ctx;
    zt_draft_model_opts opts;
    zt_draft_words *words;
    zt_draft_pace pace;
    int64_t choices, room; /* tokens of the draft's vocabulary that have logits; its context */
    int64_t rows;          /* of logits in a row */
    float *logits;         /* [TRIAL_ROWS, rows] */
    float *scratch;        /* of the sampler, [2 * rows] */
    zt_ids fed;
    size_t read;          /* of `fed`, tokens of the text: those behind them were drafted */
    zt_ids view;          /* of a head: the text, borrowed */
    float *state;         /* the same: what the next step reads, [width] */
    size_t start;         /* the token that the model's text begins with */
    size_t length, begun; /* of the text at the last call; and where the answer began */
    int32_t end;          /* its last token */
    bool drafting;        /* else the next trial is at `wake` tokens */
    size_t wake;
    size_t measure_at; /* a token is measured again from this length of a text on */
    /* the last draft */
    int32_t drafted[MOST], out[MOST]; /* in the model's tokens and in the text's */
    size_t last[MOST];                /* out[i] ends in drafted[last[i]] */
    double drafted_margin[MOST], margin[MOST], chance[MOST];
    size_t count, verified; /* of `out`: all, and those that were returned */
    double seconds;         /* what the round took */
    bool took;
};

static double now(const zt_draft_model *drafts) { return drafts->opts.seconds ? drafts->opts.seconds() : zt_seconds(); }

static zt_status check_opts(zt_ctx *ctx, const zt_draft_model_opts *opts)
{
    if (opts->length < 0 || opts->length > MOST)
        return zt_fail(ctx, ZT_EUSAGE, "drafts of %" PRId64 " tokens, expected 1 to %d, or 0 for an adaptive length",
                       opts->length, MOST);
    if (zt_llm_get(opts->model).labels || zt_llm_get(opts->model).vocab < 1)
        return zt_fail(ctx, ZT_EUSAGE, "the draft model has no logits");
    if (opts->head_of && (!opts->head_of->hidden || !opts->model->opts.head))
        return zt_fail(ctx, ZT_EUSAGE, "the model keeps no hidden states, or what drafts is not its head");
    return zt_vocab_check_rows(opts->model_vocab, zt_llm_get(opts->model).vocab);
}

zt_draft_model *zt_draft_model_open(const zt_draft_model_opts *opts)
{
    if (!opts || !opts->model) return NULL;
    zt_ctx *ctx = zt_llm_ctx(opts->model);
    ZT_REQUIRE(ctx, opts->model_vocab && opts->vocab, NULL);
    if (check_opts(ctx, opts) != ZT_OK) return NULL;
    zt_draft_model *drafts = zt_calloc(ctx, 1, sizeof *drafts);
    if (!drafts) return NULL;
    zt_llm_info info = zt_llm_get(opts->model);
    *drafts = (zt_draft_model){.ctx = ctx, .opts = *opts, .rows = info.vocab, .choices = info.vocab, .room = info.ctx_len};
    if (zt_vocab_size(opts->model_vocab) < drafts->choices) drafts->choices = zt_vocab_size(opts->model_vocab);
    zt_pace_init(&drafts->pace);
    int64_t limit = opts->vocab_rows > 0 ? opts->vocab_rows : INT32_MAX;
    drafts->words = zt_draft_words_open(ctx, opts->vocab, opts->model_vocab, limit);
    drafts->logits = zt_alloc_array(ctx, TRIAL_ROWS * (size_t)info.vocab, sizeof *drafts->logits);
    drafts->scratch = zt_alloc_array(ctx, 2 * (size_t)info.vocab, sizeof *drafts->scratch);
    drafts->state = zt_alloc_array(ctx, opts->head_of ? (size_t)info.width : 0, sizeof *drafts->state);
    if (drafts->words && drafts->logits && drafts->scratch && drafts->state) return drafts;
    zt_draft_model_free(drafts);
    return NULL;
}

void zt_draft_model_free(zt_draft_model *drafts)
{
    if (!drafts) return;
    zt_draft_words_free(drafts->words);
    zt_ids_fini(drafts->ctx, &drafts->fed);
    zt_free(drafts->ctx, drafts->logits);
    zt_free(drafts->ctx, drafts->scratch);
    zt_free(drafts->ctx, drafts->state);
    zt_free(drafts->ctx, drafts);
}

bool zt_draft_model_maps(const zt_draft_model *drafts) { return drafts && zt_draft_words_map(drafts->words); }

/* ---- reading the text ------------------------------------------------------------------------ */

static zt_status forget_after(zt_draft_model *drafts, size_t keep)
{
    drafts->fed.count = keep;
    if (drafts->read > keep) drafts->read = keep;
    return zt_llm_rewind(drafts->opts.model, (int64_t)keep);
}

/* Feeds tokens behind what was fed; `hidden`: of a head, f32[count, width]. logits: NULL, of the last one, or with `all` of each. */
static zt_status feed(zt_draft_model *drafts, const int32_t *ids, const float *hidden, size_t count, bool all, float *logits)
{
    zt_llm *model = drafts->opts.model;
    zt_status status = hidden ? zt_llm_feed_head(model, ids, hidden, count, all, logits, logits && !all ? drafts->state : NULL)
                              : zt_llm_feed(model, ids, count, all, logits);
    for (size_t i = 0; i < count && !status; i++) status = zt_ids_push(drafts->ctx, &drafts->fed, ids[i]);
    return status;
}

/* The same of tokens of the text from `index` on. */
static zt_status feed_text(zt_draft_model *drafts, const zt_ids *text, size_t index, size_t count, bool all, float *logits)
{
    const zt_llm *target = drafts->opts.head_of;
    const float *hidden = target ? zt_hidden_at(target->hidden, drafts->start + index - 1) : NULL;
    zt_status status = feed(drafts, text->id + index, hidden, count, all, logits);
    drafts->read = drafts->fed.count;
    return status;
}

/* A token that was drafted. */
static zt_status feed_drafted(zt_draft_model *drafts, int32_t id)
{
    return feed(drafts, &id, drafts->opts.head_of ? drafts->state : NULL, 1, false, drafts->logits);
}

/* The text from drafts->start on, of a head, which has the same tokens. */
static const zt_ids *view_text(zt_draft_model *drafts, const int32_t *ids, size_t count)
{
    drafts->view = (zt_ids){.id = (int32_t *)(uintptr_t)(ids + drafts->start), .count = count - drafts->start};
    return &drafts->view;
}

/* The text in the model's tokens, from drafts->start on; later where it and a draft exceed the context. NULL: failed, or there is no
 * room. */
static const zt_ids *follow_text(zt_draft_model *drafts, const int32_t *ids, size_t count)
{
    const zt_ids *text = NULL;
    const zt_llm *target = drafts->opts.head_of;
    const size_t least = target ? zt_hidden_from(target->hidden, ids, count) + 1 : 0;
    if (drafts->start >= count) drafts->start = 0;
    if (drafts->start < least) drafts->start = least;
    if (drafts->start >= count) return NULL;
    for (size_t left = count - drafts->start; left > 0; left /= 2) {
        drafts->start = count - left;
        text = target ? view_text(drafts, ids, count) : zt_draft_words_follow(drafts->words, ids, drafts->start, count);
        if (!text || (int64_t)text->count + ZT_DRAFT_ROWS + TRIAL_ROWS + TRIAL_PAST <= drafts->room) return text;
    }
    return NULL;
}

/* Cuts the cache where it differs from the text; returns the length that they have in common, without the last token. */
static size_t common_length(const zt_draft_model *drafts, const zt_ids *text)
{
    size_t same = 0, fed = drafts->opts.head_of ? drafts->read : drafts->fed.count;
    while (same < fed && same + 1 < text->count && drafts->fed.id[same] == text->id[same]) same++;
    return same;
}

/* Reads the text but for its last few tokens. Few sizes of steps are used, because a session prepares for each. */
static zt_status read_text(zt_draft_model *drafts, const zt_ids *text)
{
    size_t same = common_length(drafts, text), begun = same;
    zt_status status = forget_after(drafts, same);
    double before = now(drafts);
    if (text->count - same <= FEW) return status;
    while (same + 1 < text->count && !status) {
        size_t size = 1, chunk = (size_t)zt_llm_get(drafts->opts.model).chunk;
        while (2 * size <= text->count - 1 - same && 2 * size <= chunk) size *= 2;
        status = feed_text(drafts, text, same, size, false, NULL);
        same += size;
    }
    if (same - begun >= TRIAL_ROWS) zt_pace_read(&drafts->pace, same - begun, now(drafts) - before);
    return status;
}

/* ---- a token --------------------------------------------------------------------------------- */

typedef struct draft_guess {
    int32_t id;    /* -1: every logit is NaN */
    double margin; /* the largest logit less the second: how sure the model is */
} draft_guess;

static draft_guess guess_token(zt_draft_model *drafts, const float *logits, const zt_sampler *sampler, const zt_ids *text,
                               size_t position)
{
    float best = -INFINITY, second = -INFINITY;
    int32_t id = -1;
    for (int64_t i = 0; i < drafts->choices; i++) {
        if (!(logits[i] > second)) continue;
        if (logits[i] > best) {
            second = best;
            best = logits[i];
            id = (int32_t)i;
        } else {
            second = logits[i];
        }
    }
    if (sampler && (sampler->temp > 0 || zt_sampler_penalises(sampler)) && zt_draft_words_map(drafts->words))
        id = zt_sample(sampler, logits, drafts->choices, text->id, text->count, (int64_t)position, drafts->scratch);
    double margin = (double)best - (double)second;
    return (draft_guess){id, margin > 0 ? margin : 0};
}

/* ---- a trial --------------------------------------------------------------------------------- */

/* Compares what the model would have drafted at the end of the text, in its own tokens. `count` tokens of the text are the answer's. */
static zt_status try_end(zt_draft_model *drafts, const zt_ids *text, size_t answer, size_t position, const zt_sampler *sampler)
{
    size_t same = common_length(drafts, text), rows = answer < TRIAL_ROWS ? answer : TRIAL_ROWS;
    if (rows + 1 > text->count) rows = text->count - 1;
    size_t first = text->count - 1 - rows, from = first > TRIAL_PAST ? first - TRIAL_PAST : 0;
    zt_status status = forget_after(drafts, same);
    if (from < same) from = same;
    if (first < from) first = from;
    double before = now(drafts);
    rows = text->count - 1 - first;
    if (!status && first > from) status = feed_text(drafts, text, from, first - from, false, NULL);
    if (!status && rows) status = feed_text(drafts, text, first, rows, true, drafts->logits);
    if (!status && text->count - 1 > from) zt_pace_read(&drafts->pace, text->count - 1 - from, now(drafts) - before);
    for (size_t i = 0; i < rows && !status; i++) {
        const zt_ids past = {.id = text->id, .count = first + i + 1};
        draft_guess guess = guess_token(drafts, drafts->logits + i * (size_t)drafts->rows, sampler, &past, position - (rows - i));
        zt_pace_scored(&drafts->pace, guess.margin, guess.id == text->id[first + i + 1]);
    }
    return !status && from > same ? forget_after(drafts, same) : status; /* what lies behind a gap */
}

/* Is what the rest of the answer gains more than the text costs to read? Before any was measured, a token that is read
 * is taken to cost a fourth of one that is drafted. */
static bool pays(const zt_draft_model *drafts, size_t unread, size_t limit, double gain)
{
    const double tokens = (double)(limit < HORIZON ? limit : HORIZON);
    const double read = drafts->pace.reads ? drafts->pace.read : drafts->pace.token / 4;
    return unread <= SMALL || (double)unread * read < tokens * drafts->pace.cost[0] * (1 - 1 / gain) / 2;
}

/* Is a trial worth its cost: could drafts gain, and pay for the text or for the end of it? */
static bool may_pay(const zt_draft_model *drafts, const zt_ids *text, size_t limit)
{
    const size_t unread = text->count - common_length(drafts, text);
    return zt_pace_may_gain(&drafts->pace) &&
           pays(drafts, unread < WINDOW ? unread : WINDOW, limit, zt_pace_most_gain(&drafts->pace));
}

/* Drafting stops until a trial that reads so many tokens. */
static void rest(zt_draft_model *drafts, size_t count, size_t reads)
{
    drafts->drafting = false;
    drafts->wake = count + zt_pace_stop(&drafts->pace, reads);
}

/* The duration of a token, from two steps: the first prepares, and is not measured. */
static zt_status measure_token(zt_draft_model *drafts, const zt_ids *text, size_t count)
{
    size_t same = common_length(drafts, text);
    zt_status status = forget_after(drafts, same);
    double seconds = 0;
    for (int step = 0; step < 2 && !status; step++) {
        const double before = now(drafts);
        status = feed_text(drafts, text, text->count - 1, 1, false, drafts->logits);
        seconds = now(drafts) - before;
    }
    if (!status) zt_pace_drafted(&drafts->pace, 1, seconds);
    drafts->measure_at = count + (size_t)fmin(2 * MEASURE_SHARE * seconds / drafts->pace.cost[0], INT32_MAX);
    return status ? status : forget_after(drafts, same);
}

/* Begins to draft if that pays. */
static zt_status try_again(zt_draft_model *drafts, const int32_t *ids, size_t count, size_t limit, const zt_sampler *sampler)
{
    const zt_ids *text = follow_text(drafts, ids, count);
    if (!text) return zt_ctx_status(drafts->ctx);
    zt_status status = count >= drafts->measure_at ? measure_token(drafts, text, count) : ZT_OK;
    if (status) return status;
    if (!may_pay(drafts, text, limit)) {
        rest(drafts, count, 0);
        return ZT_OK;
    }
    status = try_end(drafts, text, count - drafts->begun, count, sampler);
    if (status) return status;
    zt_pace_start(&drafts->pace);
    drafts->drafting = zt_pace_goes_on(&drafts->pace, NULL, 0);
    if (drafts->drafting && !pays(drafts, text->count - common_length(drafts, text), limit, zt_pace_gain(&drafts->pace))) {
        drafts->start = count > WINDOW ? count - WINDOW : 0;
        drafts->drafting = pays(drafts, count - drafts->start, limit, zt_pace_gain(&drafts->pace));
    }
    if (!drafts->drafting) rest(drafts, count, TRIAL_ROWS + TRIAL_PAST);
    return ZT_OK;
}

/* ---- a draft --------------------------------------------------------------------------------- */

/* Compares the last draft with the tokens that came. */
static void score_draft(zt_draft_model *drafts, const int32_t *ids, size_t count)
{
    size_t came = count > drafts->length ? count - drafts->length : 0;
    const bool other = came && drafts->length && ids[drafts->length - 1] != drafts->end;
    if (count < drafts->length || other || came > 2 * ZT_DRAFT_ROWS || drafts->length == 0) { /* another text, or a new prompt */
        drafts->begun = count;
        if (!drafts->drafting) drafts->wake = count + FIRST_TRIAL;
        came = 0;
    }
    for (size_t i = 0; i < drafts->count && i < came; i++) {
        bool hit = drafts->out[i] == ids[drafts->length + i];
        zt_pace_scored(&drafts->pace, drafts->margin[i], hit);
        if (!hit) break;
    }
    if (drafts->took && came)
        zt_pace_round(&drafts->pace, came < 1 + drafts->verified ? came : 1 + drafts->verified, drafts->seconds);
    drafts->length = count;
    if (count) drafts->end = ids[count - 1];
    drafts->count = drafts->verified = 0;
    drafts->took = false;
    drafts->seconds = 0;
}

/* Drafts up to `most` tokens behind the text. Returns how many. */
static size_t draft_tokens(zt_draft_model *drafts, const zt_ids *text, size_t most, const zt_sampler *sampler, zt_status *status)
{
    size_t count = 0;
    double chance[MOST], before = now(drafts);
    zt_ids past = {0};
    for (size_t i = 0; sampler && zt_sampler_penalises(sampler) && i < text->count && !*status; i++)
        *status = zt_ids_push(drafts->ctx, &past, text->id[i]);
    while (count < most && !*status && (drafts->opts.length || zt_pace_goes_on(&drafts->pace, chance, count))) {
        const size_t fed = drafts->fed.count;
        *status = count ? feed_drafted(drafts, drafts->drafted[count - 1])
                        : feed_text(drafts, text, fed, text->count - fed, false, drafts->logits);
        if (*status) break;
        draft_guess guess = guess_token(drafts, drafts->logits, sampler, &past, drafts->length + count);
        if (guess.id < 0 || zt_vocab_is_eog(drafts->opts.model_vocab, guess.id)) break;
        if (past.count) *status = zt_ids_push(drafts->ctx, &past, guess.id);
        drafts->drafted[count] = guess.id;
        drafts->drafted_margin[count] = guess.margin;
        chance[count++] = zt_pace_chance(&drafts->pace, guess.margin);
    }
    zt_ids_fini(drafts->ctx, &past);
    drafts->seconds = now(drafts) - before;
    zt_pace_drafted(&drafts->pace, count, drafts->seconds);
    return count;
}

/* The drafted tokens as the text's; each is as sure as the least sure one that it is made of. */
static void convert_draft(zt_draft_model *drafts, size_t drafted, size_t most)
{
    drafts->count = drafted ? zt_draft_words_back(drafts->words, drafts->drafted, drafted, most, drafts->out, drafts->last) : 0;
    for (size_t i = 0, from = 0; i < drafts->count; i++) {
        drafts->margin[i] = INFINITY;
        for (size_t k = from; k <= drafts->last[i]; k++) drafts->margin[i] = fmin(drafts->margin[i], drafts->drafted_margin[k]);
        drafts->chance[i] = zt_pace_chance(&drafts->pace, drafts->margin[i]);
        from = drafts->last[i];
        if (zt_draft_words_map(drafts->words)) from++;
    }
}

static size_t make_draft(zt_draft_model *drafts, const int32_t *ids, size_t count, size_t limit, const zt_sampler *sampler)
{
    size_t most = drafts->opts.length ? (size_t)drafts->opts.length : MOST;
    if (most > limit) most = limit;
    const zt_ids *text = follow_text(drafts, ids, count);
    zt_status status = text && text->count ? read_text(drafts, text) : ZT_EUSAGE;
    if (status) return 0;
    size_t drafted =
        draft_tokens(drafts, text, drafts->opts.length && !zt_draft_model_maps(drafts) ? MOST : most, sampler, &status);
    convert_draft(drafts, status ? 0 : drafted, most);
    drafts->verified = drafts->opts.length ? drafts->count : zt_pace_best(&drafts->pace, drafts->chance, drafts->count);
    drafts->took = true;
    return drafts->verified;
}

/* Is a draft to be made now? */
static bool may_draft(zt_draft_model *drafts, const int32_t *ids, size_t count, size_t limit, const zt_sampler *sampler)
{
    if (drafts->opts.length) return true;
    if (!zt_pace_knows(&drafts->pace) || zt_pace_is_stale(&drafts->pace)) return false;
    if (drafts->drafting && (zt_pace_fails(&drafts->pace) || !zt_pace_goes_on(&drafts->pace, NULL, 0)))
        rest(drafts, count, TRIAL_ROWS + TRIAL_PAST);
    if (!drafts->drafting && count >= drafts->wake && try_again(drafts, ids, count, limit, sampler) != ZT_OK) return false;
    return drafts->drafting;
}

size_t zt_draft_model_next(zt_draft_model *drafts, const int32_t *ids, size_t token_count, size_t limit,
                           const zt_sampler *sampler, const int32_t **draft)
{
    if (!drafts) return 0;
    ZT_REQUIRE(drafts->ctx, (ids || !token_count) && draft, 0);
    *draft = drafts->out;
    score_draft(drafts, ids, token_count);
    if (token_count == 0 || limit == 0 || !may_draft(drafts, ids, token_count, limit, sampler)) return 0;
    return make_draft(drafts, ids, token_count, limit, sampler);
}

void zt_draft_model_took(zt_draft_model *drafts, size_t rows, double seconds)
{
    if (!drafts) return;
    zt_pace_took(&drafts->pace, rows, seconds);
    if (drafts->took) drafts->seconds += seconds;
}
