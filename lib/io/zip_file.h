/* zip_file.h - private to lib/io/zip*.c: what is kept of an open archive. */
#ifndef ZT_ZIP_FILE_H
#define ZT_ZIP_FILE_H

#include "lib/io/zip.h"

#include <pthread.h>

enum { /* records of the format: what they begin with */
       ZIP_LOCAL = 0x04034b50,
       ZIP_DESCRIPTOR = 0x08074b50,
       ZIP_ENTRY = 0x02014b50,
       ZIP_END64 = 0x06064b50,
       ZIP_LOCATOR64 = 0x07064b50,
       ZIP_END = 0x06054b50
};
enum { /* and their bytes, without names and the like */
       ZIP_LOCAL_BYTES = 30,
       ZIP_ENTRY_BYTES = 46,
       ZIP_END64_BYTES = 56,
       ZIP_LOCATOR64_BYTES = 20,
       ZIP_END_BYTES = 22
};
enum { ZIP_FLAG_CRYPT = 1 | 1 << 6 | 1 << 13, ZIP_FLAG_DESCRIPTOR = 1 << 3, ZIP_FLAG_UTF8 = 1 << 11 };
enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

/* A member on its way from its beginning to its end. */
typedef struct zip_cursor zip_cursor;

enum { ZIP_WINDOW = 4096 };

struct zt_zip {
    zt_ctx *ctx;
    const zt_source *source;
    const char *file; /* its name */
    zt_arena *texts;
    zt_zip_entry *entries;
    bool *checked; /* its CRC-32 is right */
    int64_t count;
    zt_map *names;
    pthread_mutex_t lock; /* of the cursor and of `checked` */
    zip_cursor *cursor;   /* NULL until something is read */
    uint64_t window_at;   /* bytes of the file that were read together: headers lie close */
    size_t window_size;
    uint8_t window[ZIP_WINDOW];
};

void zt_zip_cursor_free(zt_zip *zip);
/* `size` bytes of the file, at most ZIP_WINDOW, with those behind them. Not from several threads. */
zt_status zt_zip_peek(zt_zip *zip, uint64_t offset, void *dst, size_t size);

#endif
