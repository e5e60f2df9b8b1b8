/* feed.c - a language model is fed: logits, the likeliest token or the one drawn, states as an
 * embedding; and its position.
 */
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a chunk is asked for: each may be NULL. Logits of its rows, or states; the likeliest token
 * after the last; the one drawn, as `draw` says. */
typedef struct answer {
    float *y;
    int32_t *best, *token;
    const zt_draw *draw;
} answer;

/* One chunk: n tokens from the current position on; answers for `wanted` rows (0: none, 1: the
 * last, n: all): f32[wanted, V], or states f32[wanted, width]. */
static zt_status feed_chunk(zt_llm *m, const int32_t *ids, int64_t n, int64_t wanted, answer a)
{
    for (int64_t i = 0; i < n; i++)
        m->pos[i] = (int32_t)(m->position + i);
    for (int64_t i = 0; i < n && m->h.arch->encoder; i++)
        m->last[i] = (int32_t)(n - 1);
    const int32_t *rows = wanted == 1 ? m->iota + n - 1 : m->iota;
    const void *decoder[5 + ZT_DRAW_INPUTS] = {ids, m->pos, m->seq, m->table, rows};
    const void *encoder[] = {ids, m->seq, m->pos, m->last}; /* all tokens are of type 0 */
    const void *const *in = m->h.arch->encoder ? encoder : decoder;
    void *out[] = {wanted ? a.y : NULL, wanted ? a.best : NULL, wanted ? a.token : NULL};
    if (m->drawing)
        zt_drawing_inputs(m->drawing, decoder + 5);
    zt_binding b[] = {{"n", n}, {"m", wanted}};
    zt_status s = zt_session_step(m->session, b, 2, in, out);
    if (s == ZT_OK)
        m->position += n;
    return s;
}

static zt_status check_feed(const zt_llm *m, const int32_t *ids, size_t n)
{
    size_t left = (size_t)(m->opts.ctx_len - m->position);
    if (n > left)
        return zt_fail(m->ctx, ZT_ENOMEM,
                       "the context of %" PRId64 " tokens is too small: %" PRId64
                       " are in it and %zu more were given", m->opts.ctx_len, m->position, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->h.vocab)
            return zt_fail(m->ctx, ZT_EUSAGE, "token id %" PRId32 " is not from 0 to %" PRId64,
                           ids[i], m->h.vocab - 1);
    return ZT_OK;
}

static zt_status feed(zt_llm *m, const int32_t *ids, size_t n, bool all, answer a)
{
    zt_status s = m->opts.embed ? zt_fail(m->ctx, ZT_EUSAGE, "a model opened for embeddings has no "
                                                             "logits")
                                : check_feed(m, ids, n);
    for (size_t at = 0; at < n && s == ZT_OK;) {
        size_t step = n - at < (size_t)m->opts.chunk ? n - at : (size_t)m->opts.chunk;
        int64_t wanted = !a.y && !a.best && !a.token ? 0 : all ? (int64_t)step : at + step == n;
        for (int64_t i = 0; a.draw && i < wanted; i++)
            zt_drawing_row(m->drawing, i, a.draw, ids, at + step - (size_t)(wanted - 1 - i));
        s = feed_chunk(m, ids + at, (int64_t)step, wanted, a);
        if (all && a.y)
            a.y += step * (size_t)m->h.vocab;
        if (all && a.best)
            a.best += step;
        if (all && a.token)
            a.token += step;
        at += step;
    }
    return s;
}

zt_status zt_llm_feed(zt_llm *m, const int32_t *ids, size_t n, bool all, float *logits)
{
    return feed(m, ids, n, all, (answer){.y = logits});
}

/* Was 0 the likeliest, or was no logit a number? The last token is fed again, for its logits. */
static zt_status check_zero(zt_llm *m, const int32_t *last, int32_t *next)
{
    float *y = zt_alloc_array(m->ctx, (size_t)m->h.vocab, sizeof *y);
    if (!y)
        return ZT_ENOMEM;
    m->position--;
    zt_status s = feed(m, last, 1, false, (answer){.y = y});
    if (s == ZT_OK && isnan(y[0]))
        *next = -1;
    zt_free(m->ctx, y);
    return s;
}

