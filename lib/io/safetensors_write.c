/* safetensors_write.c - owns writing the header of a safetensors file. */
#include "lib/base/require.h"
#include "lib/io/safetensors_write.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAX_HEADER = 100000000, /* bytes: the format's own bound */
    ALIGN = 64              /* of the data: 8 would do, but whole cache lines are copied faster */
};

struct zt_st_writer {
    zt_ctx *ctx;
    zt_status status;
    zt_str text; /* behind the eight bytes of its length, from the '{' on */
    int64_t meta_count, tensor_count;
    uint64_t data_end; /* of the data so far */
};

zt_st_writer *zt_st_writer_new(zt_ctx *ctx, size_t expect)
{
    static const char begin[] = "\0\0\0\0\0\0\0\0{";
    size_t capacity = expect > sizeof begin ? expect : sizeof begin;
    zt_st_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->ctx = ctx;
    writer->text = (zt_str){.ctx = ctx, .data = zt_alloc(ctx, capacity), .cap = capacity};
    if (writer->text.data) {
        writer->status = zt_str_put(&writer->text, begin, sizeof begin - 1);
        return writer;
    }
    zt_free(ctx, writer);
    return NULL;
}

void zt_st_writer_free(zt_st_writer *writer)
{
    if (!writer) return;
    zt_str_fini(&writer->text);
    zt_free(writer->ctx, writer);
}

bool zt_st_text_ok(const char *text, size_t size)
{
    return text && (zt_utf8_valid(text, size) && (size == 0 || !memchr(text, 0, size)));
}

static zt_status refuse_name(zt_st_writer *writer, const char *name, const char *what)
{
    char text[160];
    return writer->status =
               zt_fail(writer->ctx, ZT_ENOTSUP, "safetensors: '%s': %s", zt_escape(text, sizeof text, name, strlen(name)), what);
}

static void put_string(zt_st_writer *writer, const char *text, size_t size)
{
    if (writer->status == ZT_OK) writer->status = zt_str_put_json(&writer->text, text, size);
}

static void put_raw(zt_st_writer *writer, const char *text)
{
    if (writer->status == ZT_OK) writer->status = zt_str_puts(&writer->text, text);
}

zt_status zt_st_put_meta(zt_st_writer *writer, const char *key, const char *text, size_t size)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, key && (text || !size), ZT_EUSAGE);
    if (writer->status != ZT_OK) return writer->status;
    if (!zt_st_text_ok(key, strlen(key)) || !zt_st_text_ok(text, size))
        return refuse_name(writer, key, "the metadata is not valid UTF-8");
    put_raw(writer, writer->meta_count++ ? "," : "\"__metadata__\":{");
    put_string(writer, key, strlen(key));
    put_raw(writer, ":");
    put_string(writer, text, size);
    return writer->status;
}

zt_status zt_st_put_tensor(zt_st_writer *writer, const char *name, const char *word, int rank, const int64_t *dim, uint64_t bytes)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, name && word && (dim || rank <= 0), ZT_EUSAGE);
    size_t length = strlen(name);
    if (writer->status != ZT_OK) return writer->status;
    if (!zt_st_text_ok(name, length) || strcmp(name, "__metadata__") == 0)
        return refuse_name(writer, name, "not a valid tensor name");
    if (bytes > INT64_MAX - writer->data_end) return refuse_name(writer, name, "the tensor is too large");
    put_raw(writer, writer->tensor_count ? "," : writer->meta_count ? "}," : "");
    put_string(writer, name, length);
    put_raw(writer, ":{\"dtype\":");
    put_string(writer, word, strlen(word));
    put_raw(writer, ",\"shape\":[");
    for (int i = 0; i < rank && writer->status == ZT_OK; i++)
        writer->status = zt_str_printf(&writer->text, i ? ",%" PRId64 : "%" PRId64, dim[i]);
    if (writer->status == ZT_OK)
        writer->status = zt_str_printf(&writer->text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", writer->data_end,
                                       writer->data_end + bytes);
    writer->data_end += bytes;
    writer->tensor_count++;
    return writer->status;
}

char *zt_st_writer_finish(zt_st_writer *writer, size_t least, size_t *size)
{
    if (!writer) return NULL;
    ZT_REQUIRE(writer->ctx, size, NULL);
    put_raw(writer, writer->meta_count && !writer->tensor_count ? "}}" : "}");
    size_t total = writer->text.len <= least ? least : (writer->text.len + ALIGN - 1) / ALIGN * ALIGN;
    int blanks = (int)(total - writer->text.len);
    if (writer->status == ZT_OK) writer->status = zt_str_printf(&writer->text, "%*s", blanks, "");
    if (writer->status != ZT_OK) return NULL;
    uint64_t length = writer->text.len - 8;
    if (length > MAX_HEADER) {
        writer->status = zt_fail(writer->ctx, ZT_ENOTSUP, "safetensors: the header has %llu bytes: at most %d are allowed",
                                 (unsigned long long)length, MAX_HEADER);
        return NULL;
    }
    memcpy(writer->text.data, &length, 8);
    char *header = writer->text.data;
    *size = writer->text.len;
    zt_str_init(&writer->text, writer->ctx); /* the caller has it now */
    return header;
}
