/* memory.c - the memory's rules one by one: blocks, the limit and its counters, refusals, reserved
 * bytes, arenas, blocks by size class, the pool of tensors; metrics; all from several threads. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

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

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool all_bytes(const unsigned char *p, size_t n, unsigned char c)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != c) return false;
    return true;
}

static void test_blocks(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 4097, (4 << 20) - 1, 4 << 20, (6 << 20) + 5};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *bytes[N];
    size_t sum = 0;
    bool aligned = true, clear = true, kept = true;
    for (int i = 0; i < N; i++) {
        bytes[i] = zt_calloc(ctx, sizes[i], 1);
        aligned &= bytes[i] && (uintptr_t)bytes[i] % 64 == 0;
        clear &= all_bytes(bytes[i], sizes[i], 0);
        memset(bytes[i], i + 1, sizes[i]);
        sum += sizes[i];
    }
    zt_mem m = zt_mem_get(ctx);
    ok(aligned, "blocks are aligned to 64 bytes");
    ok(clear, "calloc clears");
    ok(m.held == sum && m.peak >= sum && m.blocks == N, "held %zu of %zu bytes", m.held, sum);
    for (int i = 0; i < N; i++) kept &= all_bytes(bytes[i], sizes[i], (unsigned char)(i + 1));
    ok(kept, "blocks do not touch");
    for (int i = 0; i < N; i++) zt_free(ctx, bytes[i]);
    zt_free(ctx, NULL);
    m = zt_mem_get(ctx);
    ok(m.held == 0 && m.blocks == 0 && m.peak >= sum, "all given back, the peak stays");

    char *q = zt_realloc(ctx, NULL, 10);
    memcpy(q, "0123456789", 10);
    q = zt_realloc(ctx, q, 5 << 20);
    bool same = !memcmp(q, "0123456789", 10);
    q = zt_realloc(ctx, q, 4);
    ok(same && !memcmp(q, "0123", 4) && zt_mem_get(ctx).held == 4, "realloc keeps the content");
    zt_free(ctx, q);
}

static void test_limit(void)
{
    zt_mem_limit(ctx, 20000000);
    void *a = zt_alloc(ctx, 1048576);
    zt_mem before = zt_mem_get(ctx);
    ok(a && !zt_alloc(ctx, 98362432) && zt_ctx_status(ctx) == ZT_ENOMEM &&
           !strcmp(zt_ctx_error(ctx), "out of memory: requested 98362432 bytes, 1048576 in use, limit 20000000"),
       "over the limit, with the numbers");
    zt_mem after = zt_mem_get(ctx);
    ok(after.held == before.held && after.peak == before.peak && after.blocks == before.blocks && after.calls == before.calls + 1,
       "a refused allocation leaves the account as it was");
    zt_ctx_clear(ctx);
    void *b = zt_alloc(ctx, 20000000 - 1048576);
    ok(b && !zt_alloc(ctx, 1), "the limit may be reached, not passed");
    zt_ctx_clear(ctx);
    ok(!zt_realloc(ctx, a, 2000000) && zt_mem_get(ctx).blocks == 2, "realloc past it keeps p");
    zt_ctx_clear(ctx);
    zt_free(ctx, a);
    zt_free(ctx, b);
    zt_mem_limit(ctx, 0);

    ok(!zt_alloc(ctx, SIZE_MAX) && !zt_alloc(ctx, PTRDIFF_MAX) && zt_ctx_status(ctx) == ZT_ENOMEM,
       "no size is too large to be refused");
    zt_ctx_clear(ctx);
    ok(!zt_calloc(ctx, SIZE_MAX / 2, 3) && !zt_alloc_array(ctx, (size_t)1 << 33, (size_t)1 << 33) &&
           zt_ctx_status(ctx) == ZT_ENOMEM && zt_mem_get(ctx).blocks == 0,
       "products that overflow are refused");
    zt_ctx_clear(ctx);
}

static int allocations_that_work(int count)
{
    int works = 0;
    for (int i = 0; i < count; i++) {
        void *p = zt_alloc(ctx, 8);
        works = works * 2 + (p != NULL);
        zt_free(ctx, p);
    }
    zt_ctx_clear(ctx);
    return works;
}

static void test_injected(void)
{
    zt_mem_fail(ctx, 3, false);
    ok(allocations_that_work(5) == 0x1b, "the third allocation is refused, no other");
    zt_mem_fail(ctx, 2, true);
    ok(allocations_that_work(5) == 0x10, "the second and all after it");
    zt_mem_fail(ctx, 0, true);
    ok(allocations_that_work(5) == 0x1f, "none any more");
}

static void test_memory(void)
{
    test_blocks();
    test_limit();
    test_injected();

    size_t z;
    int64_t d;
    ok(zt_mul_size(6, 7, &z) && z == 42 && !zt_mul_size(SIZE_MAX, 2, &z), "mul_size");
    ok(zt_add_size(6, 7, &z) && z == 13 && !zt_add_size(SIZE_MAX, 1, &z), "add_size");
    ok(zt_mul_i64(6, 7, &d) && d == 42 && zt_mul_i64(0, INT64_MAX, &d) && d == 0 && !zt_mul_i64(INT64_MAX, 2, &d) &&
           !zt_mul_i64(-1, 1, &d) && !zt_mul_i64(1, -1, &d),
       "mul_i64 refuses overflow and negative sizes");

    char *text = zt_strdup(ctx, "word"), *c = zt_strndup(ctx, "word", 2);
    char *e = zt_strndup(ctx, NULL, 0);
    ok(!strcmp(text, "word") && !strcmp(e, "") && !strcmp(c, "wo"), "strdup, strndup");
    zt_free(ctx, text), zt_free(ctx, e), zt_free(ctx, c);
}

/* ---- arena ----------------------------------------------------------------------------------- */

