/* zip.h - private to lib/io: read and write zip archives, as npz and pt use them.
 *
 * Reading: members stored or deflated, zip64. The directory is read and checked once; a member's
 * bytes on demand. Files are hostile: the directory must end where its end record stands, a member
 * must say of itself what the directory says of it, no two may share a byte or a name, and what is
 * inflated must have the size and the CRC-32 that were promised. Names are only names.
 *
 * Writing: members stored, at fixed times, straight to a sink, so that the same members make the
 * same bytes and a pipe is as good as a file. CRC-32s follow the members (data descriptors).
 *
 * Format: APPNOTE.TXT 6.3.10 of PKWARE, as facts. Inflating is zlib's.
 */
#ifndef ZT_ZIP_H
#define ZT_ZIP_H

#include "lib/base/base.h"

typedef struct zt_zip zt_zip;

typedef struct zt_zip_entry {
    const char *name;      /* without a zero byte inside */
    uint64_t size, packed; /* bytes of the member, and those that it takes in the file */
    uint64_t head, data;   /* where its header begins, and where its bytes do */
    uint32_t crc;
    bool deflated;
} zt_zip_entry;

zt_zip *zt_zip_from(zt_ctx *ctx, const zt_source *source); /* borrows the source */
void zt_zip_close(zt_zip *zip);
bool zt_zip_sniff(const void *bytes, size_t size); /* of the first 4 bytes */

int64_t zt_zip_count(const zt_zip *zip);
const zt_zip_entry *zt_zip_get(const zt_zip *zip, int64_t i); /* in the directory's order */
int64_t zt_zip_find(const zt_zip *zip, const char *name);     /* index or -1 */
/* `size` bytes at `offset` of member i. A member read from its beginning to its end is checked as it
 * passes; before a stored one is read in another order, it is checked as a whole; a deflated one is
 * then inflated anew from its beginning. From any thread. */
zt_status zt_zip_read(zt_zip *zip, int64_t i, uint64_t offset, void *dst, size_t size);

/* A member, to be read by who knows neither zips nor files: zt_zip_fetch is a zt_fetch, with this
 * as its user. */
typedef struct zt_zip_member {
    zt_zip *zip;
    int64_t index;
} zt_zip_member;

zt_status zt_zip_fetch(void *member, uint64_t offset, void *dst, size_t size);

typedef struct zt_zip_writer zt_zip_writer;

zt_zip_writer *zt_zip_writer_new(zt_ctx *ctx, zt_sink *out);
void zt_zip_writer_free(zt_zip_writer *writer);
/* Begins a member of `size` bytes, which begin at a multiple of `align`; ends the one before it, of
 * which all bytes must have been written. */
zt_status zt_zip_begin(zt_zip_writer *writer, const char *name, uint64_t size, unsigned align);
zt_status zt_zip_write(zt_zip_writer *writer, const void *bytes, size_t size);
zt_status zt_zip_finish(zt_zip_writer *writer); /* the directory; nothing may follow */

#endif
