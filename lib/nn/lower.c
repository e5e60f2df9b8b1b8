/* lower.c - owns the way from a network to a program: the grid in its order, links, and the small
 * writers of ops that layers are made with. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define MAX_ROW ((int64_t)1 << 40)

nn_value zt_layer_none(void) { return (nn_value){.id = -1}; }

nn_value zt_layer_refuse(const nn_low *w, const zt_nn_layer *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    zt_layer_vbad(w->nn, l, fmt, ap);
    va_end(ap);
    return zt_layer_none();
}

/* ---- shapes ---------------------------------------------------------------------------------- */

int64_t zt_layer_row_count(const nn_value *x)
{
    int64_t n = 1;
    for (int d = 1; d < x->rank; d++) n *= x->dim[d];
    return n;
}

int64_t zt_layer_rows(const nn_low *w, const nn_value *x, int64_t each)
{
    return each == 1 ? x->dim[0] : zt_prog_dim(w->p, '*', x->dim[0], each);
}

nn_value zt_layer_reshape(nn_low *w, nn_value x, int rank, const int64_t *dim)
{
    zt_reshape_attrs a = {.shape = {.n = rank}};
    nn_value y = {.id = x.id, .rank = rank};
    bool same = x.rank == rank;
    for (int d = 0; d < rank; d++) {
        a.shape.dim[d] = y.dim[d] = dim[d];
        same = same && x.dim[d] == dim[d];
    }
    if (x.id >= 0 && !same) y.id = zt_program_reshape(w->p, NULL, x.id, &a);
    return y;
}

nn_value zt_layer_matrix(nn_low *w, const zt_nn_layer *l, nn_value x, int64_t cols)
{
    int64_t row = zt_layer_row_count(&x);
    if (x.id < 0) return x;
    if (row != cols && (x.rank < 2 || x.dim[x.rank - 1] != cols))
        return zt_layer_refuse(w, l, "it takes %" PRId64 " numbers, %" PRId64 " come", cols, row);
    return zt_layer_reshape(w, x, 2, (int64_t[]){zt_layer_rows(w, &x, row / cols), cols});
}

nn_value zt_layer_like(nn_low *w, nn_value y, nn_value x, int64_t took, int64_t cols)
{
    int64_t dim[ZT_MAX_RANK] = {x.dim[0]};
    if (zt_layer_row_count(&x) == took)
        return zt_layer_reshape(w, y, 2, (int64_t[]){x.dim[0], cols});
    memcpy(dim, x.dim, sizeof dim);
    dim[x.rank - 1] = cols;
    return zt_layer_reshape(w, y, x.rank, dim);
}

/* ---- ops ------------------------------------------------------------------------------------- */

nn_value zt_layer_unary(nn_low *w, zt_op op, const void *attrs, nn_value x)
{
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    const char *names[ZT_MAX_OUT] = {NULL, "_", "_", "_", "_", "_"};
    for (int k = 1; k < ZT_MAX_IN; k++) in[k] = ZT_NONE;
    in[0] = x.id;
    if (x.id >= 0) x.id = zt_prog_op(w->p, op, attrs, in, names, out) == ZT_OK ? out[0] : -1;
    return x;
}

nn_value zt_layer_binary(nn_low *w, zt_op op, nn_value a, nn_value b)
{
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 2; k < ZT_MAX_IN; k++) in[k] = ZT_NONE;
    in[0] = a.id;
    in[1] = b.id;
    bool well = a.id >= 0 && b.id >= 0;
    a.id = well && zt_prog_op(w->p, op, NULL, in, NULL, out) == ZT_OK ? out[0] : -1;
    return a;
}

nn_value zt_layer_activate(nn_low *w, zt_nn_act act, nn_value x)
{
    static const zt_op ops[] = {ZT_OP_relu, ZT_OP_silu, ZT_OP_gelu, ZT_OP_tanh, ZT_OP_sigmoid};
    return act == ZT_NN_LINEAR ? x : zt_layer_unary(w, ops[act], NULL, x);
}

int zt_layer_weight(nn_low *w, const zt_nn_layer *l, int k)
{
    const zt_nn_weight *of = &w->nn->weight[l->weights + k];
    int *at = &w->data[l->weights + k];
    if (*at < 0)
        *at = zt_prog_data(w->p, of->name, of->type.dtype, of->type.rank, of->type.dim, of->name);
    return *at;
}

