/* lower.c - owns the way from a network to a program: the grid in its order, links, and the small
 * writers of ops that layers are made with. */
#include "lib/base/require.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define MAX_ROW ((int64_t)1 << 40)

nn_value zt_layer_none(void) { return (nn_value){.id = -1}; }

nn_value zt_layer_refuse(const nn_lowering *lowering, const zt_nn_layer *layer, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    zt_layer_vbad(lowering->network, layer, fmt, args);
    va_end(args);
    return zt_layer_none();
}

/* ---- shapes ---------------------------------------------------------------------------------- */

int64_t zt_layer_row_count(const nn_value *input)
{
    int64_t count = 1;
    for (int axis = 1; axis < input->rank; axis++) count *= input->dim[axis];
    return count;
}

int64_t zt_layer_rows(const nn_lowering *lowering, const nn_value *input, int64_t each)
{
    return each == 1 ? input->dim[0] : zt_prog_dim(lowering->program, '*', input->dim[0], each);
}

nn_value zt_layer_reshape(nn_lowering *lowering, nn_value input, int rank, const int64_t *dim)
{
    zt_reshape_attrs attrs = {.shape = {.n = rank}};
    nn_value output = {.id = input.id, .rank = rank};
    bool same = input.rank == rank;
    for (int axis = 0; axis < rank; axis++) {
        attrs.shape.dim[axis] = output.dim[axis] = dim[axis];
        same = same && input.dim[axis] == dim[axis];
    }
    if (input.id >= 0 && !same) output.id = zt_program_reshape(lowering->program, NULL, input.id, &attrs);
    return output;
}

nn_value zt_layer_matrix(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input, int64_t columns)
{
    int64_t row = zt_layer_row_count(&input);
    if (input.id < 0) return input;
    if (row != columns && (input.rank < 2 || input.dim[input.rank - 1] != columns))
        return zt_layer_refuse(lowering, layer, "the layer takes %" PRId64 " numbers, got %" PRId64, columns, row);
    return zt_layer_reshape(lowering, input, 2, (int64_t[]){zt_layer_rows(lowering, &input, row / columns), columns});
}

nn_value zt_layer_like(nn_lowering *lowering, nn_value output, nn_value input, int64_t taken, int64_t columns)
{
    int64_t dim[ZT_MAX_RANK] = {input.dim[0]};
    if (zt_layer_row_count(&input) == taken) return zt_layer_reshape(lowering, output, 2, (int64_t[]){input.dim[0], columns});
    memcpy(dim, input.dim, sizeof dim);
    dim[input.rank - 1] = columns;
    return zt_layer_reshape(lowering, output, input.rank, dim);
}

/* ---- ops ------------------------------------------------------------------------------------- */

nn_value zt_layer_unary(nn_lowering *lowering, zt_op op, const void *attrs, nn_value input)
{
    int inputs[ZT_MAX_IN], out[ZT_MAX_OUT];
    const char *names[ZT_MAX_OUT] = {NULL, "_", "_", "_", "_", "_"};
    for (int k = 1; k < ZT_MAX_IN; k++) inputs[k] = ZT_NONE;
    inputs[0] = input.id;
    if (input.id >= 0) input.id = zt_prog_op(lowering->program, op, attrs, inputs, names, out) == ZT_OK ? out[0] : -1;
    return input;
}

nn_value zt_layer_binary(nn_lowering *lowering, zt_op op, nn_value left, nn_value right)
{
    int inputs[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 2; k < ZT_MAX_IN; k++) inputs[k] = ZT_NONE;
    inputs[0] = left.id;
    inputs[1] = right.id;
    bool valid = left.id >= 0 && right.id >= 0;
    left.id = valid && zt_prog_op(lowering->program, op, NULL, inputs, NULL, out) == ZT_OK ? out[0] : -1;
    return left;
}

nn_value zt_layer_activate(nn_lowering *lowering, zt_nn_act act, nn_value input)
{
    static const zt_op ops[] = {ZT_OP_relu, ZT_OP_silu, ZT_OP_gelu, ZT_OP_tanh, ZT_OP_sigmoid};
    return act == ZT_NN_LINEAR ? input : zt_layer_unary(lowering, ops[act], NULL, input);
}

int zt_layer_weight(nn_lowering *lowering, const zt_nn_layer *layer, int part)
{
    const zt_nn_weight *weight = &lowering->network->weights[layer->first_weight + part];
    int *data = &lowering->data[layer->first_weight + part];
    if (*data < 0)
        *data =
            zt_prog_data(lowering->program, weight->name, weight->type.dtype, weight->type.rank, weight->type.dim, weight->name);
    return *data;
}

