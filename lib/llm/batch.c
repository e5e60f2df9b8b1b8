/* batch.c - which texts run: those that wait, those that have a sequence, and when it goes on.
 *
 * Texts are kept in the order in which they came, and those that run are always the first of them:
 * they enter in order, and when blocks are short the last that runs is put back. So the first text is
 * never put back, and since the cache holds a whole context it always gets on.
 *
 * A sequence of the pages (a slot here) belongs to a text that runs, or is kept: its text is done, and
 * another may begin like it. Kept ones go, the longest unused first, when their blocks are wanted. A
 * text may share blocks that are only written in the same step, for all rows of a step put their keys
 * and values before any row looks at them.
 */
#include "lib/llm/batch_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- open and close ------------------------------------------------------------------------- */

static zt_status make_arrays(zt_batch *b)
{
    size_t n_seq = (size_t)b->info.n_seq, rows = n_seq + 1;
    if ((size_t)b->info.chunk > rows)
        rows = (size_t)b->info.chunk;
    b->slot = zt_calloc(b->ctx, n_seq, sizeof *b->slot);
    b->ids = zt_alloc_array(b->ctx, rows, sizeof *b->ids);
    b->pos = zt_alloc_array(b->ctx, rows, sizeof *b->pos);
    b->seq = zt_alloc_array(b->ctx, rows, sizeof *b->seq);
    b->rows = zt_alloc_array(b->ctx, n_seq, sizeof *b->rows);
    b->best = zt_alloc_array(b->ctx, n_seq, sizeof *b->best);
    b->drawn = zt_alloc_array(b->ctx, n_seq, sizeof *b->drawn);
    b->asks = zt_alloc_array(b->ctx, n_seq, sizeof *b->asks);
    if (!b->slot || !b->ids || !b->pos || !b->seq || !b->rows || !b->best || !b->drawn || !b->asks)
        return ZT_ENOMEM;
    if (zt_llm_draws(b->llm) && !(b->drawing = zt_drawing_new(b->ctx, b->info.n_seq)))
        return ZT_ENOMEM;
    return ZT_OK;
}

zt_batch *zt_batch_open(zt_llm *m, const zt_batch_opts *opts)
{
    zt_ctx *ctx = zt_llm_ctx(m);
    zt_batch *b = zt_calloc(ctx, 1, sizeof *b);
    if (!b)
        return NULL;
    *b = (zt_batch){.ctx = ctx, .llm = m, .opts = *opts, .info = zt_llm_get(m)};
    b->most = (size_t)b->info.n_seq;
    b->chunk = b->info.chunk;
    b->pages = zt_pages_open(ctx, b->info.cache_len / ZT_LLM_BLOCK, ZT_LLM_BLOCK, b->info.n_seq);
    if (b->pages && make_arrays(b) == ZT_OK)
        return b;
    zt_batch_close(b);
    return NULL;
}

void zt_batch_close(zt_batch *b)
{
    if (!b)
        return;
    for (int64_t i = 0; b->slot && i < b->info.n_seq; i++)
        zt_ids_fini(b->ctx, &b->slot[i].kept);
    zt_pages_close(b->pages);
    zt_free(b->ctx, b->slot);
    zt_free(b->ctx, b->text);
    zt_free(b->ctx, b->ids);
    zt_free(b->ctx, b->pos);
    zt_free(b->ctx, b->seq);
    zt_free(b->ctx, b->rows);
    zt_free(b->ctx, b->best);
    zt_free(b->ctx, b->drawn);
    zt_drawing_free(b->drawing);
    zt_free(b->ctx, b->asks);
    zt_free(b->ctx, b->logits);
    zt_free(b->ctx, b);
}

