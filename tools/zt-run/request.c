/* request.c - a request of --jsonl: from its line to its prompt's tokens, and its answer.
 *
 * Each has a run of its own, which borrows the model and what goes with it from the tool's.
 */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- its prompt ------------------------------------------------------------------------------- */

static zt_status encode(request *q)
{
    run *r = &q->r;
    r->ids.count = 0;
    if (q->messages)
        return request_encode_messages(q);
    if (!*q->prompt)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt is empty");
    r->input = (char *)q->prompt;
    r->input_bytes = strlen(q->prompt);
    zt_status s = run_encode_prompt(r);
    r->input = NULL;
    return s;
}

/* ---- its answer ------------------------------------------------------------------------------ */

static zt_status put_error(request *q, zt_status why)
{
    zt_ctx *ctx = q->r.ctx;
    char message[1024];
    int n = snprintf(message, sizeof message, "line %zu: ", q->line);
    zt_escape(message + n, sizeof message - (size_t)n, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    zt_ctx_clear(ctx);
    zt_str_clear(&q->answer);
    zt_str_printf(&q->answer, "{\"id\":%s,\"line\":%zu,\"error\":", q->id ? q->id : "null", q->line);
    zt_str_put_json(&q->answer, message, strlen(message));
    zt_str_printf(&q->answer, ",\"status\":%d}\n", zt_exit_code(why));
    return zt_ctx_status(ctx);
}

bool request_is_theirs(zt_status s)
{
    return s == ZT_EDATA || s == ZT_EUSAGE || s == ZT_ENOMEM || s == ZT_ENOTSUP;
}

zt_status request_end(request *q, zt_status s)
{
    if (s == ZT_OK)
        s = run_text_end(&q->r);
    q->r.ended = zt_seconds();
    if (s == ZT_OK)
        s = run_put_json(&q->r, &q->answer);
    q->failed = s != ZT_OK;
    q->done = true;
    return request_is_theirs(s) ? put_error(q, s) : s;
}

zt_status request_next(void *text, float *logits, int32_t best, bool *more)
{
    request *q = text;
    if (q->r.prompted == 0)
        q->r.prompted = zt_seconds();
    q->r.logits = logits;
    q->r.next[0] = best;
    zt_status s = ZT_OK;
    if (q->o.n == 0) /* the prompt only */
        q->r.stop = "length";
    else
        s = run_next_token(&q->r);
    *more = s == ZT_OK && !q->r.stop;
    return *more ? ZT_OK : request_end(q, s);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static void begin(request *q, run *base)
{
    *q = (request){.r = *base, .o = *base->o};
    q->r.o = &q->o;
    q->r.seed = base->cli->seed;
    q->r.ids = q->r.fed = (zt_ids){0};
    q->r.first = q->r.prompted = 0;
    q->r.asked = zt_seconds();
    zt_str *const strings[] = {REQUEST_STRINGS(q)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        zt_str_init(strings[i], base->ctx);
}

request *request_new(run *base, const char *text, size_t n, size_t line)
{
    request *q = zt_alloc(base->ctx, sizeof *q);
    if (!q)
        return NULL;
    begin(q, base);
    q->line = line;
    run_text_begin(&q->r);
    zt_status s = request_parse(q, text, n);
    q->r.id = q->id;
    if (s == ZT_OK)
        s = encode(q);
    if (s == ZT_OK)
        s = run_check_room(&q->r);
    if (s == ZT_OK || request_end(q, s) == ZT_OK)
        return q;
    request_free(q);
    return NULL;
}

void request_free(request *q)
{
    zt_ctx *ctx = q->r.ctx;
    zt_str *const strings[] = {REQUEST_STRINGS(q)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        zt_str_fini(strings[i]);
    zt_ids_fini(ctx, &q->r.ids);
    if (q->own_stops)
        zt_free(ctx, q->o.stop.item);
    json_decref(q->json);
    free(q->id);
    zt_free(ctx, q);
}
