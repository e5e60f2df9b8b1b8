/* pointwise.c - a chain of elementwise ops as one dispatch: `pointwise`.
 *
 * A chain is a list of words, an op each: its function, its operands, its output. module.c writes
 * from them what shaders/pointwise.comp runs; attributes and shapes come in the step's own table,
 * so that chains alike but for these share a pipeline.
 */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/pointwise.h"

#include <string.h>

enum { DIMS = 4, STEPS_AT = 1 + DIMS, ATTRS_AT = STEPS_AT + DIMS * ZT_POINTWISE_INS };

/* Parsed and typed; false where a value or an op is none of the shader's. */
static bool parse_chain(const void *attrs, const zt_type *const input_types[], zt_pointwise_chain *chain,
                        zt_type value[ZT_POINTWISE_VALUES], zt_type *whole)
{
    const zt_pointwise_attrs *pointwise = attrs;
    if (zt_pointwise_parse(NULL, pointwise->chain, chain) || zt_pointwise_types(NULL, chain, input_types, value, whole))
        return false;
    zt_dtype dtype = value[ZT_POINTWISE_INS].dtype;
    bool good = zt_vk_is_float(dtype);
    for (int k = 0; k < ZT_POINTWISE_INS && good; k++) good = !input_types[k] || input_types[k]->dtype == dtype;
    for (int i = 0; i < chain->n_ops && good; i++)
        good = value[ZT_POINTWISE_INS + i].dtype == dtype && zt_vk_function(chain->op[i].op, chain->op[i].attrs, NULL) >= 0;
    return good && zt_vk_strides_of(input_types, ZT_POINTWISE_INS, whole).axis_count <= DIMS;
}

static bool chain_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    (void)engine, (void)out;
    return parse_chain(attrs, input_types, &chain, value, &whole);
}

static void set_shapes(zt_vk_call *call, const zt_type *whole, uint32_t *table)
{
    zt_vk_strides strides = zt_vk_strides_of(call->in, ZT_POINTWISE_INS, whole);
    table[0] = (uint32_t)zt_type_count(whole);
    for (int axis = 0; axis < DIMS; axis++) table[DIMS - axis] = axis < strides.axis_count ? strides.dims[axis] : 1;
    for (int k = 0; k < ZT_POINTWISE_INS; k++) {
        if (!call->in[k]) continue;
        zt_type same = *call->in[k];
        same.dtype = whole->dtype;
        call->spec[0] |= 1u << k;
        if (zt_type_equal(&same, whole)) call->spec[1] |= 1u << k;
        for (int axis = 0; axis < DIMS && axis < strides.axis_count; axis++)
            table[STEPS_AT + DIMS * k + DIMS - 1 - axis] = strides.steps[k][axis];
    }
}

static uint32_t float_bits(double number)
{
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static zt_status set_chain(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    if (!parse_chain(call->attrs, call->in, &chain, value, &whole))
        return zt_fail(engine->base.ctx, ZT_EBUG, "op pointwise: engine vulkan has no kernel");
    call->table_words = ATTRS_AT + 2 * (size_t)chain.n_ops;
    call->table = zt_calloc(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    call->shader = ZT_VK_SHADER_pointwise;
    set_shapes(call, &whole, call->table);
    for (int i = 0; i < chain.n_ops; i++) {
        const zt_pointwise_op *chain_op = &chain.op[i];
        double attr[2];
        int function = zt_vk_function(chain_op->op, chain_op->attrs, attr);
        call->body[call->n_body++] =
            ZT_VK_BODY(function, chain_op->in[0], chain_op->in[1] < 0 ? chain_op->in[0] : chain_op->in[1]);
        for (int k = 0; k < 2; k++) call->table[ATTRS_AT + 2 * i + k] = float_bits(attr[k]);
    }
    for (int output = 0; output < chain.n_out; output++)
        if (call->wanted[output]) call->body[chain.out[output] - ZT_POINTWISE_INS] |= ZT_VK_BODY_OUT((uint32_t)output);
    zt_vk_spread(engine, call, zt_type_count(&whole), 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_pointwise[] = {
    {.op = ZT_OP_pointwise, .has = chain_has, .set = set_chain, .many = true},
    {0},
};
