/* generate.c - the prompt through the model, its logits to a file, then token after token.
 *
 * run->fed_ids is what the KV cache holds. Of a prompt only what comes after the longest common prefix
 * with it is fed. Tokens are compared, not texts.
 *
 * With --speculate or --draft, tokens that are likely to follow (a draft) are fed in one batch with the last token. Each
 * token is then chosen as without it, from the logits after the token before it. As long as the token chosen
 * is the one that was fed, its logits are there already:
 *
 *   fed       the    cat    sat    on
 *   logits    row 0  row 1  row 2  row 3
 *   chosen    cat    sat    up            row 2 was the last of use: "on" is forgotten, "up" is fed next
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

static zt_status forget_after(run_state *run, size_t keep)
{
    run->fed_ids.count = keep;
    return zt_llm_rewind(run->llm, (int64_t)keep);
}

/* Are logits changed before the next token is chosen? */
static bool changes_logits(const run_state *run)
{
    return zt_sampler_penalises(&run->options->sampler) || run->options->ignore_eos || run->matcher;
}

bool run_wants_best(const run_state *run)
{
    const run_options *options = run->options;
    return options->sampler.temp == 0 && !zt_sampler_penalises(&options->sampler) && options->logprobs < 0 && !options->logits &&
           !run->matcher && run->choices == run->vocab_rows;
}

/* Nothing but the likeliest token is asked for: the engine chooses it, and keeps its logits. */
bool run_engine_chooses(const run_state *run) { return run_wants_best(run) && !changes_logits(run) && !run->keeps_logits; }

static zt_sampler sampler_of(const run_state *run)
{
    zt_sampler sampler = run->options->sampler;
    sampler.seed = run->seed;
    return sampler;
}

/* How the engine is to draw. *sampler has to live as long as the result. */
static zt_draw drawing_of(const run_state *run, zt_sampler *sampler)
{
    *sampler = sampler_of(run);
    return (zt_draw){.sampler = sampler,
                     .history = run->fed_ids.id,
                     .n_history = run->fed_ids.count,
                     .banned = run->end_ids.id,
                     .n_banned = run->options->ignore_eos ? run->end_ids.count : 0};
}

/* Can the engine draw the next token: is nothing asked for that needs its logits? */
static bool may_draw(const run_state *run)
{
    const run_options *options = run->options;
    zt_sampler sampler;
    zt_draw draw = drawing_of(run, &sampler);
    return !options->perplexity && !options->logits && options->logprobs < 0 && !run->matcher && zt_draw_fits(&draw);
}

bool run_engine_draws(const run_state *run, zt_sampler *sampler, zt_draw *draw)
{
    *draw = drawing_of(run, sampler);
    return zt_llm_draws(run->llm) && may_draw(run) && run->choices == run->vocab_rows;
}

/* After which of the tokens fed the logits, or the next token, are wanted. */
typedef enum wanted_logits { NOTHING, LAST, ALL } wanted_logits;

/* Feeds tokens. What is wanted is in run->logits or run->next_ids, from row 0 on. */
static zt_status feed_tokens(run_state *run, const int32_t *ids, size_t count, wanted_logits wanted)
{
    zt_status status;
    zt_sampler sampler;
    zt_draw draw;
    run->keeps_logits = wanted && run_receipt_due(run, wanted == ALL ? count : 1);
    if (wanted && run_engine_draws(run, &sampler, &draw))
        status = zt_llm_draw(run->llm, ids, count, wanted == ALL, &draw, run->next_ids);
    else if (wanted && run_engine_chooses(run))
        status = (wanted == ALL ? zt_llm_nexts : zt_llm_next)(run->llm, ids, count, run->next_ids);
    else
        status = zt_llm_feed(run->llm, ids, count, wanted == ALL, wanted ? run->logits : NULL);
    run->logits_row = 0;
    for (size_t i = 0; i < count && status == ZT_OK; i++) status = zt_ids_push(run->ctx, &run->fed_ids, ids[i]);
    return status;
}

/* The length of the common prefix of the cache and run->ids, at most `most`. */
static size_t common_prefix(const run_state *run, size_t most)
{
    size_t count = 0;
    while (count < most && count < run->fed_ids.count && run->fed_ids.id[count] == run->ids.id[count]) count++;
    return count;
}

