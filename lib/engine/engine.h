/* engine.h - the one interface between programs and machines.
 *
 * An engine owns buffers, kernels and threads. lib/run gives it schedules: a bound program whose
 * values all have a place, cut so that the engine has a kernel for every step. The engine turns a
 * schedule into an executable that it replays, again and again, without allocating.
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

/* The number of the arithmetic that docs/arithmetic.md defines: which bits the engine cpu gives. */
#define ZT_ARITHMETIC 4

typedef struct zt_engine zt_engine;
typedef struct zt_ebuf zt_ebuf;             /* a buffer of an engine: state or weight */
typedef struct zt_executable zt_executable; /* a prepared schedule */

/* ---- schedules ------------------------------------------------------------------------------- */

typedef enum zt_place_kind {
    ZT_PLACE_NOWHERE, /* not used by this schedule */
    ZT_PLACE_ARENA,   /* at `offset` in the schedule's arena */
    ZT_PLACE_IN,      /* host tensor `index` among replay's inputs */
    ZT_PLACE_OUT,     /* host tensor `index` among replay's outputs */
    ZT_PLACE_BUF      /* engine buffer `index` among the schedule's bufs: data and state */
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

/* Copies a schedule for an engine to keep: types, places, steps and attributes go into the arena
 * `a`; buffers stay borrowed. ZT_ENOMEM: *copy is not usable. */
zt_status zt_run_schedule_copy(zt_arena *arena, const zt_run_schedule *schedule, zt_run_schedule *copy);
bool zt_place_same(const zt_place *first, const zt_place *second); /* equal in all fields */

/* ---- the interface ----------------------------------------------------------------------------- */

/* The number format that f32 values are computed in on a device that supports it; sums are f32 in
 * every case. fp8: bf16, and weights are converted to E4M3 when loaded. */
typedef enum zt_compute { ZT_COMPUTE_F32, ZT_COMPUTE_F16, ZT_COMPUTE_BF16, ZT_COMPUTE_FP8 } zt_compute;
const char *zt_compute_name(zt_compute compute); /* "f16", as --compute takes it; static */

typedef struct zt_engine_opts {
    int threads; /* 0: zt_cpu_count */
    int device;  /* cuda:i, vulkan:i */
    zt_isa isa;  /* cpu: at most this */
    /* cpu: rows of x (tokens) that a matrix product takes through one pass over its weights, in its
     * own steps; 0: what a part of the second-level cache found holds. The bits do not depend on it. */
    int64_t tile;
    zt_compute compute; /* of engines that have the choice; of others another than f32 is refused */
    bool strict_bits;   /* an op without a kernel that has the bits of docs/arithmetic.md is refused; not with another compute */
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
    int step;          /* of the schedule */
    int track;         /* the thread, 0 the one that replays; of a device: the queue */
    double begin, end; /* by zt_seconds; a device's clock is laid so that it begins with the submit */
} zt_span;
typedef void zt_span_fn(void *user, const zt_run_schedule *schedule, const zt_span *span);

/* Called around every step of a replay, by the thread that replays. before: a status other than
 * ZT_OK ends the replay with it (the callee has set the message). Any may be NULL. Where before and
 * after both are, the steps run as they do unwatched, and after span is called for their pieces, in
 * no order (on a device that keeps no time, for none). */
typedef struct zt_watch {
    zt_status (*before)(void *user, const zt_run_schedule *schedule, int step);
    void (*after)(void *user, const zt_run_schedule *schedule, int step, double seconds);
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
                const zt_type out[]); /* the list that running uses */
    /* Does its kernel for this op, which it has, promise the bits of docs/arithmetic.md? NULL: no kernel does. */
    bool (*has_contract_bits)(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]);
    size_t (*value_bytes)(zt_engine *e, const zt_type *t);                               /* of an arena value */
    zt_ebuf *(*alloc)(zt_engine *e, const zt_type *t);                                   /* a state, cleared to zero */
    zt_ebuf *(*load)(zt_engine *e, const zt_type *t, const zt_store *s, int64_t handle); /* a weight */
    void (*free)(zt_engine *e, zt_ebuf *b);
    zt_status (*upload)(zt_engine *e, zt_ebuf *b, const void *host); /* a whole state */
    zt_status (*download)(zt_engine *e, const zt_ebuf *b, void *host);
    /* The same for `bytes` of a state from `offset` on, in the engine's own form (value_bytes), so that what was read and is
     * written again has the same bits. NULL: the engine cannot. */
    zt_status (*write_part)(zt_engine *e, zt_ebuf *b, size_t offset, size_t bytes, const void *host);
    zt_status (*read_part)(zt_engine *e, const zt_ebuf *b, size_t offset, size_t bytes, void *host);
    zt_executable *(*prepare)(zt_engine *e, const zt_run_schedule *schedule); /* copies what it keeps */
    void (*unprepare)(zt_engine *e, zt_executable *r);
    /* in, out: host memory, contiguous, of the schedule's types. Synchronous: when it returns, the
     * outputs are written and what kernels found wrong is an error: "op gather (step 3): index 70000
     * is not below 49152". */
    zt_status (*replay)(zt_engine *e, zt_executable *r, const void *const *in, void *const *out, const zt_watch *watch);
    zt_engine_report (*report)(const zt_engine *e);
    /* Of engines with asynchronous ops; all NULL where there is only replay.
     * temp: a buffer that is not cleared, or a copy of `host`, made now. enqueue: runs a queued
     * schedule on buffers, after all that was enqueued before; the buffers may be freed at once.
     * flush: submits what is enqueued. sync: submits, waits, and returns the first error of a
     * kernel, as everything does that waits: replay, download, and uploads to buffers in use. */
    zt_ebuf *(*temp)(zt_engine *e, const zt_type *t, const void *host);
    zt_status (*enqueue)(zt_engine *e, zt_executable *r, zt_ebuf *const *in, zt_ebuf *const *out);
    zt_status (*flush)(zt_engine *e);
    zt_status (*sync)(zt_engine *e);
    /* of engines with devices; contract: zt_engine_adapters */
    int (*adapters)(zt_ctx *ctx, zt_adapter *a, int max);
    /* The device's limits, measured: bytes read and written a second, f32 operations a second. NULL: not measured. */
    zt_status (*rates)(zt_engine *e, double *moved, double *computed);
} zt_engine_vt;

