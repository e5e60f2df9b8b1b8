/* kv_files.c - files of a shared directory: mapped, written, and the oldest removed. */
#include "lib/llm/kv_files.h"
#include "lib/base/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME = 2 * ZT_DIGEST_BYTES + 16, /* of a file, with its suffix */
    LOCK_TRIES = 100,                /* for a second */
    LOCK_WAIT = 10 * 1000 * 1000,    /* nanoseconds */
    SPARE = 16                       /* when files have to go, a sixteenth of the limit becomes free */
};

struct zt_kv_files {
    zt_ctx *ctx;
    char *path;
    int folder, lock; /* descriptors; lock -1: not open yet */
    uint64_t limit, total;
    bool complained;
    zt_kv_files_count count;
};

/* ---- opening --------------------------------------------------------------------------------- */

zt_kv_files *zt_kv_files_open(zt_ctx *ctx, const char *path, uint64_t limit)
{
    zt_kv_files *files = zt_calloc(ctx, 1, sizeof *files);
    if (!files) return NULL;
    *files = (zt_kv_files){.ctx = ctx, .path = zt_strdup(ctx, path), .folder = -1, .lock = -1, .limit = limit};
    bool made = files->path && (mkdir(path, 0777) == 0 || errno == EEXIST);
    if (made) files->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files->folder >= 0) return files;
    if (files->path) zt_fail(ctx, ZT_ECREATE, "%s: cannot %s the directory: %s", path, made ? "open" : "create", strerror(errno));
    zt_kv_files_close(files);
    return NULL;
}

void zt_kv_files_close(zt_kv_files *files)
{
    if (!files) return;
    if (files->folder >= 0) close(files->folder);
    if (files->lock >= 0) close(files->lock);
    zt_free(files->ctx, files->path);
    zt_free(files->ctx, files);
}

zt_kv_files_count zt_kv_files_counted(const zt_kv_files *files) { return files->count; }

/* A store that cannot be written is no reason to stop. */
static bool complain(zt_kv_files *files, const char *what, const char *why)
{
    if (!files->complained) zt_log(files->ctx, ZT_LOG_WARN, "%s: %s: %s: blocks are not stored", files->path, what, why);
    files->complained = true;
    return false;
}

/* ---- one file -------------------------------------------------------------------------------- */

static const char *make_name(const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, char text[NAME])
{
    char digits[ZT_DIGEST_TEXT];
    snprintf(text, NAME, "%s%s", zt_digest_text(name, digits), suffix);
    return text;
}

bool zt_kv_files_has(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix)
{
    char text[NAME];
    return faccessat(files->folder, make_name(name, suffix, text), F_OK, 0) == 0;
}

const uint8_t *zt_kv_files_map(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, size_t size,
                               bool *damaged)
{
    char text[NAME];
    struct stat info;
    *damaged = false;
    int fd = openat(files->folder, make_name(name, suffix, text), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    *damaged = fstat(fd, &info) || !S_ISREG(info.st_mode) || (uint64_t)info.st_size != size;
    void *bytes = *damaged ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    return bytes == MAP_FAILED ? NULL : bytes;
}

void zt_kv_files_unmap(const uint8_t *bytes, size_t size)
{
    if (bytes) munmap((void *)(uintptr_t)bytes, size);
}

void zt_kv_files_remove(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix)
{
    char text[NAME];
    unlinkat(files->folder, make_name(name, suffix, text), 0);
}

/* Another user's file can only be given the time now. */
void zt_kv_files_touch(const zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, int64_t rank)
{
    char text[NAME];
    struct timespec now, times[2] = {{0, UTIME_OMIT}, {0}};
    if (clock_gettime(CLOCK_REALTIME, &now)) return;
    int64_t time = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - rank;
    times[1] = (struct timespec){time / 1000000, time % 1000000 * 1000};
    make_name(name, suffix, text);
    if (utimensat(files->folder, text, times, AT_SYMLINK_NOFOLLOW)) utimensat(files->folder, text, NULL, AT_SYMLINK_NOFOLLOW);
}

/* ---- counting and removing ------------------------------------------------------------------- */

typedef struct kept_file {
    char name[NAME];
    uint64_t size;
    struct timespec used;
} kept_file;

typedef struct kept_list {
    kept_file *file;
    size_t count, capacity;
} kept_list;

static bool is_hex(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strchr("0123456789abcdef", text[i]) || !text[i]) return false;
    return true;
}

/* One of ours: 64 digits and a suffix. */
static bool is_stored(const char *name)
{
    const size_t length = strlen(name);
    return length > NAME - 16 && length < NAME && is_hex(name, NAME - 16) && name[NAME - 16] == '.';
}

/* What a killed writer left: zt_sink names files so until they are whole. */
static bool is_left(const char *name)
{
    const size_t length = strlen(name);
    return length > NAME - 16 + 5 && name[0] == '.' && is_hex(name + 1, NAME - 16) && !strcmp(name + length - 4, ".tmp");
}

