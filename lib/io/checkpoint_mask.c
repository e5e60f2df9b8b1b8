/* checkpoint_mask.c - owns what a container cannot say: metadata as one text, and tensors stored as
 * bytes, with a key that tells what they are. */
#include "lib/io/base64.h"
#include "lib/io/checkpoint_file.h"
#include "lib/io/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata as GGUF's keys, and as text ---------------------------------------------------- */

zt_status zt_gguf_put_keys(zt_gguf_writer *w, const zt_meta *m)
{
    zt_status st = ZT_OK;
    for (int64_t i = 0; st == ZT_OK && i < zt_meta_count(m); i++) {
        const zt_meta_item *item = zt_meta_get(m, i);
        st = zt_gguf_put_raw(w, item->key.data, item->kind, item->value, item->bytes);
    }
    return st;
}

/* A GGUF header of these keys alone; NULL on failure. */
static char *as_header(const zt_meta *m, size_t *n)
{
    char *header = NULL;
    zt_gguf_writer *w = zt_gguf_writer_new(zt_meta_ctx(m));
    if (w && zt_gguf_put_keys(w, m) == ZT_OK) header = zt_gguf_writer_finish(w, n, NULL);
    zt_gguf_writer_free(w);
    return header;
}

zt_status zt_meta_to_text(const zt_meta *m, zt_str *text)
{
    size_t n;
    char *header = as_header(m, &n);
    zt_status st = header ? zt_base64_put(text, header, n) : zt_ctx_status(text->ctx);
    zt_free(text->ctx, header);
    return st;
}

/* All of m as one text of another. NULL on failure. */
static zt_meta *as_one(const zt_meta *m)
{
    zt_ctx *ctx = zt_meta_ctx(m);
    size_t n;
    zt_meta *one = zt_meta_new(ctx);
    char *header = one ? as_header(m, &n) : NULL;
    char *to = header ? zt_meta_room(one, ZT_KEY_GGUF, zt_base64_size(n)) : NULL;
    if (to) zt_base64(header, n, to);
    zt_free(ctx, header);
    if (to) return one;
    zt_meta_free(one);
    return NULL;
}

zt_status zt_gguf_all_keys(const zt_gguf *g, zt_meta *to, bool lent)
{
    zt_str key; /* closed by a zero, which the file's is not */
    zt_status st = ZT_OK;
    zt_str_init(&key, zt_gguf_ctx(g));
    for (int64_t i = 0; st == ZT_OK && i < zt_gguf_n_keys(g); i++) {
        zt_gguf_kind kind;
        zt_bytes value, k = zt_gguf_key_value(g, i, &kind, &value);
        if (zt_gguf_is_own_key(g, k)) continue;
        zt_str_clear(&key);
        st = zt_str_put(&key, k.data, k.n);
        if (st == ZT_OK)
            st = (lent ? zt_meta_lend : zt_meta_put)(to, key.data, kind, value.data, value.n);
    }
    zt_str_fini(&key);
    return st;
}

zt_status zt_meta_from_text(zt_meta *m, const char *name, const char *text, size_t n)
{
    zt_ctx *ctx = zt_meta_ctx(m);
    size_t bytes;
    char *header = zt_base64_get(ctx, text, n, &bytes);
    if (!header && zt_ctx_status(ctx) == ZT_OK)
        return zt_fail(ctx, ZT_EDATA, "%s: the metadata '" ZT_KEY_GGUF "' is no base64", name);
    zt_source *s = header ? zt_source_memory(ctx, name, header, bytes) : NULL;
    zt_gguf *g = s ? zt_gguf_from(ctx, s) : NULL;
    zt_status st = g ? zt_gguf_all_keys(g, m, false) : zt_ctx_status(ctx);
    zt_gguf_close(g);
    zt_source_close(s);
    zt_free(ctx, header);
    return st;
}

zt_status zt_fit_meta(const zt_container *to, zt_meta **m)
{
    if (!to->can_meta || to->can_meta(*m)) return ZT_OK;
    zt_meta *one = as_one(*m);
    if (!one) return zt_ctx_status(zt_meta_ctx(*m));
    zt_meta_free(*m);
    *m = one;
    return ZT_OK;
}

