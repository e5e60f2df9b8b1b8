/* checkpoint_arrays.c - npy and network JSON as containers of checkpoint.h: what they hold passes
 * through every other container and comes back the same bytes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/convert_checkpoint.h"
#include "tests/common/folder.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

static bool same_files(const char *a, const char *b)
{
    size_t count = 0, m = 0;
    char *x = npy_file(a, &count), *y = npy_file(b, &m);
    bool same = x && y && count == m && memcmp(x, y, count) == 0;
    free(x);
    free(y);
    return same;
}

static bool write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool done = f && fwrite(bytes, 1, n, f) == n;
    return (!f || fclose(f) == 0) && done;
}

static const char *const through[] = {"x.gguf", "x.safetensors", "x.npz", "x.pt"};
enum { THROUGH = sizeof through / sizeof *through };

/* ---- networks -------------------------------------------------------------------------------- */

static const char network[] = " {\"id\":\"n\",\"depth\":1,\"layers_per_cell\":3,\n\"layers\":["
                              "{\"type\":\"Dense\",\"weights\":\"zawBPwAwBL80My+9\",\"scale\":1.50},\n"
                              "{\"type\":\"Dense\",\"dtype\":\"int4\",\"native\":true,\"weights\":\"AQIDBA==\"},"
                              "{\"type\":\"Parallel\",\"parallel_branches\":[{\"dtype\":\"int16\",\"native\":true,"
                              "\"weights\":\"AQIDBA==\"},{\"weights\":\"\"}]}]} ";

static int64_t keys_of(zt_ctx *ctx, const char *path, const char *key)
{
    zt_checkpoint *c = zt_checkpoint_open(ctx, path, 0);
    zt_meta *m = c ? zt_checkpoint_meta(c) : NULL;
    int64_t n = m && zt_meta_find(m, key) >= 0 ? zt_meta_count(m) : -1;
    zt_checkpoint_close(c);
    return n;
}

static void test_networks(zt_ctx *ctx)
{
    ok(write_file(under("a.json"), network, sizeof network - 1), "a network");
    ok(ckpt_convert(ctx, under("a.json"), under("b.json"), NULL) && same_files(under("a.json"), under("b.json")),
       "to itself: the same bytes %s", zt_ctx_error(ctx));
    for (int i = 0; i < THROUGH; i++) {
        ok(ckpt_convert(ctx, under("a.json"), under(through[i]), NULL) &&
               ckpt_convert(ctx, under(through[i]), under("b.json"), NULL) && same_files(under("a.json"), under("b.json")),
           "through %s: the same bytes %s", through[i], zt_ctx_error(ctx));
        ok(ckpt_convert(ctx, under(through[i]), under("c.json"), "zt.note") && keys_of(ctx, under("c.json"), "zt.note") == 2,
           "with a key more: %s", zt_ctx_error(ctx));
        ok(ckpt_convert(ctx, under("c.json"), under(through[i]), NULL) && keys_of(ctx, under(through[i]), "zt.note") == 2,
           "which goes on %s", zt_ctx_error(ctx));
    }
}

/* A tensor more, one less: a network's JSON has just its own. */
static void test_other_tensors(zt_ctx *ctx)
{
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, under("a.json"), 0);
    zt_entry entry[5];
    float x[16] = {0};
    for (int i = 0; i < 4; i++) zt_checkpoint_get(checkpoint, i, &entry[i]);
    entry[4] = (zt_entry){.name = "more", .dtype = "f32", .type = {.dtype = ZT_F32, .rank = 1, .dim = {2}}, .bytes = 8};
    for (int n = 3; n <= 5; n++) {
        zt_writer *writer =
            zt_writer_open(ctx, under("d.json"), &(zt_checkpoint_opts){.force = true}, zt_checkpoint_meta(checkpoint), entry, n);
        for (int i = 0; writer && i < n; i++) zt_writer_put(writer, x, (size_t)entry[i].bytes);
        bool done = writer && zt_writer_commit(writer) == ZT_OK;
        zt_writer_close(writer);
        ok(done == (n == 4) && (done || zt_ctx_status(ctx) == ZT_ENOTSUP), "%d tensors: %s", n, zt_ctx_error(ctx));
        ok((access(under("d.json"), F_OK) == 0) == (n >= 4), "%d tensors: whole or absent", n);
        zt_ctx_clear(ctx);
    }
    zt_checkpoint_close(checkpoint);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static void test_arrays(zt_ctx *ctx)
{
    static const char head[] = "\x93NUMPY\x01\0v\0{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
    char file[128 + 6];
    memset(file, ' ', 128);
    memcpy(file, head, sizeof head - 1);
    memcpy(file + 127, "\n\1\2\3\4\5\6", 7);
    ok(write_file(under("a.npy"), file, sizeof file), "an array");
    for (int i = 0; i < THROUGH; i++)
        ok(ckpt_convert(ctx, under("a.npy"), under(through[i]), "zt.note") &&
               ckpt_convert(ctx, under(through[i]), under("b.npy"), NULL) && same_files(under("a.npy"), under("b.npy")),
           "through %s: the same bytes %s", through[i], zt_ctx_error(ctx));
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, under("x.pt"), 0);
    ok(checkpoint && zt_checkpoint_find(checkpoint, "arr_0") == 0 && zt_checkpoint_count(checkpoint) == 1, "it is arr_0");
    zt_checkpoint_close(checkpoint);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!folder_make("checkpoint-np")) return 1;
    test_networks(ctx);
    test_other_tensors(ctx);
    test_arrays(ctx);
    ok(folder_remove(), "cleaned");
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
