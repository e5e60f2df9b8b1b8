/* golden_set.h - for tests: a set of formats/ in the golden folder, "gguf" or "safetensors", with
 * what its lists say: sound files beside expected.npz, and the hostile ones of bad.tar.gz. */
#ifndef ZT_TEST_GOLDEN_SET_H
#define ZT_TEST_GOLDEN_SET_H

#include "lib/base/base.h"

#include <jansson.h>
#include <string.h>

#include "tests/common/golden.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"
#include "tests/common/tar.h"

#define GOLDEN_SET_FN __attribute__((unused)) static

static char golden_set[4096]; /* the set's folder */

GOLDEN_SET_FN const char *in_set(const char *file)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", golden_set, file);
    return path;
}

GOLDEN_SET_FN const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* May a hostile file of the list open after all, if nothing comes of it? */
GOLDEN_SET_FN bool may_open(const json_t *want) { return strcmp(text_of(want, "verdict"), "reject-or-safe") == 0; }

/* What one format makes of a case. */
typedef struct set_kind {
    /* A sound file by its path: all as the case and its arrays say. */
    bool (*is)(zt_ctx *ctx, const char *path, const json_t *want, const npz *z);
    /* A member of the archive: refused, or safe where it may be. */
    bool (*refuses)(zt_ctx *ctx, const json_t *want, const uint8_t *tar, size_t n);
    size_t flags; /* of json_load_file */
} set_kind;

GOLDEN_SET_FN void set_sound(zt_ctx *ctx, const set_kind *k, const json_t *cases)
{
    npz archive;
    if (!ok(npz_open(&archive, in_set("expected.npz")), "expected.npz")) return;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *want = json_array_get(cases, i);
        const char *file = text_of(want, "file");
        ok(k->is(ctx, in_set(file), want, &archive), "%s: all that it holds, to the bit %s", file, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    npz_close(&archive);
}

/* In 16 MiB. */
GOLDEN_SET_FN void set_hostile(zt_ctx *ctx, const set_kind *k, const json_t *cases)
{
    size_t count = 0, wrong = 0;
    uint8_t *tar = tar_open(in_set("bad.tar.gz"), &count);
    if (!ok(tar != NULL, "bad.tar.gz")) return;
    zt_mem_limit(ctx, (size_t)16 << 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *want = json_array_get(cases, i);
        bool right = k->refuses(ctx, want, tar, count);
        wrong += !right;
        if (!right) diag("%s: %s", text_of(want, "file"), text_of(want, "reason"));
    }
    zt_mem_limit(ctx, 0);
    ok(wrong == 0 && json_array_size(cases) > 0, "%zu hostile files are refused (%zu are not)", json_array_size(cases), wrong);
    free(tar);
}

GOLDEN_SET_FN void set_list(zt_ctx *ctx, const set_kind *k, const char *list,
                            void (*test)(zt_ctx *, const set_kind *, const json_t *))
{
    json_error_t error;
    if (!golden_has(in_set(list))) return;
    json_t *root = json_load_file(in_set(list), k->flags | JSON_ALLOW_NUL, &error);
    const json_t *cases = json_object_get(root, "cases");
    if (ok(json_is_array(cases), "%s %s", list, root ? "" : error.text)) test(ctx, k, cases);
    json_decref(root);
}

/* The whole set, as far as the golden folder has it; without such a folder a skip. */
GOLDEN_SET_FN void set_run(zt_ctx *ctx, const char *name, const set_kind *k)
{
    if (!golden_folder()) {
        skip("no golden data");
        return;
    }
    snprintf(golden_set, sizeof golden_set, "%s/formats/%s", golden_folder(), name);
    set_list(ctx, k, "valid.json", set_sound);
    set_list(ctx, k, "bad.json", set_hostile);
}

#endif
