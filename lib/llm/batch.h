/* batch.h - many texts at once through one language model: continuous batching over a paged cache.
 *
 * Texts wait in the order in which they came. A step feeds the last token of each text that goes on
 * and, beside these, pieces of prompts; a text that is done leaves, and the next one enters in the
 * step after. Texts share the cache block by block: what two begin with alike is in it once, also
 * after the first has left, as long as its memory is not wanted. When memory is short the text that
 * came last waits again, and is fed anew later. What a text gets are the bits it gets alone.
 *
 *     zt_llm *m = zt_llm_open(g, &(zt_llm_opts){.engine = e, .n_seq = 64, .cache_len = 16384});
 *     zt_batch *b = zt_batch_open(m, &(zt_batch_opts){.next = choose});
 *     zt_batch_add(b, &mine, &mine.ids, false);       // as often as there are texts, also later
 *     while (zt_batch_counted(b).texts > 0) zt_batch_step(b);
 *     zt_batch_close(b);
 *
 * The model is the batch's own meanwhile: nothing else is fed to it.
 */
#ifndef ZT_BATCH_H
#define ZT_BATCH_H

#include "lib/llm/llm.h"
#include "lib/run/pages.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_batch zt_batch;

/* All tokens of a text are fed: `logits` f32[V] after the last, if it was added with those (they may
 * be changed), and else `best`, the likeliest token or the one drawn (-1: no logit is a number). Appends the next
 * token to the text's ids and sets *more; or leaves *more false, and the text is done and forgotten.
 * No more than ctx_len tokens can be fed: with *more and above that many ids the step fails. Adds
 * and drops nothing. A status ends the step, and later steps go on with the texts not asked yet. */
typedef zt_status zt_batch_next(void *text, float *logits, int32_t best, bool *more);

typedef struct zt_batch_opts {
    zt_batch_next *next;
    bool forget; /* nothing in the cache outlives a token: all of a text is fed for each */
} zt_batch_opts;

/* On a model opened for n_seq sequences (no more run at once) and cache_len tokens. */
zt_batch *zt_batch_open(zt_llm *model, const zt_batch_opts *opts);
void zt_batch_close(zt_batch *batch); /* texts that are not done are forgotten; the model stays. NULL: nothing */

/* A text behind the others: `text` is what `next` gets; ids, its tokens, are borrowed until it is
 * dropped, or the step ends in which it was done. ZT_EUSAGE for no tokens or one that is not in the
 * vocabulary, ZT_ENOMEM with the numbers for more than the context holds. */
zt_status zt_batch_add(zt_batch *batch, void *text, const zt_ids *ids, bool logits);
/* A text that gets the likeliest token which is none of banned_count `banned`, borrowed as ids are: mostly the
 * engine's choice, so that nobody looks at its logits. */
zt_status zt_batch_add_best(zt_batch *batch, void *text, const zt_ids *ids, const int32_t *banned, size_t banned_count);
/* A text whose tokens the engine draws, as zt_llm_draw does: of a model that draws (zt_llm_draws), and
 * what fits (zt_draw_fits); else ZT_EUSAGE. Of draw the sampler is copied and `banned` borrowed as ids
 * are; the history is the ids. */
zt_status zt_batch_add_drawn(zt_batch *batch, void *text, const zt_ids *ids, const zt_draw *draw);
/* Forgets a text that was added, whether or not it is done; one that is not there: nothing. */
void zt_batch_drop(zt_batch *batch, const void *text);

/* One step; without texts nothing. Where memory is too short for it, fewer texts run from then on;
 * ZT_ENOMEM only when the first one cannot be fed alone. After a failure no text is lost: they wait. */
zt_status zt_batch_step(zt_batch *batch);

typedef struct zt_batch_count {
    size_t texts;         /* that are not done */
    size_t running;       /* of these: their tokens are in the cache */
    uint64_t steps, rows; /* done; tokens fed by them */
    uint64_t shared;      /* tokens that were not fed, since the cache had them */
    uint64_t put_back;    /* how often a text had to wait again */
    zt_pages_count pages;
} zt_batch_count;
zt_batch_count zt_batch_counted(const zt_batch *batch); /* figures so far */

#ifdef __cplusplus
}
#endif
#endif
