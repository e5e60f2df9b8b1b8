/* gguf_write.c - owns writing GGUF headers: keys and tensor records as they lie in a file. */
#include "lib/base/require.h"
#include "lib/io/gguf_write.h"

#include <inttypes.h>
#include <string.h>

#include "lib/io/gguf_file.h"

enum { HEAD = 4 + 4 + 8 + 8, MAX_NAME = 63, MAX_DIMS = 4 };

struct zt_gguf_writer {
    zt_ctx *ctx;
    zt_status status;
    zt_str keys, tensors; /* records */
    uint64_t key_count, tensor_count;
    uint64_t align, data_end; /* end: of the last tensor, in the data section */
    zt_map *names;            /* of keys, and of tensors behind a zero byte */
    zt_arena *texts;
};

zt_gguf_writer *zt_gguf_writer_new(zt_ctx *ctx)
{
    zt_gguf_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->ctx = ctx;
    writer->align = 32;
    zt_str_init(&writer->keys, ctx);
    zt_str_init(&writer->tensors, ctx);
    writer->names = zt_map_new(ctx, 256);
    writer->texts = zt_arena_new(ctx, 0);
    if (writer->names && writer->texts) return writer;
    zt_gguf_writer_free(writer);
    return NULL;
}

void zt_gguf_writer_free(zt_gguf_writer *writer)
{
    if (!writer) return;
    zt_str_fini(&writer->keys);
    zt_str_fini(&writer->tensors);
    zt_map_free(writer->names);
    zt_arena_free(writer->texts);
    zt_free(writer->ctx, writer);
}

zt_status zt_gguf_writer_status(const zt_gguf_writer *writer) { return writer ? writer->status : ZT_EUSAGE; }

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put_bytes(zt_gguf_writer *writer, zt_str *record, const void *bytes, size_t size)
{
    if (writer->status == ZT_OK) writer->status = zt_str_put(record, bytes, size);
}

static void put_u32(zt_gguf_writer *writer, zt_str *record, uint32_t value) { put_bytes(writer, record, &value, sizeof value); }

static void put_u64(zt_gguf_writer *writer, zt_str *record, uint64_t value) { put_bytes(writer, record, &value, sizeof value); }

static void put_text(zt_gguf_writer *writer, zt_str *record, const char *text, size_t length)
{
    put_u64(writer, record, length);
    put_bytes(writer, record, text, length);
}

static zt_status refuse_record(zt_gguf_writer *writer, zt_status code, const char *name, const char *what)
{
    char text[160];
    if (writer->status == ZT_OK)
        writer->status = zt_fail(writer->ctx, code, "GGUF: '%s': %s", zt_escape(text, sizeof text, name, strlen(name)), what);
    return writer->status;
}

/* Notes that there is such a key, or (mark 1) such a tensor. */
static void claim_name(zt_gguf_writer *writer, const char *name, size_t mark)
{
    size_t length = strlen(name);
    char *copy = writer->status == ZT_OK ? zt_arena_alloc(writer->texts, length + mark) : NULL;
    if (writer->status == ZT_OK && !copy) writer->status = ZT_ENOMEM;
    if (!copy) return;
    memset(copy, 0, mark);
    memcpy(copy + mark, name, length);
    if (zt_map_get(writer->names, copy, length + mark, NULL))
        refuse_record(writer, ZT_EUSAGE, name, "duplicate name");
    else
        writer->status = zt_map_put(writer->names, copy, length + mark, 0);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void begin_key(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind)
{
    claim_name(writer, key, 0);
    put_text(writer, &writer->keys, key, strlen(key));
    put_u32(writer, &writer->keys, kind);
    writer->key_count++;
}

/* Does `value` fit into `bytes` bytes of form 'u', 'i' or 'b'? */
static bool fits_kind(const gguf_kind *kind, int64_t value)
{
    int bits = 8 * kind->bytes;
    if (kind->form == 'b') return value == 0 || value == 1;
    if (kind->form == 'i') return bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
    return value >= 0 && (bits == 64 || value < INT64_C(1) << bits);
}

zt_status zt_gguf_put_int(zt_gguf_writer *writer, const char *key, zt_gguf_kind number, int64_t value)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key, ZT_EUSAGE);
    const gguf_kind *kind = zt_gguf_kind_get(number);
    if (!kind || !strchr("uib", kind->form) || !fits_kind(kind, value))
        return refuse_record(writer, ZT_EUSAGE, key, "the value does not fit its type");
    begin_key(writer, key, number);
    put_bytes(writer, &writer->keys, &value, kind->bytes); /* little endian: the low bytes */
    return writer->status;
}

