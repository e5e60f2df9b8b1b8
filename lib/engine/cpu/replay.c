/* replay.c - running a prepared plan: one parallel region, in which the threads take the rounds in order. */
#include "lib/engine/cpu/cpu_engine.h"

#include <limits.h>

enum {
    LINE = 64,
    PREFETCH_LINES = 8, /* of memory, between two looks at a gate */
    STATE_LINES = 256   /* of states, prefetched before the round in front of theirs */
};

typedef struct replay_run {
    zt_cpu_engine *engine;
    zt_executable *executable;
    int task;      /* of a watched replay */
    zt_span *span; /* NULL: nobody wants times */
    int n_spans;   /* written so far, by all threads */
} replay_run;

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
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void run_call(zt_cpu_call *call, void *local)
{
    for (int k = 0; k < call->n_phases; k++)
        if (call->items[k]) call->kernel->run(call, k, 0, call->items[k], local);
}

static void run_part(zt_executable *executable, const zt_cpu_part *part, void *local)
{
    for (int i = part->task; i < part->task + part->call_count; i++) run_call(&executable->task[i].call, local);
    zt_cpu_call *call = &executable->task[part->task].call;
    if (part->call_count == 0) call->kernel->run(call, part->phase, part->begin, part->end, local);
    store_fence();
}

/* The same with a span for each call of the part. */
static void run_part_timed(replay_run *region, const zt_cpu_part *part, void *local, int thread)
{
    for (int i = part->task; i < part->task + (part->call_count ? part->call_count : 1); i++) {
        zt_cpu_task *task = &region->executable->task[i];
        zt_span span = {.step = task->step, .track = thread, .begin = zt_seconds()};
        if (part->call_count)
            run_call(&task->call, local);
        else
            task->call.kernel->run(&task->call, part->phase, part->begin, part->end, local);
        store_fence();
        span.end = zt_seconds();
        region->span[__atomic_fetch_add(&region->n_spans, 1, __ATOMIC_RELAXED)] = span;
    }
}

/* A thread in the rounds, and what it prefetches. */
typedef struct replay_worker {
    replay_run *region;
    void *local;
    int thread, threads;
    const zt_cpu_prefetch_item *next; /* what it prefetches; NULL: nothing */
    int round;                        /* the next one with weights: nothing after it is prefetched yet */
    int64_t turn;                     /* pieces of next, in the kernel's own count; 0: none yet */
    size_t bytes_left;                /* that may still be prefetched of next, if it has a call */
    zt_cpu_prefetch piece;            /* of it, which is being prefetched */
    size_t at;                        /* how much of the piece is */
} replay_worker;

static void next_item(replay_worker *worker)
{
    worker->next++;
    worker->turn = 0;
    worker->piece = (zt_cpu_prefetch){0};
    worker->at = 0;
}

/* A round begins: what is prefetched is for one after it. */
static void begin_round(replay_worker *worker, int round)
{
    if (!worker->next) return;
    while (worker->next->round <= round) next_item(worker);
    const zt_cpu_prefetch_item *item = worker->next;
    while (item->call) item++;
    worker->round = item->round;
}

/* The next piece of what comes next. */
static bool next_piece(replay_worker *worker)
{
    const zt_cpu_prefetch_item *item = worker->next;
    if (!item->call) {
        worker->piece = item->weights;
        return !worker->turn++;
    }
    if (!worker->turn) worker->bytes_left = ZT_CPU_PREFETCH_BYTES;
    if (!item->call->kernel->prefetch_states(item->call, item->begin, item->end, &worker->turn, &worker->piece)) return false;
    size_t bytes = worker->piece.bytes * (size_t)(worker->piece.more + 1);
    bool fits = bytes <= worker->bytes_left;
    worker->bytes_left -= fits ? bytes : worker->bytes_left;
    return fits;
}

/* Is there a line to fetch at w->at of w->piece? */
static bool line_left(replay_worker *worker)
{
    if (worker->at < worker->piece.bytes) return true;
    worker->at = 0;
    if (worker->piece.more > 0) {
        worker->piece.more--;
        worker->piece.at += worker->piece.step;
        return true;
    }
    for (; worker->next->round <= worker->round && worker->next->round != INT_MAX; next_item(worker))
        if (next_piece(worker)) return true;
    return false;
}

