/* run.h - running: sessions that replay programs, and the door through which every op passes.
 *
 * A zt_session holds a program on an engine: its weights loaded once, its states, and a bounded
 * cache of prepared replays, one for each set of symbol values seen. A step costs a replay and
 * allocates nothing once its symbols have been seen.
 *
 * A zt_run runs ops eagerly, one at a time: zt_eager_add(run, a, b). Each is a program of one op in a
 * bounded cache; between zt_record_begin and _end what ran is also written into a program.
 *
 * What an engine lacks falls back (cpu -> ref): the plan is split there and the fallback counted;
 * `strict` makes it ZT_ENOTSUP.
 */
#ifndef ZT_RUN_H
#define ZT_RUN_H

#include "lib/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions: whole programs ---------------------------------------------------------------- */

typedef struct zt_session zt_session;

typedef struct zt_session_opts {
    bool strict;               /* a fallback is an error */
    const zt_binding *fixed;   /* symbols that states are sized by (ctx); NULL with n_fixed 0 */
    int n_fixed;
    const struct zt_plan_file *planned; /* lib/run/plan_file.h: the program is its own; NULL: none */
} zt_session_opts;

/* Makes the states, cleared. Weights are read from `store` (NULL: the program has none) on the
 * engine that needs them when a step is first prepared; types must match (ZT_EDATA). Borrows
 * engine, program and what the store stands on, and the plan: memory is laid out as that says,
 * which is checked now (ZT_EDATA). */
zt_session *zt_session_open(zt_engine *e, const zt_prog *p, const zt_store *store,
                            const zt_session_opts *opts);
void zt_session_close(zt_session *s);

const zt_prog *zt_session_prog(const zt_session *s); /* the one it was opened on */

/* One replay. `b` gives the symbols that are not fixed. in[i] and out[o] are host memory for the
 * i-th `in` and o-th `out` of the program, contiguous, of the bound types. out[o] NULL: that output
 * is not wanted, and steps that nothing else needs do not run. */
zt_status zt_session_step(zt_session *s, const zt_binding *b, int n, const void *const *in,
                          void *const *out);
/* Prepare without running, so that the step allocates nothing. out: as the step's, of which only
 * NULL matters here; NULL: all outputs. */
zt_status zt_session_prepare(zt_session *s, const zt_binding *b, int n, void *const *out);
/* What was prepared is forgotten, for its memory; weights and states stay. */
void zt_session_forget(zt_session *s);

/* The i-th state, whole, as its declared type (bytes of zt_session_state_type). */
zt_type zt_session_state_type(const zt_session *s, int i);
zt_status zt_session_state_get(zt_session *s, int i, void *host);
zt_status zt_session_state_set(zt_session *s, int i, const void *host);

typedef struct zt_session_report {
    size_t weight_bytes, state_bytes;
    size_t arena_bytes;       /* of the largest prepared replay */
    size_t liveness_bytes;    /* the lower bound: most bytes alive at once in that replay */
    int fallbacks;            /* steps of it that fell back */
    uint64_t prepared, steps;
} zt_session_report;
zt_session_report zt_session_get(const zt_session *s);

/* Steps from now on are watched (engine.h), on whichever engine they run: plan and step are those
 * of the part. Copied; NULL: not any more. */
void zt_session_watch(zt_session *s, const zt_watch *watch);

/* How the program runs: parts, one after the other, each on one engine, of what was prepared or
 * stepped last. A plan's values are the program's; it is borrowed until the next of those. */
typedef struct zt_session_part {
    zt_engine *engine;
    const zt_run_schedule *plan;
    size_t liveness_bytes; /* the lower bound of plan->arena_bytes */
} zt_session_part;
int zt_session_parts(const zt_session *s); /* 0: nothing was prepared */
zt_session_part zt_session_part_at(const zt_session *s, int i);

/* ---- eager ops: the door --------------------------------------------------------------------- */

typedef struct zt_run zt_run;

zt_run *zt_run_new(zt_engine *e, bool strict); /* borrows the engine */
void zt_run_free(zt_run *r);                   /* closes every scope */

/* Scopes: a tensor made by an op belongs to the innermost scope and goes with it, save those kept
 * (zt_tensor_ref is the way to keep one). */
void zt_scope_begin(zt_run *r);
void zt_scope_end(zt_run *r);
/* Where the next op puts its first output: type must match (ZT_ESHAPE), old content is not read. */
void zt_run_into(zt_run *r, zt_tensor *dst);
/* Refuse the n-th op from now on (a fault point), once or from then on; 0: none. */
void zt_run_fail(zt_run *r, uint64_t nth, bool onwards);
/* The same with a choice of what counts: ALLOC, KERNEL or OUTPUT, of one op, into one tensor (names
 * and tensor are borrowed). NULL: none. */
