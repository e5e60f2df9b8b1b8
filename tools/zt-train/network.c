/* network.c - volumetric networks as learners: from JSON or a builder, and back to JSON. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

static bool begins_json(const void *head, size_t length)
{
    const char *cursor = head, *end = cursor + length;
    while (cursor < end && memchr(" \t\r\n", *cursor, 4)) cursor++;
    return cursor < end && *cursor == '{';
}

/* A file that begins as JSON does; a builder in any case. */
bool train_is_network(zt_cli *cli, const train_options *options)
{
    char head[16];
    if (options->make) return true;
    zt_source *s = zt_source_open(cli->ctx, options->model);
    if (!s) return false;
    size_t length = zt_source_size(s) < sizeof head ? (size_t)zt_source_size(s) : sizeof head;
    bool json = length && !zt_source_read(s, 0, head, length) && begins_json(head, length);
    zt_source_close(s);
    return json;
}

/* --set dModel=64 */
static zt_status set_property(zt_cli *cli, const train_options *options, zt_nn_arch *arch)
{
    zt_status status = ZT_OK;
    char key[64], shown[96];
    for (int i = 0; i < options->set.n && !status; i++) {
        const char *item = options->set.item[i], *value = strchr(item, '=');
        if (!value || value == item || (size_t)(value - item) >= sizeof key)
            return zt_fail(cli->ctx, ZT_EUSAGE, "--set: '%s' is not KEY=VALUE",
                           zt_escape(shown, sizeof shown, item, strlen(item)));
        snprintf(key, sizeof key, "%.*s", (int)(value - item), item);
        status = zt_nn_arch_set(cli->ctx, arch, key, value + 1);
    }
    return status;
}

static zt_nn *make_network(zt_cli *cli, const train_options *options)
{
    zt_nn_arch arch = zt_nn_arch_defaults();
    arch.seed = cli->seed;
    return set_property(cli, options, &arch) ? NULL : zt_nn_new(cli->ctx, options->make, &arch);
}

static bool is_weight(const train_learner *learner, const char *name)
{
    for (int64_t i = 0; i < zt_nn_n_weights(learner->network); i++)
        if (!strcmp(zt_nn_weight_at(learner->network, i)->name, name)) return true;
    return false;
}

static int find_output(const zt_prog *program, const char *name)
{
    for (int output = 0; output < zt_prog_n_outputs(program); output++)
        if (!strcmp(zt_prog_output(program, output)->name, name)) return output;
    return -1;
}

/* What the network takes: by its own numbers, or so many ids. */
static zt_status find_input(const zt_nn *network, const train_options *options, zt_nn_shape *shape)
{
    if (!options->ids) return zt_nn_input(network, shape);
    *shape = (zt_nn_shape){.rank = 2, .dim = {0, options->ids}};
    return ZT_OK;
}

/* A network while it is lowered with the outputs of its layers. */
typedef struct observed_lowering {
    train_learner *learner;
    zt_prog *program;
    zt_nn_options clock; /* cycles 0: layer after layer */
    int64_t places;
    int input;  /* x */
    int *gives; /* value of each layer in its order; with a clock, of each place at the end of the last cycle */
} observed_lowering;

static int64_t find_place(const zt_nn *network, const int64_t place[4])
{
    int64_t index = 0;
    for (int axis = 0; axis < 4; axis++) index = index * zt_nn_extent(network, axis) + place[axis];
    return index;
}

/* The layer at a place; NULL: none. */
static const zt_nn_layer *find_layer(const zt_nn *network, int64_t index)
{
    int64_t place[4];
    for (int axis = 3; axis >= 0; axis--) {
        place[axis] = index % zt_nn_extent(network, axis);
        index /= zt_nn_extent(network, axis);
    }
    return zt_nn_find(network, place);
}

/* The place that a place reads; -1: x. */
static int64_t find_source_place(const observed_lowering *lowering, int64_t place)
{
    const zt_nn_layer *layer = find_layer(lowering->learner->network, place);
    if (layer && layer->is_link && !layer->disabled) return find_place(lowering->learner->network, layer->target);
    return place - 1;
}

/* Among the observed layers, the one whose output is what the place holds; -1: none. */
static int find_holder(const observed_lowering *lowering, int64_t place)
{
    const train_learner *learner = lowering->learner;
    for (int64_t tries = 0; place >= 0 && tries <= lowering->places; tries++) {
        const zt_nn_layer *layer = find_layer(learner->network, place);
        for (int i = 0; layer && i < learner->observed_count; i++)
            if (learner->observed[i].layer == layer) return i;
        place = find_source_place(lowering, place);
    }
    return -1;
}

