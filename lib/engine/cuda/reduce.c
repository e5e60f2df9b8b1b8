/* reduce.c - folds over axes: which dimensions go, and in how many parts. All of it depends on
 * shapes alone. */
#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/reduce.h"

#include <string.h>

enum { THREADS = 256 };

static zt_dtype wide_of(zt_dtype dtype) { return dtype == ZT_F64 ? ZT_F64 : zt_cu_is_float(dtype) ? ZT_F32 : ZT_I64; }

/* ---- dimensions ------------------------------------------------------------------------------ */

static void add_dim(int32_t *dim_count, int64_t *dim, int64_t *step, int64_t size, int64_t stride)
{
    if (size == 1) return;
    if (*dim_count && stride == step[*dim_count - 1] * dim[*dim_count - 1]) {
        dim[*dim_count - 1] *= size;
        return;
    }
    dim[*dim_count] = size;
    step[(*dim_count)++] = stride;
}

/* x's dimensions: those marked go. */
void zt_cu_set_dims(zt_cu_reduce_args *args, const zt_type *x_type, const bool *gone)
{
    int64_t step = 1;
    args->kept = args->gone = 1;
    for (int dimension = x_type->rank - 1; dimension >= 0; step *= x_type->dim[dimension--]) {
        if (gone[dimension])
            add_dim(&args->n_gone, args->gone_dim, args->gone_step, x_type->dim[dimension], step);
        else
            add_dim(&args->n_kept, args->kept_dim, args->kept_step, x_type->dim[dimension], step);
        *(gone[dimension] ? &args->gone : &args->kept) *= x_type->dim[dimension];
    }
    if (!args->n_gone) args->gone_dim[args->n_gone++] = 1;
    if (!args->n_kept) args->kept_dim[args->n_kept++] = 1;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* A block takes a row where what goes lies in a row; else a thread does. */
static bool by_rows(const zt_cu_reduce_args *args) { return args->gone >= 32 && args->gone_step[0] == 1; }

/* Of few long rows, the elements of a part; else all. */
static int64_t part_of(const zt_cu_reduce_args *args)
{
    if (args->fold == ZT_CU_LSE) return args->gone;
    if (by_rows(args)) return args->gone > 32768 && args->kept < 512 ? 8192 : args->gone;
    return args->gone > 512 && args->kept < 65536 ? 128 : args->gone;
}

static zt_status launch_fold(zt_cu_call *call, zt_cu_reduce_args *args)
{
    const bool rows = by_rows(args);
    const int64_t part_count = args->kept * args->parts;
    return zt_cu_launch(call, rows ? "zt_cu_reduce_rows" : "zt_cu_reduce_columns",
                        zt_cu_spread(call, part_count, rows ? 1 : THREADS), (zt_cu_dim){THREADS, 1, 1}, 0, args, sizeof *args);
}

zt_status zt_cu_launch_reduce(zt_cu_call *call, zt_cu_reduce_args *args)
{
    const zt_dtype wide = wide_of((zt_dtype)args->x_type), y_type = (zt_dtype)args->y_type;
    const zt_cu_ptr result = args->y;
    const double factor = args->by;
    args->each = part_of(args);
    args->parts = args->each < args->gone ? (args->gone + args->each - 1) / args->each : 1;
    if (!args->each) args->each = 1;
    if (args->parts == 1 || !args->kept) return launch_fold(call, args);
    zt_cu_ptr parts = zt_cu_scratch(call, (size_t)(args->kept * args->parts) * 8);
    if (!parts) return zt_ctx_status(call->engine->base.ctx);
    args->y = parts;
    args->y_type = wide;
    args->by = 1;
    zt_status status = launch_fold(call, args);
    return status ? status
                  : zt_cu_fold_rows(call, (zt_cu_fold)args->fold, parts, wide, result, y_type, args->kept, args->parts, factor);
}

zt_status zt_cu_fold_rows(zt_cu_call *call, zt_cu_fold fold, zt_cu_ptr x, zt_dtype x_type, zt_cu_ptr y, zt_dtype y_type,
                          int64_t rows, int64_t column_count, double by)
{
    const zt_type type = zt_type_make(x_type, 2, (int64_t[]){rows, column_count});
    zt_cu_reduce_args args = {.x = x, .y = y, .by = by, .fold = fold, .x_type = x_type, .y_type = y_type};
    zt_cu_set_dims(&args, &type, (bool[]){false, true});
    return zt_cu_launch_reduce(call, &args);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_plain(input_types[0]->dtype);
}

static bool float_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types;
    return zt_cu_is_wide_float(output_types[0].dtype);
}

