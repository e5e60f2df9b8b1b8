/* kinds.c - owns the table of layers: names, required numbers, shapes of weights in the document's order, and shape of the
 * input; and the names of activations, softmax types and dtypes, as openfluke/loom's package poly has them. */
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <string.h>
#include <strings.h>

/* ---- weights --------------------------------------------------------------------------------- */

static nn_part matrix_part(const char *name, int64_t output_count, int64_t input_count)
{
    return (nn_part){.name = name, .rank = 2, .dim = {output_count, input_count}};
}

static nn_part vector_part(const char *name, int64_t count, nn_init init)
{
    return (nn_part){.name = name, .init = init, .rank = 1, .dim = {count}};
}

static int dense_parts(const zt_nn_layer *layer, nn_part *parts)
{
    parts[0] = matrix_part("w", layer->output_height, layer->input_height);
    return 1;
}

static int attention_parts(const zt_nn_layer *layer, nn_part *parts)
{
    int64_t width = layer->d_model, kv_width = layer->num_kv_heads * layer->head_dim;
    parts[0] = matrix_part("wq", width, width);
    parts[1] = matrix_part("wk", kv_width, width);
    parts[2] = matrix_part("wv", kv_width, width);
    parts[3] = matrix_part("wo", width, width);
    parts[4] = vector_part("bq", width, NN_INIT_ZERO);
    parts[5] = vector_part("bk", kv_width, NN_INIT_ZERO);
    parts[6] = vector_part("bv", kv_width, NN_INIT_ZERO);
    parts[7] = vector_part("bo", width, NN_INIT_ZERO);
    return 8;
}

static int swiglu_parts(const zt_nn_layer *layer, nn_part *parts)
{
    int64_t width = layer->input_height, inner_width = layer->output_height;
    parts[0] = matrix_part("wg", inner_width, width);
    parts[1] = matrix_part("wu", inner_width, width);
    parts[2] = matrix_part("wd", width, inner_width);
    parts[3] = vector_part("bg", inner_width, NN_INIT_ZERO);
    parts[4] = vector_part("bu", inner_width, NN_INIT_ZERO);
    parts[5] = vector_part("bd", width, NN_INIT_ZERO);
    return 6;
}

static int rms_norm_parts(const zt_nn_layer *layer, nn_part *parts)
{
    parts[0] = vector_part("g", layer->input_height, NN_INIT_ONE);
    return 1;
}

static int layer_norm_parts(const zt_nn_layer *layer, nn_part *parts)
{
    parts[0] = vector_part("g", layer->input_height, NN_INIT_ONE);
    parts[1] = vector_part("b", layer->input_height, NN_INIT_ZERO);
    return 2;
}

static int conv_parts(const zt_nn_layer *layer, nn_part *parts)
{
    int dims = layer->kind <= ZT_NN_CNN3 ? (int)layer->kind - ZT_NN_CNN1 + 1 : (int)layer->kind - ZT_NN_CONVT1 + 1;
    parts[0] = (nn_part){.name = "w", .rank = 2 + dims, .dim = {layer->filters, layer->input_channels}};
    for (int axis = 0; axis < dims; axis++) parts[0].dim[2 + axis] = layer->kernel_size;
    return 1;
}

static int rnn_parts(const zt_nn_layer *layer, nn_part *parts)
{
    int64_t input_count = layer->input_height, hidden = layer->output_height;
    parts[0] = matrix_part("w_ih", hidden, input_count);
    parts[1] = matrix_part("w_hh", hidden, hidden);
    parts[2] = vector_part("b", hidden, NN_INIT_ZERO);
    return 3;
}

static int lstm_parts(const zt_nn_layer *layer, nn_part *parts)
{
    static const char *const name[4][3] = {
        {"w_ih_i", "w_hh_i", "b_i"}, {"w_ih_f", "w_hh_f", "b_f"}, {"w_ih_g", "w_hh_g", "b_g"}, {"w_ih_o", "w_hh_o", "b_o"}};
    for (int gate = 0; gate < 4; gate++) {
        rnn_parts(layer, parts + 3 * gate);
        for (int index = 0; index < 3; index++) parts[3 * gate + index].name = name[gate][index];
    }
    return 12;
}

static int embedding_parts(const zt_nn_layer *layer, nn_part *parts)
{
    parts[0] = matrix_part("w", layer->vocab_size, layer->embedding_dim);
    return 1;
}

static int kmeans_parts(const zt_nn_layer *layer, nn_part *parts)
{
    parts[0] = matrix_part("centres", layer->num_clusters, layer->input_height);
    return 1;
}

/* ---- what comes in --------------------------------------------------------------------------- */

