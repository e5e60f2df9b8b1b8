/* zip_read.c - owns reading members' bytes: inflating them, and checking what comes by.
 *
 * Each archive has one cursor, which reads a member from its first byte to its last and checks size and
 * CRC-32 at the end:
 *
 *   stored, checked before   read in place, by any number of threads at once
 *   stored, not checked      through the cursor; read out of order, the whole member is checked first
 *   deflated                 always through the cursor; a read behind it restarts the member
 */
#include "lib/io/zip_file.h"

#include <string.h>
#include <zlib.h>

enum {
    BUFFER = 1 << 16,
    SMALL = 256,   /* bytes of a header's size: others lie close behind it */
    NEAR = 1 << 16 /* bytes that the cursor passes over to get to those that are wanted */
};

struct zip_cursor {
    int64_t member; /* -1: none */
    const zt_zip_entry *entry;
    uint64_t position, taken; /* bytes of the member that have passed, bytes of the file taken for them */
    uint32_t crc;
    bool inflating, ended; /* `stream` is in use; it has seen its end */
    z_stream stream;
    uint8_t input[BUFFER], output[BUFFER];
};

static void *zip_alloc(void *user, uInt count, uInt size) { return zt_calloc(user, count, size); }

static void zip_free(void *user, void *block) { zt_free(user, block); }

static zt_status fail_member(const zt_zip *zip, const zt_zip_entry *entry, const char *what)
{
    char text[160];
    return zt_fail(zip->ctx, ZT_EDATA, "%s: member '%s': %s", zip->file,
                   zt_escape(text, sizeof text, entry->name, strlen(entry->name)), what);
}

static void stop_cursor(zip_cursor *cursor)
{
    if (cursor->inflating) inflateEnd(&cursor->stream);
    cursor->inflating = false;
    cursor->member = -1;
}

void zt_zip_cursor_free(zt_zip *zip)
{
    if (zip->cursor) stop_cursor(zip->cursor);
    zt_free(zip->ctx, zip->cursor);
}

static zt_status start_member(zt_zip *zip, int64_t i)
{
    zip_cursor *cursor = zip->cursor ? zip->cursor : zt_alloc(zip->ctx, sizeof *cursor);
    if (!cursor) return ZT_ENOMEM;
    if (!zip->cursor) {
        zip->cursor = cursor;
        cursor->inflating = false;
    }
    stop_cursor(cursor);
    cursor->entry = &zip->entries[i];
    cursor->position = cursor->taken = 0;
    cursor->crc = 0;
    cursor->ended = false;
    cursor->stream = (z_stream){.zalloc = zip_alloc, .zfree = zip_free, .opaque = zip->ctx};
    if (cursor->entry->deflated && inflateInit2(&cursor->stream, -MAX_WBITS) != Z_OK)
        return zt_fail(zip->ctx, ZT_ENOMEM, "%s: out of memory (inflate)", zip->file);
    cursor->inflating = cursor->entry->deflated;
    cursor->member = i;
    return ZT_OK;
}

/* ---- bytes in their order -------------------------------------------------------------------- */

/* More of the file for the inflater, if there is more of the member. */
static zt_status refill_input(const zt_zip *zip, zip_cursor *cursor)
{
    uint64_t left = cursor->entry->packed - cursor->taken;
    size_t size = left < BUFFER ? (size_t)left : BUFFER;
    zt_status status = zt_source_read(zip->source, cursor->entry->data + cursor->taken, cursor->input, size);
    cursor->stream.next_in = cursor->input;
    cursor->stream.avail_in = (uInt)size;
    cursor->taken += size;
    return status;
}

/* Inflates up to `size` bytes, all of them unless the member ends; *got of them. */
static zt_status inflate_some(const zt_zip *zip, zip_cursor *cursor, void *dst, size_t size, size_t *produced)
{
    zt_status status = ZT_OK;
    cursor->stream.next_out = dst;
    cursor->stream.avail_out = (uInt)size;
    while (status == ZT_OK && cursor->stream.avail_out && !cursor->ended) {
        if (!cursor->stream.avail_in && cursor->taken < cursor->entry->packed && (status = refill_input(zip, cursor)) != ZT_OK)
            break;
        int result = inflate(&cursor->stream, Z_NO_FLUSH);
        cursor->ended = result == Z_STREAM_END;
        if (result == Z_MEM_ERROR)
            status = zt_fail(zip->ctx, ZT_ENOMEM, "%s: out of memory (inflate)", zip->file);
        else if (result != Z_OK && result != Z_STREAM_END)
            status = fail_member(zip, cursor->entry, result == Z_BUF_ERROR ? "truncated deflate data" : "invalid deflate data");
    }
    *produced = size - cursor->stream.avail_out;
    return status;
}

