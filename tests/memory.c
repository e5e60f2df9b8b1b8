/* memory.c - the memory's rules one by one: the limit and its counters, reserved bytes, blocks by size
 * class, an arena's floor, the pool of tensors; metrics; all of them from several threads. */
#include "lib/run/run.h"
#include "tests/tap.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 2000 };

static zt_ctx *ctx;

static void threads(void *(*fn)(void *), void *user)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, fn, user);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

/* ---- the tracker ----------------------------------------------------------------------------- */

static void tracker(void)
{
    zt_mem_limit(ctx, 1000);
    zt_mem before = zt_mem_get(ctx);
    ok(zt_mem_reserve(ctx, 600) == ZT_OK && zt_mem_get(ctx).held == before.held + 600,
       "reserved bytes are held");
    zt_mem held = zt_mem_get(ctx);
    ok(zt_mem_reserve(ctx, 401) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), "401 bytes wanted") &&
           strstr(zt_ctx_error(ctx), "limit 1000"),
       "past the limit: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_mem after = zt_mem_get(ctx);
    ok(after.held == held.held && after.peak == held.peak && after.blocks == held.blocks,
       "a refusal leaves the counters as they were");
    void *p = zt_alloc(ctx, 400);
    ok(p && !zt_alloc(ctx, 1), "blocks and reserved bytes share the limit");
    zt_ctx_clear(ctx);
    zt_free(ctx, p);
    zt_mem_release(ctx, 600);
    for (int i = 0; i < 100; i++) {
        p = zt_alloc(ctx, 900);
        if (!p) break;
        zt_free(ctx, p);
    }
    ok(zt_ctx_status(ctx) == ZT_OK && zt_mem_get(ctx).held == before.held,
       "the limit is on what is held, not on what was ever asked for");
    zt_mem_limit(ctx, 0);
    ok(zt_mem_reserve(ctx, (size_t)1 << 40) == ZT_OK, "limit 0 is none");
    ok(zt_mem_reserve(ctx, SIZE_MAX) == ZT_ENOMEM, "but no sum overflows");
    zt_ctx_clear(ctx);
    zt_mem_release(ctx, (size_t)1 << 40);
}

static void *holder(void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = 1 + (size_t)i % 700;
        void *p = zt_alloc(ctx, n);
        if (p) memset(p, 1, n);
        if (zt_mem_reserve(ctx, 100) == ZT_OK) zt_mem_release(ctx, 100);
        zt_free(ctx, p);
    }
    return NULL;
}

static void tracker_threads(void)
{
    zt_mem before = zt_mem_get(ctx);
    zt_mem_limit(ctx, before.held + 1500); /* some are refused */
    threads(holder, NULL);
    zt_mem m = zt_mem_get(ctx);
    ok(m.held == before.held && m.blocks == before.blocks, "threads: all is given back");
    ok(m.calls == before.calls + 2 * THREADS * ROUNDS, "threads: each call is counted");
    zt_mem_limit(ctx, 0);
    zt_ctx_clear(ctx);
}

/* ---- blocks by size class --------------------------------------------------------------------- */

static void bins(void)
{
    zt_bins *b = zt_bins_new(ctx);
    char *p = zt_bins_take(b, 65), *q = zt_bins_take(b, 0);
    ok(p && q && (uintptr_t)p % 64 == 0 && zt_bins_get(b).taken == 128 + 64,
       "blocks are of the next power of two, from 64 bytes on");
    memset(p, 1, 65);
    zt_bins_give(b, p);
    ok(zt_bins_get(b).idle == 128 && zt_bins_get(b).taken == 64, "what is given back waits");
    ok(zt_bins_take(b, 128) == p && zt_bins_get(b).hits == 1 && zt_bins_get(b).misses == 2,
       "and is taken again by what is of its class");
    void *r = zt_bins_take(b, 129);
    ok(r && r != p && zt_bins_get(b).misses == 3, "not by what is larger");
    zt_bins_give(b, NULL);
    zt_bins_give(b, p);
    zt_bins_give(b, q);
    zt_bins_give(b, r);
    zt_bins_stats s = zt_bins_get(b);
    ok(s.idle == 448 && s.idle_blocks == 3 && s.taken == 0, "all wait");
    size_t held = zt_mem_get(ctx).held;
    zt_bins_reset(b, 200);
    ok(zt_bins_get(b).idle == 192 && zt_mem_get(ctx).held == held - 256,
       "a reset frees the largest, down to its floor");
    zt_bins_reset(b, 0);
    ok(zt_bins_get(b).idle_blocks == 0, "or all");
    ok(!zt_bins_take(b, SIZE_MAX) && zt_ctx_status(ctx) == ZT_ENOMEM, "too much is refused");
    zt_ctx_clear(ctx);
    zt_mem_fail(ctx, 1, false);
    ok(!zt_bins_take(b, 10) && zt_bins_get(b).taken == 0, "a refused block is not counted");
    zt_mem_fail(ctx, 0, false);
    zt_ctx_clear(ctx);
    zt_bins_free(b);
    zt_bins_free(NULL);
}

