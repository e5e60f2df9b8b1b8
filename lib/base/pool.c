/* pool.c - a team of threads: start, finish and barrier.
 *
 * All three wait for a word to change. A waiter spins for SPIN_SECONDS, since a barrier is crossed
 * hundreds of times a token and a sleep costs more than the work between two of them, and a caller
 * that goes from step to step leaves no longer gaps; then it sleeps in the kernel (futex). That is
 * a time and no number of turns: a pause takes some 40 cycles on one processor and 140 on another.
 * With more threads than processors nobody spins: the thread that is waited for needs the
 * processor. */
#include "lib/base/internal.h"
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
typedef struct gate {
    _Alignas(LINE) atomic_uint word;
    atomic_uint arrived; /* for barrier and finish: who has come so far */
    atomic_uint sleepers;
} gate;

/* No word of 32 bits: a worker that was kept waiting since an earlier run must not take it for the
 * word of that run. */
#define CLOSED (1ull << 32)

typedef struct worker {
    zt_pool *pool;
    pthread_t id;
    int thread;
} worker;

struct zt_pool {
    gate start, finish, meet;
    zt_ctx *ctx;
    atomic_ullong open; /* start's word of the run that workers may enter, or CLOSED */
    atomic_uint inside; /* workers that look at the run */
    zt_pool_fn *fn; /* of this run; NULL: go home */
    bool strict;    /* every worker takes part */
    void *user;
    int n;       /* threads with the caller */
    int started; /* workers that run */
    bool spins;
    worker *workers; /* [n - 1] */
};

/* ---- gates ----------------------------------------------------------------------------------- */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A wait that spins, from {0} on. */
typedef struct spin {
    unsigned turns;
    double until;
} spin;

/* One turn more; false: that is enough. */
static bool turn(spin *s, const zt_pool *p)
{
    if (!p->spins)
        return false;
    relax();
    if (++s->turns % TURNS)
        return true;
    double now = zt_seconds();
    if (s->turns == TURNS)
        s->until = now + SPIN_SECONDS;
    return now < s->until;
}

static void gate_wait(gate *g, unsigned old, const zt_pool *p)
{
    spin s = {0};
    do {
        if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
            return;
    } while (turn(&s, p));
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->word) == old)
        syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(gate *g)
{
    atomic_fetch_add(&g->word, 1);
    if (atomic_load(&g->sleepers))
        syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* True for the last of n to come; all that the others did before is then visible to it. */
static bool arrive_last(gate *g, unsigned n)
{
    if (atomic_fetch_add_explicit(&g->arrived, 1, memory_order_acq_rel) + 1 < n)
        return false;
    atomic_store_explicit(&g->arrived, 0, memory_order_relaxed);
    return true;
}

/* ---- the team -------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    worker *w = arg;
    zt_pool *p = w->pool;
    for (unsigned seen = 0;;) {
        gate_wait(&p->start, seen, p);
        seen = atomic_load(&p->start.word);
        atomic_fetch_add(&p->inside, 1);
        /* A run that was closed meanwhile is over: its fn is not to be looked at. */
        bool open = atomic_load(&p->open) == seen, strict = open && p->strict;
        if (open && !p->fn)
            return NULL;
        if (open)
            p->fn(p->user, w->thread, p->n);
        atomic_fetch_sub(&p->inside, 1);
        if (strict && arrive_last(&p->finish, (unsigned)p->n - 1))
            gate_open(&p->finish);
    }
}

/* Let the workers in: to fn, or home with fn NULL. Nobody is inside. */
static void run_open(zt_pool *p, zt_pool_fn *fn, void *user, bool strict)
{
    p->fn = fn;
    p->user = user;
    p->strict = strict;
    atomic_store(&p->open, atomic_load(&p->start.word) + 1u);
    gate_open(&p->start);
}

/* From here on nobody comes in; those inside are waited for. */
static void run_close(zt_pool *p)
{
    atomic_store(&p->open, CLOSED);
    for (spin s = {0}; atomic_load(&p->inside) != 0;)
        if (!turn(&s, p))
            sched_yield();
}

/* Workers take no signals: those belong to the thread that opened the pool. */
static int start_workers(zt_pool *p)
{
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int error = 0;
    for (int i = 0; i < p->n - 1 && !error; i++) {
        p->workers[i] = (worker){.pool = p, .thread = i + 1};
        error = pthread_create(&p->workers[i].id, NULL, work, &p->workers[i]);
        p->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return error;
}

zt_pool *zt_pool_new(zt_ctx *ctx, int n_threads)
{
    if (n_threads < 1 || n_threads > 256) {
        zt_fail(ctx, ZT_EUSAGE, "%d threads: 1 to 256 are possible", n_threads);
        return NULL;
    }
    zt_pool *p = zt_calloc(ctx, 1, sizeof *p);
    if (!p)
        return NULL;
    p->ctx = ctx;
    p->open = CLOSED;
    p->n = n_threads;
    p->spins = n_threads <= zt_cpu_count();
    p->workers = zt_calloc(ctx, (size_t)n_threads, sizeof *p->workers);
    int error = p->workers ? start_workers(p) : 0;
    if (error)
        zt_fail(ctx, ZT_ESYS, "thread %d of %d cannot be started: %s", p->started + 1, n_threads,
                strerror(error));
    if (error || !p->workers) {
        zt_pool_free(p);
        return NULL;
    }
    return p;
}

void zt_pool_free(zt_pool *p)
{
    if (!p)
        return;
    run_open(p, NULL, NULL, false);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->workers[i].id, NULL);
    zt_free(p->ctx, p->workers);
    zt_free(p->ctx, p);
}

int zt_pool_size(const zt_pool *p)
{
    return p->n;
}

void zt_pool_run(zt_pool *p, zt_pool_fn *fn, void *user)
{
    if (p->n == 1) {
        fn(user, 0, 1);
        return;
    }
    unsigned done = atomic_load_explicit(&p->finish.word, memory_order_relaxed);
    run_open(p, fn, user, true);
    fn(user, 0, p->n);
    gate_wait(&p->finish, done, p);
    run_close(p);
}

void zt_pool_help(zt_pool *p, zt_pool_fn *fn, void *user)
{
    if (p->n > 1)
        run_open(p, fn, user, false);
    fn(user, 0, p->n);
    if (p->n > 1)
        run_close(p);
}

void zt_gate_add(zt_gate *g, unsigned n, unsigned all)
{
    if (__atomic_add_fetch(&g->done, n, __ATOMIC_SEQ_CST) == all &&
        __atomic_load_n(&g->sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &g->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void zt_gate_wait(zt_gate *g, unsigned all, const zt_pool *p)
{
    unsigned done = 0;
    spin s = {0};
    do {
        if (__atomic_load_n(&g->done, __ATOMIC_ACQUIRE) == all)
            return;
    } while (turn(&s, p));
    __atomic_fetch_add(&g->sleepers, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&g->done, __ATOMIC_SEQ_CST)) != all)
        syscall(SYS_futex, &g->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
    __atomic_fetch_sub(&g->sleepers, 1, __ATOMIC_SEQ_CST);
}

void zt_pool_barrier(zt_pool *p, int thread)
{
    (void)thread;
    if (p->n == 1)
        return;
    /* Cannot change before this thread has arrived. */
    unsigned seen = atomic_load_explicit(&p->meet.word, memory_order_relaxed);
    if (arrive_last(&p->meet, (unsigned)p->n))
        gate_open(&p->meet);
    else
        gate_wait(&p->meet, seen, p);
}
