/* index.c - ops at places that are data: rows, elements, tuples. Sums of 16-bit floats are kept in f32 until
 * the last one.
 */
#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/index.h"

#include <string.h>

static bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_plain(input_types[0]->dtype) && input_types[1]->dtype == ZT_I32;
}

/* ---- sums that are wider than their result --------------------------------------------------- */

zt_status zt_cu_cast(zt_cu_call *call, zt_cu_ptr input, zt_dtype from, zt_cu_ptr output, zt_dtype dtype, int64_t element_count)
{
    // clang-format off
    zt_cu_chain_args args = {.n = element_count,
                          .x = {input},
                          .y = {output},
                          .n_ops = 1,
                          .n_in = 1,
                          .n_dims = 1,
                          .x_type = {(uint8_t)from},
                          .y_type = {(uint8_t)dtype},
                          .dim = {element_count},
                          .step = {{1}},
                          .one = {.fn = ZT_CU_F_cast, .of = (uint8_t)from, .to = (uint8_t)dtype}};
    // clang-format on
    return zt_cu_launch_each(call, "zt_cu_chain", element_count, &args, sizeof args);
}

/* Where entries are merged: the output, or an f32 copy of it; x's entries are there already. */
typedef struct scatter_target {
    zt_cu_ptr address;
    zt_dtype type;
    bool is_scratch;
} scatter_target;

static zt_status open_target(zt_cu_call *call, scatter_target *target)
{
    const zt_type *x_type = call->input_types[0];
    int64_t element_count = zt_type_count(x_type);
    target->is_scratch = x_type->dtype == ZT_F16 || x_type->dtype == ZT_BF16;
    target->type = target->is_scratch ? ZT_F32 : x_type->dtype;
    target->address = target->is_scratch ? zt_cu_scratch(call, (size_t)element_count * 4) : call->outputs[0];
    if (!target->address) return zt_ctx_status(call->engine->base.ctx);
    return target->is_scratch ? zt_cu_cast(call, call->inputs[0], x_type->dtype, target->address, ZT_F32, element_count)
                              : zt_cu_move(call, target->address, call->inputs[0], zt_type_bytes(x_type));
}

static zt_status close_target(zt_cu_call *call, const scatter_target *target)
{
    if (!target->is_scratch) return ZT_OK;
    return zt_cu_cast(call, target->address, target->type, call->outputs[0], call->input_types[0]->dtype,
                      zt_type_count(call->input_types[0]));
}