/* ---- reading: masks -------------------------------------------------------------------------- */

static zt_status bad_mask(const zt_checkpoint *c, zt_bytes what, const char *why)
{
    char text[160];
    return zt_fail(c->ctx, ZT_EDATA, "%s: " ZT_KEY_TENSORS ": '%s': %s", c->name,
                   zt_escape(text, sizeof text, what.data, what.n), why);
}

/* "q4_1[576,1536]": the word, and its shape. false: it is not so. */
static bool parse_type(zt_checkpoint *c, zt_bytes text, zt_mask *m)
{
    const char *p = memchr(text.data, '[', text.n), *end = text.data + text.n;
    if (!p || text.n > 300 || end[-1] != ']') return false;
    m->dtype = zt_arena_strndup(c->texts, text.data, (size_t)(p - text.data));
    if (!m->dtype) return false;
    zt_dtype known;
    m->type = (zt_type){.dtype = ZT_DTYPE_COUNT};
    if (zt_dtype_parse(m->dtype, strlen(m->dtype), &known)) m->type.dtype = known;
    for (p++; p < end - 1; p++) {
        int64_t dim = 0;
        if (*p < '0' || *p > '9' || m->type.rank == ZT_MAX_RANK) return false;
        for (; *p >= '0' && *p <= '9'; p++)
            if (!zt_mul_i64(dim, 10, &dim) || __builtin_add_overflow(dim, *p - '0', &dim))
                return false;
        if (p < end - 1 && *p != ',') return false;
        m->type.dim[m->type.rank++] = dim;
    }
    return true;
}

/* text = {stored name, true name, type as in "q4_1[576,1536]"}. */
static zt_status add_mask(zt_checkpoint *c, const zt_bytes text[3])
{
    zt_entry e;
    size_t bytes;
    zt_mask *m = &c->mask[c->n_masks];
    char *stored = zt_arena_strndup(c->texts, text[0].data, text[0].n);
    m->name = zt_arena_strndup(c->texts, text[1].data, text[1].n);
    if (!stored || !m->name) return ZT_ENOMEM;
    if (memchr(text[0].data, 0, text[0].n) || memchr(text[1].data, 0, text[1].n))
        return bad_mask(c, text[1], "a zero byte in a name");
    if (!parse_type(c, text[2], m))
        return zt_ctx_status(c->ctx) ? zt_ctx_status(c->ctx)
                                     : bad_mask(c, text[2], "is no dtype and shape");
    int64_t i = c->reader->find(c->user, stored);
    if (i < 0) return ZT_OK; /* a program that does not know this key has removed the tensor */
    c->reader->get(c->user, i, &e);
    if (m->type.dtype < ZT_DTYPE_COUNT &&
        (!zt_type_check(NULL, &m->type, &bytes) || bytes != e.bytes))
        return bad_mask(c, text[2], "the tensor stored has not so many bytes");
    if (c->mask_of[i] >= 0 || zt_map_get(c->masks, m->name, strlen(m->name), NULL))
        return bad_mask(c, text[1], "is there twice");
    c->mask_of[i] = c->n_masks++;
    return zt_map_put(c->masks, m->name, strlen(m->name), i);
}

/* ZT_EDATA where the true name of a masked tensor is also the name of a tensor without a mask. */
static zt_status check_masks(const zt_checkpoint *c)
{
    for (int64_t k = 0; k < c->n_masks; k++) {
        int64_t i = c->reader->find(c->user, c->mask[k].name);
        if (i >= 0 && c->mask_of[i] < 0)
            return bad_mask(c, (zt_bytes){.data = c->mask[k].name, .n = strlen(c->mask[k].name)},
                            "is there twice");
    }
    return ZT_OK;
}