int zt_layer_mask(nn_lowering *lowering, const zt_nn_layer *layer)
{
    int *data = &lowering->data[lowering->network->weight_count + layer->mask_index];
    const char *name = *data < 0 ? zt_layer_mask_name(lowering->network, layer) : NULL;
    if (name) *data = zt_prog_data(lowering->program, name, ZT_F32, 1, &layer->mask_count, name);
    return *data;
}

/* ---- layers ---------------------------------------------------------------------------------- */

nn_value zt_layer_run(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    const nn_kind *kind = zt_layer_kind_of(layer->kind);
    if (layer->disabled || input.id < 0) return input;
    if (++lowering->layer_runs > NN_MAX_RUNS)
        return zt_layer_refuse(lowering, layer, "links expand the network to more than %d layers", NN_MAX_RUNS);
    nn_value output = kind->emit(lowering, layer, input);
    int64_t count = 1;
    for (int axis = 1; axis < output.rank && output.id >= 0; axis++)
        if (!zt_mul_i64(count, output.dim[axis], &count) || count > MAX_ROW)
            return zt_layer_refuse(lowering, layer, "the output has more than 2^40 numbers per row");
    return kind->has_activation ? zt_layer_activate(lowering, layer->activation, output) : output;
}

/* What a link stands for: the layer at its target, which may be none that is being run. */
static const zt_nn_layer *follow_link(const nn_lowering *lowering, const zt_nn_layer *layer)
{
    const zt_nn_layer *target = layer->is_link ? zt_nn_find(lowering->network, layer->target) : layer;
    if (!target)
        return zt_layer_refuse(lowering, layer, "the link's target %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 " is empty",
                               layer->target[0], layer->target[1], layer->target[2], layer->target[3]),
               NULL;
    for (int i = 0; i < lowering->depth; i++)
        if (lowering->stack[i] == target)
            return zt_layer_refuse(lowering, layer, "the link forms a cycle through %s", target->path), NULL;
    return target;
}

nn_value zt_layer_layer(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    const zt_nn_layer *target = input.id < 0 ? NULL : follow_link(lowering, layer);
    if (!target) return zt_layer_none();
    if (lowering->depth == NN_MAX_DEPTH) return zt_layer_refuse(lowering, layer, "layers are nested too deeply");
    lowering->stack[lowering->depth++] = target;
    nn_value output = zt_layer_run(lowering, target, input);
    lowering->depth--;
    return output;
}

nn_value zt_layer_of_grid(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    lowering->stack[0] = layer;
    lowering->depth = 1;
    lowering->skip = NULL;
    return zt_layer_run(lowering, layer, input);
}

/* In the grid a link means something to the clock of systolic runs alone. */
static nn_value run_grid(nn_lowering *lowering, nn_value input, int *layer)
{
    for (int64_t layer_index = 0; layer_index < lowering->network->layer_count && input.id >= 0; layer_index++) {
        input = zt_layer_of_grid(lowering, lowering->network->layers[layer_index], input);
        if (layer) layer[layer_index] = input.id;
    }
    return input;
}

int zt_nn_emit_as(const zt_nn *network, zt_prog *program, int input, const zt_nn_options *options, int *each)
{
    if (!network) return -1;
    ZT_REQUIRE(network->ctx, program && options && input < zt_prog_n_values(program), -1);
    nn_lowering lowering = {.network = network, .options = options, .program = program};
    if (input < 0) return -1;
    if (options->cycles && options->cache)
        return zt_fail(network->ctx, ZT_EUSAGE, "%s: a clocked mesh does not support a cache", network->name), -1;
    const zt_type *type = &zt_prog_value(program, input)->type;
    nn_value value = {.id = input, .rank = type->rank};
    memcpy(value.dim, type->dim, sizeof value.dim);
    int64_t n_data = network->weight_count + network->masked_count;
    lowering.data = zt_alloc_array(network->ctx, (size_t)n_data + 1, sizeof *lowering.data);
    if (!lowering.data) return -1;
    for (int64_t i = 0; i < n_data; i++) lowering.data[i] = -1;
    value = options->cycles ? zt_layer_clock(&lowering, value, options->cycles, each) : run_grid(&lowering, value, each);
    zt_free(network->ctx, lowering.data);
    return value.id;
}

int zt_nn_emit(const zt_nn *network, zt_prog *program, int input, int *layer)
{
    if (!network) return -1;
    ZT_REQUIRE(network->ctx, program, -1);
    return zt_nn_emit_as(network, program, input, &(zt_nn_options){0}, layer);
}

/* ---- programs -------------------------------------------------------------------------------- */