static void *taker(void *user)
{
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = 1 + (size_t)i * 37 % 5000;
        char *p = zt_bins_take(user, n), *q = zt_bins_take(user, 64);
        memset(p, i, n);
        memset(q, i, 64);
        zt_bins_give(user, p);
        if (i % 100 == 0) zt_bins_reset(user, 1000);
        zt_bins_give(user, q);
    }
    return NULL;
}

static void bins_threads(void)
{
    zt_bins *b = zt_bins_new(ctx);
    threads(taker, b);
    zt_bins_stats s = zt_bins_get(b);
    ok(s.taken == 0 && s.hits + s.misses == 2 * THREADS * ROUNDS && s.misses < s.hits,
       "threads: %d blocks made, %d used again", (int)s.misses, (int)s.hits);
    zt_bins_free(b);
}

static void arena_floor(void)
{
    zt_arena *a = zt_arena_new(ctx, 256);
    char *weights = zt_arena_strndup(a, "weights", 7);
    size_t floor = zt_arena_mark(a);
    zt_arena_floor(a, floor);
    for (int i = 0; i < 50; i++) zt_arena_alloc(a, 100);
    zt_arena_reset(a, 0);
    ok(zt_arena_mark(a) == floor && !strcmp(weights, "weights"), "a reset stops at the floor");
    zt_arena_floor(a, 0);
    zt_arena_reset(a, 0);
    ok(zt_arena_mark(a) == 0, "no floor: it frees all");
    zt_arena_free(a);
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static void pool(void)
{
    zt_type t23 = zt_type_make(ZT_F32, 2, (int64_t[]){2, 3}),
            t32 = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2}),
            i23 = zt_type_make(ZT_I32, 2, (int64_t[]){2, 3});
    zt_tensor_pool *p = zt_tensor_pool_new(ctx);
    zt_tensor *a = zt_tensor_pool_acquire(p, &t23);
    ok(a && zt_type_equal(zt_tensor_type(a), &t23) && zt_tensor_pool_len(p) == 0, "a new tensor");
    memset(zt_tensor_data(a), 0xFF, zt_tensor_bytes(a));
    zt_tensor_pool_release(p, a);
    ok(zt_tensor_pool_len(p) == 1, "released, it waits");
    zt_tensor *b = zt_tensor_pool_acquire(p, &t32), *c = zt_tensor_pool_acquire(p, &i23);
    ok(b != a && c != a && zt_tensor_pool_len(p) == 1, "not for another shape or dtype");
    zt_tensor *d = zt_tensor_pool_acquire(p, &t23);
    bool zero = d == a;
    for (int i = 0; i < 6; i++) zero = zero && ((float *)zt_tensor_data(d))[i] == 0;
    ok(zero && zt_tensor_pool_len(p) == 0, "for its own, and comes back zeroed");
    zt_tensor *view = zt_tensor_view(d, &t32, 0);
    zt_tensor_pool_release(p, d);
    zt_tensor_pool_release(p, zt_tensor_ref(c));
    ok(zt_tensor_pool_len(p) == 0 && ((float *)zt_tensor_data(view))[5] == 0,
       "what is viewed or held elsewhere is not kept");
    float mine[6] = {0};
    zt_tensor_pool_release(p, zt_tensor_wrap(ctx, &t23, mine, NULL, NULL));
    ok(zt_tensor_pool_len(p) == 0, "nor memory of the caller's");
    zt_mem_fail(ctx, 1, false);
    zt_tensor_pool_release(p, b);
    zt_mem_fail(ctx, 0, false);
    ok(zt_tensor_pool_len(p) == 0, "with no memory to remember it, it is freed");
    zt_ctx_clear(ctx);
    zt_tensor_unref(view);
    zt_tensor_pool_release(p, c);
    zt_tensor_pool_release(p, NULL);
    zt_tensor_pool_free(p);
    zt_tensor_pool_free(NULL);
}

