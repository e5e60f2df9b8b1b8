/* step.c - owns the programs of a training step: the gradient pass of a forward program with weights as states, then clipping
 * and the optimizer's update, in one program or, for gradients that are summed between them, in two. */
#include "lib/base/require.h"
#include "lib/prog/states.h"
#include "lib/train/train_internal.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WEIGHTS = 1 << 16, NAME = 300 };

typedef struct step_builder {
    zt_ctx *ctx;
    const zt_train_opts *options;
    const zt_prog *forward;
    zt_prog *gradient_program; /* forward and d.NAME for each weight */
    zt_prog *program;
    int *map;       /* [values of grad]: its number in `to` */
    int *weights;   /* [weight_count]: values of forward, then (after the gradient pass) of `to` */
    int *gradients; /* [weight_count]: values of `to` */
    int *wrt;       /* values of forward: the weight_count weights, then those watched */
    int weight_count, grad_outputs;
    zt_update update;
} step_builder;

/* ---- copies of programs ------------------------------------------------------------------------ */

static zt_status copy_op(const zt_prog *from, const zt_step *step, zt_prog *to, int *map)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT];
    int inputs[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) inputs[k] = step->in[k] < 0 ? ZT_NONE : map[step->in[k]];
    for (int k = 0; k < info->n_out; k++) names[k] = step->out[k] < 0 ? "_" : zt_prog_value(from, step->out[k])->name;
    zt_status status = zt_prog_op(to, step->op, step->attrs, inputs, names, out);
    for (int k = 0; k < info->n_out && !status; k++)
        if (step->out[k] >= 0) map[step->out[k]] = out[k];
    return status;
}