void zt_run_fault(zt_run *r, const zt_fault *fault);
/* Ops run, per op; fallbacks. */
uint64_t zt_run_count(const zt_run *r, zt_op op);
uint64_t zt_run_fallbacks(const zt_run *r);

/* The door. attrs NULL: defaults; in[k] NULL: absent; out[k] gets
 * tensors of the innermost scope. */
zt_status zt_run_op(zt_run *r, zt_op op, const void *attrs, zt_tensor *const *in, zt_tensor **out);

/* Ahead of the caller: on an engine that can (cuda, vulkan) an op is only recorded; what it makes
 * stays on the device, where the next op finds it. zt_tensor_data of it, an op into a destination
 * or that falls back, a session's step, sync: each hands over what is recorded, waits for it, and
 * tells in the context what an op found wrong (an index out of range). The bits are the same.
 * eager: no op runs ahead. flush_at: hand over, without waiting, after every n ops; 0, the default:
 * never so. */
void zt_run_eager(zt_run *r, bool on);
void zt_run_flush_at(zt_run *r, int n);
zt_status zt_run_flush(zt_run *r);
zt_status zt_run_sync(zt_run *r);

/* Recording: ops run from here on become steps; tensors not made by them become inputs in0, in1...
 * in order of first use. end: the program, with `outs` as out0, out1...; NULL on failure. clear:
 * what was recorded is forgotten, recording goes on. What runs between pause and resume (which
 * nest) is not recorded: what it makes is an input to later steps. A recording keeps its tensors
 * alive. One that an op wrote over by way of another tensor (zt_run_into on a view of it, say)
 * cannot be used in it any more; one that was written over during a pause is a new input. */
zt_status zt_record_begin(zt_run *r);
zt_prog *zt_record_end(zt_run *r, zt_tensor *const *outs, int n_outs);
zt_status zt_record_clear(zt_run *r);
void zt_record_pause(zt_run *r);
void zt_record_resume(zt_run *r);
int zt_record_steps(const zt_run *r); /* steps so far; -1: not recording */

/* What is recorded so far, whose values are the recording's slots: of each its kind and, bound, its
 * shape. Good until the next op. NULL: not recording. slot: the value
 * that a tensor holds in it, -1: none. */
const zt_prog *zt_record_prog(const zt_run *r);
int zt_record_slot(const zt_run *r, const zt_tensor *t);
/* Frozen slots: t becomes data of the program, by the name `tensor`, instead of an input. Before an
 * op uses it; once. save: all frozen tensors by their names, as they are now, into a file (its
 * container by the suffix, else GGUF), from which the program's data are read: zt-run --data. */
zt_status zt_record_freeze(zt_run *r, zt_tensor *t, const char *tensor);
zt_status zt_record_save(const zt_run *r, const char *path, bool force);

/* zt_tensor *zt_eager_rms_norm(zt_run *, zt_tensor *x, zt_tensor *g, const zt_rms_norm_attrs *, zt_tensor
 * **rstd): thin typed calls of the door. Ops chain: after a failure, or given NULL for a required
 * input, they return NULL. Outputs after the first through pointers, NULL: not wanted. */
#define ZT_CALL_IN1(a) , zt_tensor *a
#define ZT_CALL_IN2(a, b) , zt_tensor *a, zt_tensor *b
#define ZT_CALL_IN3(a, b, c) , zt_tensor *a, zt_tensor *b, zt_tensor *c
#define ZT_CALL_IN4(a, b, c, d) , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d
#define ZT_CALL_IN5(a, b, c, d, e)                                                                 \
    , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d, zt_tensor *e
#define ZT_CALL_IN6(a, b, c, d, e, f)                                                              \
    , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d, zt_tensor *e, zt_tensor *f
#define ZT_CALL_IN7(a, b, c, d, e, f, g)                                                           \
    ZT_CALL_IN6(a, b, c, d, e, f), zt_tensor *g
#define ZT_CALL_IN8(a, b, c, d, e, f, g, h)                                                        \
    ZT_CALL_IN6(a, b, c, d, e, f), zt_tensor *g, zt_tensor *h
