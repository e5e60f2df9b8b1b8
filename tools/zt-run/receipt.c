/* receipt.c - --receipt: links as tokens are generated, and the file at the end. */
#include "tools/zt-run/receipt.h"
#include "lib/llm/model_digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- links ------------------------------------------------------------------------------------ */

zt_status receipt_chain_open(zt_ctx *ctx, receipt_chain *chain, int64_t every, const uint8_t before[RECEIPT_LINK])
{
    *chain = (receipt_chain){.digest = zt_digest_new(ctx), .every = every};
    memcpy(chain->link, before, RECEIPT_LINK);
    return chain->digest ? ZT_OK : zt_ctx_status(ctx);
}

void receipt_chain_close(receipt_chain *chain)
{
    zt_digest_free(chain->digest);
    chain->digest = NULL;
}

bool receipt_chain_begins(const receipt_chain *chain, size_t position) { return position % (size_t)chain->every == 0; }

zt_status receipt_chain_logits(receipt_chain *chain, const float *logits, int64_t count)
{
    zt_status status = zt_digest_add(chain->digest, chain->link, RECEIPT_LINK);
    return status ? status : zt_digest_add(chain->digest, logits, (size_t)count * sizeof *logits);
}

zt_status receipt_chain_token(receipt_chain *chain, int32_t id, bool *whole)
{
    zt_status status = zt_digest_add(chain->digest, &id, sizeof id);
    chain->open_count++;
    *whole = chain->open_count == chain->every;
    return !status && *whole ? receipt_chain_end(chain) : status;
}

zt_status receipt_chain_end(receipt_chain *chain)
{
    chain->open_count = 0;
    return zt_digest_end(chain->digest, chain->link);
}

/* ---- the head --------------------------------------------------------------------------------- */

