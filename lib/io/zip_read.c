/* zip_read.c - owns reading members' bytes: inflating them, and checking what comes by.
 *
 * One cursor an archive walks a member from its beginning on. What is read in order passes through
 * it, which checks size and CRC-32 at the end. A stored member that is known to be right is read in
 * place, by any number of threads at once. */
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
    const zt_zip_entry *e;
    uint64_t pos,
        taken; /* bytes of the member that have passed, bytes of the file taken for them */
    uint32_t crc;
    bool inflating, ended; /* z is in use; it has seen its end */
    z_stream z;
    uint8_t in[BUFFER], out[BUFFER];
};

static void *zip_alloc(void *user, uInt n, uInt size)
{
    return zt_calloc(user, n, size);
}

static void zip_free(void *user, void *p)
{
    zt_free(user, p);
}

static zt_status bad(const zt_zip *z, const zt_zip_entry *e, const char *what)
{
    char text[160];
    return zt_fail(z->ctx, ZT_EDATA, "%s: member '%s': %s", z->file,
                   zt_escape(text, sizeof text, e->name, strlen(e->name)), what);
}

static void stop(zip_cursor *c)
{
    if (c->inflating)
        inflateEnd(&c->z);
    c->inflating = false;
    c->member = -1;
}

void zt_zip_cursor_free(zt_zip *z)
{
    if (z->cursor)
        stop(z->cursor);
    zt_free(z->ctx, z->cursor);
}

static zt_status start(zt_zip *z, int64_t i)
{
    zip_cursor *c = z->cursor ? z->cursor : zt_alloc(z->ctx, sizeof *c);
    if (!c)
        return ZT_ENOMEM;
    if (!z->cursor) {
        z->cursor = c;
        c->inflating = false;
    }
    stop(c);
    c->e = &z->entry[i];
    c->pos = c->taken = 0;
    c->crc = 0;
    c->ended = false;
    c->z = (z_stream){.zalloc = zip_alloc, .zfree = zip_free, .opaque = z->ctx};
    if (c->e->deflated && inflateInit2(&c->z, -MAX_WBITS) != Z_OK)
        return zt_fail(z->ctx, ZT_ENOMEM, "%s: no memory to inflate with", z->file);
    c->inflating = c->e->deflated;
    c->member = i;
    return ZT_OK;
}

/* ---- bytes in their order -------------------------------------------------------------------- */

/* More of the file for the inflater, if there is more of the member. */
static zt_status refill(const zt_zip *z, zip_cursor *c)
{
    uint64_t left = c->e->packed - c->taken;
    size_t n = left < BUFFER ? (size_t)left : BUFFER;
    zt_status st = zt_source_read(z->in, c->e->data + c->taken, c->in, n);
    c->z.next_in = c->in;
    c->z.avail_in = (uInt)n;
    c->taken += n;
    return st;
}

/* Inflates up to n bytes, all of them unless the member ends; *got of them. */
static zt_status inflate_some(const zt_zip *z, zip_cursor *c, void *dst, size_t n, size_t *got)
{
    zt_status st = ZT_OK;
    c->z.next_out = dst;
    c->z.avail_out = (uInt)n;
    while (st == ZT_OK && c->z.avail_out && !c->ended) {
        if (!c->z.avail_in && c->taken < c->e->packed && (st = refill(z, c)) != ZT_OK)
            break;
        int r = inflate(&c->z, Z_NO_FLUSH);
        c->ended = r == Z_STREAM_END;
        if (r == Z_MEM_ERROR)
            st = zt_fail(z->ctx, ZT_ENOMEM, "%s: no memory to inflate with", z->file);
        else if (r != Z_OK && r != Z_STREAM_END)
            st = bad(z, c->e,
                     r == Z_BUF_ERROR ? "its deflated bytes are cut"
                                      : "its deflated bytes are broken");
    }
    *got = n - c->z.avail_out;
    return st;
}

