/* sequence.c - owns layers over a sequence: attention, RNN, LSTM.
 *
 * x is [n,s,k], n sequences; or rows [n,s*k] with s from the document. Attention takes [n,d]
 * for one sequence of n. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* [sequences, steps, width]; of attention without a number of steps [n,width] is one sequence. */
static nn_value split_sequences(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input, int64_t width, bool whole)
{
    int64_t row = zt_layer_row_count(&input), steps = row / width;
    bool one = whole && row == width && layer->seq_length <= 1;
    if (input.id < 0) return input;
    if (steps < 1 || row % width != 0)
        return zt_layer_refuse(lowering, layer, "the layer takes steps of %" PRId64 " numbers, got %" PRId64, width, row);
    if (!one && layer->seq_length > 1 && steps != layer->seq_length)
        return zt_layer_refuse(lowering, layer, "got %" PRId64 " steps, but the document says %" PRId64, steps,
                               layer->seq_length);
    return zt_layer_reshape(lowering, input, 3,
                            one ? (int64_t[]){1, input.dim[0], width} : (int64_t[]){input.dim[0], steps, width});
}

/* y [sequences, steps, k] under the dimensions that x had. */
static nn_value restore_shape(nn_lowering *lowering, nn_value output, nn_value input, int64_t taken)
{
    if (input.rank != 2) return output;
    return zt_layer_reshape(lowering, output, 2, (int64_t[]){input.dim[0], zt_layer_row_count(&input) / taken * output.dim[2]});
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Each row's place in its sequence, i32[rows]: counted, so that it needs no input. */
static int count_positions(nn_lowering *lowering, nn_value input, int64_t rows)
{
    int first = zt_program_slice(lowering->program, NULL, input.id, &(zt_slice_attrs){.axis = 2, .to = 1});
    int ones = zt_program_fill_like(lowering->program, NULL, first, &(zt_fill_like_attrs){1});
    int whole = zt_program_cast(lowering->program, NULL, ones, &(zt_cast_attrs){.to = {"i32"}, .saturate = 1});
    int count = zt_program_cumsum(lowering->program, NULL, whole, &(zt_cumsum_attrs){.axis = 1, .exclusive = 1});
    return zt_program_reshape(lowering->program, NULL, count, &(zt_reshape_attrs){{1, {rows}}});
}

static int64_t count_rows(const nn_lowering *lowering, const nn_value *input)
{
    return input->dim[0] == 1 ? input->dim[1] : zt_prog_dim(lowering->program, '*', input->dim[0], input->dim[1]);
}

/* One of q, k, v of rows: x w + b, with rotary embedding of the heads by the rows' positions. */
static int project_rotated(nn_lowering *lowering, const zt_nn_layer *layer, int input, int part, int positions)
{
    int64_t head_dim = layer->head_dim;
    int projected = zt_program_linear(lowering->program, NULL, input, zt_layer_weight(lowering, layer, part),
                                      zt_layer_weight(lowering, layer, 4 + part), NULL);
    zt_rope_attrs turn = zt_rope_defaults();
    turn.head = head_dim;
    turn.dims = head_dim - head_dim % 2; /* of an odd number of columns the last stays, and angles are D's */
    turn.theta = head_dim % 2 ? pow(layer->rope_freq_base, (double)turn.dims / (double)head_dim) : layer->rope_freq_base;
    return positions >= 0 ? zt_program_rope(lowering->program, NULL, projected, positions, ZT_NONE, &turn) : projected;
}

/* The same as [sequences, steps, heads, head_dim]. */
static int project_heads(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input, int part, int64_t head_count,
                         int positions)
{
    int rows = zt_layer_reshape(lowering, input, 2, (int64_t[]){count_rows(lowering, &input), input.dim[2]}).id;
    int projected = project_rotated(lowering, layer, rows, part, positions);
    return zt_program_reshape(lowering->program, NULL, projected,
                              &(zt_reshape_attrs){{4, {input.dim[0], input.dim[1], head_count, layer->head_dim}}});
}

static bool has_rope(const zt_nn_layer *layer) { return layer->rope_freq_base > 0 && layer->head_dim > 1; }

/* ---- with a cache ---- */

/* Where the rows stand in their sequence is an input, the same for all layers. */
static int get_positions(nn_lowering *lowering, nn_value input)
{
    int positions = zt_prog_find(lowering->program, "pos");
    return positions >= 0 ? positions : zt_prog_in(lowering->program, "pos", ZT_I32, 1, input.dim);
}

/* A state of the layer, "layers.3.k_cache", of its second use "layers.3.k_cache.2", and x's rows in
 * it from now on. */
static int cache_rows(nn_lowering *lowering, const zt_nn_layer *layer, const char *what, int rows, int positions)
{
    char name[1 << 12];
    int64_t dim[2] = {layer->max_seq_len, layer->num_kv_heads * layer->head_dim};
    if (!layer->max_seq_len) dim[0] = zt_prog_symbol(lowering->program, "ctx");
    snprintf(name, sizeof name, "%s.%s", layer->path, what);
    for (int k = 2; zt_prog_find(lowering->program, name) >= 0; k++)
        snprintf(name, sizeof name, "%s.%s.%d", layer->path, what, k);
    int cache = zt_prog_state(lowering->program, name, ZT_F32, 2, dim);
    int after = zt_program_kv_put(lowering->program, NULL, cache, rows, positions, ZT_NONE, ZT_NONE);
    return cache >= 0 && after >= 0 && !zt_prog_keep(lowering->program, cache, after) ? after : -1;
}

/* x [n,d], rows of one sequence, of which those before are in the caches. */
static nn_value attend_cached(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    int positions = get_positions(lowering, input), rotation = has_rope(layer) ? positions : ZT_NONE;
    int query = project_rotated(lowering, layer, input.id, 0, rotation);
    int key = cache_rows(lowering, layer, "k_cache", project_rotated(lowering, layer, input.id, 1, rotation), positions);
    int value = cache_rows(lowering, layer, "v_cache", project_rotated(lowering, layer, input.id, 2, ZT_NONE), positions);
    zt_attention_attrs attrs = {.head = layer->head_dim};
    input.id = zt_program_attention(lowering->program, NULL, query, key, value, positions, ZT_NONE, ZT_NONE, &attrs);
    input.id = zt_program_linear(lowering->program, NULL, input.id, zt_layer_weight(lowering, layer, 3),
                                 zt_layer_weight(lowering, layer, 7), NULL);
    return input;
}

nn_value zt_layer_emit_attention(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    int64_t width = layer->d_model;
    if (layer->num_heads * layer->head_dim != width || layer->num_heads % layer->num_kv_heads)
        return zt_layer_refuse(lowering, layer,
                               "d_model %" PRId64 " is not num_heads %" PRId64 " times head_dim %" PRId64
                               ", or num_heads is not a multiple of num_kv_heads %" PRId64,
                               width, layer->num_heads, layer->head_dim, layer->num_kv_heads);
    nn_value sequences = split_sequences(lowering, layer, input, width, true);
    if (sequences.id < 0) return sequences;
    if (lowering->options->cache && sequences.dim[0] == 1 && zt_layer_row_count(&input) == width && layer->seq_length <= 1) {
        nn_value attended =
            attend_cached(lowering, layer, zt_layer_reshape(lowering, input, 2, (int64_t[]){input.dim[0], width}));
        return zt_layer_reshape(lowering, attended, input.rank, input.dim);
    }
    int64_t rows = count_rows(lowering, &sequences);
    int positions = has_rope(layer) ? count_positions(lowering, sequences, rows) : ZT_NONE;
    int query = project_heads(lowering, layer, sequences, 0, layer->num_heads, positions);
    int key = project_heads(lowering, layer, sequences, 1, layer->num_kv_heads, positions);
    int value = project_heads(lowering, layer, sequences, 2, layer->num_kv_heads, ZT_NONE);
    zt_sdpa_attrs attrs = zt_sdpa_defaults();
    attrs.causal = 1;
    attrs.layout = (zt_enum_string){"bshd"};
    int attended = zt_program_sdpa(lowering->program, NULL, query, key, value, ZT_NONE, ZT_NONE, &attrs, NULL);
    attended = zt_program_reshape(lowering->program, NULL, attended, &(zt_reshape_attrs){{2, {rows, width}}});
    attended = zt_program_linear(lowering->program, NULL, attended, zt_layer_weight(lowering, layer, 3),
                                 zt_layer_weight(lowering, layer, 7), NULL);
    return zt_layer_reshape(lowering, (nn_value){attended, 2, {rows, width}}, input.rank, input.dim);
}

/* ---- recurrences ----------------------------------------------------------------------------- */

/* The ops take [steps, sequences, k]. */
static int swap_sequence_axes(nn_lowering *lowering, int value)
{
    return zt_program_transpose(lowering->program, NULL, value, &(zt_transpose_attrs){{3, {1, 0, 2}}});
}

nn_value zt_layer_emit_rnn(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = split_sequences(lowering, layer, input, layer->input_height, false);
    int hidden = zt_program_rnn(lowering->program, NULL, swap_sequence_axes(lowering, output.id),
                                zt_layer_weight(lowering, layer, 0), zt_layer_weight(lowering, layer, 1),
                                zt_layer_weight(lowering, layer, 2), ZT_NONE, ZT_NONE, NULL, NULL, NULL);
    output.id = swap_sequence_axes(lowering, hidden);
    output.dim[2] = layer->output_height;
    return restore_shape(lowering, output, input, layer->input_height);
}

/* A weight of the four gates, one below the other. */
static int concat_gates(nn_lowering *lowering, const zt_nn_layer *layer, int part)
{
    return zt_program_concat(lowering->program, NULL, zt_layer_weight(lowering, layer, part),
                             zt_layer_weight(lowering, layer, part + 3), zt_layer_weight(lowering, layer, part + 6),
                             zt_layer_weight(lowering, layer, part + 9), ZT_NONE, NULL);
}

nn_value zt_layer_emit_lstm(nn_lowering *lowering, const zt_nn_layer *layer, nn_value input)
{
    nn_value output = split_sequences(lowering, layer, input, layer->input_height, false);
    int hidden = zt_program_lstm(lowering->program, NULL, swap_sequence_axes(lowering, output.id),
                                 concat_gates(lowering, layer, 0), concat_gates(lowering, layer, 1),
                                 concat_gates(lowering, layer, 2), ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, NULL, NULL, NULL, NULL);
    output.id = swap_sequence_axes(lowering, hidden);
    output.dim[2] = layer->output_height;
    return restore_shape(lowering, output, input, layer->input_height);
}
