/* network_model.c - a network that is a language model, as a model (--tokenizer): the layers of a transformer become the tensors
 * of a GGUF in memory, over the network's weights.
 *
 *     Embedding
 *     x + MultiHeadAttention(RMSNorm(x)), x + SwiGLU(RMSNorm(x))     a Sequential of a Sequential and a Residual; for each block
 *     RMSNorm
 *     Dense                                                          the output head; without it the embedding is the head
 *
 * The architecture is qwen2, which has these layers: biases of q, k and v, and rope over the two halves of a head.
 */
#include "tools/zt-run/run.h"

#include "lib/io/gguf_write.h"
#include "lib/nn/nn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BLOCKS = 1024, TENSORS_OF_BLOCK = 12, USUAL_LENGTH = 1 << 17 };

typedef struct network_tensor {
    char name[64];      /* in the GGUF */
    const char *weight; /* of the network */
    zt_type type;
} network_tensor;

typedef struct network_model {
    zt_ctx *ctx;
    zt_nn *network;
    zt_store store; /* of the network */
    int64_t blocks, ff;
    const zt_nn_layer *attention, *norm, *embedding; /* the first of each: others must agree */
    network_tensor *tensors;
    int64_t count;
} network_model;

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status refuse_layer(const network_model *model, const zt_nn_layer *layer, const char *what)
{
    return zt_fail(model->ctx, ZT_ENOTSUP,
                   "%s: %s: %s: the network is not a language model with the layers that zt-network(5) lists",
                   zt_nn_name(model->network), layer ? layer->path : "layers", what);
}

static const zt_nn_weight *find_part(const network_model *model, const zt_nn_layer *layer, const char *part)
{
    for (int64_t i = layer->first_weight; i < layer->first_weight + layer->weight_count; i++) {
        const zt_nn_weight *weight = zt_nn_weight_at(model->network, i);
        const char *end = weight ? strrchr(weight->name, '.') : NULL;
        if (end && !strcmp(end + 1, part)) return weight;
    }
    return NULL;
}

static zt_status add_tensor(network_model *model, const zt_nn_layer *layer, const char *part, const char *name)
{
    const zt_nn_weight *weight = find_part(model, layer, part);
    network_tensor *tensor = &model->tensors[model->count];
    if (!weight) return refuse_layer(model, layer, "a weight is missing");
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->weight = weight->name;
    tensor->type = weight->type;
    model->count++;
    return ZT_OK;
}

/* The tensor of the block at hand: "blk.N.NAME". */
static zt_status add_of_block(network_model *model, const zt_nn_layer *layer, const char *part, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRId64 ".%s", model->blocks, name);
    return add_tensor(model, layer, part, full);
}

/* A bias that the architecture does not have must be zeros. */
static zt_status check_zeros(const network_model *model, const zt_nn_layer *layer, const char *part)
{
    const zt_nn_weight *weight = find_part(model, layer, part);
    int64_t count = weight ? zt_type_count(&weight->type) : 0;
    for (int64_t i = 0; i < count; i++)
        if (weight->values[i] != 0) return refuse_layer(model, layer, "a bias of the output or of SwiGLU that is not zero");
    return ZT_OK;
}

static double eps_of(const zt_nn_layer *norm) { return norm->eps > 0 ? norm->eps : 1e-6; }

static zt_status check_norm(network_model *model, const zt_nn_layer *norm)
{
    if (norm->kind != ZT_NN_RMSNORM || norm->disabled || norm->is_link) return refuse_layer(model, norm, "RMSNorm is expected");
    if (!model->norm) model->norm = norm;
    if (eps_of(norm) != eps_of(model->norm)) return refuse_layer(model, norm, "norms have different eps");
    return norm->input_height == model->embedding->embedding_dim
               ? ZT_OK
               : refuse_layer(model, norm, "another width than the embedding's");
}

/* The norm and the inner layer of x + inner(norm(x)); false: it is not such a layer. */
static bool is_residual(const zt_nn_layer *layer, zt_nn_kind kind, const zt_nn_layer **norm, const zt_nn_layer **inner)
{
    const zt_nn_layer *both = layer->kind == ZT_NN_SEQUENTIAL && layer->step_count == 2 ? &layer->steps[0] : NULL;
    if (!both || both->kind != ZT_NN_SEQUENTIAL || both->step_count != 2 || layer->steps[1].kind != ZT_NN_RESIDUAL) return false;
    *norm = &both->steps[0];
    *inner = &both->steps[1];
    return (*inner)->kind == kind && !layer->disabled && !layer->is_link && !both->disabled && !both->is_link &&
           !(*inner)->disabled && !(*inner)->is_link && !layer->steps[1].disabled && !layer->steps[1].is_link;
}

