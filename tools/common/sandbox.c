/* sandbox.c - the sandbox of a tool: what its options and operands open, and no more, by the field `opens` of the option table.
 * SECURITY.md lists what each keeps. */
#include "lib/base/sandbox.h"
#include "lib/run/auto.h"
#include "tools/common/internal.h"
#include "tools/common/subject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_COMPANIONS = 4096, MOST_LINKS = 40, MOST_TEMPORARIES = 16, OPENS_OF_DEVICE = 4 };
enum { SANDBOX_AUTO, SANDBOX_ON, SANDBOX_OFF };

#define READS   ZT_SANDBOX_READ
#define CREATES (ZT_SANDBOX_CREATE | ZT_SANDBOX_FOLDERS)
#define KEEPS   (READS | CREATES) /* of a directory */

/* The paths that are collected, in memory of `arena`. */
typedef struct sandbox_plan {
    zt_cli_state *state;
    zt_arena *arena;
    zt_sandbox_path *paths;
    int count, capacity, streams;
    unsigned keeps;
} sandbox_plan;

static bool is_mode(int mode, uint64_t modes) { return mode >= 0 && modes & ZT_IN(mode); }

/* ---- paths ----------------------------------------------------------------------------------- */

static zt_status add_path(sandbox_plan *plan, const char *path, size_t length, unsigned uses)
{
    zt_ctx *ctx = plan->state->cli.ctx;
    if (plan->count == plan->capacity) {
        int capacity = plan->capacity ? 2 * plan->capacity : 64;
        zt_sandbox_path *paths = zt_realloc(ctx, plan->paths, (size_t)capacity * sizeof *paths);
        if (!paths) return ZT_ENOMEM;
        plan->paths = paths;
        plan->capacity = capacity;
    }
    char *copy = zt_arena_strndup(plan->arena, path, length);
    if (!copy) return ZT_ENOMEM;
    plan->paths[plan->count++] = (zt_sandbox_path){copy, uses};
    if (uses & ~(unsigned)(READS | ZT_SANDBOX_EXECUTE)) plan->keeps |= ZT_SANDBOX_KEEP_WRITES;
    return ZT_OK;
}

static zt_status add(sandbox_plan *plan, const char *path, unsigned uses) { return add_path(plan, path, strlen(path), uses); }

/* The directory that a path is in. */
static zt_status add_parent(sandbox_plan *plan, const char *path, unsigned uses)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    const char *slash = memrchr(path, '/', length);
    return slash ? add_path(plan, path, (size_t)(slash - path) + 1, uses) : add(plan, ".", uses);
}

static zt_status add_in(sandbox_plan *plan, const char *folder, const char *name, unsigned uses)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path ? add(plan, path, uses) : ZT_OK;
}

/* ---- system ---------------------------------------------------------------------------------- */

/* What the C library, dlopen and the engines read: no files of users. */
static const zt_sandbox_path system_paths[] = {
    {"/lib", READS},
    {"/lib64", READS},
    {"/usr/lib", READS},
    {"/usr/lib64", READS},
    {"/usr/local/lib", READS},
    {"/etc/ld.so.cache", READS},
    {"/etc/localtime", READS},
    {"/usr/share/zoneinfo", READS},
    {"/usr/share/locale", READS},
    {"/proc/self", READS},
    {"/proc/meminfo", READS},
    {"/proc/cpuinfo", READS},
    {"/proc/stat", READS},
    {"/sys/devices/system", READS},
    {"/sys/fs/cgroup", READS},
    {"/dev/null", READS | ZT_SANDBOX_WRITE},
    {"/dev/zero", READS},
    {"/dev/urandom", READS},
};

/* The line editor: descriptions of terminals. */
static const zt_sandbox_path terminal_paths[] = {
    {"/usr/share/terminfo", READS}, {"/etc/terminfo", READS}, {"/usr/share/tabset", READS}};

/* RAPL: the links are in the first, their targets in the second. */
static const zt_sandbox_path energy_paths[] = {{"/sys/class/powercap", READS}, {"/sys/devices/virtual/powercap", READS}};

/* libcurl and the resolver. */
static const zt_sandbox_path client_paths[] = {{"/etc", READS},
                                               {"/usr/share/ca-certificates", READS},
                                               {"/usr/local/share/ca-certificates", READS},
                                               {"/run/systemd/resolve", READS}};

