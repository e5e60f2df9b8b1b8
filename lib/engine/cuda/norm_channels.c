/* norm_channels.c - rows of norms by channels and of their gradients. */
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

#define OF_TYPE(name)                                                                                                            \
    {                                                                                                                            \
        name "_f32", name "_f16", name "_bf16", name "_f64"                                                                      \
    }
static const char *const norm_names[] = OF_TYPE("zt_set_norm");
static const char *const known_names[] = OF_TYPE("zt_known_norm");
static const char *const back_names[] = OF_TYPE("zt_set_back");
static const char *const channel_names[] = OF_TYPE("zt_channel_back");

static bool has_float(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return (zt_cu_is_float(input_types[0]->dtype) || input_types[0]->dtype == ZT_F64) &&
           input_types[0]->dim[0] * input_types[0]->dim[1] <= (int64_t)engine->max_grid[0];
}

static zt_status launch_sets(zt_cu_call *call, const char *const names[4], zt_cu_dim grid, const zt_cu_set_args *args)
{
    zt_dtype dtype = call->input_types[0]->dtype;
    const char *name = names[dtype == ZT_F32 ? 0 : dtype == ZT_F16 ? 1 : dtype == ZT_BF16 ? 2 : 3];
    return zt_cu_launch(call, name, grid, (zt_cu_dim){256, 1, 1}, 0, args, sizeof *args);
}

/* Sizes; groups 0: a set is a channel of all samples. */
static zt_cu_set_args sets_of(const zt_cu_call *call, int64_t groups)
{
    const zt_type *x_type = call->input_types[0];
    zt_cu_set_args args = {.x = call->inputs[0], .N = x_type->dim[0], .C = x_type->dim[1], .size = 1, .groups = groups};
    for (int dimension = 2; dimension < x_type->rank; dimension++) args.size *= x_type->dim[dimension];
    args.of = groups ? args.C / groups : 1;
    return args;
}

/* A block a set. */
static zt_cu_dim set_grid(const zt_cu_set_args *args)
{
    return (zt_cu_dim){(unsigned)(args->groups ? args->N * args->groups : args->C), 1, 1};
}

static zt_status emit_batch_norm(zt_cu_call *call)
{
    const zt_batch_norm_attrs *attrs = call->attrs;
    zt_cu_set_args args = sets_of(call, 0);
    args.g = call->inputs[1], args.b = call->inputs[2], args.run_mean = call->inputs[3], args.run_var = call->inputs[4];
    args.y = call->outputs[0], args.mean = call->outputs[1], args.rstd = call->outputs[2], args.new_mean = call->outputs[3],
    args.new_var = call->outputs[4];
    args.eps = attrs->eps;
    args.momentum = attrs->momentum;
    args.unbiased = attrs->unbiased != 0;
    return launch_sets(call, norm_names, set_grid(&args), &args);
}

static zt_status emit_inference(zt_cu_call *call)
{
    zt_cu_set_args args = sets_of(call, 0);
    args.mean = call->inputs[1], args.run_var = call->inputs[2], args.g = call->inputs[3], args.b = call->inputs[4];
    args.y = call->outputs[0];
    args.eps = ((const zt_batch_norm_inference_attrs *)call->attrs)->eps;
    return launch_sets(call, known_names, zt_cu_grid(zt_type_count(call->input_types[0]), 256), &args);
}

static zt_status emit_group_norm(zt_cu_call *call)
{
    const zt_group_norm_attrs *attrs = call->attrs;
    zt_cu_set_args args = sets_of(call, attrs->groups);
    args.g = call->inputs[1], args.b = call->inputs[2];
    args.y = call->outputs[0], args.mean = call->outputs[1], args.rstd = call->outputs[2];
    args.eps = attrs->eps;
    return launch_sets(call, norm_names, set_grid(&args), &args);
}

/* Both gradients: x, mean, rstd, dy, g. */
static zt_status emit_back(zt_cu_call *call, int64_t groups, bool training)
{
    zt_cu_set_args args = sets_of(call, groups);
    zt_status status = ZT_OK;
    args.mean = call->inputs[1], args.rstd = call->inputs[2], args.dy = call->inputs[3], args.g = call->inputs[4];
    args.dx = call->outputs[0], args.dg = call->outputs[1], args.db = call->outputs[2];
    args.training = training;
    if (args.dx) status = launch_sets(call, back_names, set_grid(&args), &args);
    if (status || (!args.dg && !args.db)) return status;
    return launch_sets(call, channel_names, (zt_cu_dim){(unsigned)args.C, 1, 1}, &args);
}

static zt_status emit_batch_back(zt_cu_call *call)
{
    return emit_back(call, 0, ((const zt_batch_norm_backward_attrs *)call->attrs)->training != 0);
}

static zt_status emit_group_back(zt_cu_call *call) { return emit_back(call, call->input_types[1]->dim[1], true); }

const zt_cu_row zt_cu_norm_channels[] = {
    {.op = ZT_OP_batch_norm, .has = has_float, .emit = emit_batch_norm},
    {.op = ZT_OP_batch_norm_inference, .has = has_float, .emit = emit_inference},
    {.op = ZT_OP_batch_norm_backward, .has = has_float, .emit = emit_batch_back},
    {.op = ZT_OP_group_norm, .has = has_float, .emit = emit_group_norm},
    {.op = ZT_OP_group_norm_backward, .has = has_float, .emit = emit_group_back},
    {0},
};
