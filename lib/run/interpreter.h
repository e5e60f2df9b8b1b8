/* interpreter.h - a program run one op at a time, every value in host memory.
 *
 *     zt_walk *w = zt_walk_open(engine, prog, store, bindings, n_bindings, false);
 *     zt_walk_put(w, zt_prog_nth(prog, ZT_VALUE_IN, 0), bytes);
 *     for (int s = 0; s < zt_prog_n_steps(prog); s++) zt_walk_step(w, s);
 *     const float *h = zt_walk_get(w, zt_prog_find(prog, "h"));
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

typedef struct zt_walk zt_walk;

/* Binds p. Borrows engine, program and what the store stands on (NULL: the program has no data).
 * `strict`: a fallback is an error. */
zt_walk *zt_walk_open(zt_engine *e, const zt_prog *p, const zt_store *store, const zt_binding *b,
                      int n, bool strict);
void zt_walk_close(zt_walk *w); /* NULL: nothing */
zt_ctx *zt_walk_ctx(const zt_walk *w);
const zt_prog *zt_walk_prog(const zt_walk *w);
const zt_bound *zt_walk_bound(const zt_walk *w); /* every value's type, the steps' attributes */

/* The bytes of value v from now on, contiguous, of its type: a copy. Inputs must be put before a
 * step reads them; states that never were are 0; what an op made may be replaced. Not data. */
zt_status zt_walk_put(zt_walk *w, int v, const void *bytes);
/* Runs step s. A failure says which, and the name of what it makes. */
zt_status zt_walk_step(zt_walk *w, int s);
/* The bytes of v; data are read from the store. NULL: it was not put or made yet (ZT_EUSAGE), or
 * its data cannot be read. Good until it is put or made again. */
const void *zt_walk_get(zt_walk *w, int v);
bool zt_walk_has(const zt_walk *w, int v);       /* put or made, or state or data */
const char *zt_walk_engine(const zt_walk *w, int s); /* that ran step s; "" before, and of views */
int zt_walk_fallbacks(const zt_walk *w);

#ifdef __cplusplus
}
#endif
#endif
