/* pointwise.h - chains of elementwise ops as the text of one attribute: op `pointwise`.
 *
 *     y = pointwise x g chain="mul a b; add_scalar %0 by=0.5; tanh %1"
 *     y, y2 = pointwise x chain="exp a; sqrt %0; out %0 %1"
 *
 * Ops stand in order, between them "; ". An operand is an input of the row (a to h) or %k, the
 * value of op k of the chain, counted from 0, which stands before it. Attributes follow as in a
 * program; those with their default are not written. The last op's value is the output; where there are
 * several, "out" lists them at the end, rising, the last among them. Every value is used or is an
 * output. One chain has one text: single blanks, numbers as programs print them.
 *
 * The text is hostile until it is parsed: known elementwise ops alone, arity, attributes, use after
 * definition, and no other spelling.
 */
#ifndef ZT_POINTWISE_H
#define ZT_POINTWISE_H

#include "lib/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZT_POINTWISE_INS   8  /* inputs of the row */
#define ZT_POINTWISE_OUTS  6  /* outputs of it */
#define ZT_POINTWISE_OPS   64 /* ops of a chain */
#define ZT_POINTWISE_ATTRS 64 /* bytes of one op's attributes */

/* Values: 0 to 7 the inputs, then those of the ops. */
#define ZT_POINTWISE_VALUES (ZT_POINTWISE_INS + ZT_POINTWISE_OPS)

typedef struct zt_pointwise_op {
    zt_op op;
    int in[3];                             /* values; ZT_NONE past the op's inputs */
    int64_t attrs[ZT_POINTWISE_ATTRS / 8]; /* the op's attribute struct */
} zt_pointwise_op;

typedef struct zt_pointwise_chain {
    int n_ops, n_out;
    zt_pointwise_op op[ZT_POINTWISE_OPS];
    int out[ZT_POINTWISE_OUTS]; /* values */
    unsigned inputs;            /* those that are used, a bit each */
} zt_pointwise_chain;

/* May it stand in a chain: one output that depends, element by element, on at most three inputs. */
bool zt_pointwise_takes(zt_op op);
/* ctx NULL: no message. */
zt_status zt_pointwise_parse(zt_ctx *ctx, const char *text, zt_pointwise_chain *p);
zt_status zt_pointwise_print(const zt_pointwise_chain *p, zt_str *out);
/* Types of all values of a chain from those of the row's inputs, by the ops' rules. They are plain
 * numbers or bool; outputs have the shape to which the inputs broadcast, which is *whole's. */
zt_status zt_pointwise_types(zt_ctx *ctx, const zt_pointwise_chain *p, const zt_type *const in[],
                             zt_type value[ZT_POINTWISE_VALUES], zt_type *whole);

#ifdef __cplusplus
}
#endif
#endif
