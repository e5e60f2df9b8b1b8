/* evolve.c - zt-dna evolve: generation after generation of a population. */
#include "tools/zt-dna/evolve_run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 3, LISTED = 10 }; /* failures of a generation on stderr, and in its line */

static int count_members(const evolve_run *run) { return zt_evolution_settings_of(run->evolution)->population; }
static int generation_of(const evolve_run *run) { return zt_evolution_generation(run->evolution); }

/* Is there a file, and not an empty one as after a power failure? */
static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0;
}

static zt_status check_interrupt(const evolve_run *run)
{
    return zt_cli_interrupted() ? zt_fail(run->cli->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status make_elite(const evolve_run *run, const char *from, const char *path)
{
    unlink(path);
    return link(from, path) == 0 ? ZT_OK : dna_copy_file(run, from, path); /* a file system without links */
}

static zt_status make_member(evolve_run *run, int index, bool again)
{
    char path[DNA_PATH], a[DNA_PATH], b[DNA_PATH];
    int generation = generation_of(run);
    const zt_evolution_member *member = zt_evolution_member_at(run->evolution, index);
    uint64_t seed = zt_evolution_seed(run->evolution, index);
    dna_member_path(run, generation, index, run->genome->suffix, path);
    if (is_file(path) && !again) return ZT_OK;
    if (generation == 0) return run->genome->first(run->genome, index, seed, path);
    dna_member_path(run, generation - 1, member->first, run->genome->suffix, a);
    dna_member_path(run, generation - 1, member->second, run->genome->suffix, b);
    if (member->elite) return make_elite(run, a, path);
    return run->genome->breed(run->genome, member, a, member->second < 0 ? NULL : b, seed, path);
}

static zt_status make_members(evolve_run *run)
{
    char path[DNA_PATH];
    snprintf(path, sizeof path, "%s/gen/%04d", run->folder, generation_of(run));
    zt_status status = dna_make_folder(run, path);
    for (int i = 0; i < count_members(run) && status == ZT_OK; i++) {
        status = make_member(run, i, false);
        if (status == ZT_OK) status = check_interrupt(run);
    }
    return status;
}

/* The first time after --resume, members without a score are made again: a file that was there may be damaged. Not where others
 * measure, who may be reading it. */
static zt_status renew_members(evolve_run *run)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < count_members(run) && run->renews && status == ZT_OK; i++)
        if (!zt_evolution_member_at(run->evolution, i)->scored) status = make_member(run, i, true);
    run->renews = false;
    return status;
}

/* ---- scores ---------------------------------------------------------------------------------- */

static zt_status take_score(evolve_run *run, int member, const dna_score *score)
{
    bool valid = score->kind == DNA_SCORE_VALID;
    run->scores[member] = *score;
    zt_status status = zt_evolution_score(run->evolution, member, valid, score->fitness);
    return status == ZT_OK && valid ? dna_champion_consider(run, member, score->fitness) : status;
}

static zt_status on_scored(void *user, int member, const dna_score *score)
{
    evolve_run *run = user;
    zt_status status = dna_scores_add(run, member, score);
    if (status == ZT_OK) status = take_score(run, member, score);
    if (score->kind != DNA_SCORE_VALID && run->shown++ < SHOWN)
        zt_cli_note(run->cli, "generation %d, member %d: %s%s", generation_of(run), member, score->reason,
                    run->shown == SHOWN ? " (further failures of this generation are only counted)" : "");
    zt_progress(run->cli, &(zt_work){"evolve", NULL, "members", ++run->done, run->total});
    return status;
}

/* The members that have no score yet; *count of them. From zt_alloc, with the paths behind. */
static dna_job *list_jobs(const evolve_run *run, int *count)
{
    int members = count_members(run);
    dna_job *jobs = zt_alloc_array(run->cli->ctx, (size_t)members, sizeof *jobs);
    *count = 0;
    for (int i = 0; jobs && i < members; i++) {
        char path[DNA_PATH];
        if (zt_evolution_member_at(run->evolution, i)->scored) continue;
        dna_member_path(run, generation_of(run), i, run->genome->suffix, path);
        jobs[(*count)++] = (dna_job){i, zt_strdup(run->cli->ctx, path)};
    }
    return jobs;
}

static void free_jobs(const evolve_run *run, dna_job *jobs, int count)
{
    for (int i = 0; jobs && i < count; i++) zt_free(run->cli->ctx, (char *)jobs[i].path);
    zt_free(run->cli->ctx, jobs);
}

/* Without a command others measure: the members without a score, a line each. */
static zt_status write_pending(const evolve_run *run, const dna_job *jobs, int count)
{
    char path[DNA_PATH];
    zt_str text;
    zt_str_init(&text, run->cli->ctx);
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) status = zt_str_printf(&text, "%s\n", jobs[i].path);
    if (status == ZT_OK) status = dna_put_file(run, dna_run_path(run, "pending", path), &text);
    zt_str_fini(&text);
    return status;
}

