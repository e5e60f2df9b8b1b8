/* roof.c - measuring the roof: samples of one loop by one thread or by all, and the best of them.
 *
 * What is walked through in memory is several times the last cache, in pieces that follow one
 * another round and round, so that a sample is short and yet finds nothing in the caches; the first
 * round does not count.
 */
#include "lib/base/processor.h"
#include "lib/base/require.h"
#include "lib/engine/roof.h"
#include "lib/engine/cpu/caches.h"
#include "lib/engine/cpu/isa/roof.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 256, GRAIN = 4096, TOGETHER = 16 };
static const size_t MIB = (size_t)1 << 20;

typedef enum work_kind { READ, COPY, STREAM, COMPUTE } work_kind;

typedef struct sample_job {
    work_kind work;
    const zt_cpu_peak *peak; /* COMPUTE */
    int64_t rounds;          /* COMPUTE: of the loop; else passes over a piece */
    size_t set, piece;       /* bytes that a thread reads: in all, and in one sample */
    int64_t next;            /* sample */
} sample_job;

typedef struct roof_meter {
    const zt_cpu_roof *loops;
    zt_pool *pool;
    int threads;
    uint8_t *memory; /* thread_bytes for each thread */
    size_t thread_bytes;
    const sample_job *sample_job; /* what runs now */
    double begin[TOGETHER][MAX_THREADS], end[TOGETHER][MAX_THREADS];
    uint64_t sum[MAX_THREADS]; /* so that what is read matters */
} roof_meter;

/* ---- samples --------------------------------------------------------------------------------- */

static void work_once(roof_meter *meter, const sample_job *job, int64_t sample_no, int thread)
{
    size_t half = job->set / 2, pieces = job->piece ? job->set / job->piece : 1;
    size_t at = (size_t)sample_no % pieces * job->piece;
    uint8_t *base = meter->memory + (size_t)thread * meter->thread_bytes;
    if (job->work == COMPUTE) job->peak->run(job->rounds);
    for (int64_t i = 0; i < job->rounds && job->work == READ; i++)
        meter->sum[thread] += meter->loops->read(base + at, job->piece);
    for (int64_t i = 0; i < job->rounds && (job->work == COPY || job->work == STREAM); i++)
        (job->work == COPY ? meter->loops->copy : meter->loops->stream)(base + half + at / 2, base + at / 2, job->piece / 2);
}

/* Some samples in one go, without waiting in between. */
static void work_thread(void *user, int thread, int threads)
{
    roof_meter *meter = user;
    if (threads > 1) zt_pool_barrier(meter->pool, thread);
    for (int i = 0; i < TOGETHER; i++) {
        meter->begin[i][thread] = zt_seconds();
        work_once(meter, meter->sample_job, meter->sample_job->next + i, thread);
        meter->end[i][thread] = zt_seconds();
    }
}

/* What the threads did a second while the first took its i-th sample, `amount` being a sample's: of
 * another's sample, the part of it that fell into that time. So a thread that comes late to one
 * sample, as sleepers do, spoils no more than that. */
static double rate_of(const roof_meter *meter, int i, int threads, double amount)
{
    double begin = meter->begin[i][0], end = meter->end[i][0], sum = amount;
    if (end <= begin) return 0; /* the clock did not move */
    for (int k = 1; k < threads; k++)
        for (int sample = 0; sample < TOGETHER; sample++) {
            double other_begin = meter->begin[sample][k], other_end = meter->end[sample][k];
            double overlap = (other_end < end ? other_end : end) - (other_begin > begin ? other_begin : begin);
            if (overlap > 0) sum += amount * overlap / (other_end - other_begin);
        }
    return sum / (end - begin);
}

