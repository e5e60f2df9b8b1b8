/* safetensors.c - owns open safetensors files: opening and closing, one file or several by an index; tensors by
 * name, the store. */
#include "lib/base/require.h"
#include "lib/io/fault.h"
#include "lib/io/safetensors_file.h"
#include "lib/io/index.h"
#include "lib/io/shards.h"

#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

zt_safetensors *zt_st_new(zt_ctx *ctx, const char *name)
{
    zt_safetensors *safetensors = zt_calloc(ctx, 1, sizeof *safetensors);
    if (!safetensors) return NULL;
    safetensors->ctx = ctx;
    safetensors->name = zt_strdup(ctx, name);
    safetensors->texts = zt_arena_new(ctx, 4096);
    if (safetensors->name && safetensors->texts) return safetensors;
    zt_safetensors_close(safetensors);
    return NULL;
}

void zt_safetensors_close(zt_safetensors *safetensors)
{
    if (!safetensors) return;
    for (int i = 0; safetensors->owns_sources && i < safetensors->shard_count; i++) zt_source_close(safetensors->shards[i]);
    zt_map_free(safetensors->names);
    zt_free(safetensors->ctx, safetensors->shards);
    zt_free(safetensors->ctx, safetensors->tensors);
    zt_free(safetensors->ctx, safetensors->meta);
    zt_arena_free(safetensors->texts);
    zt_free(safetensors->ctx, safetensors->name);
    zt_free(safetensors->ctx, safetensors);
}

void *zt_st_grow_list(zt_ctx *ctx, void *list, int64_t count, size_t entry_bytes)
{
    if (count & (count - 1)) /* not a power of two: inside what there is */
        return list;
    return zt_realloc(ctx, list, (size_t)(count ? 2 * count : 1) * entry_bytes);
}

zt_status zt_st_add_shard(zt_safetensors *safetensors, zt_source *source)
{
    zt_source **list = zt_st_grow_list(safetensors->ctx, safetensors->shards, safetensors->shard_count, sizeof *list);
    if (!list) return ZT_ENOMEM;
    safetensors->shards = list;
    safetensors->shards[safetensors->shard_count++] = source;
    return ZT_OK;
}

zt_status zt_st_map_names(zt_safetensors *safetensors)
{
    char text[160];
    safetensors->names = zt_map_new(safetensors->ctx, (size_t)safetensors->tensor_count);
    zt_status status = safetensors->names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < safetensors->tensor_count; i++) {
        const char *name = safetensors->tensors[i].entry.name;
        size_t length = strlen(name);
        size_t before = zt_map_count(safetensors->names);
        status = zt_map_put(safetensors->names, name, length, i);
        if (status == ZT_OK && zt_map_count(safetensors->names) == before)
            status = zt_faults_tell(safetensors->ctx, "%s: duplicate tensor '%s'", safetensors->name,
                                    zt_escape(text, sizeof text, name, length));
    }
    return status;
}

/* Takes over the source, also when it fails, if `owns`. */
static zt_safetensors *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_safetensors *safetensors = zt_st_new(ctx, zt_source_name(source));
    if (safetensors && zt_st_add_shard(safetensors, source) == ZT_OK) {
        safetensors->owns_sources = owns;
        if (zt_st_parse(safetensors) == ZT_OK && zt_st_map_names(safetensors) == ZT_OK) return safetensors;
    } else if (owns) {
        zt_source_close(source);
    }
    zt_safetensors_close(safetensors);
    return NULL;
}

zt_safetensors *zt_safetensors_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_safetensors *zt_safetensors_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_safetensors *zt_safetensors_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

const char *zt_safetensors_name(const zt_safetensors *safetensors) { return safetensors ? safetensors->name : NULL; }

/* ---- tensors and metadata -------------------------------------------------------------------- */

int64_t zt_safetensors_count(const zt_safetensors *safetensors) { return safetensors ? safetensors->tensor_count : 0; }

const zt_safetensors_entry *zt_safetensors_get(const zt_safetensors *safetensors, int64_t i)
{
    return safetensors && i >= 0 && i < safetensors->tensor_count ? &safetensors->tensors[i].entry : NULL;
}

int64_t zt_safetensors_find(const zt_safetensors *safetensors, const char *name)
{
    if (!safetensors) return -1;
    ZT_REQUIRE(safetensors->ctx, name, -1);
    return zt_map_find(safetensors->names, name);
}

zt_status zt_safetensors_read(const zt_safetensors *safetensors, int64_t i, size_t offset, void *dst, size_t size)
{
    if (!safetensors) return ZT_EUSAGE;
    char text[160];
    size_t end;
    if (i < 0 || i >= safetensors->tensor_count)
        return zt_fail(safetensors->ctx, ZT_EUSAGE, "%s: tensor index %lld is out of range", safetensors->name, (long long)i);
    const st_tensor *tensor = &safetensors->tensors[i];
    if (!zt_add_size(offset, size, &end) || end > tensor->entry.bytes)
        return zt_fail(safetensors->ctx, ZT_EUSAGE,
                       "%s: tensor '%s': read of %zu bytes at offset %zu is out of range: the tensor has "
                       "%zu bytes",
                       safetensors->name, zt_escape(text, sizeof text, tensor->entry.name, strlen(tensor->entry.name)), size,
                       offset, tensor->entry.bytes);
    return zt_source_read(safetensors->shards[tensor->shard_index], tensor->offset + offset, dst, size);
}

