/* mkmodel.h - for tests: small made language models, complete and runnable, from a seed.
 *
 *     mkmodel_opts o = mkmodel_defaults("llama");
 *     o.type = mkmodel_type("q4_k"), o.width = 256, ...
 *     ggufw w = {0};
 *     const char *why = mkmodel(&o, &w);         // NULL: made; else what does not fit
 *     ggufw_save(&w, "m.gguf");
 *
 * Keys and tensor names are llama.cpp's. Weights have the type asked for, as random valid blocks
 * with scales that keep sums near 1; norms and biases are f32 near 1. gemma2 and gemma3 have a
 * SentencePiece vocabulary, all others a byte-level BPE one.
 */
#ifndef ZT_MKMODEL_H
#define ZT_MKMODEL_H

#include <math.h>

#include "lib/tensor/tensor.h"
#include "tests/common/gguf_writer.h"
#include "tests/common/made_vocab_keys.h"

typedef struct mkmodel_kind { /* how random blocks of a type are made */
    const char *name;
    uint32_t number; /* ggml's */
    zt_dtype dtype;
    double unit;    /* deviation of a value whose scale d is 1, or 0: drawn and encoded */
    int d;          /* byte of the f16 scale in a block */
    int m;          /* byte of the f16 minimum, or -1 */
    double m_per_d; /* minimum that centres the values, for d = 1 */
} mkmodel_kind;

typedef struct mkmodel_opts {
    const char *arch; /* a name in mkmodel_archs */
    uint64_t seed;
    int64_t layers, width, heads, kv_heads, head, ffn, vocab, ctx;
    int64_t window;  /* of gemma2 and gemma3: sliding window */
    int64_t experts; /* of those that have them (llama: where it is not 0), of which a token takes 2 */
    bool untied;     /* an output matrix of its own */
    int64_t next;    /* layers behind the last that predict further tokens, of those with attention */
    bool planted;    /* layers add nothing, and the first of those behind the last predicts what the model does */
    bool
        whole_b; /* of deepseek2: keys and values from the latent by one matrix, as older files have it, of the same numbers in f32 */
    const mkmodel_kind *type;
    const mkmodel_kind *also; /* NULL, or the type of attn_v and ffn_down, as in Q4_K_M */
} mkmodel_opts;

/* What an architecture has; mkmodel_layer asks for any of a weight's bits. */
enum {
    MK_QKV = 1,           /* three matrices for q, k and v */
    MK_FUSED_QKV = 2,     /* one */
    MK_QKV_BIAS = 4,      /* of the three */
    MK_FUSED_BIAS = 8,    /* of the one */
    MK_BIAS = 16,         /* of the other matrices */
    MK_GATE = 32,         /* gate beside up */
    MK_FUSED_UP = 64,     /* gate above up */
    MK_UP = 128,          /* up alone */
    MK_PRE = 256,         /* norms before */
    MK_POST = 512,        /* norms on what is added */
    MK_SUM = 1024,        /* norms on the sum, and on the embedding; no last norm, no logits */
    MK_PRE_BIAS = 2048,   /* layer norms, with biases: before */
    MK_SUM_BIAS = 4096,   /* on the sum */
    MK_QK_NORM = 8192,    /* of each head */
    MK_QK_WHOLE = 16384,  /* of all heads */
    MK_POSITIONS = 32768, /* learned; else rope */
    MK_TYPES = 65536,
    MK_SPM = 131072, /* SentencePiece, embeddings scaled, windows */
    MK_EXPERTS = 1 << 18,
    MK_EXPERTS_MAY = 1 << 19,
    MK_SHARED = 1 << 20,
    MK_SHARED_GATE = 1 << 21,
    MK_CHOICE_BIAS = 1 << 22,
    MK_LEADING = 1 << 23,    /* the first layer has no experts */
    MK_FF_POST = 1 << 24,    /* the feed-forward's norm has the name of one after attention */
    MK_FF_ALIKE = 1 << 25,   /* an expert is as long as feed_forward_length; else half of that */
    MK_DIVIDED = 1 << 26,    /* granite's scales; a factor of the logits, not a divisor, in those of Cohere */
    MK_LAYER_NORM = 1 << 27, /* without biases */
    MK_ONE_NORM = 1 << 28,   /* attention and feed-forward read the same */
    MK_SWITCH = 1 << 29,     /* use_parallel_residual */
    MK_WINDOW = 1 << 30      /* a window */
};

#define MK_ENCODER (UINT64_C(1) << 31) /* no logits, norms as a decoder's: none in layer 0 */
#define MK_SINKS   (UINT64_C(1) << 32) /* sinks of attention; biases of the router and of experts */
/* Latent attention: of half the head's columns rotate, values are as long as heads, the latent as two of them; its matrix of
 * keys and values is two, or one. */
#define MK_LATENT (UINT64_C(1) << 33)
#define MK_INDEXER                                                                                                               \
    (UINT64_C(1) << 42) /* with latent attention: an indexer of 2 heads as long as the others, which chooses 5 keys */
