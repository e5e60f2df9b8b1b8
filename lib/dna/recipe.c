/* recipe.c - owns recipes: a document becomes models, slices and parameters.
 *
 * The schema is the common part of mergekit's MergeConfiguration (0.1.5, docs of "Merge Configuration", as facts). A key
 * that is not in the tables below is an error that names it.
 */
#include "lib/base/near.h"
#include "lib/base/require.h"
#include "lib/dna/merge_internal.h"
#include "lib/dna/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REFUSE(at, ...) zt_tree_fail(builder->ctx, builder->file, at, __VA_ARGS__)

enum { MODELS = 256, SLICES = 4096 };

static zt_status read_text(zt_tree_reader *builder, const zt_tree *node, const char *what, const char **out)
{
    if (node->kind == ZT_TREE_SCALAR && !*node->text) return REFUSE(node, "%s: expected a string", what);
    return zt_tree_read_text(builder, node, what, out);
}

/* ---- parameters: numbers, switches, lists of them and conditions -------------------------------- */

static bool contains_word(const char *text, const char *words) /* " yes no " */
{
    size_t length = strlen(text);
    for (const char *cursor = words; length && (cursor = strstr(cursor, text)); cursor++)
        if (cursor > words && cursor[-1] == ' ' && cursor[length] == ' ') return true;
    return false;
}

/* YAML 1.1's switches. */
bool zt_recipe_is_switch(const zt_tree *node, double *out)
{
    bool on = contains_word(node->text, " true True TRUE yes Yes YES on On ON ");
    bool off = contains_word(node->text, " false False FALSE no No NO off Off OFF ");
    *out = on;
    return node->plain && (on || off);
}

/* true: mergekit's rule, which keeps the L1 norm; else a name. */
static bool parse_rescale(const zt_tree *node, double *out)
{
    static const char *const words[] = {"none", "l1", "density"};
    double on;
    if (zt_recipe_is_switch(node, &on)) {
        *out = on ? RESCALE_L1 : RESCALE_NONE;
        return true;
    }
    for (int i = 0; i < 3; i++)
        if (!strcmp(node->text, words[i])) {
            *out = i;
            return true;
        }
    return false;
}

static zt_status read_number(zt_tree_reader *builder, const zt_tree *node, merge_param param, double *out)
{
    const merge_param_info *about = &zt_merge_params[param];
    char shown[80];
    bool good = node->kind == ZT_TREE_SCALAR;
    if (good && about->kind == 'r')
        good = parse_rescale(node, out);
    else if (good)
        good = zt_recipe_is_switch(node, out) || zt_parse_double(node->text, out);
    if (good && about->kind == 'b') good = *out == 0 || *out == 1;
    if (!good)
        return REFUSE(node, "parameter '%s': '%s' is not a valid %s", about->name,
                      node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text))
                                                   : "nested list",
                      about->kind == 'b'   ? "switch"
                      : about->kind == 'r' ? "rescaling"
                                           : "number");
    if (!isfinite(*out) || *out < about->minimum || *out > about->maximum)
        return REFUSE(node, "parameter '%s': %g is out of range", about->name, *out);
    return ZT_OK;
}

static zt_status read_values(zt_tree_reader *builder, const zt_tree *node, merge_param param, merge_cond *condition)
{
    bool list = node->kind == ZT_TREE_LIST;
    int64_t count = list ? node->count : zt_tree_is_null(node) ? 0 : 1;
    condition->values = zt_tree_zeroed(builder, count, sizeof *condition->values);
    if (!condition->values) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        zt_status status = read_number(builder, list ? node->items[i] : node, param, &condition->values[i]);
        if (status != ZT_OK) return status;
    }
    condition->count = (int)count;
    return ZT_OK;
}

typedef struct cond_into {
    merge_cond *condition;
    const zt_tree *value;
} cond_into;

