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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_recipe *r = zt_recipe_parse(ctx, "fuzz", (const char *)bytes, n);
    zt_status s = zt_ctx_status(ctx);
    must(r ? s == ZT_OK : s == ZT_EDATA || s == ZT_ENOTSUP);
    for (int i = 0; r && i < zt_recipe_count(r); i++) must(*zt_recipe_model(r, i) != 0);
    if (r) must(zt_recipe_first(r) >= 0 && zt_recipe_first(r) < zt_recipe_count(r));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_recipe_free(r);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
