/* safetensors_parse.c - owns reading a safetensors header: every number checked before it is
 * believed.
 *
 * The header is walked member by member and each tensor's entry is a JSON document of its own, so
 * that memory follows the tensors there are. Beyond what the reference reader refuses, we refuse
 * names that come twice. */
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HEADER = 100000000, /* bytes: the format's own bound */
    MAX_ENTRY = 4096        /* bytes of a tensor's entry */
};

/* ---- dtypes ---------------------------------------------------------------------------------- */

typedef struct st_dtype {
    const char *name;
    int bits;
    zt_dtype dtype; /* ZT_DTYPE_COUNT: zt does not compute with it */
} st_dtype;

/* Dtype of safetensors 0.8 (src/tensor.rs), as facts. */
static const st_dtype dtypes[] = {
    {"F64", 64, ZT_F64},
    {"F32", 32, ZT_F32},
    {"F16", 16, ZT_F16},
    {"BF16", 16, ZT_BF16},
    {"I64", 64, ZT_I64},
    {"I32", 32, ZT_I32},
    {"I16", 16, ZT_I16},
    {"I8", 8, ZT_I8},
    {"U8", 8, ZT_U8},
    {"BOOL", 8, ZT_BOOL},
    {"U16", 16, ZT_U16},
    {"U32", 32, ZT_U32},
    {"U64", 64, ZT_U64},
    {"C64", 64, ZT_DTYPE_COUNT},
    {"F8_E4M3", 8, ZT_F8_E4M3},
    {"F8_E5M2", 8, ZT_F8_E5M2},
    {"F8_E8M0", 8, ZT_F8_E8M0},
    {"F8_E4M3FNUZ", 8, ZT_F8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, ZT_F8_E5M2FNUZ},
    {"F6_E2M3", 6, ZT_DTYPE_COUNT},
    {"F6_E3M2", 6, ZT_DTYPE_COUNT},
    {"F4", 4, ZT_F4_E2M1},
};

static const st_dtype *dtype_named(const char *name)
{
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return &dtypes[i];
    return NULL;
}

const char *zt_safetensors_word(zt_dtype t)
{
    for (size_t i = 0; t < ZT_DTYPE_COUNT && i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == t)
            return dtypes[i].name;
    return NULL;
}

bool zt_safetensors_has_word(const char *word)
{
    return dtype_named(word) != NULL;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

typedef struct parser {
    zt_safetensors *s;
    const char *file;
    uint64_t data, data_bytes; /* where the data begin, and how many bytes they are */
    bool has_meta;
    int64_t first_meta; /* of this file */
    bool streams; /* how many data there are, is not known */
} parser;

/* What can be gone on behind: ZT_OK if somebody listens. */
ZT_PRINTF(3, 4) static zt_status amiss(const parser *p, const char *name, const char *fmt, ...)
{
    char what[256], text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return zt_faults_tell(p->s->ctx, "%s: tensor '%s': %s", p->file,
                    zt_escape(text, sizeof text, name, strlen(name)), what);
}

/* The entry says nothing that could be used: without it one can go on. */
#define unfit(...) (amiss(__VA_ARGS__) == ZT_OK ? ZT_ENOENT : ZT_EDATA)

/* Dimensions into type, and the bytes that they make. */
static zt_status read_shape(const parser *p, const char *name, const json_t *shape,
                            const st_dtype *d, zt_type *type, uint64_t *bytes)
{
    size_t rank = json_array_size(shape);
    int64_t count = 1;
    bool empty = false;
    if (!json_is_array(shape))
        return unfit(p, name, "shape is no list");
    *type = (zt_type){.dtype = d->dtype, .rank = rank <= ZT_MAX_RANK ? (int)rank : -1};
    for (size_t i = 0; i < rank; i++) {
        const json_t *v = json_array_get(shape, i);
        json_int_t dim = json_integer_value(v);
        if (!json_is_integer(v) || dim < 0)
            return unfit(p, name, "dimension %zu is no count", i);
        empty |= dim == 0;
        if (dim && !zt_mul_i64(count, dim, &count))
            return unfit(p, name, "dimension %zu of %lld: too many elements", i, (long long)dim);
        if (i < ZT_MAX_RANK)
            type->dim[i] = dim;
    }
    int64_t bits;
    if (!zt_mul_i64(count, d->bits, &bits))
        return unfit(p, name, "%lld elements are too many", (long long)count);
    if (!empty && bits % 8 != 0)
        return unfit(p, name, "%lld elements of %d bits are no whole bytes", (long long)count,
                   d->bits);
    *bytes = empty ? 0 : (uint64_t)bits / 8;
    if (d->dtype == ZT_DTYPE_COUNT)
        type->rank = -1;
    return ZT_OK;
}

static zt_status read_offsets(const parser *p, const char *name, const json_t *list,
                              uint64_t from_to[2])
{
    if (json_array_size(list) != 2)
        return unfit(p, name, "data_offsets is no pair of numbers");
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return unfit(p, name, "data_offsets are no counts");
        from_to[i] = (uint64_t)json_integer_value(v);
    }
    if (from_to[0] > from_to[1] || from_to[1] > p->data_bytes)
        return unfit(p, name, "data from byte %llu to %llu, in %llu bytes of data",
                   (unsigned long long)from_to[0], (unsigned long long)from_to[1],
                   (unsigned long long)p->data_bytes);
    return ZT_OK;
}

