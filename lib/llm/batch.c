/* batch.c - continuous batching: which texts run, which wait, and how they share cache blocks.
 *
 * Texts are kept in the order of arrival. Running texts are always the first ones: texts enter in order, and when
 * cache blocks run out the last running text is put back. The first text is therefore never put back, and because
 * the cache holds at least one whole context, it always makes progress.
 *
 * A slot is one sequence of the page table. Its state:
 *
 *     running   `ids` points at the tokens of a text that is being fed
 *     kept      the text is done; `kept` holds its tokens, and a text with the same beginning reuses its blocks
 *     free      neither
 *
 * Kept slots are evicted when their blocks are needed, least recently used first. A text may share blocks that are
 * written only in the current step, because every row of a step stores its keys and values before any row reads them.
 */
#include "lib/llm/batch_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- open and close ------------------------------------------------------------------------- */

static zt_status make_arrays(zt_batch *batch)
{
    size_t slot_count = (size_t)batch->info.n_seq, row_count = slot_count + 1;
    if ((size_t)batch->info.chunk > row_count)
        row_count = (size_t)batch->info.chunk;
    batch->slot = zt_calloc(batch->ctx, slot_count, sizeof *batch->slot);
    batch->ids = zt_alloc_array(batch->ctx, row_count, sizeof *batch->ids);
    batch->pos = zt_alloc_array(batch->ctx, row_count, sizeof *batch->pos);
    batch->seq = zt_alloc_array(batch->ctx, row_count, sizeof *batch->seq);
    batch->rows = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->rows);
    batch->best = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->best);
    batch->drawn = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->drawn);
    batch->wanted_texts = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->wanted_texts);
    if (!batch->slot || !batch->ids || !batch->pos || !batch->seq || !batch->rows || !batch->best || !batch->drawn ||
        !batch->wanted_texts)
        return ZT_ENOMEM;
    if (zt_llm_draws(batch->llm) && !(batch->drawing = zt_drawing_new(batch->ctx, batch->info.n_seq)))
        return ZT_ENOMEM;
    return ZT_OK;
}

zt_batch *zt_batch_open(zt_llm *model, const zt_batch_opts *opts)
{
    zt_ctx *ctx = zt_llm_ctx(model);
    zt_batch *batch = zt_calloc(ctx, 1, sizeof *batch);
    if (!batch)
        return NULL;
    *batch = (zt_batch){.ctx = ctx, .llm = model, .opts = *opts, .info = zt_llm_get(model)};
    batch->max_running = (size_t)batch->info.n_seq;
    batch->chunk = batch->info.chunk;
    batch->pages = zt_pages_open(ctx, batch->info.cache_len / ZT_LLM_BLOCK, ZT_LLM_BLOCK, batch->info.n_seq);
    if (batch->pages && make_arrays(batch) == ZT_OK)
        return batch;
    zt_batch_close(batch);
    return NULL;
}

void zt_batch_close(zt_batch *batch)
{
    if (!batch)
        return;
    for (int64_t i = 0; batch->slot && i < batch->info.n_seq; i++)
        zt_ids_fini(batch->ctx, &batch->slot[i].kept);
    zt_pages_close(batch->pages);
    zt_free(batch->ctx, batch->slot);
    zt_free(batch->ctx, batch->text);
    zt_free(batch->ctx, batch->ids);
    zt_free(batch->ctx, batch->pos);
    zt_free(batch->ctx, batch->seq);
    zt_free(batch->ctx, batch->rows);
    zt_free(batch->ctx, batch->best);
    zt_free(batch->ctx, batch->drawn);
    zt_drawing_free(batch->drawing);
    zt_free(batch->ctx, batch->wanted_texts);
    zt_free(batch->ctx, batch->logits);
    zt_free(batch->ctx, batch);
}