/* Forgets what the cache holds from the first difference on, and takes what --kv-store has behind it. The prompt's last token is always fed again, for
 * its logits; with --all-logits all of them are. */
static zt_status forget_what_differs(run_state *run)
{
    size_t most = run->options->all_logits || run->options->no_kv_cache ? 0 : run->ids.count - 1;
    run->reused_count = common_prefix(run, most);
    zt_log(run->ctx, ZT_LOG_DEBUG, "prompt: %zu tokens, %zu in the cache", run->ids.count, run->reused_count);
    zt_status status = forget_after(run, run->reused_count);
    return status ? status : run_kv_store_fetch(run, most);
}

static zt_sink *begin_npy(run_state *run)
{
    int64_t rows = run->options->all_logits ? (int64_t)run->prompt_count : 1;
    zt_type type = zt_type_make(ZT_F32, 2, (int64_t[]){rows, run->vocab_rows});
    zt_sink *npy = zt_sink_open(run->ctx, run->options->logits, run->cli->force);
    if (npy && zt_npy_write_header(npy, run->ctx, &type) == ZT_OK) return npy;
    zt_sink_close(npy);
    return NULL;
}

/* Feeds the prompt in pieces. Afterwards row 0 of run->logits, or run->next_ids[0], is of its last token. */
static zt_status feed_pieces(run_state *run, zt_sink *npy)
{
    const bool all = run->options->all_logits;
    const size_t prompt_count = run->ids.count; /* of a receipt that is verified, with tokens that were generated */
    zt_status status = forget_what_differs(run);
    size_t vocab_rows = (size_t)run->vocab_rows, most = all ? (size_t)run->logits_rows : (size_t)run->options->chunk, count;
    for (size_t position = run->fed_ids.count; position < prompt_count && status == ZT_OK; position += count) {
        if (zt_cli_interrupted()) return ZT_EINTR;
        const size_t stop = run_kv_store_stop(run, position);
        count = stop - position < most ? stop - position : most;
        bool last = position + count == prompt_count;
        status = feed_tokens(run, run->ids.id + position, count, all ? ALL : last ? LAST : NOTHING);
        if (status == ZT_OK && position + count == stop && !last) run_kv_store_keep(run);
        if (status == ZT_OK && npy && (all || last))
            status = zt_sink_write(npy, run->logits, (all ? count : 1) * vocab_rows * sizeof(float));
        if (all && last) memmove(run->logits, run->logits + (count - 1) * vocab_rows, vocab_rows * sizeof(float));
        if (prompt_count > most)
            zt_progress(run->cli,
                        &(zt_work){"prompt", run->options->input, "tokens", (double)(position + count), (double)prompt_count});
    }
    return status == ZT_OK && npy ? zt_sink_commit(npy) : status;
}

static zt_status feed_prompt(run_state *run)
{
    zt_sink *npy = run->options->logits ? begin_npy(run) : NULL;
    if (run->options->logits && !npy) return zt_ctx_status(run->ctx);
    zt_status status = feed_pieces(run, npy);
    zt_sink_close(npy);
    return status;
}

float *run_logits(const run_state *run) { return run->logits + run->logits_row * (size_t)run->vocab_rows; }

/* ---- token after token ----------------------------------------------------------------------- */

bool run_ends_text(const run_state *run, int32_t id)
{
    if (!run->options->eos) return zt_vocab_is_eog(run->vocab, id);
    for (size_t i = 0; i < run->end_ids.count; i++)
        if (run->end_ids.id[i] == id) return true;
    return false;
}

static int32_t choose_token(run_state *run)
{
    zt_sampler sampler;
    zt_draw draw;
    if (!run->logits || run_engine_chooses(run) || run_engine_draws(run, &sampler, &draw)) return run->next_ids[run->logits_row];
    float *logits = run_logits(run);
    for (size_t i = 0; run->options->ignore_eos && i < run->end_ids.count; i++)
        if (run->end_ids.id[i] < run->choices) logits[run->end_ids.id[i]] = -INFINITY;
    return zt_sample(&sampler, logits, run->choices, run->ids.id, run->ids.count, (int64_t)run->ids.count, run->scratch);
}

