/* contain.c - owns layers made of layers: parallel branches, sequences, and what these leave out.
 */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- parallel -------------------------------------------------------------------------------- */

/* Rows side by side: Loom of that version lays whole batches one behind the other, which no layer
 * after it can read; for one row that is the same. */
static nn_value join(nn_low *w, nn_value a, nn_value b)
{
    int64_t n = zt_layer_row_count(&a), m = zt_layer_row_count(&b);
    a = zt_layer_reshape(w, a, 2, (int64_t[]){a.dim[0], n});
    b = zt_layer_reshape(w, b, 2, (int64_t[]){b.dim[0], m});
    a.id = zt_program_concat(w->p, NULL, a.id, b.id, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){1});
    a.dim[1] = n + m;
    return a;
}

/* As many rows of as many numbers. */
static bool same_size(const nn_value *a, const nn_value *b)
{
    return a->dim[0] == b->dim[0] && zt_layer_row_count(a) == zt_layer_row_count(b);
}

/* b, of a's size, in a's shape, added. */
static nn_value sum_of(nn_low *w, nn_value a, nn_value b)
{
    return zt_layer_binary(w, ZT_OP_add, a, zt_layer_reshape(w, b, a.rank, a.dim));
}

/* How much each branch counts for a row, [n,branches]: softmax of what the gate says of that row.
 */
static nn_value shares(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value g = zt_layer_layer(w, l->gate, x);
    int64_t row = zt_layer_row_count(&g);
    if (g.id < 0) return g;
    if (row < l->n_branches)
        return zt_layer_refuse(w, l, "its gate gives %" PRId64 " numbers for %" PRId64 " branches",
                               row, l->n_branches);
    g = zt_layer_reshape(w, g, 2, (int64_t[]){g.dim[0], row});
    if (row > l->n_branches)
        g.id = zt_program_slice(w->p, NULL, g.id, &(zt_slice_attrs){.axis = 1, .to = l->n_branches});
    g.dim[1] = l->n_branches;
    return zt_layer_unary(w, ZT_OP_softmax, NULL, g);
}

/* Branch i times its share. */
static nn_value weigh(nn_low *w, nn_value y, nn_value share, int64_t i)
{
    zt_slice_attrs a = {.axis = 1, .from = i, .to = i + 1};
    nn_value flat = zt_layer_reshape(w, y, 2, (int64_t[]){y.dim[0], zt_layer_row_count(&y)});
    share.id = zt_program_slice(w->p, NULL, share.id, &a);
    flat = zt_layer_binary(w, ZT_OP_mul, flat, share);
    return zt_layer_reshape(w, flat, y.rank, y.dim);
}

nn_value zt_layer_emit_parallel(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    bool filter = !strcmp(l->combine, "filter");
    bool sum = filter || !strcmp(l->combine, "add") || !strcmp(l->combine, "avg");
    nn_value all = x, share = x;
    if (filter && !l->gate) return zt_layer_refuse(w, l, "it combines by a filter without a gate");
    if (filter && l->n_branches) share = shares(w, l, x);
    for (int64_t i = 0; i < l->n_branches && share.id >= 0 && all.id >= 0; i++) {
        w->skip = NULL;
        nn_value y = zt_layer_layer(w, &l->branch[i], x);
        if (filter) y = weigh(w, y, share, i);
        if (i && y.id >= 0 && (sum ? !same_size(&all, &y) : all.dim[0] != y.dim[0]))
            return zt_layer_refuse(w, l, "branch %" PRId64 " gives another size than those before",
                                   i);
        all = i == 0 || y.id < 0 ? y : sum ? sum_of(w, all, y) : join(w, all, y);
    }
    if (share.id < 0) return share;
    if (!strcmp(l->combine, "avg") && l->n_branches)
        all = zt_layer_unary(w, ZT_OP_scale, &(zt_scale_attrs){1 / (double)l->n_branches}, all);
    return all;
}

/* ---- sequential ------------------------------------------------------------------------------ */

/* A Residual among them adds the input of the step before it. */
nn_value zt_layer_emit_sequential(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value before = zt_layer_none();
    for (int64_t i = 0; i < l->n_steps && x.id >= 0; i++) {
        nn_value in = x;
        w->skip = i ? &before : NULL;
        x = zt_layer_layer(w, &l->step[i], x);
        before = in;
    }
    w->skip = NULL;
    return x;
}

/* Without a skip of its size it passes its input on. */
nn_value zt_layer_emit_residual(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    (void)l;
    return w->skip && same_size(w->skip, &x) ? sum_of(w, x, *w->skip) : x;
}
