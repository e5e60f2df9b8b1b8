/* zip.c - owns reading a zip's directory: every number checked before it is believed. */
#include "lib/io/fault.h"
#include "lib/io/zip_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_COMMENT = 65535 };

static uint64_t read_le(const uint8_t *from, int width)
{
    uint64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | from[i];
    return value;
}

static zt_status fail_member(const zt_zip *zip, const char *name, const char *what)
{
    char text[160];
    return zt_fail(zip->ctx, ZT_EDATA, "%s: member '%s': %s", zip->file, zt_escape(text, sizeof text, name, strlen(name)), what);
}

/* ---- the end record -------------------------------------------------------------------------- */

typedef struct directory_place {
    uint64_t begin, bytes, count;
} directory_place;

/* Of a tail of the file, the end record's offset, or `size`: its comment must fill the rest. */
static size_t find_end(const uint8_t *tail, size_t size)
{
    for (size_t position = size >= ZIP_END_BYTES ? size - ZIP_END_BYTES + 1 : 0; position-- > 0;) {
        if (read_le(tail + position, 4) == ZIP_END && position + ZIP_END_BYTES + read_le(tail + position + 20, 2) == size)
            return position;
    }
    return size;
}

/* Numbers that the end record has no room for, from the record that the locator names. */
static zt_status read_end64(const zt_zip *zip, uint64_t locator, const uint8_t *record, directory_place *directory)
{
    uint8_t end[ZIP_END64_BYTES];
    uint64_t position = read_le(record + 8, 8);
    if (position > locator || locator - position < sizeof end)
        return zt_fail(zip->ctx, ZT_EDATA, "%s: zip: the zip64 end record is out of place", zip->file);
    zt_status status = zt_source_read(zip->source, position, end, sizeof end);
    if (status != ZT_OK) return status;
    if (read_le(end, 4) != ZIP_END64 || read_le(end + 4, 8) != locator - position - 12 || read_le(end + 16, 4) ||
        read_le(end + 20, 4) || read_le(end + 24, 8) != read_le(end + 32, 8))
        return zt_fail(zip->ctx, ZT_EDATA, "%s: zip: invalid zip64 end record", zip->file);
    *directory = (directory_place){.count = read_le(end + 32, 8), .bytes = read_le(end + 40, 8), .begin = read_le(end + 48, 8)};
    return directory->begin <= position && position - directory->begin == directory->bytes
               ? ZT_OK
               : zt_fail(zip->ctx, ZT_EDATA, "%s: zip: the central directory does not end at the end record", zip->file);
}

static zt_status read_end(const zt_zip *zip, directory_place *directory)
{
    uint64_t size = zt_source_size(zip->source);
    size_t tail_size = size < MAX_COMMENT + ZIP_END_BYTES ? (size_t)size : MAX_COMMENT + ZIP_END_BYTES;
    uint8_t *tail = zt_alloc(zip->ctx, tail_size), locator[ZIP_LOCATOR64_BYTES] = {0};
    zt_status status = tail ? zt_source_read(zip->source, size - tail_size, tail, tail_size) : ZT_ENOMEM;
    size_t end_position = status == ZT_OK ? find_end(tail, tail_size) : tail_size;
    uint64_t end = size - tail_size + end_position;
    if (status == ZT_OK && end_position == tail_size)
        status = zt_fail(zip->ctx, ZT_EDATA, "%s: zip: truncated: no end record", zip->file);
    if (status == ZT_OK && end >= sizeof locator)
        status = zt_source_read(zip->source, end - sizeof locator, locator, sizeof locator);
    if (status != ZT_OK) {
        zt_free(zip->ctx, tail);
        return status;
    }
    const uint8_t *record = tail + end_position;
    *directory =
        (directory_place){.count = read_le(record + 10, 2), .bytes = read_le(record + 12, 4), .begin = read_le(record + 16, 4)};
    if (read_le(locator, 4) == ZIP_LOCATOR64)
        status = read_end64(zip, end - sizeof locator, locator, directory);
    else if (read_le(record + 4, 2) || read_le(record + 6, 2) || read_le(record + 8, 2) != directory->count ||
             directory->begin > end || end - directory->begin != directory->bytes)
        status = zt_fail(zip->ctx, ZT_EDATA, "%s: zip: the central directory does not end at the end record", zip->file);
    zt_free(zip->ctx, tail);
    if (status == ZT_OK && directory->count > directory->bytes / ZIP_ENTRY_BYTES)
        status = zt_fail(zip->ctx, ZT_EDATA, "%s: zip: %llu members do not fit in a central directory of %llu bytes", zip->file,
                         (unsigned long long)directory->count, (unsigned long long)directory->bytes);
    return status;
}

