/* pool.c - a team of threads: start, finish and barrier.
 *
 * All three wait for a word to change. A waiter spins for SPIN_SECONDS, since a barrier is crossed
 * hundreds of times a token and a sleep costs more than the work between two of them, and a caller
 * that goes from step to step leaves no longer gaps; then it sleeps in the kernel (futex). That is
 * a time and no number of turns: a pause takes some 40 cycles on one processor and 140 on another.
 * With more threads than processors nobody spins: the thread that is waited for needs the
 * processor. */
#include "lib/base/internal.h"
#include "lib/base/require.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TURNS = 64, LINE = 64 }; /* turns between two looks at the clock */
static const double SPIN_SECONDS = 200e-6;

/* A word that counts up, and how many sleep on it. Whoever sleeps says so before the kernel looks
 * at the word, whoever counts up looks for sleepers after it: both in the one order of seq_cst. */
typedef struct pool_gate {
    _Alignas(LINE) atomic_uint word;
    atomic_uint arrived; /* for barrier and finish: who has come so far */
    atomic_uint sleepers;
} pool_gate;

/* No word of 32 bits: a worker that was kept waiting since an earlier run must not take it for the
 * word of that run. */
#define CLOSED (1ull << 32)

typedef struct pool_worker {
    zt_pool *pool;
    pthread_t id;
    int thread;
} pool_worker;

struct zt_pool {
    pool_gate start, finish, meet;
    zt_ctx *ctx;
    atomic_ullong open; /* start's word of the run that workers may enter, or CLOSED */
    atomic_uint inside; /* workers that look at the run */
    zt_pool_fn *fn;     /* of this run; NULL: go home */
    bool strict;        /* every worker takes part */
    void *user;
    int thread_count; /* threads with the caller */
    int started;      /* workers that run */
    bool spins;
    pool_worker *workers; /* [thread_count - 1] */
};

/* ---- gates ----------------------------------------------------------------------------------- */

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A wait that spins, from {0} on. */
typedef struct spin_wait {
    unsigned turns;
    double until;
} spin_wait;

/* One turn more; false: that is enough. */
static bool spin_once(spin_wait *spin, const zt_pool *pool)
{
    if (!pool->spins) return false;
    pause_cpu();
    if (++spin->turns % TURNS) return true;
    double now = zt_seconds();
    if (spin->turns == TURNS) spin->until = now + SPIN_SECONDS;
    return now < spin->until;
}

static void gate_wait(pool_gate *gate, unsigned old, const zt_pool *pool)
{
    spin_wait spin = {0};
    do {
        if (atomic_load_explicit(&gate->word, memory_order_acquire) != old) return;
    } while (spin_once(&spin, pool));
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->word) == old) syscall(SYS_futex, &gate->word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&gate->sleepers, 1);
}

