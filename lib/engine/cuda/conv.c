/* conv.c - convolution and its gradients. */
#include "lib/engine/cuda/reduce.h"
#include "lib/engine/cuda/window.h"

#include <string.h>

enum { THREADS = 256, TILE = 64, MIN_SIDE = 8, PART = 2048 };

/* ---- windows -----------------------------------------------------------------------------------
 */

static void set_reach(const zt_window *window, int32_t *reach)
{
    for (int64_t tap = 0; tap < window->taps; tap++) {
        int64_t rest = tap;
        for (int dimension = window->n - 1; dimension >= 0; dimension--) {
            reach[tap * window->n + dimension] = (int32_t)(rest % window->k[dimension] * window->dilation[dimension]);
            rest /= window->k[dimension];
        }
    }
}

zt_status zt_cu_window_of(zt_cu_call *call, const zt_window *window, zt_cu_window *device_window)
{
    zt_ctx *ctx = call->engine->base.ctx;
    *device_window = (zt_cu_window){.n_in = window->n_in, .n_out = window->n_out, .taps = window->taps, .n = window->n};
    memcpy(device_window->in, window->in, sizeof device_window->in);
    memcpy(device_window->out, window->out, sizeof device_window->out);
    memcpy(device_window->k, window->k, sizeof device_window->k);
    memcpy(device_window->stride, window->stride, sizeof device_window->stride);
    memcpy(device_window->pad, window->pad, sizeof device_window->pad);
    memcpy(device_window->end, window->end, sizeof device_window->end);
    memcpy(device_window->dilation, window->dilation, sizeof device_window->dilation);
    const size_t bytes = (size_t)window->taps * (size_t)window->n * sizeof(int32_t);
    int32_t *reach = zt_alloc(ctx, bytes + 1);
    if (!reach) return ZT_ENOMEM;
    set_reach(window, reach);
    device_window->reach = zt_cu_table(call, reach, bytes);
    zt_free(ctx, reach);
    return device_window->reach ? ZT_OK : zt_ctx_status(ctx);
}

/* ---- launches ----------------------------------------------------------------------------------
 */

static bool conv_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_wide_float(input_types[0]->dtype);
}

/* Rows and columns of a group's product, and how long its sums are. */
static void sizes_of(const zt_cu_conv_args *args, int64_t *rows, int64_t *columns, int64_t *sum_length)
{
    const int64_t a_per_group = args->A / args->groups, b_per_group = args->B / args->groups, taps = args->win.taps;
    *rows = args->kind == ZT_CU_DATA ? b_per_group : a_per_group;
    *columns = args->kind == ZT_CU_FORWARD ? args->N * args->win.n_out
               : args->kind == ZT_CU_DATA  ? args->N * args->win.n_in
                                           : b_per_group * taps;
    *sum_length = args->kind == ZT_CU_FORWARD ? b_per_group * taps
                  : args->kind == ZT_CU_DATA  ? a_per_group * taps
                                              : args->N * args->win.n_out;
}

static zt_status launch_conv(zt_cu_call *call, const zt_cu_conv_args *args, int64_t rows, int64_t columns)
{
    const int64_t tiles = (rows + TILE - 1) / TILE * ((columns + TILE - 1) / TILE);
    /* Which kernel must not hang on the batch: a sample's bits do not. */
    const int64_t one = args->kind == ZT_CU_FILTER || !args->N ? columns : columns / args->N;
    if (rows < MIN_SIDE || one < MIN_SIDE || args->groups > 65535)
        return zt_cu_launch_each(call, "zt_cu_conv_ones", rows * columns * args->groups * args->parts, args, sizeof *args);
    zt_cu_dim grid = zt_cu_grid(tiles, 1);
    grid.y = (unsigned)args->groups;
    grid.z = (unsigned)args->parts;
    return zt_cu_launch(call, args->type == ZT_F64 ? "zt_cu_conv_tiles_f64" : "zt_cu_conv_tiles", grid,
                        (zt_cu_dim){THREADS, 1, 1}, 0, args, sizeof *args);
}

