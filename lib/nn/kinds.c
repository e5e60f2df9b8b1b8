/* kinds.c - owns the table of layers: of each its names, the numbers that it needs, the shapes of
 * its weights in the order in which the document has them, and what it takes. */
#include "lib/nn/nn_internal.h"

#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

static nn_part matrix(const char *name, int64_t out, int64_t in)
{
    return (nn_part){.name = name, .rank = 2, .dim = {out, in}};
}

static nn_part vector(const char *name, int64_t n, nn_init init)
{
    return (nn_part){.name = name, .init = init, .rank = 1, .dim = {n}};
}

static int dense_parts(const zt_nn_layer *l, nn_part *p)
{
    p[0] = matrix("w", l->output_height, l->input_height);
    return 1;
}

static int attention_parts(const zt_nn_layer *l, nn_part *p)
{
    int64_t d = l->d_model, kv = l->num_kv_heads * l->head_dim;
    p[0] = matrix("wq", d, d);
    p[1] = matrix("wk", kv, d);
    p[2] = matrix("wv", kv, d);
    p[3] = matrix("wo", d, d);
    p[4] = vector("bq", d, NN_INIT_ZERO);
    p[5] = vector("bk", kv, NN_INIT_ZERO);
    p[6] = vector("bv", kv, NN_INIT_ZERO);
    p[7] = vector("bo", d, NN_INIT_ZERO);
    return 8;
}

static int swiglu_parts(const zt_nn_layer *l, nn_part *p)
{
    int64_t d = l->input_height, inter = l->output_height;
    p[0] = matrix("wg", inter, d);
    p[1] = matrix("wu", inter, d);
    p[2] = matrix("wd", d, inter);
    p[3] = vector("bg", inter, NN_INIT_ZERO);
    p[4] = vector("bu", inter, NN_INIT_ZERO);
    p[5] = vector("bd", d, NN_INIT_ZERO);
    return 6;
}

static int rms_norm_parts(const zt_nn_layer *l, nn_part *p)
{
    p[0] = vector("g", l->input_height, NN_INIT_ONE);
    return 1;
}

static int layer_norm_parts(const zt_nn_layer *l, nn_part *p)
{
    p[0] = vector("g", l->input_height, NN_INIT_ONE);
    p[1] = vector("b", l->input_height, NN_INIT_ZERO);
    return 2;
}

static int conv_parts(const zt_nn_layer *l, nn_part *p)
{
    int dims =
        l->kind <= ZT_NN_CNN3 ? (int)l->kind - ZT_NN_CNN1 + 1 : (int)l->kind - ZT_NN_CONVT1 + 1;
    p[0] = (nn_part){.name = "w", .rank = 2 + dims, .dim = {l->filters, l->input_channels}};
    for (int d = 0; d < dims; d++) p[0].dim[2 + d] = l->kernel_size;
    return 1;
}

static int rnn_parts(const zt_nn_layer *l, nn_part *p)
{
    int64_t in = l->input_height, hidden = l->output_height;
    p[0] = matrix("w_ih", hidden, in);
    p[1] = matrix("w_hh", hidden, hidden);
    p[2] = vector("b", hidden, NN_INIT_ZERO);
    return 3;
}

static int lstm_parts(const zt_nn_layer *l, nn_part *p)
{
    static const char *const name[4][3] = {{"w_ih_i", "w_hh_i", "b_i"},
                                           {"w_ih_f", "w_hh_f", "b_f"},
                                           {"w_ih_g", "w_hh_g", "b_g"},
                                           {"w_ih_o", "w_hh_o", "b_o"}};
    for (int g = 0; g < 4; g++) {
        rnn_parts(l, p + 3 * g);
        for (int k = 0; k < 3; k++) p[3 * g + k].name = name[g][k];
    }
    return 12;
}

static int embedding_parts(const zt_nn_layer *l, nn_part *p)
{
    p[0] = matrix("w", l->vocab_size, l->embedding_dim);
    return 1;
}

static int kmeans_parts(const zt_nn_layer *l, nn_part *p)
{
    p[0] = matrix("centres", l->num_clusters, l->input_height);
    return 1;
}

/* ---- what comes in --------------------------------------------------------------------------- */

static bool takes_vector(const zt_nn_layer *l, zt_nn_shape *in)
{
    in->rank = 2;
    in->dim[1] = l->input_height ? l->input_height : l->d_model;
    return in->dim[1] > 0;
}

static bool takes_sequence(const zt_nn_layer *l, zt_nn_shape *in)
{
    *in = (zt_nn_shape){3, {0, l->seq_length, l->input_height}};
    return l->seq_length > 1 || takes_vector(l, in);
}

static bool takes_ids(const zt_nn_layer *l, zt_nn_shape *in)
{
    (void)l;
    in->rank = 1;
    return true;
}

static bool takes_planes(const zt_nn_layer *l, zt_nn_shape *in)
{
    in->dim[1] = l->input_channels;
    in->rank = 2 + zt_layer_planes(l, &in->dim[2]);
    for (int d = 2; d < in->rank; d++)
        if (in->dim[d] < 1) return false;
    return true;
}

