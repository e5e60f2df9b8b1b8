/* norm.c - rows of norms, of heads turned by tables, of softmax and its kin. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <string.h>

/* A kernel of each type of numbers. */
static const char *of_type(zt_dtype dtype, const char *const names[4])
{
    return names[dtype == ZT_F32 ? 0 : dtype == ZT_F16 ? 1 : dtype == ZT_BF16 ? 2 : 3];
}

static int64_t last_dim(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

/* ---- norms ----------------------------------------------------------------------------------- */

static bool has_float(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    int64_t element_count = zt_type_count(input_types[0]);
    return (zt_cu_is_float(input_types[0]->dtype) || input_types[0]->dtype == ZT_F64) &&
           element_count <= (int64_t)engine->max_grid[0];
}

/* Threads for a row of K, which the order of its sum depends on. */
static unsigned threads_of(int64_t K)
{
    unsigned threads = 32;
    while (threads < 512 && (int64_t)threads * 8 < K) threads *= 2;
    return threads;
}

/* At most what a block has that makes a norm on its way (persistent_kernel.cu). */
unsigned zt_cu_norm_team(int64_t K)
{
    unsigned threads = threads_of(K);
    return threads < ZT_CU_NORM_TEAM ? threads : ZT_CU_NORM_TEAM;
}

static const char *const rms_names[] = {"zt_norm_f32", "zt_norm_f16", "zt_norm_bf16",
                                        "zt_norm_f64"};
static const char *const layer_names[] = {"zt_layer_f32", "zt_layer_f16", "zt_layer_bf16",
                                          "zt_layer_f64"};

static zt_status launch_rows(zt_cu_call *call, zt_dtype dtype, const char *const names[4],
                             zt_cu_norm_args *args)
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
    return launch_rows(call, dtype, rms_names, args);
}

static zt_cu_norm_args norm_of(const zt_cu_call *call, double eps, int64_t dims)
{
    int64_t count = zt_type_count(call->input_types[0]), K = dims ? dims : last_dim(call->input_types[0]);
    return (zt_cu_norm_args){
        .x = call->inputs[0], .y = call->outputs[0], .K = K, .rows = K ? count / K : 0, .eps = eps};
}

static zt_status emit_rms_norm(zt_cu_call *call)
{
    const zt_rms_norm_attrs *attrs = call->attrs;
    zt_cu_norm_args args = norm_of(call, attrs->eps, attrs->dims);
    args.g = call->inputs[1];
    args.rstd = call->outputs[1];
    return launch_norm(call, call->input_types[0]->dtype, &args);
}

zt_status zt_cu_rms_norm(zt_cu_call *call, const zt_type *type, zt_cu_ptr x, zt_cu_ptr gain, double eps,
                         int64_t dims, zt_cu_ptr y)
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

/* ---- turned by tables ----------------------------------------------------------------------- */

static zt_status launch_rotate(zt_cu_call *call, zt_cu_rotate_args *args)
{
    static const char *const names[] = {"zt_rotate_f32", "zt_rotate_f16", "zt_rotate_bf16",
                                        "zt_rotate_f64"};
    const zt_type *x_type = call->input_types[0];
    args->x = call->inputs[0];
    args->y = call->outputs[0];
    args->K = last_dim(x_type);
    args->rows = args->K ? zt_type_count(x_type) / args->K : 0;
    args->heads = args->heads > 0 ? args->heads : 1;
    args->tables = args->tables > 0 ? args->tables : 1;
    return zt_cu_launch(call, of_type(x_type->dtype, names), zt_cu_grid(args->rows, 4), (zt_cu_dim){128, 1, 1},
                        0, args, sizeof *args);
}

static zt_status emit_rope_table(zt_cu_call *call)
{
    const zt_rope_table_attrs *attrs = call->attrs;
    zt_cu_rotate_args args = {.cos = call->inputs[1],
                         .sin = call->inputs[2],
                         .half = call->input_types[1]->dim[1],
                         .tables = call->input_types[1]->dim[0],
                         .per = 1,
                         .neighbours = !strcmp(attrs->pair.s, "neighbours")};
    return launch_rotate(call, &args);
}

