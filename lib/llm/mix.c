/* mix.c - owns the mixes: which tensors stay as they are, and the rules for those that do not. */
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
    X(TQ2_0, "tq2_0", ZT_TQ2_0, 37, NULL)                                                          \
    X(TQ1_0, "tq1_0", ZT_TQ1_0, 36, NULL)

enum {
#define X(NAME, text, dtype, number, alias) NAME,
    MIXES(X)
#undef X
    N_MIXES
};

static const zt_mix mixes[] = {
#define X(NAME, text, dtype, number, alias) {text, dtype, number, alias},
    MIXES(X)
#undef X
};

const zt_mix *zt_mix_at(int i)
{
    return i >= 0 && i < N_MIXES ? &mixes[i] : NULL;
}

const zt_mix *zt_mix_find(const char *name)
{
    for (const zt_mix *m = mixes; m < mixes + N_MIXES; m++)
        if (!strcasecmp(name, m->name) || (m->alias && !strcasecmp(name, m->alias)))
            return m;
    return NULL;
}

/* ---- what a tensor is ------------------------------------------------------------------------ */

typedef enum role { VALUE, KEY, ATTN_OUT, DOWN, EMBED, OUTPUT, OTHER } role;

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
    {"attn_q.weight", false, OTHER},
    {"attn_output.weight", false, ATTN_OUT},
    {"ffn_up", false, OTHER},
    {"ffn_gate", false, OTHER},
    {"ffn_down", false, DOWN},
};

static role role_of(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].whole ? !strcmp(name, roles[i].part) : !!strstr(name, roles[i].part))
            return roles[i].role;
    return OTHER;
}

/* Names of which a part says that the tensor stays: norms, routers, positions, convolutions and
 * other things that are small or delicate. */
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

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

static bool is_matrix(const zt_type *t)
{
    for (int i = 0; i + 1 < t->rank; i++)
        if (t->dim[i] > 1)
            return true;
    return false;
}

static bool stays(const zt_mix_of *m, const zt_mix_tensor *t)
{
    if (t->type->dtype >= ZT_DTYPE_COUNT || !zt_dtype_is_float(t->type->dtype) ||
        !is_matrix(t->type))
        return true;
    if (m->arch && !ends_in(t->name, "weight"))
        return true;
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        if (strstr(t->name, stay[i]))
            return true;
    return !m->arch && strstr(t->name, "norm"); /* of other files: layernorm, bn_norm, ... */
}

/* ---- the rules ------------------------------------------------------------------------------- */

#define M(name) (1u << name)
#define ALL     (~0u)

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
    UNEVEN = 512     /* its rows are no whole blocks */
};

/* Layer i of n, or i-th of the n tensors of this role. */
typedef enum layers { ANY, FIRST2, FIRST4, EIGHTH, SIXTEENTH, MORE } layers;

static bool among(layers which, int64_t i, int64_t n)
{
    switch (which) {
    case FIRST2: return i < 2;
    case FIRST4: return i < 4;
    case EIGHTH: return i < n / 8;
    case SIXTEENTH: return i < n / 16;
    case MORE: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case ANY: break;
    }
    return true;
}

typedef struct rule {
    role role;
    unsigned mixes, when;
    layers layers;
    zt_dtype dtype;
} rule;

