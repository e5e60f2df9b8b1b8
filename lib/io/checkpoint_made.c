/* checkpoint_made.c - owns checkpoints without a file: whose tensors are made as they are read. */
#include "lib/io/checkpoint_file.h"

#include <string.h>

typedef struct made {
    zt_ctx *ctx;
    zt_made is;
    zt_map *by_name;
} made;

static int64_t count(const void *user) { return ((const made *)user)->is.n; }

static void get(const void *user, int64_t i, zt_entry *e) { *e = ((const made *)user)->is.entry[i]; }

static int64_t find(const void *user, const char *name)
{
    return zt_map_find(((const made *)user)->by_name, name);
}

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    const made *m = user;
    const zt_entry *e = &m->is.entry[i];
    if (offset > e->bytes || n > e->bytes - offset)
        return zt_fail(m->ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %llu asked for",
                       m->is.name, e->name, n, (unsigned long long)offset);
    return n ? m->is.read(m->is.user, i, offset, dst, n) : ZT_OK;
}

static bool has(const void *user, const char *key)
{
    return zt_meta_find(((const made *)user)->is.meta, key) >= 0;
}

static zt_status meta(const void *user, zt_meta *to)
{
    return zt_meta_share(to, ((const made *)user)->is.meta);
}

static void close_made(void *user)
{
    made *m = user;
    if (m->is.release) m->is.release(m->is.user);
    zt_map_free(m->by_name);
    zt_free(m->ctx, m);
}

static const zt_reader reader = {.count = count,
                                 .get = get,
                                 .find = find,
                                 .read = read_data,
                                 .has = has,
                                 .meta = meta,
                                 .close = close_made};

zt_checkpoint *zt_checkpoint_of_made(zt_ctx *ctx, const zt_made *is)
{
    made *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m) {
        if (is->release) is->release(is->user);
        return NULL;
    }
    *m = (made){.ctx = ctx, .is = *is, .by_name = zt_map_new(ctx, (size_t)is->n)};
    zt_status s = m->by_name ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < is->n && s == ZT_OK; i++)
        s = zt_map_put(m->by_name, is->entry[i].name, strlen(is->entry[i].name), i);
    if (s == ZT_OK) return zt_checkpoint_over(ctx, is->name, is->container, &reader, m);
    close_made(m);
    return NULL;
}