zt_status zt_llm_next(zt_llm *m, const int32_t *ids, size_t n, int32_t *next)
{
    if (n == 0)
        return zt_fail(m->ctx, ZT_EUSAGE, "no tokens to go on from");
    zt_status s = feed(m, ids, n, false, (answer){.best = next});
    return s == ZT_OK && *next == 0 ? check_zero(m, ids + n - 1, next) : s;
}

zt_status zt_llm_nexts(zt_llm *m, const int32_t *ids, size_t n, int32_t *next)
{
    int64_t from = m->position;
    zt_status s = feed(m, ids, n, true, (answer){.best = next});
    for (size_t i = 0; i < n && s == ZT_OK; i++) {
        if (next[i] != 0)
            continue;
        m->position = from + (int64_t)i + 1;
        s = check_zero(m, ids + i, next + i);
    }
    m->position = from + (s == ZT_OK ? (int64_t)n : 0);
    return s;
}

bool zt_llm_draws(const zt_llm *m)
{
    return m->opts.draws;
}

zt_status zt_llm_draw(zt_llm *m, const int32_t *ids, size_t n, bool all, const zt_draw *d,
                      int32_t *next)
{
    if (n == 0 || !m->opts.draws || !zt_draw_fits(d))
        return zt_fail(m->ctx, ZT_EUSAGE, n ? "the engine does not draw this model's tokens so"
                                            : "no tokens to go on from");
    return feed(m, ids, n, all, (answer){.token = next, .draw = d});
}

int64_t zt_llm_position(const zt_llm *m)
{
    return m->position;
}

/* The states were filled up to there by other means than feeding. */
void zt_llm_place(zt_llm *m, int64_t position)
{
    m->position = position;
}

zt_status zt_llm_rewind(zt_llm *m, int64_t position)
{
    if (position < 0 || position > m->position)
        return zt_fail(m->ctx, ZT_EUSAGE, "cannot rewind to position %" PRId64 " from %" PRId64,
                       position, m->position);
    m->position = position;
    return ZT_OK;
}

/* ---- embeddings ----------------------------------------------------------------------------- */

/* n rows of states into the sum (or the one that counts), in order, whatever the chunks. */
static void pool(zt_llm *m, int64_t n, bool first)
{
    int64_t width = m->h.width;
    if (first)
        memset(m->pooled, 0, (size_t)width * sizeof *m->pooled);
    for (int64_t i = 0; i < n; i++) {
        const float *x = m->states + i * width;
        if (m->h.pooling == ZT_POOL_FIRST && !(first && i == 0))
            return;
        for (int64_t k = 0; k < width; k++)
            m->pooled[k] = (m->h.pooling == ZT_POOL_MEAN ? m->pooled[k] : 0) + (double)x[k];
    }
}

zt_status zt_llm_embed(zt_llm *m, const int32_t *ids, size_t n, float *out)
{
    if (!m->opts.embed || n == 0)
        return zt_fail(m->ctx, ZT_EUSAGE, n ? "the model was opened for logits, not embeddings"
                                            : "no tokens to embed");
    m->position = 0;
    zt_status s = check_feed(m, ids, n);
    for (size_t at = 0; at < n && s == ZT_OK;) {
        size_t step = n - at < (size_t)m->opts.chunk ? n - at : (size_t)m->opts.chunk;
        s = feed_chunk(m, ids + at, (int64_t)step, (int64_t)step, (answer){.y = m->states});
        if (s == ZT_OK)
            pool(m, (int64_t)step, at == 0);
        at += step;
    }
    double by = m->h.pooling == ZT_POOL_MEAN ? 1 / (double)n : 1;
    for (int64_t k = 0; k < m->h.width && s == ZT_OK; k++)
        out[k] = (float)(m->pooled[k] * by);
    return s;
}