/* Prefetches some more lines; false: all are requested. The pause is for memory's sake: requests that come faster than
 * it answers are dropped. */
static bool prefetch_lines(replay_worker *worker)
{
    if (!worker->next || !line_left(worker)) return false;
    for (int i = 0; i < PREFETCH_LINES && line_left(worker); i++, worker->at += LINE)
        __builtin_prefetch(worker->piece.at + worker->at);
    cpu_pause();
    return true;
}

/* Before a round: prefetches states that the next one reads, to the second-level cache, which takes more at a time than
 * the first. */
static void prefetch_states(replay_worker *worker, int round)
{
    for (int k = 0; k < STATE_LINES && worker->next && worker->next->call && worker->next->round == round + 1; k++) {
        if (!line_left(worker)) return;
        __builtin_prefetch(worker->piece.at + worker->at, 0, 2);
        worker->at += LINE;
    }
}

static bool claim_part(zt_cpu_part *part, unsigned replay)
{
    return __atomic_load_n(&part->taken, __ATOMIC_RELAXED) != replay &&
           __atomic_exchange_n(&part->taken, replay, __ATOMIC_RELAXED) != replay;
}

/* Runs its own parts, and then those that others have not begun; returns how many. */
static unsigned run_round(replay_worker *worker, zt_cpu_round *round)
{
    unsigned done = 0;
    int32_t first = zt_cpu_first_part(round->part_count, worker->thread, worker->threads);
    for (int32_t k = 0; k < round->part_count; k++) {
        zt_cpu_part *part = &round->part[first + k < round->part_count ? first + k : first + k - round->part_count];
        if (!claim_part(part, worker->region->executable->replay)) continue;
        if (worker->region->span)
            run_part_timed(worker->region, part, worker->local, worker->thread);
        else
            run_part(worker->region->executable, part, worker->local);
        done++;
    }
    return done;
}

static void run_rounds(void *user, int thread, int threads)
{
    replay_run *region = user;
    replay_worker worker = {
        .region = region, .local = zt_cpu_local(region->engine, thread), .thread = thread, .threads = threads};
    if (region->executable->prefetch) worker.next = region->executable->prefetch[thread];
    for (int i = 0; i < region->executable->n_rounds; i++) {
        zt_cpu_round *round = &region->executable->round[i];
        unsigned all_parts = (unsigned)round->part_count * region->executable->replay;
        begin_round(&worker, i);
        prefetch_states(&worker, i);
        unsigned done = run_round(&worker, round);
        if (done) zt_gate_add(&round->gate, done, all_parts);
        while (__atomic_load_n(&round->gate.done, __ATOMIC_RELAXED) != all_parts && prefetch_lines(&worker)) continue;
        zt_gate_wait(&round->gate, all_parts, region->engine->pool);
    }
}

/* Barriers of n rounds: one thread waits for nobody. */
static uint64_t barriers_of(const zt_cpu_engine *engine, int rounds)
{
    return zt_pool_size(engine->pool) > 1 ? (uint64_t)rounds : 0;
}

static zt_status report_error(const zt_cpu_engine *engine, const zt_executable *executable, zt_cpu_task *task)
{
    zt_runtime_error error = task->call.error;
    const char *op = zt_op_info(executable->plan.step[task->step].op)->name;
    task->call.error = (zt_runtime_error){0};
    if (error.limit < 0) return zt_fail(engine->base.ctx, ZT_EDATA, "op %s (step %d): %s", op, task->step, error.what);
    if (error.value < 0)
        return zt_fail(engine->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is out of range: must be nonnegative", op,
                       task->step, error.what, (long long)error.value);
    return zt_fail(engine->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is out of range: must be less than %lld", op, task->step,
                   error.what, (long long)error.value, (long long)error.limit);
}

