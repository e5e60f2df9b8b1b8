/* manifest.c - owns the list of a model's files: found, sorted, hashed. */
#include "lib/sign/internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 64, MOST_FILES = 1 << 24, STEP = 1 << 20 };

static const char *const git_files[] = {".git", ".gitattributes", ".github", ".gitignore"};

/* ---- the list ----------------------------------------------------------------------------------- */

zt_status zt_manifest_init(zt_ctx *ctx, zt_manifest *manifest)
{
    *manifest = (zt_manifest){.ctx = ctx, .texts = zt_arena_new(ctx, 0), .name = ""};
    return manifest->texts ? ZT_OK : ZT_ENOMEM;
}

void zt_manifest_fini(zt_manifest *manifest)
{
    zt_free(manifest->ctx, manifest->files);
    zt_free(manifest->ctx, manifest->ignored);
    zt_arena_free(manifest->texts);
    *manifest = (zt_manifest){.ctx = manifest->ctx};
}

zt_status zt_manifest_add(zt_manifest *manifest, const char *path, const uint8_t *digest)
{
    if (manifest->count == manifest->room) {
        size_t room = manifest->room ? 2 * manifest->room : 64;
        if (room > MOST_FILES)
            return zt_fail(manifest->ctx, ZT_ENOMEM, "a model with more than %d files cannot be signed", MOST_FILES);
        zt_manifest_file *files = zt_realloc(manifest->ctx, manifest->files, room * sizeof *files);
        if (!files) return ZT_ENOMEM;
        manifest->files = files;
        manifest->room = room;
    }
    zt_manifest_file *file = &manifest->files[manifest->count];
    *file = (zt_manifest_file){.path = zt_arena_strndup(manifest->texts, path, strlen(path))};
    if (!file->path) return ZT_ENOMEM;
    if (digest) memcpy(file->digest, digest, sizeof file->digest);
    manifest->count++;
    return ZT_OK;
}

zt_status zt_manifest_ignore(zt_manifest *manifest, const char *path, size_t length)
{
    const char **ignored = zt_realloc(manifest->ctx, manifest->ignored, (manifest->ignored_count + 1) * sizeof *ignored);
    if (!ignored) return ZT_ENOMEM;
    manifest->ignored = ignored;
    ignored[manifest->ignored_count] = zt_arena_strndup(manifest->texts, path, length);
    if (!ignored[manifest->ignored_count]) return ZT_ENOMEM;
    manifest->ignored_count++;
    return ZT_OK;
}

zt_status zt_manifest_ignore_git(zt_manifest *manifest)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < sizeof git_files / sizeof *git_files; i++)
        status = zt_manifest_ignore(manifest, git_files[i], strlen(git_files[i]));
    return status;
}

bool zt_manifest_ignores(const zt_manifest *manifest, const char *path)
{
    for (size_t i = 0; i < manifest->ignored_count; i++) {
        size_t length = strlen(manifest->ignored[i]);
        if (strncmp(path, manifest->ignored[i], length) == 0 && (path[length] == 0 || path[length] == '/')) return true;
    }
    return false;
}

bool zt_manifest_path_valid(const char *path)
{
    for (const char *component = path;; component++) {
        size_t length = strcspn(component, "/");
        if (length == 0 || (length == 1 && component[0] == '.') || (length == 2 && strncmp(component, "..", 2) == 0))
            return false;
        component += length;
        if (!*component) return true;
    }
}

int zt_manifest_compare_paths(const char *left, const char *right)
{
    while (*left && *left == *right) left++, right++;
    int first = *left == '/' ? 1 : *left ? (unsigned char)*left + 1 : 0; /* the end of a component comes before its other bytes */
    int second = *right == '/' ? 1 : *right ? (unsigned char)*right + 1 : 0;
    return first - second;
}

static int compare_files(const void *left, const void *right)
{
    return zt_manifest_compare_paths(((const zt_manifest_file *)left)->path, ((const zt_manifest_file *)right)->path);
}

void zt_manifest_sort(zt_manifest *manifest)
{
    if (manifest->count) qsort(manifest->files, manifest->count, sizeof *manifest->files, compare_files);
}

/* ---- finding files ------------------------------------------------------------------------------ */

zt_status zt_manifest_full_path(const char *model, const char *path, zt_str *full)
{
    size_t length = strlen(model);
    zt_str_clear(full);
    zt_status status = zt_str_puts(full, model);
    if (status || strcmp(path, ".") == 0) return status;
    if (length && model[length - 1] != '/') status = zt_str_putc(full, '/');
    return status ? status : zt_str_puts(full, path);
}

/* Remembers the first entry that cannot be signed. */
static zt_status refuse_entry(zt_manifest *manifest, const char *path, const char *reason)
{
    if (manifest->refused) return ZT_OK;
    manifest->refused = zt_arena_strndup(manifest->texts, path, strlen(path));
    manifest->reason = reason;
    return manifest->refused ? ZT_OK : ZT_ENOMEM;
}

static zt_status list_folder(zt_manifest *manifest, const char *model, const char *folder, int depth);

static zt_status list_entry(zt_manifest *manifest, const char *model, const char *path, int depth)
{
    struct stat info;
    zt_str full;
    zt_str_init(&full, manifest->ctx);
    zt_status status = zt_manifest_full_path(model, path, &full);
    bool found = !status && lstat(full.data, &info) == 0;
    const bool is_link = found && S_ISLNK(info.st_mode);
    if (is_link && manifest->symlinks) found = stat(full.data, &info) == 0;
    zt_str_fini(&full);
    if (status) return status;
    if (!zt_utf8_valid(path, strlen(path))) return refuse_entry(manifest, path, "has a name that is not UTF-8");
    if (is_link && !manifest->symlinks) return refuse_entry(manifest, path, "is a symbolic link");
    if (!found) return refuse_entry(manifest, path, is_link ? "is a symbolic link to nothing" : "cannot be examined");
    if (S_ISREG(info.st_mode)) return zt_manifest_add(manifest, path, NULL);
    if (!S_ISDIR(info.st_mode)) return refuse_entry(manifest, path, "is neither a file nor a directory");
    if (is_link) return refuse_entry(manifest, path, "is a symbolic link to a directory");
    return list_folder(manifest, model, path, depth + 1);
}

