/* cost.h - what the steps of a bound program cost, and the least time
 * that a machine needs for them.
 *
 *     int *root = zt_cost_roots(ctx, b->prog);
 *     zt_cost c = zt_cost_of(b, root, -1, step);       // c.flops / zt_roof_rate(&roof, c.kind)
 *     zt_cost_whole w;
 *     zt_cost_add(ctx, b, root, -1, 1, &w);                 // a run of all of it
 *     double least = zt_cost_least(&w, &roof);         // seconds
 */
#ifndef ZT_COST_H
#define ZT_COST_H

#include "lib/engine/roof.h"
#include "lib/prog/prog.h"

#ifdef __cplusplus
extern "C" {
#endif

/* root[v], of [values of program]: the value in whose memory v is (a view is in its input's, what a
 * donating op makes in the donated value's). The caller's to zt_free; NULL: no memory. */
int *zt_cost_roots(zt_ctx *ctx, const zt_prog *program);

typedef struct zt_cost {
    double flops;
    double data; /* bytes of data and states, read */
    double rest; /* bytes of all else, read and written */
    zt_roof_kind kind;
    double passes; /* how often the arithmetic of `kind` is done: 2 for act=q16 */
} zt_cost;
/* The cost of step `step` of bound. root: zt_cost_roots of bound's program. filled: the rows of a cache (a
 * state) that positions reach, since only these are read; -1: not known, the whole cache. */
zt_cost zt_cost_of(const zt_bound *bound, const int *root, int64_t filled, int step);

/* Runs of whole programs: arithmetic by kind, and the bytes that no machine can leave out: inputs,
 * data and states read once a run, outputs written once. Zero-initialised is nothing. */
typedef struct zt_cost_whole {
    double flops[ZT_ROOF_KINDS], bytes;
    double held; /* of one run: bytes, to be found in a cache the next time or not */
} zt_cost_whole;
/* Adds to *w the cost of `runs` runs of the whole program bound. ZT_ENOMEM: nothing is added. */
zt_status zt_cost_add(zt_ctx *ctx, const zt_bound *bound, const int *root, int64_t filled, double runs, zt_cost_whole *w);
/* The least time of these runs, in seconds, with all threads of the roof: that of the arithmetic or
 * that of the bytes, whichever is longer. */
double zt_cost_least(const zt_cost_whole *w, const zt_roof *roof);

#ifdef __cplusplus
}
#endif
#endif