zt_status zt_gguf_put_real(zt_gguf_writer *writer, const char *key, zt_gguf_kind number, double value)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key, ZT_EUSAGE);
    float single = (float)value;
    if (number != ZT_GGUF_F32 && number != ZT_GGUF_F64)
        return refuse_record(writer, ZT_EUSAGE, key, "the value does not fit its type");
    begin_key(writer, key, number);
    if (number == ZT_GGUF_F32)
        put_bytes(writer, &writer->keys, &single, sizeof single);
    else
        put_bytes(writer, &writer->keys, &value, sizeof value);
    return writer->status;
}

zt_status zt_gguf_put_str(zt_gguf_writer *writer, const char *key, const char *text, size_t size)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key && (text || !size), ZT_EUSAGE);
    begin_key(writer, key, ZT_GGUF_STR);
    put_text(writer, &writer->keys, text, size);
    return writer->status;
}

static void begin_array(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, int64_t count)
{
    begin_key(writer, key, ZT_GGUF_ARRAY);
    put_u32(writer, &writer->keys, kind);
    put_u64(writer, &writer->keys, (uint64_t)count);
}

zt_status zt_gguf_put_array(zt_gguf_writer *writer, const char *key, zt_gguf_kind number, const void *values, int64_t count)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key, ZT_EUSAGE);
    const gguf_kind *kind = zt_gguf_kind_get(number);
    size_t bytes;
    if (!kind || kind->bytes == 0 || count < 0 || !zt_mul_size((size_t)count, kind->bytes, &bytes))
        return refuse_record(writer, ZT_EUSAGE, key, "the array elements have no fixed size");
    begin_array(writer, key, number, count);
    put_bytes(writer, &writer->keys, values, bytes);
    return writer->status;
}

zt_status zt_gguf_put_strs(zt_gguf_writer *writer, const char *key, const zt_bytes *texts, int64_t count)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key && (texts || !count), ZT_EUSAGE);
    begin_array(writer, key, ZT_GGUF_STR, count);
    for (int64_t i = 0; i < count; i++) put_text(writer, &writer->keys, texts[i].data, texts[i].n);
    return writer->status;
}

zt_status zt_gguf_put_align(zt_gguf_writer *writer, uint32_t align)
{
    if (!writer) return ZT_EUSAGE;
    static const char key[] = "general.alignment";
    if (align == 0 || (align & (align - 1)) != 0 || writer->tensor_count)
        return refuse_record(writer, ZT_EUSAGE, key, "not a power of two, or set after the first tensor");
    if (align > ZT_GGUF_MOST_ALIGN) return refuse_record(writer, ZT_ENOTSUP, key, "the alignment exceeds 1 MiB");
    writer->align = align;
    return zt_gguf_put_int(writer, key, ZT_GGUF_U32, align);
}

zt_status zt_gguf_put_raw(zt_gguf_writer *writer, const char *key, zt_gguf_kind kind, const void *value, size_t size)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key, ZT_EUSAGE);
    uint32_t align;
    if (strcmp(key, "general.alignment") == 0 && kind == ZT_GGUF_U32 && size == 4) {
        memcpy(&align, value, 4);
        return zt_gguf_put_align(writer, align);
    }
    begin_key(writer, key, kind);
    put_bytes(writer, &writer->keys, value, size);
    return writer->status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* ggml's number of a type, or -1. */
static int number_of(const char *word)
{
    for (uint32_t i = 0; i < 256; i++) {
        const gguf_type *type = zt_gguf_type(i);
        if (type && strcmp(type->name, word) == 0) return (int)i;
    }
    return -1;
}

