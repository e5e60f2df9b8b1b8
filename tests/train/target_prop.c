/* target_prop.c - target propagation against its formula in f64, and that formula against golden/loom.
 *
 * The original indexes a dense layer's weights [in][out] when it propagates targets and updates, but [out][in] in its forward
 * pass; and with chained gradients it adds the gradient of a layer's output to its first weights (docs/decisions/0032). So
 * the formula is computed twice: as the original indexes, which must be what golden has, and as it is meant, which must be
 * what a step gives.
 */
#include "lib/zt/train.h"
#include "tests/common/golden_network.h"
#include "tests/common/made_network.h"

enum { MAX_LAYERS = 8, MAX_WIDTH = 16 };

/* ---- the formula ------------------------------------------------------------------------------- */

typedef struct formula_layer {
    const zt_nn_layer *layer;
    int64_t in, out;
    double w[MAX_WIDTH * MAX_WIDTH];        /* changed by learn */
    double target_w[MAX_WIDTH * MAX_WIDTH]; /* as it was */
} formula_layer;

typedef struct formula {
    formula_layer layers[MAX_LAYERS];
    int count;
    zt_target_rule rule;
    bool swapped; /* weights indexed as the original does */
    double scale;
    double a[MAX_LAYERS + 1][MAX_WIDTH], t[MAX_LAYERS + 1][MAX_WIDTH], g[MAX_LAYERS + 1][MAX_WIDTH]; /* a[0] = x */
    double gap[MAX_LAYERS], budget[MAX_LAYERS];
} formula;

static bool is_dense(const formula_layer *l) { return l->layer->kind == ZT_NN_DENSE; }

static double activation(zt_nn_act act, double v)
{
    if (act == ZT_NN_RELU) return v > 0 ? v : 0;
    if (act == ZT_NN_SILU) return v / (1 + exp(-v));
    if (act == ZT_NN_GELU) return 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    if (act == ZT_NN_TANH) return tanh(v);
    if (act == ZT_NN_SIGMOID) return 1 / (1 + exp(-v));
    return v;
}

static double derivative(zt_nn_act act, double v)
{
    const double h = 1e-6;
    if (act == ZT_NN_RELU) return v > 0;
    return (activation(act, v + h) - activation(act, v - h)) / (2 * h);
}

static double pre_activation(const formula_layer *l, const double *x, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < l->in; i++) sum += l->target_w[o * l->in + i] * x[i];
    return sum;
}

static void run_forward(formula *f)
{
    for (int k = 0; k < f->count; k++) {
        const formula_layer *l = &f->layers[k];
        double mean = 0;
        for (int64_t i = 0; i < l->in; i++) mean += f->a[k][i] * f->a[k][i] / (double)l->in;
        for (int64_t o = 0; o < l->out; o++)
            f->a[k + 1][o] = is_dense(l) ? activation(l->layer->activation, pre_activation(l, f->a[k], o))
                                         : f->a[k][o] / sqrt(mean + 1e-6) * l->target_w[o];
    }
}

/* t of what layer k reads. */
static void invert(formula *f, int k)
{
    const formula_layer *l = &f->layers[k];
    bool plain = f->rule == ZT_TARGET_PLAIN;
    for (int64_t i = 0; i < l->in; i++) {
        double sum = 0, size = 0, passed = plain ? 0 : f->t[k + 1][i] - f->a[k + 1][i];
        for (int64_t o = 0; o < l->out && is_dense(l); o++) {
            double w = l->target_w[f->swapped ? i * l->out + o : o * l->in + i];
            sum += w * (plain ? f->t[k + 1][o] : f->t[k + 1][o] - f->a[k + 1][o]);
            size += fabs(w);
        }
        if (is_dense(l)) f->t[k][i] = (plain ? 0 : f->a[k][i]) + (size > 0.01 ? sum / size : 0);
        if (!is_dense(l)) f->t[k][i] = f->a[k][i] + passed;
    }
}

/* g and t of what layer k reads, of dense layers. */
static void chain(formula *f, int k)
{
    const formula_layer *l = &f->layers[k];
    for (int64_t i = 0; i < l->in; i++) {
        f->g[k][i] = 0;
        for (int64_t o = 0; o < l->out; o++)
            f->g[k][i] +=
                l->target_w[o * l->in + i] * f->g[k + 1][o] * derivative(l->layer->activation, pre_activation(l, f->a[k], o));
        f->t[k][i] = f->a[k][i] + f->scale * f->g[k][i];
    }
}

