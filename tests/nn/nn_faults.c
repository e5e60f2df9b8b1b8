/* nn_faults.c - what openfluke/loom's package poly (v0.74) gets wrong, as the notes beside its
 * golden data list it, is right here. Each fault has its line; "golden" says that golden_nn.c holds
 * it to the recorded right values too.
 *
 *   forward   RNN, LSTM: a step overwrites the hidden state that it still reads    test_recurrent,
 * golden Parallel concat: whole batches one behind the other                  test_concat KMeans
 * features: panics where features are more than clusters        gradients[], golden backward  MHA,
 * ConvTransposed1-3: all zero                                     gradients[], golden SwiGLU:
 * matrices indexed as if turned                                gradients[], golden RNN, LSTM: of
 * another forward than the one that ran                  gradients[], golden Parallel filter: the
 * gate is left out                                gradients[], golden Sequential with Residual: the
 * skip's share comes a step late         gradients[], golden Softmax at T != 1: 1/T is missing;
 * sparse, entmax: softmax's own     gradients[], golden GELU: the derivative of another form
 * gradients[] training  cross-entropy and clipping are named and do nothing tests/train/training_step.c,
 * golden_train.c saving    is_disabled, links, mask, hierarchy_levels, gate are lost tests/nn/networks.c
 *             codes out of their 4 or 2 bits do not survive test_out_of_range dtypes    weights of
 * drawn layers in a scale of 1 are all 0; values wrap at 8 bits whatever the type; fp8 is no fp8
 * tests/nn/nn_dtype.c
 */
#include "tests/common/folder.h"
#include "tests/common/made_network.h"
#include "tests/common/golden_network.h"

/* ---- gradients: of x and of all weights, against differences on ref -------------------------- */

#define ONE(members)     GRID(1) "{" members "}" END
#define SOFTMAX(members) ONE("\"type\":\"Softmax\",\"input_height\":6," members)
#define CONVT(dims, members)                                                                                                     \
    ONE("\"type\":\"ConvTransposed" #dims "D\",\"input_channels\":2,\"filters\":3,"                                              \
        "\"kernel_size\":3,\"stride\":2,\"padding\":1,\"output_padding\":1,\"activation\":"                                      \
        "\"tanh\"," members)
#define INNER(in, out) "{\"type\":\"Dense\",\"input_height\":" #in ",\"output_height\":" #out ",\"activation\":\"tanh\"}"

static const struct {
    const char *what, *text;
    int rank;
    int64_t dim[5];
} gradients[] = {
    {"attention",
     ONE("\"type\":\"MHA\",\"d_model\":8,\"num_heads\":4,\"num_kv_heads\":2,"
         "\"rope_freq_base\":10000"),
     2,
     {5, 8}},
    {"ConvTransposed1D", CONVT(1, "\"input_width\":4"), 3, {2, 2, 4}},
    {"ConvTransposed2D", CONVT(2, "\"input_height\":3,\"input_width\":3"), 4, {2, 2, 3, 3}},
    {"ConvTransposed3D", CONVT(3, "\"input_depth\":2,\"input_height\":2,\"input_width\":2"), 5, {1, 2, 2, 2, 2}},
    {"SwiGLU", ONE("\"type\":\"SwiGLU\",\"input_height\":5,\"output_height\":7"), 2, {3, 5}},
    {"RNN", ONE("\"type\":\"RNN\",\"input_height\":3,\"output_height\":4,\"seq_length\":5"), 3, {2, 5, 3}},
    {"LSTM", ONE("\"type\":\"LSTM\",\"input_height\":3,\"output_height\":4,\"seq_length\":5"), 3, {2, 5, 3}},
    {"KMeans, the mix of fewer centres than features",
     ONE("\"type\":\"KMeans\",\"input_height\":6,\"num_clusters\":2,\"output_mode\":\"features\""),
     2,
     {3, 6}},
    {"a filter and its gate",
     ONE("\"type\":\"Parallel\",\"combine_mode\":\"filter\",\"filter_gate\":" INNER(4, 3) ",\"parallel_branches\":[" INNER(
         4, 2) "," INNER(4, 2) "," INNER(4, 2) "]"),
     2,
     {3, 4}},
    {"a sequence with Residuals",
     ONE("\"type\":\"Sequential\",\"sequential_layers\":[" INNER(4, 4) ",{\"type\":\"Residual\"}," INNER(
         4, 4) ",{\"type\":\"Residual\"}]"),
     2,
     {3, 4}},
    {"softmax at T = 1/2", SOFTMAX("\"softmax_type\":\"Temperature\",\"temperature\":0.5"), 2, {3, 6}},
    {"softmax at T = 3", SOFTMAX("\"temperature\":3"), 2, {3, 6}},
    {"sparsemax", SOFTMAX("\"softmax_type\":\"Sparse\""), 2, {3, 6}},
    {"between softmax and sparsemax", SOFTMAX("\"softmax_type\":\"Entmax\",\"entmax_alpha\":1.3"), 2, {3, 6}},
    {"GELU", ONE("\"type\":\"Dense\",\"input_height\":4,\"output_height\":3,\"activation\":\"GELU\""), 2, {3, 4}},
};

