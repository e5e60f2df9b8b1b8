/* quant.c - linear quantization; codes are integers of up to 32 bits and floats of a byte. */
#include "lib/engine/cuda/args_quant.h"
#include "lib/engine/cuda/walk.h"

static bool is_code(zt_dtype t)
{
    return (t > ZT_BF16 && t < ZT_F8_E8M0) || (t >= ZT_I32 && t <= ZT_U8 && t != ZT_U64);
}

static bool quantize_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                         const zt_type out[])
{
    (void)e, (void)attrs;
    return zt_cu_is_wide_float(in[0]->dtype) && is_code(out[0].dtype);
}
static bool dequantize_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                           const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return is_code(in[0]->dtype);
}

static zt_status emit(zt_cu_call *c, const char *name, int64_t axis, int64_t block, zt_dtype code,
                      bool saturate)
{
    const zt_type *x = c->in[0], *scale = c->in[1];
    zt_cu_quant_args a = {.x = c->x[0],
                          .scale = c->x[1],
                          .zero = c->x[2],
                          .y = c->y[0],
                          .n = zt_type_count(x),
                          .size = 1,
                          .inner = 1,
                          .block = block,
                          .one = block == 0 && zt_type_count(scale) == 1 && scale->rank <= 1,
                          .saturate = saturate,
                          .x_type = x->dtype,
                          .y_type = c->out[0]->dtype,
                          .scale_type = scale->dtype,
                          .code_type = code};
    zt_dtype_range(code, &a.least, &a.most);
    if (!a.one) {
        int at = (int)(axis < 0 ? axis + x->rank : axis);
        a.size = x->dim[at];
        a.blocks = block ? scale->dim[at] : 0;
        for (int d = at + 1; d < x->rank; d++) a.inner *= x->dim[d];
    }
    return zt_cu_launch_each(c, name, a.n, &a, sizeof a);
}

static zt_status emit_quantize(zt_cu_call *c)
{
    const zt_quantize_linear_attrs *n = c->attrs;
    return emit(c, "zt_cu_quantize", n->axis, n->block, c->out[0]->dtype, n->saturate != 0);
}
static zt_status emit_dequantize(zt_cu_call *c)
{
    const zt_dequantize_linear_attrs *n = c->attrs;
    return emit(c, "zt_cu_dequantize", n->axis, n->block, c->in[0]->dtype, true);
}

const zt_cu_row zt_cu_quant[] = {
    {.op = ZT_OP_quantize_linear, .has = quantize_has, .emit = emit_quantize},
    {.op = ZT_OP_dequantize_linear, .has = dequantize_has, .emit = emit_dequantize},
    {.emit = NULL},
};
