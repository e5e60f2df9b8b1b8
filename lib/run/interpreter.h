/* interpreter.h - a program run one op at a time, every value in host memory.
 *
 *     zt_interpreter *w = zt_interpreter_open(engine, prog, store, bindings, n_bindings, false);
 *     zt_interpreter_put(w, zt_prog_nth(prog, ZT_VALUE_IN, 0), bytes);
 *     for (int s = 0; s < zt_prog_n_steps(prog); s++) zt_interpreter_step(w, s);
 *     const float *h = zt_interpreter_get(w, zt_prog_find(prog, "h"));
 *
 * Each op runs as a schedule of one step on the engine, or on a fallback, and reads exactly the
 * bytes that the interpreter holds. So its result depends on nothing else, and can be read and
 * replaced before the next op reads it. No value is ever overwritten: a donated cache and what the
 * op made of it are both there. For comparing, never for speed.
 */
#ifndef ZT_INTERPRETER_H
#define ZT_INTERPRETER_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_interpreter zt_interpreter;

/* Binds program with binding_count symbols. Borrows engine, program and what `store` reads from (NULL:
 * program has no data). `strict`: a fallback is an error. NULL: failed, see the engine's context. */
zt_interpreter *zt_interpreter_open(zt_engine *engine, const zt_prog *program, const zt_store *store, const zt_binding *bindings,
                                    int binding_count, bool strict);
void zt_interpreter_close(zt_interpreter *interpreter); /* NULL: nothing */
/* What it was opened on: the context, the program, and the program bound (every value's type, the
 * steps' attributes). Borrowed; the last lives as long as interpreter. */
zt_ctx *zt_interpreter_ctx(const zt_interpreter *interpreter);
const zt_prog *zt_interpreter_prog(const zt_interpreter *interpreter); /* as it was given */
const zt_bound *zt_interpreter_bound(const zt_interpreter *interpreter);

/* Sets the value to a copy of `bytes`: contiguous, of the value's type. Inputs must be put before a step
 * reads them; a state that was not put is 0; what an op made may be replaced. ZT_EUSAGE: the value is not
 * in the program, or is data. */
zt_status zt_interpreter_put(zt_interpreter *interpreter, int value_id, const void *bytes);
/* Runs the step (not in the program: ZT_EUSAGE). The message of a failure names the step and the
 * value that it makes. */
zt_status zt_interpreter_step(zt_interpreter *interpreter, int step_index);
/* The bytes of the value; data are read from the store. NULL: the value was neither put nor made
 * (ZT_EUSAGE), or its data cannot be read. Valid until the value is put or made again. */
const void *zt_interpreter_get(zt_interpreter *interpreter, int value_id);
bool zt_interpreter_has(const zt_interpreter *interpreter, int value_id); /* put or made, or is state or data */
/* The name of the engine that ran the step; "": it has not run, or is a view. */
const char *zt_interpreter_engine(const zt_interpreter *interpreter, int step_index);
int zt_interpreter_fallbacks(const zt_interpreter *interpreter); /* steps run on a fallback engine */

#ifdef __cplusplus
}
#endif
#endif
