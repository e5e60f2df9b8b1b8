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
 * A model with recurrent layers has a state for each sequence, slot s for sequence s: the one behind its last row. So a text can
 * go on behind all tokens of a kept slot, but in the middle of another text only where a state was kept: in one of a few spare
 * slots. When a text begins as another did and there is no state, it leaves one there on its way, for the next that does.
 *
 * Kept slots are evicted when their blocks are needed, least recently used first. A text may share blocks that are
 * written only in the current step, because every row of a step stores its keys and values before any row reads them.
 */
#include "lib/base/require.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/batch.h"
#include "lib/llm/kv_store.h"
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a text gets after its tokens. */
typedef enum zt_batch_gets { ZT_GETS_LOGITS, ZT_GETS_BEST, ZT_GETS_DRAWN, ZT_GETS } zt_batch_gets;

typedef struct zt_batch_text {
    void *user;
    const zt_ids *ids;
    zt_batch_gets gets;
    zt_sampler sampler;    /* DRAWN */
    const int32_t *banned; /* DRAWN and BEST: tokens that are never chosen */
    size_t n_banned;
    bool done;
    int seq; /* its slot; -1: waiting */
} zt_batch_text;

typedef struct zt_batch_slot {
    const zt_ids *ids;  /* running: the text's tokens, borrowed */
    zt_ids kept;        /* kept: the finished text's tokens */
    bool used;          /* running or kept */
    uint64_t last_step; /* the step that fed it last */
    int64_t state;      /* the slot that its next row starts from: its own, or a spare one */
    int64_t save_at;    /* the state behind so many tokens is kept in a spare slot; 0: none is */
    int64_t stop;       /* the state behind so many tokens goes to the store; 0: none does */
} zt_batch_slot;

typedef struct zt_batch_prefix { /* what a spare slot has */
    int seq;                     /* behind the beginning of this slot's tokens, */
    int64_t position;            /* so many of them; 0: none */
    uint64_t last_step;          /* that made or used it */
} zt_batch_prefix;

struct zt_batch {
    zt_ctx *ctx;
    zt_llm *llm;
    zt_batch_opts opts;
    zt_llm_info info;
    zt_pages *pages;
    zt_batch_slot *slot;                    /* [n_seq] */
    zt_batch_prefix prefix[ZT_SPARE_SLOTS]; /* with recurrent layers: spare slot n_seq + i */
    zt_batch_text *text;                    /* [text_count], those that run first */
    size_t text_count, text_capacity, running;
    size_t max_running; /* texts that may run at once */
    int64_t chunk;      /* tokens of prompts in a step: fewer than were asked for after ZT_ENOMEM */
    /* a step */
    int32_t *ids, *pos, *seq;     /* [n_rows]; room for the larger of chunk and n_seq + 1 */
    int32_t *from, *to;           /* the same, of a model with recurrent layers: slot s has the state behind all of sequence s */
    int32_t *rows, *best, *drawn; /* [n_wanted]; room for n_seq */
    size_t *wanted_texts;         /* [n_wanted], room for n_seq: index of the text that each result is for */
    zt_drawing *drawing;          /* where the engine draws; else NULL */
    int64_t n_rows, n_wanted;
    float *logits; /* [n_wanted, V], and for how many there is room */
    int64_t logits_rows;
    zt_batch_count count;
};

/* ---- open and close ------------------------------------------------------------------------- */

static zt_status make_arrays(zt_batch *batch)
{
    size_t slot_count = (size_t)batch->info.n_seq, row_count = slot_count + 1;
    if ((size_t)batch->info.chunk > row_count) row_count = (size_t)batch->info.chunk;
    batch->slot = zt_calloc(batch->ctx, slot_count, sizeof *batch->slot);
    batch->ids = zt_alloc_array(batch->ctx, row_count, sizeof *batch->ids);
    batch->pos = zt_alloc_array(batch->ctx, row_count, sizeof *batch->pos);
    batch->seq = zt_alloc_array(batch->ctx, row_count, sizeof *batch->seq);
    batch->from = zt_alloc_array(batch->ctx, row_count, sizeof *batch->from);
    batch->to = zt_alloc_array(batch->ctx, row_count, sizeof *batch->to);
    batch->rows = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->rows);
    batch->best = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->best);
    batch->drawn = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->drawn);
    batch->wanted_texts = zt_alloc_array(batch->ctx, slot_count, sizeof *batch->wanted_texts);
    if (!batch->slot || !batch->ids || !batch->pos || !batch->seq || !batch->from || !batch->to || !batch->rows || !batch->best ||
        !batch->drawn || !batch->wanted_texts)
        return ZT_ENOMEM;
    if (zt_llm_draws(batch->llm) && !(batch->drawing = zt_drawing_new(batch->ctx, batch->info.n_seq))) return ZT_ENOMEM;
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

/* ---- slots ---------------------------------------------------------------------------------- */

/* Forgets states of a slot's beginnings behind `length`. */
static void cut_prefixes(zt_batch *batch, int seq, int64_t length)
{
    for (int i = 0; i < ZT_SPARE_SLOTS; i++)
        if (batch->prefix[i].seq == seq && batch->prefix[i].position > length) batch->prefix[i] = (zt_batch_prefix){0};
}

