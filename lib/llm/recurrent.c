/* recurrent.c - sequence 0 of a model with recurrent layers: which states are kept, and the rows of a step.
 *
 *   a prompt       ... p q r s        s+1 tokens are fed: the state before s is kept for later turns, that behind s goes on
 *   a token        t                  its state takes the slot of the state before it, unless that is a prompt's
 *   a draft        t d1 d2 d3         the state behind t, which is certain, and that behind d3
 *   after "d2"     [d1] u             if d1 alone came true: from the state behind t, d1 again, then u
 */
#include "lib/llm/llm_internal.h"

#include <string.h>

zt_recurrent_rows *zt_recurrent_open(zt_ctx *ctx, int64_t most_rows, int64_t most_tokens)
{
    zt_recurrent_rows *rows = zt_calloc(ctx, 1, sizeof *rows);
    if (!rows) return NULL;
    rows->ctx = ctx;
    rows->fed.id = zt_alloc_array(ctx, (size_t)most_tokens, sizeof *rows->fed.id);
    rows->fed.capacity = (size_t)most_tokens;
    rows->from = zt_alloc_array(ctx, (size_t)most_rows, sizeof *rows->from);
    rows->to = zt_alloc_array(ctx, (size_t)most_rows, sizeof *rows->to);
    if (rows->fed.id && rows->from && rows->to) return rows;
    zt_recurrent_close(rows);
    return NULL;
}

void zt_recurrent_close(zt_recurrent_rows *rows)
{
    if (!rows) return;
    zt_ids_fini(rows->ctx, &rows->fed);
    zt_free(rows->ctx, rows->from);
    zt_free(rows->ctx, rows->to);
    zt_free(rows->ctx, rows);
}

/* ---- states that are kept -------------------------------------------------------------------- */

static int nearest_slot(const zt_recurrent_rows *rows, int64_t position)
{
    int found = -1;
    for (int slot = 0; slot < ZT_KEPT_STATES; slot++) {
        int64_t at = rows->kept[slot].position;
        if (at > 0 && at <= position && (found < 0 || at > rows->kept[found].position)) found = slot;
    }
    return found;
}

int64_t zt_recurrent_nearest(const zt_recurrent_rows *rows, int64_t position)
{
    int slot = nearest_slot(rows, position);
    return slot < 0 ? 0 : rows->kept[slot].position;
}

int zt_recurrent_slot(const zt_recurrent_rows *rows, int64_t position)
{
    int slot = nearest_slot(rows, position);
    return slot >= 0 && rows->kept[slot].position == position ? slot : -1;
}

void zt_recurrent_fill(zt_recurrent_rows *rows, int64_t position)
{
    memset(rows->kept, 0, sizeof rows->kept);
    rows->kept[0].position = position;
}

void zt_recurrent_rewind(zt_recurrent_rows *rows, int64_t position)
{
    for (int slot = 0; slot < ZT_KEPT_STATES; slot++)
        if (rows->kept[slot].position > position) rows->kept[slot] = (zt_kept_state){0};
}

/* A slot for a new state, other than `taken`: a prompt's only for a prompt. `before`, the slot of the state that the step
 * starts from, is the first choice, as its state is read before it is written; then the slot with the oldest state. */
static int choose_slot(const zt_recurrent_rows *rows, int before, int taken, bool prompt)
{
    int found = -1;
    for (int slot = 0; slot < ZT_KEPT_STATES; slot++) {
        const zt_kept_state *kept = &rows->kept[slot];
        if (slot == taken || kept->prompt != prompt) continue;
        if (slot == before) return slot;
        if (found < 0 || kept->position < rows->kept[found].position) found = slot;
    }
    return found < 0 && prompt ? choose_slot(rows, before, taken, false) : found;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static zt_status note_fed(zt_recurrent_rows *rows, int64_t position, const int32_t *ids, int64_t token_count)
{
    zt_status status = ZT_OK;
    rows->fed.count = (size_t)position;
    for (int64_t i = 0; i < token_count && !status; i++) status = zt_ids_push(rows->ctx, &rows->fed, ids[i]);
    return status;
}

zt_status zt_recurrent_plan(zt_recurrent_rows *rows, int64_t position, const int32_t *ids, int64_t token_count, bool draft)
{
    int before = nearest_slot(rows, position);
    int64_t start = before < 0 ? 0 : rows->kept[before].position;
    zt_status status = note_fed(rows, position, ids, token_count);
    if (status) return status;
    rows->again = position - start;
    rows->row_count = rows->again + token_count;
    rows->ids = rows->fed.id + start;
    for (int64_t row = 0; row < rows->row_count; row++) {
        rows->from[row] = row ? ZT_STATE_CONTINUED : before < 0 ? ZT_STATE_ZEROS : before;
        rows->to[row] = -1;
    }
    int64_t early_row = token_count < 2 ? -1 : draft ? rows->again : rows->row_count - 2;
    rows->early_is_prompt = !draft;
    rows->early_position = start + early_row + 1;
    rows->late_position = position + token_count;
    rows->early = early_row < 0 ? -1 : choose_slot(rows, before, -1, rows->early_is_prompt);
    rows->late = choose_slot(rows, before, rows->early, false);
    if (rows->early >= 0) rows->to[early_row] = rows->early;
    rows->to[rows->row_count - 1] = rows->late;
    return ZT_OK;
}

void zt_recurrent_done(zt_recurrent_rows *rows, bool good)
{
    for (int slot = 0; slot < ZT_KEPT_STATES && rows->early >= 0 && rows->early_is_prompt; slot++)
        rows->kept[slot].prompt = false;
    if (rows->early >= 0)
        rows->kept[rows->early] = (zt_kept_state){good ? rows->early_position : 0, good && rows->early_is_prompt};
    rows->kept[rows->late] = (zt_kept_state){good ? rows->late_position : 0, false};
}
