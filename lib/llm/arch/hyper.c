/* hyper.c - how hyper-parameters are read from a file, and checked.
 *
 * Key names and their defaults are facts from llama.cpp (src/llama-arch.cpp, src/llama-model.cpp,
 * src/llama-context.cpp); rope.layer_pattern, which layers rotate, rope.pair, which two columns rotate together, and rope.scaling.yarn_truncate, whether YaRN's bounds are
 * whole pairs, are zt's own. Every number is
 * checked here: what comes out of zt_hyper_read multiplies without overflow and divides without a
 * remainder.
 */
#include "lib/llm/arch/hyper_internal.h"
#include "lib/ops/rounded.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading keys --------------------------------------------------------------------------- */

typedef zt_key_reader key_reader;

static const char *full_key(key_reader *reader, const char *suffix)
{
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->arch->name, suffix);
    return reader->key;
}

static bool has_key(key_reader *reader, const char *suffix)
{
    double value;
    return zt_hyper_f64(reader, suffix, &value);
}

/* A number from 1 to max; `otherwise` where the key is absent, and then 0 means that it must be
 * there. 1 is returned after a failure, so that the sums that follow stay defined. */
static int64_t get_count(key_reader *reader, const char *suffix, int64_t otherwise, int64_t max)
{
    int64_t value = otherwise;
    if (reader->status != ZT_OK) return 1;
    if (!zt_hyper_i64(reader, suffix, &value) && otherwise == 0)
        zt_hyper_missing(reader);
    else if ((value < 1 || value > max) && reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is %" PRId64 ", expected 1 to %" PRId64,
                                 zt_gguf_name(reader->gguf), reader->key, value, max);
    return reader->status == ZT_OK ? value : 1;
}

/* A finite number of at least `min`; `otherwise` where the key is absent, NAN: must be there. */
static double get_real(key_reader *reader, const char *suffix, double otherwise, double min)
{
    double value = otherwise;
    if (reader->status != ZT_OK) return 1;
    bool present = zt_hyper_f64(reader, suffix, &value);
    if (reader->status != ZT_OK) return 1;
    if (!present && isnan(otherwise))
        reader->status =
            zt_fail(reader->ctx, ZT_EDATA, "%s: key '%s' is missing or not a number", zt_gguf_name(reader->gguf), reader->key);
    else if (!(value >= min && isfinite(value)))
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is %g, expected a number of at least %g",
                                 zt_gguf_name(reader->gguf), reader->key, value, min);
    return reader->status == ZT_OK ? value : 1;
}

/* Fails with the rule and its two numbers unless the condition `holds`. */
static void require_rule(key_reader *reader, bool holds, const char *rule, int64_t left, int64_t right)
{
    if (reader->status == ZT_OK && !holds)
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: %s (%" PRId64 ", %" PRId64 ")", zt_gguf_name(reader->gguf),
                                 reader->arch->name, rule, left, right);
}

void zt_hyper_missing(zt_key_reader *reader)
{
    if (reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: key '%s' is missing or not a whole number",
                                 zt_gguf_name(reader->gguf), reader->key);
}

const char *zt_hyper_key(zt_key_reader *reader, const char *suffix) { return full_key(reader, suffix); }

double zt_hyper_real(zt_key_reader *reader, const char *suffix, double otherwise, double min)
{
    return get_real(reader, suffix, otherwise, min);
}

int64_t zt_hyper_count(zt_key_reader *reader, const char *suffix, int64_t otherwise, int64_t max)
{
    return get_count(reader, suffix, otherwise, max);
}

void zt_hyper_require(zt_key_reader *reader, bool holds, const char *rule, int64_t left, int64_t right)
{
    require_rule(reader, holds, rule, left, right);
}