static double rate_of(const formula *f, int k) { return f->budget[k] < 0.2 ? 0 : 0.5 + 0.5 * f->budget[k]; }

static void learn(formula *f, int k, double lr)
{
    formula_layer *l = &f->layers[k];
    for (int64_t o = 0; o < l->out; o++) {
        double gap = f->t[k + 1][o] - f->a[k + 1][o];
        double slope = is_dense(l) ? derivative(l->layer->activation, pre_activation(l, f->a[k], o)) : 0;
        if (f->rule == ZT_TARGET_CHAIN) gap = f->g[k + 1][o] * slope;
        for (int64_t i = 0; i < l->in && is_dense(l); i++)
            l->w[f->swapped ? i * l->out + o : o * l->in + i] += lr * rate_of(f, k) * gap * f->a[k][i];
        if (!is_dense(l) && f->rule == ZT_TARGET_PLAIN) l->w[o] += lr * rate_of(f, k) * gap * 0.01;
    }
}

/* From activations to weights. */
static void apply(formula *f, const double *target, double lr)
{
    for (int64_t o = 0; o < f->layers[f->count - 1].out; o++) {
        f->t[f->count][o] = target[o];
        f->g[f->count][o] = target[o] - f->a[f->count][o];
    }
    for (int k = f->count - 1; k >= 0; k--) (f->rule == ZT_TARGET_CHAIN ? chain : invert)(f, k);
    for (int k = 0; k < f->count; k++) {
        double dot = 0, a = 0, t = 0, gap = 0;
        for (int64_t o = 0; o < f->layers[k].out; o++) {
            dot += f->a[k + 1][o] * f->t[k + 1][o];
            a += f->a[k + 1][o] * f->a[k + 1][o];
            t += f->t[k + 1][o] * f->t[k + 1][o];
            gap += pow(f->a[k + 1][o] - f->t[k + 1][o], 2) / (double)f->layers[k].out;
        }
        f->gap[k] = sqrt(gap);
        f->budget[k] = a > 0 && t > 0 ? (1 + dot / sqrt(a * t)) / 2 : 0;
    }
    for (int k = 0; k < f->count; k++) learn(f, k, lr);
}

static formula begin_formula(const zt_nn *nn, zt_target_rule rule, bool swapped)
{
    formula f = {.count = (int)zt_nn_count(nn), .rule = rule, .swapped = swapped, .scale = 0.1};
    for (int k = 0; k < f.count; k++) {
        formula_layer *l = &f.layers[k];
        l->layer = zt_nn_layer_at(nn, k);
        const zt_nn_weight *weight = zt_nn_weight_at(nn, l->layer->first_weight);
        l->in = l->layer->input_height;
        l->out = is_dense(l) ? l->layer->output_height : l->in;
        for (int64_t i = 0; i < zt_type_count(&weight->type); i++) l->w[i] = l->target_w[i] = weight->values[i];
    }
    return f;
}

/* ---- a step ------------------------------------------------------------------------------------ */

typedef struct step_case {
    zt_ctx *ctx;
    zt_nn *nn;
    int64_t cycles; /* 0: no clock */
    bool held;
    zt_target_prop how;
    zt_target_layer rows[MAX_LAYERS];
    char names[MAX_LAYERS][2][32];
    zt_prog *forward;
} step_case;

