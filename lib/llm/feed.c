/* feed.c - feed a language model: logits, the most probable token, a drawn token, or an embedding; and the position. */
#include "lib/base/require.h"
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The results wanted of a chunk; each may be NULL. values: logits or states of its rows; best: the most probable
 * token; token: the one drawn, by the settings `draw`. */
typedef struct wanted_answer {
    float *values;
    int32_t *best, *token;
    const zt_draw *draw;
} wanted_answer;

/* Feeds one chunk from the current position on. wanted: rows to answer, 0: none, 1: the last, token_count: all.
 * Logits are f32[wanted, V], states f32[wanted, width]. */
static zt_status feed_chunk(zt_llm *model, const int32_t *ids, int64_t token_count, int64_t wanted, wanted_answer answer)
{
    for (int64_t i = 0; i < token_count; i++) model->pos[i] = (int32_t)(model->position + i);
    for (int64_t i = 0; i < token_count && model->hyper.arch->encoder; i++) model->last[i] = (int32_t)(token_count - 1);
    const int32_t *rows = wanted == 1 ? model->iota + token_count - 1 : model->iota;
    const void *decoder[5 + ZT_DRAW_INPUTS] = {ids, model->pos, model->seq, model->table, rows};
    const void *encoder[] = {ids, model->seq, model->pos, model->last}; /* all tokens are of type 0 */
    const void *const *in = model->hyper.arch->encoder ? encoder : decoder;
    void *out[] = {wanted ? answer.values : NULL, wanted ? answer.best : NULL, wanted ? answer.token : NULL};
    if (model->drawing) zt_drawing_inputs(model->drawing, decoder + 5);
    zt_binding symbols[] = {{"n", token_count}, {"m", wanted}};
    zt_status status = zt_session_step(model->session, symbols, 2, in, out);
    if (status == ZT_OK) model->position += token_count;
    return status;
}

static zt_status check_feed(const zt_llm *model, const int32_t *ids, size_t token_count)
{
    size_t left = (size_t)(model->opts.ctx_len - model->position);
    if (token_count > left)
        return zt_fail(model->ctx, ZT_ENOMEM,
                       "the context of %" PRId64 " tokens is too small: %" PRId64
                       " tokens are in the cache and %zu more were given",
                       model->opts.ctx_len, model->position, token_count);
    for (size_t i = 0; i < token_count; i++)
        if (ids[i] < 0 || ids[i] >= model->hyper.vocab)
            return zt_fail(model->ctx, ZT_EUSAGE, "token id %" PRId32 " is out of range, expected 0 to %" PRId64, ids[i],
                           model->hyper.vocab - 1);
    return ZT_OK;
}

static zt_status feed_chunks(zt_llm *model, const int32_t *ids, size_t token_count, bool all, wanted_answer answer)
{
    zt_status status = model->opts.embed ? zt_fail(model->ctx, ZT_EUSAGE,
                                                   "a model opened for embeddings has no "
                                                   "logits")
                                         : check_feed(model, ids, token_count);
    for (size_t done = 0; done < token_count && status == ZT_OK;) {
        size_t chunk = token_count - done < (size_t)model->opts.chunk ? token_count - done : (size_t)model->opts.chunk;
        int64_t wanted = !answer.values && !answer.best && !answer.token ? 0 : all ? (int64_t)chunk : done + chunk == token_count;
        for (int64_t i = 0; answer.draw && i < wanted; i++)
            zt_drawing_row(model->drawing, i, answer.draw, ids, done + chunk - (size_t)(wanted - 1 - i));
        status = feed_chunk(model, ids + done, (int64_t)chunk, wanted, answer);
        if (all && answer.values) answer.values += chunk * (size_t)model->hyper.vocab;
        if (all && answer.best) answer.best += chunk;
        if (all && answer.token) answer.token += chunk;
        done += chunk;
    }
    return status;
}

zt_status zt_llm_feed(zt_llm *model, const int32_t *ids, size_t token_count, bool all, float *logits)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, ids || !token_count, ZT_EUSAGE);
    return feed_chunks(model, ids, token_count, all, (wanted_answer){.values = logits});
}

/* Token 0 is also the result when every logit is NaN. Feeds the last token again for its logits; *next becomes -1 for
 * NaN. */
static zt_status check_zero(zt_llm *model, const int32_t *last, int32_t *next)
{
    float *logits = zt_alloc_array(model->ctx, (size_t)model->hyper.vocab, sizeof *logits);
    if (!logits) return ZT_ENOMEM;
    model->position--;
    zt_status status = feed_chunks(model, last, 1, false, (wanted_answer){.values = logits});
    if (status == ZT_OK && isnan(logits[0])) *next = -1;
    zt_free(model->ctx, logits);
    return status;
}

