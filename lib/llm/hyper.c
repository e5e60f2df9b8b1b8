/* hyper.c - how hyper-parameters are read from a file, and checked.
 *
 * Key names and their defaults are facts from llama.cpp (src/llama-arch.cpp, src/llama-model.cpp,
 * src/llama-context.cpp); rope.layer_pattern, which layers rotate, is zt's own. Every number is
 * checked here: what comes out of zt_hyper_read multiplies without overflow and divides without a
 * remainder.
 */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* ---- sizes ---------------------------------------------------------------------------------- */

#define MAX_WIDTH (1 << 24)

static void read_sizes(reader *r, zt_hyper *h)
{
    int64_t most = zt_gguf_n_tensors(r->g), experts = 0;
    if (zt_gguf_i64(r->g, key_of(r, "expert_count"), &experts) && experts != 0)
        refuse(r, "a mixture of experts");
    /* A layer has tensors of its own, so no more layers than tensors can be honest. */
    most = most < 1 ? 1 : most > ZT_MAX_LAYERS ? ZT_MAX_LAYERS : most;
    h->n_layers = get_count(r, "block_count", 0, most);
    h->width = get_count(r, "embedding_length", 0, MAX_WIDTH);
    h->ff = get_count(r, "feed_forward_length", 0, MAX_WIDTH);
    h->up_width = 2 * h->ff;
    h->ctx_train = get_count(r, "context_length", 0, INT32_MAX - ZT_KV_BLOCK);
    h->eps = get_real(r, r->arch->layer_norm ? "attention.layer_norm_epsilon"
                                             : "attention.layer_norm_rms_epsilon", NAN, 0);
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
    h->qkv_width = h->q_width + 2 * h->kv_width;
    h->q_norm = r->arch->qk_norm_whole ? h->q_width : h->head;
    h->k_norm = r->arch->qk_norm_whole ? h->kv_width : h->head;
    demand(r, h->q_width <= MAX_WIDTH, "heads times head length is too much", h->n_heads, h->head);
}

/* 0 stands for "not said" in all of these, as llama.cpp has it; logit_scale must be said. */
static void read_scales(reader *r, zt_hyper *h)
{
    int64_t per_head =
        h->n_layers == r->arch->width_scaled_layers ? h->width / h->n_heads : h->head;
    double scale = get_real(r, "attention.scale", 0, 0);
    h->attn_scale = scale > 0 ? scale : 1.0 / sqrt(per_head > 0 ? (double)per_head : 1);
    h->attn_cap = get_real(r, "attn_logit_softcapping", r->arch->attn_cap, 0);
    h->final_cap = get_real(r, "final_logit_softcapping", r->arch->final_cap, 0);
    scale = get_real(r, "embedding_scale", 0, 0);
    h->embed_scale = scale > 0 ? scale : r->arch->embed_scale ? sqrt((double)h->width) : 1;
    scale = get_real(r, "residual_scale", 0, 0);
    h->residual_scale = scale > 0 ? scale : 1;
    h->logit_scale = 1;
    if (!r->arch->divides_logits)
        return;
    scale = get_real(r, "logit_scale", NAN, 0);
    h->logit_scale = scale > 0 ? 1 / scale : 1;
}

/* ---- layers of two kinds -------------------------------------------------------------------- */

/* Which layers are of a kind, l < n_layers, as the key says: by a period p, the last of so many is
 * not (0: all are), or by an entry a layer, 0 or 1. `period` where it says nothing. */
static void read_pattern(reader *r, const char *suffix, int64_t period, int64_t n_layers,
                         bool out[ZT_MAX_LAYERS])
{
    int64_t flag[ZT_MAX_LAYERS], n;
    zt_gguf_kind kind;
    char rule[128];
    bool listed = zt_gguf_array(r->g, key_of(r, suffix), &kind, &n);
    if (listed) {
        snprintf(rule, sizeof rule, "%s has not an entry a layer", suffix);
        demand(r, n == n_layers, rule, n, n_layers);
        snprintf(rule, sizeof rule, "%s is not 0 or 1 for each layer", suffix);
        if (r->status == ZT_OK)
            demand(r, zt_gguf_array_i64(r->g, r->key, flag, n), rule, n, n_layers);
    } else if (zt_gguf_i64(r->g, r->key, &period)) {
        snprintf(rule, sizeof rule, "%s is below 0", suffix);
        demand(r, period >= 0, rule, period, 0);
    }
    for (int64_t l = 0; l < n_layers && r->status == ZT_OK; l++)
        out[l] = listed ? flag[l] != 0 : period == 0 || l % period < period - 1;
}

