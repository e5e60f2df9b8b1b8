/* onnx_recurrent.h - how the ops of golden/ops/onnx are spelled in zt: RNN, LSTM, GRU. */
#ifndef ZT_SPELL_ONNX_RECURRENT_H
#define ZT_SPELL_ONNX_RECURRENT_H

#include "tests/ops/spell/cells.h"

/* Where ONNX has the rows of our gate g: LSTM iofc, GRU zrh; peepholes iof. */
static const int lstm_order[] = {0, 2, 3, 1}, gru_order[] = {1, 0, 2}, rnn_order[] = {0};
static const int peep_order[] = {0, 2, 1};

/* x in `n` parts along its first axis, in our order. */
static int reordered(const call *node, int x, int64_t rows, const int *order, int n)
{
    int part[4];
    int64_t each = rows / n;
    if (n == 1) return x;
    for (int g = 0; g < n; g++) part[g] = sliced(node, x, 0, order[g] * each, (order[g] + 1) * each);
    return joined(node, part, n, 0);
}

/* Input i [dirs,a,b...] of direction d, as [a,b...]; state [N,dirs,H] with layout 1. */
static int of_direction(const call *node, int i, int64_t d, int axis)
{
    const zt_type *its_type = &node->type[i];
    int64_t dim[ZT_MAX_RANK], count = 0;
    if (!given(node, i)) return ZT_NONE;
    for (int k = 0; k < its_type->rank; k++)
        if (k != axis) dim[count++] = its_type->dim[k];
    return reshaped(node, sliced(node, node->in[i], axis, d, d + 1), (int)count, dim);
}

static cell_kind kind_of(const call *node)
{
    return !strcmp(node->op, "RNN") ? CELL_RNN : !strcmp(node->op, "LSTM") ? CELL_LSTM : CELL_GRU;
}

/* Activations of direction d: "Relu" of an RNN. */
static bool is_relu(const call *node, int64_t d)
{
    const json_t *names = json_object_get(node->attrs, "activations");
    const char *s = json_string_value(json_array_get(names, (size_t)d));
    return s && !strcmp(s, "Relu");
}

static direction read_direction(const call *node, cell_kind kind, int x, int64_t d, bool reverse)
{
    const int *order = kind == CELL_LSTM ? lstm_order : kind == CELL_GRU ? gru_order : rnn_order;
    int gates = kind == CELL_LSTM ? 4 : kind == CELL_GRU ? 3 : 1;
    int state = int_or(node, "layout", 0) ? 1 : 0;
    int64_t H = dim_of(node, 2, 2), rows = gates * H;
    direction v = {.x = x, .b_ih = ZT_NONE, .b_hh = ZT_NONE, .c0 = ZT_NONE, .peep = ZT_NONE};
    v.w = reordered(node, of_direction(node, 1, d, 0), rows, order, gates);
    v.r = reordered(node, of_direction(node, 2, d, 0), rows, order, gates);
    int b = of_direction(node, 3, d, 0);
    if (b != ZT_NONE) {
        v.b_ih = reordered(node, sliced(node, b, 0, 0, rows), rows, order, gates);
        v.b_hh = reordered(node, sliced(node, b, 0, rows, 2 * rows), rows, order, gates);
    }
    v.lengths = given(node, 4) ? node->in[4] : ZT_NONE;
    v.h0 = of_direction(node, 5, d, state);
    if (kind == CELL_LSTM) v.c0 = of_direction(node, 6, d, state);
    int p = kind == CELL_LSTM ? of_direction(node, 7, d, 0) : ZT_NONE;
    if (p != ZT_NONE) v.peep = reshaped(node, reordered(node, p, 3 * H, peep_order, 3), 2, (int64_t[]){3, H});
    v.reverse = reverse;
    v.relu = is_relu(node, d);
    v.before = int_or(node, "linear_before_reset", 0);
    return v;
}

static int build_recurrent(const call *node)
{
    cell_kind kind = kind_of(node);
    bool batch_first = int_or(node, "layout", 0);
    bool both = word_is(node, "direction", "bidirectional"), back = word_is(node, "direction", "reverse");
    int x = batch_first ? swapped(node, node->in[0]) : node->in[0], dirs = both ? 2 : 1;
    int y[2] = {0}, hn[2] = {0}, cn[2] = {0};
    int64_t T = dim_of(node, 0, batch_first), N = dim_of(node, 0, !batch_first), H = dim_of(node, 2, 2);
    const int64_t y_dim[] = {batch_first ? N : T, batch_first ? T : 1, batch_first ? 1 : N, H};
    const int64_t state[] = {batch_first ? N : 1, batch_first ? 1 : N, H};
    for (int d = 0; d < dirs; d++) {
        direction v = read_direction(node, kind, x, d, back || d == 1);
        run_direction(node, kind, &v);
        y[d] = reshaped(node, batch_first ? swapped(node, v.y) : v.y, 4, y_dim);
        hn[d] = reshaped(node, v.hn, 3, state);
        if (kind == CELL_LSTM) cn[d] = reshaped(node, v.cn, 3, state);
    }
    if (node->n_out > 1) node->more[0] = joined(node, hn, dirs, batch_first);
    if (node->n_out > 2 && kind == CELL_LSTM) node->more[1] = joined(node, cn, dirs, batch_first);
    return joined(node, y, dirs, batch_first ? 2 : 1);
}

/* Are a direction's activations the usual ones? Of RNN Relu too. */
static bool usual_activations(const call *node)
{
    static const char *const usual[][3] = {{"Tanh"}, {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh"}};
    static const int count[] = {1, 3, 2};
    const json_t *names = json_object_get(node->attrs, "activations");
    cell_kind k = kind_of(node);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *text = json_string_value(json_array_get(names, i));
        bool relu = k == CELL_RNN && text && !strcmp(text, "Relu");
        if (!text || (!relu && strcmp(text, usual[k][i % (size_t)count[k]]))) return false;
    }
    return true;
}

static const char *recurrent_without(const call *node)
{
    if (has_attr(node, "clip")) return "gates cut off at a limit (clip)";
    if (int_or(node, "input_forget", 0)) return "coupled input and forget gates (input_forget)";
    if (!usual_activations(node)) return "activations other than the operator's own";
    return node->type[0].dtype == ZT_F32 ? NULL : "recurrences of another dtype than float32";
}

static const spelling onnx_recurrent_ops[] = {
    {"RNN", .build = build_recurrent, .without = recurrent_without},
    {"LSTM", .build = build_recurrent, .without = recurrent_without},
    {"GRU", .build = build_recurrent, .without = recurrent_without},
};

#endif
