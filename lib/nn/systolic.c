/* systolic.c - owns systolic runs: a clock by which all places of the grid run at once, each on
 * what another held after the cycle before. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* What the grid's places hold, by zt_layer_index; rank 0: nothing yet. */
typedef struct mesh_state {
    nn_lowering *lowering;
    int64_t place_count;
    nn_value input; /* what the first place reads where x is held */
    nn_value *now, *next;
} mesh_state;

/* What place i reads: of a link its target, else the place before it; the first place itself, or x. */
static const nn_value *find_source(const mesh_state *mesh, const zt_nn_layer *layer, int64_t place)
{
    int64_t source = place ? place - 1 : 0;
    for (int k = 0; layer && layer->is_link && !layer->disabled && k < 4; k++)
        if (layer->target[k] >= mesh->lowering->network->extent[k])
            return zt_layer_bad(mesh->lowering->network, layer,
                                "the link's target %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 " is outside the grid",
                                layer->target[0], layer->target[1], layer->target[2], layer->target[3]),
                   NULL;
    bool link = layer && layer->is_link && !layer->disabled;
    if (link) source = zt_layer_index(mesh->lowering->network, layer->target);
    return place == 0 && !link && mesh->lowering->options->held ? &mesh->input : &mesh->now[source];
}

/* All places at once: nothing of this cycle is read. */
static bool run_cycle(mesh_state *mesh)
{
    const zt_nn *network = mesh->lowering->network;
    for (int64_t place_index = 0, layer_index = 0; place_index < mesh->place_count; place_index++) {
        const zt_nn_layer *layer = layer_index < network->layer_count ? network->layers[layer_index] : NULL;
        if (layer && zt_layer_index(network, layer->place) != place_index) layer = NULL;
        layer_index += layer != NULL;
        const nn_value *input = find_source(mesh, layer, place_index);
        if (!input) return false;
        mesh->next[place_index] = input->rank == 0 ? mesh->now[place_index]
                                  : layer          ? zt_layer_of_grid(mesh->lowering, layer, *input)
                                                   : *input;
        if (input->rank > 0 && mesh->next[place_index].id < 0) return false;
    }
    memcpy(mesh->now, mesh->next, (size_t)mesh->place_count * sizeof *mesh->now);
    return true;
}

/* The last place's value; none and a message where it has none. */
static nn_value run_cycles(mesh_state *mesh, nn_value input, int64_t cycles, int *each)
{
    for (int64_t i = 0; i < mesh->place_count; i++) mesh->now[i] = zt_layer_none();
    mesh->input = input;
    if (!mesh->lowering->options->held) mesh->now[0] = input;
    for (int64_t cycle = 0; cycle < cycles; cycle++) {
        if (!run_cycle(mesh)) return zt_layer_none();
        for (int64_t i = 0; each && i < mesh->place_count; i++) each[cycle * mesh->place_count + i] = mesh->now[i].id;
    }
    const nn_value *last = &mesh->now[mesh->place_count - 1];
    if (last->rank == 0)
        zt_fail(mesh->lowering->network->ctx, ZT_EUSAGE,
                "%s: no output after %" PRId64 " cycles: the last layer has not been reached", mesh->lowering->network->name,
                cycles);
    return *last;
}

nn_value zt_layer_clock(nn_lowering *lowering, nn_value input, int64_t cycles, int *each)
{
    const zt_nn *network = lowering->network;
    mesh_state mesh = {.lowering = lowering, .place_count = 1};
    for (int k = 0; k < 4; k++) mesh.place_count *= network->extent[k]; /* reading has bounded it */
    if (cycles > NN_MAX_RUNS / mesh.place_count) {
        zt_fail(network->ctx, ZT_EUSAGE, "%s: too many cycles: %" PRId64 " cycles times %" PRId64 " places exceeds %d",
                network->name, cycles, mesh.place_count, NN_MAX_RUNS);
        return zt_layer_none();
    }
    mesh.now = zt_calloc(network->ctx, 2 * (size_t)mesh.place_count, sizeof *mesh.now);
    mesh.next = mesh.now ? mesh.now + mesh.place_count : NULL;
    nn_value output = mesh.now ? run_cycles(&mesh, input, cycles, each) : zt_layer_none();
    zt_free(network->ctx, mesh.now);
    return output;
}
