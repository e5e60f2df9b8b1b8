/* rewrite.h - private to lib/run/passes: a program copied step by step into another.
 *
 * map[v] is the number in `to` of value v of `from`: declarations at once, others when their step
 * is copied, or when a pass says what stands for them. Rewriting ends with keeps and outputs.
 */
#ifndef ZT_REWRITE_H
#define ZT_REWRITE_H

#include "lib/run/pass.h"

typedef struct zt_rewrite {
    zt_ctx *ctx;
    const zt_prog *source;
    zt_prog *target;
    int *map; /* [values of from]; -1: not made yet */
} zt_rewrite;

zt_status zt_rewrite_begin(zt_rewrite *rewrite, zt_ctx *ctx, const zt_prog *source);
/* The step as it is, of the mapped inputs. wanted NULL: all its outputs, else bit k: output k
 * (the first is always there). */
zt_status zt_rewrite_copy(zt_rewrite *rewrite, int step, const unsigned *wanted);
/* Another op. in[]: values of `from` or ZT_NONE; stands[k]: the value of `from` that output k is
 * in place of (its name goes on), ZT_NONE: the output is not wanted. */
zt_status zt_rewrite_op(zt_rewrite *rewrite, zt_op op, const void *attrs, const int *inputs, const int *stands);
/* Keeps and outputs: the new program, which is the caller's. After any failure, with its status
 * given as `status`: all is freed, and status comes back. */
zt_status zt_rewrite_end(zt_rewrite *rewrite, zt_status status, zt_prog **rewritten);

/* What the sample's numbers give on the engine: the largest arena and its liveness bound, segments,
 * steps that fall back, bytes; all 0 without an engine. */
typedef struct zt_pass_figures {
    size_t arena, bound;
    int segments, fallbacks;
    double bytes; /* that kernels read and write */
} zt_pass_figures;
zt_status zt_pass_measure(const zt_prog *program, const zt_pass_opts *options, zt_pass_figures *f);

/* root[v]: the value whose memory v is, through views and donations. */
void zt_prog_roots(const zt_prog *program, int *root);

#define ZT_DECLARE_PASS(name) extern const zt_pass zt_pass_##name;
ZT_PASSES(ZT_DECLARE_PASS)

#endif
