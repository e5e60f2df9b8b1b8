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

/* NULL: not read; ZT_EDATA where it is no adapter, or matrices A and B do not go together. */
zt_lora *zt_lora_open(zt_ctx *ctx, const char *path);
void zt_lora_close(zt_lora *l);

typedef struct zt_extract_opts {
    int64_t rank; /* of each matrix */
    bool peft;    /* Hugging Face's names; else the model's own, as llama.cpp has them */
    int threads;  /* 0: as many as there are processors */
    uint64_t seed;
    bool (*stop)(void); /* NULL: never */
    void (*progress)(void *user, double done, double all);
    void *user;
} zt_extract_opts;

typedef struct zt_extract zt_extract;

/* Both are borrowed, and must be readable anywhere. Matrices that both have and that are not the
 * same bytes are taken, but not embeddings. ZT_EDATA: there is none; ZT_ESHAPE: of other shapes. */
zt_extract *zt_extract_new(zt_ctx *ctx, zt_checkpoint *base, zt_checkpoint *tuned,
                           const zt_extract_opts *o);
void zt_extract_free(zt_extract *x);

int64_t zt_extract_count(const zt_extract *x); /* two a matrix: A, then B */
const zt_entry *zt_extract_entries(const zt_extract *x);
zt_meta *zt_extract_meta(zt_extract *x); /* of a GGUF; empty with peft */
/* Tensors that differ and are not in it: norms, embeddings. */
int64_t zt_extract_left(const zt_extract *x);
/* All bytes, f32. The same for any number of threads. */
zt_status zt_extract_write(zt_extract *x, zt_writer *w);
/* After that: the part of the differences' squares that the adapter has, 0 to 1. */
double zt_extract_share(const zt_extract *x);

#ifdef __cplusplus
}
#endif
#endif
