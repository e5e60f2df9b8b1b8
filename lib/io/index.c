/* index.c - owns reading an index: which tensor is in which file. */
#include "lib/io/index.h"
#include "lib/io/json.h"

#include <string.h>

enum { MAX_INDEX = 64 << 20 }; /* bytes */

typedef struct index_reading {
    zt_ctx *ctx;
    const char *path;
    zt_index_fn *fn;
    void *user;
    bool has_map;
} index_reading;

/* A file of this very folder: nothing that leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '-' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strpbrk(name, "/\\");
}

static zt_status read_mapping(void *user, const char *tensor, const char *text, size_t size)
{
    index_reading *reading = user;
    char buffer[160];
    zt_str file;
    zt_str_init(&file, reading->ctx);
    zt_status status = zt_json_string(reading->ctx, reading->path, text, size, &file);
    const char *name = file.data ? file.data : "";
    if (status == ZT_OK && !is_plain_name(name))
        status =
            zt_fail(reading->ctx, ZT_EDATA, "%s: '%s' is not a plain file name: shards must be in the directory of the index",
                    reading->path, zt_escape(buffer, sizeof buffer, name, strlen(name)));
    if (status == ZT_OK) status = reading->fn(reading->user, tensor, name);
    zt_str_fini(&file);
    return status;
}

static zt_status read_member(void *user, const char *key, const char *text, size_t size)
{
    index_reading *reading = user;
    if (strcmp(key, "weight_map") != 0) {
        json_t *json = zt_json_load(reading->ctx, reading->path, text, size);
        json_decref(json);
        return json ? ZT_OK : zt_ctx_status(reading->ctx);
    }
    if (reading->has_map) return zt_fail(reading->ctx, ZT_EDATA, "%s: duplicate member 'weight_map'", reading->path);
    reading->has_map = true;
    return zt_json_members(reading->ctx, reading->path, text, size, read_mapping, reading);
}

zt_status zt_index_read(zt_ctx *ctx, const char *path, zt_index_fn *fn, void *user)
{
    index_reading reading = {.ctx = ctx, .path = path, .fn = fn, .user = user};
    zt_source *source = zt_source_open(ctx, path);
    uint64_t size = source ? zt_source_size(source) : 0;
    zt_status status = source ? ZT_OK : zt_ctx_status(ctx);
    if (size > MAX_INDEX)
        status = zt_fail(ctx, ZT_EDATA, "%s: the index has %llu bytes: at most %d are allowed", path, (unsigned long long)size,
                         MAX_INDEX);
    char *text = status == ZT_OK ? zt_alloc(ctx, (size_t)size) : NULL;
    if (status == ZT_OK) status = text ? zt_source_read(source, 0, text, (size_t)size) : ZT_ENOMEM;
    if (status == ZT_OK) status = zt_json_members(ctx, path, text, (size_t)size, read_member, &reading);
    zt_free(ctx, text);
    zt_source_close(source);
    if (status == ZT_OK && !reading.has_map)
        status = zt_fail(ctx, ZT_EDATA, "%s: not a safetensors index: no member 'weight_map'", path);
    return status;
}

typedef struct index_lookup {
    zt_ctx *ctx;
    const char *path;
    const zt_map *present;
} index_lookup;

static zt_status check_present(void *user, const char *tensor, const char *file)
{
    const index_lookup *lookup = user;
    const size_t length = strlen(tensor);
    char tensor_text[160], file_text[160];
    if (zt_map_get(lookup->present, tensor, length, NULL)) return ZT_OK;
    return zt_fail(lookup->ctx, ZT_EDATA, "%s: tensor '%s' is not in %s, where the index lists it", lookup->path,
                   zt_escape(tensor_text, sizeof tensor_text, tensor, length),
                   zt_escape(file_text, sizeof file_text, file, strlen(file)));
}

zt_status zt_index_missing(zt_ctx *ctx, const char *path, const zt_map *there)
{
    index_lookup lookup = {.ctx = ctx, .path = path, .present = there};
    return zt_index_read(ctx, path, check_present, &lookup);
}
