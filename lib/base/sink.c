/* sink.c - outputs that are whole or absent.
 *
 * The bytes go to a file without a name in the target's directory, which vanishes by itself if we
 * are killed; commit gives it a name beside the target and renames that. Where the file system has
 * no files without names it has the name beside the target from the start. What replaces a file keeps
 * its mode, owner and attributes (attributes.h); until then it is its owner's alone. Stdout, devices
 * and FIFOs are written through: there is nothing to replace. */
#include "lib/base/attributes.h"
#include "lib/base/durable.h"
#include "lib/base/internal.h"
#include "lib/base/require.h"
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
    char *path;           /* the target, links resolved; "stdout" in messages */
    char *temp;           /* the name beside it, NULL: written through */
    bool named;           /* temp exists */
    bool force, in_place; /* in_place: the target may be an open source */
    bool counts;          /* keeps nothing: bytes are counted */
    uint64_t counted;
    bool replaces; /* a file, whose attributes are `old` */
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
    int folder = slash ? (int)(slash - path) + 1 : 0;
    unsigned long long tick = (unsigned long long)(zt_seconds() * 1e9) + (unsigned)attempt;
    zt_str text;
    zt_str_init(&text, ctx);
    if (zt_str_printf(&text, "%.*s.%.200s.%d-%llx.tmp", folder, path, path + folder, (int)getpid(), tick)) {
        zt_str_fini(&text);
        return NULL;
    }
    return text.data;
}

/* What will have another's mode has none that is wider before. */
static mode_t first_mode(const zt_sink *sink) { return sink->replaces ? 0600 : 0666; }

/* Where the system cannot do that, s->fd stays -1. */
static zt_status open_unnamed(zt_sink *sink)
{
    const char *slash = strrchr(sink->path, '/');
    char *dir = slash ? zt_strndup(sink->ctx, sink->path, (size_t)(slash - sink->path) + 1) : zt_strdup(sink->ctx, ".");
    if (dir && access("/proc/self/fd", X_OK) == 0) /* needed to give it a name */
        sink->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, first_mode(sink));
    zt_free(sink->ctx, dir);
    return dir ? ZT_OK : ZT_ENOMEM;
}

static zt_status open_temp(zt_sink *sink)
{
    sink->temp = temp_name(sink->ctx, sink->path, 0);
    if (!sink->temp) return ZT_ENOMEM;
    zt_status unnamed = open_unnamed(sink);
    if (unnamed != ZT_OK || sink->fd >= 0) return unnamed;
    for (int attempt = 1; sink->fd < 0 && attempt < 100; attempt++) {
        sink->fd = open(sink->temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, first_mode(sink));
        if (sink->fd >= 0 || errno != EEXIST) break;
        zt_free(sink->ctx, sink->temp);
        sink->temp = temp_name(sink->ctx, sink->path, attempt);
        if (!sink->temp) return ZT_ENOMEM;
    }
    if (sink->fd < 0) return zt_fail(sink->ctx, ZT_ECREATE, "%s: cannot create the file: %s", sink->path, strerror(errno));
    sink->named = true;
    return ZT_OK;
}

/* The name that the link s->path holds, beside it, as s->path. */
static zt_status follow_link(zt_sink *sink)
{
    char target[4096];
    ssize_t length = readlink(sink->path, target, sizeof target);
    const char *slash = strrchr(sink->path, '/');
    size_t dir = length > 0 && target[0] != '/' && slash ? (size_t)(slash - sink->path) + 1 : 0;
    zt_str path;
    if (length <= 0 || length == sizeof target)
        return zt_fail(sink->ctx, ZT_ECREATE, "%s: cannot follow the symbolic link", sink->path);
    zt_str_init(&path, sink->ctx);
    if (zt_str_put(&path, sink->path, dir) || zt_str_put(&path, target, (size_t)length)) {
        zt_str_fini(&path);
        return ZT_ENOMEM;
    }
    zt_free(sink->ctx, sink->path);
    sink->path = path.data;
    return ZT_OK;
}