static bool takes_groups(const zt_nn_layer *l, zt_nn_shape *in)
{
    in->rank = 2;
    in->dim[1] = l->softmax_cols ? l->softmax_rows * l->softmax_cols : l->input_height;
    return in->dim[1] > 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const nn_kind kinds[ZT_NN_KINDS] = {
    [ZT_NN_DENSE] = {"Dense",
                     {NULL},
                     {"input_height", "output_height"},
                     dense_parts,
                     zt_layer_emit_dense,
                     takes_vector,
                     true},
    [ZT_NN_MHA] = {"MultiHeadAttention",
                   {"MHA", "attention"},
                   {"d_model", "num_heads", "num_kv_heads", "head_dim"},
                   attention_parts,
                   zt_layer_emit_attention,
                   takes_vector,
                   false},
    [ZT_NN_SWIGLU] = {"SwiGLU",
                      {NULL},
                      {"input_height", "output_height"},
                      swiglu_parts,
                      zt_layer_emit_swiglu,
                      takes_vector,
                      false},
    [ZT_NN_RMSNORM] = {"RMSNorm",
                       {NULL},
                       {"input_height"},
                       rms_norm_parts,
                       zt_layer_emit_rms_norm,
                       takes_vector,
                       false},
    [ZT_NN_CNN1] = {"CNN1",
                    {NULL},
                    {"filters", "input_channels"},
                    conv_parts,
                    zt_layer_emit_conv,
                    takes_planes,
                    true},
    [ZT_NN_CNN2] = {"CNN2",
                    {NULL},
                    {"filters", "input_channels"},
                    conv_parts,
                    zt_layer_emit_conv,
                    takes_planes,
                    true},
    [ZT_NN_CNN3] = {"CNN3",
                    {NULL},
                    {"filters", "input_channels"},
                    conv_parts,
                    zt_layer_emit_conv,
                    takes_planes,
                    true},
    [ZT_NN_RNN] = {"RNN",
                   {NULL},
                   {"input_height", "output_height"},
                   rnn_parts,
                   zt_layer_emit_rnn,
                   takes_sequence,
                   false},
    [ZT_NN_LSTM] = {"LSTM",
                    {NULL},
                    {"input_height", "output_height"},
                    lstm_parts,
                    zt_layer_emit_lstm,
                    takes_sequence,
                    false},
    [ZT_NN_LAYERNORM] = {"LayerNorm",
                         {NULL},
                         {"input_height"},
                         layer_norm_parts,
                         zt_layer_emit_layer_norm,
                         takes_vector,
                         false},
    [ZT_NN_CONVT1] = {"ConvTransposed1D",
                      {NULL},
                      {"filters", "input_channels"},
                      conv_parts,
                      zt_layer_emit_conv_transpose,
                      takes_planes,
                      true},
    [ZT_NN_CONVT2] = {"ConvTransposed2D",
                      {NULL},
                      {"filters", "input_channels"},
                      conv_parts,
                      zt_layer_emit_conv_transpose,
                      takes_planes,
                      true},
    [ZT_NN_CONVT3] = {"ConvTransposed3D",
                      {NULL},
                      {"filters", "input_channels"},
                      conv_parts,
                      zt_layer_emit_conv_transpose,
                      takes_planes,
                      true},
    [ZT_NN_EMBEDDING] = {"Embedding",
                         {NULL},
                         {"vocab_size", "embedding_dim"},
                         embedding_parts,
                         zt_layer_emit_embedding,
                         takes_ids,
                         true},
    [ZT_NN_KMEANS] = {"KMeans",
                      {NULL},
                      {"input_height", "num_clusters"},
                      kmeans_parts,
                      zt_layer_emit_kmeans,
                      takes_vector,
                      false},
    [ZT_NN_SOFTMAX] = {"Softmax", {NULL}, {NULL}, NULL, zt_layer_emit_softmax, takes_groups, false},
    [ZT_NN_PARALLEL] = {"Parallel", {NULL}, {NULL}, NULL, zt_layer_emit_parallel, NULL, false},
    [ZT_NN_SEQUENTIAL] =
        {"Sequential", {NULL}, {NULL}, NULL, zt_layer_emit_sequential, NULL, false},
    [ZT_NN_RESIDUAL] =
        {"Residual", {NULL}, {NULL}, NULL, zt_layer_emit_residual, takes_vector, false},
};

const nn_kind *zt_layer_kind_of(zt_nn_kind k)
{
    return (unsigned)k < ZT_NN_KINDS ? &kinds[k] : NULL;
}

static void otherwise(int64_t *number, int64_t other)
{
    if (*number == 0) *number = other;
}

void zt_layer_settle(zt_nn_layer *l)
{
    if ((l->kind >= ZT_NN_CNN1 && l->kind <= ZT_NN_CNN3) ||
        (l->kind >= ZT_NN_CONVT1 && l->kind <= ZT_NN_CONVT3)) {
        otherwise(&l->stride, 1);
        otherwise(&l->kernel_size, 1);
    } else if (l->kind == ZT_NN_MHA) {
        otherwise(&l->d_model, l->input_height);
        if (l->num_heads > 0) otherwise(&l->head_dim, l->d_model / l->num_heads);
        otherwise(&l->num_kv_heads, l->num_heads);
    } else if (l->kind == ZT_NN_EMBEDDING) {
        otherwise(&l->vocab_size, l->input_height);
        otherwise(&l->embedding_dim, l->output_height);
    } else if (l->kind == ZT_NN_KMEANS) {
        otherwise(&l->num_clusters, l->output_height);
    }
}
