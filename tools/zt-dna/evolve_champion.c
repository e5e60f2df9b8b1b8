/* evolve_champion.c - owns DIR/champion.json: the file of the best member so far. The state has its hash, so that a run that is
 * resumed finds a damaged file, and takes it from an elite again. */
#include "tools/zt-dna/evolve_run.h"

#include <stdio.h>
#include <xxhash.h>

static const char *champion_path(const evolve_run *run, char path[DNA_PATH]) { return dna_run_path(run, "champion.json", path); }

/* false: it cannot be read. */
static bool hash_file(const evolve_run *run, const char *path, uint64_t *hash)
{
    size_t size = 0;
    char *text = zt_read_all(run->cli->ctx, path, &size);
    *hash = text ? XXH64(text, size, 0) : 0;
    zt_free(run->cli->ctx, text);
    return text != NULL;
}

static zt_status write_champion(evolve_run *run, zt_evolution_champion champion, bool durable)
{
    char from[DNA_PATH], to[DNA_PATH];
    dna_member_path(run, champion.generation, champion.member, run->genome->suffix, from);
    zt_ctx_durable(run->cli->ctx, durable);
    zt_status status = dna_copy_file(run, from, champion_path(run, to));
    zt_ctx_durable(run->cli->ctx, false);
    if (status == ZT_OK && !hash_file(run, to, &run->champion_hash)) status = zt_ctx_status(run->cli->ctx);
    run->champion = champion;
    run->champion_settled = status == ZT_OK && durable;
    run->champion_lost = false;
    return status;
}

zt_status dna_champion_consider(evolve_run *run, int member, double fitness)
{
    bool better = run->champion.member < 0 || zt_evolution_better(run->evolution, fitness, run->champion.fitness);
    int generation = zt_evolution_generation(run->evolution);
    return better ? write_champion(run, (zt_evolution_champion){generation, member, fitness}, false) : ZT_OK;
}

zt_status dna_champion_settle(evolve_run *run)
{
    zt_evolution_champion best = zt_evolution_champion_of(run->evolution);
    if (best.member < 0 || best.generation < zt_evolution_generation(run->evolution)) return ZT_OK;
    return run->champion_settled ? ZT_OK : write_champion(run, best, true);
}

/* ---- a run that is resumed ------------------------------------------------------------------- */

/* Has the file the hash of the champion? It then becomes the champion's again. */
static zt_status try_copy(const evolve_run *run, int generation, int member, bool *found)
{
    char from[DNA_PATH], to[DNA_PATH];
    uint64_t hash;
    if (*found || generation < 0) return ZT_OK;
    dna_member_path(run, generation, member, run->genome->suffix, from);
    *found = hash_file(run, from, &hash) && hash == run->champion_hash;
    if (zt_ctx_status(run->cli->ctx) == ZT_ENOMEM) return ZT_ENOMEM;
    zt_ctx_clear(run->cli->ctx); /* a member that is not there */
    return *found ? dna_copy_file(run, from, champion_path(run, to)) : ZT_OK;
}

zt_status dna_champion_restore(evolve_run *run)
{
    char path[DNA_PATH];
    uint64_t hash;
    bool found = false;
    int generation = zt_evolution_generation(run->evolution);
    if (run->champion.member < 0) return ZT_OK;
    bool there = hash_file(run, champion_path(run, path), &hash);
    if (zt_ctx_status(run->cli->ctx) == ZT_ENOMEM) return ZT_ENOMEM;
    zt_ctx_clear(run->cli->ctx);
    if (there && !run->champion_hashed) run->champion_hash = hash;
    if (there && hash == run->champion_hash) return ZT_OK;
    zt_status status = try_copy(run, run->champion.generation, run->champion.member, &found);
    for (int i = 0; i < run->options.population && status == ZT_OK && !found; i++) {
        const zt_evolution_member *member = zt_evolution_member_at(run->evolution, i);
        if (!member->elite) continue;
        status = try_copy(run, generation, i, &found);
        if (status == ZT_OK) status = try_copy(run, generation - 1, member->first, &found);
    }
    run->champion_lost = !found;
    if (found) zt_cli_note(run->cli, "%s: missing or damaged: restored from a copy of the member", path);
    return status;
}

zt_status dna_champion_check(const evolve_run *run)
{
    char path[DNA_PATH];
    if (!run->champion_lost) return ZT_OK;
    return zt_fail(run->cli->ctx, ZT_EDATA,
                   "%s: missing or damaged: expected member %d of generation %d, of which no copy is left",
                   champion_path(run, path), run->champion.member, run->champion.generation);
}
