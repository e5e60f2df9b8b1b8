/* grad.c - the gradient pass: a program becomes one that also computes vector-Jacobian products.
 *
 * The forward ops are copied (those on the way that have no vjp of their own as their expansion),
 * then visited in reverse: each op's row writes its gradient through zt_emit, cotangents of one value
 * are added up. There is no other autograd; a gradient is a program, and has a gradient.
 */
#include "lib/base/require.h"
#include "lib/run/eager.h"

#include <stdio.h>
#include <string.h>

typedef struct grad_pass {
    zt_ctx *ctx;
    const zt_prog *source;
    zt_prog *target;
    zt_builder *builder;
    zt_emit forward; /* emits into `to`, expanding what has no vjp */
    int *map;        /* [values of from]: numbers in `to` */
    bool *wanted;    /* [values of from]: is its gradient asked for */
    /* Of values of `to`; cap of them. */
    bool *active;    /* does it depend on a value asked about, through what has a gradient */
    int *cotangents; /* its cotangent so far, or ZT_NONE */
    int capacity;
} grad_pass;

static bool is_real(grad_pass *pass, int value_id)
{
    return zt_dtype_get(zt_builder_type(pass->builder, value_id).dtype)->kind == 'F';
}

/* Is the value an output that its op keeps for the gradient alone. */
static bool is_saved(const grad_pass *pass, int value_id)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(pass->target); step_index++) {
        const zt_step *step = zt_prog_step(pass->target, step_index);
        for (int output = 0; output < zt_op_info(step->op)->n_out; output++)
            if (step->out[output] == value_id) return zt_op_info(step->op)->def->saved >> output & 1;
    }
    return false;
}

/* Room for what is known of values; new ones are not active and have no cotangent. */
static zt_status grow_arrays(grad_pass *pass)
{
    int value_count = zt_prog_n_values(pass->target), old_capacity = pass->capacity;
    if (value_count <= old_capacity) return ZT_OK;
    bool *active = zt_realloc(pass->ctx, pass->active, (size_t)value_count * 2 * sizeof *active);
    if (!active) return ZT_ENOMEM;
    pass->active = active;
    int *grad = zt_realloc(pass->ctx, pass->cotangents, (size_t)value_count * 2 * sizeof *grad);
    if (!grad) return ZT_ENOMEM;
    pass->cotangents = grad;
    pass->capacity = value_count * 2;
    for (int value_id = old_capacity; value_id < pass->capacity; value_id++) {
        pass->active[value_id] = false;
        pass->cotangents[value_id] = ZT_NONE;
    }
    return ZT_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Does a gradient flow from input k: a value on the way, which the row does not take for a
 * constant. */
static bool gradient_flows(const grad_pass *pass, const zt_opdef *def, const int *inputs, int k)
{
    return inputs[k] >= 0 && pass->active[inputs[k]] && !(def->constant >> k & 1);
}

static bool any_gradient_flows(const grad_pass *pass, const zt_opinfo *op_info, const int *inputs)
{
    for (int input = 0; input < op_info->n_in; input++)
        if (gradient_flows(pass, op_info->def, inputs, input)) return true;
    return false;
}

/* "v7": made up where nobody gave a name. Here its number is another one. */
static bool is_made_up(const char *name)
{
    size_t digits = strspn(name + 1, "0123456789");
    return name[0] == 'v' && digits > 0 && !name[1 + digits];
}

/* All outputs are wanted: a vjp may read any of them. */
static zt_status add_step(grad_pass *pass, zt_op op, const void *attrs, const int *inputs, const char *const *names, int *outputs)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const char *free_name[ZT_MAX_OUT] = {0};
    for (int output = 0; output < op_info->n_out && names; output++)
        if (names[output] && !is_made_up(names[output]) && zt_prog_find(pass->target, names[output]) < 0)
            free_name[output] = names[output];
    zt_status status = zt_builder_op(pass->builder, op, attrs, inputs, free_name, outputs);
    if (!status) status = grow_arrays(pass);
    if (status) return status;
    bool active = any_gradient_flows(pass, op_info, inputs);
    for (int output = 0; output < op_info->n_out; output++)
        pass->active[outputs[output]] = active && is_real(pass, outputs[output]);
    return ZT_OK;
}

/* A gradient may read what the op overwrites: the op gets a copy. */
static zt_status copy_donated(grad_pass *pass, const zt_opinfo *op_info, int *inputs)
{
    const zt_scale_attrs same = {1};
    zt_status status = ZT_OK;
    for (int k = 0; k < op_info->def->donates && !status; k++) {
        int copy[ZT_MAX_OUT];
        status = add_step(pass, ZT_OP_scale, &same, &inputs[k], NULL, copy);
        if (!status) inputs[k] = copy[0];
    }
    return status;
}