static json_t *list_ids(const int32_t *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count && list; i++)
        if (json_array_append_new(list, json_integer(ids[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The tokens that end a text. */
static json_t *list_ends(const run_state *run)
{
    json_t *list = json_array();
    for (int32_t id = 0; list && id < zt_vocab_size(run->vocab); id++)
        if (run_ends_text(run, id)) json_array_append_new(list, json_integer(id));
    return list;
}

static json_t *list_stops(const run_state *run)
{
    json_t *list = json_array();
    for (int i = 0; i < run->options->stop_texts.n; i++)
        json_array_append_new(list, json_string(run->options->stop_texts.item[i]));
    return list;
}

static json_t *describe_settings(const run_state *run)
{
    const run_options *options = run->options;
    const zt_sampler *sampler = &options->sampler;
    const zt_bytes turn = run_turn_text(run);
    const zt_llm_opts opts = run_llm_opts(run);
    const zt_dtype kv = opts.kv < ZT_DTYPE_COUNT ? opts.kv : options->exact ? ZT_F32 : ZT_F16;
    json_t *settings = json_pack("{s:I, s:b, s:s, s:f, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:b}", "ctx",
                                 (json_int_t)zt_llm_get(run->llm).ctx_len, "exact", (int)options->exact, "kv",
                                 zt_dtype_get(kv)->name, "temp", sampler->temp, "top_k", (json_int_t)sampler->top_k, "top_p",
                                 sampler->top_p, "min_p", sampler->min_p, "repeat_penalty", sampler->repeat_penalty,
                                 "repeat_last", (json_int_t)sampler->repeat_last, "frequency_penalty", sampler->frequency_penalty,
                                 "presence_penalty", sampler->presence_penalty, "ignore_eos", (int)options->ignore_eos);
    if (!settings) return NULL;
    json_object_set_new(settings, "n", options->new_tokens < 0 ? json_null() : json_integer(options->new_tokens));
    if (opts.kv_values < ZT_DTYPE_COUNT)
        json_object_set_new(settings, "kv_values", json_string(zt_dtype_get(opts.kv_values)->name));
    json_object_set_new(settings, "ends", list_ends(run));
    json_object_set_new(settings, "stop", list_stops(run));
    json_object_set_new(settings, "turn", turn.n ? json_stringn(turn.data, turn.n) : json_null());
    if (run->receipt_form) json_object_set(settings, "form", run->receipt_form);
    return settings;
}

json_t *receipt_make_head(run_state *run, const uint8_t model[RECEIPT_LINK])
{
    char text[ZT_DIGEST_TEXT], seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, run->seed);
    json_t *head =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:i, s:o?, s:o?}", "schema", RECEIPT_SCHEMA, "version", ZT_VERSION, "arithmetic",
                  ZT_ARITHMETIC, "model", zt_digest_text(model, text), "seed", seed, "every", (int)RECEIPT_EVERY, "settings",
                  describe_settings(run), "prompt", list_ids(run->ids.id, run->prompt_count));
    if (!head) zt_fail(run->ctx, ZT_ENOMEM, "--receipt: out of memory");
    return head;
}

zt_status receipt_head_digest(zt_ctx *ctx, const json_t *head, uint8_t digest[RECEIPT_LINK])
{
    char *text = json_dumps(head, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (!text) return zt_fail(ctx, ZT_ENOMEM, "receipt: out of memory");
    zt_digest *whole = zt_digest_new(ctx);
    zt_status status = whole ? zt_digest_add(whole, text, strlen(text)) : zt_ctx_status(ctx);
    if (!status) status = zt_digest_end(whole, digest);
    zt_digest_free(whole);
    free(text);
    return status;
}

/* ---- with the generation ---------------------------------------------------------------------- */

zt_status run_receipt_check_engine(const run_state *run, const char *option)
{
    const char *name = zt_engine_inmost(run->engine)->vt->name;
    if (strcmp(name, "cpu") != 0 && !run->engine->strict_bits)
        return zt_fail(run->ctx, ZT_ENOTSUP,
                       "%s: engine %s does not promise the same bits everywhere: use --strict-bits or --engine cpu", option,
                       name);
    return ZT_OK;
}

zt_status run_receipt_begin(run_state *run)
{
    uint8_t model[RECEIPT_LINK], head[RECEIPT_LINK];
    char text[ZT_DIGEST_TEXT];
    if (!run->options->receipt) return ZT_OK;
    zt_status status = run_receipt_check_engine(run, "--receipt");
    run->receipt = status ? NULL : zt_calloc(run->ctx, 1, sizeof *run->receipt);
    if (!run->receipt) return zt_ctx_status(run->ctx);
    run->receipt->links = json_array();
    status = zt_model_digest(run->gguf, zt_cli_interrupted, model);
    if (!status) run->receipt->head = receipt_make_head(run, model);
    if (!status) status = run->receipt->head ? receipt_head_digest(run->ctx, run->receipt->head, head) : ZT_ENOMEM;
    if (!status) json_array_append_new(run->receipt->links, json_string(zt_digest_text(head, text)));
    return status ? status : receipt_chain_open(run->ctx, &run->receipt->chain, RECEIPT_EVERY, head);
}

void run_receipt_free(run_state *run)
{
    if (!run->receipt) return;
    receipt_chain_close(&run->receipt->chain);
    json_decref(run->receipt->head);
    json_decref(run->receipt->links);
    json_decref(run->receipt_form);
    run->receipt_form = NULL;
    zt_free(run->ctx, run->receipt);
    run->receipt = NULL;
}

bool run_receipt_due(const run_state *run, size_t rows)
{
    size_t position = run->ids.count - run->prompt_count;
    for (size_t i = 0; run->receipt && i < rows; i++)
        if (receipt_chain_begins(&run->receipt->chain, position + i)) return true;
    return false;
}

zt_status run_receipt_logits(run_state *run)
{
    if (!run->receipt || !run_receipt_due(run, 1)) return ZT_OK;
    return receipt_chain_logits(&run->receipt->chain, run_logits(run), run->vocab_rows);
}

/* A link is whole: it is kept, or compared with the record's. */
static void note_link(run_state *run)
{
    struct run_receipt *receipt = run->receipt;
    const receipt_record *record = receipt->record;
    char text[ZT_DIGEST_TEXT];
    if (!record) {
        json_array_append_new(receipt->links, json_string(zt_digest_text(receipt->chain.link, text)));
        return;
    }
    size_t count = run->ids.count - run->prompt_count, link = (count - 1) / (size_t)record->every;
    if (!receipt->differs && memcmp(receipt->chain.link, record->chain + (link + 1) * RECEIPT_LINK, RECEIPT_LINK) != 0) {
        receipt->differs = "logits";
        receipt->differs_at = link * (size_t)record->every;
    }
    if (receipt->differs || count >= receipt->limit) run->stop_reason = "checked";
}

/* Is the token that was chosen the record's? */
static bool is_recorded(run_state *run, int32_t id)
{
    struct run_receipt *receipt = run->receipt;
    const size_t position = run->ids.count - 1 - run->prompt_count;
    if (!receipt->record || (position < receipt->record->tokens.count && receipt->record->tokens.id[position] == id)) return true;
    receipt->differs = position < receipt->record->tokens.count ? "token" : "stop";
    receipt->differs_at = position;
    run->stop_reason = "checked";
    return false;
}

zt_status run_receipt_token(run_state *run, int32_t id)
{
    bool whole = false;
    if (!run->receipt || !is_recorded(run, id)) return ZT_OK;
    zt_status status = receipt_chain_token(&run->receipt->chain, id, &whole);
    if (!status && whole) note_link(run);
    return status;
}

zt_status run_receipt_end(run_state *run)
{
    struct run_receipt *receipt = run->receipt;
    if (!receipt || receipt->differs || !receipt->chain.open_count) return ZT_OK;
    zt_status status = receipt_chain_end(&receipt->chain);
    if (!status) note_link(run);
    return status;
}

size_t run_receipt_draft(const run_state *run, size_t limit, const int32_t **draft)
{
    const receipt_record *record = run->receipt->record;
    size_t position = run->ids.count - run->prompt_count;
    size_t left = record->tokens.count > position ? record->tokens.count - position : 0;
    *draft = record->tokens.id + position;
    limit = limit < ZT_DRAFT_ROWS - 1 ? limit : ZT_DRAFT_ROWS - 1;
    return left < limit ? left : limit;
}

bool run_receipt_is_verified(const run_state *run) { return run->receipt && run->receipt->record; }

/* A token before those that are checked goes on in the grammar. One that it does not allow was never generated. */
static zt_status replay_grammar(run_state *run, size_t index)
{
    bool fits = true;
    const int32_t id = run->ids.id[index];
    if (!run->matcher || run->receipt->differs || run_ends_text(run, id)) return ZT_OK;
    zt_status status = zt_grammar_matcher_accept_token(run->matcher, id, &fits);
    if (status || fits) return status;
    run->receipt->differs = "token";
    run->receipt->differs_at = index - run->prompt_count;
    run->stop_reason = "checked";
    return ZT_OK;
}

/* A stop text may begin in what is not checked, and the grammar is where it ends. */
zt_status run_receipt_replay(run_state *run)
{
    const struct run_receipt *receipt = run->receipt;
    zt_status status = ZT_OK;
    if (!run_receipt_is_verified(run)) return ZT_OK;
    for (size_t i = run->prompt_count; i < run->ids.count && !status; i++) {
        status = run_text_put(run, run->ids.id[i]);
        if (!status) status = replay_grammar(run, i);
    }
    if (receipt->from == receipt->record->tokens.count) run->stop_reason = "checked";
    return status;
}

zt_bytes run_receipt_turn(const run_state *run)
{
    const char *turn = run->receipt->record->turn;
    return (zt_bytes){turn, turn ? strlen(turn) : 0};
}

/* ---- the file --------------------------------------------------------------------------------- */

zt_status run_receipt_write(run_state *run)
{
    struct run_receipt *receipt = run->receipt;
    if (!receipt || receipt->record) return ZT_OK;
    json_t *whole = json_copy(receipt->head);
    if (whole) {
        json_object_set_new(whole, "tokens", list_ids(run->ids.id + run->prompt_count, run->ids.count - run->prompt_count));
        json_object_set_new(whole, "stop", json_string(run->stop_reason));
        json_object_set_new(whole, "isa", json_string(zt_isa_name(run->cli->isa)));
        json_object_set(whole, "chain", receipt->links);
    }
    char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(whole);
    if (!text) return zt_fail(run->ctx, ZT_ENOMEM, "--receipt: out of memory");
    zt_sink *sink = zt_sink_open(run->ctx, run->options->receipt, run->cli->force);
    zt_status status = sink ? zt_sink_write(sink, text, strlen(text)) : zt_ctx_status(run->ctx);
    if (!status) status = zt_sink_write(sink, "\n", 1);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    free(text);
    return status;
}