/* ---- one entry of the directory -------------------------------------------------------------- */

/* Of the extra fields at `extra`, the zip64 one: numbers that have no room elsewhere, in their order. */
static bool read_extra(const uint8_t *extra, size_t size, zt_zip_entry *entry)
{
    uint64_t *const number[] = {&entry->size, &entry->packed, &entry->head};
    size_t wanted = 0;
    for (int i = 0; i < 3; i++) wanted += *number[i] == UINT32_MAX;
    while (size >= 4) {
        size_t id = read_le(extra, 2), length = read_le(extra + 2, 2);
        if (length > size - 4) return false;
        if (id == 1 && wanted) {
            size_t position = 0;
            for (int i = 0; i < 3; i++) {
                if (*number[i] != UINT32_MAX) continue;
                if (position + 8 > length) return false;
                *number[i] = read_le(extra + 4 + position, 8);
                position += 8;
            }
            wanted = 0;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return size == 0 && wanted == 0;
}

/* The entry at `record`, of at most `size` bytes; *used are its own. */
static zt_status read_entry(zt_zip *zip, const uint8_t *record, size_t size, zt_zip_entry *entry, size_t *used)
{
    size_t length = size < ZIP_ENTRY_BYTES ? 0 : read_le(record + 28, 2);
    if (size < ZIP_ENTRY_BYTES || read_le(record, 4) != ZIP_ENTRY)
        return zt_fail(zip->ctx, ZT_EDATA, "%s: zip: invalid central directory entry %lld", zip->file, (long long)zip->count);
    *used = ZIP_ENTRY_BYTES + length + read_le(record + 30, 2) + read_le(record + 32, 2);
    if (*used > size || memchr(record + ZIP_ENTRY_BYTES, 0, length))
        return zt_fail(zip->ctx, ZT_EDATA, "%s: zip: invalid name of member %lld", zip->file, (long long)zip->count);
    *entry = (zt_zip_entry){.name = zt_arena_strndup(zip->texts, (const char *)record + ZIP_ENTRY_BYTES, length),
                            .crc = (uint32_t)read_le(record + 16, 4),
                            .packed = read_le(record + 20, 4),
                            .size = read_le(record + 24, 4),
                            .head = read_le(record + 42, 4),
                            .deflated = read_le(record + 10, 2) == ZIP_DEFLATED};
    return entry->name ? ZT_OK : ZT_ENOMEM;
}

/* What the entry at `record` says of its member. */
static zt_status check_entry(const zt_zip *zip, const uint8_t *record, zt_zip_entry *entry)
{
    if (read_le(record + 8, 2) & ZIP_FLAG_UTF8 && !zt_utf8_valid(entry->name, strlen(entry->name)))
        return fail_member(zip, entry->name, "the name is flagged as UTF-8 but is not valid UTF-8");
    if (read_le(record + 8, 2) & ZIP_FLAG_CRYPT) return fail_member(zip, entry->name, "encrypted");
    if (!entry->deflated && read_le(record + 10, 2) != ZIP_STORED)
        return fail_member(zip, entry->name, "unsupported compression method: must be stored or deflated");
    if (!read_extra(record + ZIP_ENTRY_BYTES + read_le(record + 28, 2), read_le(record + 30, 2), entry))
        return fail_member(zip, entry->name, "invalid extra fields");
    if (!entry->deflated && entry->size != entry->packed)
        return fail_member(zip, entry->name, "stored, but the compressed and uncompressed sizes differ");
    return entry->size || entry->crc == 0 ? ZT_OK : fail_member(zip, entry->name, "empty, but the checksum is not 0");
}

zt_status zt_zip_peek(zt_zip *zip, uint64_t offset, void *dst, size_t size)
{
    uint64_t remaining = zt_source_size(zip->source) - offset;
    if (offset < zip->window_at || offset - zip->window_at > zip->window_size ||
        zip->window_size - (size_t)(offset - zip->window_at) < size) {
        size_t window_size = remaining < ZIP_WINDOW ? (size_t)remaining : ZIP_WINDOW;
        zip->window_size = 0;
        if (window_size < size) return zt_fail(zip->ctx, ZT_EDATA, "%s: truncated", zip->file);
        zt_status status = zt_source_read(zip->source, offset, zip->window, window_size);
        if (status != ZT_OK) return status;
        zip->window_at = offset;
        zip->window_size = window_size;
    }
    memcpy(dst, zip->window + (offset - zip->window_at), size);
    return ZT_OK;
}

/* What the member says of itself, and where its bytes begin; the directory begins at `end`. */
static zt_status read_local(zt_zip *zip, zt_zip_entry *entry, uint64_t end)
{
    uint8_t head[ZIP_LOCAL_BYTES + 65535];
    size_t length = strlen(entry->name), head_size = ZIP_LOCAL_BYTES + length;
    if (entry->head > end || end - entry->head < head_size) return fail_member(zip, entry->name, "out of the file's range");
    zt_status status = head_size <= ZIP_WINDOW ? zt_zip_peek(zip, entry->head, head, head_size)
                                               : zt_source_read(zip->source, entry->head, head, head_size);
    if (status != ZT_OK) return status;
    bool later = read_le(head + 6, 2) & ZIP_FLAG_DESCRIPTOR;
    if (read_le(head, 4) != ZIP_LOCAL || read_le(head + 26, 2) != length ||
        memcmp(head + ZIP_LOCAL_BYTES, entry->name, length) != 0 ||
        read_le(head + 8, 2) != (entry->deflated ? ZIP_DEFLATED : ZIP_STORED) || read_le(head + 6, 2) & ZIP_FLAG_CRYPT)
        return fail_member(zip, entry->name, "the local header and the central directory differ");
    if (read_le(head + 6, 2) & ZIP_FLAG_UTF8 && !zt_utf8_valid(entry->name, length))
        return fail_member(zip, entry->name, "the name is flagged as UTF-8 but is not valid UTF-8");
    if (!later &&
        (read_le(head + 14, 4) != entry->crc || (read_le(head + 18, 4) != UINT32_MAX && read_le(head + 18, 4) != entry->packed) ||
         (read_le(head + 22, 4) != UINT32_MAX && read_le(head + 22, 4) != entry->size)))
        return fail_member(zip, entry->name, "the local header and the central directory differ");
    entry->data = entry->head + head_size + read_le(head + 28, 2);
    if (entry->data > end || end - entry->data < entry->packed)
        return fail_member(zip, entry->name, "the data is out of the file's range");
    return ZT_OK;
}

/* ---- the directory --------------------------------------------------------------------------- */

static int compare_heads(const void *left, const void *right)
{
    const zt_zip_entry *first = *(zt_zip_entry *const *)left, *second = *(zt_zip_entry *const *)right;
    return (first->head > second->head) - (first->head < second->head);
}

static zt_status check_overlaps(const zt_zip *zip)
{
    const zt_zip_entry **order = zt_alloc_array(zip->ctx, (size_t)zip->count, sizeof *order);
    zt_status status = order ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; order && i < zip->count; i++) order[i] = &zip->entries[i];
    if (order && zip->count) qsort(order, (size_t)zip->count, sizeof *order, compare_heads);
    for (int64_t i = 1; status == ZT_OK && i < zip->count; i++)
        if (order[i]->head < order[i - 1]->data + order[i - 1]->packed)
            status = zt_faults_pass(zip->ctx, fail_member(zip, order[i]->name, "overlaps another member"));
    zt_free(zip->ctx, order);
    return status;
}

static zt_status map_member_names(zt_zip *zip)
{
    zt_status status = ZT_OK;
    zip->names = zt_map_new(zip->ctx, (size_t)zip->count);
    if (!zip->names) return ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < zip->count; i++) {
        const char *name = zip->entries[i].name;
        status = zt_map_get(zip->names, name, strlen(name), NULL)
                     ? zt_faults_pass(zip->ctx, fail_member(zip, name, "duplicate member"))
                     : zt_map_put(zip->names, name, strlen(name), i);
    }
    return status;
}

