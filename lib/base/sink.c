/* sink.c - outputs that are whole or absent.
 *
 * The bytes go to a file without a name in the target's directory, which vanishes by itself if we
 * are killed; commit gives it a name beside the target and renames that. Where the file system has
 * no files without names it has the name beside the target from the start. What replaces a file keeps
 * its mode, owner and attributes (attributes.h); until then it is its owner's alone. Stdout, devices
 * and FIFOs are written through: there is nothing to replace. */
#include "lib/base/attributes.h"
#include "lib/base/internal.h"
#include "lib/base/sink_count.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct zt_sink {
    zt_ctx *ctx;
    char *path;  /* the target, links resolved; "stdout" in messages */
    char *temp;  /* the name beside it, NULL: written through */
    bool named;  /* temp exists */
    bool force, anew; /* anew: the target may be an open source */
    bool counts; /* keeps nothing: bytes are counted */
    uint64_t counted;
    bool replaces;   /* a file, whose attributes are `old` */
    struct stat old;
    int fd;
    zt_status failed;
    size_t used;
    char buffer[BUFFER];
};

/* ---- opening --------------------------------------------------------------------------------- */

/* "dir/.name.PID-N.tmp": N from the clock, so that a name left by a dead process is passed by. */
static char *temp_name(zt_ctx *ctx, const char *path, int attempt)
{
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    unsigned long long tick = (unsigned long long)(zt_seconds() * 1e9) + (unsigned)attempt;
    zt_str s;
    zt_str_init(&s, ctx);
    if (zt_str_printf(&s, "%.*s.%.200s.%d-%llx.tmp", dir, path, path + dir, (int)getpid(), tick)) {
        zt_str_fini(&s);
        return NULL;
    }
    return s.data;
}

/* What will have another's mode has none that is wider before. */
static mode_t first_mode(const zt_sink *s) { return s->replaces ? 0600 : 0666; }

/* Where the system cannot do that, s->fd stays -1. */
static zt_status open_unnamed(zt_sink *s)
{
    const char *slash = strrchr(s->path, '/');
    char *dir = slash ? zt_strndup(s->ctx, s->path, (size_t)(slash - s->path) + 1)
                      : zt_strdup(s->ctx, ".");
    if (dir && access("/proc/self/fd", X_OK) == 0) /* needed to give it a name */
        s->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, first_mode(s));
    zt_free(s->ctx, dir);
    return dir ? ZT_OK : ZT_ENOMEM;
}

static zt_status open_temp(zt_sink *s)
{
    s->temp = temp_name(s->ctx, s->path, 0);
    if (!s->temp)
        return ZT_ENOMEM;
    zt_status unnamed = open_unnamed(s);
    if (unnamed != ZT_OK || s->fd >= 0)
        return unnamed;
    for (int attempt = 1; s->fd < 0 && attempt < 100; attempt++) {
        s->fd = open(s->temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, first_mode(s));
        if (s->fd >= 0 || errno != EEXIST)
            break;
        zt_free(s->ctx, s->temp);
        s->temp = temp_name(s->ctx, s->path, attempt);
        if (!s->temp)
            return ZT_ENOMEM;
    }
    if (s->fd < 0)
        return zt_fail(s->ctx, ZT_ECREATE, "%s: cannot be created: %s", s->path, strerror(errno));
    s->named = true;
    return ZT_OK;
}

/* The name that the link s->path holds, beside it, as s->path. */
static zt_status follow(zt_sink *s)
{
    char to[4096];
    ssize_t n = readlink(s->path, to, sizeof to);
    const char *slash = strrchr(s->path, '/');
    size_t dir = n > 0 && to[0] != '/' && slash ? (size_t)(slash - s->path) + 1 : 0;
    zt_str path;
    if (n <= 0 || n == sizeof to)
        return zt_fail(s->ctx, ZT_ECREATE, "%s: the link cannot be followed", s->path);
    zt_str_init(&path, s->ctx);
    if (zt_str_put(&path, s->path, dir) || zt_str_put(&path, to, (size_t)n)) {
        zt_str_fini(&path);
        return ZT_ENOMEM;
    }
    zt_free(s->ctx, s->path);
    s->path = path.data;
    return ZT_OK;
}

