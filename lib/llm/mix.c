/* mix.c - mixes of quantization types: which tensors are left alone, and the rules that give the others their type. */
#include "lib/base/require.h"
// clang-format off
#include "lib/llm/mix.h"

#include "lib/tensor/quantize.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the mixes ------------------------------------------------------------------------------- */

/* X(NAME, text, dtype, file type, alias) */
#define MIXES(X)                                                                                   \
    X(F32, "f32", ZT_F32, 0, NULL)                                                                 \
    X(F16, "f16", ZT_F16, 1, NULL)                                                                 \
    X(BF16, "bf16", ZT_BF16, 32, NULL)                                                             \
    X(Q8_0, "q8_0", ZT_Q8_0, 7, NULL)                                                              \
    X(FP8_E4M3, "fp8_e4m3", ZT_F8_E4M3, -1, NULL)                                                  \
    X(FP8_E5M2, "fp8_e5m2", ZT_F8_E5M2, -1, NULL)                                                  \
    X(Q6_K, "q6_k", ZT_Q6_K, 18, NULL)                                                             \
    X(Q5_K_M, "q5_k_m", ZT_Q5_K, 17, "q5_k")                                                       \
    X(Q5_K_S, "q5_k_s", ZT_Q5_K, 16, NULL)                                                         \
    X(Q5_1, "q5_1", ZT_Q5_1, 9, NULL)                                                              \
    X(Q5_0, "q5_0", ZT_Q5_0, 8, NULL)                                                              \
    X(Q4_K_M, "q4_k_m", ZT_Q4_K, 15, "q4_k")                                                       \
    X(Q4_K_S, "q4_k_s", ZT_Q4_K, 14, NULL)                                                         \
    X(Q4_1, "q4_1", ZT_Q4_1, 3, NULL)                                                              \
    X(Q4_0, "q4_0", ZT_Q4_0, 2, NULL)                                                              \
    X(IQ4_NL, "iq4_nl", ZT_IQ4_NL, 25, NULL)                                                       \
    X(IQ4_XS, "iq4_xs", ZT_IQ4_XS, 30, NULL)                                                       \
    X(NVFP4, "nvfp4", ZT_NVFP4, 39, NULL)                                                          \
    X(MXFP4, "mxfp4", ZT_MXFP4, 38, NULL)                                                          \
    X(MXFP4_MOE, "mxfp4_moe", ZT_MXFP4, 38, NULL)                                                  \
    X(Q3_K_L, "q3_k_l", ZT_Q3_K, 13, NULL)                                                         \
    X(Q3_K_M, "q3_k_m", ZT_Q3_K, 12, "q3_k")                                                       \
    X(Q3_K_S, "q3_k_s", ZT_Q3_K, 11, NULL)                                                         \
    X(Q2_K, "q2_k", ZT_Q2_K, 10, NULL)                                                             \
    X(Q2_K_S, "q2_k_s", ZT_Q2_K, 21, NULL)                                                         \
    X(IQ3_M, "iq3_m", ZT_IQ3_S, 27, NULL)                                                          \
    X(IQ3_S, "iq3_s", ZT_IQ3_S, 26, NULL)                                                          \
    X(IQ3_XS, "iq3_xs", ZT_IQ3_S, 22, NULL)                                                        \
    X(IQ3_XXS, "iq3_xxs", ZT_IQ3_XXS, 23, NULL)                                                    \
    X(IQ2_M, "iq2_m", ZT_IQ2_S, 29, NULL)                                                          \
    X(IQ2_S, "iq2_s", ZT_IQ2_XS, 28, NULL)                                                         \
    X(IQ2_XS, "iq2_xs", ZT_IQ2_XS, 20, NULL)                                                       \
    X(IQ2_XXS, "iq2_xxs", ZT_IQ2_XXS, 19, NULL)                                                    \
    X(IQ1_M, "iq1_m", ZT_IQ1_M, 31, NULL)                                                          \
    X(IQ1_S, "iq1_s", ZT_IQ1_S, 24, NULL)                                                          \
    X(TQ2_0, "tq2_0", ZT_TQ2_0, 37, NULL)                                                          \
    X(TQ1_0, "tq1_0", ZT_TQ1_0, 36, NULL)

enum {
#define X(NAME, text, dtype, number, alias) NAME,
    MIXES(X)
#undef X
    N_MIXES
};
// clang-format on

