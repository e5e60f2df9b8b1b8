/* gather.h - private to lib/io: read an array of any strides and byte order as row-major little
 * endian bytes.
 *
 * Where elements lie close, the bytes that they span are held once and picked from: of one array at
 * a time, and never much more than it has itself. */
#ifndef ZT_GATHER_H
#define ZT_GATHER_H

#include "lib/io/array.h"

/* `size` raw bytes at `offset`. */
typedef zt_status zt_fetch(void *user, uint64_t offset, void *dst, size_t size);

typedef struct zt_layout {
    int rank;
    const int64_t *dim, *stride; /* strides in elements, none negative */
    size_t item;                 /* bytes of an element, at most 16 */
    size_t swap;                 /* bytes that are reversed together; 1: none are */
    uint64_t begin;              /* raw byte of the first element */
    bool forward;                /* raw bytes come cheaply in their order only (a deflated member) */
} zt_layout;

/* How many elements, and the raw bytes that they span from `begin` on: false when it overflows. */
bool zt_layout_check(const zt_layout *layout, int64_t *count, uint64_t *span);

typedef struct zt_gather zt_gather;
zt_gather *zt_gather_new(zt_ctx *ctx);
void zt_gather_free(zt_gather *gather);
/* `size` bytes at `offset` of the array whose number is `key`; the layout has been checked. From any
 * thread, if fetch is. */
zt_status zt_gather_read(zt_gather *gather, const zt_layout *layout, int64_t key, size_t offset, void *dst, size_t size,
                         zt_fetch *fetch, void *user);

#endif
