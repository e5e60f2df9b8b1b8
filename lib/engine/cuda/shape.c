/* shape.c - ops that move elements: all step through an operand, or swap rows and columns. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/strides.h"

#include <math.h>
#include <string.h>

enum { THREADS = 256, TILE = 32 };

static const char *const move_names[] = {"zt_cu_move_1", "zt_cu_move_2", "zt_cu_move_4",
                                         "zt_cu_move_8", "zt_cu_move_16"};
static const char *const turn_names[] = {"zt_cu_transpose_1", "zt_cu_transpose_2", "zt_cu_transpose_4",
                                         "zt_cu_transpose_8"};
static const char *const triangle_names[] = {"zt_cu_triangle_1", "zt_cu_triangle_2",
                                             "zt_cu_triangle_4", "zt_cu_triangle_8"};
static const char *const pad_names[] = {"zt_cu_pad_1", "zt_cu_pad_2", "zt_cu_pad_4", "zt_cu_pad_8"};

/* Elements of 1, 2, 4, 8 bytes: 0, 1, 2, 3. */
static int size_of(zt_dtype dtype)
{
    int bytes = zt_dtype_get(dtype)->block_bytes, k = 0;
    while (1 << k < bytes) k++;
    return k;
}

static bool bytes_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types;
    return zt_dtype_get(output_types[0].dtype)->block == 1;
}

/* ---- steps through an operand ---------------------------------------------------------------- */

/* Dimensions from the last, with the steps of what does not lie in a row. */
typedef struct element_steps {
    int axis_count;
    int64_t base, dims[ZT_MAX_RANK], steps[ZT_MAX_RANK];
} element_steps;

static void add_dim(element_steps *steps, int64_t dim, int64_t step)
{
    if (dim == 1) return;
    if (steps->axis_count && step == steps->steps[steps->axis_count - 1] * steps->dims[steps->axis_count - 1]) {
        steps->dims[steps->axis_count - 1] *= dim;
        return;
    }
    steps->dims[steps->axis_count] = dim;
    steps->steps[steps->axis_count++] = step;
}

static int64_t count_of(const element_steps *steps)
{
    int64_t count = 1;
    for (int dimension = 0; dimension < steps->axis_count; dimension++) count *= steps->dims[dimension];
    return count;
}

/* Two elements as one of twice the size, where all of them lie so. */
static bool widen_elements(element_steps *steps, int size, zt_cu_ptr input, zt_cu_ptr output)
{
    bool even = steps->axis_count > 0 && steps->steps[0] == 1 && steps->dims[0] % 2 == 0 && steps->base % 2 == 0 &&
                (input | output) % (2u << size) == 0;
    for (int dimension = 1; dimension < steps->axis_count && even; dimension++) even = steps->steps[dimension] % 2 == 0;
    if (!even) return false;
    steps->dims[0] /= 2;
    steps->base /= 2;
    for (int dimension = 1; dimension < steps->axis_count; dimension++) steps->steps[dimension] /= 2;
    return true;
}

static zt_status emit_steps(zt_cu_call *call, zt_cu_ptr input, zt_cu_ptr output, int size, element_steps steps, bool put)
{
    while (size < 4 && widen_elements(&steps, size, input, output)) size++;
    if (steps.axis_count == 0) {
        steps.dims[0] = steps.steps[0] = 1;
        steps.axis_count = 1;
    }
    zt_cu_move_args args = {
        .x = input, .y = output, .n = count_of(&steps), .base = steps.base, .put = put, .n_dims = steps.axis_count};
    memcpy(args.dim, steps.dims, sizeof args.dim);
    memcpy(args.step, steps.steps, sizeof args.step);
    return zt_cu_launch_each(call, move_names[size], args.n, &args, sizeof args);
}

/* Elements of all dimensions after `axis`. */
static int64_t inner_of(const zt_type *type, int axis)
{
    int64_t count = 1;
    for (int dimension = axis + 1; dimension < type->rank; dimension++) count *= type->dim[dimension];
    return count;
}