static void test_arena(void)
{
    zt_arena *arena = zt_arena_new(ctx, 256);
    ok(zt_arena_mark(arena) == 0, "a new arena is empty");
    char *first = zt_arena_strndup(arena, "first", 5);
    size_t mark = zt_arena_mark(arena);
    bool aligned = true;
    for (size_t i = 0; i < 100; i++) {
        unsigned char *bytes = zt_arena_alloc(arena, i);
        aligned &= (uintptr_t)bytes % 16 == 0;
        memset(bytes, 0xee, i);
    }
    char *large = zt_arena_alloc(arena, 100000);
    memset(large, 0xdd, 100000);
    ok(aligned && !strcmp(first, "first"), "blocks are aligned and apart");
    zt_arena_reset(arena, mark);
    ok(zt_arena_mark(arena) == mark && !strcmp(first, "first"), "reset keeps what came before it");
    char *next = zt_arena_alloc(arena, 1);
    ok(next > first && next - first <= 32, "and gives the rest out again");

    uint64_t calls = 0;
    for (int i = 0; i < 50; i++) {
        mark = zt_arena_mark(arena);
        for (int k = 0; k < 10; k++) zt_arena_alloc(arena, 100);
        zt_arena_reset(arena, mark);
        if (i == 0) calls = zt_mem_get(ctx).calls;
    }
    size_t held = zt_mem_get(ctx).held;
    ok(held < 200000, "a loop around a mark does not grow (%zu bytes held)", held);
    diag("%d allocations in 49 rounds", (int)(zt_mem_get(ctx).calls - calls));
    zt_arena_reset(arena, 0);
    ok(zt_arena_mark(arena) == 0 && zt_arena_alloc(arena, 300), "reset to 0, and on");
    ok(!zt_arena_alloc(arena, SIZE_MAX) && !zt_arena_alloc(arena, SIZE_MAX - 20) && zt_ctx_status(ctx) == ZT_ENOMEM,
       "sizes that overflow are refused");
    zt_ctx_clear(ctx);
    zt_arena_free(arena);
    zt_arena_free(NULL);
    ok(zt_mem_get(ctx).blocks == 0, "an arena leaks nothing");
}

/* ---- the tracker ----------------------------------------------------------------------------- */

static void tracker(void)
{
    zt_mem_limit(ctx, 1000);
    zt_mem before = zt_mem_get(ctx);
    ok(zt_mem_reserve(ctx, 600) == ZT_OK && zt_mem_get(ctx).held == before.held + 600, "reserved bytes are held");
    zt_mem held = zt_mem_get(ctx);
    ok(zt_mem_reserve(ctx, 401) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), "requested 401 bytes") &&
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
        size_t count = 1 + (size_t)i % 700;
        void *p = zt_alloc(ctx, count);
        if (p) memset(p, 1, count);
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

/* ---- blocks by size class -------------------------------------------------------------------- */