struct zt_engine {
    const zt_engine_vt *vt;
    zt_ctx *ctx;
    zt_compute compute; /* what lib/run makes of programs for it; a wrapper's is ZT_COMPUTE_F32 */
    bool strict_bits;   /* zt_engine_opts; a wrapper's is that of the engine inside */
    zt_engine *inner;   /* a wrapper's: the engine around which it is, owned; of others NULL */
};

/* ---- engines there are --------------------------------------------------------------------------- */

/* Opens an engine: "cpu", "ref", "auto" (here the same as "cpu"; see zt_auto_open), and "vulkan",
 * "vulkan:1", "cuda", "hip", "opencl" where built. opts NULL: defaults. ctx must outlive it. NULL with
 * ZT_EUSAGE: an unknown name; ZT_ENOTSUP: not built, no such device, or not in opts->compute. */
zt_engine *zt_engine_open(zt_ctx *ctx, const char *name, const zt_engine_opts *opts);
/* Closes engine and, of a wrapper, the engine inside. Release everything created on it first. NULL: nothing. */
void zt_engine_close(zt_engine *engine);
/* engine, or the innermost engine of a wrapper, whose vt has the name and the abilities. Borrowed. */
const zt_engine *zt_engine_inmost(const zt_engine *engine);
/* True: this build has an engine of this name, and "NAME:i" picks one of its devices. */
bool zt_engine_has_devices(const char *name);
/* Name i of the engines in this build, static; NULL past the last. */
const char *zt_engine_list(int i);
/* Lists the devices of an engine in the order of "NAME:i". Returns how many there are and fills
 * a[max] with the first of them. 0: an engine without devices. -1: no driver to ask (ZT_ENOTSUP).
 * */
int zt_engine_adapters(zt_ctx *ctx, const char *name, zt_adapter *adapter, int max);

/* zt_engine_hip is lib/engine/cuda on AMD's driver, zt_engine_opencl the same on OpenCL's. */
extern const zt_engine_vt zt_engine_ref, zt_engine_cpu, zt_engine_vulkan, zt_engine_cuda, zt_engine_hip, zt_engine_opencl;

/* Wrappers: engines around an engine, which they own and close. */
typedef enum zt_fault_at {
    ZT_FAULT_ALLOC,  /* of a state or a weight; of eager ops: of an output */
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
    const char *op;     /* KERNEL, OUTPUT: of ops of this name; NULL: of any */
    const char *tensor; /* ALLOC, UPLOAD: of the weight of this name; NULL: of any, and states */
    bool one_value;     /* OUTPUT: only value number `value` of the program (zt_prog_find) */
    int value;
    const zt_tensor *dst; /* OUTPUT of eager ops (zt_run_fault): into this tensor; NULL: any */
} zt_fault;
/* An engine for tests, which fails at the fault point: ZT_ENOMEM for ALLOC, else ZT_ESYS. *fault is
 * copied, its names are borrowed. NULL: `inner` was NULL, or no memory, and `inner` is closed. */
zt_engine *zt_engine_fault_point(zt_engine *inner, const zt_fault *fault);
/* The same for all events of one kind. */
zt_engine *zt_engine_fault(zt_engine *inner, zt_fault_at at, uint64_t nth, bool onwards);
typedef void zt_trace_fn(void *user, const zt_run_schedule *schedule, int step, double seconds);
/* An engine that calls fn(user, ...) after each step it runs. NULL: as above. */
zt_engine *zt_engine_trace(zt_engine *inner, zt_trace_fn *fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
