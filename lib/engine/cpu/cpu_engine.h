/* cpu_engine.h - private to lib/engine/cpu: the engine, its buffers and its prepared plans.
 *
 * Files: cpu.c the vtable and memory, weights.c how weights are loaded, prepare.c from a plan to
 * calls and stages, prefetch.c which weights come next,
 * replay.c running them, convert_operands.c operands of other types through f32 and f64.
 */
#ifndef ZT_CPU_CPU_ENGINE_H
#define ZT_CPU_CPU_ENGINE_H

#include "lib/engine/cpu/cpu.h"

/* ---- buffers --------------------------------------------------------------------------------- */

/* Weights and states are cut from slabs, so that small ones share huge pages (weights) or stay
 * untouched until used (states). A slab goes when the last buffer in it goes. */
typedef struct zt_cpu_slab zt_cpu_slab;
struct zt_cpu_slab {
    zt_cpu_slab *next;
    uint8_t *data;
    size_t bytes, used;
    int64_t buffers;
};

struct zt_ebuf {
    zt_type type;
    void *data;
    size_t bytes;
    bool packed; /* data in the form of pack.h, else plain */
    zt_cpu_slab *slab;
    void *plain; /* of packed: a plain copy for ops that read no packed weights, blocks as f32; or
                    NULL */
    size_t plain_bytes;
    bool in_store; /* a large table that is not loaded: its rows are read from `store` as they are gathered */
    zt_store store;
    int64_t handle;
};

/* ---- the engine ------------------------------------------------------------------------------ */

typedef struct zt_cpu_engine {
    zt_engine base;
    zt_pool *pool;
    zt_cpu_tile tile;
    const zt_cpu_kernel *kernel[ZT_OP_COUNT][4]; /* for each op those of its family's list, in order */
    zt_cpu_slab *weights, *states;               /* lists */
    /* Scratch of all prepared plans: arena, then shared, then one local for each thread. Replays
     * are synchronous, so nothing lives here between them. */
    uint8_t *scratch;
    size_t arena_bytes, shared_bytes, local_bytes;
    uint64_t moved; /* counts its moves: prepared plans then take their addresses anew */
    zt_engine_report report;
} zt_cpu_engine;

/* The kernel for an op and types, or NULL. */
const zt_cpu_kernel *zt_cpu_find(const zt_cpu_engine *engine, zt_op op, const void *attrs, const zt_type *const in[],
                                 const zt_type out[]);
/* convert_operands.c: what takes operands that no kernel of a family takes. */
extern const zt_cpu_kernel zt_cpu_convert_operands, zt_cpu_plain_loop;
bool zt_cpu_widen_types(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[], zt_type wide_in[],
                        zt_type wide_out[]);
bool zt_cpu_needs_plain_loop(zt_op op, const zt_type *const in[], const zt_type out[]);
/* Make the scratch at least so large. */
zt_status zt_cpu_reserve(zt_cpu_engine *engine, size_t arena, size_t shared, size_t local);
static inline void *zt_cpu_local(const zt_cpu_engine *engine, int thread)
{
    return engine->scratch + engine->arena_bytes + engine->shared_bytes + (size_t)thread * engine->local_bytes;
}
void zt_cpu_count_bytes(zt_cpu_engine *engine, size_t more, size_t less); /* bytes held, for the report */

/* A buffer of `bytes` from the list of slabs. */
zt_ebuf *zt_cpu_buffer(zt_cpu_engine *engine, zt_cpu_slab **list, const zt_type *type, size_t bytes);
void zt_cpu_buffer_free(zt_cpu_engine *engine, zt_ebuf *buffer);
zt_ebuf *zt_cpu_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle);
/* Loads a table after all, for an op other than gather. */
zt_status zt_cpu_load_table(zt_cpu_engine *engine, zt_ebuf *buffer);
/* gather from a table in its store; in[0].data is the buffer. */
extern const zt_cpu_kernel zt_cpu_gather_stored;
/* The plain form of a packed weight (of block types f32), made when first wanted. */
void *zt_cpu_plain_copy(zt_cpu_engine *engine, zt_ebuf *buffer);

