/* imatrix.c - importance matrices: what is written in either form is read again, and files that lie
 * are refused in bounded memory. */
#include "lib/io/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/folder.h"
#include "tests/common/tap.h"

/* Two weights, one of them of three experts, the last of which was never used. */
static zt_imatrix *made_matrix(zt_ctx *ctx)
{
    const float x[2][4] = {{1, 2, 3, -4}, {3, 0, 1, 4}}, y[2] = {0.5f, -2};
    zt_imatrix *m = zt_imatrix_new(ctx);
    zt_imatrix_add(m, "blk.0.ffn_up_exps.weight", 3, 0, 2, y, 1);
    zt_imatrix_add(m, "blk.0.attn_q.weight", 1, 0, 4, x[0], 1);
    zt_imatrix_add(m, "blk.0.attn_q.weight", 1, 0, 4, x[1], 1);
    zt_imatrix_add(m, "blk.0.ffn_up_exps.weight", 3, 1, 2, &x[0][2], 1);
    zt_imatrix_about(m, "a text", 7, 512);
    return m;
}

static bool is_made(const zt_imatrix *m, bool experts)
{
    static const float want[4] = {5, 2, 5, 16};
    const float *w = m ? zt_imatrix_find(m, "blk.0.attn_q.weight", 0, 4) : NULL;
    if (!m || zt_imatrix_count(m) != 2 || !w || zt_imatrix_chunks(m) != 7) return false;
    for (int i = 0; i < 4; i++)
        if (fabsf(w[i] - want[i]) > 1e-5f) return false;
    if (zt_imatrix_find(m, "blk.0.attn_q.weight", 0, 3) || zt_imatrix_find(m, "blk.1", 0, 4)) return false;
    if (!experts) return true;
    const float *a = zt_imatrix_find(m, "blk.0.ffn_up_exps.weight", 0, 2), *b = a + 2;
    return a && a[0] == 0.25f && a[1] == 4 && b[0] == 9 && b[1] == 16 && b[2] == 1 && b[3] == 1 &&
           zt_imatrix_find(m, "blk.0.ffn_up_exps.weight", 1, 2) == b && !zt_imatrix_find(m, "blk.0.ffn_up_exps.weight", 3, 2);
}

/* The shape that the weight has is stated; then the experts of a flat entry are found as well. */
static bool fits(zt_imatrix *m)
{
    bool q = false, up = false, none = true;
    return m && zt_imatrix_fit(m, "blk.0.attn_q.weight", 1, 4, &q) == ZT_OK && q &&
           zt_imatrix_fit(m, "blk.0.ffn_up_exps.weight", 3, 2, &up) == ZT_OK && up &&
           zt_imatrix_fit(m, "blk.1", 1, 4, &none) == ZT_OK && !none && is_made(m, true);
}

/* Values in a row, of which some are of no use: zeros for the middle one of three experts. */
static void test_flat(void)
{
    static const float y[6] = {3, 1, 0, 0, 2, 4};
    static const struct {
        int64_t matrices, columns;
    } wrong[] = {{2, 2}, {3, 3}, {1, 3}, {6, 2}, {0, 6}, {INT64_MAX, 6}, {4, 2}};
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_imatrix *m = zt_imatrix_new(ctx);
        bool has = false, last = i == sizeof wrong / sizeof *wrong;
        zt_imatrix_add(m, "up", 1, 0, 6, y, 1);
        zt_status status =
            last ? zt_imatrix_fit(m, "up", 3, 2, &has) : zt_imatrix_fit(m, "up", wrong[i].matrices, wrong[i].columns, &has);
        if (!last) {
            ok(status == ZT_EDATA && has, "%s", zt_ctx_error(ctx));
        } else {
            const float *a = zt_imatrix_find(m, "up", 0, 2), *b = zt_imatrix_find(m, "up", 1, 2),
                        *c = zt_imatrix_find(m, "up", 2, 2);
            ok(status == ZT_OK && a && b && c && a[0] == 9 && a[1] == 1 && b[0] == 1 && b[1] == 1 && c[0] == 4 && c[1] == 16 &&
                   !zt_imatrix_find(m, "up", 3, 2),
               "the values of expert e are [e * columns, (e + 1) * columns); 0 is never used");
            status = zt_imatrix_fit(m, "up", 3, 2, &has);
            ok(status == ZT_OK && zt_imatrix_fit(m, "up", 1, 6, &has) == ZT_EDATA, "split once, it has that shape");
        }
        zt_imatrix_close(m);
        ok(zt_mem_get(ctx).held == 0, "nothing leaks");
        zt_ctx_free(ctx);
    }
}

