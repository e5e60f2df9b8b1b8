/* report.c - owns what is told of networks: numbers of a layer's values, and S3's telemetry. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

zt_nn_stats zt_nn_stats_of(const float *x, int64_t n)
{
    zt_nn_stats s = {.total = n};
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        s.max = i == 0 || x[i] > s.max ? x[i] : s.max;
        s.min = i == 0 || x[i] < s.min ? x[i] : s.min;
        s.active += fabsf(x[i]) > 1e-6f;
    }
    s.avg = n ? (float)(sum / (double)n) : 0;
    return s;
}

/* ---- telemetry ------------------------------------------------------------------------------- */

/* How S3 counts a layer's parameters: squares of its kernel in every dimension but the third,
 * hidden sizes as large as inputs, no biases of SwiGLU. `weights` beside it is what there is. */
static int64_t matrix(const zt_nn_layer *l) { return l->input_height * l->output_height; }
static int64_t gated(const zt_nn_layer *l) { return 3 * matrix(l); }
static int64_t one(const zt_nn_layer *l) { return l->input_height; }
static int64_t two(const zt_nn_layer *l) { return 2 * l->input_height; }

static int64_t square(const zt_nn_layer *l)
{
    return l->filters * l->input_channels * l->kernel_size * l->kernel_size;
}

static int64_t cube(const zt_nn_layer *l) { return square(l) * l->kernel_size; }

static int64_t recurrent(const zt_nn_layer *l)
{
    return 2 * l->input_height * l->input_height + l->input_height;
}

static int64_t gates(const zt_nn_layer *l) { return 4 * recurrent(l); }

static int64_t attention(const zt_nn_layer *l)
{
    int64_t d = l->d_model, kv = l->num_kv_heads * l->head_dim;
    return 2 * d * (d + kv + 1) + 2 * kv;
}

static int64_t parameters(const zt_nn_layer *l)
{
    static int64_t (*const count[ZT_NN_KINDS])(const zt_nn_layer *l) = {
        [ZT_NN_DENSE] = matrix,  [ZT_NN_EMBEDDING] = matrix, [ZT_NN_KMEANS] = matrix,
        [ZT_NN_SWIGLU] = gated,  [ZT_NN_RMSNORM] = one,      [ZT_NN_LAYERNORM] = two,
        [ZT_NN_CNN1] = square,   [ZT_NN_CNN2] = square,      [ZT_NN_CNN3] = cube,
        [ZT_NN_CONVT1] = square, [ZT_NN_CONVT2] = square,    [ZT_NN_CONVT3] = cube,
        [ZT_NN_RNN] = recurrent, [ZT_NN_LSTM] = gates,       [ZT_NN_MHA] = attention};
    return count[l->kind] ? count[l->kind](l) : 0;
}

typedef struct teller {
    const zt_nn *nn;
    zt_str *out;
} teller;

static void put_shape(teller *t, const char *key, int n, int64_t a, int64_t b, int64_t c)
{
    const int64_t dim[3] = {a, b, c};
    zt_str_printf(t->out, ",\"%s\":[", key);
    for (int d = 0; d < n; d++) zt_str_printf(t->out, "%s%" PRId64, d ? "," : "", dim[d]);
    zt_str_putc(t->out, ']');
}

