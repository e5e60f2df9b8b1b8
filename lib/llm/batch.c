/* batch.c - which texts run, and what a step feeds: the table of sequences, and the rows of a step.
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
#include "lib/llm/batch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct text {
    void *user;
    const zt_ids *ids;
    bool logits; /* wanted; else the likeliest token */
    bool done;
    int seq; /* -1: waits */
} text;

typedef struct slot {
    const zt_ids *ids; /* of the text that runs here, */
    zt_ids kept;       /* or of one that is done; */
    bool used;         /* neither: free */
    uint64_t at;       /* the step that fed it last */
} slot;

struct zt_batch {
    zt_ctx *ctx;
    zt_llm *llm;
    zt_batch_opts opts;
    zt_llm_info info;
    zt_pages *pages;
    slot *slot; /* [n_seq] */
    text *text; /* n of them, those that run first */
    size_t n, cap, running;
    size_t most;   /* texts that may run at once, and */
    int64_t chunk; /* tokens of prompts in a step: fewer than were asked for after ZT_ENOMEM */
    /* a step */
    int32_t *ids, *pos, *seq; /* [n_rows]; room for the larger of chunk and n_seq + 1 */
    int32_t *rows, *best;     /* [n_wanted]; room for n_seq */
    size_t *asks;             /* likewise: the text that each of them is for */
    int64_t n_rows, n_wanted;
    float *logits; /* [n_wanted, V], and for how many there is room */
    int64_t logits_rows;
    zt_batch_count count;
};

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
    b->asks = zt_alloc_array(b->ctx, n_seq, sizeof *b->asks);
    return b->slot && b->ids && b->pos && b->seq && b->rows && b->best && b->asks ? ZT_OK
                                                                                  : ZT_ENOMEM;
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
    b->slot[seq] = (slot){0};
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
    slot *s = &b->slot[seq];
    size_t n = (size_t)zt_pages_length(b->pages, seq);
    s->kept.id = b->opts.forget ? NULL : zt_alloc_array(b->ctx, n, sizeof *s->kept.id);
    if (!s->kept.id) {
        if (!b->opts.forget)
            zt_ctx_clear(b->ctx);
        free_slot(b, seq);
        return;
    }
    memcpy(s->kept.id, s->ids->id, n * sizeof *s->kept.id);
    s->kept.n = s->kept.cap = n;
    s->ids = NULL;
}

/* ---- entering and leaving ------------------------------------------------------------------- */

