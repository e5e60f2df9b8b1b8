/* evolve_run.c - the directory of a run: its lock, its state, its files. */
#include "tools/zt-dna/evolve_run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_BYTES = 1 << 26, LONGEST_FOLDER = DNA_PATH - 64 };

/* ---- files ----------------------------------------------------------------------------------- */

const char *dna_run_path(const evolve_run *run, const char *name, char path[DNA_PATH])
{
    snprintf(path, DNA_PATH, "%.*s/%s", LONGEST_FOLDER, run->folder, name);
    return path;
}

const char *dna_member_path(const evolve_run *run, int generation, int member, const char *suffix, char path[DNA_PATH])
{
    snprintf(path, DNA_PATH, "%.*s/gen/%04d/%03d.%s", LONGEST_FOLDER, run->folder, generation, member, suffix);
    return path;
}

static const char *generation_path(const evolve_run *run, int generation, char path[DNA_PATH])
{
    snprintf(path, DNA_PATH, "%.*s/gen/%04d", LONGEST_FOLDER, run->folder, generation);
    return path;
}

zt_status dna_make_folder(const evolve_run *run, const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))) return ZT_OK;
    return zt_fail(run->cli->ctx, ZT_ECREATE, "%s: %s", path, errno == EEXIST ? "not a directory" : strerror(errno));
}

/* Only files that evolve names so: 012.json, 012.score, scores. */
static bool is_member_file(const char *name)
{
    static const char *const suffixes[] = {".json", ".score"};
    size_t digits = strspn(name, "0123456789");
    bool known = !strcmp(name, "scores");
    for (size_t i = 0; digits >= 3 && i < sizeof suffixes / sizeof *suffixes; i++)
        known = known || !strcmp(name + digits, suffixes[i]);
    return known;
}

static void remove_members(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (is_member_file(entry->d_name)) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    rmdir(path);
}

void dna_remove_generation(const evolve_run *run, int generation)
{
    char path[DNA_PATH];
    if (generation >= 0) remove_members(generation_path(run, generation, path));
}

/* All generations of a run that is replaced. */
static void remove_generations(const evolve_run *run)
{
    char path[DNA_PATH], inner[2 * DNA_PATH];
    DIR *folder = opendir(dna_run_path(run, "gen", path));
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t digits = strspn(entry->d_name, "0123456789");
        if (digits < 4 || entry->d_name[digits]) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        remove_members(inner);
    }
    if (folder) closedir(folder);
}

zt_status dna_put_file(const evolve_run *run, const char *path, const zt_str *text)
{
    return zt_sink_put_file(run->cli->ctx, path, true, text->data, text->len);
}

/* Bytes of the first `most` whole lines; -1: an I/O error. */
static off_t find_lines_end(int descriptor, int most)
{
    char buffer[1 << 14];
    off_t at = 0, end = 0;
    for (int lines = 0; lines != most;) {
        ssize_t got = pread(descriptor, buffer, sizeof buffer, at);
        if (got <= 0) return got < 0 ? -1 : end;
        for (ssize_t i = 0; i < got && lines != most; i++)
            if (buffer[i] == '\n') {
                end = at + i + 1;
                lines++;
            }
        at += got;
    }
    return end;
}

int dna_open_lines(const evolve_run *run, const char *path, int most)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    off_t end = descriptor < 0 ? -1 : find_lines_end(descriptor, most);
    if (end >= 0 && ftruncate(descriptor, end) == 0) return descriptor;
    zt_fail(run->cli->ctx, descriptor < 0 ? ZT_ECREATE : ZT_EIO, "%s: %s", path, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return -1;
}

zt_status dna_append_line(const evolve_run *run, int descriptor, const char *path, const zt_str *line)
{
    ssize_t written = write(descriptor, line->data, line->len);
    if (written == (ssize_t)line->len) return ZT_OK;
    return zt_fail(run->cli->ctx, ZT_EIO, "%s: %s", path, written < 0 ? strerror(errno) : strerror(ENOSPC));
}

