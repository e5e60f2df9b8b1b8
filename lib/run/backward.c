/* backward.c - gradients of eager ops: marks on tensors, and the gradient pass over a recording.
 *
 * What y depends on is copied out of the recording (the cone), the gradient pass makes a program of
 * it, and of that program only what the gradients need is run, op by op, eagerly. Forward
 * values are the recorded tensors where these still hold them, so nothing is computed twice; what
 * has been written over since is computed again.
 */
#include "lib/run/eager.h"

#include <stdio.h>
#include <string.h>

/* ---- marks ----------------------------------------------------------------------------------- */

static zt_leaf *find_leaf(const zt_run *r, const zt_tensor *x)
{
    for (size_t i = 0; i < r->n_leaves; i++)
        if (r->leaf[i].x == x) return &r->leaf[i];
    return NULL;
}

static void drop_leaf(zt_run *r, zt_leaf *leaf)
{
    zt_tensor_unref(leaf->x);
    zt_tensor_unref(leaf->grad);
    *leaf = r->leaf[--r->n_leaves];
}

zt_status zt_grad_require(zt_run *r, zt_tensor *x, bool on)
{
    char text[ZT_TYPE_TEXT];
    if (!x) return zt_fail(r->ctx, ZT_EUSAGE, "no tensor to mark for a gradient");
    zt_leaf *leaf = find_leaf(r, x);
    if (leaf && !on) drop_leaf(r, leaf);
    if (leaf || !on) return ZT_OK;
    if (zt_dtype_get(zt_tensor_type(x)->dtype)->kind != 'F')
        return zt_fail(r->ctx, ZT_EUSAGE, "a tensor %s has no gradient: it is not of plain floats",
                       zt_type_text(zt_tensor_type(x), text));
    zt_status s = zt_run_grow(r->ctx, &r->leaf, r->n_leaves, &r->cap_leaves, sizeof *r->leaf);
    if (!s) r->leaf[r->n_leaves++] = (zt_leaf){zt_tensor_ref(x), NULL};
    return s;
}

bool zt_grad_required(const zt_run *r, const zt_tensor *x) { return find_leaf(r, x) != NULL; }

zt_tensor *zt_grad_of(const zt_run *r, const zt_tensor *x)
{
    const zt_leaf *leaf = find_leaf(r, x);
    return leaf ? leaf->grad : NULL;
}

void zt_grad_zero(zt_run *r, const zt_tensor *x)
{
    for (size_t i = 0; i < r->n_leaves; i++) {
        if (x && r->leaf[i].x != x) continue;
        zt_tensor_unref(r->leaf[i].grad);
        r->leaf[i].grad = NULL;
    }
}

zt_tensor *zt_detach(zt_run *r, zt_tensor *x)
{
    if (zt_ctx_status(r->ctx)) return NULL;
    if (!x) {
        zt_fail(r->ctx, ZT_EUSAGE, "no tensor to detach");
        return NULL;
    }
    zt_tensor *t = zt_tensor_view(x, zt_tensor_type(x), 0);
    return zt_run_take(r, t) ? NULL : t;
}

/* ---- the pass over a recording --------------------------------------------------------------- */

typedef struct back {
    zt_run *r;
    zt_arena *memory;   /* of the arrays */
    const zt_prog *all; /* the recording */
    zt_prog *cone, *grad;
    int *cone_of;    /* [values of all]: its number in the cone, -1: y does not depend on it */
    int *grad_of;    /* [values of cone]: its number in grad */
    int n;           /* marked tensors that y depends on */
    zt_leaf **leaf;  /* [n] */
    int *wrt;        /* [n], values of the cone */
    zt_tensor **at;  /* [values of grad], counted; NULL: not there (yet, or any more) */
    int *uses;       /* [values of grad]: steps still to come that read it, and results */
    bool *runs;      /* [steps of grad] */
    zt_tensor **sum; /* [n]: the new gradients, counted */
} back;

