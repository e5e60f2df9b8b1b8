/* methods.c - training methods other than backpropagation: which layers they train, and how a network is described to them. */
#include "lib/base/near.h"
#include "tools/zt-train/train_tool.h"

#include <string.h>

static const struct {
    const char *name;
    bool clocked; /* the network runs as a clocked mesh */
    bool targets; /* layers learn from targets */
    bool chain;   /* which the gradient gives */
} methods[] = {
    [TRAIN_BACKPROP] = {"backprop", false, false, false},
    [TRAIN_TARGET_CHAIN] = {"target-prop-chain", false, true, true},
    [TRAIN_TARGET] = {"target-prop", false, true, false},
    [TRAIN_SYSTOLIC] = {"systolic", true, false, false},
    [TRAIN_SYSTOLIC_TARGET] = {"systolic-target-prop", true, true, false},
};

const char *train_method_names(const void *user, int index)
{
    (void)user;
    return index < (int)(sizeof methods / sizeof *methods) ? methods[index].name : NULL;
}

zt_status train_find_method(zt_cli *cli, const char *option, const char *name, int *method)
{
    for (*method = 0; train_method_names(NULL, *method); ++*method)
        if (!strcmp(methods[*method].name, name)) return ZT_OK;
    char what[64];
    snprintf(what, sizeof what, "option '--%s': unknown method", option);
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, what, name, strlen(name), train_method_names, NULL);
}

bool train_has_targets(const train_options *options) { return methods[options->method].targets; }

int64_t train_cycles(const zt_nn *network, const train_options *options)
{
    int64_t places = 1;
    if (options->cycles || !methods[options->method].clocked) return options->cycles;
    for (int axis = 0; axis < 4; axis++) places *= zt_nn_extent(network, axis);
    return places;
}

zt_status train_check_method(zt_cli *cli, const train_options *options)
{
    bool clocked = methods[options->method].clocked, targets = methods[options->method].targets;
    bool chain = methods[options->method].chain;
    zt_status status = ZT_OK;
    if (options->text && options->method != TRAIN_BACKPROP)
        return zt_fail(cli->ctx, ZT_EUSAGE, "language models are trained by --method backprop only");
    if (!options->eval && !clocked)
        status = zt_cli_refuse_given(cli, "cycles|feed", "this method; it applies to systolic or systolic-target-prop");
    if (!status && options->eval && !options->cycles) status = zt_cli_refuse_given(cli, "feed", "--eval without --cycles");
    if (!status && (!targets || chain))
        status = zt_cli_refuse_given(cli, "targets", "this method; it applies to target-prop or systolic-target-prop");
    if (!status && !chain) status = zt_cli_refuse_given(cli, "gradient-scale", "this method; it applies to target-prop-chain");
    if (!status && targets && options->accumulate > 1)
        status = zt_cli_refuse_given(cli, "accumulate", "methods with targets: a link budget is that of a whole batch");
    return status;
}

/* ---- layers with targets ----------------------------------------------------------------------- */

/* Kinds of layers that have a rule. */
static const struct {
    zt_nn_kind kind;
    zt_target_kind target;
} rules[] = {{ZT_NN_DENSE, ZT_TARGET_MATRIX},
             {ZT_NN_RMSNORM, ZT_TARGET_GAIN},
             {ZT_NN_LAYERNORM, ZT_TARGET_GAIN},
             {ZT_NN_SOFTMAX, ZT_TARGET_PASS},
             {ZT_NN_RESIDUAL, ZT_TARGET_PASS}};

static zt_status choose_rule(const train_learner *learner, const zt_nn_layer *layer, zt_target_layer *row)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].kind != layer->kind) continue;
        row->kind = rules[i].target;
        if (row->kind != ZT_TARGET_PASS) row->weight = zt_nn_weight_at(learner->network, layer->first_weight)->name;
        return ZT_OK;
    }
    return zt_fail(learner->cli->ctx, ZT_ENOTSUP,
                   "%s: %s (%s): targets do not pass through layers of this kind; --method target-prop-chain, systolic and "
                   "backprop train it",
                   zt_nn_name(learner->network), layer->path, zt_nn_kind_name(layer->kind));
}

/* The observed layer whose weight it is, by the path that begins the weight's name. */
static int find_weight_layer(void *user, const char *weight)
{
    const train_learner *learner = user;
    for (int i = 0; i < learner->observed_count; i++) {
        const char *path = learner->observed[i].layer->path;
        size_t length = strlen(path);
        if (!strncmp(weight, path, length) && weight[length] == '.') return i;
    }
    return -1;
}

/* Below a layer that stops targets nothing is learned. */
static void warn_of_stops(const train_learner *learner, const zt_target_prop *targets)
{
    for (int i = targets->layer_count - 1; i > 0; i--)
        if (targets->rule == ZT_TARGET_PLAIN && targets->layers[i].kind != ZT_TARGET_MATRIX) {
            const zt_nn_layer *layer = learner->observed[i].layer;
            zt_cli_note(learner->cli, "layers below %s (%s) do not learn: with --targets plain it passes no target on",
                        layer->path, zt_nn_kind_name(layer->kind));
            return;
        }
}

/* The last layer must compute the network's output, which is the first. */
static zt_status check_last(const train_learner *learner)
{
    int last = learner->observed_count - 1;
    if (last >= 0 &&
        zt_prog_output(learner->forward, learner->observed[last].output)->value == zt_prog_output(learner->forward, 0)->value)
        return ZT_OK;
    return zt_fail(learner->cli->ctx, ZT_EUSAGE, "%s: the last place of the grid has no layer for a target",
                   zt_nn_name(learner->network));
}

zt_status train_describe_targets(train_learner *learner, const train_options *options)
{
    if (!train_has_targets(options)) return ZT_OK;
    bool chain = methods[options->method].chain;
    zt_target_layer *layers = zt_calloc(learner->cli->ctx, (size_t)learner->observed_count + 1, sizeof *layers);
    learner->targets = (zt_target_prop){.rule = chain ? ZT_TARGET_CHAIN : (zt_target_rule)options->targets,
                                        .scale = options->gradient_scale,
                                        .loss = options->loss < 0 ? ZT_LOSS_MSE : (zt_loss_kind)options->loss,
                                        .layers = layers,
                                        .layer_count = learner->observed_count,
                                        .layer_of = find_weight_layer,
                                        .user = learner};
    zt_status status = layers ? check_last(learner) : ZT_ENOMEM;
    for (int i = 0; i < learner->observed_count && !status; i++) {
        const train_seen *seen = &learner->observed[i];
        int output = zt_prog_output(learner->forward, seen->output)->value;
        layers[i] = (zt_target_layer){.input = seen->input,
                                      .output = zt_prog_value(learner->forward, output)->name,
                                      .kind = ZT_TARGET_PASS,
                                      .source = seen->source};
        if (!chain) status = choose_rule(learner, seen->layer, &layers[i]);
    }
    if (!status) warn_of_stops(learner, &learner->targets);
    return status;
}

void train_free_targets(train_learner *learner)
{
    zt_free(learner->cli->ctx, (void *)learner->targets.layers);
    learner->targets.layers = NULL;
}

zt_prog *train_target_gradient(void *user, zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                               const zt_grad_opts *options)
{
    const train_learner *learner = user;
    return zt_target_prop_program(ctx, forward, wrt, n_weights, n_watched, options, &learner->targets);
}
