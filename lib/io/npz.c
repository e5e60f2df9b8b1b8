/* npz.c - owns .npz archives: opening, arrays by name, reading, writing. */
#include "lib/io/npz.h"
#include "lib/io/fault.h"
#include "lib/io/npy_array.h"
#include "lib/io/zip.h"

#include <string.h>

enum { ALIGN = 64 }; /* of members that are written: their arrays can be mapped */

typedef struct npz_array {
    npy_array npy;
    int64_t member;
} npz_array;

struct zt_npz {
    zt_ctx *ctx;
    const char *file;
    zt_source *owned;
    zt_zip *zip;
    zt_arena *arena;
    zt_gather *gather;
    npz_array *arrays;
    int64_t count;
    zt_map *names;
};

bool zt_npz_sniff(const void *bytes, size_t size)
{
    return zt_zip_sniff(bytes, size);
}

/* ---- open and close -------------------------------------------------------------------------- */

/* Member i as the next array, if it is one. */
static zt_status add_member(zt_npz *npz, int64_t i)
{
    static const char end[] = ".npy";
    const zt_zip_entry *entry = zt_zip_get(npz->zip, i);
    size_t length = strlen(entry->name), end_length = sizeof end - 1;
    char text[160];
    if (length < end_length || strcmp(entry->name + length - end_length, end) != 0)
        return ZT_OK;
    npz_array *array = &npz->arrays[npz->count];
    zt_zip_member request = {.zip = npz->zip, .index = i};
    zt_str place;
    zt_str_init(&place, npz->ctx);
    zt_status status =
        zt_str_printf(&place, "%s: member '%s'", npz->file, zt_escape(text, sizeof text, entry->name, length));
    if (status == ZT_OK)
        status = zt_npy_array_parse(npz->ctx, place.data, entry->size, zt_zip_fetch, &request, npz->arena, &array->npy);
    zt_str_fini(&place);
    if (status != ZT_OK)
        return status;
    array->member = i;
    array->npy.layout.forward = entry->deflated;
    array->npy.array.name = zt_arena_strndup(npz->arena, entry->name, length - end_length);
    if (!array->npy.array.name)
        return ZT_ENOMEM;
    return zt_map_put(npz->names, array->npy.array.name, length - end_length, npz->count++);
}

static zt_status read_members(zt_npz *npz)
{
    int64_t count = zt_zip_count(npz->zip);
    zt_status status = ZT_OK;
    npz->arrays = zt_alloc_array(npz->ctx, (size_t)count, sizeof *npz->arrays);
    npz->names = zt_map_new(npz->ctx, (size_t)count);
    if (!npz->arrays || !npz->names)
        return ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++)
        status = zt_faults_pass(npz->ctx, add_member(npz, i));
    if (status == ZT_OK && count && !npz->count)
        status = zt_fail(npz->ctx, ZT_EDATA,
                     "%s: a zip archive without an array (NAME.npy) or a checkpoint of PyTorch's: "
                     "extract it and name the model in it (unzip)",
                     npz->file);
    return status;
}

zt_npz *zt_npz_from(zt_ctx *ctx, zt_source *source)
{
    zt_npz *npz = zt_calloc(ctx, 1, sizeof *npz);
    if (!npz)
        return NULL;
    npz->ctx = ctx;
    npz->file = zt_source_name(source);
    npz->arena = zt_arena_new(ctx, 4096);
    npz->gather = npz->arena ? zt_gather_new(ctx) : NULL;
    npz->zip = npz->gather ? zt_zip_from(ctx, source) : NULL;
    if (npz->zip && read_members(npz) == ZT_OK)
        return npz;
    zt_npz_close(npz);
    return NULL;
}

zt_npz *zt_npz_open(zt_ctx *ctx, const char *path)
{
    zt_source *source = zt_source_open(ctx, path);
    return source ? zt_npz_take(ctx, source) : NULL;
}

zt_npz *zt_npz_take(zt_ctx *ctx, zt_source *source)
{
    zt_npz *npz = zt_npz_from(ctx, source);
    if (npz)
        npz->owned = source;
    else
        zt_source_close(source);
    return npz;
}

void zt_npz_close(zt_npz *npz)
{
    if (!npz)
        return;
    zt_zip_close(npz->zip);
    zt_gather_free(npz->gather);
    zt_map_free(npz->names);
    zt_arena_free(npz->arena);
    zt_free(npz->ctx, npz->arrays);
    zt_source_close(npz->owned);
    zt_free(npz->ctx, npz);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

int64_t zt_npz_count(const zt_npz *npz)
{
    return npz->count;
}

const zt_array *zt_npz_get(const zt_npz *npz, int64_t i)
{
    return &npz->arrays[i].npy.array;
}

int64_t zt_npz_find(const zt_npz *npz, const char *name)
{
    return zt_map_find(npz->names, name);
}

zt_status zt_npz_read(zt_npz *npz, int64_t i, size_t offset, void *dst, size_t size)
{
    const npz_array *array = &npz->arrays[i];
    zt_zip_member request = {.zip = npz->zip, .index = array->member};
    zt_status status = zt_array_range(npz->ctx, npz->file, &array->npy.array, offset, size);
    if (status != ZT_OK)
        return status;
    return zt_gather_read(npz->gather, &array->npy.layout, i, offset, dst, size, zt_zip_fetch, &request);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_npz *npz = user;
    *handle = zt_npz_find(npz, name);
    return *handle < 0 ? ZT_ENOENT : zt_array_type(npz->ctx, npz->file, zt_npz_get(npz, *handle), type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    return zt_npz_read(user, handle, offset, dst, size);
}

zt_store zt_npz_store(zt_npz *npz)
{
    return (zt_store){.user = npz, .find = store_find, .read = store_read};
}

/* ---- writing --------------------------------------------------------------------------------- */

struct zt_npz_writer {
    zt_ctx *ctx;
    zt_zip_writer *zip;
};

zt_npz_writer *zt_npz_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_npz_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer)
        return NULL;
    writer->ctx = ctx;
    writer->zip = zt_zip_writer_new(ctx, out);
    if (writer->zip)
        return writer;
    zt_npz_writer_free(writer);
    return NULL;
}

void zt_npz_writer_free(zt_npz_writer *writer)
{
    if (!writer)
        return;
    zt_zip_writer_free(writer->zip);
    zt_free(writer->ctx, writer);
}

bool zt_npz_can(const zt_type *type)
{
    return zt_npy_word(type->dtype) != NULL;
}

zt_status zt_npz_begin(zt_npz_writer *writer, const char *name, const zt_type *type)
{
    zt_str header, member_name;
    size_t bytes;
    if (!zt_type_check(writer->ctx, type, &bytes))
        return zt_ctx_status(writer->ctx);
    zt_str_init(&header, writer->ctx);
    zt_str_init(&member_name, writer->ctx);
    zt_status status = zt_npy_header(&header, type);
    if (status == ZT_OK)
        status = zt_str_printf(&member_name, "%s.npy", name);
    if (status == ZT_OK)
        status = zt_zip_begin(writer->zip, member_name.data, (uint64_t)header.len + bytes, ALIGN);
    if (status == ZT_OK)
        status = zt_zip_write(writer->zip, header.data, header.len);
    zt_str_fini(&header);
    zt_str_fini(&member_name);
    return status;
}

zt_status zt_npz_write(zt_npz_writer *writer, const void *bytes, size_t size)
{
    return zt_zip_write(writer->zip, bytes, size);
}

zt_status zt_npz_finish(zt_npz_writer *writer)
{
    return zt_zip_finish(writer->zip);
}
