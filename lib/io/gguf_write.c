/* gguf_write.c - owns writing GGUF headers: keys and tensor records as they lie in a file. */
#include "lib/io/gguf_write.h"

#include <inttypes.h>
#include <string.h>

#include "lib/io/gguf_file.h"

enum { HEAD = 4 + 4 + 8 + 8, MAX_NAME = 63, MAX_DIMS = 4 };

struct zt_gguf_writer {
    zt_ctx *ctx;
    zt_status status;
    zt_str keys, tensors; /* records */
    uint64_t n_keys, n_tensors;
    uint64_t align, end; /* end: of the last tensor, in the data section */
    zt_map *names;       /* of keys, and of tensors behind a zero byte */
    zt_arena *texts;
};

zt_gguf_writer *zt_gguf_writer_new(zt_ctx *ctx)
{
    zt_gguf_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->ctx = ctx;
    w->align = 32;
    zt_str_init(&w->keys, ctx);
    zt_str_init(&w->tensors, ctx);
    w->names = zt_map_new(ctx, 256);
    w->texts = zt_arena_new(ctx, 0);
    if (w->names && w->texts)
        return w;
    zt_gguf_writer_free(w);
    return NULL;
}

void zt_gguf_writer_free(zt_gguf_writer *w)
{
    if (!w)
        return;
    zt_str_fini(&w->keys);
    zt_str_fini(&w->tensors);
    zt_map_free(w->names);
    zt_arena_free(w->texts);
    zt_free(w->ctx, w);
}

