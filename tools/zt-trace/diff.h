/* diff.h - private to zt-trace: what diff and its --replay share. */
#ifndef ZT_TRACE_DIFF_H
#define ZT_TRACE_DIFF_H

#include "tools/zt-trace/trace.h"

/* One of the two that are compared. */
typedef struct diff_side {
    const char *path; /* of its program */
    zt_prog *program; /* the second's: its own only where there are two programs */
    zt_engine *engine;
    zt_interpreter *interpreter;
} diff_side;

typedef struct diff_job {
    zt_cli *cli;
    const trace_options *options;
    diff_side sides[2];
    bool two_programs;
    zt_diff_opts diff_options;
    zt_subject *subject; /* of the first program */
} diff_job;

/* "3", "run.zt:31" or, of a program that was not parsed, "step 3". */
const char *diff_where(const diff_side *side, int step, char *text, size_t capacity);
/* "[3,17]" */
const char *diff_index(const zt_type *type, int64_t element, char *text, size_t capacity);
const char *diff_number(double number, char text[32]);
/* Tells of an output that is beyond its bound, in words. */
void diff_tell(const diff_job *job, const zt_diff_item *item);

/* replay.c: one op, with the inputs that it has there. */
zt_status diff_replay(diff_job *job);

#endif
