/* arrays.h - for tests of containers of arrays, npz and pt: made arrays are written, found again to
 * the bit and written twice to the same bytes. */
#ifndef ZT_TEST_ARRAYS_H
#define ZT_TEST_ARRAYS_H

#include "lib/base/base.h"
#include "tests/common/folder.h"
#include "tests/common/read_arrays.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#define ARRAYS_FN __attribute__((unused)) static

/* ---- what is written ------------------------------------------------------------------------- */

typedef struct made_array {
    const char *name;
    zt_dtype dtype;
    int rank;
    int64_t dim[4];
} made_array;

/* Byte i is 37 i + 11; of booleans i % 2. */
ARRAYS_FN void made_fill(uint8_t *p, size_t n, zt_dtype t)
{
    for (size_t i = 0; i < n; i++) p[i] = t == ZT_BOOL ? (uint8_t)(i % 2) : (uint8_t)(i * 37 + 11);
}

/* Is array i of an open file this one? */
ARRAYS_FN bool made_is(const io_kind *reader, void *f, int64_t i, const made_array *made)
{
    const zt_array *e = reader->get(f, i);
    zt_type its_type = zt_type_make(made->dtype, made->rank, made->dim);
    uint8_t *want = malloc(e->bytes + 1), *got = malloc(e->bytes + 1);
    made_fill(want, e->bytes, made->dtype);
    bool same = strcmp(e->name, made->name) == 0 && zt_type_equal(&e->type, &its_type) &&
                reader->read(f, i, 0, got, e->bytes) == ZT_OK && memcmp(want, got, e->bytes) == 0;
    free(want);
    free(got);
    return same;
}

/* ---- writers --------------------------------------------------------------------------------- */

typedef struct arrays_writer {
    void *(*open)(zt_ctx *ctx, zt_sink *out);
    zt_status (*begin)(void *w, const char *name, const zt_type *t);
    zt_status (*write)(void *w, const void *bytes, size_t n);
    zt_status (*finish)(void *w);
    void (*free)(void *w);
} arrays_writer;

/* Defines arrays_KIND of lib/io/KIND.h, which the test includes. */
// clang-format off
#define ARRAYS_WRITER(k)                                                                           \
    static void *k##_writer_(zt_ctx *ctx, zt_sink *out)                                            \
    {                                                                                              \
        return zt_##k##_writer_new(ctx, out);                                                      \
    }                                                                                              \
    static zt_status k##_begin_(void *w, const char *name, const zt_type *t)                       \
    {                                                                                              \
        return zt_##k##_begin(w, name, t);                                                         \
    }                                                                                              \
    static zt_status k##_write_(void *w, const void *bytes, size_t n)                              \
    {                                                                                              \
        return zt_##k##_write(w, bytes, n);                                                        \
    }                                                                                              \
    static zt_status k##_finish_(void *w)                                                          \
    {                                                                                              \
        return zt_##k##_finish(w);                                                                 \
    }                                                                                              \
    static void k##_writer_free_(void *w)                                                          \
    {                                                                                              \
        zt_##k##_writer_free(w);                                                                   \
    }                                                                                              \
    static const arrays_writer arrays_##k = {k##_writer_, k##_begin_, k##_write_, k##_finish_,     \
                                             k##_writer_free_};
// clang-format on

/* Each in two pieces. */
ARRAYS_FN zt_status made_write(zt_ctx *ctx, const arrays_writer *to, const char *path, const made_array *made, int n_made)
{
    zt_sink *out = zt_sink_open(ctx, path, true);
    void *w = out ? to->open(ctx, out) : NULL;
    zt_status st = w ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; st == ZT_OK && i < n_made; i++) {
        zt_type type = zt_type_make(made[i].dtype, made[i].rank, made[i].dim);
        size_t size = zt_type_bytes(&type), half = size / 2;
        uint8_t *bytes = malloc(size + 1);
        made_fill(bytes, size, type.dtype);
        st = to->begin(w, made[i].name, &type);
        if (st == ZT_OK) st = to->write(w, bytes, half);
        if (st == ZT_OK) st = to->write(w, bytes + half, size - half);
        free(bytes);
    }
    if (st == ZT_OK) st = to->finish(w);
    if (st == ZT_OK) st = zt_sink_commit(out);
    to->free(w);
    zt_sink_close(out);
    return st;
}

/* Leaves `file` in the test's folder. */
ARRAYS_FN void test_written(zt_ctx *ctx, const io_kind *reader, const arrays_writer *to, const char *file, const made_array *made,
                            int n_made)
{
    size_t total = 0, m = 0;
    bool done = made_write(ctx, to, under(file), made, n_made) == ZT_OK;
    zt_source *in = done ? zt_source_open(ctx, under(file)) : NULL;
    void *f = in ? reader->from(ctx, in) : NULL;
    ok(f && reader->count(f) == n_made, "what is written opens%s", zt_ctx_error(ctx));
    for (int i = 0; f && i < n_made; i++) ok(made_is(reader, f, i, &made[i]), "array '%s' is as it was written", made[i].name);
    if (f) reader->close(f);
    zt_source_close(in);
    done = done && made_write(ctx, to, under("again"), made, n_made) == ZT_OK;
    uint8_t *a = npy_file(under(file), &total), *b = npy_file(under("again"), &m);
    ok(done && a && b && total == m && memcmp(a, b, total) == 0, "written twice: the same bytes");
    free(a);
    free(b);
    unlink(under("again"));
}

/* What a writer is asked that it must not do; the context is clear again. */
ARRAYS_FN void status_is(zt_ctx *ctx, zt_status got, zt_status want)
{
    ok(got == want, "refused: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

#endif
