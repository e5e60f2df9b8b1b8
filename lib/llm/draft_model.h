/* draft_model.h - speculative decoding with a draft model: a smaller model proposes tokens, which the large one verifies.
 *
 * The large model is fed the last token and the draft in one batch, and the token of each row is chosen as in a step
 * without a draft; see speculate.h, which drafts from the text itself. So neither the draft model nor its engine, its
 * vocabulary or the length of drafts changes the text.
 *
 *     zt_draft_model *d = zt_draft_model_open(&(zt_draft_model_opts){.model = small, .model_vocab = s, .vocab = v});
 *     size_t k = zt_draft_model_next(d, ids, n, most, &sampler, &draft);
 *     zt_llm_feed(m, last and draft, 1 + k, true, logits);   // and zt_llm_rewind after what fails
 *     zt_draft_model_took(d, 1 + k, seconds);
 *
 * A model whose file has a multi-token-prediction head drafts for itself: the head, opened by zt_llm_opts.head, reads the hidden states
 * that the model, opened with zt_llm_opts.hidden, keeps of the text.
 */
#ifndef ZT_LLM_DRAFT_MODEL_H
#define ZT_LLM_DRAFT_MODEL_H

#include "lib/llm/llm.h"
#include "lib/llm/speculate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_draft_model zt_draft_model;

typedef struct zt_draft_model_opts {
    zt_llm *model;   /* the draft model, or the head, borrowed; nothing else may be fed to it */
    zt_llm *head_of; /* NULL, or `model` is the head of this one, whose texts are those that are drafted for; borrowed */
    const zt_vocab *model_vocab; /* its vocabulary, borrowed */
    const zt_vocab *vocab;       /* that of the texts, borrowed: the same tokens in any order, or another tokenizer */
    int64_t vocab_rows;          /* ids of it from here on are not drafted; 0: none */
    int64_t length;              /* tokens of each draft, at most ZT_DRAFT_ROWS - 1; 0: adaptive */
    double (*seconds)(void);     /* the clock; NULL: zt_seconds */
} zt_draft_model_opts;

/* Opens a drafter. ZT_EUSAGE, in the context of the model: a length out of range, or a model opened for embeddings.
 * ZT_EUSAGE also: head_of does not keep hidden states. NULL: failed, or an argument is missing. */
zt_draft_model *zt_draft_model_open(const zt_draft_model_opts *opts);
void zt_draft_model_free(zt_draft_model *drafts); /* keeps model and vocabularies. NULL: no-op */
/* Do the vocabularies have the same tokens? Otherwise drafts are converted by their text. False for NULL. */
bool zt_draft_model_maps(const zt_draft_model *drafts);

/* Drafts a continuation of the token_count tokens of a text. Returns its length, at most `limit`; 0: a step without a
 * draft is expected to be faster. *draft is owned by `drafts` and valid until the next call. `sampler`: how the text's
 * tokens are sampled; a draft is then sampled with the same random numbers. NULL: greedily. Earlier drafts are compared with the
 * text: their acceptance rate, the durations of drafts, and those from zt_draft_model_took decide the next length, and
 * whether to draft at all. If the model fails: 0, with an error in the context. */
size_t zt_draft_model_next(zt_draft_model *drafts, const int32_t *ids, size_t token_count, size_t limit,
                           const zt_sampler *sampler, const int32_t **draft);
/* Reports the duration of a step of so many rows. Without a fixed length no draft is made before steps of one row have
 * been reported. */
void zt_draft_model_took(zt_draft_model *drafts, size_t rows, double seconds);

#ifdef __cplusplus
}
#endif
#endif
