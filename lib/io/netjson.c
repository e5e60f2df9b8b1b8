/* netjson.c - owns open network documents: opening and closing, tensors by name, their bytes. */
#include "lib/io/base64.h"
#include "lib/io/netjson_file.h"

#include <string.h>

#include "lib/io/gather.h"

enum { PIECE = 1 << 14 }; /* characters of base64 that are decoded together */

void *zt_nj_room(zt_ctx *ctx, void *list, int64_t n, size_t size)
{
    return n & (n - 1) ? list : zt_realloc(ctx, list, (size_t)(n ? 2 * n : 1) * size);
}

bool zt_netjson_sniff(const void *bytes, size_t n)
{
    const char *p = bytes;
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t'))
        i++;
    return i < n && p[i] == '{';
}

static zt_status map_names(zt_netjson *j)
{
    zt_status st = ZT_OK;
    j->names = zt_map_new(j->ctx, (size_t)j->n);
    if (!j->names)
        return ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < j->n; i++)
        st = zt_map_put(j->names, j->tensor[i].name, strlen(j->tensor[i].name), i);
    return st;
}

zt_netjson *zt_netjson_from(zt_ctx *ctx, zt_source *s)
{
    zt_netjson *j = zt_calloc(ctx, 1, sizeof *j);
    if (!j)
        return NULL;
    j->ctx = ctx;
    j->in = s;
    j->file = zt_source_name(s);
    zt_str_init(&j->frame, ctx);
    j->keep = zt_arena_new(ctx, 4096);
    if (j->keep && zt_nj_scan(j) == ZT_OK && zt_nj_walk(j) == ZT_OK && map_names(j) == ZT_OK)
        return j;
    zt_netjson_close(j);
    return NULL;
}

zt_netjson *zt_netjson_from_frame(zt_ctx *ctx, const char *frame, size_t n)
{
    zt_netjson *j = zt_calloc(ctx, 1, sizeof *j);
    if (!j)
        return NULL;
    j->ctx = ctx;
    j->file = "the network's frame";
    zt_str_init(&j->frame, ctx);
    j->keep = zt_arena_new(ctx, 4096);
    if (j->keep && zt_str_put(&j->frame, frame, n) == ZT_OK && zt_nj_scan_frame(j) == ZT_OK &&
        zt_nj_walk(j) == ZT_OK && map_names(j) == ZT_OK)
        return j;
    zt_netjson_close(j);
    return NULL;
}

zt_netjson *zt_netjson_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    return s ? zt_netjson_take(ctx, s) : NULL;
}

zt_netjson *zt_netjson_take(zt_ctx *ctx, zt_source *s)
{
    zt_netjson *j = zt_netjson_from(ctx, s);
    if (j)
        j->owned = s;
    else
        zt_source_close(s);
    return j;
}

void zt_netjson_close(zt_netjson *j)
{
    if (!j)
        return;
    zt_map_free(j->names);
    zt_arena_free(j->keep);
    zt_free(j->ctx, j->tensor);
    zt_free(j->ctx, j->weights);
    zt_str_fini(&j->frame);
    zt_source_close(j->owned);
    zt_free(j->ctx, j);
}

int64_t zt_netjson_count(const zt_netjson *j)
{
    return j->n;
}

const zt_array *zt_netjson_get(const zt_netjson *j, int64_t i)
{
    return &j->tensor[i];
}

int64_t zt_netjson_find(const zt_netjson *j, const char *name)
{
    int64_t i;
    return zt_map_get(j->names, name, strlen(name), &i) ? i : -1;
}

const char *zt_netjson_frame(const zt_netjson *j, size_t *n)
{
    *n = j->frame.len;
    return j->frame.data;
}

/* Up to PIECE characters of the text, from the group of byte `offset` on; *n bytes came of it. */
static zt_status read_piece(const zt_netjson *j, const nj_weights *w, size_t offset, void *dst,
                            size_t *n)
{
    char text[PIECE];
    uint64_t from = offset / 3 * 4, all = (w->bytes + 2) / 3 * 4;
    size_t some = all - from < PIECE ? (size_t)(all - from) : PIECE, got = 0, skip = offset % 3;
    zt_status st = zt_source_read(j->in, w->text + from, text, some);
    if (st != ZT_OK)
        return st;
    char *bytes = zt_base64_get(j->ctx, text, some, &got);
    if (!bytes || got <= skip) { /* it was base64 when it was opened */
        zt_free(j->ctx, bytes);
        st = zt_ctx_status(j->ctx);
        return st != ZT_OK ? st : zt_fail(j->ctx, ZT_EIO, "%s: it has changed", j->file);
    }
    *n = got - skip < *n ? got - skip : *n;
    memcpy(dst, bytes + skip, *n);
    zt_free(j->ctx, bytes);
    return ZT_OK;
}

