/* cache.c - what the driver compiled, kept in the user's cache folder from one run to the next:
 * $XDG_CACHE_HOME/zt, else ~/.cache/zt, a file for each driver and device.
 *
 * A driver believes what it is given, so a file is read only where its hash is right and the header
 * of its data (VkPipelineCacheHeaderVersionOne) names this very driver; else it is as if there were
 * none. It is written whole or not at all, by a rename: of two processes the later wins. It saves
 * time and nothing else, so no failure here is told.
 */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { MOST = 64 << 20 };

typedef struct head { /* of our file; the driver's data follow */
    char magic[16];
    uint64_t bytes, hash[2]; /* of the data: XXH3-128 */
} head;

static const char magic[16] = "zt-vulkan-1\n";

static void hash_of(const void *data, size_t n, uint64_t hash[2])
{
    XXH128_hash_t h = XXH3_128bits(data, n);
    hash[0] = h.low64;
    hash[1] = h.high64;
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool folder(char *path, size_t n)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int len = base && *base == '/'   ? snprintf(path, n, "%s", base)
              : home && *home == '/' ? snprintf(path, n, "%s/.cache", home)
                                     : 0;
    return len > 0 && (size_t)len < n;
}

/* With `make` the folders are made that are not there. */
static bool path_of(const zt_vk_engine *engine, char *path, size_t n, bool make)
{
    char base[512];
    if (!folder(base, sizeof base)) return false;
    if (make) mkdir(base, 0700);
    int len = snprintf(path, n, "%s/zt", base);
    if (make) mkdir(path, 0700);
    len += snprintf(path + len, n - (size_t)len, "/vulkan-%08x-%08x-", engine->vendor, engine->model);
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        len += snprintf(path + len, n - (size_t)len, "%02x", engine->cache_uuid[i]);
    return true;
}

/* A folder or a pipe in its place is left alone. */
static bool may_replace(const char *path)
{
    struct stat st;
    return lstat(path, &st) || S_ISREG(st.st_mode);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Did this driver write it? */
static bool ours(const zt_vk_engine *engine, const void *data, size_t n)
{
    VkPipelineCacheHeaderVersionOne h;
    if (n < sizeof h) return false;
    memcpy(&h, data, sizeof h);
    return h.headerSize >= sizeof h && h.headerSize <= n &&
           h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && h.vendorID == engine->vendor &&
           h.deviceID == engine->model && !memcmp(h.pipelineCacheUUID, engine->cache_uuid, VK_UUID_SIZE);
}

/* The file's data of `h->bytes`, or NULL. */
static void *read_file(const zt_vk_engine *engine, zt_ctx *ctx, const char *path, head *h)
{
    uint64_t hash[2];
    zt_source *s = zt_source_open(ctx, path);
    uint64_t size = s ? zt_source_size(s) : 0;
    void *data = NULL;
    if (size >= sizeof *h && size < MOST && !zt_source_read(s, 0, h, sizeof *h) &&
        !memcmp(h->magic, magic, sizeof magic) && h->bytes == size - sizeof *h)
        data = zt_alloc(ctx, (size_t)h->bytes);
    if (data && !zt_source_read(s, sizeof *h, data, (size_t)h->bytes)) {
        hash_of(data, (size_t)h->bytes, hash);
        zt_source_close(s);
        if (!memcmp(hash, h->hash, sizeof hash) && ours(engine, data, (size_t)h->bytes)) return data;
    } else {
        zt_source_close(s);
    }
    zt_free(ctx, data);
    return NULL;
}

/* A folder or a pipe is no cache; the context is one of its own, whose errors nobody reads. */
void zt_vk_cache_open(zt_vk_engine *engine)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    char path[640];
    head h;
    struct stat st;
    void *data = NULL;
    zt_ctx *ctx = zt_ctx_new();
    if (ctx && path_of(engine, path, sizeof path, false) && !stat(path, &st) && S_ISREG(st.st_mode))
        data = read_file(engine, ctx, path, &h);
    if (data) {
        info.initialDataSize = (size_t)h.bytes;
        info.pInitialData = data;
        memcpy(engine->cached, h.hash, sizeof engine->cached);
    }
    if (engine->vk.CreatePipelineCache(engine->device, &info, NULL, &engine->cache)) engine->cache = VK_NULL_HANDLE;
    if (ctx) zt_free(ctx, data);
    zt_ctx_free(ctx);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_file(const zt_vk_engine *engine, zt_ctx *ctx, const void *data, size_t n)
{
    char path[640];
    head h = {.bytes = n};
    memcpy(h.magic, magic, sizeof magic);
    hash_of(data, n, h.hash);
    if (!memcmp(h.hash, engine->cached, sizeof h.hash) || !ours(engine, data, n)) return;
    if (!path_of(engine, path, sizeof path, true) || !may_replace(path)) return;
    zt_sink *s = zt_sink_open(ctx, path, true);
    if (s && !zt_sink_write(s, &h, sizeof h) && !zt_sink_write(s, data, n)) zt_sink_commit(s);
    zt_sink_close(s);
}

/* Some drivers have nothing to keep: their data are a header alone, which is not written. */
void zt_vk_cache_close(zt_vk_engine *engine)
{
    size_t n = 0;
    zt_ctx *ctx = engine->cache && engine->n_pipes ? zt_ctx_new() : NULL;
    if (ctx && !engine->vk.GetPipelineCacheData(engine->device, engine->cache, &n, NULL) && n < MOST &&
        n > sizeof(VkPipelineCacheHeaderVersionOne)) {
        void *data = zt_alloc(ctx, n);
        if (data && !engine->vk.GetPipelineCacheData(engine->device, engine->cache, &n, data))
            write_file(engine, ctx, data, n);
        zt_free(ctx, data);
    }
    zt_ctx_free(ctx);
    if (engine->cache) engine->vk.DestroyPipelineCache(engine->device, engine->cache, NULL);
    engine->cache = VK_NULL_HANDLE;
}