/* *complete: all members have a score. */
static zt_status score_members(evolve_run *run, bool *complete)
{
    int count = 0;
    dna_job *jobs = list_jobs(run, &count);
    zt_status status = jobs ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < count; i++)
        if (!jobs[i].path) status = ZT_ENOMEM;
    run->done = 0;
    run->total = count;
    *complete = count == 0 || run->scorer;
    if (status == ZT_OK && !run->scorer) status = write_pending(run, jobs, count);
    if (status == ZT_OK && count && run->scorer) status = run->scorer->score(run->scorer, jobs, count, on_scored, run);
    free_jobs(run, jobs, count);
    return status;
}

/* ---- the line of a generation ---------------------------------------------------------------- */

static void put_number(zt_str *out, const char *key, double value)
{
    zt_str_printf(out, ",\"%s\":", key);
    if (isfinite(value))
        zt_str_put_double(out, value);
    else
        zt_str_puts(out, "null");
}

static void put_fitness(const evolve_run *run, zt_str *line)
{
    double best = NAN, worst = NAN, sum = 0;
    int valid = 0;
    for (int i = 0; i < count_members(run); i++) {
        const zt_evolution_member *member = zt_evolution_member_at(run->evolution, i);
        if (!member->valid) continue;
        if (!valid || zt_evolution_better(run->evolution, member->fitness, best)) best = member->fitness;
        if (!valid || zt_evolution_better(run->evolution, worst, member->fitness)) worst = member->fitness;
        sum += member->fitness;
        valid++;
    }
    put_number(line, "best", best);
    put_number(line, "mean", valid ? sum / valid : NAN);
    put_number(line, "worst", worst);
}

/* How many failed, and the first of them. */
static void put_failures(const evolve_run *run, zt_str *line)
{
    int counts[DNA_SCORE_KINDS] = {0}, listed = 0;
    for (int i = 0; i < count_members(run); i++)
        if (!zt_evolution_member_at(run->evolution, i)->elite) counts[run->scores[i].kind]++;
    zt_str_printf(line, ",\"failed\":%d,\"timeout\":%d,\"invalid\":%d,\"failures\":[", counts[DNA_SCORE_FAILED],
                  counts[DNA_SCORE_TIMEOUT], counts[DNA_SCORE_INVALID]);
    for (int i = 0; i < count_members(run) && listed < LISTED; i++) {
        const dna_score *score = &run->scores[i];
        if (zt_evolution_member_at(run->evolution, i)->elite || score->kind == DNA_SCORE_VALID) continue;
        zt_str_printf(line, "%s{\"member\":%d,\"reason\":", listed++ ? "," : "", i);
        zt_str_put_json(line, score->reason, strlen(score->reason));
        zt_str_putc(line, '}');
    }
    zt_str_putc(line, ']');
}

static zt_status put_line(const evolve_run *run, zt_str *line)
{
    zt_evolution_champion champion = zt_evolution_champion_of(run->evolution);
    zt_str_printf(line, "{\"schema\":\"zt.dna.evolve/1\",\"generation\":%d", generation_of(run));
    put_fitness(run, line);
    zt_str_puts(line, ",\"champion\":");
    if (champion.member < 0) {
        zt_str_puts(line, "null");
    } else {
        zt_str_printf(line, "{\"generation\":%d,\"member\":%d", champion.generation, champion.member);
        put_number(line, "fitness", champion.fitness);
        zt_str_putc(line, '}');
    }
    zt_str_printf(line, ",\"species\":%d,\"evaluations\":%" PRId64, zt_evolution_species(run->evolution),
                  zt_evolution_count(run->evolution, false));
    put_failures(run, line);
    return zt_str_puts(line, "}\n");
}

static zt_status keep_line(const evolve_run *run, const zt_str *line)
{
    char path[DNA_PATH];
    return dna_append_line(run, run->lines, dna_run_path(run, "generations.ndjson", path), line);
}

/* ---- generations ----------------------------------------------------------------------------- */

static zt_status find_overlap(void *user, int index, int of, bool before, double *overlap)
{
    evolve_run *run = user;
    char a[DNA_PATH], b[DNA_PATH];
    int generation = generation_of(run);
    dna_member_path(run, generation, index, run->genome->suffix, a);
    dna_member_path(run, before ? generation - 1 : generation, of, run->genome->suffix, b);
    return run->genome->overlap(run->genome, a, b, overlap);
}

