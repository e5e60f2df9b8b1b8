/* checkpoint_made.c - owns checkpoints without a file: whose tensors are made as they are read. */
#include "lib/base/require.h"
#include "lib/io/checkpoint_file.h"

#include <string.h>

typedef struct made_checkpoint {
    zt_ctx *ctx;
    zt_made source;
    zt_map *by_name;
} made_checkpoint;

static int64_t count_tensors(const void *user) { return ((const made_checkpoint *)user)->source.count; }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    *entry = ((const made_checkpoint *)user)->source.entries[i];
}

static int64_t find_tensor(const void *user, const char *name)
{
    return zt_map_find(((const made_checkpoint *)user)->by_name, name);
}

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    const made_checkpoint *made = user;
    const zt_entry *entry = &made->source.entries[i];
    if (offset > entry->bytes || size > entry->bytes - offset)
        return zt_fail(made->ctx, ZT_EUSAGE, "%s: tensor '%s': read of %zu bytes at offset %llu is out of range",
                       made->source.name, entry->name, size, (unsigned long long)offset);
    return size ? made->source.read(made->source.user, i, offset, dst, size) : ZT_OK;
}

static zt_status read_meta(const void *user, zt_meta *to)
{
    return zt_meta_share(to, ((const made_checkpoint *)user)->source.meta);
}

static void close_made(void *user)
{
    made_checkpoint *made = user;
    if (made->source.release) made->source.release(made->source.user);
    zt_map_free(made->by_name);
    zt_free(made->ctx, made);
}

static const zt_reader reader = {
    .count = count_tensors, .get = get_entry, .find = find_tensor, .read = read_data, .meta = read_meta, .close = close_made};

zt_checkpoint *zt_checkpoint_of_made(zt_ctx *ctx, const zt_made *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    made_checkpoint *made = zt_calloc(ctx, 1, sizeof *made);
    if (!made) {
        if (source->release) source->release(source->user);
        return NULL;
    }
    *made = (made_checkpoint){.ctx = ctx, .source = *source, .by_name = zt_map_new(ctx, (size_t)source->count)};
    zt_status status = made->by_name ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < source->count && status == ZT_OK; i++)
        status = zt_map_put(made->by_name, source->entries[i].name, strlen(source->entries[i].name), i);
    if (status == ZT_OK) return zt_checkpoint_over(ctx, source->name, source->container, &reader, made);
    close_made(made);
    return NULL;
}
