/* batch_step.c - a step of a batch: which rows it feeds, and what it hands to the texts. */
#include "lib/llm/batch_internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- the rows of a step --------------------------------------------------------------------- */

/* n rows of text i, which has room for them; an answer, if its last token is among them. */
static zt_status add_rows(zt_batch *b, size_t i, int64_t n)
{
    const zt_batch_text *t = &b->text[i];
    int64_t at = b->n_rows, left = zt_batch_left(b, t), from = (int64_t)t->ids->count - left;
    zt_status s = ZT_OK;
    for (int64_t k = 0; k < n && s == ZT_OK; k++) {
        b->ids[at + k] = t->ids->id[from + k];
        s = zt_batch_check_id(b, b->ids[at + k]);
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
        going += zt_batch_left(b, &b->text[i]) == 1;
    chunk = b->chunk > going ? b->chunk - going : 1;
    for (size_t i = 0; s == ZT_OK && i < b->n; i++) {
        bool runs = i < b->running;
        if (!runs && (chunk == 0 || !zt_batch_enter(b)))
            break;
        int64_t left = zt_batch_left(b, &b->text[i]), n = left < chunk ? left : chunk;
        if (runs && left == 1)
            n = 1;
        else
            chunk -= n;
        if (n == 0)
            continue;
        if (!zt_batch_room_for(b, i, n)) {
            zt_batch_put_back(b);
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

static const zt_sampler greedy = {.top_p = 1, .repeat_penalty = 1};

/* What is banned may turn out to be the likeliest: then the logits say what comes after it. */
static bool needs(const zt_batch_text *t, zt_batch_gets a)
{
    return t->gets == a || (a == ZT_GETS_LOGITS && t->gets == ZT_GETS_BEST && t->n_banned > 0);
}

static bool any_needs(const zt_batch *b, zt_batch_gets a)
{
    for (int64_t k = 0; k < b->n_wanted; k++)
        if (needs(&b->text[b->asks[k]], a))
            return true;
    return false;
}

static zt_status feed_rows(zt_batch *b, const bool wanted[ZT_GETS])
{
    zt_status s = wanted[ZT_GETS_LOGITS] ? reserve_logits(b, b->n_wanted) : ZT_OK;
    const void *in[5 + ZT_DRAW_INPUTS] = {b->ids, b->pos, b->seq, zt_pages_table(b->pages),
                                          b->rows};
    void *out[] = {wanted[ZT_GETS_LOGITS] ? b->logits : NULL, wanted[ZT_GETS_BEST] ? b->best : NULL,
                   wanted[ZT_GETS_DRAWN] ? b->drawn : NULL};
    zt_binding sym[] = {{"n", b->n_rows}, {"m", b->n_wanted}};
    if (b->drawing)
        zt_drawing_inputs(b->drawing, in + 5);
    return s ? s : zt_session_step(zt_llm_session(b->llm), sym, 2, in, out);
}

/* How each row is drawn; of rows whose texts get something else the best is, which nobody reads. */
static void describe_draws(zt_batch *b)
{
    for (int64_t k = 0; k < b->n_wanted; k++) {
        const zt_batch_text *t = &b->text[b->asks[k]];
        zt_draw d = {.sampler = &greedy};
        if (t->gets == ZT_GETS_DRAWN)
            d = (zt_draw){.sampler = &t->sampler, .history = t->ids->id, .n_history = t->ids->count,
                          .banned = t->banned, .n_banned = t->n_banned};
        zt_drawing_row(b->drawing, k, &d, NULL, 0);
    }
}

static zt_status feed(zt_batch *b)
{
    zt_status s = plan_rows(b);
    bool wanted[ZT_GETS];
    for (int a = 0; a < ZT_GETS; a++)
        wanted[a] = any_needs(b, (zt_batch_gets)a);
    if (s == ZT_OK && wanted[ZT_GETS_DRAWN])
        describe_draws(b);
    if (s == ZT_OK)
        s = feed_rows(b, wanted);
    if (s != ZT_OK) {
        zt_batch_put_back_all(b);
        return s;
    }
    b->count.steps++;
    b->count.rows += (uint64_t)b->n_rows;
    return ZT_OK;
}

/* Was 0 the likeliest, or was no logit a number? The last token is fed again, for its logits, unless
 * those of all rows are there. */
static zt_status check_zero(zt_batch *b, const zt_batch_text *t, const float *logits, int32_t *best)
{
    if (!logits) {
        b->ids[0] = t->ids->id[t->ids->count - 1];
        b->pos[0] = (int32_t)(t->ids->count - 1);
        b->seq[0] = t->seq;
        b->rows[0] = 0;
        b->n_rows = b->n_wanted = 1;
        zt_status s = feed_rows(b, (bool[ZT_GETS]){[ZT_GETS_LOGITS] = true});
        if (s != ZT_OK)
            return s;
        logits = b->logits;
    }
    if (isnan(logits[0]))
        *best = -1;
    return ZT_OK;
}

static bool is_banned(const zt_batch_text *t, int32_t token)
{
    for (size_t i = 0; i < t->n_banned; i++)
        if (t->banned[i] == token)
            return true;
    return false;
}

/* The likeliest of the others. */
static int32_t best_other(const zt_batch *b, const zt_batch_text *t, float *logits)
{
    for (size_t i = 0; i < t->n_banned; i++)
        if (t->banned[i] >= 0 && t->banned[i] < b->info.vocab)
            logits[t->banned[i]] = -INFINITY;
    return zt_sample(&greedy, logits, b->info.vocab, t->ids->id, t->ids->count, (int64_t)t->ids->count, NULL);
}

/* What comes after the tokens of the k-th text that asks. `logits` are of its row, or NULL. */
static zt_status ask(zt_batch *b, int64_t k, float *logits)
{
    zt_batch_text *t = &b->text[b->asks[k]];
    bool looks = t->gets == ZT_GETS_LOGITS, best = t->gets == ZT_GETS_BEST, more = false;
    int32_t token = looks ? -1 : best ? b->best[k] : b->drawn[k];
    zt_status s = best && token == 0 ? check_zero(b, t, logits, &token) : ZT_OK;
    if (s == ZT_OK && best && logits && is_banned(t, token))
        token = best_other(b, t, logits);
    if (s == ZT_OK)
        s = b->opts.next(t->user, looks ? logits : NULL, token, &more);
    t->done = !more;
    if (s == ZT_OK && more && ((int64_t)t->ids->count > b->info.ctx_len || zt_batch_left(b, t) < 1))
        s = zt_fail(b->ctx, ZT_EUSAGE,
                    "a text of %zu tokens goes on with %" PRId64 " more in a context of %" PRId64,
                    t->ids->count, zt_batch_left(b, t), b->info.ctx_len);
    if (s == ZT_OK && more && b->opts.forget)
        zt_pages_cut(b->pages, t->seq, 0);
    return s;
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
    bool logits = s == ZT_OK && any_needs(b, ZT_GETS_LOGITS);
    for (int64_t k = 0; k < n && s == ZT_OK; k++)
        s = ask(b, k, logits ? b->logits + k * b->info.vocab : NULL);
    if (s != ZT_OK)
        zt_batch_put_back_all(b);
    zt_batch_let_go(b);
    return s;
}