static bool takes_vector(const zt_nn_layer *layer, zt_nn_shape *shape)
{
    shape->rank = 2;
    shape->dim[1] = layer->input_height ? layer->input_height : layer->d_model;
    return shape->dim[1] > 0;
}

static bool takes_sequence(const zt_nn_layer *layer, zt_nn_shape *shape)
{
    *shape = (zt_nn_shape){3, {0, layer->seq_length, layer->input_height}};
    return layer->seq_length > 1 || takes_vector(layer, shape);
}

static bool takes_ids(const zt_nn_layer *layer, zt_nn_shape *shape)
{
    (void)layer;
    shape->rank = 1;
    return true;
}

static bool takes_planes(const zt_nn_layer *layer, zt_nn_shape *shape)
{
    shape->dim[1] = layer->input_channels;
    shape->rank = 2 + zt_layer_planes(layer, &shape->dim[2]);
    for (int axis = 2; axis < shape->rank; axis++)
        if (shape->dim[axis] < 1) return false;
    return true;
}

static bool takes_groups(const zt_nn_layer *layer, zt_nn_shape *shape)
{
    shape->rank = 2;
    shape->dim[1] = layer->softmax_cols ? layer->softmax_rows * layer->softmax_cols : layer->input_height;
    return shape->dim[1] > 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const nn_kind kinds[ZT_NN_KINDS] = {
    [ZT_NN_DENSE] = {"Dense", {NULL}, {"input_height", "output_height"}, dense_parts, zt_layer_emit_dense, takes_vector, true},
    [ZT_NN_MHA] = {"MultiHeadAttention",
                   {"MHA", "attention"},
                   {"d_model", "num_heads", "num_kv_heads", "head_dim"},
                   attention_parts,
                   zt_layer_emit_attention,
                   takes_vector,
                   false},
    [ZT_NN_SWIGLU] =
        {"SwiGLU", {NULL}, {"input_height", "output_height"}, swiglu_parts, zt_layer_emit_swiglu, takes_vector, false},
    [ZT_NN_RMSNORM] = {"RMSNorm", {NULL}, {"input_height"}, rms_norm_parts, zt_layer_emit_rms_norm, takes_vector, false},
    [ZT_NN_CNN1] = {"CNN1", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv, takes_planes, true},
    [ZT_NN_CNN2] = {"CNN2", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv, takes_planes, true},
    [ZT_NN_CNN3] = {"CNN3", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv, takes_planes, true},
    [ZT_NN_RNN] = {"RNN", {NULL}, {"input_height", "output_height"}, rnn_parts, zt_layer_emit_rnn, takes_sequence, false},
    [ZT_NN_LSTM] = {"LSTM", {NULL}, {"input_height", "output_height"}, lstm_parts, zt_layer_emit_lstm, takes_sequence, false},
    [ZT_NN_LAYERNORM] = {"LayerNorm", {NULL}, {"input_height"}, layer_norm_parts, zt_layer_emit_layer_norm, takes_vector, false},
    [ZT_NN_CONVT1] =
        {"ConvTransposed1D", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv_transpose, takes_planes, true},
    [ZT_NN_CONVT2] =
        {"ConvTransposed2D", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv_transpose, takes_planes, true},
    [ZT_NN_CONVT3] =
        {"ConvTransposed3D", {NULL}, {"filters", "input_channels"}, conv_parts, zt_layer_emit_conv_transpose, takes_planes, true},
    [ZT_NN_EMBEDDING] =
        {"Embedding", {NULL}, {"vocab_size", "embedding_dim"}, embedding_parts, zt_layer_emit_embedding, takes_ids, true},
    [ZT_NN_KMEANS] =
        {"KMeans", {NULL}, {"input_height", "num_clusters"}, kmeans_parts, zt_layer_emit_kmeans, takes_vector, false},
    [ZT_NN_SOFTMAX] = {"Softmax", {NULL}, {NULL}, NULL, zt_layer_emit_softmax, takes_groups, false},
    [ZT_NN_PARALLEL] = {"Parallel", {NULL}, {NULL}, NULL, zt_layer_emit_parallel, NULL, false},
    [ZT_NN_SEQUENTIAL] = {"Sequential", {NULL}, {NULL}, NULL, zt_layer_emit_sequential, NULL, false},
    [ZT_NN_RESIDUAL] = {"Residual", {NULL}, {NULL}, NULL, zt_layer_emit_residual, takes_vector, false},
};

const nn_kind *zt_layer_kind_of(zt_nn_kind kind) { return (unsigned)kind < ZT_NN_KINDS ? &kinds[kind] : NULL; }

static void set_default(int64_t *number, int64_t other)
{
    if (*number == 0) *number = other;
}

void zt_layer_settle(zt_nn_layer *layer)
{
    if ((layer->kind >= ZT_NN_CNN1 && layer->kind <= ZT_NN_CNN3) ||
        (layer->kind >= ZT_NN_CONVT1 && layer->kind <= ZT_NN_CONVT3)) {
        set_default(&layer->stride, 1);
        set_default(&layer->kernel_size, 1);
    } else if (layer->kind == ZT_NN_MHA) {
        set_default(&layer->d_model, layer->input_height);
        if (layer->num_heads > 0) set_default(&layer->head_dim, layer->d_model / layer->num_heads);
        set_default(&layer->num_kv_heads, layer->num_heads);
    } else if (layer->kind == ZT_NN_EMBEDDING) {
        set_default(&layer->vocab_size, layer->input_height);
        set_default(&layer->embedding_dim, layer->output_height);
    } else if (layer->kind == ZT_NN_KMEANS) {
        set_default(&layer->num_clusters, layer->output_height);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const act_names[] = {"Linear", "ReLU", "Silu", "GELU", "Tanh", "Sigmoid"};
static const char *const softmax_names[] = {"Standard", "Grid",   "Hierarchical", "Temperature", "Gumbel",
                                            "Masked",   "Sparse", "Adaptive",     "Mixture",     "Entmax"};

const char *zt_nn_kind_name(zt_nn_kind number)
{
    const nn_kind *kind = zt_layer_kind_of(number);
    return kind ? kind->name : NULL;
}

const char *zt_nn_act_name(zt_nn_act act) { return act >= ZT_NN_LINEAR && act < ZT_NN_ACTS ? act_names[act + 1] : NULL; }

const char *zt_nn_softmax_name(zt_nn_softmax softmax)
{
    return (unsigned)softmax < ZT_NN_SOFTMAXES ? softmax_names[softmax] : NULL;
}

bool zt_nn_kind_parse(const char *name, zt_nn_kind *out)
{
    if (!name || !out) return false;
    for (int k = 0; k < ZT_NN_KINDS; k++) {
        const nn_kind *kind = zt_layer_kind_of((zt_nn_kind)k);
        *out = (zt_nn_kind)k;
        if (!strcasecmp(name, kind->name)) return true;
        for (int i = 0; i < 2 && kind->aliases[i]; i++)
            if (!strcasecmp(name, kind->aliases[i])) return true;
    }
    *out = ZT_NN_DENSE;
    return false;
}

bool zt_nn_act_parse(const char *name, zt_nn_act *out)
{
    if (!name || !out) return false;
    for (int act = ZT_NN_LINEAR; act < ZT_NN_ACTS; act++) {
        *out = (zt_nn_act)act;
        if (!strcasecmp(name, act_names[act + 1])) return true;
    }
    *out = ZT_NN_LINEAR;
    return false;
}

bool zt_nn_softmax_parse(const char *name, zt_nn_softmax *out)
{
    if (!name || !out) return false;
    for (int softmax = 0; softmax < ZT_NN_SOFTMAXES; softmax++) {
        *out = (zt_nn_softmax)softmax;
        if (!strcmp(name, softmax_names[softmax])) return true;
    }
    *out = ZT_NN_STANDARD;
    return false;
}

bool zt_nn_dtype_parse(const char *name, zt_storage *out)
{
    if (!name || !out) return false;
    static const struct {
        const char *name;
        zt_storage type;
    } other[] = {{"fp64", ZT_STORE_F64}, {"f64", ZT_STORE_F64}, {"fp32", ZT_STORE_F32},  {"f32", ZT_STORE_F32},
                 {"fp16", ZT_STORE_F16}, {"f16", ZT_STORE_F16}, {"bf16", ZT_STORE_BF16}, {"fp8", ZT_STORE_FP8E4M3},
                 {"i64", ZT_STORE_I64},  {"i32", ZT_STORE_I32}, {"i16", ZT_STORE_I16},   {"i8", ZT_STORE_I8},
                 {"u64", ZT_STORE_U64},  {"u32", ZT_STORE_U32}, {"u16", ZT_STORE_U16},   {"u8", ZT_STORE_U8},
                 {"f4", ZT_STORE_FP4}};
    for (int storage = 0; storage < ZT_STORE_COUNT; storage++) {
        *out = (zt_storage)storage;
        if (!strcasecmp(name, zt_netjson_word(*out))) return true;
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        *out = other[i].type;
        if (!strcasecmp(name, other[i].name)) return true;
    }
    *out = ZT_STORE_F32;
    return false;
}