zt_status zt_llm_next(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, (ids || !token_count) && next, ZT_EUSAGE);
    if (token_count == 0) return zt_fail(model->ctx, ZT_EUSAGE, "no token to continue from");
    zt_status status = feed_chunks(model, ids, token_count, false, (wanted_answer){.best = next});
    return status == ZT_OK && *next == 0 ? check_zero(model, ids + token_count - 1, next) : status;
}

zt_status zt_llm_nexts(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, (ids || !token_count) && next, ZT_EUSAGE);
    int64_t from = model->position;
    zt_status status = feed_chunks(model, ids, token_count, true, (wanted_answer){.best = next});
    for (size_t i = 0; i < token_count && status == ZT_OK; i++) {
        if (next[i] != 0) continue;
        model->position = from + (int64_t)i + 1;
        status = check_zero(model, ids + i, next + i);
    }
    model->position = from + (status == ZT_OK ? (int64_t)token_count : 0);
    return status;
}

bool zt_llm_draws(const zt_llm *model) { return model && model->opts.draws; }

zt_status zt_llm_draw(zt_llm *model, const int32_t *ids, size_t token_count, bool all, const zt_draw *draw, int32_t *next)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, draw, ZT_EUSAGE);
    if (token_count == 0 || !model->opts.draws || !zt_draw_fits(draw))
        return zt_fail(model->ctx, ZT_EUSAGE,
                       token_count ? "the engine cannot sample this model's tokens with these settings"
                                   : "no token to continue from");
    return feed_chunks(model, ids, token_count, all, (wanted_answer){.token = next, .draw = draw});
}

int64_t zt_llm_position(const zt_llm *model) { return model ? model->position : 0; }

/* Sets the position after the states were filled by other means than feeding (save.c). */
void zt_llm_place(zt_llm *model, int64_t position) { model->position = position; }

zt_status zt_llm_rewind(zt_llm *model, int64_t position)
{
    if (!model) return ZT_EUSAGE;
    if (position < 0 || position > model->position)
        return zt_fail(model->ctx, ZT_EUSAGE, "cannot rewind to position %" PRId64 " from %" PRId64, position, model->position);
    model->position = position;
    return ZT_OK;
}

/* ---- embeddings ----------------------------------------------------------------------------- */

int64_t zt_llm_vector_length(const zt_llm *model) { return model->hyper.classifies ? model->hyper.labels : model->hyper.width; }

/* Adds row_count rows of states to the pooled vector (or stores the one row that counts), in order, so that the result
 * does not depend on the chunk size. */
static void pool_states(zt_llm *model, int64_t row_count, bool first)
{
    int64_t width = zt_llm_vector_length(model);
    if (first) memset(model->pooled, 0, (size_t)width * sizeof *model->pooled);
    for (int64_t row = 0; row < row_count; row++) {
        const float *state = model->states + row * width;
        if (model->hyper.pooling == ZT_POOL_FIRST && !(first && row == 0)) return;
        for (int64_t column = 0; column < width; column++)
            model->pooled[column] = (model->hyper.pooling == ZT_POOL_MEAN ? model->pooled[column] : 0) + (double)state[column];
    }
}

zt_status zt_llm_embed(zt_llm *model, const int32_t *ids, size_t token_count, float *out)
{
    if (!model) return ZT_EUSAGE;
    if (!model->opts.embed || token_count == 0)
        return zt_fail(model->ctx, ZT_EUSAGE,
                       token_count ? "the model was opened for logits, not embeddings" : "no tokens to embed");
    model->position = 0;
    zt_status status = check_feed(model, ids, token_count);
    for (size_t done = 0; done < token_count && status == ZT_OK;) {
        size_t chunk = token_count - done < (size_t)model->opts.chunk ? token_count - done : (size_t)model->opts.chunk;
        status = feed_chunk(model, ids + done, (int64_t)chunk, (int64_t)chunk, (wanted_answer){.values = model->states});
        if (status == ZT_OK) pool_states(model, (int64_t)chunk, done == 0);
        done += chunk;
    }
    double scale = model->hyper.pooling == ZT_POOL_MEAN ? 1 / (double)token_count : 1;
    for (int64_t column = 0; column < zt_llm_vector_length(model) && status == ZT_OK; column++)
        out[column] = (float)(model->pooled[column] * scale);
    return status;
}