static zt_status read_directory(zt_zip *zip, const uint8_t *records, const directory_place *directory)
{
    zt_status status = ZT_OK;
    size_t position = 0, used = 0;
    uint64_t i = 0;
    zip->entries = zt_alloc_array(zip->ctx, (size_t)directory->count, sizeof *zip->entries);
    zip->checked = zt_calloc(zip->ctx, (size_t)directory->count, sizeof *zip->checked);
    if (!zip->entries || !zip->checked) return ZT_ENOMEM;
    for (; status == ZT_OK && i < directory->count; i++, position += used) {
        zt_zip_entry *entry = &zip->entries[zip->count];
        status = read_entry(zip, records + position, (size_t)directory->bytes - position, entry, &used);
        if (status != ZT_OK) break;
        status = check_entry(zip, records + position, entry);
        if (status == ZT_OK) status = read_local(zip, entry, directory->begin);
        zip->count += status == ZT_OK;
        status = zt_faults_pass(zip->ctx, status);
    }
    if (status == ZT_OK && position != directory->bytes)
        status = zt_fail(zip->ctx, ZT_EDATA, "%s: zip: the central directory holds more than the declared %llu members",
                         zip->file, (unsigned long long)directory->count);
    return status;
}

/* Reads and checks the directory and what members say of themselves. */
static zt_status read_archive(zt_zip *zip)
{
    directory_place found;
    zt_status status = read_end(zip, &found);
    if (status != ZT_OK) return status;
    uint8_t *records = zt_alloc(zip->ctx, (size_t)found.bytes);
    status = records ? zt_source_read(zip->source, found.begin, records, (size_t)found.bytes) : ZT_ENOMEM;
    if (status == ZT_OK) status = read_directory(zip, records, &found);
    zt_free(zip->ctx, records);
    if (status == ZT_OK) status = check_overlaps(zip);
    return status == ZT_OK ? map_member_names(zip) : status;
}