static void test_forms(void)
{
    static zt_status (*const forms[])(const zt_imatrix *, zt_sink *) = {zt_imatrix_write, zt_imatrix_write_dat};
    static const char *const names[] = {"m.gguf", "m.dat"};
    zt_ctx *ctx = zt_ctx_new();
    zt_imatrix *m = made_matrix(ctx);
    ok(is_made(m, true), "sums of squares over rows");
    for (int i = 0; i < 2; i++) {
        zt_sink *out = zt_sink_open(ctx, under(names[i]), true);
        ok(out && forms[i](m, out) == ZT_OK && zt_sink_commit(out) == ZT_OK, "%s: written", names[i]);
        zt_sink_close(out);
        zt_imatrix *again = zt_imatrix_open(ctx, under(names[i]));
        ok(is_made(again, i == 0) && fits(again), "%s: and read again %s", names[i], zt_ctx_error(ctx));
        zt_imatrix_close(again);
    }
    bool refused = zt_imatrix_add(m, "blk.0.attn_q.weight", 1, 0, 3, NULL, 0) == ZT_ESHAPE;
    ok(refused, "%s", zt_ctx_error(ctx));
    zt_imatrix_close(m);
    ok(zt_mem_get(ctx).held == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* Every file cut short, and every one with a byte changed, is read or refused with a message. */
static void test_hostile(const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    size_t count;
    char *whole = zt_read_all(ctx, under(name), &count);
    int silent = 0, cut_read = 0;
    zt_mem_limit(ctx, zt_mem_get(ctx).held + (1 << 20));
    for (size_t i = 0; i < 2 * count; i++) {
        char *bytes = zt_alloc(ctx, count);
        size_t have = i < count ? i : count;
        memcpy(bytes, whole, count);
        if (i >= count) bytes[i - count] ^= (char)(i % 3 ? 0x80 : 0xff);
        zt_source *source = zt_source_memory(ctx, name, bytes, have);
        zt_imatrix *m = zt_imatrix_from(ctx, source);
        silent += !m && !*zt_ctx_error(ctx);
        cut_read += m && i < count;
        zt_imatrix_close(m);
        zt_source_close(source);
        zt_free(ctx, bytes);
        zt_ctx_clear(ctx);
    }
    /* The older form may end before its trailer, GGUF in its padding. */
    int most = strcmp(name, "m.dat") == 0 ? 1 : 28;
    ok(silent == 0 && cut_read <= most, "%s: hostile, %d cut ones read", name, cut_read);
    zt_free(ctx, whole);
    ok(zt_mem_get(ctx).held == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
}

/* No allocation that fails is silent or leaks. */
static void test_memory(const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    uint64_t nth = 1;
    zt_imatrix *m = NULL;
    int bad = 0;
    for (; !m && nth < 1000; nth++) {
        zt_mem_fail(ctx, nth, false);
        m = zt_imatrix_open(ctx, under(name));
        zt_mem_fail(ctx, 0, false);
        bad += !m && zt_ctx_status(ctx) != ZT_ENOMEM;
        bad += !m && zt_mem_get(ctx).held != 0;
        zt_ctx_clear(ctx);
    }
    ok(m && bad == 0, "%s: %d allocations, each may fail", name, (int)nth - 2);
    zt_imatrix_close(m);
    zt_ctx_free(ctx);
}

int main(void)
{
    if (!ok(folder_make("imatrix"), "a folder")) return tap_done();
    test_flat();
    test_forms();
    test_hostile("m.gguf");
    test_hostile("m.dat");
    test_memory("m.gguf");
    test_memory("m.dat");
    unlink(under("m.gguf"));
    unlink(under("m.dat"));
    rmdir(folder);
    return tap_done();
}