/* A link is followed: what it names is replaced or made, not the link. */
static zt_status resolve_links(zt_sink *sink)
{
    enum { MOST = 40 }; /* links, as in the kernel */
    struct stat info;
    for (int i = 0; lstat(sink->path, &info) == 0 && S_ISLNK(info.st_mode); i++) {
        if (i == MOST) return zt_fail(sink->ctx, ZT_ECREATE, "%s: more than %d symbolic links", sink->path, MOST);
        zt_status status = follow_link(sink);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status open_target(zt_sink *sink)
{
    struct stat info;
    bool exists = stat(sink->path, &info) == 0;
    if (!exists && lstat(sink->path, &info)) return open_temp(sink);
    if (S_ISDIR(info.st_mode)) return zt_fail(sink->ctx, ZT_ECREATE, "%s: is a directory", sink->path);
    if (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)) {
        if (!sink->force) return zt_fail(sink->ctx, ZT_ECREATE, "%s: already exists (use -f to overwrite)", sink->path);
        if (exists && !sink->in_place && zt_source_is_open(sink->ctx, &info))
            return zt_fail(sink->ctx, ZT_ECREATE, "%s: is an input file and will not be overwritten", sink->path);
        sink->replaces = exists;
        sink->old = info;
        zt_status status = resolve_links(sink);
        return status ? status : open_temp(sink);
    }
    sink->fd = open(sink->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (sink->fd < 0 && errno == EINTR) return zt_fail(sink->ctx, ZT_EINTR, "%s: interrupted during open", sink->path);
    if (sink->fd < 0) return zt_fail(sink->ctx, ZT_ECREATE, "%s: cannot open the file: %s", sink->path, strerror(errno));
    return ZT_OK;
}

static zt_status open_stdout(zt_sink *sink)
{
    sink->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (sink->fd < 0) return zt_fail(sink->ctx, ZT_EIO, "stdout: %s", strerror(errno));
    return ZT_OK;
}

static zt_sink *sink_open(zt_ctx *ctx, const char *path, bool force, bool in_place)
{
    bool is_stdout = strcmp(path, "-") == 0;
    zt_sink *sink = zt_calloc(ctx, 1, sizeof *sink);
    if (!sink) return NULL;
    sink->ctx = ctx;
    sink->fd = -1;
    sink->force = force;
    sink->in_place = in_place;
    sink->path = zt_strdup(ctx, is_stdout ? "stdout" : path);
    if (!sink->path || (is_stdout ? open_stdout(sink) : open_target(sink))) {
        zt_sink_close(sink);
        return NULL;
    }
    return sink;
}

zt_sink *zt_sink_open(zt_ctx *ctx, const char *path, bool force)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path, NULL);
    return sink_open(ctx, path, force, false);
}

zt_sink *zt_sink_open_in_place(zt_ctx *ctx, const char *path) { return sink_open(ctx, path, true, true); }

zt_sink *zt_sink_count(zt_ctx *ctx)
{
    zt_sink *sink = zt_calloc(ctx, 1, sizeof *sink);
    if (!sink) return NULL;
    sink->ctx = ctx;
    sink->fd = -1;
    sink->counts = true;
    return sink;
}

uint64_t zt_sink_counted(const zt_sink *sink) { return sink->counted + sink->used; }

/* ---- writing --------------------------------------------------------------------------------- */

static zt_status write_out(zt_sink *sink, const void *bytes, size_t size)
{
    if (sink->counts) {
        sink->counted += size;
        return ZT_OK;
    }
    int error = zt_fd_write(sink->fd, bytes, size);
    if (error == EINTR)
        sink->failed = zt_fail(sink->ctx, ZT_EINTR, "%s: interrupted during write", sink->path);
    else if (error)
        sink->failed = zt_fail(sink->ctx, ZT_EIO, "%s: writing %zu bytes: %s", sink->path, size, strerror(error));
    return sink->failed;
}

static zt_status flush_buffer(zt_sink *sink)
{
    size_t size = sink->used;
    sink->used = 0;
    return size ? write_out(sink, sink->buffer, size) : sink->failed;
}

zt_status zt_sink_write(zt_sink *sink, const void *bytes, size_t size)
{
    if (!sink) return ZT_EUSAGE;
    if (sink->failed) return sink->failed;
    if (size == 0) return flush_buffer(sink);
    ZT_REQUIRE(sink->ctx, bytes, ZT_EUSAGE);
    if (size > BUFFER - sink->used && flush_buffer(sink)) return sink->failed;
    if (size >= BUFFER) return write_out(sink, bytes, size);
    memcpy(sink->buffer + sink->used, bytes, size);
    sink->used += size;
    return ZT_OK;
}