static void put_shapes(teller *t, const zt_nn_layer *l)
{
    int64_t in = l->input_height, out = l->output_height, s = l->seq_length;
    if (l->kind == ZT_NN_PARALLEL || l->kind == ZT_NN_RESIDUAL) return;
    if (l->filters) {
        put_shape(t, "input_shape", 3, l->input_channels, in, l->input_width);
        put_shape(t, "output_shape", 3, l->filters, out, l->output_width);
    } else if (l->kind == ZT_NN_MHA) {
        put_shape(t, "input_shape", 2, s, l->d_model, 0);
        put_shape(t, "output_shape", 2, s, l->d_model, 0);
    } else if (l->kind == ZT_NN_RNN || l->kind == ZT_NN_LSTM) {
        put_shape(t, "input_shape", 2, s, in, 0);
        put_shape(t, "output_shape", 2, s, in, 0);
    } else if (l->kind == ZT_NN_EMBEDDING) {
        put_shape(t, "input_shape", 1, s, 0, 0);
        put_shape(t, "output_shape", 2, s, out, 0);
    } else {
        bool same = l->kind == ZT_NN_RMSNORM || l->kind == ZT_NN_LAYERNORM;
        put_shape(t, "input_shape", 1, in, 0, 0);
        put_shape(t, "output_shape", 1, same ? in : out, 0, 0);
    }
}

/* Of a layer and all that is in it. */
typedef struct sums {
    int64_t parameters; /* as S3 counts them: of branches, but not of steps and gates */
    int64_t weights;    /* numbers that there are */
    int64_t layers;     /* within it */
} sums;

static sums put_layer(teller *t, const zt_nn_layer *l);

/* The layers of a list within another, under a key; nothing where there are none. */
static sums put_inner(teller *t, const char *key, const zt_nn_layer *list, int64_t n)
{
    sums all = {0};
    for (int64_t i = 0; i < n; i++) {
        if (i) zt_str_putc(t->out, ',');
        else zt_str_printf(t->out, ",\"%s\":[", key);
        sums one = put_layer(t, &list[i]);
        all.parameters += one.parameters;
        all.weights += one.weights;
        all.layers += one.layers + 1;
    }
    if (n) zt_str_putc(t->out, ']');
    return all;
}

/* The layer's object. S3 has branches alone; steps, the gate and `weights` are ours. */
static sums put_layer(teller *t, const zt_nn_layer *l)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    for (int k = 0; k < 4; k++)
        zt_str_printf(t->out, "%s\"%s\":%" PRId64, k ? "," : "{", axis[k], l->place[k]);
    zt_str_printf(t->out, ",\"type\":\"%s\",\"activation\":\"%s\"", zt_nn_kind_name(l->kind),
                  zt_nn_act_name(l->act));
    put_shapes(t, l);
    sums branches = put_inner(t, "branches", l->branch, l->n_branches);
    sums steps = put_inner(t, "steps", l->step, l->n_steps);
    sums gate = put_inner(t, "filter_gate", l->gate, l->gate != NULL);
    sums all = {.parameters = parameters(l) + branches.parameters,
                .weights = zt_nn_layer_size(t->nn, l) + branches.weights + steps.weights +
                           gate.weights,
                .layers = branches.layers + steps.layers + gate.layers};
    if (l->kind == ZT_NN_PARALLEL) zt_str_printf(t->out, ",\"combine_mode\":\"%s\"", l->combine);
    zt_str_printf(t->out, ",\"parameters\":%" PRId64 ",\"weights\":%" PRId64 "}", all.parameters,
                  all.weights);
    return all;
}

zt_status zt_nn_blueprint(const zt_nn *nn, const char *id, zt_str *out)
{
    teller t = {nn, out};
    sums all = {0};
    zt_str_puts(out, "{\"models\":[{\"id\":");
    zt_str_put_json(out, id, strlen(id));
    zt_str_printf(out, ",\"total_layers\":%" PRId64 ",\"layers\":[", nn->n);
    for (int64_t i = 0; i < nn->n; i++) {
        if (i) zt_str_putc(out, ',');
        sums one = put_layer(&t, nn->layer[i]);
        all.parameters += one.parameters;
        all.weights += one.weights;
        all.layers += one.layers + 1;
    }
    return zt_str_printf(out,
                         "],\"total_parameters\":%" PRId64 ",\"all_layers\":%" PRId64
                         ",\"all_weights\":%" PRId64 "}]}\n",
                         all.parameters, all.layers, all.weights);
}
