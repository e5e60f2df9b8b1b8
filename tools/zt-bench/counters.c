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
static const char *const others[BENCH_COUNTS - BENCH_EVENTS] = {"cpu_seconds", "page_faults", "context_switches", "steps",
                                                                "barriers"};

const char *bench_count_name(int index) { return index < BENCH_EVENTS ? events[index].name : others[index - BENCH_EVENTS]; }

/* Of this process in its own code, with the threads that begin from now on. */
static int open_event(uint64_t config)
{
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = config;
    attributes.inherit = 1;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void bench_counters_open(bench_counters *counters)
{
    *counters = (bench_counters){.open = true};
    for (int i = 0; i < BENCH_EVENTS; i++) counters->descriptors[i] = open_event(events[i].config);
}

void bench_counters_close(bench_counters *counters)
{
    for (int i = 0; counters->open && i < BENCH_EVENTS; i++)
        if (counters->descriptors[i] >= 0) close(counters->descriptors[i]);
    counters->open = false;
}

/* Where more events are counted than the machine can at once, each is for a part of the time:
 * scaled to all of it. Below 0: not there. */
static double read_event(int descriptor)
{
    uint64_t values[3] = {0, 0, 0}; /* value, time enabled, time running */
    if (descriptor < 0 || read(descriptor, values, sizeof values) != sizeof values || !values[2]) return -1;
    return (double)values[0] * ((double)values[1] / (double)values[2]);
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec * 1e-6; }

static void read_all(const bench_counters *counters, const zt_engine *device, double now[BENCH_COUNTS])
{
    struct rusage usage;
    double *other = now + BENCH_EVENTS;
    memset(&usage, 0, sizeof usage);
    getrusage(RUSAGE_SELF, &usage);
    for (int i = 0; i < BENCH_EVENTS; i++) now[i] = read_event(counters->descriptors[i]);
    other[0] = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    other[1] = (double)(usage.ru_minflt + usage.ru_majflt);
    other[2] = (double)(usage.ru_nvcsw + usage.ru_nivcsw);
    zt_engine_report engine = device->vt->report(device);
    other[3] = (double)engine.kernels;
    other[4] = (double)engine.barriers;
}

void bench_counters_start(bench_counters *counters, const zt_engine *engine)
{
    if (counters->open) read_all(counters, engine, counters->start);
}

void bench_counters_add(const bench_counters *counters, const zt_engine *engine, double sums[BENCH_COUNTS])
{
    double now[BENCH_COUNTS];
    if (!counters->open) return;
    read_all(counters, engine, now);
    for (int i = 0; i < BENCH_COUNTS; i++)
        sums[i] = now[i] < 0 || counters->start[i] < 0 || sums[i] < 0 ? -1 : sums[i] + now[i] - counters->start[i];
}

void bench_set_counts(bench_result *result, const bench_counters *counters, const double sums[BENCH_COUNTS], double runs)
{
    result->counted = counters->open;
    for (int i = 0; i < BENCH_COUNTS; i++) result->counts[i] = sums[i] < 0 ? -1 : sums[i] / runs;
}
