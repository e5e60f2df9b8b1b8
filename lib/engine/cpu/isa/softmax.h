/* softmax.h - private to isa/: sums of the exponentials of rows, for softmax, log_softmax and logsumexp. */
#ifndef ZT_ISA_SOFTMAX_H
#define ZT_ISA_SOFTMAX_H

#include "lib/engine/cpu/isa/lines.h"
#include "lib/engine/cpu/isa/stream.h"

#include <math.h>

enum {
    CHUNK = 1024,     /* a sum in f32 is at most so long; those are added up in f64 */
    ROWS_AHEAD = 2048 /* floats; to the second cache, for the first has three rows to hold */
};

/* The sum of exp(x - top) of n <= CHUNK, which are y's with `keep`; top is the largest. */
INLINE float exps(bool keep, const float *x, float *y, int n, float top)
{
    vf sum = vf_set(0), t = vf_set(top);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf e = vf_exp_below(vf_sub(vf_load(x + i), t));
        if (keep) vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        vf e = vf_exp_below(vf_sub(vf_load_n(x + i, n - i), t));
        if (keep) vf_store_n(y + i, n - i, e);
        sum = vf_add(sum, vf_first(n - i, e, vf_set(0)));
    }
    return vf_sum(sum);
}

INLINE double row_exps(bool keep, const float *x, float *y, int64_t cols, float top)
{
    double sum = 0;
    for (int64_t i = 0; i < cols; i += CHUNK)
        sum += (double)exps(keep, x + i, keep ? y + i : NULL, cols - i < CHUNK ? (int)(cols - i) : CHUNK, top);
    return sum;
}

/* ---- rows from memory, and to it past the caches --------------------------------------------- */

/* Three rows at a time, so that reading, computing and storing do not wait for each other: while
 * the exponentials of one are added up, the largest of the next is found, which comes from memory,
 * and what is known by now of the one before is stored. */
typedef struct rows_past {
    const float *next; /* the next row, or any where there is none */
    float next_top;    /* found: its largest */
    float *e;          /* scratch: a row's exponentials take the place of those of the one before */
    float *before;     /* the result of the row before */
    float top, by;     /* its largest, and what was made of its sum */
} rows_past;

/* A vector of the row before, from its x or its exponentials. */
INLINE void put_before(bool logs, const rows_past *p, const float *x, int64_t i, vf top, vf by)
{
    vf y = logs ? vf_sub(vf_sub(vf_load(x + i), top), by) : vf_mul(vf_load(p->e + i), by);
    vf_stream(p->before + i, y);
}

/* row_exps where LANES divides cols, to the bit. */
INLINE double past_exps(bool logs, bool before, rows_past *p, const float *x, int64_t cols, float top)
{
    vf t = vf_set(top), old = vf_set(p->top), by = vf_set(p->by), most = vf_set(-INFINITY);
    double all = 0;
    for (int64_t i = 0; i < cols;) {
        vf sum = vf_set(0);
        for (int64_t last = cols - i < CHUNK ? cols : i + CHUNK; i < last; i += LANES) {
            __builtin_prefetch(p->next + i + ROWS_AHEAD, 0, 2);
            most = vf_max(vf_load(p->next + i), most);
            if (before) put_before(logs, p, x - cols, i, old, by);
            vf e = vf_exp_below(vf_sub(vf_load(x + i), t));
            if (!logs) vf_store(p->e + i, e);
            sum = vf_add(sum, e);
        }
        all += (double)vf_sum(sum);
    }
    p->next_top = vf_top(most);
    return all;
}

static inline void past_setup(zt_cpu_call *call)
{
    rows_setup(call);
    call->aux[0] = cols_of(&call->in[0].type) % LANES == 0 && beyond_caches(&call->in[0].type);
}

#endif
