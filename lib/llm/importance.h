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
 *         zt_importance_get(m, i).squares[0] ...
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
zt_importance *zt_importance_open(zt_gguf *gguf, zt_engine *engine, int64_t window);
void zt_importance_close(zt_importance *importance); /* neither the file nor the engine. NULL: nothing */

/* One text of token_count tokens, 1 to window, added to the sums. */
zt_status zt_importance_feed(zt_importance *importance, const int32_t *ids, int64_t token_count);

typedef struct zt_importance_of {
    const char *tensor; /* the matrix, named as in the file */
    int64_t columns;
    const double *squares; /* [columns]: sums of squares; matrices that read the same x share them */
    int64_t tokens;        /* number of tokens summed */
} zt_importance_of;

int64_t zt_importance_count(const zt_importance *importance); /* in the order of the pass */
/* Matrix index, 0 to count - 1; its sums grow with each text. All zero: no such matrix. */
zt_importance_of zt_importance_get(const zt_importance *importance, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
