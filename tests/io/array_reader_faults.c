/* array_reader_faults.c - the readers of npy, npz, pt and network JSON while memory fails, and from several
 * threads at once. */
#include "lib/zt/all.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "tests/common/read_arrays.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

IO_KIND(npy)
IO_KIND(npz)
IO_KIND(pt)
IO_KIND(netjson)

static const io_kind *const kinds[] = {&io_npy, &io_npz, &io_pt, &io_netjson};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- memory fails ---------------------------------------------------------------------------- */

/* Allocation number `count` of opening and reading it all is refused, and all after it: the status. */
static zt_status attempt(const io_kind *k, const void *bytes, size_t count, uint64_t nth, bool *sound)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_source *in = zt_source_memory(ctx, "made", bytes, count);
    zt_mem_fail(ctx, nth, true);
    void *f = k->from(ctx, in);
    if (f) io_walk(k, f, ctx, sound);
    zt_status st = zt_ctx_status(ctx);
    *sound = *sound && (f || st != ZT_OK);
    if (f) k->close(f);
    zt_source_close(in);
    *sound = *sound && zt_mem_get(ctx).blocks == 0;
    zt_ctx_free(ctx);
    return st;
}

static void test_memory(const io_kind *k, const char *path)
{
    size_t count = 0;
    uint8_t *bytes = npy_file(path, &count);
    bool sound = bytes != NULL;
    uint64_t nth = 1;
    zt_status want = attempt(k, bytes, count, 0, &sound), st = ZT_ENOMEM;
    for (; nth < 5000 && sound && (st = attempt(k, bytes, count, nth, &sound)) == ZT_ENOMEM;) nth++;
    ok(sound && st == want && nth > 1, "%s: %s when any of %d allocations is refused", path, zt_status_name(ZT_ENOMEM),
       (int)nth - 1);
    free(bytes);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct reader {
    const io_kind *k;
    void *f;
    uint8_t *const *want;
    int no;
    bool same;
} reader;

/* All tensors again and again, in pieces, some from their end. */
static void *read_all(void *user)
{
    reader *r = user;
    uint8_t piece[64];
    for (int turn = 0; turn < 30; turn++) {
        for (int64_t i = 0; i < r->k->count(r->f); i++) {
            size_t all = r->k->get(r->f, i)->bytes, step = 1 + (size_t)(7 * turn + r->no) % 64;
            for (size_t at = 0; at < all; at += step) {
                size_t total = all - at < step ? all - at : step;
                size_t from = turn % 2 ? all - at - total : at;
                r->same =
                    r->same && r->k->read(r->f, i, from, piece, total) == ZT_OK && memcmp(piece, r->want[i] + from, total) == 0;
            }
        }
    }
    return NULL;
}

static void test_threads(const io_kind *k, const char *path)
{
    enum { THREADS = 4 };
    zt_ctx *ctx = zt_ctx_new();
    zt_source *in = zt_source_open(ctx, path);
    void *f = in ? k->from(ctx, in) : NULL;
    int64_t total = f ? k->count(f) : 0;
    uint8_t **want = calloc((size_t)total + 1, sizeof *want);
    bool same = f != NULL;
    for (int64_t i = 0; i < total; i++) want[i] = io_read(k, f, i, &same);
    reader r[THREADS];
    pthread_t t[THREADS];
    int started = 0;
    for (; same && started < THREADS; started++) {
        r[started] = (reader){.k = k, .f = f, .want = want, .no = started, .same = true};
        pthread_create(&t[started], NULL, read_all, &r[started]);
    }
    for (int i = 0; i < started; i++) {
        pthread_join(t[i], NULL);
        same = same && r[i].same;
    }
    ok(same, "%s: the same from %d threads%s", path, THREADS, zt_ctx_error(ctx));
    for (int64_t i = 0; i < total; i++) free(want[i]);
    free(want);
    if (f) k->close(f);
    zt_source_close(in);
    zt_ctx_free(ctx);
}

int main(void)
{
    for (int i = 0; i < KINDS; i++) {
        char folder[64], path[400];
        struct dirent **entry;
        snprintf(folder, sizeof folder, "tests/fuzz/seeds/%s", kinds[i]->name);
        int count = scandir(folder, &entry, NULL, alphasort), sound = 0;
        ok(count > 2, "%s has files", folder);
        for (int j = 0; j < count; j++) {
            struct stat st;
            bool fine = true;
            size_t bytes = 0;
            snprintf(path, sizeof path, "%s/%s", folder, entry[j]->d_name);
            if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
                test_memory(kinds[i], path);
                uint8_t *file = npy_file(path, &bytes);
                if (attempt(kinds[i], file, bytes, 0, &fine) == ZT_OK && ++sound) test_threads(kinds[i], path);
                free(file);
            }
            free(entry[j]);
        }
        ok(sound > 1, "of %s %d were read", kinds[i]->name, sound);
        if (count >= 0) free(entry);
    }
    return tap_done();
}
