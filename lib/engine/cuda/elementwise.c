/* elementwise.c - ops of single elements. */
#include "lib/engine/cuda/elementwise.h"

#include <string.h>

enum { THREADS = 256 };

/* ---- an op as the kernel knows it ------------------------------------------------------------ */

static const struct {
    zt_op op;
    zt_cu_fn fn;
} functions[] = {
#define X(name) {ZT_OP_##name, ZT_CU_F_##name},
    ZT_CU_OPS(X)
#undef X
        {ZT_OP_gelu, ZT_CU_F_gelu_tanh},
    {ZT_OP_geglu, ZT_CU_F_geglu_tanh},
    {ZT_OP_where, ZT_CU_F_where},
    {ZT_OP_cast, ZT_CU_F_cast},
    {ZT_OP_fill_like, ZT_CU_F_fill},
};

/* gelu and geglu in their other form. */
static zt_cu_fn form_of(zt_cu_fn fn, const void *attrs)
{
    const zt_gelu_attrs *gelu = attrs; /* geglu's are the same */
    if (fn != ZT_CU_F_gelu_tanh && fn != ZT_CU_F_geglu_tanh) return fn;
    if (strcmp(gelu->form.s, "erf")) return fn;
    return fn == ZT_CU_F_gelu_tanh ? ZT_CU_F_gelu_erf : ZT_CU_F_geglu_erf;
}

/* The k-th attribute, if it is a number. */
static double number_of(const zt_opinfo *info, const void *attrs, int k)
{
    double number;
    int64_t i;
    if (k >= info->n_attrs) return 0;
    const char *field = (const char *)attrs + info->attrs[k].offset;
    memcpy(&number, field, sizeof number);
    memcpy(&i, field, sizeof i);
    return info->attrs[k].kind == ZT_ATTR_f64 ? number : info->attrs[k].kind == ZT_ATTR_i64 ? (double)i : 0;
}

/* Ops whose attributes or exponents the kernels know as floats alone. */
static bool wants_floats(zt_op op) { return op == ZT_OP_scale || op == ZT_OP_pow || op == ZT_OP_fill_like; }

/* Operands' values are numbers in[], of type[]. */
bool zt_cu_chain_op_of(zt_op op, const void *attrs, const zt_dtype *type, const uint8_t *operands, zt_dtype dtype,
                       zt_cu_chain_op *chain_op)
{
    const zt_opinfo *info = zt_op_info(op);
    if (wants_floats(op) && !zt_cu_is_wide_float(dtype)) return false;
    *chain_op = (zt_cu_chain_op){.of = (uint8_t)type[op == ZT_OP_where], .of0 = (uint8_t)type[0]};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i].op != op) continue;
        chain_op->fn = (uint8_t)form_of(functions[i].fn, attrs);
        chain_op->to = (uint8_t)dtype;
        chain_op->p = number_of(info, attrs, 0);
        chain_op->q = number_of(info, attrs, 1);
        for (int k = 0; k < 3; k++) chain_op->in[k] = k < info->n_in ? operands[k] : operands[0];
        return true;
    }
    return false;
}

/* ---- one op ---------------------------------------------------------------------------------- */

static bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs;
    bool good = zt_cu_is_plain(output_types[0].dtype);
    for (int k = 0; k < 3; k++) good = good && (!input_types[k] || zt_cu_is_plain(input_types[k]->dtype));
    return good;
}

static bool floats_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    return plain_has(engine, attrs, input_types, output_types) && zt_dtype_is_float(output_types[0].dtype);
}

/* f8 types too; e8m0 only as the source, since an attribute of the cast says how it is rounded to. */
static bool cast_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    (void)engine, (void)attrs;
    const zt_dtype from = input_types[0]->dtype, dtype = output_types[0].dtype;
    return (from <= ZT_F8_E8M0 || zt_cu_is_plain(from)) && (dtype < ZT_F8_E8M0 || zt_cu_is_plain(dtype));
}

void zt_cu_set_strides(zt_cu_chain_args *args, const zt_cu_call *call, int n_in, const zt_type *whole)
{
    zt_cu_strides strides = zt_cu_strides_of(call->input_types, n_in, whole);
    args->n = zt_type_count(whole);
    args->n_in = n_in;
    args->n_dims = strides.axis_count;
    args->trouble = call->error;
    memcpy(args->dim, strides.dims, sizeof args->dim);
    memcpy(args->step, strides.steps, sizeof args->step);
    for (int input = 0; input < n_in; input++) {
        args->x[input] = call->inputs[input];
        if (call->input_types[input]) args->x_type[input] = (uint8_t)call->input_types[input]->dtype;
    }
}

static bool is_aligned(zt_cu_ptr address, zt_dtype dtype)
{
    return address % (4 * (zt_cu_ptr)zt_dtype_get(dtype)->block_bytes) == 0;
}

