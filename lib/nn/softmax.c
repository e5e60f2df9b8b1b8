/* softmax.c - owns the ten kinds of softmax, each over all numbers of a row (of x [n], over x), or
 * over groups of them. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>

/* x as [groups, cols]. */
static nn_value groups_of(nn_low *w, const zt_nn_layer *l, nn_value x, int64_t cols)
{
    int64_t row = zt_layer_row_count(&x);
    if (x.rank == 1)
        return zt_layer_reshape(w, x, 2, (int64_t[]){zt_prog_dim(w->p, '/', x.dim[0], cols), cols});
    if (row % cols != 0)
        return zt_layer_refuse(w, l, "%" PRId64 " numbers a row are no groups of %" PRId64, row,
                               cols);
    return zt_layer_reshape(w, x, 2, (int64_t[]){zt_layer_rows(w, &x, row / cols), cols});
}

static nn_value group(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    int64_t cols =
        l->softmax == ZT_NN_GRID || l->softmax == ZT_NN_HIERARCHICAL ? l->softmax_cols : 0;
    if (l->softmax == ZT_NN_HIERARCHICAL && l->n_levels) cols = l->levels[l->n_levels - 1];
    if (cols) return groups_of(w, l, x, cols);
    int64_t row = zt_layer_row_count(&x);
    return x.rank == 1 ? x : zt_layer_reshape(w, x, 2, (int64_t[]){x.dim[0], row});
}

/* Places that the mask hides get -1e9; those past it are seen. */
static nn_value hide(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    int64_t row = x.rank == 1 ? l->n_mask : x.dim[1], n = l->n_mask < row ? l->n_mask : row;
    int axis = x.rank - 1, rest = ZT_NONE;
    if (n == 0) return x;
    int mask = zt_layer_mask(w, l), first = x.id;
    if (n < l->n_mask)
        mask = zt_program_slice(w->p, NULL, mask, &(zt_slice_attrs){.axis = 0, .to = n});
    if (n < row) {
        first = zt_program_slice(w->p, NULL, x.id, &(zt_slice_attrs){.axis = axis, .to = n});
        rest = zt_program_slice(w->p, NULL, x.id, &(zt_slice_attrs){.axis = axis, .from = n});
    }
    int none = zt_program_fill_like(w->p, NULL, first, &(zt_fill_like_attrs){-1e9});
    x.id = zt_program_where(w->p, NULL, mask, first, none);
    if (n < row)
        x.id = zt_program_concat(w->p, NULL, x.id, rest, ZT_NONE, ZT_NONE, ZT_NONE,
                              &(zt_concat_attrs){axis});
    return x;
}

/* Gumbel's noise: -ln(-ln u), drawn anew with each value of the input `counter`. */
static nn_value shake(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    if (!l->gumbel_noise) return x;
    int counter = zt_prog_find(w->p, "counter");
    if (counter < 0) counter = zt_prog_in(w->p, "counter", ZT_I64, 0, NULL);
    zt_random_uniform_attrs a = zt_random_uniform_defaults();
    a.low = 1e-10;
    a.seed = (int64_t)(w->nn->seed + (uint64_t)w->draws++);
    int u = zt_program_random_uniform(w->p, NULL, counter, x.id, &a);
    int once = zt_program_neg(w->p, NULL, zt_program_ln(w->p, NULL, u));
    int noise = zt_program_ln(w->p, NULL, once);
    x.id = zt_program_sub(w->p, NULL, x.id, noise);
    return x;
}

static int sparse(nn_low *w, int x)
{
    zt_entmax_attrs a = zt_entmax_defaults();
    a.alpha = 2;
    return zt_program_entmax(w->p, NULL, x, &a);
}

/* Between softmax (alpha 1) and sparsemax (2): Loom's straight line, not entmax itself. */
static int between(nn_low *w, const zt_nn_layer *l, int x)
{
    double alpha = l->entmax_alpha != 0 ? l->entmax_alpha : 1.5;
    if (alpha >= 2) return sparse(w, x);
    int soft = zt_program_softmax(w->p, NULL, x, NULL);
    if (alpha <= 1) return soft;
    int a = zt_program_scale(w->p, NULL, soft, &(zt_scale_attrs){2 - alpha});
    int b = zt_program_scale(w->p, NULL, sparse(w, x), &(zt_scale_attrs){alpha - 1});
    return zt_program_add(w->p, NULL, a, b);
}

nn_value zt_layer_emit_softmax(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = group(w, l, x);
    if (l->temperature != 0)
        y = zt_layer_unary(w, ZT_OP_scale, &(zt_scale_attrs){1 / l->temperature}, y);
    if (y.id < 0) return y;
    if (l->softmax == ZT_NN_MASKED) y = hide(w, l, y);
    if (l->softmax == ZT_NN_GUMBEL) y = shake(w, l, y);
    if (l->softmax == ZT_NN_SPARSE)
        y.id = sparse(w, y.id);
    else if (l->softmax == ZT_NN_ENTMAX)
        y.id = between(w, l, y.id);
    else
        y.id = zt_program_softmax(w->p, NULL, y.id, NULL);
    return zt_layer_reshape(w, y, x.rank, x.dim);
}
