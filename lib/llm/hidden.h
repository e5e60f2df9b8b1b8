/* hidden.h - private to lib/llm: hidden states of the tokens that were fed, behind the model's last norm, which a
 * multi-token-prediction head reads.
 *
 * Kept are the states of consecutive positions of one text, with its tokens, so that what is known of another text, or of one that was
 * changed, is found by comparison. What was not fed has no states: tokens of a saved session, or that were shared with another text.
 */
#ifndef ZT_LLM_HIDDEN_H
#define ZT_LLM_HIDDEN_H

#include "lib/base/base.h"

typedef struct zt_hidden zt_hidden;

/* Room for states f32[width] of `capacity` positions. NULL: no memory. */
zt_hidden *zt_hidden_open(zt_ctx *ctx, int64_t width, int64_t capacity);
void zt_hidden_close(zt_hidden *hidden);
/* Tokens are fed from a position on: what was there is forgotten, and so is all before it where it does not follow. Returns where their
 * states belong, f32[count, width]. */
float *zt_hidden_begin(zt_hidden *hidden, int64_t position, const int32_t *ids, int64_t count);
/* The states have been written. */
void zt_hidden_end(zt_hidden *hidden, int64_t count);
/* The first position from which on the states of all but the last of these tokens are known; `count`: not even that of the last but
 * one is. */
size_t zt_hidden_from(const zt_hidden *hidden, const int32_t *ids, size_t count);
/* The states of a known position, and those behind it. */
const float *zt_hidden_at(const zt_hidden *hidden, size_t position);
size_t zt_hidden_bytes(int64_t width, int64_t capacity);

#endif
