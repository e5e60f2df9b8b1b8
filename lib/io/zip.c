/* zip.c - owns reading a zip's directory: every number checked before it is believed. */
#include "lib/io/fault.h"
#include "lib/io/zip_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_COMMENT = 65535 };

static uint64_t le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static zt_status bad(const zt_zip *z, const char *name, const char *what)
{
    char text[160];
    return zt_fail(z->ctx, ZT_EDATA, "%s: member '%s': %s", z->file,
                   zt_escape(text, sizeof text, name, strlen(name)), what);
}

/* ---- the end record -------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t begin, bytes, count;
} directory;

/* Of a tail of the file, the end record's offset, or n: its comment must fill the rest. */
static size_t find_end(const uint8_t *tail, size_t n)
{
    for (size_t at = n >= ZIP_END_BYTES ? n - ZIP_END_BYTES + 1 : 0; at-- > 0;) {
        if (le(tail + at, 4) == ZIP_END && at + ZIP_END_BYTES + le(tail + at + 20, 2) == n)
            return at;
    }
    return n;
}

/* Numbers that the end record has no room for, from the record that the locator names. */
static zt_status read_end64(const zt_zip *z, uint64_t locator, const uint8_t *loc, directory *d)
{
    uint8_t end[ZIP_END64_BYTES];
    uint64_t at = le(loc + 8, 8);
    if (at > locator || locator - at < sizeof end)
        return zt_fail(z->ctx, ZT_EDATA, "%s: its zip64 end record is not where it should be",
                       z->file);
    zt_status st = zt_source_read(z->in, at, end, sizeof end);
    if (st != ZT_OK)
        return st;
    if (le(end, 4) != ZIP_END64 || le(end + 4, 8) != locator - at - 12 || le(end + 16, 4) ||
        le(end + 20, 4) || le(end + 24, 8) != le(end + 32, 8))
        return zt_fail(z->ctx, ZT_EDATA, "%s: its zip64 end record is broken", z->file);
    *d = (directory){.count = le(end + 32, 8), .bytes = le(end + 40, 8), .begin = le(end + 48, 8)};
    return d->begin <= at && at - d->begin == d->bytes
               ? ZT_OK
               : zt_fail(z->ctx, ZT_EDATA, "%s: its directory does not end where its end begins",
                         z->file);
}

static zt_status read_end(const zt_zip *z, directory *d)
{
    uint64_t size = zt_source_size(z->in);
    size_t n = size < MAX_COMMENT + ZIP_END_BYTES ? (size_t)size : MAX_COMMENT + ZIP_END_BYTES;
    uint8_t *tail = zt_alloc(z->ctx, n), loc[ZIP_LOCATOR64_BYTES] = {0};
    zt_status st = tail ? zt_source_read(z->in, size - n, tail, n) : ZT_ENOMEM;
    size_t at = st == ZT_OK ? find_end(tail, n) : n;
    uint64_t end = size - n + at;
    if (st == ZT_OK && at == n)
        st = zt_fail(z->ctx, ZT_EDATA, "%s: a zip archive without an end: it is cut", z->file);
    if (st == ZT_OK && end >= sizeof loc)
        st = zt_source_read(z->in, end - sizeof loc, loc, sizeof loc);
    if (st != ZT_OK) {
        zt_free(z->ctx, tail);
        return st;
    }
    const uint8_t *e = tail + at;
    *d = (directory){.count = le(e + 10, 2), .bytes = le(e + 12, 4), .begin = le(e + 16, 4)};
    if (le(loc, 4) == ZIP_LOCATOR64)
        st = read_end64(z, end - sizeof loc, loc, d);
    else if (le(e + 4, 2) || le(e + 6, 2) || le(e + 8, 2) != d->count || d->begin > end ||
             end - d->begin != d->bytes)
        st = zt_fail(z->ctx, ZT_EDATA, "%s: its directory does not end where its end begins",
                     z->file);
    zt_free(z->ctx, tail);
    if (st == ZT_OK && d->count > d->bytes / ZIP_ENTRY_BYTES)
        st = zt_fail(z->ctx, ZT_EDATA, "%s: %llu members in a directory of %llu bytes", z->file,
                     (unsigned long long)d->count, (unsigned long long)d->bytes);
    return st;
}

/* ---- one entry of the directory -------------------------------------------------------------- */

/* Of the extra fields at p, the zip64 one: numbers that have no room elsewhere, in their order. */
static bool read_extra(const uint8_t *p, size_t n, zt_zip_entry *e)
{
    uint64_t *const number[] = {&e->size, &e->packed, &e->head};
    size_t wanted = 0;
    for (int i = 0; i < 3; i++)
        wanted += *number[i] == UINT32_MAX;
    while (n >= 4) {
        size_t id = le(p, 2), len = le(p + 2, 2);
        if (len > n - 4)
            return false;
        if (id == 1 && wanted) {
            size_t at = 0;
            for (int i = 0; i < 3; i++) {
                if (*number[i] != UINT32_MAX)
                    continue;
                if (at + 8 > len)
                    return false;
                *number[i] = le(p + 4 + at, 8);
                at += 8;
            }
            wanted = 0;
        }
        p += 4 + len;
        n -= 4 + len;
    }
    return n == 0 && wanted == 0;
}

