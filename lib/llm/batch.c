/* batch.c - continuous batching: the texts of a batch, and its steps.
 *
 * A draft follows the last token of the only text, and each of its rows is answered as long as the token chosen is the one
 * that was fed. The pages are then cut behind the last of them. With recurrent layers the slot keeps the state behind the
 * text, and a spare slot gets that behind the draft: unless all of it came, what came is fed again with the next step.
 */
#include "lib/base/require.h"
#include "lib/llm/batch_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- open and close ------------------------------------------------------------------------- */

static zt_status make_arrays(zt_batch *batch)
{
    size_t slot_count = (size_t)batch->info.n_seq, row_count = slot_count + 1, wanted_count = slot_count + ZT_DRAFT_ROWS;
    if ((size_t)batch->info.chunk > row_count) row_count = (size_t)batch->info.chunk;
    row_count += ZT_DRAFT_ROWS;
    batch->slot = zt_calloc(batch->ctx, slot_count, sizeof *batch->slot);
    batch->ids = zt_alloc_array(batch->ctx, row_count, sizeof *batch->ids);
    batch->pos = zt_alloc_array(batch->ctx, row_count, sizeof *batch->pos);
    batch->seq = zt_alloc_array(batch->ctx, row_count, sizeof *batch->seq);
    batch->from = zt_alloc_array(batch->ctx, row_count, sizeof *batch->from);
    batch->to = zt_alloc_array(batch->ctx, row_count, sizeof *batch->to);
    batch->rows = zt_alloc_array(batch->ctx, wanted_count, sizeof *batch->rows);
    batch->best = zt_alloc_array(batch->ctx, wanted_count, sizeof *batch->best);
    batch->drawn = zt_alloc_array(batch->ctx, wanted_count, sizeof *batch->drawn);
    batch->wanted_texts = zt_alloc_array(batch->ctx, wanted_count, sizeof *batch->wanted_texts);
    if (!batch->slot || !batch->ids || !batch->pos || !batch->seq || !batch->from || !batch->to || !batch->rows || !batch->best ||
        !batch->drawn || !batch->wanted_texts)
        return ZT_ENOMEM;
    const size_t row_bytes = (size_t)batch->info.width * sizeof *batch->hidden;
    if (batch->info.hidden_bytes && !(batch->hidden = zt_alloc_array(batch->ctx, row_count, row_bytes))) return ZT_ENOMEM;
    if (zt_llm_draws(batch->llm) && !(batch->drawing = zt_drawing_new(batch->ctx, (int64_t)wanted_count))) return ZT_ENOMEM;
    return ZT_OK;
}

zt_batch *zt_batch_open(zt_llm *model, const zt_batch_opts *opts)
{
    if (!model) return NULL;
    ZT_REQUIRE(zt_llm_ctx(model), opts, NULL);
    zt_ctx *ctx = zt_llm_ctx(model);
    zt_batch *batch = zt_calloc(ctx, 1, sizeof *batch);
    if (!batch) return NULL;
    *batch = (zt_batch){.ctx = ctx, .llm = model, .opts = *opts, .info = zt_llm_get(model)};
    batch->max_running = (size_t)batch->info.n_seq;
    batch->chunk = batch->info.chunk;
    batch->pages = zt_pages_open(ctx, batch->info.cache_len / ZT_LLM_BLOCK, ZT_LLM_BLOCK, batch->info.n_seq);
    if (batch->pages && make_arrays(batch) == ZT_OK) return batch;
    zt_batch_close(batch);
    return NULL;
}

void zt_batch_close(zt_batch *batch)
{
    if (!batch) return;
    for (int64_t i = 0; batch->slot && i < batch->info.n_seq; i++) zt_ids_fini(batch->ctx, &batch->slot[i].kept);
    zt_pages_close(batch->pages);
    zt_free(batch->ctx, batch->slot);
    zt_free(batch->ctx, batch->text);
    zt_free(batch->ctx, batch->ids);
    zt_free(batch->ctx, batch->pos);
    zt_free(batch->ctx, batch->seq);
    zt_free(batch->ctx, batch->from);
    zt_free(batch->ctx, batch->to);
    zt_free(batch->ctx, batch->rows);
    zt_free(batch->ctx, batch->best);
    zt_free(batch->ctx, batch->drawn);
    zt_drawing_free(batch->drawing);
    zt_free(batch->ctx, batch->wanted_texts);
    zt_free(batch->ctx, batch->logits);
    zt_free(batch->ctx, batch->hidden);
    zt_free(batch->ctx, batch);
}

