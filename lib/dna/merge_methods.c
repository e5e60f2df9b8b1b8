/* merge_methods.c - owns the tables of methods and parameters, and the value of a parameter for a tensor: that of the nearest
 * setting, of the source, the slice or the recipe, else the method's default.
 *
 * Sources of the formulas: the papers named in the rows; where mergekit's documentation and code
 * (0.1.5, https://github.com/arcee-ai/mergekit) say what a paper leaves open (defaults, which
 * parameter holds for what, what is done at 0), they are followed, as facts. One difference: what
 * DARE and DELLA keep is scaled by 1 over the chance it had, as both papers have it; mergekit's
 * rule, the same L1 norm as before, is `rescale: true`.
 */
#include "lib/dna/merge_internal.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define ANY -DBL_MAX, DBL_MAX

const merge_param_info zt_merge_params[MP_COUNT] = {
    [MP_WEIGHT] = {"weight", 'f', ANY},
    [MP_DENSITY] = {"density", 'f', 0, 1},
    [MP_GAMMA] = {"gamma", 'f', 0, 1},
    [MP_EPSILON] = {"epsilon", 'f', 0, 1},
    [MP_T] = {"t", 'f', ANY},
    [MP_LAMBDA] = {"lambda", 'f', ANY},
    [MP_SCALE] = {"scale", 'f', ANY},
    [MP_TOL] = {"tol", 'f', 0, 1},
    [MP_SELECT_TOPK] = {"select_topk", 'f', 0, 1},
    [MP_MAX_ITER] = {"max_iter", 'i', 0, 100000},
    [MP_NORMALIZE] = {"normalize", 'b', 0, 1},
    [MP_RESCALE] = {"rescale", 'r', 0, 2},
    [MP_INT8_MASK] = {"int8_mask", 'b', 0, 1},
    [MP_ROW_WISE] = {"nuslerp_row_wise", 'b', 0, 1},
    [MP_FLATTEN] = {"nuslerp_flatten", 'b', 0, 1},
    [MP_FILTER_WISE] = {"filter_wise", 'b', 0, 1},
    [MP_EPS] = {"eps", 'f', 0, 1},
    [MP_NORMALIZE_WEIGHTS] = {"normalize_weights", 'b', 0, 1},
    [MP_R] = {"r", 'f', ANY},
    [MP_ALPHA] = {"alpha", 'f', 0, DBL_MAX},
};

/* What task vectors have in common. */
#define TASK_SHARED (MP_BIT(MP_LAMBDA) | MP_BIT(MP_NORMALIZE) | MP_BIT(MP_RESCALE) | MP_BIT(MP_INT8_MASK))
#define TASK(NAME, LINE, SOURCE, RUN, OTHERS, SPARSE, CONSENSUS, NORMALIZE, RESCALE)                                             \
    {                                                                                                                            \
        .info = {NAME, LINE, SOURCE}, .run_method = RUN, .shared = TASK_SHARED,                                                  \
        .per_other = MP_BIT(MP_WEIGHT) | MP_BIT(MP_DENSITY) | (OTHERS), .required = MP_BIT(MP_WEIGHT), .base = 2,                \
        .min_sources = 1, .sparse = SPARSE, .consensus = CONSENSUS, .normalize = NORMALIZE, .rescale = RESCALE                   \
    }