static void refuse_feature(key_reader *reader, const char *feature)
{
    if (reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_ENOTSUP, "%s: %s models with %s are not supported", zt_gguf_name(reader->gguf),
                                 reader->arch->name, feature);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

#define MAX_WIDTH ZT_MAX_WIDTH

/* Layers behind the last that predict further tokens (multi-token prediction). */
static void read_extra_layers(key_reader *reader, zt_hyper *hyper)
{
    int64_t extra = 0;
    if (!zt_hyper_i64(reader, "nextn_predict_layers", &extra)) return;
    require_rule(reader, extra >= 0 && extra < hyper->n_layers, "nextn_predict_layers is not below block_count", extra,
                 hyper->n_layers);
    if (reader->status != ZT_OK) return;
    hyper->extra_layers = extra;
    hyper->n_layers -= extra;
}

static void read_sizes(key_reader *reader, zt_hyper *hyper)
{
    int64_t most = zt_gguf_n_tensors(reader->gguf); /* a layer has tensors of its own */
    most = most < 1 ? 1 : most > ZT_MAX_LAYERS ? ZT_MAX_LAYERS : most;
    hyper->n_layers = get_count(reader, "block_count", 0, most);
    read_extra_layers(reader, hyper);
    hyper->width = get_count(reader, "embedding_length", 0, MAX_WIDTH);
    hyper->width_2 = 2 * hyper->width;
    hyper->ctx_train = get_count(reader, "context_length", 0, INT32_MAX - ZT_KV_BLOCK);
    /* phimoe's converter writes the one key, and its norms are the other */
    bool either = reader->arch->either_epsilon && has_key(reader, "attention.layer_norm_epsilon");
    bool layer_norm = (reader->arch->layer_norm || either) && !has_key(reader, "attention.layer_norm_rms_epsilon");
    hyper->eps = get_real(reader, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", NAN, 0);
}

/* ---- layers of two kinds -------------------------------------------------------------------- */

/* Which layers have a property. The key holds either
 *
 *     a number p      layer has it if layer % p < p - 1 (the last of every p has not), with `later` if layer % p > 0 (the first
 *                     has not); p = 0: all have it
 *     an array        one entry a layer, 0 or 1
 *
 * Without the key `period` is the number. */
static void read_pattern(key_reader *reader, const char *suffix, int64_t period, bool later, int64_t n_layers,
                         bool out[ZT_MAX_LAYERS])
{
    int64_t flag[ZT_MAX_LAYERS], entry_count;
    zt_gguf_kind kind;
    char rule[128];
    bool listed = zt_gguf_array(reader->gguf, full_key(reader, suffix), &kind, &entry_count);
    if (listed) {
        snprintf(rule, sizeof rule, "%s does not have one entry per layer", suffix);
        require_rule(reader, entry_count == n_layers, rule, entry_count, n_layers);
        snprintf(rule, sizeof rule, "%s is not 0 or 1 for each layer", suffix);
        if (reader->status == ZT_OK)
            require_rule(reader, zt_gguf_array_i64(reader->gguf, reader->key, flag, entry_count), rule, entry_count, n_layers);
    } else if (zt_hyper_i64(reader, suffix, &period)) {
        snprintf(rule, sizeof rule, "%s is not a number of layers", suffix);
        require_rule(reader, period >= 0 && period <= ZT_MAX_LAYERS, rule, period, ZT_MAX_LAYERS);
    }
    for (int64_t layer = 0; layer < n_layers && listed && reader->status == ZT_OK; layer++)
        require_rule(reader, flag[layer] == 0 || flag[layer] == 1, rule, flag[layer], layer);
    for (int64_t layer = 0; layer < n_layers && reader->status == ZT_OK; layer++)
        out[layer] = listed ? flag[layer] != 0 : period == 0 || (later ? layer % period > 0 : layer % period < period - 1);
}

/* ---- windows -------------------------------------------------------------------------------- */

/* May layers have a window? An encoder's has none, unless its row says so. */
static bool has_windows(const key_reader *reader, const zt_hyper *hyper)
{
    return hyper->window > 0 && (!reader->arch->encoder || reader->arch->window_around);
}

static void read_windows(key_reader *reader, zt_hyper *hyper)
{
    bool named = zt_hyper_i64(reader, "attention.sliding_window", &hyper->window);
    if (reader->arch->needs_window) hyper->window = get_count(reader, "attention.sliding_window", 0, INT32_MAX);
    if (!named && !reader->arch->needs_window) hyper->window = reader->arch->window;
    bool blind = reader->arch->encoder && !reader->arch->window_around;
    if (hyper->window == 0 || blind || reader->status != ZT_OK) return;
    if (named) hyper->window = get_count(reader, "attention.sliding_window", 0, INT32_MAX);
    read_pattern(reader, "attention.sliding_window_pattern", reader->arch->window_period, reader->arch->window_later,
                 hyper->n_layers, hyper->local);
}

/* ---- sizes of layers ------------------------------------------------------------------------ */

/* A count for each layer: the key holds one number, or a list, whose entries are at least `least` and may go on for layers behind
 * the last. Otherwise as get_count. */
static void get_counts(key_reader *reader, const char *suffix, int64_t otherwise, int64_t least, const zt_hyper *hyper,
                       int64_t out[ZT_MAX_LAYERS])
{
    int64_t entry_count = 0, n_layers = hyper->n_layers;
    zt_gguf_kind kind;
    bool listed = zt_gguf_array(reader->gguf, full_key(reader, suffix), &kind, &entry_count);
    if (listed && reader->status == ZT_OK && entry_count == n_layers + hyper->extra_layers) n_layers = entry_count;
    if (listed && reader->status == ZT_OK && !zt_gguf_array_i64(reader->gguf, reader->key, out, n_layers))
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is not %" PRId64 " whole numbers, one for each layer",
                                 zt_gguf_name(reader->gguf), reader->key, n_layers);
    int64_t count = listed ? 1 : get_count(reader, suffix, otherwise, MAX_WIDTH);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        if (listed && reader->status == ZT_OK && (out[layer] < least || out[layer] > MAX_WIDTH))
            reader->status =
                zt_fail(reader->ctx, ZT_EDATA, "%s: %s is %" PRId64 " in layer %" PRId64 ", expected %" PRId64 " to %d",
                        zt_gguf_name(reader->gguf), reader->key, out[layer], layer, least, MAX_WIDTH);
        if (!listed || reader->status != ZT_OK) out[layer] = count;
    }
}

/* Lengths of a head: of layers without a window, and of those with one where the key is there. */
static int64_t get_head(key_reader *reader, const char *key_length, const char *value_length, int64_t otherwise)
{
    int64_t head = get_count(reader, key_length, otherwise, MAX_WIDTH);
    if (get_count(reader, value_length, head, MAX_WIDTH) != head) refuse_feature(reader, "values and keys of different lengths");
    return head;
}

static const char not_multiple[] = "the number of query heads is not a multiple of the number of key heads";

/* Latent attention. Heads as the split matrices have them are named key_length_mla and value_length_mla, and key_length is the
 * cached row; without these keys key_length is a head's, as the one matrix has it. Returns a head's length. */
static int64_t read_latent(key_reader *reader, zt_hyper *hyper, int64_t heads)
{
    zt_latent_sizes *latent = &hyper->latent;
    bool split = has_key(reader, "attention.key_length_mla");
    int64_t even = hyper->width / heads + (hyper->width < heads);
    int64_t head = get_count(reader, split ? "attention.key_length_mla" : "attention.key_length", 0, MAX_WIDTH);
    latent->value = split ? get_count(reader, "attention.value_length_mla", 0, MAX_WIDTH)
                          : get_count(reader, "attention.value_length", even, MAX_WIDTH);
    int64_t turned = get_count(reader, "rope.dimension_count", 0, MAX_WIDTH);
    latent->rank = get_count(reader, "attention.kv_lora_rank", 0, MAX_WIDTH);
    bool ranked = zt_hyper_i64(reader, "attention.q_lora_rank", &latent->q_rank) && latent->q_rank != 0;
    if (ranked) latent->q_rank = get_count(reader, "attention.q_lora_rank", 0, MAX_WIDTH);
    if (hyper->window > 0) refuse_feature(reader, "sliding-window attention");
    if (reader->arch->parts & ZT_PART_INDEXER) zt_hyper_read_indexer(reader, latent, turned);
    require_rule(reader, turned < head, "rope.dimension_count is not below the head length", turned, head);
    latent->plain = head - turned;
    latent->row = latent->rank + turned;
    latent->key_value = latent->plain + latent->value;
    latent->key_values = heads * latent->key_value; /* below 2^49 */
    require_rule(reader, latent->key_values <= MAX_WIDTH && heads * latent->row <= MAX_WIDTH,
                 "heads times their length is too large", heads, latent->row);
    return head;
}

