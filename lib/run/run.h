/* run.h - running: sessions that replay whole programs, and ops that run one at a time (eager).
 *
 * A zt_session holds a program on an engine: its weights loaded once, its states, and a bounded
 * cache of prepared replays, one for each set of symbol values seen. A step costs a replay and
 * allocates nothing once its symbols have been seen.
 *
 * A zt_run runs ops eagerly, one at a time: zt_eager_add(run, a, b). Each is a program of one op in
 * a bounded cache; between zt_record_begin and _end what ran is also written into a program.
 *
 * An op that the engine lacks falls back to another engine (cpu -> ref): the program is split
 * there and the fallback is counted. `strict` makes it ZT_ENOTSUP.
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
    bool strict;             /* a fallback is an error */
    const zt_binding *fixed; /* symbols that states are sized by (ctx); NULL with n_fixed 0 */
    int n_fixed;
    const struct zt_plan_file *plan; /* plan_file.h: the program is the plan's; NULL: none */
    /* A session on the same engine and store, whose weights are used where it has loaded them; it is closed later. NULL: none */
    const struct zt_session *lender;
} zt_session_opts;

/* Opens program on engine and clears its states to zero. Weights are read from `store` (NULL: program
 * has no data) when a step that needs them is first prepared; their types must match (ZT_EDATA). options
 * NULL: no symbol is fixed, no plan. With a plan, memory is laid out as it says, which is checked here
 * (ZT_EDATA). Borrows engine, program, the plan and what `store` reads from. NULL: failed, see the
 * engine's context. */
zt_session *zt_session_open(zt_engine *engine, const zt_prog *program, const zt_store *store, const zt_session_opts *options);
/* Frees replays, weights and states; not the engine or the program. NULL: nothing. */
void zt_session_close(zt_session *session);

const zt_prog *zt_session_prog(const zt_session *session); /* the program it was opened on; borrowed */

zt_engine *zt_session_engine(const zt_session *session); /* the engine it was opened on, which has its states; borrowed */

/* One replay. `bindings` gives the symbols that are not fixed. inputs[i] and outputs[o] are host memory for
 * the i-th `in` and o-th `out` of the program, contiguous, of the bound types. outputs[o] NULL: that output
 * is not wanted, and steps that nothing else needs do not run. Synchronous: when it returns ZT_OK
 * the outputs are written; a runtime error of an op (an index out of range) is the status. */
zt_status zt_session_step(zt_session *session, const zt_binding *bindings, int n, const void *const *inputs,
                          void *const *outputs);
/* Prepares a replay without running it, so that the step with the same bindings allocates nothing.
 * outputs[o] NULL: output o will not be wanted; nothing is written. outputs NULL: all outputs. */
zt_status zt_session_prepare(zt_session *session, const zt_binding *bindings, int n, void *const *outputs);
/* Frees every prepared replay; weights and states stay. */
void zt_session_forget(zt_session *session);

/* The type of state i, 0 to the program's count of states - 1; rank -1: no such state. */
zt_type zt_session_state_type(const zt_session *session, int i);
/* Copies the bytes of state i to host memory, or from it: contiguous, zt_type_bytes of its type.
 * ZT_EUSAGE: no such state. */
zt_status zt_session_state_get(zt_session *session, int i, void *host);
zt_status zt_session_state_set(zt_session *session, int i, const void *host); /* the same */
/* Bytes of state i in the form of its engine, rows one after the other; 0: no such state. */
size_t zt_session_state_own(const zt_session *session, int i);
/* Copies `bytes` of that form from `offset` on to host memory, or from it: what was read and is written again has the same bits.
 * ZT_EUSAGE: no such state, or bytes that it does not have; ZT_ENOTSUP: the engine cannot. */
zt_status zt_session_state_read(zt_session *session, int i, size_t offset, size_t bytes, void *host);
zt_status zt_session_state_write(zt_session *session, int i, size_t offset, size_t bytes, const void *host); /* the same */

typedef struct zt_session_report {
    size_t weight_bytes, state_bytes;
    size_t arena_bytes;    /* of the largest prepared replay */
    size_t liveness_bytes; /* the lower bound: most bytes alive at once in that replay */
    int fallbacks;         /* steps of it that fell back */
    uint64_t prepared, steps;
} zt_session_report;
zt_session_report zt_session_get(const zt_session *session); /* figures so far */