/* The first that holds; none: the mix's own type. */
static const rule rules[] = {
    {OUTPUT, M(MXFP4_MOE), 0, ANY, ZT_Q8_0},
    {OUTPUT, ALL, FALCON, ANY, ZT_Q8_0},
    {OUTPUT, ALL, UNEVEN, ANY, ZT_Q8_0},
    {OUTPUT, ALL, NOT_Q8, ANY, ZT_Q6_K},

    {EMBED, M(TQ1_0) | M(TQ2_0), 0, ANY, ZT_Q4_K},

    {VALUE, ALL & ~M(MXFP4_MOE), EXPERTS8, ANY, ZT_Q8_0},
    {VALUE, M(Q2_K) | M(Q2_K_S), GQA4, ANY, ZT_Q4_K},
    {VALUE, M(Q2_K), 0, ANY, ZT_Q3_K},
    {VALUE, M(Q3_K_M), 0, FIRST2, ZT_Q5_K},
    {VALUE, M(Q3_K_M), 0, ANY, ZT_Q4_K},
    {VALUE, M(Q3_K_L), 0, ANY, ZT_Q5_K},
    {VALUE, M(IQ4_NL) | M(IQ4_XS), GQA4, ANY, ZT_Q5_K},
    {VALUE, M(Q4_K_M) | M(Q5_K_M), 0, MORE, ZT_Q6_K},
    {VALUE, M(Q4_K_S), 0, FIRST4, ZT_Q5_K},

    {KEY, ALL & ~M(MXFP4_MOE), EXPERTS8, ANY, ZT_Q8_0},

    {DOWN, M(Q2_K), 0, ANY, ZT_Q3_K},
    {DOWN, M(Q2_K_S), 0, EIGHTH, ZT_Q4_K},
    {DOWN, M(Q3_K_M), 0, SIXTEENTH, ZT_Q5_K},
    {DOWN, M(Q3_K_M), NOT_FALCON, ANY, ZT_Q4_K},
    {DOWN, M(Q3_K_M), FALCON, MORE, ZT_Q4_K},
    {DOWN, M(Q3_K_L), FALCON, ANY, ZT_Q4_K},
    {DOWN, M(Q3_K_L), 0, ANY, ZT_Q5_K},
    {DOWN, M(Q4_K_M), FALCON, SIXTEENTH, ZT_Q6_K},
    {DOWN, M(Q4_K_M), FALCON, MORE, ZT_Q5_K},
    {DOWN, M(Q4_K_M), NOT_FALCON, MORE, ZT_Q6_K},
    {DOWN, M(IQ4_NL) | M(IQ4_XS), NO_IMATRIX, EIGHTH, ZT_Q5_K},
    {DOWN, M(Q5_K_M), 0, MORE, ZT_Q6_K},
    {DOWN, M(Q4_K_S), NOT_FALCON, EIGHTH, ZT_Q5_K},
    {DOWN, M(Q4_0), IMATRIX, EIGHTH, ZT_Q4_1},
    {DOWN, M(Q5_0), IMATRIX, EIGHTH, ZT_Q5_1},

    {ATTN_OUT, M(Q3_K_L), FALCON, ANY, ZT_Q4_K},
    {ATTN_OUT, M(Q2_K) | M(Q3_K_S) | M(Q3_K_M) | M(IQ4_NL) | M(IQ4_XS) | M(Q4_K_S) | M(Q4_K_M),
     EXPERTS8 | NOT_FALCON, ANY, ZT_Q5_K},
    {ATTN_OUT, M(Q2_K), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q3_K},
    {ATTN_OUT, M(Q3_K_M), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q4_K},
    {ATTN_OUT, M(Q3_K_L), NOT_EXPERTS8 | NOT_FALCON, ANY, ZT_Q5_K},
};

/* All other matrices of a mix for experts. */
static zt_dtype of_experts(unsigned holds)
{
    return holds & EXPERT ? ZT_MXFP4 : ZT_Q8_0;
}

/* Models of about 70B parameters with few keys: their values are small beside the rest, and get
 * more. Where llama.cpp takes the size from the number of layers. */
static bool is_large(const zt_mix_of *m)
{
    static const struct {
        const char *arch;
        int64_t layers;
    } large[] = {{"llama", 80}, {"qwen2", 80}, {"deci", 80}, {"olmo", 80}, {"jais2", 68}};
    for (size_t i = 0; m->arch && i < sizeof large / sizeof *large; i++)
        if (!strcmp(m->arch, large[i].arch) && m->n_layers == large[i].layers)
            return strcmp(m->arch, "llama") || m->n_heads != m->n_kv_heads;
    return false;
}

