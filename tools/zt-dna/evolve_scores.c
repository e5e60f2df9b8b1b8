/* evolve_scores.c - the scores of a generation as files, which a run that is resumed reads. */
#include "tools/zt-dna/evolve_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCORE_BYTES = 1024 };

static const char *scores_path(const evolve_run *run, char path[DNA_PATH])
{
    char name[64];
    snprintf(name, sizeof name, "gen/%04d/scores", zt_evolution_generation(run->evolution));
    return dna_run_path(run, name, path);
}

static bool has_score(const evolve_run *run, int member)
{
    const zt_evolution_member *about = zt_evolution_member_at(run->evolution, member);
    return !about || about->scored;
}

/* "12 3.5" */
static zt_status read_line(evolve_run *run, const char *line, size_t size, dna_found_fn *found)
{
    char *rest = NULL;
    dna_score score;
    long member = size && *line >= '0' && *line <= '9' ? strtol(line, &rest, 10) : -1;
    if (!rest || *rest != ' ' || member > INT32_MAX || has_score(run, (int)member)) return ZT_OK;
    dna_score_read(rest, size - (size_t)(rest - line), &score);
    return found(run, (int)member, &score);
}

static zt_status read_lines(evolve_run *run, const char *path, dna_found_fn *found)
{
    size_t size = 0;
    char *text = zt_read_all(run->cli->ctx, path, &size);
    zt_status status = text ? ZT_OK : zt_ctx_status(run->cli->ctx);
    for (char *line = text, *end; line && status == ZT_OK && (end = memchr(line, '\n', size - (size_t)(line - text)));
         line = end + 1)
        status = read_line(run, line, (size_t)(end - line), found);
    zt_free(run->cli->ctx, text);
    return status;
}

/* The score of one member, from others. */
static zt_status read_file(evolve_run *run, int member, dna_found_fn *found)
{
    char path[DNA_PATH], text[SCORE_BYTES];
    struct stat info;
    size_t size = 0;
    dna_score score;
    dna_member_path(run, zt_evolution_generation(run->evolution), member, "score", path);
    if (has_score(run, member) || stat(path, &info) || info.st_size == 0) return ZT_OK;
    zt_source *source = zt_source_open(run->cli->ctx, path);
    zt_status status = source ? zt_source_read_some(source, 0, text, sizeof text, 0, &size) : zt_ctx_status(run->cli->ctx);
    zt_source_close(source);
    if (status != ZT_OK) return status;
    dna_score_read(text, size, &score);
    return found(run, member, &score);
}

zt_status dna_scores_read(evolve_run *run, dna_found_fn *found)
{
    char path[DNA_PATH];
    scores_path(run, path);
    dna_scores_close(run);
    run->score_lines = dna_open_lines(run, path, -1);
    zt_status status = run->score_lines >= 0 ? read_lines(run, path, found) : zt_ctx_status(run->cli->ctx);
    for (int i = 0; i < run->options.population && status == ZT_OK; i++) status = read_file(run, i, found);
    return status;
}

zt_status dna_scores_add(evolve_run *run, int member, const dna_score *score)
{
    char path[DNA_PATH];
    zt_str line;
    zt_str_init(&line, run->cli->ctx);
    zt_str_printf(&line, "%d ", member);
    zt_status status = dna_score_put(score, &line);
    if (status == ZT_OK) status = dna_append_line(run, run->score_lines, scores_path(run, path), &line);
    zt_str_fini(&line);
    return status;
}

void dna_scores_close(evolve_run *run)
{
    if (run->score_lines >= 0) close(run->score_lines);
    run->score_lines = -1;
}