#define MK_XIELU   (UINT64_C(1) << 36) /* the curve's numbers */
#define MK_ALIBI   (UINT64_C(1) << 37) /* linear biases */
#define MK_SPLIT_B (UINT64_C(1) << 34)
#define MK_WHOLE_B (UINT64_C(1) << 35)
#define MK_LAYERED (UINT64_C(1) << 50) /* Gemma 3n and 4: sizes by layer, embeddings for each layer */
#define MK_ALTUP   (UINT64_C(1) << 51) /* of them 3n: several streams */
/* Gated delta nets in all layers but the last of every two; attention has gates. beta and alpha by one matrix. */
#define MK_DELTA      (UINT64_C(1) << 40)
#define MK_BETA_ALPHA (UINT64_C(1) << 41)
/* Layers of RWKV-7; with a channel mix, and norms with biases. */
#define MK_TIME_MIX    (UINT64_C(1) << 52)
#define MK_CHANNEL_MIX (UINT64_C(1) << 53)

typedef struct mkmodel_arch {
    const char *name;
    uint64_t has;
} mkmodel_arch;

static const mkmodel_arch mkmodel_archs[] = {
    {"llama", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_EXPERTS_MAY | MK_FF_ALIKE},
    {"internlm2", MK_QKV | MK_GATE | MK_UP | MK_PRE},
    {"qwen2", MK_QKV | MK_QKV_BIAS | MK_GATE | MK_UP | MK_PRE},
    {"gemma3", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_POST | MK_QK_NORM | MK_SPM},
    {"qwen3", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_QK_NORM},
    {"gemma2", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_POST | MK_SPM},
    {"gemma3n", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_POST | MK_QK_NORM | MK_SPM | MK_LAYERED | MK_ALTUP},
    {"gemma4", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_POST | MK_QK_NORM | MK_SPM | MK_LAYERED | MK_EXPERTS_MAY},
    {"phi3", MK_FUSED_QKV | MK_FUSED_UP | MK_PRE},
    {"gpt2", MK_FUSED_QKV | MK_FUSED_BIAS | MK_BIAS | MK_UP | MK_PRE | MK_PRE_BIAS | MK_POSITIONS},
    {"smollm3", MK_QKV | MK_GATE | MK_UP | MK_PRE},
    {"olmo2", MK_QKV | MK_GATE | MK_UP | MK_POST | MK_QK_WHOLE},
    {"granite", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_DIVIDED},
    {"qwen2moe", MK_QKV | MK_QKV_BIAS | MK_PRE | MK_EXPERTS | MK_SHARED | MK_SHARED_GATE},
    {"qwen3moe", MK_QKV | MK_PRE | MK_QK_NORM | MK_EXPERTS},
    {"qwen3next", MK_QKV | MK_PRE | MK_FF_POST | MK_QK_NORM | MK_EXPERTS | MK_SHARED | MK_SHARED_GATE | MK_DELTA | MK_BETA_ALPHA},
    {"qwen35", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_FF_POST | MK_QK_NORM | MK_DELTA},
    {"qwen35moe", MK_QKV | MK_PRE | MK_FF_POST | MK_QK_NORM | MK_EXPERTS | MK_SHARED | MK_SHARED_GATE | MK_DELTA},
    {"rwkv7", MK_TIME_MIX | MK_CHANNEL_MIX},
    {"arwkv7", MK_TIME_MIX},
    {"olmoe", MK_QKV | MK_PRE | MK_QK_WHOLE | MK_EXPERTS | MK_FF_ALIKE},
    {"granitemoe", MK_QKV | MK_PRE | MK_EXPERTS | MK_SHARED | MK_FF_ALIKE | MK_DIVIDED},
    {"phimoe", MK_QKV | MK_PRE | MK_PRE_BIAS | MK_EXPERTS | MK_FF_ALIKE},
    {"ernie4_5-moe", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_EXPERTS | MK_SHARED | MK_CHOICE_BIAS | MK_LEADING},
    {"glm4moe", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_FF_POST | MK_EXPERTS | MK_SHARED | MK_CHOICE_BIAS | MK_LEADING},
    {"gpt-oss", MK_QKV | MK_QKV_BIAS | MK_BIAS | MK_PRE | MK_FF_POST | MK_EXPERTS | MK_FF_ALIKE | MK_WINDOW | MK_SINKS},
    {"llama4", MK_QKV | MK_PRE | MK_EXPERTS | MK_SHARED | MK_WINDOW},
    {"deepseek2", MK_GATE | MK_UP | MK_PRE | MK_EXPERTS | MK_SHARED | MK_CHOICE_BIAS | MK_LEADING | MK_LATENT | MK_SPLIT_B},
    {"deepseek32",
     MK_GATE | MK_UP | MK_PRE | MK_EXPERTS | MK_SHARED | MK_CHOICE_BIAS | MK_LEADING | MK_LATENT | MK_SPLIT_B | MK_INDEXER},
    {"mistral4", MK_PRE | MK_EXPERTS | MK_SHARED | MK_LATENT | MK_SPLIT_B},
    {"minicpm3", MK_GATE | MK_UP | MK_PRE | MK_LATENT | MK_WHOLE_B},
    {"command-r", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_ONE_NORM | MK_LAYER_NORM | MK_DIVIDED},
    {"cohere2", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_ONE_NORM | MK_LAYER_NORM | MK_DIVIDED | MK_WINDOW},
    {"stablelm", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_PRE_BIAS},
    {"starcoder2", MK_QKV | MK_QKV_BIAS | MK_BIAS | MK_UP | MK_PRE | MK_PRE_BIAS},
    {"gptneox", MK_FUSED_QKV | MK_FUSED_BIAS | MK_BIAS | MK_UP | MK_PRE | MK_PRE_BIAS | MK_SWITCH},
    {"falcon", MK_FUSED_QKV | MK_UP | MK_PRE | MK_PRE_BIAS | MK_ONE_NORM},
    {"phi2", MK_QKV | MK_QKV_BIAS | MK_BIAS | MK_UP | MK_PRE | MK_PRE_BIAS | MK_ONE_NORM},
    {"exaone", MK_QKV | MK_GATE | MK_UP | MK_PRE},
    {"exaone4", MK_QKV | MK_GATE | MK_UP | MK_POST | MK_QK_NORM | MK_WINDOW},
    {"glm4", MK_QKV | MK_FUSED_UP | MK_PRE | MK_POST},
    {"seed_oss", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_FF_POST},
    {"hunyuan-dense", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_QK_NORM},
    {"mpt", MK_FUSED_QKV | MK_UP | MK_PRE | MK_LAYER_NORM | MK_ALIBI},
    {"baichuan", MK_QKV | MK_GATE | MK_UP | MK_PRE},
    {"minicpm", MK_QKV | MK_GATE | MK_UP | MK_PRE | MK_DIVIDED},
    {"apertus", MK_QKV | MK_UP | MK_PRE | MK_QK_NORM | MK_XIELU},
    {"mistral3", MK_QKV | MK_GATE | MK_UP | MK_PRE},
    {"bert", MK_QKV | MK_QKV_BIAS | MK_BIAS | MK_UP | MK_SUM | MK_SUM_BIAS | MK_POSITIONS | MK_TYPES},
    {"jina-bert-v2", MK_QKV | MK_QKV_BIAS | MK_FUSED_UP | MK_SUM | MK_SUM_BIAS | MK_TYPES},
    {"modern-bert", MK_FUSED_QKV | MK_FUSED_UP | MK_PRE | MK_LAYER_NORM | MK_WINDOW | MK_ENCODER},
    {"nomic-bert", MK_FUSED_QKV | MK_GATE | MK_UP | MK_SUM | MK_SUM_BIAS | MK_TYPES},
};

