/* hf_back_rope.c - owns rope as config.json has it, from keys and from the tensors of factors: the
 * other way of hf_rope.c. */
#include "lib/llm/hf/hf_back.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_PAIRS = 1 << 15 };

static zt_status set_real(hf_back *b, json_t *object, const char *name, double v)
{
    return zt_back_set(b, object, name, zt_back_number(v));
}

/* object[name] = the key, where the file has it. */
static zt_status pass_real(hf_back *b, json_t *object, const char *name, const char *suffix)
{
    double v;
    return zt_back_real(b, suffix, &v) ? set_real(b, object, name, v) : ZT_OK;
}

/* ---- Llama 3's divisors ---------------------------------------------------------------------- */

typedef struct llama3 {
    double factor, low, high, original;
} llama3;

static float wave_of(const hf_back *b, int64_t i)
{
    return zt_hf_wave(b->h.rope.theta, i, b->h.rope_dims);
}

static bool gives(const hf_back *b, const llama3 *p, const float *divisor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float d = zt_hf_llama3(wave_of(b, i), p->factor, p->low, p->high, p->original);
        if (!(fabsf(d - divisor[i]) <= 1e-5f * divisor[i]))
            return false;
    }
    return true;
}

/* A bound between two waves: of numbers there, the one that reads best, a power of two. */
static double between(double a, double b)
{
    double p = exp2(ceil(log2(a)));
    return p <= b ? p : sqrt(a * b);
}

/* low is 1: only ratios matter. Between the bounds the share of the unscaled angle is a line over
 * 1/wave: two waves there give the line, one gives it with high = 4 low as Llama has it, and where
 * there is none the bounds only have to lie between the two kinds. */
static bool solve(const hf_back *b, const float *divisor, int64_t n, llama3 *p)
{
    double slope, at[2] = {0, 0}, share[2] = {0, 0}, short_wave = 1, long_wave = 0;
    int found = 0;
    *p = (llama3){1, 1, 4, 0};
    for (int64_t i = 0; i < n; i++)
        p->factor = fmax(p->factor, (double)divisor[i]);
    for (int64_t i = 0; i < n; i++) {
        double d = (double)divisor[i], wave = (double)wave_of(b, i);
        if (d <= 1) {
            short_wave = wave;
        } else if (d < p->factor) {
            at[found > 0] = 1 / wave;
            share[found > 0] = (1 / d - 1 / p->factor) / (1 - 1 / p->factor);
            found++;
        } else if (long_wave == 0) {
            long_wave = wave;
        }
    }
    if (found >= 2) {
        slope = (share[0] - share[1]) / (at[0] - at[1]);
        double base = slope * at[0] - share[0]; /* low / (high - low) */
        p->high = 1 + 1 / base;
        p->original = slope * (p->high - 1);
        if (fabs(p->high - rint(p->high)) < 1e-3)
            p->high = rint(p->high);
        if (fabs(p->original - rint(p->original)) < 1e-3 * p->original)
            p->original = rint(p->original);
    } else if (found == 1) {
        p->original = rint((share[0] * 3 + 1) / at[0]);
    } else if (long_wave > 0) {
        p->original = between(short_wave, long_wave);
        p->high = 1 + 1e-6;
    }
    return p->factor > 1 && gives(b, p, divisor, n);
}

static zt_status put_llama3(hf_back *b, json_t **scaling)
{
    float *f = zt_alloc_array(b->ctx, MAX_PAIRS, sizeof *f);
    int64_t n = f ? zt_back_values(b, "rope_freqs.weight", f, MAX_PAIRS) : 0;
    llama3 p;
    bool solved = n > 0 && solve(b, f, n, &p), plain = n > 0;
    for (int64_t i = 0; i < n; i++)
        plain = plain && f[i] == 1;
    zt_free(b->ctx, f);
    if (!f || plain)
        return f ? ZT_OK : ZT_ENOMEM;
    if (!solved)
        return zt_fail(b->ctx, ZT_ENOTSUP,
                       "%s: tensor 'rope_freqs.weight' is no scaling that transformers knows",
                       b->file);
    *scaling = json_pack("{ss}", "rope_type", "llama3");
    zt_status s = set_real(b, *scaling, "factor", p.factor);
    if (s == ZT_OK)
        s = set_real(b, *scaling, "low_freq_factor", p.low);
    if (s == ZT_OK)
        s = set_real(b, *scaling, "high_freq_factor", p.high);
    return s == ZT_OK ? zt_back_set(b, *scaling, "original_max_position_embeddings",
                                    json_integer((json_int_t)rint(p.original)))
                      : s;
}

/* ---- lists of factors ------------------------------------------------------------------------ */