zt_batch_count zt_batch_counted(const zt_batch *batch)
{
    if (!batch) return (zt_batch_count){0};
    zt_batch_count count = batch->count;
    count.texts = batch->text_count;
    count.running = batch->running;
    count.pages = zt_pages_counted(batch->pages);
    return count;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static zt_status check_id(const zt_batch *batch, int32_t id)
{
    if (id >= 0 && id < batch->info.vocab) return ZT_OK;
    return zt_fail(batch->ctx, ZT_EUSAGE, "token id %" PRId32 " is out of range, expected 0 to %" PRId64, id,
                   batch->info.vocab - 1);
}

static zt_status add_text(zt_batch *batch, zt_batch_text text)
{
    const zt_ids *ids = text.ids;
    zt_status status = ZT_OK;
    text.seq = -1;
    if (ids->count == 0) return zt_fail(batch->ctx, ZT_EUSAGE, "no token to continue from");
    if (ids->count > (size_t)batch->info.ctx_len)
        return zt_fail(batch->ctx, ZT_ENOMEM, "the context of %" PRId64 " tokens is too small: %zu were given",
                       batch->info.ctx_len, ids->count);
    for (size_t i = 0; i < ids->count && status == ZT_OK; i++) status = check_id(batch, ids->id[i]);
    if (status == ZT_OK && batch->text_count == batch->text_capacity) {
        size_t cap = batch->text_capacity ? 2 * batch->text_capacity : 64;
        zt_batch_text *more = zt_realloc(batch->ctx, batch->text, cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        batch->text = more;
        batch->text_capacity = cap;
    }
    if (status == ZT_OK) batch->text[batch->text_count++] = text;
    return status;
}

zt_status zt_batch_add(zt_batch *batch, void *user, const zt_ids *ids, bool logits)
{
    if (!batch) return ZT_EUSAGE;
    ZT_REQUIRE(batch->ctx, ids, ZT_EUSAGE);
    zt_batch_gets gets = logits ? ZT_GETS_LOGITS : ZT_GETS_BEST;
    return add_text(batch, (zt_batch_text){.user = user, .ids = ids, .gets = gets});
}

zt_status zt_batch_add_best(zt_batch *batch, void *user, const zt_ids *ids, const int32_t *banned, size_t banned_count)
{
    if (!batch) return ZT_EUSAGE;
    ZT_REQUIRE(batch->ctx, ids, ZT_EUSAGE);
    return add_text(batch,
                    (zt_batch_text){.user = user, .ids = ids, .gets = ZT_GETS_BEST, .banned = banned, .n_banned = banned_count});
}

zt_status zt_batch_add_drawn(zt_batch *batch, void *user, const zt_ids *ids, const zt_draw *draw)
{
    if (!batch) return ZT_EUSAGE;
    ZT_REQUIRE(batch->ctx, draw, ZT_EUSAGE);
    if (!batch->drawing || !zt_draw_fits(draw))
        return zt_fail(batch->ctx, ZT_EUSAGE, "the engine cannot sample this model's tokens with these settings");
    return add_text(batch, (zt_batch_text){.user = user,
                                           .ids = ids,
                                           .gets = ZT_GETS_DRAWN,
                                           .sampler = *draw->sampler,
                                           .banned = draw->banned,
                                           .n_banned = draw->n_banned});
}

void zt_batch_drop(zt_batch *batch, const void *user)
{
    if (!batch) return;
    for (size_t i = 0; i < batch->text_count; i++)
        if (batch->text[i].user == user) batch->text[i].done = true;
    zt_batch_remove_done(batch);
    batch->max_running = (size_t)batch->info.n_seq;
    batch->chunk = batch->info.chunk;
}

/* ---- the rows of a step --------------------------------------------------------------------- */

/* The spare slot that was used longest ago. */
static int oldest_prefix(const zt_batch *batch)
{
    int found = 0;
    for (int i = 1; i < ZT_SPARE_SLOTS; i++)
        if (batch->prefix[found].position > 0 &&
            (batch->prefix[i].position == 0 || batch->prefix[i].last_step < batch->prefix[found].last_step))
            found = i;
    return found;
}

/* States of recurrent layers: rows of a text start from its slot, or from zeros, and leave the last state there; and one on the
 * way in a spare slot. */
static void name_states(zt_batch *batch, int seq, int64_t first_row, int64_t row_count)
{
    zt_batch_slot *slot = &batch->slot[seq];
    for (int64_t row = first_row; row < first_row + row_count; row++) {
        batch->from[row] = row > first_row ? ZT_STATE_CONTINUED : batch->pos[row] == 0 ? ZT_STATE_ZEROS : (int32_t)slot->state;
        batch->to[row] = row == first_row + row_count - 1 ? seq : -1;
        if (batch->pos[row] + 1 != slot->save_at || batch->to[row] >= 0) continue;
        int spare = oldest_prefix(batch);
        batch->to[row] = (int32_t)(batch->info.n_seq + spare);
        batch->prefix[spare] = (zt_batch_prefix){seq, slot->save_at, batch->count.steps};
    }
    slot->state = seq;
}

/* How many of the next row_count tokens of a text a step takes: no more than up to its stop; and, since a row gives its state to one
 * slot, not up to where a state is to be kept on the way. */
static int64_t rows_of_step(const zt_batch *batch, const zt_batch_text *text, int64_t row_count)
{
    const zt_batch_slot *slot = &batch->slot[text->seq];
    const int64_t length = zt_pages_length(batch->pages, text->seq);
    if (slot->stop > length && row_count > slot->stop - length) row_count = slot->stop - length;
    return length + row_count == slot->save_at && row_count > 1 ? row_count - 1 : row_count;
}

/* Adds the next row_count tokens of a text, which must have room for them, and asks for a result if the last token is
 * among them. */
static zt_status add_rows(zt_batch *batch, size_t text_index, int64_t row_count)
{
    const zt_batch_text *text = &batch->text[text_index];
    int64_t first_row = batch->n_rows, left = zt_batch_count_unfed(batch, text), first_token = (int64_t)text->ids->count - left;
    zt_status status = ZT_OK;
    for (int64_t row = 0; row < row_count && status == ZT_OK; row++) {
        batch->ids[first_row + row] = text->ids->id[first_token + row];
        status = check_id(batch, batch->ids[first_row + row]);
    }
    if (status == ZT_OK)
        status = zt_pages_append(batch->pages, text->seq, row_count, batch->pos + first_row, batch->seq + first_row);
    if (status != ZT_OK) return status;
    name_states(batch, text->seq, first_row, row_count);
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
    for (size_t i = 0; i < batch->running; i++) generating += zt_batch_count_unfed(batch, &batch->text[i]) == 1;
    chunk = batch->chunk > generating ? batch->chunk - generating : 1;
    for (size_t i = 0; status == ZT_OK && i < batch->text_count; i++) {
        bool runs = i < batch->running;
        if (!runs && (chunk == 0 || !zt_batch_start_text(batch))) break;
        int64_t left = zt_batch_count_unfed(batch, &batch->text[i]);
        int64_t row_count = rows_of_step(batch, &batch->text[i], left < chunk ? left : chunk);
        if (runs && left == 1)
            row_count = 1;
        else
            chunk -= row_count;
        if (row_count == 0) continue;
        if (!zt_batch_make_room_for(batch, i, row_count)) {
            zt_batch_put_back_last(batch);
            break;
        }
        status = add_rows(batch, i, row_count);
    }
    return status;
}

/* ---- drafts ---------------------------------------------------------------------------------- */

/* The only text, where all of its tokens are among the rows and the last one was generated; else NULL. */
static const zt_batch_text *lone_text(const zt_batch *batch)
{
    const zt_batch_text *text = batch->text;
    bool lone = batch->text_count == 1 && batch->running == 1 && batch->n_wanted == 1;
    return batch->opts.draft && !batch->opts.forget && lone && text->answered && batch->n_rows <= ZT_DRAFT_ROWS ? text : NULL;
}

/* States of recurrent layers: the slot gets that behind the text, as without a draft; a spare slot that behind the draft. */
static void name_draft_states(zt_batch *batch, int seq, int64_t first_row)
{
    batch->draft_state = oldest_prefix(batch);
    for (int64_t row = first_row; row < batch->n_rows; row++) {
        batch->from[row] = ZT_STATE_CONTINUED;
        batch->to[row] = row == batch->n_rows - 1 ? (int32_t)(batch->info.n_seq + batch->draft_state) : -1;
    }
    batch->prefix[batch->draft_state] = (zt_batch_prefix){seq, zt_pages_length(batch->pages, seq), batch->count.steps};
}

/* Adds a draft behind the rows of the only text. */
static zt_status add_draft(zt_batch *batch)
{
    const zt_batch_text *text = lone_text(batch);
    const int32_t *draft = NULL;
    batch->n_draft = 0;
    batch->lone = text;
    if (!text) return ZT_OK;
    int64_t limit = batch->info.ctx_len - (int64_t)text->ids->count, first_row = batch->n_rows;
    if (limit > ZT_DRAFT_ROWS - 1) limit = ZT_DRAFT_ROWS - 1;
    int64_t count = limit > 0 ? (int64_t)batch->opts.draft(text->user, (size_t)limit, &draft) : 0;
    zt_status status = zt_ctx_status(batch->ctx);
    if (count > limit) count = limit;
    for (int64_t i = 0; i < count && status == ZT_OK; i++) status = check_id(batch, draft[i]);
    if (status != ZT_OK || count <= 0 || !zt_batch_make_room_for(batch, 0, count)) return status;
    status = zt_pages_append(batch->pages, text->seq, count, batch->pos + first_row, batch->seq + first_row);
    if (status != ZT_OK) return status;
    for (int64_t i = 0; i < count; i++) {
        batch->draft[i] = batch->ids[first_row + i] = draft[i];
        batch->rows[batch->n_wanted] = (int32_t)(first_row + i);
        batch->wanted_texts[batch->n_wanted++] = 0;
    }
    batch->n_rows += count;
    batch->n_draft = count;
    batch->count.drafted += (uint64_t)count;
    if (zt_batch_is_recurrent(batch)) name_draft_states(batch, text->seq, first_row);
    return ZT_OK;
}

/* After `accepted` tokens of the draft came: cuts what did not from the cache. */
static void cut_draft(zt_batch *batch, const zt_batch_text *text, int64_t accepted)
{
    zt_batch_slot *slot = &batch->slot[text->seq];
    const bool recurrent = zt_batch_is_recurrent(batch);
    const int64_t before = zt_pages_length(batch->pages, text->seq) - batch->n_draft;
    batch->count.accepted += (uint64_t)accepted;
    if (recurrent && accepted == batch->n_draft && !text->done) {
        slot->state = batch->info.n_seq + batch->draft_state;
        return;
    }
    const int64_t length = recurrent ? before : before + accepted;
    zt_pages_cut(batch->pages, text->seq, length);
    zt_batch_cut_prefixes(batch, text->seq, length);
}

/* ---- a step --------------------------------------------------------------------------------- */

static zt_status reserve_logits(zt_batch *batch, int64_t rows)
{
    if (rows <= batch->logits_rows) return ZT_OK;
    zt_free(batch->ctx, batch->logits);
    batch->logits_rows = 0;
    batch->logits = zt_alloc_array(batch->ctx, (size_t)rows, (size_t)batch->info.vocab * sizeof *batch->logits);
    if (!batch->logits) return ZT_ENOMEM;
    batch->logits_rows = rows;
    return ZT_OK;
}

static const zt_sampler greedy = {.top_p = 1, .repeat_penalty = 1};

/* A text with banned tokens needs logits too: if the most probable token is banned, they give the next one. So do texts of
 * a model with recurrent layers, whose last token cannot be fed again (check_zero). */
static bool text_needs(const zt_batch *batch, const zt_batch_text *text, zt_batch_gets kind)
{
    bool again = text->n_banned > 0 || zt_batch_is_recurrent(batch);
    return text->gets == kind || (kind == ZT_GETS_LOGITS && text->gets == ZT_GETS_BEST && again);
}

static bool any_text_needs(const zt_batch *batch, zt_batch_gets kind)
{
    for (int64_t wanted = 0; wanted < batch->n_wanted; wanted++)
        if (text_needs(batch, &batch->text[batch->wanted_texts[wanted]], kind)) return true;
    return false;
}

static zt_status feed_rows(zt_batch *batch, const bool wanted[ZT_GETS])
{
    zt_status status = wanted[ZT_GETS_LOGITS] ? reserve_logits(batch, batch->n_wanted) : ZT_OK;
    const void *inputs[7 + ZT_DRAW_INPUTS] = {batch->ids, batch->pos, batch->seq, zt_pages_table(batch->pages), batch->rows};
    int count = 5;
    void *outputs[] = {wanted[ZT_GETS_LOGITS] ? batch->logits : NULL, wanted[ZT_GETS_BEST] ? batch->best : NULL,
                       wanted[ZT_GETS_DRAWN] ? batch->drawn : NULL, NULL};
    if (batch->hidden) outputs[zt_llm_hidden_output(batch->llm)] = batch->hidden;
    zt_binding symbols[] = {{"n", batch->n_rows}, {"m", batch->n_wanted}};
    if (zt_batch_is_recurrent(batch)) inputs[count++] = batch->from;
    if (zt_batch_is_recurrent(batch)) inputs[count++] = batch->to;
    if (batch->drawing) zt_drawing_inputs(batch->drawing, inputs + count);
    return status ? status : zt_llm_step(batch->llm, symbols, 2, inputs, outputs);
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
        zt_drawing_row(batch->drawing, wanted, &draw, batch->draft, batch->n_draft ? (size_t)wanted : 0);
    }
}

/* The only text keeps its hidden states for drafts; those of several are not kept. */
static void keep_hidden(zt_batch *batch)
{
    if (!batch->hidden || batch->text_count != 1 || batch->running != 1 || batch->n_rows == 0) return;
    float *rows = zt_hidden_begin(batch->llm->hidden, batch->pos[0], batch->ids, batch->n_rows);
    memcpy(rows, batch->hidden, (size_t)(batch->n_rows * batch->info.width) * sizeof *rows);
    zt_hidden_end(batch->llm->hidden, batch->n_rows);
}

static zt_status feed_step(zt_batch *batch)
{
    zt_status status = plan_rows(batch);
    bool wanted[ZT_GETS];
    if (status == ZT_OK) status = add_draft(batch);
    for (int kind = 0; kind < ZT_GETS; kind++) wanted[kind] = any_text_needs(batch, (zt_batch_gets)kind);
    if (status == ZT_OK && wanted[ZT_GETS_DRAWN]) describe_draws(batch);
    const double before = zt_seconds();
    if (status == ZT_OK) status = feed_rows(batch, wanted);
    batch->seconds = zt_seconds() - before;
    if (status != ZT_OK) {
        zt_batch_put_back_all(batch);
        return status;
    }
    keep_hidden(batch);
    batch->count.steps++;
    batch->count.rows += (uint64_t)batch->n_rows;
    zt_batch_keep_stopped(batch);
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
        if (status != ZT_OK) return status;
        logits = batch->logits;
    }
    if (isnan(logits[0])) *best = -1;
    return ZT_OK;
}

