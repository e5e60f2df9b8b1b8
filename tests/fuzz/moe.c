/* moe.c - a fuzz target for recipes of mixtures of experts: any bytes are refused with one line, or they are a recipe whose experts
 * name its models and have at least one expert per token.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/dna/moe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static void check_config(const zt_moe_config *config)
{
    must(config && config->model_count > 0 && config->expert_count > 0 && config->used > 0);
    must(config->used <= config->expert_count && (config->shared_count == 0 || config->shared_count == 1));
    for (int i = 0; i < config->model_count; i++) must(*config->models[i]);
    for (int i = 0; i < config->expert_count + config->shared_count; i++) {
        const zt_moe_expert *expert = &config->experts[i];
        must(expert->model >= 0 && expert->model < config->model_count);
        must(isfinite(expert->noise_scale) && expert->noise_scale >= 0 && isfinite(expert->residual_scale));
        for (int k = 0; k < expert->positive_count; k++) must(expert->positive[k] != NULL);
        for (int k = 0; k < expert->negative_count; k++) must(expert->negative[k] != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_moe_recipe *recipe = zt_moe_recipe_parse(ctx, "fuzz", (const char *)bytes, count);
    zt_status status = zt_ctx_status(ctx);
    must(recipe ? status == ZT_OK : status == ZT_EDATA || status == ZT_ENOTSUP);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    if (recipe) check_config(zt_moe_recipe_get(recipe));
    zt_moe_recipe_free(recipe);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
