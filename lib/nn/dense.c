/* dense.c - owns layers that take a row of numbers: dense, SwiGLU, norms, embedding, k-means. */
#include "lib/nn/nn_internal.h"

nn_value zt_layer_emit_dense(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = zt_layer_matrix(lowering, layer, input, layer->input_height);
    output.id = zt_program_linear(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 0), ZT_NONE, NULL);
    output.dim[1] = layer->output_height;
    return zt_layer_like(lowering, output, input, layer->input_height, layer->output_height);
}

/* down(silu(gate(x)) * up(x)): Shazeer, "GLU Variants Improve Transformer" (2020). */
nn_value zt_layer_emit_swiglu(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = zt_layer_matrix(lowering, layer, input, layer->input_height);
    int gate = zt_program_linear(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 0),
                                 zt_layer_weight(lowering, layer, 3), NULL);
    int up = zt_program_linear(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 1),
                               zt_layer_weight(lowering, layer, 4), NULL);
    int hidden = zt_program_swiglu(lowering->program, NULL, gate, up);
    output.id = zt_program_linear(lowering->program, NULL, hidden, zt_layer_weight(lowering, layer, 2),
                                  zt_layer_weight(lowering, layer, 5), NULL);
    return zt_layer_like(lowering, output, input, layer->input_height, layer->input_height);
}

nn_value zt_layer_emit_rms_norm(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = zt_layer_matrix(lowering, layer, input, layer->input_height);
    output.id = zt_program_rms_norm(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 0),
                                    &(zt_rms_norm_attrs){.eps = layer->eps > 0 ? layer->eps : 1e-6}, NULL);
    return zt_layer_reshape(lowering, output, input.rank, input.dim);
}

nn_value zt_layer_emit_layer_norm(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = zt_layer_matrix(lowering, layer, input, layer->input_height);
    output.id = zt_program_layer_norm(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 0),
                                      zt_layer_weight(lowering, layer, 1),
                                      &(zt_layer_norm_attrs){.eps = layer->eps > 0 ? layer->eps : 1e-5}, NULL, NULL);
    return zt_layer_reshape(lowering, output, input.rank, input.dim);
}

/* Ids come as floats; one outside the vocabulary gives a row of zeros. */
nn_value zt_layer_emit_embedding(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    if (input.rank == ZT_MAX_RANK) return zt_layer_refuse(lowering, layer, "too many dimensions of ids (%d)", input.rank);
    int ids = zt_program_cast(lowering->program, NULL, input.id, &(zt_cast_attrs){.to = {"i32"}, .saturate = 1});
    nn_value output = input;
    output.id =
        zt_program_gather(lowering->program, NULL, zt_layer_weight(lowering, layer, 0), ids, &(zt_gather_attrs){{"zero"}});
    output.dim[output.rank++] = layer->embedding_dim;
    return output;
}

/* softmax(-|x - c|^2 / (2 T^2)) over the centres c, T the temperature; `features`: the mean of the centres with these weights. */
nn_value zt_layer_emit_kmeans(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    double temperature = layer->kmeans_temperature != 0 ? layer->kmeans_temperature : 1;
    nn_value output = zt_layer_matrix(lowering, layer, input, layer->input_height);
    nn_value each = zt_layer_reshape(lowering, output, 3, (int64_t[]){output.dim[0], 1, layer->input_height});
    int centres = zt_layer_weight(lowering, layer, 0), difference = zt_program_sub(lowering->program, NULL, each.id, centres);
    int distance = zt_program_sum(lowering->program, NULL, zt_program_square(lowering->program, NULL, difference),
                                  &(zt_sum_attrs){.axes = {1, {-1}}});
    int logit = zt_program_scale(lowering->program, NULL, distance, &(zt_scale_attrs){-1 / (2 * temperature * temperature)});
    output.id = zt_program_softmax(lowering->program, NULL, logit, NULL);
    if (layer->features) output.id = zt_program_matmul(lowering->program, NULL, output.id, centres, NULL);
    output.dim[1] = layer->features ? layer->input_height : layer->num_clusters;
    return zt_layer_like(lowering, output, input, layer->input_height, output.dim[1]);
}
