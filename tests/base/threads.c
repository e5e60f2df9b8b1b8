/* threads.c - the team: every thread runs once, barriers separate what is before from what is
 * after, with fewer, as many and more threads than processors. Meant for ThreadSanitizer too. */
#include "lib/base/base.h"
#include "tests/common/tap.h"
#include <string.h>
#include <time.h>

enum { MOST = 64, ROUNDS = 300 };

typedef struct job {
    zt_pool *pool;
    int runs[MOST];     /* how often each thread ran */
    int64_t part[MOST]; /* written by one thread, read by its neighbours behind a barrier */
    int64_t sum[MOST];
    int wrong;
} job;

static void count(void *user, int thread, int n)
{
    job *j = user;
    j->runs[thread]++;
    if (n != zt_pool_size(j->pool)) j->wrong++;
}

/* Each round every thread publishes a number; behind the barrier all must see all of them. No
 * atomics here: if the barrier did not order these accesses, this would be a race. */
static void exchange(void *user, int thread, int total)
{
    job *j = user;
    for (int round = 0; round < ROUNDS; round++) {
        j->part[thread] = (int64_t)round * (thread + 1);
        zt_pool_barrier(j->pool, thread);
        int64_t sum = 0;
        for (int i = 0; i < total; i++) sum += j->part[i];
        j->sum[thread] += sum;
        zt_pool_barrier(j->pool, thread);
    }
}

/* One thread comes so late to each barrier that the others have gone to sleep. */
static void late(void *user, int thread, int total)
{
    job *j = user;
    for (int round = 0; round < 6; round++) {
        if (round % total == thread) nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        j->part[thread] = round;
        zt_pool_barrier(j->pool, thread);
        for (int i = 0; i < total; i++) j->sum[thread] += j->part[i] != round;
        zt_pool_barrier(j->pool, thread);
    }
}

static void test_team(zt_ctx *ctx, int total)
{
    job j = {.pool = zt_pool_new(ctx, total)};
    ok(j.pool && zt_pool_size(j.pool) == total, "%d threads: a team", total);
    bool good = true;
    for (int i = 0; i < ROUNDS; i++) zt_pool_run(j.pool, count, &j);
    for (int i = 0; i < total; i++) good &= j.runs[i] == ROUNDS;
    ok(good && !j.wrong, "%d threads: each runs once a call", total);

    int64_t want = (int64_t)ROUNDS * (ROUNDS - 1) / 2 * total * (total + 1) / 2;
    zt_pool_run(j.pool, exchange, &j);
    for (int i = 0; i < total; i++) good &= j.sum[i] == want;
    ok(good, "%d threads: a barrier shows all to all", total);

    memset(j.sum, 0, sizeof j.sum);
    zt_pool_run(j.pool, late, &j);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* workers sleep between runs too */
    zt_pool_run(j.pool, count, &j);
    for (int i = 0; i < total; i++) good &= j.sum[i] == 0 && j.runs[i] == ROUNDS + 1;
    ok(good, "%d threads: sleepers wake", total);
    zt_pool_free(j.pool);
}

/* A run that whoever comes may help with: parts are taken, counted in a gate, and waited for. */
typedef struct helped {
    zt_pool *pool;
    int open; /* looked at without a lock: nobody may be in fn when the run is over */
    int next, done, strays;
    zt_gate gate;
} helped;

enum { PARTS = 8 };

static void help(void *user, int thread, int total)
{
    helped *h = user;
    unsigned did = 0;
    (void)thread, (void)total;
    if (!h->open) __atomic_fetch_add(&h->strays, 1, __ATOMIC_RELAXED);
    for (; __atomic_fetch_add(&h->next, 1, __ATOMIC_RELAXED) < PARTS; did++) __atomic_fetch_add(&h->done, 1, __ATOMIC_RELAXED);
    if (did) zt_gate_add(&h->gate, did, PARTS);
    zt_gate_wait(&h->gate, PARTS, h->pool);
}

/* Many short runs, so that workers come late: into a later run, never into one that is over. */
static void test_help(zt_ctx *ctx, int total)
{
    helped h = {.pool = zt_pool_new(ctx, total)};
    bool good = h.pool != NULL;
    for (int i = 0; i < ROUNDS * 20 && good; i++) {
        h.next = h.done = 0;
        h.gate = (zt_gate){0};
        h.open = 1;
        zt_pool_help(h.pool, help, &h);
        h.open = 0;
        good = h.done == PARTS && h.strays == 0;
    }
    ok(good, "%d threads: help with %d runs (%d strays)", total, ROUNDS * 20, h.strays);
    job j = {.pool = h.pool};
    zt_pool_run(h.pool, count, &j);
    for (int i = 0; i < total; i++) good &= j.runs[i] == 1;
    ok(good, "%d threads: and then a run of all", total);
    zt_pool_free(h.pool);
}

static void test_refused(zt_ctx *ctx)
{
    ok(!zt_pool_new(ctx, 0) && zt_ctx_status(ctx) == ZT_EUSAGE, "no team of 0");
    zt_ctx_clear(ctx);
    ok(!zt_pool_new(ctx, 257) && zt_ctx_status(ctx) == ZT_EUSAGE, "nor of 257");
    zt_ctx_clear(ctx);
    bool good = true;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        zt_mem_fail(ctx, nth, false);
        good &= !zt_pool_new(ctx, 3) && zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_ctx_clear(ctx);
    }
    zt_mem_fail(ctx, 0, false);
    zt_pool_free(NULL);
    ok(good && zt_mem_get(ctx).blocks == 0, "without memory no team, and nothing is left");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    static const int sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_team(ctx, sizes[i]);
        test_help(ctx, sizes[i]);
    }
    test_refused(ctx);
    ok(zt_ctx_status(ctx) == ZT_OK && zt_mem_get(ctx).blocks == 0, "nothing is left");
    zt_ctx_free(ctx);
    return tap_done();
}
