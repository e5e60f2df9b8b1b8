/* learn.c - new language models for training: shape, header, random weights; and a model's training program. */
#include "lib/base/require.h"
#include "lib/llm/learn.h"
#include "lib/io/gguf_write.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/bpe_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of a head of attention; of Mamba the authors' sizes (mamba_ssm/modules/mamba_simple.py and mamba2.py of state-spaces/mamba). */
enum { HEAD = 32, FILTER = 4, NUMBERS = 16, NUMBERS_2 = 64, HEAD_2 = 32, STEP_DIVISOR = 16 };
enum { MAX_LAYER_TENSORS = 30, OTHER_TENSORS = 6 };

/* ---- tensors --------------------------------------------------------------------------------- */

/* What the numbers of a tensor are: all the same, normal, or of state-space layers A, from -1 on for the numbers of a channel or
 * drawn between -16 and -1 for a head, and what gives steps between 0.001 and 0.1; a curve over the columns; of RWKV-7 how much the
 * row before counts in each of its inputs. */
typedef enum fill { FILL_ONES, FILL_ZEROS, FILL_NORMAL, FILL_COUNT, FILL_DECAY, FILL_STEPS, FILL_CURVE, FILL_LERPS } fill;

/* Of column c of C: base + zigzag z |z| + slope (c/(C-1) - 1/2) + rise (c/(C-1))^power, where z goes from -1 to 1 over each head. */
typedef struct curve {
    double base, zigzag, slope, rise, power;
} curve;

typedef struct drawn {
    zt_ctx *ctx;
    uint64_t seed;
    int count;
    struct {
        char name[ZT_WEIGHT_NAME];
        zt_type type;
        fill filled;
        double deviation; /* of FILL_NORMAL */
        curve of;         /* FILL_CURVE; FILL_LERPS: its power */
    } tensor[];
} drawn;

static void add_tensor(drawn *weights, zt_weight weight, int64_t layer, int64_t rows, int64_t columns, double deviation)
{
    zt_weight_name(weight, layer, weights->tensor[weights->count].name);
    weights->tensor[weights->count].type =
        rows ? zt_type_make(ZT_F32, 2, (int64_t[]){rows, columns}) : zt_type_make(ZT_F32, 1, &columns);
    weights->tensor[weights->count].filled = deviation > 0 ? FILL_NORMAL : FILL_ONES;
    weights->tensor[weights->count++].deviation = (double)(float)deviation;
}

static void add_filled(drawn *weights, zt_weight weight, int64_t layer, int64_t rows, int64_t columns, fill filled)
{
    add_tensor(weights, weight, layer, rows, columns, 0);
    weights->tensor[weights->count - 1].filled = filled;
}

static void add_llama_layer(drawn *weights, const zt_llm_shape *shape, int64_t layer)
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

/* What layers of Mamba and Mamba 2 begin with: a product to `in_rows` columns, and the convolution of `mixed` of these. */
static void add_scan_start(drawn *weights, const zt_llm_shape *shape, int64_t layer, int64_t in_rows, int64_t mixed)
{
    add_tensor(weights, ZT_W_ATTN_NORM, layer, 0, shape->width, 0);
    add_tensor(weights, ZT_W_SCAN_IN, layer, in_rows, shape->width, 1 / sqrt((double)shape->width));
    add_tensor(weights, ZT_W_SCAN_CONV, layer, mixed, FILTER, 1 / sqrt((double)FILTER));
    add_filled(weights, ZT_W_SCAN_CONV_BIAS, layer, 0, mixed, FILL_ZEROS);
}

static void add_mamba_layer(drawn *weights, const zt_llm_shape *shape, int64_t layer)
{
    int64_t inner = 2 * shape->width, rank = shape->width / STEP_DIVISOR;
    double output_scale = sqrt(0.5 / (double)shape->layers);
    add_scan_start(weights, shape, layer, 2 * inner, inner);
    add_tensor(weights, ZT_W_SCAN_X, layer, rank + 2 * NUMBERS, inner, 1 / sqrt((double)inner));
    add_tensor(weights, ZT_W_SCAN_DT, layer, inner, rank, 1 / sqrt((double)rank));
    add_filled(weights, ZT_W_SCAN_DT_BIAS, layer, 0, inner, FILL_STEPS);
    add_filled(weights, ZT_W_SCAN_A, layer, inner, NUMBERS, FILL_COUNT);
    add_filled(weights, ZT_W_SCAN_D, layer, 0, inner, FILL_ONES);
    add_tensor(weights, ZT_W_SCAN_OUT, layer, shape->width, inner, output_scale / sqrt((double)inner));
}

