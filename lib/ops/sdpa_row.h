/* sdpa_row.h - private to lib/ops: what the rows of scaled dot-product attention and of its
 * gradient share. */
#ifndef ZT_OPS_SDPA_ROW_H
#define ZT_OPS_SDPA_ROW_H

#include "lib/ops/sdpa.h"
#include "lib/ops/vjp.h"

/* ---- types ----------------------------------------------------------------------------------- */

/* Types and attributes of both; mask and len may be NULL. */
zt_status zt_sdpa_check(zt_ctx *ctx, const zt_sdpa_attrs *a, const zt_type *q, const zt_type *k, const zt_type *v,
                        const zt_type *mask, const zt_type *len);
/* Of lse and delta: f32, or f64 where q is. */
zt_type zt_sdpa_stat(const zt_sdpa *z, const zt_type *q);
double zt_sdpa_pairs(const zt_sdpa_attrs *a, const zt_sdpa *z); /* of query and key that are seen */

/* ---- plain loops ----------------------------------------------------------------------------- */

typedef struct zt_sdpa_loop {
    const zt_sdpa_attrs *a;
    zt_sdpa z;
    const zt_arg *q, *k, *v, *mask, *len;
    int64_t mask_stride[ZT_MAX_RANK]; /* along b, h, s, t */
    double scale;
    int64_t batch, head, i; /* the query */
    int64_t q_at, y_at;     /* its row in q, and in y */
    zt_sdpa_span seen;
} zt_sdpa_loop;

zt_sdpa_loop zt_sdpa_loop_make(const zt_sdpa_attrs *a, const zt_arg *q, const zt_arg *k, const zt_arg *v, const zt_arg *mask,
                               const zt_arg *len);
/* Turns to query n of b * h * s, in the order of lse; a length out of range is trouble. */
void zt_sdpa_loop_at(zt_sdpa_loop *l, int64_t n, zt_runtime_error *t);
int64_t zt_sdpa_key_at(const zt_sdpa_loop *l, int64_t j, int64_t cols);
/* scale q.k, capped, plus mask; -inf where the mask forbids. `capped`: before the mask. */
double zt_sdpa_score(const zt_sdpa_loop *l, int64_t j, double *capped);

/* ---- as ops ---------------------------------------------------------------------------------- */

/* What both expansions begin with, in f32 or f64, [b,h,s,.] with a key head for each query head. */
typedef struct zt_sdpa_ops {
    int q, k, v;
    int capped; /* before mask and windows */
    int score;  /* -inf where nothing is seen */
    int none;   /* -inf of score's shape, and which may be seen; ZT_NONE: all */
    int seen;
} zt_sdpa_ops;

zt_sdpa_ops zt_sdpa_begin(const zt_emit *e, const zt_sdpa_attrs *a, int q, int k, int v, int mask, int len);
/* exp(score - lse), lse [b,h,s,1]; 0 where nothing is seen. */
int zt_sdpa_weights(const zt_emit *e, const zt_sdpa_ops *o, int lse);
int zt_sdpa_heads(const zt_emit *e, const zt_sdpa_attrs *a, int x); /* to [b,h,s,d], or back */
/* Query heads for each key head, 1 where it is not known. */
int64_t zt_sdpa_share(const zt_emit *e, const zt_sdpa_attrs *a, int q, int k);
/* d loss / d score before the mask: weights * (dy.v - delta). All wide, [b,h,s,.]. */
int zt_sdpa_dscore(const zt_emit *e, const zt_sdpa_ops *o, int weights, int dy, int delta);

/* Cases of both: inputs q, k, v; mask and len at k_mask and on; returns the attributes' case or
 * false past the last. */
bool zt_sdpa_case(int i, int k_mask, zt_case *c);

#endif
