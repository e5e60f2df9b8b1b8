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

typedef struct member {
    char *name;
    uint64_t head, size;
    uint32_t crc;
} member;

struct zt_zip_writer {
    zt_ctx *ctx;
    zt_sink *out;
    zt_arena *texts;
    zt_map *names;
    member *list;
    size_t n, room;
    uint64_t at;   /* bytes written */
    uint64_t left; /* bytes of the open member that are to come */
    bool open;
};

zt_zip_writer *zt_zip_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_zip_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->ctx = ctx;
    w->out = out;
    w->texts = zt_arena_new(ctx, 4096);
    w->names = w->texts ? zt_map_new(ctx, 64) : NULL;
    if (w->names)
        return w;
    zt_zip_writer_free(w);
    return NULL;
}

void zt_zip_writer_free(zt_zip_writer *w)
{
    if (!w)
        return;
    zt_map_free(w->names);
    zt_arena_free(w->texts);
    zt_free(w->ctx, w->list);
    zt_free(w->ctx, w);
}

/* ---- records --------------------------------------------------------------------------------- */

typedef struct record {
    uint8_t byte[128];
    size_t n;
} record;

static void put(record *r, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        r->byte[r->n++] = (uint8_t)(v >> 8 * i);
}

static zt_status emit(zt_zip_writer *w, const void *bytes, size_t n)
{
    zt_status st = zt_sink_write(w->out, bytes, n);
    if (st == ZT_OK)
        w->at += n;
    return st;
}

static bool is_large(uint64_t v)
{
    return v >= UINT32_MAX;
}

/* The fields that local header and directory have in common, from the version on. Sizes are told
 * by the directory; here they are 0, or where they are large what says "see the extra field". */
static void put_common(record *r, const member *m, bool local, bool wide, size_t extra)
{
    bool large = is_large(m->size);
    put(r, wide ? VERSION64 : VERSION, 2);
    put(r, ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_UTF8, 2);
    put(r, ZIP_STORED, 2);
    put(r, 0, 2); /* midnight */
    put(r, DATE, 2);
    put(r, local ? 0 : m->crc, 4);
    for (int i = 0; i < 2; i++)
        put(r, large ? UINT32_MAX : local ? 0 : m->size, 4);
    put(r, strlen(m->name), 2);
    put(r, extra, 2);
}

static zt_status put_local(zt_zip_writer *w, const member *m, unsigned align)
{
    static const uint8_t zeros[4096];
    record r = {.n = 0};
    bool large = is_large(m->size);
    size_t wide = large ? 20 : 0;
    uint64_t data = w->at + ZIP_LOCAL_BYTES + strlen(m->name) + wide;
    size_t pad = (size_t)((align - data % align) % align);
    if (pad && pad < 4) /* there is room for the padding's own head */
        pad += align;
    put(&r, ZIP_LOCAL, 4);
    put_common(&r, m, true, large, wide + pad);
    zt_status st = emit(w, r.byte, r.n);
    if (st == ZT_OK)
        st = emit(w, m->name, strlen(m->name));
    r.n = 0;
    if (large) {
        put(&r, 1, 2);
        put(&r, 16, 2);
        put(&r, 0, 8);
        put(&r, 0, 8);
    }
    if (pad) {
        put(&r, PADDING, 2);
        put(&r, pad - 4, 2);
    }
    if (st == ZT_OK)
        st = emit(w, r.byte, r.n);
    return st == ZT_OK && pad > 4 ? emit(w, zeros, pad - 4) : st;
}

static zt_status put_descriptor(zt_zip_writer *w, const member *m)
{
    record r = {.n = 0};
    int bytes = is_large(m->size) ? 8 : 4;
    put(&r, ZIP_DESCRIPTOR, 4);
    put(&r, m->crc, 4);
    put(&r, m->size, bytes);
    put(&r, m->size, bytes);
    return emit(w, r.byte, r.n);
}

static zt_status put_entry(zt_zip_writer *w, const member *m)
{
    record r = {.n = 0};
    bool large = is_large(m->size), far = is_large(m->head);
    size_t extra = (large ? 16u : 0u) + (far ? 8u : 0u);
    put(&r, ZIP_ENTRY, 4);
    put(&r, VERSION64, 2); /* made by, on MS-DOS: no permissions */
    put_common(&r, m, false, large || far, extra ? extra + 4 : 0);
    put(&r, 0, 2); /* comment */
    put(&r, 0, 2); /* disk */
    put(&r, 0, 2);
    put(&r, 0, 4);
    put(&r, far ? UINT32_MAX : m->head, 4);
    zt_status st = emit(w, r.byte, r.n);
    if (st == ZT_OK)
        st = emit(w, m->name, strlen(m->name));
    r.n = 0;
    if (extra) {
        put(&r, 1, 2);
        put(&r, extra, 2);
    }
    if (large) {
        put(&r, m->size, 8);
        put(&r, m->size, 8);
    }
    if (far)
        put(&r, m->head, 8);
    return st == ZT_OK ? emit(w, r.byte, r.n) : st;
}