/* The value that copy_donated copied. */
static int copied_value(const grad_pass *pass, int copy)
{
    return zt_prog_step(pass->target, zt_prog_value(pass->target, copy)->index)->in[0];
}

static zt_status forward_op(grad_pass *pass, zt_op op, const void *attrs, const int *inputs, const char *const *names,
                            int *outputs)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const zt_opdef *def = op_info->def;
    for (int input = 0; input < op_info->n_in; input++)
        if (inputs[input] == -1)
            return zt_fail(pass->ctx, ZT_EBUG, "op %s: an input is invalid: an earlier step failed", op_info->name);
    bool flows = any_gradient_flows(pass, op_info, inputs);
    if (flows && def->vjp && def->donates) {
        int own[ZT_MAX_IN];
        memcpy(own, inputs, (size_t)op_info->n_in * sizeof *own);
        zt_status status = copy_donated(pass, op_info, own);
        return status ? status : add_step(pass, op, attrs, own, names, outputs);
    }
    if (def->vjp || !def->expand || !flows) return add_step(pass, op, attrs, inputs, names, outputs);
    if (!attrs) attrs = op_info->defaults;
    for (int output = 0; output < op_info->n_out; output++) outputs[output] = ZT_NONE;
    def->expand(&pass->forward, attrs, inputs, outputs);
    for (int output = 0; output < op_info->n_out; output++)
        if (outputs[output] == -1) return zt_ctx_status(pass->ctx);
    return ZT_OK;
}

static zt_status forward_emit(void *user, zt_op op, const void *attrs, const int *inputs, int *outputs)
{
    zt_status status = forward_op(user, op, attrs, inputs, NULL, outputs);
    for (int output = 0; status && output < zt_op_info(op)->n_out; output++) outputs[output] = -1;
    return status;
}

static zt_type forward_type(void *user, int value_id)
{
    const zt_emit *emitter = zt_builder_emit(((grad_pass *)user)->builder);
    return emitter->type(emitter->user, value_id);
}

/* From here on, what depends on the value of `from` is on the way. */
static zt_status mark_active(grad_pass *pass, int value_id)
{
    if (!is_real(pass, pass->map[value_id]))
        return zt_fail(pass->ctx, ZT_EUSAGE, "'%s' cannot have a gradient: its dtype is %s",
                       zt_prog_value(pass->source, value_id)->name,
                       zt_dtype_get(zt_builder_type(pass->builder, pass->map[value_id]).dtype)->name);
    pass->active[pass->map[value_id]] = true;
    return ZT_OK;
}

static zt_status copy_step(grad_pass *pass, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT] = {0};
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++)
        inputs[input] = step->in[input] < 0 ? ZT_NONE : pass->map[step->in[input]];
    for (int output = 0; output < op_info->n_out; output++)
        if (step->out[output] >= 0) names[output] = zt_prog_value(pass->source, step->out[output])->name;
    zt_status status = forward_op(pass, step->op, step->attrs, inputs, names, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++) {
        if (step->out[output] < 0) continue;
        pass->map[step->out[output]] = outputs[output];
        if (outputs[output] < 0)
            status = zt_fail(pass->ctx, ZT_ENOTSUP, "op %s: the expansion has no output '%s'", op_info->name,
                             op_info->out_name[output]);
        else if (pass->wanted[step->out[output]])
            status = mark_active(pass, step->out[output]);
    }
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status add_cotangent(grad_pass *pass, int value_id, int cotangent)
{
    if (pass->cotangents[value_id] < 0) {
        pass->cotangents[value_id] = cotangent;
        return ZT_OK;
    }
    int outputs[ZT_MAX_OUT];
    zt_status status =
        zt_builder_op(pass->builder, ZT_OP_add, NULL, (const int[]){pass->cotangents[value_id], cotangent}, NULL, outputs);
    if (!status) pass->cotangents[value_id] = outputs[0];
    return status;
}

/* What a row wrote for input k of its step. */
static zt_status check_cotangent(grad_pass *pass, const zt_opinfo *op_info, const zt_vjp *vjp, int input_value, int k)
{
    char actual_text[ZT_TYPE_TEXT], expected_text[ZT_TYPE_TEXT];
    if (!vjp->want[k] || vjp->dx[k] == ZT_NONE) return ZT_OK;
    if (vjp->dx[k] < 0)
        return zt_ctx_status(pass->ctx) ? zt_ctx_status(pass->ctx)
                                        : zt_fail(pass->ctx, ZT_EBUG, "op %s: the vjp failed", op_info->name);
    zt_type want = zt_builder_type(pass->builder, vjp->in[k]), got = zt_builder_type(pass->builder, vjp->dx[k]);
    if (!zt_type_equal(&want, &got))
        return zt_fail(pass->ctx, ZT_EBUG, "op %s: the gradient of %s has type %s, but the value has type %s", op_info->name,
                       op_info->in_name[k], zt_type_text(&got, actual_text), zt_type_text(&want, expected_text));
    return add_cotangent(pass, input_value, vjp->dx[k]);
}