/* A link is followed: what it names is replaced or made, not the link. */
static zt_status resolve(zt_sink *s)
{
    enum { MOST = 40 }; /* links, as in the kernel */
    struct stat st;
    for (int i = 0; lstat(s->path, &st) == 0 && S_ISLNK(st.st_mode); i++) {
        if (i == MOST)
            return zt_fail(s->ctx, ZT_ECREATE, "%s: more than %d links", s->path, MOST);
        zt_status status = follow(s);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status open_target(zt_sink *s)
{
    struct stat st;
    bool there = stat(s->path, &st) == 0;
    if (!there && lstat(s->path, &st))
        return open_temp(s);
    if (S_ISDIR(st.st_mode))
        return zt_fail(s->ctx, ZT_ECREATE, "%s: is a directory", s->path);
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
        if (!s->force)
            return zt_fail(s->ctx, ZT_ECREATE, "%s: exists already (-f overwrites)", s->path);
        if (there && !s->anew && zt_source_is_open(s->ctx, &st))
            return zt_fail(s->ctx, ZT_ECREATE, "%s: is an input, and will not be overwritten",
                           s->path);
        s->replaces = there;
        s->old = st;
        zt_status status = resolve(s);
        return status ? status : open_temp(s);
    }
    s->fd = open(s->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (s->fd < 0 && errno == EINTR)
        return zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was opened", s->path);
    if (s->fd < 0)
        return zt_fail(s->ctx, ZT_ECREATE, "%s: cannot be opened: %s", s->path, strerror(errno));
    return ZT_OK;
}

static zt_status open_stdout(zt_sink *s)
{
    s->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (s->fd < 0)
        return zt_fail(s->ctx, ZT_EIO, "stdout: %s", strerror(errno));
    return ZT_OK;
}

static zt_sink *sink_open(zt_ctx *ctx, const char *path, bool force, bool anew)
{
    bool is_stdout = strcmp(path, "-") == 0;
    zt_sink *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->fd = -1;
    s->force = force;
    s->anew = anew;
    s->path = zt_strdup(ctx, is_stdout ? "stdout" : path);
    if (!s->path || (is_stdout ? open_stdout(s) : open_target(s))) {
        zt_sink_close(s);
        return NULL;
    }
    return s;
}

zt_sink *zt_sink_open(zt_ctx *ctx, const char *path, bool force)
{
    return sink_open(ctx, path, force, false);
}

zt_sink *zt_sink_open_anew(zt_ctx *ctx, const char *path)
{
    return sink_open(ctx, path, true, true);
}

zt_sink *zt_sink_count(zt_ctx *ctx)
{
    zt_sink *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->fd = -1;
    s->counts = true;
    return s;
}

uint64_t zt_sink_counted(const zt_sink *s)
{
    return s->counted + s->used;
}

/* ---- writing --------------------------------------------------------------------------------- */

static zt_status put(zt_sink *s, const void *bytes, size_t n)
{
    if (s->counts) {
        s->counted += n;
        return ZT_OK;
    }
    int error = zt_fd_write(s->fd, bytes, n);
    if (error == EINTR)
        s->failed = zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was written", s->path);
    else if (error)
        s->failed = zt_fail(s->ctx, ZT_EIO, "%s: writing %zu bytes: %s", s->path, n,
                            strerror(error));
    return s->failed;
}

static zt_status flush(zt_sink *s)
{
    size_t n = s->used;
    s->used = 0;
    return n ? put(s, s->buffer, n) : s->failed;
}

zt_status zt_sink_write(zt_sink *s, const void *bytes, size_t n)
{
    if (s->failed)
        return s->failed;
    if (n == 0)
        return flush(s);
    if (n > BUFFER - s->used && flush(s))
        return s->failed;
    if (n >= BUFFER)
        return put(s, bytes, n);
    memcpy(s->buffer + s->used, bytes, n);
    s->used += n;
    return ZT_OK;
}

/* From file to file, as far as the kernel does it; *done says how far. */
static zt_status copy_by_kernel(zt_sink *s, int in, uint64_t offset, uint64_t n, uint64_t *done)
{
    while (*done < n) {
        loff_t at = (loff_t)(offset + *done);
        size_t step = n - *done < 1 << 30 ? (size_t)(n - *done) : 1 << 30;
        ssize_t k = copy_file_range(in, &at, s->fd, NULL, step, 0);
        if (k <= 0 && (k == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                       errno == EOPNOTSUPP || errno == EBADF || errno == EPERM))
            return ZT_OK; /* reading will tell what is wrong, if something is */
        if (k < 0 && errno == EINTR)
            return s->failed = zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was written",
                                       s->path);
        if (k < 0)
            return s->failed = zt_fail(s->ctx, ZT_EIO, "%s: copying %llu bytes: %s", s->path,
                                       (unsigned long long)n, strerror(errno));
        *done += (uint64_t)k;
    }
    return ZT_OK;
}

zt_status zt_sink_copy(zt_sink *s, const zt_source *from, uint64_t offset, uint64_t n)
{
    enum { STEP = 1 << 20 };
    uint64_t base, done = 0;
    int in;
    if (s->failed || flush(s))
        return s->failed;
    if (s->temp && zt_source_place(from, &in, &base) &&
        copy_by_kernel(s, in, base + offset, n, &done) != ZT_OK)
        return s->failed;
    char *buf = done < n ? zt_alloc(s->ctx, STEP) : NULL;
    if (done < n && !buf)
        return s->failed = ZT_ENOMEM;
    for (size_t k; done < n && !s->failed; done += k) {
        k = n - done < STEP ? (size_t)(n - done) : STEP;
        s->failed = zt_source_read(from, offset + done, buf, k);
        if (!s->failed)
            put(s, buf, k);
    }
    zt_free(s->ctx, buf);
    return s->failed;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives a file without a name its name beside the target. */
static int name_it(zt_sink *s)
{
    char fd[40];
    snprintf(fd, sizeof fd, "/proc/self/fd/%d", s->fd);
    if (s->named || linkat(AT_FDCWD, fd, AT_FDCWD, s->temp, AT_SYMLINK_FOLLOW) == 0) {
        s->named = true;
        return 0;
    }
    return errno;
}

/* Without `force` a target that came up meanwhile is not overwritten either. */
static int rename_it(zt_sink *s)
{
    int bad = renameat2(AT_FDCWD, s->temp, AT_FDCWD, s->path, s->force ? 0 : RENAME_NOREPLACE);
    if (bad && (errno == EINVAL || errno == ENOSYS))
        bad = rename(s->temp, s->path);
    s->named = bad != 0;
    return bad ? errno : 0;
}

zt_status zt_sink_commit(zt_sink *s)
{
    if (flush(s))
        return s->failed;
    if (s->replaces && (s->failed = zt_attributes_keep(s->ctx, s->fd, s->path, &s->old)))
        return s->failed;
    int error = s->temp && fsync(s->fd) ? errno : 0;
    if (!error && s->temp)
        error = name_it(s);
    if (close(s->fd) && !error)
        error = errno;
    s->fd = -1;
    if (error)
        return s->failed = zt_fail(s->ctx, ZT_EIO, "%s: %s", s->path, strerror(error));
    error = s->temp ? rename_it(s) : 0;
    if (error)
        return s->failed = zt_fail(s->ctx, ZT_ECREATE, "%s: %s", s->path, strerror(error));
    return ZT_OK;
}

void zt_sink_close(zt_sink *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->named)
        unlink(s->temp);
    zt_free(s->ctx, s->temp);
    zt_free(s->ctx, s->path);
    zt_free(s->ctx, s);
}