static zt_status on_filter(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    cond_into *target = into;
    zt_status status = read_text(builder, node, "filter", &target->condition->filter);
    if (status == ZT_OK && !strcmp(target->condition->filter, "*")) target->condition->filter = NULL;
    return status;
}

static zt_status on_value(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    (void)builder;
    ((cond_into *)into)->value = node;
    return ZT_OK;
}

static zt_status read_condition(zt_tree_reader *builder, const zt_tree *node, merge_param param, merge_cond *condition)
{
    static const zt_tree_key keys[] = {{"filter", on_filter}, {"value", on_value}, {0}};
    cond_into into = {.condition = condition};
    zt_status status = zt_tree_read_keys(builder, node, "condition", keys, &into);
    if (status == ZT_OK && !zt_tree_get(node, "value")) status = REFUSE(node, "condition without 'value'");
    return status == ZT_OK && into.value ? read_values(builder, into.value, param, condition) : status;
}

/* A scalar, a list of scalars, a condition, or a list of conditions. */
static zt_status read_setting(zt_tree_reader *builder, const zt_tree *node, merge_setting *set)
{
    bool list = node->kind == ZT_TREE_LIST && node->count && node->items[0]->kind == ZT_TREE_MAP;
    set->count = list ? (int)node->count : 1;
    set->conditions = zt_tree_zeroed(builder, set->count, sizeof *set->conditions);
    if (!set->conditions) return ZT_ENOMEM;
    if (!list && node->kind != ZT_TREE_MAP) return read_values(builder, node, set->param, set->conditions);
    for (int condition_index = 0; condition_index < set->count; condition_index++) {
        zt_status status =
            read_condition(builder, list ? node->items[condition_index] : node, set->param, &set->conditions[condition_index]);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

static const char *param_name(const void *user, int index)
{
    (void)user;
    return index < MP_COUNT ? zt_merge_params[index].name : NULL;
}

static zt_status read_parameters(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    merge_scope *scope = into;
    if (node->kind != ZT_TREE_MAP) return REFUSE(node, "parameters: expected keys and values");
    scope->settings = zt_tree_zeroed(builder, node->count, sizeof *scope->settings);
    for (int64_t i = 0; scope->settings && i < node->count; i++) {
        const zt_tree *key = node->items[2 * i];
        char shown[80];
        zt_near_hint hint;
        int param = 0;
        while (param < MP_COUNT && strcmp(zt_merge_params[param].name, key->text)) param++;
        if (param == MP_COUNT)
            return REFUSE(key, "unknown parameter '%s'%s", zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                          zt_near(hint, key->text, param_name, NULL));
        merge_setting *set = &scope->settings[scope->count++];
        set->param = (merge_param)param;
        zt_status status = read_setting(builder, node->items[2 * i + 1], set);
        if (status != ZT_OK) return status;
    }
    return scope->settings ? ZT_OK : ZT_ENOMEM;
}

/* ---- models and slices ----------------------------------------------------------------------- */

zt_status zt_recipe_find_model(zt_tree_reader *builder, const zt_tree *node, int *out)
{
    zt_recipe *recipe = builder->recipe;
    if (node->kind != ZT_TREE_SCALAR || !*node->text) return REFUSE(node, "model: expected a file name");
    for (const char *text = node->text; *text; text++)
        if ((unsigned char)*text < ' ') return REFUSE(node, "model: the file name contains control characters");
    for (*out = 0; *out < recipe->model_count; (*out)++)
        if (!strcmp(recipe->models[*out], node->text)) return ZT_OK;
    if (recipe->model_count == MODELS) return REFUSE(node, "too many models: at most %d are supported", MODELS);
    recipe->models[*out] = zt_arena_strndup(recipe->arena, node->text, strlen(node->text));
    recipe->model_count += recipe->models[*out] != NULL;
    return recipe->models[*out] ? ZT_OK : ZT_ENOMEM;
}

static zt_status on_model(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return zt_recipe_find_model(builder, node, &((merge_source *)into)->model);
}

static zt_status on_scope_of_source(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return read_parameters(builder, node, &((merge_source *)into)->scope);
}

static zt_status on_range(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    merge_source *source = into;
    bool good = node->kind == ZT_TREE_LIST && node->count == 2 && node->items[0]->kind == ZT_TREE_SCALAR &&
                node->items[1]->kind == ZT_TREE_SCALAR && zt_parse_i64(node->items[0]->text, &source->first_layer) &&
                zt_parse_i64(node->items[1]->text, &source->end_layer) && source->first_layer >= 0 &&
                source->first_layer <= source->end_layer;
    return good ? ZT_OK : REFUSE(node, "layer_range: expected [first, last + 1]");
}

static zt_status read_source(zt_tree_reader *builder, const zt_tree *node, const char *what, const zt_tree_key *keys,
                             merge_source *source)
{
    *source = (merge_source){.model = -1, .end_layer = -1, .line = node->line};
    zt_status status = zt_tree_read_keys(builder, node, what, keys, source);
    return status == ZT_OK && source->model < 0 ? REFUSE(node, "%s without 'model'", what) : status;
}

static zt_status read_sources(zt_tree_reader *builder, const zt_tree *node, const char *what, const zt_tree_key *keys,
                              merge_slice *slice)
{
    if (node->kind != ZT_TREE_LIST || !node->count) return REFUSE(node, "%s: expected a list", what);
    if (node->count >= MERGE_SOURCES) return REFUSE(node, "%s: at most %d are supported", what, MERGE_SOURCES - 1);
    slice->sources = zt_tree_zeroed(builder, node->count + 1, sizeof *slice->sources); /* one more for the base */
    slice->base_index = -1;
    for (int64_t i = 0; slice->sources && i < node->count; i++) {
        zt_status status = read_source(builder, node->items[i], what, keys, &slice->sources[slice->source_count++]);
        for (int k = 0; status == ZT_OK && k < i; k++)
            if (slice->sources[k].model == slice->sources[i].model)
                status = REFUSE(node->items[i], "%s: duplicate '%s'", what,
                                ((zt_recipe *)builder->recipe)->models[slice->sources[i].model]);
        if (status != ZT_OK) return status;
    }
    return slice->sources ? ZT_OK : ZT_ENOMEM;
}

static zt_status on_models(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {{"model", on_model}, {"parameters", on_scope_of_source}, {0}};
    zt_recipe *recipe = into;
    recipe->slices = zt_tree_zeroed(builder, 1, sizeof *recipe->slices);
    recipe->slice_count = 1;
    return recipe->slices ? read_sources(builder, node, "models", keys, recipe->slices) : ZT_ENOMEM;
}

typedef struct slice_into {
    merge_slice *slice;
    int base;
} slice_into;

static zt_status on_sources(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {{"model", on_model}, {"layer_range", on_range}, {"parameters", on_scope_of_source}, {0}};
    return read_sources(builder, node, "sources", keys, ((slice_into *)into)->slice);
}

static zt_status on_slice_scope(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return read_parameters(builder, node, &((slice_into *)into)->slice->scope);
}

static zt_status on_slice_base(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return zt_recipe_find_model(builder, node, &((slice_into *)into)->base);
}

/* Every source of a slice has a layer_range; the base is one of the sources. */
static zt_status check_slice(zt_tree_reader *builder, const zt_tree *node, const slice_into *into)
{
    merge_slice *slice = into->slice;
    if (!slice->source_count) return REFUSE(node, "slice without 'sources'");
    for (int source_index = 0; source_index < slice->source_count; source_index++) {
        if (slice->sources[source_index].end_layer < 0) return REFUSE(node, "source without 'layer_range'");
        if (slice->sources[source_index].model == into->base) slice->base_index = source_index;
    }
    return into->base < 0 || slice->base_index >= 0 ? ZT_OK : REFUSE(node, "the base_model of a slice is not one of its sources");
}

static zt_status on_slices(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {
        {"sources", on_sources}, {"parameters", on_slice_scope}, {"base_model", on_slice_base}, {"residual_weight", NULL}, {0}};
    zt_recipe *recipe = into;
    if (node->kind != ZT_TREE_LIST || !node->count) return REFUSE(node, "slices: expected a list");
    if (node->count > SLICES) return REFUSE(node, "slices: at most %d are supported", SLICES);
    recipe->slices = zt_tree_zeroed(builder, node->count, sizeof *recipe->slices);
    for (int64_t i = 0; recipe->slices && i < node->count; i++) {
        slice_into one = {.slice = &recipe->slices[recipe->slice_count++], .base = -1};
        one.slice->base_index = -1;
        zt_status status = zt_tree_read_keys(builder, node->items[i], "slices", keys, &one);
        if (status == ZT_OK) status = check_slice(builder, node->items[i], &one);
        if (status != ZT_OK) return status;
    }
    return recipe->slices ? ZT_OK : ZT_ENOMEM;
}

/* ---- the recipe ------------------------------------------------------------------------------ */

static const char *method_name(const void *user, int index)
{
    (void)user;
    return zt_merge_method_at(index) ? zt_merge_method_at(index)->name : NULL;
}

static zt_status on_method(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    const char *name = NULL;
    char shown[80], known[400];
    zt_near_hint hint;
    size_t used = 0;
    zt_status status = read_text(builder, node, "merge_method", &name);
    if (status != ZT_OK) return status;
    ((zt_recipe *)into)->method = zt_merge_method_find(name);
    if (((zt_recipe *)into)->method) return ZT_OK;
    for (int i = 0; zt_merge_method_at(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", zt_merge_method_at(i)->name);
    return REFUSE(node, "unknown merge_method '%s'%s: expected one of %s", zt_escape(shown, sizeof shown, name, strlen(name)),
                  zt_near(hint, name, method_name, NULL), known);
}

static zt_status on_base(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return zt_recipe_find_model(builder, node, &((zt_recipe *)into)->base);
}

static zt_status on_scope(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return read_parameters(builder, node, &((zt_recipe *)into)->scope);
}

static zt_status read_dtype(zt_tree_reader *builder, const zt_tree *node, const char *what, zt_dtype *out)
{
    static const zt_tree_word words[] = {{"float32", ZT_F32}, {"float", ZT_F32},     {"float16", ZT_F16},      {"half", ZT_F16},
                                         {"float64", ZT_F64}, {"bfloat16", ZT_BF16}, {"auto", ZT_DTYPE_COUNT}, {0}};
    const char *name = NULL;
    char shown[80];
    int dtype;
    zt_status status = read_text(builder, node, what, &name);
    if (status != ZT_OK) return status;
    if (!strncmp(name, "torch.", 6)) name += 6;
    if (zt_tree_find_word(words, name, &dtype)) return *out = (zt_dtype)dtype, ZT_OK;
    if (zt_dtype_parse(name, strlen(name), out) && zt_quantize_has(*out)) return ZT_OK;
    return REFUSE(node, "%s: unknown output type '%s'", what, zt_escape(shown, sizeof shown, name, strlen(name)));
}

/* mergekit computes in `dtype`, and the child has it too without out_dtype. zt computes in f32. */
static zt_status on_dtype(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_dtype dtype = ZT_DTYPE_COUNT;
    zt_recipe *recipe = into;
    zt_status status = read_dtype(builder, node, "dtype", &dtype);
    if (status == ZT_OK && recipe->dtype == ZT_DTYPE_COUNT) recipe->dtype = dtype;
    return status;
}

static zt_status on_out_dtype(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_dtype dtype = ZT_DTYPE_COUNT;
    zt_status status = read_dtype(builder, node, "out_dtype", &dtype);
    if (status == ZT_OK && dtype != ZT_DTYPE_COUNT) ((zt_recipe *)into)->dtype = dtype;
    return status;
}

/* A switch of zt's: mergekit has it as the option --unsafe-truncate-embeddings, and up to 0.1.4 did so always
 * (merge_methods/rectify_embed.py). */
static zt_status on_rectify(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    double on;
    if (node->kind != ZT_TREE_SCALAR || !zt_recipe_is_switch(node, &on))
        return REFUSE(node, "rectify_embed: expected true or false");
    ((zt_recipe *)into)->rectifies = on != 0;
    return ZT_OK;
}

static zt_status on_template(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_recipe *recipe = into;
    zt_status status = read_text(builder, node, "chat_template", &recipe->chat_template);
    if (status != ZT_OK) return status;
    if (!strcmp(recipe->chat_template, "auto")) return recipe->chat_template = NULL, ZT_OK;
    return strchr(recipe->chat_template, '{') ? ZT_OK : REFUSE(node, "chat_template: expected 'auto' or a template, got a name");
}

static zt_status check_whole(zt_tree_reader *builder, const zt_tree *node)
{
    zt_recipe *recipe = builder->recipe;
    if (!recipe->method) return REFUSE(node, "missing key 'merge_method'");
    if (!zt_tree_get(node, "models") == !zt_tree_get(node, "slices") || !recipe->slice_count)
        return REFUSE(node, "expected exactly one of 'models' and 'slices'");
    if (zt_tree_get(node, "tokenizer_source") && zt_tree_get(node, "tokenizer"))
        return REFUSE(node, "tokenizer_source and tokenizer exclude each other");
    return ZT_OK;
}

/* The base is a source of every slice; where `models` does not list it, it is added as the last source. */
static zt_status place_base(zt_tree_reader *builder, const zt_tree *node)
{
    zt_recipe *recipe = builder->recipe;
    bool listed = zt_tree_get(node, "models") != NULL;
    for (int i = 0; recipe->base >= 0 && i < recipe->slice_count; i++) {
        merge_slice *slice = &recipe->slices[i];
        for (int k = 0; k < slice->source_count && slice->base_index < 0; k++)
            if (slice->sources[k].model == recipe->base) slice->base_index = k;
        if (slice->base_index >= 0) continue;
        if (!listed)
            return REFUSE(node, "slice %d: base_model '%s' is not one of its sources", i + 1, recipe->models[recipe->base]);
        slice->base_index = slice->source_count;
        slice->sources[slice->source_count++] = (merge_source){.model = recipe->base, .end_layer = -1};
    }
    return ZT_OK;
}

static zt_status check_contract(zt_tree_reader *builder, const zt_tree *node)
{
    const zt_recipe *recipe = builder->recipe;
    const merge_method *method = recipe->method;
    for (int i = 0; i < recipe->slice_count; i++) {
        const merge_slice *slice = &recipe->slices[i];
        int others = slice->source_count - (method->base && slice->base_index >= 0);
        if (method->base == 2 && slice->base_index < 0) return REFUSE(node, "%s needs a base_model", method->info.name);
        if (slice->source_count < method->min_sources || (method->max_sources && slice->source_count > method->max_sources) ||
            others < method->min_others || (method->max_others && others > method->max_others))
            return REFUSE(node, "%s cannot merge %d model%s%s", method->info.name, slice->source_count,
                          slice->source_count == 1 ? "" : "s", slice->base_index >= 0 ? " (including the base)" : "");
    }
    return ZT_OK;
}

/* Refuses parameters that the method does not have. */
static zt_status check_scope(zt_tree_reader *builder, const zt_tree *node, const merge_scope *scope)
{
    const merge_method *method = ((zt_recipe *)builder->recipe)->method;
    const unsigned taken = method->shared | method->per_source | method->per_other;
    char known[200] = "none";
    size_t used = 0;
    for (int param = 0; param < MP_COUNT && used < sizeof known; param++)
        if (taken & MP_BIT(param))
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", zt_merge_params[param].name);
    for (int i = 0; i < scope->count; i++)
        if (!(taken & MP_BIT(scope->settings[i].param)))
            return REFUSE(node, "%s has no parameter '%s' (it has: %s)", method->info.name,
                          zt_merge_params[scope->settings[i].param].name, known);
    return ZT_OK;
}

static zt_status check_parameters(zt_tree_reader *builder, const zt_tree *node)
{
    const zt_recipe *recipe = builder->recipe;
    if (!recipe->method->strict) return ZT_OK;
    zt_status status = check_scope(builder, node, &recipe->scope);
    for (int i = 0; i < recipe->slice_count && status == ZT_OK; i++) {
        const merge_slice *slice = &recipe->slices[i];
        status = check_scope(builder, node, &slice->scope);
        for (int k = 0; k < slice->source_count && status == ZT_OK; k++)
            status = check_scope(builder, node, &slice->sources[k].scope);
    }
    return status;
}

static zt_status build_recipe(zt_tree_reader *builder, const zt_tree *node)
{
    static const zt_tree_key keys[] = {{"merge_method", on_method},
                                       {"base_model", on_base},
                                       {"models", on_models},
                                       {"slices", on_slices},
                                       {"parameters", on_scope},
                                       {"dtype", on_dtype},
                                       {"out_dtype", on_out_dtype},
                                       {"tokenizer_source", zt_recipe_read_tokens_from},
                                       {"tokenizer", zt_recipe_read_tokenizer},
                                       {"chat_template", on_template},
                                       {"rectify_embed", on_rectify},
                                       {"modules", NULL},
                                       {0}};
    zt_status status = zt_tree_read_keys(builder, node, "recipe", keys, builder->recipe);
    if (status == ZT_OK) status = check_whole(builder, node);
    if (status == ZT_OK) status = place_base(builder, node);
    if (status == ZT_OK) status = check_contract(builder, node);
    return status == ZT_OK ? check_parameters(builder, node) : status;
}

zt_recipe *zt_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    ZT_REQUIRE(ctx, name && (text || !length), NULL);
    zt_arena *arena = zt_arena_new(ctx, 0);
    zt_recipe *recipe = arena ? zt_arena_alloc(arena, sizeof *recipe) : NULL;
    if (!recipe) {
        zt_arena_free(arena);
        return NULL;
    }
    *recipe = (zt_recipe){
        .ctx = ctx, .arena = arena, .base = -1, .dtype = ZT_DTYPE_COUNT, .tokens_from = TOKENS_OF_FIRST, .text_length = length};
    recipe->name = zt_arena_strndup(arena, name, strlen(name));
    recipe->text = length <= ZT_TREE_BYTES ? zt_arena_strndup(arena, text, length) : "";
    zt_tree_reader builder = {.recipe = recipe, .ctx = ctx, .arena = arena, .file = recipe->name};
    recipe->models = zt_tree_zeroed(&builder, MODELS, sizeof *recipe->models);
    bool good = recipe->name && recipe->text && recipe->models;
    const zt_tree *node = good ? zt_tree_parse(ctx, arena, recipe->name, text, length) : NULL;
    if (node && build_recipe(&builder, node) == ZT_OK) return recipe;
    zt_recipe_free(recipe);
    return NULL;
}

static void *parse_recipe(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    return zt_recipe_parse(ctx, name, text, length);
}

zt_recipe *zt_recipe_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    return zt_tree_open(ctx, path, parse_recipe);
}

void zt_recipe_free(zt_recipe *recipe)
{
    if (recipe) zt_arena_free(recipe->arena);
}

int zt_recipe_count(const zt_recipe *recipe) { return recipe ? recipe->model_count : 0; }
const char *zt_recipe_model(const zt_recipe *recipe, int index)
{
    if (!recipe || index < 0 || index >= zt_recipe_count(recipe)) return NULL;
    return recipe ? recipe->models[index] : NULL;
}

int zt_recipe_first(const zt_recipe *recipe)
{
    return recipe ? (recipe->base >= 0 ? recipe->base : recipe->slices[0].sources[0].model) : 0;
}
