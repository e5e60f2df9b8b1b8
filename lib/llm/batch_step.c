/* batch_step.c - one step of a batch: choose the rows to feed, run the program, hand each text its result. */
#include "lib/llm/batch_internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- the rows of a step --------------------------------------------------------------------- */

/* Adds the next row_count tokens of a text, which must have room for them, and asks for a result if the last token is
 * among them. */
static zt_status add_rows(zt_batch *batch, size_t text_index, int64_t row_count)
{
    const zt_batch_text *text = &batch->text[text_index];
    int64_t first_row = batch->n_rows, left = zt_batch_left(batch, text), first_token = (int64_t)text->ids->count - left;
    zt_status status = ZT_OK;
    for (int64_t row = 0; row < row_count && status == ZT_OK; row++) {
        batch->ids[first_row + row] = text->ids->id[first_token + row];
        status = zt_batch_check_id(batch, batch->ids[first_row + row]);
    }
    if (status == ZT_OK)
        status = zt_pages_append(batch->pages, text->seq, row_count, batch->pos + first_row, batch->seq + first_row);
    if (status != ZT_OK)
        return status;
    batch->slot[text->seq].last_step = batch->count.steps;
    batch->n_rows += row_count;
    if (row_count == left) {
        batch->rows[batch->n_wanted] = (int32_t)(batch->n_rows - 1);
        batch->wanted_texts[batch->n_wanted++] = text_index;
    }
    return ZT_OK;
}

/* Adds one token of each generating text, a piece of each prompt, and starts waiting texts. Prompts share what the
 * generating texts leave of the chunk, at least one token. */
static zt_status plan_rows(zt_batch *batch)
{
    int64_t generating = 0, chunk;
    zt_status status = ZT_OK;
    batch->n_rows = batch->n_wanted = 0;
    for (size_t i = 0; i < batch->running; i++)
        generating += zt_batch_left(batch, &batch->text[i]) == 1;
    chunk = batch->chunk > generating ? batch->chunk - generating : 1;
    for (size_t i = 0; status == ZT_OK && i < batch->text_count; i++) {
        bool runs = i < batch->running;
        if (!runs && (chunk == 0 || !zt_batch_enter(batch)))
            break;
        int64_t left = zt_batch_left(batch, &batch->text[i]), row_count = left < chunk ? left : chunk;
        if (runs && left == 1)
            row_count = 1;
        else
            chunk -= row_count;
        if (row_count == 0)
            continue;
        if (!zt_batch_room_for(batch, i, row_count)) {
            zt_batch_put_back(batch);
            break;
        }
        status = add_rows(batch, i, row_count);
    }
    return status;
}

/* ---- a step --------------------------------------------------------------------------------- */

static zt_status reserve_logits(zt_batch *batch, int64_t rows)
{
    if (rows <= batch->logits_rows)
        return ZT_OK;
    zt_free(batch->ctx, batch->logits);
    batch->logits_rows = 0;
    batch->logits = zt_alloc_array(batch->ctx, (size_t)rows, (size_t)batch->info.vocab * sizeof *batch->logits);
    if (!batch->logits)
        return ZT_ENOMEM;
    batch->logits_rows = rows;
    return ZT_OK;
}

static const zt_sampler greedy = {.top_p = 1, .repeat_penalty = 1};

/* A text with banned tokens needs logits too: if the most probable token is banned, they give the next one. */
static bool text_needs(const zt_batch_text *text, zt_batch_gets kind)
{
    return text->gets == kind || (kind == ZT_GETS_LOGITS && text->gets == ZT_GETS_BEST && text->n_banned > 0);
}

static bool any_text_needs(const zt_batch *batch, zt_batch_gets kind)
{
    for (int64_t wanted = 0; wanted < batch->n_wanted; wanted++)
        if (text_needs(&batch->text[batch->wanted_texts[wanted]], kind))
            return true;
    return false;
}

static zt_status feed_rows(zt_batch *batch, const bool wanted[ZT_GETS])
{
    zt_status status = wanted[ZT_GETS_LOGITS] ? reserve_logits(batch, batch->n_wanted) : ZT_OK;
    const void *inputs[5 + ZT_DRAW_INPUTS] = {batch->ids, batch->pos, batch->seq, zt_pages_table(batch->pages), batch->rows};
    void *outputs[] = {wanted[ZT_GETS_LOGITS] ? batch->logits : NULL, wanted[ZT_GETS_BEST] ? batch->best : NULL,
                       wanted[ZT_GETS_DRAWN] ? batch->drawn : NULL};
    zt_binding symbols[] = {{"n", batch->n_rows}, {"m", batch->n_wanted}};
    if (batch->drawing)
        zt_drawing_inputs(batch->drawing, inputs + 5);
    return status ? status : zt_session_step(zt_llm_session(batch->llm), symbols, 2, inputs, outputs);
}

/* Sets how each row is drawn. Rows of texts that do not draw get the greedy sampler; their result is not read. */
static void describe_draws(zt_batch *batch)
{
    for (int64_t wanted = 0; wanted < batch->n_wanted; wanted++) {
        const zt_batch_text *text = &batch->text[batch->wanted_texts[wanted]];
        zt_draw draw = {.sampler = &greedy};
        if (text->gets == ZT_GETS_DRAWN)
            draw = (zt_draw){.sampler = &text->sampler,
                             .history = text->ids->id,
                             .n_history = text->ids->count,
                             .banned = text->banned,
                             .n_banned = text->n_banned};
        zt_drawing_row(batch->drawing, wanted, &draw, NULL, 0);
    }
}