/* Sum of dy y over the outputs. */
static double weighed(const ran *r, const float *dy)
{
    double sum = 0;
    for (size_t i = 0; i < r->n_y; i++) sum += r->y[i] * dy[i];
    return sum;
}

/* Central difference of that by *at. */
static double slope(zt_ctx *ctx, zt_engine *engine, zt_nn *nn, const zt_prog *program, const float *x, const float *dy, float *at)
{
    const float h = 1.0f / 256, was = *at;
    double side[2] = {0};
    for (int k = 0; k < 2; k++) {
        ran result = {0};
        const void *in[] = {x};
        *at = was + (k ? h : -h);
        if (run_program(ctx, engine, nn, program, in, &result)) side[k] = weighed(&result, dy);
        ran_free(&result);
    }
    *at = was;
    return (side[1] - side[0]) / (2 * (double)h);
}

static void drawn(float *x, size_t n, uint64_t from)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)zt_normal(11, from, (uint64_t)i);
}

typedef struct check {
    double worst, most; /* of all differences; of all gradients */
    size_t n;
} check;

static void compare(check *c, double got, double want)
{
    c->worst = fmax(c->worst, fabs(got - want));
    c->most = fmax(c->most, fabs(want));
    c->n++;
}

static bool gradient_is(zt_ctx *ctx, size_t g, check *dx, check *dw)
{
    enum { MOST_OUT = 256 };
    zt_type its_type = zt_type_make(ZT_F32, gradients[g].rank, gradients[g].dim);
    size_t count = (size_t)zt_type_count(&its_type), at = 0;
    float *x = malloc((count + 1) * sizeof *x), dy[MOST_OUT];
    zt_nn *nn = open_text(ctx, gradients[g].text);
    zt_engine *engine = zt_engine_open(ctx, "ref", NULL);
    zt_prog *forward = nn ? lower(ctx, nn, &its_type, false) : NULL, *grad = nn ? lower(ctx, nn, &its_type, true) : NULL;
    ran result = {0};
    drawn(x, count, 1);
    drawn(dy, MOST_OUT, 2);
    bool well = forward && grad && run_program(ctx, engine, nn, grad, (const void *const[]){x, dy}, &result) &&
                result.n_y <= MOST_OUT && result.n_x == count;
    for (size_t i = 0; well && i < count; i++) compare(dx, result.dx[i], slope(ctx, engine, nn, forward, x, dy, &x[i]));
    for (int64_t k = 0; well && k < zt_nn_n_weights(nn); k++) {
        const zt_nn_weight *w = zt_nn_weight_at(nn, k);
        for (int64_t i = 0; i < zt_type_count(&w->type); i++, at++)
            compare(dw, at < result.n_w ? result.dw[at] : NAN, slope(ctx, engine, nn, forward, x, dy, &w->values[i]));
    }
    well = well && at == result.n_w;
    ran_free(&result);
    free(x);
    zt_prog_free(forward);
    zt_prog_free(grad);
    zt_nn_close(nn);
    zt_engine_close(engine);
    return well;
}

static bool holds(const check *c) { return c->n == 0 || (c->most > 1e-3 && c->worst < 1e-3 * (.05 + c->most)); }