static void *room(back *b, int n, size_t size)
{
    void *p = zt_arena_alloc(b->memory, ((size_t)n + 1) * size);
    if (p) memset(p, 0, ((size_t)n + 1) * size);
    return p;
}

static bool wants_step(const zt_step *st, const bool *needed)
{
    for (int k = 0; k < zt_op_info(st->op)->n_out; k++)
        if (st->out[k] >= 0 && needed[st->out[k]]) return true;
    return false;
}

static bool *find_needed(back *b, int y)
{
    bool *needed = room(b, zt_prog_n_values(b->all), sizeof *needed);
    if (!needed) return NULL;
    needed[y] = true;
    for (int s = zt_prog_n_steps(b->all); s-- > 0;) {
        const zt_step *st = zt_prog_step(b->all, s);
        if (!wants_step(st, needed)) continue;
        for (int k = 0; k < zt_op_info(st->op)->n_in; k++)
            if (st->in[k] >= 0) needed[st->in[k]] = true;
    }
    return needed;
}

static zt_status copy_step(back *b, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] < 0 ? ZT_NONE : b->cone_of[st->in[k]];
    zt_status s = zt_prog_op(b->cone, st->op, st->attrs, in, NULL, out);
    for (int k = 0; k < info->n_out && !s; k++) b->cone_of[st->out[k]] = out[k];
    return s;
}

/* What value y of the recording depends on, as a program with the one output "y". */
static zt_status make_cone(back *b, int y)
{
    bool *needed = find_needed(b, y);
    b->cone = needed ? zt_prog_new(b->r->ctx) : NULL;
    b->cone_of = room(b, zt_prog_n_values(b->all), sizeof *b->cone_of);
    if (!b->cone || !b->cone_of) return zt_ctx_status(b->r->ctx);
    zt_status s = ZT_OK;
    for (int v = 0; v < zt_prog_n_values(b->all) && !s; v++) {
        const zt_value *val = zt_prog_value(b->all, v);
        const zt_type *t = &val->type;
        b->cone_of[v] = -1;
        if (val->kind == ZT_VALUE_OP || !needed[v]) continue;
        b->cone_of[v] = val->kind == ZT_VALUE_STATE
                            ? zt_prog_state(b->cone, val->name, t->dtype, t->rank, t->dim)
                            : zt_prog_in(b->cone, val->name, t->dtype, t->rank, t->dim);
        if (b->cone_of[v] < 0) s = zt_ctx_status(b->r->ctx);
    }
    for (int i = 0; i < zt_prog_n_steps(b->all) && !s; i++)
        if (wants_step(zt_prog_step(b->all, i), needed)) s = copy_step(b, zt_prog_step(b->all, i));
    return s ? s : zt_prog_out(b->cone, "y", b->cone_of[y]);
}

/* The marked tensors in the cone. */
static zt_status find_leaves(back *b)
{
    char text[ZT_TYPE_TEXT];
    b->leaf = room(b, (int)b->r->n_leaves, sizeof(zt_leaf *));
    b->wrt = room(b, (int)b->r->n_leaves, sizeof *b->wrt);
    b->sum = room(b, (int)b->r->n_leaves, sizeof(zt_tensor *));
    if (!b->leaf || !b->wrt || !b->sum) return ZT_ENOMEM;
    for (size_t i = 0; i < b->r->n_leaves; i++) {
        zt_tensor *x = b->r->leaf[i].x;
        int v = zt_recorder_value(b->r->recorder, x);
        if (zt_recorder_lost(b->r->recorder, x, b->cone_of))
            return zt_fail(b->r->ctx, ZT_EUSAGE,
                           "backward: a marked tensor %s was written over since it was recorded",
                           zt_type_text(zt_tensor_type(x), text));
        if (v < 0 || b->cone_of[v] < 0) continue;
        b->leaf[b->n] = &b->r->leaf[i];
        b->wrt[b->n++] = b->cone_of[v];
    }
    if (b->n > 0) return ZT_OK;
    return zt_fail(b->r->ctx, ZT_EUSAGE,
                   "backward: the tensor depends on none that is marked for a gradient");
}

