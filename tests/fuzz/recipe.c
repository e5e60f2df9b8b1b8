/* recipe.c - a fuzz target for recipes of merges: any bytes are refused with one line, or they
 * are a recipe whose models can be asked for.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/dna/merge.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_recipe *recipe = zt_recipe_parse(ctx, "fuzz", (const char *)bytes, count);
    zt_status status = zt_ctx_status(ctx);
    must(recipe ? status == ZT_OK : status == ZT_EDATA || status == ZT_ENOTSUP);
    for (int i = 0; recipe && i < zt_recipe_count(recipe); i++) must(*zt_recipe_model(recipe, i) != 0);
    if (recipe) must(zt_recipe_first(recipe) >= 0 && zt_recipe_first(recipe) < zt_recipe_count(recipe));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_recipe_free(recipe);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