static const zt_mix mixes[] = {
#define X(NAME, text, dtype, number, alias) {text, dtype, number, alias},
    MIXES(X)
#undef X
};

const zt_mix *zt_mix_at(int index) { return index >= 0 && index < N_MIXES ? &mixes[index] : NULL; }

const zt_mix *zt_mix_find(const char *name)
{
    if (!name) return NULL;
    for (const zt_mix *mix = mixes; mix < mixes + N_MIXES; mix++)
        if (!strcasecmp(name, mix->name) || (mix->alias && !strcasecmp(name, mix->alias))) return mix;
    return NULL;
}

/* ---- what a tensor is ------------------------------------------------------------------------ */

typedef enum role { VALUE, KEY, QUERY, ATTN_OUT, DOWN, UP, GATE, EMBED, OUTPUT, OTHER, N_ROLES } role;

static const struct {
    const char *part;
    bool whole; /* the name is just that */
    role role;
} roles[] = {
    {"output.weight", true, OUTPUT},
    {"token_embd.weight", true, EMBED},
    {"per_layer_token_embd.weight", true, EMBED},
    {"attn_qkv.weight", false, VALUE},
    {"attn_kv_b.weight", false, VALUE},
    {"attn_v.weight", false, VALUE},
    {"attn_k.weight", false, KEY},
    {"attn_q.weight", false, QUERY},
    {"attn_output.weight", false, ATTN_OUT},
    {"ffn_up", false, UP},
    {"ffn_gate", false, GATE},
    {"ffn_down", false, DOWN},
};

static role find_role(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].whole ? !strcmp(name, roles[i].part) : !!strstr(name, roles[i].part)) return roles[i].role;
    return OTHER;
}

/* Names of which a part says that the tensor stays: norms, routers, positions, convolutions and
 * other things that are small or delicate. */
// clang-format off
static const char *const stay[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel",
    "per_layer_model_proj", "position_embd.weight", "token_types.weight", "ssm_conv1d",
    "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
    "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight",
    "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
    "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
    "attn_rel_b.weight", ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos",
    ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
};
// clang-format on

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && !strcmp(name + length - end_length, end);
}

static bool is_matrix(const zt_type *type)
{
    for (int i = 0; i + 1 < type->rank; i++)
        if (type->dim[i] > 1) return true;
    return false;
}

static bool must_stay(const zt_mix_of *spec, const zt_mix_tensor *tensor)
{
    if (tensor->type->dtype >= ZT_DTYPE_COUNT || !zt_dtype_is_float(tensor->type->dtype) || !is_matrix(tensor->type)) return true;
    if (spec->arch && !ends_in(tensor->name, "weight")) return true;
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        if (strstr(tensor->name, stay[i])) return true;
    return !spec->arch && strstr(tensor->name, "norm"); /* of other files: layernorm, bn_norm, ... */
}

/* ---- the rules ------------------------------------------------------------------------------- */

// clang-format off
#define MIX(name) (UINT64_C(1) << (name))
#define ALL     (~UINT64_C(0))
/* Mixes below three bits have rules of their own. */
#define IQ1 (MIX(IQ1_S) | MIX(IQ1_M))
#define IQ2 (MIX(IQ2_XXS) | MIX(IQ2_XS))
#define IQ2_MORE (MIX(IQ2_S) | MIX(IQ2_M))
#define LOW (IQ1 | IQ2 | IQ2_MORE)

enum { /* when: all of these hold */
    GQA4 = 1,        /* four or more heads share a key */
    EXPERTS8 = 2,    /* just eight experts */
    NOT_EXPERTS8 = 4,
    IMATRIX = 8,
    NO_IMATRIX = 16,
    FALCON = 32,
    NOT_FALCON = 64,
    EXPERT = 128,    /* the tensor holds several matrices */
    NOT_Q8 = 256,    /* the mix is not of q8_0 */
    UNEVEN = 512,    /* its rows are no whole blocks */
    EXPERTS4 = 1024  /* four experts or more */
};
// clang-format on

/* Layer i of n, or i-th of the n tensors of this role. */
typedef enum layers { ANY, FIRST2, FIRST4, EIGHTH, SIXTEENTH, MORE, MIDDLE } layers;

static bool layer_matches(layers which, int64_t index, int64_t count)
{
    switch (which) {
    case FIRST2: return index < 2;
    case FIRST4: return index < 4;
    case EIGHTH: return index < count / 8;
    case SIXTEENTH: return index < count / 16;
    case MORE: return index < count / 8 || index >= 7 * count / 8 || (index - count / 8) % 3 == 2;
    case MIDDLE: return index >= count / 8 && index < 7 * count / 8;
    case ANY: break;
    }
    return true;
}