static zt_status emit_qk_norm_rope(zt_cu_call *call)
{
    const zt_qk_norm_rope_attrs *attrs = call->attrs;
    const zt_type *x_type = call->input_types[0], *table = call->input_types[3];
    int64_t half = last_dim(table), heads = x_type->dim[x_type->rank - 2];
    zt_cu_rotate_args args = {.wq = call->inputs[1],
                         .wk = call->inputs[2],
                         .cos = call->inputs[3],
                         .sin = call->inputs[4],
                         .half = half,
                         .tables = half ? zt_type_count(table) / half : 1,
                         .per = heads > 0 ? heads : 1,
                         .heads = heads,
                         .q_heads = attrs->q_heads,
                         .eps = attrs->eps,
                         .neighbours = !strcmp(attrs->pair.s, "neighbours")};
    return launch_rotate(call, &args);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Lines along an axis. */
static zt_cu_softmax_args lines_of(const zt_cu_call *call, int64_t axis, double scale, bool log)
{
    const zt_type *x_type = call->input_types[0];
    int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
    zt_cu_softmax_args args = {
        .x = call->inputs[0], .y = call->outputs[0], .n = x_type->dim[axis_at], .inner = 1, .scale = scale, .log = log};
    for (int dimension = axis_at + 1; dimension < x_type->rank; dimension++) args.inner *= x_type->dim[dimension];
    args.lines = args.n ? zt_type_count(x_type) / args.n : 0;
    return args;
}

static zt_status launch_softmax(zt_cu_call *call, int64_t axis, double scale, bool log)
{
    static const char *const lines[] = {"zt_softmax_f32", "zt_softmax_f16", "zt_softmax_bf16",
                                        "zt_softmax_f64"};
    static const char *const across[] = {"zt_softmax_across_f32", "zt_softmax_across_f16",
                                         "zt_softmax_across_bf16", "zt_softmax_across_f64"};
    const zt_type *x_type = call->input_types[0];
    zt_cu_softmax_args args = lines_of(call, axis, scale, log);
    if (args.lines == 0) return ZT_OK;
    if (args.inner > 1)
        return zt_cu_launch(call, of_type(x_type->dtype, across), zt_cu_grid(args.lines, 128),
                            (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
    return zt_cu_launch(call, of_type(x_type->dtype, lines), (zt_cu_dim){(unsigned)args.lines, 1, 1},
                        (zt_cu_dim){threads_of(args.n), 1, 1}, 0, &args, sizeof args);
}

static zt_status emit_softmax(zt_cu_call *call)
{
    return launch_softmax(call, ((const zt_softmax_attrs *)call->attrs)->axis, 1, false);
}

static zt_status emit_log_softmax(zt_cu_call *call)
{
    return launch_softmax(call, ((const zt_log_softmax_attrs *)call->attrs)->axis, 1, true);
}

static zt_status emit_scaled_softmax(zt_cu_call *call)
{
    const zt_scaled_softmax_attrs *attrs = call->attrs;
    return launch_softmax(call, attrs->axis, attrs->scale, false);
}

static zt_status emit_entmax(zt_cu_call *call)
{
    static const char *const names[] = {"zt_entmax_f32", "zt_entmax_f16", "zt_entmax_bf16",
                                        "zt_entmax_f64"};
    const zt_entmax_attrs *attrs = call->attrs;
    zt_cu_softmax_args args = lines_of(call, attrs->axis, attrs->alpha, false);
    return zt_cu_launch(call, of_type(call->input_types[0]->dtype, names), (zt_cu_dim){(unsigned)args.lines, 1, 1},
                        (zt_cu_dim){32, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_norm[] = {
    {ZT_OP_rms_norm, has_norm, emit_rms_norm, 0},
    {ZT_OP_add_rms_norm, has_norm, emit_add_rms_norm, 0},
    {ZT_OP_norm_add, has_norm, emit_norm_add, 0},
    {ZT_OP_layer_norm, has_norm, emit_layer_norm, 0},
    {ZT_OP_rope_table, has_float, emit_rope_table, 0},
    {ZT_OP_qk_norm_rope, has_float, emit_qk_norm_rope, 0},
    {ZT_OP_softmax, has_float, emit_softmax, 0},
    {ZT_OP_log_softmax, has_float, emit_log_softmax, 0},
    {ZT_OP_scaled_softmax, has_float, emit_scaled_softmax, 0},
    {ZT_OP_entmax, has_float, emit_entmax, 0},
    {0},
};
