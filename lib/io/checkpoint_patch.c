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

/* The header that the file would have, of exactly n bytes; NULL: it would not, or on failure. */
static char *new_header(zt_checkpoint *c, const zt_meta *meta, const zt_entry *entries,
                        int64_t count, size_t n)
{
    size_t bytes = 0;
    zt_arena *texts = zt_arena_new(c->ctx, 0);
    zt_meta *m = zt_meta_new(c->ctx);
    zt_entry *stored = zt_alloc_array(c->ctx, (size_t)count, sizeof *stored);
    char *header = NULL;
    zt_part part = {.ctx = c->ctx, .entry = stored, .n = count, .align = 1};
    if (texts && m && stored && zt_meta_share(m, meta) == ZT_OK &&
        zt_mask_entries(c->ctx, texts, c->container, entries, count, stored, m) == ZT_OK &&
        zt_fit_meta(c->container, &m) == ZT_OK)
        header = c->container->ops->header(&part, m, n, &bytes);
    zt_free(c->ctx, stored);
    zt_meta_free(m);
    zt_arena_free(texts);
    if (header && bytes == n) return header;
    zt_free(c->ctx, header);
    return NULL;
}

/* The bytes that differ, first to last, into the file, if they are in one page of it. */
static zt_status write_difference(zt_checkpoint *c, const char *path, const char *old,
                                  const char *fresh, size_t n, bool *done)
{
    size_t from = 0, to = n;
    while (from < n && old[from] == fresh[from]) from++;
    while (to > from && old[to - 1] == fresh[to - 1]) to--;
    if (to == from) {
        *done = true;
        return ZT_OK;
    }
    if (from / PAGE != (to - 1) / PAGE) return ZT_OK;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return ZT_OK; /* a new file may do */
    ssize_t k = pwrite(fd, fresh + from, to - from, (off_t)from);
    int error = k < 0 ? errno : k != (ssize_t)(to - from) ? EIO : fdatasync(fd) ? errno : 0;
    close(fd);
    *done = error == 0;
    return error ? zt_fail(c->ctx, ZT_EIO, "%s: %s", path, strerror(error)) : ZT_OK;
}

zt_status zt_checkpoint_patch(zt_checkpoint *c, const char *path, const zt_meta *meta,
                              const zt_entry *entries, int64_t n, bool *done)
{
    const zt_source *source = NULL;
    uint64_t at;
    *done = false;
    if (!c->container->ops || !c->container->ops->header || c->streams || n == 0 ||
        n != zt_checkpoint_count(c) || !zt_checkpoint_place(c, 0, &source, &at) || at > MOST)
        return ZT_OK;
    for (int64_t i = 1; i < n; i++) {
        const zt_source *other;
        uint64_t offset;
        if (!zt_checkpoint_place(c, i, &other, &offset) || other != source)
            return ZT_OK; /* shards */
    }
    char *old = zt_alloc(c->ctx, (size_t)at);
    zt_status st = old ? zt_source_read(source, 0, old, (size_t)at) : ZT_ENOMEM;
    char *fresh = st == ZT_OK ? new_header(c, meta, entries, n, (size_t)at) : NULL;
    if (st == ZT_OK && !fresh)
        st = zt_ctx_status(c->ctx);
    else if (st == ZT_OK && memcmp(old, fresh, 8) == 0) /* version and byte order, or length */
        st = write_difference(c, path, old, fresh, (size_t)at, done);
    zt_free(c->ctx, old);
    zt_free(c->ctx, fresh);
    return st;
}
