/* npy.h - for tests: read .npy files, and .npz archives of them (tests/common/inflate.h undoes deflate).
 *
 *     int64_t shape[NPY_MAX_RANK];
 *     int rank;
 *     float *x = npy_load_f32("logits.npy", shape, &rank);     // malloc'ed, NULL: not to be had
 *
 *     npz z;
 *     npy a;
 *     if (npz_open(&z, "expected.npz") && npz_get(&z, "f01_t000", &a)) ... a.data, a.bytes ...
 *     npy_free(&a), npz_close(&z);
 *
 * Written for our golden files: version 1 to 3 headers, C order, little endian.
 */
#ifndef ZT_TEST_NPY_H
#define ZT_TEST_NPY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/inflate.h"

#define NPY_FN       __attribute__((unused)) static
#define NPY_MAX_RANK 10

typedef struct npy {
    char descr[8]; /* "<f4" "|u1" ... */
    int rank;
    int64_t shape[NPY_MAX_RANK];
    int64_t count;
    const void *data;
    size_t bytes;
    bool columns; /* Fortran order: the first index runs fastest. Only npz_get_any gives such */
    void *owned;
} npy;

/* A whole file, malloc'ed and closed by a zero; NULL when it cannot be read. */
NPY_FN void *npy_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        data = size < 0 ? NULL : malloc((size_t)size + 1);
        if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
            free(data);
            data = NULL;
        }
        if (data) {
            *count = (size_t)size;
            data[size] = 0;
        }
    }
    if (file) fclose(file);
    return data;
}

NPY_FN void npy_free(npy *a)
{
    free(a->owned);
    *a = (npy){0};
}

/* Over bytes that stay the caller's, in either order. */
NPY_FN bool npy_parse_any(const void *bytes, size_t total, npy *out)
{
    const uint8_t *b = bytes;
    if (total < 12 || memcmp(b, "\x93NUMPY", 6) != 0) return false;
    size_t start = b[6] == 1 ? 10 : 12;
    size_t len = b[6] == 1 ? b[8] | (size_t)b[9] << 8 : b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    char head[1024];
    if (len >= sizeof head || start + len > total) return false;
    memcpy(head, b + start, len);
    head[len] = 0;
    const char *descr = strstr(head, "'descr': '"), *shape = strstr(head, "'shape': (");
    if (!descr || !shape) return false;
    *out = (npy){.count = 1, .data = b + start + len, .bytes = total - start - len};
    out->columns = strstr(head, "'fortran_order': True") != NULL;
    sscanf(descr + 10, "%7[^']", out->descr);
    for (const char *cursor = shape + 10; *cursor && *cursor != ')';) {
        char *end;
        long long dim = strtoll(cursor, &end, 10);
        if (end == cursor || out->rank == NPY_MAX_RANK) return false;
        out->shape[out->rank++] = dim;
        out->count *= dim;
        cursor = end + strspn(end, ", ");
    }
    return true;
}

NPY_FN bool npy_parse(const void *bytes, size_t n, npy *out) { return npy_parse_any(bytes, n, out) && !out->columns; }

/* f32 or f64 (rounded) values of a file; NULL when it has others or cannot be read. */
NPY_FN float *npy_load_f32(const char *path, int64_t *shape, int *rank)
{
    size_t total;
    npy a;
    void *file = npy_file(path, &total);
    float *x = NULL;
    if (file && npy_parse(file, total, &a)) {
        size_t size = strcmp(a.descr, "<f4") == 0 ? 4 : strcmp(a.descr, "<f8") == 0 ? 8 : 0;
        if (size && a.bytes >= (size_t)a.count * size) x = malloc((size_t)a.count * sizeof *x + 1);
        for (int64_t i = 0; x && i < a.count; i++) {
            double d;
            if (size == 4) {
                memcpy(&x[i], (const char *)a.data + 4 * i, 4);
            } else {
                memcpy(&d, (const char *)a.data + 8 * i, 8);
                x[i] = (float)d;
            }
        }
        if (x && rank) *rank = a.rank;
        if (x && shape) memcpy(shape, a.shape, sizeof(int64_t) * (size_t)a.rank);
    }
    free(file);
    return x;
}

/* ---- npz: a zip archive --------------------------------------------------------------------- */

typedef struct npz {
    uint8_t *file;
    size_t n;
    size_t dir; /* the central directory */
    int count;
} npz;

NPY_FN uint32_t npz_le(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

NPY_FN bool npz_open(npz *archive, const char *path)
{
    *archive = (npz){0};
    archive->file = npy_file(path, &archive->n);
    for (size_t at = archive->file && archive->n >= 22 ? archive->n - 22 + 1 : 0; at-- > 0;) {
        if (memcmp(archive->file + at, "PK\5\6", 4) == 0) {
            archive->count = (int)npz_le(archive->file + at + 10, 2);
            archive->dir = npz_le(archive->file + at + 16, 4);
            return archive->dir <= at;
        }
    }
    return false;
}

NPY_FN void npz_close(npz *z)
{
    free(z->file);
    *z = (npz){0};
}

/* The member NAME.npy; free with npy_free. */
NPY_FN bool npz_get_any(const npz *archive, const char *name, npy *out)
{
    const uint8_t *e = archive->file + archive->dir;
    size_t len = strlen(name);
    for (int i = 0; i < archive->count; i++) {
        size_t total = npz_le(e + 28, 2);
        if (total == len + 4 && memcmp(e + 46, name, len) == 0 && memcmp(e + 46 + len, ".npy", 4) == 0) break;
        e += 46 + total + npz_le(e + 30, 2) + npz_le(e + 32, 2);
        if (i == archive->count - 1) return false;
    }
    size_t packed = npz_le(e + 20, 4), size = npz_le(e + 24, 4);
    const uint8_t *local = archive->file + npz_le(e + 42, 4);
    const uint8_t *data = local + 30 + npz_le(local + 26, 2) + npz_le(local + 28, 2);
    uint8_t *bytes = malloc(size + 1);
    bool done = bytes && archive->count > 0;
    if (done && npz_le(e + 10, 2) == 8)
        done = inflate_bytes(data, packed, bytes, size);
    else if (done)
        memcpy(bytes, data, size);
    if (!done || !npy_parse_any(bytes, size, out)) {
        free(bytes);
        return false;
    }
    out->owned = bytes;
    return true;
}

/* The same, in C order. */
NPY_FN bool npz_get(const npz *z, const char *name, npy *out)
{
    bool there = npz_get_any(z, name, out), columns = there && out->columns;
    if (columns) npy_free(out);
    return there && !columns;
}

#endif