static void set_sizes(key_reader *reader, zt_hyper *hyper, zt_layer_sizes *sizes)
{
    require_rule(reader, sizes->n_heads % sizes->n_kv_heads == 0, not_multiple, sizes->n_heads, sizes->n_kv_heads);
    sizes->q_width = sizes->n_heads * sizes->head; /* below 2^48 */
    sizes->q_rows = (1 + reader->arch->gated_attention) * sizes->q_width;
    sizes->kv_width = sizes->n_kv_heads * sizes->head;
    sizes->qkv_width = sizes->q_width + 2 * sizes->kv_width;
    sizes->o_width = sizes->q_width;
    if (reader->arch->parts & ZT_PART_LATENT) {
        sizes->kv_width = hyper->latent.row;
        sizes->o_width = sizes->n_heads * hyper->latent.value;
    }
    sizes->q_norm = reader->arch->qk_norm_whole ? sizes->q_width : sizes->head;
    sizes->k_norm = reader->arch->qk_norm_whole ? sizes->kv_width : sizes->head;
    sizes->up_width = 2 * sizes->ff;
    require_rule(reader, sizes->q_width <= MAX_WIDTH, "heads times head length is too large", sizes->n_heads, sizes->head);
    hyper->ff = sizes->ff > hyper->ff ? sizes->ff : hyper->ff;
    hyper->n_heads = sizes->n_heads > hyper->n_heads ? sizes->n_heads : hyper->n_heads;
    hyper->n_kv_heads = sizes->n_kv_heads > hyper->n_kv_heads ? sizes->n_kv_heads : hyper->n_kv_heads;
    hyper->head = sizes->head > hyper->head ? sizes->head : hyper->head;
}

static void read_layer_sizes(key_reader *reader, zt_hyper *hyper)
{
    int64_t n_layers = hyper->n_layers, ff[ZT_MAX_LAYERS], heads[ZT_MAX_LAYERS], key_heads[ZT_MAX_LAYERS], length;
    for (int64_t layer = 0; layer < n_layers; layer++) hyper->layer[layer].cache = layer;
    if (!zt_arch_may_attend(reader->arch)) return;
    /* where all layers have experts, no other length need be there */
    int64_t expert_length = 0, least = reader->arch->kinds != ZT_KINDS_BY_HEADS;
    if (reader->arch->parts & ZT_PART_EXPERTS) zt_hyper_i64(reader, "expert_feed_forward_length", &expert_length);
    get_counts(reader, "feed_forward_length", expert_length, least, hyper, ff);
    get_counts(reader, "attention.head_count", 0, 1, hyper, heads);
    get_counts(reader, "attention.head_count_kv", heads[0], least, hyper, key_heads);
    bool latent = reader->arch->parts & ZT_PART_LATENT;
    bool given = latent || zt_hyper_i64(reader, "attention.key_length", &length);
    if (!given)
        require_rule(reader, hyper->width % heads[0] == 0, "the width is not a multiple of the number of heads", hyper->width,
                     heads[0]);
    int64_t even = hyper->width / heads[0] + (hyper->width < heads[0]);
    int64_t head =
        latent ? read_latent(reader, hyper, heads[0]) : get_head(reader, "attention.key_length", "attention.value_length", even);
    int64_t local_head = latent ? head : get_head(reader, "attention.key_length_swa", "attention.value_length_swa", head);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        zt_layer_sizes *sizes = &hyper->layer[layer];
        sizes->ff = ff[layer];
        sizes->n_heads = heads[layer];
        sizes->n_kv_heads = latent ? 1 : key_heads[layer];
        if (latent) {
            require_rule(reader, heads[layer] == heads[0], "layers differ in their heads", heads[layer], heads[0]);
            require_rule(reader, heads[layer] % key_heads[layer] == 0, not_multiple, heads[layer], key_heads[layer]);
            require_rule(reader, key_heads[layer] == 1 || key_heads[layer] == heads[0],
                         "the number of key heads is neither 1 nor that of query heads", key_heads[layer], heads[0]);
        }
        sizes->head = hyper->local[layer] ? local_head : head;
        zt_hyper_set_kind(reader, hyper, sizes);
        set_sizes(reader, hyper, sizes);
    }
}

/* The last of the layers before `limit` of the same kind: with a window, or without; -1: none. */
static int64_t last_alike(const zt_hyper *hyper, int64_t layer, int64_t limit)
{
    int64_t found = limit - 1;
    while (found >= 0 && hyper->local[found] != hyper->local[layer]) found--;
    return found;
}

