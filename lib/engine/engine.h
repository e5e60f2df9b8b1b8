/* engine.h - the one interface between programs and machines.
 *
 * An engine owns buffers, kernels and threads. lib/run gives it plans: a bound program whose values
 * all have a place, cut so that the engine has a kernel for every step. The engine turns a plan
 * into something it can replay, again and again, without allocating.
 *
 * An engine is a const vtable and a private struct whose first field is a zt_engine. Adding one
 * touches no file of another: write the vtable, add it to the list in engines.c.
 *
 * Values have an engine's own form (ref keeps every float as f64, cpu interleaves the rows of
 * weights), so only the engine knows their bytes: value_bytes, upload, download, load.
 */
#ifndef ZT_ENGINE_H
#define ZT_ENGINE_H

#include "lib/prog/prog.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_engine zt_engine;
typedef struct zt_ebuf zt_ebuf;   /* a buffer of an engine: state or weight */
typedef struct zt_executable zt_executable; /* a prepared plan */

/* ---- plans ----------------------------------------------------------------------------------- */

typedef enum zt_place_kind {
    ZT_PLACE_NOWHERE, /* not used by this plan */
    ZT_PLACE_ARENA,   /* at `offset` in the plan's arena */
    ZT_PLACE_IN,      /* host tensor `index` among replay's inputs */
    ZT_PLACE_OUT,     /* host tensor `index` among replay's outputs */
    ZT_PLACE_BUF      /* engine buffer `index` among the plan's bufs: data and state */
} zt_place_kind;

typedef struct zt_place {
    zt_place_kind kind;
    int index;
    size_t offset;
} zt_place;

typedef struct zt_run_schedule {
    int n_values;
    const zt_type *type;   /* [n_values], all numbers */
    const zt_place *place; /* [n_values] */
    int n_steps;
    const zt_step *step; /* [n_steps]; attrs bound */
    int n_in, n_out;
    int n_bufs;
    zt_ebuf *const *buf; /* [n_bufs] */
    size_t arena_bytes;
    bool queued; /* to be enqueued, never replayed: inputs and outputs are buffers */
} zt_run_schedule;

/* A plan of an engine's own: types, places, steps and attributes copied into the arena. */
zt_status zt_run_schedule_copy(zt_arena *a, const zt_run_schedule *plan, zt_run_schedule *copy);
bool zt_place_same(const zt_place *a, const zt_place *b);

/* ---- the interface ----------------------------------------------------------------------------- */

/* What floats of f32 are computed with on a device that has the choice: sums are of f32 in all of
 * them. fp8: bf16, and weights become E4M3 as they are loaded. */
typedef enum zt_compute { ZT_COMPUTE_F32, ZT_COMPUTE_F16, ZT_COMPUTE_BF16, ZT_COMPUTE_FP8 } zt_compute;
const char *zt_compute_name(zt_compute c); /* "f16"; as --compute names them */

typedef struct zt_engine_opts {
    int threads; /* 0: zt_cpu_count */
    int device;  /* cuda:i, vulkan:i */
    zt_isa isa;  /* cpu: at most this */
    /* cpu: rows of x (tokens) that a matrix product takes through one pass over its weights, in its
     * own steps; 0: what a part of the second-level cache found holds. The bits do not depend on it. */
    int64_t tile;
    zt_compute compute; /* of engines that have the choice; of others another than f32 is refused */
} zt_engine_opts;

typedef struct zt_engine_report {
    size_t held, peak;  /* bytes of buffers and arenas, those that wait in a pool too */
    uint64_t allocated; /* bytes of all that were ever made */
    uint64_t buffers;   /* weights and states (a device: all memory) in use now */
    uint64_t kernels;   /* steps run */
    uint64_t replays;
    uint64_t barriers; /* times that all threads of the processor waited for each other in replays */
    /* Devices: times that commands were handed over, and that results came back. */
    uint64_t submits, downloads;
    /* Their pools: buffers made for them and given back to them; takings that found one waiting and
     * that did not; what waits now, in buffers and in bytes. */
    uint64_t pool_allocated, pool_released, pool_hits, pool_misses, pooled;
    size_t pooled_bytes;
} zt_engine_report;

/* One of the machines that "NAME:i" opens. The texts are the driver's: escape them. */
#define ZT_ADAPTER_LIMITS 8
typedef struct zt_adapter {
    char name[256], driver[520], api[24]; /* "llvmpipe (LLVM 15.0.6, 256 bits)" ... "1.3.230" */
    const char *type;                     /* "discrete" "integrated" "virtual" "cpu" "other" */
    size_t memory;                        /* bytes of its own */
    struct {
        const char *name; /* "shared_memory", as the engine calls it */
        uint64_t value;
    } limit[ZT_ADAPTER_LIMITS];
    int n_limits;
} zt_adapter;

/* A piece of a replay: what one thread, or a device's queue, did for one step without a break. */
typedef struct zt_span {
    int step;          /* of the plan */
    int track;         /* the thread, 0 the one that replays; of a device: the queue */
    double begin, end; /* by zt_seconds; a device's clock is laid so that it begins with the submit */
} zt_span;
typedef void zt_span_fn(void *user, const zt_run_schedule *plan, const zt_span *span);

/* Called around every step of a replay, by the thread that replays. before: a status other than
 * ZT_OK ends the replay with it (the callee has set the message). Any may be NULL. Where before and
 * after both are, the steps run as they do unwatched, and after that span is told their pieces, in
 * no order (of a device that keeps no time, none). */
typedef struct zt_watch {
    zt_status (*before)(void *user, const zt_run_schedule *plan, int step);
    void (*after)(void *user, const zt_run_schedule *plan, int step, double seconds);
    void *user;
    zt_span_fn *span;
} zt_watch;