static zt_status make_gradient(back *b, bool seeded)
{
    b->grad_of = room(b, zt_prog_n_values(b->cone), sizeof *b->grad_of);
    if (!b->grad_of) return ZT_ENOMEM;
    b->grad = zt_grad_pass(b->r->ctx, b->cone, b->wrt, b->n, &(zt_grad_opts){.seeds = seeded},
                           b->grad_of);
    return b->grad ? ZT_OK : zt_ctx_status(b->r->ctx);
}

/* ---- running it ------------------------------------------------------------------------------ */

/* The recorded tensors, and dy, as values of the gradient program. */
static zt_status place_known(back *b, zt_tensor *dy)
{
    zt_tensor **known = room(b, zt_prog_n_values(b->all), sizeof(zt_tensor *));
    b->at = room(b, zt_prog_n_values(b->grad), sizeof(zt_tensor *));
    if (!known || !b->at) return ZT_ENOMEM;
    zt_recorder_tensors(b->r->recorder, known);
    for (int v = 0; v < zt_prog_n_values(b->all); v++) {
        int g = b->cone_of[v] < 0 ? -1 : b->grad_of[b->cone_of[v]];
        if (g >= 0 && known[v] && !b->at[g]) b->at[g] = zt_tensor_ref(known[v]);
    }
    if (dy) b->at[zt_prog_find(b->grad, "d.y")] = zt_tensor_ref(dy);
    return ZT_OK;
}

static int result_of(const back *b, int i)
{
    return zt_prog_output(b->grad, zt_prog_n_outputs(b->grad) - b->n + i)->value;
}

/* Which steps run: those that make what is read and not there. */
static zt_status find_uses(back *b)
{
    b->uses = room(b, zt_prog_n_values(b->grad), sizeof *b->uses);
    b->runs = room(b, zt_prog_n_steps(b->grad), sizeof *b->runs);
    if (!b->uses || !b->runs) return ZT_ENOMEM;
    for (int i = 0; i < b->n; i++) b->uses[result_of(b, i)]++;
    for (int s = zt_prog_n_steps(b->grad); s-- > 0;) {
        const zt_step *st = zt_prog_step(b->grad, s);
        const zt_opinfo *info = zt_op_info(st->op);
        for (int k = 0; k < info->n_out; k++) {
            int v = st->out[k];
            b->runs[s] = b->runs[s] || (v >= 0 && b->uses[v] > 0 && !b->at[v]);
        }
        for (int k = 0; k < info->n_in && b->runs[s]; k++)
            if (st->in[k] >= 0) b->uses[st->in[k]]++;
    }
    return ZT_OK;
}

static void use(back *b, int v)
{
    if (v < 0 || --b->uses[v] > 0) return;
    zt_tensor_unref(b->at[v]);
    b->at[v] = NULL;
}

static zt_status run_step(back *b, int s)
{
    const zt_step *st = zt_prog_step(b->grad, s);
    const zt_opinfo *info = zt_op_info(st->op);
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) {
        if (st->in[k] < 0) continue;
        in[k] = b->at[st->in[k]];
        if (!in[k])
            return zt_fail(b->r->ctx, ZT_EUSAGE,
                           "backward: op %s needs '%s', which was written over since it was "
                           "recorded", info->name, zt_prog_value(b->grad, st->in[k])->name);
    }
    zt_scope_begin(b->r);
    zt_status bad = zt_run_op(b->r, st->op, st->attrs, in, out);
    for (int k = 0; k < info->n_out && !bad; k++)
        if (st->out[k] >= 0 && b->uses[st->out[k]] > 0 && !b->at[st->out[k]])
            b->at[st->out[k]] = zt_tensor_ref(out[k]);
    zt_scope_end(b->r);
    for (int k = 0; k < info->n_in && !bad; k++) use(b, st->in[k]);
    return bad;
}