/* Later steps are watched (zt_watch in engine.h), on whichever engine they run. The schedule and
 * the step number given to the callbacks are those of the part. Copied. NULL: no longer. */
void zt_session_watch(zt_session *session, const zt_watch *watch);

/* How the program runs: its parts, in order, each on one engine, in the replay that was prepared or
 * stepped last. A schedule's values have the program's numbers. It is borrowed until the next
 * prepare, step or forget. */
typedef struct zt_session_part {
    zt_engine *engine;
    const zt_run_schedule *schedule;
    size_t liveness_bytes; /* the lower bound of plan->arena_bytes */
} zt_session_part;
int zt_session_parts(const zt_session *session);                      /* 0: nothing was prepared */
zt_session_part zt_session_part_at(const zt_session *session, int i); /* i: 0 to zt_session_parts - 1 */

/* ---- eager ops ------------------------------------------------------------------------------- */

typedef struct zt_run zt_run;

/* A runner of eager ops on engine, which is borrowed. strict: an op that engine lacks is ZT_ENOTSUP. NULL: no
 * memory. */
zt_run *zt_run_new(zt_engine *engine, bool strict);
/* Ends a recording, closes every scope and unmarks every tensor. NULL: nothing. */
void zt_run_free(zt_run *run);

/* Scopes nest: a tensor made by an op belongs to the innermost open scope and is released when that
 * ends; zt_tensor_ref keeps it longer. Outside of any scope it lives until zt_run_free, or until an
 * end without a begin. */
void zt_scope_begin(zt_run *run);
void zt_scope_end(zt_run *run);
/* The next op writes its first output into dst (NULL: a new tensor), whose old content is not read.
 * The op fails with ZT_ESHAPE where the type differs. dst is referenced until then. */
void zt_run_into(zt_run *run, zt_tensor *dst);
/* A fault point for tests: the n-th op from now on fails (ZT_ENOMEM), and with `onwards` all after
 * it. nth 0: none. */
void zt_run_fail(zt_run *run, uint64_t nth, bool onwards);
/* The same with a choice of the events that count: at ALLOC, KERNEL or OUTPUT, of one op, into one
 * tensor. *fault is copied, its names and tensor are borrowed. NULL: none. */
void zt_run_fault(zt_run *run, const zt_fault *fault);
/* Counts since zt_run_new. */
uint64_t zt_run_count(const zt_run *run, zt_op op); /* ops of this kind that succeeded */
uint64_t zt_run_fallbacks(const zt_run *run);       /* ops that ran on a fallback engine */

/* Runs one op; every eager op passes here. attrs: the op's attribute struct; NULL: its defaults.
 * in[]: an entry for each input of the op, NULL: absent. out[]: an entry for each output, which
 * gets a tensor of the innermost scope; all NULL on failure. ZT_EUSAGE: a required input is absent;
 * ZT_ESHAPE or ZT_EUSAGE: types or attributes that the op does not take. */
zt_status zt_run_op(zt_run *run, zt_op op, const void *attrs, zt_tensor *const *inputs, zt_tensor **outputs);

/* Asynchronous ops: on an engine that can (cuda, hip, opencl, vulkan) an op is only enqueued, and its
 * output stays on the device, where the next op reads it. These submit what is enqueued, wait for
 * it and report errors of ops (an index out of range) in the context: zt_tensor_data of an output,
 * an op into a destination, an op that falls back, a session's step, zt_run_sync. The bits are the
 * same.
 *   eager     on: no op is asynchronous
 *   flush_at  submit, without waiting, after every n ops; 0, the default: never
 *   flush     submit now
 *   sync      submit and wait; the first error
 * On engines without asynchronous ops flush and sync are ZT_OK. */
void zt_run_eager(zt_run *run, bool on);
void zt_run_flush_at(zt_run *run, int n);
zt_status zt_run_flush(zt_run *run);
zt_status zt_run_sync(zt_run *run);

