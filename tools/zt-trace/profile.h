/* profile.h - private to zt-trace: a program that is run and watched, and what its steps cost. */
#ifndef ZT_TRACE_PROFILE_H
#define ZT_TRACE_PROFILE_H

#include "lib/run/cost.h"
#include "tools/zt-trace/trace.h"

/* What a thread, or a queue, did for one step, in seconds from the first. */
typedef struct trace_slice {
    int step, track;
    double begin, end;
} trace_slice;

/* A program with times, measured or read. Steps are the program's. */
typedef struct trace_look {
    zt_cli *cli;
    const zt_prog *p;
    const zt_bound *b;    /* the subject's */
    zt_subject *subject;
    zt_engine *engine;    /* NULL: times were read */
    zt_session *session;  /* likewise */
    double *seconds;      /* [steps] of one replay, by the clock; 0: did not run */
    const char **ran_on;  /* [steps]: an engine's name; "" not known */
    int *root;            /* [values]: whose memory a view or what a donating op makes is */
    int64_t filled;       /* rows of a cache that positions reach; -1: not known */
    double replay;        /* seconds of a replay that nobody watches; 0: not known */
    trace_slice *slice;   /* [n_slices] of that replay, in order of their beginning */
    size_t n_slices;
} trace_look;

/* Opens the subject, and runs it unless --times is given. p is borrowed. Close it also when this
 * fails. */
zt_status trace_look_open(trace_look *l, zt_cli *cli, const trace_options *options, const zt_prog *program,
                          char **operands, int n);
void trace_look_close(trace_look *l);

/* A session for memory, prepared and not run. */
zt_status trace_look_prepare(trace_look *l, zt_cli *cli, const trace_options *options, const zt_prog *program,
                             char **operands, int n);

/* "f32[2,64] q8_0[5,64] -> f32[2,5]" */
void trace_types_of(const trace_look *l, int s, zt_str *out);

/* In order of their beginning, the first at 0. */
void trace_sort_slices(trace_look *l);
/* Reads --times into seconds and slices (times.c). */
zt_status trace_times_read(trace_look *l, const char *path);

#endif