typedef struct rule {
    role role;
    uint64_t mixes;
    unsigned when;
    layers layers;
    zt_dtype dtype;
} rule;

/* The first that holds; none: the mix's own type. */
static const rule rules[] = {
    {OUTPUT, MIX(MXFP4_MOE), 0, ANY, ZT_Q8_0},
    {OUTPUT, ALL, FALCON, ANY, ZT_Q8_0},
    {OUTPUT, ALL, UNEVEN, ANY, ZT_Q8_0},
    {OUTPUT, LOW | MIX(IQ3_XXS), 0, ANY, ZT_Q5_K},
    {OUTPUT, ALL, NOT_Q8, ANY, ZT_Q6_K},

    {EMBED, MIX(TQ1_0) | MIX(TQ2_0), 0, ANY, ZT_Q4_K},
    {EMBED, IQ1 | IQ2, 0, ANY, ZT_Q2_K},
    {EMBED, IQ2_MORE | MIX(IQ3_XXS), 0, ANY, ZT_IQ3_S},

    {VALUE, LOW, GQA4, ANY, ZT_Q4_K},
    {VALUE, LOW, EXPERTS4, ANY, ZT_Q4_K},
    {VALUE, IQ2_MORE, 0, ANY, ZT_IQ3_S},
    {VALUE, LOW, 0, ANY, ZT_Q2_K},
    {VALUE, ALL & ~MIX(MXFP4_MOE), EXPERTS8, ANY, ZT_Q8_0},
    {VALUE, MIX(IQ3_XXS) | MIX(IQ3_XS) | MIX(IQ3_S), GQA4, ANY, ZT_Q4_K},
    {VALUE, MIX(IQ3_XXS), NO_IMATRIX, ANY, ZT_IQ3_S},
    {VALUE, MIX(IQ3_M), 0, ANY, ZT_Q4_K},
    {VALUE, MIX(Q2_K) | MIX(Q2_K_S), GQA4, ANY, ZT_Q4_K},
    {VALUE, MIX(Q2_K), 0, ANY, ZT_Q3_K},
    {VALUE, MIX(Q3_K_M), 0, FIRST2, ZT_Q5_K},
    {VALUE, MIX(Q3_K_M), 0, ANY, ZT_Q4_K},
    {VALUE, MIX(Q3_K_L), 0, ANY, ZT_Q5_K},
    {VALUE, MIX(IQ4_NL) | MIX(IQ4_XS), GQA4, ANY, ZT_Q5_K},
    {VALUE, MIX(Q4_K_M) | MIX(Q5_K_M), 0, MORE, ZT_Q6_K},
    {VALUE, MIX(Q4_K_S), 0, FIRST4, ZT_Q5_K},

    {KEY, LOW, EXPERTS8, ANY, ZT_Q4_K},
    {KEY, ALL & ~MIX(MXFP4_MOE), EXPERTS8, ANY, ZT_Q8_0},
    {KEY, MIX(IQ3_XS), 0, ANY, ZT_IQ3_XXS},
    {KEY, MIX(IQ3_XXS), 0, ANY, ZT_IQ2_S},

    {QUERY, MIX(IQ3_XS), 0, ANY, ZT_IQ3_XXS},
    {QUERY, MIX(IQ3_XXS), 0, ANY, ZT_IQ2_S},
    {UP, MIX(IQ3_XS), 0, MIDDLE, ZT_IQ3_XXS},
    {GATE, MIX(IQ3_XS), 0, MIDDLE, ZT_IQ3_XXS},

    {DOWN, IQ2_MORE, 0, EIGHTH, ZT_IQ3_S},
    {DOWN, IQ1 | IQ2, 0, EIGHTH, ZT_Q2_K},
    {DOWN, MIX(IQ3_XXS), NO_IMATRIX, EIGHTH, ZT_Q4_K},
    {DOWN, MIX(IQ3_XXS), NO_IMATRIX, ANY, ZT_Q3_K},
    {DOWN, MIX(IQ3_M), 0, EIGHTH, ZT_Q4_K},
    {DOWN, MIX(IQ3_M), EXPERTS8, MORE, ZT_Q4_K},
    {DOWN, MIX(Q2_K), 0, ANY, ZT_Q3_K},
    {DOWN, MIX(Q2_K_S), 0, EIGHTH, ZT_Q4_K},
    {DOWN, MIX(Q3_K_M), 0, SIXTEENTH, ZT_Q5_K},
    {DOWN, MIX(Q3_K_M), NOT_FALCON, ANY, ZT_Q4_K},
    {DOWN, MIX(Q3_K_M), FALCON, MORE, ZT_Q4_K},
    {DOWN, MIX(Q3_K_L), FALCON, ANY, ZT_Q4_K},
    {DOWN, MIX(Q3_K_L), 0, ANY, ZT_Q5_K},
    {DOWN, MIX(Q4_K_M), FALCON, SIXTEENTH, ZT_Q6_K},
    {DOWN, MIX(Q4_K_M), FALCON, MORE, ZT_Q5_K},
    {DOWN, MIX(Q4_K_M), NOT_FALCON, MORE, ZT_Q6_K},
    {DOWN, MIX(IQ4_NL) | MIX(IQ4_XS), NO_IMATRIX, EIGHTH, ZT_Q5_K},
    {DOWN, MIX(Q5_K_M), 0, MORE, ZT_Q6_K},
    {DOWN, MIX(Q4_K_S), NOT_FALCON, EIGHTH, ZT_Q5_K},
    {DOWN, MIX(Q4_0), IMATRIX, EIGHTH, ZT_Q4_1},
    {DOWN, MIX(Q5_0), IMATRIX, EIGHTH, ZT_Q5_1},

    {ATTN_OUT, LOW, EXPERTS8, ANY, ZT_Q5_K},
    {ATTN_OUT, IQ1, 0, ANY, ZT_IQ2_XXS},
    {ATTN_OUT, IQ2_MORE, 0, ANY, ZT_IQ3_S},
    {ATTN_OUT, MIX(Q3_K_L), FALCON, ANY, ZT_Q4_K},
    {ATTN_OUT, MIX(IQ3_XXS), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_IQ3_S},
    {ATTN_OUT, MIX(IQ3_M), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q4_K},
    {ATTN_OUT,
     MIX(Q2_K) | MIX(Q3_K_S) | MIX(Q3_K_M) | MIX(IQ4_NL) | MIX(IQ4_XS) | MIX(Q4_K_S) | MIX(Q4_K_M) | MIX(IQ3_XXS) | MIX(IQ3_XS) |
         MIX(IQ3_S) | MIX(IQ3_M),
     EXPERTS8 | NOT_FALCON, ANY, ZT_Q5_K},
    {ATTN_OUT, MIX(Q2_K), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q3_K},
    {ATTN_OUT, MIX(Q3_K_M), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q4_K},
    {ATTN_OUT, MIX(Q3_K_L), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q5_K},
};

