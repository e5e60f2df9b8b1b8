/* block.cpp - a block of threads as fibers.
 *
 * A fiber runs threads one after the other for as long as they do not wait; one that waits keeps
 * its fiber, and the next thread gets another. So a kernel without barriers is a plain loop of
 * calls. Blocks run one after the other. Their order, that of the threads in them and that of those
 * which a barrier lets go are drawn anew each time: what lacks a barrier does not come out the same
 * twice. Blocks of a cooperative launch run from one barrier of the grid to the next, one after the
 * other, and keep their fibers there.
 */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <vector>

/* ---- fibers ---------------------------------------------------------------------------------- */

enum { STACK = 128 * 1024, PAGE = 4096 };

#if defined __x86_64__
/* Keeps what a call keeps on the stack that is left, and goes on with the other. */
extern "C" void emu_switch(void **from, void *to);
asm(".text\n.globl emu_switch\n.hidden emu_switch\n.type emu_switch,@function\nemu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size emu_switch,.-emu_switch\n");

typedef void *context;
static void context_make(context *c, unsigned char *top, void (*entry)())
{
    void **sp = reinterpret_cast<void **>(top) - 2; /* aligned as after a call */
    *sp = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    *c = sp;
}
static void context_switch(context *from, context *to) { emu_switch(from, *to); }
#else
#include <ucontext.h>
typedef ucontext_t context;
static void context_make(context *c, unsigned char *top, void (*entry)())
{
    getcontext(c);
    c->uc_stack.ss_sp = top - (STACK - PAGE);
    c->uc_stack.ss_size = STACK - PAGE;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
}
static void context_switch(context *from, context *to) { swapcontext(from, to); }
#endif

struct copy { /* of copy_async, not done yet */
    void *dst;
    const void *src;
    int bytes, group;
};
enum { COPIES = 128 };

struct fiber {
    context at;
    int thread;
    uint32_t block;
    size_t shared; /* bytes of shared memory declared so far */
    uintptr_t stack;
    const char *waits; /* for what */
};

static fiber fibers[EMU_THREADS];
static int n_fibers, idle[EMU_THREADS], n_idle; /* made; those that run nothing */
static unsigned char *stacks;
static context home; /* of emu_run */
static fiber *running;

/* ---- the block ------------------------------------------------------------------------------- */

emu_now emu_is;
static const emu_launch *launch;
static int block_at[3];
static int order[EMU_THREADS], started, done; /* threads in their order; begun, finished */
static int ready[EMU_THREADS], n_ready;       /* fibers that may go on, the last first */
static int at_barrier[EMU_THREADS], n_at_barrier;
static int at_grid[EMU_THREADS], n_at_grid;   /* of this block, at a barrier of the grid */
static struct {
    int fiber[32], n;
    const char *kind;
    unsigned phase;
    alignas(16) unsigned char slot[2][32][EMU_SLOT];
} warps[EMU_THREADS / 32];
static copy copies[EMU_THREADS][COPIES];
static int n_copies[EMU_THREADS], group[EMU_THREADS];
static size_t thread_shared; /* of the running thread */

static int status;
static char error[512];
static uint64_t state = 1;

void emu_seed(uint64_t seed) { state = seed * 2654435769u + 88172645463325252u; }

uint64_t emu_random()
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void shuffle_ints(int *v, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)((emu_random() & 0xFFFFFFFF) * (uint64_t)(i + 1) >> 32), t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}

const char *emu_error() { return error; }
void emu_error_clear() { error[0] = 0, status = 0; }

static void be(fiber *f)
{
    running = f;
    emu_is.thread = f->thread;
    emu_is.warp = f->thread >> 5;
    emu_is.stack = f->stack;
    emu_is.stack_bytes = STACK - PAGE;
    thread_shared = f->shared;
}

static void entry();

static fiber *fresh()
{
    if (n_idle) return &fibers[idle[--n_idle]];
    fiber *f = &fibers[n_fibers];
    unsigned char *low = stacks + (size_t)n_fibers++ * STACK;
    mprotect(low, PAGE, PROT_NONE);
    f->stack = reinterpret_cast<uintptr_t>(low) + PAGE;
    context_make(&f->at, low + STACK, entry);
    return f;
}

/* Leaves the running fiber, for one that may go on, for a new one where a thread is left, or home.
 */
static void leave()
{
    fiber *from = running;
    from->shared = thread_shared;
    while (!n_ready && started == launch->threads && emu_copy_box())
        ;
    if (!n_ready && started == launch->threads) {
        context_switch(&from->at, &home);
    } else {
        fiber *to = n_ready ? &fibers[ready[--n_ready]] : fresh();
        if (to == from) return be(from);
        be(to);
        context_switch(&from->at, &to->at);
    }
    be(from);
}

static void entry()
{
    for (;;) {
        while (started < launch->threads) {
            running->thread = order[started++];
            running->block = emu_is.number;
            running->shared = 0;
            be(running);
            launch->kernel->run(launch->args);
            done++;
            if (n_copies[emu_is.thread]) emu_fail(EMU_LAUNCH_FAILED, "ends before its copies");
            if (emu_thread_waits()) emu_fail(EMU_LAUNCH_FAILED, "ends before its products");
        }
        idle[n_idle++] = (int)(running - fibers);
        leave();
    }
}