/* The last attention.shared_kv_layers have no keys and values of their own. */
static void read_shared_caches(key_reader *reader, zt_hyper *hyper)
{
    int64_t shared = 0;
    if (!zt_hyper_i64(reader, "attention.shared_kv_layers", &shared)) {
        if (reader->arch->needs_shared) zt_hyper_missing(reader);
        return;
    }
    if (shared > 0 && reader->arch->parts & ZT_PART_LATENT) refuse_feature(reader, "shared caches");
    require_rule(reader, shared >= 0 && shared < hyper->n_layers, "attention.shared_kv_layers is not below block_count", shared,
                 hyper->n_layers);
    if (reader->status != ZT_OK) return;
    for (int64_t layer = hyper->n_layers - shared; layer < hyper->n_layers && reader->status == ZT_OK; layer++) {
        int64_t source = last_alike(hyper, layer, hyper->n_layers - shared);
        require_rule(reader, source >= 0, "attention.shared_kv_layers leaves no cache for a layer", shared, layer);
        if (reader->status != ZT_OK) return;
        zt_layer_sizes *sizes = &hyper->layer[layer], *owner = &hyper->layer[source];
        require_rule(reader, sizes->n_kv_heads == owner->n_kv_heads,
                     "a layer reads the cache of one with another number of key heads", sizes->n_kv_heads, owner->n_kv_heads);
        sizes->cache = source;
    }
}

/* 0 means "not set" for all of these, as in llama.cpp; only logit_scale must be present where it is used. */
static void read_scales(key_reader *reader, zt_hyper *hyper)
{
    double scale = get_real(reader, "attention.scale", 0, 0);
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        zt_layer_sizes *sizes = &hyper->layer[layer];
        int64_t per_head = hyper->n_layers == reader->arch->width_scaled_layers ? hyper->width / sizes->n_heads : sizes->head;
        sizes->attn_scale = scale > 0                      ? scale
                            : reader->arch->attn_scale > 0 ? reader->arch->attn_scale
                                                           : 1.0 / sqrt(per_head > 0 ? (double)per_head : 1);
    }
    hyper->attn_cap = get_real(reader, "attn_logit_softcapping", reader->arch->attn_cap, 0);
    hyper->final_cap = get_real(reader, "final_logit_softcapping", reader->arch->final_cap, 0);
    scale = get_real(reader, "embedding_scale", 0, 0);
    double usual = reader->arch->embed_scale ? sqrt((double)hyper->width) : 1;
    hyper->embed_scale = scale > 0 ? scale : reader->arch->embed_factor > 0 ? reader->arch->embed_factor : usual;
    scale = get_real(reader, "residual_scale", 0, 0);
    usual = reader->arch->residual_factor > 0 ? reader->arch->residual_factor / sqrt((double)hyper->n_layers) : 1;
    hyper->residual_scale = scale > 0 ? scale : usual;
    hyper->logit_scale = reader->arch->logit_width > 0 ? reader->arch->logit_width / (double)hyper->width : 1;
    if (!reader->arch->divides_logits && !reader->arch->multiplies_logits) return;
    scale = get_real(reader, "logit_scale", reader->arch->logits_may ? 0 : NAN, 0);
    if (scale > 0) hyper->logit_scale = reader->arch->divides_logits ? 1 / scale : scale;
}

/* ---- rope ----------------------------------------------------------------------------------- */

static bool is_word(zt_bytes text, const char *word) { return text.n == strlen(word) && memcmp(text.data, word, text.n) == 0; }

/* Index of the rope pair that makes `turns` full rotations over the original context. */
static double rotation_pair(const zt_hyper *hyper, double turns)
{
    return (double)hyper->rope_dims * zt_rounded_log((double)hyper->ctx_orig / (turns * 2 * M_PI)) /
           (2 * zt_rounded_log(hyper->rope.theta));
}

static double yarn_amplitude(double factor, double by) { return factor > 1 ? 0.1 * by * zt_rounded_log(factor) + 1 : 1; }

/* YaRN (Peng et al., 2023): pairs that rotate fast keep their angles, slow ones are scaled. The factor that llama.cpp's
 * rope_yarn multiplies by and its context divides by again is left out. */
static void read_yarn(key_reader *reader, zt_hyper *hyper)
{
    double factor = 1 / hyper->rope.scale;
    double fast = get_real(reader, "rope.scaling.yarn_beta_fast", 32, 1e-6);
    double slow = get_real(reader, "rope.scaling.yarn_beta_slow", 1, 1e-6);
    double extrapolation = get_real(reader, "rope.scaling.yarn_ext_factor", -1, -1);
    double log_multiplier = get_real(reader, "rope.scaling.yarn_log_multiplier", 0, 0);
    double all_dims = reader->arch->yarn_all_dims ? 10 * log_multiplier : 0;
    int64_t truncate = !reader->arch->yarn_exact;
    zt_hyper_flag(reader, "rope.scaling.yarn_truncate", &truncate);
    hyper->yarn_exact = !truncate;
    hyper->rope.extend = extrapolation < 0 ? 1 : extrapolation;
    if (hyper->rope.extend == 0) return;
    require_rule(reader, hyper->rope.theta > 1, "rope.freq_base is not greater than 1", (int64_t)hyper->rope.theta, 1);
    if (reader->status != ZT_OK) return;
    double low = rotation_pair(hyper, fast), high = rotation_pair(hyper, slow);
    hyper->rope.low = fmax(hyper->yarn_exact ? low : floor(low), 0);
    hyper->rope.high = fmin(hyper->yarn_exact ? high : ceil(high), (double)(hyper->rope_dims - 1));
    double given = get_real(reader, "rope.scaling.yarn_attn_factor", 0, 0); /* the whole of it */
    if (all_dims > 0) {
        double grown = yarn_amplitude(factor, all_dims);
        for (int64_t layer = 0; layer < hyper->n_layers; layer++) hyper->layer[layer].attn_scale *= grown * grown;
        hyper->rope.amplitude *= given > 0 ? given : 1; /* mscale is mscale_all_dim, unless it is said */
        return;
    }
    hyper->rope.amplitude *=
        given > 0 ? given : yarn_amplitude(factor, 1) / (log_multiplier > 0 ? yarn_amplitude(factor, log_multiplier) : 1);
}

