/* safetensors_index.c - owns models in several files by an index that says which tensor is where. */
#include "lib/io/index.h"
#include "lib/io/safetensors_file.h"
#include "lib/io/shards.h"

#include <string.h>

typedef struct shard_indexer {
    zt_safetensors *safetensors;
    size_t folder;  /* bytes of the index's name that are its folder, with the last '/' */
    zt_map *shards; /* name -> shard */
    zt_map *wanted; /* tensor -> shard */
} shard_indexer;

/* Opens and reads the file of that name in a folder. */
static zt_status open_shard(zt_safetensors *safetensors, const char *folder, size_t folder_length, const char *name)
{
    zt_str path;
    zt_source *source = NULL;
    zt_status status;
    const bool first = safetensors->shard_count == 0;
    const int64_t meta = safetensors->meta_count;
    zt_str_init(&path, safetensors->ctx);
    if (zt_str_put(&path, folder, folder_length) == ZT_OK && zt_str_puts(&path, name) == ZT_OK)
        source = zt_shard_open(safetensors->ctx, path.data);
    zt_str_fini(&path);
    status = source ? zt_st_add_shard(safetensors, source) : zt_ctx_status(safetensors->ctx);
    if (source && status != ZT_OK)
        zt_source_close(source);
    if (status == ZT_OK)
        status = zt_st_parse(safetensors);
    if (!first)
        safetensors->meta_count = meta;
    return status;
}

/* The number of the shard of this name, which is opened when it is met first. */
static zt_status find_shard(shard_indexer *indexer, const char *name, int64_t *shard)
{
    zt_safetensors *safetensors = indexer->safetensors;
    if (zt_map_get(indexer->shards, name, strlen(name), shard))
        return ZT_OK;
    if (safetensors->shard_count == ZT_MAX_SHARDS)
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: more than %d shards", safetensors->name, ZT_MAX_SHARDS);
    zt_status status = open_shard(safetensors, safetensors->name, indexer->folder, name);
    char *key = status == ZT_OK ? zt_arena_strndup(safetensors->texts, name, strlen(name)) : NULL;
    if (!key)
        return status == ZT_OK ? ZT_ENOMEM : status;
    *shard = safetensors->shard_count - 1;
    return zt_map_put(indexer->shards, key, strlen(key), *shard);
}

static zt_status read_mapping(void *user, const char *tensor, const char *file)
{
    shard_indexer *indexer = user;
    zt_ctx *ctx = indexer->safetensors->ctx;
    int64_t shard;
    zt_status status = find_shard(indexer, file, &shard);
    if (status != ZT_OK)
        return status;
    char buffer[160], *key = zt_arena_strndup(indexer->safetensors->texts, tensor, strlen(tensor));
    if (!key)
        return ZT_ENOMEM;
    if (zt_map_get(indexer->wanted, key, strlen(key), NULL))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s' is there twice", indexer->safetensors->name,
                       zt_escape(buffer, sizeof buffer, key, strlen(key)));
    return zt_map_put(indexer->wanted, key, strlen(key), shard);
}

/* A tensor that is in two files, or in none that the index names with it, is ZT_EDATA: who reads on
 * would have to choose. */
static zt_status check_tensor(const shard_indexer *indexer, zt_map *seen, const st_tensor *tensor)
{
    const zt_safetensors *safetensors = indexer->safetensors;
    const char *name = tensor->entry.name, *file = zt_source_name(safetensors->shards[tensor->shard_index]);
    char text[160];
    int64_t shard;
    if (zt_map_get(seen, name, strlen(name), &shard) && shard != tensor->shard_index)
        return zt_shard_twice(safetensors->ctx, zt_source_name(safetensors->shards[shard]), file, name);
    if (!zt_map_get(indexer->wanted, name, strlen(name), &shard) || shard != tensor->shard_index)
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: tensor '%s' is in %s, where the index does not have it",
                       safetensors->name, zt_escape(text, sizeof text, name, strlen(name)), file);
    return zt_map_put(seen, name, strlen(name), tensor->shard_index);
}

static zt_status check_tensors(shard_indexer *indexer)
{
    zt_safetensors *safetensors = indexer->safetensors;
    zt_map *seen = zt_map_new(safetensors->ctx, (size_t)safetensors->tensor_count);
    zt_status status = seen ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < safetensors->tensor_count; i++)
        status = check_tensor(indexer, seen, &safetensors->tensors[i]);
    if (status == ZT_OK)
        status = zt_st_map_names(safetensors);
    if (status == ZT_OK && (size_t)safetensors->tensor_count != zt_map_count(indexer->wanted))
        status = zt_index_missing(safetensors->ctx, safetensors->name, seen);
    zt_map_free(seen);
    return status;
}

zt_safetensors *zt_safetensors_open_index(zt_ctx *ctx, const char *path)
{
    zt_safetensors *safetensors = zt_st_new(ctx, path);
    if (!safetensors)
        return NULL;
    const char *slash = strrchr(path, '/');
    safetensors->owns_sources = true;
    shard_indexer indexer = {.safetensors = safetensors,
                 .folder = slash ? (size_t)(slash - path) + 1 : 0,
                 .shards = zt_map_new(ctx, 16),
                 .wanted = zt_map_new(ctx, 256)};
    bool done = indexer.shards && indexer.wanted && zt_index_read(ctx, path, read_mapping, &indexer) == ZT_OK &&
                check_tensors(&indexer) == ZT_OK;
    zt_map_free(indexer.shards);
    zt_map_free(indexer.wanted);
    if (done)
        return safetensors;
    zt_safetensors_close(safetensors);
    return NULL;
}