zt_status zt_netjson_read(zt_netjson *j, int64_t i, size_t offset, void *dst, size_t n)
{
    char *to = dst;
    zt_status st = zt_array_range(j->ctx, j->file, &j->tensor[i], offset, n);
    if (!j->in)
        st = zt_fail(j->ctx, ZT_EUSAGE, "%s has no weights", j->file);
    while (st == ZT_OK && n) {
        size_t some = n;
        st = read_piece(j, &j->weights[i], offset, to, &some);
        to += some;
        offset += some;
        n -= some;
    }
    return st;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_netjson *j = user;
    *handle = zt_netjson_find(j, name);
    return *handle < 0 ? ZT_ENOENT
                       : zt_array_type(j->ctx, j->file, zt_netjson_get(j, *handle), type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_netjson_read(user, handle, offset, dst, n);
}

zt_store zt_netjson_store(zt_netjson *j)
{
    return (zt_store){.user = j, .find = store_find, .read = store_read};
}

/* ---- writing --------------------------------------------------------------------------------- */

struct zt_netjson_writer {
    zt_netjson *j; /* of the frame alone */
    zt_sink *out;
    int64_t next;    /* tensors begun */
    size_t at;       /* of the frame, written */
    size_t left;     /* bytes of the open tensor that are to come */
    uint8_t rest[3]; /* bytes that make no whole group yet */
    size_t n_rest;
};

zt_netjson_writer *zt_netjson_writer_new(zt_ctx *ctx, zt_sink *out, const char *frame, size_t n)
{
    zt_netjson_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->j = zt_netjson_from_frame(ctx, frame, n);
    w->out = out;
    if (w->j)
        return w;
    zt_free(ctx, w);
    return NULL;
}

void zt_netjson_writer_free(zt_netjson_writer *w)
{
    if (!w)
        return;
    zt_ctx *ctx = w->j->ctx;
    zt_netjson_close(w->j);
    zt_free(ctx, w);
}

/* The frame up to `end`. */
static zt_status put_frame(zt_netjson_writer *w, size_t end)
{
    zt_status st = zt_sink_write(w->out, w->j->frame.data + w->at, end - w->at);
    w->at = end;
    return st;
}

static zt_status put_base64(zt_netjson_writer *w, const void *bytes, size_t n)
{
    zt_str s;
    zt_str_init(&s, w->j->ctx);
    zt_status st = zt_base64_put(&s, bytes, n);
    if (st == ZT_OK)
        st = zt_sink_write(w->out, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

zt_status zt_netjson_begin(zt_netjson_writer *w, const char *name, size_t bytes)
{
    char text[160];
    zt_netjson *j = w->j;
    zt_escape(text, sizeof text, name, strlen(name));
    if (w->left)
        return zt_fail(j->ctx, ZT_EUSAGE, "a tensor before '%s' lacks %zu bytes", text, w->left);
    if (w->next >= j->n || strcmp(j->tensor[w->next].name, name) != 0)
        return zt_fail(j->ctx, ZT_ENOTSUP, "tensor '%s' is not the network's next: '%s' is", text,
                       w->next < j->n ? j->tensor[w->next].name : "nothing");
    if (j->tensor[w->next].bytes != bytes)
        return zt_fail(j->ctx, ZT_ENOTSUP, "tensor '%s': %zu bytes, the network has %zu", text,
                       bytes, j->tensor[w->next].bytes);
    const nj_weights *x = &j->weights[w->next++];
    zt_status st = put_frame(w, x->frame);
    w->at = x->frame_end;
    w->left = bytes;
    w->n_rest = 0;
    return st;
}

zt_status zt_netjson_write(zt_netjson_writer *w, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    zt_status st = ZT_OK;
    if (n > w->left)
        return zt_fail(w->j->ctx, ZT_EUSAGE, "more bytes than the tensor has");
    w->left -= n;
    while (st == ZT_OK && n) {
        size_t some = w->n_rest || n < 3 ? 1 : n - n % 3;
        some = some < 3 * PIECE ? some : 3 * PIECE;
        if (some >= 3) {
            st = put_base64(w, p, some);
        } else {
            w->rest[w->n_rest++] = *p;
            if (w->n_rest == 3 || (n == 1 && !w->left)) {
                st = put_base64(w, w->rest, w->n_rest);
                w->n_rest = 0;
            }
        }
        p += some;
        n -= some;
    }
    return st;
}

zt_status zt_netjson_finish(zt_netjson_writer *w)
{
    if (w->left || w->next < w->j->n)
        return zt_fail(w->j->ctx, ZT_ENOTSUP, "the network has %lld tensors, %lld were written",
                       (long long)w->j->n, (long long)(w->next - (w->left > 0)));
    return put_frame(w, w->j->frame.len);
}