static void read_scaling(key_reader *reader, zt_hyper *hyper)
{
    zt_bytes type = {"linear", 6};
    zt_hyper_str(reader, "rope.scaling.type", &type);
    hyper->rope.amplitude = get_real(reader, "rope.scaling.attn_factor", 1, 0);
    /* linear scaling under its two names; 0 or absent: none, as llama.cpp has it */
    double factor = get_real(reader, "rope.scale_linear", 0, 0);
    factor = get_real(reader, "rope.scaling.factor", factor, 0);
    hyper->rope.scale = factor > 0 && !is_word(type, "none") ? 1 / factor : 1;
    if (is_word(type, "yarn"))
        read_yarn(reader, hyper);
    else if (!is_word(type, "none") && !is_word(type, "linear") && !is_word(type, "longrope"))
        refuse_feature(reader, "rope scaling other than linear, yarn and longrope");
}

/* Length of a head in layers with a window, or without; where there are none, the largest. */
static int64_t head_of(const zt_hyper *hyper, bool local)
{
    for (int64_t layer = 0; layer < hyper->n_layers; layer++)
        if (hyper->local[layer] == local) return hyper->layer[layer].head;
    return hyper->head;
}

/* Columns of a head that rotate. */
static int64_t get_rotated(key_reader *reader, const char *suffix, int64_t otherwise, int64_t head)
{
    char rule[128];
    int64_t dims = get_count(reader, suffix, otherwise, MAX_WIDTH);
    snprintf(rule, sizeof rule, "%s is odd or more than the head length", suffix);
    if (reader->arch->rope_pair) require_rule(reader, dims % 2 == 0 && dims <= head, rule, dims, head);
    return dims;
}

static void read_rope(key_reader *reader, zt_hyper *hyper)
{
    hyper->ctx_orig = hyper->ctx_train;
    if (!zt_arch_may_attend(reader->arch)) return;
    hyper->ctx_orig = get_count(reader, "rope.scaling.original_context_length", hyper->ctx_train, INT32_MAX);
    hyper->rope = zt_rope_defaults();
    hyper->rope.head = head_of(hyper, false);
    hyper->rope_dims = get_rotated(reader, "rope.dimension_count", hyper->rope.head, hyper->rope.head);
    if (reader->arch->rope_pair == NULL) return;
    /* with chunks, all rotate where nothing has a window */
    int64_t period = reader->arch->chunked && hyper->window == 0 ? 0 : reader->arch->no_rope_every;
    read_pattern(reader, "rope.layer_pattern", period, false, hyper->n_layers, hyper->rotated);
    int64_t on = 1;
    if (reader->arch->rope_switch && zt_hyper_flag(reader, "rope.scaling.finetuned", &on) && !on)
        memset(hyper->rotated, 0, sizeof hyper->rotated);
    hyper->rope_half = hyper->rope_dims / 2;
    hyper->rope.dims = hyper->rope_dims;
    if (reader->arch->parts & ZT_PART_LATENT) hyper->rope.head = hyper->rope_dims; /* which is apart from the rest */
    snprintf(hyper->rope.pair.s, sizeof hyper->rope.pair.s, "%s", reader->arch->rope_pair);
    zt_hyper_read_pair(reader, hyper);
    hyper->rope.theta = get_real(reader, "rope.freq_base", 1e4, 1e-3);
    read_scaling(reader, hyper);
}

