/* report.c - owns reports of networks: statistics of values, and Loom's telemetry. */
#include "lib/base/require.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

zt_nn_stats zt_nn_stats_of(const float *values, int64_t count)
{
    if (!values && count) return (zt_nn_stats){0};
    zt_nn_stats stats = {.total = count};
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
        stats.max = i == 0 || values[i] > stats.max ? values[i] : stats.max;
        stats.min = i == 0 || values[i] < stats.min ? values[i] : stats.min;
        stats.active += fabsf(values[i]) > 1e-6f;
    }
    stats.avg = count ? (float)(sum / (double)count) : 0;
    return stats;
}

/* ---- telemetry ------------------------------------------------------------------------------- */

/* How Loom counts a layer's parameters: squares of its kernel in every dimension but the third,
 * hidden sizes as large as inputs, no biases of SwiGLU. `weights` beside it is what there is. */
static int64_t count_matrix(const zt_nn_layer *layer) { return layer->input_height * layer->output_height; }
static int64_t count_gated(const zt_nn_layer *layer) { return 3 * count_matrix(layer); }
static int64_t count_vector(const zt_nn_layer *layer) { return layer->input_height; }
static int64_t count_two_vectors(const zt_nn_layer *layer) { return 2 * layer->input_height; }

static int64_t count_square_kernel(const zt_nn_layer *layer)
{
    return layer->filters * layer->input_channels * layer->kernel_size * layer->kernel_size;
}

static int64_t count_cube_kernel(const zt_nn_layer *layer) { return count_square_kernel(layer) * layer->kernel_size; }

static int64_t count_recurrent(const zt_nn_layer *layer)
{
    return 2 * layer->input_height * layer->input_height + layer->input_height;
}

static int64_t count_gates(const zt_nn_layer *layer) { return 4 * count_recurrent(layer); }

static int64_t count_attention(const zt_nn_layer *layer)
{
    int64_t width = layer->d_model, kv_width = layer->num_kv_heads * layer->head_dim;
    return 2 * width * (width + kv_width + 1) + 2 * kv_width;
}

static int64_t count_parameters(const zt_nn_layer *layer)
{
    static int64_t (*const count[ZT_NN_KINDS])(const zt_nn_layer *layer) = {
        [ZT_NN_DENSE] = count_matrix,         [ZT_NN_EMBEDDING] = count_matrix,     [ZT_NN_KMEANS] = count_matrix,
        [ZT_NN_SWIGLU] = count_gated,         [ZT_NN_RMSNORM] = count_vector,       [ZT_NN_LAYERNORM] = count_two_vectors,
        [ZT_NN_CNN1] = count_square_kernel,   [ZT_NN_CNN2] = count_square_kernel,   [ZT_NN_CNN3] = count_cube_kernel,
        [ZT_NN_CONVT1] = count_square_kernel, [ZT_NN_CONVT2] = count_square_kernel, [ZT_NN_CONVT3] = count_cube_kernel,
        [ZT_NN_RNN] = count_recurrent,        [ZT_NN_LSTM] = count_gates,           [ZT_NN_MHA] = count_attention};
    return count[layer->kind] ? count[layer->kind](layer) : 0;
}

typedef struct report_writer {
    const zt_nn *network;
    zt_str *out;
} report_writer;

static void put_shape(report_writer *writer, const char *key, int rank, int64_t first, int64_t second, int64_t third)
{
    const int64_t dim[3] = {first, second, third};
    zt_str_printf(writer->out, ",\"%s\":[", key);
    for (int axis = 0; axis < rank; axis++) zt_str_printf(writer->out, "%s%" PRId64, axis ? "," : "", dim[axis]);
    zt_str_putc(writer->out, ']');
}

