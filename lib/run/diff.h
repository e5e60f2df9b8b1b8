/* diff.h - two runs of a program compared op by op, to find the first op that is wrong.
 *
 * Both runs are interpreters (interpreter.h): on two engines, or of two programs (a program and its
 * plan, say), whose values are matched by name and type. One is the reference, the other is tested. By default
 * each op of the tested run reads the reference's values, so that a difference is the op's own and the
 * first op beyond its bound is the wrong one. With `through` its ops read what the tested run made, as
 * in a real run, and errors add up.
 */
#ifndef ZT_DIFF_H
#define ZT_DIFF_H

#include "lib/run/interpreter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- two values ------------------------------------------------------------------------------ */

typedef struct zt_difference {
    double nmse;      /* sum (got - want)^2 / sum want^2; infinite: a NaN or an infinity on one side
                       alone, an integer that differs, or all of `want` is 0 */
    double max_abs;   /* the largest |got - want| */
    double rms;       /* of the finite elements of want */
    int64_t worst;    /* the element where that is, in row-major order; -1: equal as numbers */
    double got, want; /* that element */
    int64_t bits;     /* elements (blocks, of block types) that differ in any bit */
} zt_difference;

/* Compares two contiguous tensors of this type; floats and block types by the numbers that they stand
 * for. Sets all of *difference. */
void zt_compare(const zt_type *type, const void *got, const void *want, zt_difference *difference);

/* The share of an NMSE `bound` (zt_op_bound) that a difference uses: above 1 it is beyond the
 * bound. A bound on the mean says little of a single element, so the worst element counts too: it
 * may be off by 32 sqrt(bound) max(|want|, rms). 0: equal; infinite: not comparable, or bound 0. */
double zt_difference_share(const zt_difference *difference, double bound);

/* What is in one value. */
typedef struct zt_summary {
    double min, max, mean, rms; /* of the finite elements; 0 where there are none */
    int64_t infinite, nan;      /* elements */
} zt_summary;
void zt_summarize(const zt_type *type, const void *bytes, zt_summary *summary); /* contiguous; sets *summary */

/* ---- two runs -------------------------------------------------------------------------------- */

typedef struct zt_diff_opts {
    bool through; /* the tested ops are given what the tested run made. The bound of a value is then the sum (of roots,
                     squared) along the longest path that leads to it */
    bool exact;   /* any bit that differs is beyond */
    bool judge;   /* the reference is the engine ref. Else both may be off, and the bound is four times as large */
} zt_diff_opts;

/* One output of one step of the tested run. */
typedef struct zt_diff_item {
    int step, output, value; /* of the tested program */
    int reference_value;     /* the value of the reference's program */
    zt_difference difference;
    double bound, share; /* share above 1: beyond */
} zt_diff_item;

/* Not ZT_OK: the comparison ends with that. */
typedef zt_status zt_diff_fn(void *user, const zt_diff_item *item);

/* Compares one output of a step that both, interpreters of one program, have run, against the bound of
 * that op alone. Sets *item; opts is required. */
zt_status zt_diff_step(zt_interpreter *reference, zt_interpreter *tested, int step, int output_index, const zt_diff_opts *opts,
                       zt_diff_item *item);

/* Runs all of the reference, then the tested program step by step, and calls fn(user, item), in order,
 * for each output of a tested op that has a value of the same name and type in the reference. Inputs and
 * states are those put into the reference; the tested run gets them by name (ZT_EDATA: the reference lacks
 * one). opts NULL: all false. Both must be of one context. Returns the first status that is not ZT_OK, of a step or of fn. */
zt_status zt_diff(zt_interpreter *reference, zt_interpreter *tested, const zt_diff_opts *opts, zt_diff_fn *fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