/* What layers with a window turn by. */
static void read_local_rope(key_reader *reader, zt_hyper *hyper)
{
    hyper->local_rope = hyper->rope;
    if (!has_windows(reader, hyper)) return;
    double theta = reader->arch->local_theta > 0 ? reader->arch->local_theta : hyper->rope.theta;
    int64_t dims = hyper->rope.dims;
    if (reader->arch->local_plain) {
        zt_rope_attrs plain = zt_rope_defaults();
        plain.pair = hyper->rope.pair;
        hyper->local_rope = plain;
    }
    hyper->local_rope.theta = get_real(reader, "rope.freq_base_swa", theta, 1e-3);
    hyper->local_rope.head = head_of(hyper, true);
    hyper->local_rope.dims =
        get_rotated(reader, "rope.dimension_count_swa", dims > 0 ? dims : hyper->rope_dims, hyper->local_rope.head);
    for (int64_t layer = 0; layer < hyper->n_layers && reader->arch->rotates_local; layer++)
        hyper->rotated[layer] = hyper->rotated[layer] && hyper->local[layer];
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* A file may declare an encoder causal; no known model does, so that is refused. */
static void read_encoder(key_reader *reader, zt_hyper *hyper)
{
    int64_t causal = 0, index = zt_gguf_find(reader->gguf, "token_types.weight");
    zt_type type;
    if (reader->arch->encoder && zt_hyper_flag(reader, "attention.causal", &causal) && causal)
        refuse_feature(reader, "causal attention");
    if (!(reader->arch->parts & (ZT_PART_TYPES | ZT_PART_TYPES_MAY))) return;
    if (index >= 0) zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    hyper->n_types = index >= 0 && type.rank == 2 ? type.dim[0] : 1;
    snprintf(reader->key, sizeof reader->key, "tokenizer.ggml.token_type_count");
    if (zt_hyper_key_i64(reader, &hyper->n_types))
        require_rule(reader, hyper->n_types >= 1, "tokenizer.ggml.token_type_count is below 1", hyper->n_types, 1);
}

enum { RANKED = 4 };

/* GGUF's numbers: 0 none, 1 mean, 2 CLS, 3 last, 4 rank (a classifier on top). */
static void read_pooling(key_reader *reader, zt_hyper *hyper)
{
    static const zt_pooling known[] = {ZT_POOL_MEAN, ZT_POOL_MEAN, ZT_POOL_FIRST, ZT_POOL_LAST};
    int64_t type = 0, known_count = sizeof known / sizeof *known;
    hyper->pooling = ZT_POOL_MEAN;
    if (!zt_hyper_i64(reader, "pooling_type", &type)) return;
    if (type >= 0 && type < known_count)
        hyper->pooling = known[type];
    else if (type != RANKED)
        refuse_feature(reader, "a pooling_type other than none, mean, CLS, last and rank");
}

/* The embedding's rows are the vocabulary's size, and the tokenizer must agree: otherwise an id that only one of them
 * knows would turn up in the middle of a text. */
static void read_vocab(key_reader *reader, zt_hyper *hyper)
{
    zt_type type;
    zt_gguf_kind kind;
    int64_t tokens, index = zt_gguf_find(reader->gguf, "token_embd.weight");
    if (reader->status != ZT_OK) return;
    if (index >= 0) zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    /* 0 where there is none: zt_weights_check tells what is wrong */
    hyper->vocab = index >= 0 && type.rank == 2 ? type.dim[0] : 0;
    if (index >= 0 && type.rank == 2 && hyper->vocab < 1)
        require_rule(reader, false, "tensor 'token_embd.weight' has no rows", hyper->vocab, 1);
    else if (hyper->vocab > INT32_MAX)
        require_rule(reader, false, "too many tokens", hyper->vocab, INT32_MAX);
    else if (hyper->vocab > 0 && zt_gguf_array(reader->gguf, "tokenizer.ggml.tokens", &kind, &tokens))
        require_rule(reader, tokens == hyper->vocab, "the vocabulary and the embedding differ in size", tokens, hyper->vocab);
}

/* Is there a tensor of this name, of so many rows (0: any)? */
static bool has_matrix(const key_reader *reader, const char *name, int64_t rows)
{
    zt_type type;
    char whole[2 * ZT_WEIGHT_NAME];
    bool prefixed = reader->arch->prefix && strncmp(name, "blk.", 4) == 0;
    snprintf(whole, sizeof whole, "%s%s", prefixed ? reader->arch->prefix : "", name);
    int64_t index = zt_gguf_find(reader->gguf, whole);
    if (index < 0) return false;
    zt_gguf_tensor(reader->gguf, index, &type, NULL, NULL);
    return rows == 0 || (type.rank == 2 && type.dim[0] == rows);
}

/* ---- layout --------------------------------------------------------------------------------- */

/* Has the first layer with attention a tensor of this weight? */
static bool attention_has(const key_reader *reader, const zt_hyper *hyper, zt_weight weight)
{
    char name[ZT_WEIGHT_NAME];
    int64_t layer = 0;
    while (layer < hyper->n_layers - 1 && !zt_layer_attends(hyper->layer[layer].kind)) layer++;
    return has_matrix(reader, zt_weight_name(weight, layer, name), 0);
}

/* A file may hold q, k, v (and gate, up) as one matrix or as several; the tensors of the first layer decide. If it has
 * neither form, the architecture's own form is reported as missing later. */
static void read_layout(key_reader *reader, zt_hyper *hyper)
{
    const uint64_t gates = ZT_PART_GATE | ZT_PART_FUSED_UP;
    hyper->parts = reader->arch->parts;
    if (!has_matrix(reader, "blk.0.attn_norm_2.weight", 0)) hyper->parts &= ~(uint64_t)ZT_PART_NORM_2;
    if (!attention_has(reader, hyper, ZT_W_Q_NORMS)) hyper->parts &= ~ZT_PART_HEAD_NORMS;
    bool fused = attention_has(reader, hyper, ZT_W_QKV), latent = hyper->parts & ZT_PART_LATENT;
    if (latent) hyper->parts |= hyper->latent.q_rank > 0 ? ZT_PART_Q_RANK : ZT_PART_Q_WHOLE;
    if (latent) hyper->parts |= has_key(reader, "attention.key_length_mla") ? ZT_PART_SPLIT_B : ZT_PART_WHOLE_B;
    if (!latent && fused != attention_has(reader, hyper, ZT_W_Q))
        hyper->parts = (hyper->parts & ~(uint64_t)(ZT_PART_QKV | ZT_PART_FUSED_QKV)) | (fused ? ZT_PART_FUSED_QKV : ZT_PART_QKV);
    if (!(hyper->parts & gates)) return;
    hyper->parts &= ~(gates | ZT_PART_UP);
    bool separate = has_matrix(reader, "blk.0.ffn_gate.weight", 0);
    if (!separate && reader->arch->ungated_act) {
        hyper->parts |= ZT_PART_UP;
        hyper->act = reader->arch->ungated_act;
        return;
    }
    fused = !separate &&
            (has_matrix(reader, "blk.0.ffn_up.weight", hyper->layer[0].up_width) || reader->arch->parts & ZT_PART_FUSED_UP);
    hyper->parts |= fused ? ZT_PART_FUSED_UP : ZT_PART_GATE | ZT_PART_UP;
}

/* Whether attention and feed-forward read the same. Without any norm of the feed-forward it may be missing, but not in one
 * layer alone. */
static void read_residual(key_reader *reader, zt_hyper *hyper)
{
    int64_t parallel = 0;
    char name[ZT_WEIGHT_NAME];
    hyper->parallel = reader->arch->residual == ZT_RESIDUAL_PARALLEL;
    if (reader->arch->residual == ZT_RESIDUAL_BY_KEY) {
        if (!zt_hyper_flag(reader, "use_parallel_residual", &parallel) && reader->status == ZT_OK)
            reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: key '%s' is missing or not true or false",
                                     zt_gguf_name(reader->gguf), reader->key);
        hyper->parallel = parallel != 0;
    }
    if (reader->arch->residual != ZT_RESIDUAL_BY_NORM) return;
    hyper->parallel = true;
    for (int64_t layer = 0; layer < hyper->n_layers && hyper->parallel && reader->status == ZT_OK; layer++)
        hyper->parallel = !has_matrix(reader, zt_weight_name(ZT_W_FF_NORM, layer, name), 0);
    if (hyper->parallel) hyper->parts &= ~(uint64_t)ZT_PART_FF_NORM;
}

