/* print.c - owns the canonical text: the model and the symbols' numbers, declarations and ops in the order in which they were
 * made, then the kept states in their order, then the outputs in theirs. */
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <string.h>

static zt_status put_model(const zt_prog *program, zt_str *output_text)
{
    if (!program->file) return ZT_OK;
    zt_status status = zt_str_puts(output_text, "model ");
    if (!status) status = zt_str_put_json(output_text, program->file, strlen(program->file));
    if (!status && program->id) status = zt_str_printf(output_text, " id=%s", program->id);
    return status ? status : zt_str_putc(output_text, '\n');
}

static zt_status put_declaration(const zt_prog *program, const zt_value *value, zt_str *output_text)
{
    static const char *const word[] = {[ZT_VALUE_IN] = "in", [ZT_VALUE_STATE] = "state", [ZT_VALUE_DATA] = "data"};
    zt_status status =
        zt_str_printf(output_text, "%-5s %s: %s", word[value->kind], value->name, zt_dtype_get(value->type.dtype)->name);
    if (!status) status = zt_dims_put(program, value->type.rank, value->type.dim, output_text);
    if (!status && value->tensor) status = zt_str_putc(output_text, ' ');
    if (!status && value->tensor) status = zt_str_put_json(output_text, value->tensor, strlen(value->tensor));
    return status ? status : zt_str_putc(output_text, '\n');
}

/* Up to the last that is there; what is absent before it is "_". */
static zt_status put_values(const zt_prog *program, const int *value, int value_count, const char *between, zt_str *output_text)
{
    zt_status status = ZT_OK;
    while (value_count > 0 && value[value_count - 1] < 0) value_count--;
    for (int value_id = 0; value_id < value_count && !status; value_id++) {
        if (value_id > 0) status = zt_str_puts(output_text, between);
        if (!status) status = zt_str_puts(output_text, value[value_id] < 0 ? "_" : zt_prog_value(program, value[value_id])->name);
    }
    return status;
}

static zt_status put_step(const zt_prog *program, const zt_step *step, zt_str *output_text)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    zt_status status = put_values(program, step->out, op_info->n_out, ", ", output_text);
    if (!status) status = zt_str_printf(output_text, " = %s ", op_info->name);
    if (!status) status = put_values(program, step->in, op_info->n_in, " ", output_text);
    if (!status) status = zt_attrs_put(program, op_info, step->attrs, output_text);
    return status ? status : zt_str_putc(output_text, '\n');
}

static zt_status put_list(const zt_prog *program, zt_str *output_text)
{
    zt_status status = ZT_OK;
    for (int value_id = 0; value_id < program->values.count && !status; value_id++) {
        const zt_value *value = zt_prog_value(program, value_id);
        if (value->kind != ZT_VALUE_OP)
            status = put_declaration(program, value, output_text);
        else if (zt_prog_step(program, value->index)->out[0] == value_id)
            status = put_step(program, zt_prog_step(program, value->index), output_text);
    }
    return status;
}

static zt_status put_end(const zt_prog *program, zt_str *output_text)
{
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE) && !status; state_index++) {
        const zt_value *value = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, state_index));
        if (value->keep >= 0)
            status = zt_str_printf(output_text, "keep  %s = %s\n", value->name, zt_prog_value(program, value->keep)->name);
    }
    for (int i = 0; i < program->outputs.count && !status; i++) {
        const zt_output *output = zt_prog_output(program, i);
        status = zt_str_printf(output_text, "out   %s = %s\n", output->name, zt_prog_value(program, output->value)->name);
    }
    return status;
}

zt_status zt_prog_print(const zt_prog *program, zt_str *output_text)
{
    if (!program) return ZT_EUSAGE;
    ZT_REQUIRE(program->ctx, output_text, ZT_EUSAGE);
    size_t start = output_text->len;
    zt_status status = zt_str_puts(output_text, "zt program 1\n");
    if (!status) status = put_model(program, output_text);
    if (!status) status = zt_given_put(program, output_text);
    if (!status) status = put_list(program, output_text);
    if (!status) status = put_end(program, output_text);
    if (status && output_text->data) output_text->data[output_text->len = start] = 0; /* all or nothing */
    return status;
}

bool zt_prog_has_opaque(const zt_prog *program)
{
    if (!program) return false;
    for (int step_index = 0; step_index < program->steps.count; step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        if (zt_attrs_opaque(zt_op_info(step->op), step->attrs)) return true;
    }
    return false;
}
