/* stream.c - owns sources that are read as they come: a pipe, a FIFO, a device.
 *
 * Nothing is kept but what was read too far and given back. Reading a large piece goes straight to
 * where it belongs. */
#include "lib/base/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef struct zt_stream {
    int fd;
    uint64_t at; /* the offset of the byte that comes next */
    bool end;
    char *back; /* bytes given back, [from, n) still to come */
    size_t from, n;
} zt_stream;

zt_status zt_stream_begin(zt_source *s, int fd)
{
    zt_stream *st = zt_calloc(s->ctx, 1, sizeof *st);
    int mine = fd == STDIN_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
    if (st && mine >= 0) {
        st->fd = mine;
        s->stream = st;
        s->size = ZT_SIZE_UNKNOWN;
        return ZT_OK;
    }
    if (mine < 0)
        zt_fail(s->ctx, ZT_ESYS, "%s: %s", s->name, strerror(errno));
    else
        close(mine);
    zt_free(s->ctx, st);
    return zt_ctx_status(s->ctx);
}

void zt_stream_free(zt_source *s)
{
    if (!s->stream) return;
    close(s->stream->fd);
    zt_free(s->ctx, s->stream->back);
    zt_free(s->ctx, s->stream);
    s->stream = NULL;
}

bool zt_source_streams(const zt_source *s) { return s->stream != NULL; }

/* Up to n of the next bytes, `least` of them unless it ends. */
static zt_status take(const zt_source *s, char *dst, size_t n, size_t least, size_t *got)
{
    zt_stream *st = s->stream;
    size_t k = st->n - st->from < n ? st->n - st->from : n;
    if (k) {
        memcpy(dst, st->back + st->from, k);
        st->from += k;
        st->at += k;
    }
    *got = k;
    if (k >= least) return ZT_OK;
    ssize_t r = zt_fd_read(st->fd, dst + k, n - k, least - k);
    if (r < 0 && errno == EINTR)
        return zt_fail(s->ctx, ZT_EINTR, "%s: interrupted while it was read", s->name);
    if (r < 0) return zt_fail(s->ctx, ZT_EIO, "%s: %s", s->name, strerror(errno));
    st->at += (uint64_t)r;
    *got += (size_t)r;
    if (*got < least) {
        st->end = true;
        ((zt_source *)s)->size = st->at;
    }
    return ZT_OK;
}

/* Passes by what is before `offset`. */
static zt_status skip_to(const zt_source *s, uint64_t offset)
{
    char waste[4096];
    zt_stream *st = s->stream;
    if (offset < st->at)
        return zt_fail(s->ctx, ZT_EBUG, "%s: a stream at byte %llu was asked for byte %llu",
                       s->name, (unsigned long long)st->at, (unsigned long long)offset);
    while (st->at < offset && !st->end) {
        size_t got, n = offset - st->at < sizeof waste ? (size_t)(offset - st->at) : sizeof waste;
        zt_status status = take(s, waste, n, n, &got);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

zt_status zt_stream_read(const zt_source *s, uint64_t offset, void *dst, size_t n)
{
    size_t got = 0;
    zt_status status = skip_to(s, offset);
    if (status == ZT_OK && !s->stream->end) status = take(s, dst, n, n, &got);
    if (status == ZT_OK && got < n)
        return zt_fail(s->ctx, ZT_EDATA, "%s: %zu bytes wanted at offset %llu, it ends at %llu",
                       s->name, n, (unsigned long long)offset, (unsigned long long)s->size);
    return status;
}

zt_status zt_source_read_some(const zt_source *s, uint64_t offset, void *dst, size_t n,
                              size_t least, size_t *got)
{
    *got = 0;
    if (s->stream) {
        zt_status status = skip_to(s, offset);
        return status || s->stream->end ? status : take(s, dst, n, least, got);
    }
    if (offset < s->size) *got = s->size - offset < n ? (size_t)(s->size - offset) : n;
    return zt_source_read(s, offset, dst, *got);
}

zt_status zt_source_unread(zt_source *s, const void *bytes, size_t n)
{
    zt_stream *st = s->stream;
    if (!st || n == 0) return ZT_OK;
    size_t rest = st->n - st->from;
    char *back = zt_alloc(s->ctx, n + rest);
    if (!back) return ZT_ENOMEM;
    memcpy(back, bytes, n);
    if (rest) memcpy(back + n, st->back + st->from, rest);
    zt_free(s->ctx, st->back);
    st->back = back;
    st->from = 0;
    st->n = n + rest;
    st->at -= n;
    st->end = false;
    s->size = ZT_SIZE_UNKNOWN;
    return ZT_OK;
}

zt_status zt_source_spool(zt_source *s)
{
    zt_stream *st = s->stream;
    if (!st) return ZT_OK;
    if (st->at != 0)
        return zt_fail(s->ctx, ZT_EBUG, "%s: a stream at byte %llu cannot be spooled", s->name,
                       (unsigned long long)st->at);
    s->size = 0;
    zt_status status =
        zt_spool(s, st->fd, NULL, st->n ? st->back + st->from : NULL, st->n - st->from);
    zt_stream_free(s);
    return status;
}
