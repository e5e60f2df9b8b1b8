/* replay.c - running a prepared plan: one parallel region, in which the threads walk the rounds. */
#include "lib/engine/cpu/cpu_engine.h"

#include <limits.h>

enum {
    LINE = 64,
    LINES = 8, /* of memory, fetched between two looks at a gate */
    HEAD = 256 /* of states, sent for before the work that comes before theirs */
};

typedef struct region {
    zt_cpu_engine *e;
    zt_executable *r;
    int task;      /* of a watched replay */
    zt_span *span; /* NULL: nobody wants times */
    int n_spans;   /* written so far, by all threads */
} region;

/* Stores past the caches (isa/stream.h) are seen by other threads once they have been waited for. */
static void store_fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_call(zt_cpu_call *c, void *local)
{
    for (int k = 0; k < c->n_phases; k++)
        if (c->items[k]) c->kernel->run(c, k, 0, c->items[k], local);
}

static void run_part(zt_executable *r, const zt_cpu_part *p, void *local)
{
    for (int i = p->task; i < p->task + p->n; i++) run_call(&r->task[i].call, local);
    zt_cpu_call *c = &r->task[p->task].call;
    if (p->n == 0) c->kernel->run(c, p->phase, p->begin, p->end, local);
    store_fence();
}

/* The same with a span for each call of the part. */
static void run_part_timed(region *g, const zt_cpu_part *p, void *local, int thread)
{
    for (int i = p->task; i < p->task + (p->n ? p->n : 1); i++) {
        zt_cpu_task *t = &g->r->task[i];
        zt_span span = {.step = t->step, .track = thread, .begin = zt_seconds()};
        if (p->n)
            run_call(&t->call, local);
        else
            t->call.kernel->run(&t->call, p->phase, p->begin, p->end, local);
        store_fence();
        span.end = zt_seconds();
        g->span[__atomic_fetch_add(&g->n_spans, 1, __ATOMIC_RELAXED)] = span;
    }
}

/* A thread on its way through the rounds. */
typedef struct walker {
    region *g;
    void *local;
    int thread, threads;
    const zt_cpu_prefetch_item *next; /* what it fetches ahead; NULL: nothing */
    int round;                 /* the next one with weights: nothing after it is fetched yet */
    int64_t turn;              /* pieces of next, in the kernel's own count; 0: none yet */
    size_t room;               /* bytes that may still be asked for of next, if it has a call */
    zt_cpu_prefetch piece;        /* what is on its way */
    size_t at;                 /* and how much of it */
} walker;

static void skip(walker *w)
{
    w->next++;
    w->turn = 0;
    w->piece = (zt_cpu_prefetch){0};
    w->at = 0;
}

/* Round i begins: what is fetched is for one after it. */
static void skip_over(walker *w, int i)
{
    if (!w->next) return;
    while (w->next->round <= i) skip(w);
    const zt_cpu_prefetch_item *c = w->next;
    while (c->call) c++;
    w->round = c->round;
}

/* The next piece of what comes next. */
static bool ask(walker *w)
{
    const zt_cpu_prefetch_item *c = w->next;
    if (!c->call) {
        w->piece = c->what;
        return !w->turn++;
    }
    if (!w->turn) w->room = ZT_CPU_COMING;
    if (!c->call->kernel->late(c->call, c->begin, c->end, &w->turn, &w->piece)) return false;
    size_t bytes = w->piece.bytes * (size_t)(w->piece.more + 1);
    bool fits = bytes <= w->room;
    w->room -= fits ? bytes : w->room;
    return fits;
}

/* Is there a line to fetch at w->at of w->piece? */
static bool line_left(walker *w)
{
    if (w->at < w->piece.bytes) return true;
    w->at = 0;
    if (w->piece.more > 0) {
        w->piece.more--;
        w->piece.at += w->piece.step;
        return true;
    }
    for (; w->next->round <= w->round && w->next->round != INT_MAX; skip(w))
        if (ask(w)) return true;
    return false;
}

/* Some lines more of what comes next; false: they are all on their way. The pause is for memory's
 * sake: what is asked of it faster than it answers is dropped. */
static bool fetch(walker *w)
{
    if (!w->next || !line_left(w)) return false;
    for (int i = 0; i < LINES && line_left(w); i++, w->at += LINE)
        __builtin_prefetch(w->piece.at + w->at);
    cpu_pause();
    return true;
}

/* Before round i: states that the next one reads are sent for, to the second cache, which takes
 * more at a time than the first. */
static void send_for(walker *w, int i)
{
    for (int k = 0; k < HEAD && w->next && w->next->call && w->next->round == i + 1; k++) {
        if (!line_left(w)) return;
        __builtin_prefetch(w->piece.at + w->at, 0, 2);
        w->at += LINE;
    }
}

static bool take(zt_cpu_part *p, unsigned replay)
{
    return __atomic_load_n(&p->taken, __ATOMIC_RELAXED) != replay &&
           __atomic_exchange_n(&p->taken, replay, __ATOMIC_RELAXED) != replay;
}

/* Its own parts, and then what others have not begun; returns how many. */
static unsigned run_round(walker *w, zt_cpu_round *round)
{
    unsigned did = 0;
    int32_t own = zt_cpu_own_items(round->n, w->thread, w->threads);
    for (int32_t k = 0; k < round->n; k++) {
        zt_cpu_part *part = &round->part[own + k < round->n ? own + k : own + k - round->n];
        if (!take(part, w->g->r->replay)) continue;
        if (w->g->span)
            run_part_timed(w->g, part, w->local, w->thread);
        else
            run_part(w->g->r, part, w->local);
        did++;
    }
    return did;
}