static zt_status report_errors(const zt_cpu_engine *engine, zt_executable *executable, int first, int count)
{
    zt_status status = ZT_OK;
    for (int i = first; i < first + count; i++)
        if (executable->task[i].call.error.what) {
            zt_status error = report_error(engine, executable, &executable->task[i]);
            if (!status) status = error;
        }
    return status;
}

/* ---- watched: step by step ------------------------------------------------------------------- */

static void run_task(void *user, int thread, int threads)
{
    const replay_run *region = user;
    zt_cpu_call *call = &region->executable->task[region->task].call;
    for (int phase = 0; phase < call->n_phases; phase++) {
        int64_t begin = call->items[phase] * thread / threads, end = call->items[phase] * (thread + 1) / threads;
        if (begin < end) call->kernel->run(call, phase, begin, end, zt_cpu_local(region->engine, thread));
        store_fence();
        zt_pool_barrier(region->engine->pool, thread);
    }
}

/* One step's calls: at most a copy and its own. */
static zt_status run_step(zt_cpu_engine *engine, zt_executable *executable, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        zt_pool_run(engine->pool, run_task, &(replay_run){.engine = engine, .executable = executable, .task = i});
        engine->report.barriers += barriers_of(engine, executable->task[i].call.n_phases);
    }
    return report_errors(engine, executable, first, count);
}

static zt_status replay_watched(zt_cpu_engine *engine, zt_executable *executable, const zt_watch *watch)
{
    zt_status status = ZT_OK;
    for (int step = 0, i = 0; step < executable->plan.n_steps && !status; step++) {
        int count = 0;
        while (i + count < executable->n_tasks && executable->task[i + count].step == step) count++;
        if (watch->before) status = watch->before(watch->user, &executable->plan, step);
        if (status) break;
        double start = zt_seconds();
        status = run_step(engine, executable, i, count);
        engine->report.kernels++;
        if (!status && watch->after) watch->after(watch->user, &executable->plan, step, zt_seconds() - start);
        i += count;
    }
    return status;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void run_threads(replay_run *region)
{
    region->executable->replay++;
    zt_pool_help(region->engine->pool, run_rounds, region);
    region->engine->report.kernels += (uint64_t)region->executable->plan.n_steps;
    region->engine->report.barriers += barriers_of(region->engine, region->executable->n_rounds);
}

/* As it runs unwatched, with times: a span for each call of each part. */
static zt_status replay_timed(zt_cpu_engine *engine, zt_executable *executable, const zt_watch *watch)
{
    size_t count = 0;
    for (int i = 0; i < executable->n_rounds; i++)
        for (int k = 0; k < executable->round[i].part_count; k++)
            count += executable->round[i].part[k].call_count ? (size_t)executable->round[i].part[k].call_count : 1;
    replay_run region = {.engine = engine, .executable = executable};
    region.span = zt_alloc_array(engine->base.ctx, count, sizeof *region.span);
    if (!region.span) return ZT_ENOMEM;
    run_threads(&region);
    zt_status status = report_errors(engine, executable, 0, executable->n_tasks);
    for (int i = 0; i < region.n_spans && !status; i++) watch->span(watch->user, &executable->plan, &region.span[i]);
    zt_free(engine->base.ctx, region.span);
    return status;
}

zt_status zt_cpu_replay(zt_engine *base, zt_executable *executable, const void *const *in, void *const *out,
                        const zt_watch *watch)
{
    zt_cpu_engine *engine = (zt_cpu_engine *)base;
    if (executable->moved != engine->moved) zt_cpu_resolve(engine, executable);
    for (size_t i = 0; i < executable->n_hosts; i++) {
        const zt_cpu_host *host = &executable->host[i];
        *host->data = host->out ? out[host->index] : (void *)(uintptr_t)in[host->index];
    }
    engine->report.replays++;
    if (watch && watch->span && !watch->before && !watch->after) return replay_timed(engine, executable, watch);
    if (watch) return replay_watched(engine, executable, watch);
    run_threads(&(replay_run){.engine = engine, .executable = executable});
    return report_errors(engine, executable, 0, executable->n_tasks);
}
