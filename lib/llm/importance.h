/* importance.h - importance matrix: sums of squared activations for each column of a model's matrices.
 *
 * A program computes the forward pass without logits and, for each input x of a matrix, sums x^2 over the
 * tokens. Any engine runs it. An importance matrix file holds these sums and the number
 * of tokens, like that of llama-imatrix (llama.cpp, tools/imatrix, as facts).
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

/* `window`: the maximum number of tokens of a text. Activations and KV cache are f32. */
zt_importance *zt_importance_open(zt_gguf *gguf, zt_engine *engine, int64_t window);
void zt_importance_close(zt_importance *importance); /* keeps the file and the engine open. NULL: no-op */

/* Evaluates one text of token_count tokens, 1 to window, and adds it to the sums. */
zt_status zt_importance_feed(zt_importance *importance, const int32_t *ids, int64_t token_count);

typedef struct zt_importance_of {
    const char *tensor; /* the matrix, named as in the file */
    int64_t columns;
    const double *squares; /* [matrices, columns]: sums of squares; shared by matrices with the same input */
    int64_t tokens;        /* number of tokens summed */
    int64_t matrices;      /* of a stacked tensor the number of experts; else 1 */
    const double *rows;    /* [matrices]: rows summed of each expert; NULL: `tokens` */
} zt_importance_of;

int64_t zt_importance_count(const zt_importance *importance); /* number of matrices, in the order of the forward pass */
/* The entry of matrix `index`, 0 to count - 1; its sums grow with each text. Zeroed: index out of range. */
zt_importance_of zt_importance_get(const zt_importance *importance, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
