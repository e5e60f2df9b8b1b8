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
    const char *arch;                             /* one of zt_llm_new_arch */
    int64_t layers, width, heads, ff, ctx, vocab; /* vocab: maximum number of tokens, at least 257 */
    uint64_t seed;
} zt_llm_shape;

/* The architectures that a new model may have: "llama", "mamba", "mamba2", "rwkv7". NULL: index is out of range. */
const char *zt_llm_new_arch(int index);

/* The shape of a model with about `parameters` parameters, including the tied embedding.
 * ZT_EUSAGE: too few parameters for the vocabulary. */
zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *s);
/* The same of another architecture than llama. ZT_ENOTSUP: not one of zt_llm_new_arch. `arch` is borrowed by *s. */
zt_status zt_llm_shape_for(zt_ctx *ctx, const char *arch, int64_t parameters, int64_t vocab, zt_llm_shape *s);

/* A new f32 model with random weights. Matrices are normal with standard deviation 1/sqrt(columns), times
 * 1/sqrt(2 layers) for those that write to the residual stream, and 0.02 for the embedding; norms are 1. Those of rwkv7 are as its
 * authors begin, with normal numbers in place of uniform and orthogonal ones. The tokenizer is
 * byte-level BPE trained on the text: the 256 bytes, the most frequent merges within words, and an end-of-text token.
 * ZT_ENOTSUP: an architecture that is not one of zt_llm_new_arch. */
zt_gguf *zt_llm_new(zt_ctx *ctx, const zt_llm_shape *shape, const char *text, size_t text_size);

/* The training program: the f32 forward pass over n texts of T = text_tokens tokens each, without a KV cache, and its
 * loss. in ids, target, pos i32[n,T] (pos: 0 to T-1 in each row); out loss f32, the mean cross-entropy of the next
 * tokens. Its data are the model's tensors as f32. ZT_ENOTSUP: an encoder or a reranker. */
zt_prog *zt_llm_training(zt_gguf *gguf, int64_t text_tokens);

/* ---- adapters (LoRA) ------------------------------------------------------------------------- */

enum { ZT_LLM_TARGET_NAME = 128 };

/* A matrix W [rows, columns] that an adapter changes to W + scale B A. */
typedef struct zt_llm_target {
    char tensor[64];           /* "blk.0.attn_q.weight" */
    char module[ZT_HF_MODULE]; /* in Hugging Face's model, "model.layers.0.self_attn.q_proj"; "": not known */
    int64_t rows, columns;     /* A is [rank, columns], B [rows, rank] */
    int64_t heads;             /* in the GGUF rows are in pairs for rope within each of so many heads; 0: they are not */
    bool transposed;           /* the module's matrix is [columns, rows] */
} zt_llm_target;
typedef struct zt_llm_targets zt_llm_targets;

/* The matrices that `names` means, in the order of the layers. names: NULL: PEFT's default for the architecture; else
 * comma-separated: "all-linear" (each matrix of the layers), a module as in PEFT's target_modules (the last parts of its
 * name, "q_proj" or "mlp.up_proj"), or the last parts of a tensor's name without ".weight" ("attn_q"). ZT_EUSAGE: a name means
 * no matrix; ZT_ENOTSUP: matrices of routed experts, or an architecture that cannot be trained or has no default. Free it with
 * zt_llm_targets_free. */
zt_llm_targets *zt_llm_targets_new(zt_gguf *gguf, const char *names);
void zt_llm_targets_free(zt_llm_targets *targets);                               /* NULL: no effect */
int zt_llm_targets_count(const zt_llm_targets *targets);                         /* 0: NULL */
const zt_llm_target *zt_llm_target_at(const zt_llm_targets *targets, int index); /* borrowed; NULL: out of range */

typedef struct zt_llm_adapter {
    const zt_llm_targets *targets; /* borrowed */
    int64_t rank;
    double scale; /* alpha / rank */
} zt_llm_adapter;

/* The training program of an adapter: as zt_llm_training, but the model's tensors keep their types, and each matrix of the
 * targets has two f32 data more, "TENSOR.lora_a" [rank, columns] and "TENSOR.lora_b" [rows, rank], which are to be trained.
 * NULL on error; ZT_EUSAGE: a rank below 1 or above the smaller side of a matrix. */
zt_prog *zt_llm_training_adapter(zt_gguf *gguf, int64_t text_tokens, const zt_llm_adapter *adapter);

#ifdef __cplusplus
}
#endif
#endif
