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

/* What each layer gives is an output too, by its path; those that are disabled give nothing. */
static zt_status put_layers(train_learner *learner, zt_prog *program, const int *gives)
{
    zt_status status = ZT_OK;
    for (int64_t layer_index = 0; layer_index < zt_nn_count(learner->network) && !status; layer_index++) {
        const zt_nn_layer *layer = zt_nn_layer_at(learner->network, layer_index);
        if (layer->disabled) continue;
        status = zt_prog_out(program, layer->path, gives[layer_index]);
        learner->observed[learner->observed_count++] = (train_seen){layer, find_output(program, layer->path)};
    }
    return status;
}

/* What the network takes: by its own numbers, or so many ids. */
static zt_status find_input(const zt_nn *network, const train_options *options, zt_nn_shape *shape)
{
    if (!options->ids) return zt_nn_input(network, shape);
    *shape = (zt_nn_shape){.rank = 2, .dim = {0, options->ids}};
    return ZT_OK;
}

static zt_prog *lower_network(const zt_nn *network, const train_options *options)
{
    zt_nn_shape shape;
    return find_input(network, options, &shape) ? NULL : zt_nn_prog(network, &shape);
}

/* The same, with the layers' outputs after y. */
static zt_prog *lower_observed(train_learner *learner, const train_options *options)
{
    zt_ctx *ctx = learner->cli->ctx;
    zt_nn_shape shape;
    size_t length = (size_t)zt_nn_count(learner->network) + 1;
    int *gives = zt_calloc(ctx, length, sizeof *gives);
    learner->observed = zt_calloc(ctx, length, sizeof *learner->observed);
    zt_prog *program = gives && learner->observed && !find_input(learner->network, options, &shape) ? zt_prog_new(ctx) : NULL;
    if (program) shape.dim[0] = zt_prog_symbol(program, "n");
    int input = program ? zt_prog_in(program, "x", ZT_F32, shape.rank, shape.dim) : -1;
    int output = input < 0 ? -1 : zt_nn_emit(learner->network, program, input, gives);
    bool good = output >= 0 && !zt_prog_out(program, "y", output) && !put_layers(learner, program, gives);
    zt_free(ctx, gives);
    if (good) return program;
    zt_prog_free(program);
    return NULL;
}

/* To be trained masters are what counts; to be judged, what the layers compute with. */
zt_status train_open_network(train_learner *learner, const train_options *options)
{
    learner->network =
        options->make ? make_network(learner->cli, options) : zt_nn_open(learner->cli->ctx, options->model, learner->cli->seed);
    zt_prog *program = !learner->network                                       ? NULL
                       : options->observe || options->report || options->layer ? lower_observed(learner, options)
                                                                               : lower_network(learner->network, options);
    learner->forward = program ? train_with_loss(learner->cli, program, options) : NULL;
    if (!learner->forward) return zt_ctx_status(learner->cli->ctx);
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
