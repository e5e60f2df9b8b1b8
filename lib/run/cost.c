/* cost.c - arithmetic and bytes of a program's steps, from what the ops' rows state (zt_op_flops,
 * zt_op_bytes), held against a roof.
 */
#include "lib/base/require.h"
#include "lib/run/cost.h"
#include "lib/ops/linear.h"

#include <string.h>

int *zt_cost_roots(zt_ctx *ctx, const zt_prog *program)
{
    ZT_REQUIRE(ctx, program, NULL);
    int value_count = zt_prog_n_values(program);
    int *root = zt_alloc_array(ctx, (size_t)value_count + 1, sizeof *root);
    for (int value_id = 0; root && value_id < value_count; value_id++) root[value_id] = value_id;
    for (int step_index = 0; root && step_index < zt_prog_n_steps(program); step_index++) {
        const zt_step *step = zt_prog_step(program, step_index);
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (step->out[k] >= 0) root[step->out[k]] = root[step->in[k]];
    }
    return root;
}

/* How often the products of all outputs are made, on the average. */
static double passes_of(zt_op op, const void *attrs, const zt_type output_types[])
{
    double all_elements = 0, passes = 0;
    for (int output = 0; output < zt_op_info(op)->n_out; output++) {
        double elements = (double)zt_type_count(&output_types[output]);
        all_elements += elements;
        passes += elements * (strcmp(zt_op_act(op, attrs, output)->s, "q16") ? 1 : 2);
    }
    return all_elements > 0 ? passes / all_elements : 1;
}

/* By the op's attribute `act`: what weights of blocks are multiplied with. */
static zt_roof_kind kind_of(zt_op op, const void *attrs, const zt_type *const input_types[])
{
    const zt_enum_string *act = zt_op_act(op, attrs, 0);
    if (!act || !input_types[1]) return ZT_ROOF_F32;
    if (input_types[1]->dtype == ZT_BF16) return ZT_ROOF_BF16;
    bool blocks = zt_dtype_get(input_types[1]->dtype)->block > 1;
    return blocks && strcmp(act->s, "f32") ? ZT_ROOF_INT8 : ZT_ROOF_F32;
}

/* A step's types: of a cache the rows that are filled. */
typedef struct operand_types {
    const zt_step *step;
    const zt_opinfo *info;
    const void *attrs;
    const zt_type *input_types[ZT_MAX_IN];
    zt_type input_storage[ZT_MAX_IN], output_types[ZT_MAX_OUT];
} operand_types;

static zt_value_kind kind_at(const zt_bound *bound, const int *root, int value_id)
{
    return zt_prog_value(bound->prog, root[value_id])->kind;
}

static void find_operands(const zt_bound *bound, const int *root, int64_t filled, int step, operand_types *operands)
{
    const zt_step *source_step = zt_prog_step(bound->prog, step);
    *operands = (operand_types){.step = source_step, .info = zt_op_info(source_step->op)};
    operands->attrs = bound->attrs[step] ? bound->attrs[step] : operands->info->defaults;
    for (int input = 0; input < operands->info->n_in; input++) {
        if (source_step->in[input] < 0) continue;
        zt_type *type = &operands->input_storage[input];
        *type = bound->type[source_step->in[input]];
        operands->input_types[input] = type;
        if (kind_at(bound, root, source_step->in[input]) == ZT_VALUE_STATE && filled >= 0 && type->rank && type->dim[0] > filled)
            type->dim[0] = filled;
    }
    for (int output = 0; output < operands->info->n_out; output++)
        if (source_step->out[output] >= 0) operands->output_types[output] = bound->type[source_step->out[output]];
}

zt_cost zt_cost_of(const zt_bound *bound, const int *root, int64_t filled, int step)
{
    if (!bound || !root || step < 0 || step >= bound->n_steps) return (zt_cost){0};
    operand_types operands;
    zt_cost cost = {0};
    find_operands(bound, root, filled, step, &operands);
    for (int input = 0; input < operands.info->n_in; input++) {
        if (!operands.input_types[input]) continue;
        zt_value_kind kind = kind_at(bound, root, operands.step->in[input]);
        bool donated = input < operands.info->def->donates;
        if ((kind == ZT_VALUE_STATE && !donated) || kind == ZT_VALUE_DATA)
            cost.data += (double)zt_type_bytes(operands.input_types[input]);
    }
    double bytes = zt_op_bytes(operands.step->op, operands.attrs, operands.input_types, operands.output_types);
    cost.flops = zt_op_flops(operands.step->op, operands.attrs, operands.input_types, operands.output_types);
    cost.data = cost.data < bytes ? cost.data : bytes;
    cost.rest = bytes - cost.data;
    cost.kind = kind_of(operands.step->op, operands.attrs, operands.input_types);
    cost.passes = cost.kind == ZT_ROOF_INT8 ? passes_of(operands.step->op, operands.attrs, operands.output_types) : 1;
    if (operands.info->def->flags & ZT_OPF_VIEW) cost.flops = 0;
    return cost;
}

/* ---- whole programs -------------------------------------------------------------------------- */

/* Of what is declared the most that a step reads: a table of which some rows are wanted is not read
 * whole. read: [values], by root. */
static void note_reads(const zt_bound *bound, const int *root, int64_t filled, int step, double *read)
{
    operand_types operands;
    find_operands(bound, root, filled, step, &operands);
    double bytes = zt_op_bytes(operands.step->op, operands.attrs, operands.input_types, operands.output_types);
    for (int input = 0; input < operands.info->n_in; input++) {
        if (!operands.input_types[input] || input < operands.info->def->donates || operands.info->def->flags & ZT_OPF_VIEW)
            continue;
        int value_id = root[operands.step->in[input]];
        double all = (double)zt_type_bytes(operands.input_types[input]), some = all < bytes ? all : bytes;
        if (zt_prog_value(bound->prog, value_id)->kind != ZT_VALUE_OP && some > read[value_id]) read[value_id] = some;
    }
}

zt_status zt_cost_add(zt_ctx *ctx, const zt_bound *bound, const int *root, int64_t filled, double runs, zt_cost_whole *whole)
{
    ZT_REQUIRE(ctx, bound && root && whole, ZT_EUSAGE);
    double bytes = 0, *read = zt_calloc(ctx, (size_t)bound->n_values + 1, sizeof *read);
    if (!read) return ZT_ENOMEM;
    for (int step_index = 0; step_index < bound->n_steps; step_index++) {
        zt_cost cost = zt_cost_of(bound, root, filled, step_index);
        whole->flops[cost.kind] += runs * cost.flops * cost.passes;
        note_reads(bound, root, filled, step_index, read);
    }
    for (int value_id = 0; value_id < bound->n_values; value_id++) bytes += read[value_id];
    for (int output_index = 0; output_index < zt_prog_n_outputs(bound->prog); output_index++)
        bytes += (double)zt_type_bytes(&bound->type[zt_prog_output(bound->prog, output_index)->value]);
    whole->bytes += runs * bytes;
    whole->held = bytes > whole->held ? bytes : whole->held;
    zt_free(ctx, read);
    return ZT_OK;
}

double zt_cost_least(const zt_cost_whole *whole, const zt_roof *roof)
{
    if (!whole || !roof) return 0;
    double compute = 0;
    for (int k = 0; k < ZT_ROOF_KINDS; k++) compute += whole->flops[k] / zt_roof_rate(roof, (zt_roof_kind)k);
    const zt_roof_level *level = zt_roof_level_of(roof, (size_t)whole->held);
    double move = whole->bytes / level->read[ZT_ROOF_ALL];
    return compute > move ? compute : move;
}
