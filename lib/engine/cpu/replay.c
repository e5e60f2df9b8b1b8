/* replay.c - running a prepared plan: one parallel region, in which all threads walk the stages. */
#include "lib/engine/cpu/own.h"

typedef struct region {
    zt_cpu_engine *e;
    zt_ready *r;
    int first, last; /* stages */
} region;

/* This thread's part of one phase. `turn` moves the first part to another thread, so that small
 * calls side by side do not all begin with thread 0. */
static void run_part(zt_cpu_task *t, int phase, int thread, int threads, int turn, void *local)
{
    zt_cpu_call *c = &t->call;
    int64_t items = c->items[phase], chunk = t->chunk[phase];
    if (items == 0) return;
    if (!chunk) {
        int64_t i = (thread + turn) % threads, begin = items * i / threads, end = items * (i + 1) / threads;
        if (begin < end) c->kernel->run(c, phase, begin, end, local);
        return;
    }
    int64_t *next = &t->share[phase].next;
    for (;;) {
        int64_t begin = __atomic_fetch_add(next, chunk, __ATOMIC_RELAXED);
        if (begin >= items) return;
        c->kernel->run(c, phase, begin, begin + chunk < items ? begin + chunk : items, local);
    }
}

static void run_alone(zt_cpu_task *t, void *local)
{
    zt_cpu_call *c = &t->call;
    for (int p = 0; p < c->n_phases; p++)
        if (c->items[p]) c->kernel->run(c, p, 0, c->items[p], local);
}

static void run_stage(const region *g, const zt_cpu_stage *s, int thread, int threads, bool last)
{
    zt_cpu_task *t = g->r->task + s->first;
    void *local = zt_cpu_local(g->e, thread);
    if (s->solo) {
        for (int i = 0; i < s->n && thread == 0; i++) run_alone(&t[i], local);
        if (!last) zt_pool_barrier(g->e->pool, thread);
        return;
    }
    int phases = 1;
    for (int i = 0; i < s->n; i++)
        if (t[i].call.n_phases > phases) phases = t[i].call.n_phases;
    for (int p = 0; p < phases; p++) {
        for (int i = 0; i < s->n; i++)
            if (p < t[i].call.n_phases) run_part(&t[i], p, thread, threads, i, local);
        if (!last || p < phases - 1) zt_pool_barrier(g->e->pool, thread);
    }
}

static void run_region(void *user, int thread, int threads)
{
    const region *g = user;
    for (int i = g->first; i < g->last; i++)
        run_stage(g, &g->r->stage[i], thread, threads, i == g->last - 1);
}

static zt_status trouble(const zt_cpu_engine *e, const zt_ready *r, zt_cpu_task *t)
{
    zt_trouble was = t->call.trouble;
    const char *op = zt_op_info(r->plan.step[t->step].op)->name;
    t->call.trouble = (zt_trouble){0};
    if (was.value < 0)
        return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is below 0", op, t->step,
                       was.what, (long long)was.value);
    return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is not below %lld", op, t->step,
                   was.what, (long long)was.value, (long long)was.limit);
}

static zt_status find_trouble(const zt_cpu_engine *e, zt_ready *r, int first, int n)
{
    zt_status st = ZT_OK;
    for (int i = first; i < first + n; i++)
        if (r->task[i].call.trouble.what) {
            zt_status bad = trouble(e, r, &r->task[i]);
            if (!st) st = bad;
        }
    return st;
}

/* ---- watched: step by step ----------------------------------------------------------------------- */

/* One step's calls (at most a copy and its own), each as a stage. */
static zt_status run_step(zt_cpu_engine *e, zt_ready *r, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        zt_cpu_stage one = {i, 1, false};
        region g = {.e = e, .r = r, .first = 0, .last = 1};
        zt_ready alone = *r;
        alone.stage = &one;
        g.r = &alone;
        zt_pool_run(e->pool, run_region, &g);
    }
    return find_trouble(e, r, first, n);
}

static zt_status replay_watched(zt_cpu_engine *e, zt_ready *r, const zt_watch *w)
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

/* ---- replay -------------------------------------------------------------------------------------- */

zt_status zt_cpu_replay(zt_engine *base, zt_ready *r, const void *const *in, void *const *out,
                        const zt_watch *watch)
{
    zt_cpu_engine *e = (zt_cpu_engine *)base;
    zt_status st;
    if (r->moved != e->moved) zt_cpu_resolve(e, r);
    for (size_t i = 0; i < r->n_hosts; i++) {
        const zt_cpu_host *h = &r->host[i];
        *h->data = h->out ? out[h->index] : (void *)(uintptr_t)in[h->index];
    }
    for (size_t i = 0; i < r->n_shares; i++) r->share[i].next = 0;
    e->report.replays++;
    if (watch) return replay_watched(e, r, watch);
    region g = {.e = e, .r = r, .first = 0, .last = r->n_stages};
    zt_pool_run(e->pool, run_region, &g);
    e->report.kernels += (uint64_t)r->plan.n_steps;
    st = find_trouble(e, r, 0, r->n_tasks);
    return st;
}