static bool note_file(zt_kv_files *files, kept_list *list, const char *name)
{
    struct stat info;
    if (fstatat(files->folder, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode)) return true;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        kept_file *more = zt_realloc(files->ctx, list->file, capacity * sizeof *more);
        if (!more) return false;
        list->file = more;
        list->capacity = capacity;
    }
    kept_file *file = &list->file[list->count++];
    memcpy(file->name, name, strlen(name) + 1); /* is_stored: it has room */
    file->size = (uint64_t)info.st_size;
    file->used = info.st_mtim;
    files->total += file->size;
    return true;
}

/* All files, and their sum in files->total. */
static bool list_files(zt_kv_files *files, kept_list *list)
{
    int copy = openat(files->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    bool good = folder != NULL;
    if (!folder) complain(files, "cannot list the directory", strerror(errno));
    if (!folder && copy >= 0) close(copy);
    files->total = 0;
    for (struct dirent *entry; good && (entry = readdir(folder));) {
        if (is_left(entry->d_name)) unlinkat(files->folder, entry->d_name, 0);
        if (is_stored(entry->d_name)) good = note_file(files, list, entry->d_name);
    }
    if (folder) closedir(folder);
    return good;
}

static int compare_ages(const void *a, const void *b)
{
    const kept_file *first = a, *second = b;
    if (first->used.tv_sec != second->used.tv_sec) return first->used.tv_sec < second->used.tv_sec ? -1 : 1;
    if (first->used.tv_nsec != second->used.tv_nsec) return first->used.tv_nsec < second->used.tv_nsec ? -1 : 1;
    return strcmp(first->name, second->name);
}

/* Counts anew; then removes files, the one first that was used longest ago, until no more than `target` bytes are left. */
static bool remove_oldest(zt_kv_files *files, uint64_t limit, uint64_t target)
{
    kept_list list = {0};
    bool good = list_files(files, &list);
    if (good && files->total > limit) {
        qsort(list.file, list.count, sizeof *list.file, compare_ages);
        for (size_t i = 0; i < list.count && files->total > target; i++) {
            if (unlinkat(files->folder, list.file[i].name, 0) && errno != ENOENT) continue;
            files->total -= list.file[i].size;
            files->count.removed++;
        }
    }
    zt_free(files->ctx, list.file);
    return good;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool take_lock(zt_kv_files *files)
{
    if (files->lock < 0) files->lock = openat(files->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (files->lock < 0) return complain(files, "cannot open the file 'lock'", strerror(errno));
    for (int try = 0; flock(files->lock, LOCK_EX | LOCK_NB); try++) {
        if (errno != EWOULDBLOCK && errno != EINTR) return complain(files, "cannot lock the file 'lock'", strerror(errno));
        if (try == LOCK_TRIES) {
            zt_log(files->ctx, ZT_LOG_INFO, "%s: other processes are writing: blocks are not stored", files->path);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT}, NULL);
    }
    return true;
}

/* What the last writer noted; false: it did not end. Until this one ends, nothing is noted. */
static bool read_total(zt_kv_files *files)
{
    uint64_t pair[2];
    bool known = pread(files->lock, pair, sizeof pair, 0) == sizeof pair && pair[0] == ~pair[1];
    files->total = known ? pair[0] : 0;
    pair[0] = pair[1] = 0;
    if (pwrite(files->lock, pair, sizeof pair, 0) != sizeof pair && ftruncate(files->lock, 0)) return false;
    return known;
}

bool zt_kv_files_begin(zt_kv_files *files, uint64_t kept, uint64_t wanted, uint64_t *room)
{
    const uint64_t target = files->limit - files->limit / SPARE, most = target > kept ? target - kept : 0;
    *room = wanted < most ? wanted : most;
    if (!take_lock(files)) return false;
    bool known = read_total(files);
    if (known && files->total <= files->limit && *room <= files->limit - files->total) return true;
    if (remove_oldest(files, files->limit - *room, target - *room)) return true;
    flock(files->lock, LOCK_UN); /* nothing is noted: the next counts again */
    return false;
}

/* zt_sink writes as it should, but what fails here must not end the run. */
bool zt_kv_files_write(zt_kv_files *files, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix, const void *bytes,
                       size_t size)
{
    char text[NAME];
    zt_str path;
    zt_str_init(&path, files->ctx);
    zt_status status = zt_str_printf(&path, "%s/%s", files->path, make_name(name, suffix, text));
    zt_sink *sink = status ? NULL : zt_sink_open(files->ctx, path.data, true);
    zt_ctx_durable(files->ctx, false);
    status = sink ? zt_sink_write(sink, bytes, size) : zt_ctx_status(files->ctx);
    if (!status) status = zt_sink_commit(sink);
    zt_ctx_durable(files->ctx, true);
    zt_sink_close(sink);
    zt_str_fini(&path);
    files->total += status ? 0 : size;
    files->count.written += !status;
    if (!status) return true;
    complain(files, "cannot write", zt_ctx_error(files->ctx));
    zt_ctx_clear(files->ctx);
    return false;
}

void zt_kv_files_end(zt_kv_files *files)
{
    const uint64_t pair[2] = {files->total, ~files->total};
    if (pwrite(files->lock, pair, sizeof pair, 0) != sizeof pair) (void)!ftruncate(files->lock, 0);
    flock(files->lock, LOCK_UN);
}