static zt_status add_attention(network_model *model, const zt_nn_layer *norm, const zt_nn_layer *attention)
{
    static const char *const parts[][2] = {{"wq", "attn_q.weight"},      {"wk", "attn_k.weight"}, {"wv", "attn_v.weight"},
                                           {"wo", "attn_output.weight"}, {"bq", "attn_q.bias"},   {"bk", "attn_k.bias"},
                                           {"bv", "attn_v.bias"}};
    const zt_nn_layer *first = model->attention ? model->attention : attention;
    zt_status status = check_norm(model, norm);
    model->attention = first;
    if (status) return status;
    if (attention->d_model != model->embedding->embedding_dim || attention->num_heads != first->num_heads ||
        attention->num_kv_heads != first->num_kv_heads || attention->head_dim != first->head_dim ||
        attention->rope_freq_base != first->rope_freq_base)
        return refuse_layer(model, attention, "blocks have different attention");
    if (!(attention->rope_freq_base > 0)) return refuse_layer(model, attention, "attention without rope_freq_base");
    status = add_of_block(model, norm, "g", "attn_norm.weight");
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        status = add_of_block(model, attention, parts[i][0], parts[i][1]);
    return status ? status : check_zeros(model, attention, "bo");
}

static zt_status add_feed_forward(network_model *model, const zt_nn_layer *norm, const zt_nn_layer *layer)
{
    zt_status status = check_norm(model, norm);
    if (status) return status;
    if (!model->ff) model->ff = layer->output_height;
    if (layer->output_height != model->ff || layer->input_height != model->embedding->embedding_dim)
        return refuse_layer(model, layer, "blocks have different SwiGLU layers");
    status = add_of_block(model, norm, "g", "ffn_norm.weight");
    if (!status) status = add_of_block(model, layer, "wg", "ffn_gate.weight");
    if (!status) status = add_of_block(model, layer, "wu", "ffn_up.weight");
    if (!status) status = add_of_block(model, layer, "wd", "ffn_down.weight");
    if (!status) status = check_zeros(model, layer, "bg");
    if (!status) status = check_zeros(model, layer, "bu");
    return status ? status : check_zeros(model, layer, "bd");
}

/* The block that begins with the grid's i-th layer. */
static zt_status add_block(network_model *model, int64_t i)
{
    const zt_nn_layer *first = zt_nn_layer_at(model->network, i), *second = zt_nn_layer_at(model->network, i + 1), *norm, *inner;
    if (!is_residual(first, ZT_NN_MHA, &norm, &inner))
        return refuse_layer(model, first, "x + MultiHeadAttention(RMSNorm(x)) is expected");
    zt_status status =
        model->blocks < MOST_BLOCKS ? add_attention(model, norm, inner) : refuse_layer(model, first, "too many blocks");
    if (!status && (!second || !is_residual(second, ZT_NN_SWIGLU, &norm, &inner)))
        status = refuse_layer(model, second ? second : first, "x + SwiGLU(RMSNorm(x)) is expected behind attention");
    if (!status) status = add_feed_forward(model, norm, inner);
    model->blocks++;
    return status;
}

static zt_status add_head(network_model *model, const zt_nn_layer *head)
{
    bool good = head->kind == ZT_NN_DENSE && head->activation == ZT_NN_LINEAR && !head->disabled && !head->is_link &&
                head->input_height == model->embedding->embedding_dim && head->output_height == model->embedding->vocab_size;
    return good ? add_tensor(model, head, "w", "output.weight")
                : refuse_layer(model, head, "a Dense layer without an activation, from the width to the vocabulary, is expected");
}

static zt_status read_layers(network_model *model)
{
    int64_t count = zt_nn_count(model->network), i = 1;
    const zt_nn_layer *first = count ? zt_nn_layer_at(model->network, 0) : NULL;
    model->tensors = zt_calloc(model->ctx, (size_t)(count + 2) * TENSORS_OF_BLOCK, sizeof *model->tensors);
    if (!model->tensors) return ZT_ENOMEM;
    if (!first || first->kind != ZT_NN_EMBEDDING || first->activation != ZT_NN_LINEAR || first->disabled || first->is_link)
        return refuse_layer(model, first, "Embedding is expected");
    model->embedding = first;
    zt_status status = add_tensor(model, first, "w", "token_embd.weight");
    for (; !status && i < count && zt_nn_layer_at(model->network, i)->kind == ZT_NN_SEQUENTIAL; i += 2)
        status = add_block(model, i);
    const zt_nn_layer *last = i < count ? zt_nn_layer_at(model->network, i) : NULL;
    if (!status && (!model->blocks || !last)) status = refuse_layer(model, last, "blocks and RMSNorm are expected");
    if (!status) status = check_norm(model, last);
    if (!status) status = add_tensor(model, last, "g", "output_norm.weight");
    if (!status && i + 1 < count) status = add_head(model, zt_nn_layer_at(model->network, i + 1));
    if (!status && i + 2 < count) status = refuse_layer(model, zt_nn_layer_at(model->network, i + 2), "a layer behind the head");
    return status;
}