static void run_rounds(void *user, int thread, int threads)
{
    region *g = user;
    walker w = {.g = g, .local = zt_cpu_local(g->e, thread), .thread = thread, .threads = threads};
    if (g->r->coming) w.next = g->r->coming[thread];
    for (int i = 0; i < g->r->n_rounds; i++) {
        zt_cpu_round *round = &g->r->round[i];
        unsigned all = (unsigned)round->n * g->r->replay;
        skip_over(&w, i);
        send_for(&w, i);
        unsigned did = run_round(&w, round);
        if (did) zt_gate_add(&round->gate, did, all);
        while (__atomic_load_n(&round->gate.done, __ATOMIC_RELAXED) != all && fetch(&w)) continue;
        zt_gate_wait(&round->gate, all, g->e->pool);
    }
}

/* Barriers of n rounds: one thread waits for nobody. */
static uint64_t meetings(const zt_cpu_engine *e, int n)
{
    return zt_pool_size(e->pool) > 1 ? (uint64_t)n : 0;
}

static zt_status trouble(const zt_cpu_engine *e, const zt_executable *r, zt_cpu_task *t)
{
    zt_runtime_error was = t->call.trouble;
    const char *op = zt_op_info(r->plan.step[t->step].op)->name;
    t->call.trouble = (zt_runtime_error){0};
    if (was.limit < 0)
        return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s", op, t->step, was.what);
    if (was.value < 0)
        return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is below 0", op, t->step,
                       was.what, (long long)was.value);
    return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is not below %lld", op, t->step,
                   was.what, (long long)was.value, (long long)was.limit);
}

static zt_status find_trouble(const zt_cpu_engine *e, zt_executable *r, int first, int n)
{
    zt_status st = ZT_OK;
    for (int i = first; i < first + n; i++)
        if (r->task[i].call.trouble.what) {
            zt_status bad = trouble(e, r, &r->task[i]);
            if (!st) st = bad;
        }
    return st;
}

/* ---- watched: step by step ------------------------------------------------------------------- */

static void run_task(void *user, int thread, int threads)
{
    const region *g = user;
    zt_cpu_call *c = &g->r->task[g->task].call;
    for (int p = 0; p < c->n_phases; p++) {
        int64_t begin = c->items[p] * thread / threads, end = c->items[p] * (thread + 1) / threads;
        if (begin < end) c->kernel->run(c, p, begin, end, zt_cpu_local(g->e, thread));
        store_fence();
        zt_pool_barrier(g->e->pool, thread);
    }
}

/* One step's calls: at most a copy and its own. */
static zt_status run_step(zt_cpu_engine *e, zt_executable *r, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        zt_pool_run(e->pool, run_task, &(region){.e = e, .r = r, .task = i});
        e->report.barriers += meetings(e, r->task[i].call.n_phases);
    }
    return find_trouble(e, r, first, n);
}

static zt_status replay_watched(zt_cpu_engine *e, zt_executable *r, const zt_watch *w)
{
    zt_status st = ZT_OK;
    for (int s = 0, i = 0; s < r->plan.n_steps && !st; s++) {
        int n = 0;
        while (i + n < r->n_tasks && r->task[i + n].step == s) n++;
        if (w->before) st = w->before(w->user, &r->plan, s);
        if (st) break;
        double start = zt_seconds();
        st = run_step(e, r, i, n);
        e->report.kernels++;
        if (!st && w->after) w->after(w->user, &r->plan, s, zt_seconds() - start);
        i += n;
    }
    return st;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void run_all(region *g)
{
    g->r->replay++;
    zt_pool_help(g->e->pool, run_rounds, g);
    g->e->report.kernels += (uint64_t)g->r->plan.n_steps;
    g->e->report.barriers += meetings(g->e, g->r->n_rounds);
}

/* As it runs unwatched, with times. Every part runs once: so many spans there are. */
static zt_status replay_timed(zt_cpu_engine *e, zt_executable *r, const zt_watch *w)
{
    size_t n = 0;
    for (int i = 0; i < r->n_rounds; i++)
        for (int k = 0; k < r->round[i].n; k++)
            n += r->round[i].part[k].n ? (size_t)r->round[i].part[k].n : 1;
    region g = {.e = e, .r = r, .span = zt_alloc_array(e->base.ctx, n, sizeof *g.span)};
    if (!g.span) return ZT_ENOMEM;
    run_all(&g);
    zt_status st = find_trouble(e, r, 0, r->n_tasks);
    for (int i = 0; i < g.n_spans && !st; i++) w->span(w->user, &r->plan, &g.span[i]);
    zt_free(e->base.ctx, g.span);
    return st;
}

zt_status zt_cpu_replay(zt_engine *base, zt_executable *r, const void *const *in, void *const *out,
                        const zt_watch *watch)
{
    zt_cpu_engine *e = (zt_cpu_engine *)base;
    if (r->moved != e->moved) zt_cpu_resolve(e, r);
    for (size_t i = 0; i < r->n_hosts; i++) {
        const zt_cpu_host *h = &r->host[i];
        *h->data = h->out ? out[h->index] : (void *)(uintptr_t)in[h->index];
    }
    e->report.replays++;
    if (watch && watch->span && !watch->before && !watch->after) return replay_timed(e, r, watch);
    if (watch) return replay_watched(e, r, watch);
    run_all(&(region){.e = e, .r = r});
    return find_trouble(e, r, 0, r->n_tasks);
}
