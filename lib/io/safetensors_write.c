/* safetensors_write.c - owns writing the header of a safetensors file. */
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
    int64_t n_meta, n_tensors;
    uint64_t end; /* of the data so far */
};

zt_st_writer *zt_st_writer_new(zt_ctx *ctx, size_t expect)
{
    static const char begin[] = "\0\0\0\0\0\0\0\0{";
    size_t room = expect > sizeof begin ? expect : sizeof begin;
    zt_st_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w) return NULL;
    w->ctx = ctx;
    w->text = (zt_str){.ctx = ctx, .data = zt_alloc(ctx, room), .cap = room};
    if (w->text.data) {
        w->status = zt_str_put(&w->text, begin, sizeof begin - 1);
        return w;
    }
    zt_free(ctx, w);
    return NULL;
}

void zt_st_writer_free(zt_st_writer *w)
{
    if (!w) return;
    zt_str_fini(&w->text);
    zt_free(w->ctx, w);
}

bool zt_st_text_ok(const char *text, size_t n)
{
    return zt_utf8_valid(text, n) && (n == 0 || !memchr(text, 0, n));
}

static zt_status refuse(zt_st_writer *w, const char *name, const char *what)
{
    char text[160];
    return w->status = zt_fail(w->ctx, ZT_ENOTSUP, "safetensors: '%s': %s",
                               zt_escape(text, sizeof text, name, strlen(name)), what);
}

static void put_string(zt_st_writer *w, const char *text, size_t n)
{
    if (w->status == ZT_OK) w->status = zt_str_put_json(&w->text, text, n);
}

static void puts_raw(zt_st_writer *w, const char *text)
{
    if (w->status == ZT_OK) w->status = zt_str_puts(&w->text, text);
}

zt_status zt_st_put_meta(zt_st_writer *w, const char *key, const char *text, size_t n)
{
    if (w->status != ZT_OK) return w->status;
    if (!zt_st_text_ok(key, strlen(key)) || !zt_st_text_ok(text, n))
        return refuse(w, key, "metadata that is no UTF-8");
    puts_raw(w, w->n_meta++ ? "," : "\"__metadata__\":{");
    put_string(w, key, strlen(key));
    puts_raw(w, ":");
    put_string(w, text, n);
    return w->status;
}

zt_status zt_st_put_tensor(zt_st_writer *w, const char *name, const char *word, int rank,
                           const int64_t *dim, uint64_t bytes)
{
    size_t n = strlen(name);
    if (w->status != ZT_OK) return w->status;
    if (!zt_st_text_ok(name, n) || strcmp(name, "__metadata__") == 0)
        return refuse(w, name, "is no name of a tensor there");
    if (bytes > INT64_MAX - w->end) return refuse(w, name, "too many bytes");
    puts_raw(w, w->n_tensors ? "," : w->n_meta ? "}," : "");
    put_string(w, name, n);
    puts_raw(w, ":{\"dtype\":");
    put_string(w, word, strlen(word));
    puts_raw(w, ",\"shape\":[");
    for (int i = 0; i < rank && w->status == ZT_OK; i++)
        w->status = zt_str_printf(&w->text, i ? ",%" PRId64 : "%" PRId64, dim[i]);
    if (w->status == ZT_OK)
        w->status = zt_str_printf(&w->text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", w->end,
                                  w->end + bytes);
    w->end += bytes;
    w->n_tensors++;
    return w->status;
}

char *zt_st_writer_finish(zt_st_writer *w, size_t least, size_t *n)
{
    puts_raw(w, w->n_meta && !w->n_tensors ? "}}" : "}");
    size_t all = w->text.len <= least ? least : (w->text.len + ALIGN - 1) / ALIGN * ALIGN;
    int blanks = (int)(all - w->text.len);
    if (w->status == ZT_OK) w->status = zt_str_printf(&w->text, "%*s", blanks, "");
    if (w->status != ZT_OK) return NULL;
    uint64_t length = w->text.len - 8;
    if (length > MAX_HEADER) {
        w->status =
            zt_fail(w->ctx, ZT_ENOTSUP, "safetensors: a header of %llu bytes, %d are allowed",
                    (unsigned long long)length, MAX_HEADER);
        return NULL;
    }
    memcpy(w->text.data, &length, 8);
    char *header = w->text.data;
    *n = w->text.len;
    zt_str_init(&w->text, w->ctx); /* the caller has it now */
    return header;
}