int zt_layer_mask(nn_low *w, const zt_nn_layer *l)
{
    int *at = &w->data[w->nn->n_weights + l->mask_index];
    const char *name = *at < 0 ? zt_layer_mask_name(w->nn, l) : NULL;
    if (name) *at = zt_prog_data(w->p, name, ZT_F32, 1, &l->n_mask, name);
    return *at;
}

/* ---- layers ---------------------------------------------------------------------------------- */

nn_value zt_layer_run(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    const nn_kind *k = zt_layer_kind_of(l->kind);
    if (l->disabled || x.id < 0) return x;
    if (++w->runs > NN_MAX_RUNS)
        return zt_layer_refuse(w, l, "links make more than %d layers of the network", NN_MAX_RUNS);
    nn_value y = k->emit(w, l, x);
    int64_t count = 1;
    for (int d = 1; d < y.rank && y.id >= 0; d++)
        if (!zt_mul_i64(count, y.dim[d], &count) || count > MAX_ROW)
            return zt_layer_refuse(w, l, "it gives more than 2^40 numbers a row");
    return k->plain ? zt_layer_activate(w, l->act, y) : y;
}

/* What a link stands for: the layer at its target, which may be none that is being run. */
static const zt_nn_layer *follow(const nn_low *w, const zt_nn_layer *l)
{
    const zt_nn_layer *to = l->link ? zt_nn_find(w->nn, l->target) : l;
    if (!to)
        return zt_layer_refuse(w, l,
                               "its link's target %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                               " is an empty place",
                               l->target[0], l->target[1], l->target[2], l->target[3]),
               NULL;
    for (int i = 0; i < w->depth; i++)
        if (w->on[i] == to)
            return zt_layer_refuse(w, l, "its link goes in a circle: to %s, which contains it",
                                   to->path),
                   NULL;
    return to;
}

nn_value zt_layer_layer(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    const zt_nn_layer *to = x.id < 0 ? NULL : follow(w, l);
    if (!to) return zt_layer_none();
    if (w->depth == NN_MAX_DEPTH) return zt_layer_refuse(w, l, "layers nested too deep");
    w->on[w->depth++] = to;
    nn_value y = zt_layer_run(w, to, x);
    w->depth--;
    return y;
}

nn_value zt_layer_of_grid(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    w->on[0] = l;
    w->depth = 1;
    w->skip = NULL;
    return zt_layer_run(w, l, x);
}

/* In the grid a link means something to the clock of systolic runs alone. */
static nn_value run_grid(nn_low *w, nn_value x, int *layer)
{
    for (int64_t i = 0; i < w->nn->n && x.id >= 0; i++) {
        x = zt_layer_of_grid(w, w->nn->layer[i], x);
        if (layer) layer[i] = x.id;
    }
    return x;
}

int zt_nn_emit_as(const zt_nn *nn, zt_prog *p, int x, const zt_nn_options *how, int *each)
{
    nn_low w = {.nn = nn, .how = how, .p = p};
    if (x < 0) return -1;
    if (how->cycles && how->cache)
        return zt_fail(nn->ctx, ZT_EUSAGE, "%s: a clocked mesh has no cache", nn->name), -1;
    const zt_type *t = &zt_prog_value(p, x)->type;
    nn_value at = {.id = x, .rank = t->rank};
    memcpy(at.dim, t->dim, sizeof at.dim);
    int64_t n_data = nn->n_weights + nn->n_masked;
    w.data = zt_alloc_array(nn->ctx, (size_t)n_data + 1, sizeof *w.data);
    if (!w.data) return -1;
    for (int64_t i = 0; i < n_data; i++) w.data[i] = -1;
    at = how->cycles ? zt_layer_clock(&w, at, how->cycles, each) : run_grid(&w, at, each);
    zt_free(nn->ctx, w.data);
    return at.id;
}

int zt_nn_emit(const zt_nn *nn, zt_prog *p, int x, int *layer)
{
    return zt_nn_emit_as(nn, p, x, &(zt_nn_options){0}, layer);
}

/* ---- programs -------------------------------------------------------------------------------- */