static bool is_banned(const zt_batch_text *text, int32_t token)
{
    for (size_t i = 0; i < text->n_banned; i++)
        if (text->banned[i] == token) return true;
    return false;
}

/* The most probable token that is not banned. */
static int32_t best_other(const zt_batch *batch, const zt_batch_text *text, float *logits)
{
    for (size_t i = 0; i < text->n_banned; i++)
        if (text->banned[i] >= 0 && text->banned[i] < batch->info.vocab) logits[text->banned[i]] = -INFINITY;
    return zt_sample(&greedy, logits, batch->info.vocab, text->ids->id, text->ids->count, (int64_t)text->ids->count, NULL);
}

/* Gives the wanted-th text its next token. `logits`: of its row, or NULL. */
static zt_status hand_result(zt_batch *batch, int64_t wanted, float *logits)
{
    zt_batch_text *text = &batch->text[batch->wanted_texts[wanted]];
    bool wants_logits = text->gets == ZT_GETS_LOGITS, wants_best = text->gets == ZT_GETS_BEST, more = false;
    int32_t token = wants_logits ? -1 : wants_best ? batch->best[wanted] : batch->drawn[wanted];
    zt_status status = wants_best && token == 0 ? check_zero(batch, text, logits, &token) : ZT_OK;
    if (status == ZT_OK && wants_best && logits && is_banned(text, token)) token = best_other(batch, text, logits);
    const size_t before = text->ids->count;
    if (status == ZT_OK) status = batch->opts.next(text->user, wants_logits ? logits : NULL, token, &more);
    text->done = !more;
    text->answered = true;
    if (status == ZT_OK && more && ((int64_t)text->ids->count > batch->info.ctx_len || text->ids->count <= before))
        status = zt_fail(batch->ctx, ZT_EUSAGE, "%zu tokens and %zu new tokens exceed the context of %" PRId64, text->ids->count,
                         text->ids->count - before, batch->info.ctx_len);
    if (status == ZT_OK && more && batch->opts.forget) zt_pages_cut(batch->pages, text->seq, 0);
    return status;
}