/* How many of a slot's tokens and these are alike; the last must be fed for what comes after it. */
static int64_t alike(const zt_batch *b, int seq, const zt_ids *ids)
{
    const zt_ids *has = b->slot[seq].ids ? b->slot[seq].ids : &b->slot[seq].kept;
    int64_t n = 0, most = zt_pages_length(b->pages, seq);
    if (most > (int64_t)ids->n - 1)
        most = (int64_t)ids->n - 1;
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

/* The first text that waits becomes one that runs, if there is room for its tokens, the next one,
 * and for those that run to get on for a while. */
static bool enter(zt_batch *b)
{
    text *t = &b->text[b->running];
    int64_t n = (int64_t)t->ids->n + 1;
    if (b->running >= b->most)
        return false;
    int seq = take_slot(b, t->ids);
    if (seq < 0)
        return false;
    slot *s = &b->slot[seq];
    int64_t has = zt_pages_length(b->pages, seq);
    if (n > b->info.ctx_len)
        n = b->info.ctx_len;
    if (!make_room(b, blocks_of(n) - blocks_of(has) + (int64_t)b->running, seq)) {
        if (!s->used)
            zt_pages_end(b->pages, seq);
        else
            s->kept.n = (size_t)has;
        return false;
    }
    zt_ids_fini(b->ctx, &s->kept);
    *s = (slot){.ids = t->ids, .used = true};
    t->seq = seq;
    b->count.shared += (uint64_t)has;
    b->running++;
    return true;
}

static void put_back_last(zt_batch *b)
{
    text *t = &b->text[--b->running];
    free_slot(b, t->seq);
    t->seq = -1;
    b->count.put_back++;
}

/* After a failure nobody knows what the cache holds. */
static void put_back_all(zt_batch *b)
{
    while (b->running > 0)
        put_back_last(b);
    for (int i = 0; i < (int)b->info.n_seq; i++)
        if (b->slot[i].used)
            free_slot(b, i);
}

/* ---- the rows of a step --------------------------------------------------------------------- */

static int64_t left_of(const zt_batch *b, const text *t)
{
    return (int64_t)t->ids->n - zt_pages_length(b->pages, t->seq);
}

static zt_status check_id(const zt_batch *b, int32_t id)
{
    if (id >= 0 && id < b->info.vocab)
        return ZT_OK;
    return zt_fail(b->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64, id,
                   b->info.vocab - 1);
}

/* Room for n positions more of text i, which runs: kept slots go, then the texts after it are put
 * back, the last first. False: there is none, though it is not the first. */
static bool room_for(zt_batch *b, size_t i, int64_t n)
{
    int seq = b->text[i].seq;
    int64_t has = zt_pages_length(b->pages, seq), more = blocks_of(has + n) - blocks_of(has);
    while (!make_room(b, more, -1)) {
        if (b->running == i + 1)
            return false;
        put_back_last(b);
    }
    return true;
}

/* n rows of text i, which has room for them; an answer, if its last token is among them. */
static zt_status add_rows(zt_batch *b, size_t i, int64_t n)
{
    const text *t = &b->text[i];
    int64_t at = b->n_rows, left = left_of(b, t), from = (int64_t)t->ids->n - left;
    zt_status s = ZT_OK;
    for (int64_t k = 0; k < n && s == ZT_OK; k++) {
        b->ids[at + k] = t->ids->id[from + k];
        s = check_id(b, b->ids[at + k]);
    }
    if (s == ZT_OK)
        s = zt_pages_append(b->pages, t->seq, n, b->pos + at, b->seq + at);
    if (s != ZT_OK)
        return s;
    b->slot[t->seq].at = b->count.steps;
    b->n_rows += n;
    if (n == left) {
        b->rows[b->n_wanted] = (int32_t)(b->n_rows - 1);
        b->asks[b->n_wanted++] = i;
    }
    return ZT_OK;
}

/* Of each text that runs one token or a piece of its prompt, and of those that enter. Prompts have
 * what generating texts leave of the chunk, and one token at least. */
static zt_status plan_rows(zt_batch *b)
{
    int64_t going = 0, chunk;
    zt_status s = ZT_OK;
    b->n_rows = b->n_wanted = 0;
    for (size_t i = 0; i < b->running; i++)
        going += left_of(b, &b->text[i]) == 1;
    chunk = b->chunk > going ? b->chunk - going : 1;
    for (size_t i = 0; s == ZT_OK && i < b->n; i++) {
        bool runs = i < b->running;
        if (!runs && (chunk == 0 || !enter(b)))
            break;
        int64_t left = left_of(b, &b->text[i]), n = left < chunk ? left : chunk;
        if (runs && left == 1)
            n = 1;
        else
            chunk -= n;
        if (n == 0)
            continue;
        if (!room_for(b, i, n)) {
            put_back_last(b);
            break;
        }
        s = add_rows(b, i, n);
    }
    return s;
}

/* ---- a step --------------------------------------------------------------------------------- */

static zt_status reserve_logits(zt_batch *b, int64_t rows)
{
    if (rows <= b->logits_rows)
        return ZT_OK;
    zt_free(b->ctx, b->logits);
    b->logits_rows = 0;
    b->logits = zt_alloc_array(b->ctx, (size_t)rows, (size_t)b->info.vocab * sizeof *b->logits);
    if (!b->logits)
        return ZT_ENOMEM;
    b->logits_rows = rows;
    return ZT_OK;
}

static bool any_wants(const zt_batch *b, bool logits)
{
    for (int64_t k = 0; k < b->n_wanted; k++)
        if (b->text[b->asks[k]].logits == logits)
            return true;
    return false;
}

static zt_status feed_rows(zt_batch *b, bool logits, bool best)
{
    zt_status s = logits ? reserve_logits(b, b->n_wanted) : ZT_OK;
    const void *in[] = {b->ids, b->pos, b->seq, zt_pages_table(b->pages), b->rows};
    void *out[] = {logits ? b->logits : NULL, best ? b->best : NULL};
    zt_binding sym[] = {{"n", b->n_rows}, {"m", b->n_wanted}};
    return s ? s : zt_session_step(zt_llm_session(b->llm), sym, 2, in, out);
}

static zt_status feed(zt_batch *b)
{
    zt_status s = plan_rows(b);
    if (s == ZT_OK)
        s = feed_rows(b, any_wants(b, true), any_wants(b, false));
    if (s != ZT_OK) {
        put_back_all(b);
        return s;
    }
    b->count.steps++;
    b->count.rows += (uint64_t)b->n_rows;
    return ZT_OK;
}

/* Was 0 the likeliest, or was no logit a number? The last token is fed again, for its logits, unless
 * those of all rows are there. */
static zt_status check_zero(zt_batch *b, const text *t, const float *logits, int32_t *best)
{
    if (!logits) {
        b->ids[0] = t->ids->id[t->ids->n - 1];
        b->pos[0] = (int32_t)(t->ids->n - 1);
        b->seq[0] = t->seq;
        b->rows[0] = 0;
        b->n_rows = b->n_wanted = 1;
        zt_status s = feed_rows(b, true, false);
        if (s != ZT_OK)
            return s;
        logits = b->logits;
    }
    if (isnan(logits[0]))
        *best = -1;
    return ZT_OK;
}

/* What comes after the tokens of the k-th text that asks. */
static zt_status ask(zt_batch *b, size_t i, float *logits, int32_t best)
{
    text *t = &b->text[i];
    bool more = false;
    zt_status s = t->logits || best != 0 ? ZT_OK : check_zero(b, t, logits, &best);
    if (s == ZT_OK)
        s = b->opts.next(t->user, t->logits ? logits : NULL, t->logits ? -1 : best, &more);
    t->done = !more;
    if (s == ZT_OK && more && ((int64_t)t->ids->n > b->info.ctx_len || left_of(b, t) < 1))
        s = zt_fail(b->ctx, ZT_EUSAGE,
                    "a text of %zu tokens goes on with %" PRId64 " more in a context of %" PRId64,
                    t->ids->n, left_of(b, t), b->info.ctx_len);
    if (s == ZT_OK && more && b->opts.forget)
        zt_pages_cut(b->pages, t->seq, 0);
    return s;
}

/* Those that are done leave; the others move up in their order. */
static void let_go(zt_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        text *t = &b->text[i];
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

/* Memory was short: what may be given up goes first, then half as much at a time from now on, if
 * that is anything. */
static bool take_less(zt_batch *b, bool first)
{
    if (!first && b->most == 1 && b->chunk == 1)
        return false;
    if (!first) {
        b->most = (b->most + 1) / 2;
        b->chunk = (b->chunk + 1) / 2;
    }
    zt_free(b->ctx, b->logits);
    b->logits = NULL;
    b->logits_rows = 0;
    zt_session_forget(zt_llm_session(b->llm));
    zt_ctx_clear(b->ctx);
    return true;
}

zt_status zt_batch_step(zt_batch *b)
{
    zt_status s = ZT_OK;
    if (b->n == 0)
        return ZT_OK;
    for (bool first = true; (s = feed(b)) == ZT_ENOMEM && take_less(b, first); first = false)
        continue;
    int64_t n = b->n_wanted;
    bool logits = s == ZT_OK && any_wants(b, true);
    for (int64_t k = 0; k < n && s == ZT_OK; k++)
        s = ask(b, b->asks[k], logits ? b->logits + k * b->info.vocab : NULL, b->best[k]);
    if (s != ZT_OK)
        put_back_all(b);
    let_go(b);
    return s;
}

/* ---- texts ---------------------------------------------------------------------------------- */

zt_status zt_batch_add(zt_batch *b, void *user, const zt_ids *ids, bool logits)
{
    zt_status s = ZT_OK;
    if (ids->n == 0)
        return zt_fail(b->ctx, ZT_EUSAGE, "no tokens to go on from");
    if (ids->n > (size_t)b->info.ctx_len)
        return zt_fail(b->ctx, ZT_ENOMEM,
                       "the context of %" PRId64 " tokens is too small: %zu were given",
                       b->info.ctx_len, ids->n);
    for (size_t i = 0; i < ids->n && s == ZT_OK; i++)
        s = check_id(b, ids->id[i]);
    if (s == ZT_OK && b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        text *more = zt_realloc(b->ctx, b->text, cap * sizeof *more);
        if (!more)
            return ZT_ENOMEM;
        b->text = more;
        b->cap = cap;
    }
    if (s == ZT_OK)
        b->text[b->n++] = (text){.user = user, .ids = ids, .logits = logits, .seq = -1};
    return s;
}

void zt_batch_drop(zt_batch *b, const void *user)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->text[i].user == user)
            b->text[i].done = true;
    let_go(b);
    b->most = (size_t)b->info.n_seq;
    b->chunk = b->info.chunk;
}
