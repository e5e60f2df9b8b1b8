/* pointwise.c - a chain of elementwise ops as one dispatch: `pointwise`.
 *
 * A chain of floats and bools is a list of words, two an op: its function, its operands, its type, its output. module.c
 * writes from them what shaders/pointwise.comp runs; attributes and shapes come in the step's own table, so that
 * chains alike but for these share a pipeline. Chains of other types are read from the table, op by op
 * (shaders/pointwise_values.comp).
 */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/pointwise.h"

#include <string.h>

enum { DIMS = 4, STEPS_AT = 1 + DIMS, ATTRS_AT = STEPS_AT + DIMS * ZT_POINTWISE_INS };

typedef struct chain_types {
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES], whole;
} chain_types;

static bool parse_chain(const void *attrs, const zt_type *const input_types[], chain_types *of)
{
    const zt_pointwise_attrs *pointwise = attrs;
    return !zt_pointwise_parse(NULL, pointwise->chain, &of->chain) &&
           !zt_pointwise_types(NULL, &of->chain, input_types, of->value, &of->whole);
}

/* ---- chains of floats and bools -------------------------------------------------------------- */

/* The type's number in shaders/pointwise.comp, or -1. */
static int type_of(zt_dtype dtype) { return dtype == ZT_BOOL ? 3 : zt_vk_is_float(dtype) ? (int)zt_vk_floats(dtype) : -1; }

/* Is all of it what the shader computes with? */
static bool is_of_floats(const chain_types *of, const zt_type *const input_types[])
{
    bool good = zt_vk_strides_of(input_types, ZT_POINTWISE_INS, &of->whole).axis_count <= DIMS;
    for (int k = 0; k < ZT_POINTWISE_INS && good; k++) good = !input_types[k] || type_of(input_types[k]->dtype) >= 0;
    for (int i = 0; i < of->chain.n_ops && good; i++) {
        const zt_pointwise_op *op = &of->chain.op[i];
        good = type_of(of->value[ZT_POINTWISE_INS + i].dtype) >= 0 && zt_vk_function(op->op, op->attrs, NULL) >= 0;
    }
    return good;
}

