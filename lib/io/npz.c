/* npz.c - owns .npz archives: opening, arrays by name, reading, writing. */
#include "lib/base/require.h"
#include "lib/io/npz.h"
#include "lib/io/array_file.h"
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
    zt_array_file base;
    zt_zip *zip;
    zt_gather *gather;
    npz_array *arrays;
};

bool zt_npz_sniff(const void *bytes, size_t size) { return bytes && zt_zip_sniff(bytes, size); }

/* ---- open and close -------------------------------------------------------------------------- */

/* Member i as the next array, if it is one. */
static zt_status add_member(zt_npz *npz, int64_t i)
{
    static const char end[] = ".npy";
    const zt_zip_entry *entry = zt_zip_get(npz->zip, i);
    size_t length = strlen(entry->name), end_length = sizeof end - 1;
    char text[160];
    if (length < end_length || strcmp(entry->name + length - end_length, end) != 0) return ZT_OK;
    npz_array *array = &npz->arrays[npz->base.count];
    zt_zip_member request = {.zip = npz->zip, .index = i};
    zt_str place;
    zt_str_init(&place, npz->base.ctx);
    zt_status status =
        zt_str_printf(&place, "%s: member '%s'", npz->base.name, zt_escape(text, sizeof text, entry->name, length));
    if (status == ZT_OK)
        status = zt_npy_array_parse(npz->base.ctx, place.data, entry->size, zt_zip_fetch, &request, npz->base.arena, &array->npy);
    zt_str_fini(&place);
    if (status != ZT_OK) return status;
    array->member = i;
    array->npy.layout.forward = entry->deflated;
    array->npy.array.name = zt_arena_strndup(npz->base.arena, entry->name, length - end_length);
    if (!array->npy.array.name) return ZT_ENOMEM;
    return zt_map_put(npz->base.names, array->npy.array.name, length - end_length, npz->base.count++);
}

static zt_status read_members(zt_npz *npz)
{
    int64_t count = zt_zip_count(npz->zip);
    zt_status status = ZT_OK;
    npz->arrays = zt_alloc_array(npz->base.ctx, (size_t)count, sizeof *npz->arrays);
    npz->base.names = zt_map_new(npz->base.ctx, (size_t)count);
    if (!npz->arrays || !npz->base.names) return ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++) status = zt_faults_pass(npz->base.ctx, add_member(npz, i));
    if (status == ZT_OK && count && !npz->base.count)
        status = zt_fail(npz->base.ctx, ZT_EDATA,
                         "%s: a zip archive without an array (NAME.npy) or a PyTorch checkpoint: extract it "
                         "(unzip) and name the model in it",
                         npz->base.name);
    return status;
}

static const zt_array *get_array(const zt_array_file *file, int64_t i) { return &((const zt_npz *)file)->arrays[i].npy.array; }

static zt_status read_array(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size)
{
    const zt_npz *npz = (const zt_npz *)file;
    const npz_array *array = &npz->arrays[i];
    zt_zip_member request = {.zip = npz->zip, .index = array->member};
    return zt_gather_read(npz->gather, &array->npy.layout, i, offset, dst, size, zt_zip_fetch, &request);
}

static void close_npz(zt_array_file *file)
{
    zt_npz *npz = (zt_npz *)file;
    zt_zip_close(npz->zip);
    zt_gather_free(npz->gather);
    zt_free(file->ctx, npz->arrays);
}

static const zt_array_file_ops npz_ops = {.get = get_array, .read = read_array, .close = close_npz};

static zt_npz *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_npz *npz = zt_array_file_new(ctx, &npz_ops, sizeof *npz, source, owns);
    if (!npz) return NULL;
    npz->gather = zt_gather_new(ctx);
    npz->zip = npz->gather ? zt_zip_from(ctx, source) : NULL;
    if (npz->zip && read_members(npz) == ZT_OK) return npz;
    zt_npz_close(npz);
    return NULL;
}

zt_npz *zt_npz_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_npz *zt_npz_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_npz *zt_npz_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

void zt_npz_close(zt_npz *npz) { zt_array_file_close((zt_array_file *)npz); }

/* ---- arrays ---------------------------------------------------------------------------------- */

int64_t zt_npz_count(const zt_npz *npz) { return npz ? npz->base.count : 0; }

const zt_array *zt_npz_get(const zt_npz *npz, int64_t i) { return npz ? get_array(&npz->base, i) : NULL; }

int64_t zt_npz_find(const zt_npz *npz, const char *name)
{
    if (!npz) return -1;
    ZT_REQUIRE(npz->base.ctx, name, -1);
    return zt_array_file_find(&npz->base, name);
}

zt_status zt_npz_read(zt_npz *npz, int64_t i, size_t offset, void *dst, size_t size)
{
    if (!npz) return ZT_EUSAGE;
    ZT_REQUIRE(npz->base.ctx, i >= 0 && i < zt_npz_count(npz) && (dst || !size), ZT_EUSAGE);
    return zt_array_file_read(&npz->base, i, offset, dst, size);
}

zt_store zt_npz_store(zt_npz *npz) { return zt_array_file_store(&npz->base); }

/* ---- writing --------------------------------------------------------------------------------- */

struct zt_npz_writer {
    zt_ctx *ctx;
    zt_zip_writer *zip;
};

zt_npz_writer *zt_npz_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_npz_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->ctx = ctx;
    writer->zip = zt_zip_writer_new(ctx, out);
    if (writer->zip) return writer;
    zt_npz_writer_free(writer);
    return NULL;
}

void zt_npz_writer_free(zt_npz_writer *writer)
{
    if (!writer) return;
    zt_zip_writer_free(writer->zip);
    zt_free(writer->ctx, writer);
}

bool zt_npz_can(const zt_type *type) { return type && zt_npy_word(type->dtype) != NULL; }

zt_status zt_npz_begin(zt_npz_writer *writer, const char *name, const zt_type *type)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, type, ZT_EUSAGE);
    zt_str header, member_name;
    size_t bytes;
    if (!zt_type_check(writer->ctx, type, &bytes)) return zt_ctx_status(writer->ctx);
    zt_str_init(&header, writer->ctx);
    zt_str_init(&member_name, writer->ctx);
    zt_status status = zt_npy_header(&header, type);
    if (status == ZT_OK) status = zt_str_printf(&member_name, "%s.npy", name);
    if (status == ZT_OK) status = zt_zip_begin(writer->zip, member_name.data, (uint64_t)header.len + bytes, ALIGN);
    if (status == ZT_OK) status = zt_zip_write(writer->zip, header.data, header.len);
    zt_str_fini(&header);
    zt_str_fini(&member_name);
    return status;
}

zt_status zt_npz_write(zt_npz_writer *writer, const void *bytes, size_t size)
{
    return writer ? zt_zip_write(writer->zip, bytes, size) : ZT_EUSAGE;
}

zt_status zt_npz_finish(zt_npz_writer *writer) { return writer ? zt_zip_finish(writer->zip) : ZT_EUSAGE; }