static void add_mamba2_layer(drawn *weights, const zt_llm_shape *shape, int64_t layer)
{
    int64_t inner = 2 * shape->width, heads = inner / HEAD_2, mixed = inner + 2 * NUMBERS_2;
    double output_scale = sqrt(0.5 / (double)shape->layers);
    add_scan_start(weights, shape, layer, inner + mixed + heads, mixed);
    add_filled(weights, ZT_W_SCAN_A_HEADS, layer, heads, 1, FILL_DECAY);
    add_filled(weights, ZT_W_SCAN_D_HEADS, layer, heads, 1, FILL_ONES);
    add_filled(weights, ZT_W_SCAN_DT_HEADS, layer, 0, heads, FILL_STEPS);
    add_filled(weights, ZT_W_SCAN_NORM, layer, 1, inner, FILL_ONES);
    add_tensor(weights, ZT_W_SCAN_OUT, layer, shape->width, inner, output_scale / sqrt((double)inner));
}

/* ---- RWKV-7: what the authors begin with (BlinkDL's RWKV-LM, RWKV-v7/train_temp/src/model.py) ------------------------------- */

enum { MOST_RANK = 32, CHANNELS = 4 };

/* Of the low-rank products: the authors' for widths of up to 500, but at most half the width. */
static int64_t time_mix_rank(const zt_llm_shape *shape) { return shape->width < 2 * MOST_RANK ? shape->width / 2 : MOST_RANK; }

static void add_curve(drawn *weights, zt_weight weight, int64_t layer, int64_t columns, curve of)
{
    add_filled(weights, weight, layer, 0, columns, FILL_CURVE);
    weights->tensor[weights->count - 1].of = of;
}

/* x W1^T W2^T + a vector: W1 begins at 0. */
static void add_low_rank(drawn *weights, const zt_llm_shape *shape, int64_t layer, zt_weight down, zt_weight up)
{
    int64_t rank = time_mix_rank(shape);
    add_filled(weights, down, layer, rank, shape->width, FILL_ZEROS);
    add_tensor(weights, up, layer, shape->width, rank, 0.1 / sqrt((double)rank));
}

static void add_layer_norm(drawn *weights, zt_weight gains, zt_weight biases, int64_t layer, int64_t width)
{
    add_filled(weights, gains, layer, 0, width, FILL_ONES);
    add_filled(weights, biases, layer, 0, width, FILL_ZEROS);
}

static void add_time_mix(drawn *weights, const zt_llm_shape *shape, int64_t layer)
{
    const int64_t width = shape->width;
    const double deviation = 1 / sqrt(12 * (double)width),
                 behind = shape->layers > 1 ? (double)layer / (double)(shape->layers - 1) : 0;
    add_filled(weights, ZT_W_TIME_LERP, layer, 6, width, FILL_LERPS);
    weights->tensor[weights->count - 1].type = zt_type_make(ZT_F32, 4, (int64_t[]){6, 1, 1, width});
    weights->tensor[weights->count - 1].of.power = 1 - (double)layer / (double)shape->layers;
    add_curve(weights, ZT_W_TIME_W0, layer, width,
              (curve){.base = -5.5, .zigzag = 2.5, .rise = 6, .power = 1 + pow(behind, 0.3)});
    add_low_rank(weights, shape, layer, ZT_W_TIME_W1, ZT_W_TIME_W2);
    add_curve(weights, ZT_W_TIME_A0, layer, width, (curve){.base = -0.19, .zigzag = 0.3, .slope = 0.4});
    add_low_rank(weights, shape, layer, ZT_W_TIME_A1, ZT_W_TIME_A2);
    add_curve(weights, ZT_W_TIME_V0, layer, width, (curve){.base = 0.73, .slope = -0.4});
    add_low_rank(weights, shape, layer, ZT_W_TIME_V1, ZT_W_TIME_V2);
    add_low_rank(weights, shape, layer, ZT_W_TIME_G1, ZT_W_TIME_G2);
    add_curve(weights, ZT_W_TIME_K_K, layer, width, (curve){.base = 0.71, .slope = -0.1});
    add_curve(weights, ZT_W_TIME_K_A, layer, width, (curve){.base = 1.02});
    add_curve(weights, ZT_W_TIME_R_K, layer, width, (curve){.base = -0.04});
    add_tensor(weights, ZT_W_TIME_RECEPTANCE, layer, width, width, deviation);
    add_tensor(weights, ZT_W_TIME_KEY, layer, width, width, 0.1 * deviation);
    add_tensor(weights, ZT_W_TIME_VALUE, layer, width, width, deviation);
    add_curve(weights, ZT_W_TIME_NORM, layer, width, (curve){.base = pow((double)(1 + layer) / (double)shape->layers, 0.7)});
    add_filled(weights, ZT_W_TIME_NORM_BIAS, layer, 0, width, FILL_ZEROS);
    add_filled(weights, ZT_W_TIME_OUT, layer, width, width, FILL_ZEROS);
}