/* ---- experts -------------------------------------------------------------------------------- */

enum { MAX_EXPERTS = 1 << 16 };

/* GGUF's numbers: 0 not said, 1 softmax, 2 sigmoid, 3 softmax of the chosen; 4 is of architectures that are not in the table. */
static void read_gating(key_reader *reader, zt_hyper *hyper)
{
    static const zt_gating known[] = {ZT_GATING_SOFTMAX, ZT_GATING_SOFTMAX, ZT_GATING_SIGMOID, ZT_GATING_SOFTMAX_CHOSEN};
    int64_t gating = 0, normed = 0;
    bool biased = hyper->parts & ZT_PART_CHOICE_BIAS;
    hyper->gating = reader->arch->bias_or_softmax && !biased ? ZT_GATING_SOFTMAX : reader->arch->gating;
    if (zt_hyper_i64(reader, "expert_gating_func", &gating) && gating != 0) {
        if (gating < 0 || gating >= (int64_t)(sizeof known / sizeof *known))
            refuse_feature(reader, "an expert_gating_func other than softmax, sigmoid and softmax of the chosen");
        else
            hyper->gating = known[gating];
    }
    hyper->normed_experts = reader->arch->normed_experts;
    if (zt_hyper_flag(reader, "expert_weights_norm", &normed)) hyper->normed_experts = normed != 0;
    double scale = get_real(reader, "expert_weights_scale", 0, 0);
    hyper->expert_scale = scale > 0 ? scale : 1; /* 0: not set, as in llama.cpp */
}

/* Experts in groups, of which a token takes those whose two best experts score highest together. */
static void read_groups(key_reader *reader, zt_hyper *hyper)
{
    hyper->expert_groups = get_count(reader, "expert_group_count", 1, MAX_EXPERTS);
    hyper->groups_used = get_count(reader, "expert_group_used_count", hyper->expert_groups, MAX_EXPERTS);
    require_rule(reader, hyper->groups_used <= hyper->expert_groups, "expert_group_used_count is more than expert_group_count",
                 hyper->groups_used, hyper->expert_groups);
    require_rule(reader, hyper->n_experts % hyper->expert_groups == 0, "expert_group_count does not divide expert_count",
                 hyper->expert_groups, hyper->n_experts);
    if (hyper->expert_groups == 1) return;
    int64_t each = hyper->n_experts / hyper->expert_groups;
    require_rule(reader, each >= 2, "groups of experts have fewer than two", each, 2);
    require_rule(reader, each * hyper->groups_used >= hyper->experts_used,
                 "expert_used_count is more than the experts of the groups that are used", hyper->experts_used,
                 each * hyper->groups_used);
}

static void read_expert_lengths(key_reader *reader, zt_hyper *hyper)
{
    int64_t share = hyper->ff / hyper->experts_used, shared_count = 0, shared_length = hyper->ff;
    hyper->expert_ff = get_count(reader, "expert_feed_forward_length",
                                 reader->arch->expert_ff_alike ? hyper->ff
                                 : share > 0                   ? share
                                                               : 1,
                                 MAX_WIDTH);
    hyper->expert_up_width = 2 * hyper->expert_ff;
    hyper->expert_width = get_count(reader, "moe_latent_size", hyper->width, MAX_WIDTH);
    if (has_key(reader, "moe_latent_size")) hyper->parts |= ZT_PART_NARROW_EXPERTS;
    if (!reader->arch->ungated_experts) hyper->parts |= ZT_PART_EXPERT_GATES;
    hyper->shared_ff = hyper->expert_ff;
    if (!(hyper->parts & ZT_PART_SHARED) || reader->arch->shared_alike) return;
    bool counted = zt_hyper_i64(reader, "expert_shared_count", &shared_count);
    bool measured = zt_hyper_i64(reader, "expert_shared_feed_forward_length", &shared_length);
    require_rule(reader, shared_count >= 0 && shared_count <= MAX_EXPERTS, "expert_shared_count is not a count of experts",
                 shared_count, MAX_EXPERTS);
    require_rule(reader, shared_length >= 0 && shared_length <= MAX_WIDTH, "expert_shared_feed_forward_length is not a length",
                 shared_length, MAX_WIDTH);
    if (reader->status != ZT_OK) return;
    if (measured && reader->arch->shared_measured) counted = false;
    hyper->shared_ff = counted ? shared_count * hyper->expert_ff : shared_length;
    if (hyper->shared_ff == 0 || (!counted && !measured && !(hyper->parts & ZT_PART_SHARED_GATE)))
        hyper->parts &= ~(uint64_t)(ZT_PART_SHARED | ZT_PART_SHARED_GATE);
}

/* Layers from leading_dense_block_count on, the last of every interleave_moe_layer_step of them all; but not those that
 * have the matrices of a layer without experts. */
static void read_sparse_layers(key_reader *reader, zt_hyper *hyper)
{
    int64_t leading = 0, step = get_count(reader, "interleave_moe_layer_step", 1, ZT_MAX_LAYERS);
    char name[ZT_WEIGHT_NAME];
    zt_hyper_i64(reader, "leading_dense_block_count", &leading);
    require_rule(reader, leading >= 0 && leading <= hyper->n_layers, "leading_dense_block_count is not a number of layers",
                 leading, hyper->n_layers);
    for (int64_t layer = 0; layer < hyper->n_layers && reader->status == ZT_OK; layer++) {
        hyper->fused_experts |= has_matrix(reader, zt_weight_name(ZT_W_GATE_UP_EXPERTS, layer, name), 0);
        bool beside = hyper->parts & ZT_PART_BESIDE;
        if (reader->arch->sole_feed_forward && hyper->layer[layer].kind != ZT_LAYER_FEED_FORWARD) continue;
        hyper->sparse[layer] = layer >= leading && (layer + 1) % step == 0 &&
                               (beside || !has_matrix(reader, zt_weight_name(ZT_W_DOWN, layer, name), 0));
    }
}