/* The new gradient of leaf i: a tensor of its own, that shares no bytes with anybody's. */
static zt_status add_up(back *b, int i)
{
    zt_tensor *dx = b->at[result_of(b, i)], *was = b->leaf[i]->grad;
    if (!dx)
        return zt_fail(b->r->ctx, ZT_EUSAGE,
                       "backward: '%s' was written over since it was recorded",
                       zt_prog_value(b->grad, result_of(b, i))->name);
    if (!was && zt_tensor_sole(dx) && b->uses[result_of(b, i)] == 1) {
        b->sum[i] = zt_tensor_ref(dx);
    } else {
        zt_scope_begin(b->r);
        b->sum[i] = zt_tensor_ref(was ? zt_eager_add(b->r, was, dx)
                                      : zt_eager_scale(b->r, dx, &(zt_scale_attrs){.by = 1}));
        zt_scope_end(b->r);
    }
    use(b, result_of(b, i));
    return b->sum[i] ? ZT_OK : zt_ctx_status(b->r->ctx);
}

static zt_status run_gradient(back *b, zt_tensor *dy)
{
    zt_status s = place_known(b, dy);
    if (!s) s = find_uses(b);
    for (int i = 0; i < zt_prog_n_steps(b->grad) && !s; i++)
        if (b->runs[i]) s = run_step(b, i);
    for (int i = 0; i < b->n && !s; i++) s = add_up(b, i);
    for (int i = 0; i < b->n && !s; i++) {
        zt_tensor_unref(b->leaf[i]->grad);
        b->leaf[i]->grad = b->sum[i];
        b->sum[i] = NULL;
    }
    return s;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status check(zt_run *r, const zt_tensor *y, const zt_tensor *dy, int *value)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    if (zt_ctx_status(r->ctx)) return zt_ctx_status(r->ctx);
    if (!r->recorder) return zt_fail(r->ctx, ZT_EUSAGE, "backward: recording has not begun");
    if (!y) return zt_fail(r->ctx, ZT_EUSAGE, "backward: no tensor to begin from");
    *value = zt_recorder_value(r->recorder, y);
    if (zt_dtype_get(zt_tensor_type(y)->dtype)->kind != 'F')
        return zt_fail(r->ctx, ZT_EUSAGE, "backward: a tensor %s is not of plain floats",
                       zt_type_text(zt_tensor_type(y), has));
    if (*value < 0)
        return zt_fail(r->ctx, ZT_EUSAGE, "backward: the tensor %s has not been recorded",
                       zt_type_text(zt_tensor_type(y), has));
    if (!dy || zt_type_equal(zt_tensor_type(dy), zt_tensor_type(y))) return ZT_OK;
    return zt_fail(r->ctx, ZT_ESHAPE, "backward: the cotangent is %s, the tensor %s",
                   zt_type_text(zt_tensor_type(dy), has),
                   zt_type_text(zt_tensor_type(y), wants));
}

static void close_back(back *b)
{
    for (int v = 0; b->at && v < zt_prog_n_values(b->grad); v++) zt_tensor_unref(b->at[v]);
    for (int i = 0; i < b->n; i++) zt_tensor_unref(b->sum[i]);
    zt_prog_free(b->grad);
    zt_prog_free(b->cone);
    zt_arena_free(b->memory);
}

zt_status zt_backward(zt_run *r, zt_tensor *y, const zt_backward_opts *opts)
{
    static const zt_backward_opts plain;
    back b = {.r = r};
    int value = -1;
    if (!opts) opts = &plain;
    zt_run_into(r, NULL);
    zt_status s = check(r, y, opts->dy, &value);
    if (s) return s;
    if (!opts->record) zt_record_pause(r);
    b.all = zt_recorder_prog(r->recorder);
    b.memory = zt_arena_new(r->ctx, 0);
    s = b.memory ? make_cone(&b, value) : ZT_ENOMEM;
    if (!s) s = find_leaves(&b);
    if (!s) s = make_gradient(&b, opts->dy != NULL);
    if (!s) s = run_gradient(&b, opts->dy);
    close_back(&b);
    if (!opts->record) zt_record_resume(r);
    return s;
}