static bool chain_contract(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    chain_types of;
    (void)engine, (void)out;
    if (!parse_chain(attrs, input_types, &of)) return false;
    for (int i = 0; i < of.chain.n_ops; i++) {
        const zt_dtype dtype = of.value[ZT_POINTWISE_INS + i].dtype;
        if (!zt_vk_is_float(dtype)) continue;
        if (dtype != ZT_F32 || !zt_vk_function_contract(zt_vk_function(of.chain.op[i].op, of.chain.op[i].attrs, NULL)))
            return false;
    }
    return true;
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
        call->spec[2] |= (uint32_t)type_of(call->in[k]->dtype) << 2 * k;
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

static zt_status new_table(zt_vk_engine *engine, zt_vk_call *call, size_t words)
{
    call->table_words = words;
    call->table = zt_calloc(engine->base.ctx, words, sizeof *call->table);
    return call->table ? ZT_OK : ZT_ENOMEM;
}

static zt_status set_floats(zt_vk_engine *engine, zt_vk_call *call, const chain_types *of)
{
    const zt_pointwise_chain *chain = &of->chain;
    zt_status status = new_table(engine, call, ATTRS_AT + 2 * (size_t)chain->n_ops);
    if (status) return status;
    call->shader = ZT_VK_SHADER_pointwise;
    set_shapes(call, &of->whole, call->table);
    for (int i = 0; i < chain->n_ops; i++) {
        const zt_pointwise_op *op = &chain->op[i];
        double attr[2];
        int function = zt_vk_function(op->op, op->attrs, attr), value[3];
        for (int k = 0; k < 3; k++) value[k] = op->in[op->in[k] < 0 ? 0 : k];
        call->body[call->n_body++] = ZT_VK_BODY(function, value[0], value[1], value[2]);
        call->body[call->n_body++] = (uint32_t)type_of(of->value[ZT_POINTWISE_INS + i].dtype);
        for (int k = 0; k < 2; k++) call->table[ATTRS_AT + 2 * i + k] = float_bits(attr[k]);
    }
    for (int output = 0; output < chain->n_out; output++)
        if (call->wanted[output]) call->body[2 * (chain->out[output] - ZT_POINTWISE_INS) + 1] |= (uint32_t)(output + 1) << 8;
    return ZT_OK;
}

/* ---- chains of any plain types --------------------------------------------------------------- */

enum { HEAD = 3 + ZT_POINTWISE_INS, OP_WORDS = 4 };

/* The words of op i, or false. */
static bool put_op(const chain_types *of, int i, uint32_t word[OP_WORDS])
{
    const zt_pointwise_op *op = &of->chain.op[i];
    const zt_type *in[ZT_MAX_IN] = {0};
    for (int k = 0; k < 3; k++) in[k] = op->in[k] < 0 ? NULL : &of->value[op->in[k]];
    if (!zt_vk_chain_words(op->op, op->attrs, in, &of->value[ZT_POINTWISE_INS + i], word)) return false;
    for (int k = 0; k < 3; k++) word[1] |= (uint32_t)op->in[op->in[k] < 0 ? 0 : k] << 8 * k;
    return true;
}

static zt_status set_values(zt_vk_engine *engine, zt_vk_call *call, const chain_types *of)
{
    const zt_vk_strides strides = zt_vk_strides_of(call->in, ZT_POINTWISE_INS, &of->whole);
    const size_t axes = (size_t)strides.axis_count, ops_at = HEAD + axes * (1 + ZT_POINTWISE_INS);
    const zt_pointwise_chain *chain = &of->chain;
    zt_status status = new_table(engine, call, ops_at + OP_WORDS * (size_t)chain->n_ops);
    if (status) return status;
    uint32_t *table = call->table;
    call->shader = ZT_VK_SHADER_pointwise_values;
    table[0] = (uint32_t)zt_type_count(&of->whole);
    table[1] = (uint32_t)axes;
    table[2] = (uint32_t)chain->n_ops;
    memcpy(table + HEAD, strides.dims, axes * sizeof *table);
    for (size_t k = 0; k < ZT_POINTWISE_INS; k++) {
        table[3 + k] = call->in[k] ? (uint32_t)call->in[k]->dtype : 0;
        memcpy(table + HEAD + axes * (1 + k), strides.steps[k], axes * sizeof *table);
    }
    for (int i = 0; i < chain->n_ops; i++) put_op(of, i, table + ops_at + OP_WORDS * (size_t)i);
    for (int output = 0; output < chain->n_out; output++)
        if (call->wanted[output])
            table[ops_at + OP_WORDS * (size_t)(chain->out[output] - ZT_POINTWISE_INS) + 1] |= (uint32_t)(output + 1) << 24;
    return ZT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool chain_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    chain_types of;
    uint32_t word[OP_WORDS];
    (void)engine, (void)out;
    if (!parse_chain(attrs, input_types, &of)) return false;
    if (is_of_floats(&of, input_types)) return true;
    bool good = true;
    for (int i = 0; i < of.chain.n_ops && good; i++) good = put_op(&of, i, word);
    return good;
}

static zt_status set_chain(zt_vk_engine *engine, zt_vk_call *call)
{
    chain_types of;
    if (!parse_chain(call->attrs, call->in, &of))
        return zt_fail(engine->base.ctx, ZT_EBUG, "op pointwise: engine vulkan has no kernel");
    call->spec[ZT_VK_FLOATS] = 0; /* types are in words of the table or of the body */
    zt_vk_spread(engine, call, zt_type_count(&of.whole), 64);
    return is_of_floats(&of, call->in) ? set_floats(engine, call, &of) : set_values(engine, call, &of);
}

const zt_vk_kernel zt_vk_pointwise[] = {
    {.op = ZT_OP_pointwise, .has = chain_has, .set = set_chain, .contract = chain_contract, .many = true},
    {.set = NULL},
};