bool zt_gguf_can(const char *name, const char *word, int rank)
{
    if (!name || !word) return false;
    return strlen(name) <= MAX_NAME && rank >= 0 && rank <= MAX_DIMS && number_of(word) >= 0;
}

static uint64_t round_up(uint64_t size, uint64_t align) { return (size + align - 1) & ~(align - 1); }

/* Bytes of a tensor; false when they overflow, or a row is not in whole blocks. */
static bool tensor_bytes(const gguf_type *type, int rank, const int64_t *dim, int64_t *bytes)
{
    int64_t count = 1;
    if ((rank ? dim[rank - 1] : 1) % type->block != 0) return false;
    for (int i = 0; i < rank; i++)
        if (!zt_mul_i64(count, dim[i], &count)) return false;
    return zt_gguf_type_bytes(type, count, rank ? dim[rank - 1] : 1, bytes);
}

zt_status zt_gguf_put_tensor_word(zt_gguf_writer *writer, const char *name, const char *word, int rank, const int64_t *dim)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, name && word, ZT_EUSAGE);
    int number = number_of(word);
    int64_t bytes;
    if (writer->status != ZT_OK) return writer->status;
    if (number < 0) return refuse_record(writer, ZT_ENOTSUP, name, "GGUF cannot store this dtype");
    if (!zt_gguf_can(name, word, rank))
        return refuse_record(writer, ZT_ENOTSUP, name, "the name exceeds 63 bytes or the rank exceeds 4");
    if (!tensor_bytes(zt_gguf_type((uint32_t)number), rank, dim, &bytes))
        return refuse_record(writer, ZT_ESHAPE, name, "the row length is not a multiple of the dtype's block size");
    if ((uint64_t)bytes > INT64_MAX - writer->data_end - 2 * writer->align)
        return refuse_record(writer, ZT_ENOTSUP, name, "the tensor is too large");
    claim_name(writer, name, 1);
    put_text(writer, &writer->tensors, name, strlen(name));
    put_u32(writer, &writer->tensors, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--) put_u64(writer, &writer->tensors, (uint64_t)dim[i]);
    put_u32(writer, &writer->tensors, (uint32_t)number);
    writer->data_end = round_up(writer->data_end, writer->align);
    put_u64(writer, &writer->tensors, writer->data_end);
    writer->data_end += (uint64_t)bytes;
    writer->tensor_count++;
    return writer->status;
}

zt_status zt_gguf_put_tensor(zt_gguf_writer *writer, const char *name, const zt_type *type)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, name && type, ZT_EUSAGE);
    if (writer->status != ZT_OK) return writer->status;
    if (!zt_type_check(writer->ctx, type, NULL)) return writer->status = zt_ctx_status(writer->ctx);
    return zt_gguf_put_tensor_word(writer, name, zt_dtype_get(type->dtype)->name, type->rank, type->dim);
}

/* ---- the whole ------------------------------------------------------------------------------- */

char *zt_gguf_writer_finish(zt_gguf_writer *writer, size_t *size, uint64_t *data_bytes)
{
    if (!writer) return NULL;
    ZT_REQUIRE(writer->ctx, size, NULL);
    static const uint32_t version = 3;
    size_t used = HEAD, total;
    if (writer->status != ZT_OK) return NULL;
    bool fits = zt_add_size(used, writer->keys.len, &used) && zt_add_size(used, writer->tensors.len, &used) &&
                zt_add_size(used, writer->align, &total);
    total = fits ? (size_t)round_up(used, writer->align) : SIZE_MAX;
    char *header = zt_alloc(writer->ctx, total);
    if (!header) {
        writer->status = ZT_ENOMEM;
        return NULL;
    }
    memcpy(header, "GGUF", 4);
    memcpy(header + 4, &version, 4);
    memcpy(header + 8, &writer->tensor_count, 8);
    memcpy(header + 16, &writer->key_count, 8);
    if (writer->keys.len) memcpy(header + HEAD, writer->keys.data, writer->keys.len);
    if (writer->tensors.len) memcpy(header + HEAD + writer->keys.len, writer->tensors.data, writer->tensors.len);
    memset(header + used, 0, total - used);
    *size = total;
    if (data_bytes) *data_bytes = round_up(writer->data_end, writer->align);
    return header;
}