zt_batch_count zt_batch_counted(const zt_batch *batch)
{
    zt_batch_count count = batch->count;
    count.texts = batch->text_count;
    count.running = batch->running;
    count.pages = zt_pages_counted(batch->pages);
    return count;
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void free_slot(zt_batch *batch, int seq)
{
    zt_ids_fini(batch->ctx, &batch->slot[seq].kept);
    zt_pages_end(batch->pages, seq);
    batch->slot[seq] = (zt_batch_slot){0};
}

static bool is_kept(const zt_batch *batch, int64_t seq) { return batch->slot[seq].used && !batch->slot[seq].ids; }

/* The least recently used kept slot other than `save`; -1: none. */
static int oldest_kept(const zt_batch *batch, int save)
{
    int found = -1;
    for (int i = 0; i < (int)batch->info.n_seq; i++)
        if (i != save && is_kept(batch, i) && (found < 0 || batch->slot[i].last_step < batch->slot[found].last_step))
            found = i;
    return found;
}

/* Evicts kept slots other than `save` until so many blocks are free; false: there are not enough. */
static bool make_room(zt_batch *batch, int64_t blocks, int save)
{
    int victim;
    while (zt_pages_left(batch->pages) < blocks && (victim = oldest_kept(batch, save)) >= 0)
        free_slot(batch, victim);
    return zt_pages_left(batch->pages) >= blocks;
}

/* Keeps the tokens of a finished text for texts with the same beginning; frees the slot if there is no memory. */
static void keep_slot(zt_batch *batch, int seq)
{
    zt_batch_slot *slot = &batch->slot[seq];
    size_t token_count = (size_t)zt_pages_length(batch->pages, seq);
    slot->kept.id = batch->opts.forget ? NULL : zt_alloc_array(batch->ctx, token_count, sizeof *slot->kept.id);
    if (!slot->kept.id) {
        if (!batch->opts.forget)
            zt_ctx_clear(batch->ctx);
        free_slot(batch, seq);
        return;
    }
    memcpy(slot->kept.id, slot->ids->id, token_count * sizeof *slot->kept.id);
    slot->kept.count = slot->kept.capacity = token_count;
    slot->ids = NULL;
}

/* ---- entering and leaving ------------------------------------------------------------------- */

/* Length of the common beginning of a slot and `ids`. The last token never counts: it must be fed to get a result. */
static int64_t common_length(const zt_batch *batch, int seq, const zt_ids *ids)
{
    const zt_ids *has = batch->slot[seq].ids ? batch->slot[seq].ids : &batch->slot[seq].kept;
    int64_t length = 0, limit = zt_pages_length(batch->pages, seq);
    if (limit > (int64_t)ids->count - 1)
        limit = (int64_t)ids->count - 1;
    while (length < limit && has->id[length] == ids->id[length])
        length++;
    return length;
}

/* The slot with the longest common beginning, at least one block, and its length; -1: none. */
static int find_longest_common(const zt_batch *batch, const zt_ids *ids, int64_t *length)
{
    int found = -1;
    *length = ZT_LLM_BLOCK - 1;
    for (int i = 0; i < (int)batch->info.n_seq && !batch->opts.forget; i++) {
        int64_t common = batch->slot[i].used ? common_length(batch, i, ids) : 0;
        if (common > *length) {
            *length = common;
            found = i;
        }
    }
    return found;
}

/* A slot for a text: one that shares its beginning, or an empty one; -1: none. A kept slot is taken over when all of
 * its tokens are shared, or when no other slot is free. */
static int take_slot(zt_batch *batch, const zt_ids *ids)
{
    int64_t shared_length;
    int source = find_longest_common(batch, ids, &shared_length);
    bool source_kept = source >= 0 && is_kept(batch, source);
    if (source_kept && shared_length == zt_pages_length(batch->pages, source))
        return source;
    if (zt_pages_counted(batch->pages).sequences == batch->info.n_seq) {
        int victim = oldest_kept(batch, source);
        if (victim < 0)
            return source_kept && zt_pages_cut(batch->pages, source, shared_length) >= 0 ? source : -1;
        free_slot(batch, victim);
    }
    return source >= 0 ? zt_pages_share(batch->pages, source, shared_length) : zt_pages_begin(batch->pages);
}

static int64_t blocks_of(int64_t tokens)
{
    return (tokens + ZT_LLM_BLOCK - 1) / ZT_LLM_BLOCK;
}

bool zt_batch_enter(zt_batch *batch)
{
    zt_batch_text *text = &batch->text[batch->running];
    int64_t token_count = (int64_t)text->ids->count + 1;
    if (batch->running >= batch->max_running)
        return false;
    int seq = take_slot(batch, text->ids);
    if (seq < 0)
        return false;
    zt_batch_slot *slot = &batch->slot[seq];
    int64_t has = zt_pages_length(batch->pages, seq);
    if (token_count > batch->info.ctx_len)
        token_count = batch->info.ctx_len;
    if (!make_room(batch, blocks_of(token_count) - blocks_of(has) + (int64_t)batch->running, seq)) {
        if (!slot->used)
            zt_pages_end(batch->pages, seq);
        else
            slot->kept.count = (size_t)has;
        return false;
    }
    zt_ids_fini(batch->ctx, &slot->kept);
    *slot = (zt_batch_slot){.ids = text->ids, .used = true};
    text->seq = seq;
    batch->count.shared += (uint64_t)has;
    batch->running++;
    return true;
}

void zt_batch_put_back(zt_batch *batch)
{
    zt_batch_text *text = &batch->text[--batch->running];
    free_slot(batch, text->seq);
    text->seq = -1;
    batch->count.put_back++;
}

void zt_batch_put_back_all(zt_batch *batch)
{
    while (batch->running > 0)
        zt_batch_put_back(batch);
    for (int i = 0; i < (int)batch->info.n_seq; i++)
        if (batch->slot[i].used)
            free_slot(batch, i);
}

int64_t zt_batch_left(const zt_batch *batch, const zt_batch_text *text)
{
    return (int64_t)text->ids->count - zt_pages_length(batch->pages, text->seq);
}

bool zt_batch_room_for(zt_batch *batch, size_t text_index, int64_t position_count)
{
    int seq = batch->text[text_index].seq;
    int64_t length = zt_pages_length(batch->pages, seq), more = blocks_of(length + position_count) - blocks_of(length);
    while (!make_room(batch, more, -1)) {
        if (batch->running == text_index + 1)
            return false;
        zt_batch_put_back(batch);
    }
    return true;
}

void zt_batch_let_go(zt_batch *batch)
{
    size_t left_count = 0;
    for (size_t i = 0; i < batch->text_count; i++) {
        zt_batch_text *text = &batch->text[i];
        if (!text->done) {
            batch->text[left_count++] = *text;
            continue;
        }
        if (text->seq < 0)
            continue;
        batch->running--;
        keep_slot(batch, text->seq);
    }
    batch->text_count = left_count;
}

/* ---- texts ---------------------------------------------------------------------------------- */

zt_status zt_batch_check_id(const zt_batch *batch, int32_t id)
{
    if (id >= 0 && id < batch->info.vocab)
        return ZT_OK;
    return zt_fail(batch->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64, id, batch->info.vocab - 1);
}

static zt_status add_text(zt_batch *batch, zt_batch_text text)
{
    const zt_ids *ids = text.ids;
    zt_status status = ZT_OK;
    text.seq = -1;
    if (ids->count == 0)
        return zt_fail(batch->ctx, ZT_EUSAGE, "no tokens to go on from");
    if (ids->count > (size_t)batch->info.ctx_len)
        return zt_fail(batch->ctx, ZT_ENOMEM, "the context of %" PRId64 " tokens is too small: %zu were given",
                       batch->info.ctx_len, ids->count);
    for (size_t i = 0; i < ids->count && status == ZT_OK; i++)
        status = zt_batch_check_id(batch, ids->id[i]);
    if (status == ZT_OK && batch->text_count == batch->text_capacity) {
        size_t cap = batch->text_capacity ? 2 * batch->text_capacity : 64;
        zt_batch_text *more = zt_realloc(batch->ctx, batch->text, cap * sizeof *more);
        if (!more)
            return ZT_ENOMEM;
        batch->text = more;
        batch->text_capacity = cap;
    }
    if (status == ZT_OK)
        batch->text[batch->text_count++] = text;
    return status;
}

zt_status zt_batch_add(zt_batch *batch, void *user, const zt_ids *ids, bool logits)
{
    zt_batch_gets gets = logits ? ZT_GETS_LOGITS : ZT_GETS_BEST;
    return add_text(batch, (zt_batch_text){.user = user, .ids = ids, .gets = gets});
}

zt_status zt_batch_add_best(zt_batch *batch, void *user, const zt_ids *ids, const int32_t *banned, size_t banned_count)
{
    return add_text(batch,
                    (zt_batch_text){.user = user, .ids = ids, .gets = ZT_GETS_BEST, .banned = banned, .n_banned = banned_count});
}

zt_status zt_batch_add_drawn(zt_batch *batch, void *user, const zt_ids *ids, const zt_draw *draw)
{
    if (!batch->drawing || !zt_draw_fits(draw))
        return zt_fail(batch->ctx, ZT_EUSAGE, "the engine does not draw this model's tokens so");
    return add_text(batch, (zt_batch_text){.user = user,
                                           .ids = ids,
                                           .gets = ZT_GETS_DRAWN,
                                           .sampler = *draw->sampler,
                                           .banned = draw->banned,
                                           .n_banned = draw->n_banned});
}

void zt_batch_drop(zt_batch *batch, const void *user)
{
    for (size_t i = 0; i < batch->text_count; i++)
        if (batch->text[i].user == user)
            batch->text[i].done = true;
    zt_batch_let_go(batch);
    batch->max_running = (size_t)batch->info.n_seq;
    batch->chunk = batch->info.chunk;
}