static zt_status put_list(hf_back *b, json_t *scaling, const char *name, const char *tensor)
{
    float *f = zt_alloc_array(b->ctx, MAX_PAIRS, sizeof *f);
    int64_t n = f ? zt_back_values(b, tensor, f, MAX_PAIRS) : 0;
    json_t *list = f ? json_array() : NULL;
    for (int64_t i = 0; list && i < n; i++)
        json_array_append_new(list, zt_back_number((double)f[i]));
    zt_free(b->ctx, f);
    return zt_back_set(b, scaling, name, list);
}

/* The amplitude that follows from the lengths is not said. */
static zt_status put_longrope(hf_back *b, json_t **scaling)
{
    double said = 1, longest = (double)b->h.ctx_train, original = (double)b->h.ctx_orig;
    double usual = longest > original ? sqrt(1 + log(longest / original) / log(original)) : 1;
    *scaling = json_pack("{ss}", "rope_type", "longrope");
    zt_status s = put_list(b, *scaling, "long_factor", "rope_factors_long.weight");
    if (s == ZT_OK)
        s = put_list(b, *scaling, "short_factor", "rope_factors_short.weight");
    if (s == ZT_OK && zt_back_real(b, "rope.scaling.attn_factor", &said) &&
        (float)usual != (float)said)
        s = set_real(b, *scaling, "attention_factor", said);
    return s;
}

/* ---- keys alone ------------------------------------------------------------------------------ */

static zt_status put_yarn(hf_back *b, json_t *scaling)
{
    static const char *const pairs[][2] = {
        {"beta_fast", "rope.scaling.yarn_beta_fast"},
        {"beta_slow", "rope.scaling.yarn_beta_slow"},
        {"extrapolation_factor", "rope.scaling.yarn_ext_factor"},
        {"attention_factor", "rope.scaling.yarn_attn_factor"},
    };
    double factor = 1 / b->h.rope.scale, by, said;
    zt_status s =
        zt_back_set(b, scaling, "original_max_position_embeddings", json_integer(b->h.ctx_orig));
    for (size_t i = 0; s == ZT_OK && i < sizeof pairs / sizeof *pairs; i++)
        s = pass_real(b, scaling, pairs[i][0], pairs[i][1]);
    /* an amplitude that GGUF says in another way */
    bool other = (zt_back_real(b, "rope.scaling.yarn_log_multiplier", &by) && by > 0) ||
                 zt_back_real(b, "rope.scaling.attn_factor", &said);
    if (s == ZT_OK && other && factor > 0)
        s = set_real(b, scaling, "attention_factor", b->h.rope.amplitude);
    return s;
}

static bool type_is(zt_bytes type, const char *word)
{
    return type.n == strlen(word) && memcmp(type.data, word, type.n) == 0;
}

static zt_status put_scaled(hf_back *b, json_t **scaling)
{
    zt_bytes type = {"linear", 6};
    char key[128];
    zt_gguf_str(b->g, zt_back_key(b, "rope.scaling.type", key), &type);
    if (b->h.rope.scale == 1 || type_is(type, "none") || type_is(type, "longrope"))
        return ZT_OK;
    *scaling = json_object();
    zt_status s = zt_back_text(b, *scaling, "rope_type", type);
    if (s == ZT_OK)
        s = set_real(b, *scaling, "factor", 1 / b->h.rope.scale);
    return s == ZT_OK && type_is(type, "yarn") ? put_yarn(b, *scaling) : s;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Phi-3 says how many columns turn, and how long the context was, in any case. */
static zt_status put_phi3(hf_back *b)
{
    if (b->arch->id != HF_PHI3)
        return ZT_OK;
    zt_status s =
        set_real(b, b->config, "partial_rotary_factor", (double)b->h.rope_dims / (double)b->h.head);
    return s == ZT_OK ? zt_back_set(b, b->config, "original_max_position_embeddings",
                                    json_integer(b->h.ctx_orig))
                      : s;
}

zt_status zt_back_rope(hf_back *b)
{
    json_t *scaling = NULL;
    double local = 1e4;
    zt_status s = ZT_OK;
    if (!b->h.arch->rope_pair)
        return ZT_OK;
    if (zt_gguf_find(b->g, "rope_freqs.weight") >= 0)
        s = put_llama3(b, &scaling);
    else if (zt_gguf_find(b->g, "rope_factors_long.weight") >= 0)
        s = put_longrope(b, &scaling);
    else
        s = put_scaled(b, &scaling);
    if (s == ZT_OK)
        s = set_real(b, b->config, "rope_theta", b->h.rope.theta);
    if (s == ZT_OK && b->arch->id == HF_GEMMA3) {
        zt_back_real(b, "rope.freq_base_swa", &local);
        s = set_real(b, b->config, "rope_local_base_freq", local);
    }
    if (s == ZT_OK)
        s = zt_back_set(b, b->config, "rope_scaling", scaling ? json_incref(scaling) : json_null());
    json_decref(scaling);
    return s == ZT_OK ? put_phi3(b) : s;
}
