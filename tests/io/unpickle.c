/* unpickle.c - PyTorch's checkpoints of tests/io/pickles/make.py, sound, strange and hostile: names,
 * dtypes, shapes and bytes are those that torch reads, or the file is refused as bad data; one
 * warning names unknown globals and the tensors that are not read; nothing planted is executed.
 *
 *   unpickle [FOLDER]     default: pickles beside this program's folder
 */
#include <dirent.h>
#include <jansson.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/io/pt.h"

#include "tests/common/folder.h"
#include "tests/common/tap.h"

/* ---- warnings -------------------------------------------------------------------------------- */

typedef struct warnings {
    char unknown[4096], unread[4096];
    int lines, n_unknown, n_unread, others;
} warnings;

static void listen(void *user, zt_level level, const char *line)
{
    warnings *w = user;
    if (level != ZT_LOG_WARN) return;
    bool unknown = strstr(line, "unknown globals, kept as opaque values and not called: ");
    bool unread = strstr(line, "tensors that cannot be read: ");
    if (unknown) snprintf(w->unknown, sizeof w->unknown, "%s", line);
    if (unread) snprintf(w->unread, sizeof w->unread, "%s", line);
    w->lines++;
    w->n_unknown += unknown;
    w->n_unread += unread;
    w->others += !unknown && !unread;
}

/* Is each of these in the line, and the line there if and only if they are? */
static bool names_all(const json_t *names, const char *form, const char *line, int lines)
{
    size_t i, n = json_array_size(names);
    json_t *name;
    bool all = lines == (n > 0);
    json_array_foreach(names, i, name)
    {
        char text[512];
        snprintf(text, sizeof text, form, json_string_value(name));
        all = all && strstr(line, text);
    }
    return all;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static bool tensor_is(zt_pt *t, int64_t i, const json_t *want)
{
    const zt_array *a = zt_pt_get(t, i);
    const json_t *shape = json_object_get(want, "shape");
    bool same = strcmp(a->name, text_of(want, "name")) == 0 && strcmp(a->dtype, text_of(want, "dtype")) == 0 &&
                (size_t)a->rank == json_array_size(shape) &&
                (json_int_t)a->bytes == json_integer_value(json_object_get(want, "bytes"));
    for (int d = 0; same && d < a->rank; d++) same = a->dim[d] == json_integer_value(json_array_get(shape, (size_t)d));
    uint8_t *bytes = same ? malloc(a->bytes + 1) : NULL;
    same = bytes && zt_pt_read(t, i, 0, bytes, a->bytes) == ZT_OK &&
           crc32(0, bytes, (uInt)a->bytes) == (uLong)json_integer_value(json_object_get(want, "crc32"));
    free(bytes);
    return same;
}

static bool tensors_are(zt_pt *t, const json_t *want)
{
    bool same = (size_t)zt_pt_count(t) == json_array_size(want);
    for (int64_t i = 0; same && i < zt_pt_count(t); i++) same = tensor_is(t, i, json_array_get(want, (size_t)i));
    return same;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void try_file(const char *set, const json_t *want)
{
    warnings w = {0};
    char path[8192];
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/%s", set, text_of(want, "file"));
    zt_log_set(ctx, ZT_LOG_WARN, listen, &w);
    zt_pt *t = zt_pt_open(ctx, path);
    bool right;
    if (strcmp(text_of(want, "verdict"), "read") == 0)
        right = t && tensors_are(t, json_object_get(want, "tensors")) && !w.others && w.lines <= 1 &&
                names_all(json_object_get(want, "globals"), "%s", w.unknown, w.n_unknown) &&
                names_all(json_object_get(want, "unread"), "'%s' (", w.unread, w.n_unread);
    else
        right = !t && zt_ctx_status(ctx) == ZT_EDATA;
    if (!right) diag("%s: %s; %s; %s", t ? "opened" : "refused", zt_ctx_error(ctx), w.unknown, w.unread);
    ok(right, "%s: %s", text_of(want, "file"), text_of(want, "verdict"));
    zt_pt_close(t);
    if (zt_mem_get(ctx).blocks) ok(false, "%s: nothing leaks", path);
    zt_ctx_free(ctx);
}

/* Opening with each allocation failing once: out of memory, or bad data as ever, and nothing leaks.
 */
static void test_no_memory(const char *set, const json_t *want)
{
    char path[8192];
    bool sound = true, last = false;
    uint64_t calls = 0;
    snprintf(path, sizeof path, "%s/%s", set, text_of(want, "file"));
    for (uint64_t i = 1; sound && !last; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_fail(ctx, i, false);
        zt_pt *t = zt_pt_open(ctx, path);
        zt_status st = zt_ctx_status(ctx);
        last = zt_mem_get(ctx).calls < i;
        sound = t ? st == ZT_OK : st == ZT_ENOMEM || (last && st == ZT_EDATA);
        zt_pt_close(t);
        sound = sound && zt_mem_get(ctx).blocks == 0;
        zt_ctx_free(ctx);
        calls = i;
    }
    ok(sound, "%s: each of %d allocations fails", text_of(want, "file"), (int)calls - 1);
}

static int count_kind(const json_t *list, const char *kind)
{
    size_t i;
    json_t *c;
    int n = 0;
    json_array_foreach(list, i, c) n += strcmp(text_of(c, "kind"), kind) == 0;
    return n;
}

static bool is_empty(const char *path)
{
    DIR *directory = opendir(path);
    int n = 0;
    while (directory && readdir(directory)) n++;
    if (directory) closedir(directory);
    return n == 2;
}

int main(int argc, char **argv)
{
    char self[4096], set[4200], path[4300], *whole;
    snprintf(self, sizeof self, "%s", argv[0]);
    snprintf(set, sizeof set, "%s/../pickles", dirname(self));
    whole = realpath(argc > 1 ? argv[1] : set, NULL);
    if (!ok(whole != NULL, "there is a folder of pickles") || !folder_make("pickles") || chdir(folder) != 0) return 1;
    snprintf(path, sizeof path, "%.4095s/index.json", whole);
    json_t *list = json_load_file(path, 0, NULL), *c;
    size_t i;
    ok(count_kind(list, "accepted") >= 300, "300 that weights_only accepts");
    ok(count_kind(list, "unknown") >= 50, "50 that it does not");
    json_array_foreach(list, i, c) try_file(whole, c);
    for (i = 0; i < json_array_size(list); i += 20) test_no_memory(whole, json_array_get(list, i));
    json_decref(list);
    free(whole);
    ok(is_empty(folder), "nothing was executed: no planted file is there");
    ok(chdir("/") == 0 && rmdir(folder) == 0, "tidy");
    return tap_done();
}