static zt_status read_masks(zt_checkpoint *c, const zt_meta_item *item)
{
    zt_gguf_kind kind;
    uint64_t count;
    size_t at = 0, n = (size_t)c->reader->count(c->user);
    if (!zt_meta_array(item, &kind, &count) || kind != ZT_GGUF_STR || count % 3 != 0)
        return zt_fail(c->ctx, ZT_EDATA, "%s: " ZT_KEY_TENSORS " is no list of three texts each",
                       c->name);
    c->texts = zt_arena_new(c->ctx, 0);
    c->masks = zt_map_new(c->ctx, 16);
    c->mask_of = zt_alloc_array(c->ctx, n, sizeof *c->mask_of);
    c->mask = zt_alloc_array(c->ctx, (size_t)(count / 3), sizeof *c->mask);
    if (!c->texts || !c->masks || !c->mask_of || !c->mask) return ZT_ENOMEM;
    for (size_t i = 0; i < n; i++) c->mask_of[i] = -1;
    zt_status st = ZT_OK;
    for (uint64_t k = 0; st == ZT_OK && k < count; k += 3) {
        zt_bytes text[3];
        for (int i = 0; i < 3; i++) text[i] = zt_meta_next_str(item, &at);
        st = add_mask(c, text);
    }
    return st == ZT_OK ? check_masks(c) : st;
}

/* The text of "zt.gguf" where it is a tensor, into meta. */
static zt_status read_hidden(zt_checkpoint *c)
{
    zt_entry e;
    c->reader->get(c->user, c->hidden, &e);
    if (e.bytes > SIZE_MAX - 1)
        return zt_fail(c->ctx, ZT_EDATA, "%s: metadata of too many bytes", c->name);
    char *text = zt_alloc(c->ctx, (size_t)e.bytes);
    zt_status st = text ? c->reader->read(c->user, c->hidden, 0, text, (size_t)e.bytes) : ZT_ENOMEM;
    if (st == ZT_OK) st = zt_meta_from_text(c->meta, c->name, text, (size_t)e.bytes);
    zt_free(c->ctx, text);
    return st;
}

/* The text of "zt.gguf" where it is metadata: its keys come first, in their order. */
static zt_status read_text(zt_checkpoint *c, const zt_meta_item *item)
{
    zt_bytes text = zt_meta_text(item);
    zt_meta *all = zt_meta_new(c->ctx);
    if (!all) return ZT_ENOMEM;
    zt_status st = text.data ? zt_meta_from_text(all, c->name, text.data, text.n) : ZT_OK;
    zt_meta_remove(c->meta, zt_meta_find(c->meta, ZT_KEY_GGUF));
    if (st == ZT_OK) st = zt_meta_join(all, c->meta);
    zt_meta_free(c->meta);
    c->meta = all;
    return st;
}

zt_status zt_checkpoint_unmask(zt_checkpoint *c)
{
    const zt_reader *r = c->reader;
    if (!c->container->can_meta) c->hidden = r->find(c->user, ZT_KEY_GGUF);
    if (c->hidden < 0 && !r->has(c->user, ZT_KEY_GGUF) && !r->has(c->user, ZT_KEY_TENSORS))
        return ZT_OK;
    zt_meta *m = zt_checkpoint_meta(c);
    int64_t i;
    zt_status st = m ? ZT_OK : zt_ctx_status(c->ctx);
    if (st == ZT_OK && c->hidden >= 0)
        st = read_hidden(c);
    else if (st == ZT_OK && (i = zt_meta_find(m, ZT_KEY_GGUF)) >= 0)
        st = read_text(c, zt_meta_get(m, i));
    if (st != ZT_OK || (i = zt_meta_find(c->meta, ZT_KEY_TENSORS)) < 0) return st;
    st = read_masks(c, zt_meta_get(c->meta, i));
    zt_meta_remove(c->meta, i);
    return st;
}

/* ---- writing: masks -------------------------------------------------------------------------- */

typedef struct masker {
    zt_ctx *ctx;
    zt_arena *texts;
    const zt_container *to;
    zt_map *names; /* of all entries, and of those that are made up */
    zt_bytes *told;
    int64_t n_told;
} masker;

static zt_bytes keep(masker *m, const char *text)
{
    size_t n = strlen(text);
    return (zt_bytes){.data = zt_arena_strndup(m->texts, text, n), .n = n};
}