static void add_rwkv_layer(drawn *weights, const zt_llm_shape *shape, int64_t layer)
{
    const int64_t width = shape->width;
    add_layer_norm(weights, ZT_W_ATTN_NORM, ZT_W_ATTN_NORM_BIAS, layer, width);
    add_time_mix(weights, shape, layer);
    add_layer_norm(weights, ZT_W_CHANNEL_NORM, ZT_W_CHANNEL_NORM_BIAS, layer, width);
    add_curve(weights, ZT_W_CHANNEL_LERP, layer, width,
              (curve){.base = 1, .rise = -1, .power = pow(1 - (double)layer / (double)shape->layers, 4)});
    add_tensor(weights, ZT_W_CHANNEL_KEY, layer, CHANNELS * width, width, 1 / sqrt(12 * (double)width));
    add_filled(weights, ZT_W_CHANNEL_VALUE, layer, width, CHANNELS * width, FILL_ZEROS);
}

static void add_rwkv_ends(drawn *weights, const zt_llm_shape *shape)
{
    add_layer_norm(weights, ZT_W_EMBED_NORM, ZT_W_EMBED_NORM_BIAS, 0, shape->width);
    add_filled(weights, ZT_W_OUT_NORM_BIAS, 0, 0, shape->width, FILL_ZEROS);
    add_tensor(weights, ZT_W_OUT, 0, shape->vocab, shape->width, 0.5 / sqrt((double)shape->width));
}

/* ---- architectures --------------------------------------------------------------------------- */

static void put_rwkv_keys(zt_gguf_writer *writer, const zt_llm_shape *shape);
static void put_attention_keys(zt_gguf_writer *writer, const zt_llm_shape *shape);
static void put_mamba_keys(zt_gguf_writer *writer, const zt_llm_shape *shape);
static void put_mamba2_keys(zt_gguf_writer *writer, const zt_llm_shape *shape);

/* Those that a new model may have. */
static const struct new_arch {
    const char *name;
    void (*add_layer)(drawn *weights, const zt_llm_shape *shape, int64_t layer);
    void (*put_keys)(zt_gguf_writer *writer, const zt_llm_shape *shape);
    void (*add_ends)(drawn *weights, const zt_llm_shape *shape); /* besides the embedding and the last norm; NULL: nothing */
} new_archs[] = {{"llama", add_llama_layer, put_attention_keys, NULL},
                 {"mamba", add_mamba_layer, put_mamba_keys, NULL},
                 {"mamba2", add_mamba2_layer, put_mamba2_keys, NULL},
                 {"rwkv7", add_rwkv_layer, put_rwkv_keys, add_rwkv_ends}};

enum { NEW_ARCHS = sizeof new_archs / sizeof *new_archs };

const char *zt_llm_new_arch(int index) { return index >= 0 && index < NEW_ARCHS ? new_archs[index].name : NULL; }

static const struct new_arch *find_new_arch(zt_ctx *ctx, const char *name)
{
    for (int i = 0; i < NEW_ARCHS; i++)
        if (strcmp(new_archs[i].name, name) == 0) return &new_archs[i];
    zt_fail(ctx, ZT_ENOTSUP, "a new model cannot have the architecture '%s', only llama, mamba, mamba2 or rwkv7", name);
    return NULL;
}

