/* bind_inputs.h - what a program needs to be run once: numbers for its symbols, and its inputs,
 * states and data, by name from files or drawn from a seed.
 *
 *     zt_checkpoint *c = zt_checkpoint_open(ctx, "in.npz", 0);
 *     zt_binding b[ZT_MAX_SYMBOLS] = {{"ctx", 64}};
 *     int n = 1;
 *     zt_bound_inputs_symbols(ctx, p, c, b, &n);                // those that follow from shapes
 *     zt_bound_inputs *f = zt_bound_inputs_new(ctx, p, &(zt_bound_inputs_opts){.bind = b, .n_bind = n, .from = c});
 *     zt_session_opts o = {.fixed = b, .n_fixed = n};
 *     zt_session *s = zt_session_open(e, p, &f->store, &o);
 *     zt_bound_inputs_states(f, s);
 *     zt_session_step(s, b, n, (const void *const *)f->in, f->out);
 */
#ifndef ZT_BIND_INPUTS_H
#define ZT_BIND_INPUTS_H

#include "lib/io/checkpoint.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Infers symbols from shapes: for each symbol that bindings[0..*n) lacks and that is a dimension of an
 * input or state for which `from` has an array, appends its value to bindings (room for ZT_MAX_SYMBOLS)
 * and counts *n up. The symbols' names are the program's. zt_bound_inputs_new finds contradictions. */
zt_status zt_bound_inputs_symbols(zt_ctx *ctx, const zt_prog *program, zt_checkpoint *from, zt_binding *bindings, int *n);

typedef struct zt_bound_inputs_opts {
    const zt_binding *bind;
    int n_bind;
    zt_checkpoint *from;   /* inputs and states by name; one array without a name (npy) is the
                            * input of a program that has but one. NULL: none */
    const zt_store *store; /* data by the name of its tensor; NULL: none */
    bool counts;           /* an input 'counter', i64 without rows, that is not in `from` is 0 */
    bool draw;             /* inputs that are not in `from` are drawn, else ZT_EDATA */
    bool draw_data;        /* data that is not in `store` is drawn; false: the session fails without it */
    uint64_t seed;
} zt_bound_inputs_opts;

typedef struct zt_bound_inputs {
    zt_ctx *ctx;
    const zt_prog *prog;
    zt_bound *bound;
    zt_store store; /* for a session: opts.store, and what was drawn of data */
    /* Host memory, contiguous, of the bound types: [inputs], [outputs], and [states] (NULL: begins
     * cleared) and [data] (NULL: the store has it). */
    void **in, **out, **state, **data;
    const zt_store *below;
    int64_t n_data;
} zt_bound_inputs;

/* Binds program and fills its inputs, states and data. NULL with ZT_EDATA: an array does not have the
 * type that the program expects (the message names both), or an input is missing and not drawn. Borrows program
 * and what the options name, except `bind`, until zt_bound_inputs_free. */
zt_bound_inputs *zt_bound_inputs_new(zt_ctx *ctx, const zt_prog *program, const zt_bound_inputs_opts *options);
void zt_bound_inputs_free(zt_bound_inputs *bound_inputs); /* NULL: nothing */
/* Sets the states of session, a session on the same program and symbols: those that bound_inputs has,
 * the others to zero. */
zt_status zt_bound_inputs_states(const zt_bound_inputs *bound_inputs, zt_session *session);

/* ZT_OK if g is the model that program names, or program names none; ZT_EDATA if the program's model
 * id is another. */
zt_status zt_prog_check_model(zt_ctx *ctx, const zt_prog *program, const zt_gguf *g);
/* The same for a model with this name (for messages) and id (32 hex digits). */
zt_status zt_prog_check_id(zt_ctx *ctx, const zt_prog *program, const char *name, const char *id);

/* Draws value v of a bound program into destination: contiguous host memory of zt_type_bytes of v's type.
 * The draw depends on the seed and v's name, so programs that share an input get the same numbers.
 * Floats: normal, deviation 1. Integers by the ops that read them: positions rise from 0, sequences
 * are 0, a block table gives each sequence its own blocks, indices are in range. */
void zt_bound_inputs_draw(const zt_bound *bound, int v, uint64_t seed, void *destination);

#ifdef __cplusplus
}
#endif
#endif