typedef struct zt_engine_vt {
    const char *name;
    bool devices;  /* "NAME:1" names one of several */
    bool computes; /* may be opened to compute in another type than f32 */
    /* required */
    zt_engine *(*open)(zt_ctx *ctx, const zt_engine_opts *opts);
    void (*close)(zt_engine *e);
    bool (*has)(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                const zt_type out[]);                           /* the list that running uses */
    size_t (*value_bytes)(zt_engine *e, const zt_type *t);      /* of an arena value */
    zt_ebuf *(*alloc)(zt_engine *e, const zt_type *t);          /* a state, cleared to zero */
    zt_ebuf *(*load)(zt_engine *e, const zt_type *t, const zt_store *s, int64_t handle); /* a weight */
    void (*free)(zt_engine *e, zt_ebuf *b);
    zt_status (*upload)(zt_engine *e, zt_ebuf *b, const void *host);         /* a whole state */
    zt_status (*download)(zt_engine *e, const zt_ebuf *b, void *host);
    zt_executable *(*prepare)(zt_engine *e, const zt_run_schedule *plan);    /* copies what it keeps */
    void (*unprepare)(zt_engine *e, zt_executable *r);
    /* in, out: host memory, contiguous, of the plan's types. Synchronous: when it returns outputs
     * are there and troubles have become errors: "op gather (step 3): index 70000 is not below
     * 49152". */
    zt_status (*replay)(zt_engine *e, zt_executable *r, const void *const *in, void *const *out,
                        const zt_watch *watch);
    zt_engine_report (*report)(const zt_engine *e);
    /* Of engines that can run ahead of their caller; all NULL where a replay is all there is.
     * temp: a buffer that is not cleared, or with a copy of `host`, taken now. enqueue: a queued
     * plan on buffers; what it writes is there for what is enqueued after it. They may be freed
     * at once. flush: what is enqueued is handed over. sync: and waited for; the first trouble
     * is told, as by all else that waits: replay, download, and uploads to what is in use. */
    zt_ebuf *(*temp)(zt_engine *e, const zt_type *t, const void *host);
    zt_status (*enqueue)(zt_engine *e, zt_executable *r, zt_ebuf *const *in, zt_ebuf *const *out);
    zt_status (*flush)(zt_engine *e);
    zt_status (*sync)(zt_engine *e);
    /* of engines with devices; as zt_engine_adapters */
    int (*adapters)(zt_ctx *ctx, zt_adapter *a, int max);
} zt_engine_vt;

struct zt_engine {
    const zt_engine_vt *vt;
    zt_ctx *ctx;
    zt_compute compute; /* what lib/run makes of programs for it; a wrapper's is ZT_COMPUTE_F32 */
    zt_engine *inner;   /* a wrapper's: the engine around which it is, owned; of others NULL */
};

/* ---- engines there are --------------------------------------------------------------------------- */

/* "auto" "cpu" "ref", and "vulkan", "vulkan:1", "cuda", "hip" where built. ZT_ENOTSUP when it is not
 * there. */
zt_engine *zt_engine_open(zt_ctx *ctx, const char *name, const zt_engine_opts *opts);
void zt_engine_close(zt_engine *e);
/* e, or of a wrapper the engine inside all: what it is called, can and has is what its vt says. */
const zt_engine *zt_engine_inmost(const zt_engine *e);
/* Does an engine of this name, if there is one, have devices? */
bool zt_engine_has_devices(const char *name);
/* Names of engines built in, NULL after the last. */
const char *zt_engine_list(int i);
/* Adapters of an engine, in the order of "NAME:i": how many there are, the first `max` of them
 * told. 0: an engine without devices. -1: there is nothing to ask, and why (ZT_ENOTSUP). */
int zt_engine_adapters(zt_ctx *ctx, const char *name, zt_adapter *a, int max);

/* zt_engine_hip is lib/engine/cuda on AMD's driver. */
extern const zt_engine_vt zt_engine_ref, zt_engine_cpu, zt_engine_vulkan, zt_engine_cuda,
    zt_engine_hip;

/* Wrappers: engines around an engine, which they own and close. */
typedef enum zt_fault_at {
    ZT_FAULT_ALLOC,  /* of a state or a weight; the door: of an output */
    ZT_FAULT_UPLOAD, /* of a state or a weight */
    ZT_FAULT_KERNEL, /* an op, before it runs */
    ZT_FAULT_OUTPUT  /* each value that an op writes */
} zt_fault_at;
/* A fault point: which events count, and which of those fails. */
typedef struct zt_fault {
    zt_fault_at at;
    uint64_t nth; /* 1 is the next that counts; 0: none fails */
    bool onwards; /* and all after it */
    /* Only some count: */
    const char *op;       /* KERNEL, OUTPUT: of ops of this name; NULL: of any */
    const char *tensor;   /* ALLOC, UPLOAD: of the weight of this name; NULL: of any, and states */
    bool one_value;       /* OUTPUT: only value number `value` of the program (zt_prog_find) */
    int value;
    const zt_tensor *dst; /* OUTPUT at the door (zt_run_fault): only into this tensor; NULL: any */
} zt_fault;
zt_engine *zt_engine_fault_point(zt_engine *inner, const zt_fault *fault); /* names borrowed */
/* The same for events of one kind, all of them counting. */
zt_engine *zt_engine_fault(zt_engine *inner, zt_fault_at at, uint64_t nth, bool onwards);
typedef void zt_trace_fn(void *user, const zt_run_schedule *plan, int step, double seconds);
zt_engine *zt_engine_trace(zt_engine *inner, zt_trace_fn *fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
