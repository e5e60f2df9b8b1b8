/* persistent_kernel.h - private to lib/engine/cuda: launches of a plan that become stages of one.
 *
 * A plan is captured in two passes. The first, with `sizing` set, launches nothing: launches whose
 * kernels persistent_kernel.cu has are written down as stages, in runs that end where something else comes (a
 * copy, another kernel). Then the stages go to the device. In the second, the capture itself, the
 * launches of a run that is long enough are passed over, and where it ends one cooperative launch
 * stands for them. Both see the same launches, since a row's emit depends on its call alone.
 */
#ifndef ZT_CU_PERSISTENT_KERNEL_H
#define ZT_CU_PERSISTENT_KERNEL_H

#include "lib/engine/cuda/args_persistent_kernel.h"
#include "lib/engine/cuda/cu.h"

enum { ZT_CU_MIN_RUN = 3 }; /* launches that are worth a kernel that stays */

typedef struct zt_cu_persistent_kernel_run {
    int first, stage_count;      /* stages */
    int launches;      /* that they stand for */
    int blocks;        /* the most of a stage */
    size_t shared;     /* bytes, the most of a stage */
} zt_cu_persistent_kernel_run;

struct zt_cu_persistent_kernel {
    bool captures; /* the second pass */
    zt_cu_stage *stages;
    zt_cu_persistent_kernel_run *runs;
    int n_stages, n_runs, stage_capacity, run_capacity;
    int current_run;     /* the run that launches go to */
    bool run_open;  /* it has begun */
    int unsynced;  /* the first stage since the last wait */
    int foldable_stage; /* the stage whose result the next product may make itself, or -1 */
    zt_cu_stage folded; /* what the last product makes itself; blocks 0: nothing */
    zt_cu_mem memory;      /* the grid's word, then the stages */
    uint64_t launches;  /* of the second pass */
};

/* May plans of this engine have one? */
bool zt_cu_persistent_kernel_fits(const zt_cu_engine *engine);
void zt_cu_persistent_kernel_begin(zt_cu_persistent_kernel *kernel, bool plays);
/* After the first pass: the stages are on the device. */
zt_status zt_cu_persistent_kernel_send(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel);
void zt_cu_persistent_kernel_free(zt_cu_engine *engine, zt_cu_persistent_kernel *kernel);

#endif
