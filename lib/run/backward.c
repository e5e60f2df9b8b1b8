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
        if (run->leaves[i].tensor == tensor) return &run->leaves[i];
    return NULL;
}

static void drop_leaf(zt_run *run, zt_leaf *leaf)
{
    zt_tensor_unref(leaf->tensor);
    zt_tensor_unref(leaf->gradient);
    *leaf = run->leaves[--run->n_leaves];
}

zt_status zt_grad_require(zt_run *run, zt_tensor *tensor, bool on)
{
    if (!run) return ZT_EUSAGE;
    char text[ZT_TYPE_TEXT];
    if (!tensor) return zt_fail(run->ctx, ZT_EUSAGE, "no tensor to mark for a gradient");
    zt_leaf *leaf = find_leaf(run, tensor);
    if (leaf && !on) drop_leaf(run, leaf);
    if (leaf || !on) return ZT_OK;
    if (zt_dtype_get(zt_tensor_type(tensor)->dtype)->kind != 'F')
        return zt_fail(run->ctx, ZT_EUSAGE, "tensor %s cannot have a gradient: not of a plain float type",
                       zt_type_text(zt_tensor_type(tensor), text));
    zt_status status = zt_run_grow(run->ctx, &run->leaves, run->n_leaves, &run->cap_leaves, sizeof *run->leaves);
    if (!status) run->leaves[run->n_leaves++] = (zt_leaf){zt_tensor_ref(tensor), NULL};
    return status;
}

bool zt_grad_required(const zt_run *run, const zt_tensor *tensor) { return run && find_leaf(run, tensor) != NULL; }

zt_tensor *zt_grad_of(const zt_run *run, const zt_tensor *tensor)
{
    if (!run) return NULL;
    const zt_leaf *leaf = find_leaf(run, tensor);
    return leaf ? leaf->gradient : NULL;
}

void zt_grad_zero(zt_run *run, const zt_tensor *tensor)
{
    if (!run) return;
    for (size_t i = 0; i < run->n_leaves; i++) {
        if (tensor && run->leaves[i].tensor != tensor) continue;
        zt_tensor_unref(run->leaves[i].gradient);
        run->leaves[i].gradient = NULL;
    }
}

zt_tensor *zt_detach(zt_run *run, zt_tensor *source)
{
    if (!run) return NULL;
    if (zt_ctx_status(run->ctx)) return NULL;
    if (!source) {
        zt_fail(run->ctx, ZT_EUSAGE, "no tensor to detach");
        return NULL;
    }
    zt_tensor *detached = zt_tensor_view(source, zt_tensor_type(source), 0);
    return zt_run_take(run, detached) ? NULL : detached;
}

/* ---- the pass over a recording --------------------------------------------------------------- */

typedef struct backward_pass {
    zt_run *run;
    zt_arena *memory;         /* of the arrays */
    const zt_prog *recording; /* the recording */
    zt_prog *cone, *gradient;
    int *cone_of;        /* [values of all]: its number in the cone, -1: y does not depend on it */
    int *grad_of;        /* [values of cone]: its number in grad */
    int count;           /* marked tensors that y depends on */
    zt_leaf **leaves;    /* [n] */
    int *wrt;            /* [n], values of the cone */
    zt_tensor **tensors; /* [values of grad], counted; NULL: not there (yet, or any more) */
    int *uses;           /* [values of grad]: steps still to come that read it, and results */
    bool *runs;          /* [steps of grad] */
    zt_tensor **sums;    /* [n]: the new gradients, counted */
} backward_pass;

static void *alloc_array(backward_pass *backward, int count, size_t size)
{
    void *array = zt_arena_alloc(backward->memory, ((size_t)count + 1) * size);
    if (array) memset(array, 0, ((size_t)count + 1) * size);
    return array;
}

static bool wants_step(const zt_step *step, const bool *needed)
{
    for (int output = 0; output < zt_op_info(step->op)->n_out; output++)
        if (step->out[output] >= 0 && needed[step->out[output]]) return true;
    return false;
}

