/* roof.c - measuring the roof: samples of one loop by one thread or by all, and the best of them.
 *
 * What is walked through in memory is several times the last cache, in pieces that follow one
 * another round and round, so that a sample is short and yet finds nothing in the caches; the first
 * round does not count.
 */
#include "lib/base/processor.h"
#include "lib/engine/roof.h"
#include "lib/engine/cpu/caches.h"
#include "lib/engine/cpu/isa/roof.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 256, GRAIN = 4096, TOGETHER = 16 };
static const size_t MIB = (size_t)1 << 20;

typedef enum work { READ, COPY, STREAM, COMPUTE } work;

typedef struct job {
    work work;
    const zt_cpu_peak *peak; /* COMPUTE */
    int64_t rounds;          /* COMPUTE: of the loop; else passes over a piece */
    size_t set, piece;       /* bytes that a thread walks through: all, and of one sample */
    int64_t next;            /* sample */
} job;

typedef struct meter {
    const zt_cpu_roof *loops;
    zt_pool *pool;
    int threads;
    uint8_t *memory; /* `own` bytes for each thread */
    size_t own;
    const job *job; /* what runs now */
    double begin[TOGETHER][MAX_THREADS], end[TOGETHER][MAX_THREADS];
    uint64_t sum[MAX_THREADS]; /* so that what is read matters */
} meter;

/* ---- samples --------------------------------------------------------------------------------- */

static void work_once(meter *m, const job *j, int64_t sample_no, int thread)
{
    size_t half = j->set / 2, pieces = j->piece ? j->set / j->piece : 1;
    size_t at = (size_t)sample_no % pieces * j->piece;
    uint8_t *base = m->memory + (size_t)thread * m->own;
    if (j->work == COMPUTE) j->peak->run(j->rounds);
    for (int64_t i = 0; i < j->rounds && j->work == READ; i++)
        m->sum[thread] += m->loops->read(base + at, j->piece);
    for (int64_t i = 0; i < j->rounds && (j->work == COPY || j->work == STREAM); i++)
        (j->work == COPY ? m->loops->copy : m->loops->stream)(base + half + at / 2, base + at / 2,
                                                              j->piece / 2);
}

/* Some samples in one go, without waiting in between. */
static void work_thread(void *user, int thread, int threads)
{
    meter *m = user;
    if (threads > 1) zt_pool_barrier(m->pool, thread);
    for (int i = 0; i < TOGETHER; i++) {
        m->begin[i][thread] = zt_seconds();
        work_once(m, m->job, m->job->next + i, thread);
        m->end[i][thread] = zt_seconds();
    }
}

/* What the threads did a second while the first took its i-th sample, `amount` being a sample's: of
 * another's sample, the part of it that fell into that time. So a thread that comes late to one
 * sample, as sleepers do, spoils no more than that. */
static double rate_of(const meter *m, int i, int threads, double amount)
{
    double begin = m->begin[i][0], end = m->end[i][0], sum = amount;
    if (end <= begin) return 0; /* the clock did not move */
    for (int k = 1; k < threads; k++)
        for (int s = 0; s < TOGETHER; s++) {
            double b = m->begin[s][k], e = m->end[s][k];
            double both = (e < end ? e : end) - (b > begin ? b : begin);
            if (both > 0) sum += amount * both / (e - b);
        }
    return sum / (end - begin);
}

