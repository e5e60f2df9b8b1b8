/* mutate.c - owns mutations of networks: which layers change, and how a new layer is sized. */
#include "lib/nn/mutate.h"
#include "lib/base/require.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The draws of one layer; the network's own draws are those of layer -1. */
enum { DRAW_PERTURB, DRAW_ACTIVATION, DRAW_ACTIVATION_IS, DRAW_KIND, DRAW_KIND_IS, DRAW_TOGGLE, DRAW_LINK, DRAW_LINK_IS, DRAWS };

typedef struct mutator {
    zt_nn *network;
    const zt_nn_mutation *how;
    zt_nn_mutated counts;
    nn_value *values; /* [layer_count + 1] the input of each layer, and the output */
    int64_t inputs, outputs;
} mutator;

zt_nn_mutation zt_nn_mutation_defaults(void)
{
    uint32_t all = (UINT32_C(1) << ZT_NN_KINDS) - 1;
    return (zt_nn_mutation){.perturb_rate = 0.8,
                            .perturb_scale = 0.05,
                            .weight_rate = 1,
                            .activation_rate = 0.1,
                            .kind_rate = 0.1,
                            .toggle_rate = 0.02,
                            .link_add_rate = 0.05,
                            .link_drop_rate = 0.02,
                            .kinds = all & ~(UINT32_C(1) << ZT_NN_PARALLEL | UINT32_C(1) << ZT_NN_SEQUENTIAL)};
}

zt_nn_new_sizes zt_nn_new_sizes_of(int64_t width)
{
    return (zt_nn_new_sizes){
        .heads = width < 4 ? 1 : 4, .filters = width < 8 ? 1 : width / 4, .kernel_size = 3, .vocab_size = 256};
}

/* ---- draws ----------------------------------------------------------------------------------- */

static double draw(const mutator *state, int64_t layer, int what)
{
    return zt_uniform(state->how->seed, (uint64_t)(layer + 1), (uint64_t)what);
}

static bool happens(const mutator *state, int64_t layer, int what, double rate) { return draw(state, layer, what) < rate; }