/* NULL: no such architecture. */
GGUFW_FN const mkmodel_arch *mkmodel_arch_of(const char *name)
{
    for (size_t i = 0; i < sizeof mkmodel_archs / sizeof *mkmodel_archs; i++) {
        if (strcmp(mkmodel_archs[i].name, name) == 0) return &mkmodel_archs[i];
    }
    return NULL;
}

GGUFW_FN bool mkmodel_has(const char *arch, uint64_t what)
{
    const mkmodel_arch *a = mkmodel_arch_of(arch);
    return a && (a->has & what);
}

GGUFW_FN int64_t mkmodel_experts(const mkmodel_opts *o)
{
    return mkmodel_has(o->arch, MK_EXPERTS) || mkmodel_has(o->arch, MK_EXPERTS_MAY) ? o->experts : 0;
}

GGUFW_FN int64_t mkmodel_expert_ff(const mkmodel_opts *o) { return mkmodel_has(o->arch, MK_FF_ALIKE) ? o->ffn : o->ffn / 2; }

/* q4_1's codes 0..15 centre on 7.5, q4_k's product of scale and code on 31.5 * 7.5, and so on. */
static const mkmodel_kind mkmodel_kinds[] = {
    {"f32", 0, ZT_F32, 0, 0, -1, 0},           {"f16", 1, ZT_F16, 0, 0, -1, 0},
    {"bf16", 30, ZT_BF16, 0, 0, -1, 0},        {"q4_0", 2, ZT_Q4_0, 4.6, 0, -1, 0},
    {"q4_1", 3, ZT_Q4_1, 4.6, 0, 2, -7.5},     {"q5_0", 6, ZT_Q5_0, 9.2, 0, -1, 0},
    {"q5_1", 7, ZT_Q5_1, 9.2, 0, 2, -15.5},    {"q8_0", 8, ZT_Q8_0, 74, 0, -1, 0},
    {"q4_k", 12, ZT_Q4_K, 270, 0, 2, 7.5},     {"q5_k", 13, ZT_Q5_K, 550, 0, 2, 15.5},
    {"q6_k", 14, ZT_Q6_K, 1370, 208, -1, 0},   {"q2_k", 10, ZT_Q2_K, 14, 80, 82, 1.5},
    {"q3_k", 11, ZT_Q3_K, 43, 108, -1, 0},     {"iq4_nl", 20, ZT_IQ4_NL, 67, 0, -1, 0},
    {"iq4_xs", 23, ZT_IQ4_XS, 1250, 0, -1, 0}, {"q1_0", 41, ZT_Q1_0, 1, 0, -1, 0},
    {"q2_0", 42, ZT_Q2_0, 1.2, 0, -1, 0},      {"tq1_0", 34, ZT_TQ1_0, 0.8, 52, -1, 0},
    {"tq2_0", 35, ZT_TQ2_0, 1.2, 64, -1, 0},   {"iq3_xxs", 18, ZT_IQ3_XXS, 150, 0, -1, 0},
    {"iq3_s", 21, ZT_IQ3_S, 150, 0, -1, 0},    {"iq2_xxs", 16, ZT_IQ2_XXS, 56, 0, -1, 0},
    {"iq2_xs", 17, ZT_IQ2_XS, 58, 0, -1, 0},   {"iq2_s", 22, ZT_IQ2_S, 58, 0, -1, 0},
    {"iq1_s", 19, ZT_IQ1_S, 7.4, 0, -1, 0},    {"iq2_k", 137, ZT_IQ2_K, 86, 0, -1, 0},
    {"iq3_k", 138, ZT_IQ3_K, 630, 0, -1, 0},   {"iq4_k", 139, ZT_IQ4_K, 1250, 0, -1, 0},
    {"iq5_k", 140, ZT_IQ5_K, 1260, 0, -1, 0},  {"iq6_k", 141, ZT_IQ6_K, 5000, 0, -1, 0},
};