static drawn *list_weights(zt_ctx *ctx, const zt_llm_shape *shape)
{
    const struct new_arch *arch = find_new_arch(ctx, shape->arch);
    if (!arch) return NULL;

    size_t most = (size_t)shape->layers * MAX_LAYER_TENSORS + OTHER_TENSORS;
    drawn *weights = zt_calloc(ctx, 1, sizeof *weights + most * sizeof *weights->tensor);
    if (!weights) return NULL;
    weights->ctx = ctx;
    weights->seed = shape->seed;
    add_tensor(weights, ZT_W_EMBED, 0, shape->vocab, shape->width, 0.02);
    for (int64_t layer = 0; layer < shape->layers; layer++) arch->add_layer(weights, shape, layer);
    add_tensor(weights, ZT_W_OUT_NORM, 0, 0, shape->width, 0);
    if (arch->add_ends) arch->add_ends(weights, shape);
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

static double curve_at(const curve *of, double column, double columns)
{
    double along = column / (columns - 1), middle = (HEAD - 1) / 2.0, zigzag = (fmod(column, HEAD) - middle) / middle;
    return of->base + of->zigzag * zigzag * fabs(zigzag) + of->slope * (along - 0.5) + of->rise * pow(along, of->power);
}

/* Of the inputs r, w, k, v, a and g. */
static double lerp_at(const curve *of, int64_t input, double column, double columns)
{
    static const double powers[] = {0.2, 0.9, 0.7, 0.7, 0.9, 0.2};
    return 1 - pow(column / columns, powers[input] * of->power);
}

/* Number `index` of a tensor: it depends on the seed, the tensor and its index alone. */
static double number_at(const drawn *weights, int64_t handle, uint64_t index)
{
    const zt_type *type = &weights->tensor[handle].type;
    const curve *of = &weights->tensor[handle].of;
    uint64_t columns = (uint64_t)type->dim[type->rank - 1];
    double chance;
    switch (weights->tensor[handle].filled) {
    case FILL_ONES: return 1;
    case FILL_ZEROS: return 0;
    case FILL_NORMAL: break;
    case FILL_COUNT: return -(double)(1 + index % columns);
    case FILL_DECAY: return -(1 + 15 * zt_uniform(weights->seed, (uint64_t)handle, index));
    case FILL_STEPS:
        chance = zt_uniform(weights->seed, (uint64_t)handle, index);
        return log(expm1(0.001 * pow(100, chance))); /* of which softplus is the step */
    case FILL_CURVE: return curve_at(of, (double)index, (double)columns);
    case FILL_LERPS: return lerp_at(of, (int64_t)(index / columns), (double)(index % columns), (double)columns);
    }
    return weights->tensor[handle].deviation * zt_normal(weights->seed, (uint64_t)handle, index);
}

static zt_status read_numbers(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    drawn *weights = user;
    for (size_t done = 0; done < size;) {
        size_t byte = offset + done, inside = byte % sizeof(float), piece = sizeof(float) - inside;
        float number = (float)number_at(weights, handle, byte / sizeof number);
        if (piece > size - done) piece = size - done;
        memcpy((char *)dst + done, (const char *)&number + inside, piece);
        done += piece;
    }
    return ZT_OK;
}

static void release_weights(void *user) { zt_free(((drawn *)user)->ctx, user); }

/* ---- shapes ---------------------------------------------------------------------------------- */

/* A layer for each 32 columns, from 2 to 32; ff 8/3 of the width. */
static zt_llm_shape shape_at(const char *arch, int64_t width, int64_t vocab)
{
    int64_t layers = width / 32 < 2 ? 2 : width / 32 > 32 ? 32 : width / 32;
    return (zt_llm_shape){.arch = arch,
                          .layers = layers,
                          .width = width,
                          .heads = width / HEAD,
                          .ff = (8 * width / 3 + 31) / 32 * 32,
                          .vocab = vocab};
}

/* -1: no memory, or no such architecture. */
static int64_t count_parameters(zt_ctx *ctx, const zt_llm_shape *shape)
{
    int64_t sum = 0;
    drawn *weights = list_weights(ctx, shape);
    for (int i = 0; weights && i < weights->count; i++) sum += zt_type_count(&weights->tensor[i].type);
    zt_free(ctx, weights);
    return weights ? sum : -1;
}

zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *shape)
{
    return zt_llm_shape_for(ctx, "llama", parameters, vocab, shape);
}

zt_status zt_llm_shape_for(zt_ctx *ctx, const char *arch, int64_t parameters, int64_t vocab, zt_llm_shape *shape)
{
    ZT_REQUIRE(ctx, arch && shape, ZT_EUSAGE);
    zt_llm_shape candidate = shape_at(arch, HEAD, vocab);
    int64_t least = count_parameters(ctx, &candidate), count = least;
    if (least < 0) return zt_ctx_status(ctx);
    if (parameters < least)
        return zt_fail(ctx, ZT_EUSAGE, "%lld parameters are too few: a model with %lld tokens has at least %lld",
                       (long long)parameters, (long long)vocab, (long long)least);
    while (candidate.width < 1 << 14 && count >= 0 && count <= parameters) {
        *shape = candidate;
        candidate = shape_at(arch, candidate.width + HEAD, vocab);
        count = count_parameters(ctx, &candidate);
    }
    return count < 0 ? zt_ctx_status(ctx) : ZT_OK;
}

