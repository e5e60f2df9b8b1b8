/* zip_write.c - owns writing zip archives: members stored, in one pass, at fixed times. */
#include "lib/io/zip_file.h"

#include <string.h>
#include <zlib.h>

enum {
    DATE = 1 << 5 | 1, /* 1 January 1980, the first day that the format knows */
    VERSION = 20,      /* needed to read it; */
    VERSION64 = 45,    /* with 64-bit numbers */
    PADDING = 0x4246,  /* PyTorch's id of an extra field that pads ("FB") */
    MANY = UINT16_MAX
};

typedef struct written_member {
    char *name;
    uint64_t head, size;
    uint32_t crc;
} written_member;

struct zt_zip_writer {
    zt_ctx *ctx;
    zt_sink *out;
    zt_arena *texts;
    zt_map *names;
    written_member *members;
    size_t count, capacity;
    uint64_t position;  /* bytes written */
    uint64_t remaining; /* bytes of the open member that are to come */
    bool open;
};

zt_zip_writer *zt_zip_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_zip_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->ctx = ctx;
    writer->out = out;
    writer->texts = zt_arena_new(ctx, 4096);
    writer->names = writer->texts ? zt_map_new(ctx, 64) : NULL;
    if (writer->names) return writer;
    zt_zip_writer_free(writer);
    return NULL;
}

void zt_zip_writer_free(zt_zip_writer *writer)
{
    if (!writer) return;
    zt_map_free(writer->names);
    zt_arena_free(writer->texts);
    zt_free(writer->ctx, writer->members);
    zt_free(writer->ctx, writer);
}

/* ---- records --------------------------------------------------------------------------------- */

typedef struct record_bytes {
    uint8_t bytes[128];
    size_t size;
} record_bytes;

static void put_number(record_bytes *record, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) record->bytes[record->size++] = (uint8_t)(value >> 8 * i);
}

static zt_status write_bytes(zt_zip_writer *writer, const void *bytes, size_t size)
{
    zt_status status = zt_sink_write(writer->out, bytes, size);
    if (status == ZT_OK) writer->position += size;
    return status;
}

static bool is_large(uint64_t value) { return value >= UINT32_MAX; }

/* The fields that local header and directory have in common, from the version on. Sizes are told
 * by the directory; here they are 0, or where they are large what says "see the extra field". */
static void put_common(record_bytes *header, const written_member *member, bool local, bool wide, size_t extra)
{
    bool large = is_large(member->size);
    put_number(header, wide ? VERSION64 : VERSION, 2);
    put_number(header, ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_UTF8, 2);
    put_number(header, ZIP_STORED, 2);
    put_number(header, 0, 2); /* midnight */
    put_number(header, DATE, 2);
    put_number(header, local ? 0 : member->crc, 4);
    for (int i = 0; i < 2; i++) put_number(header, large ? UINT32_MAX : local ? 0 : member->size, 4);
    put_number(header, strlen(member->name), 2);
    put_number(header, extra, 2);
}

static zt_status put_local(zt_zip_writer *writer, const written_member *member, unsigned align)
{
    static const uint8_t zeros[4096];
    record_bytes header = {.size = 0};
    bool large = is_large(member->size);
    size_t wide = large ? 20 : 0;
    uint64_t data = writer->position + ZIP_LOCAL_BYTES + strlen(member->name) + wide;
    size_t pad = (size_t)((align - data % align) % align);
    if (pad && pad < 4) /* there is room for the padding's own head */
        pad += align;
    put_number(&header, ZIP_LOCAL, 4);
    put_common(&header, member, true, large, wide + pad);
    zt_status status = write_bytes(writer, header.bytes, header.size);
    if (status == ZT_OK) status = write_bytes(writer, member->name, strlen(member->name));
    header.size = 0;
    if (large) {
        put_number(&header, 1, 2);
        put_number(&header, 16, 2);
        put_number(&header, 0, 8);
        put_number(&header, 0, 8);
    }
    if (pad) {
        put_number(&header, PADDING, 2);
        put_number(&header, pad - 4, 2);
    }
    if (status == ZT_OK) status = write_bytes(writer, header.bytes, header.size);
    return status == ZT_OK && pad > 4 ? write_bytes(writer, zeros, pad - 4) : status;
}

static zt_status put_descriptor(zt_zip_writer *writer, const written_member *member)
{
    record_bytes header = {.size = 0};
    int width = is_large(member->size) ? 8 : 4;
    put_number(&header, ZIP_DESCRIPTOR, 4);
    put_number(&header, member->crc, 4);
    put_number(&header, member->size, width);
    put_number(&header, member->size, width);
    return write_bytes(writer, header.bytes, header.size);
}

