/* tar.h - for tests: members of our golden .tar.gz archives, in memory.
 *
 *     size_t n, bytes;
 *     uint8_t *tar = tar_open("bad.tar.gz", &n);             // malloc'ed
 *     const uint8_t *file = tar_member(tar, n, "a.gguf", &bytes);
 *
 * Written for our golden files: plain members with names below 100 bytes.
 */
#ifndef ZT_TEST_TAR_H
#define ZT_TEST_TAR_H

#include "tests/common/npy.h"

/* NULL when it cannot be read. */
NPY_FN uint8_t *tar_open(const char *path, size_t *count)
{
    size_t packed;
    uint8_t *gz = npy_file(path, &packed), *tar = NULL;
    if (gz && packed > 18 && gz[0] == 0x1f && gz[1] == 0x8b) {
        size_t at = 10;
        *count = npz_le(gz + packed - 4, 4);
        if (gz[3] & 8) /* the file's name */
            at += strlen((char *)gz + at) + 1;
        tar = malloc(*count + 1);
        if (tar && !inflate_bytes(gz + at, packed - at - 8, tar, *count)) {
            free(tar);
            tar = NULL;
        }
    }
    free(gz);
    return tar;
}

/* The member at byte `at`, and where the next one is; NULL after the last. */
NPY_FN const uint8_t *tar_next(const uint8_t *tar, size_t count, size_t *at, const char **name, size_t *bytes)
{
    if (*at + 512 > count || !tar[*at]) return NULL;
    const uint8_t *head = tar + *at;
    size_t size = strtoull((const char *)head + 124, NULL, 8);
    if (*at + 512 + size > count) return NULL;
    *name = (const char *)head;
    *bytes = size;
    *at += 512 + (size + 511) / 512 * 512;
    return head + 512;
}

NPY_FN const uint8_t *tar_member(const uint8_t *tar, size_t count, const char *name, size_t *bytes)
{
    const char *is;
    const uint8_t *data;
    for (size_t at = 0; (data = tar_next(tar, count, &at, &is, bytes));)
        if (strncmp(is, name, 100) == 0) return data;
    return NULL;
}

#endif