zt_status zt_train_copy_ops(zt_ctx *ctx, const zt_prog *from, zt_prog *to, int *map)
{
    zt_status status = zt_ctx_status(ctx);
    for (int i = 0; i < zt_prog_n_steps(from) && !status; i++) status = copy_op(from, zt_prog_step(from, i), to, map);
    return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_real(const zt_value *value) { return value->type.dtype == ZT_F32 || value->type.dtype == ZT_F64; }

static zt_status check_weight(const step_builder *step, int value)
{
    const zt_value *weight = value >= 0 && value < zt_prog_n_values(step->forward) ? zt_prog_value(step->forward, value) : NULL;
    if (!weight || (weight->kind != ZT_VALUE_IN && weight->kind != ZT_VALUE_DATA))
        return zt_fail(step->ctx, ZT_EUSAGE, "weight '%s' is neither an input nor data of the program",
                       weight ? weight->name : "?");
    if (!is_real(weight))
        return zt_fail(step->ctx, ZT_EUSAGE, "weight '%s' has dtype %s: must be f32 or f64", weight->name,
                       zt_dtype_get(weight->type.dtype)->name);
    if (weight->type.dtype != zt_prog_value(step->forward, step->weights[0])->type.dtype)
        return zt_fail(step->ctx, ZT_EUSAGE, "weight '%s' has dtype %s, but the first weight has %s", weight->name,
                       zt_dtype_get(weight->type.dtype)->name,
                       zt_dtype_get(zt_prog_value(step->forward, step->weights[0])->type.dtype)->name);
    for (int axis = 0; axis < weight->type.rank; axis++)
        if (weight->type.dim[axis] < 0) return zt_fail(step->ctx, ZT_EUSAGE, "weight '%s' has no fixed shape", weight->name);
    return ZT_OK;
}

static zt_status find_weights(step_builder *step)
{
    const zt_prog *program = step->forward;
    int maximum = step->options->n_weights ? step->options->n_weights : zt_prog_count(program, ZT_VALUE_DATA);
    if (maximum > MAX_WEIGHTS) return zt_fail(step->ctx, ZT_EUSAGE, "too many weights (%d): at most %d", maximum, MAX_WEIGHTS);
    step->weights = zt_calloc(step->ctx, (size_t)maximum + 1, sizeof *step->weights);
    step->gradients = zt_calloc(step->ctx, (size_t)maximum + 1, sizeof *step->gradients);
    if (!step->weights || !step->gradients) return ZT_ENOMEM;
    for (int i = 0; i < maximum; i++) {
        int value = step->options->n_weights ? step->options->weights[i] : zt_prog_nth(program, ZT_VALUE_DATA, i);
        if (step->options->n_weights || is_real(zt_prog_value(program, value))) step->weights[step->weight_count++] = value;
    }
    if (!step->weight_count) return zt_fail(step->ctx, ZT_EUSAGE, "the program has no trainable weights");
    zt_status status = ZT_OK;
    for (int weight_index = 0; weight_index < step->weight_count && !status; weight_index++) {
        status = check_weight(step, step->weights[weight_index]);
        for (int k = 0; k < weight_index && !status; k++)
            if (step->weights[k] == step->weights[weight_index])
                status = zt_fail(step->ctx, ZT_EUSAGE, "duplicate weight '%s'",
                                 zt_prog_value(program, step->weights[weight_index])->name);
    }
    return status;
}

/* ---- the gradient, with states --------------------------------------------------------------- */

static int find_output(const zt_prog *program, const char *name)
{
    for (int output = 0; output < zt_prog_n_outputs(program); output++)
        if (!strcmp(zt_prog_output(program, output)->name, name)) return output;
    return -1;
}

static zt_status differentiate_loss(step_builder *step)
{
    const char *loss = step->options->loss ? step->options->loss : "loss";
    if (find_output(step->forward, loss) < 0)
        return zt_fail(step->ctx, ZT_EUSAGE, "the program has no output '%s' to use as loss", loss);
    zt_grad_opts options = {.of = &loss, .n_of = 1, .sample = step->options->sample, .n_sample = step->options->n_sample};
    step->wrt = zt_alloc_array(step->ctx, (size_t)(step->weight_count + step->options->n_watched), sizeof *step->wrt);
    if (!step->wrt) return ZT_ENOMEM;
    memcpy(step->wrt, step->weights, (size_t)step->weight_count * sizeof *step->wrt);
    for (int i = 0; i < step->options->n_watched; i++) step->wrt[step->weight_count + i] = step->options->watched[i];
    const zt_train_opts *train = step->options;
    step->gradient_program =
        train->gradient
            ? train->gradient(train->user, step->ctx, step->forward, step->wrt, step->weight_count, train->n_watched, &options)
            : zt_prog_grad(step->ctx, step->forward, step->wrt, step->weight_count + train->n_watched, &options);
    step->grad_outputs = zt_prog_n_outputs(step->forward);
    return step->gradient_program ? ZT_OK : zt_ctx_status(step->ctx);
}

/* Copies the gradient's program with weights as states. Values have other numbers than in forward, so weights are found by
 * name. */
static zt_status weights_to_states(step_builder *step)
{
    int value_count = zt_prog_n_values(step->gradient_program);
    bool *state = zt_calloc(step->ctx, (size_t)value_count + 1, sizeof *state);
    step->map = zt_calloc(step->ctx, (size_t)value_count + 1, sizeof *step->map);
    if (!state || !step->map) {
        zt_free(step->ctx, state);
        return ZT_ENOMEM;
    }
    for (int weight_index = 0; weight_index < step->weight_count; weight_index++) {
        step->weights[weight_index] =
            zt_prog_find(step->gradient_program, zt_prog_value(step->forward, step->weights[weight_index])->name);
        state[step->weights[weight_index]] = true;
    }
    step->program = zt_prog_like_states(step->gradient_program, state, step->map);
    zt_free(step->ctx, state);
    zt_status status = step->program ? ZT_OK : zt_ctx_status(step->ctx);
    for (int weight_index = 0; weight_index < step->weight_count && !status; weight_index++) {
        int old_value = step->weights[weight_index], *mapped = &step->map[old_value];
        step->weights[weight_index] = *mapped;
        if (step->options->through)
            *mapped = step->options->through(step->options->user, step->program, *mapped,
                                             zt_prog_value(step->gradient_program, old_value)->name);
        if (*mapped < 0) status = zt_ctx_status(step->ctx);
    }
    if (!status) status = zt_train_copy_ops(step->ctx, step->gradient_program, step->program, step->map);
    for (int i = 0; i < step->weight_count && !status; i++)
        step->gradients[i] = step->map[zt_prog_output(step->gradient_program, step->grad_outputs + i)->value];
    return status;
}

/* ---- clipping and the update ----------------------------------------------------------------- */

/* The global norm: the root of the sum of squares of all gradients. */
static int write_norm(const step_builder *step)
{
    int sum = -1;
    for (int weight_index = 0; weight_index < step->weight_count; weight_index++) {
        int one =
            zt_program_sum(step->program, NULL, zt_program_square(step->program, NULL, step->gradients[weight_index]), NULL);
        sum = weight_index ? zt_program_add(step->program, NULL, sum, one) : one;
    }
    return zt_program_sqrt(step->program, "grad_norm", sum);
}

/* Multiplies gradients by min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does. */
static void clip_gradients(step_builder *step, int norm)
{
    zt_prog *program = step->program;
    int factor = zt_program_recip(program, NULL, zt_program_add_scalar(program, NULL, norm, &(zt_add_scalar_attrs){.by = 1e-6}));
    factor = zt_program_scale(program, NULL, factor, &(zt_scale_attrs){.by = step->options->clip});
    factor = zt_program_clamp(program, NULL, factor, &(zt_clamp_attrs){.lo = 0, .hi = 1});
    for (int i = 0; i < step->weight_count; i++) step->gradients[i] = zt_program_mul(program, NULL, step->gradients[i], factor);
}

static int moment_state(const step_builder *step, char prefix, const zt_value *weight)
{
    char name[NAME];
    snprintf(name, sizeof name, "%c.%s", prefix, weight->name);
    return zt_prog_state(step->program, name, weight->type.dtype, weight->type.rank, weight->type.dim);
}

static zt_status update_weight(step_builder *step, int index)
{
    const zt_optimizer *optimizer = step->update.optim->method;
    const char *moments = optimizer->moments(step->update.optim);
    const zt_value weight = *zt_prog_value(step->program, step->weights[index]);
    for (int k = 0; moments[k]; k++)
        if ((step->update.moments[k] = moment_state(step, moments[k], &weight)) < 0) return zt_ctx_status(step->ctx);
    int result = optimizer->update(&step->update, step->weights[index], step->gradients[index]);
    zt_status status = result < 0 ? zt_ctx_status(step->ctx) : zt_prog_keep(step->program, step->weights[index], result);
    for (int k = 0; moments[k] && !status; k++)
        status = zt_prog_keep(step->program, step->update.moments[k], step->update.new_moments[k]);
    return status;
}

/* Inputs lr and step, then the update of all weights. *norm_out: the global gradient norm, before clipping. */
static zt_status write_update(step_builder *step, int *norm_out)
{
    zt_dtype dtype = zt_prog_value(step->program, step->weights[0])->type.dtype;
    step->update = (zt_update){.program = step->program, .optim = step->options->optim};
    step->update.learning_rate = zt_prog_in(step->program, "lr", dtype, 0, NULL);
    step->update.step = step->update.learning_rate < 0 ? -1 : zt_prog_in(step->program, "step", dtype, 0, NULL);
    int norm = *norm_out = step->update.step < 0 ? -1 : write_norm(step);
    if (norm < 0) return zt_ctx_status(step->ctx);
    if (step->options->clip > 0) clip_gradients(step, norm);
    zt_status status = zt_ctx_status(step->ctx);
    for (int i = 0; i < step->weight_count && !status; i++) status = update_weight(step, i);
    return status;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* Puts out so many outputs of the gradient pass, from this one on, under their names there. */
static zt_status put_outputs(const step_builder *step, int first, int count)
{
    zt_status status = ZT_OK;
    for (int output = first; output < first + count && !status; output++) {
        const zt_output *out = zt_prog_output(step->gradient_program, output);
        status = zt_prog_out(step->program, out->name, step->map[out->value]);
    }
    return status;
}

/* The gradients of values watched, and what a method reports. */
static zt_status put_watched(const step_builder *step)
{
    int first = step->grad_outputs + step->weight_count;
    return put_outputs(step, first, zt_prog_n_outputs(step->gradient_program) - first);
}

/* Puts out the gradient of each weight, in the order of the states. */
static zt_status put_gradients(const step_builder *step)
{
    zt_status status = ZT_OK;
    for (int state = 0; state < step->weight_count && !status; state++) {
        int weight_index = 0;
        while (step->weights[weight_index] != zt_prog_nth(step->program, ZT_VALUE_STATE, state)) weight_index++;
        status = put_outputs(step, step->grad_outputs + weight_index, 1);
    }
    return status;
}

/* ---- programs --------------------------------------------------------------------------------- */

/* Forward and gradient, with weights as states. */
static zt_status begin_program(step_builder *step)
{
    zt_status status = zt_ctx_status(step->ctx);
    if (!status) status = find_weights(step);
    if (!status) status = differentiate_loss(step);
    return status ? status : weights_to_states(step);
}

static zt_prog *end_program(step_builder *step, zt_status status)
{
    if (status) zt_prog_free(step->program);
    zt_prog_free(step->gradient_program);
    zt_free(step->ctx, step->map);
    zt_free(step->ctx, step->weights);
    zt_free(step->ctx, step->wrt);
    zt_free(step->ctx, step->gradients);
    return status ? NULL : step->program;
}

zt_prog *zt_train_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *options)
{
    ZT_REQUIRE(ctx, forward && options, NULL);
    step_builder step = {.ctx = ctx, .options = options, .forward = forward};
    int norm = -1;
    zt_status status = begin_program(&step);
    if (!status) status = write_update(&step, &norm);
    if (!status) status = put_outputs(&step, 0, step.grad_outputs);
    if (!status) status = zt_prog_out(step.program, "grad_norm", norm);
    if (!status) status = put_watched(&step);
    return end_program(&step, status);
}

zt_prog *zt_train_gradient_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *options)
{
    step_builder step = {.ctx = ctx, .options = options, .forward = forward};
    zt_status status = begin_program(&step);
    if (!status) status = put_outputs(&step, 0, step.grad_outputs);
    if (!status) status = put_watched(&step);
    if (!status) status = put_gradients(&step);
    return end_program(&step, status);
}

