/* bind.c - owns binding: symbols become numbers, and the ops' rules give every type.
 *
 * It runs for each new number of rows, between two tokens, so it makes one allocation: the bound
 * program, its types and attribute pointers, the expressions' values, and copies of only those
 * attributes that have expressions in them.
 */
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <inttypes.h>
#include <string.h>

typedef struct program_binder {
    const zt_prog *program;
    zt_bound *bound;
    int64_t *value;    /* of the program's expressions */
    char *attrs;       /* room for attributes that are copied */
    zt_ctx *inner_ctx; /* where inference leaves its sentence, before the step is put before it */
} program_binder;

/* Sizes are sums of at most ZT_MAX_LIST small things each. */
static bool alloc_bound(program_binder *binder)
{
    const zt_prog *program = binder->program;
    size_t types = (sizeof *binder->bound + 15) & ~(size_t)15;
    size_t pointers = types + (size_t)program->values.count * sizeof *binder->bound->type;
    size_t values = pointers + (size_t)program->steps.count * sizeof *binder->bound->attrs;
    size_t attrs = (values + (size_t)program->expressions.count * sizeof *binder->value + 15) & ~(size_t)15;
    char *memory = zt_alloc(program->ctx, attrs + program->symbolic_bytes);
    if (!memory) return false;
    binder->bound = (zt_bound *)memory;
    *binder->bound = (zt_bound){.prog = program,
                                .n_values = program->values.count,
                                .type = (zt_type *)(memory + types),
                                .n_steps = program->steps.count,
                                .attrs = (const void **)(memory + pointers)};
    binder->value = (int64_t *)(memory + values);
    binder->attrs = memory + attrs;
    return true;
}

static zt_status bind_symbols(program_binder *binder, const zt_binding *bindings, int binding_count)
{
    const zt_prog *program = binder->program;
    int64_t symbol[ZT_MAX_SYMBOLS] = {0};
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++) {
        int k = 0;
        while (k < binding_count && (!bindings[k].symbol || strcmp(bindings[k].symbol, program->symbol_names[symbol_id]) != 0))
            k++;
        if (k == binding_count)
            return zt_fail(program->ctx, ZT_EUSAGE, "no value for symbol '%s'", program->symbol_names[symbol_id]);
        if (bindings[k].value < 0)
            return zt_fail(program->ctx, ZT_EUSAGE, "symbol '%s' is %" PRId64 ": must be nonnegative",
                           program->symbol_names[symbol_id], bindings[k].value);
        symbol[symbol_id] = bindings[k].value;
    }
    return zt_dims_eval(program, symbol, binder->value);
}

static zt_status bind_declared(program_binder *binder)
{
    const zt_prog *program = binder->program;
    for (int value_id = 0; value_id < program->values.count; value_id++) {
        const zt_value *value = zt_prog_value(program, value_id);
        zt_type *type = &binder->bound->type[value_id];
        *type = value->type;
        zt_status status = zt_dims_bind(program, binder->value, type->rank, type->dim);
        if (status) return status;
        if (value->kind != ZT_VALUE_OP && !zt_type_check(binder->inner_ctx, type, NULL))
            return zt_fail(program->ctx, ZT_ESHAPE, "value '%s': %s", value->name, zt_ctx_error(binder->inner_ctx));
    }
    return ZT_OK;
}

static zt_status bind_step(program_binder *binder, int step_index)
{
    const zt_made *made = (const zt_made *)binder->program->steps.items + step_index;
    const zt_step *step = &made->step;
    const zt_opinfo *op_info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT];
    binder->bound->attrs[step_index] = step->attrs;
    if (made->symbolic) {
        zt_status status = zt_attrs_bind(binder->program, op_info, step->attrs, binder->value, binder->attrs);
        if (status) return status;
        binder->bound->attrs[step_index] = binder->attrs;
        binder->attrs += (op_info->attr_bytes + 15) & ~(size_t)15;
    }
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = step->in[input] >= 0 ? &binder->bound->type[step->in[input]] : NULL;
    zt_status status = zt_op_infer(binder->inner_ctx, step->op, binder->bound->attrs[step_index], input_types, output_types);
    if (status) /* a wrong attribute is the program's fault, not its caller's */
        return zt_fail(binder->program->ctx, status == ZT_EUSAGE ? ZT_EDATA : status, "step %d, '%s': %s", step_index,
                       zt_prog_value(binder->program, step->out[0])->name, zt_ctx_error(binder->inner_ctx));
    for (int output = 0; output < op_info->n_out; output++)
        if (step->out[output] >= 0) binder->bound->type[step->out[output]] = output_types[output];
    return ZT_OK;
}

static zt_status check_keeps(const program_binder *binder)
{
    char state_text[ZT_TYPE_TEXT], kept_text[ZT_TYPE_TEXT];
    const zt_prog *program = binder->program;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE); state_index++) {
        int value_id = zt_prog_nth(program, ZT_VALUE_STATE, state_index), keep = zt_prog_value(program, value_id)->keep;
        const zt_type *type = binder->bound->type;
        if (keep < 0 || zt_type_equal(&type[value_id], &type[keep])) continue;
        return zt_fail(program->ctx, ZT_ESHAPE, "state '%s' has type %s, but '%s', which it keeps, has type %s",
                       zt_prog_value(program, value_id)->name, zt_type_text(&type[value_id], state_text),
                       zt_prog_value(program, keep)->name, zt_type_text(&type[keep], kept_text));
    }
    return ZT_OK;
}

zt_bound *zt_prog_bind(const zt_prog *program, const zt_binding *bindings, int binding_count)
{
    if (!program) return NULL;
    ZT_REQUIRE(program->ctx, binding_count >= 0 && (bindings || !binding_count), NULL);
    program_binder binder = {.program = program, .inner_ctx = zt_ctx_new()};
    zt_status status = binder.inner_ctx ? ZT_OK : zt_fail(program->ctx, ZT_ENOMEM, "out of memory: a context");
    if (!status && !alloc_bound(&binder)) status = ZT_ENOMEM;
    if (!status) status = bind_symbols(&binder, bindings, binding_count);
    if (!status) status = bind_declared(&binder);
    for (int i = 0; i < program->steps.count && !status; i++) status = bind_step(&binder, i);
    if (!status) status = check_keeps(&binder);
    zt_ctx_free(binder.inner_ctx);
    if (!status) return binder.bound;
    zt_bound_free(binder.bound);
    return NULL;
}

void zt_bound_free(zt_bound *bound)
{
    if (bound) zt_free(bound->prog->ctx, bound);
}