/* All other matrices of a mix for experts. */
static zt_dtype expert_type(unsigned holds) { return holds & EXPERT ? ZT_MXFP4 : ZT_Q8_0; }

/* Models of about 70B parameters with grouped keys: their value matrices are small beside the rest and get more bits.
 * As in llama.cpp, the number of layers stands for the size. */
static bool is_large(const zt_mix_of *spec)
{
    static const struct {
        const char *arch;
        int64_t layers;
    } large[] = {{"llama", 80}, {"qwen2", 80}, {"deci", 80}, {"olmo", 80}, {"jais2", 68}};
    for (size_t i = 0; spec->arch && i < sizeof large / sizeof *large; i++)
        if (!strcmp(spec->arch, large[i].arch) && spec->n_layers == large[i].layers)
            return strcmp(spec->arch, "llama") || spec->n_heads != spec->n_kv_heads;
    return false;
}

static unsigned find_conditions(const zt_mix_of *spec, const zt_mix_tensor *tensor)
{
    const zt_type *type = tensor->type;
    bool falcon = spec->arch && !strcmp(spec->arch, "falcon");
    unsigned holds = spec->imatrix ? IMATRIX : NO_IMATRIX;
    holds |= spec->n_kv_heads > 0 && spec->n_heads / spec->n_kv_heads >= 4 ? GQA4 : 0;
    holds |= spec->n_experts == 8 ? EXPERTS8 : NOT_EXPERTS8;
    holds |= spec->n_experts >= 4 ? EXPERTS4 : 0;
    holds |= falcon ? FALCON : NOT_FALCON;
    holds |= type->rank > 2 && type->dim[type->rank - 3] > 1 ? EXPERT : 0;
    holds |= spec->mix->dtype != ZT_Q8_0 ? NOT_Q8 : 0;
    holds |= type->dim[type->rank - 1] % zt_dtype_get(spec->mix->dtype)->block ? UNEVEN : 0;
    return holds;
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct type_chooser {
    const zt_mix_of *spec;
    bool tied;             /* no output matrix: the embedding is it */
    int64_t n_values;      /* tensors of that role, */
    int64_t seen[N_ROLES]; /* and how many of each were seen */
} type_chooser;

/* "blk.12.": 12; else -1. */
static int64_t layer_number(const char *name)
{
    int layer;
    return sscanf(name, "blk.%d.", &layer) == 1 ? layer : -1;
}

static zt_dtype type_by_rules(type_chooser *chooser, const zt_mix_tensor *tensor)
{
    const zt_mix_of *spec = chooser->spec;
    role role_found = find_role(tensor->name), acting_role = chooser->tied && role_found == EMBED ? OUTPUT : role_found;
    unsigned holds = find_conditions(spec, tensor);
    uint64_t mix = MIX(spec->mix - mixes);
    int64_t index = chooser->seen[acting_role]++, count = acting_role == VALUE ? chooser->n_values : spec->n_layers;
    /* Experts' tensors may come in any number: their name says the layer. Mixes below three bits count them. */
    bool by_name = acting_role == DOWN ? !(LOW & mix) : acting_role == UP || acting_role == GATE;
    if (by_name && spec->n_experts > 1 && layer_number(tensor->name) >= 0) index = layer_number(tensor->name);
    for (const rule *candidate = rules; candidate < rules + sizeof rules / sizeof *rules; candidate++)
        if (candidate->role == acting_role && candidate->mixes & mix && (candidate->when & holds) == candidate->when &&
            layer_matches(candidate->layers, index, count)) {
            bool more = acting_role == VALUE && !(LOW & mix) && is_large(spec) &&
                        (candidate->dtype == ZT_Q3_K || candidate->dtype == ZT_Q4_K);
            return more ? ZT_Q5_K : candidate->dtype;
        }
    if (spec->mix == &mixes[MXFP4_MOE]) return expert_type(holds);
    zt_dtype mix_dtype = spec->mix->dtype;
    return acting_role == VALUE && is_large(spec) && (mix_dtype == ZT_Q3_K || mix_dtype == ZT_Q4_K) ? ZT_Q5_K : mix_dtype;
}

zt_dtype zt_mix_fit(zt_dtype wanted, int64_t columns)
{
    if (!zt_dtype_get(wanted)) return ZT_F16;
    static const zt_dtype smaller[ZT_DTYPE_COUNT] = {
        [ZT_IQ4_XS] = ZT_IQ4_NL, [ZT_NVFP4] = ZT_IQ4_NL, [ZT_Q2_K] = ZT_Q4_0,      [ZT_Q3_K] = ZT_Q4_0,
        [ZT_TQ1_0] = ZT_Q4_0,    [ZT_TQ2_0] = ZT_Q4_0,   [ZT_Q4_K] = ZT_Q5_0,      [ZT_Q5_K] = ZT_Q5_1,
        [ZT_Q6_K] = ZT_Q8_0,     [ZT_IQ1_S] = ZT_IQ4_NL, [ZT_IQ1_M] = ZT_IQ4_NL,   [ZT_IQ2_XXS] = ZT_IQ4_NL,
        [ZT_IQ2_XS] = ZT_IQ4_NL, [ZT_IQ2_S] = ZT_IQ4_NL, [ZT_IQ3_XXS] = ZT_IQ4_NL, [ZT_IQ3_S] = ZT_IQ4_NL,
    };
    if (columns % zt_dtype_get(wanted)->block == 0) return wanted;
    zt_dtype fallback = smaller[wanted]; /* f64, the first dtype, where there is none */
    return fallback != ZT_F64 && columns % zt_dtype_get(fallback)->block == 0 ? fallback : ZT_F16;
}

bool zt_mix_matches(const zt_mix_wish *wish, const char *name)
{
    if (!wish || !name) return false;
    if (wish->regex) return zt_mix_pattern_matches(wish->regex, name);
    return wish->glob && fnmatch(wish->glob, name, 0) == 0;
}

/* Experts that come in MXFP4, as models are trained with it, stay so in every mix of blocks. */
static bool is_kept_mxfp4(const zt_mix_of *spec, const zt_mix_tensor *tensor)
{
    const zt_type *type = tensor->type;
    return !spec->pure && zt_dtype_get(spec->mix->dtype)->kind == 'Q' && type->dtype == ZT_MXFP4 && type->rank == 3 &&
           strstr(tensor->name, "_exps.");
}

/* What decides the type: an override's index, or one of ZT_MIX_RULES ... As in llama-quantize, the types of embedding and
 * output come before overrides, but the large table per_layer_token_embd may have one of its own; and an embedding that
 * is the output matrix too has the type of the output if nothing else names one. */
static int64_t find_wish(const type_chooser *chooser, const char *name)
{
    const zt_mix_of *spec = chooser->spec;
    role found = find_role(name);
    int64_t wish = ZT_MIX_RULES;
    for (int64_t i = 0; i < spec->n_wishes; i++)
        if (zt_mix_matches(&spec->wish[i], name)) wish = i;
    if (found == EMBED && spec->embedding_type && (wish < 0 || strcmp(name, "per_layer_token_embd.weight")))
        return ZT_MIX_EMBEDDING_TYPE;
    bool output = found == OUTPUT || (found == EMBED && chooser->tied && wish < 0);
    return output && spec->output_type ? ZT_MIX_OUTPUT_TYPE : wish;
}

static void choose_type(type_chooser *chooser, zt_mix_tensor *tensor)
{
    const zt_mix_of *spec = chooser->spec;
    tensor->wish = ZT_MIX_RULES;
    tensor->fell_back = tensor->search = false;
    tensor->dtype = tensor->wanted = tensor->type->dtype;
    tensor->kept = must_stay(spec, tensor);
    if (tensor->kept) return;
    tensor->wish = find_wish(chooser, tensor->name);
    if (tensor->wish >= 0)
        tensor->wanted = spec->wish[tensor->wish].dtype;
    else if (tensor->wish == ZT_MIX_EMBEDDING_TYPE)
        tensor->wanted = *spec->embedding_type;
    else if (tensor->wish == ZT_MIX_OUTPUT_TYPE)
        tensor->wanted = *spec->output_type;
    else if (is_kept_mxfp4(spec, tensor))
        tensor->wanted = ZT_MXFP4;
    else if (spec->pure || zt_dtype_get(spec->mix->dtype)->kind != 'Q')
        tensor->wanted = spec->mix->dtype;
    else
        tensor->wanted = type_by_rules(chooser, tensor);
    tensor->dtype = zt_mix_fit(tensor->wanted, tensor->type->dim[tensor->type->rank - 1]);
    tensor->fell_back = tensor->dtype != tensor->wanted;
    tensor->search = tensor->fell_back && !zt_quantize_has_rule(tensor->wanted);
}

/* By layer, then by name: the order in which llama-quantize counts. */
static int compare_by_layer(const void *left, const void *right)
{
    const char *left_name = (*(zt_mix_tensor *const *)left)->name, *right_name = (*(zt_mix_tensor *const *)right)->name;
    int64_t left_layer = layer_number(left_name), right_layer = layer_number(right_name);
    return left_layer != right_layer ? (left_layer > right_layer) - (left_layer < right_layer) : strcmp(left_name, right_name);
}

zt_status zt_mix_choose(zt_ctx *ctx, const zt_mix_of *spec, zt_mix_tensor *tensors, int64_t tensor_count)
{
    ZT_REQUIRE(ctx, spec && spec->mix && (tensors || !tensor_count) && tensor_count >= 0, ZT_EUSAGE);
    for (int64_t i = 0; i < tensor_count; i++) ZT_REQUIRE(ctx, tensors[i].name, ZT_EUSAGE);
    type_chooser chooser = {.spec = spec, .tied = true};
    zt_mix_tensor **order = zt_alloc_array(ctx, (size_t)tensor_count, sizeof *order);
    if (!order) return ZT_ENOMEM;
    for (int64_t i = 0; i < tensor_count; i++) {
        role found_role = find_role(tensors[i].name);
        chooser.n_values += found_role == VALUE;
        chooser.tied &= found_role != OUTPUT;
        order[i] = &tensors[i];
    }
    qsort(order, (size_t)tensor_count, sizeof *order, compare_by_layer);
    for (int64_t i = 0; i < tensor_count; i++) choose_type(&chooser, order[i]);
    zt_free(ctx, order);
    return zt_ctx_status(ctx); /* of a pattern that takes too many steps */
}
