/* cache.c - what the driver compiled, kept in the user's cache folder from one run to the next:
 * $XDG_CACHE_HOME/zt, else ~/.cache/zt, a file for each driver and device.
 *
 * A driver believes what it is given, so a file is read only where its hash is right and the header
 * of its data (VkPipelineCacheHeaderVersionOne) names this very driver; else it is as if there were
 * none. It is written whole or not at all, by a rename: of two processes the later wins. It saves
 * time and nothing else, so failures here are not reported.
 */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { MOST = 64 << 20 };

typedef struct cache_head { /* of our file; the driver's data follow */
    char magic[16];
    uint64_t bytes, hash[2]; /* of the data: XXH3-128 */
} cache_head;

static const char magic[16] = "zt-vulkan-1\n";

static void hash_of(const void *data, size_t length, uint64_t hash[2])
{
    XXH128_hash_t head = XXH3_128bits(data, length);
    hash[0] = head.low64;
    hash[1] = head.high64;
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool cache_folder(char *path, size_t length)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int len = base && *base == '/'   ? snprintf(path, length, "%s", base)
              : home && *home == '/' ? snprintf(path, length, "%s/.cache", home)
                                     : 0;
    return len > 0 && (size_t)len < length;
}

/* With `make` the folders are made that are not there. */
static bool path_of(const zt_vk_engine *engine, char *path, size_t length, bool make)
{
    char base[512];
    if (!cache_folder(base, sizeof base)) return false;
    if (make) mkdir(base, 0700);
    int len = snprintf(path, length, "%s/zt", base);
    if (make) mkdir(path, 0700);
    len += snprintf(path + len, length - (size_t)len, "/vulkan-%08x-%08x-", engine->vendor, engine->model);
    for (size_t i = 0; i < VK_UUID_SIZE; i++) len += snprintf(path + len, length - (size_t)len, "%02x", engine->cache_uuid[i]);
    return true;
}

/* A folder or a pipe in its place is left alone. */
static bool may_replace(const char *path)
{
    struct stat file_stat;
    return lstat(path, &file_stat) || S_ISREG(file_stat.st_mode);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Did this driver write it? */
static bool is_our_driver(const zt_vk_engine *engine, const void *data, size_t length)
{
    VkPipelineCacheHeaderVersionOne header;
    if (length < sizeof header) return false;
    memcpy(&header, data, sizeof header);
    return header.headerSize >= sizeof header && header.headerSize <= length &&
           header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == engine->vendor &&
           header.deviceID == engine->model && !memcmp(header.pipelineCacheUUID, engine->cache_uuid, VK_UUID_SIZE);
}

/* The file's data of `head->bytes`, or NULL. */
static void *read_file(const zt_vk_engine *engine, zt_ctx *ctx, const char *path, cache_head *head)
{
    uint64_t hash[2];
    zt_source *source = zt_source_open(ctx, path);
    uint64_t size = source ? zt_source_size(source) : 0;
    void *data = NULL;
    if (size >= sizeof *head && size < MOST && !zt_source_read(source, 0, head, sizeof *head) &&
        !memcmp(head->magic, magic, sizeof magic) && head->bytes == size - sizeof *head)
        data = zt_alloc(ctx, (size_t)head->bytes);
    if (data && !zt_source_read(source, sizeof *head, data, (size_t)head->bytes)) {
        hash_of(data, (size_t)head->bytes, hash);
        zt_source_close(source);
        if (!memcmp(hash, head->hash, sizeof hash) && is_our_driver(engine, data, (size_t)head->bytes)) return data;
    } else {
        zt_source_close(source);
    }
    zt_free(ctx, data);
    return NULL;
}

/* A folder or a pipe is no cache; the context is one of its own, whose errors nobody reads. */
void zt_vk_cache_open(zt_vk_engine *engine)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    char path[640];
    cache_head head;
    struct stat file_stat;
    void *data = NULL;
    zt_ctx *ctx = zt_ctx_new();
    if (ctx && path_of(engine, path, sizeof path, false) && !stat(path, &file_stat) && S_ISREG(file_stat.st_mode))
        data = read_file(engine, ctx, path, &head);
    if (data) {
        info.initialDataSize = (size_t)head.bytes;
        info.pInitialData = data;
        memcpy(engine->cached, head.hash, sizeof engine->cached);
    }
    if (engine->vk.CreatePipelineCache(engine->device, &info, NULL, &engine->cache)) engine->cache = VK_NULL_HANDLE;
    if (ctx) zt_free(ctx, data);
    zt_ctx_free(ctx);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_file(const zt_vk_engine *engine, zt_ctx *ctx, const void *data, size_t length)
{
    char path[640];
    cache_head head = {.bytes = length};
    memcpy(head.magic, magic, sizeof magic);
    hash_of(data, length, head.hash);
    if (!memcmp(head.hash, engine->cached, sizeof head.hash) || !is_our_driver(engine, data, length)) return;
    if (!path_of(engine, path, sizeof path, true) || !may_replace(path)) return;
    zt_sink *sink = zt_sink_open(ctx, path, true);
    if (sink && !zt_sink_write(sink, &head, sizeof head) && !zt_sink_write(sink, data, length)) zt_sink_commit(sink);
    zt_sink_close(sink);
}

/* Some drivers have nothing to keep: their data are a header alone, which is not written. */
void zt_vk_cache_close(zt_vk_engine *engine)
{
    size_t length = 0;
    zt_ctx *ctx = engine->cache && engine->n_pipes ? zt_ctx_new() : NULL;
    if (ctx && !engine->vk.GetPipelineCacheData(engine->device, engine->cache, &length, NULL) && length < MOST &&
        length > sizeof(VkPipelineCacheHeaderVersionOne)) {
        void *data = zt_alloc(ctx, length);
        if (data && !engine->vk.GetPipelineCacheData(engine->device, engine->cache, &length, data))
            write_file(engine, ctx, data, length);
        zt_free(ctx, data);
    }
    zt_ctx_free(ctx);
    if (engine->cache) engine->vk.DestroyPipelineCache(engine->device, engine->cache, NULL);
    engine->cache = VK_NULL_HANDLE;
}
