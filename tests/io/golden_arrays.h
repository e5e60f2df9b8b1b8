/* golden_arrays.h - for tests: holds a reader to a golden set of formats/: sound files equal their
 * expected values to the bit, hostile ones are refused within 2 s and 64 MiB beyond their size, and
 * every truncation of a small file is either read or refused as bad data. */
#ifndef ZT_TEST_GOLDEN_ARRAYS_H
#define ZT_TEST_GOLDEN_ARRAYS_H

#include <jansson.h>
#include <time.h>

#include "tests/common/golden.h"
#include "tests/common/read_arrays.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"
#include "tests/common/tar.h"

typedef struct golden_io {
    const char *set;                          /* "npy" */
    const char *list, *name;                  /* members of valid.json: "arrays", "member" */
    const char *dtype;                        /* the word that the reader gives: "descr" */
    const io_kind *(*kind)(const char *file); /* whose file it is, by its name */
    char root[4096];
} golden_io;

#define GOLDEN_FN __attribute__((unused)) static

GOLDEN_FN const char *golden_path(const golden_io *g, const char *file)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", g->root, file);
    return path;
}

GOLDEN_FN const char *golden_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

GOLDEN_FN bool golden_tensor_is(const golden_io *g, const io_kind *reader, void *f, int64_t i, const json_t *want,
                                const npz *archive)
{
    const zt_array *e = reader->get(f, i);
    const json_t *shape = json_object_get(want, "shape");
    npy a = {0};
    bool sound = true, same = strcmp(e->name, golden_text(want, g->name)) == 0 &&
                              strcmp(e->dtype, golden_text(want, g->dtype)) == 0 && (size_t)e->rank == json_array_size(shape);
    for (int d = 0; same && d < e->rank; d++) same = e->dim[d] == json_integer_value(json_array_get(shape, (size_t)d));
    uint8_t *bytes = same ? io_read(reader, f, i, &sound) : NULL;
    same = bytes && sound && npz_get(archive, golden_text(want, "key"), &a) && a.bytes == e->bytes &&
           memcmp(a.data, bytes, e->bytes) == 0;
    free(bytes);
    npy_free(&a);
    return same;
}

GOLDEN_FN void golden_valid(const golden_io *g, const json_t *item, const npz *archive)
{
    const char *file = golden_text(item, "file"), *verdict = golden_text(item, "verdict");
    const json_t *list = json_object_get(item, g->list);
    const io_kind *reader = g->kind(file);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *in = zt_source_open(ctx, golden_path(g, file));
    void *f = in ? reader->from(ctx, in) : NULL;
    bool must = strcmp(verdict, "read") == 0, sound = true;
    bool skips = strcmp(verdict, "reject-or-skip") == 0; /* what is read is not told */
    bool same = f && (size_t)reader->count(f) == json_array_size(list);
    for (int64_t i = 0; same && i < reader->count(f); i++)
        same = golden_tensor_is(g, reader, f, i, json_array_get(list, (size_t)i), archive);
    if (f) io_walk(reader, f, ctx, &sound);
    zt_status st = zt_ctx_status(ctx);
    ok(sound && (f ? same || skips : !must && (st == ZT_EDATA || st == ZT_ENOTSUP)), "%s: %s%s", file,
       f ? "as expected" : "refused: ", f ? "" : zt_ctx_error(ctx));
    if (f) reader->close(f);
    zt_source_close(in);
    if (zt_mem_get(ctx).blocks) ok(false, "%s: nothing leaks", file);
    zt_ctx_free(ctx);
}

GOLDEN_FN void golden_cuts(const golden_io *g, const json_t *item)
{
    size_t count = 0, cut = 0;
    const char *file = golden_text(item, "file");
    uint8_t *bytes = npy_file(golden_path(g, file), &count);
    bool sound = bytes != NULL, always = true;
    if (count > 3000) {
        free(bytes);
        return;
    }
    for (; sound && always && cut < count; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* so that a sanitizer sees one byte too far */
        memcpy(exact, bytes, cut);
        zt_status st = io_try(g->kind(file), exact, cut, count + (64 << 20), &sound);
        always = st == ZT_OK || st == ZT_EDATA || st == ZT_ENOTSUP;
        free(exact);
    }
    ok(sound && always, "%s: read or refused wherever it is cut (%zu)", file, cut);
    free(bytes);
}

GOLDEN_FN void golden_bad(const golden_io *g, const json_t *item, const uint8_t *tar, size_t count)
{
    const char *file = golden_text(item, "file"), *verdict = golden_text(item, "verdict");
    size_t bytes = 0;
    const uint8_t *data = tar_member(tar, count, file, &bytes);
    bool must = strcmp(verdict, "reject") == 0, sound = data != NULL;
    clock_t start = clock();
    zt_status st = sound ? io_try(g->kind(file), data, bytes, bytes + (64 << 20), &sound) : ZT_EBUG;
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    bool right = st == ZT_EDATA || (!must && (st == ZT_OK || st == ZT_ENOTSUP));
    ok(sound && right && seconds < 2, "%s: %s (%s)", file, zt_status_name(st), golden_text(item, "reason"));
    if (!right || !sound) diag("%s: %s, sound %d, %.2f s", file, verdict, sound, seconds);
}

GOLDEN_FN json_t *golden_cases(const golden_io *g, const char *file)
{
    json_error_t e;
    json_t *j = json_load_file(golden_path(g, file), 0, &e);
    ok(json_array_size(json_object_get(j, "cases")) > 0, "%s lists cases", file);
    return j;
}

/* The whole set, if it is there. */
GOLDEN_FN void golden_io_run(golden_io *g)
{
    npz archive;
    size_t count = 0, i;
    json_t *j, *item;
    char set[64];
    snprintf(set, sizeof set, "formats/%s", g->set);
    if (!golden_holds(set, g->root)) return;
    if (golden_has(golden_path(g, "valid.json"))) {
        ok(npz_open(&archive, golden_path(g, "expected.npz")), "there are expected values");
        j = golden_cases(g, "valid.json");
        json_array_foreach(json_object_get(j, "cases"), i, item)
        {
            golden_valid(g, item, &archive);
            golden_cuts(g, item);
        }
        npz_close(&archive);
        json_decref(j);
    }
    if (golden_has(golden_path(g, "bad.json"))) {
        uint8_t *tar = tar_open(golden_path(g, "bad.tar.gz"), &count);
        ok(tar != NULL, "there are hostile files");
        j = golden_cases(g, "bad.json");
        json_array_foreach(json_object_get(j, "cases"), i, item) golden_bad(g, item, tar, count);
        json_decref(j);
        free(tar);
    }
}

#endif