/* Writes a token's id, if ids are wanted; and its text, unless it is the token that ends the text. */
static zt_status put_token(run_state *run, int32_t id, bool ends)
{
    zt_status status = ZT_OK;
    if (run->options->ids) {
        char text[16];
        const char *gap = run->ids.count > run->prompt_count + 1 ? " " : "";
        int length = snprintf(text, sizeof text, "%s%" PRId32, gap, id);
        status = run_write(run, text, (size_t)length);
    }
    return status == ZT_OK && !ends ? run_text_put(run, id) : status;
}

/* Feed the last token; without a cache, all of them. */
static zt_status feed_last(run_state *run)
{
    size_t from = run->options->no_kv_cache ? 0 : run->ids.count - 1;
    zt_status status = forget_after(run, from);
    return status == ZT_OK ? feed_tokens(run, run->ids.id + from, run->ids.count - from, LAST) : status;
}

/* Was the last token fed already, as part of a draft? Then its logits are the next row. */
static bool was_foreseen(run_state *run)
{
    size_t last = run->ids.count - 1;
    if (run->fed_ids.count <= last || run->fed_ids.id[last] != run->ids.id[last]) return false;
    run->logits_row++;
    run->accepted_count++;
    return true;
}

size_t run_draft_room(const run_state *run)
{
    size_t room = (size_t)zt_llm_get(run->llm).ctx_len - run->ids.count, made_count = run->ids.count - run->prompt_count;
    size_t wanted = run->options->new_tokens < 0 ? room : (size_t)run->options->new_tokens - made_count - 1;
    return wanted < room ? wanted : room;
}

/* Feeds the last token and a draft after it. */
static zt_status feed_ahead(run_state *run)
{
    int32_t batch[ZT_DRAFT_ROWS] = {run->ids.id[run->ids.count - 1]};
    const int32_t *draft;
    size_t draft_count = run_next_draft(run, run_draft_room(run), &draft);
    zt_status status = zt_ctx_status(run->ctx);
    if (status == ZT_OK && run->matcher && draft_count) status = run_cut_draft(run, draft, &draft_count);
    if (status == ZT_OK) status = forget_after(run, run->ids.count - 1);
    memcpy(batch + 1, draft, draft_count * sizeof *draft);
    double before = zt_seconds();
    if (status == ZT_OK) status = feed_tokens(run, batch, 1 + draft_count, draft_count ? ALL : LAST);
    run_draft_took(run, 1 + draft_count, zt_seconds() - before);
    run->drafted_count += draft_count;
    run->draft_batches += draft_count > 0;
    return status;
}

static zt_status feed_next(run_state *run)
{
    if (!run_drafts(run) && !run_receipt_is_verified(run)) return feed_last(run);
    return was_foreseen(run) ? ZT_OK : feed_ahead(run);
}

zt_status run_next_token(run_state *run)
{
    zt_status status = run->options->logprobs >= 0 ? run_note_likeliest(run) : ZT_OK;
    if (status == ZT_OK) status = run_receipt_logits(run);
    if (status == ZT_OK && run->matcher) status = run_restrict_logits(run, run_logits(run));
    if (status != ZT_OK || run->stop_reason) return status;
    int32_t id = choose_token(run);
    if (id < 0)
        return zt_fail(run->ctx, ZT_EDATA, "%s: all logits after token %zu are NaN", zt_gguf_name(run->gguf), run->ids.count);
    bool ends = run_ends_text(run, id);
    if (status == ZT_OK) status = zt_ids_push(run->ctx, &run->ids, id);
    if (status == ZT_OK) status = run_receipt_token(run, id);
    if (status == ZT_OK && run->options->logprobs >= 0) status = run_put_logprobs(run, id);
    if (status == ZT_OK && run->matcher && !ends) status = run_follow_grammar(run, id);
    if (status == ZT_OK) status = put_token(run, id, ends);
    if (run->first_token_time == 0) run->first_token_time = zt_seconds();
    if (ends && !run->stop_reason)
        run->stop_reason = "eos";
    else if (!run->stop_reason && zt_grammar_matcher_finished(run->matcher))
        run->stop_reason = "grammar";
    else if (!run->stop_reason && run->options->new_tokens >= 0 &&
             run->ids.count - run->prompt_count >= (size_t)run->options->new_tokens)
        run->stop_reason = "length";
    else if (!run->stop_reason && (int64_t)run->ids.count > zt_llm_get(run->llm).ctx_len)
        run->stop_reason = "ctx";
    return status;
}

