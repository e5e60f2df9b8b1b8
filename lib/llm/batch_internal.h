/* batch_internal.h - private to lib/llm: the state of a batch. batch.c makes its steps, batch_slots.c lets texts enter and leave. */
#ifndef ZT_LLM_BATCH_INTERNAL_H
#define ZT_LLM_BATCH_INTERNAL_H

#include "lib/llm/arch/arch.h"
#include "lib/llm/batch.h"
#include "lib/llm/llm_internal.h"
#include "lib/llm/speculate.h"

/* What a text gets after its tokens. */
typedef enum zt_batch_gets { ZT_GETS_LOGITS, ZT_GETS_BEST, ZT_GETS_DRAWN, ZT_GETS } zt_batch_gets;

typedef struct zt_batch_text {
    void *user;
    const zt_ids *ids;
    zt_batch_gets gets;
    zt_sampler sampler;    /* DRAWN */
    const int32_t *banned; /* DRAWN and BEST: tokens that are never chosen */
    size_t n_banned;
    bool answered; /* it got a token: what is fed next is generated, not a prompt */
    bool done;
    int seq; /* its slot; -1: waiting */
} zt_batch_text;

typedef struct zt_batch_slot {
    const zt_ids *ids;  /* running: the text's tokens, borrowed */
    zt_ids kept;        /* kept: the finished text's tokens */
    bool used;          /* running or kept */
    uint64_t last_step; /* the step that fed it last */
    int64_t state;      /* the slot that its next row starts from: its own, or a spare one */
    int64_t save_at;    /* the state behind so many tokens is kept in a spare slot; 0: none is */
    int64_t stop;       /* the state behind so many tokens goes to the store; 0: none does */
} zt_batch_slot;

typedef struct zt_batch_prefix { /* what a spare slot has */
    int seq;                     /* behind the beginning of this slot's tokens, */
    int64_t position;            /* so many of them; 0: none */
    uint64_t last_step;          /* that made or used it */
} zt_batch_prefix;

struct zt_batch {
    zt_ctx *ctx;
    zt_llm *llm;
    zt_batch_opts opts;
    zt_llm_info info;
    zt_pages *pages;
    zt_batch_slot *slot;                    /* [n_seq] */
    zt_batch_prefix prefix[ZT_SPARE_SLOTS]; /* with recurrent layers: spare slot n_seq + i */
    zt_batch_text *text;                    /* [text_count], those that run first */
    size_t text_count, text_capacity, running;
    size_t max_running; /* texts that may run at once */
    int64_t chunk;      /* tokens of prompts in a step: fewer than were asked for after ZT_ENOMEM */
    /* a step */
    int32_t *ids, *pos, *seq;     /* [n_rows]; room for the larger of chunk and n_seq + 1, and a draft */
    int32_t *from, *to;           /* the same, of a model with recurrent layers: slot s has the state behind all of sequence s */
    int32_t *rows, *best, *drawn; /* [n_wanted]; room for n_seq and a draft */
    size_t *wanted_texts;         /* [n_wanted], room for the same: index of the text that each result is for */
    zt_drawing *drawing;          /* where the engine draws; else NULL */
    int64_t n_rows, n_wanted;
    int32_t draft[ZT_DRAFT_ROWS - 1]; /* fed behind the tokens of the only text */
    bool lone;                        /* the step was of one generated text alone, with a draft or without */
    int64_t n_draft;                  /* 0: nothing is */
    int draft_state;                  /* the spare slot with the state behind it, of recurrent layers */
    double seconds;                   /* what the step took */
    float *logits;                    /* [n_wanted, V], and for how many there is room */
    int64_t logits_rows;
    float *hidden; /* [n_rows, width], room as for ids: where the model keeps hidden states; else NULL */
    zt_batch_count count;
};

/* ---- batch_slots.c --------------------------------------------------------------------------- */

bool zt_batch_is_recurrent(const zt_batch *batch); /* has the model states of recurrent layers? */
/* Tokens of a running text that are not fed yet. */
int64_t zt_batch_count_unfed(const zt_batch *batch, const zt_batch_text *text);
/* Starts the first waiting text if there is room for it. */
bool zt_batch_start_text(zt_batch *batch);
/* Makes room for position_count more positions of a running text. False: there is none. */
bool zt_batch_make_room_for(zt_batch *batch, size_t text_index, int64_t position_count);
/* Puts the last running text back to waiting; or all of them, and forgets the cache. */
void zt_batch_put_back_last(zt_batch *batch);
void zt_batch_put_back_all(zt_batch *batch);
void zt_batch_remove_done(zt_batch *batch);  /* texts that are done leave */
void zt_batch_keep_stopped(zt_batch *batch); /* states of texts that are where they were to stop go to the store */
/* Forgets states of a slot's beginnings behind `length`. */
void zt_batch_cut_prefixes(zt_batch *batch, int seq, int64_t length);

#endif