/* What a layer reads and which layer computes that, once all layers are in the list. */
static zt_status find_inputs(const observed_lowering *lowering)
{
    train_learner *learner = lowering->learner;
    for (int i = 0; i < learner->observed_count; i++) {
        train_seen *seen = &learner->observed[i];
        int64_t source = find_source_place(lowering, find_place(learner->network, seen->layer->place));
        int value = lowering->input;
        seen->source = lowering->clock.cycles ? find_holder(lowering, source) : i - 1;
        if (lowering->clock.cycles && source >= 0 && lowering->gives[source] >= 0) value = lowering->gives[source];
        if (!lowering->clock.cycles && i) value = zt_prog_output(lowering->program, seen[-1].output)->value;
        seen->input = zt_strdup(learner->cli->ctx, zt_prog_value(lowering->program, value)->name);
        if (!seen->input) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* What each layer gives is an output too, by its path; those that are disabled, or that a clock has not reached, give nothing. */
static zt_status put_layers(const observed_lowering *lowering)
{
    train_learner *learner = lowering->learner;
    zt_status status = ZT_OK;
    for (int64_t index = 0; index < zt_nn_count(learner->network) && !status; index++) {
        const zt_nn_layer *layer = zt_nn_layer_at(learner->network, index);
        int value = lowering->gives[lowering->clock.cycles ? find_place(learner->network, layer->place) : index];
        if (layer->disabled || value < 0) continue;
        status = zt_prog_out(lowering->program, layer->path, value);
        learner->observed[learner->observed_count++] =
            (train_seen){.layer = layer, .output = find_output(lowering->program, layer->path)};
    }
    return status ? status : find_inputs(lowering);
}

static zt_nn_options find_clock(const zt_nn *network, const train_options *options)
{
    return (zt_nn_options){.cycles = train_cycles(network, options), .held = options->feed == TRAIN_FEED_EVERY};
}

static zt_prog *lower_network(const zt_nn *network, const train_options *options)
{
    zt_nn_shape shape;
    zt_nn_options clock = find_clock(network, options);
    clock.input = &shape;
    return find_input(network, options, &shape) ? NULL : zt_nn_prog_as(network, &clock);
}

/* Room for the values of all cycles; the last of which are kept at the beginning. */
static int emit_observed(observed_lowering *lowering)
{
    const zt_nn *network = lowering->learner->network;
    int64_t cycles = lowering->clock.cycles;
    int output = zt_nn_emit_as(network, lowering->program, lowering->input, &lowering->clock, lowering->gives);
    if (output >= 0 && cycles > 1)
        memmove(lowering->gives, lowering->gives + (cycles - 1) * lowering->places,
                (size_t)lowering->places * sizeof *lowering->gives);
    return output;
}

/* The network with the layers' outputs after y. */
static zt_prog *lower_observed(train_learner *learner, const train_options *options)
{
    zt_ctx *ctx = learner->cli->ctx;
    zt_nn_shape shape;
    observed_lowering lowering = {.learner = learner, .clock = find_clock(learner->network, options), .places = 1};
    for (int axis = 0; axis < 4; axis++) lowering.places *= zt_nn_extent(learner->network, axis);
    size_t count = (size_t)zt_nn_count(learner->network) + 1, cycles = (size_t)lowering.clock.cycles;
    if (cycles && lowering.places > (1 << 16) / (int64_t)cycles) return lower_network(learner->network, options); /* refused */
    lowering.gives = zt_calloc(ctx, cycles ? cycles * (size_t)lowering.places : count, sizeof *lowering.gives);
    learner->observed = zt_calloc(ctx, count, sizeof *learner->observed);
    bool room = lowering.gives && learner->observed;
    lowering.program = room && !find_input(learner->network, options, &shape) ? zt_prog_new(ctx) : NULL;
    if (lowering.program) shape.dim[0] = zt_prog_symbol(lowering.program, "n");
    lowering.input = lowering.program ? zt_prog_in(lowering.program, "x", ZT_F32, shape.rank, shape.dim) : -1;
    int output = lowering.input < 0 ? -1 : emit_observed(&lowering);
    bool good = output >= 0 && !zt_prog_out(lowering.program, "y", output) && !put_layers(&lowering);
    zt_free(ctx, lowering.gives);
    if (good) return lowering.program;
    zt_prog_free(lowering.program);
    return NULL;
}

/* To be trained masters are what counts; to be judged, what the layers compute with. */
zt_status train_open_network(train_learner *learner, const train_options *options)
{
    learner->network =
        options->make ? make_network(learner->cli, options) : zt_nn_open(learner->cli->ctx, options->model, learner->cli->seed);
    bool observed = options->observe || options->report || options->layer || train_has_targets(options);
    zt_prog *program = !learner->network ? NULL
                       : observed        ? lower_observed(learner, options)
                                         : lower_network(learner->network, options);
    learner->forward = program ? train_with_loss(learner->cli, program, options) : NULL;
    if (!learner->forward || train_describe_targets(learner, options)) return zt_ctx_status(learner->cli->ctx);
    zt_store masters = zt_nn_masters(learner->network);
    learner->below = zt_nn_store(learner->network);
    return train_learner_weights(learner, options->eval || options->forward_only ? &learner->below : &masters, is_weight);
}

int train_network_through(void *user, zt_prog *program, int state, const char *name)
{
    const train_learner *learner = user;
    return zt_nn_through(learner->network, program, state, name);
}

zt_status train_put_network(train_learner *learner)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < learner->weight_count && !status; i++)
        status = zt_nn_put(learner->network, learner->weights[i].name, learner->weights[i].values,
                           zt_type_count(&learner->weights[i].type));
    return status;
}

zt_status train_write_network(train_learner *learner, const char *path)
{
    zt_status status = train_put_network(learner);
    zt_sink *sink = status ? NULL : zt_sink_open(learner->cli->ctx, path, learner->cli->force);
    if (!status) status = sink ? zt_nn_write(learner->network, sink) : zt_ctx_status(learner->cli->ctx);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    return status;
}
