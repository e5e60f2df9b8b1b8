/* hf_writer.h - for tests: make Hugging Face directories, sound ones and others.
 *
 *     hfw d = hfw_new();                                   // a folder of its own in /tmp
 *     hfw_text(&d, "config.json", "{...}");
 *     hfw_f32(&d, "model.embed_tokens.weight", 2, (int64_t[]){8, 4}, 0);
 *     hfw_save(&d, "model.safetensors");                   // the tensors since the last save
 *     ... d.path ...
 *     hfw_end(&d);                                         // removes the folder
 */
#ifndef ZT_TEST_HF_WRITER_H
#define ZT_TEST_HF_WRITER_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/common/gguf_writer.h"

typedef struct hfw {
    char path[64];
    ggufw_buf head, data;
} hfw;

GGUFW_FN hfw hfw_new(void)
{
    hfw d = {.path = "/tmp/zt-hf-XXXXXX"};
    if (!mkdtemp(d.path))
        abort();
    return d;
}

GGUFW_FN void hfw_end(hfw *d)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", d->path);
    if (system(command) != 0)
        abort();
    free(d->head.data);
    free(d->data.data);
    *d = (hfw){0};
}

/* "FOLDER/name", good until the next call. */
GGUFW_FN const char *hfw_path(const hfw *d, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    return path;
}

GGUFW_FN void hfw_bytes(hfw *d, const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(hfw_path(d, name), "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
}

GGUFW_FN void hfw_text(hfw *d, const char *name, const char *text)
{
    hfw_bytes(d, name, text, strlen(text));
}

GGUFW_FN void hfw_tensor(hfw *d, const char *name, const char *dtype, int rank, const int64_t *dim,
                         const void *data, size_t bytes)
{
    char text[400];
    size_t n = (size_t)snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                                d->head.n ? "," : "{", name, dtype);
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, i ? "," : "", dim[i]);
    n += (size_t)snprintf(text + n, sizeof text - n, "],\"data_offsets\":[%zu,%zu]}", d->data.n,
                          d->data.n + bytes);
    ggufw_put(&d->head, text, n);
    ggufw_put(&d->data, data, bytes);
}

/* "tensor":"file" for an index, appended to `map`, which begins as "". */
GGUFW_FN void hfw_map(char *map, size_t room, const char *tensor, const char *file)
{
    size_t n = strlen(map);
    snprintf(map + n, room - n, "%s\"%s\":\"%s\"", n ? "," : "", tensor, file);
}

GGUFW_FN void hfw_index(hfw *d, const char *name, const char *map)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":{%s}}", map);
    hfw_text(d, name, text);
}

/* Values first, first + 1, first + 2 ... */
GGUFW_FN void hfw_f32(hfw *d, const char *name, int rank, const int64_t *dim, float first)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    float *x = malloc(n * sizeof *x + 1);
    for (size_t i = 0; x && i < n; i++)
        x[i] = first + (float)i;
    if (!x)
        abort();
    hfw_tensor(d, name, "F32", rank, dim, x, n * sizeof *x);
    free(x);
}

GGUFW_FN void hfw_save(hfw *d, const char *name)
{
    ggufw_buf file = {0};
    if (!d->head.n)
        ggufw_put(&d->head, "{", 1);
    ggufw_put(&d->head, "}", 1);
    ggufw_put64(&file, d->head.n);
    ggufw_put(&file, d->head.data, d->head.n);
    ggufw_put(&file, d->data.data, d->data.n);
    hfw_bytes(d, name, file.data, file.n);
    free(file.data);
    d->head.n = d->data.n = 0;
}

#endif
