/* pad.c - padding, and its gradient. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/steps.h"

#include <math.h>
#include <string.h>

static const char *const pad_names[] = {"zt_cu_pad_1", "zt_cu_pad_2", "zt_cu_pad_4", "zt_cu_pad_8"};

/* ---- triangles, padding ---------------------------------------------------------------------- */

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

const zt_cu_row zt_cu_pad[] = {
    {.op = ZT_OP_pad, .has = bytes_has, .emit = emit_pad},
    {.op = ZT_OP_pad_back, .has = pad_back_has, .emit = emit_pad_back},
    {.emit = NULL},
};