static int plain_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* `count` entries of `whole` along an axis, from `from` on in steps of `by`. */
static element_steps steps_along(const zt_type *whole, int axis, int64_t from, int64_t by, int64_t count)
{
    int64_t inner = inner_of(whole, axis), outer = 1;
    for (int dimension = 0; dimension < axis; dimension++) outer *= whole->dim[dimension];
    element_steps steps = {.base = from * inner};
    add_dim(&steps, inner, 1);
    add_dim(&steps, count, by * inner);
    add_dim(&steps, outer, whole->dim[axis] * inner);
    return steps;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static element_steps slice_steps(const zt_slice_attrs *attrs, const zt_type *whole, const zt_type *part)
{
    int axis = plain_axis(attrs->axis, whole->rank);
    int64_t from = attrs->from < 0 ? attrs->from + whole->dim[axis] : attrs->from;
    return steps_along(whole, axis, from, 1, part->dim[axis]);
}

static element_steps slice_step_steps(const zt_slice_step_attrs *attrs, const zt_type *whole,
                              const zt_type *part)
{
    int axis = plain_axis(attrs->axis, whole->rank);
    int64_t from = attrs->from < 0 ? attrs->from + whole->dim[axis] : attrs->from;
    return steps_along(whole, axis, from, attrs->step, part->dim[axis]);
}

static zt_status emit_part(zt_cu_call *call, element_steps steps)
{
    return emit_steps(call, call->inputs[0], call->outputs[0], size_of(call->output_types[0]->dtype), steps, false);
}

static zt_status emit_put(zt_cu_call *call, element_steps steps)
{
    zt_status status = zt_cu_fill(call, call->outputs[0], 0, zt_type_bytes(call->output_types[0]));
    return status ? status
                  : emit_steps(call, call->inputs[0], call->outputs[0], size_of(call->output_types[0]->dtype), steps, true);
}

static zt_status emit_slice(zt_cu_call *call)
{
    return emit_part(call, slice_steps(call->attrs, call->input_types[0], call->output_types[0]));
}
static zt_status emit_slice_put(zt_cu_call *call)
{
    const zt_slice_put_attrs *attrs = call->attrs;
    return emit_put(
        call, slice_steps(&(zt_slice_attrs){attrs->axis, attrs->from, attrs->to}, call->output_types[0], call->input_types[0]));
}
static zt_status emit_slice_step(zt_cu_call *call)
{
    return emit_part(call, slice_step_steps(call->attrs, call->input_types[0], call->output_types[0]));
}
static zt_status emit_slice_step_put(zt_cu_call *call)
{
    const zt_slice_step_put_attrs *attrs = call->attrs;
    const zt_slice_step_attrs plain = {attrs->axis, attrs->from, attrs->step, attrs->count};
    return emit_put(call, slice_step_steps(&plain, call->output_types[0], call->input_types[0]));
}

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

static zt_status emit_broadcast_to(zt_cu_call *call)
{
    zt_cu_strides strides = zt_cu_strides_of(call->input_types, 1, call->output_types[0]);
    element_steps steps = {.axis_count = strides.axis_count};
    memcpy(steps.dims, strides.dims, sizeof steps.dims);
    memcpy(steps.steps, strides.steps[0], sizeof steps.steps);
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

/* ---- triangles, padding ---------------------------------------------------------------------- */

static zt_status emit_triangle(zt_cu_call *call, int sign, int64_t diagonal)
{
    const zt_type *x_type = call->input_types[0];
    zt_cu_triangle_args args = {.x = call->inputs[0],
                             .y = call->outputs[0],
                             .n = zt_type_count(x_type),
                             .rows = x_type->dim[x_type->rank - 2],
                             .columns = x_type->dim[x_type->rank - 1],
                             .diagonal = diagonal,
                             .sign = sign};
    return zt_cu_launch_each(call, triangle_names[size_of(x_type->dtype)], args.n, &args, sizeof args);
}
static zt_status emit_tril(zt_cu_call *call)
{
    return emit_triangle(call, 1, ((const zt_tril_attrs *)call->attrs)->diagonal);
}
static zt_status emit_triu(zt_cu_call *call)
{
    return emit_triangle(call, -1, ((const zt_triu_attrs *)call->attrs)->diagonal);
}

static int64_t before_of(const zt_ints *pads, int dimension) { return dimension < pads->n ? pads->v[dimension] : 0; }

/* A constant's bits as an element of type t; what no integer is: 0. */
static uint64_t fill_of(zt_dtype dtype, double value)
{
    uint64_t bits = 0;
    if (dtype == ZT_F64) {
        memcpy(&bits, &value, sizeof value);
    } else if (zt_dtype_get(dtype)->kind == 'F') {
        float single = zt_f64_to_f32_odd(value);
        if (dtype == ZT_F32) single = (float)value;
        zt_dtype_get(dtype)->encode(&single, &bits, 1);
    } else if (dtype == ZT_BOOL) {
        bits = value != 0;
    } else {
        bits = fabs(value) < 0x1p63 ? (uint64_t)(int64_t)value : 0;
    }
    return bits;
}

static zt_status emit_pad(zt_cu_call *call)
{
    const zt_pad_attrs *attrs = call->attrs;
    const zt_type *x_type = call->input_types[0], *y_type = call->output_types[0];
    zt_cu_pad_args args = {.x = call->inputs[0],
                        .y = call->outputs[0],
                        .n = zt_type_count(y_type),
                        .fill = fill_of(y_type->dtype, attrs->value),
                        .n_dims = y_type->rank,
                        .mode = attrs->mode.s[0]};
    for (int dimension = 0; dimension < y_type->rank; dimension++) {
        args.dim[dimension] = y_type->dim[y_type->rank - 1 - dimension];
        args.size[dimension] = x_type->dim[y_type->rank - 1 - dimension];
        args.before[dimension] = before_of(&attrs->before, y_type->rank - 1 - dimension);
    }
    return zt_cu_launch_each(call, pad_names[size_of(x_type->dtype)], args.n, &args, sizeof args);
}

static bool pad_back_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                         const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_wide_float(input_types[0]->dtype);
}

/* One dimension after the other, the last first; sums in between are f64 of f64, else f32. */
static zt_status emit_pad_back(zt_cu_call *call)
{
    const zt_pad_back_attrs *attrs = call->attrs;
    zt_type now = *call->input_types[0];
    const zt_type *y_type = call->output_types[0];
    const zt_dtype wide = now.dtype == ZT_F64 ? ZT_F64 : ZT_F32;
    zt_cu_ptr address = call->inputs[0];
    int left = 0;
    for (int dimension = 0; dimension < y_type->rank; dimension++)
        left += now.dim[dimension] != y_type->dim[dimension] || before_of(&attrs->before, dimension);
    if (!left) return zt_cu_move(call, call->outputs[0], address, zt_type_bytes(y_type));
    for (int dimension = y_type->rank - 1; dimension >= 0; dimension--) {
        if (now.dim[dimension] == y_type->dim[dimension] && !before_of(&attrs->before, dimension)) continue;
        zt_cu_pad_back_args args = {.x = address,
                                 .x_type = now.dtype,
                                 .padded = now.dim[dimension],
                                 .size = y_type->dim[dimension],
                                 .inner = inner_of(&now, dimension),
                                 .before = before_of(&attrs->before, dimension),
                                 .mode = attrs->mode.s[0]};
        now.dim[dimension] = y_type->dim[dimension];
        now.dtype = --left ? wide : y_type->dtype;
        address = left ? zt_cu_scratch(call, zt_type_bytes(&now)) : call->outputs[0];
        if (!address) return zt_ctx_status(call->engine->base.ctx);
        args.y = address;
        args.y_type = now.dtype;
        args.n = zt_type_count(&now);
        zt_status status = zt_cu_launch_each(call, "zt_cu_pad_back", args.n, &args, sizeof args);
        if (status) return status;
    }
    return ZT_OK;
}

const zt_cu_row zt_cu_shape[] = {
    {.op = ZT_OP_slice, .has = bytes_has, .emit = emit_slice},
    {.op = ZT_OP_slice_put, .has = bytes_has, .emit = emit_slice_put},
    {.op = ZT_OP_slice_step, .has = bytes_has, .emit = emit_slice_step},
    {.op = ZT_OP_slice_step_put, .has = bytes_has, .emit = emit_slice_step_put},
    {.op = ZT_OP_concat, .has = bytes_has, .emit = emit_concat},
    {.op = ZT_OP_uncat, .has = bytes_has, .emit = emit_uncat},
    {.op = ZT_OP_repeat, .has = bytes_has, .emit = emit_repeat},
    {.op = ZT_OP_broadcast_to, .has = bytes_has, .emit = emit_broadcast_to},
    {.op = ZT_OP_transpose, .has = bytes_has, .emit = emit_transpose},
    {.op = ZT_OP_tril, .has = bytes_has, .emit = emit_tril},
    {.op = ZT_OP_triu, .has = bytes_has, .emit = emit_triu},
    {.op = ZT_OP_pad, .has = bytes_has, .emit = emit_pad},
    {.op = ZT_OP_pad_back, .has = pad_back_has, .emit = emit_pad_back},
    {.emit = NULL},
};
