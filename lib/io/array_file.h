/* array_file.h - private to lib/io: what the readers of npy, npz, PyTorch's checkpoints and network JSON
 * share: a source that may be owned, arrays by number and name, bytes of an array, a store.
 *
 * A reader's own struct has a zt_array_file as its first member, so that a pointer to the one is a pointer
 * to the other, and a table of what differs:
 *
 *     struct zt_npz {
 *         zt_array_file base;
 *         zt_zip *zip;
 *         ...
 *     };
 */
#ifndef ZT_ARRAY_FILE_H
#define ZT_ARRAY_FILE_H

#include "lib/io/array.h"

typedef struct zt_array_file zt_array_file;

typedef struct zt_array_file_ops {
    const zt_array *(*get)(const zt_array_file *file, int64_t i);
    /* Bytes of an array; the range has been checked. */
    zt_status (*read)(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size);
    void (*close)(zt_array_file *file); /* frees what the reader's own struct holds */
} zt_array_file_ops;

struct zt_array_file {
    zt_ctx *ctx;
    const zt_array_file_ops *ops;
    const char *name;  /* of the file, for messages */
    zt_source *source; /* NULL: there are no bytes (a network's frame) */
    bool owns_source;
    zt_arena *arena; /* names, shapes and what else lives as long as the file */
    int64_t count;   /* of arrays */
    zt_map *names;   /* name of an array -> its number; NULL: one array, whose name is "" */
};

/* A reader's struct of `bytes` bytes, all 0 but its zt_array_file. With `owns` the source is closed with it,
 * and also on failure. NULL: no memory. */
void *zt_array_file_new(zt_ctx *ctx, const zt_array_file_ops *ops, size_t bytes, zt_source *source, bool owns);
void zt_array_file_close(zt_array_file *file); /* NULL: nothing */

int64_t zt_array_file_find(const zt_array_file *file, const char *name); /* index or -1 */
/* `size` bytes at `offset` of array i. ZT_EUSAGE: they do not lie within it. */
zt_status zt_array_file_read(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size);
zt_store zt_array_file_store(zt_array_file *file);

#endif
