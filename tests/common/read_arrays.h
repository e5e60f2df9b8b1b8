/* read_arrays.h - for tests: the readers of npy, npz (and, where the test says so, pt and network JSON)
 * behind one table, and all that an open file says of itself, read as a user would. */
#ifndef ZT_TEST_READ_ARRAYS_H
#define ZT_TEST_READ_ARRAYS_H

#include "lib/io/array.h"

#include <stdlib.h>
#include <string.h>

typedef struct io_kind {
    const char *name;
    void *(*from)(zt_ctx *ctx, zt_source *s);
    void (*close)(void *file);
    int64_t (*count)(const void *file);
    const zt_array *(*get)(const void *file, int64_t i);
    int64_t (*find)(const void *file, const char *name);
    zt_status (*read)(void *file, int64_t i, size_t offset, void *dst, size_t n);
    zt_store (*store)(void *file);
} io_kind;

/* Defines io_KIND of lib/io/KIND.h, which the test includes. */
// clang-format off
#define IO_KIND(k)                                                                                 \
    static void *k##_from_(zt_ctx *ctx, zt_source *s)                                              \
    {                                                                                              \
        return zt_##k##_from(ctx, s);                                                              \
    }                                                                                              \
    static void k##_close_(void *f)                                                                \
    {                                                                                              \
        zt_##k##_close(f);                                                                         \
    }                                                                                              \
    static int64_t k##_count_(const void *f)                                                       \
    {                                                                                              \
        return zt_##k##_count(f);                                                                  \
    }                                                                                              \
    static const zt_array *k##_get_(const void *f, int64_t i)                                      \
    {                                                                                              \
        return zt_##k##_get(f, i);                                                                 \
    }                                                                                              \
    static int64_t k##_find_(const void *f, const char *name)                                      \
    {                                                                                              \
        return zt_##k##_find(f, name);                                                             \
    }                                                                                              \
    static zt_status k##_read_(void *f, int64_t i, size_t at, void *dst, size_t n)                 \
    {                                                                                              \
        return zt_##k##_read(f, i, at, dst, n);                                                    \
    }                                                                                              \
    static zt_store k##_store_(void *f)                                                            \
    {                                                                                              \
        return zt_##k##_store(f);                                                                  \
    }                                                                                              \
    static const io_kind io_##k = {#k,       k##_from_, k##_close_, k##_count_,                    \
                                   k##_get_, k##_find_, k##_read_,  k##_store_};
// clang-format on

__attribute__((unused)) static bool io_has_type(const zt_array *e) { return e->type.rank >= 0 && e->type.dtype < ZT_DTYPE_COUNT; }

/* Tensor i, malloc'ed, read at once; NULL: it cannot be, or its parts contradict its whole. */
__attribute__((unused)) static uint8_t *io_read(const io_kind *reader, void *f, int64_t i, bool *sound)
{
    const zt_array *e = reader->get(f, i);
    uint8_t *all = malloc(e->bytes + 1), piece[7];
    if (!all || reader->read(f, i, 0, all, e->bytes) != ZT_OK) {
        free(all);
        return NULL;
    }
    for (size_t at = e->bytes, turn = 0; at && turn < 40; turn++) { /* backwards, cutting elements */
        size_t size = at < sizeof piece ? at : sizeof piece;
        at -= size;
        if (reader->read(f, i, at, piece, size) != ZT_OK || memcmp(piece, all + at, size) != 0) *sound = false;
    }
    return all;
}

/* Tensors larger than this are not read: a fuzzer has no time for them. */
static size_t io_most = SIZE_MAX;

/* Reads all tensors. The status is the context's; *sound turns false when answers contradict. */
__attribute__((unused)) static void io_walk(const io_kind *reader, void *f, zt_ctx *ctx, bool *sound)
{
    zt_store store = reader->store(f);
    for (int64_t i = 0; i < reader->count(f) && zt_ctx_status(ctx) == ZT_OK; i++) {
        const zt_array *e = reader->get(f, i);
        zt_type type;
        int64_t handle;
        if (reader->find(f, e->name) != i || !e->dtype || e->rank < 0 || (io_has_type(e) && zt_type_bytes(&e->type) != e->bytes))
            *sound = false;
        if (e->bytes <= io_most) free(io_read(reader, f, i, sound));
        if (io_has_type(e) && (store.find(store.user, e->name, &type, &handle) != ZT_OK || !zt_type_equal(&type, &e->type)))
            *sound = false;
    }
    if (zt_ctx_status(ctx) != ZT_OK) *sound = true; /* what could not be read contradicts nothing */
}

/* The same of bytes in memory, whose reader may hold `most` bytes: the status it all ends with. */
__attribute__((unused)) static zt_status io_try(const io_kind *reader, const void *bytes, size_t count, size_t most, bool *sound)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return ZT_ENOMEM;
    zt_mem_limit(ctx, most);
    zt_source *in = zt_source_memory(ctx, "made", bytes, count);
    void *f = in ? reader->from(ctx, in) : NULL;
    if (f)
        io_walk(reader, f, ctx, sound);
    else if (zt_ctx_status(ctx) == ZT_OK)
        *sound = false;
    if (f) reader->close(f);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) *sound = false;
    zt_status st = zt_ctx_status(ctx);
    zt_ctx_free(ctx);
    return st;
}

#endif