static void gone_axes(const zt_ints *axes, int rank, bool *gone)
{
    for (int dimension = 0; dimension < rank; dimension++) gone[dimension] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) gone[axes->v[i] < 0 ? axes->v[i] + rank : axes->v[i]] = true;
}

static zt_status emit_fold(zt_cu_call *call, zt_cu_fold fold, bool mean)
{
    const zt_type *x_type = call->input_types[0];
    bool gone[ZT_MAX_RANK];
    zt_cu_reduce_args args = {
        .x = call->inputs[0], .y = call->outputs[0], .by = 1, .fold = fold, .x_type = x_type->dtype, .y_type = x_type->dtype};
    gone_axes(&((const zt_sum_attrs *)call->attrs)->axes, x_type->rank, gone);
    zt_cu_set_dims(&args, x_type, gone);
    if (mean) args.by = (double)args.gone;
    return zt_cu_launch_reduce(call, &args);
}

static zt_status emit_sum(zt_cu_call *call) { return emit_fold(call, ZT_CU_SUM, false); }
static zt_status emit_mean(zt_cu_call *call) { return emit_fold(call, ZT_CU_SUM, true); }
static zt_status emit_prod(zt_cu_call *call) { return emit_fold(call, ZT_CU_PROD, false); }
static zt_status emit_amax(zt_cu_call *call) { return emit_fold(call, ZT_CU_MAX, false); }
static zt_status emit_amin(zt_cu_call *call) { return emit_fold(call, ZT_CU_MIN, false); }
static zt_status emit_logsumexp(zt_cu_call *call) { return emit_fold(call, ZT_CU_LSE, false); }

/* A chain of one op, whose operand stands still along the axes. */
static zt_status emit_spread(zt_cu_call *call)
{
    const zt_spread_attrs *attrs = call->attrs;
    const zt_type *y_type = call->output_types[0];
    bool gone[ZT_MAX_RANK];
    int64_t step = 1, times = 1;
    gone_axes(&attrs->axes, y_type->rank, gone);
    zt_cu_chain_args args = {.n = zt_type_count(y_type),
                             .x = {call->inputs[0]},
                             .y = {call->outputs[0]},
                             .n_ops = 1,
                             .n_in = 1,
                             .x_type = {(uint8_t)y_type->dtype},
                             .y_type = {(uint8_t)y_type->dtype},
                             .one = {.fn = ZT_CU_F_scale, .of = (uint8_t)y_type->dtype, .to = (uint8_t)y_type->dtype}};
    for (int dimension = y_type->rank - 1; dimension >= 0; dimension--) {
        args.dim[args.n_dims] = y_type->dim[dimension];
        args.step[0][args.n_dims++] = gone[dimension] ? 0 : step;
        *(gone[dimension] ? &times : &step) *= y_type->dim[dimension];
    }
    if (!args.n_dims) args.dim[args.n_dims++] = 1;
    args.one.p = attrs->mean && times ? 1 / (double)times : 1;
    return zt_cu_launch_each(call, "zt_cu_chain", args.n, &args, sizeof args);
}

const zt_cu_row zt_cu_reduce[] = {
    {.op = ZT_OP_sum, .has = plain_has, .emit = emit_sum},
    {.op = ZT_OP_mean, .has = float_has, .emit = emit_mean},
    {.op = ZT_OP_prod, .has = plain_has, .emit = emit_prod},
    {.op = ZT_OP_amax, .has = plain_has, .emit = emit_amax, .contract = zt_cu_always},
    {.op = ZT_OP_amin, .has = plain_has, .emit = emit_amin, .contract = zt_cu_always},
    {.op = ZT_OP_logsumexp, .has = plain_has, .emit = emit_logsumexp},
    {.op = ZT_OP_spread, .has = float_has, .emit = emit_spread},
    {.emit = NULL},
};
