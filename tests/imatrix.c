/* imatrix.c - tests of importance matrices: written and read, the older form, files that are neither. */
#include "lib/io/imatrix.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void save(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static void test_round(zt_ctx *ctx)
{
    double a[] = {4, 8, 0}, b[1500];
    for (int i = 0; i < 1500; i++)
        b[i] = i;
    zt_imatrix_sum sums[] = {{"blk.1.z.weight", 3, a, 4}, {"blk.0.a.weight", 1500, b, 10}};
    zt_status s = zt_imatrix_write(ctx, path, true, sums, 2, "some text", 7, 512);
    zt_imatrix *m = zt_imatrix_open(ctx, path);
    ok(s == ZT_OK && m, "written and read: %s", zt_ctx_error(ctx));
    if (!m)
        return;
    const zt_imatrix_of *z = zt_imatrix_find(m, "blk.1.z.weight"), *x = zt_imatrix_find(m, "blk.0.a.weight");
    ok(zt_imatrix_count(m) == 2 && !strcmp(zt_imatrix_get(m, 0)->name, "blk.0.a.weight"), "by name");
    ok(z && z->n == 3 && z->mean[0] == 1 && z->mean[1] == 2 && z->mean[2] == 0, "means");
    ok(x && x->n == 1500 && x->mean[1499] == 149.9f, "of a longer row");
    ok(!strcmp(zt_imatrix_dataset(m), "some text") && zt_imatrix_chunks(m) == 7, "where from");
    ok(!zt_imatrix_find(m, "blk.1.z"), "no other");
    zt_imatrix_close(m);
    ok(zt_imatrix_write(ctx, path, false, sums, 2, "", 1, 1) == ZT_ECREATE, "not over what is there");
    zt_ctx_clear(ctx);
}

/* ---- the form before ------------------------------------------------------------------------- */

typedef struct bytes {
    char data[512];
    size_t n;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    memcpy(b->data + b->n, p, n);
    b->n += n;
}

static void put_i32(bytes *b, int32_t v) { put(b, &v, 4); }

static void put_text(bytes *b, const char *text)
{
    put_i32(b, (int32_t)strlen(text));
    put(b, text, strlen(text));
}

static bytes older(float last)
{
    bytes b = {0};
    float x[] = {2, 4, 6}, y[] = {1, last};
    put_i32(&b, 2);
    put_text(&b, "blk.0.q.weight");
    put_i32(&b, 2);
    put_i32(&b, 3);
    put(&b, x, sizeof x);
    put_text(&b, "blk.0.k.weight");
    put_i32(&b, 0);
    put_i32(&b, 2);
    put(&b, y, sizeof y);
    put_i32(&b, 9);
    put_text(&b, "text.raw");
    return b;
}

static void test_older(zt_ctx *ctx)
{
    bytes b = older(5);
    save(b.data, b.n);
    zt_imatrix *m = zt_imatrix_open(ctx, path);
    ok(m && zt_imatrix_count(m) == 2, "the older form: %s", zt_ctx_error(ctx));
    const zt_imatrix_of *q = m ? zt_imatrix_find(m, "blk.0.q.weight") : NULL;
    const zt_imatrix_of *k = m ? zt_imatrix_find(m, "blk.0.k.weight") : NULL;
    ok(q && q->n == 3 && q->mean[0] == 1 && q->mean[2] == 3, "divided by its calls");
    ok(k && k->n == 2 && k->mean[1] == 5, "or as it is");
    ok(m && !strcmp(zt_imatrix_dataset(m), "text.raw") && zt_imatrix_chunks(m) == 9, "where from");
    zt_imatrix_close(m);
    size_t whole = b.n - 4 - 4 - strlen("text.raw"); /* older still: nothing behind the numbers */
    save(b.data, whole);
    m = zt_imatrix_open(ctx, path);
    ok(m && !zt_imatrix_dataset(m), "nothing behind the numbers");
    zt_imatrix_close(m);
}

/* ---- hostile --------------------------------------------------------------------------------- */

static bool refused(zt_ctx *ctx)
{
    zt_imatrix *m = zt_imatrix_open(ctx, path);
    bool no = !m && zt_ctx_status(ctx) == ZT_EDATA && *zt_ctx_error(ctx);
    zt_imatrix_close(m);
    zt_ctx_clear(ctx);
    return no;
}

static void test_cut(zt_ctx *ctx)
{
    bytes b = older(5);
    size_t whole = b.n - 4 - 4 - strlen("text.raw");
    int opened = 0;
    for (size_t n = 0; n < b.n; n++) {
        save(b.data, n);
        opened += !refused(ctx);
    }
    ok(opened == 2, "cut anywhere but at %zu and %zu of %zu it is refused", whole, whole + 4, b.n);
    double a[] = {1, 2};
    char file[512];
    zt_imatrix_write(ctx, path, true, &(zt_imatrix_sum){"w", 2, a, 1}, 1, "t", 1, 1);
    FILE *f = fopen(path, "rb");
    size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    opened = 0;
    for (size_t k = 0; k + 32 < n; k++) {
        save(file, k);
        opened += !refused(ctx);
    }
    ok(opened == 0, "and a GGUF of %zu bytes", n);
}

static void test_numbers(zt_ctx *ctx)
{
    static const float wrong[] = {-1, INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        bytes b = older(wrong[i]);
        save(b.data, b.n);
        ok(refused(ctx), "%g is no importance", (double)wrong[i]);
    }
    bytes b = older(1);
    memcpy(memmem(b.data, b.n, "0.k", 3), "0.q", 3);
    save(b.data, b.n);
    ok(refused(ctx), "a matrix twice");
    save("hello, this is text and nothing else", 36);
    ok(refused(ctx), "text");
}

static void test_memory(void)
{
    int failed = 0, wrong = 0;
    bytes b = older(5);
    for (int form = 0; form < 2; form++) {
        double a[] = {1, 2};
        zt_ctx *ctx = zt_ctx_new();
        if (form)
            zt_imatrix_write(ctx, path, true, &(zt_imatrix_sum){"w", 2, a, 1}, 1, "t", 1, 1);
        else
            save(b.data, b.n);
        zt_ctx_free(ctx);
        for (uint64_t nth = 1; nth < 1000; nth++) {
            ctx = zt_ctx_new();
            zt_mem_fail(ctx, nth, false);
            zt_imatrix *m = zt_imatrix_open(ctx, path);
            bool all = m != NULL;
            failed += !all;
            wrong += !all && zt_ctx_status(ctx) != ZT_ENOMEM;
            zt_imatrix_close(m);
            wrong += zt_mem_get(ctx).blocks != 0;
            zt_ctx_free(ctx);
            if (all)
                break;
        }
    }
    ok(failed > 8 && wrong == 0, "each of %d allocations may fail", failed);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "/tmp/zt-imatrix.%d", (int)getpid());
    test_round(ctx);
    test_older(ctx);
    test_cut(ctx);
    test_numbers(ctx);
    test_memory();
    unlink(path);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left behind");
    zt_ctx_free(ctx);
    return tap_done();
}