static unsigned what_holds(const zt_mix_of *m, const zt_mix_tensor *t)
{
    const zt_type *y = t->type;
    bool falcon = m->arch && !strcmp(m->arch, "falcon");
    unsigned h = m->imatrix ? IMATRIX : NO_IMATRIX;
    h |= m->n_kv_heads > 0 && m->n_heads / m->n_kv_heads >= 4 ? GQA4 : 0;
    h |= m->n_experts == 8 ? EXPERTS8 : NOT_EXPERTS8;
    h |= falcon ? FALCON : NOT_FALCON;
    h |= y->rank > 2 && y->dim[y->rank - 3] > 1 ? EXPERT : 0;
    h |= m->mix->dtype != ZT_Q8_0 ? NOT_Q8 : 0;
    h |= y->dim[y->rank - 1] % zt_dtype_get(m->mix->dtype)->block ? UNEVEN : 0;
    return h;
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct chooser {
    const zt_mix_of *m;
    bool tied;              /* no output matrix: the embedding is it */
    int64_t n_values;       /* tensors of that role, */
    int64_t values, downs;  /* and how many of a role were seen */
} chooser;

/* "blk.12.": 12; else -1. */
static int64_t layer_of(const char *name)
{
    int layer;
    return sscanf(name, "blk.%d.", &layer) == 1 ? layer : -1;
}

static zt_dtype by_rules(chooser *c, const zt_mix_tensor *t)
{
    const zt_mix_of *m = c->m;
    role r = role_of(t->name), as = c->tied && r == EMBED ? OUTPUT : r;
    unsigned holds = what_holds(m, t), mix = 1u << (m->mix - mixes);
    int64_t i = 0, n = as == VALUE ? c->n_values : m->n_layers;
    if (as == VALUE)
        i = c->values++;
    if (as == DOWN) { /* experts' tensors may come in any number: their name tells the layer */
        i = c->downs++;
        i = m->n_experts > 1 && layer_of(t->name) >= 0 ? layer_of(t->name) : i;
    }
    for (const rule *q = rules; q < rules + sizeof rules / sizeof *rules; q++)
        if (q->role == as && q->mixes & mix && (q->when & holds) == q->when &&
            among(q->layers, i, n)) {
            bool more = as == VALUE && is_large(m) && (q->dtype == ZT_Q3_K || q->dtype == ZT_Q4_K);
            return more ? ZT_Q5_K : q->dtype;
        }
    if (m->mix == &mixes[MXFP4_MOE])
        return of_experts(holds);
    zt_dtype own = m->mix->dtype;
    return as == VALUE && is_large(m) && (own == ZT_Q3_K || own == ZT_Q4_K) ? ZT_Q5_K : own;
}

zt_dtype zt_mix_fit(zt_dtype wanted, int64_t n)
{
    static const zt_dtype smaller[ZT_DTYPE_COUNT] = {
        [ZT_IQ4_XS] = ZT_IQ4_NL, [ZT_NVFP4] = ZT_IQ4_NL, [ZT_Q2_K] = ZT_Q4_0, [ZT_Q3_K] = ZT_Q4_0,
        [ZT_TQ1_0] = ZT_Q4_0,    [ZT_TQ2_0] = ZT_Q4_0,   [ZT_Q4_K] = ZT_Q5_0, [ZT_Q5_K] = ZT_Q5_1,
        [ZT_Q6_K] = ZT_Q8_0,
    };
    if (n % zt_dtype_get(wanted)->block == 0)
        return wanted;
    zt_dtype t = smaller[wanted]; /* f64, the first dtype, where there is none */
    return t != ZT_F64 && n % zt_dtype_get(t)->block == 0 ? t : ZT_F16;
}

bool zt_mix_matches(const zt_mix_wish *w, const char *name)
{
    return fnmatch(w->glob, name, 0) == 0;
}

static void choose(chooser *c, zt_mix_tensor *t)
{
    const zt_mix_of *m = c->m;
    t->wish = -1;
    t->fell_back = t->search = false;
    t->dtype = t->wanted = t->type->dtype;
    t->kept = stays(m, t);
    if (t->kept)
        return;
    for (int64_t i = 0; i < m->n_wishes; i++)
        if (zt_mix_matches(&m->wish[i], t->name))
            t->wish = i;
    if (t->wish >= 0)
        t->wanted = m->wish[t->wish].dtype;
    else if (m->pure || zt_dtype_get(m->mix->dtype)->kind != 'Q')
        t->wanted = m->mix->dtype;
    else
        t->wanted = by_rules(c, t);
    t->dtype = zt_mix_fit(t->wanted, t->type->dim[t->type->rank - 1]);
    t->fell_back = t->dtype != t->wanted;
    t->search = t->fell_back && !zt_quantize_has_rule(t->wanted);
}

/* By layer, then by name: the order in which llama-quantize counts. */
static int by_layer(const void *a, const void *b)
{
    const char *x = (*(zt_mix_tensor *const *)a)->name, *y = (*(zt_mix_tensor *const *)b)->name;
    int64_t i = layer_of(x), j = layer_of(y);
    return i != j ? (i > j) - (i < j) : strcmp(x, y);
}

zt_status zt_mix_choose(zt_ctx *ctx, const zt_mix_of *m, zt_mix_tensor *tensor, int64_t n)
{
    chooser c = {.m = m, .tied = true};
    zt_mix_tensor **order = zt_alloc_array(ctx, (size_t)n, sizeof *order);
    if (!order)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        role r = role_of(tensor[i].name);
        c.n_values += r == VALUE;
        c.tied &= r != OUTPUT;
        order[i] = &tensor[i];
    }
    qsort(order, (size_t)n, sizeof *order, by_layer);
    for (int64_t i = 0; i < n; i++)
        choose(&c, order[i]);
    zt_free(ctx, order);
    return ZT_OK;
}