static zt_status emit_map(zt_cu_call *call, const zt_cu_chain_op *chain_op)
{
    static const char *const names[] = ZT_CU_FLOAT_NAMES(zt_cu_map);
    const zt_dtype dtype = call->output_types[0]->dtype;
    zt_cu_map_args args = {.x = call->inputs[0],
                           .y = call->outputs[0],
                           .n = zt_type_count(call->output_types[0]),
                           .p = chain_op->p,
                           .q = chain_op->q,
                           .fn = chain_op->fn,
                           .vectors = is_aligned(call->inputs[0], dtype) && is_aligned(call->outputs[0], dtype)};
    return zt_cu_launch(call, names[zt_cu_float_index(dtype)], zt_cu_spread(call, args.n, 4 * THREADS),
                        (zt_cu_dim){THREADS, 1, 1}, 0, &args, sizeof args);
}

/* Two floats of one type, each operand a stretch that is repeated; false: they are not. */
static bool map2_of(const zt_cu_call *call, const zt_cu_chain_op *chain_op, zt_cu_map2_args *args)
{
    const zt_dtype dtype = call->output_types[0]->dtype;
    zt_cu_strides strides = zt_cu_strides_of(call->input_types, 2, call->output_types[0]);
    if (chain_op->fn < ZT_CU_F_add || chain_op->fn >= ZT_CU_F_bitwise_and || !zt_cu_is_wide_float(dtype)) return false;
    *args = (zt_cu_map2_args){.a = call->inputs[0],
                              .b = call->inputs[1],
                              .y = call->outputs[0],
                              .n = zt_type_count(call->output_types[0]),
                              .fn = chain_op->fn,
                              .vectors = is_aligned(call->inputs[0], dtype) && is_aligned(call->inputs[1], dtype) &&
                                         is_aligned(call->outputs[0], dtype)};
    return zt_cu_strides_periodic(&strides, 0, &args->a_each, &args->a_size) &&
           zt_cu_strides_periodic(&strides, 1, &args->b_each, &args->b_size);
}

zt_status zt_cu_emit_elementwise(zt_cu_call *call)
{
    static const char *const names[] = ZT_CU_FLOAT_NAMES(zt_cu_map2);
    static const uint8_t order[] = {0, 1, 2};
    const zt_type *output_type = call->output_types[0];
    if (call->engine->base.strict_bits && zt_cu_contract_maps(call->op, call->attrs, call->input_types, output_type))
        return zt_cu_contract_map(call);
    zt_cu_chain_args args = {.y = {call->outputs[0]}, .y_type = {(uint8_t)output_type->dtype}, .n_ops = 1};
    zt_cu_map2_args two;
    zt_dtype type[3];
    for (int k = 0; k < 3; k++) type[k] = call->input_types[k] ? call->input_types[k]->dtype : output_type->dtype;
    if (!zt_cu_chain_op_of(call->op, call->attrs, type, order, output_type->dtype, &args.one)) return ZT_EBUG;
    if (args.one.fn < ZT_CU_F_add && zt_cu_is_wide_float(output_type->dtype)) return emit_map(call, &args.one);
    if (map2_of(call, &args.one, &two))
        return zt_cu_launch(call, names[zt_cu_float_index(output_type->dtype)], zt_cu_spread(call, two.n, 4 * THREADS),
                            (zt_cu_dim){THREADS, 1, 1}, 0, &two, sizeof two);
    zt_cu_set_strides(&args, call, args.one.fn == ZT_CU_F_fill ? 0 : 3, output_type); /* which reads nothing */
    return zt_cu_launch_each(call, "zt_cu_chain", args.n, &args, sizeof args);
}

/* ---- bits ------------------------------------------------------------------------------------ */

static bool any_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                    const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types, (void)output_types;
    return true;
}

static zt_status emit_same_bytes(zt_cu_call *call)
{
    return zt_cu_move(call, call->outputs[0], call->inputs[0], zt_type_bytes(call->input_types[0]));
}

/* ---- the bits of docs/arithmetic.md ---------------------------------------------------------- */

/* Ops that one instruction rounds, or nothing: they have one result. */
static const zt_op exact_ops[] = {ZT_OP_neg,    ZT_OP_abs,  ZT_OP_sign, ZT_OP_floor, ZT_OP_ceil, ZT_OP_round,
                                  ZT_OP_square, ZT_OP_sqrt, ZT_OP_relu, ZT_OP_clamp, ZT_OP_add,  ZT_OP_sub,
                                  ZT_OP_mul,    ZT_OP_div,  ZT_OP_max,  ZT_OP_min,   ZT_OP_where};

static bool elementwise_contract(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    bool found = false;
    for (size_t i = 0; i < sizeof exact_ops / sizeof *exact_ops; i++) found = found || exact_ops[i] == op;
    return found || zt_cu_contract_maps(op, attrs, in, out);
}

const zt_cu_row zt_cu_elementwise[] = {
#define X(name)                                                                                                                  \
    {.op = ZT_OP_##name,                                                                                                         \
     .has = ZT_OP_##name == ZT_OP_scale || ZT_OP_##name == ZT_OP_pow ? floats_has : plain_has,                                   \
     .emit = zt_cu_emit_elementwise,                                                                                             \
     .contract = elementwise_contract},
    ZT_CU_OPS(X) X(gelu) X(geglu) X(where)
#undef X
        {.op = ZT_OP_cast, .has = cast_has, .emit = zt_cu_emit_elementwise, .contract = zt_cu_always},
    {.op = ZT_OP_bitcast, .has = any_has, .emit = emit_same_bytes, .contract = zt_cu_always},
    {.emit = NULL},
};