static void put_shapes(report_writer *writer, const zt_nn_layer *layer)
{
    int64_t input = layer->input_height, output = layer->output_height, steps = layer->seq_length;
    if (layer->kind == ZT_NN_PARALLEL || layer->kind == ZT_NN_RESIDUAL) return;
    if (layer->filters) {
        put_shape(writer, "input_shape", 3, layer->input_channels, input, layer->input_width);
        put_shape(writer, "output_shape", 3, layer->filters, output, layer->output_width);
    } else if (layer->kind == ZT_NN_MHA) {
        put_shape(writer, "input_shape", 2, steps, layer->d_model, 0);
        put_shape(writer, "output_shape", 2, steps, layer->d_model, 0);
    } else if (layer->kind == ZT_NN_RNN || layer->kind == ZT_NN_LSTM) {
        put_shape(writer, "input_shape", 2, steps, input, 0);
        put_shape(writer, "output_shape", 2, steps, input, 0);
    } else if (layer->kind == ZT_NN_EMBEDDING) {
        put_shape(writer, "input_shape", 1, steps, 0, 0);
        put_shape(writer, "output_shape", 2, steps, output, 0);
    } else {
        bool same = layer->kind == ZT_NN_RMSNORM || layer->kind == ZT_NN_LAYERNORM;
        put_shape(writer, "input_shape", 1, input, 0, 0);
        put_shape(writer, "output_shape", 1, same ? input : output, 0, 0);
    }
}

/* Of a layer and all that is in it. */
typedef struct sums {
    int64_t parameters; /* as Loom counts them: of branches, but not of steps and gates */
    int64_t weights;    /* numbers that there are */
    int64_t layers;     /* within it */
} sums;

static sums put_layer(report_writer *writer, const zt_nn_layer *layer);

/* The layers of a list within another, under a key; nothing where there are none. */
static sums put_inner(report_writer *writer, const char *key, const zt_nn_layer *list, int64_t count)
{
    sums all = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i)
            zt_str_putc(writer->out, ',');
        else
            zt_str_printf(writer->out, ",\"%s\":[", key);
        sums one = put_layer(writer, &list[i]);
        all.parameters += one.parameters;
        all.weights += one.weights;
        all.layers += one.layers + 1;
    }
    if (count) zt_str_putc(writer->out, ']');
    return all;
}

/* The layer's object. Of layers inside it Loom has branches only; steps, the gate and `weights` are added here. */
static sums put_layer(report_writer *writer, const zt_nn_layer *layer)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    for (int k = 0; k < 4; k++) zt_str_printf(writer->out, "%s\"%s\":%" PRId64, k ? "," : "{", axis[k], layer->place[k]);
    zt_str_printf(writer->out, ",\"type\":\"%s\",\"activation\":\"%s\"", zt_nn_kind_name(layer->kind),
                  zt_nn_act_name(layer->activation));
    put_shapes(writer, layer);
    sums branches = put_inner(writer, "branches", layer->branches, layer->branch_count);
    sums steps = put_inner(writer, "steps", layer->steps, layer->step_count);
    sums gate = put_inner(writer, "filter_gate", layer->gate, layer->gate != NULL);
    sums all = {.parameters = count_parameters(layer) + branches.parameters,
                .weights = zt_nn_layer_size(writer->network, layer) + branches.weights + steps.weights + gate.weights,
                .layers = branches.layers + steps.layers + gate.layers};
    if (layer->kind == ZT_NN_PARALLEL) zt_str_printf(writer->out, ",\"combine_mode\":\"%s\"", layer->combine);
    zt_str_printf(writer->out, ",\"parameters\":%" PRId64 ",\"weights\":%" PRId64 "}", all.parameters, all.weights);
    return all;
}

zt_status zt_nn_blueprint(const zt_nn *network, const char *id, zt_str *out)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, id && out, ZT_EUSAGE);
    report_writer writer = {network, out};
    sums all = {0};
    zt_str_puts(out, "{\"models\":[{\"id\":");
    zt_str_put_json(out, id, strlen(id));
    zt_str_printf(out, ",\"total_layers\":%" PRId64 ",\"layers\":[", network->layer_count);
    for (int64_t layer_index = 0; layer_index < network->layer_count; layer_index++) {
        if (layer_index) zt_str_putc(out, ',');
        sums one = put_layer(&writer, network->layers[layer_index]);
        all.parameters += one.parameters;
        all.weights += one.weights;
        all.layers += one.layers + 1;
    }
    return zt_str_printf(out, "],\"total_parameters\":%" PRId64 ",\"all_layers\":%" PRId64 ",\"all_weights\":%" PRId64 "}]}\n",
                         all.parameters, all.layers, all.weights);
}
