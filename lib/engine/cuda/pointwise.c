/* pointwise.c - a chain of elementwise ops as one launch. */
#include "lib/engine/cuda/elementwise.h"
#include "lib/ops/pointwise.h"

/* ---- chains ---------------------------------------------------------------------------------- */

/* Parsed and typed, as the kernel has it; false where a value is none of its numbers. */
static bool chain_of(const void *attrs, const zt_type *const input_types[], zt_cu_chain_op *ops, int *op_count, zt_type *whole)
{
    const zt_pointwise_attrs *pointwise = attrs;
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES];
    if (zt_pointwise_parse(NULL, pointwise->chain, &chain) || zt_pointwise_types(NULL, &chain, input_types, value, whole))
        return false;
    *op_count = chain.n_ops;
    for (int i = 0; i < chain.n_ops; i++) {
        const zt_type *y_type = &value[ZT_POINTWISE_INS + i];
        uint8_t from[3];
        zt_dtype type[3];
        for (int k = 0; k < 3; k++) {
            int operand = chain.op[i].in[k] < 0 ? chain.op[i].in[0] : chain.op[i].in[k];
            from[k] = (uint8_t)operand;
            type[k] = value[operand].dtype;
            if (!zt_cu_is_plain(type[k])) return false;
        }
        if (!zt_cu_is_plain(y_type->dtype) ||
            !zt_cu_chain_op_of(chain.op[i].op, chain.op[i].attrs, type, from, y_type->dtype, &ops[i]))
            return false;
    }
    for (int output = 0; output < chain.n_out; output++) ops[chain.out[output] - ZT_POINTWISE_INS].out = (uint8_t)(output + 1);
    return true;
}

static bool chain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    zt_cu_chain_op ops[ZT_CU_CHAIN_OPS];
    zt_type whole;
    int op_count;
    (void)engine, (void)output_types;
    return chain_of(attrs, input_types, ops, &op_count, &whole);
}

static zt_status emit_chain(zt_cu_call *call)
{
    zt_cu_chain_op ops[ZT_CU_CHAIN_OPS];
    zt_cu_chain_args args = {0};
    zt_type whole;
    if (!chain_of(call->attrs, call->input_types, ops, &args.n_ops, &whole)) return ZT_EBUG;
    zt_cu_set_strides(&args, call, ZT_CU_CHAIN_IN, &whole);
    for (int k = 0; k < ZT_CU_CHAIN_OUT; k++) {
        args.y[k] = call->outputs[k];
        if (call->output_types[k]) args.y_type[k] = (uint8_t)call->output_types[k]->dtype;
    }
    args.ops = zt_cu_table(call, ops, (size_t)args.n_ops * sizeof ops[0]);
    if (!args.ops) return zt_ctx_status(call->engine->base.ctx);
    return zt_cu_launch_each(call, "zt_cu_chain", args.n, &args, sizeof args);
}

const zt_cu_row zt_cu_pointwise[] = {
    {.op = ZT_OP_pointwise, .has = chain_has, .emit = emit_chain},
    {.emit = NULL},
};
