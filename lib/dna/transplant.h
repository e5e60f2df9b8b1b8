/* transplant.h - a model with the tokenizer of another (tokenizer transplant, as mergekit-tokensurgeon): the rows of embedding and
 * output head are those of the donor's tokens.
 *
 *     zt_checkpoint *made = zt_transplant_new(ctx, model, &model_vocab, donor, &donor_vocab, &(zt_transplant_opts){.k = 64});
 *     zt_checkpoint_close(made);                                  // before model and donor
 *
 * A token of the donor that the model has too keeps the model's row, with the same bytes. The others are approximated, in both
 * matrices: orthogonal matching pursuit and interpolation express the donor's row by the donor's rows of shared tokens, and
 * take the same combination of the model's rows. Approximations are computed in f32 and f64, and do not depend on the number
 * of threads nor on the instruction set. In memory are the rows of shared tokens, as f32, and the approximated rows.
 *
 * Formulas: mergekit 0.1.5, mergekit/tokensurgeon (https://github.com/arcee-ai/mergekit, as facts); Goddard and Fernandes Neto,
 * "Training-Free Tokenizer Transplantation via Orthogonal Matching Pursuit", 2025.
 */
#ifndef ZT_TRANSPLANT_H
#define ZT_TRANSPLANT_H

#include "lib/io/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- vocabularies ---------------------------------------------------------------------------- */

typedef enum zt_transplant_kind {
    ZT_TRANSPLANT_TEXT,
    ZT_TRANSPLANT_BYTE,   /* one byte, for what has no other token: <0x0A> */
    ZT_TRANSPLANT_SPECIAL /* control token; its text is its name */
} zt_transplant_kind;

typedef struct zt_transplant_token {
    zt_bytes text; /* the bytes that the token stands for; none: it is like no other */
    zt_transplant_kind kind;
} zt_transplant_token;

/* BOS, EOS, unknown, separator, padding, class, mask: special tokens of the same role are the same. */
enum { ZT_TRANSPLANT_ROLES = 7 };

typedef struct zt_transplant_vocab {
    const zt_transplant_token *tokens; /* [count] */
    int64_t count;
    int64_t roles[ZT_TRANSPLANT_ROLES]; /* id; -1: none. A token that has several has the first */
} zt_transplant_vocab;

/* ---- the transplant -------------------------------------------------------------------------- */

typedef enum zt_transplant_method {
    ZT_TRANSPLANT_OMP,           /* orthogonal matching pursuit */
    ZT_TRANSPLANT_INTERPOLATION, /* the k nearest shared tokens, weighted by the inverse of their distances */
    ZT_TRANSPLANT_SUBWORD,       /* mean of the rows of the tokens that the model's tokenizer makes of the text */
    ZT_TRANSPLANT_MEAN,          /* mean of all rows of the model */
    ZT_TRANSPLANT_ZERO,
    ZT_TRANSPLANT_METHODS
} zt_transplant_method;

/* mergekit's name: "omp", "common_interpolation", "subword", "mean", "zero"; NULL past the last. */
const char *zt_transplant_method_name(int method);

typedef struct zt_transplant_opts {
    zt_transplant_method method;
    int64_t k;   /* at most so many shared tokens in a row's approximation */
    int threads; /* 0: one per processor */
    /* Subword: ids by the model's tokenizer, good until the next call. */
    zt_status (*encode)(void *user, zt_bytes text, const int32_t **ids, size_t *count);
    bool (*stop)(void); /* polled; true ends the work with ZT_EINTR; NULL: never */
    /* Called with the number of approximated rows of a tensor that are done, and of all; NULL: not called. */
    void (*progress)(void *user, const char *tensor, double done, double total);
    void *user;
} zt_transplant_opts;

typedef struct zt_transplant_counts {      /* of the embedding's rows */
    int64_t shared, approximated, without; /* without: the donor has no row for the token: zeros */
} zt_transplant_counts;

/* Computes the approximated rows. Models are borrowed until the result is closed, vocabularies for the call; counts may be NULL.
 * ZT_EDATA: what is not a language model, a donor without an embedding where the method needs it, or no token in common;
 * ZT_ENOTSUP: types that cannot be read or written. */
zt_checkpoint *zt_transplant_new(zt_ctx *ctx, zt_checkpoint *model, const zt_transplant_vocab *model_vocab, zt_checkpoint *donor,
                                 const zt_transplant_vocab *donor_vocab, const zt_transplant_opts *options,
                                 zt_transplant_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