/* ---- open and close -------------------------------------------------------------------------- */

bool zt_zip_sniff(const void *bytes, size_t size)
{
    return size >= 4 && (read_le(bytes, 4) == ZIP_LOCAL || read_le(bytes, 4) == ZIP_END);
}

zt_zip *zt_zip_from(zt_ctx *ctx, const zt_source *source)
{
    zt_zip *zip = zt_calloc(ctx, 1, sizeof *zip);
    if (!zip) return NULL;
    *zip = (zt_zip){.ctx = ctx, .source = source, .file = zt_source_name(source)};
    pthread_mutex_init(&zip->lock, NULL);
    zip->texts = zt_arena_new(ctx, 4096);
    if (zip->texts && read_archive(zip) == ZT_OK) return zip;
    zt_zip_close(zip);
    return NULL;
}

void zt_zip_close(zt_zip *zip)
{
    if (!zip) return;
    zt_zip_cursor_free(zip);
    pthread_mutex_destroy(&zip->lock);
    zt_map_free(zip->names);
    zt_arena_free(zip->texts);
    zt_free(zip->ctx, zip->entries);
    zt_free(zip->ctx, zip->checked);
    zt_free(zip->ctx, zip);
}

int64_t zt_zip_count(const zt_zip *zip) { return zip->count; }

const zt_zip_entry *zt_zip_get(const zt_zip *zip, int64_t i) { return &zip->entries[i]; }

int64_t zt_zip_find(const zt_zip *zip, const char *name) { return zt_map_find(zip->names, name); }