static zt_status find_layer_input(const zt_nn *network, const zt_nn_layer *layer, const nn_kind *kind, zt_nn_shape *shape)
{
    return kind->find_input(layer, shape)
               ? ZT_OK
               : zt_layer_bad(network, layer, "the input size does not follow from the layer's parameters");
}

static const zt_nn_layer *find_enabled(const zt_nn *network, int64_t index)
{
    while (index < network->layer_count && network->layers[index]->disabled) index++;
    return index < network->layer_count ? network->layers[index] : NULL;
}

/* The numbers in a row of the layer's input, from its own members; 0: these do not say. */
static int64_t find_input_width(const zt_nn_layer *layer)
{
    for (int depth = 0; layer && depth < NN_MAX_DEPTH && (layer->step_count || layer->branch_count); depth++)
        layer = layer->step_count ? layer->steps : layer->branches;
    static const zt_nn_kind of_numbers[] = {ZT_NN_DENSE, ZT_NN_SWIGLU, ZT_NN_RMSNORM, ZT_NN_LAYERNORM, ZT_NN_KMEANS};
    if (!layer || layer->is_link) return 0;
    if (layer->kind == ZT_NN_RNN || layer->kind == ZT_NN_LSTM) return layer->seq_length * layer->input_height;
    for (size_t i = 0; i < sizeof of_numbers / sizeof *of_numbers; i++)
        if (layer->kind == of_numbers[i]) return layer->input_height;
    return 0;
}

/* An embedding takes its seq_length ids a row or, where it has none, as many as the layer behind it
 * has a place for. */
static void set_ids(const zt_nn_layer *layer, const zt_nn_layer *behind, zt_nn_shape *shape)
{
    int64_t need = find_input_width(behind), width = layer->embedding_dim, ids = layer->seq_length;
    if (ids < 2 && width > 0 && need % width == 0) ids = need / width;
    if (ids > 1) *shape = (zt_nn_shape){.rank = 2, .dim = {0, ids}};
}

zt_status zt_nn_input(const zt_nn *network, zt_nn_shape *shape)
{
    if (!network) return ZT_EUSAGE;
    ZT_REQUIRE(network->ctx, shape, ZT_EUSAGE);
    int64_t i = 0;
    *shape = (zt_nn_shape){.rank = 1};
    while (i < network->layer_count && network->layers[i]->disabled) i++;
    const zt_nn_layer *layer = i < network->layer_count ? network->layers[i] : NULL, *behind = find_enabled(network, i + 1);
    for (int depth = 0; layer && depth < NN_MAX_DEPTH; depth++) {
        const nn_kind *kind = zt_layer_kind_of(layer->kind);
        bool within = depth > 0; /* a link in the grid has numbers of its own, one among branches its target's */
        if (within && layer->is_link) {
            layer = zt_nn_find(network, layer->target);
            continue;
        }
        if (kind->find_input) {
            zt_status status = find_layer_input(network, layer, kind, shape);
            if (!status && layer->kind == ZT_NN_EMBEDDING) set_ids(layer, behind, shape);
            return status;
        }
        if (layer->step_count > 1) behind = &layer->steps[1];
        if (!layer->step_count) behind = NULL; /* the layer behind takes all branches together */
        layer = layer->step_count ? layer->steps : layer->branch_count ? layer->branches : NULL;
    }
    if (layer) return zt_layer_bad(network, layer, "the link forms a cycle, or layers are nested too deeply");
    return zt_fail(network->ctx, ZT_EDATA, "%s: the input size does not follow from the first layer", network->name);
}

zt_prog *zt_nn_prog(const zt_nn *network, const zt_nn_shape *shape)
{
    return network ? zt_nn_prog_as(network, &(zt_nn_options){.input = shape}) : NULL;
}

zt_prog *zt_nn_prog_as(const zt_nn *network, const zt_nn_options *options)
{
    if (!network) return NULL;
    ZT_REQUIRE(network->ctx, options, NULL);
    zt_nn_shape own;
    const zt_nn_shape *shape = options->input ? options->input : &own;
    if (!options->input && zt_nn_input(network, &own)) return NULL;
    zt_prog *program = zt_prog_new(network->ctx);
    if (!program) return NULL;
    int64_t dim[ZT_MAX_RANK];
    memcpy(dim, shape->dim, sizeof dim);
    dim[0] = zt_prog_symbol(program, "n");
    int input = zt_prog_in(program, "x", ZT_F32, shape->rank, dim),
        output = zt_nn_emit_as(network, program, input, options, NULL);
    if (output >= 0 && zt_prog_out(program, "y", output) == ZT_OK) return program;
    zt_prog_free(program);
    return NULL;
}
