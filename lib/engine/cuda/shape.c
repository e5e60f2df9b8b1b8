/* shape.c - elements in other places: transpose, concat, uncat, repeat. They are steps through the whole, or rows
 * for columns.
 */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/steps.h"

enum { THREADS = 256, TILE = 32 };

static const char *const turn_names[] = {"zt_cu_transpose_1", "zt_cu_transpose_2", "zt_cu_transpose_4", "zt_cu_transpose_8"};

/* ---- concat, uncat, repeat, broadcast_to ----------------------------------------------------- */

enum { PARTS = 5 };

static zt_status emit_concat(zt_cu_call *call)
{
    const zt_type *y_type = call->output_types[0];
    int axis = plain_axis(((const zt_concat_attrs *)call->attrs)->axis, y_type->rank);
    int64_t from = 0;
    zt_status status = ZT_OK;
    for (int k = 0; k < PARTS && !status; k++) {
        if (!call->input_types[k]) continue;
        status = emit_steps(call, call->inputs[k], call->outputs[0], size_of(y_type->dtype),
                            steps_along(y_type, axis, from, 1, call->input_types[k]->dim[axis]), true);
        from += call->input_types[k]->dim[axis];
    }
    return status;
}

static zt_status emit_uncat(zt_cu_call *call)
{
    const zt_uncat_attrs *attrs = call->attrs;
    int axis = plain_axis(attrs->axis, call->input_types[0]->rank);
    int64_t from = 0;
    for (int k = 0; k < attrs->part; k++) from += call->input_types[1 + k] ? call->input_types[1 + k]->dim[axis] : 0;
    return emit_part(call, steps_along(call->input_types[0], axis, from, 1, call->output_types[0]->dim[axis]));
}

static zt_status emit_repeat(zt_cu_call *call)
{
    const zt_repeat_attrs *attrs = call->attrs;
    const zt_type *x_type = call->input_types[0];
    int axis = plain_axis(attrs->axis, x_type->rank);
    int64_t inner = inner_of(x_type, axis), outer = 1;
    for (int dimension = 0; dimension <= axis; dimension++) outer *= x_type->dim[dimension];
    element_steps steps = {0};
    add_dim(&steps, inner, 1);
    add_dim(&steps, attrs->times, 0);
    add_dim(&steps, outer, inner);
    return emit_part(call, steps);
}

/* ---- transpose ------------------------------------------------------------------------------- */

/* Rows (the dimension `at`, along which x lies in a row) and columns (along which y does). */
static zt_status emit_transposed(zt_cu_call *call, const element_steps *steps, int row_dimension, int size)
{
    zt_cu_transpose_args args = {.x = call->inputs[0],
                                 .y = call->outputs[0],
                                 .rows = steps->dims[row_dimension],
                                 .columns = steps->dims[0],
                                 .x_step = steps->steps[0],
                                 .batches = 1};
    int64_t y_step = 1;
    for (int dimension = 0; dimension < steps->axis_count; y_step *= steps->dims[dimension++]) {
        if (dimension == row_dimension) args.y_step = y_step;
        if (dimension == 0 || dimension == row_dimension) continue;
        args.dim[args.n_dims] = steps->dims[dimension];
        args.x_at[args.n_dims] = steps->steps[dimension];
        args.y_at[args.n_dims++] = y_step;
        args.batches *= steps->dims[dimension];
    }
    if (!args.n_dims) args.dim[args.n_dims++] = 1;
    int64_t tiles = (args.rows + TILE - 1) / TILE * ((args.columns + TILE - 1) / TILE);
    zt_cu_dim grid = zt_cu_grid(tiles, 1);
    grid.y = (unsigned)(args.batches < 4096 ? args.batches : 4096);
    return zt_cu_launch(call, turn_names[size], grid, (zt_cu_dim){THREADS, 1, 1}, 0, &args, sizeof args);
}

static zt_status emit_transpose(zt_cu_call *call)
{
    const zt_ints *axes = &((const zt_transpose_attrs *)call->attrs)->axes;
    const zt_type *x_type = call->input_types[0], *y_type = call->output_types[0];
    element_steps steps = {0};
    for (int dimension = y_type->rank - 1; dimension >= 0; dimension--) {
        int from = axes->n ? plain_axis(axes->v[dimension], x_type->rank) : x_type->rank - 1 - dimension;
        add_dim(&steps, y_type->dim[dimension], inner_of(x_type, from));
    }
    for (int dimension = 1; dimension < steps.axis_count && steps.steps[0] != 1; dimension++)
        if (steps.steps[dimension] == 1 && steps.dims[dimension] > 1 && count_of(&steps) > 0)
            return emit_transposed(call, &steps, dimension, size_of(x_type->dtype));
    return emit_part(call, steps);
}

const zt_cu_row zt_cu_shape[] = {
    {.op = ZT_OP_concat, .has = bytes_has, .emit = emit_concat, .contract = zt_cu_always},
    {.op = ZT_OP_uncat, .has = bytes_has, .emit = emit_uncat, .contract = zt_cu_always},
    {.op = ZT_OP_repeat, .has = bytes_has, .emit = emit_repeat, .contract = zt_cu_always},
    {.op = ZT_OP_transpose, .has = bytes_has, .emit = emit_transpose, .contract = zt_cu_always},
    {.emit = NULL},
};
