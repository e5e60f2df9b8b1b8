/* batch_slots.c - the slots of a batch: which texts run, which wait, and what they share of the cache.
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
 * A model with recurrent layers has a state for each sequence, slot s for sequence s: the one behind its last row. So a text can
 * go on behind all tokens of a kept slot, but in the middle of another text only where a state was kept: in one of a few spare
 * slots. When a text begins as another did and there is no state, it leaves one there on its way, for the next that does.
 *
 * Kept slots are evicted when their blocks are needed, least recently used first. A text may share blocks that are
 * written only in the current step, because every row of a step stores its keys and values before any row reads them.
 */
#include "lib/llm/batch_internal.h"
#include "lib/llm/kv_store.h"

#include <string.h>

/* ---- slots ---------------------------------------------------------------------------------- */

/* Forgets states of a slot's beginnings behind `length`. */
void zt_batch_cut_prefixes(zt_batch *batch, int seq, int64_t length)
{
    for (int i = 0; i < ZT_SPARE_SLOTS; i++)
        if (batch->prefix[i].seq == seq && batch->prefix[i].position > length) batch->prefix[i] = (zt_batch_prefix){0};
}

static void free_slot(zt_batch *batch, int seq)
{
    zt_batch_cut_prefixes(batch, seq, 0);
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
        if (i != save && is_kept(batch, i) && (found < 0 || batch->slot[i].last_step < batch->slot[found].last_step)) found = i;
    return found;
}

/* Evicts kept slots other than `save` until so many blocks are free; false: there are not enough. */
static bool make_room(zt_batch *batch, int64_t blocks, int save)
{
    int victim;
    while (zt_pages_left(batch->pages) < blocks && (victim = oldest_kept(batch, save)) >= 0) free_slot(batch, victim);
    return zt_pages_left(batch->pages) >= blocks;
}

/* The blocks of the cache that a slot has, in the order of its tokens. */
static const int32_t *table_of(const zt_batch *batch, int seq)
{
    return zt_pages_table(batch->pages) + (int64_t)seq * zt_pages_counted(batch->pages).blocks;
}

bool zt_batch_is_recurrent(const zt_batch *batch) { return batch->info.recurrent_bytes > 0; }

static zt_kv_place place_of(const zt_batch *batch, int seq)
{
    return (zt_kv_place){.table = table_of(batch, seq), .slot = zt_batch_is_recurrent(batch) ? batch->slot[seq].state : -1};
}

