/* llm_internal.h - private to lib/llm: a language model on an engine. llm.c opens and closes it, needs.c
 * knows what it wants before any weight is read, forward.c reads a program in place of a row, feed.c feeds it.
 *
 * Sequence 0 alone is fed there, through a block table that is the identity; several are fed by
 * batch.c, which drives zt_llm_session with tables of its own. The cache is not a ring: forgetting
 * is moving the position back.
 */
#ifndef ZT_LLM_INTERNAL_H
#define ZT_LLM_INTERNAL_H

#include "lib/llm/arch.h"

struct zt_llm {
    zt_ctx *ctx;
    zt_hyper hyper;
    zt_llm_opts opts;   /* with every default filled in */
    int64_t cache_rows; /* of all sequences, in whole blocks */
    zt_prog *prog;      /* as it is built, */
    zt_prog *passed;    /* and as it runs, where no plan says it */
    zt_session *session;
    int64_t position;
    int32_t *iota, *pos, *seq, *table; /* iota, pos, seq [chunk], table [n_seq, blocks] */
    int32_t *last;                     /* [chunk], of an encoder */
    zt_drawing *drawing;               /* with opts.draws only */
    float *states;                     /* [chunk, zt_llm_vector_length], and */
    double *pooled;                    /* one row: with opts.embed only */
    size_t scratch;
};

/* feed.c: entries of an embedding: the width, or a classifier's labels. */
int64_t zt_llm_vector_length(const zt_llm *model);
/* Everything that needs no weights: hyper-parameters, options with their defaults, the program. */
zt_status zt_llm_executable(zt_llm *model, zt_gguf *gguf, const zt_llm_opts *opts);
/* Scratch for a full chunk, by liveness: a lower bound that the memory plan comes close to. */
zt_status zt_llm_scratch(const zt_llm *model, size_t *out);

/* forward.c: a program in place of a row, opts->forward. Checks it, and reads the hyper-parameters that it and the file
 * have. ZT_EDATA: an input, a state, data or an output does not fit. */
zt_status zt_forward_read(zt_gguf *gguf, const zt_llm_opts *opts, zt_hyper *hyper);

typedef struct zt_forward_opts {
    bool exact;    /* activations stay f32 */
    zt_dtype kv;   /* of the caches; ZT_DTYPE_COUNT: as declared */
    int64_t n_seq; /* rows of the block table */
} zt_forward_opts;
/* A program that was read, with the inputs and outputs of zt_llm_prog in their order; the caller's. NULL: no memory, or
 * a type that does not fit. */
zt_prog *zt_forward_build(zt_ctx *ctx, const zt_prog *program, const zt_forward_opts *opts);

#endif
