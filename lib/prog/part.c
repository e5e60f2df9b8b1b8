/* part.c - some steps of a bound program as a program of their own. */
#include "lib/prog/list.h"

#include <string.h>

typedef struct part {
    const zt_bound *b;
    const zt_prog *from;
    zt_prog *to;
    int first, last;
    int *map;   /* [values of from]: its number in `to`, or -1 */
    int *root;  /* [values of from]: whose memory it is, through views and donations in the part */
    bool *used; /* [values of from]: a step of the part uses up the memory of this root */
} part;

static const zt_step *step(const part *w, int s) { return zt_prog_step(w->from, s); }

static int donates(const zt_step *step) { return zt_op_info(step->op)->def->donates; }

/* Which memories the part uses up. */
static void find_used(part *w)
{
    for (int v = 0; v < w->b->n_values; v++) w->root[v] = v;
    for (int s = w->first; s <= w->last; s++) {
        const zt_step *st = step(w, s);
        for (int k = 0; k < donates(st); k++) w->used[w->root[st->in[k]]] = true;
        for (int k = 0; k < zt_op_shares(st->op); k++) w->root[st->out[k]] = w->root[st->in[k]];
    }
}

/* Declares v, which a step reads and none of the part makes. */
static zt_status declare(part *w, int v)
{
    const zt_value *value = zt_prog_value(w->from, v);
    const zt_type *type = &w->b->type[v];
    zt_value_kind kind = value->kind == ZT_VALUE_DATA      ? ZT_VALUE_DATA
                         : value->kind == ZT_VALUE_STATE || w->used[v] ? ZT_VALUE_STATE
                                                                   : ZT_VALUE_IN;
    zt_span tensor = kind == ZT_VALUE_DATA ? zt_span_of(value->tensor) : (zt_span){0};
    w->map[v] =
        zt_prog_declare(w->to, kind, zt_span_of(value->name), type->dtype, type->rank, type->dim, tensor);
    return w->map[v] < 0 ? zt_ctx_status(w->from->ctx) : ZT_OK;
}

/* In the order of the values, as in the whole program. */
static zt_status declare_all(part *w)
{
    bool *reads = zt_calloc(w->from->ctx, (size_t)w->b->n_values + 1, sizeof *reads);
    if (!reads) return ZT_ENOMEM;
    for (int s = w->first; s <= w->last; s++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (step(w, s)->in[k] >= 0) reads[step(w, s)->in[k]] = true;
    zt_status status = ZT_OK;
    for (int v = 0; v < w->b->n_values && !status; v++) {
        const zt_value *value = zt_prog_value(w->from, v);
        bool inside = value->kind == ZT_VALUE_OP && value->index >= w->first && value->index <= w->last;
        if (reads[v] && !inside) status = declare(w, v);
    }
    zt_free(w->from->ctx, reads);
    return status;
}

static zt_status copy_step(part *w, int s)
{
    const zt_step *st = step(w, s);
    const zt_opinfo *info = zt_op_info(st->op);
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    const char *names[ZT_MAX_OUT];
    for (int k = 0; k < ZT_MAX_IN; k++) inputs[k] = st->in[k] >= 0 ? w->map[st->in[k]] : ZT_NONE;
    for (int k = 0; k < info->n_out; k++)
        names[k] = st->out[k] >= 0 ? zt_prog_value(w->from, st->out[k])->name : "_";
    zt_status status = zt_prog_op(w->to, st->op, w->b->attrs[s], inputs, names, outputs);
    for (int k = 0; k < info->n_out && !status; k++)
        if (st->out[k] >= 0) w->map[st->out[k]] = outputs[k];
    return status;
}

/* Is v, of the whole program, a state of the part? */
static bool is_state(const part *w, int v)
{
    return w->map[v] >= 0 && zt_prog_value(w->to, w->map[v])->kind == ZT_VALUE_STATE;
}

/* Each state that is used up keeps the last value that is its memory and of its type. */
static zt_status keep_all(part *w)
{
    for (int v = 0; v < w->b->n_values; v++) {
        if (!w->used[v] || w->map[v] < 0 || !is_state(w, v)) continue;
        int latest = -1;
        for (int s = w->first; s <= w->last; s++)
            for (int k = 0; k < donates(step(w, s)); k++)
                if (w->root[step(w, s)->out[k]] == v) latest = step(w, s)->out[k];
        if (latest < 0 || !zt_type_equal(&w->b->type[latest], &w->b->type[v])) continue;
        zt_status status = zt_prog_keep(w->to, w->map[v], w->map[latest]);
        if (status) return status;
    }
    return ZT_OK;
}

/* Is v read after the part, or put out or kept at the end? */
static bool leaves(const part *w, int v)
{
    for (int s = w->last + 1; s < w->b->n_steps; s++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (step(w, s)->in[k] == v) return true;
    for (int o = 0; o < zt_prog_n_outputs(w->from); o++)
        if (zt_prog_output(w->from, o)->value == v) return true;
    for (int i = 0; i < zt_prog_count(w->from, ZT_VALUE_STATE); i++)
        if (zt_prog_value(w->from, zt_prog_nth(w->from, ZT_VALUE_STATE, i))->keep == v) return true;
    return false;
}

/* What a state keeps need not be put out as well. */
static zt_status put_out(part *w)
{
    for (int s = w->first; s <= w->last; s++) {
        for (int k = 0; k < zt_op_info(step(w, s)->op)->n_out; k++) {
            int v = step(w, s)->out[k];
            if (v < 0 || !leaves(w, v)) continue;
            int root = w->root[v];
            if (is_state(w, root) && zt_prog_value(w->to, w->map[root])->keep == w->map[v])
                continue;
            zt_status status = zt_prog_out(w->to, zt_prog_value(w->from, v)->name, w->map[v]);
            if (status) return status;
        }
    }
    return ZT_OK;
}

static zt_status make(part *w)
{
    for (int v = 0; v < w->b->n_values; v++) w->map[v] = -1;
    find_used(w);
    zt_status status = ZT_OK;
    if (w->from->file)
        status = zt_prog_set_model(w->to, zt_span_of(w->from->file), zt_span_of(w->from->id));
    if (!status) status = declare_all(w);
    for (int i = w->first; i <= w->last && !status; i++) status = copy_step(w, i);
    if (!status) status = keep_all(w);
    return status ? status : put_out(w);
}

zt_prog *zt_prog_part(const zt_bound *bound, int first, int last)
{
    zt_ctx *ctx = bound->prog->ctx;
    if (first < 0 || first > last || last >= bound->n_steps) {
        zt_fail(ctx, ZT_EUSAGE, "steps %d to %d: the program has steps 0 to %d", first, last,
                bound->n_steps - 1);
        return NULL;
    }
    size_t n = (size_t)bound->n_values + 1;
    part w = {.b = bound, .from = bound->prog, .to = zt_prog_new(ctx), .first = first, .last = last,
              .map = zt_calloc(ctx, n, sizeof *w.map), .root = zt_calloc(ctx, n, sizeof *w.root),
              .used = zt_calloc(ctx, n, sizeof *w.used)};
    zt_status status = w.to && w.map && w.root && w.used ? make(&w) : ZT_ENOMEM;
    zt_free(ctx, w.map);
    zt_free(ctx, w.root);
    zt_free(ctx, w.used);
    if (status == ZT_OK) return w.to;
    zt_prog_free(w.to);
    return NULL;
}
