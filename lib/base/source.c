/* source.c - inputs that can be read at any offset.
 *
 * Regular files are read in place; stdin, FIFOs, pipes and devices are first spooled to a temporary
 * file without a name, so that nothing has to be cleaned up. Who asks for it has them as they come
 * (stream.c). Reading is pread: a file that shrinks under us is an error, where a mapping would be
 * a signal. */
#include "lib/base/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static zt_source *source_new(zt_ctx *ctx, const char *name)
{
    zt_source *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s) return NULL;
    s->ctx = ctx;
    s->fd = -1;
    s->name = zt_strdup(ctx, name);
    if (!s->name) {
        zt_free(ctx, s);
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    s->next = ctx->sources;
    if (s->next) s->next->previous = s;
    ctx->sources = s;
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

static void unlink_source(zt_source *s)
{
    pthread_mutex_lock(&s->ctx->lock);
    if (s->previous) s->previous->next = s->next;
    else s->ctx->sources = s->next;
    if (s->next) s->next->previous = s->previous;
    pthread_mutex_unlock(&s->ctx->lock);
}

bool zt_source_is_open(zt_ctx *ctx, const struct stat *file)
{
    bool found = false;
    pthread_mutex_lock(&ctx->lock);
    for (const zt_source *s = ctx->sources; s && !found; s = s->next) {
        struct stat st;
        found = s->fd >= 0 && !fstat(s->fd, &st) && st.st_dev == file->st_dev &&
                st.st_ino == file->st_ino;
    }
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

void zt_source_close(zt_source *s)
{
    if (!s) return;
    unlink_source(s);
    if (s->fd >= 0) close(s->fd);
    zt_stream_free(s);
    zt_free(s->ctx, s->name);
    zt_free(s->ctx, s);
}

/* ---- spooling -------------------------------------------------------------------------------- */

/* A file in TMPDIR that has no name, or loses it at once; -1 and errno. */
static int temporary(zt_ctx *ctx, const char *dir)
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

int zt_fd_write(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0) return errno;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

ssize_t zt_fd_read(int in, char *buf, size_t n, size_t least)
{
    size_t done = 0;
    do {
        ssize_t k = read(in, buf + done, n - done);
        if (k <= 0) return k < 0 ? k : (ssize_t)done;
        done += (size_t)k;
    } while (done < least);
    return (ssize_t)done;
}

static zt_status copy_all(zt_source *s, int in, const char *dir, zt_wanted *wanted)
{
    enum { STEP = 1 << 18 };
    char *buf = zt_alloc(s->ctx, STEP);
    zt_status st = buf ? ZT_OK : ZT_ENOMEM;
    for (bool more = true; more && st == ZT_OK;) {
        ssize_t k = zt_fd_read(in, buf, STEP, s->size ? 0 : ZT_HEAD);
        if (k == 0) break;
        if (k > 0 && s->size == 0 && wanted && !wanted(buf, (size_t)k)) more = false;
        int error = k < 0 ? 0 : zt_fd_write(s->fd, buf, (size_t)k);
        if (error == EINTR || (k < 0 && errno == EINTR))
            st = zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was read", s->name);
        else if (k < 0)
            st = zt_fail(s->ctx, ZT_EIO, "%s: %s", s->name, strerror(errno));
        else if (error)
            st = zt_fail(s->ctx, ZT_EIO, "%s: cannot be spooled to a temporary file in %s: %s",
                         s->name, dir, strerror(error));
        else
            s->size += (uint64_t)k;
    }
    zt_free(s->ctx, buf);
    return st;
}

/* Replaces the stream `in` by a copy that can be read anywhere: `head`, which was read from it
 * before, and all the rest. `in` stays the caller's. */
zt_status zt_spool(zt_source *s, int in, zt_wanted *wanted, const void *head, size_t n)
{
    const char *dir = getenv("TMPDIR");
    dir = dir && *dir ? dir : "/tmp";
    s->fd = temporary(s->ctx, dir);
    if (s->fd < 0)
        return zt_fail(s->ctx, ZT_ECREATE, "%s: no temporary file in %s: %s", s->name, dir,
                       strerror(errno));
    int error = n ? zt_fd_write(s->fd, head, n) : 0;
    if (error)
        return zt_fail(s->ctx, ZT_EIO, "%s: cannot be spooled to a temporary file in %s: %s",
                       s->name, dir, strerror(error));
    s->size = n;
    return copy_all(s, in, dir, wanted);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes `fd` over whatever happens, except stdin's. */
static zt_status adopt(zt_source *s, int fd, zt_wanted *wanted, bool streams)
{
    struct stat st;
    zt_status status = ZT_OK;
    if (fstat(fd, &st)) {
        status = zt_fail(s->ctx, ZT_ESYS, "%s: %s", s->name, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        status = zt_fail(s->ctx, ZT_ENOENT, "%s: is a directory without config.json", s->name);
    } else if (S_ISREG(st.st_mode)) {
        off_t at = fd == STDIN_FILENO ? lseek(fd, 0, SEEK_CUR) : 0;
        s->base = at > 0 ? (uint64_t)at : 0;
        s->size = (uint64_t)st.st_size > s->base ? (uint64_t)st.st_size - s->base : 0;
        s->fd = fd == STDIN_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
        if (s->fd < 0) status = zt_fail(s->ctx, ZT_ESYS, "%s: %s", s->name, strerror(errno));
        return status;
    } else if (streams) {
        return zt_stream_begin(s, fd);
    } else {
        status = zt_spool(s, fd, wanted, NULL, 0);
    }
    if (fd != STDIN_FILENO) close(fd);
    return status;
}

static zt_status open_path(zt_source *s, const char *path, zt_wanted *wanted, bool streams)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == EINTR)
        return zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was opened", s->name);
    if (fd < 0)
        return zt_fail(s->ctx, errno == EMFILE || errno == ENFILE ? ZT_ESYS : ZT_ENOENT, "%s: %s",
                       s->name, strerror(errno));
    if (fd == STDIN_FILENO) { /* it was closed when we came; 0 is not to be mistaken for it */
        int up = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
        close(fd);
        if (up < 0) return zt_fail(s->ctx, ZT_ESYS, "%s: %s", s->name, strerror(error));
        fd = up;
    }
    return adopt(s, fd, wanted, streams);
}

static zt_source *open_any(zt_ctx *ctx, const char *path, zt_wanted *wanted, bool streams)
{
    bool is_stdin = strcmp(path, "-") == 0;
    zt_source *s = source_new(ctx, is_stdin ? "stdin" : path);
    if (!s) return NULL;
    if (is_stdin ? adopt(s, STDIN_FILENO, wanted, streams) : open_path(s, path, wanted, streams)) {
        zt_source_close(s);
        return NULL;
    }
    return s;
}

zt_source *zt_source_open_if(zt_ctx *ctx, const char *path, zt_wanted *wanted)
{
    return open_any(ctx, path, wanted, false);
}

zt_source *zt_source_open_stream(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, NULL, true);
}

zt_source *zt_source_open(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, NULL, false);
}

