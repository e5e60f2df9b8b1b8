/* arch.c - the table of architectures, and how hyper-parameters are read from a file.
 *
 * Key names, their defaults and what each architecture does are facts from llama.cpp
 * (src/llama-arch.cpp, src/llama-model.cpp). Every number is checked here: what comes out of
 * zt_hyper_read multiplies without overflow and divides without a remainder.
 */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------ */

static int gate_silu(zt_prog *p, const char *name, int gate, int up)
{
    return zt_emit_swiglu(p, name, gate, up);
}

static int gate_gelu(zt_prog *p, const char *name, int gate, int up)
{
    return zt_emit_geglu(p, name, gate, up, NULL);
}

static const zt_arch archs[] = {
    {.name = "llama",
     .parts = ZT_PART_COMMON | ZT_PART_BIASES | ZT_PART_ROPE_TAB,
     .rope_pair = "neighbours",
     .gate = gate_silu},
    {.name = "qwen2",
     .parts = ZT_PART_COMMON | ZT_PART_BIASES,
     .rope_pair = "halves",
     .gate = gate_silu},
    {.name = "gemma3",
     .parts = ZT_PART_COMMON | ZT_PART_QK_NORM | ZT_PART_POST_NORM,
     .rope_pair = "halves",
     .embed_scale = true,
     .gate = gate_gelu,
     .window_period = 6,
     .local_theta = 1e4,
     .width_scaled_layers = 62},
};

const zt_arch *zt_arch_of(const zt_gguf *g)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    zt_bytes name;
    if (!zt_gguf_str(g, "general.architecture", &name)) {
        zt_fail(ctx, ZT_EDATA, "%s: key 'general.architecture' is missing: not a model",
                zt_gguf_name(g));
        return NULL;
    }
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i].name) == name.n && memcmp(archs[i].name, name.data, name.n) == 0)
            return &archs[i];
    char text[96];
    zt_fail(ctx, ZT_ENOTSUP, "%s: architecture '%s' is not supported", zt_gguf_name(g),
            zt_escape(text, sizeof text, name.data, name.n));
    return NULL;
}

/* ---- reading keys --------------------------------------------------------------------------- */

typedef struct reader {
    zt_ctx *ctx;
    const zt_gguf *g;
    const zt_arch *arch;
    char key[128]; /* the key last looked at */
    zt_status status;
} reader;

static const char *key_of(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch->name, suffix);
    return r->key;
}

/* A number from 1 to max; `otherwise` where the key is absent, and then 0 means that it must be
 * there. 1 is returned after a failure, so that the sums that follow stay defined. */
static int64_t get_count(reader *r, const char *suffix, int64_t otherwise, int64_t max)
{
    int64_t v = otherwise;
    if (r->status != ZT_OK)
        return 1;
    if (!zt_gguf_i64(r->g, key_of(r, suffix), &v) && otherwise == 0)
        r->status = zt_fail(r->ctx, ZT_EDATA, "%s: key '%s' is missing or not a whole number",
                            zt_gguf_name(r->g), r->key);
    else if (v < 1 || v > max)
        r->status =
            zt_fail(r->ctx, ZT_EDATA, "%s: %s is %" PRId64 ", which is not from 1 to %" PRId64,
                    zt_gguf_name(r->g), r->key, v, max);
    return r->status == ZT_OK ? v : 1;
}

/* A finite number of at least `min`; `otherwise` where the key is absent, NAN: must be there. */
static double get_real(reader *r, const char *suffix, double otherwise, double min)
{
    double v = otherwise;
    if (r->status != ZT_OK)
        return 1;
    if (!zt_gguf_f64(r->g, key_of(r, suffix), &v) && isnan(otherwise))
        r->status = zt_fail(r->ctx, ZT_EDATA, "%s: key '%s' is missing or not a number",
                            zt_gguf_name(r->g), r->key);
    else if (!(v >= min && isfinite(v)))
        r->status = zt_fail(r->ctx, ZT_EDATA, "%s: %s is %g, which is not a number from %g up",
                            zt_gguf_name(r->g), r->key, v, min);
    return r->status == ZT_OK ? v : 1;
}

/* `what` must hold of the numbers in the message. */
static void demand(reader *r, bool what, const char *rule, int64_t a, int64_t b)
{
    if (r->status == ZT_OK && !what)
        r->status = zt_fail(r->ctx, ZT_EDATA, "%s: %s: %s (%" PRId64 ", %" PRId64 ")",
                            zt_gguf_name(r->g), r->arch->name, rule, a, b);
}

static void refuse(reader *r, const char *feature)
{
    if (r->status == ZT_OK)
        r->status = zt_fail(r->ctx, ZT_ENOTSUP, "%s: %s models with %s are not supported",
                            zt_gguf_name(r->g), r->arch->name, feature);
}

/* ---- groups of keys ------------------------------------------------------------------------- */

#define MAX_WIDTH (1 << 24)

static void read_sizes(reader *r, zt_hyper *h)
{
    int64_t n_tensors = zt_gguf_n_tensors(r->g), experts = 0;
    if (zt_gguf_i64(r->g, key_of(r, "expert_count"), &experts) && experts != 0)
        refuse(r, "a mixture of experts");
    /* A layer has tensors of its own, so no more layers than tensors can be honest. */
    h->n_layers = get_count(r, "block_count", 0, n_tensors > 0 ? n_tensors : 1);
    h->width = get_count(r, "embedding_length", 0, MAX_WIDTH);
    h->ff = get_count(r, "feed_forward_length", 0, MAX_WIDTH);
    h->ctx_train = get_count(r, "context_length", 0, INT32_MAX - ZT_KV_BLOCK);
    h->eps = get_real(r, "attention.layer_norm_rms_epsilon", NAN, 0);
}