GGUFW_FN const mkmodel_kind *mkmodel_type(const char *name)
{
    for (size_t i = 0; i < sizeof mkmodel_kinds / sizeof *mkmodel_kinds; i++) {
        if (strcmp(mkmodel_kinds[i].name, name) == 0) return &mkmodel_kinds[i];
    }
    return NULL;
}

GGUFW_FN mkmodel_opts mkmodel_defaults(const char *arch)
{
    bool gemma = mkmodel_has(arch, MK_SPM);
    return (mkmodel_opts){.arch = arch,
                          .layers = 2,
                          .width = 64,
                          .heads = 4,
                          .kv_heads = 2,
                          .head = 16,
                          .ffn = 128,
                          .vocab = gemma ? 400 : 300,
                          .ctx = 256,
                          .window = 16,
                          .experts = mkmodel_has(arch, MK_EXPERTS) ? 4 : 0,
                          .type = mkmodel_type("q8_0")};
}

/* ---- weights ------------------------------------------------------------------------------- */

typedef struct mkmodel_draw { /* random numbers: one sequence a tensor */
    uint64_t seed, sequence, position;
} mkmodel_draw;

GGUFW_FN void mkmodel_set_half(uint8_t *p, double v)
{
    uint16_t h = zt_f32_to_f16((float)v);
    memcpy(p, &h, 2);
}

/* count values of deviation `dev`; count is a multiple of the block. */
GGUFW_FN void mkmodel_weights(const mkmodel_kind *k, mkmodel_draw *r, double dev, uint8_t *out, int64_t count)
{
    const zt_dtype_info *t = zt_dtype_get(k->dtype);
    for (int64_t i = 0; i < count; i += t->block, out += t->block_bytes) {
        if (k->unit == 0) {
            float v = (float)(dev * zt_normal(r->seed, r->sequence, r->position++));
            t->encode(&v, out, 1);
            continue;
        }
        for (int b = 0; b < t->block_bytes; b += 16) {
            uint32_t bits[4];
            zt_philox(r->seed, r->sequence, r->position++, bits);
            memcpy(out + b, bits, (size_t)(t->block_bytes - b < 16 ? t->block_bytes - b : 16));
        }
        double d = dev / k->unit * (0.5 + zt_uniform(r->seed, r->sequence, r->position++));
        mkmodel_set_half(out + k->d, d);
        if (k->m >= 0) mkmodel_set_half(out + k->m, d * k->m_per_d);
    }
}

typedef struct mkmodel_out {
    const mkmodel_opts *o;
    ggufw *w;
    uint64_t sequence; /* tensors made so far */
} mkmodel_out;

/* w[rows, cols] in the type asked for; `stack` of them where that is not 0. */
GGUFW_FN void mkmodel_stack(mkmodel_out *m, const char *name, int64_t stack, int64_t rows, int64_t cols, double dev)
{
    bool other = m->o->also && (strstr(name, "attn_v") || strstr(name, "ffn_down"));
    const mkmodel_kind *k = other ? m->o->also : m->o->type;
    const bool adds = strstr(name, "attn_output") || strstr(name, "ffn_down") || strstr(name, "ssm_out");
    zt_type type =
        stack ? zt_type_make(k->dtype, 3, (int64_t[]){stack, rows, cols}) : zt_type_make(k->dtype, 2, (int64_t[]){rows, cols});
    size_t bytes = zt_type_bytes(&type);
    uint8_t *data = malloc(bytes);
    mkmodel_draw r = {.seed = m->o->seed, .sequence = m->sequence++};
    if (!data) abort();
    mkmodel_weights(k, &r, m->o->planted && adds ? 0 : dev, data, (stack ? stack : 1) * rows * cols);
    ggufw_tensor(m->w, name, k->number, type.rank, type.dim, data, bytes);
    free(data);
}

GGUFW_FN void mkmodel_matrix(mkmodel_out *m, const char *name, int64_t rows, int64_t cols, double dev)
{
    mkmodel_stack(m, name, 0, rows, cols, dev);
}

/* g[count]: f32, 1 give or take a fifth. */
GGUFW_FN void mkmodel_norm(mkmodel_out *m, const char *name, int64_t count)
{
    float *g = malloc((size_t)count * sizeof *g);
    uint64_t sequence = m->sequence++;
    if (!g) abort();
    for (int64_t i = 0; i < count; i++) g[i] = (float)(0.8 + 0.4 * zt_uniform(m->o->seed, sequence, (uint64_t)i));
    ggufw_tensor(m->w, name, 0, 1, &count, g, (size_t)count * sizeof *g);
    free(g);
}