/* Declares a weight as a state, and its gradient as an input. */
static zt_status declare_weight(step_builder *step, int index, const zt_value *weight)
{
    char name[NAME];
    snprintf(name, sizeof name, "d.%s", weight->name);
    const zt_type *type = &weight->type;
    step->weights[index] = zt_prog_state(step->program, weight->name, type->dtype, type->rank, type->dim);
    step->gradients[index] = step->weights[index] < 0 ? -1 : zt_prog_in(step->program, name, type->dtype, type->rank, type->dim);
    return step->gradients[index] < 0 ? zt_ctx_status(step->ctx) : ZT_OK;
}

zt_prog *zt_train_update_program(zt_ctx *ctx, const zt_prog *gradient, const zt_train_opts *options)
{
    step_builder step = {.ctx = ctx, .options = options, .weight_count = zt_prog_count(gradient, ZT_VALUE_STATE)};
    size_t count = (size_t)step.weight_count + 1;
    int norm = -1;
    step.program = zt_prog_new(ctx);
    step.weights = zt_calloc(ctx, count, sizeof *step.weights);
    step.gradients = zt_calloc(ctx, count, sizeof *step.gradients);
    zt_status status = step.program && step.weights && step.gradients ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < step.weight_count && !status; i++)
        status = declare_weight(&step, i, zt_prog_value(gradient, zt_prog_nth(gradient, ZT_VALUE_STATE, i)));
    if (!status) status = write_update(&step, &norm);
    if (!status) status = zt_prog_out(step.program, "grad_norm", norm);
    return end_program(&step, status);
}
