/* pool.c - pools over windows and their gradients. */
#include "lib/engine/cuda/index.h"
#include "lib/engine/cuda/window.h"

static bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_plain(input_types[0]->dtype);
}

static zt_status emit_pool(zt_cu_call *call, zt_cu_pool_args *args, const zt_window_lists *lists, const zt_ints *kernel,
                           const zt_type *large, const zt_type *small, bool back)
{
    static const char *const names[] = {"zt_cu_pool", "zt_cu_unpool", "zt_cu_max_pool"};
    const zt_window window = zt_window_of(lists, large, small, kernel->v);
    zt_status status = zt_cu_window_of(call, &window, &args->win);
    if (status) return status;
    args->planes = large->dim[0] * large->dim[1];
    args->type = call->input_types[0]->dtype;
    return zt_cu_launch_each(call, names[args->kind == ZT_CU_POOL_MAX ? 2 : back],
                             args->planes * (back ? window.n_in : window.n_out), args, sizeof *args);
}

static zt_status emit_max(zt_cu_call *call)
{
    const zt_max_pool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = {.x = call->inputs[0], .y = call->outputs[0], .i = call->outputs[1], .kind = ZT_CU_POOL_MAX};
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0],
                     call->output_types[0] ? call->output_types[0] : call->output_types[1], false);
}

static zt_cu_pool_args average_args(const zt_cu_call *call, int64_t divisor, bool count_pad)
{
    return (zt_cu_pool_args){
        .x = call->inputs[0], .y = call->outputs[0], .divisor = divisor, .kind = ZT_CU_POOL_AVG, .count_pad = count_pad};
}

static zt_status emit_avg(zt_cu_call *call)
{
    const zt_avg_pool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = average_args(call, attrs->divisor_override, attrs->count_include_pad != 0);
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0], call->output_types[0], false);
}

static zt_status emit_avg_back(zt_cu_call *call)
{
    const zt_avg_unpool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = average_args(call, attrs->divisor_override, attrs->count_include_pad != 0);
    return emit_pool(call, &args, &lists, &attrs->kernel, call->output_types[0], call->input_types[0], true);
}

static zt_status emit_lp(zt_cu_call *call)
{
    const zt_lp_pool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = {.x = call->inputs[0], .y = call->outputs[0], .p = attrs->p, .kind = ZT_CU_POOL_LP};
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0], call->output_types[0], false);
}

static zt_status emit_smooth(zt_cu_call *call)
{
    const zt_smooth_max_pool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = {
        .x = call->inputs[0], .y = call->outputs[0], .p = attrs->beta, .pad_value = attrs->pad_value, .kind = ZT_CU_POOL_SMOOTH};
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0], call->output_types[0], false);
}

static zt_cu_pool_args weighted_args(const zt_cu_call *call, double beta)
{
    return (zt_cu_pool_args){.x = call->inputs[0],
                             .y = call->outputs[0],
                             .top = call->inputs[1],
                             .v = call->inputs[2],
                             .p = beta,
                             .kind = ZT_CU_POOL_MEAN};
}

static zt_status emit_smooth_back(zt_cu_call *call)
{
    const zt_smooth_max_unpool_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = weighted_args(call, attrs->beta);
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0], call->input_types[1], true);
}

static zt_status emit_smooth_mean(zt_cu_call *call)
{
    const zt_smooth_max_mean_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_pool_args args = weighted_args(call, attrs->beta);
    return emit_pool(call, &args, &lists, &attrs->kernel, call->input_types[0], call->input_types[1], false);
}

/* ---- planes: max_pool's indices -----------------------------------------------------------------
 */

/* i's elements are places in the plane of `large`, one after the other. */
static zt_cu_parts_args planes_of(const zt_cu_call *call, const zt_type *large, const zt_enum_string *oob)
{
    const zt_type *i_type = call->input_types[1];
    const int64_t planes = large->dim[0] * large->dim[1], index_count = zt_type_count(i_type);
    // clang-format off
    zt_cu_parts_args args = {.x = call->inputs[0],
                          .i = call->inputs[1],
                          .y = call->outputs[0],
                          .trouble = call->error,
                          .tuples = index_count,
                          .k = 1,
                          .rest = 1,
                          .per_batch = planes ? index_count / planes : 0,
                          .span = planes ? zt_type_count(large) / planes : 0,
                          .fails = word_is(oob, "error"),
                          .x_type = call->input_types[0]->dtype,
                          .y_type = call->output_types[0]->dtype,
                          .batches = planes};
    // clang-format on
    args.dim[0] = args.span;
    return args;
}

static zt_status emit_plane_gather(zt_cu_call *call)
{
    zt_cu_parts_args args = planes_of(call, call->input_types[0], &((const zt_plane_gather_attrs *)call->attrs)->oob);
    return zt_cu_launch_each(call, "zt_cu_gather", args.tuples, &args, sizeof args);
}

static zt_status emit_max_unpool(zt_cu_call *call)
{
    const zt_type *y_type = call->output_types[0];
    zt_cu_parts_args args = planes_of(call, y_type, &((const zt_max_unpool_attrs *)call->attrs)->oob);
    const bool apart = y_type->dtype == ZT_F16 || y_type->dtype == ZT_BF16;
    const int64_t element_count = zt_type_count(y_type);
    const size_t bytes = apart ? (size_t)element_count * 4 : zt_type_bytes(y_type);
    args.u = call->inputs[0];
    args.y = apart ? zt_cu_scratch(call, bytes) : call->outputs[0];
    args.y_type = apart ? ZT_F32 : y_type->dtype;
    args.merge = ZT_CU_ADD;
    args.buckets = args.batches < 4096 ? 16 : 1;
    if (!args.y) return zt_ctx_status(call->engine->base.ctx);
    zt_status status = zt_cu_fill(call, args.y, 0, bytes);
    if (!status) status = zt_cu_launch_each(call, "zt_cu_scatter", args.buckets * args.batches, &args, sizeof args);
    return status || !apart ? status : zt_cu_cast(call, args.y, ZT_F32, call->outputs[0], y_type->dtype, element_count);
}

const zt_cu_row zt_cu_pools[] = {
    {.op = ZT_OP_max_pool, .has = plain_has, .emit = emit_max},
    {.op = ZT_OP_avg_pool, .has = plain_has, .emit = emit_avg},
    {.op = ZT_OP_avg_unpool, .has = plain_has, .emit = emit_avg_back},
    {.op = ZT_OP_lp_pool, .has = plain_has, .emit = emit_lp},
    {.op = ZT_OP_smooth_max_pool, .has = plain_has, .emit = emit_smooth},
    {.op = ZT_OP_smooth_max_unpool, .has = plain_has, .emit = emit_smooth_back},
    {.op = ZT_OP_smooth_max_mean, .has = plain_has, .emit = emit_smooth_mean},
    {.op = ZT_OP_max_unpool, .has = plain_has, .emit = emit_max_unpool},
    {.op = ZT_OP_plane_gather, .has = plain_has, .emit = emit_plane_gather},
    {.emit = NULL},
};