/* Drivers of GPUs: their libraries, settings, devices, and caches of compiled kernels. */
static const zt_sandbox_path device_paths[] = {
    {"/etc", READS},    {"/usr", READS}, {"/opt", READS},     {"/proc", READS},
    {"/sys", READS},    {"/run", READS}, {"/var/lib", READS}, {"/dev", ZT_SANDBOX_DEVICES},
    {"/dev/shm", KEEPS}};

/* The compilers that OpenCL's drivers start. */
static const zt_sandbox_path compiler_paths[] = {
    {"/usr", ZT_SANDBOX_EXECUTE}, {"/lib", ZT_SANDBOX_EXECUTE}, {"/lib64", ZT_SANDBOX_EXECUTE}, {"/opt", ZT_SANDBOX_EXECUTE}};

/* Open MPI: its settings and components, and the shared memory of ranks. */
static const zt_sandbox_path ranks_paths[] = {{"/etc", READS},     {"/usr", READS}, {"/opt", READS},
                                              {"/proc", READS},    {"/sys", READS}, {"/dev", ZT_SANDBOX_DEVICES},
                                              {"/dev/shm", KEEPS}, {"/tmp", KEEPS}};

#define ADD_ALL(plan, table) add_table(plan, table, sizeof table / sizeof *table)
static zt_status add_table(sandbox_plan *plan, const zt_sandbox_path *table, size_t count)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < count && !status; i++) status = add(plan, table[i].path, table[i].uses);
    return status;
}

/* The file that a variable of the environment names; of `folder`, with what is beside it. */
static zt_status add_named_by(sandbox_plan *plan, const char *variable, unsigned uses, bool folder)
{
    const char *path = getenv(variable);
    if (!path || !*path) return ZT_OK;
    return folder ? add_parent(plan, path, uses) : add(plan, path, uses);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *const *suffixes)
{
    size_t length = strlen(name);
    for (; *suffixes; suffixes++) {
        size_t suffix = strlen(*suffixes);
        if (length > suffix && !strcmp(name + length - suffix, *suffixes)) return true;
    }
    return false;
}

/* Files of a model, beside one of them. */
static const char *const model_suffixes[] = {".safetensors", ".gguf", ".json", ".model", ".bin", ".txt", ".jinja", NULL};
static const char *const several_suffixes[] = {".safetensors", ".json", ".bin", ".model", NULL};

/* Entries of a directory: all links, whose targets are elsewhere (Hugging Face's cache), or, for a file of a model, the others. */
static zt_status add_entries(sandbox_plan *plan, const char *folder, const char *const *suffixes, int depth)
{
    DIR *directory = opendir(*folder ? folder : ".");
    zt_status status = ZT_OK;
    const struct dirent *entry;
    for (int i = 0; directory && !status && i < MOST_COMPANIONS && (entry = readdir(directory)); i++) {
        if (*entry->d_name == '.') continue;
        bool wanted = suffixes ? ends_in(entry->d_name, suffixes) && entry->d_type != DT_DIR : entry->d_type == DT_LNK;
        if (wanted) status = add_in(plan, *folder ? folder : ".", entry->d_name, READS);
        char below[PATH_MAX];
        if (suffixes || entry->d_type != DT_DIR || !depth ||
            snprintf(below, sizeof below, "%s/%s", folder, entry->d_name) >= (int)sizeof below)
            continue;
        if (!status) status = add_entries(plan, below, NULL, depth - 1);
    }
    if (directory) closedir(directory);
    return status;
}

/* The other shards, and the index; what is beside files that refer to others. */
static zt_status add_companions(sandbox_plan *plan, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    if (!strstr(name, "-of-") && !ends_in(name, several_suffixes)) return ZT_OK;
    if ((size_t)(name - path) >= sizeof folder) return ZT_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    return add_entries(plan, folder, model_suffixes, 0);
}

static zt_status add_input(sandbox_plan *plan, const char *path);