/* The best rate of a job in about `seconds`; its first way through memory does not count. */
static double best_rate(roof_meter *meter, sample_job job, int threads, double seconds)
{
    double amount = (job.work == COMPUTE ? job.peak->ops : (double)job.piece) * (double)job.rounds;
    double rate = 0, start = zt_seconds();
    int64_t warm = job.work == COMPUTE ? 1 : (int64_t)(job.set / job.piece);
    for (meter->sample_job = &job; job.next < warm + TOGETHER || zt_seconds() - start < seconds; job.next += TOGETHER) {
        if (threads == 1)
            work_thread(meter, 0, 1);
        else
            zt_pool_run(meter->pool, work_thread, meter);
        for (int i = 0; i < TOGETHER; i++) {
            double sample_rate = rate_of(meter, i, threads, amount);
            if (job.next + i >= warm && sample_rate > rate) rate = sample_rate;
        }
    }
    return rate;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static size_t whole_grains(size_t bytes) { return bytes < GRAIN ? GRAIN : bytes / GRAIN * GRAIN; }

static size_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

/* Half of a thread's share of the cache, but well past the level below it. */
static size_t cache_set(const zt_cpu_cache *cache, size_t below, int threads)
{
    size_t share = cache->bytes / (size_t)(cache->sharers < threads ? cache->sharers : threads);
    size_t set = share / 2 > 2 * below ? share / 2 : 2 * below;
    return whole_grains(set < share ? set : share);
}

/* Several times the last cache. */
static size_t memory_set(size_t last, int threads)
{
    size_t all = 4 * last;
    if (all < 64 * MIB) all = 64 * MIB;
    if (all > 512 * MIB) all = 512 * MIB;
    return whole_grains(all / (size_t)threads);
}

/* Within what the context may take: half of it, for all threads. */
static size_t limit_set(zt_ctx *ctx, size_t set, int threads)
{
    zt_mem mem = zt_mem_get(ctx);
    size_t most = mem.limit > mem.held ? (mem.limit - mem.held) / 2 / (size_t)threads : 0;
    return mem.limit && set > most ? whole_grains(most) : set;
}

static void find_levels(zt_ctx *ctx, zt_roof *roof)
{
    zt_cpu_cache cache[ZT_ROOF_LEVELS - 1];
    int count = zt_cpu_caches(cache, ZT_ROOF_LEVELS - 1);
    size_t below = 0;
    for (int i = 0; i < count; i++) {
        zt_roof_level *level = &roof->level[i];
        *level = (zt_roof_level){.bytes = cache[i].bytes, .sharers = cache[i].sharers};
        memcpy(level->name, cache[i].name, sizeof level->name);
        level->set = cache_set(&cache[i], below, roof->threads);
        below = cache[i].bytes;
    }
    roof->n_levels = count + 1;
    roof->level[count] = (zt_roof_level){
        .name = "memory", .bytes = machine_memory(), .sharers = zt_cpu_count(), .set = memory_set(below, roof->threads)};
    for (int i = 0; i <= count; i++) roof->level[i].set = limit_set(ctx, roof->level[i].set, roof->threads);
}

/* A piece is what takes some tens of microseconds or more: passes over a cache, or of memory a part
 * that its first misses do not matter to. One thread reads the memory of all. */
static sample_job memory_job(const zt_roof_level *level, work_kind work, bool memory, size_t set)
{
    sample_job job = {.work = work, .rounds = 1, .set = set, .piece = level->set};
    size_t most = 4 * MIB, least = MIB;
    if (memory && job.piece > most) job.piece = most;
    if (!memory && job.piece < least) job.rounds = (int64_t)(least / job.piece);
    return job;
}

/* With all threads. On a machine that is busy they hardly run at the same time: where they do not
 * bring more than one does, they are measured again some times. */
static double best_rate_of_threads(roof_meter *meter, sample_job job, double one, double seconds)
{
    double rate = 0;
    for (int i = 0; i < 5 && rate < 1.3 * one; i++) {
        double rate_now = best_rate(meter, job, meter->threads, seconds);
        rate = rate_now > rate ? rate_now : rate;
    }
    return rate > one ? rate : one;
}

static void measure_level(roof_meter *meter, zt_roof_level *level, bool memory, bool brief, double seconds)
{
    bool one_thread = meter->threads == 1;
    size_t alone = memory ? level->set * (size_t)meter->threads : level->set;
    work_kind copy = memory ? STREAM : COPY;
    level->read[0] = best_rate(meter, memory_job(level, READ, memory, alone), 1, seconds);
    level->read[1] = one_thread
                         ? level->read[0]
                         : best_rate_of_threads(meter, memory_job(level, READ, memory, level->set), level->read[0], seconds);
    if (brief) return;
    level->copy[0] = best_rate(meter, memory_job(level, copy, memory, alone), 1, seconds);
    level->copy[1] = one_thread
                         ? level->copy[0]
                         : best_rate_of_threads(meter, memory_job(level, copy, memory, level->set), level->copy[0], seconds);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const zt_cpu_roof *const roof_loops[ZT_ISA_COUNT] = {
    [ZT_ISA_SCALAR] = &zt_cpu_roof_scalar,
#if defined(ZT_HAVE_AVX2)
    [ZT_ISA_AVX2] = &zt_cpu_roof_avx2,
#endif
#if defined(ZT_HAVE_AVX512)
    [ZT_ISA_AVX512] = &zt_cpu_roof_avx512,
#endif
#if defined(ZT_HAVE_NEON)
    [ZT_ISA_NEON] = &zt_cpu_roof_neon,
#endif
#if defined(ZT_HAVE_DOTPROD)
    [ZT_ISA_DOTPROD] = &zt_cpu_roof_dotprod,
#endif
};

/* One that this processor has? */
static bool has_peak(const zt_cpu_peak *peak) { return !peak->amx || zt_cpu_amx(); }

static void measure_peaks(roof_meter *meter, zt_roof *roof, zt_isa isa, double seconds)
{
    for (const zt_cpu_peak *peak = roof_loops[isa]->peak; peak->run && roof->n_peaks < ZT_ROOF_PEAKS; peak++) {
        if (!has_peak(peak)) continue;
        zt_roof_peak *measured = &roof->peak[roof->n_peaks++];
        sample_job job = {.work = COMPUTE, .peak = peak, .rounds = 20000}; /* 65 us at 3.7 GHz */
        *measured = (zt_roof_peak){.isa = isa, .kind = peak->kind, .how = peak->how};
        measured->set = peak->amx ? "amx" : zt_isa_name(isa);
        measured->rate[0] = best_rate(meter, job, 1, seconds);
        measured->rate[1] =
            meter->threads == 1 ? measured->rate[0] : best_rate_of_threads(meter, job, measured->rate[0], seconds);
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

static void touch_memory(void *user, int thread, int threads)
{
    roof_meter *meter = user;
    (void)threads;
    memset(meter->memory + (size_t)thread * meter->thread_bytes, thread + 1, meter->thread_bytes);
}

static zt_status open_meter(zt_ctx *ctx, roof_meter *meter, zt_roof *roof)
{
    size_t bytes;
    for (int i = 0; i < roof->n_levels; i++)
        if (roof->level[i].set > meter->thread_bytes) meter->thread_bytes = roof->level[i].set;
    if (!zt_mul_size(meter->thread_bytes, (size_t)meter->threads, &bytes))
        return zt_fail(ctx, ZT_ENOMEM, "%d threads are too many to measure with", meter->threads);
    meter->pool = zt_pool_new(ctx, meter->threads);
    meter->memory = meter->pool ? zt_alloc(ctx, bytes) : NULL;
    if (!meter->memory) return zt_ctx_status(ctx);
    size_t before = huge_bytes();
    zt_pool_run(meter->pool, touch_memory, meter);
    roof->huge = huge_bytes() >= before + bytes / 2;
    return ZT_OK;
}

static void measure_all(roof_meter *meter, zt_roof *roof, zt_isa isa, const zt_roof_opts *opts, double seconds)
{
    int first = opts->brief ? (int)isa : 0, thread_counts = meter->threads > 1 ? 2 : 1, jobs = 0;
    for (int i = first; i <= (int)isa; i++)
        for (const zt_cpu_peak *peak = roof_loops[i] ? roof_loops[i]->peak : NULL; peak && peak->run; peak++)
            jobs += has_peak(peak);
    double job_seconds = seconds / ((jobs + roof->n_levels * (opts->brief ? 1 : 2)) * thread_counts);
    for (int i = roof->n_levels; i-- > 0;)
        measure_level(meter, &roof->level[i], i == roof->n_levels - 1, opts->brief, job_seconds);
    for (int i = first; i <= (int)isa; i++)
        if (zt_isa_has((zt_isa)i)) measure_peaks(meter, roof, (zt_isa)i, job_seconds);
}

zt_status zt_roof_measure(zt_ctx *ctx, const zt_roof_opts *opts, zt_roof *roof)
{
    ZT_REQUIRE(ctx, opts && roof, ZT_EUSAGE);
    zt_isa isa = zt_isa_has(opts->isa) ? opts->isa : zt_isa_best();
    *roof = (zt_roof){.threads = opts->threads ? opts->threads : zt_cpu_count()};
    if (roof->threads < 1 || roof->threads > MAX_THREADS)
        return zt_fail(ctx, ZT_EUSAGE, "invalid thread count %d: must be 1 to %d", roof->threads, MAX_THREADS);
    find_levels(ctx, roof);
    roof_meter *meter = zt_calloc(ctx, 1, sizeof *meter);
    if (!meter) return ZT_ENOMEM;
    meter->loops = roof_loops[isa];
    meter->threads = roof->threads;
    zt_status status = open_meter(ctx, meter, roof);
    if (!status) measure_all(meter, roof, isa, opts, opts->seconds > 0 ? opts->seconds : 0.1);
    zt_free(ctx, meter->memory);
    zt_pool_free(meter->pool);
    zt_free(ctx, meter);
    return status;
}

/* ---- reading the results ---------------------------------------------------------------------------- */

const char *zt_roof_kind_name(zt_roof_kind kind)
{
    static const char *const name[ZT_ROOF_KINDS] = {"f32", "bf16", "int8"};
    return (unsigned)kind < ZT_ROOF_KINDS ? name[kind] : "unknown";
}

double zt_roof_rate(const zt_roof *roof, zt_roof_kind kind)
{
    if (!roof) return 0;
    double of_kind = 0, plain = 0;
    for (int i = 0; i < roof->n_peaks; i++) {
        double rate = roof->peak[i].rate[ZT_ROOF_ALL];
        if (roof->peak[i].kind == kind && rate > of_kind) of_kind = rate;
        if (roof->peak[i].kind == ZT_ROOF_F32 && rate > plain) plain = rate;
    }
    return of_kind > plain ? of_kind : plain;
}

const zt_roof_level *zt_roof_level_of(const zt_roof *roof, size_t bytes)
{
    if (!roof) return NULL;
    for (int i = 0; i < roof->n_levels - 1; i++) {
        const zt_roof_level *level = &roof->level[i];
        size_t caches = (size_t)((roof->threads + level->sharers - 1) / level->sharers);
        if (bytes / caches <= level->bytes) return level;
    }
    return &roof->level[roof->n_levels - 1];
}
