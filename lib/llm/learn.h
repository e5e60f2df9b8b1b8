/* learn.h - training of language models: new models, and the training program of any model.
 *
 *     zt_gguf *g = zt_llm_new(ctx, &shape, text, n);       // metadata, tokenizer, random weights
 *     zt_prog *p = zt_llm_training(g, 128);                  // in ids, target, pos; out loss
 */
#ifndef ZT_LLM_LEARN_H
#define ZT_LLM_LEARN_H

#include "lib/llm/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_llm_shape {
    const char *arch;                             /* "llama" */
    int64_t layers, width, heads, ff, ctx, vocab; /* vocab: maximum number of tokens, at least 257 */
    uint64_t seed;
} zt_llm_shape;

/* The shape of a model with about `parameters` parameters, including the tied embedding.
 * ZT_EUSAGE: too few parameters for the vocabulary. */
zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *s);

/* A new f32 model with random weights. Matrices are normal with standard deviation 1/sqrt(columns), times
 * 1/sqrt(2 layers) for those that write to the residual stream, and 0.02 for the embedding; norms are 1. The tokenizer is
 * byte-level BPE trained on the text: the 256 bytes, the most frequent merges within words, and an end-of-text token.
 * ZT_ENOTSUP: an architecture other than llama. */
zt_gguf *zt_llm_new(zt_ctx *ctx, const zt_llm_shape *shape, const char *text, size_t text_size);

/* The training program: the f32 forward pass over n texts of T = text_tokens tokens each, without a KV cache, and its
 * loss. in ids, target, pos i32[n,T] (pos: 0 to T-1 in each row); out loss f32, the mean cross-entropy of the next
 * tokens. Its data are the model's tensors as f32. ZT_ENOTSUP: an encoder. */
zt_prog *zt_llm_training(zt_gguf *gguf, int64_t text_tokens);

#ifdef __cplusplus
}
#endif
#endif