enum { GATING_SIGMOID = 2 };

/* A bias on the choice may be missing in all layers, unless scores are said to be those that have one. */
static void read_choice_bias(key_reader *reader, zt_hyper *hyper)
{
    int64_t gating = 0;
    char name[ZT_WEIGHT_NAME];
    zt_hyper_i64(reader, "expert_gating_func", &gating);
    if (!reader->arch->bias_or_softmax || gating == GATING_SIGMOID) return;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++)
        if (has_matrix(reader, zt_weight_name(ZT_W_CHOICE_BIAS, layer, name), 0)) return;
    hyper->parts &= ~(uint64_t)ZT_PART_CHOICE_BIAS;
}

static void read_experts(key_reader *reader, zt_hyper *hyper)
{
    int64_t count = 0;
    const uint64_t all =
        ZT_PART_EXPERTS | ZT_PART_EXPERTS_MAY | ZT_PART_CHOICE_BIAS | ZT_PART_SHARED | ZT_PART_SHARED_GATE | ZT_PART_BESIDE;
    bool said = zt_hyper_i64(reader, "expert_count", &count) && count != 0;
    if (said && !(hyper->parts & all)) refuse_feature(reader, "a mixture of experts");
    if (!said && !(hyper->parts & ZT_PART_EXPERTS)) {
        hyper->parts &= ~all;
        return;
    }
    hyper->parts |= ZT_PART_EXPERTS;
    hyper->n_experts = get_count(reader, "expert_count", 0, MAX_EXPERTS);
    hyper->experts_used = get_count(reader, "expert_used_count", 0, MAX_EXPERTS);
    require_rule(reader, hyper->experts_used <= hyper->n_experts, "expert_used_count is more than expert_count",
                 hyper->experts_used, hyper->n_experts);
    read_groups(reader, hyper);
    read_expert_lengths(reader, hyper);
    read_sparse_layers(reader, hyper);
    read_choice_bias(reader, hyper);
    read_gating(reader, hyper);
    if (hyper->gating == ZT_GATING_SPARSEMIXER)
        require_rule(reader, hyper->experts_used == 2, "expert_used_count is not 2", hyper->experts_used, 2);
}

/* A number for each layer: the key, without the architecture's name, holds one or a list. */
static void get_layer_reals(key_reader *reader, const char *key, int64_t n_layers, double out[ZT_MAX_LAYERS])
{
    int64_t entry_count = 0;
    zt_gguf_kind kind;
    double value = NAN;
    bool listed = zt_gguf_array(reader->gguf, key, &kind, &entry_count);
    bool good = listed ? entry_count == n_layers && zt_gguf_array_f64(reader->gguf, key, out, n_layers)
                       : zt_gguf_f64(reader->gguf, key, &value);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        if (!listed || !good) out[layer] = value;
        good = good && isfinite(out[layer]);
    }
    if (!good && reader->status == ZT_OK)
        reader->status =
            zt_fail(reader->ctx, ZT_EDATA, "%s: key '%s' is missing or not %" PRId64 " finite numbers, one for each layer",
                    zt_gguf_name(reader->gguf), key, n_layers);
}

static void read_xielu(key_reader *reader, zt_hyper *hyper)
{
    static const char *const keys[] = {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"};
    double number[4][ZT_MAX_LAYERS];
    if (!reader->arch->xielu) return;
    for (int i = 0; i < 4; i++) get_layer_reals(reader, keys[i], hyper->n_layers, number[i]);
    for (int64_t layer = 0; layer < hyper->n_layers; layer++)
        hyper->xielu[layer] = (zt_xielu){number[0][layer], number[1][layer], number[2][layer], number[3][layer]};
}

static void read_act(key_reader *reader, zt_hyper *hyper)
{
    zt_bytes name;
    hyper->act = reader->arch->act;
    if (!reader->arch->act_named || !zt_hyper_str(reader, "hidden_activation", &name)) return;
    hyper->act = zt_act_of(name);
    if (!hyper->act) refuse_feature(reader, "a hidden_activation other than gelu, gelu_pytorch_tanh, gelu_new and silu");
}

zt_status zt_hyper_read(const zt_gguf *gguf, zt_hyper *hyper)
{
    memset(hyper, 0, sizeof *hyper);
    hyper->one = 1;
    hyper->arch = zt_arch_of(gguf);
    if (!hyper->arch) return zt_ctx_status(zt_gguf_ctx(gguf));
    if (zt_gguf_n_tensors(gguf) == 0)
        return zt_fail(zt_gguf_ctx(gguf), ZT_EDATA, "%s: has a vocabulary but no tensors", zt_gguf_name(gguf));
    key_reader reader = {.ctx = zt_gguf_ctx(gguf), .gguf = gguf, .arch = hyper->arch};
    read_sizes(&reader, hyper);
    read_windows(&reader, hyper);
    read_layer_sizes(&reader, hyper);
    zt_hyper_read_recurrent(&reader, hyper);
    read_shared_caches(&reader, hyper);
    read_scales(&reader, hyper);
    read_rope(&reader, hyper);
    read_local_rope(&reader, hyper);
    zt_hyper_read_biases(&reader, hyper);
    read_encoder(&reader, hyper);
    read_pooling(&reader, hyper);
    read_act(&reader, hyper);
    read_xielu(&reader, hyper);
    read_layout(&reader, hyper);
    zt_hyper_read_time_parts(&reader, hyper);
    zt_hyper_read_classifier(&reader, hyper);
    read_residual(&reader, hyper);
    zt_hyper_read_streams(&reader, hyper);
    read_experts(&reader, hyper);
    zt_hyper_read_queries(&reader, hyper);
    read_vocab(&reader, hyper);
    return reader.status;
}