static void test_gradients(zt_ctx *ctx)
{
    for (size_t g = 0; g < sizeof gradients / sizeof *gradients; g++) {
        check dx = {0}, dw = {0};
        bool well = gradient_is(ctx, g, &dx, &dw);
        ok(well && dx.n && holds(&dx) && holds(&dw),
           "%s: gradients are what differences say (x %.1g of %.1g, weights %.1g of %.1g)%s", gradients[g].what, dx.worst,
           dx.most, dw.worst, dw.most, zt_ctx_error(ctx));
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

enum { STEPS = 4, IN = 3, HIDDEN = 4 };

static double gate_sum(const float *w_ih, const float *w_hh, const float *b, const float *x, const double *h, int o)
{
    double s = b[o];
    for (int i = 0; i < IN; i++) s += (double)w_ih[o * IN + i] * x[i];
    for (int i = 0; i < HIDDEN; i++) s += (double)w_hh[o * HIDDEN + i] * h[i];
    return s;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The textbook's recurrence: all of a step reads what the step before left. */
static void recur(const zt_nn *nn, bool lstm, const float *x, double y[STEPS][HIDDEN])
{
    double h[HIDDEN] = {0}, c[HIDDEN] = {0}, next[HIDDEN];
    for (int t = 0; t < STEPS; t++) {
        for (int o = 0; o < HIDDEN; o++) {
            double s[4];
            for (int g = 0; g < (lstm ? 4 : 1); g++)
                s[g] = gate_sum(zt_nn_weight_at(nn, 3 * g)->values, zt_nn_weight_at(nn, 3 * g + 1)->values,
                                zt_nn_weight_at(nn, 3 * g + 2)->values, x + t * IN, h, o);
            if (lstm) c[o] = sigmoid(s[1]) * c[o] + sigmoid(s[0]) * tanh(s[2]);
            next[o] = lstm ? sigmoid(s[3]) * tanh(c[o]) : tanh(s[0]);
        }
        memcpy(h, next, sizeof h);
        memcpy(y[t], next, sizeof next);
    }
}

static void test_recurrent(zt_ctx *ctx, bool lstm)
{
    char text[200];
    float x[STEPS * IN];
    double want[STEPS][HIDDEN], worst = 0;
    size_t count = 0;
    snprintf(text, sizeof text, ONE("\"type\":\"%s\",\"input_height\":3,\"output_height\":4,\"seq_length\":4"),
             lstm ? "LSTM" : "RNN");
    zt_nn *nn = open_text(ctx, text);
    for (int i = 0; i < STEPS * IN; i++) x[i] = (float)zt_normal(7, 0, (uint64_t)i);
    for (int64_t k = 2; nn && k < zt_nn_n_weights(nn); k += 3) /* biases begin as 0 */
        drawn(zt_nn_weight_at(nn, k)->values, HIDDEN, (uint64_t)k);
    float *y = nn ? run(nn, "cpu", NULL, 1, 0, &count) : NULL;
    if (nn) recur(nn, lstm, x, want);
    for (size_t i = 0; y && i < count; i++) worst = fmax(worst, fabs(y[i] - want[i / HIDDEN][i % HIDDEN]));
    ok(y && count == STEPS * HIDDEN && worst < 1e-6, "%s is the textbook's: %.1g%s", lstm ? "LSTM" : "RNN", worst,
       zt_ctx_error(ctx));
    free(y);
    zt_nn_close(nn);
}

/* Row r of many is what it is alone. */
static void test_concat(zt_ctx *ctx)
{
    size_t count = 0, one = 0;
    zt_nn *nn = open_text(ctx, ONE("\"type\":\"Parallel\",\"combine_mode\":\"concat\","
                                   "\"parallel_branches\":[" INNER(4, 2) "," INNER(4, 3) "]"));
    float *all = nn ? run(nn, "cpu", NULL, 3, 0, &count) : NULL;
    bool same = count == 15;
    for (int64_t r = 0; r < 3 && same; r++) {
        float *y = run(nn, "cpu", NULL, 1, r, &one);
        same = y && one == 5 && !memcmp(y, all + 5 * r, 5 * sizeof *y);
        free(y);
    }
    ok(same, "branches are joined row by row%s", zt_ctx_error(ctx));
    free(all);
    zt_nn_close(nn);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static void test_out_of_range(zt_ctx *ctx)
{
    static const char *const types[] = {"int4", "uint4", "fp4", "int2", "uint2", "int8"};
    const float masters[4] = {9.75f, -300.5f, 1000.25f, -.125f};
    for (int t = 0; t < 6; t++) {
        char text[200];
        snprintf(text, sizeof text,
                 ONE("\"type\":\"Dense\",\"input_height\":2,\"output_height\":2,"
                     "\"dtype\":\"%s\""),
                 types[t]);
        zt_nn *nn = open_text(ctx, text), *again = NULL;
        zt_sink *out = nn && !zt_nn_put(nn, "layers.0.w", masters, 4) ? zt_sink_open(ctx, under("range.json"), true) : NULL;
        if (out && !zt_nn_write(nn, out) && !zt_sink_commit(out)) again = zt_nn_open(ctx, under("range.json"), 5);
        zt_sink_close(out);
        ok(again && !memcmp(zt_nn_weight_at(again, 0)->values, masters, sizeof masters) &&
               zt_nn_layer_at(again, 0)->dtype == zt_nn_layer_at(nn, 0)->dtype &&
               zt_nn_layer_at(again, 0)->scale == zt_nn_layer_at(nn, 0)->scale,
           "masters that %s has no codes for are kept%s", types[t], zt_ctx_error(ctx));
        zt_nn_close(nn);
        zt_nn_close(again);
    }
}

int main(void)
{
    if (!folder_make("faults")) return 1;
    zt_ctx *ctx = zt_ctx_new();
    test_gradients(ctx);
    test_recurrent(ctx, false);
    test_recurrent(ctx, true);
    test_concat(ctx);
    test_out_of_range(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    ok(folder_remove(), "tidy");
    return tap_done();
}