static bool *find_needed(backward_pass *backward, int result)
{
    bool *needed = alloc_array(backward, zt_prog_n_values(backward->recording), sizeof *needed);
    if (!needed) return NULL;
    needed[result] = true;
    for (int step_index = zt_prog_n_steps(backward->recording); step_index-- > 0;) {
        const zt_step *step = zt_prog_step(backward->recording, step_index);
        if (!wants_step(step, needed)) continue;
        for (int input = 0; input < zt_op_info(step->op)->n_in; input++)
            if (step->in[input] >= 0) needed[step->in[input]] = true;
    }
    return needed;
}

static zt_status copy_step(backward_pass *backward, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++)
        inputs[input] = step->in[input] < 0 ? ZT_NONE : backward->cone_of[step->in[input]];
    zt_status status = zt_prog_op(backward->cone, step->op, step->attrs, inputs, NULL, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++) backward->cone_of[step->out[output]] = outputs[output];
    return status;
}

/* What the result, a value of the recording depends on, as a program with the one output "y". */
static zt_status make_cone(backward_pass *backward, int result)
{
    bool *needed = find_needed(backward, result);
    backward->cone = needed ? zt_prog_new(backward->run->ctx) : NULL;
    backward->cone_of = alloc_array(backward, zt_prog_n_values(backward->recording), sizeof *backward->cone_of);
    if (!backward->cone || !backward->cone_of) return zt_ctx_status(backward->run->ctx);
    zt_status status = ZT_OK;
    for (int value_id = 0; value_id < zt_prog_n_values(backward->recording) && !status; value_id++) {
        const zt_value *value = zt_prog_value(backward->recording, value_id);
        const zt_type *type = &value->type;
        backward->cone_of[value_id] = -1;
        if (value->kind == ZT_VALUE_OP || !needed[value_id]) continue;
        backward->cone_of[value_id] = value->kind == ZT_VALUE_STATE
                                          ? zt_prog_state(backward->cone, value->name, type->dtype, type->rank, type->dim)
                                          : zt_prog_in(backward->cone, value->name, type->dtype, type->rank, type->dim);
        if (backward->cone_of[value_id] < 0) status = zt_ctx_status(backward->run->ctx);
    }
    for (int step_index = 0; step_index < zt_prog_n_steps(backward->recording) && !status; step_index++)
        if (wants_step(zt_prog_step(backward->recording, step_index), needed))
            status = copy_step(backward, zt_prog_step(backward->recording, step_index));
    return status ? status : zt_prog_out(backward->cone, "y", backward->cone_of[result]);
}

/* The marked tensors in the cone. */
static zt_status find_leaves(backward_pass *backward)
{
    char text[ZT_TYPE_TEXT];
    backward->leaves = alloc_array(backward, (int)backward->run->n_leaves, sizeof(zt_leaf *));
    backward->wrt = alloc_array(backward, (int)backward->run->n_leaves, sizeof *backward->wrt);
    backward->sums = alloc_array(backward, (int)backward->run->n_leaves, sizeof(zt_tensor *));
    if (!backward->leaves || !backward->wrt || !backward->sums) return ZT_ENOMEM;
    for (size_t i = 0; i < backward->run->n_leaves; i++) {
        zt_tensor *tensor = backward->run->leaves[i].tensor;
        int value_id = zt_recorder_value(backward->run->recorder, tensor);
        if (zt_recorder_lost(backward->run->recorder, tensor, backward->cone_of))
            return zt_fail(backward->run->ctx, ZT_EUSAGE, "backward: the marked tensor %s was overwritten after it was recorded",
                           zt_type_text(zt_tensor_type(tensor), text));
        if (value_id < 0 || backward->cone_of[value_id] < 0) continue;
        backward->leaves[backward->count] = &backward->run->leaves[i];
        backward->wrt[backward->count++] = backward->cone_of[value_id];
    }
    if (backward->count > 0) return ZT_OK;
    return zt_fail(backward->run->ctx, ZT_EUSAGE, "backward: the tensor does not depend on any tensor marked for a gradient");
}

static zt_status make_gradient(backward_pass *backward, bool seeded)
{
    backward->grad_of = alloc_array(backward, zt_prog_n_values(backward->cone), sizeof *backward->grad_of);
    if (!backward->grad_of) return ZT_ENOMEM;
    backward->gradient = zt_grad_pass(backward->run->ctx, backward->cone, backward->wrt, backward->count,
                                      &(zt_grad_opts){.seeds = seeded}, backward->grad_of);
    return backward->gradient ? ZT_OK : zt_ctx_status(backward->run->ctx);
}

