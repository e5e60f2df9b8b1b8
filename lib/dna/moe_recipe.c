/* moe_recipe.c - owns the recipes of mixtures: a document becomes models, experts and their prompts.
 *
 * The schema is that of mergekit-moe (mergekit 0.1.5, moe/config.py and docs/moe.md, as facts).
 */
#include "lib/base/require.h"
#include "lib/dna/moe_internal.h"
#include "lib/dna/tree.h"

#include <math.h>
#include <string.h>

enum { EXPERTS = 256 };

#define REFUSE(at, ...) zt_tree_fail(builder->ctx, builder->file, at, __VA_ARGS__)

static zt_moe_config *config_of(const zt_tree_reader *builder) { return &((zt_moe_recipe *)builder->recipe)->config; }

static zt_status read_real(zt_tree_reader *builder, const zt_tree *node, const char *what, double *out)
{
    char shown[80];
    if (node->kind == ZT_TREE_SCALAR && zt_parse_double(node->text, out) && isfinite(*out)) return ZT_OK;
    return REFUSE(node, "%s: '%s' is not a number", what,
                  node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text)) : "list");
}

/* ---- models and experts ------------------------------------------------------------------------ */

static zt_status find_model(zt_tree_reader *builder, const zt_tree *node, int *out)
{
    zt_moe_config *config = config_of(builder);
    const char *name = NULL;
    zt_status status = zt_tree_read_text(builder, node, "model", &name);
    if (status != ZT_OK) return status;
    if (!*name) return REFUSE(node, "model: expected a file name");
    for (const char *text = name; *text; text++)
        if ((unsigned char)*text < ' ') return REFUSE(node, "model: the file name contains control characters");
    for (*out = 0; *out < config->model_count; (*out)++)
        if (config->models[*out] && !strcmp(config->models[*out], name)) return ZT_OK;
    config->models[config->model_count++] = name; /* room for base and all experts */
    return ZT_OK;
}

static zt_status read_prompts(zt_tree_reader *builder, const zt_tree *node, const char *what, const char ***prompts, int *count)
{
    if (node->kind != ZT_TREE_LIST) return REFUSE(node, "%s: expected a list of strings", what);
    *prompts = zt_tree_zeroed(builder, node->count, sizeof **prompts);
    if (!*prompts) return ZT_ENOMEM;
    for (int64_t i = 0; i < node->count; i++) {
        zt_status status = zt_tree_read_text(builder, node->items[i], what, &(*prompts)[i]);
        if (status != ZT_OK) return status;
    }
    *count = (int)node->count;
    return ZT_OK;
}

static zt_status on_model(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return find_model(builder, node, &((zt_moe_expert *)into)->model);
}

static zt_status on_positive(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_moe_expert *expert = into;
    return read_prompts(builder, node, "positive_prompts", &expert->positive, &expert->positive_count);
}

static zt_status on_negative(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_moe_expert *expert = into;
    return read_prompts(builder, node, "negative_prompts", &expert->negative, &expert->negative_count);
}

static zt_status on_noise(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return read_real(builder, node, "noise_scale", &((zt_moe_expert *)into)->noise_scale);
}

static zt_status on_residual(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return read_real(builder, node, "residual_scale", &((zt_moe_expert *)into)->residual_scale);
}

static zt_status read_experts(zt_tree_reader *builder, const zt_tree *list, const char *what, int *count)
{
    static const zt_tree_key keys[] = {{"source_model", on_model},        {"positive_prompts", on_positive},
                                       {"negative_prompts", on_negative}, {"noise_scale", on_noise},
                                       {"residual_scale", on_residual},   {0}};
    zt_moe_config *config = config_of(builder);
    if (list->kind != ZT_TREE_LIST) return REFUSE(list, "%s: expected a list", what);
    for (int64_t i = 0; i < list->count; i++) {
        if (config->expert_count + config->shared_count >= EXPERTS)
            return REFUSE(list, "%s: at most %d are supported", what, EXPERTS);
        zt_moe_expert *expert = &config->experts[config->expert_count + config->shared_count];
        *expert = (zt_moe_expert){.model = -1, .residual_scale = 1};
        zt_status status = zt_tree_read_keys(builder, list->items[i], what, keys, expert);
        if (status == ZT_OK && expert->model < 0) status = REFUSE(list->items[i], "%s: missing key 'source_model'", what);
        if (status != ZT_OK) return status;
        ++*count;
    }
    return ZT_OK;
}

/* ---- the recipe -------------------------------------------------------------------------------- */

static zt_status on_base(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    int index;
    (void)into;
    zt_moe_config *config = config_of(builder);
    config->model_count = 0; /* it is the first, wherever the document names it */
    zt_status status = find_model(builder, node, &index);
    return status;
}

/* Read after the base: see build. */
static zt_status on_later(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    (void)builder, (void)node, (void)into;
    return ZT_OK;
}

static zt_status on_gate_mode(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_word words[] = {{"hidden", ZT_MOE_HIDDEN},
                                         {"hidden_last", ZT_MOE_HIDDEN},
                                         {"hidden_avg", ZT_MOE_HIDDEN_AVERAGE},
                                         {"cheap_embed", ZT_MOE_CHEAP_EMBED},
                                         {"random", ZT_MOE_RANDOM},
                                         {"uniform_random", ZT_MOE_UNIFORM},
                                         {0}};
    int gates = ZT_MOE_HIDDEN;
    (void)into;
    zt_status status = zt_tree_read_word(builder, node, "gate_mode", words, &gates);
    if (status == ZT_OK) config_of(builder)->gates = (zt_moe_gates)gates;
    return status;
}