static zt_status tell_input(const zt_nn *nn, const zt_nn_layer *l, const nn_kind *kind,
                            zt_nn_shape *in)
{
    return kind->input(l, in)
               ? ZT_OK
               : zt_layer_bad(nn, l, "its numbers do not tell the size of what comes in");
}

static const zt_nn_layer *enabled_from(const zt_nn *nn, int64_t i)
{
    while (i < nn->n && nn->layer[i]->disabled) i++;
    return i < nn->n ? nn->layer[i] : NULL;
}

/* The numbers in a row of the layer's input, from its own members; 0: these do not say. */
static int64_t taken_by(const zt_nn_layer *l)
{
    for (int k = 0; l && k < NN_MAX_DEPTH && (l->n_steps || l->n_branches); k++)
        l = l->n_steps ? l->step : l->branch;
    static const zt_nn_kind of_numbers[] = {ZT_NN_DENSE, ZT_NN_SWIGLU, ZT_NN_RMSNORM,
                                            ZT_NN_LAYERNORM, ZT_NN_KMEANS};
    if (!l || l->link) return 0;
    if (l->kind == ZT_NN_RNN || l->kind == ZT_NN_LSTM) return l->seq_length * l->input_height;
    for (size_t i = 0; i < sizeof of_numbers / sizeof *of_numbers; i++)
        if (l->kind == of_numbers[i]) return l->input_height;
    return 0;
}

/* An embedding takes its seq_length ids a row or, where it has none, as many as the layer behind it
 * has a place for. */
static void tell_ids(const zt_nn_layer *l, const zt_nn_layer *behind, zt_nn_shape *in)
{
    int64_t need = taken_by(behind), d = l->embedding_dim, ids = l->seq_length;
    if (ids < 2 && d > 0 && need % d == 0) ids = need / d;
    if (ids > 1) *in = (zt_nn_shape){.rank = 2, .dim = {0, ids}};
}

zt_status zt_nn_input(const zt_nn *nn, zt_nn_shape *in)
{
    int64_t i = 0;
    *in = (zt_nn_shape){.rank = 1};
    while (i < nn->n && nn->layer[i]->disabled) i++;
    const zt_nn_layer *l = i < nn->n ? nn->layer[i] : NULL, *behind = enabled_from(nn, i + 1);
    for (int k = 0; l && k < NN_MAX_DEPTH; k++) {
        const nn_kind *kind = zt_layer_kind_of(l->kind);
        bool within =
            k > 0; /* of the grid a link is what it says, among branches what it links to */
        if (within && l->link) {
            l = zt_nn_find(nn, l->target);
            continue;
        }
        if (kind->input) {
            zt_status s = tell_input(nn, l, kind, in);
            if (!s && l->kind == ZT_NN_EMBEDDING) tell_ids(l, behind, in);
            return s;
        }
        if (l->n_steps > 1) behind = &l->step[1];
        if (!l->n_steps) behind = NULL; /* what takes all branches together says nothing of one */
        l = l->n_steps ? l->step : l->n_branches ? l->branch : NULL;
    }
    if (l) return zt_layer_bad(nn, l, "its link goes in a circle, or layers are nested too deep");
    return zt_fail(nn->ctx, ZT_EDATA, "%s: its first layer does not tell what comes in", nn->name);
}

zt_prog *zt_nn_prog(const zt_nn *nn, const zt_nn_shape *in)
{
    return zt_nn_prog_as(nn, &(zt_nn_options){.in = in});
}

zt_prog *zt_nn_prog_as(const zt_nn *nn, const zt_nn_options *how)
{
    zt_nn_shape own;
    const zt_nn_shape *in = how->in ? how->in : &own;
    if (!how->in && zt_nn_input(nn, &own)) return NULL;
    zt_prog *p = zt_prog_new(nn->ctx);
    if (!p) return NULL;
    int64_t dim[ZT_MAX_RANK];
    memcpy(dim, in->dim, sizeof dim);
    dim[0] = zt_prog_symbol(p, "n");
    int x = zt_prog_in(p, "x", ZT_F32, in->rank, dim), y = zt_nn_emit_as(nn, p, x, how, NULL);
    if (y >= 0 && zt_prog_out(p, "y", y) == ZT_OK) return p;
    zt_prog_free(p);
    return NULL;
}