/* The entry at p, of at most n bytes; *used are its own. */
static zt_status read_entry(zt_zip *z, const uint8_t *p, size_t n, zt_zip_entry *e, size_t *used)
{
    size_t len = n < ZIP_ENTRY_BYTES ? 0 : le(p + 28, 2);
    if (n < ZIP_ENTRY_BYTES || le(p, 4) != ZIP_ENTRY)
        return zt_fail(z->ctx, ZT_EDATA, "%s: its directory is broken at member %lld", z->file,
                       (long long)z->n);
    *used = ZIP_ENTRY_BYTES + len + le(p + 30, 2) + le(p + 32, 2);
    if (*used > n || memchr(p + ZIP_ENTRY_BYTES, 0, len))
        return zt_fail(z->ctx, ZT_EDATA, "%s: the name of member %lld is broken", z->file,
                       (long long)z->n);
    *e = (zt_zip_entry){.name = zt_arena_strndup(z->texts, (const char *)p + ZIP_ENTRY_BYTES, len),
                        .crc = (uint32_t)le(p + 16, 4),
                        .packed = le(p + 20, 4),
                        .size = le(p + 24, 4),
                        .head = le(p + 42, 4),
                        .deflated = le(p + 10, 2) == ZIP_DEFLATED};
    return e->name ? ZT_OK : ZT_ENOMEM;
}

/* What the entry at p says of its member. */
static zt_status check_entry(const zt_zip *z, const uint8_t *p, zt_zip_entry *e)
{
    if (le(p + 8, 2) & ZIP_FLAG_UTF8 && !zt_utf8_valid(e->name, strlen(e->name)))
        return bad(z, e->name, "its name is flagged as UTF-8 and is not valid UTF-8");
    if (le(p + 8, 2) & ZIP_FLAG_CRYPT)
        return bad(z, e->name, "it is encrypted");
    if (!e->deflated && le(p + 10, 2) != ZIP_STORED)
        return bad(z, e->name, "neither stored nor deflated");
    if (!read_extra(p + ZIP_ENTRY_BYTES + le(p + 28, 2), le(p + 30, 2), e))
        return bad(z, e->name, "its extra fields are broken");
    if (!e->deflated && e->size != e->packed)
        return bad(z, e->name, "stored, but of two sizes");
    return e->size || e->crc == 0 ? ZT_OK : bad(z, e->name, "empty, but with a checksum");
}

zt_status zt_zip_peek(zt_zip *z, uint64_t offset, void *dst, size_t n)
{
    uint64_t left = zt_source_size(z->in) - offset;
    if (offset < z->window_at || offset - z->window_at > z->window_n ||
        z->window_n - (size_t)(offset - z->window_at) < n) {
        size_t some = left < ZIP_WINDOW ? (size_t)left : ZIP_WINDOW;
        z->window_n = 0;
        if (some < n)
            return zt_fail(z->ctx, ZT_EDATA, "%s: it is cut", z->file);
        zt_status st = zt_source_read(z->in, offset, z->window, some);
        if (st != ZT_OK)
            return st;
        z->window_at = offset;
        z->window_n = some;
    }
    memcpy(dst, z->window + (offset - z->window_at), n);
    return ZT_OK;
}

/* What the member says of itself, and where its bytes begin; the directory begins at `end`. */
static zt_status read_local(zt_zip *z, zt_zip_entry *e, uint64_t end)
{
    uint8_t head[ZIP_LOCAL_BYTES + 65535];
    size_t len = strlen(e->name), n = ZIP_LOCAL_BYTES + len;
    if (e->head > end || end - e->head < n)
        return bad(z, e->name, "it is not in the file");
    zt_status st = n <= ZIP_WINDOW ? zt_zip_peek(z, e->head, head, n)
                                   : zt_source_read(z->in, e->head, head, n);
    if (st != ZT_OK)
        return st;
    bool later = le(head + 6, 2) & ZIP_FLAG_DESCRIPTOR;
    if (le(head, 4) != ZIP_LOCAL || le(head + 26, 2) != len ||
        memcmp(head + ZIP_LOCAL_BYTES, e->name, len) != 0 ||
        le(head + 8, 2) != (e->deflated ? ZIP_DEFLATED : ZIP_STORED) ||
        le(head + 6, 2) & ZIP_FLAG_CRYPT)
        return bad(z, e->name, "its header and the directory contradict each other");
    if (le(head + 6, 2) & ZIP_FLAG_UTF8 && !zt_utf8_valid(e->name, len))
        return bad(z, e->name, "its name is flagged as UTF-8 and is not valid UTF-8");
    if (!later && (le(head + 14, 4) != e->crc ||
                   (le(head + 18, 4) != UINT32_MAX && le(head + 18, 4) != e->packed) ||
                   (le(head + 22, 4) != UINT32_MAX && le(head + 22, 4) != e->size)))
        return bad(z, e->name, "its header and the directory contradict each other");
    e->data = e->head + n + le(head + 28, 2);
    if (e->data > end || end - e->data < e->packed)
        return bad(z, e->name, "its bytes are not in the file");
    return ZT_OK;
}

