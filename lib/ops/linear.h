/* linear.h - what rows with products x w^T + b share, and their kernels. */
#ifndef ZT_OPS_LINEAR_H
#define ZT_OPS_LINEAR_H

#include "lib/ops/row.h"

/* x [n,K] of f32, f16 or bf16, and a word for how it may be rounded. */
zt_status zt_linear_want_x(zt_ctx *ctx, const zt_enum_string *act, const zt_type *x);
/* w [M,K] of any float or block type, b [M] of f32 or x's (NULL: absent): *out is [n,M]. */
zt_status zt_linear_want(zt_ctx *ctx, const char *w_name, const char *b_name, const zt_type *x, const zt_type *w,
                         const zt_type *b, zt_type *out);
/* sum_k x[r,k] w[m,k] + b[m] */
double zt_linear_at(const zt_arg *x, const zt_arg *w, const zt_arg *b, int64_t r, int64_t m);

/* The word of act for product k (from 0) of a row `linears`. */
const zt_enum_string *zt_linears_act(const zt_linears_attrs *a, int k);
/* The word of act by which any op rounds x for its output k; NULL: it has no such attribute. */
const zt_enum_string *zt_op_act(zt_op op, const void *attrs, int k);

/* What a fused row does with the products, by the word of its attribute: an elementwise op. */
typedef struct zt_after {
    const char *word;
    zt_op op;
    const void *attrs; /* NULL: it has none */
} zt_after;

const zt_after *zt_gate_after(const zt_enum_string *gate);   /* of gated_linear; NULL: no such word */
const zt_after *zt_curve_after(const zt_enum_string *curve); /* of linear_act */

#endif