/* Forgets drafts that were fed and did not come, and the token that ended the text. */
static zt_status forget_ahead(run_state *run)
{
    size_t keep = run->ids.count - (run->stop_reason && run->ids.count > run->prompt_count);
    return run->fed_ids.count > keep ? forget_after(run, keep) : ZT_OK;
}

static zt_status generate_tokens(run_state *run)
{
    zt_status status = ZT_OK;
    if (run->options->new_tokens == 0) run->stop_reason = "length";
    while (status == ZT_OK && !run->stop_reason) {
        status = zt_cli_interrupted() ? ZT_EINTR : run_next_token(run);
        if (status == ZT_OK && !run->stop_reason) status = feed_next(run);
    }
    zt_status end_status = run_text_end(run);
    if (end_status == ZT_OK) end_status = forget_ahead(run);
    return status == ZT_OK ? end_status : status;
}

/* The cache then holds all of run->ids. */
zt_status run_catch_up(run_state *run)
{
    size_t keep = common_prefix(run, run->ids.count);
    zt_status status = forget_after(run, keep);
    if (status != ZT_OK || keep == run->ids.count) return status;
    return feed_tokens(run, run->ids.id + keep, run->ids.count - keep, NOTHING);
}

zt_status run_check_room(const run_state *run)
{
    int64_t limit = zt_llm_get(run->llm).ctx_len;
    if ((int64_t)run->prompt_count <= limit) return ZT_OK;
    return zt_fail(run->ctx, ZT_ENOMEM, "the prompt of %zu tokens exceeds the context of %" PRId64 ": see --ctx",
                   run->prompt_count, limit);
}

zt_status run_answer(run_state *run)
{
    run_text_begin(run);
    run->asked_time = zt_seconds();
    zt_grammar_matcher_reset(run->matcher);
    zt_status status = run_check_room(run);
    if (status == ZT_OK) status = run_receipt_replay(run);
    if (status == ZT_OK) status = feed_prompt(run);
    run->prompt_time = zt_seconds();
    run->first_token_time = 0;
    run->drafted_count = run->accepted_count = run->draft_batches = 0;
    if (status == ZT_OK) status = generate_tokens(run);
    run->end_time = zt_seconds();
    if (status == ZT_OK || status == ZT_EINTR) run_kv_store_keep(run);
    if (status == ZT_OK && run->matcher && !run_receipt_is_verified(run) && !run_is_complete(run))
        zt_log(run->ctx, ZT_LOG_WARN, "the text ends before it fits the %s (stop: %s)", run->form, run->stop_reason);
    return status;
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* Parses --eos, as in "2,7", into run->end_ids. */
static zt_status parse_eos(run_state *run)
{
    int64_t id;
    zt_status status = ZT_OK;
    for (const char *part = run->options->eos, *next; status == ZT_OK && part; part = next) {
        char text[16];
        size_t length = strcspn(part, ",");
        next = part[length] ? part + length + 1 : NULL;
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), part);
        if (!zt_parse_i64(text, &id) || id < 0 || id >= zt_vocab_size(run->vocab))
            status = zt_fail(run->ctx, ZT_EUSAGE, "--eos: '%s' is not a list of token ids from 0 to %" PRId32, run->options->eos,
                             zt_vocab_size(run->vocab) - 1);
        else
            status = zt_ids_push(run->ctx, &run->end_ids, (int32_t)id);
    }
    return status;
}

/* Lists the tokens that end a text in run->end_ids, if the list is needed. */
static zt_status list_ends(run_state *run)
{
    zt_status status = ZT_OK;
    if (run->options->eos) return parse_eos(run);
    bool wanted = run->options->ignore_eos || run_takes_requests(run->options) || run->matcher;
    for (int32_t id = 0; wanted && id < zt_vocab_size(run->vocab); id++)
        if (status == ZT_OK && zt_vocab_is_eog(run->vocab, id)) status = zt_ids_push(run->ctx, &run->end_ids, id);
    return status;
}