/* Past the last byte: nothing may be left, and the sum must be right. */
static zt_status check_end(zt_zip *zip, zip_cursor *cursor)
{
    size_t got = 0;
    uint8_t byte;
    zt_status status = ZT_OK;
    if (cursor->entry->deflated && !cursor->ended) status = inflate_some(zip, cursor, &byte, 1, &got);
    if (status != ZT_OK) return status;
    if (got || (cursor->entry->deflated && (cursor->stream.avail_in || cursor->taken < cursor->entry->packed)))
        return fail_member(zip, cursor->entry, "the data exceeds the declared size");
    if (cursor->crc != cursor->entry->crc) return fail_member(zip, cursor->entry, "CRC-32 mismatch");
    zip->checked[cursor->member] = true;
    return ZT_OK;
}

/* The next `size` bytes, at most as many as are left, and at most BUFFER if they go nowhere (dst NULL).
 */
static zt_status pass_bytes(zt_zip *zip, zip_cursor *cursor, void *dst, size_t size)
{
    size_t got = size;
    void *target = dst ? dst : cursor->output;
    uint64_t position = cursor->entry->data + cursor->position;
    zt_status status = cursor->entry->deflated ? inflate_some(zip, cursor, target, size, &got)
                       : size <= SMALL         ? zt_zip_peek(zip, position, target, size)
                                               : zt_source_read(zip->source, position, target, size);
    if (status == ZT_OK && got < size) status = fail_member(zip, cursor->entry, "the data is shorter than the declared size");
    if (status == ZT_OK) {
        cursor->crc = (uint32_t)crc32_z(cursor->crc, target, size);
        cursor->position += size;
        if (cursor->position == cursor->entry->size) status = check_end(zip, cursor);
    }
    if (status != ZT_OK) stop_cursor(cursor);
    return status;
}

static zt_status pass_over(zt_zip *zip, zip_cursor *cursor, uint64_t size)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && size) {
        size_t step = size < BUFFER ? (size_t)size : BUFFER;
        status = pass_bytes(zip, cursor, NULL, step);
        size -= step;
    }
    return status;
}

/* `size` bytes at offset, by the cursor. */
static zt_status read_in_order(zt_zip *zip, int64_t i, uint64_t offset, uint8_t *dst, size_t size)
{
    zip_cursor *cursor = zip->cursor;
    zt_status status = ZT_OK;
    if (!cursor || cursor->member != i || cursor->position > offset) {
        status = start_member(zip, i);
        cursor = zip->cursor;
    }
    if (status == ZT_OK) status = pass_over(zip, cursor, offset - cursor->position);
    while (status == ZT_OK && size) { /* zlib counts in unsigned int */
        size_t step = size < 1 << 30 ? size : 1 << 30;
        status = pass_bytes(zip, cursor, dst, step);
        dst += step;
        size -= step;
    }
    return status;
}

/* ---- from any place -------------------------------------------------------------------------- */

static bool is_near(const zt_zip *zip, int64_t i, uint64_t offset)
{
    const zip_cursor *cursor = zip->cursor;
    return offset <= NEAR || (cursor && cursor->member == i && cursor->position <= offset && offset - cursor->position <= NEAR);
}

/* Under the lock. *direct: the bytes are to be read in place. */
static zt_status read_locked(zt_zip *zip, int64_t i, uint64_t offset, void *dst, size_t size, bool *direct)
{
    const zt_zip_entry *entry = &zip->entries[i];
    *direct = !entry->deflated && zip->checked[i];
    if (*direct) return ZT_OK;
    if (entry->deflated || is_near(zip, i, offset)) return read_in_order(zip, i, offset, dst, size);
    zt_status status = start_member(zip, i);
    if (status == ZT_OK) status = pass_over(zip, zip->cursor, entry->size);
    *direct = status == ZT_OK;
    return status;
}

zt_status zt_zip_read(zt_zip *zip, int64_t i, uint64_t offset, void *dst, size_t size)
{
    const zt_zip_entry *entry = &zip->entries[i];
    bool direct;
    if (offset > entry->size || entry->size - offset < size) return fail_member(zip, entry, "truncated");
    if (size == 0) return ZT_OK;
    pthread_mutex_lock(&zip->lock);
    zt_status status = read_locked(zip, i, offset, dst, size, &direct);
    pthread_mutex_unlock(&zip->lock);
    return status == ZT_OK && direct ? zt_source_read(zip->source, entry->data + offset, dst, size) : status;
}

zt_status zt_zip_fetch(void *member, uint64_t offset, void *dst, size_t size)
{
    const zt_zip_member *request = member;
    return zt_zip_read(request->zip, request->index, offset, dst, size);
}
