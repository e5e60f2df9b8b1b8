/* loss.c - losses of values and of classes. */
#include "lib/engine/cuda/args_loss.h"
#include "lib/engine/cuda/reduce.h"

enum { THREADS = 256, EACH = 4096 };

static bool float_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_wide_float(input_types[0]->dtype);
}

static zt_dtype wide_of(const zt_cu_call *call) { return call->input_types[0]->dtype == ZT_F64 ? ZT_F64 : ZT_F32; }

static zt_cu_ptr alloc_wide(zt_cu_call *call, int64_t number_count)
{
    return zt_cu_scratch(call, (size_t)number_count * (size_t)zt_dtype_get(wide_of(call))->block_bytes);
}

static zt_status status_of(const zt_cu_call *call) { return zt_ctx_status(call->engine->base.ctx); }

static zt_status launch_items(zt_cu_call *call, const char *name, int64_t item_count, int64_t threads, const void *args,
                              size_t bytes)
{
    return zt_cu_launch(call, name, zt_cu_spread(call, item_count, threads), (zt_cu_dim){THREADS, 1, 1}, 0, args, bytes);
}

/* ---- values ---------------------------------------------------------------------------------- */

static zt_status emit_pair(zt_cu_call *call, zt_cu_pair_loss kind, const zt_enum_string *reduction, double parameter)
{
    zt_cu_pair_args args = {.x = call->inputs[0],
                            .target = call->inputs[1],
                            .y = call->outputs[0],
                            .n = zt_type_count(call->input_types[0]),
                            .each = EACH,
                            .p = parameter,
                            .type = call->input_types[0]->dtype,
                            .kind = kind};
    if (reduction->s[0] == 'n') return launch_items(call, "zt_cu_pair_each", args.n, THREADS, &args, sizeof args);
    const int64_t blocks = (args.n + EACH - 1) / EACH;
    args.y = alloc_wide(call, blocks);
    if (!args.y) return status_of(call);
    zt_status status =
        zt_cu_launch(call, "zt_cu_pair_sums", zt_cu_grid(blocks, 1), (zt_cu_dim){THREADS, 1, 1}, 0, &args, sizeof args);
    return status ? status
                  : zt_cu_fold_rows(call, ZT_CU_SUM, args.y, wide_of(call), call->outputs[0], call->output_types[0]->dtype, 1,
                                    blocks, reduction->s[0] == 'm' ? (double)args.n : 1);
}

static zt_status emit_mse(zt_cu_call *call)
{
    return emit_pair(call, ZT_CU_MSE, &((const zt_mse_attrs *)call->attrs)->reduction, 0);
}
static zt_status emit_smooth_l1(zt_cu_call *call)
{
    const zt_smooth_l1_attrs *attrs = call->attrs;
    return emit_pair(call, ZT_CU_SMOOTH_L1, &attrs->reduction, attrs->beta);
}
static zt_status emit_bce(zt_cu_call *call)
{
    return emit_pair(call, ZT_CU_BCE, &((const zt_bce_with_logits_attrs *)call->attrs)->reduction, 0);
}

/* ---- classes --------------------------------------------------------------------------------- */

static zt_cu_class_args classes_of(const zt_cu_call *call, int weight, int64_t ignore)
{
    const zt_type *x_type = call->input_types[0];
    zt_cu_class_args args = {.x = call->inputs[0],
                             .target = call->inputs[1],
                             .weight = call->inputs[weight],
                             .trouble = call->error,
                             .positions = zt_type_count(call->input_types[1]),
                             .classes = x_type->dim[1],
                             .inner = 1,
                             .ignore = ignore,
                             .type = x_type->dtype};
    for (int dimension = 2; dimension < x_type->rank; dimension++) args.inner *= x_type->dim[dimension];
    return args;
}

/* The sum of the weights of all targets that count, in scratch; 0: an error. */
static zt_cu_ptr total_of(zt_cu_call *call, const zt_cu_class_args *classes)
{
    zt_cu_class_args args = *classes;
    zt_cu_ptr total = alloc_wide(call, 1);
    args.y = alloc_wide(call, args.positions);
    if (!total || !args.y || launch_items(call, "zt_cu_class_weights", args.positions, THREADS, &args, sizeof args) ||
        zt_cu_fold_rows(call, ZT_CU_SUM, args.y, wide_of(call), total, wide_of(call), 1, args.positions, 1))
        return 0;
    return total;
}