/* The model that a program names by a line `model "FILE"`. */
static zt_status add_model_of_program(sandbox_plan *plan, const char *path)
{
    enum { LOOKS = 1 << 16 };
    char line[PATH_MAX + 64], quoted[PATH_MAX];
    zt_status status = ZT_OK;
    FILE *file = fopen(path, "re");
    if (!file) return ZT_OK;
    bool program = fgets(line, sizeof line, file) && zt_cli_begins_program(line, strlen(line));
    for (int i = 0; program && !status && i < LOOKS && fgets(line, sizeof line, file); i++) {
        if (sscanf(line, " model \"%4095[^\"]\"", quoted) != 1) continue;
        char *model = zt_cli_beside(plan->state->cli.ctx, path, quoted);
        status = model ? add_input(plan, model) : ZT_ENOMEM;
        zt_free(plan->state->cli.ctx, model);
        break;
    }
    fclose(file);
    return status;
}

static const char *after_plus(const char *text)
{
    const char *plus = strchr(text, '+');
    return plus ? plus + 1 : NULL;
}

/* "FILE=SCALE" and "MODEL+ADAPTER=SCALE+ADAPTER": each part that exists, because a name may have such characters itself. */
static zt_status add_parts(sandbox_plan *plan, const char *text)
{
    char part[PATH_MAX];
    zt_status status = ZT_OK;
    for (const char *from = text; from && !status; from = after_plus(from)) {
        for (const char *end = from; *end && !status; end++) {
            bool ends = (end[1] == '+' || end[1] == '=' || !end[1]);
            if (!ends || (size_t)(end + 1 - from) >= sizeof part || (from == text && !end[1])) continue;
            snprintf(part, sizeof part, "%.*s", (int)(end + 1 - from), from);
            if (access(part, F_OK) == 0) status = add_input(plan, part);
        }
    }
    return status;
}

