/* importance.h - how much the columns of a model's matrices matter: sums of squared activations.
 *
 * The forward pass, without the logits, becomes a program that also sums x^2 over the tokens for
 * each x that a matrix is multiplied with; any engine runs it. What llama-imatrix gathers
 * (llama.cpp, tools/imatrix, as facts): an importance matrix of a file is these sums and the number
 * of tokens.
 *
 *     zt_importance *m = zt_importance_open(g, engine, 512);
 *     zt_importance_feed(m, ids, 512);                    // each window is a text by itself
 *     for (int64_t i = 0; i < zt_importance_count(m); i++)
 *         zt_importance_get(m, i).sum[0] ...
 *     zt_importance_close(m);
 */
#ifndef ZT_IMPORTANCE_H
#define ZT_IMPORTANCE_H

#include "lib/llm/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_importance zt_importance;

/* `window`: most tokens of a text. Activations stay f32, the cache too. */
zt_importance *zt_importance_open(zt_gguf *g, zt_engine *e, int64_t window);
void zt_importance_close(zt_importance *m); /* not g or e. NULL: nothing */

/* One text of n tokens, 1 to window, added to the sums. */
zt_status zt_importance_feed(zt_importance *m, const int32_t *ids, int64_t n);

typedef struct zt_importance_of {
    const char *tensor; /* the matrix, named as in the file */
    int64_t columns;          /* its columns */
    const double *squares;  /* [n] of squares; matrices that read one x share it */
    int64_t tokens;     /* so many were added */
} zt_importance_of;

int64_t zt_importance_count(const zt_importance *m); /* in the order of the pass */
/* Matrix i, 0 to count - 1; its sums grow with each text. All zero: no such matrix. */
zt_importance_of zt_importance_get(const zt_importance *m, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