/* Recording: later ops become steps of a program; tensors that no recorded op made become its
 * inputs in0, in1... in order of first use.
 *   begin          starts; ZT_EUSAGE: it has started already
 *   end            stops; the program, the caller's to free, with `outs` as out0, out1...; NULL:
 *                  failed
 *   clear          forgets what was recorded and goes on; ZT_EUSAGE: not recording
 *   pause, resume  nest; ops between them are not recorded, and what they make is an input to later
 *                  steps
 * A recording keeps its tensors alive. A tensor that an op wrote over by way of another tensor
 * (zt_run_into on a view of it, say) cannot be used in the recording again (ZT_EUSAGE); one that
 * was written over during a pause is a new input. */
zt_status zt_record_begin(zt_run *run);
zt_prog *zt_record_end(zt_run *run, zt_tensor *const *outs, int n_outs);
zt_status zt_record_clear(zt_run *run);
void zt_record_pause(zt_run *run);
void zt_record_resume(zt_run *run);
int zt_record_steps(const zt_run *run); /* steps so far; -1: not recording */

/* The program recorded so far, borrowed until the next op; NULL: not recording. slot: the number of
 * the value in it that t holds; -1: none, or not recording. */
const zt_prog *zt_record_prog(const zt_run *run);
int zt_record_slot(const zt_run *run, const zt_tensor *tensor);
/* freeze: t becomes data of the recorded program, named `tensor` (copied), not an input; only once,
 * before an op uses it (ZT_EUSAGE). save: writes all frozen tensors, with their present
 * contents, to a file (its container by the suffix, else GGUF) from which zt-run --data reads them.
 * force: an existing file is replaced. ZT_EUSAGE: not recording, or one was written over. */
zt_status zt_record_freeze(zt_run *run, zt_tensor *t, const char *tensor);
zt_status zt_record_save(const zt_run *run, const char *path, bool force);

/* zt_tensor *zt_eager_rms_norm(zt_run *, zt_tensor *x, zt_tensor *g, const zt_rms_norm_attrs *,
 * zt_tensor **rstd): typed calls of zt_run_op. The result is the first output, a tensor of the
 * innermost scope. Ops chain: after a failure, or given NULL for a required input, they return
 * NULL. Further outputs come through pointers, NULL: not wanted. */
#define ZT_CALL_IN1(a)                             , zt_tensor *a
#define ZT_CALL_IN2(a, b)                          , zt_tensor *a, zt_tensor *b
#define ZT_CALL_IN3(a, b, c)                       , zt_tensor *a, zt_tensor *b, zt_tensor *c
#define ZT_CALL_IN4(a, b, c, d)                    , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d
#define ZT_CALL_IN5(a, b, c, d, e)                 , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d, zt_tensor *e
#define ZT_CALL_IN6(a, b, c, d, e, f)              , zt_tensor *a, zt_tensor *b, zt_tensor *c, zt_tensor *d, zt_tensor *e, zt_tensor *f
#define ZT_CALL_IN7(a, b, c, d, e, f, g)           ZT_CALL_IN6(a, b, c, d, e, f), zt_tensor *g
#define ZT_CALL_IN8(a, b, c, d, e, f, g, h)        ZT_CALL_IN6(a, b, c, d, e, f), zt_tensor *g, zt_tensor *h
#define ZT_CALL_IN9(a, b, c, d, e, f, g, h, i)     ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i
#define ZT_CALL_IN10(a, b, c, d, e, f, g, h, i, j) ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j
#define ZT_CALL_IN11(a, b, c, d, e, f, g, h, i, j, k)                                                                            \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j, zt_tensor *k
#define ZT_CALL_IN12(a, b, c, d, e, f, g, h, i, j, k, l)                                                                         \
    ZT_CALL_IN8(a, b, c, d, e, f, g, h), zt_tensor *i, zt_tensor *j, zt_tensor *k, zt_tensor *l