/* ---- rope ----------------------------------------------------------------------------------- */

static bool is_word(zt_bytes text, const char *word)
{
    return text.n == strlen(word) && memcmp(text.data, word, text.n) == 0;
}

/* The pair that turns `turns` times over the context that the model was trained for. */
static double pair_of(const zt_hyper *h, double turns)
{
    return (double)h->rope_dims * log((double)h->ctx_orig / (turns * 2 * M_PI)) /
           (2 * log(h->rope.theta));
}

static double amplitude_of(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* Peng et al., "YaRN" (2023): pairs that turn fast keep their angles, slow ones are scaled. What
 * llama.cpp's rope_yarn multiplies and its context divides again is left out. */
static void read_yarn(reader *r, zt_hyper *h)
{
    double factor = 1 / h->rope.scale;
    double fast = get_real(r, "rope.scaling.yarn_beta_fast", 32, 1e-6);
    double slow = get_real(r, "rope.scaling.yarn_beta_slow", 1, 1e-6);
    double ext = get_real(r, "rope.scaling.yarn_ext_factor", -1, -1);
    double by = get_real(r, "rope.scaling.yarn_log_multiplier", 0, 0);
    h->rope.extend = ext < 0 ? 1 : ext;
    if (h->rope.extend == 0)
        return;
    demand(r, h->rope.theta > 1, "rope.freq_base is not above 1", (int64_t)h->rope.theta, 1);
    if (r->status != ZT_OK)
        return;
    h->rope.low = fmax(floor(pair_of(h, fast)), 0);
    h->rope.high = fmin(ceil(pair_of(h, slow)), (double)(h->rope_dims - 1));
    double said = get_real(r, "rope.scaling.yarn_attn_factor", 0, 0); /* the whole of it */
    h->rope.amplitude *=
        said > 0 ? said : amplitude_of(factor, 1) / (by > 0 ? amplitude_of(factor, by) : 1);
}

static void read_scaling(reader *r, zt_hyper *h)
{
    zt_bytes type = {"linear", 6};
    zt_gguf_str(r->g, key_of(r, "rope.scaling.type"), &type);
    h->rope.amplitude = get_real(r, "rope.scaling.attn_factor", 1, 0);
    /* linear scaling under its two names; 0 or absent: none, as llama.cpp has it */
    double factor = get_real(r, "rope.scale_linear", 0, 0);
    factor = get_real(r, "rope.scaling.factor", factor, 0);
    h->rope.scale = factor > 0 && !is_word(type, "none") ? 1 / factor : 1;
    if (is_word(type, "yarn"))
        read_yarn(r, h);
    else if (!is_word(type, "none") && !is_word(type, "linear") && !is_word(type, "longrope"))
        refuse(r, "rope scaling other than linear, yarn and longrope");
}

static void read_rope(reader *r, zt_hyper *h)
{
    h->ctx_orig = get_count(r, "rope.scaling.original_context_length", h->ctx_train, INT32_MAX);
    h->rope = zt_rope_defaults();
    h->rope_dims = get_count(r, "rope.dimension_count", h->head, MAX_WIDTH);
    if (r->arch->rope_pair == NULL)
        return;
    demand(r, h->rope_dims % 2 == 0 && h->rope_dims <= h->head,
           "rope.dimension_count is odd or more than the head length", h->rope_dims, h->head);
    read_pattern(r, "rope.layer_pattern", r->arch->no_rope_every, h->n_layers, h->rotated);
    int64_t on = 1;
    if (r->arch->rope_switch && zt_gguf_i64(r->g, key_of(r, "rope.scaling.finetuned"), &on) && !on)
        memset(h->rotated, 0, sizeof h->rotated);
    h->rope_half = h->rope_dims / 2;
    h->rope.dims = h->rope_dims;
    h->rope.head = h->head;
    snprintf(h->rope.pair.s, sizeof h->rope.pair.s, "%s", r->arch->rope_pair);
    h->rope.theta = get_real(r, "rope.freq_base", 1e4, 1e-3);
    read_scaling(r, h);
}

/* ---- windows -------------------------------------------------------------------------------- */

static void read_window(reader *r, zt_hyper *h)
{
    bool named = zt_gguf_i64(r->g, key_of(r, "attention.sliding_window"), &h->window);
    h->local_rope = h->rope;
    if (!named)
        h->window = r->arch->window;
    if (h->window == 0 || r->arch->encoder || r->status != ZT_OK)
        return;
    if (named)
        h->window = get_count(r, "attention.sliding_window", 0, INT32_MAX);
    read_pattern(r, "attention.sliding_window_pattern", r->arch->window_period, h->n_layers,
                 h->local);
    double theta = r->arch->local_theta > 0 ? r->arch->local_theta : h->rope.theta;
    if (r->arch->local_plain) {
        zt_rope_attrs plain = zt_rope_defaults();
        plain.dims = h->rope.dims;
        plain.head = h->rope.head;
        plain.pair = h->rope.pair;
        h->local_rope = plain;
    }
    h->local_rope.theta = get_real(r, "rope.freq_base_swa", theta, 1e-3);
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* Only files may say that an encoder is causal, and none that was made does. */
static void read_encoder(reader *r, zt_hyper *h)
{
    int64_t causal = 0, i = zt_gguf_find(r->g, "token_types.weight");
    zt_type type;
    if (r->arch->encoder && zt_gguf_i64(r->g, key_of(r, "attention.causal"), &causal) && causal)
        refuse(r, "causal attention");
    if (!(r->arch->parts & (ZT_PART_TYPES | ZT_PART_TYPES_MAY)))
        return;
    if (i >= 0)
        zt_gguf_tensor(r->g, i, &type, NULL, NULL);
    h->n_types = i >= 0 && type.rank == 2 ? type.dim[0] : 1;
    if (zt_gguf_i64(r->g, "tokenizer.ggml.token_type_count", &h->n_types))
        demand(r, h->n_types >= 1, "tokenizer.ggml.token_type_count is below 1", h->n_types, 1);
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

/* Is there a tensor of this name, of so many rows (0: any)? */
static bool has_matrix(const reader *r, const char *name, int64_t rows)
{
    zt_type type;
    int64_t i = zt_gguf_find(r->g, name);
    if (i < 0)
        return false;
    zt_gguf_tensor(r->g, i, &type, NULL, NULL);
    return rows == 0 || (type.rank == 2 && type.dim[0] == rows);
}

/* Whether q, k and v, and gate and up, are one matrix or several is the file's choice; layer 0
 * tells. Where it has neither, the row's way is what will be missed. */
static void read_layout(reader *r, zt_hyper *h)
{
    const unsigned gates = ZT_PART_GATE | ZT_PART_FUSED_UP;
    h->parts = r->arch->parts;
    bool one = has_matrix(r, "blk.0.attn_qkv.weight", 0);
    if (one != has_matrix(r, "blk.0.attn_q.weight", 0))
        h->parts = (h->parts & ~(unsigned)(ZT_PART_QKV | ZT_PART_FUSED_QKV)) |
                   (one ? ZT_PART_FUSED_QKV : ZT_PART_QKV);
    if (!(h->parts & gates))
        return;
    h->parts &= ~(gates | ZT_PART_UP);
    bool two = has_matrix(r, "blk.0.ffn_gate.weight", 0);
    one = !two && (has_matrix(r, "blk.0.ffn_up.weight", h->up_width) ||
                   r->arch->parts & ZT_PART_FUSED_UP);
    h->parts |= one ? ZT_PART_FUSED_UP : ZT_PART_GATE | ZT_PART_UP;
}

zt_status zt_hyper_read(const zt_gguf *g, zt_hyper *h)
{
    memset(h, 0, sizeof *h);
    h->arch = zt_arch_of(g);
    if (!h->arch)
        return zt_ctx_status(zt_gguf_ctx(g));
    if (zt_gguf_n_tensors(g) == 0)
        return zt_fail(zt_gguf_ctx(g), ZT_EDATA, "%s: has a vocabulary, and no tensors",
                       zt_gguf_name(g));
    reader r = {.ctx = zt_gguf_ctx(g), .g = g, .arch = h->arch};
    read_sizes(&r, h);
    read_heads(&r, h);
    read_scales(&r, h);
    read_rope(&r, h);
    read_window(&r, h);
    read_encoder(&r, h);
    read_pooling(&r, h);
    read_layout(&r, h);
    read_vocab(&r, h);
    return r.status;
}