zt_batch_count zt_batch_counted(const zt_batch *b)
{
    zt_batch_count c = b->count;
    c.texts = b->n;
    c.running = b->running;
    c.pages = zt_pages_counted(b->pages);
    return c;
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void free_slot(zt_batch *b, int seq)
{
    zt_ids_fini(b->ctx, &b->slot[seq].kept);
    zt_pages_end(b->pages, seq);
    b->slot[seq] = (zt_batch_slot){0};
}

static bool is_kept(const zt_batch *b, int64_t seq)
{
    return b->slot[seq].used && !b->slot[seq].ids;
}

/* The kept slot that was not used for longest, but not `save`; -1: none. */
static int oldest_kept(const zt_batch *b, int save)
{
    int found = -1;
    for (int i = 0; i < (int)b->info.n_seq; i++)
        if (i != save && is_kept(b, i) && (found < 0 || b->slot[i].at < b->slot[found].at))
            found = i;
    return found;
}

/* At least so many free blocks, at the cost of kept slots but not of `save`. */
static bool make_room(zt_batch *b, int64_t blocks, int save)
{
    int victim;
    while (zt_pages_left(b->pages) < blocks && (victim = oldest_kept(b, save)) >= 0)
        free_slot(b, victim);
    return zt_pages_left(b->pages) >= blocks;
}

/* A done text's tokens stay for those that begin like it; without memory for that they go. */
static void keep_slot(zt_batch *b, int seq)
{
    zt_batch_slot *s = &b->slot[seq];
    size_t n = (size_t)zt_pages_length(b->pages, seq);
    s->kept.id = b->opts.forget ? NULL : zt_alloc_array(b->ctx, n, sizeof *s->kept.id);
    if (!s->kept.id) {
        if (!b->opts.forget)
            zt_ctx_clear(b->ctx);
        free_slot(b, seq);
        return;
    }
    memcpy(s->kept.id, s->ids->id, n * sizeof *s->kept.id);
    s->kept.count = s->kept.capacity = n;
    s->ids = NULL;
}

/* ---- entering and leaving ------------------------------------------------------------------- */

/* How many of a slot's tokens and these are alike; the last must be fed for what comes after it. */
static int64_t alike(const zt_batch *b, int seq, const zt_ids *ids)
{
    const zt_ids *has = b->slot[seq].ids ? b->slot[seq].ids : &b->slot[seq].kept;
    int64_t n = 0, most = zt_pages_length(b->pages, seq);
    if (most > (int64_t)ids->count - 1)
        most = (int64_t)ids->count - 1;
    while (n < most && has->id[n] == ids->id[n])
        n++;
    return n;
}

/* The slot with the longest common beginning, a whole block at least; *n: how long. -1: none. */
static int most_alike(const zt_batch *b, const zt_ids *ids, int64_t *n)
{
    int found = -1;
    *n = ZT_LLM_BLOCK - 1;
    for (int i = 0; i < (int)b->info.n_seq && !b->opts.forget; i++) {
        int64_t k = b->slot[i].used ? alike(b, i, ids) : 0;
        if (k > *n) {
            *n = k;
            found = i;
        }
    }
    return found;
}

/* A slot that begins as the text does, or an empty one; -1: there is none. A kept one is taken over
 * where nothing of it is lost by that, or no other can be had. */
static int take_slot(zt_batch *b, const zt_ids *ids)
{
    int64_t n;
    int from = most_alike(b, ids, &n);
    bool kept = from >= 0 && is_kept(b, from);
    if (kept && n == zt_pages_length(b->pages, from))
        return from;
    if (zt_pages_counted(b->pages).sequences == b->info.n_seq) {
        int victim = oldest_kept(b, from);
        if (victim < 0)
            return kept && zt_pages_cut(b->pages, from, n) >= 0 ? from : -1;
        free_slot(b, victim);
    }
    return from >= 0 ? zt_pages_share(b->pages, from, n) : zt_pages_begin(b->pages);
}

static int64_t blocks_of(int64_t tokens)
{
    return (tokens + ZT_LLM_BLOCK - 1) / ZT_LLM_BLOCK;
}

bool zt_batch_enter(zt_batch *b)
{
    zt_batch_text *t = &b->text[b->running];
    int64_t n = (int64_t)t->ids->count + 1;
    if (b->running >= b->most)
        return false;
    int seq = take_slot(b, t->ids);
    if (seq < 0)
        return false;
    zt_batch_slot *s = &b->slot[seq];
    int64_t has = zt_pages_length(b->pages, seq);
    if (n > b->info.ctx_len)
        n = b->info.ctx_len;
    if (!make_room(b, blocks_of(n) - blocks_of(has) + (int64_t)b->running, seq)) {
        if (!s->used)
            zt_pages_end(b->pages, seq);
        else
            s->kept.count = (size_t)has;
        return false;
    }
    zt_ids_fini(b->ctx, &s->kept);
    *s = (zt_batch_slot){.ids = t->ids, .used = true};
    t->seq = seq;
    b->count.shared += (uint64_t)has;
    b->running++;
    return true;
}

void zt_batch_put_back(zt_batch *b)
{
    zt_batch_text *t = &b->text[--b->running];
    free_slot(b, t->seq);
    t->seq = -1;
    b->count.put_back++;
}

void zt_batch_put_back_all(zt_batch *b)
{
    while (b->running > 0)
        zt_batch_put_back(b);
    for (int i = 0; i < (int)b->info.n_seq; i++)
        if (b->slot[i].used)
            free_slot(b, i);
}

int64_t zt_batch_left(const zt_batch *b, const zt_batch_text *t)
{
    return (int64_t)t->ids->count - zt_pages_length(b->pages, t->seq);
}

bool zt_batch_room_for(zt_batch *b, size_t i, int64_t n)
{
    int seq = b->text[i].seq;
    int64_t has = zt_pages_length(b->pages, seq), more = blocks_of(has + n) - blocks_of(has);
    while (!make_room(b, more, -1)) {
        if (b->running == i + 1)
            return false;
        zt_batch_put_back(b);
    }
    return true;
}

void zt_batch_let_go(zt_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        zt_batch_text *t = &b->text[i];
        if (!t->done) {
            b->text[n++] = *t;
            continue;
        }
        if (t->seq < 0)
            continue;
        b->running--;
        keep_slot(b, t->seq);
    }
    b->n = n;
}