static void read_heads(reader *r, zt_hyper *h)
{
    int64_t value_length;
    h->n_heads = get_count(r, "attention.head_count", 0, MAX_WIDTH);
    h->n_kv_heads = get_count(r, "attention.head_count_kv", h->n_heads, MAX_WIDTH);
    demand(r, h->n_heads % h->n_kv_heads == 0, "query heads are no multiple of key heads",
           h->n_heads, h->n_kv_heads);
    if (r->status == ZT_OK && !zt_gguf_i64(r->g, key_of(r, "attention.key_length"), &h->head))
        demand(r, h->width % h->n_heads == 0, "the width is no multiple of the heads", h->width,
               h->n_heads);
    h->head = get_count(r, "attention.key_length", h->width / h->n_heads + (h->width < h->n_heads),
                        MAX_WIDTH);
    value_length = get_count(r, "attention.value_length", h->head, MAX_WIDTH);
    if (value_length != h->head)
        refuse(r, "values of another length than keys");
    h->q_width = h->n_heads * h->head; /* below 2^48 */
    h->kv_width = h->n_kv_heads * h->head;
    demand(r, h->q_width <= MAX_WIDTH, "heads times head length is too much", h->n_heads, h->head);
    double per_head = h->n_layers == r->arch->width_scaled_layers
                          ? (double)(h->width / h->n_heads)
                          : (double)h->head;
    h->attn_scale = 1.0 / sqrt(per_head > 0 ? per_head : 1);
    h->attn_cap = get_real(r, "attn_logit_softcapping", 0, 0);
    h->final_cap = get_real(r, "final_logit_softcapping", 0, 0);
}

/* Linear scaling under its two names; every other kind is refused. */
static double read_rope_scale(reader *r)
{
    zt_bytes type;
    bool typed = zt_gguf_str(r->g, key_of(r, "rope.scaling.type"), &type);
    if (typed && type.n == 4 && memcmp(type.data, "none", 4) == 0)
        return 1;
    if (typed && !(type.n == 6 && memcmp(type.data, "linear", 6) == 0))
        refuse(r, "rope scaling other than linear");
    /* 0 or absent: none, as llama.cpp has it */
    double factor = get_real(r, "rope.scale_linear", 0, 0);
    factor = get_real(r, "rope.scaling.factor", factor, 0);
    return factor > 0 ? 1.0 / factor : 1;
}

static void read_rope(reader *r, zt_hyper *h)
{
    h->rope_dims = get_count(r, "rope.dimension_count", h->head, MAX_WIDTH);
    demand(r, h->rope_dims % 2 == 0 && h->rope_dims <= h->head,
           "rope.dimension_count is odd or more than the head length", h->rope_dims, h->head);
    h->rope_half = h->rope_dims / 2;
    h->theta = get_real(r, "rope.freq_base", 1e4, 1e-3);
    h->rope_scale = read_rope_scale(r);
    h->window = 0;
    if (r->arch->window_period == 0)
        return;
    if (zt_gguf_i64(r->g, key_of(r, "attention.sliding_window"), &h->window) && h->window != 0)
        h->window = get_count(r, "attention.sliding_window", 0, INT32_MAX);
    h->local_theta = get_real(r, "rope.freq_base_swa", r->arch->local_theta, 1e-3);
}

/* GGUF's numbers: 0 none, 1 mean, 2 CLS, 3 last, 4 rank (a classifier on top). */
static void read_pooling(reader *r, zt_hyper *h)
{
    static const zt_pooling known[] = {ZT_POOL_MEAN, ZT_POOL_MEAN, ZT_POOL_FIRST, ZT_POOL_LAST};
    int64_t type = 0, n = sizeof known / sizeof *known;
    h->pooling = ZT_POOL_MEAN;
    if (!zt_gguf_i64(r->g, key_of(r, "pooling_type"), &type))
        return;
    if (type >= 0 && type < n)
        h->pooling = known[type];
    else
        refuse(r, "a pooling_type other than none, mean, CLS and last");
}

/* The embedding has the last word on the vocabulary's size, and the tokenizer must agree: an id
 * that one knows and the other does not would be met in the middle of a text. */
static void read_vocab(reader *r, zt_hyper *h)
{
    zt_type type;
    zt_gguf_kind kind;
    int64_t tokens, i = zt_gguf_find(r->g, "token_embd.weight");
    if (r->status != ZT_OK)
        return;
    if (i >= 0)
        zt_gguf_tensor(r->g, i, &type, NULL, NULL);
    /* 0 where there is none: zt_weights_check tells what is wrong */
    h->vocab = i >= 0 && type.rank == 2 ? type.dim[0] : 0;
    if (h->vocab > INT32_MAX)
        demand(r, false, "more tokens than an id can name", h->vocab, INT32_MAX);
    else if (h->vocab > 0 && zt_gguf_array(r->g, "tokenizer.ggml.tokens", &kind, &tokens))
        demand(r, tokens == h->vocab, "the vocabulary is not as long as the embedding", tokens,
               h->vocab);
}

zt_status zt_hyper_read(const zt_gguf *g, zt_hyper *h)
{
    memset(h, 0, sizeof *h);
    h->arch = zt_arch_of(g);
    if (!h->arch)
        return zt_ctx_status(zt_gguf_ctx(g));
    reader r = {.ctx = zt_gguf_ctx(g), .g = g, .arch = h->arch};
    read_sizes(&r, h);
    read_heads(&r, h);
    read_rope(&r, h);
    read_pooling(&r, h);
    read_vocab(&r, h);
    return r.status;
}

bool zt_hyper_local(const zt_hyper *h, int64_t layer)
{
    return h->window > 0 && layer % h->arch->window_period != h->arch->window_period - 1;
}
