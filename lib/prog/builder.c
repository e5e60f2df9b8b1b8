/* builder.c - owns zt_emit on a program: ops added one by one, their types known at once.
 *
 * Symbols have the numbers of a sample, so that each op can be inferred where it is written; rows
 * see dtypes and ranks, and dims only in a program without symbols.
 */
#include "lib/prog/list.h"
#include "lib/prog/states.h"

#include <string.h>

struct zt_builder {
    zt_prog *p;
    zt_emit emit;
    zt_type *type; /* of the first n values, bound */
    int n, cap;
    int64_t *value; /* of the program's expressions */
    int n_exprs;
};

static zt_status emit_op(void *user, zt_op op, const void *attrs, const int *in, int *out)
{
    zt_status s = zt_builder_op(user, op, attrs, in, NULL, out);
    for (int k = 0; s && k < zt_op_info(op)->n_out; k++) out[k] = -1;
    return s;
}

static zt_type emit_type(void *user, int v)
{
    zt_builder *b = user;
    zt_type t = zt_builder_type(b, v);
    for (int d = 0; d < t.rank && b->p->n_symbols; d++) t.dim[d] = -1;
    return t;
}

static zt_status sample_symbols(const zt_prog *p, const zt_binding *b, int n, int64_t *symbol)
{
    for (int i = 0; i < p->n_symbols; i++) {
        int k = 0;
        while (k < n && strcmp(b[k].symbol, p->symbol[i]) != 0) k++;
        if (k == n)
            return zt_fail(p->ctx, ZT_EUSAGE, "symbol '%s' has no sample value", p->symbol[i]);
        symbol[i] = b[k].value;
    }
    return ZT_OK;
}

zt_builder *zt_builder_new(zt_prog *p, const zt_binding *sample, int n)
{
    int64_t symbol[ZT_MAX_SYMBOLS] = {0};
    if (sample_symbols(p, sample, n, symbol)) return NULL;
    zt_builder *b = zt_calloc(p->ctx, 1, sizeof *b);
    if (!b) return NULL;
    b->p = p;
    b->emit = (zt_emit){b, emit_op, emit_type};
    b->n_exprs = p->exprs.n;
    b->value = zt_calloc(p->ctx, (size_t)p->exprs.n + 1, sizeof *b->value);
    if (b->value && zt_dims_eval(p, symbol, b->value) == ZT_OK) return b;
    zt_builder_free(b);
    return NULL;
}

void zt_builder_free(zt_builder *b)
{
    if (!b) return;
    zt_free(b->p->ctx, b->type);
    zt_free(b->p->ctx, b->value);
    zt_free(b->p->ctx, b);
}

const zt_emit *zt_builder_emit(zt_builder *b) { return &b->emit; }

/* Room for the types of all values; declarations since the last time get theirs. */
static zt_status know_types(zt_builder *b)
{
    zt_prog *p = b->p;
    if (p->exprs.n != b->n_exprs)
        return zt_fail(p->ctx, ZT_EBUG, "dimensions were added beside a builder");
    if (p->values.n > b->cap) {
        zt_type *type = zt_realloc(p->ctx, b->type, (size_t)p->values.n * 2 * sizeof *type);
        if (!type) return ZT_ENOMEM;
        b->type = type;
        b->cap = p->values.n * 2;
    }
    for (; b->n < p->values.n; b->n++) {
        zt_type *t = &b->type[b->n];
        *t = zt_item_at(p, b->n)->pub.type;
        if (zt_dims_bind(p, b->value, t->rank, t->dim)) return zt_ctx_status(p->ctx);
    }
    return ZT_OK;
}

static zt_status infer_last(zt_builder *b)
{
    const zt_made *made = (const zt_made *)b->p->steps.at + (b->p->steps.n - 1);
    const zt_step *st = &made->pub;
    const zt_opinfo *info = zt_op_info(st->op);
    int64_t bound[ZT_MAX_ATTR_BYTES / sizeof(int64_t)];
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    const void *attrs = st->attrs;
    if (made->symbolic) {
        zt_status s = zt_attrs_bind(b->p, info, st->attrs, b->value, bound);
        if (s) return s;
        attrs = bound;
    }
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] >= 0 ? &b->type[st->in[k]] : NULL;
    zt_status s = zt_op_infer(b->p->ctx, st->op, attrs, in, out);
    for (int k = 0; k < info->n_out && !s; k++)
        if (st->out[k] >= 0) b->type[st->out[k]] = out[k];
    return s;
}

zt_status zt_builder_op(zt_builder *b, zt_op op, const void *attrs, const int *in,
                        const char *const *names, int *out)
{
    zt_status s = zt_prog_op(b->p, op, attrs, in, names, out);
    if (!s) s = know_types(b);
    return s ? s : infer_last(b);
}

zt_type zt_builder_type(zt_builder *b, int v)
{
    if (v < 0 || v >= b->p->values.n || know_types(b)) return (zt_type){0};
    return b->type[v];
}

/* ---- a program like another ------------------------------------------------------------------ */

static zt_status copy_dims(zt_prog *to, const zt_prog *p)
{
    for (int i = 0; i < p->exprs.n; i++) {
        zt_expr *e = zt_prog_push(to, &to->exprs, sizeof *e, "dimension expressions");
        if (!e) return ZT_ENOMEM;
        *e = ((const zt_expr *)p->exprs.at)[i];
    }
    for (int i = 0; i < p->n_symbols; i++) {
        to->symbol[i] = zt_arena_strndup(to->memory, p->symbol[i], strlen(p->symbol[i]));
        if (!to->symbol[i]) return ZT_ENOMEM;
        to->symbol_dim[i] = p->symbol_dim[i];
    }
    to->n_symbols = p->n_symbols;
    for (int i = 0; i < p->n_given; i++) {
        zt_status s = zt_prog_set_binding(to, p->given[i].symbol, p->given[i].value);
        if (s) return s;
    }
    return p->file ? zt_prog_model(to, p->file, p->id) : ZT_OK;
}

/* state NULL: every declaration stays what it is. */
static zt_status copy_values(zt_prog *to, const zt_prog *p, const bool *state, int *map)
{
    for (int v = 0; v < p->values.n; v++) {
        const zt_value *val = zt_prog_value(p, v);
        bool turned = state && state[v];
        map[v] = -1;
        if (val->kind == ZT_VALUE_OP) continue;
        map[v] = zt_prog_declare(to, turned ? ZT_VALUE_STATE : val->kind, zt_span_of(val->name),
                                 val->type.dtype, val->type.rank, val->type.dim,
                                 turned ? (zt_span){0} : zt_span_of(val->tensor));
        if (map[v] < 0) return zt_ctx_status(p->ctx);
    }
    return ZT_OK;
}

zt_prog *zt_prog_like_states(const zt_prog *p, const bool *state, int *map)
{
    zt_prog *to = zt_prog_new(p->ctx);
    if (to && copy_dims(to, p) == ZT_OK && copy_values(to, p, state, map) == ZT_OK) return to;
    zt_prog_free(to);
    return NULL;
}

zt_prog *zt_prog_like(const zt_prog *p, int *map) { return zt_prog_like_states(p, NULL, map); }
