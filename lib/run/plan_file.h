/* plan_file.h - plan files: programs after the passes, with engines and memory offsets in the text.
 *
 * A plan is a program's text, and can be read as one. What was decided is in comments of their own
 * kind, which zt_plan_file_parse reads and checks:
 *
 *     #plan engine cpu isa=avx512              what it was made for
 *     #plan passes cse dead fuse share         those that ran
 *     #plan bind n=1 m=1 ctx=64 out=logits     for these numbers, and these outputs wanted,
 *     #plan split cpu 0..396 arena=16896 bound=16896    steps and engine, bytes, their lower bound,
 *     #plan at h0 0 2304                       a value, its offset and bytes in the split's arena;
 *     #plan at x1 0 2304 over h0               over another, which dies there
 *
 * A session opened with a plan (zt_session_opts) lays memory out as it says, for what it states,
 * and as it would without a plan for the rest. The plan is validated when the session is opened: a
 * value without a place, places that overlap while both are needed, or another split are ZT_EDATA.
 */
#ifndef ZT_PLAN_FILE_H
#define ZT_PLAN_FILE_H

#include "lib/run/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_plan_file zt_plan_file;

typedef struct zt_plan_file_opts {
    zt_engine *engine;
    zt_isa isa;   /* what the engine was opened with */
    unsigned off; /* passes that did not run */
    /* What memory is planned for: the numbers of all symbols. Each is stated with all outputs
     * wanted and, of a program of several, with each of them alone. */
    const zt_binding *bind;
    int n_bind;
} zt_plan_file_opts;

/* Appends the plan's text to `out`. program has gone through the passes. Memory is planned only where
 * o->bind has a number for every symbol of program; o->engine is required then. */
zt_status zt_plan_file_print(const zt_prog *program, const zt_plan_file_opts *opts, zt_str *output_text);

/* Parses length bytes of text. `name` is for messages and only read here. NULL with ZT_EDATA: not a
 * valid program or plan, an unknown pass or engine, or a malformed number. */
zt_plan_file *zt_plan_file_parse(zt_ctx *ctx, const char *name, const char *text, size_t length);
void zt_plan_file_free(zt_plan_file *plan); /* and its program; NULL: nothing */
/* What the plan holds; the program and the name live as long as it does. */
const zt_prog *zt_plan_file_prog(const zt_plan_file *plan);
const char *zt_plan_file_engine(const zt_plan_file *plan); /* the engine it was made for, "cpu" */
zt_isa zt_plan_file_isa(const zt_plan_file *plan);         /* the instruction set it was made for */
unsigned zt_plan_file_off(const zt_plan_file *plan);       /* bit i: pass i did not run */

#ifdef __cplusplus
}
#endif
#endif
