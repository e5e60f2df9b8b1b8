/* request.c - a request of --jsonl: from its line to its prompt's tokens, and its answer.
 *
 * Each request has a run_state of its own, a copy of the tool's that shares the model.
 */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- its prompt ------------------------------------------------------------------------------- */

zt_status request_read_ids(const run_state *run, const char *key, const json_t *value, zt_ids *ids)
{
    zt_status status = ZT_OK;
    json_int_t size = zt_vocab_size(run->vocab);
    for (size_t i = 0; i < json_array_size(value) && status == ZT_OK; i++) {
        json_int_t id = json_integer_value(json_array_get(value, i));
        if (id < 0 || id >= size)
            status = zt_fail(run->ctx, ZT_EDATA, "\"%s\": %lld is not a token id from 0 to %lld", key, (long long)id,
                             (long long)size - 1);
        else
            status = zt_ids_push(run->ctx, ids, (int32_t)id);
    }
    return status;
}

/* Token ids are the prompt as they are given. */
static zt_status take_ids(run_request *request)
{
    run_state *run = &request->run;
    zt_status status = request_read_ids(run, "prompt", request->prompt_ids, &run->ids);
    run->prompt_count = run->ids.count;
    return status;
}

static zt_status encode_prompt(run_request *request)
{
    run_state *run = &request->run;
    run->ids.count = 0;
    if (request->prompt_ids) return take_ids(request);
    if (request->messages) return request_encode_messages(request);
    if (!*request->prompt) return zt_fail(run->ctx, ZT_EUSAGE, "the prompt is empty");
    run->prompt_text = (char *)request->prompt;
    run->prompt_bytes = strlen(request->prompt);
    zt_status status = run_encode_prompt(run);
    run->prompt_text = NULL;
    return status;
}

/* ---- its answer ------------------------------------------------------------------------------ */