static zt_status put_entry(zt_zip_writer *writer, const written_member *member)
{
    record_bytes header = {.size = 0};
    bool large = is_large(member->size), far = is_large(member->head);
    size_t extra = (large ? 16u : 0u) + (far ? 8u : 0u);
    put_number(&header, ZIP_ENTRY, 4);
    put_number(&header, VERSION64, 2); /* made by, on MS-DOS: no permissions */
    put_common(&header, member, false, large || far, extra ? extra + 4 : 0);
    put_number(&header, 0, 2); /* comment */
    put_number(&header, 0, 2); /* disk */
    put_number(&header, 0, 2);
    put_number(&header, 0, 4);
    put_number(&header, far ? UINT32_MAX : member->head, 4);
    zt_status status = write_bytes(writer, header.bytes, header.size);
    if (status == ZT_OK) status = write_bytes(writer, member->name, strlen(member->name));
    header.size = 0;
    if (extra) {
        put_number(&header, 1, 2);
        put_number(&header, extra, 2);
    }
    if (large) {
        put_number(&header, member->size, 8);
        put_number(&header, member->size, 8);
    }
    if (far) put_number(&header, member->head, 8);
    return status == ZT_OK ? write_bytes(writer, header.bytes, header.size) : status;
}

static zt_status put_end(zt_zip_writer *writer, uint64_t begin)
{
    record_bytes header = {.size = 0};
    uint64_t directory_end = writer->position, bytes = directory_end - begin;
    if (is_large(begin) || is_large(bytes) || writer->count >= MANY) {
        put_number(&header, ZIP_END64, 4);
        put_number(&header, ZIP_END64_BYTES - 12, 8);
        put_number(&header, VERSION64, 2);
        put_number(&header, VERSION64, 2);
        put_number(&header, 0, 8); /* both disks */
        put_number(&header, writer->count, 8);
        put_number(&header, writer->count, 8);
        put_number(&header, bytes, 8);
        put_number(&header, begin, 8);
        put_number(&header, ZIP_LOCATOR64, 4);
        put_number(&header, 0, 4);
        put_number(&header, directory_end, 8);
        put_number(&header, 1, 4);
    }
    put_number(&header, ZIP_END, 4);
    put_number(&header, 0, 4);
    for (int i = 0; i < 2; i++) put_number(&header, writer->count < MANY ? writer->count : MANY, 2);
    put_number(&header, is_large(bytes) ? UINT32_MAX : bytes, 4);
    put_number(&header, is_large(begin) ? UINT32_MAX : begin, 4);
    put_number(&header, 0, 2);
    return write_bytes(writer, header.bytes, header.size);
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status end_member(zt_zip_writer *writer)
{
    char text[160];
    if (!writer->open) return ZT_OK;
    const written_member *last = &writer->members[writer->count - 1];
    if (writer->remaining)
        return zt_fail(writer->ctx, ZT_EUSAGE, "member '%s' is incomplete: %llu bytes missing",
                       zt_escape(text, sizeof text, last->name, strlen(last->name)), (unsigned long long)writer->remaining);
    writer->open = false;
    return put_descriptor(writer, last);
}

static zt_status add_member(zt_zip_writer *writer, const char *name, uint64_t size)
{
    char text[160];
    size_t length = strlen(name);
    if (length > UINT16_MAX)
        return zt_fail(writer->ctx, ZT_ENOTSUP, "a zip member name has at most %d bytes, got %zu", UINT16_MAX, length);
    if (!zt_utf8_valid(name, length))
        return zt_fail(writer->ctx, ZT_ENOTSUP, "zip cannot store the name '%s': not valid UTF-8",
                       zt_escape(text, sizeof text, name, length));
    if (zt_map_get(writer->names, name, length, NULL))
        return zt_fail(writer->ctx, ZT_EUSAGE, "duplicate member '%s'", zt_escape(text, sizeof text, name, length));
    if (writer->count == writer->capacity) {
        size_t room = writer->capacity ? 2 * writer->capacity : 16;
        written_member *list = zt_realloc(writer->ctx, writer->members, room * sizeof *list);
        if (!list) return ZT_ENOMEM;
        writer->members = list;
        writer->capacity = room;
    }
    written_member *added = &writer->members[writer->count];
    *added = (written_member){.name = zt_arena_strndup(writer->texts, name, length), .head = writer->position, .size = size};
    if (!added->name) return ZT_ENOMEM;
    writer->count++;
    return zt_map_put(writer->names, added->name, length, 0);
}

zt_status zt_zip_begin(zt_zip_writer *writer, const char *name, uint64_t size, unsigned align)
{
    zt_status status = end_member(writer);
    if (status == ZT_OK) status = add_member(writer, name, size);
    if (status == ZT_OK) status = put_local(writer, &writer->members[writer->count - 1], align);
    if (status != ZT_OK) return status;
    writer->remaining = size;
    writer->open = true;
    return ZT_OK;
}

zt_status zt_zip_write(zt_zip_writer *writer, const void *bytes, size_t size)
{
    if (!writer->open || size > writer->remaining)
        return zt_fail(writer->ctx, ZT_EUSAGE, "more data written than the member holds");
    written_member *open_member = &writer->members[writer->count - 1];
    open_member->crc = (uint32_t)crc32_z(open_member->crc, bytes, size);
    writer->remaining -= size;
    return write_bytes(writer, bytes, size);
}

zt_status zt_zip_finish(zt_zip_writer *writer)
{
    zt_status status = end_member(writer);
    uint64_t begin = writer->position;
    for (size_t i = 0; status == ZT_OK && i < writer->count; i++) status = put_entry(writer, &writer->members[i]);
    return status == ZT_OK ? put_end(writer, begin) : status;
}