#define ZT_CALL_IN9(a, b, c, d, e, f, g, h, i) \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i
#define ZT_CALL_IN10(a, b, c, d, e, f, g, h, i, j) \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j
#define ZT_CALL_IN11(a, b, c, d, e, f, g, h, i, j, k) \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j, zt_tensor *k
#define ZT_CALL_IN12(a, b, c, d, e, f, g, h, i, j, k, l) \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j, zt_tensor *k, zt_tensor *l
#define ZT_CALL_OUT1(a)
#define ZT_CALL_OUT2(a, b) , zt_tensor **b
#define ZT_CALL_OUT3(a, b, c) , zt_tensor **b, zt_tensor **c
#define ZT_CALL_OUT4(a, b, c, d) , zt_tensor **b, zt_tensor **c, zt_tensor **d
#define ZT_CALL_OUT5(a, b, c, d, e) ZT_CALL_OUT4(a, b, c, d), zt_tensor **e
#define ZT_CALL_OUT6(a, b, c, d, e, f) ZT_CALL_OUT4(a, b, c, d), zt_tensor **e, zt_tensor **f
#define OP(name, ins, outs, attrs)                                                                 \
    zt_tensor *zt_eager_##name(zt_run *r ZT_CALL_##ins ZT_PARAM_##attrs(name) ZT_CALL_##outs);
#include "lib/ops/ops.def"
#undef OP

/* A function of the caller's (lib/ops/ops.h) as an op: in[] its inputs; its first output, and all
 * of them into out[] where that is not NULL. Short for zt_call. */
zt_tensor *zt_apply(zt_run *r, const zt_func *f, zt_tensor *const *in, zt_tensor **out);

/* ---- gradients: a pass over programs --------------------------------------------------------- */

typedef struct zt_grad_opts {
    const char *const *of; /* names of the outputs that it is taken of; n_of 0: all of floats */
    int n_of;
    bool seeds; /* the cotangent of output y is an input d.y, of y's type; else ones */
    const zt_binding *sample; /* some number for each symbol, by which ranks and dtypes are known */
    int n_sample;
} zt_grad_opts;

/* The program that computes what p does and, after p's outputs, the gradient d.x for each of the n
 * values wrt[i] of plain float type (inputs, data, or what an op makes): the sum over outputs y of
 * d.y^T (dy / dx). Its ops are ordinary ones, so that it has a gradient itself: where d.x is an
 * output already, the next is d.d.x. With `seeds` its inputs d.y come after p's (shapes must be
 * numbers). What rows take for constants, integers, and what an op rounds to integers, has the
 * gradient 0. NULL: a program with states, or an op on the way without a gradient (ZT_ENOTSUP).
 * `ctx` is p's own. */
zt_prog *zt_prog_grad(zt_ctx *ctx, const zt_prog *p, const int *wrt, int n,
                      const zt_grad_opts *opts);

/* ---- gradients of eager ops ------------------------------------------------------------------ */

/* The same pass, over what has been recorded, run through the door:
 *
 *     zt_grad_require(run, w, true);
 *     zt_record_begin(run);
 *     for (each batch) {
 *         zt_scope_begin(run);
 *         zt_tensor *loss = ...;              ops on w
 *         zt_backward(run, loss, NULL);       adds to w's gradient
 *         zt_record_clear(run);
 *         ... zt_grad_of(run, w) ...;
 *         zt_grad_zero(run, NULL);
 *         zt_scope_end(run);
 *     }
 */

/* Marks a tensor of plain floats: backward adds to its gradient, that of the value which it holds
 * then. It may be made by an op. The run holds it until the mark is taken away (`on` false: its
 * gradient goes too) or the run is freed. */
zt_status zt_grad_require(zt_run *r, zt_tensor *x, bool on);
bool zt_grad_required(const zt_run *r, const zt_tensor *x);
/* What has been added up since it was last zeroed, of x's type; NULL: nothing. Borrowed until the
 * next call that changes it. */
zt_tensor *zt_grad_of(const zt_run *r, const zt_tensor *x);
void zt_grad_zero(zt_run *r, const zt_tensor *x); /* forget x's gradient; NULL: every gradient */

typedef struct zt_backward_opts {
    zt_tensor *dy; /* the cotangent of y, of y's type; NULL: ones */
    bool record;   /* backward's own ops are recorded too, so that gradients have gradients */
} zt_backward_opts;

/* Adds to the gradient of each marked tensor that y, recorded, depends on: dy^T (dy / dx). `opts`
 * NULL: from ones, not recorded. Values that were written over since are computed again where
 * their inputs are still there (else ZT_EUSAGE). Nothing marked on the way to y: ZT_EUSAGE; an op
 * without a gradient: ZT_ENOTSUP. On failure no gradient has changed. */
zt_status zt_backward(zt_run *r, zt_tensor *y, const zt_backward_opts *opts);

/* The same bytes as another tensor, through which no gradient flows. Of the innermost scope. */
zt_tensor *zt_detach(zt_run *r, zt_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