/* A name that every container can say, and no entry has. */
static const char *made_name(masker *m, int64_t i)
{
    char text[80];
    for (int64_t k = i;; k++) {
        snprintf(text, sizeof text, "zt.tensor.%" PRId64, k);
        if (zt_map_get(m->names, text, strlen(text), NULL)) continue;
        zt_bytes name = keep(m, text);
        return name.data && zt_map_put(m->names, name.data, name.n, i) == ZT_OK ? name.data : NULL;
    }
}

static zt_bytes type_text(masker *m, const zt_entry *e)
{
    zt_str s;
    zt_bytes text = {.data = NULL};
    zt_str_init(&s, m->ctx);
    zt_status st = zt_str_printf(&s, "%s[", e->dtype);
    for (int i = 0; st == ZT_OK && i < e->type.rank; i++)
        st = zt_str_printf(&s, i ? ",%" PRId64 : "%" PRId64, e->type.dim[i]);
    if (st == ZT_OK && zt_str_putc(&s, ']') == ZT_OK) text = keep(m, s.data);
    zt_str_fini(&s);
    return text;
}

/* [rows, bytes of a row], or [bytes] where it has no rows. */
static void as_bytes(const zt_container *to, const zt_entry *e, zt_entry *out)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < e->type.rank; i++) rows *= e->type.dim[i];
    bool whole = e->type.dtype < ZT_DTYPE_COUNT && e->type.rank > 0 && rows > 0 &&
                 e->bytes % (uint64_t)rows == 0;
    out->type = (zt_type){.dtype = to->bytes, .rank = whole ? 2 : 1, .dim = {(int64_t)e->bytes}};
    if (whole) {
        out->type.dim[0] = rows;
        out->type.dim[1] = (int64_t)e->bytes / rows;
    }
    out->dtype = zt_dtype_get(to->bytes)->name;
}

static zt_status mask_entry(masker *m, const zt_entry *e, int64_t i, zt_entry *out)
{
    char text[160];
    if (e->type.rank < 0)
        return zt_fail(m->ctx, ZT_ENOTSUP, "tensor '%s' has more than %d dimensions",
                       zt_escape(text, sizeof text, e->name, strlen(e->name)), ZT_MAX_RANK);
    as_bytes(m->to, e, out);
    if (!m->to->can(out)) out->name = made_name(m, i);
    if (!out->name) return ZT_ENOMEM;
    zt_bytes *told = m->told + m->n_told;
    told[0] = keep(m, out->name);
    told[1] = keep(m, e->name);
    told[2] = type_text(m, e);
    m->n_told += 3;
    return told[0].data && told[1].data && told[2].data ? ZT_OK : ZT_ENOMEM;
}

static zt_status map_names(masker *m, const zt_entry *entries, int64_t n)
{
    char text[160];
    for (int64_t i = 0; i < n; i++) {
        const char *name = entries[i].name;
        size_t k = strlen(name);
        if (zt_map_get(m->names, name, k, NULL))
            return zt_fail(m->ctx, ZT_EDATA, "two tensors are named '%s'",
                           zt_escape(text, sizeof text, name, k));
        if (zt_map_put(m->names, name, k, i) != ZT_OK) return ZT_ENOMEM;
    }
    return ZT_OK;
}

zt_status zt_mask_entries(zt_ctx *ctx, zt_arena *texts, const zt_container *to,
                          const zt_entry *entries, int64_t n, zt_entry *out, zt_meta *meta)
{
    masker m = {.ctx = ctx, .texts = texts, .to = to};
    int64_t masked = 0;
    for (int64_t i = 0; i < n; i++) masked += !to->can(&entries[i]);
    m.names = zt_map_new(ctx, (size_t)n);
    m.told = zt_alloc_array(ctx, (size_t)masked * 3, sizeof *m.told);
    zt_status st = m.names && m.told ? map_names(&m, entries, n) : ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < n; i++) {
        out[i] = entries[i];
        if (!to->can(&entries[i])) st = mask_entry(&m, &entries[i], i, &out[i]);
    }
    if (st == ZT_OK && masked) st = zt_meta_put_strs(meta, ZT_KEY_TENSORS, m.told, m.n_told);
    zt_map_free(m.names);
    zt_free(ctx, m.told);
    return st;
}
