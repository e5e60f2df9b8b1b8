/* contain.c - owns layers made of layers: parallel branches, sequences, and what these leave out.
 */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- parallel -------------------------------------------------------------------------------- */

/* Rows side by side: Loom of that version lays whole batches one behind the other, which no layer
 * after it can read; for one row that is the same. */
static nn_value concat_rows(nn_lowering *lowering, nn_value left, nn_value right)
{
    int64_t left_count = zt_layer_row_count(&left), right_count = zt_layer_row_count(&right);
    left = zt_layer_reshape(lowering, left, 2, (int64_t[]){left.dim[0], left_count});
    right = zt_layer_reshape(lowering, right, 2, (int64_t[]){right.dim[0], right_count});
    left.id = zt_program_concat(lowering->program, NULL, left.id, right.id, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){1});
    left.dim[1] = left_count + right_count;
    return left;
}

/* As many rows of as many numbers. */
static bool same_size(const nn_value *left, const nn_value *right)
{
    return left->dim[0] == right->dim[0] && zt_layer_row_count(left) == zt_layer_row_count(right);
}

/* b, of a's size, in a's shape, added. */
static nn_value add_values(nn_lowering *lowering, nn_value left, nn_value right)
{
    return zt_layer_binary(lowering, ZT_OP_add, left, zt_layer_reshape(lowering, right, left.rank, left.dim));
}

/* How much each branch counts for a row, [n,branches]: softmax of what the gate says of that row.
 */
static nn_value find_shares(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value gate = zt_layer_layer(lowering, layer->gate, input);
    int64_t row = zt_layer_row_count(&gate);
    if (gate.id < 0) return gate;
    if (row < layer->branch_count)
        return zt_layer_refuse(lowering, layer, "the gate outputs %" PRId64 " numbers for %" PRId64 " branches", row,
                               layer->branch_count);
    gate = zt_layer_reshape(lowering, gate, 2, (int64_t[]){gate.dim[0], row});
    if (row > layer->branch_count)
        gate.id = zt_program_slice(lowering->program, NULL, gate.id, &(zt_slice_attrs){.axis = 1, .to = layer->branch_count});
    gate.dim[1] = layer->branch_count;
    return zt_layer_unary(lowering, ZT_OP_softmax, NULL, gate);
}

/* Branch i times its share. */
static nn_value weigh_branch(nn_lowering *lowering, nn_value output, nn_value share, int64_t index)
{
    zt_slice_attrs attrs = {.axis = 1, .from = index, .to = index + 1};
    nn_value flat = zt_layer_reshape(lowering, output, 2, (int64_t[]){output.dim[0], zt_layer_row_count(&output)});
    share.id = zt_program_slice(lowering->program, NULL, share.id, &attrs);
    flat = zt_layer_binary(lowering, ZT_OP_mul, flat, share);
    return zt_layer_reshape(lowering, flat, output.rank, output.dim);
}

nn_value zt_layer_emit_parallel(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    bool filter = !strcmp(layer->combine, "filter");
    bool sum = filter || !strcmp(layer->combine, "add") || !strcmp(layer->combine, "avg");
    nn_value all = input, share = input;
    if (filter && !layer->gate) return zt_layer_refuse(lowering, layer, "combine mode 'filter' needs a filter_gate");
    if (filter && layer->branch_count) share = find_shares(lowering, layer, input);
    for (int64_t branch_index = 0; branch_index < layer->branch_count && share.id >= 0 && all.id >= 0; branch_index++) {
        lowering->skip = NULL;
        nn_value output = zt_layer_layer(lowering, &layer->branches[branch_index], input);
        if (filter) output = weigh_branch(lowering, output, share, branch_index);
        if (branch_index && output.id >= 0 && (sum ? !same_size(&all, &output) : all.dim[0] != output.dim[0]))
            return zt_layer_refuse(lowering, layer, "branch %" PRId64 " has another output size than the branches before it",
                                   branch_index);
        all = branch_index == 0 || output.id < 0 ? output
              : sum                              ? add_values(lowering, all, output)
                                                 : concat_rows(lowering, all, output);
    }
    if (share.id < 0) return share;
    if (!strcmp(layer->combine, "avg") && layer->branch_count)
        all = zt_layer_unary(lowering, ZT_OP_scale, &(zt_scale_attrs){1 / (double)layer->branch_count}, all);
    return all;
}

/* ---- sequential ------------------------------------------------------------------------------ */

/* A Residual among them adds the input of the step before it. */
nn_value zt_layer_emit_sequential(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value before = zt_layer_none();
    for (int64_t step_index = 0; step_index < layer->step_count && input.id >= 0; step_index++) {
        nn_value step_input = input;
        lowering->skip = step_index ? &before : NULL;
        input = zt_layer_layer(lowering, &layer->steps[step_index], input);
        before = step_input;
    }
    lowering->skip = NULL;
    return input;
}

/* Without a skip of its size it passes its input on. */
nn_value zt_layer_emit_residual(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    (void)layer;
    return lowering->skip && same_size(lowering->skip, &input) ? add_values(lowering, input, *lowering->skip) : input;
}
