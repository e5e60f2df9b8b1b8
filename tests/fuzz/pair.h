/* pair.h - for fuzz targets of readers that open two files of a directory: up to its first byte 0 an input is the text of the
 * one, behind it are the bytes of the other; or that open one file, which is the input. The directory is made once, and removed
 * at the end of the process.
 */
#ifndef ZT_FUZZ_PAIR_H
#define ZT_FUZZ_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char pair_directory[64];
static const char *pair_names[2];

/* The path of a file in the directory; good until the next call. */
static const char *pair_path(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", pair_directory, name);
    return path;
}

static void pair_remove(void)
{
    for (int i = 0; i < 2; i++) unlink(pair_path(pair_names[i]));
    rmdir(pair_directory);
}

static void pair_put(const char *name, const void *bytes, size_t size)
{
    FILE *out = fopen(pair_path(name), "wb");
    if (!out || (size && fwrite(bytes, 1, size, out) != size) || fclose(out) != 0) abort();
}

/* Makes the directory, in which there are at most two files of these names. */
static void pair_make(const char *first, const char *second)
{
    if (*pair_directory) return;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(pair_directory, sizeof pair_directory, "%s/zt-fuzz-XXXXXX", folder);
    if (!mkdtemp(pair_directory)) abort();
    pair_names[0] = first;
    pair_names[1] = second;
    atexit(pair_remove);
}

/* The input is one file. */
__attribute__((unused)) static void pair_put_only(const char *name, const void *input, size_t size)
{
    pair_make(name, name);
    pair_put(name, input, size);
}

/* Writes both files. */
__attribute__((unused)) static void pair_write(const char *text_name, const char *bytes_name, const void *input, size_t size)
{
    const char *end = size ? memchr(input, 0, size) : NULL;
    size_t text = end ? (size_t)(end - (const char *)input) : size;
    pair_make(text_name, bytes_name);
    pair_put(text_name, input, text);
    pair_put(bytes_name, end ? end + 1 : "", end ? size - text - 1 : 0);
}

#endif