/* Keeps the tokens of a finished text for texts with the same beginning; frees the slot if there is no memory. */
static void keep_slot(zt_batch *batch, int seq)
{
    zt_batch_slot *slot = &batch->slot[seq];
    size_t token_count = (size_t)zt_pages_length(batch->pages, seq);
    const zt_kv_place place = place_of(batch, seq);
    if (batch->opts.store) zt_kv_store_keep(batch->opts.store, slot->ids->id, token_count, &place);
    slot->kept.id = batch->opts.forget ? NULL : zt_alloc_array(batch->ctx, token_count, sizeof *slot->kept.id);
    if (!slot->kept.id) {
        if (!batch->opts.forget) zt_ctx_clear(batch->ctx);
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
    if (limit > (int64_t)ids->count - 1) limit = (int64_t)ids->count - 1;
    while (length < limit && has->id[length] == ids->id[length]) length++;
    return length;
}

/* The spare slot with the last state of a slot's beginning up to `length`; -1: none. */
static int find_prefix(const zt_batch *batch, int seq, int64_t length)
{
    int found = -1;
    for (int i = 0; i < ZT_SPARE_SLOTS; i++) {
        const zt_batch_prefix *prefix = &batch->prefix[i];
        if (prefix->position == 0 || prefix->seq != seq || prefix->position > length) continue;
        if (found < 0 || prefix->position > batch->prefix[found].position) found = i;
    }
    return found;
}

/* Of `length` tokens in common with a slot those behind which a text can go on. */
static int64_t usable_length(const zt_batch *batch, int seq, int64_t length)
{
    if (!zt_batch_is_recurrent(batch) || (is_kept(batch, seq) && length == zt_pages_length(batch->pages, seq))) return length;
    int prefix = find_prefix(batch, seq, length);
    return prefix < 0 ? 0 : batch->prefix[prefix].position;
}

/* What a text has in common with the slots. */
typedef struct shared_beginning {
    int seq;        /* the slot with the longest beginning to go on from, at least one block; -1: none */
    int64_t length; /* of it */
    int64_t common; /* the most tokens in common with any slot, in whole blocks */
} shared_beginning;

static shared_beginning find_shared(const zt_batch *batch, const zt_ids *ids)
{
    shared_beginning found = {.seq = -1, .length = ZT_LLM_BLOCK - 1};
    for (int i = 0; i < (int)batch->info.n_seq && !batch->opts.forget; i++) {
        int64_t common = batch->slot[i].used ? common_length(batch, i, ids) : 0, usable = usable_length(batch, i, common);
        common -= common % ZT_LLM_BLOCK;
        if (common > found.common) found.common = common;
        if (usable <= found.length) continue;
        found.length = usable;
        found.seq = i;
    }
    return found;
}

/* A slot for a text: one that shares its beginning, or an empty one; -1: none. A kept slot is taken over when all of
 * its tokens are shared, or when no other slot is free. */
static int take_slot(zt_batch *batch, const shared_beginning *shared)
{
    int64_t shared_length = shared->length;
    int source = shared->seq;
    bool source_kept = source >= 0 && is_kept(batch, source);
    if (source_kept && shared_length == zt_pages_length(batch->pages, source)) return source;
    if (zt_pages_counted(batch->pages).sequences == batch->info.n_seq) {
        int victim = oldest_kept(batch, source);
        if (victim < 0 && !source_kept) return -1;
        if (victim < 0) {
            zt_batch_cut_prefixes(batch, source, shared_length);
            return zt_pages_cut(batch->pages, source, shared_length) >= 0 ? source : -1;
        }
        free_slot(batch, victim);
    }
    return source >= 0 ? zt_pages_share(batch->pages, source, shared_length) : zt_pages_begin(batch->pages);
}

static int64_t blocks_of(int64_t tokens) { return (tokens + ZT_LLM_BLOCK - 1) / ZT_LLM_BLOCK; }

/* Sets where the states of a text begin: in the slot that it took over (prefix -1), or in a spare one; and which state it leaves. */
static void start_state(zt_batch *batch, int seq, const shared_beginning *shared, int prefix)
{
    zt_batch_slot *slot = &batch->slot[seq];
    int64_t has = zt_pages_length(batch->pages, seq);
    if (shared->common > has) slot->save_at = shared->common;
    if (prefix < 0) return;
    slot->state = batch->info.n_seq + prefix;
    batch->prefix[prefix].last_step = batch->count.steps;
}

/* Blocks of the store behind the tokens that a slot shares: pages for all that there may be, and back those that are not there. */
static void fetch_stored(zt_batch *batch, const zt_batch_text *text)
{
    const int64_t has = zt_pages_length(batch->pages, text->seq);
    const int64_t most = ((int64_t)text->ids->count - 1) / ZT_LLM_BLOCK * ZT_LLM_BLOCK;
    if (most <= has || blocks_of(most) - blocks_of(has) > zt_pages_left(batch->pages)) return;
    if (zt_pages_append(batch->pages, text->seq, most - has, NULL, NULL)) return;
    const zt_kv_place place = {.table = table_of(batch, text->seq), .slot = text->seq};
    const int64_t got = zt_kv_store_fetch(batch->opts.store, text->ids->id, (size_t)most, has, &place);
    zt_pages_cut(batch->pages, text->seq, got);
    if (got != has) batch->slot[text->seq].state = text->seq;
    batch->count.shared = batch->count.shared + (uint64_t)got - (uint64_t)has;
}

/* Where the rows of a prompt end next, so that the store gets the state behind them. */
static void choose_stop(zt_batch *batch, const zt_batch_text *text)
{
    zt_batch_slot *slot = &batch->slot[text->seq];
    const int64_t count = (int64_t)text->ids->count, stop = zt_kv_store_stop(batch->opts.store, text->ids->id, (size_t)count,
                                                                             zt_pages_length(batch->pages, text->seq));
    slot->stop = stop < count ? stop : 0;
    if (slot->save_at == slot->stop) slot->save_at = 0; /* a row has its state in one place */
}

/* The states of texts that are where they were to stop. */
void zt_batch_keep_stopped(zt_batch *batch)
{
    for (size_t i = 0; i < batch->running; i++) {
        const zt_batch_text *text = &batch->text[i];
        const int64_t stop = batch->slot[text->seq].stop;
        if (!stop || zt_pages_length(batch->pages, text->seq) != stop) continue;
        const zt_kv_place place = place_of(batch, text->seq);
        zt_kv_store_keep(batch->opts.store, text->ids->id, (size_t)stop, &place);
        choose_stop(batch, text);
    }
}

/* Starts the first waiting text if the cache has room for its tokens, one more, and one more block for each running
 * text. */
bool zt_batch_start_text(zt_batch *batch)
{
    zt_batch_text *text = &batch->text[batch->running];
    int64_t token_count = (int64_t)text->ids->count + 1;
    if (batch->running >= batch->max_running) return false;
    shared_beginning shared = find_shared(batch, text->ids);
    int prefix = shared.seq < 0 ? -1 : find_prefix(batch, shared.seq, shared.length);
    bool whole = shared.seq >= 0 && shared.length == zt_pages_length(batch->pages, shared.seq);
    int seq = take_slot(batch, &shared);
    if (seq < 0) return false;
    zt_batch_slot *slot = &batch->slot[seq];
    int64_t has = zt_pages_length(batch->pages, seq);
    if (token_count > batch->info.ctx_len) token_count = batch->info.ctx_len;
    if (!make_room(batch, blocks_of(token_count) - blocks_of(has) + (int64_t)batch->running, seq)) {
        if (!slot->used)
            zt_pages_end(batch->pages, seq);
        else
            slot->kept.count = (size_t)has;
        return false;
    }
    zt_ids_fini(batch->ctx, &slot->kept);
    *slot = (zt_batch_slot){.ids = text->ids, .used = true, .state = seq};
    if (zt_batch_is_recurrent(batch)) start_state(batch, seq, &shared, whole && seq == shared.seq ? -1 : prefix);
    text->seq = seq;
    batch->count.shared += (uint64_t)has;
    batch->running++;
    if (batch->opts.store) fetch_stored(batch, text);
    if (batch->opts.store && zt_batch_is_recurrent(batch)) choose_stop(batch, text);
    return true;
}

/* Puts the last running text back to waiting; or all of them, after a failure, when the cache's content is unknown. */
void zt_batch_put_back_last(zt_batch *batch)
{
    zt_batch_text *text = &batch->text[--batch->running];
    free_slot(batch, text->seq);
    text->seq = -1;
    batch->count.put_back++;
}

void zt_batch_put_back_all(zt_batch *batch)
{
    while (batch->running > 0) zt_batch_put_back_last(batch);
    for (int i = 0; i < (int)batch->info.n_seq; i++)
        if (batch->slot[i].used) free_slot(batch, i);
}

/* Tokens of a running text that are not fed yet. */
int64_t zt_batch_count_unfed(const zt_batch *batch, const zt_batch_text *text)
{
    return (int64_t)text->ids->count - zt_pages_length(batch->pages, text->seq);
}

/* Makes room for position_count more positions of a running text: evicts kept slots, then puts back the texts after
 * it, the last one first. False: still no room. */
bool zt_batch_make_room_for(zt_batch *batch, size_t text_index, int64_t position_count)
{
    int seq = batch->text[text_index].seq;
    int64_t length = zt_pages_length(batch->pages, seq), more = blocks_of(length + position_count) - blocks_of(length);
    while (!make_room(batch, more, -1)) {
        if (batch->running == text_index + 1) return false;
        zt_batch_put_back_last(batch);
    }
    return true;
}

/* Takes texts that are done out of the list, and keeps what their slots have. */
void zt_batch_remove_done(zt_batch *batch)
{
    size_t left_count = 0;
    for (size_t i = 0; i < batch->text_count; i++) {
        zt_batch_text *text = &batch->text[i];
        if (!text->done) {
            batch->text[left_count++] = *text;
            continue;
        }
        if (text->seq < 0) continue;
        batch->running--;
        keep_slot(batch, text->seq);
    }
    batch->text_count = left_count;
}