/* All members have scores: the champion, the line, and the plan of the next generation, which is the state from here on. */
static zt_status end_generation(evolve_run *run)
{
    zt_str line;
    zt_str_init(&line, run->cli->ctx);
    int generation = generation_of(run);
    zt_status status = zt_evolution_divide(run->evolution, find_overlap, run);
    if (status == ZT_OK) status = dna_champion_settle(run);
    if (status == ZT_OK) status = put_line(run, &line);
    if (status == ZT_OK) status = keep_line(run, &line);
    if (status == ZT_OK) status = zt_evolution_next(run->evolution);
    if (status == ZT_OK) status = dna_run_save(run);
    if (status == ZT_OK) status = zt_cli_write(run->cli, line.data, line.len);
    if (status == ZT_OK) status = zt_cli_flush(run->cli);
    if (status == ZT_OK && !run->options.keep) dna_remove_generation(run, generation - 1);
    run->shown = 0;
    zt_str_fini(&line);
    return status;
}

/* Has the champion reached --target? */
static bool reached(const evolve_run *run)
{
    zt_evolution_champion champion = zt_evolution_champion_of(run->evolution);
    if (!zt_cli_given(run->cli, "target") || champion.member < 0) return false;
    return !zt_evolution_better(run->evolution, run->options.target, champion.fitness);
}

/* *complete: all members were measured. */
static zt_status run_generation(evolve_run *run, bool *complete)
{
    int generation = generation_of(run);
    double begin = zt_seconds();
    zt_status status = make_members(run);
    if (status == ZT_OK && !run->saved) status = dna_run_save(run);
    if (status == ZT_OK) status = dna_scores_read(run, take_score);
    if (status == ZT_OK) status = dna_champion_check(run);
    if (status == ZT_OK) status = renew_members(run);
    double made = zt_seconds();
    if (status == ZT_OK) status = score_members(run, complete);
    double measured = zt_seconds();
    if (status == ZT_OK && *complete) status = end_generation(run);
    if (status == ZT_OK && run->cli->verbose)
        zt_cli_note(run->cli, "generation %d: %.3f s for the members, %.3f s for their fitness, %.3f s for the next plan",
                    generation, made - begin, measured - made, zt_seconds() - measured);
    return status;
}

static zt_status run_generations(evolve_run *run)
{
    zt_status status = ZT_OK;
    bool complete = true;
    while (status == ZT_OK && complete && generation_of(run) < run->options.generations && !reached(run))
        status = run_generation(run, &complete);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static zt_status open_scorer(evolve_run *run)
{
    zt_cli *cli = run->cli;
    const dna_options *options = &run->options;
    if (!options->fitness) return cli->ranks ? zt_cli_refuse_ranks(cli, "evolve without --fitness") : ZT_OK;
    dna_command_opts command = {.command = options->fitness, .workers = (int)options->jobs, .timeout = options->timeout};
    run->scorer = cli->ranks ? dna_ranks_scorer(cli, &command) : dna_command_scorer(cli, &command);
    return run->scorer ? ZT_OK : zt_ctx_status(cli->ctx);
}

/* Without --fitness: what is left to measure. Exit status 1 if nothing was gained since the last call. */
static void report_pending(evolve_run *run, int evaluations)
{
    char path[DNA_PATH];
    dna_run_path(run, "pending", path);
    if (!run->total) return;
    zt_cli_note(run->cli, "generation %d: %d members without a score: %s", generation_of(run), run->total, path);
    if (run->options.resume && zt_evolution_count(run->evolution, false) == evaluations) zt_cli_no(run->cli);
}

static zt_status finish(evolve_run *run, int evaluations)
{
    char path[DNA_PATH];
    zt_str nothing;
    bool over = reached(run) || generation_of(run) >= run->options.generations;
    if (!run->scorer && !over) {
        report_pending(run, evaluations);
        return ZT_OK;
    }
    if (zt_cli_given(run->cli, "target") && !reached(run)) zt_cli_no(run->cli);
    if (run->scorer) return ZT_OK;
    zt_str_init(&nothing, run->cli->ctx);
    return dna_put_file(run, dna_run_path(run, "pending", path), &nothing);
}

zt_status dna_evolve(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    evolve_run run = {.cli = cli, .options = *options, .lock = -1, .lines = -1, .score_lines = -1, .champion = {-1, -1, 0}};
    zt_status status = zt_cli_join(cli);
    if (status == ZT_OK && zt_ranks_own(cli->ranks)) return dna_score_work(cli);
    if (status == ZT_OK) status = dna_run_open(&run, operands, count);
    int evaluations = status == ZT_OK ? (int)zt_evolution_count(run.evolution, false) : 0;
    if (status == ZT_OK) run.champion = zt_evolution_champion_of(run.evolution);
    if (status == ZT_OK) status = dna_champion_restore(&run);
    if (status == ZT_OK) status = open_scorer(&run);
    run.renews = run.scorer && run.saved;
    if (status == ZT_OK) status = run_generations(&run);
    if (status == ZT_OK) status = dna_champion_check(&run);
    if (status == ZT_OK) status = finish(&run, evaluations);
    dna_run_close(&run);
    return status;
}