static bool dirty;

static void *borrower(void *user)
{
    for (int i = 0; i < ROUNDS; i++) {
        zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){1 + i % 7});
        zt_tensor *x = zt_tensor_pool_acquire(user, &t);
        for (int k = 0; k <= i % 7; k++)
            if (((float *)zt_tensor_data(x))[k] != 0) dirty = true;
        memset(zt_tensor_data(x), 1, zt_tensor_bytes(x));
        zt_tensor_pool_release(user, x);
    }
    return NULL;
}

static void pool_threads(void)
{
    zt_tensor_pool *p = zt_tensor_pool_new(ctx);
    threads(borrower, p);
    ok(!dirty && zt_tensor_pool_len(p) <= THREADS * 7, "threads: every tensor comes zeroed");
    zt_tensor_pool_free(p);
}

/* ---- metrics ---------------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t adds, add_bytes, fallbacks, all;
} tally;

static void on_count(void *user, const char *counter, const char *name, uint64_t add)
{
    tally *t = user;
    bool is_add = !strcmp(name, "add");
    if (!strcmp(counter, "op")) t->all += add;
    if (is_add && !strcmp(counter, "op")) t->adds += add;
    if (is_add && !strcmp(counter, "bytes")) t->add_bytes += add;
    if (!strcmp(counter, "fallback")) t->fallbacks += add;
}

static double twice(double x, void *user)
{
    (void)user;
    return 2 * x;
}

static void metrics(void)
{
    static const zt_func twofold = {.name = "twofold", .unary = twice};
    zt_type t3 = zt_type_make(ZT_F32, 1, (int64_t[]){3});
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_run *r = zt_run_new(e, false);
    zt_tensor *x = zt_tensor_new(ctx, &t3);
    memset(zt_tensor_data(x), 0, zt_tensor_bytes(x));
    tally t = {0};
    zt_metrics_set(ctx, on_count, &t);
    zt_record_begin(r);
    zt_tensor *y = zt_add(r, zt_add(r, x, x), x);
    y = zt_apply(r, &twofold, &y, NULL);
    zt_prog *p = zt_record_end(r, &y, 1);
    ok(t.adds == 2 && t.add_bytes == 24 && t.all == 3 && t.fallbacks == 1,
       "metrics of eager ops: by name, bytes, fallbacks");
    t = (tally){0};
    float in[3] = {1, 2, 3}, out[3];
    zt_session *s = zt_session_open(e, p, NULL, NULL);
    for (int i = 0; i < 2; i++) zt_session_step(s, NULL, 0, (const void *[]){in}, (void *[]){out});
    ok(t.adds == 4 && t.add_bytes == 48 && t.all == 6 && t.fallbacks == 2, "and of sessions");
    zt_metrics_set(ctx, NULL, NULL);
    zt_session_step(s, NULL, 0, (const void *[]){in}, (void *[]){out});
    ok(t.all == 6 && out[2] == 18, "none when nobody asks");
    zt_session_close(s);
    zt_prog_free(p);
    zt_tensor_unref(x);
    zt_run_free(r);
    zt_engine_close(e);
}

int main(void)
{
    ctx = zt_ctx_new();
    tracker();
    tracker_threads();
    bins();
    bins_threads();
    arena_floor();
    pool();
    pool_threads();
    metrics();
    ok(zt_mem_get(ctx).blocks == 0 && zt_mem_get(ctx).held == 0, "closed, all is freed");
    zt_ctx_free(ctx);
    return tap_done();
}
