/* hf_rope.c - owns rope: config.json's parameters, in their old and new dress, as keys and tensors.
 *
 * Old: "rope_theta" beside "rope_scaling" {"type" or "rope_type", ...}. New (transformers 5):
 * "rope_parameters" with both in it, or one such object for each type of layer. Facts:
 * convert_hf_to_gguf.py (conversion/base.py, llama.py, phi.py) and transformers'
 * modeling_rope_utils.py.
 */
#include "lib/llm/hf/hf.h"

#include <math.h>
#include <string.h>

enum { MAX_PAIRS = 1 << 15 }; /* rotations of a head: factors are made for each */

typedef struct rope {
    hf *m;
    const json_t *global, *local; /* objects or NULL */
    const char *type;             /* "default" where none is given */
    int64_t head, dims;           /* elements of a head, and those that turn */
} rope;

static bool is_type(const rope *r, const char *words)
{
    size_t n = strlen(r->type);
    const char *at = strstr(words, r->type);
    return n && at && (at == words || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ');
}

/* A number of rope's own object, or else of config.json. */
static zt_status get(const rope *r, const char *name, double *out)
{
    const json_t *v = json_object_get(r->global, name);
    if (v && !json_is_null(v))
        return zt_hf_number(r->m, v, name, out);
    return zt_hf_real(r->m, name, out);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static zt_status read_dims(rope *r)
{
    hf *m = r->m;
    double width = 0, heads = 0, head = 0, part = 1;
    zt_status s = zt_hf_value(m, "embedding_length", &width);
    if (s == ZT_OK)
        s = zt_hf_value(m, "attention.head_count", &heads);
    if (s == ZT_OK)
        s = zt_hf_value(m, "attention.key_length", &head);
    if (s == ZT_OK && m->arch.id == HF_PHI3)
        s = get(r, "partial_rotary_factor", &part);
    if (s == ZT_OK && !(part > 0 && part <= 1))
        s = zt_fail(m->ctx, ZT_EDATA, "%sconfig.json: partial_rotary_factor is %g, not from 0 to 1",
                    m->folder.data, part);
    r->head = head > 0 ? (int64_t)head : heads > 0 ? (int64_t)width / (int64_t)heads : 0;
    r->dims = (int64_t)(part * (double)r->head);
    return s;
}

static zt_status put_dims(const rope *r)
{
    if (!zt_hf_is(r->m, HF_PAIRED | HF_SET(HF_PHI3)) || r->dims == 0)
        return ZT_OK;
    return zt_hf_put_int(r->m, "rope.dimension_count", r->dims);
}

/* ---- the angle's base ------------------------------------------------------------------------ */

static zt_status put_theta(const rope *r)
{
    static const double usual[HF_COUNT] = {[HF_GEMMA3] = 1e6, [HF_SMOLLM3] = 2e6};
    hf *m = r->m;
    double theta = usual[m->arch.id] > 0 ? usual[m->arch.id] : 1e4, local = 1e4;
    const json_t *given = json_object_get(r->global, "rope_theta");
    zt_status s = given ? zt_hf_number(m, given, "rope_theta", &theta)
                        : zt_hf_real(m, "rope_theta|rotary_emb_base|global_rope_theta", &theta);
    /* learned positions have none, and of gemma2 the usual one goes without saying */
    bool said = !zt_hf_is(m, HF_SET(HF_GPT2) | HF_SET(HF_BERT)) &&
                !(m->arch.id == HF_GEMMA2 && theta == 1e4);
    if (s == ZT_OK && said)
        s = zt_hf_put_real(m, "rope.freq_base", theta);
    if (s != ZT_OK || m->arch.id != HF_GEMMA3)
        return s;
    given = json_object_get(r->local, "rope_theta");
    s = given ? zt_hf_number(m, given, "rope_theta", &local)
              : zt_hf_real(m, "rope_local_base_freq", &local);
    return s == ZT_OK ? zt_hf_put_real(m, "rope.freq_base_swa", local) : s;
}

/* ---- scaling --------------------------------------------------------------------------------- */

/* Positions of the model before it was stretched. */
static zt_status original_positions(const rope *r, double *out)
{
    zt_status s = zt_hf_value(r->m, "context_length", out);
    return s == ZT_OK ? get(r, "original_max_position_embeddings", out) : s;
}

/* YaRN's amplitude by which queries and keys grow; the reader of the keys has this one of its own.
 */
static double amplitude(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* What config.json wants of the amplitude: said as it is, or what only we know how to read from
 * config.json, over what the reader will take. */
static zt_status put_yarn_amplitude(const rope *r)
{
    double factor = 1, wanted = NAN, by = NAN, all = NAN;
    zt_status s = get(r, "factor", &factor);
    if (s == ZT_OK)
        s = zt_hf_number(r->m, json_object_get(r->global, "attention_factor"), "attention_factor",
                         &wanted);
    if (s == ZT_OK)
        s = zt_hf_number(r->m, json_object_get(r->global, "mscale"), "mscale", &by);
    if (s == ZT_OK)
        s = zt_hf_number(r->m, json_object_get(r->global, "mscale_all_dim"), "mscale_all_dim",
                         &all);
    if (s == ZT_OK && !isnan(wanted))
        return zt_hf_put_real(r->m, "rope.scaling.yarn_attn_factor", wanted);
    if (by > 0 && all > 0)
        wanted = amplitude(factor, by) / amplitude(factor, all);
    if (s != ZT_OK || isnan(wanted))
        return s;
    return zt_hf_put_real(r->m, "rope.scaling.attn_factor", wanted / amplitude(factor, 1));
}

static zt_status put_yarn(const rope *r)
{
    static const char *const names[][2] = {
        {"beta_fast", "rope.scaling.yarn_beta_fast"},
        {"beta_slow", "rope.scaling.yarn_beta_slow"},
        {"extrapolation_factor", "rope.scaling.yarn_ext_factor"}};
    double original = 0;
    zt_status s = original_positions(r, &original);
    if (s == ZT_OK && !(original >= 1 && original <= UINT32_MAX))
        s = zt_fail(r->m->ctx, ZT_EDATA, "%sconfig.json: yarn from %g positions", r->m->folder.data,
                    original);
    if (s == ZT_OK && json_is_false(json_object_get(r->global, "truncate")))
        s = zt_fail(r->m->ctx, ZT_ENOTSUP,
                    "%sconfig.json: yarn without 'truncate' is not supported", r->m->folder.data);
    if (s == ZT_OK)
        s = zt_hf_put_int(r->m, "rope.scaling.original_context_length", (int64_t)original);
    for (size_t i = 0; s == ZT_OK && i < sizeof names / sizeof *names; i++) {
        double v = NAN;
        s = zt_hf_number(r->m, json_object_get(r->global, names[i][0]), names[i][0], &v);
        if (s == ZT_OK && !isnan(v))
            s = zt_hf_put_real(r->m, names[i][1], v);
    }
    return s == ZT_OK ? put_yarn_amplitude(r) : s;
}

static zt_status add_factors(const rope *r, const char *name, const float *values, int64_t n)
{
    hf_tensor t = {.name = name, .source = -1, .from = ZT_F32, .values = values};
    t.type = zt_type_make(ZT_F32, 1, &n);
    return zt_hf_tensors_add(r->m->tensors, &t);
}

/* A list of one number for each rotation, as the tensor `name`. */
static zt_status add_list(const rope *r, const char *list, const char *name)
{
    const json_t *v = json_object_get(r->global, list);
    size_t n = json_array_size(v);
    if (n == 0 || n > MAX_PAIRS || (int64_t)n != r->dims / 2)
        return zt_fail(r->m->ctx, ZT_EDATA, "%sconfig.json: '%s' has %zu numbers, %lld expected",
                       r->m->folder.data, list, n, (long long)(r->dims / 2));
    float *f = zt_alloc_array(r->m->ctx, n, sizeof *f);
    zt_status s = f ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        double x = NAN;
        s = zt_hf_number(r->m, json_array_get(v, i), list, &x);
        f[i] = (float)x;
        if (s == ZT_OK && !(isfinite(f[i]) && f[i] > 0))
            s = zt_fail(r->m->ctx, ZT_EDATA, "%sconfig.json: '%s' has a number that is not above 0",
                        r->m->folder.data, list);
    }
    if (s == ZT_OK)
        s = add_factors(r, name, f, (int64_t)n);
    zt_free(r->m->ctx, f);
    return s;
}

static zt_status put_longrope(const rope *r)
{
    double original = 0, longest = 0, factor = NAN;
    zt_status s = original_positions(r, &original);
    if (s == ZT_OK)
        s = zt_hf_value(r->m, "context_length", &longest);
    if (s == ZT_OK)
        s = zt_hf_number(r->m, json_object_get(r->global, "attention_factor"), "attention_factor",
                         &factor);
    if (s == ZT_OK && !(original > 1 && original <= UINT32_MAX && longest >= 1))
        s = zt_fail(r->m->ctx, ZT_EDATA, "%sconfig.json: longrope from %g to %g positions",
                    r->m->folder.data, original, longest);
    if (s != ZT_OK)
        return s;
    double scale = longest / original;
    if (isnan(factor))
        factor = scale > 1 ? sqrt(1 + log(scale) / log(original)) : 1;
    zt_hf_put_int(r->m, "rope.scaling.original_context_length", (int64_t)original);
    zt_hf_put_real(r->m, "rope.scaling.attn_factor", factor);
    s = add_list(r, "long_factor", "rope_factors_long.weight");
    return s == ZT_OK ? add_list(r, "short_factor", "rope_factors_short.weight") : s;
}

float zt_hf_wave(double theta, int64_t i, int64_t dims)
{
    float angle = 1 / powf((float)theta, (float)(2 * i) / (float)dims);
    return (float)(2 * acos(-1.0)) / angle;
}

/* Llama 3's smooth way from unscaled (short waves) to scaled (long waves). In f32 as the converter
 * has it, down to the last bit. */
float zt_hf_llama3(float wave, double factor, double low, double high, double original)
{
    if (wave < (float)(original / high))
        return 1;
    if (wave > (float)(original / low))
        return (float)factor;
    float smooth = ((float)original / wave - (float)low) / (float)(high - low);
    return 1 / ((1 - smooth) / (float)factor + smooth);
}

static zt_status add_llama3(const rope *r)
{
    double factor = 8, low = 1, high = 4, original = 8192, theta = 1e4;
    zt_status s = get(r, "factor", &factor);
    if (s == ZT_OK)
        s = get(r, "low_freq_factor", &low);
    if (s == ZT_OK)
        s = get(r, "high_freq_factor", &high);
    if (s == ZT_OK)
        s = get(r, "original_max_position_embeddings", &original);
    if (s == ZT_OK)
        s = get(r, "rope_theta", &theta);
    int64_t n = r->dims / 2;
    if (s == ZT_OK && !(factor > 0 && low > 0 && high > low && original > 0 && theta > 0 && n > 0 &&
                        n <= MAX_PAIRS))
        s = zt_fail(r->m->ctx, ZT_EDATA,
                    "%sconfig.json: llama3 rope by %g from %g to %g of %g, theta %g, %lld pairs",
                    r->m->folder.data, factor, low, high, original, theta, (long long)n);
    float *f = s == ZT_OK ? zt_alloc_array(r->m->ctx, (size_t)n, sizeof *f) : NULL;
    if (!f)
        return s == ZT_OK ? ZT_ENOMEM : s;
    for (int64_t i = 0; i < n; i++) {
        f[i] = zt_hf_llama3(zt_hf_wave(theta, i, r->dims), factor, low, high, original);
    }
    s = add_factors(r, "rope_freqs.weight", f, n);
    zt_free(r->m->ctx, f);
    return s;
}

static zt_status put_scaling(const rope *r)
{
    double factor = NAN;
    if (is_type(r, "default none"))
        return ZT_OK;
    if (is_type(r, "llama3"))
        return add_llama3(r);
    if (is_type(r, "su longrope")) {
        /* of phi3 the two lists of factors say it */
        zt_status s = r->m->arch.id == HF_PHI3
                          ? ZT_OK
                          : zt_hf_put_text(r->m, "rope.scaling.type", "longrope");
        return s == ZT_OK ? put_longrope(r) : s;
    }
    /* whatever it is, the reader of the key knows it or refuses it by name */
    zt_hf_put_text(r->m, "rope.scaling.type", r->type);
    zt_status s = zt_hf_number(r->m, json_object_get(r->global, "factor"), "factor", &factor);
    if (s == ZT_OK && !isnan(factor))
        s = zt_hf_put_real(r->m, "rope.scaling.factor", factor);
    return s == ZT_OK && is_type(r, "yarn") ? put_yarn(r) : s;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_rope(hf *m)
{
    rope r = {.m = m};
    const json_t *p = zt_hf_get(m, "rope_parameters");
    if (!json_is_object(p))
        p = zt_hf_get(m, "rope_scaling");
    const json_t *full = json_object_get(p, "full_attention");
    r.global = json_is_object(full) ? full : p;
    r.local = json_object_get(p, "sliding_attention");
    const json_t *type = json_object_get(r.global, "rope_type");
    type = type ? type : json_object_get(r.global, "type");
    r.type = json_is_string(type) ? json_string_value(type) : "default";
    zt_status s = read_dims(&r);
    if (s == ZT_OK)
        s = put_dims(&r);
    if (s == ZT_OK)
        s = put_theta(&r);
    if (s == ZT_OK)
        s = put_scaling(&r);
    /* Phi-3 reads how long its unscaled context was in any case */
    double original = NAN;
    if (s == ZT_OK && m->arch.id == HF_PHI3 && !is_type(&r, "su longrope yarn"))
        s = get(&r, "original_max_position_embeddings", &original);
    if (s == ZT_OK && original >= 1 && original <= UINT32_MAX)
        s = zt_hf_put_int(m, "rope.scaling.original_context_length", (int64_t)original);
    return s;
}
