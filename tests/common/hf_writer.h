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
    if (!mkdtemp(d.path)) abort();
    return d;
}

GGUFW_FN void hfw_end(hfw *directory)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", directory->path);
    if (system(command) != 0) abort();
    free(directory->head.data);
    free(directory->data.data);
    *directory = (hfw){0};
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
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

GGUFW_FN void hfw_text(hfw *d, const char *name, const char *text) { hfw_bytes(d, name, text, strlen(text)); }

GGUFW_FN void hfw_tensor(hfw *directory, const char *name, const char *dtype, int rank, const int64_t *dim, const void *data,
                         size_t bytes)
{
    char text[400];
    size_t size =
        (size_t)snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", directory->head.n ? "," : "{", name, dtype);
    for (int i = 0; i < rank; i++) size += (size_t)snprintf(text + size, sizeof text - size, "%s%" PRId64, i ? "," : "", dim[i]);
    size += (size_t)snprintf(text + size, sizeof text - size, "],\"data_offsets\":[%zu,%zu]}", directory->data.n,
                             directory->data.n + bytes);
    ggufw_put(&directory->head, text, size);
    ggufw_put(&directory->data, data, bytes);
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
GGUFW_FN void hfw_f32(hfw *directory, const char *name, int rank, const int64_t *dim, float first)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++) count *= (size_t)dim[i];
    float *x = malloc(count * sizeof *x + 1);
    for (size_t i = 0; x && i < count; i++) x[i] = first + (float)i;
    if (!x) abort();
    hfw_tensor(directory, name, "F32", rank, dim, x, count * sizeof *x);
    free(x);
}

GGUFW_FN void hfw_save(hfw *directory, const char *name)
{
    ggufw_buf file = {0};
    if (!directory->head.n) ggufw_put(&directory->head, "{", 1);
    ggufw_put(&directory->head, "}", 1);
    ggufw_put64(&file, directory->head.n);
    ggufw_put(&file, directory->head.data, directory->head.n);
    ggufw_put(&file, directory->data.data, directory->data.n);
    hfw_bytes(directory, name, file.data, file.n);
    free(file.data);
    directory->head.n = directory->data.n = 0;
}

#endif