#define ZT_CALL_OUT1(a)
#define ZT_CALL_OUT2(a, b)                , zt_tensor **b
#define ZT_CALL_OUT3(a, b, c)             , zt_tensor **b, zt_tensor **c
#define ZT_CALL_OUT4(a, b, c, d)          , zt_tensor **b, zt_tensor **c, zt_tensor **d
#define ZT_CALL_OUT5(a, b, c, d, e)       ZT_CALL_OUT4(a, b, c, d), zt_tensor **e
#define ZT_CALL_OUT6(a, b, c, d, e, f)    ZT_CALL_OUT4(a, b, c, d), zt_tensor **e, zt_tensor **f
#define ZT_CALL_OUT7(a, b, c, d, e, f, g) ZT_CALL_OUT6(a, b, c, d, e, f), zt_tensor **g
#define OP(name, ins, outs, attrs)        zt_tensor *zt_eager_##name(zt_run *r ZT_CALL_##ins ZT_PARAM_##attrs(name) ZT_CALL_##outs);
#include "lib/ops/ops.def"
#undef OP

/* Runs a function of the caller's (zt_func in lib/ops/ops.h) as the op `call`. in[] has an entry
 * for each of its inputs. The result is its first output; out[] (NULL: not wanted) gets all of
 * them. NULL: failed. */
zt_tensor *zt_apply(zt_run *run, const zt_func *function, zt_tensor *const *inputs, zt_tensor **outputs);

/* ---- gradients: a pass over programs --------------------------------------------------------- */

typedef struct zt_grad_opts {
    const char *const *of; /* names of the outputs that it is taken of; n_of 0: all of floats */
    int n_of;
    bool seeds;               /* the cotangent of output y is an input d.y, of y's type; else ones */
    const zt_binding *sample; /* some number for each symbol, by which ranks and dtypes are known */
    int n_sample;
} zt_grad_opts;

/* The program that computes what program does and, after the program's outputs, the gradient d.x for
 * each of the n values wrt[i] of plain float type (inputs, data, or what an op makes): the sum over
 * outputs y of d.y^T (dy / dx). Its ops are ordinary ones, so that it has a gradient itself: where d.x
 * is an output already, the next is d.d.x. With `seeds` its inputs d.y come after the program's (shapes
 * must be numbers). What rows take for constants, integers, and what an op rounds to integers, has the
 * gradient 0. The caller frees the result with zt_prog_free. NULL: a program with states, or an op on
 * the way without a gradient (ZT_ENOTSUP). `ctx` is the program's own. */
zt_prog *zt_prog_grad(zt_ctx *ctx, const zt_prog *program, const int *wrt, int n, const zt_grad_opts *opts);

/* ---- gradients of eager ops ------------------------------------------------------------------ */

/* The same pass over what has been recorded, run op by op:
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

/* Marks tensor, a tensor of plain floats (else ZT_EUSAGE): zt_backward adds to its gradient, that of the
 * value which tensor then holds. It may be made by an op. The run keeps a reference until the mark is
 * removed (`on` false, which also drops the gradient) or the run is freed. */
zt_status zt_grad_require(zt_run *run, zt_tensor *tensor, bool on);
bool zt_grad_required(const zt_run *run, const zt_tensor *tensor); /* true: x is marked */
/* The gradient accumulated since it was last zeroed, of the tensor's type; NULL: none, or tensor is not marked.
 * Borrowed until the next backward, zero or unmarking. */
zt_tensor *zt_grad_of(const zt_run *run, const zt_tensor *tensor);
void zt_grad_zero(zt_run *run, const zt_tensor *tensor); /* forget x's gradient; NULL: every gradient */

typedef struct zt_backward_opts {
    zt_tensor *dy; /* the cotangent of y, of y's type; NULL: ones */
    bool record;   /* backward's own ops are recorded too, so that gradients have gradients */
} zt_backward_opts;

/* Adds to the gradient of each marked tensor that y, recorded, depends on: dy^T (dy / dx). `opts`
 * NULL: from ones, not recorded. Values that were written over since are computed again where
 * their inputs are still there (else ZT_EUSAGE). Nothing marked on the way to y: ZT_EUSAGE; an op
 * without a gradient: ZT_ENOTSUP. On failure no gradient has changed. */
zt_status zt_backward(zt_run *run, zt_tensor *y, const zt_backward_opts *opts);

/* A view of tensor through which no gradient flows: the same bytes, a tensor of the innermost scope.
 * NULL: failed; tensor NULL is ZT_EUSAGE. */
zt_tensor *zt_detach(zt_run *run, zt_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
