/* f64_interpreter.h - for tests: a bound program on the rows' reference loops, every value in f64 from input
 * to output (the ref engine rounds at its borders to the values' own types). */
#ifndef ZT_F64_INTERPRETER_H
#define ZT_F64_INTERPRETER_H

#include "lib/prog/prog.h"

#include <stdlib.h>
#include <string.h>

typedef struct f64run {
    const zt_prog *p;
    zt_bound *b;
    zt_arg *arg; /* of each value */
} f64run;

/* NULL-safe; the program is bound without symbols. False: it does not bind. */
static inline bool f64run_open(f64run *r, const zt_prog *program)
{
    *r = (f64run){.p = program, .b = zt_prog_bind(program, NULL, 0)};
    if (!r->b) return false;
    r->arg = calloc((size_t)r->b->n_values + 1, sizeof *r->arg);
    for (int v = 0; v < r->b->n_values; v++) {
        const zt_type *its_type = &r->b->type[v];
        void *data = calloc((size_t)zt_type_count(its_type) + 1, 8);
        r->arg[v].type = its_type;
        if (zt_dtype_is_float(its_type->dtype))
            r->arg[v].f = data;
        else
            r->arg[v].i = data;
    }
    return true;
}

static inline void f64run_close(f64run *r)
{
    for (int v = 0; r->b && v < r->b->n_values; v++) free(r->arg[v].f ? (void *)r->arg[v].f : (void *)r->arg[v].i);
    free(r->arg);
    zt_bound_free(r->b);
}

/* Inputs and data lie in r->arg[value]; afterwards what the first count steps make does. The first
 * trouble met. */
static inline zt_runtime_error f64run_steps(f64run *r, int count)
{
    zt_runtime_error t = {0};
    for (int s = 0; s < count; s++) {
        const zt_step *st = zt_prog_step(r->p, s);
        const zt_opinfo *info = zt_op_info(st->op);
        zt_arg in[ZT_MAX_IN] = {0}, out[ZT_MAX_OUT] = {0};
        for (int k = 0; k < info->n_in; k++)
            if (st->in[k] >= 0) in[k] = r->arg[st->in[k]];
        for (int k = 0; k < info->n_out; k++)
            if (st->out[k] >= 0) out[k] = r->arg[st->out[k]];
        for (int k = 0; k < info->def->donates; k++) memcpy(out[k].f, in[k].f, (size_t)zt_type_count(in[k].type) * 8);
        info->def->ref(r->b->attrs[s], in, out, &t);
    }
    return t;
}

/* All of them. */
static inline zt_runtime_error f64run_go(f64run *r) { return f64run_steps(r, zt_prog_n_steps(r->p)); }

static inline zt_arg *f64run_out(f64run *r, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(r->p); o++)
        if (!strcmp(zt_prog_output(r->p, o)->name, name)) return &r->arg[zt_prog_output(r->p, o)->value];
    return NULL;
}

#endif
