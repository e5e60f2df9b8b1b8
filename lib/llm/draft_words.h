/* draft_words.h - private to lib/llm: a text of one vocabulary in the tokens of another, for a draft model.
 *
 * Where the vocabularies have the same tokens, in whatever order, a token becomes its counterpart. Else the bytes of the
 * text are tokenized again: the target's text by the draft's vocabulary, what was drafted by the target's. Results are
 * guesses, so an inexact tokenization costs accepted tokens and nothing else.
 */
#ifndef ZT_LLM_DRAFT_WORDS_H
#define ZT_LLM_DRAFT_WORDS_H

#include "lib/llm/llm.h"

typedef struct zt_draft_words zt_draft_words;

/* Both vocabularies are borrowed. `limit`: ids of the target's vocabulary from here on are not drafted. NULL: no memory. */
zt_draft_words *zt_draft_words_open(zt_ctx *ctx, const zt_vocab *target, const zt_vocab *draft, int64_t limit);
void zt_draft_words_free(zt_draft_words *words);
/* Do tokens have counterparts? Else the text is tokenized again. */
bool zt_draft_words_map(const zt_draft_words *words);

/* The target's tokens id[start..count) as tokens of the draft, behind its BOS where it has one. Only what differs from the
 * last call is done again. The result is borrowed until the next call; NULL: out of memory. */
const zt_ids *zt_draft_words_follow(zt_draft_words *words, const int32_t *ids, size_t start, size_t count);

/* Drafted tokens, behind the text of the last zt_draft_words_follow, as at most `most` tokens of the target: out[i], which
 * ends in the drafted token last[i]. Returns their number. */
size_t zt_draft_words_back(zt_draft_words *words, const int32_t *drafted, size_t count, size_t most, int32_t *out, size_t *last);

#endif
