/* pass.h - passes: programs made into others that give the same bits with less work.
 *
 * A const table of passes, run in its order; each is a file of lib/run/passes/ and has its own
 * switch (the tools' `--no-NAME` come from the table). A pass changes neither inputs, states, data
 * nor outputs: what comes out of the new program has, bit for bit, the bytes of the old one's on
 * the same engine. Names of values stay where the values do. (Before them, for an engine that was
 * opened to compute in less than f32, comes what changes bits: lib/run/compute.h.)
 *
 *     zt_pass_opts o = {.sample = b, .n_sample = 3, .engine = e};
 *     zt_prog *q = zt_prog_passes(ctx, p, &o, NULL);
 */
#ifndef ZT_PASS_H
#define ZT_PASS_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The passes, in the order in which they run; zt_pass_NAME is in lib/run/passes/. */
// clang-format off
#define ZT_PASSES(PASS)                                                                            \
    PASS(fold)                                                                                     \
    PASS(cse)                                                                                      \
    PASS(dead)                                                                                     \
    PASS(fuse)                                                                                     \
    PASS(share)                                                                                    \
    PASS(recompute)                                                                                \
    PASS(chain)                                                                                    \
    PASS(split)
// clang-format on

typedef struct zt_pass_opts {
    /* Some number for each symbol, by which dtypes and ranks are known. Unlike one another and
     * above 1, they distinguish dimensions best. */
    const zt_binding *sample;
    int n_sample;
    zt_engine *engine; /* what it will run on: no op is made that this lacks; NULL: any op may be */
    unsigned off;      /* bit i: pass i of the table does not run */
} zt_pass_opts;

typedef struct zt_pass zt_pass;
struct zt_pass {
    const char *name; /* "dead": the switch is --no-dead */
    const char *help; /* one line */
    /* *out: a new program, or NULL where there is nothing to do. */
    zt_status (*run)(zt_ctx *ctx, const zt_prog *p, const zt_pass_opts *opts, zt_prog **out);
};

const zt_pass *zt_pass_at(int i);                  /* row i of the table, static; NULL past the last; at most 32 */
int zt_pass_find(const char *name, size_t length); /* index of the pass named by these n bytes, or -1 */

/* What a pass saved, under the sample's numbers. Kernels are steps that are not views. */
typedef struct zt_pass_report {
    bool ran;
    int kernels_before, kernels_after;
    size_t arena_before, arena_after;    /* bytes; 0 without an engine */
    size_t bound_after;                  /* the liveness lower bound of arena_after */
    int segments_before, segments_after; /* between which the engine changes; 0 without one */
    int fallbacks;                       /* steps that the engine lacks */
    double bytes_before, bytes_after;    /* that kernels read and write; 0 without an engine */
    double seconds;                      /* of the pass itself */
} zt_pass_report;

/* program after the passes: a new program, the caller's to free with zt_prog_free; program is not changed. opts
 * NULL: every pass, for any engine. reports: [passes of the table], or NULL; each costs a memory
 * plan. NULL: failed, see ctx. */
zt_prog *zt_prog_passes(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_pass_report *reports);

/* engine[s], of [steps of program]: the name of the engine that runs step s; NULL: a view, which runs no
 * kernel. Needs opts->engine and a sample; the names are static. */
zt_status zt_prog_engines(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, const char **engine);

/* The number of steps of program that are not views. */
int zt_prog_kernels(const zt_prog *program);

#ifdef __cplusplus
}
#endif
#endif
