/* learn.c - new language models for training: shape, header, random weights; and a model's training program. */
#include "lib/base/require.h"
#include "lib/llm/learn.h"
#include "lib/io/gguf_write.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/bpe_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 32, MAX_TENSORS = 9 * ZT_MAX_LAYERS + 2 };

/* ---- shapes ---------------------------------------------------------------------------------- */

static int64_t count_parameters(const zt_llm_shape *shape)
{
    int64_t layer = 4 * shape->width * shape->width + 3 * shape->width * shape->ff + 2 * shape->width;
    return shape->layers * layer + shape->vocab * shape->width + shape->width;
}

/* A layer for each 32 columns, from 2 to 32; ff 8/3 of the width. */
static zt_llm_shape shape_at(int64_t width, int64_t vocab)
{
    int64_t layers = width / 32 < 2 ? 2 : width / 32 > 32 ? 32 : width / 32;
    return (zt_llm_shape){.arch = "llama",
                          .layers = layers,
                          .width = width,
                          .heads = width / HEAD,
                          .ff = (8 * width / 3 + 31) / 32 * 32,
                          .vocab = vocab};
}

zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *shape)
{
    ZT_REQUIRE(ctx, shape, ZT_EUSAGE);
    zt_llm_shape candidate = shape_at(HEAD, vocab);
    int64_t least = count_parameters(&candidate);
    if (parameters < least)
        return zt_fail(ctx, ZT_EUSAGE, "%lld parameters are too few: a model with %lld tokens has at least %lld",
                       (long long)parameters, (long long)vocab, (long long)least);
    while (candidate.width < 1 << 14 && count_parameters(&candidate) <= parameters) {
        *shape = candidate;
        candidate = shape_at(candidate.width + HEAD, vocab);
    }
    return ZT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct drawn {
    zt_ctx *ctx;
    uint64_t seed;
    int count;
    struct {
        char name[ZT_WEIGHT_NAME];
        zt_type type;
        float deviation; /* 0: all ones */
    } tensor[];
} drawn;

static void add_tensor(drawn *weights, zt_weight weight, int64_t layer, int64_t rows, int64_t columns, double deviation)
{
    zt_weight_name(weight, layer, weights->tensor[weights->count].name);
    weights->tensor[weights->count].type =
        rows ? zt_type_make(ZT_F32, 2, (int64_t[]){rows, columns}) : zt_type_make(ZT_F32, 1, &columns);
    weights->tensor[weights->count++].deviation = (float)deviation;
}

static void add_layer(drawn *weights, const zt_llm_shape *shape, int64_t layer)
{
    double deviation = 1 / sqrt((double)shape->width), output_scale = sqrt(0.5 / (double)shape->layers);
    add_tensor(weights, ZT_W_ATTN_NORM, layer, 0, shape->width, 0);
    add_tensor(weights, ZT_W_Q, layer, shape->width, shape->width, deviation);
    add_tensor(weights, ZT_W_K, layer, shape->width, shape->width, deviation);
    add_tensor(weights, ZT_W_V, layer, shape->width, shape->width, deviation);
    add_tensor(weights, ZT_W_O, layer, shape->width, shape->width, deviation * output_scale);
    add_tensor(weights, ZT_W_FF_NORM, layer, 0, shape->width, 0);
    add_tensor(weights, ZT_W_GATE, layer, shape->ff, shape->width, deviation);
    add_tensor(weights, ZT_W_UP, layer, shape->ff, shape->width, deviation);
    add_tensor(weights, ZT_W_DOWN, layer, shape->width, shape->ff, output_scale / sqrt((double)shape->ff));
}

static drawn *list_weights(zt_ctx *ctx, const zt_llm_shape *shape)
{
    drawn *weights = zt_calloc(ctx, 1, sizeof *weights + MAX_TENSORS * sizeof *weights->tensor);
    if (!weights) return NULL;
    weights->ctx = ctx;
    weights->seed = shape->seed;
    add_tensor(weights, ZT_W_EMBED, 0, shape->vocab, shape->width, 0.02);
    for (int64_t layer = 0; layer < shape->layers; layer++) add_layer(weights, shape, layer);
    add_tensor(weights, ZT_W_OUT_NORM, 0, 0, shape->width, 0);
    return weights;
}

static zt_status find_tensor(void *user, const char *name, zt_type *type, int64_t *handle)
{
    drawn *weights = user;
    for (int i = 0; i < weights->count; i++)
        if (!strcmp(weights->tensor[i].name, name)) {
            *type = weights->tensor[i].type;
            *handle = i;
            return ZT_OK;
        }
    return ZT_ENOENT;
}

/* Each number depends on the seed, the tensor and its index alone. */
static zt_status read_numbers(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    drawn *weights = user;
    double deviation = (double)weights->tensor[handle].deviation;
    for (size_t done = 0; done < size;) {
        size_t byte = offset + done, inside = byte % sizeof(float), piece = sizeof(float) - inside;
        float number = deviation > 0 ? (float)(deviation * zt_normal(weights->seed, (uint64_t)handle, byte / sizeof number)) : 1;
        if (piece > size - done) piece = size - done;
        memcpy((char *)dst + done, (const char *)&number + inside, piece);
        done += piece;
    }
    return ZT_OK;
}

static void release_weights(void *user) { zt_free(((drawn *)user)->ctx, user); }

/* ---- the header ------------------------------------------------------------------------------ */

static void put_keys(zt_gguf_writer *writer, const zt_llm_shape *shape)
{
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"block_count", shape->layers},
                  {"context_length", shape->ctx},
                  {"embedding_length", shape->width},
                  {"feed_forward_length", shape->ff},
                  {"attention.head_count", shape->heads},
                  {"attention.head_count_kv", shape->heads},
                  {"rope.dimension_count", shape->width / shape->heads},
                  {"vocab_size", shape->vocab}};
    char key[96];
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        snprintf(key, sizeof key, "%s.%s", shape->arch, number[i].name);
        zt_gguf_put_int(writer, key, ZT_GGUF_U32, number[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", shape->arch);
    zt_gguf_put_real(writer, key, ZT_GGUF_F32, 10000);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", shape->arch);
    zt_gguf_put_real(writer, key, ZT_GGUF_F32, 1e-5);
}

static zt_gguf *finish_model(zt_gguf_writer *writer, zt_ctx *ctx, const zt_llm_shape *shape)
{
    size_t header_size;
    uint64_t bytes;
    drawn *weights = list_weights(ctx, shape);
    if (!weights) return NULL;
    put_keys(writer, shape);
    for (int i = 0; i < weights->count; i++) zt_gguf_put_tensor(writer, weights->tensor[i].name, &weights->tensor[i].type);
    char *header = zt_gguf_writer_finish(writer, &header_size, &bytes);
    const zt_store store = {weights, find_tensor, read_numbers};
    if (header) return zt_gguf_over(ctx, "new model", header, header_size, bytes, &store, release_weights);
    release_weights(weights);
    return NULL;
}

zt_gguf *zt_llm_new(zt_ctx *ctx, const zt_llm_shape *shape, const char *text, size_t text_size)
{
    ZT_REQUIRE(ctx, shape && shape->arch && (text || !text_size), NULL);
    zt_llm_shape checked = *shape;
    if (strcmp(checked.arch, "llama") != 0) {
        zt_fail(ctx, ZT_ENOTSUP, "a new model cannot have the architecture '%s', only llama", checked.arch);
        return NULL;
    }
    if (checked.layers < 1 || checked.layers > ZT_MAX_LAYERS || checked.heads < 1 || checked.width % checked.heads) {
        zt_fail(ctx, ZT_EUSAGE, "invalid model shape: %lld layers, width %lld, %lld heads", (long long)checked.layers,
                (long long)checked.width, (long long)checked.heads);
        return NULL;
    }
    zt_gguf_writer *writer = zt_gguf_writer_new(ctx);
    if (!writer) return NULL;
    zt_gguf_put_str(writer, "general.architecture", checked.arch, strlen(checked.arch));
    zt_status status = zt_bpe_make(writer, ctx, text, text_size, checked.vocab, &checked.vocab);
    zt_gguf *gguf = status ? NULL : finish_model(writer, ctx, &checked);
    zt_gguf_writer_free(writer);
    return gguf;
}

/* ---- the program ----------------------------------------------------------------------------- */

static zt_prog *build_training(zt_gguf *gguf, int64_t text_tokens, const zt_llm_adapter *adapter)
{
    zt_hyper *hyper = zt_calloc(zt_gguf_ctx(gguf), 1, sizeof *hyper);
    zt_prog *program = NULL;
    if (!hyper) return NULL;
    zt_status status = zt_hyper_read(gguf, hyper);
    if (!status) status = zt_weights_check(gguf, hyper);
    if (!status && hyper->arch->encoder)
        status = zt_fail(zt_gguf_ctx(gguf), ZT_ENOTSUP, "%s: %s models do not generate text and cannot be trained",
                         zt_gguf_name(gguf), hyper->arch->name);
    if (!status && (text_tokens < 2 || text_tokens > hyper->ctx_train))
        status = zt_fail(zt_gguf_ctx(gguf), ZT_EUSAGE, "%s: sequences of %lld tokens, expected 2 to %lld", zt_gguf_name(gguf),
                         (long long)text_tokens, (long long)hyper->ctx_train);
    const zt_build_opts options = {
        .exact = true, .kv = ZT_F32, .n_seq = 1, .ctx = text_tokens, .lesson = text_tokens, .adapter = adapter};
    if (!status) program = zt_llm_build(gguf, hyper, &options);
    zt_free(zt_gguf_ctx(gguf), hyper);
    return program;
}

zt_prog *zt_llm_training(zt_gguf *gguf, int64_t text_tokens) { return gguf ? build_training(gguf, text_tokens, NULL) : NULL; }

zt_prog *zt_llm_training_adapter(zt_gguf *gguf, int64_t text_tokens, const zt_llm_adapter *adapter)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(zt_gguf_ctx(gguf), adapter, NULL);
    for (int i = 0; i < zt_llm_targets_count(adapter->targets); i++) {
        const zt_llm_target *target = zt_llm_target_at(adapter->targets, i);
        int64_t side = target->rows < target->columns ? target->rows : target->columns;
        if (adapter->rank >= 1 && adapter->rank <= side) continue;
        zt_fail(zt_gguf_ctx(gguf), ZT_EUSAGE, "%s: a rank of %lld for the matrix '%s', which has %lld rows and %lld columns",
                zt_gguf_name(gguf), (long long)adapter->rank, target->tensor, (long long)target->rows,
                (long long)target->columns);
        return NULL;
    }
    return build_training(gguf, text_tokens, adapter);
}