/* The forward program, with the outputs of layers; after a clock what places hold at its end. */
static zt_prog *lower_layers(step_case *c)
{
    int count = (int)zt_nn_count(c->nn), gives[256], x, last;
    zt_prog *program = zt_prog_new(c->ctx);
    int64_t n = zt_prog_symbol(program, "n");
    x = zt_prog_in(program, "x", ZT_F32, 2, (int64_t[]){n, zt_nn_layer_at(c->nn, 0)->input_height});
    last = zt_nn_emit_as(c->nn, program, x, &(zt_nn_options){.cycles = c->cycles, .held = c->held}, gives);
    if (last < 0 || zt_prog_out(program, "y", last)) return program;
    for (int k = 0; k < count; k++) {
        int first = c->cycles ? (int)(c->cycles - 1) * count : 0, in = k ? gives[first + k - 1] : x;
        const zt_nn_layer *layer = zt_nn_layer_at(c->nn, k);
        snprintf(c->names[k][0], sizeof c->names[k][0], "%s", zt_prog_value(program, in)->name);
        snprintf(c->names[k][1], sizeof c->names[k][1], "%s", zt_prog_value(program, gives[first + k])->name);
        c->rows[k] = (zt_target_layer){.input = c->names[k][0],
                                       .output = c->names[k][1],
                                       .weight = zt_nn_weight_at(c->nn, layer->first_weight)->name,
                                       .kind = layer->kind == ZT_NN_DENSE ? ZT_TARGET_MATRIX : ZT_TARGET_GAIN,
                                       .source = k - 1};
    }
    return program;
}

static int layer_of(void *user, const char *weight) { return (void)user, atoi(weight + strlen("layers.")); }

static zt_prog *make_gradient(void *user, zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                              const zt_grad_opts *options)
{
    return zt_target_prop_program(ctx, forward, wrt, n_weights, n_watched, options, &((step_case *)user)->how);
}

typedef struct stepped {
    float gaps[MAX_LAYERS], budgets[MAX_LAYERS], weights[MAX_LAYERS][MAX_WIDTH * MAX_WIDTH];
} stepped;

/* One step of sgd on `rows` rows. */
static bool take_step(step_case *c, const char *engine_name, zt_target_rule rule, int64_t rows, const float *x,
                      const float *target, double lr, stepped *got)
{
    zt_binding n = {"n", rows};
    zt_prog *bare = lower_layers(c);
    int count = (int)zt_nn_count(c->nn);
    zt_optim sgd = zt_optim_default(zt_optimizer_named("sgd"));
    c->how = (zt_target_prop){
        .rule = rule, .scale = 0.1, .loss = ZT_LOSS_MSE, .layers = c->rows, .layer_count = count, .layer_of = layer_of};
    zt_prog *forward = zt_ctx_status(c->ctx) ? NULL : zt_train_with_loss(c->ctx, bare, NULL, ZT_LOSS_MSE, &n, 1);
    zt_engine *engine = zt_engine_open(c->ctx, engine_name, NULL);
    zt_store store = zt_nn_store(c->nn);
    zt_train_opts options = {.optim = &sgd, .gradient = make_gradient, .user = c, .sample = &n, .n_sample = 1};
    zt_trainer *trainer = forward && engine ? zt_trainer_open(engine, forward, &options, &store) : NULL;
    zt_trained result;
    void *out[] = {NULL, NULL, got->gaps, got->budgets};
    bool well = trainer && !zt_trainer_step(trainer, &n, 1, (const void *const[]){x, target}, lr, out, &result);
    for (int k = 0; k < count && well; k++)
        for (int s = 0; s < zt_trainer_n_weights(trainer); s++)
            if (!strcmp(zt_trainer_state_name(trainer, s), c->rows[k].weight))
                well = !zt_trainer_get(trainer, s, got->weights[k]);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    zt_prog_free(forward);
    zt_prog_free(bare);
    return well;
}

/* ---- comparing --------------------------------------------------------------------------------- */

static bool near_all(const char *what, int k, double tolerance, int64_t count, const double *want, const float *got, char *why,
                     size_t size)
{
    for (int64_t i = 0; i < count; i++) {
        if (loom_near((double)got[i], want[i], tolerance)) continue;
        snprintf(why, size, ": %s of layer %d [%d]: %g, expected %g", what, k, (int)i, (double)got[i], want[i]);
        return false;
    }
    return true;
}

static bool step_is(const formula *f, const stepped *got, char *why, size_t size)
{
    bool well = near_all("gap", 0, 2e-6, f->count, f->gap, got->gaps, why, size) &&
                near_all("link budget", 0, 2e-6, f->count, f->budget, got->budgets, why, size);
    for (int k = 0; k < f->count && well; k++)
        well = near_all("weight", k, 2e-6, is_dense(&f->layers[k]) ? f->layers[k].in * f->layers[k].out : f->layers[k].in,
                        f->layers[k].w, got->weights[k], why, size);
    return well;
}