static zt_status on_dtype(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_word words[] = {{"float32", ZT_F32}, {"float16", ZT_F16}, {"bfloat16", ZT_BF16}, {0}};
    int dtype = ZT_F32;
    (void)into;
    zt_status status = zt_tree_read_word(builder, node, "dtype", words, &dtype);
    if (status == ZT_OK) ((zt_moe_recipe *)builder->recipe)->dtype = (zt_dtype)dtype;
    return status;
}

static zt_status on_used(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    char shown[80];
    (void)into;
    int64_t *used = &config_of(builder)->used;
    if (node->kind == ZT_TREE_SCALAR && zt_parse_i64(node->text, used) && *used >= 1) return ZT_OK;
    return REFUSE(node, "experts_per_token: '%s' is not a number of experts",
                  node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text)) : "list");
}

static zt_status on_architecture(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    (void)into;
    return zt_tree_read_text(builder, node, "architecture", &((zt_moe_recipe *)builder->recipe)->architecture);
}

static bool same_prompts(const zt_moe_expert *a, const zt_moe_expert *b)
{
    bool same = a->positive_count == b->positive_count && a->negative_count == b->negative_count;
    for (int i = 0; same && i < a->positive_count; i++) same = !strcmp(a->positive[i], b->positive[i]);
    for (int i = 0; same && i < a->negative_count; i++) same = !strcmp(a->negative[i], b->negative[i]);
    return same;
}

/* Routers from prompts need prompts, which differ. */
static zt_status check_prompts(zt_tree_reader *builder, const zt_tree *node)
{
    const zt_moe_config *config = config_of(builder);
    bool alike = config->expert_count > 1;
    if (config->gates == ZT_MOE_RANDOM || config->gates == ZT_MOE_UNIFORM) return ZT_OK;
    for (int i = 0; i < config->expert_count + config->shared_count; i++)
        if (!config->experts[i].positive_count)
            return REFUSE(node, "expert %d (%s) has no positive_prompts", i + 1, config->models[config->experts[i].model]);
    for (int i = 1; i < config->expert_count; i++) alike = alike && same_prompts(&config->experts[0], &config->experts[i]);
    return alike ? REFUSE(node, "all %d experts have the same prompts: nothing would distinguish them", config->expert_count)
                 : ZT_OK;
}

static zt_status check_whole(zt_tree_reader *builder, const zt_tree *node)
{
    const zt_moe_config *config = config_of(builder);
    if (!config->expert_count) return REFUSE(node, "no experts");
    if (config->used > config->expert_count)
        return REFUSE(node, "experts_per_token is %lld, but there are %d experts", (long long)config->used, config->expert_count);
    if (config->shared_count > 1) return REFUSE(node, "%d shared_experts: at most one is supported", config->shared_count);
    return check_prompts(builder, node);
}

static zt_status build(zt_tree_reader *builder, const zt_tree *node)
{
    static const zt_tree_key keys[] = {
        {"base_model", on_base}, {"experts", on_later},          {"shared_experts", on_later},      {"gate_mode", on_gate_mode},
        {"dtype", on_dtype},     {"experts_per_token", on_used}, {"architecture", on_architecture}, {0}};
    zt_moe_config *config = config_of(builder);
    config->models = zt_tree_zeroed(builder, EXPERTS + 1, sizeof *config->models);
    config->experts = zt_tree_zeroed(builder, EXPERTS, sizeof *config->experts);
    config->used = 2;
    if (!config->models || !config->experts) return ZT_ENOMEM;
    zt_status status = zt_tree_read_keys(builder, node, "recipe", keys, NULL);
    if (status == ZT_OK && !config->model_count) status = REFUSE(node, "missing key 'base_model'");
    const zt_tree *experts = status == ZT_OK ? zt_tree_get(node, "experts") : NULL;
    if (experts) status = read_experts(builder, experts, "experts", &config->expert_count);
    const zt_tree *shared = status == ZT_OK ? zt_tree_get(node, "shared_experts") : NULL;
    if (shared && !zt_tree_is_null(shared)) status = read_experts(builder, shared, "shared_experts", &config->shared_count);
    return status == ZT_OK ? check_whole(builder, node) : status;
}

zt_moe_recipe *zt_moe_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    ZT_REQUIRE(ctx, name && (text || !length), NULL);
    zt_arena *arena = zt_arena_new(ctx, 0);
    zt_moe_recipe *recipe = arena ? zt_arena_alloc(arena, sizeof *recipe) : NULL;
    if (!recipe) {
        zt_arena_free(arena);
        return NULL;
    }
    *recipe = (zt_moe_recipe){.ctx = ctx, .arena = arena, .dtype = ZT_DTYPE_COUNT};
    recipe->name = zt_arena_strndup(arena, name, strlen(name));
    recipe->text = length <= ZT_TREE_BYTES ? zt_arena_strndup(arena, text, length) : "";
    zt_tree_reader builder = {.recipe = recipe, .ctx = ctx, .arena = arena, .file = recipe->name};
    const zt_tree *node = recipe->name && recipe->text ? zt_tree_parse(ctx, arena, recipe->name, text, length) : NULL;
    if (node && build(&builder, node) == ZT_OK) return recipe;
    zt_moe_recipe_free(recipe);
    return NULL;
}

static void *parse_recipe(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    return zt_moe_recipe_parse(ctx, name, text, length);
}

zt_moe_recipe *zt_moe_recipe_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    return zt_tree_open(ctx, path, parse_recipe);
}

void zt_moe_recipe_free(zt_moe_recipe *recipe)
{
    if (recipe) zt_arena_free(recipe->arena);
}

const zt_moe_config *zt_moe_recipe_get(const zt_moe_recipe *recipe) { return recipe ? &recipe->config : NULL; }
const char *zt_moe_recipe_name(const zt_moe_recipe *recipe) { return recipe ? recipe->name : NULL; }