zt_status dna_copy_file(const evolve_run *run, const char *from, const char *to)
{
    zt_source *source = zt_source_open(run->cli->ctx, from);
    zt_sink *sink = source ? zt_sink_open(run->cli->ctx, to, true) : NULL;
    zt_status status = sink ? zt_sink_copy(sink, source, 0, zt_source_size(source)) : zt_ctx_status(run->cli->ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_source_close(source);
    return status;
}

/* ---- state ----------------------------------------------------------------------------------- */

static void put_operands(const evolve_run *run, zt_str *text)
{
    zt_str_puts(text, ",\n\"operands\":[");
    for (int i = 0; i < run->operand_count; i++) {
        if (i) zt_str_putc(text, ',');
        zt_str_put_json(text, run->operands[i], strlen(run->operands[i]));
    }
    zt_str_putc(text, ']');
}

zt_status dna_run_save(evolve_run *run)
{
    char path[DNA_PATH];
    zt_str text;
    zt_str_init(&text, run->cli->ctx);
    zt_str_puts(&text, "{\"schema\":\"zt.dna.evolve/1\",\"options\":");
    zt_status status = dna_settings_put(run, &text);
    put_operands(run, &text);
    if (run->champion.member >= 0) zt_str_printf(&text, ",\n\"champion_hash\":\"%016" PRIx64 "\"", run->champion_hash);
    zt_str_puts(&text, ",\n\"evolution\":");
    if (status == ZT_OK) status = zt_evolution_put(run->evolution, &text);
    if (status == ZT_OK) status = zt_str_puts(&text, "}\n");
    zt_ctx_durable(run->cli->ctx, true);
    if (status == ZT_OK) status = dna_put_file(run, dna_run_path(run, "state.json", path), &text);
    zt_ctx_durable(run->cli->ctx, false);
    zt_str_fini(&text);
    run->saved = run->saved || status == ZT_OK;
    return status;
}

zt_status dna_fail_state(const evolve_run *run, const char *what)
{
    return zt_fail(run->cli->ctx, ZT_EDATA, "%s/state.json: not a state of zt-dna evolve: %s", run->folder, what);
}

static zt_status take_operands(evolve_run *run, char **operands, int count, const json_t *list)
{
    int kept = (int)json_array_size(list);
    if (kept < 1) return dna_fail_state(run, "operands");
    run->operands = zt_arena_alloc(run->texts, (size_t)kept * sizeof *run->operands);
    if (!run->operands) return ZT_ENOMEM;
    for (int i = 0; i < kept; i++) {
        const char *name = json_string_value(json_array_get(list, (size_t)i));
        if (!name) return dna_fail_state(run, "operands");
        if (count && (kept != count || strcmp(operands[i], name)))
            return zt_fail(run->cli->ctx, ZT_EUSAGE, "the run in %s began with other operands", run->folder);
        run->operands[i] = zt_arena_strndup(run->texts, name, strlen(name));
        if (!run->operands[i]) return ZT_ENOMEM;
    }
    run->operand_count = kept;
    return ZT_OK;
}

static zt_status take_evolution(evolve_run *run, const json_t *object)
{
    char *text = json_dumps(object, JSON_REAL_PRECISION(17) | JSON_COMPACT);
    if (!text) return dna_fail_state(run, "evolution");
    run->evolution = zt_evolution_of(run->cli->ctx, run->folder, text, strlen(text));
    free(text);
    if (!run->evolution) return zt_ctx_status(run->cli->ctx);
    return zt_evolution_settings_of(run->evolution)->population == run->options.population ? ZT_OK
                                                                                           : dna_fail_state(run, "population");
}

/* 16 hex digits; a state of an earlier version has none. */
static zt_status take_hash(evolve_run *run, const json_t *value)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!value) return ZT_OK;
    bool good = text && strspn(text, "0123456789abcdef") == 16;
    if (good) run->champion_hash = strtoull(text, &end, 16);
    run->champion_hashed = good && !*end;
    return run->champion_hashed ? ZT_OK : dna_fail_state(run, "champion_hash");
}

static zt_status load_run(evolve_run *run, char **operands, int count)
{
    char path[DNA_PATH];
    struct stat info;
    size_t size = 0;
    dna_run_path(run, "state.json", path);
    if (stat(path, &info) == 0 && info.st_size > STATE_BYTES) return dna_fail_state(run, "too large");
    char *text = zt_read_all(run->cli->ctx, path, &size);
    if (!text) return zt_ctx_status(run->cli->ctx);
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    zt_status status = ZT_OK;
    if (!root)
        status = json_error_code(&error) == json_error_out_of_memory
                     ? zt_fail(run->cli->ctx, ZT_ENOMEM, "%s: out of memory", path)
                     : dna_fail_state(run, "not JSON");
    if (status == ZT_OK) status = dna_settings_take(run, json_object_get(root, "options"));
    if (status == ZT_OK) status = take_operands(run, operands, count, json_object_get(root, "operands"));
    if (status == ZT_OK) status = take_evolution(run, json_object_get(root, "evolution"));
    if (status == ZT_OK) status = take_hash(run, json_object_get(root, "champion_hash"));
    json_decref(root);
    zt_free(run->cli->ctx, text);
    return status;
}