static zt_status put_end(zt_zip_writer *w, uint64_t begin)
{
    record r = {.n = 0};
    uint64_t end = w->at, bytes = end - begin;
    if (is_large(begin) || is_large(bytes) || w->n >= MANY) {
        put(&r, ZIP_END64, 4);
        put(&r, ZIP_END64_BYTES - 12, 8);
        put(&r, VERSION64, 2);
        put(&r, VERSION64, 2);
        put(&r, 0, 8); /* both disks */
        put(&r, w->n, 8);
        put(&r, w->n, 8);
        put(&r, bytes, 8);
        put(&r, begin, 8);
        put(&r, ZIP_LOCATOR64, 4);
        put(&r, 0, 4);
        put(&r, end, 8);
        put(&r, 1, 4);
    }
    put(&r, ZIP_END, 4);
    put(&r, 0, 4);
    for (int i = 0; i < 2; i++)
        put(&r, w->n < MANY ? w->n : MANY, 2);
    put(&r, is_large(bytes) ? UINT32_MAX : bytes, 4);
    put(&r, is_large(begin) ? UINT32_MAX : begin, 4);
    put(&r, 0, 2);
    return emit(w, r.byte, r.n);
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status end_member(zt_zip_writer *w)
{
    char text[160];
    if (!w->open)
        return ZT_OK;
    const member *m = &w->list[w->n - 1];
    if (w->left)
        return zt_fail(w->ctx, ZT_EUSAGE, "member '%s' lacks %llu bytes",
                       zt_escape(text, sizeof text, m->name, strlen(m->name)),
                       (unsigned long long)w->left);
    w->open = false;
    return put_descriptor(w, m);
}

static zt_status add(zt_zip_writer *w, const char *name, uint64_t size)
{
    char text[160];
    size_t len = strlen(name);
    if (len > UINT16_MAX)
        return zt_fail(w->ctx, ZT_ENOTSUP, "a zip member's name has at most %d bytes, not %zu",
                       UINT16_MAX, len);
    if (!zt_utf8_valid(name, len))
        return zt_fail(w->ctx, ZT_ENOTSUP, "a zip has no name '%s': it is no UTF-8",
                       zt_escape(text, sizeof text, name, len));
    if (zt_map_get(w->names, name, len, NULL))
        return zt_fail(w->ctx, ZT_EUSAGE, "member '%s' is there twice",
                       zt_escape(text, sizeof text, name, len));
    if (w->n == w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        member *list = zt_realloc(w->ctx, w->list, room * sizeof *list);
        if (!list)
            return ZT_ENOMEM;
        w->list = list;
        w->room = room;
    }
    member *m = &w->list[w->n];
    *m = (member){.name = zt_arena_strndup(w->texts, name, len), .head = w->at, .size = size};
    if (!m->name)
        return ZT_ENOMEM;
    w->n++;
    return zt_map_put(w->names, m->name, len, 0);
}

zt_status zt_zip_begin(zt_zip_writer *w, const char *name, uint64_t size, unsigned align)
{
    zt_status st = end_member(w);
    if (st == ZT_OK)
        st = add(w, name, size);
    if (st == ZT_OK)
        st = put_local(w, &w->list[w->n - 1], align);
    if (st != ZT_OK)
        return st;
    w->left = size;
    w->open = true;
    return ZT_OK;
}

zt_status zt_zip_write(zt_zip_writer *w, const void *bytes, size_t n)
{
    if (!w->open || n > w->left)
        return zt_fail(w->ctx, ZT_EUSAGE, "more bytes than the member has");
    member *m = &w->list[w->n - 1];
    m->crc = (uint32_t)crc32_z(m->crc, bytes, n);
    w->left -= n;
    return emit(w, bytes, n);
}

zt_status zt_zip_finish(zt_zip_writer *w)
{
    zt_status st = end_member(w);
    uint64_t begin = w->at;
    for (size_t i = 0; st == ZT_OK && i < w->n; i++)
        st = put_entry(w, &w->list[i]);
    return st == ZT_OK ? put_end(w, begin) : st;
}
