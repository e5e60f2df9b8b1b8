/* batch_internal.h - private to lib/llm: a batch, and what batch_step.c asks of batch.c. */
#ifndef ZT_BATCH_INTERNAL_H
#define ZT_BATCH_INTERNAL_H

#include "lib/llm/arch.h"
#include "lib/llm/batch.h"

/* What a text gets after its tokens. */
typedef enum zt_batch_gets { ZT_GETS_LOGITS, ZT_GETS_BEST, ZT_GETS_DRAWN, ZT_GETS } zt_batch_gets;

typedef struct zt_batch_text {
    void *user;
    const zt_ids *ids;
    zt_batch_gets gets;
    zt_sampler sampler; /* of DRAWN */
    const int32_t *banned; /* of DRAWN and BEST, what it never is */
    size_t n_banned;
    bool done;
    int seq; /* -1: waits */
} zt_batch_text;

typedef struct zt_batch_slot {
    const zt_ids *ids; /* of the text that runs here, */
    zt_ids kept;       /* or of one that is done; */
    bool used;         /* neither: free */
    uint64_t at;       /* the step that fed it last */
} zt_batch_slot;

struct zt_batch {
    zt_ctx *ctx;
    zt_llm *llm;
    zt_batch_opts opts;
    zt_llm_info info;
    zt_pages *pages;
    zt_batch_slot *slot; /* [n_seq] */
    zt_batch_text *text; /* n of them, those that run first */
    size_t n, cap, running;
    size_t most;   /* texts that may run at once, and */
    int64_t chunk; /* tokens of prompts in a step: fewer than were asked for after ZT_ENOMEM */
    /* a step */
    int32_t *ids, *pos, *seq; /* [n_rows]; room for the larger of chunk and n_seq + 1 */
    int32_t *rows, *best, *drawn; /* [n_wanted]; room for n_seq */
    size_t *asks;                 /* likewise: the text that each of them is for */
    zt_drawing *drawing;          /* where the engine draws; else NULL */
    int64_t n_rows, n_wanted;
    float *logits; /* [n_wanted, V], and for how many there is room */
    int64_t logits_rows;
    zt_batch_count count;
};

/* The first text that waits becomes one that runs, if there is room for its tokens, the next one,
 * and for those that run to get on for a while. */
bool zt_batch_enter(zt_batch *b);
/* The last that runs waits again; or all, after a failure: nobody knows what the cache holds. */
void zt_batch_put_back(zt_batch *b);
void zt_batch_put_back_all(zt_batch *b);
/* Room for n positions more of text i, which runs: kept slots go, then the texts after it are put
 * back, the last first. False: there is none, though it is not the first. */
bool zt_batch_room_for(zt_batch *b, size_t i, int64_t n);
/* Tokens of a text that runs which are not fed yet. */
int64_t zt_batch_left(const zt_batch *b, const zt_batch_text *t);
zt_status zt_batch_check_id(const zt_batch *b, int32_t id); /* is it in the vocabulary? */
void zt_batch_let_go(zt_batch *b); /* those that are done leave; the others move up in their order */

#endif