static zt_cu_merge merge_of(const zt_enum_string *reduction)
{
    static const char *const words[] = {"none", "add", "mul", "max", "min"};
    int k = 0;
    while (k < ZT_CU_SMALLER && !word_is(reduction, words[k])) k++;
    return (zt_cu_merge)k;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static zt_cu_parts_args parts_of(const zt_cu_call *call, int64_t batch, int64_t index_axes, const zt_enum_string *oob)
{
    const zt_type *x_type = call->input_types[0], *i_type = call->input_types[1];
    // clang-format off
    zt_cu_parts_args args = {.x = call->inputs[0],
                          .i = call->inputs[1],
                          .y = call->outputs[0],
                          .trouble = call->error,
                          .tuples = index_axes ? zt_type_count(i_type) / index_axes : 0,
                          .k = index_axes,
                          .rest = 1,
                          .per_batch = 1,
                          .span = 1,
                          .fails = word_is(oob, "error"),
                          .x_type = x_type->dtype,
                          .y_type = call->output_types[0]->dtype,
                          .batches = 1};
    // clang-format on
    for (int dimension = 0; dimension < batch; dimension++) args.batches *= i_type->dim[dimension];
    for (int dimension = (int)batch; dimension < x_type->rank; dimension++) {
        args.span *= x_type->dim[dimension];
        if (dimension < batch + index_axes)
            args.dim[dimension - batch] = x_type->dim[dimension];
        else
            args.rest *= x_type->dim[dimension];
    }
    return args;
}

/* of gather_nd and scatter_nd: the tuples are i's last dimension. */
static zt_cu_parts_args tuples_of(const zt_cu_call *call, int64_t batch, const zt_enum_string *oob)
{
    const zt_type *i_type = call->input_types[1];
    zt_cu_parts_args args = parts_of(call, batch, i_type->dim[i_type->rank - 1], oob);
    args.tuples = 1;
    for (int dimension = 0; dimension + 1 < i_type->rank; dimension++) {
        args.tuples *= i_type->dim[dimension];
        if (dimension >= batch) args.per_batch *= i_type->dim[dimension];
    }
    return args;
}

static zt_status emit_gather(zt_cu_call *call)
{
    zt_cu_parts_args args = parts_of(call, 0, 1, &((const zt_gather_attrs *)call->attrs)->oob);
    args.per_batch = args.tuples;
    return zt_cu_launch_each(call, "zt_cu_gather", args.tuples * (args.rest ? args.rest : 1), &args, sizeof args);
}

static zt_status emit_gather_nd(zt_cu_call *call)
{
    const zt_gather_nd_attrs *attrs = call->attrs;
    zt_cu_parts_args args = tuples_of(call, attrs->batch, &attrs->oob);
    return zt_cu_launch_each(call, "zt_cu_gather", args.tuples * (args.rest ? args.rest : 1), &args, sizeof args);
}

/* Few elements a part: more buckets, so that the device is full. */
static zt_status emit_scatter(zt_cu_call *call, zt_cu_parts_args *args, zt_cu_merge merge)
{
    scatter_target target;
    zt_status status = open_target(call, &target);
    if (status) return status;
    args->y = target.address;
    args->y_type = target.type;
    args->u = call->inputs[2];
    args->merge = merge;
    args->buckets = 1;
    while (args->buckets < 64 && args->buckets * args->rest * args->batches < 65536 && args->buckets < args->tuples)
        args->buckets *= 2;
    status = zt_cu_launch_each(call, "zt_cu_scatter", (args->rest ? args->rest : 1) * args->buckets * args->batches, args,
                               sizeof *args);
    return status ? status : close_target(call, &target);
}

static zt_status emit_scatter_add(zt_cu_call *call)
{
    zt_cu_parts_args args = parts_of(call, 0, 1, &((const zt_scatter_add_attrs *)call->attrs)->oob);
    args.per_batch = args.tuples;
    return emit_scatter(call, &args, ZT_CU_ADD);
}

static zt_status emit_scatter_nd(zt_cu_call *call)
{
    const zt_scatter_nd_attrs *attrs = call->attrs;
    zt_cu_parts_args args = tuples_of(call, attrs->batch, &attrs->oob);
    return emit_scatter(call, &args, merge_of(&attrs->reduction));
}

/* ---- elements -------------------------------------------------------------------------------- */

static zt_cu_elements_args elements_of(const zt_cu_call *call, int64_t axis, const zt_enum_string *oob)
{
    const zt_type *x_type = call->input_types[0], *i_type = call->input_types[1];
    int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
    // clang-format off
    zt_cu_elements_args args = {.x = call->inputs[0],
                             .i = call->inputs[1],
                             .u = call->inputs[2],
                             .y = call->outputs[0],
                             .trouble = call->error,
                             .lines = 1,
                             .n = i_type->dim[axis_at],
                             .size = x_type->dim[axis_at],
                             .fails = word_is(oob, "error"),
                             .type = x_type->dtype,
                             .y_type = x_type->dtype};
    // clang-format on
    int64_t i_step = 1, x_step = 1;
    for (int dimension = x_type->rank - 1; dimension >= 0; i_step *= i_type->dim[dimension], x_step *= x_type->dim[dimension--]) {
        if (dimension == axis_at) {
            args.i_step = i_step;
            args.x_step = x_step;
            continue;
        }
        args.dim[args.n_dims] = i_type->dim[dimension];
        args.i_at[args.n_dims] = i_step;
        args.x_at[args.n_dims++] = x_step;
        args.lines *= i_type->dim[dimension];
    }
    if (!args.n_dims) args.dim[args.n_dims++] = 1;
    return args;
}

static zt_status emit_gather_elements(zt_cu_call *call)
{
    const zt_gather_elements_attrs *attrs = call->attrs;
    zt_cu_elements_args args = elements_of(call, attrs->axis, &attrs->oob);
    return zt_cu_launch_each(call, "zt_cu_gather_elements", args.lines * args.n, &args, sizeof args);
}

static zt_status scatter_elements(zt_cu_call *call, int64_t axis, const zt_enum_string *oob, zt_cu_merge merge)
{
    scatter_target target;
    zt_cu_elements_args args = elements_of(call, axis, oob);
    zt_status status = open_target(call, &target);
    if (status) return status;
    args.y = target.address;
    args.y_type = target.type;
    args.merge = merge;
    status = zt_cu_launch_each(call, "zt_cu_scatter_elements", args.lines, &args, sizeof args);
    return status ? status : close_target(call, &target);
}

static zt_status emit_scatter_add_elements(zt_cu_call *call)
{
    const zt_scatter_add_elements_attrs *attrs = call->attrs;
    return scatter_elements(call, attrs->axis, &attrs->oob, ZT_CU_ADD);
}
static zt_status emit_scatter_elements(zt_cu_call *call)
{
    const zt_scatter_elements_attrs *attrs = call->attrs;
    return scatter_elements(call, attrs->axis, &attrs->oob, merge_of(&attrs->reduction));
}

static zt_status emit_one_hot(zt_cu_call *call)
{
    const zt_one_hot_attrs *attrs = call->attrs;
    zt_cu_one_hot_args args = {.i = call->inputs[0],
                               .y = call->outputs[0],
                               .trouble = call->error,
                               .n = zt_type_count(call->input_types[0]),
                               .depth = attrs->depth,
                               .fails = word_is(&attrs->oob, "error")};
    return zt_cu_launch_each(call, "zt_cu_one_hot", args.depth ? args.n * args.depth : args.n, &args, sizeof args);
}

static bool one_hot_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                        const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return input_types[0]->dtype == ZT_I32;
}

