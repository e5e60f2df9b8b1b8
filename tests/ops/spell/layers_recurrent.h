/* layers_recurrent.h - how the ops of golden/layers are spelled in zt: recurrent layers. */
#ifndef ZT_SPELL_LAYERS_RECURRENT_H
#define ZT_SPELL_LAYERS_RECURRENT_H

#include "tests/ops/spell/cells.h"

/* "w_ih_l1_reverse" */
static int layer_weight(const call *node, const char *what, int layer, bool reverse)
{
    char name[40];
    snprintf(name, sizeof name, "%s_l%d%s", what, layer, reverse ? "_reverse" : "");
    return named(node, name);
}

/* Row k of a state [layers*dirs,N,H]. */
static int layer_state(const call *node, const char *what, int64_t k, int64_t N, int64_t H)
{
    int v = named(node, what);
    if (v == ZT_NONE) return v;
    return reshaped(node, sliced(node, v, 0, k, k + 1), 2, (int64_t[]){N, H});
}

static int build_layers(const call *node)
{
    cell_kind kind = !strcmp(node->op, "rnn") ? CELL_RNN : !strcmp(node->op, "lstm") ? CELL_LSTM : CELL_GRU;
    int64_t N = dim_of(node, 0, 0), H = int_or(node, "hidden", 1);
    int layers = (int)int_or(node, "layers", 1), dirs = number(node, "bidirectional") != 0 ? 2 : 1, k = 0;
    int x = swapped(node, node->in[0]), hn[16] = {0}, cn[16] = {0};
    for (int l = 0; l < layers && k < 16; l++) {
        int y[2];
        for (int d = 0; d < dirs; d++, k++) {
            direction v = {.x = x, .peep = ZT_NONE, .lengths = ZT_NONE, .before = true};
            v.w = layer_weight(node, "w_ih", l, d);
            v.r = layer_weight(node, "w_hh", l, d);
            v.b_ih = layer_weight(node, "b_ih", l, d);
            v.b_hh = layer_weight(node, "b_hh", l, d);
            v.h0 = layer_state(node, "h0", k, N, H);
            v.c0 = layer_state(node, "c0", k, N, H);
            v.reverse = d;
            v.relu = word_is(node, "activation", "relu");
            run_direction(node, kind, &v);
            y[d] = v.y;
            hn[k] = reshaped(node, v.hn, 3, (int64_t[]){1, N, H});
            if (kind == CELL_LSTM) cn[k] = reshaped(node, v.cn, 3, (int64_t[]){1, N, H});
        }
        x = joined(node, y, dirs, 2);
    }
    node->more[0] = joined(node, hn, k, 0);
    if (kind == CELL_LSTM) node->more[1] = joined(node, cn, k, 0);
    return swapped(node, x);
}

static const spelling layers_recurrent_ops[] = {
    {"rnn", .build = build_layers},
    {"lstm", .build = build_layers},
    {"gru", .build = build_layers},
};

#endif