static const merge_method methods[] = {
    {.info = {"linear", "weighted average of the models (model soup)", "Model soups, arXiv:2203.05482"},
     .run_method = zt_merge_linear,
     .shared = MP_BIT(MP_NORMALIZE),
     .per_source = MP_BIT(MP_WEIGHT),
     .required = MP_BIT(MP_WEIGHT),
     .min_sources = 1,
     .normalize = true},
    {.info = {"slerp", "spherical linear interpolation (slerp) between two models",
              "K. Shoemake, Animating rotation with quaternion curves, 1985"},
     .run_method = zt_merge_slerp,
     .shared = MP_BIT(MP_T),
     .required = MP_BIT(MP_T),
     .base = 2,
     .min_sources = 2,
     .max_sources = 2},
    {.info = {"nuslerp",
              "slerp of two models by weight, per tensor, row or column; of task vectors if there "
              "is a base",
              "mergekit docs/merge_methods.md"},
     .run_method = zt_merge_nuslerp,
     .shared = MP_BIT(MP_ROW_WISE) | MP_BIT(MP_FLATTEN),
     .per_other = MP_BIT(MP_WEIGHT),
     .required = MP_BIT(MP_WEIGHT),
     .base = 1,
     .min_sources = 1,
     .min_others = 2,
     .max_others = 2},
    TASK("task_arithmetic", "task arithmetic: the base plus weighted task vectors", "arXiv:2212.04089", zt_merge_tasks, 0,
         SPARSE_NONE, false, false, RESCALE_NONE),
    TASK("ties", "TIES: trim task vectors to the largest deltas, elect a sign, merge", "arXiv:2306.01708", zt_merge_masked, 0,
         SPARSE_LARGEST, true, true, RESCALE_NONE),
    TASK("dare_ties", "DARE with sign election: drop deltas at random and rescale", "arXiv:2311.03099", zt_merge_masked, 0,
         SPARSE_RANDOM, true, false, RESCALE_DENSITY),
    TASK("dare_linear", "DARE: drop deltas at random and rescale", "arXiv:2311.03099", zt_merge_masked, 0, SPARSE_RANDOM, false,
         false, RESCALE_DENSITY),
    TASK("breadcrumbs", "model breadcrumbs: drop the smallest and the largest deltas", "arXiv:2312.06795", zt_merge_masked,
         MP_BIT(MP_GAMMA), SPARSE_MIDDLE, false, false, RESCALE_NONE),
    TASK("breadcrumbs_ties", "model breadcrumbs with sign election", "arXiv:2312.06795", zt_merge_masked, MP_BIT(MP_GAMMA),
         SPARSE_MIDDLE, true, false, RESCALE_NONE),
    TASK("della", "DELLA: drop deltas with a probability by magnitude, elect a sign", "arXiv:2406.11617", zt_merge_masked,
         MP_BIT(MP_EPSILON), SPARSE_RANKED, true, true, RESCALE_DENSITY),
    TASK("della_linear", "DELLA without sign election", "arXiv:2406.11617", zt_merge_masked, MP_BIT(MP_EPSILON), SPARSE_RANKED,
         false, false, RESCALE_DENSITY),
    {.info = {"model_stock",
              "Model Stock: interpolate from the base to the average by the angles between task "
              "vectors",
              "arXiv:2403.19522"},
     .run_method = zt_merge_stock,
     .shared = MP_BIT(MP_FILTER_WISE),
     .base = 2,
     .min_sources = 3},
    {.info = {"nearswap", "move each weight of the base towards the other model by at most t",
              "huggingface.co/alchemonaut/QuartetAnemoi-70B-t0.0001"},
     .run_method = zt_merge_nearswap,
     .shared = MP_BIT(MP_T),
     .required = MP_BIT(MP_T),
     .base = 2,
     .min_sources = 2,
     .max_sources = 2},
    {.info = {"karcher", "Karcher mean: the average on the sphere", "H. Karcher, 1977; arXiv:2603.04972"},
     .run_method = zt_merge_karcher,
     .shared = MP_BIT(MP_MAX_ITER) | MP_BIT(MP_TOL),
     .min_sources = 1},
    {.info = {"sce", "SCE: select the deltas of largest variance, weight by their squares, elect a sign", "arXiv:2408.07990"},
     .run_method = zt_merge_sce,
     .shared = MP_BIT(MP_SELECT_TOPK) | MP_BIT(MP_INT8_MASK),
     .base = 2,
     .min_sources = 1},
    {.info = {"multislerp", "interpolate any number of models on the sphere, by weight; task vectors if there is a base",
              "goddard.blog/posts/multislerp-wow-what-a-cool-idea"},
     .run_method = zt_merge_multislerp,
     .shared = MP_BIT(MP_NORMALIZE_WEIGHTS) | MP_BIT(MP_EPS),
     .per_other = MP_BIT(MP_WEIGHT),
     .required = MP_BIT(MP_WEIGHT),
     .base = 1,
     .min_sources = 1,
     .min_others = 1,
     .strict = true},
    {.info = {"arcee_fusion", "take the elements of the other model whose change is important, by a threshold per tensor",
              "arcee.ai; mergekit docs/merge_methods.md"},
     .run_method = zt_merge_fusion,
     .base = 2,
     .min_sources = 2,
     .max_sources = 2,
     .strict = true},
    {.info = {"ram", "add the deltas: those of one model in full, the average of those that several models have",
              "arXiv:2601.13572"},
     .run_method = zt_merge_ram,
     .shared = MP_BIT(MP_EPSILON),
     .base = 2,
     .min_sources = 2,
     .min_others = 1,
     .epsilon = 1e-5,
     .strict = true},
    {.info = {"ramplus_tl", "ram, with the deltas of one model alone scaled up, by how many its tensor shares",
              "arXiv:2601.13572"},
     .run_method = zt_merge_ram,
     .shared = MP_BIT(MP_EPSILON) | MP_BIT(MP_R) | MP_BIT(MP_ALPHA),
     .base = 2,
     .min_sources = 2,
     .min_others = 1,
     .epsilon = 1e-5,
     .strict = true},
    {.info = {"passthrough", "copy the tensors of one model; slices stack layers (frankenmerge)",
              "mergekit docs/merge_methods.md"},
     .run_method = zt_merge_scale,
     .per_source = MP_BIT(MP_SCALE),
     .min_sources = 1,
     .max_sources = 1},
};

