/* quant.c - linear quantization; codes are integers of up to 32 bits and floats of a byte and less. */
#include "lib/engine/vulkan/vk.h"

enum { GROUP = 64 };

static bool quantize_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && zt_vk_is_float(input_types[1]->dtype);
}

static bool dequantize_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[1]->dtype);
}

/* Where the scale of an element is; `items` are those of the pass. */
static zt_status set_linear(zt_vk_engine *engine, zt_vk_call *call, int64_t axis, int64_t block, zt_dtype code, int64_t items)
{
    const zt_type *x = call->in[0], *scale = call->in[1];
    int64_t inner = 1;
    bool one = block == 0 && zt_type_count(scale) == 1 && scale->rank <= 1;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    for (int k = at + 1; k < x->rank && !one; k++) inner *= x->dim[k];
    call->shader = ZT_VK_SHADER_quant;
    call->word[0] = (uint32_t)zt_type_count(x);
    call->word[1] = one ? 1 : (uint32_t)x->dim[at];
    call->word[2] = (uint32_t)inner;
    call->word[3] = block < INT32_MAX ? (uint32_t)block : INT32_MAX;
    call->word[4] = block ? (uint32_t)scale->dim[at] : 0;
    call->word[5] = x->dtype;
    call->word[6] = scale->dtype;
    call->word[7] = code;
    zt_vk_spread(engine, call, items, GROUP);
    return ZT_OK;
}

/* An invocation a word of codes. */
static zt_status set_quantize(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_quantize_linear_attrs *attrs = call->attrs;
    call->spec[0] = 1;
    call->word[8] = attrs->saturate != 0;
    return set_linear(engine, call, attrs->axis, attrs->block, call->out->dtype, (int64_t)((zt_type_bytes(call->out) + 3) / 4));
}

static zt_status set_dequantize(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_dequantize_linear_attrs *attrs = call->attrs;
    return set_linear(engine, call, attrs->axis, attrs->block, call->in[0]->dtype, zt_type_count(call->in[0]));
}

const zt_vk_kernel zt_vk_quant[] = {
    {.op = ZT_OP_quantize_linear, .has = quantize_has, .set = set_quantize},
    {.op = ZT_OP_dequantize_linear, .has = dequantize_has, .set = set_dequantize},
    {0},
};