/* The best rate of a job in about `seconds`; its first way through memory does not count. */
static double best(meter *m, job j, int threads, double seconds)
{
    double amount = (j.work == COMPUTE ? j.peak->ops : (double)j.piece) * (double)j.rounds;
    double rate = 0, start = zt_seconds();
    int64_t warm = j.work == COMPUTE ? 1 : (int64_t)(j.set / j.piece);
    for (m->job = &j; j.next < warm + TOGETHER || zt_seconds() - start < seconds;
         j.next += TOGETHER) {
        if (threads == 1)
            work_thread(m, 0, 1);
        else
            zt_pool_run(m->pool, work_thread, m);
        for (int i = 0; i < TOGETHER; i++) {
            double r = rate_of(m, i, threads, amount);
            if (j.next + i >= warm && r > rate) rate = r;
        }
    }
    return rate;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static size_t grains(size_t bytes) { return bytes < GRAIN ? GRAIN : bytes / GRAIN * GRAIN; }

static size_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

/* Half of a thread's share of the cache, but well past the level below it. */
static size_t cache_set(const zt_cpu_cache *c, size_t below, int threads)
{
    size_t share = c->bytes / (size_t)(c->sharers < threads ? c->sharers : threads);
    size_t set = share / 2 > 2 * below ? share / 2 : 2 * below;
    return grains(set < share ? set : share);
}

/* Several times the last cache. */
static size_t memory_set(size_t last, int threads)
{
    size_t all = 4 * last;
    if (all < 64 * MIB) all = 64 * MIB;
    if (all > 512 * MIB) all = 512 * MIB;
    return grains(all / (size_t)threads);
}

/* Within what the context may take: half of it, for all threads. */
static size_t allowed(zt_ctx *ctx, size_t set, int threads)
{
    zt_mem mem = zt_mem_get(ctx);
    size_t most = mem.limit > mem.held ? (mem.limit - mem.held) / 2 / (size_t)threads : 0;
    return mem.limit && set > most ? grains(most) : set;
}

static void find_levels(zt_ctx *ctx, zt_roof *roof)
{
    zt_cpu_cache cache[ZT_ROOF_LEVELS - 1];
    int n = zt_cpu_caches(cache, ZT_ROOF_LEVELS - 1);
    size_t below = 0;
    for (int i = 0; i < n; i++) {
        zt_roof_level *l = &roof->level[i];
        *l = (zt_roof_level){.bytes = cache[i].bytes, .sharers = cache[i].sharers};
        memcpy(l->name, cache[i].name, sizeof l->name);
        l->set = cache_set(&cache[i], below, roof->threads);
        below = cache[i].bytes;
    }
    roof->n_levels = n + 1;
    roof->level[n] = (zt_roof_level){.name = "memory", .bytes = machine_memory(),
                                     .sharers = zt_cpu_count(),
                                     .set = memory_set(below, roof->threads)};
    for (int i = 0; i <= n; i++)
        roof->level[i].set = allowed(ctx, roof->level[i].set, roof->threads);
}

/* A piece is what takes some tens of microseconds or more: passes over a cache, or of memory a part
 * that its first misses do not matter to. One thread walks through the memory of all. */
static job job_of(const zt_roof_level *l, work w, bool memory, size_t set)
{
    job j = {.work = w, .rounds = 1, .set = set, .piece = l->set};
    size_t most = 4 * MIB, least = MIB;
    if (memory && j.piece > most) j.piece = most;
    if (!memory && j.piece < least) j.rounds = (int64_t)(least / j.piece);
    return j;
}

/* With all threads. On a machine that is busy they hardly run at the same time: where they do not
 * bring more than one does, they are asked again some times. */
static double best_of_all(meter *m, job j, double one, double seconds)
{
    double rate = 0;
    for (int i = 0; i < 5 && rate < 1.3 * one; i++) {
        double r = best(m, j, m->threads, seconds);
        rate = r > rate ? r : rate;
    }
    return rate > one ? rate : one;
}

static void measure_level(meter *m, zt_roof_level *l, bool memory, bool brief, double seconds)
{
    bool one = m->threads == 1;
    size_t alone = memory ? l->set * (size_t)m->threads : l->set;
    work copy = memory ? STREAM : COPY;
    l->read[0] = best(m, job_of(l, READ, memory, alone), 1, seconds);
    l->read[1] = one ? l->read[0]
                     : best_of_all(m, job_of(l, READ, memory, l->set), l->read[0], seconds);
    if (brief) return;
    l->copy[0] = best(m, job_of(l, copy, memory, alone), 1, seconds);
    l->copy[1] = one ? l->copy[0]
                     : best_of_all(m, job_of(l, copy, memory, l->set), l->copy[0], seconds);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const zt_cpu_roof *const loops_of[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = &zt_cpu_roof_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = &zt_cpu_roof_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = &zt_cpu_roof_avx512,
#endif
};

/* One that this processor has? */
static bool is_there(const zt_cpu_peak *p) { return !p->amx || zt_cpu_amx(); }

static void measure_peaks(meter *m, zt_roof *roof, zt_isa isa, double seconds)
{
    for (const zt_cpu_peak *p = loops_of[isa]->peak; p->run && roof->n_peaks < ZT_ROOF_PEAKS; p++) {
        if (!is_there(p)) continue;
        zt_roof_peak *to = &roof->peak[roof->n_peaks++];
        job j = {.work = COMPUTE, .peak = p, .rounds = 20000}; /* 65 us at 3.7 GHz */
        *to = (zt_roof_peak){.isa = isa, .kind = p->kind, .how = p->how};
        to->set = p->amx ? "amx" : zt_isa_name(isa);
        to->rate[0] = best(m, j, 1, seconds);
        to->rate[1] = m->threads == 1 ? to->rate[0] : best_of_all(m, j, to->rate[0], seconds);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Bytes of this process in huge pages (proc(5)). */
static size_t huge_bytes(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "AnonHugePages: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    return (size_t)kib << 10;
}

static void touch(void *user, int thread, int threads)
{
    meter *m = user;
    (void)threads;
    memset(m->memory + (size_t)thread * m->own, thread + 1, m->own);
}

static zt_status open_meter(zt_ctx *ctx, meter *m, zt_roof *roof)
{
    size_t bytes;
    for (int i = 0; i < roof->n_levels; i++)
        if (roof->level[i].set > m->own) m->own = roof->level[i].set;
    if (!zt_mul_size(m->own, (size_t)m->threads, &bytes))
        return zt_fail(ctx, ZT_ENOMEM, "%d threads: too many to measure with", m->threads);
    m->pool = zt_pool_new(ctx, m->threads);
    m->memory = m->pool ? zt_alloc(ctx, bytes) : NULL;
    if (!m->memory) return zt_ctx_status(ctx);
    size_t before = huge_bytes();
    zt_pool_run(m->pool, touch, m);
    roof->huge = huge_bytes() >= before + bytes / 2;
    return ZT_OK;
}

static void measure(meter *m, zt_roof *roof, zt_isa isa, const zt_roof_opts *o, double seconds)
{
    int first = o->brief ? (int)isa : 0, both = m->threads > 1 ? 2 : 1, jobs = 0;
    for (int i = first; i <= (int)isa; i++)
        for (const zt_cpu_peak *p = loops_of[i]->peak; p->run; p++) jobs += is_there(p);
    double each = seconds / ((jobs + roof->n_levels * (o->brief ? 1 : 2)) * both);
    for (int i = roof->n_levels; i-- > 0;)
        measure_level(m, &roof->level[i], i == roof->n_levels - 1, o->brief, each);
    for (int i = first; i <= (int)isa; i++) measure_peaks(m, roof, (zt_isa)i, each);
}

zt_status zt_roof_measure(zt_ctx *ctx, const zt_roof_opts *opts, zt_roof *roof)
{
    zt_isa isa = opts->isa < zt_isa_best() ? opts->isa : zt_isa_best();
    *roof = (zt_roof){.threads = opts->threads ? opts->threads : zt_cpu_count()};
    if (roof->threads < 1 || roof->threads > MAX_THREADS)
        return zt_fail(ctx, ZT_EUSAGE, "%d threads: 1 to %d are possible", roof->threads,
                       MAX_THREADS);
    find_levels(ctx, roof);
    meter *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m) return ZT_ENOMEM;
    m->loops = loops_of[isa];
    m->threads = roof->threads;
    zt_status s = open_meter(ctx, m, roof);
    if (!s) measure(m, roof, isa, opts, opts->seconds > 0 ? opts->seconds : 0.1);
    zt_free(ctx, m->memory);
    zt_pool_free(m->pool);
    zt_free(ctx, m);
    return s;
}

/* ---- what it says ---------------------------------------------------------------------------- */

const char *zt_roof_kind_name(zt_roof_kind k)
{
    static const char *const name[ZT_ROOF_KINDS] = {"f32", "bf16", "int8"};
    return (unsigned)k < ZT_ROOF_KINDS ? name[k] : "unknown";
}

double zt_roof_rate(const zt_roof *r, zt_roof_kind kind)
{
    double of_kind = 0, plain = 0;
    for (int i = 0; i < r->n_peaks; i++) {
        double rate = r->peak[i].rate[ZT_ROOF_ALL];
        if (r->peak[i].kind == kind && rate > of_kind) of_kind = rate;
        if (r->peak[i].kind == ZT_ROOF_F32 && rate > plain) plain = rate;
    }
    return of_kind > plain ? of_kind : plain;
}

const zt_roof_level *zt_roof_level_of(const zt_roof *r, size_t bytes)
{
    for (int i = 0; i < r->n_levels - 1; i++) {
        const zt_roof_level *l = &r->level[i];
        size_t caches = (size_t)((r->threads + l->sharers - 1) / l->sharers);
        if (bytes / caches <= l->bytes) return l;
    }
    return &r->level[r->n_levels - 1];
}