/* ---- running it ------------------------------------------------------------------------------ */

/* The recorded tensors, and dy, as values of the gradient program. */
static zt_status place_known(backward_pass *backward, zt_tensor *dy)
{
    zt_tensor **known = alloc_array(backward, zt_prog_n_values(backward->recording), sizeof(zt_tensor *));
    backward->tensors = alloc_array(backward, zt_prog_n_values(backward->gradient), sizeof(zt_tensor *));
    if (!known || !backward->tensors) return ZT_ENOMEM;
    zt_recorder_tensors(backward->run->recorder, known);
    for (int value_id = 0; value_id < zt_prog_n_values(backward->recording); value_id++) {
        int grad_value = backward->cone_of[value_id] < 0 ? -1 : backward->grad_of[backward->cone_of[value_id]];
        if (grad_value >= 0 && known[value_id] && !backward->tensors[grad_value])
            backward->tensors[grad_value] = zt_tensor_ref(known[value_id]);
    }
    if (dy) backward->tensors[zt_prog_find(backward->gradient, "d.y")] = zt_tensor_ref(dy);
    return ZT_OK;
}

static int result_of(const backward_pass *backward, int i)
{
    return zt_prog_output(backward->gradient, zt_prog_n_outputs(backward->gradient) - backward->count + i)->value;
}

/* Which steps run: those that make what is read and not there. */
static zt_status count_uses(backward_pass *backward)
{
    backward->uses = alloc_array(backward, zt_prog_n_values(backward->gradient), sizeof *backward->uses);
    backward->runs = alloc_array(backward, zt_prog_n_steps(backward->gradient), sizeof *backward->runs);
    if (!backward->uses || !backward->runs) return ZT_ENOMEM;
    for (int i = 0; i < backward->count; i++) backward->uses[result_of(backward, i)]++;
    for (int step_index = zt_prog_n_steps(backward->gradient); step_index-- > 0;) {
        const zt_step *step = zt_prog_step(backward->gradient, step_index);
        const zt_opinfo *op_info = zt_op_info(step->op);
        for (int output = 0; output < op_info->n_out; output++) {
            int value_id = step->out[output];
            backward->runs[step_index] =
                backward->runs[step_index] || (value_id >= 0 && backward->uses[value_id] > 0 && !backward->tensors[value_id]);
        }
        for (int input = 0; input < op_info->n_in && backward->runs[step_index]; input++)
            if (step->in[input] >= 0) backward->uses[step->in[input]]++;
    }
    return ZT_OK;
}

static void drop_use(backward_pass *backward, int value_id)
{
    if (value_id < 0 || --backward->uses[value_id] > 0) return;
    zt_tensor_unref(backward->tensors[value_id]);
    backward->tensors[value_id] = NULL;
}

static zt_status run_step(backward_pass *backward, int step_index)
{
    const zt_step *step = zt_prog_step(backward->gradient, step_index);
    const zt_opinfo *op_info = zt_op_info(step->op);
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++) {
        if (step->in[input] < 0) continue;
        in[input] = backward->tensors[step->in[input]];
        if (!in[input])
            return zt_fail(backward->run->ctx, ZT_EUSAGE,
                           "backward: op %s needs '%s', which was overwritten after it was recorded", op_info->name,
                           zt_prog_value(backward->gradient, step->in[input])->name);
    }
    zt_scope_begin(backward->run);
    zt_status bad = zt_run_op(backward->run, step->op, step->attrs, in, out);
    for (int output = 0; output < op_info->n_out && !bad; output++)
        if (step->out[output] >= 0 && backward->uses[step->out[output]] > 0 && !backward->tensors[step->out[output]])
            backward->tensors[step->out[output]] = zt_tensor_ref(out[output]);
    zt_scope_end(backward->run);
    for (int input = 0; input < op_info->n_in && !bad; input++) drop_use(backward, step->in[input]);
    return bad;
}

