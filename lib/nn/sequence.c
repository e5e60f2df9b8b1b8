/* sequence.c - owns layers over a sequence: attention, RNN, LSTM.
 *
 * x is [n,s,k], n sequences; rows [n,s*k] with s of the document likewise. Attention takes [n,d]
 * for one sequence of n. */
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* [sequences, steps, k]; of attention without a number of steps [n,k] is one sequence. */
static nn_value sequences(nn_low *w, const zt_nn_layer *l, nn_value x, int64_t k, bool whole)
{
    int64_t row = zt_layer_row_count(&x), steps = row / k;
    bool one = whole && row == k && l->seq_length <= 1;
    if (x.id < 0) return x;
    if (steps < 1 || row % k != 0)
        return zt_layer_refuse(w, l, "it takes steps of %" PRId64 " numbers, %" PRId64 " come", k,
                               row);
    if (!one && l->seq_length > 1 && steps != l->seq_length)
        return zt_layer_refuse(w, l, "%" PRId64 " steps come, the document says %" PRId64, steps,
                               l->seq_length);
    return zt_layer_reshape(w, x, 3,
                            one ? (int64_t[]){1, x.dim[0], k} : (int64_t[]){x.dim[0], steps, k});
}

/* y [sequences, steps, k] under the dimensions that x had. */
static nn_value as_before(nn_low *w, nn_value y, nn_value x, int64_t took)
{
    if (x.rank != 2) return y;
    return zt_layer_reshape(w, y, 2,
                            (int64_t[]){x.dim[0], zt_layer_row_count(&x) / took * y.dim[2]});
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Each row's place in its sequence, i32[rows]: counted, so that it needs no input. */
static int positions(nn_low *w, nn_value x, int64_t rows)
{
    int first = zt_program_slice(w->p, NULL, x.id, &(zt_slice_attrs){.axis = 2, .to = 1});
    int ones = zt_program_fill_like(w->p, NULL, first, &(zt_fill_like_attrs){1});
    int whole = zt_program_cast(w->p, NULL, ones, &(zt_cast_attrs){.to = {"i32"}, .saturate = 1});
    int count = zt_program_cumsum(w->p, NULL, whole, &(zt_cumsum_attrs){.axis = 1, .exclusive = 1});
    return zt_program_reshape(w->p, NULL, count, &(zt_reshape_attrs){{1, {rows}}});
}

static int64_t all_rows(const nn_low *w, const nn_value *x)
{
    return x->dim[0] == 1 ? x->dim[1] : zt_prog_dim(w->p, '*', x->dim[0], x->dim[1]);
}

/* One of q, k, v of rows: x w + b, its heads turned by their rows' places. */
static int turned_linear(nn_low *w, const zt_nn_layer *l, int x, int part, int pos)
{
    int64_t D = l->head_dim;
    int y = zt_program_linear(w->p, NULL, x, zt_layer_weight(w, l, part),
                           zt_layer_weight(w, l, 4 + part), NULL);
    zt_rope_attrs turn = zt_rope_defaults();
    turn.head = D;
    turn.dims = D - D % 2; /* of an odd number of columns the last stays, and angles are D's */
    turn.theta = D % 2 ? pow(l->rope_freq_base, (double)turn.dims / (double)D) : l->rope_freq_base;
    return pos >= 0 ? zt_program_rope(w->p, NULL, y, pos, ZT_NONE, &turn) : y;
}

/* The same as [sequences, steps, heads, head_dim]. */
static int heads(nn_low *w, const zt_nn_layer *l, nn_value x, int part, int64_t n, int pos)
{
    int in = zt_layer_reshape(w, x, 2, (int64_t[]){all_rows(w, &x), x.dim[2]}).id;
    int y = turned_linear(w, l, in, part, pos);
    return zt_program_reshape(w->p, NULL, y,
                           &(zt_reshape_attrs){{4, {x.dim[0], x.dim[1], n, l->head_dim}}});
}

static bool turns(const zt_nn_layer *l) { return l->rope_freq_base > 0 && l->head_dim > 1; }

/* ---- with a cache ---- */

/* Where the rows stand in their sequence is an input, the same for all layers. */
static int given_positions(nn_low *w, nn_value x)
{
    int pos = zt_prog_find(w->p, "pos");
    return pos >= 0 ? pos : zt_prog_in(w->p, "pos", ZT_I32, 1, x.dim);
}

/* A state of the layer, "layers.3.k_cache", of its second use "layers.3.k_cache.2", and x's rows in
 * it from now on. */
static int cached(nn_low *w, const zt_nn_layer *l, const char *what, int x, int pos)
{
    char name[1 << 12];
    int64_t dim[2] = {l->max_seq_len, l->num_kv_heads * l->head_dim};
    if (!l->max_seq_len) dim[0] = zt_prog_symbol(w->p, "ctx");
    snprintf(name, sizeof name, "%s.%s", l->path, what);
    for (int k = 2; zt_prog_find(w->p, name) >= 0; k++)
        snprintf(name, sizeof name, "%s.%s.%d", l->path, what, k);
    int cache = zt_prog_state(w->p, name, ZT_F32, 2, dim);
    int after = zt_program_kv_put(w->p, NULL, cache, x, pos, ZT_NONE, ZT_NONE);
    return cache >= 0 && after >= 0 && !zt_prog_keep(w->p, cache, after) ? after : -1;
}

/* x [n,d], rows of one sequence, of which those before are in the caches. */
static nn_value continued(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    int pos = given_positions(w, x), turn = turns(l) ? pos : ZT_NONE;
    int q = turned_linear(w, l, x.id, 0, turn);
    int k = cached(w, l, "k_cache", turned_linear(w, l, x.id, 1, turn), pos);
    int v = cached(w, l, "v_cache", turned_linear(w, l, x.id, 2, ZT_NONE), pos);
    zt_attention_attrs a = {.head = l->head_dim};
    x.id = zt_program_attention(w->p, NULL, q, k, v, pos, ZT_NONE, ZT_NONE, &a);
    x.id =
        zt_program_linear(w->p, NULL, x.id, zt_layer_weight(w, l, 3), zt_layer_weight(w, l, 7), NULL);
    return x;
}

nn_value zt_layer_emit_attention(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    int64_t d = l->d_model;
    if (l->num_heads * l->head_dim != d || l->num_heads % l->num_kv_heads)
        return zt_layer_refuse(w, l,
                               "d_model %" PRId64 " is not %" PRId64 " heads of %" PRId64
                               ", or these are not shared evenly by %" PRId64,
                               d, l->num_heads, l->head_dim, l->num_kv_heads);
    nn_value s = sequences(w, l, x, d, true);
    if (s.id < 0) return s;
    if (w->how->cache && s.dim[0] == 1 && zt_layer_row_count(&x) == d && l->seq_length <= 1) {
        nn_value y = continued(w, l, zt_layer_reshape(w, x, 2, (int64_t[]){x.dim[0], d}));
        return zt_layer_reshape(w, y, x.rank, x.dim);
    }
    int64_t rows = all_rows(w, &s);
    int pos = turns(l) ? positions(w, s, rows) : ZT_NONE;
    int q = heads(w, l, s, 0, l->num_heads, pos);
    int k = heads(w, l, s, 1, l->num_kv_heads, pos);
    int v = heads(w, l, s, 2, l->num_kv_heads, ZT_NONE);
    zt_sdpa_attrs a = zt_sdpa_defaults();
    a.causal = 1;
    a.layout = (zt_enum_string){"bshd"};
    int y = zt_program_sdpa(w->p, NULL, q, k, v, ZT_NONE, ZT_NONE, &a, NULL);
    y = zt_program_reshape(w->p, NULL, y, &(zt_reshape_attrs){{2, {rows, d}}});
    y = zt_program_linear(w->p, NULL, y, zt_layer_weight(w, l, 3), zt_layer_weight(w, l, 7), NULL);
    return zt_layer_reshape(w, (nn_value){y, 2, {rows, d}}, x.rank, x.dim);
}

/* ---- recurrences ----------------------------------------------------------------------------- */

/* The ops take [steps, sequences, k]. */
static int turned(nn_low *w, int x)
{
    return zt_program_transpose(w->p, NULL, x, &(zt_transpose_attrs){{3, {1, 0, 2}}});
}

nn_value zt_layer_emit_rnn(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = sequences(w, l, x, l->input_height, false);
    int h =
        zt_program_rnn(w->p, NULL, turned(w, y.id), zt_layer_weight(w, l, 0), zt_layer_weight(w, l, 1),
                    zt_layer_weight(w, l, 2), ZT_NONE, ZT_NONE, NULL, NULL, NULL);
    y.id = turned(w, h);
    y.dim[2] = l->output_height;
    return as_before(w, y, x, l->input_height);
}

/* A weight of the four gates, one below the other. */
static int gates(nn_low *w, const zt_nn_layer *l, int part)
{
    return zt_program_concat(w->p, NULL, zt_layer_weight(w, l, part), zt_layer_weight(w, l, part + 3),
                          zt_layer_weight(w, l, part + 6), zt_layer_weight(w, l, part + 9), ZT_NONE,
                          NULL);
}

nn_value zt_layer_emit_lstm(nn_low *w, const zt_nn_layer *l, nn_value x)
{
    nn_value y = sequences(w, l, x, l->input_height, false);
    int h =
        zt_program_lstm(w->p, NULL, turned(w, y.id), gates(w, l, 0), gates(w, l, 1), gates(w, l, 2),
                     ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, NULL, NULL, NULL, NULL);
    y.id = turned(w, h);
    y.dim[2] = l->output_height;
    return as_before(w, y, x, l->input_height);
}
