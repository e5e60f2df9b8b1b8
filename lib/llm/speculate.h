/* speculate.h - prompt-lookup speculative decoding: drafts come from the text itself, without a draft model.
 *
 * A draft is the continuation of an earlier occurrence of the last tokens in the text. The model is fed
 * the last token and the draft in one batch, and the token of each row is chosen as in a step without a draft. Draft
 * tokens that equal the chosen ones are accepted, which saves steps; the output does not depend on the
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

/* Maximum rows of a batch: the last token and a draft. */
#define ZT_DRAFT_ROWS 16

typedef struct zt_drafts zt_drafts;
/* Opens a drafter for ids from 0 to vocab - 1. */
zt_drafts *zt_drafts_open(zt_ctx *ctx, int64_t vocab);
void zt_drafts_free(zt_drafts *drafts); /* also frees the last draft. NULL: no-op */

/* Drafts a continuation of the token_count tokens of a text. Returns its length, at most `limit`; 0: a step
 * without a draft is expected to be faster. *draft is owned by `drafts` and valid until the next call. Earlier drafts are
 * compared with the text: their acceptance rate and the times from zt_drafts_took decide the length of
 * the next draft. ids may be any text, but the drafter learns only from one that continues that of the last call. Out
 * of memory: 0, with an error in the context. */
size_t zt_drafts_next(zt_drafts *drafts, const int32_t *ids, size_t token_count, size_t limit, const int32_t **draft);
/* Reports the duration of a step; rows is 1, or 1 + the length from zt_drafts_next. No draft is made
 * before a step of one row has been reported. */
void zt_drafts_took(zt_drafts *drafts, size_t rows, double seconds);

#ifdef __cplusplus
}
#endif
#endif
