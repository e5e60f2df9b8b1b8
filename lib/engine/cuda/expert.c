/* expert.c - rows of products by expert (lib/ops/expert.c), and of their weights' gradient.
 *
 *     sort       rows by expert, each expert's filled up to whole tiles      [tile_count * tile_rows]
 *     gather     rows of x into that order
 *     multiply   each tile by its expert's matrix (linear.c)
 *     scatter    rows of y to where they belong
 *
 * Which experts have rows is known on the device alone: there are as many tiles as there may be, and those that are
 * not used end at once. So a matrix that no row names is not read.
 */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

enum { SORT_THREADS = 1024 };

/* Sorts the rows that input 2 names into tiles of so many. */
static zt_status sort_rows(zt_cu_call *call, int64_t experts, int64_t tile_rows, zt_cu_expert_args *args)
{
    const zt_type *x_type = call->input_types[0], *i_type = call->input_types[2];
    const int64_t row_count = zt_type_count(i_type), active = row_count < experts ? row_count : experts;
    *args = (zt_cu_expert_args){.index = call->inputs[2],
                                .trouble = call->error,
                                .row_count = row_count,
                                .experts = experts,
                                .tile_rows = tile_rows,
                                .tile_count = active + row_count / tile_rows,
                                .per_row = x_type->rank == 2 ? i_type->dim[1] : 1,
                                .type = (int32_t)x_type->dtype};
    args->tiles = zt_cu_scratch(call, (size_t)args->tile_count * sizeof(zt_cu_expert_tile));
    args->order = zt_cu_scratch(call, (size_t)(args->tile_count * tile_rows) * sizeof(int32_t));
    args->begin = zt_cu_scratch(call, (size_t)(experts + 1) * sizeof(int32_t));
    if (!args->tiles || !args->order || !args->begin) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_expert_sort", (zt_cu_dim){1, 1, 1}, (zt_cu_dim){SORT_THREADS, 1, 1}, 0, args, sizeof *args);
}

/* Moves rows between their places and the sorted ones. */
static zt_status move_rows(zt_cu_call *call, const char *kernel, zt_cu_expert_args args, zt_cu_ptr from, zt_cu_ptr to,
                           int64_t columns)
{
    args.from = from;
    args.to = to;
    args.columns = columns;
    return zt_cu_launch(call, kernel, (zt_cu_dim){(unsigned)(args.tile_count * args.tile_rows), 1, 1}, (zt_cu_dim){128, 1, 1}, 0,
                        &args, sizeof args);
}

/* ---- expert_linear --------------------------------------------------------------------------- */

enum { MOST_TILE_ROWS = 64 };

static bool has_expert_linear(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                              const zt_type output_types[])
{
    const zt_type *w = input_types[1];
    (void)attrs, (void)output_types;
    return zt_cu_is_float(input_types[0]->dtype) && w->dtype != ZT_F64 && w->dim[2] % zt_dtype_get(w->dtype)->block == 0 &&
           zt_type_count(input_types[2]) < INT32_MAX / MOST_TILE_ROWS && w->dim[0] < INT32_MAX / MOST_TILE_ROWS &&
           zt_type_count(input_types[2]) + w->dim[0] <= (int64_t)engine->max_grid[1];
}

static zt_status emit_expert_linear(zt_cu_call *call)
{
    const zt_expert_linear_attrs *attrs = call->attrs;
    const zt_type *w_type = call->input_types[1];
    const int64_t M = w_type->dim[1], K = w_type->dim[2];
    const size_t item = (size_t)zt_dtype_get(call->input_types[0]->dtype)->block_bytes;
    zt_cu_expert_args rows;
    if (zt_type_count(call->output_types[0]) == 0) return ZT_OK;
    zt_status status = sort_rows(call, w_type->dim[0], zt_cu_expert_tile_rows(call, &attrs->act), &rows);
    if (status) return status;
    const size_t sorted = (size_t)(rows.tile_count * rows.tile_rows);
    const zt_cu_ptr x = zt_cu_scratch(call, sorted * (size_t)K * item), y = zt_cu_scratch(call, sorted * (size_t)M * item);
    if (!x || !y) return ZT_ENOMEM;
    status = move_rows(call, "zt_expert_gather", rows, call->inputs[0], x, K);
    if (!status) status = zt_cu_multiply_experts(call, &attrs->act, x, y, rows.tiles, rows.tile_count);
    if (!status) status = move_rows(call, "zt_expert_scatter", rows, y, call->outputs[0], M);
    return status;
}

/* ---- expert_linear_backward ------------------------------------------------------------------ */

static bool has_backward(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                         const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return zt_cu_is_float(input_types[0]->dtype) && zt_type_count(input_types[2]) < INT32_MAX &&
           input_types[3]->dim[0] <= (int64_t)engine->max_grid[1] && input_types[3]->dim[1] <= (int64_t)engine->max_grid[0];
}

/* Each expert's rows follow each other: tiles of one row. */
static zt_status emit_backward(zt_cu_call *call)
{
    const zt_type *like = call->input_types[3];
    zt_cu_expert_backward_args args = {.x = call->inputs[0],
                                       .dy = call->inputs[1],
                                       .dw = call->outputs[0],
                                       .M = like->dim[1],
                                       .K = like->dim[2],
                                       .type = (int32_t)call->input_types[0]->dtype};
    zt_status status = sort_rows(call, like->dim[0], 1, &args.rows);
    if (status) return status;
    return zt_cu_launch(call, "zt_expert_backward", (zt_cu_dim){(unsigned)args.M, (unsigned)like->dim[0], 1},
                        (zt_cu_dim){128, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_expert[] = {
    {.op = ZT_OP_expert_linear, .has = has_expert_linear, .emit = emit_expert_linear, .weights = 1 << 1},
    {.op = ZT_OP_expert_linear_backward, .has = has_backward, .emit = emit_backward},
    {0},
};