/* Of a filter's long sums, parts of a fixed size are summed apart. */
static zt_status emit_product(zt_cu_call *call, zt_cu_conv_args *args)
{
    int64_t rows, columns, sum_length;
    sizes_of(args, &rows, &columns, &sum_length);
    args->each = args->kind == ZT_CU_FILTER && sum_length > PART ? PART : sum_length ? sum_length : 1;
    while (args->kind == ZT_CU_FILTER && sum_length / args->each >= 1024) args->each *= 2;
    args->parts = sum_length > args->each ? (sum_length + args->each - 1) / args->each : 1;
    args->y = call->outputs[0];
    args->type = call->input_types[0]->dtype;
    args->y_type = args->type;
    if (args->parts == 1) return launch_conv(call, args, rows, columns);
    const zt_dtype type = (zt_dtype)args->type, wide = type == ZT_F64 ? ZT_F64 : ZT_F32;
    const int64_t output_count = rows * columns * args->groups;
    args->y = zt_cu_scratch(call, (size_t)(output_count * args->parts) * (size_t)zt_dtype_get(wide)->block_bytes);
    if (!args->y) return zt_ctx_status(call->engine->base.ctx);
    args->y_type = wide;
    zt_status status = launch_conv(call, args, rows, columns);
    return status ? status
                  : zt_cu_fold_rows(call, ZT_CU_SUM, args->y, wide, call->outputs[0], call->output_types[0]->dtype, output_count,
                                    args->parts, 1);
}

/* ---- rows --------------------------------------------------------------------------------------
 */

static zt_status set_window(zt_cu_call *call, zt_cu_conv_args *args, const zt_window_lists *lists, const zt_type *large,
                            const zt_type *small, const zt_type *w_type)
{
    const zt_window win = zt_window_of(lists, large, small, w_type->dim + 2);
    args->N = large->dim[0];
    args->A = small->dim[1];
    args->B = large->dim[1];
    return zt_cu_window_of(call, &win, &args->win);
}

static zt_status emit_conv(zt_cu_call *call)
{
    const zt_conv_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_conv_args args = {
        .large = call->inputs[0], .w = call->inputs[1], .bias = call->inputs[2], .groups = attrs->groups, .kind = ZT_CU_FORWARD};
    zt_status status = set_window(call, &args, &lists, call->input_types[0], call->output_types[0], call->input_types[1]);
    return status ? status : emit_product(call, &args);
}

static zt_status emit_conv_transpose(zt_cu_call *call)
{
    const zt_conv_transpose_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_conv_args args = {
        .small = call->inputs[0], .w = call->inputs[1], .bias = call->inputs[2], .groups = attrs->groups, .kind = ZT_CU_DATA};
    zt_status status = set_window(call, &args, &lists, call->output_types[0], call->input_types[0], call->input_types[1]);
    return status ? status : emit_product(call, &args);
}

static zt_status emit_conv_filter(zt_cu_call *call)
{
    const zt_conv_backward_filter_attrs *attrs = call->attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_cu_conv_args args = {.large = call->inputs[0], .small = call->inputs[1], .groups = attrs->groups, .kind = ZT_CU_FILTER};
    zt_status status = set_window(call, &args, &lists, call->input_types[0], call->input_types[1], call->output_types[0]);
    return status ? status : emit_product(call, &args);
}

const zt_cu_row zt_cu_conv[] = {
    {.op = ZT_OP_conv, .has = conv_has, .emit = emit_conv},
    {.op = ZT_OP_conv_transpose, .has = conv_has, .emit = emit_conv_transpose},
    {.op = ZT_OP_conv_backward_filter, .has = conv_has, .emit = emit_conv_filter},
    {.emit = NULL},
};