static void gate_open(pool_gate *gate)
{
    atomic_fetch_add(&gate->word, 1);
    if (atomic_load(&gate->sleepers)) syscall(SYS_futex, &gate->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* True for the last of `expected` to come; all that the others did before is then visible to it. */
static bool arrive_last(pool_gate *gate, unsigned expected)
{
    if (atomic_fetch_add_explicit(&gate->arrived, 1, memory_order_acq_rel) + 1 < expected) return false;
    atomic_store_explicit(&gate->arrived, 0, memory_order_relaxed);
    return true;
}

/* ---- the team -------------------------------------------------------------------------------- */

static void *run_worker(void *arg)
{
    pool_worker *worker = arg;
    zt_pool *pool = worker->pool;
    for (unsigned seen = 0;;) {
        gate_wait(&pool->start, seen, pool);
        seen = atomic_load(&pool->start.word);
        atomic_fetch_add(&pool->inside, 1);
        /* A run that was closed meanwhile is over: its fn is not to be looked at. */
        bool open = atomic_load(&pool->open) == seen, strict = open && pool->strict;
        if (open && !pool->fn) return NULL;
        if (open) pool->fn(pool->user, worker->thread, pool->thread_count);
        atomic_fetch_sub(&pool->inside, 1);
        if (strict && arrive_last(&pool->finish, (unsigned)pool->thread_count - 1)) gate_open(&pool->finish);
    }
}

/* Let the workers in: to fn, or home with fn NULL. Nobody is inside. */
static void run_open(zt_pool *pool, zt_pool_fn *fn, void *user, bool strict)
{
    pool->fn = fn;
    pool->user = user;
    pool->strict = strict;
    atomic_store(&pool->open, atomic_load(&pool->start.word) + 1u);
    gate_open(&pool->start);
}

/* From here on nobody comes in; those inside are waited for. */
static void run_close(zt_pool *pool)
{
    atomic_store(&pool->open, CLOSED);
    for (spin_wait spin = {0}; atomic_load(&pool->inside) != 0;)
        if (!spin_once(&spin, pool)) sched_yield();
}

/* Workers take no signals: those belong to the thread that opened the pool. */
static int start_workers(zt_pool *pool)
{
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    int error = 0;
    for (int i = 0; i < pool->thread_count - 1 && !error; i++) {
        pool->workers[i] = (pool_worker){.pool = pool, .thread = i + 1};
        error = pthread_create(&pool->workers[i].id, NULL, run_worker, &pool->workers[i]);
        pool->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return error;
}

zt_pool *zt_pool_new(zt_ctx *ctx, int n_threads)
{
    if (!ctx) return NULL;
    if (n_threads < 1 || n_threads > 256) {
        zt_fail(ctx, ZT_EUSAGE, "invalid thread count %d: must be 1 to 256", n_threads);
        return NULL;
    }
    zt_pool *pool = zt_calloc(ctx, 1, sizeof *pool);
    if (!pool) return NULL;
    pool->ctx = ctx;
    pool->open = CLOSED;
    pool->thread_count = n_threads;
    pool->spins = n_threads <= zt_cpu_count();
    pool->workers = zt_calloc(ctx, (size_t)n_threads, sizeof *pool->workers);
    int error = pool->workers ? start_workers(pool) : 0;
    if (error) zt_fail(ctx, ZT_ESYS, "cannot start thread %d of %d: %s", pool->started + 1, n_threads, strerror(error));
    if (error || !pool->workers) {
        zt_pool_free(pool);
        return NULL;
    }
    return pool;
}

void zt_pool_free(zt_pool *pool)
{
    if (!pool) return;
    run_open(pool, NULL, NULL, false);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].id, NULL);
    zt_free(pool->ctx, pool->workers);
    zt_free(pool->ctx, pool);
}

int zt_pool_size(const zt_pool *pool) { return pool ? pool->thread_count : 0; }

void zt_pool_run(zt_pool *pool, zt_pool_fn *fn, void *user)
{
    if (!pool) return;
    ZT_REQUIRE(pool->ctx, fn, );
    if (pool->thread_count == 1) {
        fn(user, 0, 1);
        return;
    }
    unsigned done = atomic_load_explicit(&pool->finish.word, memory_order_relaxed);
    run_open(pool, fn, user, true);
    fn(user, 0, pool->thread_count);
    gate_wait(&pool->finish, done, pool);
    run_close(pool);
}

void zt_pool_help(zt_pool *pool, zt_pool_fn *fn, void *user)
{
    if (!pool) return;
    ZT_REQUIRE(pool->ctx, fn, );
    if (pool->thread_count > 1) run_open(pool, fn, user, false);
    fn(user, 0, pool->thread_count);
    if (pool->thread_count > 1) run_close(pool);
}

void zt_gate_add(zt_gate *gate, unsigned added, unsigned total)
{
    if (__atomic_add_fetch(&gate->done, added, __ATOMIC_SEQ_CST) == total && __atomic_load_n(&gate->sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &gate->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void zt_gate_wait(zt_gate *gate, unsigned total, const zt_pool *pool)
{
    unsigned done = 0;
    spin_wait spin = {0};
    do {
        if (__atomic_load_n(&gate->done, __ATOMIC_ACQUIRE) == total) return;
    } while (spin_once(&spin, pool));
    __atomic_fetch_add(&gate->sleepers, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&gate->done, __ATOMIC_SEQ_CST)) != total)
        syscall(SYS_futex, &gate->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
    __atomic_fetch_sub(&gate->sleepers, 1, __ATOMIC_SEQ_CST);
}

void zt_pool_barrier(zt_pool *pool, int thread)
{
    (void)thread;
    if (pool->thread_count == 1) return;
    /* Cannot change before this thread has arrived. */
    unsigned seen = atomic_load_explicit(&pool->meet.word, memory_order_relaxed);
    if (arrive_last(&pool->meet, (unsigned)pool->thread_count))
        gate_open(&pool->meet);
    else
        gate_wait(&pool->meet, seen, pool);
}
