/* merge_params.c - owns what a parameter is worth for a tensor: the nearest setting that has a
 * value for it, of the source, of the slice, of the recipe, else the method's default.
 */
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* GGUF's parts of names and those of Hugging Face's llama. */
static const struct {
    const char *gguf, *hf;
} parts[] = {{"token_embd.", "model.embed_tokens."},
             {"output_norm.", "model.norm."},
             {"output.", "lm_head."},
             {"attn_q.", "self_attn.q_proj."},
             {"attn_k.", "self_attn.k_proj."},
             {"attn_v.", "self_attn.v_proj."},
             {"attn_output.", "self_attn.o_proj."},
             {"attn_q_norm.", "self_attn.q_norm."},
             {"attn_k_norm.", "self_attn.k_norm."},
             {"attn_qkv.", "self_attn.qkv_proj."},
             {"attn_norm.", "input_layernorm."},
             {"post_attention_norm.", "post_attention_layernorm."},
             {"post_ffw_norm.", "post_feedforward_layernorm."},
             {"ffn_norm.", "post_attention_layernorm."},
             {"ffn_gate.", "mlp.gate_proj."},
             {"ffn_up.", "mlp.up_proj."},
             {"ffn_down.", "mlp.down_proj."}};

const char *zt_merge_hf_name(const char *name, char *buf, size_t n)
{
    size_t at, digits;
    int64_t layer = zt_merge_layer(name, &at, &digits);
    const char *rest = layer >= 0 && at == 4 ? name + at + digits + 1 : name;
    if (layer >= 0 && (at != 4 || strncmp(name, "blk.", 4))) return NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t k = strlen(parts[i].gguf);
        if (strncmp(rest, parts[i].gguf, k)) continue;
        if (layer >= 0)
            snprintf(buf, n, "model.layers.%lld.%s%s", (long long)layer, parts[i].hf, rest + k);
        else
            snprintf(buf, n, "%s%s", parts[i].hf, rest + k);
        return buf;
    }
    return NULL;
}

static bool matches(const char *filter, const char *name)
{
    char buf[256];
    const char *other;
    if (!filter || strstr(name, filter)) return true;
    other = zt_merge_hf_name(name, buf, sizeof buf);
    return other && strstr(other, filter);
}

/* ---- one parameter --------------------------------------------------------------------------- */

/* One value, or a list along the stack: between its numbers a line, of switches the one before. */
static double along(const merge_cond *c, merge_param p, double t)
{
    double at = t * (c->n - 1);
    int i = (int)at, next = i + 1 < c->n ? i + 1 : i;
    double frac = at - i;
    char kind = zt_merge_params[p].kind;
    if (kind == 'b' || kind == 'r' || frac == 0) return c->value[i];
    double v = (1 - frac) * c->value[i] + frac * c->value[next];
    return kind == 'i' ? (double)(int64_t)v : v;
}

static bool value_in(const merge_scope *scope, merge_param p, const char *name, double t,
                     double *out)
{
    for (int i = 0; i < scope->n; i++) {
        const merge_setting *set = &scope->set[i];
        for (int k = 0; set->param == p && k < set->n; k++) {
            const merge_cond *c = &set->cond[k];
            if (!matches(c->filter, name)) continue;
            if (c->n) *out = along(c, p, t);
            return c->n > 0; /* the first condition that holds, holds */
        }
    }
    return false;
}

/* Defaults; false: there is none. */
static bool otherwise(const merge_method *m, merge_param p, double *out)
{
    static const double defaults[MP_COUNT] = {
        [MP_DENSITY] = 1, [MP_GAMMA] = 0.01,    [MP_EPSILON] = 0.15, [MP_LAMBDA] = 1,
        [MP_TOL] = 1e-5,  [MP_SELECT_TOPK] = 1, [MP_MAX_ITER] = 10,  [MP_FLATTEN] = 1};
    *out = p == MP_NORMALIZE ? m->normalize : p == MP_RESCALE ? m->rescale : defaults[p];
    return p != MP_SCALE;
}

static zt_status find(const zt_recipe *r, const merge_slice *slice, const merge_source *source,
                      merge_param p, const char *name, double t, unsigned *has, double *out)
{
    char shown[160];
    bool there = (source && value_in(&source->scope, p, name, t, out)) ||
                 value_in(&slice->scope, p, name, t, out) || value_in(&r->scope, p, name, t, out);
    *has |= there ? MP_BIT(p) : 0;
    if (there) return ZT_OK;
    if (r->method->required & MP_BIT(p))
        return zt_fail(r->ctx, ZT_EDATA, "%s: %s needs the parameter '%s'%s%s for '%s'", r->name,
                       r->method->about.name, zt_merge_params[p].name, source ? " of " : "",
                       source ? r->model[source->model] : "",
                       zt_escape(shown, sizeof shown, name, strlen(name)));
    *has |= otherwise(r->method, p, out) ? MP_BIT(p) : 0;
    return ZT_OK;
}

/* What a value must be beside others. */
static zt_status check(const zt_recipe *r, const char *name, const double *v)
{
    double d = v[MP_DENSITY], e = v[MP_EPSILON];
    char shown[160];
    if (r->method->sparse == SPARSE_RANKED && d > 0 && d < 1 && (d + e >= 1 || d - e <= 0))
        return zt_fail(r->ctx, ZT_EDATA,
                       "%s: density %g and epsilon %g for '%s': their sum and difference must lie "
                       "between 0 and 1",
                       r->name, d, e, zt_escape(shown, sizeof shown, name, strlen(name)));
    return ZT_OK;
}

zt_status zt_merge_resolve(const zt_recipe *r, const merge_slice *slice, const char *name,
                           const char *const *source_name, double t, merge_values *out)
{
    const merge_method *m = r->method;
    zt_status s = ZT_OK;
    out->has = 0;
    for (int p = 0; p < MP_COUNT && s == ZT_OK; p++)
        if (m->shared & MP_BIT(p))
            s = find(r, slice, NULL, (merge_param)p, name, t, &out->has, &out->shared[p]);
    for (int k = 0; k < slice->n && s == ZT_OK; k++) {
        unsigned wanted = m->each | (k == slice->base ? 0 : m->others);
        out->has_each[k] = 0;
        for (int p = 0; p < MP_COUNT && s == ZT_OK; p++)
            if (wanted & MP_BIT(p))
                s = find(r, slice, &slice->source[k], (merge_param)p, source_name[k], t,
                         &out->has_each[k], &out->each[k][p]);
        if (s == ZT_OK && (m->others & MP_BIT(MP_EPSILON)) && k != slice->base)
            s = check(r, name, out->each[k]);
    }
    return s;
}
