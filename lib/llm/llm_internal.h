/* llm_internal.h - private to lib/llm: a language model on an engine. llm.c opens and closes it, needs.c
 * knows what it wants before any weight is read, forward.c reads a program in place of a row, feed.c feeds it.
 *
 * Sequence 0 alone is fed there, through a block table that is the identity; several are fed by
 * batch.c, which drives zt_llm_session with tables of its own. The cache is not a ring: forgetting
 * is moving the position back.
 */
#ifndef ZT_LLM_INTERNAL_H
#define ZT_LLM_INTERNAL_H

#include "lib/llm/arch/arch.h"
#include "lib/llm/hidden.h"
#include "lib/run/stages.h"

/* recurrent.c: the states of sequence 0 in a model with recurrent layers. A state cannot go back, so some are kept: behind the
 * last token fed, before the last token of the last prompt, and behind the first token of a draft. After a rewind, the
 * tokens behind the nearest of them are fed again, and so give the bits that they gave before. */
enum { ZT_KEPT_STATES = 1 + ZT_SPARE_SLOTS };
typedef struct zt_kept_state {
    int64_t position; /* tokens that it has seen; 0: none, the slot is empty */
    bool prompt;      /* of a prompt: generated tokens do not take its slot */
} zt_kept_state;

typedef struct zt_recurrent_rows {
    zt_ctx *ctx;
    zt_kept_state kept[ZT_KEPT_STATES];
    zt_ids fed;               /* the tokens up to the position; after a rewind those behind it are still there */
    const int32_t *ids;       /* of the next step, in `fed` */
    int32_t *from, *to;       /* [rows] of it */
    int64_t row_count, again; /* of the next step; of them tokens that were fed before */
    int early, late;          /* slots that it writes, -1: none, */
    int64_t early_position, late_position;
    bool early_is_prompt;
} zt_recurrent_rows;

/* Room for steps of so many rows, and so many tokens in all; NULL: no memory. */
zt_recurrent_rows *zt_recurrent_open(zt_ctx *ctx, int64_t most_rows, int64_t most_tokens);
void zt_recurrent_close(zt_recurrent_rows *rows);
/* The nearest position, up to this one, from which a state goes on. */
int64_t zt_recurrent_nearest(const zt_recurrent_rows *rows, int64_t position);
/* Sets up a step: tokens from the nearest state to `position`, which were fed before, then token_count new ones. `draft`:
 * all but the first of these may be taken back. ZT_ENOMEM. */
zt_status zt_recurrent_plan(zt_recurrent_rows *rows, int64_t position, const int32_t *ids, int64_t token_count, bool draft);
/* The step was run, or failed. */
void zt_recurrent_done(zt_recurrent_rows *rows, bool good);
/* Forgets states behind the position. */
void zt_recurrent_rewind(zt_recurrent_rows *rows, int64_t position);
/* The slot with the state at this position; -1: none. */
int zt_recurrent_slot(const zt_recurrent_rows *rows, int64_t position);
/* Forgets all states but one of this position, which was stored in slot 0; position 0: all. */
void zt_recurrent_fill(zt_recurrent_rows *rows, int64_t position);

struct zt_llm {
    zt_ctx *ctx;
    zt_hyper hyper;
    zt_llm_opts opts;   /* with every default filled in */
    int64_t cache_rows; /* of all sequences, in whole blocks */
    zt_prog *prog;      /* as it is built, */
    zt_prog *part;      /* of several ranks, what this one runs of it; else NULL */
    zt_prog *passed;    /* and as it runs, where no plan says it */
    zt_stages *stages;  /* of several ranks, else NULL */
    bool served;        /* the other ranks wait for steps */
    zt_session *session;
    int64_t position;
    int32_t *iota, *pos, *seq, *table; /* iota, pos, seq [chunk], table [n_seq, blocks] */
    int32_t *last;                     /* [chunk], of an encoder */
    zt_recurrent_rows *recurrent;      /* of a model with recurrent layers, else NULL */
    zt_drawing *drawing;               /* with opts.draws only */
    zt_hidden *hidden;                 /* of what was fed: with opts.hidden only */
    float *states;                     /* [chunk, zt_llm_vector_length], and */
    double *pooled;                    /* one row: with opts.embed only */
    size_t scratch;
};

/* feed.c: entries of an embedding: the width, or a classifier's labels. */
int64_t zt_llm_vector_length(const zt_llm *model);
/* feed.c: of a head, `hidden` f32[token_count,width] of the tokens before those: logits as zt_llm_feed, and, unless NULL, what a step
 * further reads after the last token, f32[width]. */
zt_status zt_llm_feed_head(zt_llm *head, const int32_t *ids, const float *hidden, size_t token_count, bool all, float *logits,
                           float *state);
/* The number of the output `hidden`, or `state`. */
static inline int zt_llm_hidden_output(const zt_llm *model) { return 2 + model->opts.draws; }
/* ranks.c: a step of the model's session, and of the other ranks, as zt_session_step. */
zt_status zt_llm_step(zt_llm *model, const zt_binding *symbols, int n, const void *const *inputs, void *const *outputs);
/* With opts->ranks: rank 0 asks the others to open the model too. */
zt_status zt_llm_request_open(const zt_llm_opts *opts);
/* Sets stages and part. ZT_EUSAGE: the model cannot be divided, or the ranks' files differ. */
zt_status zt_llm_divide(zt_llm *model, zt_gguf *gguf);
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
    int64_t slots; /* of states of recurrent layers */
    bool embed;    /* states are the result, not logits */
} zt_forward_opts;
/* A program that was read, with the inputs and outputs of zt_llm_prog in their order; the caller's. NULL: no memory, or
 * a type that does not fit. */
zt_prog *zt_forward_build(zt_ctx *ctx, const zt_prog *program, const zt_forward_opts *opts);

#endif