static void free_slot(zt_batch *batch, int seq)
{
    cut_prefixes(batch, seq, 0);
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

static bool is_recurrent(const zt_batch *batch) { return batch->info.recurrent_bytes > 0; }

static zt_kv_place place_of(const zt_batch *batch, int seq)
{
    return (zt_kv_place){.table = table_of(batch, seq), .slot = is_recurrent(batch) ? batch->slot[seq].state : -1};
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
    if (!is_recurrent(batch) || (is_kept(batch, seq) && length == zt_pages_length(batch->pages, seq))) return length;
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
            cut_prefixes(batch, source, shared_length);
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
static void keep_stopped(zt_batch *batch)
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
static bool start_text(zt_batch *batch)
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
    if (is_recurrent(batch)) start_state(batch, seq, &shared, whole && seq == shared.seq ? -1 : prefix);
    text->seq = seq;
    batch->count.shared += (uint64_t)has;
    batch->running++;
    if (batch->opts.store) fetch_stored(batch, text);
    if (batch->opts.store && is_recurrent(batch)) choose_stop(batch, text);
    return true;
}

/* Puts the last running text back to waiting; or all of them, after a failure, when the cache's content is unknown. */
static void put_back_last(zt_batch *batch)
{
    zt_batch_text *text = &batch->text[--batch->running];
    free_slot(batch, text->seq);
    text->seq = -1;
    batch->count.put_back++;
}

static void put_back_all(zt_batch *batch)
{
    while (batch->running > 0) put_back_last(batch);
    for (int i = 0; i < (int)batch->info.n_seq; i++)
        if (batch->slot[i].used) free_slot(batch, i);
}

/* Tokens of a running text that are not fed yet. */
static int64_t count_unfed(const zt_batch *batch, const zt_batch_text *text)
{
    return (int64_t)text->ids->count - zt_pages_length(batch->pages, text->seq);
}

/* Makes room for position_count more positions of a running text: evicts kept slots, then puts back the texts after
 * it, the last one first. False: still no room. */
static bool make_room_for(zt_batch *batch, size_t text_index, int64_t position_count)
{
    int seq = batch->text[text_index].seq;
    int64_t length = zt_pages_length(batch->pages, seq), more = blocks_of(length + position_count) - blocks_of(length);
    while (!make_room(batch, more, -1)) {
        if (batch->running == text_index + 1) return false;
        put_back_last(batch);
    }
    return true;
}

/* is it in the vocabulary? */
static void remove_done(zt_batch *batch)
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
    remove_done(batch);
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
    int64_t first_row = batch->n_rows, left = count_unfed(batch, text), first_token = (int64_t)text->ids->count - left;
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
    for (size_t i = 0; i < batch->running; i++) generating += count_unfed(batch, &batch->text[i]) == 1;
    chunk = batch->chunk > generating ? batch->chunk - generating : 1;
    for (size_t i = 0; status == ZT_OK && i < batch->text_count; i++) {
        bool runs = i < batch->running;
        if (!runs && (chunk == 0 || !start_text(batch))) break;
        int64_t left = count_unfed(batch, &batch->text[i]);
        int64_t row_count = rows_of_step(batch, &batch->text[i], left < chunk ? left : chunk);
        if (runs && left == 1)
            row_count = 1;
        else
            chunk -= row_count;
        if (row_count == 0) continue;
        if (!make_room_for(batch, i, row_count)) {
            put_back_last(batch);
            break;
        }
        status = add_rows(batch, i, row_count);
    }
    return status;
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
    bool again = text->n_banned > 0 || is_recurrent(batch);
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
                       wanted[ZT_GETS_DRAWN] ? batch->drawn : NULL};
    zt_binding symbols[] = {{"n", batch->n_rows}, {"m", batch->n_wanted}};
    if (is_recurrent(batch)) inputs[count++] = batch->from;
    if (is_recurrent(batch)) inputs[count++] = batch->to;
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
        zt_drawing_row(batch->drawing, wanted, &draw, NULL, 0);
    }
}

static zt_status feed_step(zt_batch *batch)
{
    zt_status status = plan_rows(batch);
    bool wanted[ZT_GETS];
    for (int kind = 0; kind < ZT_GETS; kind++) wanted[kind] = any_text_needs(batch, (zt_batch_gets)kind);
    if (status == ZT_OK && wanted[ZT_GETS_DRAWN]) describe_draws(batch);
    if (status == ZT_OK) status = feed_rows(batch, wanted);
    if (status != ZT_OK) {
        put_back_all(batch);
        return status;
    }
    batch->count.steps++;
    batch->count.rows += (uint64_t)batch->n_rows;
    keep_stopped(batch);
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
    if (status == ZT_OK) status = batch->opts.next(text->user, wants_logits ? logits : NULL, token, &more);
    text->done = !more;
    if (status == ZT_OK && more && ((int64_t)text->ids->count > batch->info.ctx_len || count_unfed(batch, text) < 1))
        status = zt_fail(batch->ctx, ZT_EUSAGE, "%zu tokens and %" PRId64 " new tokens exceed the context of %" PRId64,
                         text->ids->count, count_unfed(batch, text), batch->info.ctx_len);
    if (status == ZT_OK && more && batch->opts.forget) zt_pages_cut(batch->pages, text->seq, 0);
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
    int64_t wanted_count = batch->n_wanted;
    bool logits = status == ZT_OK && any_text_needs(batch, ZT_GETS_LOGITS);
    for (int64_t wanted = 0; wanted < wanted_count && status == ZT_OK; wanted++)
        status = hand_result(batch, wanted, logits ? batch->logits + wanted * batch->info.vocab : NULL);
    if (status != ZT_OK) put_back_all(batch);
    remove_done(batch);
    return status;
}
