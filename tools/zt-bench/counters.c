/* counters.c - what work was: cycles and the like of all threads by perf_event_open(2), where the
 * kernel and the machine give them; what getrusage(2) tells; steps that the engine ran, and how
 * often its threads waited for each other.
 */
#include "tools/zt-bench/bench.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint64_t config;
} events[BENCH_EVENTS] = {{"cycles", PERF_COUNT_HW_CPU_CYCLES},
                          {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
                          {"cache_misses", PERF_COUNT_HW_CACHE_MISSES},
                          {"branch_misses", PERF_COUNT_HW_BRANCH_MISSES}};
static const char *const others[BENCH_COUNTS - BENCH_EVENTS] = {"cpu_seconds", "page_faults",
                                                                "context_switches", "steps",
                                                                "barriers"};

const char *bench_count_name(int i)
{
    return i < BENCH_EVENTS ? events[i].name : others[i - BENCH_EVENTS];
}

/* Of this process in its own code, with the threads that begin from now on. */
static int open_event(uint64_t config)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_HARDWARE;
    a.config = config;
    a.inherit = 1;
    a.exclude_kernel = 1;
    a.exclude_hv = 1;
    a.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void bench_counters_open(bench_counters *c)
{
    *c = (bench_counters){.open = true};
    for (int i = 0; i < BENCH_EVENTS; i++) c->fd[i] = open_event(events[i].config);
}

void bench_counters_close(bench_counters *c)
{
    for (int i = 0; c->open && i < BENCH_EVENTS; i++)
        if (c->fd[i] >= 0) close(c->fd[i]);
    c->open = false;
}

/* Where more events are counted than the machine can at once, each is for a part of the time:
 * scaled to all of it. Below 0: not there. */
static double read_event(int fd)
{
    uint64_t x[3] = {0, 0, 0}; /* value, time enabled, time running */
    if (fd < 0 || read(fd, x, sizeof x) != sizeof x || !x[2]) return -1;
    return (double)x[0] * ((double)x[1] / (double)x[2]);
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static void read_all(const bench_counters *c, const zt_engine *e, double now[BENCH_COUNTS])
{
    struct rusage u;
    double *other = now + BENCH_EVENTS;
    memset(&u, 0, sizeof u);
    getrusage(RUSAGE_SELF, &u);
    for (int i = 0; i < BENCH_EVENTS; i++) now[i] = read_event(c->fd[i]);
    other[0] = seconds_of(u.ru_utime) + seconds_of(u.ru_stime);
    other[1] = (double)(u.ru_minflt + u.ru_majflt);
    other[2] = (double)(u.ru_nvcsw + u.ru_nivcsw);
    zt_engine_report engine = e->vt->report(e);
    other[3] = (double)engine.kernels;
    other[4] = (double)engine.barriers;
}

void bench_counters_start(bench_counters *c, const zt_engine *e)
{
    if (c->open) read_all(c, e, c->at);
}

void bench_counters_stop(bench_counters *c, const zt_engine *e, double runs)
{
    double now[BENCH_COUNTS];
    if (!c->open) return;
    read_all(c, e, now);
    for (int i = 0; i < BENCH_COUNTS; i++)
        c->of_one[i] = now[i] < 0 || c->at[i] < 0 ? -1 : (now[i] - c->at[i]) / runs;
}

void bench_set_counts(bench_result *r, const bench_counters *c)
{
    r->counted = c->open;
    memcpy(r->count, c->of_one, sizeof r->count);
}
