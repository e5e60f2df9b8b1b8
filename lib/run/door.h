/* door.h - private to lib/run: what the door and the recorder share. */
#ifndef ZT_RUN_DOOR_H
#define ZT_RUN_DOOR_H

#include "lib/run/plan.h"

typedef struct zt_recorder zt_recorder;

/* A recorder writes what ran into a program. It keeps every tensor it has seen. */
zt_recorder *zt_recorder_new(zt_ctx *ctx);
void zt_recorder_free(zt_recorder *rec);
zt_status zt_recorder_op(zt_recorder *rec, zt_op op, const void *attrs, zt_tensor *const *in,
                         zt_tensor *const *out);
/* The program, taken from the recorder; NULL on failure. */
zt_prog *zt_recorder_take(zt_recorder *rec, zt_tensor *const *outs, int n_outs);

#endif