static zt_status feed_step(zt_batch *batch)
{
    zt_status status = plan_rows(batch);
    bool wanted[ZT_GETS];
    for (int kind = 0; kind < ZT_GETS; kind++)
        wanted[kind] = any_text_needs(batch, (zt_batch_gets)kind);
    if (status == ZT_OK && wanted[ZT_GETS_DRAWN])
        describe_draws(batch);
    if (status == ZT_OK)
        status = feed_rows(batch, wanted);
    if (status != ZT_OK) {
        zt_batch_put_back_all(batch);
        return status;
    }
    batch->count.steps++;
    batch->count.rows += (uint64_t)batch->n_rows;
    return ZT_OK;
}

/* Token 0 is also the result when every logit is NaN. Tells the two apart by the logits, for which the last token is
 * fed again unless they are at hand; *best becomes -1 for NaN. */
static zt_status check_zero(zt_batch *batch, const zt_batch_text *text, const float *logits, int32_t *best)
{
    if (!logits) {
        batch->ids[0] = text->ids->id[text->ids->count - 1];
        batch->pos[0] = (int32_t)(text->ids->count - 1);
        batch->seq[0] = text->seq;
        batch->rows[0] = 0;
        batch->n_rows = batch->n_wanted = 1;
        zt_status status = feed_rows(batch, (bool[ZT_GETS]){[ZT_GETS_LOGITS] = true});
        if (status != ZT_OK)
            return status;
        logits = batch->logits;
    }
    if (isnan(logits[0]))
        *best = -1;
    return ZT_OK;
}

static bool is_banned(const zt_batch_text *text, int32_t token)
{
    for (size_t i = 0; i < text->n_banned; i++)
        if (text->banned[i] == token)
            return true;
    return false;
}

/* The most probable token that is not banned. */
static int32_t best_other(const zt_batch *batch, const zt_batch_text *text, float *logits)
{
    for (size_t i = 0; i < text->n_banned; i++)
        if (text->banned[i] >= 0 && text->banned[i] < batch->info.vocab)
            logits[text->banned[i]] = -INFINITY;
    return zt_sample(&greedy, logits, batch->info.vocab, text->ids->id, text->ids->count, (int64_t)text->ids->count, NULL);
}

/* Gives the wanted-th text its next token. `logits`: of its row, or NULL. */
static zt_status hand_result(zt_batch *batch, int64_t wanted, float *logits)
{
    zt_batch_text *text = &batch->text[batch->wanted_texts[wanted]];
    bool wants_logits = text->gets == ZT_GETS_LOGITS, wants_best = text->gets == ZT_GETS_BEST, more = false;
    int32_t token = wants_logits ? -1 : wants_best ? batch->best[wanted] : batch->drawn[wanted];
    zt_status status = wants_best && token == 0 ? check_zero(batch, text, logits, &token) : ZT_OK;
    if (status == ZT_OK && wants_best && logits && is_banned(text, token))
        token = best_other(batch, text, logits);
    if (status == ZT_OK)
        status = batch->opts.next(text->user, wants_logits ? logits : NULL, token, &more);
    text->done = !more;
    if (status == ZT_OK && more && ((int64_t)text->ids->count > batch->info.ctx_len || zt_batch_left(batch, text) < 1))
        status = zt_fail(batch->ctx, ZT_EUSAGE, "a text of %zu tokens goes on with %" PRId64 " more in a context of %" PRId64,
                         text->ids->count, zt_batch_left(batch, text), batch->info.ctx_len);
    if (status == ZT_OK && more && batch->opts.forget)
        zt_pages_cut(batch->pages, text->seq, 0);
    return status;
}

/* Memory was short. The first time frees caches; later each call halves the texts and prompt tokens a step. False:
 * both are 1 already. */
static bool take_less(zt_batch *batch, bool first)
{
    if (!first && batch->max_running == 1 && batch->chunk == 1)
        return false;
    if (!first) {
        batch->max_running = (batch->max_running + 1) / 2;
        batch->chunk = (batch->chunk + 1) / 2;
    }
    zt_free(batch->ctx, batch->logits);
    batch->logits = NULL;
    batch->logits_rows = 0;
    zt_session_forget(zt_llm_session(batch->llm));
    zt_ctx_clear(batch->ctx);
    return true;
}

zt_status zt_batch_step(zt_batch *batch)
{
    zt_status status = ZT_OK;
    if (batch->text_count == 0)
        return ZT_OK;
    for (bool first = true; (status = feed_step(batch)) == ZT_ENOMEM && take_less(batch, first); first = false)
        continue;
    int64_t wanted_count = batch->n_wanted;
    bool logits = status == ZT_OK && any_text_needs(batch, ZT_GETS_LOGITS);
    for (int64_t wanted = 0; wanted < wanted_count && status == ZT_OK; wanted++)
        status = hand_result(batch, wanted, logits ? batch->logits + wanted * batch->info.vocab : NULL);
    if (status != ZT_OK)
        zt_batch_put_back_all(batch);
    zt_batch_let_go(batch);
    return status;
}
