/* gguf_writer.h - for tests: make GGUF v3 files in memory, sound ones and, byte by byte, others.
 *
 *     ggufw w = {0};
 *     ggufw_str(&w, "general.architecture", "llama");
 *     ggufw_tensor(&w, "x", 0, 2, (int64_t[]){4, 32}, data, bytes);   // row-major shape
 *     size_t n;
 *     void *file = ggufw_bytes(&w, &n);          // malloc'ed; also frees what w holds
 *
 * Type numbers are ggml's. Running out of memory ends the program: these are tests.
 */
#ifndef ZT_GGUF_WRITER_H
#define ZT_GGUF_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GGUFW_FN __attribute__((unused)) static

typedef struct ggufw_buf {
    char *data;
    size_t n, cap;
} ggufw_buf;

typedef struct ggufw {
    ggufw_buf keys, infos, data;
    uint64_t n_keys, n_tensors;
    uint32_t align; /* 0: 32; set it before the first tensor, and write the key too */
} ggufw;

GGUFW_FN void ggufw_put(ggufw_buf *buffer, const void *bytes, size_t total)
{
    if (buffer->n + total > buffer->cap) {
        buffer->cap = 2 * (buffer->n + total) + 64;
        buffer->data = realloc(buffer->data, buffer->cap);
        if (!buffer->data) abort();
    }
    if (total) memcpy(buffer->data + buffer->n, bytes, total);
    buffer->n += total;
}

GGUFW_FN void ggufw_pad(ggufw_buf *b, size_t align)
{
    while (b->n % align) ggufw_put(b, "", 1);
}

GGUFW_FN void ggufw_put32(ggufw_buf *b, uint32_t v) { ggufw_put(b, &v, 4); }

GGUFW_FN void ggufw_put64(ggufw_buf *b, uint64_t v) { ggufw_put(b, &v, 8); }

GGUFW_FN void ggufw_puts(ggufw_buf *b, const char *s, size_t n)
{
    ggufw_put64(b, n);
    ggufw_put(b, s, n);
}

/* ---- keys ---- */

GGUFW_FN void ggufw_key(ggufw *w, const char *key, uint32_t kind)
{
    w->n_keys++;
    ggufw_puts(&w->keys, key, strlen(key));
    ggufw_put32(&w->keys, kind);
}

/* Any kind of fixed size; n bytes of the value. */
GGUFW_FN void ggufw_plain(ggufw *w, const char *key, uint32_t kind, const void *v, size_t n)
{
    ggufw_key(w, key, kind);
    ggufw_put(&w->keys, v, n);
}

GGUFW_FN void ggufw_u32(ggufw *w, const char *key, uint32_t v) { ggufw_plain(w, key, 4, &v, 4); }

GGUFW_FN void ggufw_f32(ggufw *w, const char *key, float v) { ggufw_plain(w, key, 6, &v, 4); }

GGUFW_FN void ggufw_bool(ggufw *w, const char *key, bool v)
{
    uint8_t b = v;
    ggufw_plain(w, key, 7, &b, 1);
}

GGUFW_FN void ggufw_str(ggufw *w, const char *key, const char *v)
{
    ggufw_key(w, key, 8);
    ggufw_puts(&w->keys, v, strlen(v));
}

/* An array of `count` values of a kind of fixed size, `bytes` in all. */
GGUFW_FN void ggufw_array(ggufw *w, const char *key, uint32_t kind, uint64_t count, const void *v, size_t bytes)
{
    ggufw_key(w, key, 9);
    ggufw_put32(&w->keys, kind);
    ggufw_put64(&w->keys, count);
    ggufw_put(&w->keys, v, bytes);
}

/* An array of strings that end in a zero byte. */
GGUFW_FN void ggufw_strs(ggufw *w, const char *key, char *const *v, uint64_t count)
{
    ggufw_array(w, key, 8, count, NULL, 0);
    for (uint64_t i = 0; i < count; i++) ggufw_puts(&w->keys, v[i], strlen(v[i]));
}

/* ---- tensors ---- */

GGUFW_FN void ggufw_tensor(ggufw *writer, const char *name, uint32_t type, int rank, const int64_t *dim, const void *data,
                           size_t bytes)
{
    ggufw_pad(&writer->data, writer->align ? writer->align : 32);
    writer->n_tensors++;
    ggufw_puts(&writer->infos, name, strlen(name));
    ggufw_put32(&writer->infos, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--) ggufw_put64(&writer->infos, (uint64_t)dim[i]);
    ggufw_put32(&writer->infos, type);
    ggufw_put64(&writer->infos, writer->data.n);
    ggufw_put(&writer->data, data, bytes);
}

/* ---- the file ---- */

GGUFW_FN char *ggufw_bytes(ggufw *writer, size_t *total)
{
    ggufw_buf out = {0};
    ggufw_put(&out, "GGUF", 4);
    ggufw_put32(&out, 3);
    ggufw_put64(&out, writer->n_tensors);
    ggufw_put64(&out, writer->n_keys);
    ggufw_put(&out, writer->keys.data, writer->keys.n);
    ggufw_put(&out, writer->infos.data, writer->infos.n);
    ggufw_pad(&out, writer->align ? writer->align : 32);
    ggufw_put(&out, writer->data.data, writer->data.n);
    free(writer->keys.data);
    free(writer->infos.data);
    free(writer->data.data);
    *writer = (ggufw){0};
    *total = out.n;
    return out.data;
}

GGUFW_FN bool ggufw_save(ggufw *writer, const char *path)
{
    size_t total;
    char *bytes = ggufw_bytes(writer, &total);
    FILE *file = fopen(path, "wb");
    bool done = file && fwrite(bytes, 1, total, file) == total;
    if (file && fclose(file) != 0) done = false;
    free(bytes);
    return done;
}

#endif
