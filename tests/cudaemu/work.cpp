/* work.cpp - streams: commands are kept until somebody waits, as late as a device may be. */
#include "work.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void emu_add(emu_stream *s, const emu_command &c)
{
    (s->capturing ? s->captured : s->queue).push_back(c);
}

static double seconds()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Device memory must be all there; what is not allocated at all is the host's. */
static bool there(const void *p, size_t n, bool device)
{
    return !device || n <= emu_memory_behind(reinterpret_cast<uintptr_t>(p));
}

static int run(const emu_command &c);

static int run_all(const emu_commands &all)
{
    for (const emu_command &c : all)
        if (int r = run(c)) return r;
    return EMU_OK;
}

static int run_copy(const emu_command &c)
{
    const void *from = c.bytes ? c.bytes->data() : c.from;
    bool to_device = c.value & 1, from_device = c.value & 2;
    if (!there(c.to, c.n, to_device) || !there(from, c.n, from_device)) return EMU_ILLEGAL_ADDRESS;
    memmove(c.to, from, c.n);
    return EMU_OK;
}

static int run_set(const emu_command &c)
{
    if (!there(c.to, c.n, true)) return EMU_ILLEGAL_ADDRESS;
    memset(c.to, c.value, c.n);
    return EMU_OK;
}

static int run_event(const emu_command &c)
{
    c.event->at = seconds();
    c.event->done = true;
    return EMU_OK;
}

static FILE *launches;

void emu_log_launches(const char *file)
{
    if (file && !launches) launches = fopen(file, "w");
}

static void log_launch(const emu_launch &l)
{
    if (!launches) return;
    fprintf(launches, "%s %d %d\n", l.kernel->name, l.grid[0] * l.grid[1] * l.grid[2], l.threads);
    fflush(launches);
}

static int run_launch(const emu_command &c)
{
    /* In this library, where kernels may read: check.cpp. */
    alignas(64) static unsigned char arguments[4096];
    emu_launch l = c.launch;
    memcpy(arguments, c.bytes->data(), c.bytes->size());
    l.args = arguments;
    log_launch(l);
    return emu_run(&l);
}

static int run_graph(const emu_command &c) { return run_all(*c.graph); }

static int run(const emu_command &c)
{
    static int (*const act[])(const emu_command &) = {run_launch, run_copy, run_set, run_event,
                                                      run_graph};
    return act[c.kind](c);
}

int emu_drain(emu_stream *s)
{
    emu_commands all;
    all.swap(s->queue);
    return run_all(all);
}