static zt_status back_step(grad_pass *pass, int step_index)
{
    const zt_step step = *zt_prog_step(pass->target, step_index);
    const zt_opinfo *op_info = zt_op_info(step.op);
    int read[ZT_MAX_IN]; /* what the op read, before it overwrote donated inputs */
    zt_vjp vjp = {.emit = zt_builder_emit(pass->builder), .attrs = step.attrs, .in = read, .out = step.out};
    bool asked = false;
    for (int output = 0; output < ZT_MAX_OUT; output++) {
        vjp.dy[output] = output < op_info->n_out ? pass->cotangents[step.out[output]] : ZT_NONE;
        asked = asked || vjp.dy[output] >= 0;
        if (vjp.dy[output] >= 0 && op_info->def->saved >> output & 1)
            return zt_fail(pass->ctx, ZT_ENOTSUP, "op %s: output '%s' is not differentiable", op_info->name,
                           op_info->out_name[output]);
    }
    if (!asked || !any_gradient_flows(pass, op_info, step.in)) return ZT_OK;
    if (!op_info->def->vjp) return zt_fail(pass->ctx, ZT_ENOTSUP, "op %s is not differentiable", op_info->name);
    for (int input = 0; input < ZT_MAX_IN; input++)
        read[input] = input < op_info->def->donates ? copied_value(pass, step.in[input]) : step.in[input];
    for (int input = 0; input < ZT_MAX_IN; input++) {
        vjp.want[input] = input < op_info->n_in && gradient_flows(pass, op_info->def, step.in, input);
        vjp.dx[input] = ZT_NONE;
    }
    op_info->def->vjp(&vjp);
    if (vjp.refused[0]) return zt_fail(pass->ctx, ZT_ENOTSUP, "op %s is not differentiable: %s", op_info->name, vjp.refused);
    zt_status st_ = zt_ctx_status(pass->ctx);
    for (int input = 0; input < op_info->n_in && !st_; input++) st_ = check_cotangent(pass, op_info, &vjp, step.in[input], input);
    return st_ ? st_ : grow_arrays(pass);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool is_output(const zt_prog *program, const char *name)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        if (!strcmp(zt_prog_output(program, output_index)->name, name)) return true;
    return false;
}

static int add_constant(grad_pass *pass, int like, double value)
{
    int outputs[ZT_MAX_OUT] = {-1};
    const zt_fill_like_attrs attrs = {value};
    return zt_builder_op(pass->builder, ZT_OP_fill_like, &attrs, &like, NULL, outputs) ? -1 : outputs[0];
}

/* The cotangent that an output starts from: an input of its own, or ones. */
static zt_status seed_output(grad_pass *pass, const zt_output *output, bool given)
{
    char name[300];
    int value_id = pass->map[output->value], cotangent;
    if (!is_real(pass, value_id) || is_saved(pass, value_id))
        return zt_fail(pass->ctx, ZT_EUSAGE, "output '%s' cannot have a gradient: %s", output->name,
                       is_real(pass, value_id) ? "saved for the gradients of other outputs" : "not of a float type");
    if (given) {
        zt_type type = zt_builder_type(pass->builder, value_id);
        if (zt_prog_n_symbols(pass->target))
            return zt_fail(pass->ctx, ZT_EUSAGE,
                           "the cotangent of '%s' cannot be an input: its shape is known only after symbols are "
                           "bound",
                           output->name);
        snprintf(name, sizeof name, "d.%s", output->name);
        cotangent = zt_prog_in(pass->target, name, type.dtype, type.rank, type.dim);
    } else {
        cotangent = add_constant(pass, value_id, 1);
    }
    zt_status status = cotangent < 0 ? zt_ctx_status(pass->ctx) : grow_arrays(pass);
    return status ? status : add_cotangent(pass, value_id, cotangent);
}

static zt_status seed_outputs(grad_pass *pass, const zt_grad_opts *opts)
{
    int found = 0;
    for (int output_index = 0; output_index < zt_prog_n_outputs(pass->source); output_index++) {
        const zt_output *out = zt_prog_output(pass->source, output_index);
        bool named = false;
        for (int k = 0; k < opts->n_of; k++) named = named || !strcmp(opts->of[k], out->name);
        int value_id = pass->map[out->value];
        if (opts->n_of ? !named : !is_real(pass, value_id) || is_saved(pass, value_id)) continue;
        zt_status status = seed_output(pass, out, opts->seeds);
        if (status) return status;
        found++;
    }
    if (found && found >= opts->n_of) return grow_arrays(pass);
    return zt_fail(pass->ctx, ZT_EUSAGE, "%d of the %d requested outputs exist", found, opts->n_of);
}

