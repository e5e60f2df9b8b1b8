/* checkpoint_json.c - owns network JSON as a container of checkpoint.h.
 *
 * Its frame (netjson.h) is metadata, the text "zt.netjson": a network that has become a GGUF
 * becomes the same document again. Metadata beside it stands in the document as its first member,
 * "zt.gguf". Only what has a frame is written, and all of it. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/netjson.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

static const char lead[] = "{\"" ZT_KEY_GGUF "\":\"";

typedef struct document {
    zt_ctx *ctx;
    zt_netjson *j;
    const char *frame; /* without what is ours */
    size_t n;
    const char *more; /* our own member's text, base64; NULL: there is none */
    size_t more_n;
} document;

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count(const void *user)
{
    return zt_netjson_count(((const document *)user)->j);
}

static void get(const void *user, int64_t i, zt_entry *e)
{
    const zt_array *a = zt_netjson_get(((const document *)user)->j, i);
    bool known = a->type.dtype < ZT_DTYPE_COUNT;
    *e = (zt_entry){.name = a->name,
                    .dtype = known ? zt_dtype_get(a->type.dtype)->name : a->dtype,
                    .type = a->type,
                    .bytes = a->bytes};
}

static int64_t find(const void *user, const char *name)
{
    return zt_netjson_find(((const document *)user)->j, name);
}

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    return zt_netjson_read(((document *)user)->j, i, (size_t)offset, dst, n);
}

static bool has(const void *user, const char *key)
{
    return strcmp(key, ZT_KEY_GGUF) == 0 && ((const document *)user)->more;
}

static zt_status meta(const void *user, zt_meta *to)
{
    const document *d = user;
    zt_ctx *ctx = zt_meta_ctx(to);
    zt_str frame;
    zt_str_init(&frame, ctx);
    zt_status st = d->more ? zt_meta_put_str(to, ZT_KEY_GGUF, d->more, d->more_n) : ZT_OK;
    if (st == ZT_OK && d->more)
        st = zt_str_putc(&frame, '{');
    if (st == ZT_OK)
        st = zt_str_put(&frame, d->frame, d->n);
    if (st == ZT_OK)
        st = zt_meta_put_str(to, KEY_FRAME, frame.data, frame.len);
    zt_str_fini(&frame);
    return st;
}

static void close_document(void *user)
{
    document *d = user;
    zt_netjson_close(d->j);
    zt_free(d->ctx, d);
}

static const zt_reader reader = {.count = count,
                                 .get = get,
                                 .find = find,
                                 .read = read_data,
                                 .has = has,
                                 .meta = meta,
                                 .close = close_document};

/* Our member, as we write it: {"zt.gguf":"...", and the rest of the document. */
static void part_from_ours(document *d)
{
    size_t k = sizeof lead - 1;
    const char *end =
        d->n > k && memcmp(d->frame, lead, k) == 0 ? memchr(d->frame + k, '"', d->n - k) : NULL;
    if (!end || (size_t)(end + 2 - d->frame) > d->n || end[1] != ',')
        return;
    d->more = d->frame + k;
    d->more_n = (size_t)(end - d->more);
    d->n -= (size_t)(end + 2 - d->frame);
    d->frame = end + 2;
}

static zt_status open_json(zt_checkpoint *c, zt_source *s)
{
    zt_netjson *j = zt_netjson_take(c->ctx, s);
    document *d = j ? zt_calloc(c->ctx, 1, sizeof *d) : NULL;
    if (!d) {
        zt_netjson_close(j);
        return zt_ctx_status(c->ctx);
    }
    d->ctx = c->ctx;
    d->j = j;
    d->frame = zt_netjson_frame(j, &d->n);
    part_from_ours(d);
    c->reader = &reader;
    c->user = d;
    return ZT_OK;
}

/* Is it a network, and no index of safetensors? That is told where it begins. */
static bool probe(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return zt_netjson_sniff(head, n) &&
           (memmem(head, n, "\"layers", 7) ||
            (n >= sizeof lead - 1 && !memcmp(head, lead, sizeof lead - 1)));
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool can(const zt_entry *e)
{
    (void)e; /* the frame knows */
    return true;
}

static bool can_meta(const zt_meta *m)
{
    return zt_meta_count(m) == 1 && zt_meta_find(m, KEY_FRAME) == 0 &&
           zt_meta_text(zt_meta_get(m, 0)).data;
}

/* The document that comes of the frame in m, with what else there is before it. */
static zt_status make_document(zt_part *p, zt_meta *m, zt_str *out)
{
    int64_t i = zt_meta_find(m, KEY_FRAME);
    zt_bytes frame = i >= 0 ? zt_meta_text(zt_meta_get(m, i)) : (zt_bytes){.data = NULL};
    const char *brace = frame.data ? memchr(frame.data, '{', frame.n) : NULL;
    if (!brace)
        return zt_fail(p->ctx, ZT_ENOTSUP,
                       "%s: only what was a network's JSON becomes one: there is no '%s'", p->path,
                       KEY_FRAME);
    if (zt_meta_count(m) == 1)
        return zt_str_put(out, frame.data, frame.n);
    zt_str rest; /* the frame's bytes go with its key */
    zt_str_init(&rest, p->ctx);
    zt_status st = zt_str_put(&rest, brace + 1, frame.n - (size_t)(brace + 1 - frame.data));
    zt_meta_remove(m, i);
    if (st == ZT_OK)
        st = zt_str_puts(out, lead);
    if (st == ZT_OK)
        st = zt_meta_to_text(m, out);
    if (st == ZT_OK)
        st = zt_str_puts(out, "\",");
    if (st == ZT_OK)
        st = zt_str_put(out, rest.data ? rest.data : "", rest.len);
    zt_str_fini(&rest);
    return st;
}

static zt_status begin(zt_part *p, const zt_meta *meta)
{
    zt_str text;
    zt_meta *m = zt_meta_new(p->ctx);
    if (!m)
        return ZT_ENOMEM;
    zt_str_init(&text, p->ctx);
    int64_t i = zt_meta_find(meta, ZT_KEY_GGUF);
    zt_bytes all = i >= 0 ? zt_meta_text(zt_meta_get(meta, i)) : (zt_bytes){.data = NULL};
    zt_status st =
        all.data ? zt_meta_from_text(m, p->path, all.data, all.n) : zt_meta_join(m, meta);
    if (st == ZT_OK)
        st = make_document(p, m, &text);
    if (st == ZT_OK) {
        p->user = zt_netjson_writer_new(p->ctx, p->sink, text.data, text.len);
        st = p->user ? ZT_OK : zt_ctx_status(p->ctx);
    }
    zt_str_fini(&text);
    zt_meta_free(m);
    return st;
}

static zt_status tensor(zt_part *p, int64_t i)
{
    return zt_netjson_begin(p->user, p->entry[i].name, (size_t)p->entry[i].bytes);
}

static zt_status put(zt_part *p, const void *bytes, size_t n)
{
    return zt_netjson_write(p->user, bytes, n);
}

static zt_status end(zt_part *p)
{
    return zt_netjson_finish(p->user);
}

static void close_part(zt_part *p)
{
    zt_netjson_writer_free(p->user);
    p->user = NULL;
}

static const zt_part_ops ops = {
    .begin = begin, .tensor = tensor, .put = put, .end = end, .close = close_part};

const zt_container zt_container_json = {.name = "json",
                                        .suffix = ".json",
                                        .probe = probe,
                                        .open = open_json,
                                        .ops = &ops,
                                        .can = can,
                                        .can_meta = can_meta,
                                        .bytes = ZT_U8};
