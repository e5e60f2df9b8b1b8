/* checkpoint_patch.c - owns changing metadata and names of a file where it is: what changed lies in
 * one page, and the header keeps its length, so that one write does it or does not. */
#include "lib/io/checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    MOST = 1 << 28 /* bytes of a header and its padding: two of them are held */
};

/* The header that the file would have, of exactly `size` bytes; NULL: it would not, or on failure. */
static char *new_header(zt_checkpoint *checkpoint, const zt_meta *meta, const zt_entry *entries,
                        int64_t count, size_t size)
{
    size_t bytes = 0;
    zt_arena *texts = zt_arena_new(checkpoint->ctx, 0);
    zt_meta *all_meta = zt_meta_new(checkpoint->ctx);
    zt_entry *stored = zt_alloc_array(checkpoint->ctx, (size_t)count, sizeof *stored);
    char *header = NULL;
    zt_part part = {.ctx = checkpoint->ctx, .entries = stored, .count = count, .align = 1};
    if (texts && all_meta && stored && zt_meta_share(all_meta, meta) == ZT_OK &&
        zt_mask_entries(checkpoint->ctx, texts, checkpoint->container, entries, count, stored, all_meta) == ZT_OK &&
        zt_fit_meta(checkpoint->container, &all_meta) == ZT_OK)
        header = checkpoint->container->ops->header(&part, all_meta, size, &bytes);
    zt_free(checkpoint->ctx, stored);
    zt_meta_free(all_meta);
    zt_arena_free(texts);
    if (header && bytes == size) return header;
    zt_free(checkpoint->ctx, header);
    return NULL;
}

/* The bytes that differ, first to last, into the file, if they are in one page of it. */
static zt_status write_difference(zt_checkpoint *checkpoint, const char *path, const char *old,
                                  const char *fresh, size_t size, bool *done)
{
    size_t begin = 0, end = size;
    while (begin < size && old[begin] == fresh[begin]) begin++;
    while (end > begin && old[end - 1] == fresh[end - 1]) end--;
    if (end == begin) {
        *done = true;
        return ZT_OK;
    }
    if (begin / PAGE != (end - 1) / PAGE) return ZT_OK;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return ZT_OK; /* a new file may do */
    ssize_t written = pwrite(fd, fresh + begin, end - begin, (off_t)begin);
    int error = written < 0 ? errno : written != (ssize_t)(end - begin) ? EIO : fdatasync(fd) ? errno : 0;
    close(fd);
    *done = error == 0;
    return error ? zt_fail(checkpoint->ctx, ZT_EIO, "%s: %s", path, strerror(error)) : ZT_OK;
}

zt_status zt_checkpoint_patch(zt_checkpoint *checkpoint, const char *path, const zt_meta *meta,
                              const zt_entry *entries, int64_t count, bool *done)
{
    const zt_source *source = NULL;
    uint64_t position;
    *done = false;
    if (!checkpoint->container->ops || !checkpoint->container->ops->header || checkpoint->streams || count == 0 ||
        count != zt_checkpoint_count(checkpoint) || !zt_checkpoint_place(checkpoint, 0, &source, &position) || position > MOST)
        return ZT_OK;
    for (int64_t i = 1; i < count; i++) {
        const zt_source *other;
        uint64_t offset;
        if (!zt_checkpoint_place(checkpoint, i, &other, &offset) || other != source)
            return ZT_OK; /* shards */
    }
    char *old = zt_alloc(checkpoint->ctx, (size_t)position);
    zt_status status = old ? zt_source_read(source, 0, old, (size_t)position) : ZT_ENOMEM;
    char *fresh = status == ZT_OK ? new_header(checkpoint, meta, entries, count, (size_t)position) : NULL;
    if (status == ZT_OK && !fresh)
        status = zt_ctx_status(checkpoint->ctx);
    else if (status == ZT_OK && memcmp(old, fresh, 8) == 0) /* version and byte order, or length */
        status = write_difference(checkpoint, path, old, fresh, (size_t)position, done);
    zt_free(checkpoint->ctx, old);
    zt_free(checkpoint->ctx, fresh);
    return status;
}
