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

/* What a Hugging Face model's tensor is to a model with GGUF's names: as zt_hf_place_of of llm.h
 * knows it, which the caller lends. */
typedef struct zt_lora_place {
    char name[64];
    bool transposed; /* a matrix's rows are its columns there */
    float add;       /* to each value */
    bool pairs, kv;  /* rows lie in pairs within each head of q; of k */
} zt_lora_place;
typedef bool zt_lora_place_fn(const char *arch, const char *hf_name, zt_lora_place *out);

/* A directory of PEFT's, the file in it, or llama.cpp's GGUF. place NULL: models have the adapter's
 * own names. NULL: not read; ZT_EDATA where it is no adapter, or what is in it does not go
 * together; ZT_ENOTSUP names what would change the result in a way that is not known here. */
zt_lora *zt_lora_open(zt_ctx *ctx, const char *path, zt_lora_place_fn *place);
void zt_lora_close(zt_lora *l); /* and its files. NULL: nothing */
const char *zt_lora_name(const zt_lora *l); /* the path it was opened by, for messages */
/* Members of adapter_config.json that nobody here knows and that are set; NULL past the last. */
const char *zt_lora_unknown(const zt_lora *l, int i);

typedef struct zt_extract_opts {
    int64_t rank; /* of each matrix */
    bool peft;    /* Hugging Face's names; else the model's own, as llama.cpp has them */
    zt_lora_place_fn *place; /* with peft: what those names are to the model */
    int threads;  /* 0: as many as there are processors */
    uint64_t seed;
    bool (*stop)(void); /* NULL: never */
    void (*progress)(void *user, const char *matrix, double done, double all);
    void *user;
} zt_extract_opts;

typedef struct zt_extract zt_extract;

/* Both are borrowed, and must be readable anywhere. Matrices that both have and that are not the
 * same bytes are taken, but not embeddings. ZT_EDATA: there is none; ZT_ESHAPE: of other shapes;
 * ZT_ENOTSUP: with peft, an architecture whose names are not known here. */
zt_extract *zt_extract_new(zt_ctx *ctx, zt_checkpoint *base, zt_checkpoint *tuned,
                           const zt_extract_opts *o);
void zt_extract_free(zt_extract *x); /* before the models it borrows. NULL: nothing */

int64_t zt_extract_count(const zt_extract *x); /* two a matrix: A, then B */
const zt_entry *zt_extract_entries(const zt_extract *x); /* [count], for zt_writer_open; borrowed */
zt_meta *zt_extract_meta(zt_extract *x); /* of a GGUF; empty with peft */
/* Tensors that differ and are not in it: norms, embeddings, what the base does not have. */
int64_t zt_extract_left(const zt_extract *x);
/* All bytes, f32. The same for any number of threads. */
zt_status zt_extract_write(zt_extract *x, zt_writer *w);
/* After that: the part of the differences' squares that the adapter has, 0 to 1. */
double zt_extract_share(const zt_extract *x);

#ifdef __cplusplus
}
#endif
#endif
