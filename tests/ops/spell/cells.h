/* cells.h - recurrences of the golden sets: one direction of one layer, and the order of gates. */
#ifndef ZT_SPELL_CELLS_H
#define ZT_SPELL_CELLS_H

#include "tests/ops/spell/spell.h"

typedef enum cell_kind { CELL_RNN, CELL_LSTM, CELL_GRU } cell_kind;

/* Values of one direction; ZT_NONE: absent. Afterwards y [T,N,H], hn and cn [N,H]. */
typedef struct direction {
    int x, w, r, b_ih, b_hh, h0, c0, peep, lengths;
    bool relu, reverse, before; /* before: linear_before_reset */
    int y, hn, cn;
} direction;

SPELL_FN int both_biases(const call *node, const direction *d)
{
    if (d->b_ih == ZT_NONE) return d->b_hh;
    return d->b_hh == ZT_NONE ? d->b_ih : zt_program_add(node->p, NULL, d->b_ih, d->b_hh);
}

SPELL_FN void run_direction(const call *node, cell_kind kind, direction *d)
{
    zt_rnn_attrs rnn = {{"tanh"}, d->reverse};
    if (d->relu) rnn.act = (zt_enum_string){"relu"};
    if (kind == CELL_RNN)
        d->y = zt_program_rnn(node->p, NULL, d->x, d->w, d->r, both_biases(node, d), d->h0, d->lengths, &rnn, &d->hn, NULL);
    if (kind == CELL_LSTM)
        d->y = zt_program_lstm(node->p, NULL, d->x, d->w, d->r, both_biases(node, d), d->h0, d->c0, d->peep, d->lengths,
                               &(zt_lstm_attrs){d->reverse}, &d->hn, &d->cn, NULL);
    if (kind == CELL_GRU)
        d->y = zt_program_gru(node->p, NULL, d->x, d->w, d->r, d->b_ih, d->b_hh, d->h0, d->lengths,
                              &(zt_gru_attrs){d->before, d->reverse}, &d->hn, NULL);
}

SPELL_FN int swapped(const call *node, int x)
{
    return zt_program_transpose(node->p, NULL, x, &(zt_transpose_attrs){{3, {1, 0, 2}}});
}

/* Values along an axis behind each other: concat takes five at a time. */
SPELL_FN int joined(const call *node, const int *x, int n, int64_t axis)
{
    int all = x[0];
    for (int i = 1; i < n; i++)
        all = zt_program_concat(node->p, NULL, all, x[i], ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){axis});
    return all;
}

SPELL_FN int sliced(const call *node, int x, int64_t axis, int64_t from, int64_t to)
{
    return zt_program_slice(node->p, NULL, x, &(zt_slice_attrs){.axis = axis, .from = from, .to = to});
}

#endif
