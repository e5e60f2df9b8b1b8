/* checkpoint_st.c - owns safetensors as a container: read, by an index too, and written. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/safetensors_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count(const void *user) { return zt_safetensors_count(user); }

static void get(const void *user, int64_t i, zt_entry *e)
{
    const zt_safetensors_entry *s = zt_safetensors_get(user, i);
    bool known = s->type.dtype < ZT_DTYPE_COUNT;
    *e = (zt_entry){.name = s->name,
                    .dtype = known ? zt_dtype_get(s->type.dtype)->name : s->dtype,
                    .type = s->type,
                    .bytes = s->bytes};
    e->type.rank = s->rank <= ZT_MAX_RANK ? s->rank : -1;
}

static int64_t find(const void *user, const char *name) { return zt_safetensors_find(user, name); }

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    return zt_safetensors_read(user, i, (size_t)offset, dst, n);
}

static bool place(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    zt_safetensors_place(user, i, source, offset);
    return true;
}

static bool has(const void *user, const char *key)
{
    const char *k;
    for (int64_t i = 0; (k = zt_safetensors_meta(user, i, NULL, NULL)) != NULL; i++)
        if (strcmp(k, key) == 0) return true;
    return false;
}

static zt_status meta(const void *user, zt_meta *to)
{
    const char *key, *value;
    size_t n;
    zt_status st = ZT_OK;
    for (int64_t i = 0; st == ZT_OK && (key = zt_safetensors_meta(user, i, &value, &n)); i++)
        st = zt_meta_put_str(to, key, value, n);
    return st;
}

static zt_status end(void *user) { return zt_safetensors_end(user); }

static void close_st(void *user) { zt_safetensors_close(user); }

static const zt_reader reader = {.count = count,
                                 .get = get,
                                 .find = find,
                                 .read = read_data,
                                 .place = place,
                                 .has = has,
                                 .meta = meta,
                                 .end = end,
                                 .close = close_st};

static bool probe(const unsigned char *head, size_t n, uint64_t size)
{
    return zt_safetensors_sniff(head, n, size);
}

static zt_status open_st(zt_checkpoint *c, zt_source *s)
{
    c->reader = &reader;
    c->user = zt_safetensors_take(c->ctx, s);
    return c->user ? ZT_OK : zt_ctx_status(c->ctx);
}

/* ---- an index -------------------------------------------------------------------------------- */

static bool probe_json(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    while (n && strchr(" \t\r\n", *head) && *head) head++, n--;
    return n && *head == '{';
}

zt_status zt_st_open_index(zt_checkpoint *c)
{
    c->reader = &reader;
    c->container = &zt_container_safetensors;
    c->parts = true;
    c->user = zt_safetensors_open_index(c->ctx, c->name);
    return c->user ? ZT_OK : zt_ctx_status(c->ctx);
}

/* Named by its path: the shards lie beside it. */
static zt_status open_index(zt_checkpoint *c, zt_source *s)
{
    zt_source_close(s);
    return zt_parts_open_index(c);
}

const zt_container zt_container_index = {
    .name = "index", .suffix = ".safetensors.index.json", .probe = probe_json, .open = open_index};

/* ---- writing --------------------------------------------------------------------------------- */

static const char *word_of(const zt_entry *e)
{
    if (e->type.dtype < ZT_DTYPE_COUNT) return zt_safetensors_word(e->type.dtype);
    return zt_safetensors_has_word(e->dtype) ? e->dtype : NULL;
}

/* Packed types fill whole bytes there. */
static bool fits(const zt_entry *e)
{
    return e->type.dtype == ZT_DTYPE_COUNT ||
           zt_type_count(&e->type) % zt_dtype_get(e->type.dtype)->block == 0;
}

static bool can(const zt_entry *e)
{
    return word_of(e) && e->type.rank >= 0 && strcmp(e->name, "__metadata__") != 0 &&
           zt_st_text_ok(e->name, strlen(e->name)) && fits(e);
}

/* Only texts. */
static bool can_meta(const zt_meta *m)
{
    for (int64_t i = 0; i < zt_meta_count(m); i++) {
        const zt_meta_item *item = zt_meta_get(m, i);
        zt_bytes text = zt_meta_text(item);
        if (!text.data || !zt_st_text_ok(text.data, text.n) ||
            !zt_st_text_ok(item->key.data, item->key.n))
            return false;
    }
    return true;
}

/* Bytes of the header, if no text of it needs escapes. */
static size_t expected(const zt_part *p, const zt_meta *m)
{
    enum { ENTRY = 160, REST = 256 }; /* without the name; what fills it up, and braces */
    size_t n = REST;
    for (int64_t i = 0; i < zt_meta_count(m); i++)
        n += zt_meta_get(m, i)->key.n + zt_meta_get(m, i)->bytes;
    for (int64_t i = 0; i < p->n; i++) n += strlen(p->entry[i].name) + ENTRY;
    return n;
}

static char *header(zt_part *p, const zt_meta *m, size_t least, size_t *n)
{
    size_t most = expected(p, m);
    zt_st_writer *w = zt_st_writer_new(p->ctx, most > least ? most : least + 1);
    zt_status st = w ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < zt_meta_count(m); i++) {
        const zt_meta_item *item = zt_meta_get(m, i);
        zt_bytes text = zt_meta_text(item);
        st = zt_st_put_meta(w, item->key.data, text.data, text.n);
    }
    for (int64_t i = 0; st == ZT_OK && i < p->n; i++) {
        const zt_entry *e = &p->entry[i];
        st = zt_st_put_tensor(w, e->name, word_of(e), e->type.rank, e->type.dim, e->bytes);
    }
    char *h = st == ZT_OK ? zt_st_writer_finish(w, least, n) : NULL;
    zt_st_writer_free(w);
    return h;
}

/* {"metadata": {"total_size": N}, "weight_map": {"tensor": "file", ...}} */
static char *make_index(zt_ctx *ctx, const zt_part *part, int64_t n, size_t *bytes)
{
    zt_str s;
    uint64_t total = 0;
    bool first = true;
    zt_str_init(&s, ctx);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < part[k].n; i++) total += part[k].entry[i].bytes;
    zt_str_printf(&s, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", total);
    for (int64_t k = 0; k < n; k++) {
        const char *slash = strrchr(part[k].path, '/');
        const char *file = slash ? slash + 1 : part[k].path;
        for (int64_t i = 0; i < part[k].n; i++, first = false) {
            zt_str_puts(&s, first ? "\n" : ",\n");
            zt_str_put_json(&s, part[k].entry[i].name, strlen(part[k].entry[i].name));
            zt_str_putc(&s, ':');
            zt_str_put_json(&s, file, strlen(file));
        }
    }
    zt_str_puts(&s, "}}\n");
    *bytes = s.len;
    if (zt_ctx_status(ctx) == ZT_OK) return s.data;
    zt_str_fini(&s);
    return NULL;
}

static const zt_part_ops ops = {.header = header};

static bool is_numbered(const zt_source *s)
{
    (void)s;
    return true;
}

const zt_container zt_container_safetensors = {.name = "safetensors",
                                               .suffix = ".safetensors",
                                               .probe = probe,
                                               .streams = true,
                                               .open = open_st,
                                               .ops = &ops,
                                               .can = can,
                                               .can_meta = can_meta,
                                               .bytes = ZT_U8,
                                               .shards = true,
                                               .numbered = is_numbered,
                                               .index = make_index,
                                               .index_suffix = ".safetensors.index.json"};