static zt_status read_entry(const parser *p, const char *name, const json_t *j, st_tensor *t)
{
    const st_dtype *d = dtype_named(json_string_value(json_object_get(j, "dtype")));
    uint64_t at[2], bytes = 0;
    if (json_object_size(j) != 3 || !json_object_get(j, "shape") ||
        !json_object_get(j, "data_offsets"))
        return unfit(p, name, "not an object of dtype, shape and data_offsets");
    if (!d)
        return unfit(p, name, "its dtype is none of the format's");
    zt_status s = read_shape(p, name, json_object_get(j, "shape"), d, &t->e.type, &bytes);
    if (s == ZT_OK)
        s = read_offsets(p, name, json_object_get(j, "data_offsets"), at);
    if (s != ZT_OK)
        return s;
    if (at[1] - at[0] != bytes) {
        s = amiss(p, name, "%llu bytes of data, its shape makes %llu",
                  (unsigned long long)(at[1] - at[0]), (unsigned long long)bytes);
        if (s != ZT_OK)
            return s;
        bytes = at[1] - at[0];
        t->e.type.dtype = ZT_DTYPE_COUNT; /* who goes on sees bytes */
    }
    t->e.dtype = d->name;
    t->e.rank = (int)json_array_size(json_object_get(j, "shape"));
    t->e.bytes = (size_t)bytes;
    t->offset = p->data + at[0];
    t->shard = p->s->n_shards - 1;
    return ZT_OK;
}

