/* feed.c - feed a language model: logits, the most probable token, a drawn token, or an embedding; and the position. */
#include "lib/base/require.h"
#include "lib/llm/llm_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The results wanted of a chunk; each may be NULL. values: logits or states of its rows; best: the most probable
 * token; token: the one drawn, by the settings `draw`. Of a head, which reads the hidden states f32[rows,width]: what a step further
 * reads after the last row. */
typedef struct wanted_answer {
    float *values;
    int32_t *best, *token;
    const zt_draw *draw;
    const float *hidden;
    float *state;
} wanted_answer;

/* One step of rows from position `first` on. `wanted` of them are answered: 0, or the last ones. */
static zt_status run_step(zt_llm *model, const int32_t *ids, int64_t first, int64_t row_count, int64_t wanted,
                          wanted_answer answer)
{
    for (int64_t i = 0; i < row_count; i++) model->pos[i] = (int32_t)(first + i);
    for (int64_t i = 0; i < row_count && model->hyper.arch->encoder; i++) model->last[i] = (int32_t)(row_count - 1);
    const void *decoder[7 + ZT_DRAW_INPUTS] = {ids, model->pos, model->seq, model->table, model->iota + row_count - wanted};
    const void *encoder[] = {ids, model->seq, model->pos, model->last}; /* all tokens are of type 0 */
    const void *const *in = model->hyper.arch->encoder ? encoder : decoder;
    void *out[] = {wanted ? answer.values : NULL, wanted ? answer.best : NULL, wanted ? answer.token : NULL, NULL};
    int count = 5;
    if (model->recurrent) decoder[count++] = model->recurrent->from;
    if (model->recurrent) decoder[count++] = model->recurrent->to;
    if (model->opts.head) decoder[count++] = answer.hidden;
    if (model->opts.head) out[zt_llm_hidden_output(model)] = wanted ? answer.state : NULL;
    if (model->hidden) out[zt_llm_hidden_output(model)] = zt_hidden_begin(model->hidden, first, ids, row_count);
    if (model->drawing) zt_drawing_inputs(model->drawing, decoder + count);
    zt_binding symbols[] = {{"n", row_count}, {"m", wanted}};
    zt_status status = zt_llm_step(model, symbols, 2, in, out);
    if (model->hidden && status == ZT_OK) zt_hidden_end(model->hidden, row_count);
    return status;
}

/* The same in a model with recurrent layers: tokens behind the nearest state are fed again, in the same step. */
static zt_status run_recurrent(zt_llm *model, const int32_t *ids, int64_t token_count, int64_t wanted, wanted_answer answer)
{
    zt_recurrent_rows *rows = model->recurrent;
    zt_status status = zt_recurrent_plan(rows, model->position, ids, token_count, wanted > 1);
    if (status != ZT_OK) return status;
    status = run_step(model, rows->ids, model->position - rows->again, rows->row_count, wanted, answer);
    zt_recurrent_done(rows, status == ZT_OK);
    return status;
}

/* Feeds tokens again, a chunk at a time, until so many rows have room for the rest of them and `more` tokens. */
static zt_status feed_again(zt_llm *model, int64_t more)
{
    zt_recurrent_rows *rows = model->recurrent;
    int64_t position = model->position, chunk = model->opts.chunk, state;
    zt_status status = ZT_OK;
    while (status == ZT_OK && (state = zt_recurrent_nearest(rows, position)) < position && position - state + more > chunk) {
        int64_t count = position - state < chunk ? position - state : chunk;
        model->position = state;
        status = run_recurrent(model, rows->fed.id + state, count, 0, (wanted_answer){0});
        model->position = position;
    }
    return status;
}

int zt_llm_state_slot(zt_llm *model)
{
    if (!model->recurrent) return 0;
    zt_status status = feed_again(model, model->opts.chunk); /* as much as there is no room beside: all of it */
    return status == ZT_OK ? zt_recurrent_slot(model->recurrent, model->position) : -1;
}

/* Feeds one chunk from the current position on. wanted: rows to answer, 0: none, 1: the last, token_count: all.
 * Logits are f32[wanted, V], states f32[wanted, width]. */
static zt_status feed_chunk(zt_llm *model, const int32_t *ids, int64_t token_count, int64_t wanted, wanted_answer answer)
{
    zt_status status = model->recurrent ? feed_again(model, token_count) : ZT_OK;
    if (status == ZT_OK)
        status = model->recurrent ? run_recurrent(model, ids, token_count, wanted, answer)
                                  : run_step(model, ids, model->position, token_count, wanted, answer);
    if (status == ZT_OK) model->position += token_count;
    return status;
}

/* Back to a position before the current one. */
static void move_back(zt_llm *model, int64_t position)
{
    model->position = position;
    if (model->recurrent) zt_recurrent_rewind(model->recurrent, position);
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
        if (answer.hidden) answer.hidden += chunk * (size_t)model->hyper.width;
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

zt_status zt_llm_feed_head(zt_llm *head, const int32_t *ids, const float *hidden, size_t token_count, bool all, float *logits,
                           float *state)
{
    return feed_chunks(head, ids, token_count, all, (wanted_answer){.values = logits, .hidden = hidden, .state = state});
}

/* Token 0 is also the result when every logit is NaN. Feeds the last token again for its logits; *next becomes -1 for
 * NaN. */
static zt_status check_zero(zt_llm *model, const int32_t *last, int32_t *next)
{
    float *logits = zt_alloc_array(model->ctx, (size_t)model->hyper.vocab, sizeof *logits);
    if (!logits) return ZT_ENOMEM;
    move_back(model, model->position - 1);
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
        move_back(model, from + (int64_t)i + 1);
        status = check_zero(model, ids + i, next + i);
    }
    move_back(model, from + (status == ZT_OK ? (int64_t)token_count : 0));
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

zt_status zt_llm_place(zt_llm *model, const int32_t *ids, int64_t position, bool state)
{
    zt_status status = ZT_OK;
    model->position = position;
    if (!model->recurrent) return ZT_OK;
    zt_recurrent_fill(model->recurrent, state ? position : 0);
    model->recurrent->fed.count = 0;
    for (int64_t i = 0; i < position && !status; i++) status = zt_ids_push(model->ctx, &model->recurrent->fed, ids[i]);
    return status;
}

zt_status zt_llm_rewind(zt_llm *model, int64_t position)
{
    if (!model) return ZT_EUSAGE;
    if (position < 0 || position > model->position)
        return zt_fail(model->ctx, ZT_EUSAGE, "cannot rewind to position %" PRId64 " from %" PRId64, position, model->position);
    move_back(model, position);
    return ZT_OK;
}

/* ---- embeddings ----------------------------------------------------------------------------- */

int64_t zt_llm_vector_length(const zt_llm *model)
{
    const zt_hyper *hyper = &model->hyper;
    if (hyper->classifies) return hyper->labels;
    return hyper->dense_3 ? hyper->dense_3 : hyper->dense_2 ? hyper->dense_2 : hyper->width;
}

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
    move_back(model, 0);
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