zt_status zt_gguf_writer_status(const zt_gguf_writer *w)
{
    return w->status;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put(zt_gguf_writer *w, zt_str *to, const void *bytes, size_t n)
{
    if (w->status == ZT_OK)
        w->status = zt_str_put(to, bytes, n);
}

static void put_u32(zt_gguf_writer *w, zt_str *to, uint32_t v)
{
    put(w, to, &v, sizeof v);
}

static void put_u64(zt_gguf_writer *w, zt_str *to, uint64_t v)
{
    put(w, to, &v, sizeof v);
}

static void put_text(zt_gguf_writer *w, zt_str *to, const char *text, size_t n)
{
    put_u64(w, to, n);
    put(w, to, text, n);
}

static zt_status refuse(zt_gguf_writer *w, zt_status s, const char *name, const char *what)
{
    char text[160];
    if (w->status == ZT_OK)
        w->status = zt_fail(w->ctx, s, "GGUF: '%s': %s",
                            zt_escape(text, sizeof text, name, strlen(name)), what);
    return w->status;
}

/* Notes that there is such a key, or (mark 1) such a tensor. */
static void claim(zt_gguf_writer *w, const char *name, size_t mark)
{
    size_t n = strlen(name);
    char *copy = w->status == ZT_OK ? zt_arena_alloc(w->texts, n + mark) : NULL;
    if (w->status == ZT_OK && !copy)
        w->status = ZT_ENOMEM;
    if (!copy)
        return;
    memset(copy, 0, mark);
    memcpy(copy + mark, name, n);
    if (zt_map_get(w->names, copy, n + mark, NULL))
        refuse(w, ZT_EUSAGE, name, "is there twice");
    else
        w->status = zt_map_put(w->names, copy, n + mark, 0);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void begin_key(zt_gguf_writer *w, const char *key, zt_gguf_kind kind)
{
    claim(w, key, 0);
    put_text(w, &w->keys, key, strlen(key));
    put_u32(w, &w->keys, kind);
    w->n_keys++;
}

/* Does v fit into `bytes` bytes of form 'u', 'i' or 'b'? */
static bool fits(const gguf_kind *kind, int64_t v)
{
    int bits = 8 * kind->bytes;
    if (kind->form == 'b')
        return v == 0 || v == 1;
    if (kind->form == 'i')
        return bits == 64 || (v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1));
    return v >= 0 && (bits == 64 || v < INT64_C(1) << bits);
}

zt_status zt_gguf_put_int(zt_gguf_writer *w, const char *key, zt_gguf_kind number, int64_t v)
{
    const gguf_kind *kind = zt_gguf_kind_get(number);
    if (!kind || !strchr("uib", kind->form) || !fits(kind, v))
        return refuse(w, ZT_EUSAGE, key, "a value that its kind cannot hold");
    begin_key(w, key, number);
    put(w, &w->keys, &v, kind->bytes); /* little endian: the low bytes */
    return w->status;
}

zt_status zt_gguf_put_real(zt_gguf_writer *w, const char *key, zt_gguf_kind number, double v)
{
    float f = (float)v;
    if (number != ZT_GGUF_F32 && number != ZT_GGUF_F64)
        return refuse(w, ZT_EUSAGE, key, "a value that its kind cannot hold");
    begin_key(w, key, number);
    if (number == ZT_GGUF_F32)
        put(w, &w->keys, &f, sizeof f);
    else
        put(w, &w->keys, &v, sizeof v);
    return w->status;
}

zt_status zt_gguf_put_str(zt_gguf_writer *w, const char *key, const char *text, size_t n)
{
    begin_key(w, key, ZT_GGUF_STR);
    put_text(w, &w->keys, text, n);
    return w->status;
}

static void begin_array(zt_gguf_writer *w, const char *key, zt_gguf_kind kind, int64_t count)
{
    begin_key(w, key, ZT_GGUF_ARRAY);
    put_u32(w, &w->keys, kind);
    put_u64(w, &w->keys, (uint64_t)count);
}

zt_status zt_gguf_put_array(zt_gguf_writer *w, const char *key, zt_gguf_kind number,
                            const void *values, int64_t count)
{
    const gguf_kind *kind = zt_gguf_kind_get(number);
    size_t bytes;
    if (!kind || kind->bytes == 0 || count < 0 || !zt_mul_size((size_t)count, kind->bytes, &bytes))
        return refuse(w, ZT_EUSAGE, key, "an array of values that have no fixed size");
    begin_array(w, key, number, count);
    put(w, &w->keys, values, bytes);
    return w->status;
}

zt_status zt_gguf_put_strs(zt_gguf_writer *w, const char *key, const zt_bytes *texts, int64_t count)
{
    begin_array(w, key, ZT_GGUF_STR, count);
    for (int64_t i = 0; i < count; i++)
        put_text(w, &w->keys, texts[i].data, texts[i].n);
    return w->status;
}

zt_status zt_gguf_put_align(zt_gguf_writer *w, uint32_t align)
{
    static const char key[] = "general.alignment";
    if (align == 0 || (align & (align - 1)) != 0 || w->n_tensors)
        return refuse(w, ZT_EUSAGE, key, "no power of two, or too late");
    if (align > ZT_GGUF_MOST_ALIGN)
        return refuse(w, ZT_ENOTSUP, key, "more than 1 MiB");
    w->align = align;
    return zt_gguf_put_int(w, key, ZT_GGUF_U32, align);
}

zt_status zt_gguf_put_raw(zt_gguf_writer *w, const char *key, zt_gguf_kind kind,
                          const void *value, size_t n)
{
    uint32_t align;
    if (strcmp(key, "general.alignment") == 0 && kind == ZT_GGUF_U32 && n == 4) {
        memcpy(&align, value, 4);
        return zt_gguf_put_align(w, align);
    }
    begin_key(w, key, kind);
    put(w, &w->keys, value, n);
    return w->status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* ggml's number of a type, or -1. */
static int number_of(const char *word)
{
    for (uint32_t i = 0; i < 256; i++) {
        const gguf_type *t = zt_gguf_type(i);
        if (t && strcmp(t->name, word) == 0)
            return (int)i;
    }
    return -1;
}

bool zt_gguf_can(const char *name, const char *word, int rank)
{
    return strlen(name) <= MAX_NAME && rank >= 0 && rank <= MAX_DIMS && number_of(word) >= 0;
}

static uint64_t padded(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* Bytes of a tensor; false when they overflow, or a row is not in whole blocks. */
static bool bytes_of(const gguf_type *t, int rank, const int64_t *dim, int64_t *bytes)
{
    int64_t n = 1;
    if ((rank ? dim[rank - 1] : 1) % t->block != 0)
        return false;
    for (int i = 0; i < rank; i++)
        if (!zt_mul_i64(n, dim[i], &n))
            return false;
    return zt_mul_i64(n / t->block, t->block_bytes, bytes);
}

zt_status zt_gguf_put_tensor_word(zt_gguf_writer *w, const char *name, const char *word, int rank,
                                  const int64_t *dim)
{
    int number = number_of(word);
    int64_t bytes;
    if (w->status != ZT_OK)
        return w->status;
    if (number < 0)
        return refuse(w, ZT_ENOTSUP, name, "is of a dtype that GGUF does not have");
    if (!zt_gguf_can(name, word, rank))
        return refuse(w, ZT_ENOTSUP, name, "more than 63 bytes of name or 4 dimensions");
    if (!bytes_of(zt_gguf_type((uint32_t)number), rank, dim, &bytes))
        return refuse(w, ZT_ESHAPE, name, "its shape does not go with its dtype");
    if ((uint64_t)bytes > INT64_MAX - w->end - 2 * w->align)
        return refuse(w, ZT_ENOTSUP, name, "too many bytes");
    claim(w, name, 1);
    put_text(w, &w->tensors, name, strlen(name));
    put_u32(w, &w->tensors, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--)
        put_u64(w, &w->tensors, (uint64_t)dim[i]);
    put_u32(w, &w->tensors, (uint32_t)number);
    w->end = padded(w->end, w->align);
    put_u64(w, &w->tensors, w->end);
    w->end += (uint64_t)bytes;
    w->n_tensors++;
    return w->status;
}

zt_status zt_gguf_put_tensor(zt_gguf_writer *w, const char *name, const zt_type *type)
{
    if (w->status != ZT_OK)
        return w->status;
    if (!zt_type_check(w->ctx, type, NULL))
        return w->status = zt_ctx_status(w->ctx);
    return zt_gguf_put_tensor_word(w, name, zt_dtype_get(type->dtype)->name, type->rank,
                                   type->dim);
}

/* ---- the whole ------------------------------------------------------------------------------- */

char *zt_gguf_writer_finish(zt_gguf_writer *w, size_t *n, uint64_t *data_bytes)
{
    static const uint32_t version = 3;
    size_t used = HEAD, all;
    if (w->status != ZT_OK || !zt_add_size(used, w->keys.len, &used) ||
        !zt_add_size(used, w->tensors.len, &used) || !zt_add_size(used, w->align, &all))
        return NULL;
    all = (size_t)padded(used, w->align);
    char *h = zt_alloc(w->ctx, all);
    if (!h)
        return NULL;
    memcpy(h, "GGUF", 4);
    memcpy(h + 4, &version, 4);
    memcpy(h + 8, &w->n_tensors, 8);
    memcpy(h + 16, &w->n_keys, 8);
    if (w->keys.len)
        memcpy(h + HEAD, w->keys.data, w->keys.len);
    if (w->tensors.len)
        memcpy(h + HEAD + w->keys.len, w->tensors.data, w->tensors.len);
    memset(h + used, 0, all - used);
    *n = all;
    if (data_bytes)
        *data_bytes = padded(w->end, w->align);
    return h;
}
