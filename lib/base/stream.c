/* stream.c - owns sources that are read as they come: a pipe, a FIFO, a device.
 *
 * Nothing is kept but what was read too far and given back. Reading a large piece goes straight to
 * where it belongs. */
#include "lib/base/internal.h"
#include "lib/base/require.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef struct zt_stream {
    int fd;
    uint64_t position; /* the offset of the byte that comes next */
    bool end;
    char *back; /* bytes given back, [back_next, back_size) still to come */
    size_t back_next, back_size;
} zt_stream;

zt_status zt_stream_begin(zt_source *source, int fd)
{
    zt_stream *stream = zt_calloc(source->ctx, 1, sizeof *stream);
    int own_fd = fd == STDIN_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
    if (stream && own_fd >= 0) {
        stream->fd = own_fd;
        source->stream = stream;
        source->size = ZT_SIZE_UNKNOWN;
        return ZT_OK;
    }
    if (own_fd < 0)
        zt_fail(source->ctx, ZT_ESYS, "%s: %s", source->name, strerror(errno));
    else
        close(own_fd);
    zt_free(source->ctx, stream);
    return zt_ctx_status(source->ctx);
}

void zt_stream_free(zt_source *source)
{
    if (!source->stream) return;
    close(source->stream->fd);
    zt_free(source->ctx, source->stream->back);
    zt_free(source->ctx, source->stream);
    source->stream = NULL;
}

bool zt_source_streams(const zt_source *source) { return source && source->stream != NULL; }

/* Up to `size` of the next bytes, `least` of them unless it ends. */
static zt_status read_next(const zt_source *source, char *dst, size_t size, size_t least, size_t *total)
{
    zt_stream *stream = source->stream;
    size_t kept = stream->back_size - stream->back_next < size ? stream->back_size - stream->back_next : size;
    if (kept) {
        memcpy(dst, stream->back + stream->back_next, kept);
        stream->back_next += kept;
        stream->position += kept;
    }
    *total = kept;
    if (kept >= least) return ZT_OK;
    ssize_t received = zt_fd_read(stream->fd, dst + kept, size - kept, least - kept);
    if (received < 0 && errno == EINTR) return zt_fail(source->ctx, ZT_EINTR, "%s: interrupted during read", source->name);
    if (received < 0) return zt_fail(source->ctx, ZT_EIO, "%s: %s", source->name, strerror(errno));
    stream->position += (uint64_t)received;
    *total += (size_t)received;
    if (*total < least) {
        stream->end = true;
        ((zt_source *)source)->size = stream->position;
    }
    return ZT_OK;
}

/* Passes by what is before `offset`. */
static zt_status skip_to(const zt_source *source, uint64_t offset)
{
    char waste[4096];
    zt_stream *stream = source->stream;
    if (offset < stream->position)
        return zt_fail(source->ctx, ZT_EBUG, "%s: the stream at byte %llu cannot seek back to byte %llu", source->name,
                       (unsigned long long)stream->position, (unsigned long long)offset);
    while (stream->position < offset && !stream->end) {
        size_t received, step = offset - stream->position < sizeof waste ? (size_t)(offset - stream->position) : sizeof waste;
        zt_status status = read_next(source, waste, step, step, &received);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

zt_status zt_stream_read(const zt_source *source, uint64_t offset, void *dst, size_t size)
{
    size_t received = 0;
    zt_status status = skip_to(source, offset);
    if (status == ZT_OK && !source->stream->end) status = read_next(source, dst, size, size, &received);
    if (status == ZT_OK && received < size)
        return zt_fail(source->ctx, ZT_EDATA,
                       "%s: unexpected end of stream: %zu bytes expected at offset %llu, the stream ends at "
                       "%llu",
                       source->name, size, (unsigned long long)offset, (unsigned long long)source->size);
    return status;
}

zt_status zt_source_read_some(const zt_source *source, uint64_t offset, void *dst, size_t size, size_t least, size_t *got)
{
    if (!source) return ZT_EUSAGE;
    ZT_REQUIRE(source->ctx, (dst || !size) && got, ZT_EUSAGE);
    *got = 0;
    if (source->stream) {
        zt_status status = skip_to(source, offset);
        return status || source->stream->end ? status : read_next(source, dst, size, least, got);
    }
    if (offset < source->size) *got = source->size - offset < size ? (size_t)(source->size - offset) : size;
    return zt_source_read(source, offset, dst, *got);
}

zt_status zt_source_unread(zt_source *source, const void *bytes, size_t size)
{
    if (!source) return ZT_EUSAGE;
    zt_stream *stream = source->stream;
    if (!stream || size == 0) return ZT_OK;
    size_t remaining = stream->back_size - stream->back_next;
    char *back = zt_alloc(source->ctx, size + remaining);
    if (!back) return ZT_ENOMEM;
    memcpy(back, bytes, size);
    if (remaining) memcpy(back + size, stream->back + stream->back_next, remaining);
    zt_free(source->ctx, stream->back);
    stream->back = back;
    stream->back_next = 0;
    stream->back_size = size + remaining;
    stream->position -= size;
    stream->end = false;
    source->size = ZT_SIZE_UNKNOWN;
    return ZT_OK;
}

zt_status zt_source_spool(zt_source *source)
{
    if (!source) return ZT_EUSAGE;
    zt_stream *stream = source->stream;
    if (!stream) return ZT_OK;
    if (stream->position != 0)
        return zt_fail(source->ctx, ZT_EBUG, "%s: the stream is already at byte %llu and cannot be spooled", source->name,
                       (unsigned long long)stream->position);
    source->size = 0;
    zt_status status = zt_spool(source, stream->fd, NULL, stream->back_size ? stream->back + stream->back_next : NULL,
                                stream->back_size - stream->back_next);
    zt_stream_free(source);
    return status;
}
