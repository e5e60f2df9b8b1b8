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

static zt_leaf *find_leaf(const zt_run *run, const zt_tensor *tensor)
{
    for (size_t i = 0; i < run->n_leaves; i++)
        if (run->leaf[i].x == tensor) return &run->leaf[i];
    return NULL;
}

static void drop_leaf(zt_run *run, zt_leaf *leaf)
{
    zt_tensor_unref(leaf->x);
    zt_tensor_unref(leaf->grad);
    *leaf = run->leaf[--run->n_leaves];
}

zt_status zt_grad_require(zt_run *run, zt_tensor *tensor, bool on)
{
    char text[ZT_TYPE_TEXT];
    if (!tensor) return zt_fail(run->ctx, ZT_EUSAGE, "no tensor to mark for a gradient");
    zt_leaf *leaf = find_leaf(run, tensor);
    if (leaf && !on) drop_leaf(run, leaf);
    if (leaf || !on) return ZT_OK;
    if (zt_dtype_get(zt_tensor_type(tensor)->dtype)->kind != 'F')
        return zt_fail(run->ctx, ZT_EUSAGE, "a tensor %s has no gradient: it is not of plain floats",
                       zt_type_text(zt_tensor_type(tensor), text));
    zt_status status = zt_run_grow(run->ctx, &run->leaf, run->n_leaves, &run->cap_leaves, sizeof *run->leaf);
    if (!status) run->leaf[run->n_leaves++] = (zt_leaf){zt_tensor_ref(tensor), NULL};
    return status;
}

bool zt_grad_required(const zt_run *run, const zt_tensor *tensor) { return find_leaf(run, tensor) != NULL; }

zt_tensor *zt_grad_of(const zt_run *run, const zt_tensor *tensor)
{
    const zt_leaf *leaf = find_leaf(run, tensor);
    return leaf ? leaf->grad : NULL;
}

void zt_grad_zero(zt_run *run, const zt_tensor *tensor)
{
    for (size_t i = 0; i < run->n_leaves; i++) {
        if (tensor && run->leaf[i].x != tensor) continue;
        zt_tensor_unref(run->leaf[i].grad);
        run->leaf[i].grad = NULL;
    }
}

zt_tensor *zt_detach(zt_run *run, zt_tensor *x)
{
    if (zt_ctx_status(run->ctx)) return NULL;
    if (!x) {
        zt_fail(run->ctx, ZT_EUSAGE, "no tensor to detach");
        return NULL;
    }
    zt_tensor *t = zt_tensor_view(x, zt_tensor_type(x), 0);
    return zt_run_take(run, t) ? NULL : t;
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

static bool wants_step(const zt_step *step, const bool *needed)
{
    for (int k = 0; k < zt_op_info(step->op)->n_out; k++)
        if (step->out[k] >= 0 && needed[step->out[k]]) return true;
    return false;
}

static bool *find_needed(back *b, int y)
{
    bool *needed = room(b, zt_prog_n_values(b->all), sizeof *needed);
    if (!needed) return NULL;
    needed[y] = true;
    for (int s = zt_prog_n_steps(b->all); s-- > 0;) {
        const zt_step *step = zt_prog_step(b->all, s);
        if (!wants_step(step, needed)) continue;
        for (int k = 0; k < zt_op_info(step->op)->n_in; k++)
            if (step->in[k] >= 0) needed[step->in[k]] = true;
    }
    return needed;
}

static zt_status copy_step(back *b, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) inputs[k] = step->in[k] < 0 ? ZT_NONE : b->cone_of[step->in[k]];
    zt_status status = zt_prog_op(b->cone, step->op, step->attrs, inputs, NULL, outputs);
    for (int k = 0; k < info->n_out && !status; k++) b->cone_of[step->out[k]] = outputs[k];
    return status;
}

