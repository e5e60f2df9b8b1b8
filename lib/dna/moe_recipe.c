/* moe_recipe.c - owns the recipes of mixtures: a document becomes models, experts and their prompts.
 *
 * The schema is that of mergekit-moe (mergekit 0.1.5, moe/config.py and docs/moe.md, as facts).
 */
#include "lib/base/near.h"
#include "lib/base/require.h"
#include "lib/dna/moe_internal.h"
#include "lib/dna/tree.h"

#include <math.h>
#include <string.h>

enum { EXPERTS = 256 };

typedef struct moe_builder {
    zt_moe_recipe *recipe;
    zt_ctx *ctx;
    const zt_tree *shared; /* the list shared_experts; NULL: none */
} moe_builder;

#define REFUSE(at, ...) zt_tree_fail(builder->ctx, builder->recipe->name, at, __VA_ARGS__)

typedef zt_status moe_key_fn(moe_builder *builder, const zt_tree *value, void *into);
typedef struct moe_key {
    const char *name;
    moe_key_fn *read;
} moe_key;

static void *alloc_zeroed(moe_builder *builder, int64_t count, size_t size)
{
    size_t bytes = ((size_t)count + 1) * size; /* count: at most the nodes of a tree */
    void *memory = zt_arena_alloc(builder->recipe->arena, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

static const char *key_name(const void *rows, int index) { return ((const moe_key *)rows)[index].name; }

static zt_status read_keys(moe_builder *builder, const zt_tree *map, const char *what, const moe_key *rows, void *into)
{
    if (map->kind != ZT_TREE_MAP) return REFUSE(map, "%s: expected keys and values", what);
    for (int64_t pair = 0; pair < map->count; pair++) {
        const zt_tree *key = map->items[2 * pair], *value = map->items[2 * pair + 1];
        const moe_key *row = rows;
        char shown[80];
        zt_near_hint hint;
        while (row->name && strcmp(row->name, key->text)) row++;
        if (!row->name)
            return REFUSE(key, "%s: unknown key '%s'%s", what, zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                          zt_near(hint, key->text, key_name, rows));
        zt_status status = zt_tree_is_null(value) ? ZT_OK : row->read(builder, value, into);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

static zt_status read_text(moe_builder *builder, const zt_tree *node, const char *what, const char **out)
{
    if (node->kind != ZT_TREE_SCALAR) return REFUSE(node, "%s: expected a string", what);
    *out = zt_arena_strndup(builder->recipe->arena, node->text, strlen(node->text));
    return *out ? ZT_OK : ZT_ENOMEM;
}

static zt_status read_real(moe_builder *builder, const zt_tree *node, const char *what, double *out)
{
    char shown[80];
    if (node->kind == ZT_TREE_SCALAR && zt_parse_double(node->text, out) && isfinite(*out)) return ZT_OK;
    return REFUSE(node, "%s: '%s' is not a number", what,
                  node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text)) : "list");
}

/* ---- models and experts ------------------------------------------------------------------------ */

static zt_status find_model(moe_builder *builder, const zt_tree *node, int *out)
{
    zt_moe_config *config = &builder->recipe->config;
    const char *name = NULL;
    zt_status status = read_text(builder, node, "model", &name);
    if (status != ZT_OK) return status;
    if (!*name) return REFUSE(node, "model: expected a file name");
    for (const char *text = name; *text; text++)
        if ((unsigned char)*text < ' ') return REFUSE(node, "model: the file name contains control characters");
    for (*out = 0; *out < config->model_count; (*out)++)
        if (config->models[*out] && !strcmp(config->models[*out], name)) return ZT_OK;
    config->models[config->model_count++] = name; /* room for base and all experts */
    return ZT_OK;
}

static zt_status read_prompts(moe_builder *builder, const zt_tree *node, const char *what, const char ***prompts, int *count)
{
    if (node->kind != ZT_TREE_LIST) return REFUSE(node, "%s: expected a list of strings", what);
    *prompts = alloc_zeroed(builder, node->count, sizeof **prompts);
    if (!*prompts) return ZT_ENOMEM;
    for (int64_t i = 0; i < node->count; i++) {
        zt_status status = read_text(builder, node->items[i], what, &(*prompts)[i]);
        if (status != ZT_OK) return status;
    }
    *count = (int)node->count;
    return ZT_OK;
}

static zt_status on_model(moe_builder *builder, const zt_tree *node, void *into)
{
    return find_model(builder, node, &((zt_moe_expert *)into)->model);
}

static zt_status on_positive(moe_builder *builder, const zt_tree *node, void *into)
{
    zt_moe_expert *expert = into;
    return read_prompts(builder, node, "positive_prompts", &expert->positive, &expert->positive_count);
}

static zt_status on_negative(moe_builder *builder, const zt_tree *node, void *into)
{
    zt_moe_expert *expert = into;
    return read_prompts(builder, node, "negative_prompts", &expert->negative, &expert->negative_count);
}

static zt_status on_noise(moe_builder *builder, const zt_tree *node, void *into)
{
    return read_real(builder, node, "noise_scale", &((zt_moe_expert *)into)->noise_scale);
}

static zt_status on_residual(moe_builder *builder, const zt_tree *node, void *into)
{
    return read_real(builder, node, "residual_scale", &((zt_moe_expert *)into)->residual_scale);
}

static zt_status read_experts(moe_builder *builder, const zt_tree *list, const char *what)
{
    static const moe_key keys[] = {{"source_model", on_model},        {"positive_prompts", on_positive},
                                   {"negative_prompts", on_negative}, {"noise_scale", on_noise},
                                   {"residual_scale", on_residual},   {0}};
    zt_moe_config *config = &builder->recipe->config;
    if (list->kind != ZT_TREE_LIST) return REFUSE(list, "%s: expected a list", what);
    for (int64_t i = 0; i < list->count; i++) {
        if (config->expert_count + config->shared_count >= EXPERTS)
            return REFUSE(list, "%s: at most %d are supported", what, EXPERTS);
        zt_moe_expert *expert = &config->experts[config->expert_count + config->shared_count];
        *expert = (zt_moe_expert){.model = -1, .residual_scale = 1};
        zt_status status = read_keys(builder, list->items[i], what, keys, expert);
        if (status == ZT_OK && expert->model < 0) status = REFUSE(list->items[i], "%s: missing key 'source_model'", what);
        if (status != ZT_OK) return status;
        if (list == builder->shared)
            config->shared_count++;
        else
            config->expert_count++;
    }
    return ZT_OK;
}

/* ---- the recipe -------------------------------------------------------------------------------- */

static zt_status on_base(moe_builder *builder, const zt_tree *node, void *into)
{
    int index;
    (void)into;
    zt_moe_config *config = &builder->recipe->config;
    config->model_count = 0; /* it is the first, wherever the document names it */
    zt_status status = find_model(builder, node, &index);
    return status;
}

/* Read after the base: see build. */
static zt_status on_later(moe_builder *builder, const zt_tree *node, void *into)
{
    (void)builder, (void)node, (void)into;
    return ZT_OK;
}

static zt_status on_gate_mode(moe_builder *builder, const zt_tree *node, void *into)
{
    static const struct {
        const char *name;
        zt_moe_gates gates;
    } words[] = {{"hidden", ZT_MOE_HIDDEN},           {"hidden_last", ZT_MOE_HIDDEN}, {"hidden_avg", ZT_MOE_HIDDEN_AVERAGE},
                 {"cheap_embed", ZT_MOE_CHEAP_EMBED}, {"random", ZT_MOE_RANDOM},      {"uniform_random", ZT_MOE_UNIFORM}};
    const char *name = NULL;
    char shown[80];
    (void)into;
    zt_status status = read_text(builder, node, "gate_mode", &name);
    if (status != ZT_OK) return status;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return builder->recipe->config.gates = words[i].gates, ZT_OK;
    return REFUSE(node,
                  "unknown gate_mode '%s': expected one of hidden, hidden_last, hidden_avg, cheap_embed, random, "
                  "uniform_random",
                  zt_escape(shown, sizeof shown, name, strlen(name)));
}

static zt_status on_dtype(moe_builder *builder, const zt_tree *node, void *into)
{
    static const struct {
        const char *name;
        zt_dtype dtype;
    } words[] = {{"float32", ZT_F32}, {"float16", ZT_F16}, {"bfloat16", ZT_BF16}};
    const char *name = NULL;
    char shown[80];
    (void)into;
    zt_status status = read_text(builder, node, "dtype", &name);
    if (status != ZT_OK) return status;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return builder->recipe->dtype = words[i].dtype, ZT_OK;
    return REFUSE(node, "unknown dtype '%s': expected float32, float16 or bfloat16",
                  zt_escape(shown, sizeof shown, name, strlen(name)));
}

static zt_status on_used(moe_builder *builder, const zt_tree *node, void *into)
{
    char shown[80];
    (void)into;
    int64_t *used = &builder->recipe->config.used;
    if (node->kind == ZT_TREE_SCALAR && zt_parse_i64(node->text, used) && *used >= 1) return ZT_OK;
    return REFUSE(node, "experts_per_token: '%s' is not a number of experts",
                  node->kind == ZT_TREE_SCALAR ? zt_escape(shown, sizeof shown, node->text, strlen(node->text)) : "list");
}

static zt_status on_architecture(moe_builder *builder, const zt_tree *node, void *into)
{
    (void)into;
    return read_text(builder, node, "architecture", &builder->recipe->architecture);
}

static bool same_prompts(const zt_moe_expert *a, const zt_moe_expert *b)
{
    bool same = a->positive_count == b->positive_count && a->negative_count == b->negative_count;
    for (int i = 0; same && i < a->positive_count; i++) same = !strcmp(a->positive[i], b->positive[i]);
    for (int i = 0; same && i < a->negative_count; i++) same = !strcmp(a->negative[i], b->negative[i]);
    return same;
}

/* Routers from prompts need prompts, which differ. */
static zt_status check_prompts(moe_builder *builder, const zt_tree *node)
{
    const zt_moe_config *config = &builder->recipe->config;
    bool alike = config->expert_count > 1;
    if (config->gates == ZT_MOE_RANDOM || config->gates == ZT_MOE_UNIFORM) return ZT_OK;
    for (int i = 0; i < config->expert_count + config->shared_count; i++)
        if (!config->experts[i].positive_count)
            return REFUSE(node, "expert %d (%s) has no positive_prompts", i + 1, config->models[config->experts[i].model]);
    for (int i = 1; i < config->expert_count; i++) alike = alike && same_prompts(&config->experts[0], &config->experts[i]);
    return alike ? REFUSE(node, "all %d experts have the same prompts: nothing would distinguish them", config->expert_count)
                 : ZT_OK;
}

static zt_status check_whole(moe_builder *builder, const zt_tree *node)
{
    const zt_moe_config *config = &builder->recipe->config;
    if (!config->expert_count) return REFUSE(node, "no experts");
    if (config->used > config->expert_count)
        return REFUSE(node, "experts_per_token is %lld, but there are %d experts", (long long)config->used, config->expert_count);
    if (config->shared_count > 1) return REFUSE(node, "%d shared_experts: at most one is supported", config->shared_count);
    return check_prompts(builder, node);
}

static zt_status build(moe_builder *builder, const zt_tree *node)
{
    static const moe_key keys[] = {
        {"base_model", on_base}, {"experts", on_later},          {"shared_experts", on_later},      {"gate_mode", on_gate_mode},
        {"dtype", on_dtype},     {"experts_per_token", on_used}, {"architecture", on_architecture}, {0}};
    zt_moe_config *config = &builder->recipe->config;
    config->models = alloc_zeroed(builder, EXPERTS + 1, sizeof *config->models);
    config->experts = alloc_zeroed(builder, EXPERTS, sizeof *config->experts);
    config->used = 2;
    if (!config->models || !config->experts) return ZT_ENOMEM;
    zt_status status = read_keys(builder, node, "recipe", keys, NULL);
    if (status == ZT_OK && !config->model_count) status = REFUSE(node, "missing key 'base_model'");
    const zt_tree *experts = status == ZT_OK ? zt_tree_get(node, "experts") : NULL;
    if (experts) status = read_experts(builder, experts, "experts");
    builder->shared = status == ZT_OK ? zt_tree_get(node, "shared_experts") : NULL;
    if (builder->shared && zt_tree_is_null(builder->shared)) builder->shared = NULL;
    if (builder->shared) status = read_experts(builder, builder->shared, "shared_experts");
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
    moe_builder builder = {.recipe = recipe, .ctx = ctx};
    const zt_tree *node = recipe->name && recipe->text ? zt_tree_parse(ctx, arena, recipe->name, text, length) : NULL;
    if (node && build(&builder, node) == ZT_OK) return recipe;
    zt_moe_recipe_free(recipe);
    return NULL;
}

zt_moe_recipe *zt_moe_recipe_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    size_t length;
    zt_source *source = zt_source_open(ctx, path);
    char *text = source ? zt_tree_read(ctx, source, &length) : NULL;
    zt_moe_recipe *recipe = text ? zt_moe_recipe_parse(ctx, zt_source_name(source), text, length) : NULL;
    zt_free(ctx, text);
    zt_source_close(source);
    return recipe;
}

void zt_moe_recipe_free(zt_moe_recipe *recipe)
{
    if (recipe) zt_arena_free(recipe->arena);
}

const zt_moe_config *zt_moe_recipe_get(const zt_moe_recipe *recipe) { return recipe ? &recipe->config : NULL; }
const char *zt_moe_recipe_name(const zt_moe_recipe *recipe) { return recipe ? recipe->name : NULL; }