/* Gives the only text the tokens after its last one and after each of the draft that came. */
static zt_status hand_draft(zt_batch *batch, int64_t wanted_count, float *logits)
{
    const zt_batch_text *text = batch->text;
    zt_status status = ZT_OK;
    int64_t accepted = 0;
    for (bool came = true; status == ZT_OK && came; accepted += came) {
        status = hand_result(batch, accepted, logits ? logits + accepted * batch->info.vocab : NULL);
        came = status == ZT_OK && !text->done && accepted + 1 < wanted_count &&
               text->ids->id[text->ids->count - 1] == batch->draft[accepted];
    }
    if (status == ZT_OK) cut_draft(batch, text, accepted);
    return status;
}

static zt_status hand_results(zt_batch *batch)
{
    int64_t wanted_count = batch->n_wanted;
    float *logits = any_text_needs(batch, ZT_GETS_LOGITS) ? batch->logits : NULL;
    zt_status status = ZT_OK;
    if (batch->n_draft) return hand_draft(batch, wanted_count, logits);
    for (int64_t wanted = 0; wanted < wanted_count && status == ZT_OK; wanted++)
        status = hand_result(batch, wanted, logits ? logits + wanted * batch->info.vocab : NULL);
    return status;
}

/* Memory was short. The first time frees caches; later each call halves the texts and prompt tokens a step. False:
 * both are 1 already. */
static bool take_less(zt_batch *batch, bool first)
{
    if (!first && batch->max_running == 1 && batch->chunk == 1) return false;
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
    if (!batch) return ZT_EUSAGE;
    zt_status status = ZT_OK;
    if (batch->text_count == 0) return ZT_OK;
    for (bool first = true; (status = feed_step(batch)) == ZT_ENOMEM && take_less(batch, first); first = false) continue;
    if (status == ZT_OK && batch->opts.took && batch->lone)
        batch->opts.took(batch->text->user, 1 + (size_t)batch->n_draft, batch->seconds);
    if (status == ZT_OK) status = hand_results(batch);
    if (status != ZT_OK) zt_batch_put_back_all(batch);
    zt_batch_remove_done(batch);
    return status;
}
