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
} name_parts[] = {{"token_embd.", "model.embed_tokens."},
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

const char *zt_merge_hf_name(const char *name, char *buffer, size_t size)
{
    size_t digits_at, digits;
    int64_t layer = zt_merge_layer(name, &digits_at, &digits);
    const char *tail = layer >= 0 && digits_at == 4 ? name + digits_at + digits + 1 : name;
    if (layer >= 0 && (digits_at != 4 || strncmp(name, "blk.", 4))) return NULL;
    for (size_t i = 0; i < sizeof name_parts / sizeof *name_parts; i++) {
        size_t part_length = strlen(name_parts[i].gguf);
        if (strncmp(tail, name_parts[i].gguf, part_length)) continue;
        if (layer >= 0)
            snprintf(buffer, size, "model.layers.%lld.%s%s", (long long)layer, name_parts[i].hf, tail + part_length);
        else
            snprintf(buffer, size, "%s%s", name_parts[i].hf, tail + part_length);
        return buffer;
    }
    return NULL;
}

static bool filter_matches(const char *filter, const char *name)
{
    char buf[256];
    const char *other;
    if (!filter || strstr(name, filter)) return true;
    other = zt_merge_hf_name(name, buf, sizeof buf);
    return other && strstr(other, filter);
}

/* ---- one parameter --------------------------------------------------------------------------- */

/* One value, or a list along the stack: between its numbers a line, of switches the one before. */
static double value_along(const merge_cond *condition, merge_param param, double position)
{
    double list_position = position * (condition->count - 1);
    int i = (int)list_position, next = i + 1 < condition->count ? i + 1 : i;
    double frac = list_position - i;
    char kind = zt_merge_params[param].kind;
    if (kind == 'b' || kind == 'r' || frac == 0) return condition->values[i];
    double value = (1 - frac) * condition->values[i] + frac * condition->values[next];
    return kind == 'i' ? (double)(int64_t)value : value;
}

static bool find_in_scope(const merge_scope *scope, merge_param param, const char *name, double position, double *out)
{
    for (int i = 0; i < scope->count; i++) {
        const merge_setting *set = &scope->settings[i];
        for (int k = 0; set->param == param && k < set->count; k++) {
            const merge_cond *condition = &set->conditions[k];
            if (!filter_matches(condition->filter, name)) continue;
            if (condition->count) *out = value_along(condition, param, position);
            return condition->count > 0; /* the first condition that holds, holds */
        }
    }
    return false;
}

/* Defaults; false: there is none. */
static bool find_default(const merge_method *method, merge_param param, double *out)
{
    static const double defaults[MP_COUNT] = {[MP_DENSITY] = 1, [MP_GAMMA] = 0.01,    [MP_EPSILON] = 0.15, [MP_LAMBDA] = 1,
                                              [MP_TOL] = 1e-5,  [MP_SELECT_TOPK] = 1, [MP_MAX_ITER] = 10,  [MP_FLATTEN] = 1};
    *out = param == MP_NORMALIZE ? method->normalize : param == MP_RESCALE ? method->rescale : defaults[param];
    return param != MP_SCALE;
}

static zt_status find_param(const zt_recipe *recipe, const merge_slice *slice, const merge_source *source, merge_param param,
                            const char *name, double position, unsigned *set_params, double *out)
{
    char shown[160];
    bool there = (source && find_in_scope(&source->scope, param, name, position, out)) ||
                 find_in_scope(&slice->scope, param, name, position, out) ||
                 find_in_scope(&recipe->scope, param, name, position, out);
    *set_params |= there ? MP_BIT(param) : 0;
    if (there) return ZT_OK;
    if (recipe->method->required & MP_BIT(param))
        return zt_fail(recipe->ctx, ZT_EDATA, "%s: %s needs the parameter '%s'%s%s for '%s'", recipe->name,
                       recipe->method->info.name, zt_merge_params[param].name, source ? " of " : "",
                       source ? recipe->models[source->model] : "", zt_escape(shown, sizeof shown, name, strlen(name)));
    *set_params |= find_default(recipe->method, param, out) ? MP_BIT(param) : 0;
    return ZT_OK;
}

/* What a value must be beside others. */
static zt_status check_params(const zt_recipe *recipe, const char *name, const double *values)
{
    double density = values[MP_DENSITY], epsilon = values[MP_EPSILON];
    char shown[160];
    if (recipe->method->sparse == SPARSE_RANKED && density > 0 && density < 1 &&
        (density + epsilon >= 1 || density - epsilon <= 0))
        return zt_fail(recipe->ctx, ZT_EDATA,
                       "%s: density %g and epsilon %g for '%s': their sum and difference must lie "
                       "between 0 and 1",
                       recipe->name, density, epsilon, zt_escape(shown, sizeof shown, name, strlen(name)));
    return ZT_OK;
}

zt_status zt_merge_resolve(const zt_recipe *recipe, const merge_slice *slice, const char *name, const char *const *source_name,
                           double position, merge_values *out)
{
    const merge_method *method = recipe->method;
    zt_status status = ZT_OK;
    out->has_shared = 0;
    for (int param = 0; param < MP_COUNT && status == ZT_OK; param++)
        if (method->shared & MP_BIT(param))
            status = find_param(recipe, slice, NULL, (merge_param)param, name, position, &out->has_shared, &out->shared[param]);
    for (int k = 0; k < slice->source_count && status == ZT_OK; k++) {
        unsigned wanted = method->per_source | (k == slice->base_index ? 0 : method->per_other);
        out->has_each[k] = 0;
        for (int param = 0; param < MP_COUNT && status == ZT_OK; param++)
            if (wanted & MP_BIT(param))
                status = find_param(recipe, slice, &slice->sources[k], (merge_param)param, source_name[k], position,
                                    &out->has_each[k], &out->each[k][param]);
        if (status == ZT_OK && (method->per_other & MP_BIT(MP_EPSILON)) && k != slice->base_index)
            status = check_params(recipe, name, out->each[k]);
    }
    return status;
}
