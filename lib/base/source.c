/* source.c - inputs that can be read at any offset.
 *
 * Regular files are read in place; stdin, FIFOs, pipes and devices are first spooled to a temporary
 * file without a name, so that nothing has to be cleaned up. Who asks for it has them as they come
 * (stream.c). Reading is pread: a file that shrinks under us is an error, where a mapping would be
 * a signal. */
#include "lib/base/internal.h"
#include "lib/base/require.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static zt_source *source_new(zt_ctx *ctx, const char *name)
{
    zt_source *source = zt_calloc(ctx, 1, sizeof *source);
    if (!source) return NULL;
    source->ctx = ctx;
    source->fd = -1;
    source->name = zt_strdup(ctx, name);
    if (!source->name) {
        zt_free(ctx, source);
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    source->next = ctx->sources;
    if (source->next) source->next->previous = source;
    ctx->sources = source;
    pthread_mutex_unlock(&ctx->lock);
    return source;
}

static void unlink_source(zt_source *source)
{
    pthread_mutex_lock(&source->ctx->lock);
    if (source->previous)
        source->previous->next = source->next;
    else
        source->ctx->sources = source->next;
    if (source->next) source->next->previous = source->previous;
    pthread_mutex_unlock(&source->ctx->lock);
}

bool zt_source_is_open(zt_ctx *ctx, const struct stat *file)
{
    bool found = false;
    pthread_mutex_lock(&ctx->lock);
    for (const zt_source *source = ctx->sources; source && !found; source = source->next) {
        struct stat info;
        found = source->fd >= 0 && !fstat(source->fd, &info) && info.st_dev == file->st_dev && info.st_ino == file->st_ino;
    }
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

void zt_source_close(zt_source *source)
{
    if (!source) return;
    unlink_source(source);
    if (source->fd >= 0) close(source->fd);
    zt_stream_free(source);
    zt_free(source->ctx, source->name);
    zt_free(source->ctx, source);
}

/* ---- spooling -------------------------------------------------------------------------------- */

/* A file in TMPDIR that has no name, or loses it at once; -1 and errno. */
static int open_temporary(zt_ctx *ctx, const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    zt_str path;
    zt_str_init(&path, ctx);
    if (zt_str_printf(&path, "%s/zt-XXXXXX", dir) == ZT_OK) {
        fd = mkostemp(path.data, O_CLOEXEC);
        if (fd >= 0) unlink(path.data);
    }
    int error = errno;
    zt_str_fini(&path);
    errno = error;
    return fd;
}

const char *zt_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

void zt_spare_open(zt_ctx *ctx, int count)
{
    const int most = sizeof ctx->spares / sizeof *ctx->spares;
    while (ctx->spare_count < count && ctx->spare_count < most) {
        int fd = open_temporary(ctx, zt_temporary_folder());
        if (fd < 0) return;
        ctx->spares[ctx->spare_count++] = fd;
    }
}

/* A spare one, or -1. */
static int take_spare(zt_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    int fd = ctx->spare_count ? ctx->spares[--ctx->spare_count] : -1;
    pthread_mutex_unlock(&ctx->lock);
    return fd;
}

int zt_fd_write(int fd, const void *bytes, size_t size)
{
    const char *cursor = bytes;
    while (size) {
        ssize_t written = write(fd, cursor, size);
        if (written < 0) return errno;
        cursor += written;
        size -= (size_t)written;
    }
    return 0;
}

ssize_t zt_fd_read(int fd, char *buffer, size_t size, size_t least)
{
    size_t done = 0;
    do {
        ssize_t received = read(fd, buffer + done, size - done);
        if (received <= 0) return received < 0 ? received : (ssize_t)done;
        done += (size_t)received;
    } while (done < least);
    return (ssize_t)done;
}

static zt_status copy_all(zt_source *source, int fd, const char *dir, zt_wanted *wanted)
{
    enum { STEP = 1 << 18 };
    char *buffer = zt_alloc(source->ctx, STEP);
    zt_status status = buffer ? ZT_OK : ZT_ENOMEM;
    for (bool more = true; more && status == ZT_OK;) {
        ssize_t received = zt_fd_read(fd, buffer, STEP, source->size ? 0 : ZT_HEAD);
        if (received == 0) break;
        if (received > 0 && source->size == 0 && wanted && !wanted(buffer, (size_t)received)) more = false;
        int error = received < 0 ? 0 : zt_fd_write(source->fd, buffer, (size_t)received);
        if (error == EINTR || (received < 0 && errno == EINTR))
            status = zt_fail(source->ctx, ZT_EINTR, "%s: interrupted during read", source->name);
        else if (received < 0)
            status = zt_fail(source->ctx, ZT_EIO, "%s: %s", source->name, strerror(errno));
        else if (error)
            status = zt_fail(source->ctx, ZT_EIO, "%s: cannot spool to a temporary file in %s: %s", source->name, dir,
                             strerror(error));
        else
            source->size += (uint64_t)received;
    }
    zt_free(source->ctx, buffer);
    return status;
}

/* Replaces the stream `fd` by a copy that can be read anywhere: `head`, which was read from it
 * before, and all the rest. `fd` stays the caller's. */
zt_status zt_spool(zt_source *source, int fd, zt_wanted *wanted, const void *head, size_t size)
{
    const char *dir = zt_temporary_folder();
    source->fd = take_spare(source->ctx);
    if (source->fd < 0) source->fd = open_temporary(source->ctx, dir);
    if (source->fd < 0)
        return zt_fail(source->ctx, ZT_ECREATE, "%s: cannot create a temporary file in %s: %s", source->name, dir,
                       strerror(errno));
    int error = size ? zt_fd_write(source->fd, head, size) : 0;
    if (error)
        return zt_fail(source->ctx, ZT_EIO, "%s: cannot spool to a temporary file in %s: %s", source->name, dir, strerror(error));
    source->size = size;
    return copy_all(source, fd, dir, wanted);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes `fd` over whatever happens, except stdin's. */
static zt_status adopt_fd(zt_source *source, int fd, zt_wanted *wanted, bool streams)
{
    struct stat info;
    zt_status status = ZT_OK;
    if (fstat(fd, &info)) {
        status = zt_fail(source->ctx, ZT_ESYS, "%s: %s", source->name, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = zt_fail(source->ctx, ZT_ENOENT, "%s: is a directory without config.json", source->name);
    } else if (S_ISREG(info.st_mode)) {
        off_t position = fd == STDIN_FILENO ? lseek(fd, 0, SEEK_CUR) : 0;
        source->base = position > 0 ? (uint64_t)position : 0;
        source->size = (uint64_t)info.st_size > source->base ? (uint64_t)info.st_size - source->base : 0;
        source->fd = fd == STDIN_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
        if (source->fd < 0) status = zt_fail(source->ctx, ZT_ESYS, "%s: %s", source->name, strerror(errno));
        return status;
    } else if (streams) {
        return zt_stream_begin(source, fd);
    } else {
        status = zt_spool(source, fd, wanted, NULL, 0);
    }
    if (fd != STDIN_FILENO) close(fd);
    return status;
}

static zt_status open_path(zt_source *source, const char *path, zt_wanted *wanted, bool streams)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == EINTR) return zt_fail(source->ctx, ZT_EINTR, "%s: interrupted during open", source->name);
    if (fd < 0)
        return zt_fail(source->ctx, errno == EMFILE || errno == ENFILE ? ZT_ESYS : ZT_ENOENT, "%s: %s", source->name,
                       strerror(errno));
    if (fd == STDIN_FILENO) { /* it was closed when we came; 0 is not to be mistaken for it */
        int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
        close(fd);
        if (moved < 0) return zt_fail(source->ctx, ZT_ESYS, "%s: %s", source->name, strerror(error));
        fd = moved;
    }
    return adopt_fd(source, fd, wanted, streams);
}

static zt_source *open_any(zt_ctx *ctx, const char *path, zt_wanted *wanted, bool streams)
{
    bool is_stdin = strcmp(path, "-") == 0;
    zt_source *source = source_new(ctx, is_stdin ? "stdin" : path);
    if (!source) return NULL;
    if (is_stdin ? adopt_fd(source, STDIN_FILENO, wanted, streams) : open_path(source, path, wanted, streams)) {
        zt_source_close(source);
        return NULL;
    }
    return source;
}

zt_source *zt_source_open_if(zt_ctx *ctx, const char *path, zt_wanted *wanted)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path && wanted, NULL);
    return open_any(ctx, path, wanted, false);
}

