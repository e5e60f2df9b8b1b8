/* conv.c - owns convolutions and transposed convolutions of one, two and three dimensions: x
 * [n,channels,...], kernels of equal sides [filters,channels,k,...]. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* Loom's rows of numbers: which of a layer's are sizes of a plane, the outermost first. */
int zt_layer_planes(const zt_nn_layer *layer, int64_t *dim)
{
    bool back = layer->kind >= ZT_NN_CONVT1;
    int dims = (int)layer->kind - (back ? ZT_NN_CONVT1 : ZT_NN_CNN1) + 1;
    const int64_t all[3] = {layer->input_depth, layer->input_height, layer->input_width};
    if (dims == 1)
        dim[0] = back ? layer->input_width : layer->input_height;
    else
        memcpy(dim, all + 3 - dims, (size_t)dims * sizeof *dim);
    return dims;
}

static int list_output_planes(const zt_nn_layer *layer, int64_t *dim)
{
    zt_nn_layer swapped = {.kind = layer->kind,
                           .input_depth = layer->output_depth,
                           .input_height = layer->output_height,
                           .input_width = layer->output_width};
    return zt_layer_planes(&swapped, dim);
}

/* x as [n,channels,...]: by the layer's numbers, or its own shape where these do not tell. */
static nn_value reshape_planes(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    int64_t dim[5] = {input.dim[0], layer->input_channels}, count = layer->input_channels;
    int dims = zt_layer_planes(layer, dim + 2);
    for (int axis = 0; axis < dims; axis++) {
        if (dim[2 + axis] == 0 && input.rank == 2 + dims) dim[2 + axis] = input.dim[2 + axis];
        if (dim[2 + axis] < 1 || !zt_mul_i64(count, dim[2 + axis], &count))
            return zt_layer_refuse(lowering, layer, "the input size does not follow from the layer's parameters");
    }
    if (count != zt_layer_row_count(&input))
        return zt_layer_refuse(lowering, layer, "the layer takes %" PRId64 " numbers per row, got %" PRId64, count,
                               zt_layer_row_count(&input));
    return zt_layer_reshape(lowering, input, 2 + dims, dim);
}

/* What comes out must be of the sizes that the document says, where it does. */
static nn_value check_sizes(nn_lowering *lowering, const zt_nn_layer *layer, nn_value output)
{
    int64_t want[3];
    int dims = list_output_planes(layer, want);
    for (int axis = 0; axis < dims && output.id >= 0; axis++) {
        if (output.dim[2 + axis] < 1)
            return zt_layer_refuse(lowering, layer, "the kernel size %" PRId64 " exceeds the padded input", layer->kernel_size);
        if (want[axis] && want[axis] != output.dim[2 + axis])
            return zt_layer_refuse(lowering, layer, "the output size is %" PRId64 ", but the document says %" PRId64,
                                   output.dim[2 + axis], want[axis]);
    }
    return output;
}

static zt_ints repeat_size(int dims, int64_t value)
{
    zt_ints i = {.n = dims};
    for (int axis = 0; axis < dims; axis++) i.v[axis] = value;
    return i;
}

nn_value zt_layer_emit_conv(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = reshape_planes(lowering, layer, input);
    int dims = output.rank - 2;
    for (int axis = 0; axis < dims; axis++) {
        int64_t room = output.dim[2 + axis] + 2 * layer->padding - layer->kernel_size;
        output.dim[2 + axis] = room < 0 ? 0 : room / layer->stride + 1;
    }
    output.dim[1] = layer->filters;
    output = check_sizes(lowering, layer, output);
    zt_conv_attrs attrs = {.stride = repeat_size(dims, layer->stride), .pad = repeat_size(dims, layer->padding), .groups = 1};
    if (output.id >= 0)
        output.id = zt_program_conv(lowering->program, NULL, output.id, zt_layer_weight(lowering, layer, 0), ZT_NONE, &attrs);
    return output;
}

/* The op wants kernels [channels,filters,...]. */
nn_value zt_layer_emit_conv_transpose(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = reshape_planes(lowering, layer, input);
    int dims = output.rank - 2;
    zt_transpose_attrs turn = {.axes = {2 + dims, {1, 0, 2, 3, 4}}};
    for (int axis = 0; axis < dims; axis++)
        output.dim[2 + axis] =
            (output.dim[2 + axis] - 1) * layer->stride - 2 * layer->padding + layer->kernel_size + layer->output_padding;
    output.dim[1] = layer->filters;
    output = check_sizes(lowering, layer, output);
    if (output.id < 0) return output;
    zt_conv_transpose_attrs attrs = {.stride = repeat_size(dims, layer->stride),
                                     .pad = repeat_size(dims, layer->padding),
                                     .output_padding = repeat_size(dims, layer->output_padding),
                                     .groups = 1};
    int kernel = zt_program_transpose(lowering->program, NULL, zt_layer_weight(lowering, layer, 0), &turn);
    output.id = zt_program_conv_transpose(lowering->program, NULL, output.id, kernel, ZT_NONE, ZT_NONE, &attrs);
    return output;
}
