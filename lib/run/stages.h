/* stages.h - a program in stages: consecutive parts of its steps, each run by a rank of its own (pipeline parallelism).
 *
 *     zt_stages *stages = zt_stages_open(ctx, ranks, program, fixed, n_fixed);
 *     zt_prog *part = zt_stages_prog(stages);            // this rank's; passes may follow
 *     zt_session *session = zt_session_open(engine, part, store, opts);
 *     rank 0:  zt_stages_step(stages, session, bindings, n, inputs, outputs);  ...  zt_stages_end(stages);
 *     others:  zt_stages_serve(stages, session);         // until rank 0 ends
 *
 * The steps are divided so that the largest stage has the fewest bytes of data and states, and only where few values cross: between
 * the layers of a model. Ranks 1, 2 ... have the first stages, and rank 0 the last one, whose outputs are the program's.
 * A step passes the inputs to all ranks and the values that cross from stage to stage. The bits are those of the whole program.
 */
#ifndef ZT_STAGES_H
#define ZT_STAGES_H

#include "lib/base/ranks.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_stages zt_stages;

/* Divides a program, which is borrowed, among all ranks; each of them must call it, with the same program. fixed: the symbols that
 * never change. NULL: ZT_EUSAGE, the program cannot be divided among so many, or ranks have different programs. */
zt_stages *zt_stages_open(zt_ctx *ctx, zt_ranks *ranks, const zt_prog *program, const zt_binding *fixed, int n_fixed);
void zt_stages_close(zt_stages *stages); /* NULL: no effect */

/* A new program of this rank's steps: the whole program's inputs, then values of the stage before it; outputs for the stage behind
 * it, or the whole program's. The caller frees it. NULL on error. */
zt_prog *zt_stages_prog(const zt_stages *stages);
size_t zt_stages_bytes(const zt_stages *stages); /* of the data and states of this rank's stage */

/* On rank 0, a step of the whole program, as zt_session_step; session: of this rank's part. The status of another rank that fails. */
zt_status zt_stages_step(zt_stages *stages, zt_session *session, const zt_binding *bindings, int n, const void *const *inputs,
                         void *const *outputs);
/* On other ranks: takes part in the steps of rank 0 until zt_stages_end. */
zt_status zt_stages_serve(zt_stages *stages, zt_session *session);
/* On rank 0: no more steps; the other ranks return from zt_stages_serve. */
zt_status zt_stages_end(zt_stages *stages);

#ifdef __cplusplus
}
#endif
#endif
