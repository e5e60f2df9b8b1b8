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
typedef struct trace_profile {
    zt_cli *cli;
    const zt_prog *program;
    const zt_bound *bound; /* the subject's */
    zt_subject *subject;
    zt_engine *engine;   /* NULL: times were read */
    zt_session *session; /* NULL: times were read */
    double *seconds;     /* [steps] of one replay, by the clock; 0: did not run */
    const char **ran_on; /* [steps]: an engine's name; "" not known */
    int *root;           /* [values]: whose memory a view or what a donating op makes is */
    int64_t filled;      /* rows of a cache that positions reach; -1: not known */
    double replay;       /* seconds of a replay that nobody watches; 0: not known */
    trace_slice *slices; /* [n_slices] of that replay, in order of their beginning */
    size_t n_slices;
} trace_profile;

/* Opens the subject, and runs it unless --times is given. program is borrowed. Close it also when this
 * fails. */
zt_status trace_profile_open(trace_profile *profile, zt_cli *cli, const trace_options *options, const zt_prog *program,
                             char **operands, int operand_count);
void trace_profile_close(trace_profile *profile);

/* A session for memory, prepared and not run. */
zt_status trace_profile_prepare(trace_profile *profile, zt_cli *cli, const trace_options *options, const zt_prog *program,
                                char **operands, int operand_count);

/* "f32[2,64] q8_0[5,64] -> f32[2,5]" */
void trace_types_of(const trace_profile *profile, int step_index, zt_str *output_text);

/* In order of their beginning, the first at 0. */
void trace_sort_slices(trace_profile *profile);
/* Reads --times into seconds and slices (times.c). */
zt_status trace_times_read(trace_profile *profile, const char *path);

#endif
