/* eager.h - private to lib/run: what eager ops, the recorder and backward share. */
#ifndef ZT_RUN_EAGER_H
#define ZT_RUN_EAGER_H

#include "lib/run/partition.h"

typedef struct zt_recorder zt_recorder;
typedef struct zt_entry zt_entry; /* an op prepared: eager.c's own */
typedef struct zt_held zt_held;   /* a tensor that is away: eager_async.c's own */

#define ZT_MAX_CACHED 64

/* A tensor whose gradient is wanted, and what has been gathered of it. */
typedef struct zt_leaf {
    zt_tensor *tensor, *gradient; /* grad NULL: none yet */
} zt_leaf;

struct zt_run {
    zt_ctx *ctx;
    zt_chain chain;
    bool strict;
    zt_entry *cache[ZT_MAX_CACHED];
    uint64_t clock, fallbacks, count[ZT_OP_COUNT];
    zt_fault fault; /* nth: events until one fails; 0: none */
    zt_tensor *into;
    zt_tensor **kept; /* tensors of all open scopes, innermost last */
    size_t n_kept, cap_kept;
    size_t *scope; /* where each scope begins in kept */
    size_t n_scopes, cap_scopes;
    size_t unopened; /* scopes begun for which there was no memory: their ends end nothing */
    zt_recorder *recorder;
    int paused;            /* above 0: what runs is not recorded */
    bool eager;            /* no op runs ahead */
    int flush_at, waiting; /* ops: handed over at so many, recorded since the last time */
    zt_held *held;
    zt_leaf *leaves;
    size_t n_leaves, cap_leaves;
};

/* Room for one more in a growing array of items of `size` bytes; `array` is the array's address. */
zt_status zt_run_grow(zt_ctx *ctx, void *array, size_t n, size_t *cap, size_t size);
/* Gives the innermost scope a tensor; NULL, or no memory (the tensor is released): a failure. */
zt_status zt_run_take(zt_run *run, zt_tensor *tensor);
bool zt_shares_bytes(const zt_tensor *a, const zt_tensor *b);
/* Tells the context's metrics of an op that ran. */
void zt_run_metrics(zt_ctx *ctx, zt_op op, const zt_type *output_types, bool fell_back);

/* ---- eager_async.c ---------------------------------------------------------------------------------- */

/* Enqueues a queued schedule of one op: out[] are whole fresh tensors, which are away then. */
zt_status zt_eager_async_op(zt_run *run, zt_engine *engine, zt_executable *ready, const zt_opinfo *op_info,
                            zt_tensor *const *inputs, zt_tensor *const *outputs);
void zt_eager_async_bring(zt_run *run); /* all that is away */

/* ---- record.c -------------------------------------------------------------------------------- */

/* A recorder writes what ran into a program. It keeps every tensor it has seen. */
zt_recorder *zt_recorder_new(zt_ctx *ctx);
void zt_recorder_free(zt_recorder *rec);
/* `into`: the first output lies in a tensor that was there already. */
zt_status zt_recorder_op(zt_recorder *rec, zt_op op, const void *attrs, zt_tensor *const *inputs, zt_tensor *const *outputs,
                         bool into);
/* An op that is not recorded wrote into `dst`: what was recorded of these bytes is history. */
void zt_recorder_wrote(zt_recorder *rec, const zt_tensor *dst);
/* The program, taken from the recorder; NULL on failure. */
zt_prog *zt_recorder_take(zt_recorder *rec, zt_tensor *const *outs, int n_outs);
/* t is data of that name from now on. */
zt_status zt_recorder_freeze(zt_recorder *rec, zt_tensor *t, const char *tensor);
zt_status zt_recorder_save(const zt_recorder *rec, const char *path, bool force);
/* The program so far. */
const zt_prog *zt_recorder_prog(const zt_recorder *rec);
/* The value that a tensor holds now, or -1. */
int zt_recorder_value(const zt_recorder *rec, const zt_tensor *tensor);
/* Did tensor hold a value v with among[v] >= 0 that was written over? */
bool zt_recorder_lost(const zt_recorder *rec, const zt_tensor *tensor, const int *among);
/* tensor[v], [values of the program]: who still holds value v; borrowed, NULL: nobody. */
void zt_recorder_tensors(const zt_recorder *rec, zt_tensor **tensor);

/* ---- grad.c ---------------------------------------------------------------------------------- */

/* zt_prog_grad; map[v] of each value of program (there is room for one more) is its number in the
 * result, or -1. The gradients are the last n outputs. */
zt_prog *zt_grad_pass(zt_ctx *ctx, const zt_prog *program, const int *wrt, int n, const zt_grad_opts *opts, int *map);

#endif
