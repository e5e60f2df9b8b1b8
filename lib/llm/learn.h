/* learn.h - language models that are to be trained: new ones, and any model's program with a loss.
 *
 *     zt_gguf *g = zt_llm_new(ctx, &shape, text, n);       // keys, a tokenizer, drawn weights
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
    int64_t layers, width, heads, ff, ctx, vocab; /* vocab: tokens at most, 257 at least */
    uint64_t seed;
} zt_llm_shape;

/* The shape of about so many parameters, tied embedding and all.
 * ZT_EUSAGE where that is too few for the vocabulary. */
zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *s);

/* A new model, f32: matrices normal of deviation 1/sqrt(columns) (what a layer adds to the stream
 * by 1/sqrt(2 layers) less, the embedding 0.02), norms 1. Its tokenizer is byte-level BPE, the 256
 * bytes and the merges that the text has most often within words, and an end of text. ZT_ENOTSUP
 * for architectures but llama. */
zt_gguf *zt_llm_new(zt_ctx *ctx, const zt_llm_shape *shape, const char *text, size_t text_size);

/* The forward pass over n texts of T = text_tokens tokens each, without a cache, in f32, and its loss:
 * in ids, target, pos i32[n,T] (pos: 0 to T-1 in each row); out loss f32, the mean cross-entropy of
 * the next tokens. Its data are the model's tensors as f32. ZT_ENOTSUP: an encoder. */
zt_prog *zt_llm_training(zt_gguf *gguf, int64_t text_tokens);

#ifdef __cplusplus
}
#endif
#endif