static zt_status put_error(run_request *request, zt_status error)
{
    zt_ctx *ctx = request->run.ctx;
    char message[1024];
    size_t line = request->line_number;
    int length = line ? snprintf(message, sizeof message, "line %zu: ", line) : 0;
    zt_escape(message + length, sizeof message - (size_t)length, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    zt_ctx_clear(ctx);
    zt_str_clear(&request->answer);
    zt_str_printf(&request->answer, "{\"id\":%s,\"line\":%zu,\"error\":", request->json_id ? request->json_id : "null", line);
    zt_str_put_json(&request->answer, message, strlen(message));
    zt_str_printf(&request->answer, ",\"status\":%d}\n", zt_exit_code(error));
    return zt_ctx_status(ctx);
}

bool request_is_theirs(zt_status status)
{
    return status == ZT_EDATA || status == ZT_EUSAGE || status == ZT_ENOMEM || status == ZT_ENOTSUP;
}

zt_status request_end(run_request *request, zt_status status)
{
    if (status == ZT_OK) status = run_text_end(&request->run);
    request->run.end_time = zt_seconds();
    if (status == ZT_OK) status = run_put_json(&request->run, &request->answer);
    request->failed = status != ZT_OK;
    request->done = true;
    return request_is_theirs(status) ? put_error(request, status) : status;
}

/* The last token was chosen, and others follow: was it fed already? */
static void count_accepted(run_request *request)
{
    const zt_ids *ids = &request->run.ids;
    const size_t index = ids->count - 1 - request->draft_from;
    if (ids->count > request->draft_from && index < request->draft_count && request->draft[index] == ids->id[ids->count - 1])
        request->run.accepted_count++;
}

zt_status request_next(void *text, float *logits, int32_t best, bool *more)
{
    run_request *request = text;
    if (request->run.prompt_time == 0) request->run.prompt_time = zt_seconds();
    request->run.logits = logits;
    request->run.next_ids[0] = best;
    zt_status status = ZT_OK;
    if (request->options.new_tokens == 0) /* the prompt only */
        request->run.stop_reason = "length";
    else
        status = run_next_token(&request->run);
    *more = status == ZT_OK && !request->run.stop_reason;
    if (*more) count_accepted(request);
    return *more ? ZT_OK : request_end(request, status);
}

size_t request_draft(void *text, size_t limit, const int32_t **draft)
{
    run_request *request = text;
    run_state *run = &request->run;
    size_t room = run_draft_room(run), count = run_next_draft(run, limit < room ? limit : room, draft);
    if (count && run->matcher && run_cut_draft(run, *draft, &count) != ZT_OK) count = 0;
    request->draft = *draft;
    request->draft_from = run->ids.count;
    request->draft_count = count;
    run->drafted_count += count;
    run->draft_batches += count > 0;
    return count;
}

void request_took(void *text, size_t rows, double seconds) { run_draft_took(&((run_request *)text)->run, rows, seconds); }

zt_status request_add(run_request *request, zt_batch *batch, void *text)
{
    zt_sampler sampler;
    zt_draw draw;
    const zt_ids *ids = &request->run.ids;
    if (run_engine_chooses(&request->run)) return zt_batch_add(batch, text, ids, false);
    if (run_engine_draws(&request->run, &sampler, &draw)) return zt_batch_add_drawn(batch, text, ids, &draw);
    if (run_wants_best(&request->run))
        return zt_batch_add_best(batch, text, ids, request->run.end_ids.id, request->run.end_ids.count);
    return zt_batch_add(batch, text, ids, true);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static void init_request(run_request *request, run_state *base)
{
    *request = (run_request){.run = *base, .options = *base->options};
    request->run.options = &request->options;
    request->run.seed = base->cli->seed;
    request->run.ids = request->run.fed_ids = (zt_ids){0};
    request->run.grammar = NULL;
    request->run.reply = NULL;
    request->run.matcher = request->run.draft_matcher = NULL;
    request->run.first_token_time = request->run.prompt_time = 0;
    request->run.asked_time = zt_seconds();
    zt_str *const strings[] = {REQUEST_STRINGS(request)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) zt_str_init(strings[i], base->ctx);
}

/* Of a prompt that was encoded before. */
static zt_status take_prompt(run_request *request, const request_prompt *prompt)
{
    run_state *run = &request->run;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < prompt->ids.count && status == ZT_OK; i++)
        status = zt_ids_push(run->ctx, &run->ids, prompt->ids.id[i]);
    run->prompt_count = run->ids.count;
    return status == ZT_OK && request->messages ? request_take_messages(request, prompt) : status;
}

zt_status request_encode(run_state *base, const char *text, size_t size, request_prompt *prompt)
{
    run_request *request = zt_alloc(base->ctx, sizeof *request);
    if (!request) return ZT_ENOMEM;
    init_request(request, base);
    request->run.prompt_end = &prompt->end;
    zt_status status = request_parse(request, text, size);
    if (status == ZT_OK) status = encode_prompt(request);
    prompt->ids = request->run.ids; /* it takes them */
    request->run.ids = (zt_ids){0};
    request_free(request);
    return status;
}

/* `encoded` NULL: the prompt is the line's. */
static run_request *make_request(run_state *base, const char *text, size_t size, size_t line, const request_prompt *encoded)
{
    run_request *request = zt_alloc(base->ctx, sizeof *request);
    if (!request) return NULL;
    init_request(request, base);
    request->line_number = line;
    run_text_begin(&request->run);
    zt_status status = request_parse(request, text, size);
    request->run.request_id = request->json_id;
    if (status == ZT_OK) status = request_hold(request);
    if (status == ZT_OK) status = encoded ? take_prompt(request, encoded) : encode_prompt(request);
    if (status == ZT_OK) status = run_check_room(&request->run);
    if (status == ZT_OK || request_end(request, status) == ZT_OK) return request;
    request_free(request);
    return NULL;
}

run_request *request_new(run_state *base, const char *text, size_t size, size_t line)
{
    return make_request(base, text, size, line, NULL);
}

run_request *request_new_encoded(run_state *base, const char *text, size_t size, const request_prompt *prompt)
{
    return make_request(base, text, size, 0, prompt);
}

void request_free(run_request *request)
{
    zt_ctx *ctx = request->run.ctx;
    zt_str *const strings[] = {REQUEST_STRINGS(request)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) zt_str_fini(strings[i]);
    run_release(&request->run);
    run_reply_free(&request->run);
    zt_ids_fini(ctx, &request->run.ids);
    if (request->own_stops) zt_free(ctx, request->options.stop_texts.item);
    zt_free(ctx, request->only);
    json_decref(request->json);
    free(request->content_text);
    free(request->json_id);
    zt_free(ctx, request);
}