void emu_fail(int why, const char *format, ...)
{
    char what[256];
    va_list v;
    va_start(v, format);
    vsnprintf(what, sizeof what, format, v);
    va_end(v);
    status = why;
    snprintf(error, sizeof error, "kernel %s, block %d,%d,%d of %d,%d,%d, thread %d of %d: %s",
             launch->kernel->name, block_at[0], block_at[1], block_at[2], launch->grid[0],
             launch->grid[1], launch->grid[2], emu_is.thread, launch->threads, what);
    context here;
    context_switch(&here, &home);
    __builtin_unreachable();
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void release(const int *fiber_of, int n)
{
    for (int i = 0; i < n; i++) ready[n_ready + i] = fiber_of[i];
    shuffle_ints(ready + n_ready, n);
    n_ready += n;
}

void barrier()
{
    running->waits = "barrier";
    at_barrier[n_at_barrier++] = (int)(running - fibers);
    if (n_at_barrier == launch->threads) {
        emu_is.epoch++;
        n_at_barrier = 0;
        release(at_barrier, launch->threads);
    }
    leave();
}

void grid_barrier(uint32_t *word)
{
    emu_touch_atomic(reinterpret_cast<uintptr_t>(word), sizeof *word);
    if (!launch->cooperative) emu_fail(EMU_LAUNCH_FAILED, "a grid barrier of blocks one by one");
    if (*word & 0x7FFFFFFF) emu_fail(EMU_LAUNCH_FAILED, "a grid barrier's word is in use");
    if (n_copies[emu_is.thread])
        emu_fail(EMU_LAUNCH_FAILED, "a grid barrier before copies are done");
    running->waits = "grid barrier";
    at_grid[n_at_grid++] = (int)(running - fibers);
    leave();
}

const unsigned char *emu_exchange(const char *kind, const void *mine, size_t n)
{
    auto &w = warps[emu_is.warp];
    unsigned phase = w.phase & 1;
    if (w.n && w.kind != kind)
        emu_fail(EMU_LAUNCH_FAILED, "%s while others of its warp are at %s", kind, w.kind);
    w.kind = running->waits = kind;
    memcpy(w.slot[phase][emu_is.thread & 31], mine, n);
    w.fiber[w.n++] = (int)(running - fibers);
    if (w.n == 32) {
        w.n = 0;
        w.phase++;
        emu_is.synced[emu_is.warp]++;
        release(w.fiber, 32);
    }
    leave();
    return w.slot[phase][0];
}

void warp_barrier() { emu_exchange("warp_barrier", nullptr, 0); }

/* Threads that wait for what sm90.cpp tells them of. */
static struct {
    int fiber;
    const void *on;
} sleepers[EMU_THREADS];
static int n_sleepers;

void emu_sleep(const char *what, const void *on)
{
    running->waits = what;
    sleepers[n_sleepers++] = {(int)(running - fibers), on};
    leave();
}

void emu_wake(const void *on)
{
    int awake[EMU_THREADS], n = 0, kept = 0;
    for (int i = 0; i < n_sleepers; i++) {
        if (sleepers[i].on == on)
            awake[n++] = sleepers[i].fiber;
        else
            sleepers[kept++] = sleepers[i];
    }
    n_sleepers = kept;
    release(awake, n);
}

/* ---- copies beside the thread: as late as they may be ---------------------------------------- */

void copy_async(void *dst, const void *src, int bytes)
{
    int t = emu_is.thread;
    if (n_copies[t] == COPIES) emu_fail(EMU_LAUNCH_FAILED, "more than %d copies", COPIES);
    copies[t][n_copies[t]++] = {dst, src, bytes, group[t]};
}

void copy_commit() { group[emu_is.thread]++; }

void emu_copy_wait(int newest)
{
    int t = emu_is.thread, kept = 0;
    for (int i = 0; i < n_copies[t]; i++) {
        copy c = copies[t][i];
        if (c.group >= group[t] - newest) {
            copies[t][kept++] = c;
            continue;
        }
        uintptr_t to = reinterpret_cast<uintptr_t>(c.dst),
                  from = reinterpret_cast<uintptr_t>(c.src);
        if ((to | from) & 15) emu_fail(EMU_ILLEGAL_ADDRESS, "copy_async not on 16 bytes");
        if (c.bytes) emu_touch(from, (size_t)c.bytes, false);
        emu_touch(to, 16, true);
        memset(c.dst, 0, 16);
        memcpy(c.dst, c.src, (size_t)c.bytes);
    }
    n_copies[t] = kept;
}

/* ---- what a thread is told ------------------------------------------------------------------- */

int emu_thread() { return emu_is.thread; }
int emu_threads() { return launch->threads; }
int emu_block(emu_axis of) { return block_at[of]; }
int emu_blocks(emu_axis of) { return launch->grid[of]; }
void *emu_shared(size_t bytes) { return emu_shared_take(bytes, &thread_shared); }
void *emu_dynamic() { return emu_dynamic_take(launch->dynamic, launch->most, &thread_shared); }

/* ---- a launch -------------------------------------------------------------------------------- */

/* What a block that waits for the grid leaves: its fibers, and what is in its shared memory. */
struct parked {
    int fiber[EMU_THREADS], n;
    emu_shared_image shared;
};
static std::vector<parked> parked_blocks;

/* Nobody may go on, and not all are done: one that waits tells it. */
static void tell_stuck()
{
    for (int i = 0; i < n_fibers; i++) {
        bool is_idle = false;
        for (int k = 0; k < n_idle; k++) is_idle |= idle[k] == i;
        if (is_idle || fibers[i].block != emu_is.number) continue;
        emu_is.thread = fibers[i].thread;
        status = EMU_LAUNCH_FAILED;
        snprintf(error, sizeof error,
                 "kernel %s, block %d,%d,%d, thread %d of %d: waits at %s, which %d threads ended "
                 "without",
                 launch->kernel->name, block_at[0], block_at[1], block_at[2], emu_is.thread,
                 launch->threads, fibers[i].waits, done);
        return;
    }
}

/* To its end, or to a barrier of the grid. */
static void run_block(parked *p)
{
    n_ready = n_at_barrier = n_at_grid = 0;
    emu_is.block_epoch = ++emu_is.epoch;
    emu_is.acquired = false;
    if (p && p->n) {
        emu_shared_restore(p->shared);
        started = launch->threads;
        done = 0;
        release(p->fiber, p->n);
        fiber *f = &fibers[ready[--n_ready]];
        be(f);
        context_switch(&home, &f->at);
    } else {
        for (int i = 0; i < launch->threads; i++) order[i] = i;
        shuffle_ints(order, launch->threads);
        started = done = 0;
        emu_check_block();
        fiber *f = fresh();
        running = f;
        context_switch(&home, &f->at);
    }
    if (!status && done == launch->threads && emu_block_waits()) {
        status = EMU_LAUNCH_FAILED;
        snprintf(error, sizeof error,
                 "kernel %s, block %d,%d,%d: its threads end before its boxes came",
                 launch->kernel->name, block_at[0], block_at[1], block_at[2]);
    }
    if (status || (!n_at_grid && done == launch->threads)) {
        if (p) p->n = 0;
    } else if (n_at_grid == launch->threads) {
        p->n = n_at_grid;
        memcpy(p->fiber, at_grid, sizeof at_grid);
        emu_shared_keep(&p->shared);
    } else {
        tell_stuck();
    }
}

/* Fibers that were left where they were cannot go on: all begin anew. */
static void forget_fibers()
{
    n_idle = 0;
    for (int i = 0; i < n_fibers; i++)
        context_make(&fibers[i].at, stacks + (size_t)(i + 1) * STACK, entry);
    for (int i = n_fibers; i--;) idle[n_idle++] = i;
    memset(n_copies, 0, sizeof n_copies);
    for (auto &w : warps) w.n = 0;
    n_sleepers = 0;
    emu_block_forgets();
}

/* All blocks in an order of their own, each as far as it goes. */
static void run_grid(int64_t n)
{
    uint64_t size = 1;
    while (size < (uint64_t)n) size *= 2;
    uint64_t step = emu_random() | 1, at = emu_random();
    emu_is.launch_epoch = emu_is.epoch + 1;
    for (uint64_t i = 0; i < size && !status; i++) {
        int64_t b = (int64_t)((i * step + at) & (size - 1));
        if (b >= n) continue;
        block_at[0] = (int)(b % launch->grid[0]);
        block_at[1] = (int)(b / launch->grid[0] % launch->grid[1]);
        block_at[2] = (int)(b / launch->grid[0] / launch->grid[1]);
        emu_is.number = (uint32_t)b;
        run_block(launch->cooperative ? &parked_blocks[(size_t)b] : nullptr);
    }
}

/* Do blocks wait for the grid? All of them must. */
static bool is_parked(int64_t n)
{
    int64_t waiting = 0;
    for (const parked &p : parked_blocks) waiting += p.n > 0;
    if (status || waiting == 0) return false;
    if (waiting == n) return true;
    status = EMU_LAUNCH_FAILED;
    snprintf(error, sizeof error,
             "kernel %s: all threads of %d of %d blocks wait at a grid barrier, which the others "
             "ended without",
             launch->kernel->name, (int)waiting, (int)n);
    return false;
}

int emu_run(const emu_launch *l)
{
    int64_t n = (int64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (!stacks) {
        void *p = mmap(nullptr, (size_t)EMU_THREADS * STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return EMU_OUT_OF_MEMORY;
        stacks = static_cast<unsigned char *>(p);
    }
    launch = l;
    emu_is.threads = (uint32_t)l->threads;
    parked_blocks.assign(l->cooperative ? (size_t)n : 0, parked());
    do run_grid(n);
    while (is_parked(n));
    parked_blocks.clear();
    if (status) forget_fibers();
    return status;
}