/* An integer from 0 to count - 1. */
static int64_t draw_below(const mutator *state, int64_t layer, int what, int64_t count)
{
    int64_t index = (int64_t)(draw(state, layer, what) * (double)count);
    return index < count ? index : count - 1;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Lowers the grid into `program`, and keeps the shapes of the layers' inputs. */
static bool lower_grid(mutator *state, zt_prog *program, int *data)
{
    const zt_nn *network = state->network;
    zt_nn_shape shape;
    zt_nn_options options = {.cycles = 0};
    nn_lowering lowering = {.network = network, .options = &options, .program = program, .data = data};
    if (zt_nn_input(network, &shape) != ZT_OK) return false;
    shape.dim[0] = zt_prog_symbol(program, "n");
    nn_value value = {.id = zt_prog_in(program, "x", ZT_F32, shape.rank, shape.dim), .rank = shape.rank};
    memcpy(value.dim, shape.dim, sizeof value.dim);
    for (int64_t i = 0; i < network->layer_count && value.id >= 0; i++) {
        state->values[i] = value;
        value = zt_layer_of_grid(&lowering, network->layers[i], value);
    }
    state->values[network->layer_count] = value;
    return value.id >= 0 && zt_prog_out(program, "y", value.id) == ZT_OK;
}

/* Are the ops' own rules kept for two rows? */
static bool binds(const zt_prog *program)
{
    zt_bound *bound = zt_prog_bind(program, &(zt_binding){"n", 2}, 1);
    zt_bound_free(bound);
    return bound != NULL;
}

/* Can the network be lowered? The error is in the context. */
static bool lowers(mutator *state)
{
    const zt_nn *network = state->network;
    int64_t data_count = network->weight_count + network->masked_count;
    zt_prog *program = zt_prog_new(network->ctx);
    int *data = program ? zt_alloc_array(network->ctx, (size_t)data_count + 1, sizeof *data) : NULL;
    for (int64_t i = 0; data && i < data_count; i++) data[i] = -1;
    bool valid = data && lower_grid(state, program, data) && binds(program);
    zt_free(network->ctx, data);
    zt_prog_free(program);
    return valid;
}

/* Does the network still run, with as many inputs and outputs? */
static bool still_runs(mutator *state)
{
    return lowers(state) && zt_layer_row_count(&state->values[0]) == state->inputs &&
           zt_layer_row_count(&state->values[state->network->layer_count]) == state->outputs;
}

/* Clears the error of a mutation that does not fit, which is not an error of the caller. */
static zt_status clear_misfit(zt_ctx *ctx)
{
    if (zt_ctx_status(ctx) != ZT_ENOMEM) zt_ctx_clear(ctx);
    return zt_ctx_status(ctx);
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef zt_status visit_fn(mutator *state, zt_nn_layer *layer);

/* The layer, then the layers inside it. */
static zt_status visit_layers(mutator *state, zt_nn_layer *layer, visit_fn *visit)
{
    zt_status status = visit(state, layer);
    for (int64_t i = 0; i < layer->branch_count && !status; i++) status = visit_layers(state, &layer->branches[i], visit);
    for (int64_t i = 0; i < layer->step_count && !status; i++) status = visit_layers(state, &layer->steps[i], visit);
    return layer->gate && !status ? visit_layers(state, layer->gate, visit) : status;
}

double zt_nn_noise_at(zt_nn_noise noise, uint64_t seed, uint64_t sequence, uint64_t position)
{
    const double pi = 3.14159265358979323846;
    if (noise == ZT_NN_NOISE_NORMAL) return zt_normal(seed, sequence, position);
    double drawn = zt_uniform(seed, sequence, position);
    return noise == ZT_NN_NOISE_CAUCHY ? tan(pi * (drawn - 0.5)) : 2 * drawn - 1;
}

/* Sequences above those of the layers' draws, for each weight: its noise, whether it changes, its new value. */
enum { SEQUENCE_NOISE = 1, SEQUENCE_WHETHER, SEQUENCE_NEW };

static uint64_t sequence_of(int what, int64_t weight) { return (uint64_t)what << 40 | (uint64_t)weight; }

/* How a number of a weight changes: it is drawn anew, gets noise, or stays. */
typedef enum number_change { NUMBER_STAYS, NUMBER_NOISE, NUMBER_NEW } number_change;

static number_change draw_change(const zt_nn_mutation *how, int64_t k, uint64_t i)
{
    if (how->replace_rate <= 0 && how->weight_rate >= 1) return NUMBER_NOISE;
    double drawn = zt_uniform(how->seed, sequence_of(SEQUENCE_WHETHER, k), i);
    if (drawn < how->replace_rate) return NUMBER_NEW;
    return drawn < how->replace_rate + (1 - how->replace_rate) * how->weight_rate ? NUMBER_NOISE : NUMBER_STAYS;
}

static void perturb_weight(const zt_nn_mutation *how, const nn_part *part, int64_t k, const zt_nn_weight *weight)
{
    double limit = zt_layer_draw_limit(part);
    for (int64_t i = 0; i < zt_type_count(&weight->type); i++) {
        number_change change = draw_change(how, k, (uint64_t)i);
        float *value = &weight->values[i], changed = *value;
        if (change == NUMBER_NEW)
            changed = zt_layer_draw_number(part, limit, how->seed, sequence_of(SEQUENCE_NEW, k), (uint64_t)i);
        else if (change == NUMBER_NOISE)
            changed +=
                (float)(how->perturb_scale * zt_nn_noise_at(how->noise, how->seed, sequence_of(SEQUENCE_NOISE, k), (uint64_t)i));
        if (isfinite(changed)) *value = changed;
    }
}

static zt_status perturb_layer(mutator *state, zt_nn_layer *layer)
{
    nn_part parts[NN_MAX_PARTS];
    if (layer->weight_count == 0) return ZT_OK;
    zt_layer_kind_of(layer->kind)->list_parts(layer, parts);
    for (int64_t k = 0; k < layer->weight_count; k++)
        perturb_weight(state->how, &parts[k], layer->first_weight + k, &state->network->weights[layer->first_weight + k]);
    zt_layer_masters_changed(state->network, layer);
    return ZT_OK;
}

/* Moves the layer's weights behind those of the layers before it. */
static zt_status collect_weights(mutator *state, zt_nn_layer *layer)
{
    zt_nn *network = state->network;
    int64_t first = network->weight_count;
    for (int64_t k = 0; k < layer->weight_count; k++)
        network->weights[network->weight_count++] = network->weights[network->weight_capacity / 2 + layer->first_weight + k];
    layer->first_weight = first;
    return ZT_OK;
}

/* Weights of layers that were replaced leave the list. */
static zt_status drop_orphans(mutator *state)
{
    zt_nn *network = state->network;
    int64_t count = network->weight_count;
    if (count == 0) return ZT_OK;
    zt_nn_weight *list = zt_realloc(network->ctx, network->weights, 2 * (size_t)count * sizeof *list);
    if (!list) return ZT_ENOMEM;
    network->weights = list;
    network->weight_capacity = 2 * count;
    memcpy(list + count, list, (size_t)count * sizeof *list);
    network->weight_count = 0;
    for (int64_t i = 0; i < network->layer_count; i++) visit_layers(state, network->layers[i], collect_weights);
    zt_map_free(network->weight_names);
    network->weight_names = NULL;
    return ZT_OK;
}

/* ---- another kind ---------------------------------------------------------------------------- */

/* Sets the numbers of a layer that makes `out` numbers from `in`; false: this kind cannot. */
typedef bool fit_fn(zt_nn_layer *layer, int64_t in, int64_t out);

static bool fit_any(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->input_height = in;
    layer->output_height = out;
    return true;
}

static bool fit_same(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->input_height = in;
    layer->output_height = out;
    return in == out;
}

static bool fit_attention(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->num_heads = zt_nn_new_sizes_of(in).heads;
    while (in % layer->num_heads) layer->num_heads--;
    layer->num_kv_heads = layer->num_heads;
    layer->d_model = in;
    return fit_same(layer, in, out);
}

static bool fit_swiglu(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->input_height = in;
    layer->output_height = 2 * in;
    return in == out;
}

/* A plane of `side` x 1 (x 1), which kernels of an odd size and this padding keep. */
static void set_planes(zt_nn_layer *layer, int64_t side)
{
    layer->kernel_size = zt_nn_new_sizes_of(side).kernel_size;
    layer->padding = layer->kernel_size / 2;
    layer->input_height = layer->input_width = layer->input_depth = 1;
    *(layer->kind == ZT_NN_CONVT1 ? &layer->input_width : &layer->input_height) = side;
}

/* Filters that a stride of as many makes up for; or as many more outputs; or one filter with a stride. */
static bool fit_conv(zt_nn_layer *layer, int64_t in, int64_t out)
{
    int64_t filters = zt_nn_new_sizes_of(in).filters;
    while (in % filters) filters--;
    layer->input_channels = 1;
    layer->filters = in == out ? filters : out > in ? out / in : 1;
    layer->stride = in == out ? filters : out > in ? 1 : in / out;
    set_planes(layer, in);
    return out > in ? out % in == 0 : in % out == 0;
}

/* Of n channels one filter, of one channel n. */
static bool fit_conv_transpose(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->input_channels = in > out ? in / out : 1;
    layer->filters = out > in ? out / in : 1;
    layer->stride = 1;
    set_planes(layer, in / layer->input_channels);
    return out > in ? out % in == 0 : in % out == 0;
}

static bool fit_embedding(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->vocab_size = zt_nn_new_sizes_of(in).vocab_size;
    layer->embedding_dim = out / in;
    layer->seq_length = in;
    return out % in == 0;
}

static bool fit_kmeans(zt_nn_layer *layer, int64_t in, int64_t out)
{
    layer->input_height = in;
    layer->output_height = layer->num_clusters = out;
    return true;
}

static fit_fn *const fits[ZT_NN_KINDS] = {[ZT_NN_DENSE] = fit_any,
                                          [ZT_NN_MHA] = fit_attention,
                                          [ZT_NN_SWIGLU] = fit_swiglu,
                                          [ZT_NN_RMSNORM] = fit_same,
                                          [ZT_NN_CNN1] = fit_conv,
                                          [ZT_NN_CNN2] = fit_conv,
                                          [ZT_NN_CNN3] = fit_conv,
                                          [ZT_NN_RNN] = fit_any,
                                          [ZT_NN_LSTM] = fit_any,
                                          [ZT_NN_LAYERNORM] = fit_same,
                                          [ZT_NN_CONVT1] = fit_conv_transpose,
                                          [ZT_NN_CONVT2] = fit_conv_transpose,
                                          [ZT_NN_CONVT3] = fit_conv_transpose,
                                          [ZT_NN_EMBEDDING] = fit_embedding,
                                          [ZT_NN_KMEANS] = fit_kmeans,
                                          [ZT_NN_SOFTMAX] = fit_same,
                                          [ZT_NN_RESIDUAL] = fit_same};

/* The layer as another kind; false: it does not fit. What does not belong to the kind is the default. */
static bool make_layer(const zt_nn_layer *layer, zt_nn_kind kind, int64_t in, int64_t out, zt_nn_layer *made)
{
    *made = (zt_nn_layer){.path = layer->path,
                          .kind = kind,
                          .activation = layer->activation,
                          .dtype = layer->dtype,
                          .scale = 1,
                          .rule = layer->dtype == ZT_STORE_F32 ? layer->rule : ZT_RULE_FIELD,
                          .disabled = layer->disabled,
                          .is_link = layer->is_link,
                          .combine = "concat"};
    memcpy(made->place, layer->place, sizeof made->place);
    memcpy(made->target, layer->target, sizeof made->target);
    bool fit = fits[kind] && in > 0 && out > 0 && fits[kind](made, in, out);
    if (fit) zt_layer_settle(made);
    return fit;
}

/* The sizes that a new layer has: those of the last dimension where the others are equal, else those of a row. */
static void find_sizes(const mutator *state, int64_t index, int64_t *in, int64_t *out)
{
    const nn_value *input = &state->values[index], *output = &state->values[index + 1];
    bool same = input->rank == output->rank && input->rank > 2;
    for (int axis = 1; same && axis < input->rank - 1; axis++) same = input->dim[axis] == output->dim[axis];
    *in = same ? input->dim[input->rank - 1] : zt_layer_row_count(input);
    *out = same ? output->dim[output->rank - 1] : zt_layer_row_count(output);
}

/* Replaces the layer; false: the network does not run with that kind, and is unchanged. */
static bool replace_layer(mutator *state, int64_t index, zt_nn_kind kind, zt_status *status)
{
    zt_nn *network = state->network;
    zt_nn_layer *layer = network->layers[index], before = *layer, made;
    int64_t in, out, weight_count = network->weight_count, master_count = network->master_count;
    find_sizes(state, index, &in, &out);
    if (!make_layer(layer, kind, in, out, &made)) return false;
    *layer = made;
    *status = zt_layer_take_weights(network, layer, NULL, false);
    if (*status == ZT_OK && still_runs(state)) return true;
    *layer = before;
    while (network->master_count > master_count) zt_free(network->ctx, network->masters[--network->master_count]);
    network->weight_count = weight_count;
    *status = clear_misfit(network->ctx);
    if (*status == ZT_OK && !lowers(state)) *status = zt_ctx_status(network->ctx); /* the shapes of before */
    return false;
}

/* Draws from the allowed kinds other than the layer's, until one fits. */
static zt_status change_kind(mutator *state, int64_t index)
{
    zt_nn_kind left[ZT_NN_KINDS];
    int64_t count = 0;
    zt_status status = ZT_OK;
    for (int kind = 0; kind < ZT_NN_KINDS; kind++)
        if (state->how->kinds >> kind & 1 && (zt_nn_kind)kind != state->network->layers[index]->kind)
            left[count++] = (zt_nn_kind)kind;
    if (count == 0) return ZT_OK;
    int64_t all = count;
    while (count && status == ZT_OK) {
        int64_t at = draw_below(state, index, DRAW_KIND_IS + DRAWS * (int)(all - count), count);
        if (replace_layer(state, index, left[at], &status)) {
            state->counts.kinds++;
            return ZT_OK;
        }
        left[at] = left[--count];
    }
    state->counts.undone++;
    return status;
}

/* ---- the other mutations --------------------------------------------------------------------- */

static void change_activation(mutator *state, int64_t index)
{
    zt_nn_layer *layer = state->network->layers[index];
    if (!zt_layer_kind_of(layer->kind)->has_activation) return;
    zt_nn_act drawn = (zt_nn_act)(ZT_NN_LINEAR + draw_below(state, index, DRAW_ACTIVATION_IS, ZT_NN_ACTS - ZT_NN_LINEAR));
    state->counts.activations += drawn != layer->activation;
    layer->activation = drawn;
}

static zt_status toggle_layer(mutator *state, int64_t index)
{
    zt_nn_layer *layer = state->network->layers[index];
    layer->disabled = !layer->disabled;
    if (still_runs(state)) {
        state->counts.toggles++;
        return ZT_OK;
    }
    layer->disabled = !layer->disabled;
    state->counts.undone++;
    zt_status status = clear_misfit(state->network->ctx);
    return status || lowers(state) ? status : zt_ctx_status(state->network->ctx);
}

static zt_status mutate_layer(mutator *state, int64_t index)
{
    const zt_nn_mutation *how = state->how;
    zt_status status = ZT_OK;
    if (happens(state, index, DRAW_PERTURB, how->perturb_rate)) {
        status = visit_layers(state, state->network->layers[index], perturb_layer);
        state->counts.perturbed++;
    }
    if (happens(state, index, DRAW_ACTIVATION, how->activation_rate)) change_activation(state, index);
    if (!status && happens(state, index, DRAW_KIND, how->kind_rate)) status = change_kind(state, index);
    if (!status && happens(state, index, DRAW_TOGGLE, how->toggle_rate)) status = toggle_layer(state, index);
    return status;
}

/* The index of layer number `nth` among those that are links, or are not. */
static int64_t find_nth(const zt_nn *network, bool links, int64_t nth)
{
    int64_t index = 0;
    while (network->layers[index]->is_link != links || nth-- > 0) index++;
    return index;
}

static int64_t count_links(const zt_nn *network)
{
    int64_t count = 0;
    for (int64_t i = 0; i < network->layer_count; i++) count += network->layers[i]->is_link;
    return count;
}

/* Can layer `index` read what layer `target` makes? */
static bool can_read(const mutator *state, int64_t index, int64_t target)
{
    return target != index && zt_layer_row_count(&state->values[target + 1]) == zt_layer_row_count(&state->values[index]);
}

/* A layer that is not a link becomes one to the place of another layer, which makes as many numbers as it takes. */
static void add_link(mutator *state)
{
    const zt_nn *network = state->network;
    int64_t count = network->layer_count - count_links(network), targets = 0, target = -1;
    if (count == 0) return;
    int64_t index = find_nth(network, false, draw_below(state, -1, DRAW_LINK_IS, count));
    for (int64_t i = 0; i < network->layer_count; i++) targets += can_read(state, index, i);
    if (targets == 0) return;
    int64_t nth = draw_below(state, -1, DRAW_LINK_IS + DRAWS, targets);
    do target++;
    while (!can_read(state, index, target) || nth-- > 0);
    network->layers[index]->is_link = true;
    memcpy(network->layers[index]->target, network->layers[target]->place, sizeof(int64_t[4]));
    state->counts.links_added++;
}

static void drop_link(mutator *state)
{
    int64_t count = count_links(state->network);
    if (count == 0) return;
    zt_nn_layer *layer =
        state->network->layers[find_nth(state->network, true, draw_below(state, -1, DRAW_LINK_IS + 2 * DRAWS, count))];
    layer->is_link = false;
    memset(layer->target, 0, sizeof layer->target);
    state->counts.links_dropped++;
}

static zt_status check_rates(const zt_nn *network, const zt_nn_mutation *how)
{
    const double rates[] = {how->perturb_rate, how->weight_rate, how->replace_rate,  how->activation_rate,
                            how->kind_rate,    how->toggle_rate, how->link_add_rate, how->link_drop_rate};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!(rates[i] >= 0 && rates[i] <= 1))
            return zt_fail(network->ctx, ZT_EUSAGE, "a mutation rate is %g: must be 0 to 1", rates[i]);
    return isfinite(how->perturb_scale) && how->perturb_scale >= 0
               ? ZT_OK
               : zt_fail(network->ctx, ZT_EUSAGE, "the perturbation scale is %g: must be at least 0", how->perturb_scale);
}

static zt_status mutate_network(mutator *state)
{
    zt_nn *network = state->network;
    if (!lowers(state)) return zt_ctx_status(network->ctx);
    state->inputs = zt_layer_row_count(&state->values[0]);
    state->outputs = zt_layer_row_count(&state->values[network->layer_count]);
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < network->layer_count && status == ZT_OK; i++) status = mutate_layer(state, i);
    if (status == ZT_OK && happens(state, -1, DRAW_LINK, state->how->link_add_rate)) add_link(state);
    if (status == ZT_OK && happens(state, -1, DRAW_LINK + DRAWS, state->how->link_drop_rate)) drop_link(state);
    return status == ZT_OK ? drop_orphans(state) : status;
}

zt_status zt_nn_mutate(zt_nn *network, const zt_nn_mutation *how, zt_nn_mutated *counts)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, how, ZT_EUSAGE);
    zt_status status = check_rates(network, how);
    if (status != ZT_OK) return status;
    mutator state = {.network = network, .how = how};
    network->seed = how->seed; /* of new weights */
    state.values = zt_calloc(network->ctx, (size_t)network->layer_count + 1, sizeof *state.values);
    status = state.values ? mutate_network(&state) : ZT_ENOMEM;
    zt_free(network->ctx, state.values);
    if (counts) *counts = state.counts;
    return status;
}