static zt_status begin_run(evolve_run *run, char **operands, int count)
{
    const dna_options *options = &run->options;
    zt_evolution_settings settings = {.population = (int)options->population,
                                      .elites = (int)options->elites,
                                      .crossover_rate = options->crossover,
                                      .survivors = options->survivors,
                                      .species_overlap = options->species,
                                      .species_limit = (int)options->species_limit,
                                      .stagnation = (int)options->stagnation,
                                      .minimize = options->minimize,
                                      .seed = run->cli->seed};
    if (count < 1) return zt_fail(run->cli->ctx, ZT_EUSAGE, "evolve: no network or recipe to begin with");
    if (options->elites >= options->population)
        return zt_fail(run->cli->ctx, ZT_EUSAGE, "option '--elites': %" PRId64 " of a population of %" PRId64 ": must be fewer",
                       options->elites, options->population);
    run->operands = zt_arena_alloc(run->texts, (size_t)count * sizeof *run->operands);
    if (!run->operands) return ZT_ENOMEM;
    for (int i = 0; i < count; i++) run->operands[i] = operands[i];
    run->operand_count = count;
    run->evolution = zt_evolution_new(run->cli->ctx, &settings);
    return run->evolution ? ZT_OK : zt_ctx_status(run->cli->ctx);
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status lock_folder(evolve_run *run)
{
    char path[DNA_PATH];
    run->lock = open(dna_run_path(run, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (run->lock < 0) return zt_fail(run->cli->ctx, ZT_ECREATE, "%s: %s", path, strerror(errno));
    if (flock(run->lock, LOCK_EX | LOCK_NB) == 0) return ZT_OK;
    close(run->lock);
    run->lock = -1;
    return zt_fail(run->cli->ctx, ZT_ECREATE, "%s: another zt-dna evolve works in this directory", run->folder);
}

/* A run that is there: resumed, replaced, or refused. */
static zt_status enter_folder(evolve_run *run, char **operands, int count)
{
    char path[DNA_PATH];
    bool there = access(dna_run_path(run, "state.json", path), F_OK) == 0;
    run->saved = there;
    if (there && run->options.resume) return load_run(run, operands, count);
    if (there && !run->cli->force) /* and stays */
        return zt_fail(run->cli->ctx, ZT_ECREATE, "%s: a run is there already: go on with --resume, or replace it with --force",
                       run->folder);
    zt_status status = begin_run(run, operands, count);
    if (status != ZT_OK) return status;
    run->saved = false;
    unlink(path);
    unlink(dna_run_path(run, "champion.json", path));
    unlink(dna_run_path(run, "generations.ndjson", path));
    unlink(dna_run_path(run, "pending", path));
    remove_generations(run);
    return ZT_OK;
}

/* The lines of generations that are complete stay. */
static zt_status open_lines(evolve_run *run)
{
    char path[DNA_PATH];
    dna_run_path(run, "generations.ndjson", path);
    run->lines = dna_open_lines(run, path, zt_evolution_generation(run->evolution));
    return run->lines < 0 ? zt_ctx_status(run->cli->ctx) : ZT_OK;
}

zt_status dna_run_open(evolve_run *run, char **operands, int count)
{
    char path[DNA_PATH];
    zt_cli *cli = run->cli;
    if (!cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "no directory: specify one with -o DIR");
    if (!strcmp(cli->output, "-")) return zt_fail(cli->ctx, ZT_EUSAGE, "option '--output': evolve needs a directory, not stdout");
    if (strlen(cli->output) > LONGEST_FOLDER) return zt_fail(cli->ctx, ZT_EUSAGE, "option '--output': the name is too long");
    run->folder = cli->output;
    zt_ctx_durable(cli->ctx, false);
    run->texts = zt_arena_new(cli->ctx, 0);
    run->made = access(run->folder, F_OK) != 0;
    zt_status status = run->texts ? dna_make_folder(run, run->folder) : ZT_ENOMEM;
    if (status == ZT_OK) status = lock_folder(run);
    if (status == ZT_OK) status = enter_folder(run, operands, count);
    if (status == ZT_OK) status = dna_make_folder(run, dna_run_path(run, "gen", path));
    if (status == ZT_OK) status = open_lines(run);
    if (status == ZT_OK) run->scores = zt_calloc(cli->ctx, (size_t)run->options.population, sizeof *run->scores);
    if (status == ZT_OK && !run->scores) status = ZT_ENOMEM;
    bool recipes = status == ZT_OK && dna_is_recipe(cli, run->operands[0]);
    if (status == ZT_OK) status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK)
        run->genome = (recipes ? dna_recipe_genome : dna_network_genome)(cli, &run->options, run->operands, run->operand_count);
    return status == ZT_OK && !run->genome ? zt_ctx_status(cli->ctx) : status;
}

/* Nothing is left of a run that failed before its first state was written. */
static void remove_unsaved(const evolve_run *run)
{
    char path[DNA_PATH];
    dna_remove_generation(run, 0);
    rmdir(dna_run_path(run, "gen", path));
    unlink(dna_run_path(run, "generations.ndjson", path));
    unlink(dna_run_path(run, "lock", path));
    if (run->made) rmdir(run->folder);
}

void dna_run_close(evolve_run *run)
{
    if (run->lock >= 0 && !run->saved) remove_unsaved(run);
    if (run->genome) run->genome->close(run->genome);
    if (run->scorer) run->scorer->close(run->scorer);
    dna_scores_close(run);
    if (run->lines >= 0) close(run->lines);
    zt_free(run->cli->ctx, run->scores);
    zt_evolution_free(run->evolution);
    zt_arena_free(run->texts);
    if (run->lock >= 0) close(run->lock);
}