static zt_status run_forward(zt_cu_call *call, const zt_cu_class_args *args)
{
    const bool rows = args->inner == 1 && args->classes >= 128 && !args->nll;
    return launch_items(call, rows ? "zt_cu_class_rows" : "zt_cu_class_lines", args->positions, rows ? 1 : THREADS, args,
                        sizeof *args);
}

static zt_status emit_forward(zt_cu_call *call, zt_cu_class_args *args, const zt_enum_string *reduction)
{
    const bool none = reduction->s[0] == 'n', mean = reduction->s[0] == 'm';
    const zt_dtype wide = wide_of(call), y_type = call->output_types[0]->dtype;
    args->y = none ? call->outputs[0] : alloc_wide(call, args->positions);
    args->y_type = none ? y_type : wide;
    if (!args->y) return status_of(call);
    zt_status status = run_forward(call, args);
    if (status || none) return status;
    zt_cu_ptr sum = mean ? alloc_wide(call, 1) : call->outputs[0];
    if (!sum) return status_of(call);
    status = zt_cu_fold_rows(call, ZT_CU_SUM, args->y, wide, sum, mean ? wide : y_type, 1, args->positions, 1);
    if (status || !mean) return status;
    zt_cu_ratio_args ratio = {.a = sum, .b = total_of(call, args), .y = call->outputs[0], .type = y_type};
    if (!ratio.b) return status_of(call);
    return zt_cu_launch(call, "zt_cu_ratio", (zt_cu_dim){1, 1, 1}, (zt_cu_dim){32, 1, 1}, 0, &ratio, sizeof ratio);
}

static zt_status emit_cross_entropy(zt_cu_call *call)
{
    const zt_cross_entropy_attrs *attrs = call->attrs;
    zt_cu_class_args args = classes_of(call, 2, attrs->ignore_index);
    args.smoothing = attrs->label_smoothing;
    args.lse = call->outputs[1];
    return emit_forward(call, &args, &attrs->reduction);
}

static zt_status emit_nll(zt_cu_call *call)
{
    const zt_nll_attrs *attrs = call->attrs;
    zt_cu_class_args args = classes_of(call, 2, attrs->ignore_index);
    args.nll = 1;
    return emit_forward(call, &args, &attrs->reduction);
}

static zt_status emit_back(zt_cu_call *call, zt_cu_class_args *args, const zt_enum_string *reduction)
{
    args->dx = call->outputs[0];
    args->each = reduction->s[0] == 'n';
    if (reduction->s[0] == 'm' && !(args->total = total_of(call, args))) return status_of(call);
    return launch_items(call, "zt_cu_class_back", args->positions * args->classes, THREADS, args, sizeof *args);
}

static zt_status emit_cross_entropy_backward(zt_cu_call *call)
{
    const zt_cross_entropy_backward_attrs *attrs = call->attrs;
    zt_cu_class_args args = classes_of(call, 4, attrs->ignore_index);
    args.smoothing = attrs->label_smoothing;
    args.lse = call->inputs[2];
    args.dy = call->inputs[3];
    if (args.weight && args.smoothing > 0) {
        args.all = alloc_wide(call, 1);
        if (!args.all) return status_of(call);
        zt_status status = zt_cu_fold_rows(call, ZT_CU_SUM, args.weight, call->input_types[4]->dtype, args.all, wide_of(call), 1,
                                           args.classes, 1);
        if (status) return status;
    }
    return emit_back(call, &args, &attrs->reduction);
}

static zt_status emit_nll_backward(zt_cu_call *call)
{
    const zt_nll_backward_attrs *attrs = call->attrs;
    zt_cu_class_args args = classes_of(call, 3, attrs->ignore_index);
    args.nll = 1;
    args.dy = call->inputs[2];
    return emit_back(call, &args, &attrs->reduction);
}

const zt_cu_row zt_cu_loss[] = {
    {.op = ZT_OP_mse, .has = float_has, .emit = emit_mse},
    {.op = ZT_OP_smooth_l1, .has = float_has, .emit = emit_smooth_l1},
    {.op = ZT_OP_bce_with_logits, .has = float_has, .emit = emit_bce},
    {.op = ZT_OP_cross_entropy, .has = float_has, .emit = emit_cross_entropy},
    {.op = ZT_OP_cross_entropy_backward, .has = float_has, .emit = emit_cross_entropy_backward},
    {.op = ZT_OP_nll, .has = float_has, .emit = emit_nll},
    {.op = ZT_OP_nll_backward, .has = float_has, .emit = emit_nll_backward},
    {.emit = NULL},
};