zt_source *zt_source_open_stream(zt_ctx *ctx, const char *path)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path, NULL);
    return open_any(ctx, path, NULL, true);
}

zt_source *zt_source_open(zt_ctx *ctx, const char *path)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path, NULL);
    return open_any(ctx, path, NULL, false);
}

zt_source *zt_source_memory(zt_ctx *ctx, const char *name, const void *bytes, size_t size)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, name, NULL);
    zt_source *source = source_new(ctx, name);
    if (!source) return NULL;
    source->bytes = bytes ? bytes : "";
    source->size = size;
    return source;
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *zt_source_name(const zt_source *source) { return source ? source->name : NULL; }

uint64_t zt_source_size(const zt_source *source) { return source ? source->size : 0; }

int zt_source_fd(const zt_source *source) { return source ? (source->stream ? -1 : source->fd) : -1; }

bool zt_source_place(const zt_source *source, int *fd, uint64_t *base)
{
    *fd = source->fd;
    *base = source->base;
    return source->fd >= 0 && !source->stream;
}

zt_status zt_source_read(const zt_source *source, uint64_t offset, void *dst, size_t size)
{
    if (!source) return ZT_EUSAGE;
    ZT_REQUIRE(source->ctx, dst || !size, ZT_EUSAGE);
    if (source->stream) return zt_stream_read(source, offset, dst, size);
    if (offset > source->size || size > source->size - offset)
        return zt_fail(source->ctx, ZT_EDATA,
                       "%s: unexpected end of file: %zu bytes expected at offset %llu, the file ends at %llu", source->name, size,
                       (unsigned long long)offset, (unsigned long long)source->size);
    if (source->bytes) {
        if (size) memcpy(dst, source->bytes + offset, size);
        return ZT_OK;
    }
    char *output = dst;
    offset += source->base;
    while (size) {
        size_t step = size < (size_t)1 << 30 ? size : (size_t)1 << 30;
        ssize_t received = pread(source->fd, output, step, (off_t)offset);
        if (received < 0 && errno == EINTR) continue;
        if (received < 0)
            return zt_fail(source->ctx, ZT_EIO, "%s: reading %zu bytes at offset %llu: %s", source->name, size,
                           (unsigned long long)offset, strerror(errno));
        if (received == 0) return zt_fail(source->ctx, ZT_EIO, "%s: the file was truncated while it was read", source->name);
        output += received;
        offset += (uint64_t)received;
        size -= (size_t)received;
    }
    return ZT_OK;
}

char *zt_read_all(zt_ctx *ctx, const char *path, size_t *length)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    if (!source) return NULL;
    size_t size = source->size < SIZE_MAX ? (size_t)source->size : SIZE_MAX - 1;
    char *text = zt_alloc(ctx, size + 1);
    if (text && zt_source_read(source, 0, text, size)) {
        zt_free(ctx, text);
        text = NULL;
    }
    if (text) {
        text[size] = '\0';
        if (length) *length = size;
    }
    zt_source_close(source);
    return text;
}