/* Are the numbers at `path` of the case those of the formula? */
static bool case_has(const json_t *root, const char *path, const double *want, size_t count, double tolerance, char *why,
                     size_t size)
{
    return same_numbers(want, count, root, path, tolerance, why, size);
}

static bool weights_are(const formula *f, const json_t *root, const char *path, char *why, size_t size)
{
    double all[MAX_LAYERS * MAX_WIDTH * MAX_WIDTH];
    size_t count = 0;
    for (int k = 0; k < f->count; k++)
        for (int64_t i = 0; i < (is_dense(&f->layers[k]) ? f->layers[k].in * f->layers[k].out : f->layers[k].in); i++)
            all[count++] = f->layers[k].w[i];
    return case_has(root, path, all, count, 1e-5, why, size);
}

static bool targets_are(const formula *f, const json_t *root, double tolerance, char *why, size_t size)
{
    double all[(MAX_LAYERS + 1) * MAX_WIDTH];
    size_t count = 0;
    for (int k = 0; k <= f->count; k++)
        for (int64_t i = 0; i < (k ? f->layers[k - 1].out : f->layers[0].in); i++) all[count++] = f->t[k][i];
    return case_has(root, "backward_targets", all, count, tolerance, why, size);
}

static zt_nn *open_case(zt_ctx *ctx, const json_t *network, const json_t *masters)
{
    json_t *net = json_deep_copy(network), *layer;
    size_t i;
    json_array_foreach(json_object_get(net, "layers"), i, layer)
    {
        size_t first = 0;
        loom_put_master(layer, json_array_get(masters, i), &first);
    }
    char *text = json_dumps(net, JSON_COMPACT);
    zt_nn *nn = open_text(ctx, text);
    free(text);
    json_decref(net);
    return nn;
}