enum { N_METHODS = sizeof methods / sizeof *methods };

const zt_merge_method *zt_merge_method_at(int index) { return index >= 0 && index < N_METHODS ? &methods[index].info : NULL; }

const char *zt_merge_parameter(int index) { return index >= 0 && index < MP_COUNT ? zt_merge_params[index].name : NULL; }

bool zt_merge_has_parameter(const char *method, const char *parameter)
{
    const merge_method *row = method ? zt_merge_method_find(method) : NULL;
    for (int i = 0; row && parameter && i < MP_COUNT; i++)
        if (!strcmp(zt_merge_params[i].name, parameter))
            return ((row->shared | row->per_source | row->per_other) & MP_BIT(i)) != 0;
    return false;
}

const merge_method *zt_merge_method_find(const char *name)
{
    for (int i = 0; i < N_METHODS; i++)
        if (!strcmp(methods[i].info.name, name)) return &methods[i];
    return NULL;
}

/* ---- names that filters match ---------------------------------------------------------------- */

/* Parts of names in GGUF and in Hugging Face's llama. */
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

/* One value, or a list along the stack of layers: numbers are interpolated linearly, switches keep the value before. */
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
            return condition->count > 0; /* the first condition that matches counts */
        }
    }
    return false;
}

/* The default; false: there is none. */
static bool find_default(const merge_method *method, merge_param param, double *out)
{
    static const double defaults[MP_COUNT] = {
        [MP_DENSITY] = 1, [MP_GAMMA] = 0.01,          [MP_EPSILON] = 0.15, [MP_LAMBDA] = 1,
        [MP_TOL] = 1e-5,  [MP_SELECT_TOPK] = 1,       [MP_MAX_ITER] = 10,  [MP_FLATTEN] = 1,
        [MP_EPS] = 1e-8,  [MP_NORMALIZE_WEIGHTS] = 1, [MP_R] = 0.1,        [MP_ALPHA] = 0.2};
    *out = param == MP_NORMALIZE ? method->normalize : param == MP_RESCALE ? method->rescale : defaults[param];
    if (param == MP_EPSILON && method->epsilon > 0) *out = method->epsilon;
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

/* Checks values that depend on each other. */
static zt_status check_params(const zt_recipe *recipe, const char *name, const double *values)
{
    double density = values[MP_DENSITY], epsilon = values[MP_EPSILON];
    char shown[160];
    if (recipe->method->sparse == SPARSE_RANKED && density > 0 && density < 1 &&
        (density + epsilon >= 1 || density - epsilon <= 0))
        return zt_fail(recipe->ctx, ZT_EDATA,
                       "%s: invalid density %g and epsilon %g for '%s': their sum and difference must be "
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
    for (int source_index = 0; source_index < slice->source_count && status == ZT_OK; source_index++) {
        unsigned wanted = method->per_source | (source_index == slice->base_index ? 0 : method->per_other);
        out->has_each[source_index] = 0;
        for (int param = 0; param < MP_COUNT && status == ZT_OK; param++)
            if (wanted & MP_BIT(param))
                status = find_param(recipe, slice, &slice->sources[source_index], (merge_param)param, source_name[source_index],
                                    position, &out->has_each[source_index], &out->each[source_index][param]);
        if (status == ZT_OK && (method->per_other & MP_BIT(MP_EPSILON)) && source_index != slice->base_index)
            status = check_params(recipe, name, out->each[source_index]);
    }
    return status;
}