/* ---- the GGUF -------------------------------------------------------------------------------- */

static void put_keys(const network_model *model, zt_gguf_writer *writer)
{
    const zt_nn_layer *attention = model->attention;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"block_count", model->blocks},
                   {"context_length", attention->max_seq_len > 0 ? attention->max_seq_len : USUAL_LENGTH},
                   {"embedding_length", model->embedding->embedding_dim},
                   {"feed_forward_length", model->ff},
                   {"attention.head_count", attention->num_heads},
                   {"attention.head_count_kv", attention->num_kv_heads},
                   {"rope.dimension_count", attention->head_dim},
                   {"vocab_size", model->embedding->vocab_size}};
    char key[64];
    zt_gguf_put_str(writer, "general.architecture", "qwen2", 5);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "qwen2.%s", numbers[i].name);
        zt_gguf_put_int(writer, key, ZT_GGUF_U32, numbers[i].value);
    }
    zt_gguf_put_real(writer, "qwen2.rope.freq_base", ZT_GGUF_F32, attention->rope_freq_base);
    zt_gguf_put_real(writer, "qwen2.attention.layer_norm_rms_epsilon", ZT_GGUF_F32, eps_of(model->norm));
}

/* The keys of the tokenizer's file that are about it. */
static void put_tokenizer(const zt_gguf *tokenizer, zt_gguf_writer *writer)
{
    for (int64_t i = 0; i < zt_gguf_n_keys(tokenizer); i++) {
        char name[256];
        zt_gguf_kind kind;
        zt_bytes value, key = zt_gguf_key_value(tokenizer, i, &kind, &value);
        if (key.n >= sizeof name || key.n < 10 || memcmp(key.data, "tokenizer.", 10) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)key.n, key.data);
        zt_gguf_put_raw(writer, name, kind, value.data, value.n);
    }
}

static zt_status find_tensor(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const network_model *model = user;
    for (int64_t i = 0; i < model->count; i++)
        if (!strcmp(model->tensors[i].name, name)) {
            *type = model->tensors[i].type;
            *handle = i;
            return ZT_OK;
        }
    return ZT_ENOENT;
}

static zt_status read_tensor(void *user, int64_t i, size_t offset, void *dst, size_t size)
{
    const network_model *model = user;
    zt_type type;
    int64_t handle;
    zt_status status = model->store.find(model->store.user, model->tensors[i].weight, &type, &handle);
    return status ? status : model->store.read(model->store.user, handle, offset, dst, size);
}

static void release_model(void *user)
{
    network_model *model = user;
    zt_ctx *ctx = model->ctx;
    zt_nn_close(model->network);
    zt_free(ctx, model->tensors);
    zt_free(ctx, model);
}

/* Takes the model over, also on failure. */
static zt_gguf *make_gguf(network_model *model, const zt_gguf *tokenizer)
{
    size_t size;
    uint64_t bytes;
    zt_gguf_writer *writer = zt_gguf_writer_new(model->ctx);
    if (!writer) {
        release_model(model);
        return NULL;
    }
    put_keys(model, writer);
    put_tokenizer(tokenizer, writer);
    for (int64_t i = 0; i < model->count; i++) zt_gguf_put_tensor(writer, model->tensors[i].name, &model->tensors[i].type);
    char *header = zt_gguf_writer_finish(writer, &size, &bytes);
    zt_gguf_writer_free(writer);
    const zt_store store = {model, find_tensor, read_tensor};
    if (!header) release_model(model);
    return header ? zt_gguf_over(model->ctx, zt_nn_name(model->network), header, size, bytes, &store, release_model) : NULL;
}

zt_gguf *run_open_network_model(run_state *run)
{
    network_model *model = zt_calloc(run->ctx, 1, sizeof *model);
    if (!model) return NULL;
    model->ctx = run->ctx;
    model->network = zt_nn_open(run->ctx, run->options->model, run->cli->seed);
    zt_status status = model->network ? read_layers(model) : zt_ctx_status(run->ctx);
    if (!status) model->store = zt_nn_store(model->network);
    zt_gguf *tokenizer = status ? NULL : zt_model_open_vocabulary(run->ctx, run->options->tokenizer);
    zt_gguf *gguf = tokenizer ? make_gguf(model, tokenizer) : NULL;
    if (!tokenizer) release_model(model);
    zt_gguf_close(tokenizer);
    return gguf;
}