static void set_numbers(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

/* ---- golden/loom/target_prop -------------------------------------------------------------------- */

static void target_prop_case(const json_t *root, const char *name)
{
    if (!json_object_get(root, "start")) return; /* the default configuration */
    char why[300] = "";
    zt_ctx *ctx = zt_ctx_new();
    const json_t *start = json_object_get(root, "start");
    bool chained = json_is_true(json_object_get(root, "use_chain_rule"));
    double lr = json_number_value(json_object_get(root, "learning_rate"));
    zt_target_rule rule = chained ? ZT_TARGET_CHAIN : ZT_TARGET_PLAIN;
    step_case c = {.ctx = ctx, .nn = open_case(ctx, json_object_get(start, "network"), json_object_get(start, "masters"))};
    size_t n_x, n_t;
    float *x = floats(json_object_get(root, "input"), &n_x), *target = floats(json_object_get(root, "target"), &n_t);
    double wanted[MAX_WIDTH];
    stepped got;
    formula original = begin_formula(c.nn, rule, !chained), meant = begin_formula(c.nn, rule, false);
    set_numbers(original.a[0], x, n_x);
    set_numbers(meant.a[0], x, n_x);
    set_numbers(wanted, target, n_t);
    run_forward(&original);
    run_forward(&meant);
    apply(&original, wanted, lr);
    apply(&meant, wanted, lr);
    double tolerance = chained ? 2e-3 : 1e-5; /* the original's derivative of GELU is that of another form */
    bool well = targets_are(&original, root, tolerance, why, sizeof why) &&
                case_has(root, "gaps", original.gap, (size_t)original.count, tolerance, why, sizeof why) &&
                case_has(root, "link_budgets", original.budget, (size_t)original.count, tolerance, why, sizeof why) &&
                (chained || weights_are(&original, root, "end_masters", why, sizeof why));
    ok(well, "%s: the formula, indexed as the original does%s%s", name, *why ? ": " : "", why);
    for (int e = 0; e < 2; e++) {
        *why = 0;
        well = take_step(&c, engines[e], rule, 1, x, target, lr, &got) && step_is(&meant, &got, why, sizeof why);
        ok(well, "%s: a step on %s%s%s", name, engines[e], why, zt_ctx_error(ctx));
    }
    zt_nn_close(c.nn);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
    free(x);
    free(target);
}

/* ---- golden/loom/systolic ------------------------------------------------------------------------ */

/* What the places hold after the last cycle is a[1] and on. */
static void systolic_case(const json_t *root, const char *name)
{
    char why[300] = "";
    zt_ctx *ctx = zt_ctx_new();
    double lr = json_number_value(json_object_get(root, "target_prop_lr")), wanted[MAX_WIDTH];
    step_case c = {.ctx = ctx,
                   .nn = open_case(ctx, json_object_get(root, "network"), json_object_get(root, "masters_before")),
                   .cycles = json_integer_value(json_object_get(root, "cycles"))};
    size_t n_x, n_t, count;
    float *x = floats(json_object_get(root, "input"), &n_x), *target = floats(json_object_get(root, "target_prop_target"), &n_t);
    stepped got;
    formula original = begin_formula(c.nn, ZT_TARGET_PLAIN, true), meant = begin_formula(c.nn, ZT_TARGET_PLAIN, false);
    const json_t *cycles = json_object_get(root, "layer_data_after_each_cycle");
    const json_t *end = json_array_get(cycles, json_array_size(cycles) - 1);
    set_numbers(wanted, target, n_t);
    set_numbers(original.a[0], x, n_x);
    for (int k = 0; k < original.count; k++) {
        float *held = floats(json_array_get(end, (size_t)k), &count);
        set_numbers(original.a[k + 1], held, count);
        free(held);
    }
    memcpy(meant.a, original.a, sizeof meant.a);
    apply(&original, wanted, lr);
    apply(&meant, wanted, lr);
    ok(weights_are(&original, root, "masters_after_target_prop", why, sizeof why),
       "%s: the formula, indexed as the original does%s%s", name, *why ? ": " : "", why);
    for (int e = 0; e < 2; e++) {
        *why = 0;
        bool well = take_step(&c, engines[e], ZT_TARGET_PLAIN, 1, x, target, lr, &got) && step_is(&meant, &got, why, sizeof why);
        ok(well, "%s: a step on %s%s%s", name, engines[e], why, zt_ctx_error(ctx));
    }
    zt_nn_close(c.nn);
    zt_ctx_free(ctx);
    free(x);
    free(target);
}

/* ---- differences, batches, clocks ----------------------------------------------------------------- */

#define NET                                                                                                                      \
    GRID(3)                                                                                                                      \
    DENSE(0, 4, 6) ",{\"type\":\"RMSNorm\",\"l\":1,\"input_height\":6,\"output_height\":6}," DENSE(2, 6, 3) END
#define DENSE_NET GRID(3) DENSE(0, 4, 6) "," DENSE(1, 6, 5) "," DENSE(2, 5, 3) END

static void test_rule(const char *text, zt_target_rule rule, const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    char why[300] = "";
    step_case c = {.ctx = ctx, .nn = open_text(ctx, text)};
    formula f = begin_formula(c.nn, rule, false);
    float x[4], target[3];
    double wanted[3];
    stepped got, thrice, clocked;
    for (int i = 0; i < 4; i++) f.a[0][i] = x[i] = (float)zt_normal(3, 0, (uint64_t)i);
    for (int i = 0; i < 3; i++) wanted[i] = target[i] = (float)zt_normal(3, 1, (uint64_t)i);
    run_forward(&f);
    apply(&f, wanted, 0.1);
    for (int e = 0; e < 2; e++)
        ok(take_step(&c, engines[e], rule, 1, x, target, 0.1, &got) && step_is(&f, &got, why, sizeof why),
           "%s on %s: gaps, link budgets and weights of the formula in f64%s%s", name, engines[e], why, zt_ctx_error(ctx));
    float rows[12], targets[9];
    for (int r = 0; r < 3; r++) memcpy(rows + 4 * r, x, sizeof x), memcpy(targets + 3 * r, target, sizeof target);
    ok(take_step(&c, "cpu", rule, 3, rows, targets, 0.1, &thrice) && step_is(&f, &thrice, why, sizeof why),
       "%s: a batch of three equal samples gives what one gives%s", name, why);
    c.cycles = 5;
    c.held = true;
    if (rule != ZT_TARGET_CHAIN) /* whose gradient runs through cycles, and not from place to place */
        ok(take_step(&c, "cpu", rule, 1, x, target, 0.1, &clocked) && step_is(&f, &clocked, why, sizeof why),
           "%s: a clock whose input is held gives the same%s", name, why);
    zt_nn_close(c.nn);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
}

/* A layer that is not there, and accumulation. */
static void test_refused(void)
{
    zt_ctx *ctx = zt_ctx_new();
    step_case c = {.ctx = ctx, .nn = open_text(ctx, DENSE_NET)};
    zt_prog *bare = lower_layers(&c);
    zt_binding n = {"n", 2};
    zt_prog *forward = zt_train_with_loss(ctx, bare, NULL, ZT_LOSS_MSE, &n, 1);
    zt_optim sgd = zt_optim_default(zt_optimizer_named("sgd"));
    zt_engine *engine = zt_engine_open(ctx, "cpu", NULL);
    zt_store store = zt_nn_store(c.nn);
    c.how = (zt_target_prop){.layers = c.rows, .layer_count = 3, .layer_of = layer_of};
    c.rows[1].output = "nowhere";
    zt_train_opts options = {.optim = &sgd, .gradient = make_gradient, .user = &c, .sample = &n, .n_sample = 1};
    bool refused = !zt_trainer_open(engine, forward, &options, &store) && zt_ctx_status(ctx) == ZT_EUSAGE;
    ok(refused && strstr(zt_ctx_error(ctx), "no value 'nowhere'"), "refused: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    options.accumulate = 2;
    refused = !zt_trainer_open(engine, forward, &options, &store) && zt_ctx_status(ctx) == ZT_EUSAGE;
    ok(refused && strstr(zt_ctx_error(ctx), "micro-batches"), "refused: %s", zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_prog_free(forward);
    zt_prog_free(bare);
    zt_nn_close(c.nn);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* Each allocation of a step's program in turn fails. */
static void test_memory(void)
{
    int64_t failed = 0;
    for (int64_t fail = 1;; fail++) {
        zt_ctx *ctx = zt_ctx_new();
        step_case c = {.ctx = ctx, .nn = open_text(ctx, DENSE_NET)};
        zt_prog *bare = lower_layers(&c);
        zt_binding n = {"n", 2};
        zt_prog *forward = zt_train_with_loss(ctx, bare, NULL, ZT_LOSS_MSE, &n, 1);
        int wrt[3], count = 0;
        for (int i = 0; i < 3; i++) wrt[count++] = zt_prog_nth(forward, ZT_VALUE_DATA, i);
        const char *of = "loss";
        zt_target_prop how = {.layers = c.rows, .layer_count = 3, .layer_of = layer_of};
        zt_mem_fail(ctx, (uint64_t)fail, false);
        zt_prog *program = zt_target_prop_program(ctx, forward, wrt, 3, 0,
                                                  &(zt_grad_opts){.of = &of, .n_of = 1, .sample = &n, .n_sample = 1}, &how);
        bool done = program != NULL;
        zt_mem_fail(ctx, 0, false);
        failed += !program && zt_ctx_status(ctx) == ZT_ENOMEM;
        if (!program && zt_ctx_status(ctx) != ZT_ENOMEM)
            ok(false, "allocation %d: %s", (int)fail, zt_ctx_error(ctx)), done = true;
        zt_prog_free(program);
        zt_prog_free(forward);
        zt_prog_free(bare);
        zt_nn_close(c.nn);
        if (zt_mem_get(ctx).blocks) ok(false, "allocation %d: %zu blocks leak", (int)fail, zt_mem_get(ctx).blocks), done = true;
        zt_ctx_free(ctx);
        if (done) break;
    }
    ok(failed > 50, "%d allocations failed, each by ZT_ENOMEM and without a leak", (int)failed);
}

int main(void)
{
    walk_set(&(walked){"loom/target_prop", target_prop_case});
    walk_set(&(walked){"loom/systolic", systolic_case});
    test_rule(DENSE_NET, ZT_TARGET_CHAIN, "chain");
    test_rule(DENSE_NET, ZT_TARGET_DIFFERENCE, "difference");
    test_rule(NET, ZT_TARGET_DIFFERENCE, "difference, with a norm");
    test_rule(NET, ZT_TARGET_PLAIN, "plain, with a norm");
    test_refused();
    test_memory();
    return tap_done();
}