/* A router in f32, and what it chooses from. */
GGUFW_FN void mkmodel_layer_experts(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o;
    const mkmodel_opts plain = {.arch = o->arch, .seed = o->seed, .type = &mkmodel_kinds[0]};
    int64_t experts = mkmodel_experts(o), ff = mkmodel_expert_ff(o);
    double dev = 1 / sqrt((double)o->width), dev_ff = 1 / sqrt((double)ff);
    bool fused = mkmodel_has(o->arch, MK_LAYERED);
    bool shared = mkmodel_has(o->arch, MK_SHARED), biases = mkmodel_has(o->arch, MK_SINKS);
    struct {
        const char *name;
        int64_t stack, rows, cols; /* cols 0: a vector of `rows` values about 1 */
        double dev;
        bool wanted;
    } part[] = {
        {"ffn_gate_inp.weight", 0, experts, o->width, 2 * dev, true},
        {"ffn_gate_inp.bias", 0, experts, 0, 0, biases},
        {"ffn_gate_exps.bias", 0, experts, ff, 0.3, biases},
        {"ffn_up_exps.bias", 0, experts, ff, 0.3, biases},
        {"ffn_down_exps.bias", 0, experts, o->width, 0.3, biases},
        {"exp_probs_b.bias", 0, experts, 0, 0, mkmodel_has(o->arch, MK_CHOICE_BIAS)},
        {"ffn_gate_exps.weight", experts, ff, o->width, dev, !fused},
        {"ffn_up_exps.weight", experts, ff, o->width, dev, !fused},
        {"ffn_gate_up_exps.weight", experts, 2 * ff, o->width, dev, fused},
        {"ffn_down_exps.weight", experts, o->width, ff, dev_ff, true},
        {"ffn_gate_inp_shexp.weight", 0, o->width, 0, 0, mkmodel_has(o->arch, MK_SHARED_GATE)},
        {"ffn_gate_shexp.weight", 0, ff, o->width, dev, shared},
        {"ffn_up_shexp.weight", 0, ff, o->width, dev, shared},
        {"ffn_down_shexp.weight", 0, o->width, ff, dev_ff, shared},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part[i].name);
        if (!part[i].wanted) continue;
        m->o = i == 0 || strstr(name, ".bias") ? &plain : o;
        if (part[i].cols)
            mkmodel_stack(m, name, part[i].stack, part[i].rows, part[i].cols, part[i].dev);
        else
            mkmodel_norm(m, name, part[i].rows);
    }
    m->o = o;
}

/* The numbers of both matrices as one: of each head the rows of its keys, which are columns in the other form, and those of its
 * values. */
GGUFW_FN void mkmodel_whole_b(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o;
    int64_t latent = 2 * o->head, plain = o->head / 2, each = plain + o->head;
    size_t count = (size_t)(o->heads * latent * each);
    float *keys = malloc(count * sizeof *keys), *values = malloc(count * sizeof *values), *all = malloc(count * sizeof *all);
    mkmodel_draw r = {.seed = o->seed, .sequence = m->sequence++}, s = {.seed = o->seed, .sequence = m->sequence++};
    char name[64];
    if (!keys || !values || !all) abort();
    mkmodel_weights(&mkmodel_kinds[0], &r, 1 / sqrt((double)latent), (uint8_t *)keys, o->heads * latent * plain);
    mkmodel_weights(&mkmodel_kinds[0], &s, 1 / sqrt((double)latent), (uint8_t *)values, o->heads * o->head * latent);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        int64_t head = i / latent / each, row = i / latent % each, column = i % latent;
        all[i] =
            row < plain ? keys[(head * latent + column) * plain + row] : values[(head * o->head + row - plain) * latent + column];
    }
    snprintf(name, sizeof name, "blk.%lld.attn_kv_b.weight", (long long)layer);
    ggufw_tensor(m->w, name, 0, 2, (int64_t[]){o->heads * each, latent}, all, count * sizeof *all);
    free(keys);
    free(values);
    free(all);
}

/* Keys and values from the latent, a matrix for each head. Rows of keys are half a head, of which no block is made: f16. */
GGUFW_FN void mkmodel_layer_latent(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o;
    if (o->whole_b) {
        mkmodel_whole_b(m, layer);
        return;
    }
    const mkmodel_opts half = {.arch = o->arch, .seed = o->seed, .type = &mkmodel_kinds[1]};
    int64_t latent = 2 * o->head, plain = o->head / 2;
    bool fits = plain % zt_dtype_get(o->type->dtype)->block == 0;
    char name[64];
    m->o = fits ? o : &half;
    snprintf(name, sizeof name, "blk.%lld.attn_k_b.weight", (long long)layer);
    mkmodel_stack(m, name, o->heads, latent, plain, 1 / sqrt((double)latent));
    m->o = o;
    snprintf(name, sizeof name, "blk.%lld.attn_v_b.weight", (long long)layer);
    mkmodel_stack(m, name, o->heads, o->head, latent, 1 / sqrt((double)latent));
}

#include "tests/common/mkmodel_gemma.h"
#include "tests/common/mkmodel_delta.h"
#include "tests/common/mkmodel_rwkv.h"