/* ---- the header ------------------------------------------------------------------------------ */

typedef struct number_key {
    const char *name;
    int64_t value;
} number_key;

static void put_numbers(zt_gguf_writer *writer, const zt_llm_shape *shape, const number_key *number, size_t count)
{
    char key[96];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s.%s", shape->arch, number[i].name);
        zt_gguf_put_int(writer, key, ZT_GGUF_U32, number[i].value);
    }
}

static void put_attention_keys(zt_gguf_writer *writer, const zt_llm_shape *shape)
{
    const number_key number[] = {{"feed_forward_length", shape->ff},
                                 {"attention.head_count", shape->heads},
                                 {"attention.head_count_kv", shape->heads},
                                 {"rope.dimension_count", shape->width / shape->heads}};
    put_numbers(writer, shape, number, sizeof number / sizeof *number);
    zt_gguf_put_real(writer, "llama.rope.freq_base", ZT_GGUF_F32, 10000);
}

/* As llama.cpp's converter writes them (conversion/mamba.py): `steps`: columns of the steps, or heads. */
static void put_scan_keys(zt_gguf_writer *writer, const zt_llm_shape *shape, int64_t numbers, int64_t steps)
{
    const number_key number[] = {{"feed_forward_length", 0},  {"attention.head_count", 0},
                                 {"ssm.conv_kernel", FILTER}, {"ssm.inner_size", 2 * shape->width},
                                 {"ssm.state_size", numbers}, {"ssm.time_step_rank", steps}};
    put_numbers(writer, shape, number, sizeof number / sizeof *number);
}

static void put_mamba_keys(zt_gguf_writer *writer, const zt_llm_shape *shape)
{
    put_scan_keys(writer, shape, NUMBERS, shape->width / STEP_DIVISOR);
}

static void put_mamba2_keys(zt_gguf_writer *writer, const zt_llm_shape *shape)
{
    put_scan_keys(writer, shape, NUMBERS_2, 2 * shape->width / HEAD_2);
    put_numbers(writer, shape, &(number_key){"ssm.group_count", 1}, 1);
}

/* As llama.cpp's converter writes them (conversion/rwkv.py). */
static void put_rwkv_keys(zt_gguf_writer *writer, const zt_llm_shape *shape)
{
    const int64_t rank = time_mix_rank(shape);
    const number_key number[] = {{"feed_forward_length", CHANNELS * shape->width},
                                 {"attention.head_count", 0},
                                 {"wkv.head_size", HEAD},
                                 {"token_shift_count", 2},
                                 {"attention.decay_lora_rank", rank},
                                 {"attention.iclr_lora_rank", rank},
                                 {"attention.value_residual_mix_lora_rank", rank},
                                 {"attention.gate_lora_rank", rank}};
    put_numbers(writer, shape, number, sizeof number / sizeof *number);
    zt_gguf_put_real(writer, "rwkv7.attention.layer_norm_epsilon", ZT_GGUF_F32, 1e-5);
}

static void put_keys(zt_gguf_writer *writer, const zt_llm_shape *shape, const struct new_arch *arch)
{
    const number_key number[] = {{"block_count", shape->layers},
                                 {"context_length", shape->ctx},
                                 {"embedding_length", shape->width},
                                 {"vocab_size", shape->vocab}};
    char key[96];
    put_numbers(writer, shape, number, sizeof number / sizeof *number);
    arch->put_keys(writer, shape);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", shape->arch);
    zt_gguf_put_real(writer, key, ZT_GGUF_F32, 1e-5);
}

static zt_gguf *finish_model(zt_gguf_writer *writer, zt_ctx *ctx, const zt_llm_shape *shape)
{
    size_t header_size;
    uint64_t bytes;
    drawn *weights = list_weights(ctx, shape);
    if (!weights) return NULL;
    put_keys(writer, shape, find_new_arch(ctx, shape->arch));
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
    if (!find_new_arch(ctx, checked.arch)) return NULL;
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
    if (!status && hyper->classifies)
        status = zt_fail(zt_gguf_ctx(gguf), ZT_ENOTSUP, "%s: models that compute scores of texts (rerankers) cannot be trained",
                         zt_gguf_name(gguf));
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