/* From file to file, as far as the kernel does it; *done says how far. */
static zt_status copy_by_kernel(zt_sink *sink, int fd, uint64_t offset, uint64_t size, uint64_t *done)
{
    while (*done < size) {
        loff_t position = (loff_t)(offset + *done);
        size_t step = size - *done < 1 << 30 ? (size_t)(size - *done) : 1 << 30;
        ssize_t copied = copy_file_range(fd, &position, sink->fd, NULL, step, 0);
        if (copied <= 0 && (copied == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ||
                            errno == EBADF || errno == EPERM))
            return ZT_OK; /* reading will tell what is wrong, if something is */
        if (copied < 0 && errno == EINTR)
            return sink->failed = zt_fail(sink->ctx, ZT_EINTR, "%s: interrupted during write", sink->path);
        if (copied < 0)
            return sink->failed = zt_fail(sink->ctx, ZT_EIO, "%s: copying %llu bytes: %s", sink->path, (unsigned long long)size,
                                          strerror(errno));
        *done += (uint64_t)copied;
    }
    return ZT_OK;
}

zt_status zt_sink_copy(zt_sink *sink, const zt_source *source, uint64_t offset, uint64_t size)
{
    if (!sink) return ZT_EUSAGE;
    ZT_REQUIRE(sink->ctx, source, ZT_EUSAGE);
    enum { STEP = 1 << 20 };
    uint64_t base, done = 0;
    int fd;
    if (sink->failed || flush_buffer(sink)) return sink->failed;
    if (sink->temp && zt_source_place(source, &fd, &base) && copy_by_kernel(sink, fd, base + offset, size, &done) != ZT_OK)
        return sink->failed;
    char *buffer = done < size ? zt_alloc(sink->ctx, STEP) : NULL;
    if (done < size && !buffer) return sink->failed = ZT_ENOMEM;
    for (size_t step; done < size && !sink->failed; done += step) {
        step = size - done < STEP ? (size_t)(size - done) : STEP;
        sink->failed = zt_source_read(source, offset + done, buffer, step);
        if (!sink->failed) write_out(sink, buffer, step);
    }
    zt_free(sink->ctx, buffer);
    return sink->failed;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives a file without a name its name beside the target. */
static int link_name(zt_sink *sink)
{
    char fd[40];
    snprintf(fd, sizeof fd, "/proc/self/fd/%d", sink->fd);
    if (sink->named || linkat(AT_FDCWD, fd, AT_FDCWD, sink->temp, AT_SYMLINK_FOLLOW) == 0) {
        sink->named = true;
        return 0;
    }
    return errno;
}

/* Without `force` a target that came up meanwhile is not overwritten either. */
static int rename_target(zt_sink *sink)
{
    int failed = renameat2(AT_FDCWD, sink->temp, AT_FDCWD, sink->path, sink->force ? 0 : RENAME_NOREPLACE);
    if (failed && (errno == EINVAL || errno == ENOSYS)) failed = rename(sink->temp, sink->path);
    sink->named = failed != 0;
    return failed ? errno : 0;
}

void zt_ctx_durable(zt_ctx *ctx, bool durable)
{
    if (ctx) ctx->not_durable = !durable;
}

zt_status zt_sink_commit(zt_sink *sink)
{
    if (!sink) return ZT_EUSAGE;
    if (flush_buffer(sink)) return sink->failed;
    if (sink->replaces && (sink->failed = zt_attributes_keep(sink->ctx, sink->fd, sink->path, &sink->old))) return sink->failed;
    int error = sink->temp && !sink->ctx->not_durable && fsync(sink->fd) ? errno : 0;
    if (!error && sink->temp) error = link_name(sink);
    if (close(sink->fd) && !error) error = errno;
    sink->fd = -1;
    if (error) return sink->failed = zt_fail(sink->ctx, ZT_EIO, "%s: %s", sink->path, strerror(error));
    error = sink->temp ? rename_target(sink) : 0;
    if (error) return sink->failed = zt_fail(sink->ctx, ZT_ECREATE, "%s: %s", sink->path, strerror(error));
    return ZT_OK;
}

void zt_sink_close(zt_sink *sink)
{
    if (!sink) return;
    if (sink->fd >= 0) close(sink->fd);
    if (sink->named) unlink(sink->temp);
    zt_free(sink->ctx, sink->temp);
    zt_free(sink->ctx, sink->path);
    zt_free(sink->ctx, sink);
}

zt_status zt_sink_put_file(zt_ctx *ctx, const char *path, bool force, const void *bytes, size_t size)
{
    zt_sink *sink = zt_sink_open(ctx, path, force);
    zt_status status = sink ? zt_sink_write(sink, bytes, size) : zt_ctx_status(ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    return status;
}