/* Past the last byte: nothing may be left, and the sum must be right. */
static zt_status check_end(zt_zip *z, zip_cursor *c)
{
    size_t got = 0;
    uint8_t one;
    zt_status st = ZT_OK;
    if (c->e->deflated && !c->ended)
        st = inflate_some(z, c, &one, 1, &got);
    if (st != ZT_OK)
        return st;
    if (got || (c->e->deflated && (c->z.avail_in || c->taken < c->e->packed)))
        return bad(z, c->e, "it holds more than its size says");
    if (c->crc != c->e->crc)
        return bad(z, c->e, "its CRC-32 is wrong");
    z->checked[c->member] = true;
    return ZT_OK;
}

/* The next n bytes, at most as many as are left, and at most BUFFER if they go nowhere (dst NULL).
 */
static zt_status pass(zt_zip *z, zip_cursor *c, void *dst, size_t n)
{
    size_t got = n;
    void *to = dst ? dst : c->out;
    uint64_t at = c->e->data + c->pos;
    zt_status st = c->e->deflated ? inflate_some(z, c, to, n, &got)
                   : n <= SMALL   ? zt_zip_peek(z, at, to, n)
                                  : zt_source_read(z->in, at, to, n);
    if (st == ZT_OK && got < n)
        st = bad(z, c->e, "it holds less than its size says");
    if (st == ZT_OK) {
        c->crc = (uint32_t)crc32_z(c->crc, to, n);
        c->pos += n;
        if (c->pos == c->e->size)
            st = check_end(z, c);
    }
    if (st != ZT_OK)
        stop(c);
    return st;
}

static zt_status pass_over(zt_zip *z, zip_cursor *c, uint64_t n)
{
    zt_status st = ZT_OK;
    while (st == ZT_OK && n) {
        size_t some = n < BUFFER ? (size_t)n : BUFFER;
        st = pass(z, c, NULL, some);
        n -= some;
    }
    return st;
}

/* n bytes at offset, by the cursor. */
static zt_status walk(zt_zip *z, int64_t i, uint64_t offset, uint8_t *dst, size_t n)
{
    zip_cursor *c = z->cursor;
    zt_status st = ZT_OK;
    if (!c || c->member != i || c->pos > offset) {
        st = start(z, i);
        c = z->cursor;
    }
    if (st == ZT_OK)
        st = pass_over(z, c, offset - c->pos);
    while (st == ZT_OK && n) { /* zlib counts in unsigned int */
        size_t some = n < 1 << 30 ? n : 1 << 30;
        st = pass(z, c, dst, some);
        dst += some;
        n -= some;
    }
    return st;
}

/* ---- from any place -------------------------------------------------------------------------- */

static bool is_near(const zt_zip *z, int64_t i, uint64_t offset)
{
    const zip_cursor *c = z->cursor;
    return offset <= NEAR || (c && c->member == i && c->pos <= offset && offset - c->pos <= NEAR);
}

/* Under the lock. *direct: the bytes are to be read in place. */
static zt_status read_locked(zt_zip *z, int64_t i, uint64_t offset, void *dst, size_t n,
                             bool *direct)
{
    const zt_zip_entry *e = &z->entry[i];
    *direct = !e->deflated && z->checked[i];
    if (*direct)
        return ZT_OK;
    if (e->deflated || is_near(z, i, offset))
        return walk(z, i, offset, dst, n);
    zt_status st = start(z, i);
    if (st == ZT_OK)
        st = pass_over(z, z->cursor, e->size);
    *direct = st == ZT_OK;
    return st;
}

zt_status zt_zip_read(zt_zip *z, int64_t i, uint64_t offset, void *dst, size_t n)
{
    const zt_zip_entry *e = &z->entry[i];
    bool direct;
    if (offset > e->size || e->size - offset < n)
        return bad(z, e, "it is cut");
    if (n == 0)
        return ZT_OK;
    pthread_mutex_lock(&z->lock);
    zt_status st = read_locked(z, i, offset, dst, n, &direct);
    pthread_mutex_unlock(&z->lock);
    return st == ZT_OK && direct ? zt_source_read(z->in, e->data + offset, dst, n) : st;
}

zt_status zt_zip_fetch(void *member, uint64_t offset, void *dst, size_t n)
{
    const zt_zip_member *m = member;
    return zt_zip_read(m->zip, m->i, offset, dst, n);
}