zt_source *zt_source_memory(zt_ctx *ctx, const char *name, const void *bytes, size_t n)
{
    zt_source *s = source_new(ctx, name);
    if (!s) return NULL;
    s->bytes = bytes ? bytes : "";
    s->size = n;
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *zt_source_name(const zt_source *s) { return s->name; }

uint64_t zt_source_size(const zt_source *s) { return s->size; }

int zt_source_fd(const zt_source *s) { return s->stream ? -1 : s->fd; }

bool zt_source_place(const zt_source *s, int *fd, uint64_t *base)
{
    *fd = s->fd;
    *base = s->base;
    return s->fd >= 0 && !s->stream;
}

zt_status zt_source_read(const zt_source *s, uint64_t offset, void *dst, size_t n)
{
    if (s->stream) return zt_stream_read(s, offset, dst, n);
    if (offset > s->size || n > s->size - offset)
        return zt_fail(s->ctx, ZT_EDATA,
                       "%s: %zu bytes wanted at offset %llu, the file ends at %llu", s->name, n,
                       (unsigned long long)offset, (unsigned long long)s->size);
    if (s->bytes) {
        if (n) memcpy(dst, s->bytes + offset, n);
        return ZT_OK;
    }
    char *to = dst;
    offset += s->base;
    while (n) {
        size_t step = n < (size_t)1 << 30 ? n : (size_t)1 << 30;
        ssize_t k = pread(s->fd, to, step, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0)
            return zt_fail(s->ctx, ZT_EIO, "%s: reading %zu bytes at offset %llu: %s", s->name, n,
                           (unsigned long long)offset, strerror(errno));
        if (k == 0)
            return zt_fail(s->ctx, ZT_EIO, "%s: the file shrank while it was read", s->name);
        to += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return ZT_OK;
}

char *zt_read_all(zt_ctx *ctx, const char *path, size_t *n)
{
    zt_source *s = zt_source_open(ctx, path);
    if (!s) return NULL;
    size_t size = s->size < SIZE_MAX ? (size_t)s->size : SIZE_MAX - 1;
    char *text = zt_alloc(ctx, size + 1);
    if (text && zt_source_read(s, 0, text, size)) {
        zt_free(ctx, text);
        text = NULL;
    }
    if (text) {
        text[size] = '\0';
        if (n) *n = size;
    }
    zt_source_close(s);
    return text;
}