GGUFW_FN void mkmodel_layer(mkmodel_out *m, int64_t layer)
{
    const mkmodel_opts *o = m->o, *all = o;
    if (mkmodel_has(o->arch, MK_TIME_MIX)) {
        mkmodel_layer_rwkv(m, layer);
        return;
    }
    bool layered = mkmodel_has(o->arch, MK_LAYERED);
    mkmodel_gemma own = mkmodel_gemma_layer_of(o, layer);
    mkmodel_opts sizes = *o; /* of this layer */
    if (layered) {
        sizes.head = own.head;
        sizes.kv_heads = own.kv_heads;
        sizes.ffn = own.ffn;
        o = &sizes;
    }
    int64_t q = o->heads * o->head, kv = o->kv_heads * o->head;
    double dev = 1 / sqrt((double)o->width);
    double dev_q = 1 / sqrt((double)q), dev_ff = 1 / sqrt((double)o->ffn);
    int64_t latent = 2 * o->head, plain = o->head / 2;
    double dev_latent = 1 / sqrt((double)latent);
    bool whole = mkmodel_has(o->arch, MK_QK_WHOLE), post = mkmodel_has(o->arch, MK_FF_POST);
    bool sparse = mkmodel_experts(o) > 0 && !(layer == 0 && mkmodel_has(o->arch, MK_LEADING));
    struct {
        const char *name;
        int64_t rows, cols; /* cols 0: a vector of `rows` values about 1 */
        double dev;
        uint64_t has; /* in architectures that have any of these; 0: in all */
    } part[] = {
        {"attn_norm.weight", o->width, 0, 0, MK_PRE},
        {"attn_norm.bias", o->width, 0, 0, MK_PRE_BIAS},
        {"attn_q.weight", mkmodel_has(o->arch, MK_DELTA) ? 2 * q : q, o->width, dev, MK_QKV},
        {"attn_q.bias", q, 0, 0, MK_QKV_BIAS},
        {"attn_k.weight", kv, o->width, dev, MK_QKV},
        {"attn_k.bias", kv, 0, 0, MK_QKV_BIAS},
        {"attn_v.weight", kv, o->width, dev, MK_QKV},
        {"attn_v.bias", kv, 0, 0, MK_QKV_BIAS},
        {"attn_qkv.weight", q + 2 * kv, o->width, dev, MK_FUSED_QKV},
        {"attn_qkv.bias", q + 2 * kv, 0, 0, MK_FUSED_BIAS},
        {"attn_q_norm.weight", whole ? q : o->head, 0, 0, MK_QK_NORM | MK_QK_WHOLE},
        {"attn_k_norm.weight", whole ? kv : o->head, 0, 0, MK_QK_NORM | MK_QK_WHOLE},
        {"attn_sinks.weight", o->heads, 0, 0, MK_SINKS},
        {"attn_q_a.weight", latent, o->width, dev, MK_LATENT},
        {"attn_q_a_norm.weight", latent, 0, 0, MK_LATENT},
        {"attn_q_b.weight", q, latent, dev_latent, MK_LATENT},
        {"attn_kv_a_mqa.weight", latent + plain, o->width, dev, MK_LATENT},
        {"attn_kv_a_norm.weight", latent, 0, 0, MK_LATENT},
        {"indexer.attn_q_b.weight", 2 * o->head, latent, dev_latent, MK_INDEXER},
        {"indexer.attn_k.weight", o->head, o->width, dev, MK_INDEXER},
        {"indexer.k_norm.weight", o->head, 0, 0, MK_INDEXER},
        {"indexer.k_norm.bias", o->head, 0, 0, MK_INDEXER},
        {"indexer.proj.weight", 2, o->width, dev, MK_INDEXER},
        {"attn_kv_b.weight", o->heads * (plain + o->head), latent, dev_latent, MK_WHOLE_B},
        {"attn_output.weight", o->width, q, dev_q, 0},
        {"attn_output.bias", o->width, 0, 0, MK_BIAS},
        {"post_attention_norm.weight", o->width, 0, 0, MK_POST},
        {"attn_output_norm.weight", o->width, 0, 0, MK_SUM},
        {"attn_output_norm.bias", o->width, 0, 0, MK_SUM_BIAS},
        {post ? "post_attention_norm.weight" : "ffn_norm.weight", o->width, 0, 0, MK_PRE},
        {"ffn_norm.bias", o->width, 0, 0, MK_PRE_BIAS},
        {"ffn_gate.weight", o->ffn, o->width, dev, MK_GATE},
        {"ffn_up.weight", o->ffn, o->width, dev, MK_UP},
        {"ffn_up.weight", 2 * o->ffn, o->width, dev, MK_FUSED_UP},
        {"ffn_up.bias", o->ffn, 0, 0, MK_BIAS},
        {"ffn_down.weight", o->width, o->ffn, dev_ff, 0},
        {"ffn_down.bias", o->width, 0, 0, MK_BIAS},
        {"post_ffw_norm.weight", o->width, 0, 0, MK_POST},
        {"layer_output_norm.weight", o->width, 0, 0, MK_SUM},
        {"layer_output_norm.bias", o->width, 0, 0, MK_SUM_BIAS},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part[i].name);
        if (part[i].has && !mkmodel_has(o->arch, part[i].has)) continue;
        if (i == 0 && layer == 0 && mkmodel_has(o->arch, MK_ENCODER)) continue;
        if (i > 1 && mkmodel_is_delta(o, layer) && strncmp(part[i].name, "attn_", 5) == 0) continue;
        if (strncmp(part[i].name, "ffn_norm", 8) == 0 && mkmodel_has(o->arch, MK_ONE_NORM)) continue;
        bool keys = strncmp(part[i].name, "attn_k", 6) == 0 || strncmp(part[i].name, "attn_v", 6) == 0;
        if (layered && ((own.shared && keys) || (own.four && !own.local && strcmp(part[i].name, "attn_v.weight") == 0))) continue;
        if (sparse && !layered && strncmp(part[i].name, "ffn_", 4) == 0 && strncmp(part[i].name, "ffn_norm", 8) != 0) continue;
        if (part[i].cols)
            mkmodel_matrix(m, name, part[i].rows, part[i].cols, part[i].dev);
        else
            mkmodel_norm(m, name, part[i].rows);
    }
    if (mkmodel_has(o->arch, MK_SPLIT_B)) mkmodel_layer_latent(m, layer);
    if (mkmodel_is_delta(o, layer)) mkmodel_layer_delta(m, layer);
    if (sparse) mkmodel_layer_experts(m, layer);
    m->o = all;
    if (layered) mkmodel_gemma_layer(m, layer);
}

