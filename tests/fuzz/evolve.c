/* evolve.c - a fuzz target for what zt-dna evolve reads: any bytes are refused with one line, or they are the state of a
 * population, which goes on and is read back; or a recipe whose numbers evolve, which is read back with the same numbers.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/dna/evolve.h"
#include "lib/dna/recipe_genome.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

/* ---- states ---------------------------------------------------------------------------------- */

static zt_status overlap(void *user, int index, int of, bool before, double *out)
{
    const zt_evolution *evolution = user;
    must(zt_evolution_member_at(evolution, index) && zt_evolution_member_at(evolution, of));
    *out = (index * 7 + of * 3 + before) % 10 / 10.0;
    return ZT_OK;
}

/* The next generation; false: no member has a fitness. */
static bool go_on(zt_ctx *ctx, zt_evolution *evolution)
{
    int population = zt_evolution_settings_of(evolution)->population, elites = 0;
    for (int i = 0; i < population; i++)
        if (!zt_evolution_member_at(evolution, i)->scored) must(zt_evolution_score(evolution, i, i % 3 > 0, i % 5) == ZT_OK);
    must(zt_evolution_divide(evolution, overlap, evolution) == ZT_OK && zt_evolution_species(evolution) > 0);
    zt_status status = zt_evolution_next(evolution);
    must(status == ZT_OK || status == ZT_EDATA || status == ZT_EUSAGE);
    zt_ctx_clear(ctx);
    for (int i = 0; i < population && status == ZT_OK; i++) {
        const zt_evolution_member *member = zt_evolution_member_at(evolution, i);
        must(member->first >= 0 && member->first < population && member->second < population && member->second != member->first);
        elites += member->elite;
    }
    must(elites <= zt_evolution_elites(evolution));
    return status == ZT_OK;
}

static void read_state(zt_ctx *ctx, const char *text, size_t size)
{
    zt_evolution *evolution = zt_evolution_of(ctx, "fuzz", text, size);
    must(evolution ? zt_ctx_status(ctx) == ZT_OK : zt_ctx_status(ctx) == ZT_EDATA);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_ctx_clear(ctx);
    if (evolution && go_on(ctx, evolution)) {
        zt_str out;
        zt_str_init(&out, ctx);
        must(zt_evolution_put(evolution, &out) == ZT_OK);
        zt_evolution *again = zt_evolution_of(ctx, "again", out.data, out.len);
        must(again && zt_evolution_generation(again) == zt_evolution_generation(evolution));
        zt_evolution_free(again);
        zt_str_fini(&out);
    }
    zt_evolution_free(evolution);
}

/* ---- recipes --------------------------------------------------------------------------------- */

static const zt_gene_range ranges[] = {{"weight", 0, 1}, {"density", 0.05, 1}, {"t", 0, 1}};

static zt_recipe_genome *read_genome(zt_ctx *ctx, const char *text, size_t size, int groups)
{
    zt_recipe_genome *genome = zt_recipe_genome_of(ctx, "fuzz", text, size, ranges, 3, groups);
    zt_status status = zt_ctx_status(ctx);
    must(genome ? status == ZT_OK && zt_recipe_genome_count(genome) > 0 : status == ZT_EDATA || status == ZT_ENOTSUP);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_ctx_clear(ctx);
    return genome;
}

static void read_recipe(zt_ctx *ctx, const char *text, size_t size)
{
    zt_recipe_genome *genome = read_genome(ctx, text, size, 3), *again = NULL;
    zt_str out;
    zt_str_init(&out, ctx);
    for (int i = 0; genome && i < zt_recipe_genome_count(genome); i++) {
        const zt_gene_range *range = zt_recipe_genome_range(genome, i);
        must(zt_recipe_genome_set(genome, i, i * 0.1) == ZT_OK);
        must(zt_recipe_genome_get(genome, i) >= range->low && zt_recipe_genome_get(genome, i) <= range->high);
    }
    if (genome && zt_recipe_genome_put(genome, &out) == ZT_OK) again = read_genome(ctx, out.data, out.len, 1);
    if (again) must(zt_recipe_genome_overlap(genome, again) > 0.999999);
    zt_str_fini(&out);
    zt_recipe_genome_free(again);
    zt_recipe_genome_free(genome);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    read_state(ctx, (const char *)bytes, count);
    read_recipe(ctx, (const char *)bytes, count);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
