/* batch_internal.h - private to lib/llm: the state of a batch, and what batch_step.c calls in batch.c. */
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
    zt_sampler sampler;    /* DRAWN */
    const int32_t *banned; /* DRAWN and BEST: tokens that are never chosen */
    size_t n_banned;
    bool done;
    int seq; /* its slot; -1: waiting */
} zt_batch_text;

typedef struct zt_batch_slot {
    const zt_ids *ids;  /* running: the text's tokens, borrowed */
    zt_ids kept;        /* kept: the finished text's tokens */
    bool used;          /* running or kept */
    uint64_t last_step; /* the step that fed it last */
} zt_batch_slot;

struct zt_batch {
    zt_ctx *ctx;
    zt_llm *llm;
    zt_batch_opts opts;
    zt_llm_info info;
    zt_pages *pages;
    zt_batch_slot *slot; /* [n_seq] */
    zt_batch_text *text; /* n of them, those that run first */
    size_t text_count, text_capacity, running;
    size_t max_running; /* texts that may run at once, and */
    int64_t chunk; /* tokens of prompts in a step: fewer than were asked for after ZT_ENOMEM */
    /* a step */
    int32_t *ids, *pos, *seq; /* [n_rows]; room for the larger of chunk and n_seq + 1 */
    int32_t *rows, *best, *drawn; /* [n_wanted]; room for n_seq */
    size_t *wanted_texts;         /* [n_wanted], room for n_seq: index of the text that each result is for */
    zt_drawing *drawing;          /* where the engine draws; else NULL */
    int64_t n_rows, n_wanted;
    float *logits; /* [n_wanted, V], and for how many there is room */
    int64_t logits_rows;
    zt_batch_count count;
};

/* Starts the first waiting text if the cache has room for its tokens, one more, and one more block for each running
 * text. */
bool zt_batch_enter(zt_batch *batch);
/* Puts the last running text back to waiting; or all of them, after a failure, when the cache's content is unknown. */
void zt_batch_put_back(zt_batch *batch);
void zt_batch_put_back_all(zt_batch *batch);
/* Makes room for position_count more positions of a running text: evicts kept slots, then puts back the texts after
 * it, the last one first. False: still no room. */
bool zt_batch_room_for(zt_batch *batch, size_t text_index, int64_t position_count);
/* Tokens of a running text that are not fed yet. */
int64_t zt_batch_left(const zt_batch *batch, const zt_batch_text *text);
zt_status zt_batch_check_id(const zt_batch *batch, int32_t id); /* is it in the vocabulary? */
void zt_batch_let_go(zt_batch *batch);                          /* those that are done leave; the others move up in their order */

#endif