/* "d.x"; where a gradient of that name is an output already, "d.d.x" and so on. */
static zt_status put_gradient(grad_pass *pass, int wrt)
{
    char name[300];
    int value_id = pass->map[wrt],
        cotangent = pass->cotangents[value_id] >= 0 ? pass->cotangents[value_id] : add_constant(pass, value_id, 0);
    if (cotangent < 0) return zt_ctx_status(pass->ctx);
    snprintf(name, sizeof name, "d.%s", zt_prog_value(pass->source, wrt)->name);
    while (is_output(pass->target, name) && strlen(name) + 3 < sizeof name) {
        memmove(name + 2, name, strlen(name) + 1);
        memcpy(name, "d.", 2);
    }
    return zt_prog_out(pass->target, name, cotangent);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static zt_status check_targets(const zt_prog *program, zt_ctx *ctx, const int *wrt, int wrt_count)
{
    int state = zt_prog_nth(program, ZT_VALUE_STATE, 0);
    if (state >= 0)
        return zt_fail(ctx, ZT_ENOTSUP, "state '%s': a program with states is not differentiable",
                       zt_prog_value(program, state)->name);
    for (int wrt_index = 0; wrt_index < wrt_count; wrt_index++)
        if (wrt[wrt_index] < 0 || wrt[wrt_index] >= zt_prog_n_values(program))
            return zt_fail(ctx, ZT_EUSAGE, "value %d is not in the program", wrt[wrt_index]);
    return ZT_OK;
}

static zt_status run_pass(grad_pass *pass, const int *wrt, int wrt_count, const zt_grad_opts *opts)
{
    zt_status status = grow_arrays(pass);
    if (status) return status;
    for (int wrt_index = 0; wrt_index < wrt_count && !status; wrt_index++) {
        pass->wanted[wrt[wrt_index]] = true;
        if (zt_prog_value(pass->source, wrt[wrt_index])->kind != ZT_VALUE_OP) status = mark_active(pass, wrt[wrt_index]);
    }
    for (int step_index = 0; step_index < zt_prog_n_steps(pass->source) && !status; step_index++)
        status = copy_step(pass, zt_prog_step(pass->source, step_index));
    int n_forward = zt_prog_n_steps(pass->target);
    if (!status) status = seed_outputs(pass, opts);
    for (int i = n_forward; i-- > 0 && !status;) status = back_step(pass, i);
    for (int output_index = 0; output_index < zt_prog_n_outputs(pass->source) && !status; output_index++) {
        const zt_output *out = zt_prog_output(pass->source, output_index);
        status = zt_prog_out(pass->target, out->name, pass->map[out->value]);
    }
    for (int wrt_index = 0; wrt_index < wrt_count && !status; wrt_index++) status = put_gradient(pass, wrt[wrt_index]);
    return status;
}

zt_prog *zt_grad_pass(zt_ctx *ctx, const zt_prog *program, const int *wrt, int wrt_count, const zt_grad_opts *opts, int *map)
{
    static const zt_grad_opts plain;
    grad_pass pass = {.ctx = ctx, .source = program, .map = map};
    if (!opts) opts = &plain;
    if (zt_ctx_status(ctx) || check_targets(program, ctx, wrt, wrt_count)) return NULL;
    pass.forward = (zt_emit){&pass, forward_emit, forward_type};
    pass.wanted = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *pass.wanted);
    if (pass.wanted) pass.target = zt_prog_like(program, map);
    if (pass.target) pass.builder = zt_builder_new(pass.target, opts->sample, opts->n_sample);
    bool good = pass.builder && run_pass(&pass, wrt, wrt_count, opts) == ZT_OK;
    zt_builder_free(pass.builder);
    zt_free(ctx, pass.wanted);
    zt_free(ctx, pass.active);
    zt_free(ctx, pass.cotangents);
    if (good) return pass.target;
    zt_prog_free(pass.target);
    return NULL;
}

zt_prog *zt_prog_grad(zt_ctx *ctx, const zt_prog *program, const int *wrt, int wrt_count, const zt_grad_opts *opts)
{
    ZT_REQUIRE(ctx, program && (wrt || !wrt_count), NULL);
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *map);
    zt_prog *gradient = map ? zt_grad_pass(ctx, program, wrt, wrt_count, opts, map) : NULL;
    zt_free(ctx, map);
    return gradient;
}