/* ---- the directory --------------------------------------------------------------------------- */

static int by_head(const void *a, const void *b)
{
    const zt_zip_entry *x = *(zt_zip_entry *const *)a, *y = *(zt_zip_entry *const *)b;
    return (x->head > y->head) - (x->head < y->head);
}

static zt_status check_overlaps(const zt_zip *z)
{
    const zt_zip_entry **order = zt_alloc_array(z->ctx, (size_t)z->n, sizeof *order);
    zt_status st = order ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; order && i < z->n; i++)
        order[i] = &z->entry[i];
    if (order && z->n)
        qsort(order, (size_t)z->n, sizeof *order, by_head);
    for (int64_t i = 1; st == ZT_OK && i < z->n; i++)
        if (order[i]->head < order[i - 1]->data + order[i - 1]->packed)
            st = zt_faults_pass(z->ctx, bad(z, order[i]->name, "it shares bytes with another"));
    zt_free(z->ctx, order);
    return st;
}

static zt_status map_names(zt_zip *z)
{
    zt_status st = ZT_OK;
    z->names = zt_map_new(z->ctx, (size_t)z->n);
    if (!z->names)
        return ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < z->n; i++) {
        const char *name = z->entry[i].name;
        st = zt_map_get(z->names, name, strlen(name), NULL)
                 ? zt_faults_pass(z->ctx, bad(z, name, "it is there twice"))
                 : zt_map_put(z->names, name, strlen(name), i);
    }
    return st;
}

static zt_status read_directory(zt_zip *z, const uint8_t *p, const directory *d)
{
    zt_status st = ZT_OK;
    size_t at = 0, used = 0;
    uint64_t i = 0;
    z->entry = zt_alloc_array(z->ctx, (size_t)d->count, sizeof *z->entry);
    z->checked = zt_calloc(z->ctx, (size_t)d->count, sizeof *z->checked);
    if (!z->entry || !z->checked)
        return ZT_ENOMEM;
    for (; st == ZT_OK && i < d->count; i++, at += used) {
        zt_zip_entry *e = &z->entry[z->n];
        st = read_entry(z, p + at, (size_t)d->bytes - at, e, &used);
        if (st != ZT_OK)
            break;
        st = check_entry(z, p + at, e);
        if (st == ZT_OK)
            st = read_local(z, e, d->begin);
        z->n += st == ZT_OK;
        st = zt_faults_pass(z->ctx, st);
    }
    if (st == ZT_OK && at != d->bytes)
        st = zt_fail(z->ctx, ZT_EDATA, "%s: its directory holds more than the %llu members told",
                     z->file, (unsigned long long)d->count);
    return st;
}

/* Reads and checks the directory and what members say of themselves. */
static zt_status parse(zt_zip *z)
{
    directory d;
    zt_status st = read_end(z, &d);
    if (st != ZT_OK)
        return st;
    uint8_t *p = zt_alloc(z->ctx, (size_t)d.bytes);
    st = p ? zt_source_read(z->in, d.begin, p, (size_t)d.bytes) : ZT_ENOMEM;
    if (st == ZT_OK)
        st = read_directory(z, p, &d);
    zt_free(z->ctx, p);
    if (st == ZT_OK)
        st = check_overlaps(z);
    return st == ZT_OK ? map_names(z) : st;
}

/* ---- open and close -------------------------------------------------------------------------- */

bool zt_zip_sniff(const void *bytes, size_t n)
{
    return n >= 4 && (le(bytes, 4) == ZIP_LOCAL || le(bytes, 4) == ZIP_END);
}

zt_zip *zt_zip_from(zt_ctx *ctx, const zt_source *in)
{
    zt_zip *z = zt_calloc(ctx, 1, sizeof *z);
    if (!z)
        return NULL;
    *z = (zt_zip){.ctx = ctx, .in = in, .file = zt_source_name(in)};
    pthread_mutex_init(&z->lock, NULL);
    z->texts = zt_arena_new(ctx, 4096);
    if (z->texts && parse(z) == ZT_OK)
        return z;
    zt_zip_close(z);
    return NULL;
}

void zt_zip_close(zt_zip *z)
{
    if (!z)
        return;
    zt_zip_cursor_free(z);
    pthread_mutex_destroy(&z->lock);
    zt_map_free(z->names);
    zt_arena_free(z->texts);
    zt_free(z->ctx, z->entry);
    zt_free(z->ctx, z->checked);
    zt_free(z->ctx, z);
}

int64_t zt_zip_count(const zt_zip *z)
{
    return z->n;
}

const zt_zip_entry *zt_zip_get(const zt_zip *z, int64_t i)
{
    return &z->entry[i];
}

int64_t zt_zip_find(const zt_zip *z, const char *name)
{
    return zt_map_find(z->names, name);
}