/* What value y of the recording depends on, as a program with the one output "y". */
static zt_status make_cone(back *b, int y)
{
    bool *needed = find_needed(b, y);
    b->cone = needed ? zt_prog_new(b->r->ctx) : NULL;
    b->cone_of = room(b, zt_prog_n_values(b->all), sizeof *b->cone_of);
    if (!b->cone || !b->cone_of) return zt_ctx_status(b->r->ctx);
    zt_status status = ZT_OK;
    for (int v = 0; v < zt_prog_n_values(b->all) && !status; v++) {
        const zt_value *value = zt_prog_value(b->all, v);
        const zt_type *type = &value->type;
        b->cone_of[v] = -1;
        if (value->kind == ZT_VALUE_OP || !needed[v]) continue;
        b->cone_of[v] = value->kind == ZT_VALUE_STATE
                            ? zt_prog_state(b->cone, value->name, type->dtype, type->rank, type->dim)
                            : zt_prog_in(b->cone, value->name, type->dtype, type->rank, type->dim);
        if (b->cone_of[v] < 0) status = zt_ctx_status(b->r->ctx);
    }
    for (int i = 0; i < zt_prog_n_steps(b->all) && !status; i++)
        if (wants_step(zt_prog_step(b->all, i), needed)) status = copy_step(b, zt_prog_step(b->all, i));
    return status ? status : zt_prog_out(b->cone, "y", b->cone_of[y]);
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
        zt_tensor *tensor = b->r->leaf[i].x;
        int v = zt_recorder_value(b->r->recorder, tensor);
        if (zt_recorder_lost(b->r->recorder, tensor, b->cone_of))
            return zt_fail(b->r->ctx, ZT_EUSAGE,
                           "backward: a marked tensor %s was written over since it was recorded",
                           zt_type_text(zt_tensor_type(tensor), text));
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
        const zt_step *step = zt_prog_step(b->grad, s);
        const zt_opinfo *info = zt_op_info(step->op);
        for (int k = 0; k < info->n_out; k++) {
            int v = step->out[k];
            b->runs[s] = b->runs[s] || (v >= 0 && b->uses[v] > 0 && !b->at[v]);
        }
        for (int k = 0; k < info->n_in && b->runs[s]; k++)
            if (step->in[k] >= 0) b->uses[step->in[k]]++;
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
    const zt_step *step = zt_prog_step(b->grad, s);
    const zt_opinfo *info = zt_op_info(step->op);
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) {
        if (step->in[k] < 0) continue;
        in[k] = b->at[step->in[k]];
        if (!in[k])
            return zt_fail(b->r->ctx, ZT_EUSAGE,
                           "backward: op %s needs '%s', which was written over since it was "
                           "recorded", info->name, zt_prog_value(b->grad, step->in[k])->name);
    }
    zt_scope_begin(b->r);
    zt_status bad = zt_run_op(b->r, step->op, step->attrs, in, out);
    for (int k = 0; k < info->n_out && !bad; k++)
        if (step->out[k] >= 0 && b->uses[step->out[k]] > 0 && !b->at[step->out[k]])
            b->at[step->out[k]] = zt_tensor_ref(out[k]);
    zt_scope_end(b->r);
    for (int k = 0; k < info->n_in && !bad; k++) use(b, step->in[k]);
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
    zt_status status = place_known(b, dy);
    if (!status) status = find_uses(b);
    for (int i = 0; i < zt_prog_n_steps(b->grad) && !status; i++)
        if (b->runs[i]) status = run_step(b, i);
    for (int i = 0; i < b->n && !status; i++) status = add_up(b, i);
    for (int i = 0; i < b->n && !status; i++) {
        zt_tensor_unref(b->leaf[i]->grad);
        b->leaf[i]->grad = b->sum[i];
        b->sum[i] = NULL;
    }
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status check(zt_run *run, const zt_tensor *y, const zt_tensor *dy, int *value)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    if (zt_ctx_status(run->ctx)) return zt_ctx_status(run->ctx);
    if (!run->recorder) return zt_fail(run->ctx, ZT_EUSAGE, "backward: recording has not begun");
    if (!y) return zt_fail(run->ctx, ZT_EUSAGE, "backward: no tensor to begin from");
    *value = zt_recorder_value(run->recorder, y);
    if (zt_dtype_get(zt_tensor_type(y)->dtype)->kind != 'F')
        return zt_fail(run->ctx, ZT_EUSAGE, "backward: a tensor %s is not of plain floats",
                       zt_type_text(zt_tensor_type(y), has));
    if (*value < 0)
        return zt_fail(run->ctx, ZT_EUSAGE, "backward: the tensor %s has not been recorded",
                       zt_type_text(zt_tensor_type(y), has));
    if (!dy || zt_type_equal(zt_tensor_type(dy), zt_tensor_type(y))) return ZT_OK;
    return zt_fail(run->ctx, ZT_ESHAPE, "backward: the cotangent is %s, the tensor %s",
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

zt_status zt_backward(zt_run *run, zt_tensor *y, const zt_backward_opts *opts)
{
    static const zt_backward_opts plain;
    back b = {.r = run};
    int value = -1;
    if (!opts) opts = &plain;
    zt_run_into(run, NULL);
    zt_status status = check(run, y, opts->dy, &value);
    if (status) return status;
    if (!opts->record) zt_record_pause(run);
    b.all = zt_recorder_prog(run->recorder);
    b.memory = zt_arena_new(run->ctx, 0);
    status = b.memory ? make_cone(&b, value) : ZT_ENOMEM;
    if (!status) status = find_leaves(&b);
    if (!status) status = make_gradient(&b, opts->dy != NULL);
    if (!status) status = run_gradient(&b, opts->dy);
    close_back(&b);
    if (!opts->record) zt_record_resume(run);
    return status;
}
