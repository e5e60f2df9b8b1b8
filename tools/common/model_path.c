/* model_path.c - paths of models as programs name them: from the folder that the program is in. */
#include "tools/common/subject.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The bytes of a path up to its last slash, with it; 0: it is in the current directory. */
static size_t folder_length(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? (size_t)(slash - path) + 1 : 0;
}

char *zt_cli_beside(zt_ctx *ctx, const char *program, const char *file)
{
    size_t folder = *file != '/' ? folder_length(program) : 0;
    zt_str path;
    zt_str_init(&path, ctx);
    zt_str_put(&path, program, folder);
    zt_str_printf(&path, "%s%s", *file == '-' && !folder ? "./" : "", file);
    if (folder && path.data && access(path.data, F_OK)) {
        zt_str_clear(&path);
        zt_str_printf(&path, "%s%s", *file == '-' ? "./" : "", file);
    }
    return path.data;
}

/* The folder that the first `length` bytes of a path name, without links; "" is the current directory. */
static bool real_folder(const char *path, size_t length, char real[PATH_MAX])
{
    char folder[PATH_MAX];
    if (length >= sizeof folder) return false;
    snprintf(folder, sizeof folder, "%.*s", (int)length, length ? path : "");
    return realpath(length ? folder : ".", real) != NULL;
}

/* How many bytes of two real paths are the same folders; a slash that follows is not counted. */
static size_t common_folder(const char *first, const char *second)
{
    size_t same = 0;
    for (size_t i = 0;; i++) {
        bool ends = (first[i] == '/' || !first[i]) && (second[i] == '/' || !second[i]);
        if (ends) same = i;
        if (first[i] != second[i] || !first[i]) return same;
    }
}

/* "../../up/to/file", from one real folder to a file in another. */
static char *from_folder(zt_ctx *ctx, const char *from, const char *to, const char *name)
{
    zt_str path;
    size_t same = common_folder(from, to);
    const char *down = to + same + (to[same] == '/');
    zt_str_init(&path, ctx);
    for (const char *cursor = from + same; *cursor; cursor++)
        if (*cursor == '/' && cursor[1]) zt_str_puts(&path, "../");
    zt_str_printf(&path, "%s%s%s", down, *down ? "/" : "", name);
    return path.data;
}

char *zt_cli_path_from(zt_ctx *ctx, const char *file, const char *program)
{
    char from[PATH_MAX], to[PATH_MAX];
    size_t folder = folder_length(file);
    bool here = !program || !strcmp(program, "-") || !folder_length(program);
    size_t to_program = here ? 0 : folder_length(program);
    if (*file == '/' || (here && !strstr(file, "/../")) || !real_folder(program, to_program, from) ||
        !real_folder(file, folder, to))
        return zt_strdup(ctx, file);
    return from_folder(ctx, from, to, file + folder);
}

zt_status zt_cli_move_model(zt_cli *cli, zt_prog *program, const char *from, const char *to)
{
    const char *named = zt_prog_model_file(program);
    if (!named || *named == '/') return ZT_OK;
    char *file = zt_cli_beside(cli->ctx, from, named);
    char *path = file && access(file, F_OK) == 0 ? zt_cli_path_from(cli->ctx, file, to) : NULL;
    zt_status status = path ? zt_prog_model_path(program, path) : zt_ctx_status(cli->ctx);
    zt_free(cli->ctx, path);
    zt_free(cli->ctx, file);
    return status;
}