#include "tests/common/mkmodel_next.h"

/* ---- the model ----------------------------------------------------------------------------- */

static const char mkmodel_chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                                     "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
                                     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
static const char mkmodel_turns[] = "{{ bos_token }}{% for message in messages %}"
                                    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
                                    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
                                    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

GGUFW_FN void mkmodel_hyper_keys(const mkmodel_opts *o, ggufw *writer)
{
    bool gemma = mkmodel_has(o->arch, MK_SPM), divided = mkmodel_has(o->arch, MK_DIVIDED);
    bool latent = mkmodel_has(o->arch, MK_LATENT), split = mkmodel_has(o->arch, MK_SPLIT_B) && !o->whole_b;
    bool layered = mkmodel_has(o->arch, MK_LAYERED), four = layered && !mkmodel_has(o->arch, MK_ALTUP);
    int64_t experts = mkmodel_experts(o), row = 2 * o->head + o->head / 2;
    struct {
        const char *name;
        int64_t value;
        bool wanted;
    } number[] = {
        {"context_length", o->ctx, true},
        {"embedding_length", o->width, true},
        {"block_count", o->layers + o->next, true},
        {"nextn_predict_layers", o->next, o->next > 0},
        {"feed_forward_length", o->ffn, !layered},
        {"attention.head_count", o->heads, true},
        {"attention.head_count_kv",
         split    ? 1
         : latent ? o->heads
                  : o->kv_heads,
         !layered},
        {"attention.key_length",
         split  ? row
         : four ? 2 * o->head
                : o->head,
         latent || gemma || o->head * o->heads != o->width},
        {"attention.value_length", split || four ? 2 * o->head : o->head, split || gemma || o->head * o->heads != o->width},
        {"attention.key_length_mla", o->head, split},
        {"attention.value_length_mla", o->head, split},
        {"attention.q_lora_rank", 2 * o->head, latent},
        {"attention.kv_lora_rank", 2 * o->head, latent},
        {"attention.indexer.head_count", 2, mkmodel_has(o->arch, MK_INDEXER)},
        {"attention.indexer.key_length", o->head, mkmodel_has(o->arch, MK_INDEXER)},
        {"attention.indexer.top_k", 5, mkmodel_has(o->arch, MK_INDEXER)},
        {"attention.sliding_window", o->window, gemma || mkmodel_has(o->arch, MK_WINDOW)},
        {"rope.dimension_count", latent ? o->head / 2 : o->head, !gemma && !mkmodel_has(o->arch, MK_POSITIONS)},
        {"rope.scaling.original_context_length", 16, strcmp(o->arch, "mistral3") == 0},
        {"pooling_type", 1, mkmodel_has(o->arch, MK_SUM | MK_ENCODER)},
        {"expert_count", experts, experts > 0},
        {"expert_used_count", 2, experts > 0},
        {"expert_shared_count", 1, mkmodel_has(o->arch, MK_LEADING)},
        {"expert_shared_feed_forward_length", mkmodel_expert_ff(o), mkmodel_has(o->arch, MK_SHARED)},
        {"expert_gating_func", 2, mkmodel_has(o->arch, MK_SPLIT_B) && mkmodel_has(o->arch, MK_CHOICE_BIAS)},
        {"leading_dense_block_count", 1, mkmodel_has(o->arch, MK_LEADING)},
        {"full_attention_interval", 2, mkmodel_has(o->arch, MK_DELTA)},
        {"ssm.conv_kernel", 4, mkmodel_has(o->arch, MK_DELTA)},
        {"ssm.state_size", o->head, mkmodel_has(o->arch, MK_DELTA)},
        {"ssm.group_count", o->kv_heads, mkmodel_has(o->arch, MK_DELTA)},
        {"ssm.time_step_rank", o->heads, mkmodel_has(o->arch, MK_DELTA)},
        {"ssm.inner_size", o->heads * o->head, mkmodel_has(o->arch, MK_DELTA)},
        {"vocab_size", o->vocab, !gemma},
    };
    char key[96];
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, number[i].name);
        if (number[i].wanted) ggufw_u32(writer, key, (uint32_t)number[i].value);
    }
    bool layer_norm = mkmodel_has(o->arch, MK_PRE_BIAS | MK_SUM_BIAS | MK_LAYER_NORM);
    struct {
        const char *name;
        float value;
        bool wanted;
    } real[] = {
        {"rope.freq_base", gemma ? 1e6f : 1e4f, !mkmodel_has(o->arch, MK_POSITIONS)},
        {"attention.layer_norm_rms_epsilon", gemma ? 1e-6f : 1e-5f, !layer_norm},
        {"attention.layer_norm_epsilon", 1e-5f, layer_norm},
        {"attention.temperature_scale", 0.5f, strcmp(o->arch, "mistral3") == 0},
        {"attention.max_alibi_bias", 8, mkmodel_has(o->arch, MK_ALIBI)},
        {"attention.clamp_kqv", 1.5f, mkmodel_has(o->arch, MK_ALIBI)},
        {"logit_scale", 2, divided},
        {"residual_scale", 0.5f, divided},
        {"embedding_scale", 3, divided},
        {"attention.scale", 0.3f, divided},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, real[i].name);
        if (real[i].wanted) ggufw_f32(writer, key, real[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.causal", o->arch);
    if (mkmodel_has(o->arch, MK_SUM | MK_ENCODER)) ggufw_bool(writer, key, false);
    snprintf(key, sizeof key, "%s.use_parallel_residual", o->arch);
    if (mkmodel_has(o->arch, MK_SWITCH)) ggufw_bool(writer, key, true);
    if (mkmodel_has(o->arch, MK_TYPES)) ggufw_u32(writer, "tokenizer.ggml.token_type_count", 2);
    if (mkmodel_has(o->arch, MK_XIELU)) {
        ggufw_f32(writer, "xielu.alpha_n", -1);
        ggufw_f32(writer, "xielu.alpha_p", 0.25f);
        ggufw_f32(writer, "xielu.beta", 0.5f);
        ggufw_f32(writer, "xielu.eps", -1e-6f);
    }
    if (layered) mkmodel_gemma_keys(o, writer);
}

GGUFW_FN void mkmodel_keys(const mkmodel_opts *o, ggufw *writer)
{
    bool gemma = mkmodel_has(o->arch, MK_SPM);
    ggufw_str(writer, "general.architecture", o->arch);
    ggufw_str(writer, "general.name", "made by mkmodel");
    if (mkmodel_has(o->arch, MK_TIME_MIX))
        mkmodel_rwkv_keys(o, writer);
    else
        mkmodel_hyper_keys(o, writer);
    mkmodel_vocab_keys(writer, gemma, o->vocab);
    ggufw_str(writer, "tokenizer.chat_template", gemma ? mkmodel_turns : mkmodel_chatml);
}

/* What does not fit, or NULL. */
GGUFW_FN const char *mkmodel_check(const mkmodel_opts *o)
{
    bool gemma = mkmodel_has(o->arch, MK_SPM);
    if (!mkmodel_arch_of(o->arch)) return "the architecture is not in mkmodel_archs";
    if (!o->type) return "no such type";
    if (o->layers < 1 || o->width < 1 || o->heads < 1 || o->kv_heads < 1 || o->head < 2 || o->ffn < 1 || o->ctx < 1 ||
        o->window < 1 || o->heads % o->kv_heads || o->head % 2)
        return "sizes are 1 at least, head is even, kv-heads divides heads";
    if (o->vocab < (gemma ? 358 : 259)) return "the vocabulary has 259 tokens at least, gemma's 358";
    int64_t block = zt_dtype_get(o->type->dtype)->block;
    if (o->width % block || o->ffn % block || o->heads * o->head % block)
        return "width, ffn and heads * head must be multiples of the type's block";
    if (mkmodel_experts(o) > 0 && (o->experts < 2 || mkmodel_expert_ff(o) % block))
        return "experts are 2 at least, and their length must be a multiple of the type's block";
    return NULL;
}

GGUFW_FN const char *mkmodel(const mkmodel_opts *o, ggufw *writer)
{
    const char *why = mkmodel_check(o);
    if (why) return why;
    mkmodel_out m = {.o = o, .w = writer};
    mkmodel_keys(o, writer);
    /* logits are of deviation 2: a choice of tokens, none of them certain */
    mkmodel_matrix(&m, "token_embd.weight", o->vocab, o->width, 2 / sqrt((double)o->width));
    if (mkmodel_has(o->arch, MK_POSITIONS))
        mkmodel_matrix(&m, "position_embd.weight", o->ctx, o->width, 1 / sqrt((double)o->width));
    if (mkmodel_has(o->arch, MK_TYPES)) mkmodel_matrix(&m, "token_types.weight", 2, o->width, 1 / sqrt((double)o->width));
    if (mkmodel_has(o->arch, MK_SUM | MK_ENCODER | MK_CHANNEL_MIX)) mkmodel_norm(&m, "token_embd_norm.weight", o->width);
    if (mkmodel_has(o->arch, MK_SUM | MK_CHANNEL_MIX)) mkmodel_norm(&m, "token_embd_norm.bias", o->width);
    if (mkmodel_has(o->arch, MK_LAYERED)) mkmodel_gemma_once(&m);
    for (int64_t i = 0; i < o->layers; i++) mkmodel_layer(&m, i);
    if (!mkmodel_has(o->arch, MK_SUM)) mkmodel_norm(&m, "output_norm.weight", o->width);
    if (mkmodel_has(o->arch, MK_PRE_BIAS | MK_CHANNEL_MIX)) mkmodel_norm(&m, "output_norm.bias", o->width);
    if (o->untied) mkmodel_matrix(&m, "output.weight", o->vocab, o->width, 2 / sqrt((double)o->width));
    mkmodel_next_layers(&m);
    return NULL;
}

/* One that is at odds with itself: the keys of a llama of `vocab` tokens, the tensors of one with
 * `rows`. Its bytes, malloc'ed. */
GGUFW_FN char *mkmodel_uneven(int64_t vocab, int64_t rows, size_t *count)
{
    mkmodel_opts o = mkmodel_defaults("llama");
    ggufw keys = {0}, w = {0};
    o.vocab = vocab;
    mkmodel(&o, &keys);
    o.vocab = rows;
    mkmodel(&o, &w);
    ggufw_buf other = w.keys;
    w.keys = keys.keys;
    keys.keys = other;
    free(ggufw_bytes(&keys, count));
    return ggufw_bytes(&w, count);
}

#endif