static void bins(void)
{
    zt_bins *b = zt_bins_new(ctx);
    char *cursor = zt_bins_take(b, 65), *q = zt_bins_take(b, 0);
    ok(cursor && q && (uintptr_t)cursor % 64 == 0 && zt_bins_get(b).taken == 128 + 64,
       "blocks are of the next power of two, from 64 bytes on");
    memset(cursor, 1, 65);
    zt_bins_give(b, cursor);
    ok(zt_bins_get(b).idle == 128 && zt_bins_get(b).taken == 64, "what is given back waits");
    ok(zt_bins_take(b, 128) == cursor && zt_bins_get(b).hits == 1 && zt_bins_get(b).misses == 2,
       "and is taken again by what is of its class");
    void *r = zt_bins_take(b, 129);
    ok(r && r != cursor && zt_bins_get(b).misses == 3, "not by what is larger");
    zt_bins_give(b, NULL);
    zt_bins_give(b, cursor);
    zt_bins_give(b, q);
    zt_bins_give(b, r);
    zt_bins_stats s = zt_bins_get(b);
    ok(s.idle == 448 && s.idle_blocks == 3 && s.taken == 0, "all wait");
    size_t held = zt_mem_get(ctx).held;
    zt_bins_reset(b, 200);
    ok(zt_bins_get(b).idle == 192 && zt_mem_get(ctx).held == held - 256, "a reset frees the largest, down to its floor");
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
        size_t count = 1 + (size_t)i * 37 % 5000;
        char *cursor = zt_bins_take(user, count), *q = zt_bins_take(user, 64);
        memset(cursor, i, count);
        memset(q, i, 64);
        zt_bins_give(user, cursor);
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
    ok(s.taken == 0 && s.hits + s.misses == 2 * THREADS * ROUNDS && s.misses < s.hits, "threads: %d blocks made, %d used again",
       (int)s.misses, (int)s.hits);
    zt_bins_free(b);
}

static void arena_floor(void)
{
    zt_arena *arena = zt_arena_new(ctx, 256);
    char *weights = zt_arena_strndup(arena, "weights", 7);
    size_t floor = zt_arena_mark(arena);
    zt_arena_floor(arena, floor);
    for (int i = 0; i < 50; i++) zt_arena_alloc(arena, 100);
    zt_arena_reset(arena, 0);
    ok(zt_arena_mark(arena) == floor && !strcmp(weights, "weights"), "a reset stops at the floor");
    zt_arena_floor(arena, 0);
    zt_arena_reset(arena, 0);
    ok(zt_arena_mark(arena) == 0, "no floor: it frees all");
    zt_arena_free(arena);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void pool(void)
{
    zt_type t23 = zt_type_make(ZT_F32, 2, (int64_t[]){2, 3}), t32 = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2}),
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
    ok(zt_tensor_pool_len(p) == 0 && ((float *)zt_tensor_data(view))[5] == 0, "what is viewed or held elsewhere is not kept");
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
        zt_type type = zt_type_make(ZT_F32, 1, (int64_t[]){1 + i % 7});
        zt_tensor *x = zt_tensor_pool_acquire(user, &type);
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

/* ---- metrics --------------------------------------------------------------------------------- */

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
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_run *runner = zt_run_new(engine, false);
    zt_tensor *x = zt_tensor_new(ctx, &t3);
    memset(zt_tensor_data(x), 0, zt_tensor_bytes(x));
    tally t = {0};
    zt_metrics_set(ctx, on_count, &t);
    zt_record_begin(runner);
    zt_tensor *y = zt_eager_add(runner, zt_eager_add(runner, x, x), x);
    y = zt_apply(runner, &twofold, &y, NULL);
    zt_prog *program = zt_record_end(runner, &y, 1);
    ok(t.adds == 2 && t.add_bytes == 24 && t.all == 3 && t.fallbacks == 1, "metrics of eager ops: by name, bytes, fallbacks");
    t = (tally){0};
    float in[3] = {1, 2, 3}, out[3];
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    for (int i = 0; i < 2; i++) zt_session_step(session, NULL, 0, (const void *[]){in}, (void *[]){out});
    ok(t.adds == 4 && t.add_bytes == 48 && t.all == 6 && t.fallbacks == 2, "and of sessions");
    zt_metrics_set(ctx, NULL, NULL);
    zt_session_step(session, NULL, 0, (const void *[]){in}, (void *[]){out});
    ok(t.all == 6 && out[2] == 18, "none when nobody asks");
    zt_session_close(session);
    zt_prog_free(program);
    zt_tensor_unref(x);
    zt_run_free(runner);
    zt_engine_close(engine);
}

int main(void)
{
    ctx = zt_ctx_new();
    test_memory();
    test_arena();
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
