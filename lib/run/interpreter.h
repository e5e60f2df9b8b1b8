/* interpreter.h - a program run one op at a time, every value in host memory.
 *
 *     zt_interpreter *w = zt_interpreter_open(engine, prog, store, bindings, n_bindings, false);
 *     zt_interpreter_put(w, zt_prog_nth(prog, ZT_VALUE_IN, 0), bytes);
 *     for (int s = 0; s < zt_prog_n_steps(prog); s++) zt_interpreter_step(w, s);
 *     const float *h = zt_interpreter_get(w, zt_prog_find(prog, "h"));
 *
 * Each op is a plan of its own on the engine, or on what that falls back to, and is given exactly
 * the bytes that the walk holds: what it makes depends on nothing else, and can be looked at and
 * replaced before the next op reads it. No value is ever written over: a donated cache and what
 * the op made of it are both there. For comparing, never for speed.
 */
#ifndef ZT_INTERPRETER_H
#define ZT_INTERPRETER_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_interpreter zt_interpreter;

/* Binds p. Borrows engine, program and what the store stands on (NULL: the program has no data).
 * `strict`: a fallback is an error. */
zt_interpreter *zt_interpreter_open(zt_engine *e, const zt_prog *p, const zt_store *store, const zt_binding *b,
                      int n, bool strict);
void zt_interpreter_close(zt_interpreter *w); /* NULL: nothing */
zt_ctx *zt_interpreter_ctx(const zt_interpreter *w);
const zt_prog *zt_interpreter_prog(const zt_interpreter *w);
const zt_bound *zt_interpreter_bound(const zt_interpreter *w); /* every value's type, the steps' attributes */

/* The bytes of value v from now on, contiguous, of its type: a copy. Inputs must be put before a
 * step reads them; states that never were are 0; what an op made may be replaced. Not data. */
zt_status zt_interpreter_put(zt_interpreter *w, int v, const void *bytes);
/* Runs step s. A failure says which, and the name of what it makes. */
zt_status zt_interpreter_step(zt_interpreter *w, int s);
/* The bytes of v; data are read from the store. NULL: it was not put or made yet (ZT_EUSAGE), or
 * its data cannot be read. Good until it is put or made again. */
const void *zt_interpreter_get(zt_interpreter *w, int v);
bool zt_interpreter_has(const zt_interpreter *w, int v);       /* put or made, or state or data */
const char *zt_interpreter_engine(const zt_interpreter *w, int s); /* that ran step s; "" before, and of views */
int zt_interpreter_fallbacks(const zt_interpreter *w);

#ifdef __cplusplus
}
#endif
#endif
