/* quant.c - linear quantization; codes are integers of up to 32 bits and floats of a byte. */
#include "lib/engine/cuda/args_quant.h"
#include "lib/engine/cuda/strides.h"

static bool is_code(zt_dtype dtype)
{
    return (dtype > ZT_BF16 && dtype < ZT_F8_E8M0) || (dtype >= ZT_I32 && dtype <= ZT_U8 && dtype != ZT_U64);
}

static bool quantize_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                         const zt_type output_types[])
{
    (void)engine, (void)attrs;
    return zt_cu_is_wide_float(input_types[0]->dtype) && is_code(output_types[0].dtype);
}
static bool dequantize_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                           const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return is_code(input_types[0]->dtype);
}

static zt_status emit_linear(zt_cu_call *call, const char *name, int64_t axis, int64_t block, zt_dtype code, bool saturate)
{
    const zt_type *x_type = call->input_types[0], *scale = call->input_types[1];
    // clang-format off
    zt_cu_quant_args args = {.x = call->inputs[0],
                          .scale = call->inputs[1],
                          .zero = call->inputs[2],
                          .y = call->outputs[0],
                          .n = zt_type_count(x_type),
                          .size = 1,
                          .inner = 1,
                          .block = block,
                          .one = block == 0 && zt_type_count(scale) == 1 && scale->rank <= 1,
                          .saturate = saturate,
                          .x_type = x_type->dtype,
                          .y_type = call->output_types[0]->dtype,
                          .scale_type = scale->dtype,
                          .code_type = code};
    // clang-format on
    zt_dtype_range(code, &args.least, &args.most);
    if (!args.one) {
        int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
        args.size = x_type->dim[axis_at];
        args.blocks = block ? scale->dim[axis_at] : 0;
        for (int dimension = axis_at + 1; dimension < x_type->rank; dimension++) args.inner *= x_type->dim[dimension];
    }
    return zt_cu_launch_each(call, name, args.n, &args, sizeof args);
}

static zt_status emit_quantize(zt_cu_call *call)
{
    const zt_quantize_linear_attrs *attrs = call->attrs;
    return emit_linear(call, "zt_cu_quantize", attrs->axis, attrs->block, call->output_types[0]->dtype, attrs->saturate != 0);
}
static zt_status emit_dequantize(zt_cu_call *call)
{
    const zt_dequantize_linear_attrs *attrs = call->attrs;
    return emit_linear(call, "zt_cu_dequantize", attrs->axis, attrs->block, call->input_types[0]->dtype, true);
}

const zt_cu_row zt_cu_quant[] = {
    {.op = ZT_OP_quantize_linear, .has = quantize_has, .emit = emit_quantize},
    {.op = ZT_OP_dequantize_linear, .has = dequantize_has, .emit = emit_dequantize},
    {.emit = NULL},
};
