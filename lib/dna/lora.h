/* lora.h - adapters: W + scale B A for some of a model's matrices, read, and made of two models.
 *
 * Read are a directory of PEFT's (adapter_config.json, adapter_model.safetensors) and llama.cpp's
 * GGUF of the type "adapter"; zt_merge_parent of merge.h takes one. Made is the best of a rank: the
 * truncated singular value decomposition of the differences, found by N. Halko, P. Martinsson and
 * J. Tropp's randomized range finder (arXiv:0909.4061) and one-sided Jacobi rotations
 * (M. Hestenes).
 *
 *     zt_extract *x = zt_extract_new(ctx, base, tuned, &(zt_extract_opts){.rank = 16});
 *     zt_writer *w = zt_writer_open(ctx, "lora.gguf", &o, zt_extract_meta(x),
 *                                   zt_extract_entries(x), zt_extract_count(x));
 *     zt_extract_write(x, w);
 */
#ifndef ZT_LORA_H
#define ZT_LORA_H

#include "lib/io/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_lora zt_lora;

/* The tensor of a GGUF that a Hugging Face model's tensor becomes. zt_hf_place_of of llm.h computes it; the caller passes
 * that function in. */
typedef struct zt_lora_place {
    char name[64];
    bool transposed; /* the matrix is transposed in the GGUF */
    float add;       /* added to each value */
    bool pairs, kv;  /* rows of each head are in pairs for rope: of q; of k */
    int64_t expert;  /* the matrix of this expert in a stacked tensor; -1: the whole tensor */
} zt_lora_place;
typedef bool zt_lora_place_fn(const char *arch, const char *hf_name, zt_lora_place *out);

/* Opens a directory of PEFT's, the weights file in it, or a GGUF adapter of llama.cpp. place NULL: models have the
 * adapter's own tensor names. Returns NULL on error. ZT_EDATA: not an adapter, or its tensors contradict its
 * configuration; ZT_ENOTSUP: a setting that changes the result and is not implemented; the message names it. */
zt_lora *zt_lora_open(zt_ctx *ctx, const char *path, zt_lora_place_fn *place);
void zt_lora_close(zt_lora *adapter);             /* closes its files too. NULL: no effect */
const char *zt_lora_name(const zt_lora *adapter); /* the path by which it was opened, for messages */
/* Settings of adapter_config.json that are unknown and not at a default; NULL past the last. */
const char *zt_lora_unknown(const zt_lora *adapter, int index);

typedef struct zt_extract_opts {
    int64_t rank;            /* rank of each matrix */
    bool peft;               /* Hugging Face's names; else the model's own, as in llama.cpp's adapters */
    zt_lora_place_fn *place; /* with peft: maps those names to the model's */
    int threads;             /* 0: one per processor */
    uint64_t seed;
    bool (*stop)(void); /* NULL: never */
    void (*progress)(void *user, const char *matrix, double done, double total);
    void *user;
} zt_extract_opts;

typedef struct zt_extract zt_extract;

/* Extracts an adapter: for each matrix that both models have with different bytes, embeddings excluded. Both models are
 * borrowed and must be seekable. ZT_EDATA: no such matrix; ZT_ESHAPE: shapes differ; ZT_ENOTSUP: with peft, an
 * architecture whose Hugging Face names are not known. */
zt_extract *zt_extract_new(zt_ctx *ctx, zt_checkpoint *base, zt_checkpoint *tuned, const zt_extract_opts *options);
void zt_extract_free(zt_extract *extract); /* before the models that it borrows. NULL: no effect */

int64_t zt_extract_count(const zt_extract *extract);           /* tensors: A and B of each matrix */
const zt_entry *zt_extract_entries(const zt_extract *extract); /* [count], for zt_writer_open; borrowed */
zt_meta *zt_extract_meta(zt_extract *extract);                 /* for a GGUF; empty with peft */
/* Number of tensors that differ but are not in the adapter: norms, embeddings, tensors that the base does not have. */
int64_t zt_extract_left(const zt_extract *extract);
/* Writes all tensors, in f32. Same bits for any number of threads. */
zt_status zt_extract_write(zt_extract *extract, zt_writer *writer);
/* After writing: the share of the squared differences that the adapter captures, 0 to 1. */
double zt_extract_share(const zt_extract *extract);

#ifdef __cplusplus
}
#endif
#endif
