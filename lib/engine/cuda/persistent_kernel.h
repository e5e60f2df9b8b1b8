/* persistent_kernel.h - private to lib/engine/cuda: kernel launches of a schedule that become stages of one launch.
 *
 * A schedule is captured in two passes, which see the same launches, since a row's emit depends on its
 * call alone:
 *
 *   pass        what happens to a launch
 *   1, sizing   If persistent_kernel.cu has its kernel, it is recorded as a stage. Consecutive stages form
 *               a run, which ends at anything else (a copy, another kernel). Then all stages are copied to
 *               the device.
 *   2, capture  A launch of a run of at least ZT_CU_MIN_RUN launches is skipped. At the end of the run one
 *               cooperative launch of the persistent kernel replaces all of them.
 */
#ifndef ZT_CU_PERSISTENT_KERNEL_H
#define ZT_CU_PERSISTENT_KERNEL_H

#include "lib/engine/cuda/args_persistent_kernel.h"
#include "lib/engine/cuda/cu.h"

enum { ZT_CU_MIN_RUN = 3 }; /* the least launches that a persistent kernel replaces */

typedef struct zt_cu_persistent_kernel_run {
    int first, stage_count;
    int launches;  /* that it replaces */
    int blocks;    /* the most of a stage */
    size_t shared; /* bytes, the most of a stage */
} zt_cu_persistent_kernel_run;

struct zt_cu_persistent_kernel {
    bool captures; /* the second pass */
    zt_cu_stage *stages;
    zt_cu_persistent_kernel_run *runs;
    int n_stages, n_runs, stage_capacity, run_capacity;
    int current_run;    /* the run that launches go to */
    bool run_open;      /* it has begun */
    int unsynced;       /* the first stage since the last wait */
    int foldable_stage; /* the stage whose result the next product may make itself, or -1 */
    zt_cu_stage folded; /* what the last product makes itself; blocks 0: nothing */
    zt_cu_mem memory;   /* the grid's word, then the stages */
    uint64_t launches;  /* of the second pass */
};

/* Can this engine's device run a persistent kernel in a graph? */
bool zt_cu_persistent_kernel_fits(const zt_cu_engine *engine);
void zt_cu_persistent_kernel_begin(zt_cu_persistent_kernel *kernel, bool captures);
/* After the first pass: the stages are on the device. */
zt_status zt_cu_persistent_kernel_send(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel);
void zt_cu_persistent_kernel_free(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel);

#endif