static zt_status read_tensor(parser *p, const char *name, const char *text, size_t n)
{
    zt_safetensors *s = p->s;
    st_tensor *list = zt_st_room(s->ctx, s->tensor, s->n_tensors, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    s->tensor = list;
    st_tensor *t = &list[s->n_tensors];
    if (n > MAX_ENTRY)
        return unfit(p, name, "an entry of %zu bytes, %d are allowed", n, MAX_ENTRY);
    *t = (st_tensor){.e = {.name = zt_arena_strndup(s->texts, name, strlen(name))}};
    json_t *j = t->e.name ? zt_json_load(s->ctx, p->file, text, n) : NULL;
    zt_status st = j ? read_entry(p, name, j, t) : zt_ctx_status(s->ctx);
    json_decref(j);
    if (st == ZT_OK)
        s->n_tensors++;
    return st;
}

/* One that is unfit, and was told, is left out. */
static zt_status read_or_leave(parser *p, const char *name, const char *text, size_t n)
{
    zt_status st = read_tensor(p, name, text, n);
    return st == ZT_ENOENT ? ZT_OK : st;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* The decoded text, in the arena: a long one that needs no decoding is not held twice. */
static zt_status keep_text(const parser *p, const char *text, size_t n, st_meta *m)
{
    zt_str value;
    zt_status s = ZT_OK;
    zt_str_init(&value, p->s->ctx);
    if (zt_json_is_plain(text, n)) {
        m->n = n - 2;
        m->value = zt_arena_strndup(p->s->texts, text + 1, m->n);
    } else {
        s = zt_json_string(p->s->ctx, p->file, text, n, &value);
        m->n = value.len;
        m->value = s == ZT_OK ? zt_arena_strndup(p->s->texts, value.data, value.len) : NULL;
    }
    zt_str_fini(&value);
    return s == ZT_OK && !m->value ? ZT_ENOMEM : s;
}

static zt_status read_meta(void *user, const char *key, const char *text, size_t n)
{
    parser *p = user;
    zt_safetensors *s = p->s;
    st_meta *list = zt_st_room(s->ctx, s->meta, s->n_meta, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    s->meta = list;
    st_meta *m = &list[s->n_meta];
    zt_status st = keep_text(p, text, n, m);
    m->key = st == ZT_OK ? zt_arena_strndup(s->texts, key, strlen(key)) : NULL;
    if (!m->key)
        return st == ZT_OK ? ZT_ENOMEM : st;
    s->n_meta++;
    return ZT_OK;
}

static zt_status check_meta(const parser *p)
{
    const zt_safetensors *s = p->s;
    char text[160];
    zt_map *keys = zt_map_new(s->ctx, (size_t)s->n_meta);
    zt_status st = keys ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = p->first_meta; st == ZT_OK && i < s->n_meta; i++) {
        const char *key = s->meta[i].key;
        st = zt_map_get(keys, key, strlen(key), NULL)
                 ? zt_fail(s->ctx, ZT_EDATA, "%s: __metadata__ '%s' is there twice", p->file,
                           zt_escape(text, sizeof text, key, strlen(key)))
                 : zt_map_put(keys, key, strlen(key), i);
    }
    zt_map_free(keys);
    return st;
}

/* ---- the header ------------------------------------------------------------------------------ */

static zt_status read_member(void *user, const char *key, const char *text, size_t n)
{
    parser *p = user;
    if (strcmp(key, "__metadata__") != 0)
        return read_or_leave(p, key, text, n);
    if (p->has_meta)
        return zt_fail(p->s->ctx, ZT_EDATA, "%s: '__metadata__' is there twice", p->file);
    p->has_meta = true;
    zt_status st = zt_json_members(p->s->ctx, p->file, text, n, read_meta, p);
    return st == ZT_OK ? check_meta(p) : st;
}

/* By place; what is empty before what begins at the same byte. */
static int by_offset(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->e.bytes > y->e.bytes) - (x->e.bytes < y->e.bytes);
}

/* The tensors from `first` on cover the data, each beginning where the one before it ends. */
static zt_status check_layout(const parser *p, int64_t first)
{
    zt_safetensors *s = p->s;
    uint64_t end = p->data;
    if (s->n_tensors > first)
        qsort(s->tensor + first, (size_t)(s->n_tensors - first), sizeof *s->tensor, by_offset);
    for (int64_t i = first; i < s->n_tensors; i++) {
        const st_tensor *t = &s->tensor[i];
        zt_status st = ZT_OK;
        if (t->offset != end)
            st = amiss(p, t->e.name, "data from byte %llu, but what is before it ends at %llu",
                       (unsigned long long)(t->offset - p->data),
                       (unsigned long long)(end - p->data));
        if (st != ZT_OK)
            return st;
        end = t->offset + t->e.bytes;
    }
    if (end == p->data + p->data_bytes || p->streams)
        return ZT_OK;
    return zt_faults_tell(s->ctx, "%s: %llu bytes of data, %llu belong to tensors", p->file,
                    (unsigned long long)p->data_bytes, (unsigned long long)(end - p->data));
}

/* The n bytes of the header. Of a stream there is never more memory than twice what came. */
static zt_status read_text(const parser *p, const zt_source *in, size_t n, char **text)
{
    enum { FIRST = 1 << 16 };
    size_t have = 0, room = zt_source_streams(in) && n > FIRST ? FIRST : n;
    for (;; room = n - room < room ? n : 2 * room) {
        char *more = zt_realloc(p->s->ctx, *text, room);
        if (!more)
            return ZT_ENOMEM;
        *text = more;
        zt_status st = zt_source_read(in, 8 + have, more + have, room - have);
        if (st != ZT_OK || room == n)
            return st;
        have = room;
    }
}

static zt_status read_header(parser *p, const zt_source *in, size_t n)
{
    zt_ctx *ctx = p->s->ctx;
    int64_t first = p->s->n_tensors;
    char *text = NULL;
    zt_status st = read_text(p, in, n, &text);
    if (st == ZT_OK && text[0] != '{')
        st = zt_fail(ctx, ZT_EDATA, "%s: the header does not begin with '{'", p->file);
    if (st == ZT_OK)
        st = zt_json_members(ctx, p->file, text, n, read_member, p);
    zt_free(ctx, text);
    return st == ZT_OK ? check_layout(p, first) : st;
}

static uint64_t header_length(const unsigned char b[8])
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | b[i];
    return n;
}

bool zt_safetensors_sniff(const void *bytes, size_t n, uint64_t size)
{
    const unsigned char *b = bytes;
    if (n < 9 || b[8] != '{')
        return false;
    uint64_t header = header_length(b);
    return header <= MAX_HEADER && header <= size - 8;
}

zt_status zt_st_parse(zt_safetensors *s)
{
    const zt_source *in = s->shard[s->n_shards - 1];
    uint64_t size = zt_source_size(in);
    unsigned char b[8];
    parser p = {.s = s, .file = zt_source_name(in), .streams = zt_source_streams(in),
                .first_meta = s->n_meta};
    if (size < 8 + 2)
        return zt_fail(s->ctx, ZT_EDATA, "%s: a file of %llu bytes, too short for a header", p.file,
                       (unsigned long long)size);
    zt_status st = zt_source_read(in, 0, b, 8);
    if (st != ZT_OK)
        return st;
    uint64_t n = header_length(b);
    if (n < 2 || n > MAX_HEADER || n > size - 8)
        return zt_fail(s->ctx, ZT_EDATA,
                       "%s: a header of %llu bytes in a file of %llu (%d are allowed)", p.file,
                       (unsigned long long)n, (unsigned long long)size, MAX_HEADER);
    p.data = s->data = 8 + n;
    p.data_bytes = size - p.data;
    return read_header(&p, in, (size_t)n);
}