/* The new gradient of leaf i: a tensor of its own, that shares no bytes with anybody's. */
static zt_status add_up(backward_pass *backward, int i)
{
    zt_tensor *dx = backward->tensors[result_of(backward, i)], *was = backward->leaves[i]->gradient;
    if (!dx)
        return zt_fail(backward->run->ctx, ZT_EUSAGE, "backward: '%s' was overwritten after it was recorded",
                       zt_prog_value(backward->gradient, result_of(backward, i))->name);
    if (!was && zt_tensor_sole(dx) && backward->uses[result_of(backward, i)] == 1) {
        backward->sums[i] = zt_tensor_ref(dx);
    } else {
        zt_scope_begin(backward->run);
        backward->sums[i] = zt_tensor_ref(was ? zt_eager_add(backward->run, was, dx)
                                              : zt_eager_scale(backward->run, dx, &(zt_scale_attrs){.by = 1}));
        zt_scope_end(backward->run);
    }
    drop_use(backward, result_of(backward, i));
    return backward->sums[i] ? ZT_OK : zt_ctx_status(backward->run->ctx);
}

static zt_status run_gradient(backward_pass *backward, zt_tensor *dy)
{
    zt_status status = place_known(backward, dy);
    if (!status) status = count_uses(backward);
    for (int step_index = 0; step_index < zt_prog_n_steps(backward->gradient) && !status; step_index++)
        if (backward->runs[step_index]) status = run_step(backward, step_index);
    for (int i = 0; i < backward->count && !status; i++) status = add_up(backward, i);
    for (int i = 0; i < backward->count && !status; i++) {
        zt_tensor_unref(backward->leaves[i]->gradient);
        backward->leaves[i]->gradient = backward->sums[i];
        backward->sums[i] = NULL;
    }
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status check_arguments(zt_run *run, const zt_tensor *y, const zt_tensor *dy, int *value)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT];
    if (zt_ctx_status(run->ctx)) return zt_ctx_status(run->ctx);
    if (!run->recorder) return zt_fail(run->ctx, ZT_EUSAGE, "backward: recording has not started");
    if (!y) return zt_fail(run->ctx, ZT_EUSAGE, "backward: no tensor to start from");
    *value = zt_recorder_value(run->recorder, y);
    if (zt_dtype_get(zt_tensor_type(y)->dtype)->kind != 'F')
        return zt_fail(run->ctx, ZT_EUSAGE, "backward: tensor %s is not of a plain float type",
                       zt_type_text(zt_tensor_type(y), has));
    if (*value < 0)
        return zt_fail(run->ctx, ZT_EUSAGE, "backward: tensor %s was not recorded", zt_type_text(zt_tensor_type(y), has));
    if (!dy || zt_type_equal(zt_tensor_type(dy), zt_tensor_type(y))) return ZT_OK;
    return zt_fail(run->ctx, ZT_ESHAPE, "backward: the cotangent has type %s, but the tensor has type %s",
                   zt_type_text(zt_tensor_type(dy), has), zt_type_text(zt_tensor_type(y), wants));
}

static void close_back(backward_pass *backward)
{
    for (int value_id = 0; backward->tensors && value_id < zt_prog_n_values(backward->gradient); value_id++)
        zt_tensor_unref(backward->tensors[value_id]);
    for (int i = 0; i < backward->count; i++) zt_tensor_unref(backward->sums[i]);
    zt_prog_free(backward->gradient);
    zt_prog_free(backward->cone);
    zt_arena_free(backward->memory);
}

zt_status zt_backward(zt_run *run, zt_tensor *y, const zt_backward_opts *opts)
{
    if (!run) return ZT_EUSAGE;
    static const zt_backward_opts plain;
    backward_pass backward = {.run = run};
    int value = -1;
    if (!opts) opts = &plain;
    zt_run_into(run, NULL);
    zt_status status = check_arguments(run, y, opts->dy, &value);
    if (status) return status;
    if (!opts->record) zt_record_pause(run);
    backward.recording = zt_recorder_prog(run->recorder);
    backward.memory = zt_arena_new(run->ctx, 0);
    status = backward.memory ? make_cone(&backward, value) : ZT_ENOMEM;
    if (!status) status = find_leaves(&backward);
    if (!status) status = make_gradient(&backward, opts->dy != NULL);
    if (!status) status = run_gradient(&backward, opts->dy);
    close_back(&backward);
    if (!opts->record) zt_record_resume(run);
    return status;
}
