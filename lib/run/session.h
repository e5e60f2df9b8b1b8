/* session.h - private to lib/run: a session and what it has prepared.
 *
 * A prepared replay is kept for each set of symbol values and wanted outputs seen lately. Values
 * that cross between engines, and what `keep` copies, pass through host memory that the replay
 * owns; program inputs and outputs are the caller's own memory.
 */
#ifndef ZT_RUN_SESSION_H
#define ZT_RUN_SESSION_H

#include "lib/run/eager.h"

enum { ZT_MAX_PREPARED = 8 };

typedef struct zt_replay {
    int64_t symbols[ZT_MAX_SYMBOLS];
    uint64_t used; /* clock of the last use */
    zt_bound *bound;
    zt_partition partition;
    zt_executable **executables; /* [n_segments] */
    zt_run_schedule *schedules;    /* [n_segments], in the cut's memory */
    void **host;      /* [n_values] of roots: staging owned by us, or NULL */
    const void **in;  /* scratch for a segment's pointers */
    void **out;
} zt_replay;

struct zt_session {
    zt_ctx *ctx;
    zt_chain chain;
    const zt_prog *prog;
    zt_store store;
    zt_session_opts opts;
    int64_t fixed[ZT_MAX_SYMBOLS]; /* -1: given at each step */
    zt_ebuf **buffers[ZT_MAX_CHAIN];   /* [n_values] of data and states, on each engine of the chain */
    zt_type *state_type;           /* [states], bound */
    zt_replay *cache[ZT_MAX_PREPARED];
    uint64_t clock;
    zt_session_report report;
    zt_watch watch;
    bool watched;
    /* While one is prepared: the value + 1 that the first engine did not take, or -1: the plan. */
    int no_memory_for;
};

/* session.c: the buffer of a data or state value on an engine, made when first needed there. */
zt_ebuf *zt_session_buf(zt_session *session, int engine_index, int value_id, const zt_type *type);

/* session_prepare.c: what is prepared for these symbols and outputs, or is now. NULL: an error. */
zt_replay *zt_replay_get(zt_session *session, const zt_binding *bindings, int binding_count, void *const *outputs);
void zt_replay_free(zt_session *session, zt_replay *replay); /* replay may be NULL */

#endif