void zt_safetensors_place(const zt_safetensors *safetensors, int64_t i, const zt_source **source, uint64_t *offset)
{
    if (!safetensors) return;
    ZT_REQUIRE(safetensors->ctx, source && offset && i >= 0 && i < safetensors->tensor_count, );
    *source = safetensors->shards[safetensors->tensors[i].shard_index];
    *offset = safetensors->tensors[i].offset;
}

zt_status zt_safetensors_end(const zt_safetensors *safetensors)
{
    if (!safetensors) return ZT_EUSAGE;
    char byte;
    size_t received = 0;
    if (safetensors->shard_count != 1 || !zt_source_streams(safetensors->shards[0])) return ZT_OK;
    const st_tensor *last = safetensors->tensor_count ? &safetensors->tensors[safetensors->tensor_count - 1] : NULL;
    uint64_t position = last ? last->offset + last->entry.bytes : safetensors->data_start;
    zt_status status = zt_source_read_some(safetensors->shards[0], position, &byte, 1, 1, &received);
    if (status == ZT_OK && received)
        status = zt_fail(safetensors->ctx, ZT_EDATA, "%s: unexpected data after the last tensor", safetensors->name);
    return status;
}

const char *zt_safetensors_meta(const zt_safetensors *safetensors, int64_t i, const char **value, size_t *size)
{
    if (!safetensors) return NULL;
    if (i < 0 || i >= safetensors->meta_count) return NULL;
    if (value) *value = safetensors->meta[i].value;
    if (size) *size = safetensors->meta[i].size;
    return safetensors->meta[i].key;
}

/* ---- the store ------------------------------------------------------------------------------- */

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_safetensors *safetensors = user;
    int64_t i = zt_safetensors_find(safetensors, name);
    char text[160];
    if (i < 0) return ZT_ENOENT;
    const zt_safetensors_entry *e = &safetensors->tensors[i].entry;
    if (e->type.rank < 0)
        return zt_fail(safetensors->ctx, ZT_ENOTSUP, "%s: tensor '%s': unsupported type %s%s", safetensors->name,
                       zt_escape(text, sizeof text, name, strlen(name)), e->dtype,
                       e->type.dtype < ZT_DTYPE_COUNT ? " with too many dimensions" : "");
    *type = e->type;
    *handle = i;
    return ZT_OK;
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    return zt_safetensors_read(user, handle, offset, dst, size);
}

zt_store zt_safetensors_store(zt_safetensors *safetensors)
{
    return (zt_store){.user = safetensors, .find = store_find, .read = store_read};
}

/* ---- several files by an index -------------------------------------------------------------- */

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
    if (source && status != ZT_OK) zt_source_close(source);
    if (status == ZT_OK) status = zt_st_parse(safetensors);
    if (!first) safetensors->meta_count = meta;
    return status;
}

/* The number of the shard of this name, which is opened when it is met first. */
static zt_status find_shard(shard_indexer *indexer, const char *name, int64_t *shard)
{
    zt_safetensors *safetensors = indexer->safetensors;
    if (zt_map_get(indexer->shards, name, strlen(name), shard)) return ZT_OK;
    if (safetensors->shard_count == ZT_MAX_SHARDS)
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: the index names more than %d shards", safetensors->name, ZT_MAX_SHARDS);
    zt_status status = open_shard(safetensors, safetensors->name, indexer->folder, name);
    char *key = status == ZT_OK ? zt_arena_strndup(safetensors->texts, name, strlen(name)) : NULL;
    if (!key) return status == ZT_OK ? ZT_ENOMEM : status;
    *shard = safetensors->shard_count - 1;
    return zt_map_put(indexer->shards, key, strlen(key), *shard);
}

static zt_status read_mapping(void *user, const char *tensor, const char *file)
{
    shard_indexer *indexer = user;
    zt_ctx *ctx = indexer->safetensors->ctx;
    int64_t shard;
    zt_status status = find_shard(indexer, file, &shard);
    if (status != ZT_OK) return status;
    char buffer[160], *key = zt_arena_strndup(indexer->safetensors->texts, tensor, strlen(tensor));
    if (!key) return ZT_ENOMEM;
    if (zt_map_get(indexer->wanted, key, strlen(key), NULL))
        return zt_fail(ctx, ZT_EDATA, "%s: duplicate tensor '%s'", indexer->safetensors->name,
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
        return zt_fail(safetensors->ctx, ZT_EDATA, "%s: tensor '%s' is in %s, but the index does not list it there",
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
    if (status == ZT_OK) status = zt_st_map_names(safetensors);
    if (status == ZT_OK && (size_t)safetensors->tensor_count != zt_map_count(indexer->wanted))
        status = zt_index_missing(safetensors->ctx, safetensors->name, seen);
    zt_map_free(seen);
    return status;
}

zt_safetensors *zt_safetensors_open_index(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_safetensors *safetensors = zt_st_new(ctx, path);
    if (!safetensors) return NULL;
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
    if (done) return safetensors;
    zt_safetensors_close(safetensors);
    return NULL;
}
