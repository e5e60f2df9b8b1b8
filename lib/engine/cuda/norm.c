/* norm.c - norms of rows, alone and fused with a sum. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/norm.h"

/* ---- norms ----------------------------------------------------------------------------------- */

/* At most what a block has that makes a norm on its way (persistent_kernel.cu). */
unsigned zt_cu_norm_team(int64_t K)
{
    unsigned threads = threads_of(K);
    return threads < ZT_CU_NORM_TEAM ? threads : ZT_CU_NORM_TEAM;
}

static const char *const rms_names[] = {"zt_norm_f32", "zt_norm_f16", "zt_norm_bf16", "zt_norm_f64"};
static const char *const layer_names[] = {"zt_layer_f32", "zt_layer_f16", "zt_layer_bf16", "zt_layer_f64"};

static zt_status launch_rows(zt_cu_call *call, zt_dtype dtype, const char *const names[4], zt_cu_norm_args *args)
{
    const zt_cu_ptr all = args->x | args->before | args->g | args->after | args->y | args->sum;
    args->wide = args->K % 4 == 0 && all % 32 == 0;
    args->team = (int32_t)zt_cu_norm_team(args->K);
    if (args->rows == 0 || args->K == 0) return ZT_OK;
    return zt_cu_launch(call, of_type(dtype, names), (zt_cu_dim){(unsigned)args->rows, 1, 1},
                        (zt_cu_dim){(unsigned)args->team, 1, 1}, 0, args, sizeof *args);
}

static zt_status launch_norm(zt_cu_call *call, zt_dtype dtype, zt_cu_norm_args *args)
{
    if (!call->engine->base.strict_bits || dtype != ZT_F32) return launch_rows(call, dtype, rms_names, args);
    return zt_cu_launch(call, "zt_contract_rms_norm", (zt_cu_dim){(unsigned)args->rows, 1, 1}, (zt_cu_dim){32, 1, 1}, 0, args,
                        sizeof *args);
}

static zt_cu_norm_args norm_of(const zt_cu_call *call, double eps, int64_t dims)
{
    int64_t count = zt_type_count(call->input_types[0]), K = dims ? dims : last_dim(call->input_types[0]);
    return (zt_cu_norm_args){.x = call->inputs[0], .y = call->outputs[0], .K = K, .rows = K ? count / K : 0, .eps = eps};
}

static zt_status emit_rms_norm(zt_cu_call *call)
{
    const zt_rms_norm_attrs *attrs = call->attrs;
    zt_cu_norm_args args = norm_of(call, attrs->eps, attrs->dims);
    args.g = call->inputs[1];
    args.rstd = call->outputs[1];
    return launch_norm(call, call->input_types[0]->dtype, &args);
}

zt_status zt_cu_rms_norm(zt_cu_call *call, const zt_type *type, zt_cu_ptr x, zt_cu_ptr gain, double eps, int64_t dims,
                         zt_cu_ptr y)
{
    int64_t K = dims ? dims : last_dim(type);
    zt_cu_norm_args args = {.x = x, .g = gain, .y = y, .K = K, .rows = K ? zt_type_count(type) / K : 0};
    args.eps = eps;
    return launch_norm(call, type->dtype, &args);
}

static zt_status emit_add_rms_norm(zt_cu_call *call)
{
    zt_cu_norm_args args = norm_of(call, ((const zt_add_rms_norm_attrs *)call->attrs)->eps, 0);
    args.before = call->inputs[1];
    args.g = call->inputs[2];
    args.sum = call->outputs[1];
    args.rstd = call->outputs[2];
    return launch_norm(call, call->input_types[0]->dtype, &args);
}

static zt_status emit_norm_add(zt_cu_call *call)
{
    zt_cu_norm_args args = norm_of(call, ((const zt_norm_add_attrs *)call->attrs)->eps, 0);
    args.g = call->inputs[1];
    args.after = call->inputs[2];
    return launch_norm(call, call->input_types[0]->dtype, &args);
}

static zt_status emit_layer_norm(zt_cu_call *call)
{
    zt_cu_norm_args args = norm_of(call, ((const zt_layer_norm_attrs *)call->attrs)->eps, 0);
    args.g = call->inputs[1];
    args.after = call->inputs[2];
    args.sum = call->outputs[1]; /* the mean */
    args.rstd = call->outputs[2];
    return launch_rows(call, call->input_types[0]->dtype, layer_names, &args);
}

/* Rows without columns still have a norm: 1 / sqrt(eps), which nobody multiplies by. */
static bool has_norm(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    return has_float(engine, attrs, input_types, output_types) && last_dim(input_types[0]) > 0;
}

const zt_cu_row zt_cu_norm[] = {
    {.op = ZT_OP_rms_norm, .has = has_norm, .emit = emit_rms_norm, .contract = zt_cu_of_f32},
    {.op = ZT_OP_add_rms_norm, .has = has_norm, .emit = emit_add_rms_norm, .contract = zt_cu_of_f32},
    {.op = ZT_OP_norm_add, .has = has_norm, .emit = emit_norm_add, .contract = zt_cu_of_f32},
    {.op = ZT_OP_layer_norm, .has = has_norm, .emit = emit_layer_norm},
    {.emit = NULL},
};