/* The output is f32. */
static bool gather_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    return plain_has(engine, attrs, input_types, output_types) && output_types[0].dtype == ZT_F32;
}

/* ---- rows of weights ------------------------------------------------------------------------- */

enum { WARPS = 4 }; /* ROW_WARPS of index_rows.cuh */

static bool has_gather_rows(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                            const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return zt_dtype_is_float(input_types[0]->dtype) && input_types[0]->dtype != ZT_F64 && input_types[1]->dtype == ZT_I32 &&
           input_types[0]->dim[1] % zt_dtype_get(input_types[0]->dtype)->block == 0 &&
           zt_type_count(input_types[1]) <= (int64_t)engine->max_grid[1];
}

static zt_status emit_gather_rows(zt_cu_call *call)
{
    const zt_gather_attrs *attrs = call->attrs;
    const zt_type *w_type = call->input_types[0];
    const zt_dtype_info *info = zt_dtype_get(w_type->dtype);
    // clang-format off
    zt_cu_rows_args args = {.w = call->inputs[0],
                         .i = call->inputs[1],
                         .y = call->outputs[0],
                         .trouble = call->error,
                         .rows = w_type->dim[0],
                         .K = w_type->dim[1],
                         .n = zt_type_count(call->input_types[1]),
                         .row_bytes = w_type->dim[1] / info->block * info->block_bytes,
                         .w_type = (int32_t)w_type->dtype,
                         .block = info->block,
                         .block_bytes = info->block_bytes,
                         .strict = !strcmp(attrs->oob.s, "error")};
    // clang-format on
    zt_cu_dim grid = zt_cu_grid(args.K, 4 * 32 * WARPS);
    zt_status status = zt_cu_vectors(call, w_type->dtype, &args.grid);
    if (call->packed[0]) {
        args.pack = zt_cu_pack_call(call->packed[0], args.rows, args.K);
        grid = zt_cu_grid(args.pack.units, WARPS);
    }
    grid.y = (unsigned)args.n;
    if (status) return status;
    return zt_cu_launch(call, call->packed[0] ? "zt_rows_packed" : "zt_rows", grid, (zt_cu_dim){32 * WARPS, 1, 1}, 0, &args,
                        sizeof args);
}

const zt_cu_row zt_cu_index[] = {
    {.op = ZT_OP_gather,
     .has = has_gather_rows,
     .emit = emit_gather_rows,
     .contract = zt_cu_always,
     .weights = 1 << 0}, /* weights of any type, packed too */
    {.op = ZT_OP_gather, .has = gather_has, .emit = emit_gather, .contract = zt_cu_always},
    {.op = ZT_OP_scatter_add, .has = plain_has, .emit = emit_scatter_add},
    {.op = ZT_OP_gather_elements, .has = plain_has, .emit = emit_gather_elements, .contract = zt_cu_always},
    {.op = ZT_OP_scatter_add_elements, .has = plain_has, .emit = emit_scatter_add_elements},
    {.op = ZT_OP_scatter_elements, .has = plain_has, .emit = emit_scatter_elements},
    {.op = ZT_OP_gather_nd, .has = plain_has, .emit = emit_gather_nd, .contract = zt_cu_always},
    {.op = ZT_OP_scatter_nd, .has = plain_has, .emit = emit_scatter_nd},
    {.op = ZT_OP_one_hot, .has = one_hot_has, .emit = emit_one_hot, .contract = zt_cu_always},
    {.emit = NULL},
};
