/* bind.c - owns binding: symbols become numbers, and the ops' rules give every type.
 *
 * It runs for each new number of rows, between two tokens, so it makes one allocation: the bound
 * program, its types and attribute pointers, the expressions' values, and copies of only those
 * attributes that have expressions in them.
 */
#include "lib/prog/list.h"

#include <inttypes.h>
#include <string.h>

typedef struct binder {
    const zt_prog *p;
    zt_bound *b;
    int64_t *value; /* of the program's expressions */
    char *attrs;    /* room for attributes that are copied */
    zt_ctx *own;    /* where inference leaves its sentence, before the step is put before it */
} binder;

/* Sizes are sums of at most ZT_MAX_LIST small things each. */
static bool layout(binder *w)
{
    const zt_prog *program = w->p;
    size_t types = (sizeof *w->b + 15) & ~(size_t)15;
    size_t pointers = types + (size_t)program->values.n * sizeof *w->b->type;
    size_t values = pointers + (size_t)program->steps.n * sizeof *w->b->attrs;
    size_t attrs = (values + (size_t)program->exprs.n * sizeof *w->value + 15) & ~(size_t)15;
    char *at = zt_alloc(program->ctx, attrs + program->symbolic_bytes);
    if (!at) return false;
    w->b = (zt_bound *)at;
    *w->b = (zt_bound){.prog = program,
                       .n_values = program->values.n,
                       .type = (zt_type *)(at + types),
                       .n_steps = program->steps.n,
                       .attrs = (const void **)(at + pointers)};
    w->value = (int64_t *)(at + values);
    w->attrs = at + attrs;
    return true;
}

static zt_status bind_symbols(binder *w, const zt_binding *bindings, int n)
{
    const zt_prog *program = w->p;
    int64_t symbol[ZT_MAX_SYMBOLS] = {0};
    for (int i = 0; i < program->n_symbols; i++) {
        int k = 0;
        while (k < n && strcmp(bindings[k].symbol, program->symbol[i]) != 0) k++;
        if (k == n) return zt_fail(program->ctx, ZT_EUSAGE, "symbol '%s' has no value", program->symbol[i]);
        if (bindings[k].value < 0)
            return zt_fail(program->ctx, ZT_EUSAGE, "symbol '%s' is %" PRId64 ", below 0", program->symbol[i],
                           bindings[k].value);
        symbol[i] = bindings[k].value;
    }
    return zt_dims_eval(program, symbol, w->value);
}

static zt_status bind_declared(binder *w)
{
    const zt_prog *program = w->p;
    for (int v = 0; v < program->values.n; v++) {
        const zt_value *value = zt_prog_value(program, v);
        zt_type *type = &w->b->type[v];
        *type = value->type;
        zt_status status = zt_dims_bind(program, w->value, type->rank, type->dim);
        if (status) return status;
        if (value->kind != ZT_VALUE_OP && !zt_type_check(w->own, type, NULL))
            return zt_fail(program->ctx, ZT_ESHAPE, "value '%s': %s", value->name, zt_ctx_error(w->own));
    }
    return ZT_OK;
}

static zt_status bind_step(binder *w, int i)
{
    const zt_made *made = (const zt_made *)w->p->steps.at + i;
    const zt_step *step = &made->pub;
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    w->b->attrs[i] = step->attrs;
    if (made->symbolic) {
        zt_status status = zt_attrs_bind(w->p, info, step->attrs, w->value, w->attrs);
        if (status) return status;
        w->b->attrs[i] = w->attrs;
        w->attrs += (info->attr_bytes + 15) & ~(size_t)15;
    }
    for (int k = 0; k < info->n_in; k++) input_types[k] = step->in[k] >= 0 ? &w->b->type[step->in[k]] : NULL;
    zt_status status = zt_op_infer(w->own, step->op, w->b->attrs[i], input_types, out);
    if (status) /* a wrong attribute is the program's fault, not its caller's */
        return zt_fail(w->p->ctx, status == ZT_EUSAGE ? ZT_EDATA : status, "step %d, '%s': %s", i,
                       zt_prog_value(w->p, step->out[0])->name, zt_ctx_error(w->own));
    for (int k = 0; k < info->n_out; k++)
        if (step->out[k] >= 0) w->b->type[step->out[k]] = out[k];
    return ZT_OK;
}

static zt_status check_keeps(const binder *w)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    const zt_prog *program = w->p;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE); i++) {
        int v = zt_prog_nth(program, ZT_VALUE_STATE, i), keep = zt_prog_value(program, v)->keep;
        const zt_type *type = w->b->type;
        if (keep < 0 || zt_type_equal(&type[v], &type[keep])) continue;
        return zt_fail(program->ctx, ZT_ESHAPE, "state '%s' is %s, but '%s' that it keeps is %s",
                       zt_prog_value(program, v)->name, zt_type_text(&type[v], a),
                       zt_prog_value(program, keep)->name, zt_type_text(&type[keep], b));
    }
    return ZT_OK;
}

zt_bound *zt_prog_bind(const zt_prog *program, const zt_binding *bindings, int n)
{
    binder w = {.p = program, .own = zt_ctx_new()};
    zt_status status = w.own ? ZT_OK : zt_fail(program->ctx, ZT_ENOMEM, "out of memory: a context");
    if (!status && !layout(&w)) status = ZT_ENOMEM;
    if (!status) status = bind_symbols(&w, bindings, n);
    if (!status) status = bind_declared(&w);
    for (int i = 0; i < program->steps.n && !status; i++) status = bind_step(&w, i);
    if (!status) status = check_keeps(&w);
    zt_ctx_free(w.own);
    if (!status) return w.b;
    zt_bound_free(w.b);
    return NULL;
}

void zt_bound_free(zt_bound *bound)
{
    if (bound) zt_free(bound->prog->ctx, bound);
}