static zt_status add_input(sandbox_plan *plan, const char *path)
{
    struct stat info;
    if (!strcmp(path, "-")) {
        plan->streams++;
        return ZT_OK;
    }
    if (stat(path, &info)) return strpbrk(path, "+=") ? add_parts(plan, path) : ZT_OK;
    zt_status status = add(plan, path, READS);
    if (S_ISDIR(info.st_mode)) return status ? status : add_entries(plan, path, NULL, 1);
    /* A FIFO is opened once. A device may be opened by each reader that knows a format. */
    if (!S_ISREG(info.st_mode)) plan->streams += S_ISFIFO(info.st_mode) ? 1 : OPENS_OF_DEVICE;
    if (S_ISREG(info.st_mode) && !status) status = add_companions(plan, path);
    return status || !S_ISREG(info.st_mode) ? status : add_model_of_program(plan, path);
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* A directory of Hugging Face's, which zt-dna makes from a file beside it. */
static bool is_folder(const sandbox_plan *plan, const char *path)
{
    const zt_cli_state *state = plan->state;
    for (int i = 0; i < state->option_count; i++) {
        const char *name = state->options[i].name, *given = state->given[i];
        if (name && given && !strcmp(name, "to") && !strcmp(given, "hf")) return true;
    }
    return *path && path[strlen(path) - 1] == '/';
}

/* An output is made beside its place and renamed: its directory is needed. A link is followed. */
static zt_status add_output(sandbox_plan *plan, const char *path, unsigned uses)
{
    struct stat info;
    char place[PATH_MAX], target[PATH_MAX];
    if (!*path || !strcmp(path, "-") || strlen(path) >= sizeof place) return ZT_OK;
    bool there = stat(path, &info) == 0;
    if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return add(plan, path, ZT_SANDBOX_WRITE);
    if (there && S_ISDIR(info.st_mode) && add(plan, path, KEEPS)) return ZT_ENOMEM;
    if (is_folder(plan, path)) uses |= READS;
    strcpy(place, path);
    for (int i = 0; i < MOST_LINKS && lstat(place, &info) == 0 && S_ISLNK(info.st_mode); i++) {
        ssize_t length = readlink(place, target, sizeof target - 1);
        char *slash = strrchr(place, '/');
        size_t prefix = length > 0 && *target != '/' && slash ? (size_t)(slash - place) + 1 : 0;
        if (length <= 0 || prefix + (size_t)length >= sizeof place) break;
        memcpy(place + prefix, target, (size_t)length);
        place[prefix + (size_t)length] = '\0';
    }
    return add_parent(plan, place, uses);
}

/* A file that is read and replaced. */
static zt_status add_update(sandbox_plan *plan, const char *path)
{
    zt_status status = add_input(plan, path);
    return status ? status : add_output(plan, path, KEEPS);
}

/* A directory in which files are kept; one that does not exist is made. */
static zt_status add_folder(sandbox_plan *plan, const char *path)
{
    return access(path, F_OK) == 0 ? add(plan, path, KEEPS) : add_parent(plan, path, KEEPS);
}

/* ---- sockets and commands -------------------------------------------------------------------- */

/* "unix:PATH" is a file, other addresses are none. */
static zt_status add_address(sandbox_plan *plan, const char *text)
{
    static const char prefix[] = "unix:";
    plan->keeps |= ZT_SANDBOX_KEEP_SERVER;
    if (strncmp(text, prefix, sizeof prefix - 1)) return ZT_OK;
    plan->keeps |= ZT_SANDBOX_KEEP_WRITES | ZT_SANDBOX_KEEP_CLIENT; /* is another server behind the socket? */
    return add_parent(plan, text + sizeof prefix - 1, ZT_SANDBOX_SOCKETS);
}

/* console, FILE, fd:N or URL. */
static zt_status add_target(sandbox_plan *plan, const char *text)
{
    if (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) {
        plan->keeps |= ZT_SANDBOX_KEEP_CLIENT;
        zt_status status = ADD_ALL(plan, client_paths);
        if (!status) status = add_named_by(plan, "CURL_CA_BUNDLE", READS, false);
        return status ? status : add_named_by(plan, "SSL_CERT_FILE", READS, false);
    }
    return !strcmp(text, "console") || !strncmp(text, "fd:", 3) ? ZT_OK : add_output(plan, text, CREATES);
}

static zt_status add_terminal(sandbox_plan *plan, const char *text)
{
    (void)text;
    return ADD_ALL(plan, terminal_paths);
}

static zt_status add_energy(sandbox_plan *plan, const char *text)
{
    (void)text;
    zt_status status = ADD_ALL(plan, energy_paths);
    return status ? status : add_named_by(plan, "ZT_POWERCAP", READS, false);
}

static zt_status add_command(sandbox_plan *plan, const char *text)
{
    (void)text;
    plan->keeps |= ZT_SANDBOX_KEEP_COMMANDS;
    return ZT_OK;
}

static zt_status add_list_of_paths(sandbox_plan *plan, const char *text)
{
    (void)text;
    return add(plan, "/", READS);
}

static zt_status add_plain_output(sandbox_plan *plan, const char *text) { return add_output(plan, text, CREATES); }

typedef zt_status add_fn(sandbox_plan *plan, const char *text);
static add_fn *const add_by[] = {
    [ZT_OPENS_INPUT] = add_input,       [ZT_OPENS_OUTPUT] = add_plain_output, [ZT_OPENS_UPDATE] = add_update,
    [ZT_OPENS_FOLDER] = add_folder,     [ZT_OPENS_ADDRESS] = add_address,     [ZT_OPENS_TARGET] = add_target,
    [ZT_OPENS_TERMINAL] = add_terminal, [ZT_OPENS_COMMAND] = add_command,     [ZT_OPENS_RECIPE] = add_list_of_paths,
    [ZT_OPENS_ENERGY] = add_energy,
};

/* ---- a command line -------------------------------------------------------------------------- */

static zt_status add_options(sandbox_plan *plan)
{
    const zt_cli_state *state = plan->state;
    zt_status status = ZT_OK;
    for (int i = 0; i < state->option_count && !status; i++) {
        const zt_opt *option = &state->options[i];
        if (!option->opens || !state->given[i]) continue;
        add_fn *function = add_by[option->opens];
        const zt_opt_list *list = option->kind == ZT_OPT_LIST ? option->value : NULL;
        if (!list) status = function(plan, state->given[i]);
        for (int k = 0; list && k < list->n && !status; k++) status = function(plan, list->item[k]);
    }
    return status;
}

static bool is_mode_or_usual(int mode, uint64_t modes) { return mode < 0 ? modes != 0 : is_mode(mode, modes); }

/* A program on standard input may name a model, which is known only after it has been read: `-m -`, or an operand of zt-trace. */
static zt_status add_program_of_stdin(sandbox_plan *plan)
{
    const zt_cli_state *state = plan->state;
    const zt_cli *cli = &state->cli;
    const char *model = NULL;
    for (int i = 0; i < state->option_count; i++)
        if (state->given[i] && state->options[i].name && !strcmp(state->options[i].name, "model")) model = state->given[i];
    bool program = cli->tool->stdin_programs && !model && cli->n_operands < 2;
    for (int i = 1; i < cli->n_operands && cli->tool->stdin_programs && !model; i++) program |= !strcmp(cli->operands[i], "-");
    return program || (model && !strcmp(model, "-")) ? add(plan, "/", READS) : ZT_OK;
}

static zt_status add_operands(sandbox_plan *plan)
{
    zt_cli *cli = &plan->state->cli;
    const zt_tool *tool = cli->tool;
    zt_status status = ZT_OK;
    int count = cli->n_operands;
    int mode = zt_modes_of_help(plan->state); /* -1: no option selects one, and the operands will */
    bool output = !cli->output && count > 1 && is_mode_or_usual(mode, tool->output_modes);
    bool updates = is_mode_or_usual(mode, tool->update_modes);
    for (int i = 0; i < count && !status; i++) {
        bool last = i == count - 1;
        status = last && output ? add_output(plan, cli->operands[i], CREATES) : add_input(plan, cli->operands[i]);
        if (!status && count == 1 && updates) status = add_update(plan, cli->operands[i]);
    }
    return status;
}

/* ---- engines and ranks ----------------------------------------------------------------------- */

static bool may_open(const zt_cli_state *state, const char *engine)
{
    const char *second = state->second.engine;
    return strstr(state->cli.engine, engine) || (second && strstr(second, engine));
}

/* Where drivers keep compiled kernels. */
static zt_status add_caches(sandbox_plan *plan)
{
    static const char *const below_home[] = {".cache", ".nv", ".local/share/vulkan", ".config/vulkan", ".drirc"};
    const char *home = getenv("HOME");
    zt_status status = add_named_by(plan, "XDG_CACHE_HOME", KEEPS, false);
    if (!status) status = add_named_by(plan, "CUDA_CACHE_PATH", KEEPS, false);
    for (size_t i = 0; home && *home && i < sizeof below_home / sizeof *below_home && !status; i++)
        status = add_in(plan, home, below_home[i], i < 2 ? KEEPS : READS);
    return status ? status : add(plan, zt_temporary_folder(), KEEPS);
}

static zt_status add_device(sandbox_plan *plan, bool compilers)
{
    static const char *const named_by[] = {"ZT_LIBCUDA",      "ZT_LIBHIP",        "ZT_LIBOPENCL",      "ZT_LIBCUBLAS",
                                           "ZT_LIBCUFFT",     "VK_ICD_FILENAMES", "VK_DRIVER_FILES",   "VK_LAYER_PATH",
                                           "OCL_ICD_VENDORS", "POCL_CACHE_DIR",   "VK_ADD_LAYER_PATH", "OCL_ICD_FILENAMES"};
    zt_status status = ADD_ALL(plan, device_paths);
    plan->keeps |= ZT_SANDBOX_KEEP_DEVICE | ZT_SANDBOX_KEEP_WRITES;
    for (size_t i = 0; i < sizeof named_by / sizeof *named_by && !status; i++)
        status = add_named_by(plan, named_by[i], READS, true);
    if (!status) status = add_named_by(plan, "POCL_CACHE_DIR", KEEPS, false);
    if (!status) status = add_caches(plan);
    if (status || !compilers) return status;
    plan->keeps |= ZT_SANDBOX_KEEP_PROGRAMS;
    return ADD_ALL(plan, compiler_paths);
}

static zt_status add_engines(sandbox_plan *plan)
{
    const zt_cli_state *state = plan->state;
    if (!(state->cli.tool->shared & ZT_SHARE_ENGINE)) return ZT_OK;
    bool all = is_mode(zt_modes_of_help(state), state->cli.tool->device_modes), device = all || zt_cli_may_choose(&state->cli);
    static const char *const devices[] = {"cuda", "hip", "opencl", "vulkan"};
    for (int i = 0; i < 4; i++) device |= may_open(state, devices[i]);
    return device ? add_device(plan, all || may_open(state, "opencl")) : ZT_OK;
}

static zt_status add_ranks(sandbox_plan *plan)
{
    if (zt_ranks_started() <= 1) return ZT_OK;
    plan->keeps |= ZT_SANDBOX_KEEP_RANKS | ZT_SANDBOX_KEEP_WRITES;
    zt_status status = ADD_ALL(plan, ranks_paths);
    if (!status) status = add_named_by(plan, "ZT_LIBMPI", READS, true);
    return status ? status : add(plan, zt_temporary_folder(), KEEPS);
}

/* ---- entering -------------------------------------------------------------------------------- */

/* Commands are measured as they are: nothing is taken from them, and zt reads no file but their results. */
static bool runs_commands(const zt_cli_state *state, int mode)
{
    const zt_tool *tool = state->cli.tool;
    uint64_t modes = tool->command_modes;
    if (tool->commands_if && zt_cli_given(&state->cli, tool->commands_if)) modes |= tool->command_modes_if;
    return is_mode(mode, modes);
}

static zt_status collect(sandbox_plan *plan)
{
    zt_status status = ADD_ALL(plan, system_paths);
    const zt_cli *cli = &plan->state->cli;
    bool recipes = is_mode(zt_modes_of_help(plan->state), cli->tool->recipe_modes);
    if (recipes) status = add(plan, "/", READS);
    if (!status && recipes && cli->output) status = add_output(plan, cli->output, KEEPS);
    if (!status) status = add_named_by(plan, "ZT_LIBCRYPTO", READS, false);
    if (!status) status = add_options(plan);
    if (!status) status = add_operands(plan);
    if (!status) status = add_program_of_stdin(plan);
    if (!status) status = add_engines(plan);
    return status ? status : add_ranks(plan);
}

static void note_parts(zt_cli_state *state, const zt_sandbox_parts *parts, unsigned keeps)
{
    static const struct {
        unsigned keep;
        const char *what;
    } words[] = {{ZT_SANDBOX_KEEP_SERVER, "server"},      {ZT_SANDBOX_KEEP_CLIENT, "connections"},
                 {ZT_SANDBOX_KEEP_DEVICE, "GPU drivers"}, {ZT_SANDBOX_KEEP_PROGRAMS, "their compilers"},
                 {ZT_SANDBOX_KEEP_RANKS, "ranks"},        {ZT_SANDBOX_KEEP_COMMANDS, "commands"}};
    char files[48] = "files are not restricted", kept[96] = "";
    if (parts->files) snprintf(files, sizeof files, "files by Landlock %d", parts->files);
    for (size_t i = 0, length = 0; i < sizeof words / sizeof *words; i++)
        if (keeps & words[i].keep)
            length += (size_t)snprintf(kept + length, sizeof kept - length, "%s%s", length ? ", " : "; kept for ", words[i].what);
    snprintf(state->sandbox_note, sizeof state->sandbox_note, "sandbox: %s, system calls %s%s", files,
             parts->calls ? "by a seccomp filter" : "are not restricted", kept);
}

/* Standard input may be an input without being named; what is not a file is copied to a temporary file. */
static bool is_stream(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static zt_status enter(zt_cli_state *state)
{
    sandbox_plan plan = {.state = state, .arena = zt_arena_new(state->cli.ctx, 0)};
    zt_sandbox_parts parts;
    zt_status status = plan.arena ? collect(&plan) : ZT_ENOMEM;
    int temporaries = plan.streams + is_stream(STDIN_FILENO);
    zt_sandbox_config config = {.keeps = plan.keeps | state->cli.tool->sandbox_keeps,
                                .paths = plan.paths,
                                .path_count = plan.count,
                                .temporaries = temporaries < MOST_TEMPORARIES ? temporaries : MOST_TEMPORARIES};
    if (!status) status = zt_sandbox_enter(state->cli.ctx, &config, &parts);
    if (!status) note_parts(state, &parts, config.keeps);
    zt_free(state->cli.ctx, plan.paths);
    zt_arena_free(plan.arena);
    return status;
}

zt_status zt_cli_sandbox(zt_cli_state *state)
{
    zt_ctx *ctx = state->cli.ctx;
    const char *lacks = state->sandbox == SANDBOX_ON ? zt_sandbox_lacks() : NULL;
    if (state->sandbox == SANDBOX_OFF) return ZT_OK;
    if (lacks) return zt_fail(ctx, ZT_ENOTSUP, "--sandbox on: not available without %s", lacks);
    if (!runs_commands(state, zt_modes_of_help(state))) return enter(state);
    if (state->sandbox == SANDBOX_ON)
        return zt_fail(ctx, ZT_EUSAGE, "option '--sandbox on' does not apply to commands, which keep all rights");
    snprintf(state->sandbox_note, sizeof state->sandbox_note, "sandbox: none, commands keep all rights");
    return ZT_OK;
}