/* ---- prepared plans -------------------------------------------------------------------------- */

/* Calls that run side by side: no call of a stage reads what another writes. */
typedef struct zt_cpu_stage {
    int first, call_count;
    bool solo; /* so little work that one thread does it, call after call (they may depend) */
} zt_cpu_stage;

/* A piece of work that one thread takes: items of one phase of a call, or all of some calls. */
typedef struct zt_cpu_part {
    _Alignas(64) unsigned taken; /* the replay (zt_executable.replay) in which a thread took it last */
    int task, call_count;        /* calls from `task` on, one after the other, whole; 0: items begin..end-1 of one phase */
    int phase;
    int64_t begin, end;
} zt_cpu_part;

/* One phase of a stage. Its parts may be done at the same time, and all of them are done before the next round begins.
 * A thread begins with its own parts, in order, as it prefetched their weights; then it takes parts that others have
 * not begun. So a thread that the system keeps waiting delays nobody, but for the part that it has begun. */
typedef struct zt_cpu_round {
    _Alignas(64) zt_gate gate; /* parts done, in all replays */
    int32_t part_count;
    zt_cpu_part *part;
} zt_cpu_round;

/* The first of a thread's own parts, of part_count. */
static inline int32_t zt_cpu_first_part(int32_t part_count, int thread, int threads)
{
    return (int32_t)((int64_t)part_count * thread / threads);
}

/* What a thread reads of weights in a round; or, where there is a call, of states: its kernel's prefetch_states says
 * what items begin..end-1 read. */
typedef struct zt_cpu_prefetch_item {
    int round; /* INT_MAX: the end of a list */
    zt_cpu_prefetch weights;
    const zt_cpu_call *call;
    int64_t begin, end;
} zt_cpu_prefetch_item;
/* Bytes that a thread prefetches of a round: they stay in its second-level cache. */
enum { ZT_CPU_PREFETCH_BYTES = 256 << 10 };

/* An argument in host memory, whose address comes with each replay. */
typedef struct zt_cpu_host {
    void **data;
    bool out; /* among the replay's outputs, else its inputs */
    int index;
} zt_cpu_host;

typedef struct zt_cpu_task {
    zt_cpu_call call;
    int step; /* of the plan */
    zt_place in[ZT_MAX_IN], out[ZT_MAX_OUT];
    size_t shared_at; /* of its shared scratch in the engine's */
    double work;      /* an estimate: operations and values moved */
} zt_cpu_task;

struct zt_executable {
    zt_arena *memory;     /* holds all but task, round, part and keep */
    zt_run_schedule plan; /* a copy: watches look at it */
    zt_cpu_task *task;
    int n_tasks;
    zt_cpu_stage *stage;
    int n_stages;
    zt_cpu_round *round;
    zt_cpu_part *part; /* of all rounds */
    int n_rounds;
    unsigned replay;                       /* counts from 1 */
    const zt_cpu_prefetch_item **prefetch; /* of each thread, by rounds; NULL: nothing is prefetched */
    uint8_t *keep;                         /* what kernels keep */
    size_t keep_bytes;
    zt_cpu_host *host;
    size_t n_hosts;
    uint64_t moved; /* of the engine, when the addresses were taken */
};

zt_executable *zt_cpu_prepare(zt_engine *engine, const zt_run_schedule *plan);
void zt_cpu_unprepare(zt_engine *engine, zt_executable *executable);
/* prefetch.c: fills executable->prefetch, from addresses. */
zt_status zt_cpu_list_prefetches(const zt_cpu_engine *engine, zt_executable *executable);
/* Takes the addresses of everything but IN and OUT anew. */
void zt_cpu_resolve(zt_cpu_engine *engine, zt_executable *executable);
zt_status zt_cpu_replay(zt_engine *engine, zt_executable *executable, const void *const *in, void *const *out,
                        const zt_watch *watch);

#endif