/* `folder` is inside the model; "." is the model. */
static zt_status list_folder(zt_manifest *manifest, const char *model, const char *folder, int depth)
{
    zt_str path;
    char shown[512];
    zt_str_init(&path, manifest->ctx);
    zt_status status = zt_manifest_full_path(model, folder, &path);
    DIR *directory = status ? NULL : opendir(path.data);
    if (!status && !directory)
        status =
            zt_fail(manifest->ctx, ZT_ENOENT, "%s: %s", zt_escape(shown, sizeof shown, path.data, path.len), strerror(errno));
    if (!status && depth > MOST_DEPTH)
        status = zt_fail(manifest->ctx, ZT_ENOMEM, "%s: directories nest deeper than %d",
                         zt_escape(shown, sizeof shown, path.data, path.len), MOST_DEPTH);
    for (const struct dirent *entry; !status && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        zt_str_clear(&path);
        if (strcmp(folder, ".") != 0) zt_str_printf(&path, "%s/", folder);
        status = zt_str_puts(&path, entry->d_name);
        if (!status && !zt_manifest_ignores(manifest, path.data)) status = list_entry(manifest, model, path.data, depth);
    }
    if (directory) closedir(directory);
    zt_str_fini(&path);
    return status;
}

zt_status zt_manifest_list(zt_manifest *manifest, const char *model)
{
    struct stat info;
    if (strcmp(model, "-") == 0)
        return zt_fail(manifest->ctx, ZT_EUSAGE, "a signature is of a file or a directory, stdin is neither");
    if (stat(model, &info) != 0) return zt_fail(manifest->ctx, ZT_ENOENT, "%s: %s", model, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        zt_status status = list_folder(manifest, model, ".", 0);
        zt_manifest_sort(manifest);
        return status;
    }
    if (!S_ISREG(info.st_mode)) return zt_fail(manifest->ctx, ZT_EDATA, "%s: neither a file nor a directory", model);
    return zt_manifest_add(manifest, ".", NULL);
}

/* The folder of a file as an absolute path; free it. NULL: it does not exist. */
static char *real_folder(zt_ctx *ctx, const char *file)
{
    const char *slash = strrchr(file, '/');
    char *folder = slash ? zt_strndup(ctx, file, (size_t)(slash - file) + 1) : zt_strdup(ctx, ".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    zt_free(ctx, folder);
    return real;
}

zt_status zt_manifest_inside(zt_ctx *ctx, const char *model, const char *file, zt_str *inside)
{
    char *root = realpath(model, NULL), *folder = real_folder(ctx, file);
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    size_t length = root ? strlen(root) : 0;
    zt_status status = ZT_OK;
    if (root && folder && strncmp(folder, root, length) == 0 && (folder[length] == 0 || folder[length] == '/')) {
        const char *below = folder + length + (folder[length] == '/');
        status = zt_str_printf(inside, "%s%s%s", below, *below ? "/" : "", name);
    }
    free(root);
    free(folder);
    return status;
}

/* ---- hashing ------------------------------------------------------------------------------------ */

zt_status zt_hashing_open(const zt_manifest *manifest, zt_hashing *hashing)
{
    zt_str full;
    struct stat info;
    zt_status status = ZT_OK;
    zt_str_init(&full, manifest->ctx);
    hashing->digest = zt_digest_new(manifest->ctx);
    hashing->buffer = hashing->digest ? zt_alloc(manifest->ctx, STEP) : NULL;
    if (!hashing->buffer) status = zt_ctx_status(manifest->ctx);
    for (size_t i = 0; !status && i < manifest->count; i++) {
        status = zt_manifest_full_path(hashing->model, manifest->files[i].path, &full);
        if (!status && stat(full.data, &info) == 0) hashing->total += (uint64_t)info.st_size;
    }
    zt_str_fini(&full);
    return status;
}

void zt_hashing_close(zt_ctx *ctx, zt_hashing *hashing)
{
    zt_digest_free(hashing->digest);
    zt_free(ctx, hashing->buffer);
}

zt_status zt_hashing_file(zt_ctx *ctx, zt_hashing *hashing, const char *path, uint8_t digest[ZT_DIGEST_BYTES])
{
    zt_str full;
    zt_str_init(&full, ctx);
    zt_status status = zt_manifest_full_path(hashing->model, path, &full);
    zt_source *source = status ? NULL : zt_source_open(ctx, full.data);
    if (!status && !source) status = zt_ctx_status(ctx);
    const uint64_t size = source ? zt_source_size(source) : 0;
    for (uint64_t at = 0, step; !status && at < size; at += step) {
        step = size - at < STEP ? size - at : STEP;
        if (hashing->progress) status = hashing->progress(hashing->user, full.data, hashing->done, hashing->total);
        if (!status) status = zt_source_read(source, at, hashing->buffer, (size_t)step);
        if (!status) status = zt_digest_add(hashing->digest, hashing->buffer, (size_t)step);
        hashing->done += step;
    }
    if (!status) status = zt_digest_end(hashing->digest, digest);
    zt_source_close(source);
    zt_str_fini(&full);
    return status;
}
