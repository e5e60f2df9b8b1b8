/* batch.h - continuous batching of many texts through one language model, over a paged KV cache.
 *
 * Texts wait in the order of their arrival. A step feeds the last token of each running text and, in the same batch,
 * chunks of prompts. A text that is done leaves, and the next one enters in the following step. Texts share the cache
 * by blocks: a common prefix is stored once, and is kept after a text has left until its memory is needed. If memory
 * runs short, the last arrived text is preempted and recomputed later. Each text gets the same bits as in a run
 * alone.
 *
 *     zt_llm *m = zt_llm_open(g, &(zt_llm_opts){.engine = e, .n_seq = 64, .cache_len = 16384});
 *     zt_batch *b = zt_batch_open(m, &(zt_batch_opts){.next = choose});
 *     zt_batch_add(b, &mine, &mine.ids, false);       // as often as there are texts, also later
 *     while (zt_batch_counted(b).texts > 0) zt_batch_step(b);
 *     zt_batch_close(b);
 *
 * While one text alone generates, tokens that may follow it can be fed in the same step (speculative decoding, see
 * speculate.h): it then gets several tokens by one step, and the same ones.
 *
 * While the batch is open, nothing else may be fed to the model.
 */
#ifndef ZT_BATCH_H
#define ZT_BATCH_H

#include "lib/llm/llm.h"
#include "lib/run/pages.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_batch zt_batch;

/* Called when all tokens of a text have been fed. Gets `logits`, f32[V] after the last token, if the text was added
 * with logits (the callback may change them); otherwise `best`, the most probable or sampled token (-1: every logit is
 * NaN). The callback appends the next token to the ids of the text and sets *more; or it leaves *more false, and the
 * text is done and removed. At most ctx_len tokens can be fed: with *more and more ids than that, the step fails. The
 * callback must not add or drop texts. A status other than ZT_OK ends the step; later steps continue with the texts
 * whose callback has not run. */
typedef zt_status zt_batch_next(void *text, float *logits, int32_t best, bool *more);

/* Drafts what may follow the text, at most `limit` tokens, and returns how many. *draft is valid until the step has ended. Called
 * before a step in which no other text is in the batch. An error in the context ends the step. */
typedef size_t zt_batch_draft(void *text, size_t limit, const int32_t **draft);
/* Called after each such step, before `next`: it fed so many rows, the draft's and one more. */
typedef void zt_batch_took(void *text, size_t rows, double seconds);

typedef struct zt_batch_opts {
    zt_batch_next *next;
    zt_batch_draft *draft; /* NULL: nothing is drafted. Rests with `forget` */
    zt_batch_took *took;   /* with `draft`; may be NULL */
    bool forget;           /* do not keep the cache between tokens: feed the whole text for each token */
    /* Blocks of the cache that others computed, attached to the model and borrowed: a text begins with those that are there, and
     * leaves its own when it is done. NULL: none. Excludes `forget`. */
    struct zt_kv_store *store;
} zt_batch_opts;

/* Opens a batch on a model opened for n_seq sequences, the most that run at once, and cache_len tokens. */
zt_batch *zt_batch_open(zt_llm *model, const zt_batch_opts *opts);
void zt_batch_close(zt_batch *batch); /* removes unfinished texts; keeps the model open. NULL: no-op */

/* Appends a text to the queue. `text` is passed to `next`. `ids`, its tokens, are borrowed until the text is
 * dropped or the step in which it is done has ended. ZT_EUSAGE: no tokens, or an id out of range. ZT_ENOMEM: more
 * tokens than the context holds; the message has the numbers. */
zt_status zt_batch_add(zt_batch *batch, void *text, const zt_ids *ids, bool logits);
/* Appends a text with greedy decoding: `best` is the most probable token that is not one of the banned_count `banned`
 * ones, which are borrowed like ids. The engine usually computes the argmax, so no logits are copied. */
zt_status zt_batch_add_best(zt_batch *batch, void *text, const zt_ids *ids, const int32_t *banned, size_t banned_count);
/* Appends a text whose tokens the engine samples, as zt_llm_draw does. ZT_EUSAGE unless the model supports it
 * (zt_llm_draws) and the settings fit (zt_draw_fits). The sampler is copied, `banned` is borrowed like ids, and the
 * history is the ids. */
zt_status zt_batch_add_drawn(zt_batch *batch, void *text, const zt_ids *ids, const zt_draw *draw);
/* Removes a text, done or not. An unknown text: no-op. */
void zt_batch_drop(zt_batch *batch, const void *text);

/* Runs one step; without texts a no-op. If memory is too short, fewer texts run from then on;
 * ZT_ENOMEM: the first text cannot be fed even alone. A failure loses no text: they wait again. */
zt_status zt_batch_step(zt_batch *batch);

typedef struct zt_batch_count {
    size_t texts;         /* unfinished texts */
    size_t running;       /* texts with tokens in the cache */
    uint64_t steps, rows; /* steps done; tokens fed by them */
    uint64_t shared;      /* tokens reused from the cache or the store instead of fed */
    uint64_t put_back;    /* preemptions */
    uint64_t drafted;     /* tokens of drafts that were fed, */
    uint64_t accepted;    /* and those that came */
    zt_pages_count pages;
} zt_batch_count;
zt_batch_count zt_batch_counted(const zt_batch *batch); /* counters so far */

#ifdef __cplusplus
}
#endif
#endif
