/* softmax.c - owns the ten kinds of softmax, each over all numbers of a row (of x [n], over x), or
 * over groups of them. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>

/* x as [groups, cols]. */
static nn_value split_groups(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input, int64_t columns)
{
    int64_t row = zt_layer_row_count(&input);
    if (input.rank == 1)
        return zt_layer_reshape(lowering, input, 2,
                                (int64_t[]){zt_prog_dim(lowering->program, '/', input.dim[0], columns), columns});
    if (row % columns != 0)
        return zt_layer_refuse(lowering, layer, "row length %" PRId64 " is not a multiple of the group size %" PRId64, row,
                               columns);
    return zt_layer_reshape(lowering, input, 2, (int64_t[]){zt_layer_rows(lowering, &input, row / columns), columns});
}

static nn_value group_input(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    int64_t columns = layer->softmax == ZT_NN_GRID || layer->softmax == ZT_NN_HIERARCHICAL ? layer->softmax_cols : 0;
    if (layer->softmax == ZT_NN_HIERARCHICAL && layer->level_count) columns = layer->levels[layer->level_count - 1];
    if (columns) return split_groups(lowering, layer, input, columns);
    int64_t row = zt_layer_row_count(&input);
    return input.rank == 1 ? input : zt_layer_reshape(lowering, input, 2, (int64_t[]){input.dim[0], row});
}

/* Places that the mask hides get -1e9; those past it are seen. */
static nn_value mask_input(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    int64_t row = input.rank == 1 ? layer->mask_count : input.dim[1], visible = layer->mask_count < row ? layer->mask_count : row;
    int axis = input.rank - 1, rest = ZT_NONE;
    if (visible == 0) return input;
    int mask = zt_layer_mask(lowering, layer), first = input.id;
    if (visible < layer->mask_count)
        mask = zt_program_slice(lowering->program, NULL, mask, &(zt_slice_attrs){.axis = 0, .to = visible});
    if (visible < row) {
        first = zt_program_slice(lowering->program, NULL, input.id, &(zt_slice_attrs){.axis = axis, .to = visible});
        rest = zt_program_slice(lowering->program, NULL, input.id, &(zt_slice_attrs){.axis = axis, .from = visible});
    }
    int none = zt_program_fill_like(lowering->program, NULL, first, &(zt_fill_like_attrs){-1e9});
    input.id = zt_program_where(lowering->program, NULL, mask, first, none);
    if (visible < row)
        input.id =
            zt_program_concat(lowering->program, NULL, input.id, rest, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){axis});
    return input;
}

/* Gumbel's noise: -ln(-ln uniform), drawn anew with each value of the input `counter`. */
static nn_value add_gumbel_noise(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    if (!layer->gumbel_noise) return input;
    int counter = zt_prog_find(lowering->program, "counter");
    if (counter < 0) counter = zt_prog_in(lowering->program, "counter", ZT_I64, 0, NULL);
    zt_random_uniform_attrs attrs = zt_random_uniform_defaults();
    attrs.low = 1e-10;
    attrs.seed = (int64_t)(lowering->network->seed + (uint64_t)lowering->draw_count++);
    int uniform = zt_program_random_uniform(lowering->program, NULL, counter, input.id, &attrs);
    int once = zt_program_neg(lowering->program, NULL, zt_program_log(lowering->program, NULL, uniform));
    int noise = zt_program_log(lowering->program, NULL, once);
    input.id = zt_program_sub(lowering->program, NULL, input.id, noise);
    return input;
}

static int emit_sparsemax(nn_lowering *lowering, int input)
{
    zt_entmax_attrs attrs = zt_entmax_defaults();
    attrs.alpha = 2;
    return zt_program_entmax(lowering->program, NULL, input, &attrs);
}

/* Between softmax (alpha 1) and sparsemax (2): Loom's straight line, not entmax itself. */
static int blend_entmax(nn_lowering *lowering, const zt_nn_layer *layer, int input)
{
    double alpha = layer->entmax_alpha != 0 ? layer->entmax_alpha : 1.5;
    if (alpha >= 2) return emit_sparsemax(lowering, input);
    int soft = zt_program_softmax(lowering->program, NULL, input, NULL);
    if (alpha <= 1) return soft;
    int soft_share = zt_program_scale(lowering->program, NULL, soft, &(zt_scale_attrs){2 - alpha});
    int sparse_share = zt_program_scale(lowering->program, NULL, emit_sparsemax(lowering, input), &(zt_scale_attrs){alpha - 1});
    return zt_program_add(lowering->program, NULL, soft_share, sparse_share);
}

nn_value zt_layer_emit_softmax(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = group_input(lowering, layer, input);
    if (layer->temperature != 0)
        output = zt_layer_unary(lowering, ZT_OP_scale, &(zt_scale_attrs){1 / layer->temperature}, output);
    if (output.id < 0) return output;
    if (layer->softmax == ZT_NN_MASKED) output = mask_input(lowering, layer, output);
    if (layer->softmax == ZT_NN_GUMBEL) output = add_gumbel_noise(lowering, layer, output);
    if (layer->softmax == ZT_NN_SPARSE)
        output.id = emit_sparsemax(lowering, output.id);
    else if (layer->softmax == ZT_NN_ENTMAX)
        output.id = blend_entmax(lowering, layer, output.id);
    else
        output.id = zt_program_softmax(lowering->program, NULL, output.id, NULL);
    return zt_layer_reshape(lowering, output, input.rank, input.dim);
}