static zt_status make_buffers(run_state *run)
{
    run->vocab_rows = zt_llm_get(run->llm).vocab;
    run->choices = zt_vocab_size(run->vocab);
    if (run->choices > run->vocab_rows) run->choices = run->vocab_rows;
    size_t row_bytes = (size_t)run->vocab_rows * sizeof(float);
    int64_t most_rows = (int64_t)(LOGITS_BYTES / row_bytes) + 1;
    run->logits_rows = run->options->all_logits ? (int64_t)run->prompt_count : 1;
    run->logits_rows = run->logits_rows < run->options->chunk ? run->logits_rows : run->options->chunk;
    run->logits_rows = run->logits_rows < most_rows ? run->logits_rows : most_rows;
    bool ahead = run->options->speculate && !run_takes_requests(run->options);
    if ((ahead || run->draft || run_receipt_is_verified(run)) && run->logits_rows < ZT_DRAFT_ROWS)
        run->logits_rows = ZT_DRAFT_ROWS;
    if (ahead) run->drafts = zt_drafts_open(run->ctx, run->vocab_rows);
    run->logits = zt_alloc_array(run->ctx, (size_t)run->logits_rows, row_bytes);
    run->scratch = zt_alloc_array(run->ctx, 2, row_bytes);
    return run->logits && run->scratch ? zt_ctx_status(run->ctx) : ZT_ENOMEM;
}

zt_status run_open_llm(run_state *run, int64_t max_tokens, bool embed)
{
    zt_llm_opts opts = run_llm_opts(run);
    if (run->options->plan && run_read_plan(run) != ZT_OK) return zt_ctx_status(run->ctx);
    if (!run->engine && run_open_engine(run) != ZT_OK) return zt_ctx_status(run->ctx);
    opts.engine = run->engine;
    opts.ranks = run->cli->ranks;
    opts.planned = run->plan;
    opts.max_tokens = max_tokens;
    opts.embed = embed;
    opts.hidden = !embed && run_head_drafts(run->options);
    run->seed = run->cli->seed;
    bool many = run_takes_requests(run->options) && !embed;
    zt_status status = many ? run_size_batch(run, &opts) : ZT_OK;
    if (status == ZT_OK) status = list_ends(run);
    /* Greedy choice needs no more than the best, unless logits are changed before. What requests
     * of --jsonl and --serve ask for, only they say. */
    bool best = run->options->sampler.temp == 0;
    bool drawn = many || (may_draw(run) && (!best || changes_logits(run)));
    opts.draws = drawn && !embed && zt_engine_inmost(run->engine)->vt->devices;
    opts.greedy = best && (many || !changes_logits(run));
    if (status == ZT_OK) run->llm = zt_llm_open(run->gguf, &opts);
    run->loaded_time = zt_seconds();
    if (!run->llm) return zt_ctx_status(run->ctx);
    status = zt_vocab_check_rows(run->vocab, zt_llm_get(run->llm).vocab);
    if (status == ZT_OK && !embed) status = make_buffers(run);
    if (status == ZT_OK && !embed) status = run_draft_open(run, max_tokens);
    if (status == ZT_OK) status = run_kv_store_open(run, embed);
    return status == ZT_OK && run->options->session ? run_session_load(run) : status;
}

/* Ends the output: with the object of --json, or with a newline where one is wanted. */
static zt_status finish_output(run_state *run)
{
    if (run->options->json) return run_report_json(run);
    return run->options->ids || (run->terminal && run->ids.count > run->prompt_count) ? run_write(run, "\n", 1) : ZT_OK;
}

zt_status run_generate(run_state *run)
{
    zt_status status = run_hold_to_options(run);
    if (status == ZT_OK) status = run_encode_prompt(run);
    if (status == ZT_OK)
        status =
            run_open_llm(run, run->options->new_tokens < 0 ? 0 : (int64_t)run->prompt_count + run->options->new_tokens, false);
    if (status == ZT_OK) status = run_receipt_begin(run);
    if (status == ZT_OK) status = run_answer(run);
    if (status == ZT_OK) status = run_receipt_end(run);
    if (status == ZT_OK) status = run_receipt_write(run);
    run_receipt_free(run);
    if (run->options->session && (status == ZT_OK || status == ZT_EINTR)) {
        zt_status saved = run_session_save(run);
        status = status == ZT_OK ? saved : status;
    }
    if (status == ZT_OK) status = finish_output(run);
    if (status == ZT_OK && run->options->stats) run_report_stats(run);
    return status;
}
