/* speculate.h - speculative decoding by prompt lookup: drafts come from the text itself, without a second model.
 *
 * A draft is what followed the last tokens where they stood before in the text. The model is fed
 * the last token and the draft in one batch; each of its rows gives one token as a step alone
 * would, so the tokens that the draft foresaw are had for less, and the text is the same with any
 * draft.
 *
 *     size_t k = zt_drafts_next(d, ids, n, most, &draft);
 *     zt_llm_feed(m, last and draft, 1 + k, true, logits);   // and zt_llm_rewind after what fails
 *     zt_drafts_took(d, 1 + k, seconds);
 */
#ifndef ZT_LLM_SPECULATE_H
#define ZT_LLM_SPECULATE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a batch at most: the last token and a draft. */
#define ZT_DRAFT_ROWS 16

typedef struct zt_drafts zt_drafts;
/* For ids from 0 to vocab - 1. */
zt_drafts *zt_drafts_open(zt_ctx *ctx, int64_t vocab);
void zt_drafts_free(zt_drafts *drafts); /* with the last draft. NULL: nothing */

/* The token_count tokens of a text are known: how many to try behind them, `limit` at most, 0 if a step alone
 * is likelier to pay. *draft is d's, until the next call. What drafts foretold of this text before is
 * held to what it has become: that, and the times it was told, decide how far a draft goes. ids may
 * be any text, but one that goes on from the last is what makes it learn. No memory: 0, and d's
 * context says so. */
size_t zt_drafts_next(zt_drafts *drafts, const int32_t *ids, size_t token_count, size_t limit, const int32_t **draft);
/* A step of so many rows took so long; rows are 1 or 1 + what zt_drafts_next gave. No draft is made
 * before a step of one row was told. */
void zt_drafts_took(zt_drafts *drafts, size_t rows, double seconds);

#ifdef __cplusplus
}
#endif
#endif
