/* network.c - volumetric networks as learners: from JSON or a builder, and back to JSON. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

static bool begins_json(const void *head, size_t n)
{
    const char *at = head, *end = at + n;
    while (at < end && memchr(" \t\r\n", *at, 4)) at++;
    return at < end && *at == '{';
}

/* A file that begins as JSON does; a builder in any case. */
bool train_is_network(zt_cli *cli, const train_options *o)
{
    char head[16];
    if (o->make) return true;
    zt_source *s = zt_source_open(cli->ctx, o->model);
    if (!s) return false;
    size_t n = zt_source_size(s) < sizeof head ? (size_t)zt_source_size(s) : sizeof head;
    bool json = n && !zt_source_read(s, 0, head, n) && begins_json(head, n);
    zt_source_close(s);
    return json;
}

/* --set dModel=64 */
static zt_status set(zt_cli *cli, const train_options *o, zt_nn_arch *arch)
{
    zt_status s = ZT_OK;
    char key[64], shown[96];
    for (int i = 0; i < o->set.n && !s; i++) {
        const char *item = o->set.item[i], *value = strchr(item, '=');
        if (!value || value == item || (size_t)(value - item) >= sizeof key)
            return zt_fail(cli->ctx, ZT_EUSAGE, "--set '%s' is not KEY=VALUE",
                           zt_escape(shown, sizeof shown, item, strlen(item)));
        snprintf(key, sizeof key, "%.*s", (int)(value - item), item);
        s = zt_nn_arch_set(cli->ctx, arch, key, value + 1);
    }
    return s;
}

static zt_nn *make(zt_cli *cli, const train_options *o)
{
    zt_nn_arch arch = zt_nn_arch_defaults();
    arch.seed = cli->seed;
    return set(cli, o, &arch) ? NULL : zt_nn_new(cli->ctx, o->make, &arch);
}

static bool is_weight(const train_learner *l, const char *name)
{
    for (int64_t i = 0; i < zt_nn_n_weights(l->nn); i++)
        if (!strcmp(zt_nn_weight_at(l->nn, i)->name, name)) return true;
    return false;
}

static int output_of(const zt_prog *p, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!strcmp(zt_prog_output(p, o)->name, name)) return o;
    return -1;
}

/* What each layer gives is an output too, by its path; those that are disabled give nothing. */
static zt_status put_layers(train_learner *l, zt_prog *p, const int *gives)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < zt_nn_count(l->nn) && !s; i++) {
        const zt_nn_layer *layer = zt_nn_layer_at(l->nn, i);
        if (layer->disabled) continue;
        s = zt_prog_out(p, layer->path, gives[i]);
        l->seen[l->n_seen++] = (train_seen){layer, output_of(p, layer->path)};
    }
    return s;
}

/* What the network takes: by its own numbers, or so many ids. */
static zt_status input_of(const zt_nn *nn, const train_options *o, zt_nn_shape *in)
{
    if (!o->ids) return zt_nn_input(nn, in);
    *in = (zt_nn_shape){.rank = 2, .dim = {0, o->ids}};
    return ZT_OK;
}

static zt_prog *lowered(const zt_nn *nn, const train_options *o)
{
    zt_nn_shape in;
    return input_of(nn, o, &in) ? NULL : zt_nn_prog(nn, &in);
}

/* The same, with the layers' outputs after y. */
static zt_prog *observed(train_learner *l, const train_options *o)
{
    zt_ctx *ctx = l->cli->ctx;
    zt_nn_shape in;
    size_t n = (size_t)zt_nn_count(l->nn) + 1;
    int *gives = zt_calloc(ctx, n, sizeof *gives);
    l->seen = zt_calloc(ctx, n, sizeof *l->seen);
    zt_prog *p = gives && l->seen && !input_of(l->nn, o, &in) ? zt_prog_new(ctx) : NULL;
    if (p) in.dim[0] = zt_prog_symbol(p, "n");
    int x = p ? zt_prog_in(p, "x", ZT_F32, in.rank, in.dim) : -1;
    int y = x < 0 ? -1 : zt_nn_emit(l->nn, p, x, gives);
    bool good = y >= 0 && !zt_prog_out(p, "y", y) && !put_layers(l, p, gives);
    zt_free(ctx, gives);
    if (good) return p;
    zt_prog_free(p);
    return NULL;
}

/* To be trained masters are what counts; to be judged, what the layers compute with. */
zt_status train_open_network(train_learner *l, const train_options *o)
{
    l->nn = o->make ? make(l->cli, o) : zt_nn_open(l->cli->ctx, o->model, l->cli->seed);
    zt_prog *p = !l->nn ? NULL : o->observe ? observed(l, o) : lowered(l->nn, o);
    l->forward = p ? train_with_loss(l->cli, p, o) : NULL;
    if (!l->forward) return zt_ctx_status(l->cli->ctx);
    zt_store masters = zt_nn_masters(l->nn);
    l->below = zt_nn_store(l->nn);
    return train_learner_weights(l, o->eval ? &l->below : &masters, is_weight);
}

int train_network_through(void *user, zt_prog *p, int state, const char *name)
{
    const train_learner *l = user;
    return zt_nn_through(l->nn, p, state, name);
}

zt_status train_put_network(train_learner *l)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < l->n && !s; i++)
        s = zt_nn_put(l->nn, l->weight[i].name, l->weight[i].value,
                      zt_type_count(&l->weight[i].type));
    return s;
}

zt_status train_write_network(train_learner *l, const char *path)
{
    zt_status s = train_put_network(l);
    zt_sink *sink = s ? NULL : zt_sink_open(l->cli->ctx, path, l->cli->force);
    if (!s) s = sink ? zt_nn_write(l->nn, sink) : zt_ctx_status(l->cli->ctx);
    if (!s) s = zt_sink_commit(sink);
    zt_sink_close(sink);
    return s;
}
