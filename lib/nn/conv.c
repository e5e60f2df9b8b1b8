/* conv.c - owns convolutions and transposed convolutions of one, two and three dimensions: x
 * [n,channels,...], kernels of equal sides [filters,channels,k,...]. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* Loom's rows of numbers: which of a layer's are sizes of a plane, the outermost first. */
int zt_layer_planes(const zt_nn_layer *l, int64_t *dim)
{
    bool back = l->kind >= ZT_NN_CONVT1;
    int dims = (int)l->kind - (back ? ZT_NN_CONVT1 : ZT_NN_CNN1) + 1;
    const int64_t all[3] = {l->input_depth, l->input_height, l->input_width};
    if (dims == 1)
        dim[0] = back ? l->input_width : l->input_height;
    else
        memcpy(dim, all + 3 - dims, (size_t)dims * sizeof *dim);
    return dims;
}

static int out_planes(const zt_nn_layer *l, int64_t *dim)
{
    zt_nn_layer o = {.kind = l->kind,
                     .input_depth = l->output_depth,
                     .input_height = l->output_height,
                     .input_width = l->output_width};
    return zt_layer_planes(&o, dim);
}

/* x as [n,channels,...]: by the layer's numbers, or its own shape where these do not tell. */
static nn_value planes(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    int64_t dim[5] = {x.dim[0], l->input_channels}, count = l->input_channels;
    int dims = zt_layer_planes(l, dim + 2);
    for (int d = 0; d < dims; d++) {
        if (dim[2 + d] == 0 && x.rank == 2 + dims) dim[2 + d] = x.dim[2 + d];
        if (dim[2 + d] < 1 || !zt_mul_i64(count, dim[2 + d], &count))
            return zt_layer_refuse(w, l, "its numbers do not tell the size of what comes in");
    }
    if (count != zt_layer_row_count(&x))
        return zt_layer_refuse(w, l, "it takes %" PRId64 " numbers a row, %" PRId64 " come", count,
                               zt_layer_row_count(&x));
    return zt_layer_reshape(w, x, 2 + dims, dim);
}

/* What comes out must be of the sizes that the document says, where it does. */
static nn_value check_sizes(nn_low *w, const zt_nn_layer *l, nn_value y)
{
    int64_t want[3];
    int dims = out_planes(l, want);
    for (int d = 0; d < dims && y.id >= 0; d++) {
        if (y.dim[2 + d] < 1)
            return zt_layer_refuse(w, l, "its kernel of %" PRId64 " is larger than what comes in",
                                   l->kernel_size);
        if (want[d] && want[d] != y.dim[2 + d])
            return zt_layer_refuse(w, l,
                                   "it gives planes of %" PRId64 ", the document says %" PRId64,
                                   y.dim[2 + d], want[d]);
    }
    return y;
}

static zt_ints each(int dims, int64_t v)
{
    zt_ints i = {.n = dims};
    for (int d = 0; d < dims; d++) i.v[d] = v;
    return i;
}

nn_value zt_layer_emit_conv(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = planes(w, l, x);
    int dims = y.rank - 2;
    for (int d = 0; d < dims; d++) {
        int64_t room = y.dim[2 + d] + 2 * l->padding - l->kernel_size;
        y.dim[2 + d] = room < 0 ? 0 : room / l->stride + 1;
    }
    y.dim[1] = l->filters;
    y = check_sizes(w, l, y);
    zt_conv_attrs a = {.stride = each(dims, l->stride), .pad = each(dims, l->padding), .groups = 1};
    if (y.id >= 0) y.id = zt_program_conv(w->p, NULL, y.id, zt_layer_weight(w, l, 0), ZT_NONE, &a);
    return y;
}

/* The op wants kernels [channels,filters,...]. */
nn_value zt_layer_emit_conv_transpose(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = planes(w, l, x);
    int dims = y.rank - 2;
    zt_transpose_attrs turn = {.axes = {2 + dims, {1, 0, 2, 3, 4}}};
    for (int d = 0; d < dims; d++)
        y.dim[2 + d] =
            (y.dim[2 + d] - 1) * l->stride - 2 * l->padding + l->kernel_size + l->output_padding;
    y.dim[1] = l->filters;
    y = check_sizes(w, l, y);
    if (y.id < 0) return y;
    zt_conv_transpose_attrs a = {.stride = each(dims, l->stride),
                                 .pad = each(dims, l->padding),
                                 .output_padding = each(dims, l->output_padding),
                                 .groups = 1};
    int kernel = zt_program_transpose(w->p, NULL, zt_layer_weight(w, l, 0), &turn);
    y.id = zt_program_conv_transpose(w->p, NULL, y.id, kernel, ZT_NONE, ZT_NONE, &a);
    return y;
}
