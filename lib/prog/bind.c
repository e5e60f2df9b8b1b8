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
    const zt_prog *p = w->p;
    size_t types = (sizeof *w->b + 15) & ~(size_t)15;
    size_t pointers = types + (size_t)p->values.n * sizeof *w->b->type;
    size_t values = pointers + (size_t)p->steps.n * sizeof *w->b->attrs;
    size_t attrs = (values + (size_t)p->exprs.n * sizeof *w->value + 15) & ~(size_t)15;
    char *at = zt_alloc(p->ctx, attrs + p->symbolic_bytes);
    if (!at) return false;
    w->b = (zt_bound *)at;
    *w->b = (zt_bound){.prog = p,
                       .n_values = p->values.n,
                       .type = (zt_type *)(at + types),
                       .n_steps = p->steps.n,
                       .attrs = (const void **)(at + pointers)};
    w->value = (int64_t *)(at + values);
    w->attrs = at + attrs;
    return true;
}

static zt_status bind_symbols(binder *w, const zt_binding *b, int n)
{
    const zt_prog *p = w->p;
    int64_t symbol[ZT_MAX_SYMBOLS] = {0};
    for (int i = 0; i < p->n_symbols; i++) {
        int k = 0;
        while (k < n && strcmp(b[k].symbol, p->symbol[i]) != 0) k++;
        if (k == n) return zt_fail(p->ctx, ZT_EUSAGE, "symbol '%s' has no value", p->symbol[i]);
        if (b[k].value < 0)
            return zt_fail(p->ctx, ZT_EUSAGE, "symbol '%s' is %" PRId64 ", below 0", p->symbol[i],
                           b[k].value);
        symbol[i] = b[k].value;
    }
    return zt_dims_eval(p, symbol, w->value);
}

static zt_status bind_declared(binder *w)
{
    const zt_prog *p = w->p;
    for (int v = 0; v < p->values.n; v++) {
        const zt_value *val = zt_prog_value(p, v);
        zt_type *t = &w->b->type[v];
        *t = val->type;
        zt_status s = zt_dims_bind(p, w->value, t->rank, t->dim);
        if (s) return s;
        if (val->kind != ZT_VALUE_OP && !zt_type_check(w->own, t, NULL))
            return zt_fail(p->ctx, ZT_ESHAPE, "value '%s': %s", val->name, zt_ctx_error(w->own));
    }
    return ZT_OK;
}

static zt_status bind_step(binder *w, int i)
{
    const zt_made *made = (const zt_made *)w->p->steps.at + i;
    const zt_step *st = &made->pub;
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    w->b->attrs[i] = st->attrs;
    if (made->symbolic) {
        zt_status s = zt_attrs_bind(w->p, info, st->attrs, w->value, w->attrs);
        if (s) return s;
        w->b->attrs[i] = w->attrs;
        w->attrs += (info->attr_bytes + 15) & ~(size_t)15;
    }
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] >= 0 ? &w->b->type[st->in[k]] : NULL;
    zt_status s = zt_op_infer(w->own, st->op, w->b->attrs[i], in, out);
    if (s) /* a wrong attribute is the program's fault, not its caller's */
        return zt_fail(w->p->ctx, s == ZT_EUSAGE ? ZT_EDATA : s, "step %d, '%s': %s", i,
                       zt_prog_value(w->p, st->out[0])->name, zt_ctx_error(w->own));
    for (int k = 0; k < info->n_out; k++)
        if (st->out[k] >= 0) w->b->type[st->out[k]] = out[k];
    return ZT_OK;
}

static zt_status check_keeps(const binder *w)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    const zt_prog *p = w->p;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_STATE); i++) {
        int v = zt_prog_nth(p, ZT_VALUE_STATE, i), keep = zt_prog_value(p, v)->keep;
        const zt_type *type = w->b->type;
        if (keep < 0 || zt_type_equal(&type[v], &type[keep])) continue;
        return zt_fail(p->ctx, ZT_ESHAPE, "state '%s' is %s, but '%s' that it keeps is %s",
                       zt_prog_value(p, v)->name, zt_type_text(&type[v], a),
                       zt_prog_value(p, keep)->name, zt_type_text(&type[keep], b));
    }
    return ZT_OK;
}

zt_bound *zt_prog_bind(const zt_prog *p, const zt_binding *b, int n)
{
    binder w = {.p = p, .own = zt_ctx_new()};
    zt_status s = w.own ? ZT_OK : zt_fail(p->ctx, ZT_ENOMEM, "out of memory: a context");
    if (!s && !layout(&w)) s = ZT_ENOMEM;
    if (!s) s = bind_symbols(&w, b, n);
    if (!s) s = bind_declared(&w);
    for (int i = 0; i < p->steps.n && !s; i++) s = bind_step(&w, i);
    if (!s) s = check_keeps(&w);
    zt_ctx_free(w.own);
    if (!s) return w.b;
    zt_bound_free(w.b);
    return NULL;
}

void zt_bound_free(zt_bound *b)
{
    if (b) zt_free(b->prog->ctx, b);
}