/* ---- texts ---------------------------------------------------------------------------------- */

zt_status zt_batch_check_id(const zt_batch *b, int32_t id)
{
    if (id >= 0 && id < b->info.vocab)
        return ZT_OK;
    return zt_fail(b->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64, id,
                   b->info.vocab - 1);
}

static zt_status add(zt_batch *b, zt_batch_text t)
{
    const zt_ids *ids = t.ids;
    zt_status s = ZT_OK;
    t.seq = -1;
    if (ids->count == 0)
        return zt_fail(b->ctx, ZT_EUSAGE, "no tokens to go on from");
    if (ids->count > (size_t)b->info.ctx_len)
        return zt_fail(b->ctx, ZT_ENOMEM,
                       "the context of %" PRId64 " tokens is too small: %zu were given",
                       b->info.ctx_len, ids->count);
    for (size_t i = 0; i < ids->count && s == ZT_OK; i++)
        s = zt_batch_check_id(b, ids->id[i]);
    if (s == ZT_OK && b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        zt_batch_text *more = zt_realloc(b->ctx, b->text, cap * sizeof *more);
        if (!more)
            return ZT_ENOMEM;
        b->text = more;
        b->cap = cap;
    }
    if (s == ZT_OK)
        b->text[b->n++] = t;
    return s;
}

zt_status zt_batch_add(zt_batch *b, void *user, const zt_ids *ids, bool logits)
{
    zt_batch_gets gets = logits ? ZT_GETS_LOGITS : ZT_GETS_BEST;
    return add(b, (zt_batch_text){.user = user, .ids = ids, .gets = gets});
}

zt_status zt_batch_add_best(zt_batch *b, void *user, const zt_ids *ids, const int32_t *banned,
                            size_t n)
{
    return add(b, (zt_batch_text){.user = user, .ids = ids, .gets = ZT_GETS_BEST, .banned = banned,
                                  .n_banned = n});
}

zt_status zt_batch_add_drawn(zt_batch *b, void *user, const zt_ids *ids, const zt_draw *d)
{
    if (!b->drawing || !zt_draw_fits(d))
        return zt_fail(b->ctx, ZT_EUSAGE, "the engine does not draw this model's tokens so");
    return add(b, (zt_batch_text){.user = user, .ids = ids, .gets = ZT_GETS_DRAWN,
                                  .sampler = *d->sampler, .banned = d->banned,
                                  .n_banned = d->n_banned});
}

void zt_batch_drop(zt_batch *b, const void *user)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->text[i].user == user)
            b->text[i].done = true;
    zt_batch_let_go(b);
    b->most = (size_t)b->info.n_seq;
    b->chunk = b->info.chunk;
}
