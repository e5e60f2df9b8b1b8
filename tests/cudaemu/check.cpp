/* check.cpp - every load and store of a kernel.
 *
 * Kernels are compiled with -fsanitize=thread: the compiler calls __tsan_read4(address) and the
 * like before each access that others could see. What it calls is here. An access must be in an
 * allocation of the device, in an array of the block's shared memory, on the thread's own stack, or
 * (a load) in this library's constants and the arguments. In shared memory two threads of a block
 * that touch the same word, one to write it, need a barrier between, or one of their warp: else it
 * is a race, and told, whatever order they came in. Of device memory the last writer is known: who
 * reads or writes a word that another thread wrote in the same launch needs a barrier between, or,
 * of another block, an atomic before.
 */
#include "emu.h"

#include <string.h>

/* What each load and store goes through: compiled once for each size. */
#define EACH static inline __attribute__((always_inline))

enum { ARRAYS = 32, GAP = 256, WORDS = EMU_SHARED_MOST / 4 + ARRAYS * GAP / 4 };

/* Who touched a word of shared memory last. Stamps: emu_is.epoch and .synced then. */
struct word {
    uint32_t write_epoch, write_synced, read_epoch, read_synced;
    uint16_t writer, reader;
    uint8_t bytes;   /* of the word that the writer wrote */
    uint8_t readers; /* 1: `reader`; 2: several of its warp; 3: of several warps */
};

alignas(1024) static unsigned char shared[WORDS * 4];
static word words[WORDS];
static struct {
    uintptr_t at, bytes;
} arrays[ARRAYS];
static int n_arrays, last_array; /* the last: where the access before was */

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;

/* ---- shared memory --------------------------------------------------------------------------- */

void emu_check_block() { n_arrays = 0; }

uintptr_t emu_shared_base() { return reinterpret_cast<uintptr_t>(shared); }

/* The array that a thread declares next: all declare the same in one order; the first makes it. */
void *emu_shared_take(size_t bytes, size_t *at)
{
    unsigned char *p = shared + *at;
    *at += (bytes + GAP - 1) / GAP * GAP + GAP;
    if (*at > sizeof shared) emu_fail(EMU_LAUNCH_FAILED, "too much shared memory");
    uintptr_t u = reinterpret_cast<uintptr_t>(p);
    for (int i = 0; i < n_arrays; i++)
        if (arrays[i].at == u) return p;
    if (n_arrays == ARRAYS) emu_fail(EMU_LAUNCH_FAILED, "more than %d shared arrays", ARRAYS);
    arrays[n_arrays++] = {u, bytes};
    memset(p, 0xFF, bytes);
    return p;
}

/* A launch's dynamic array. The kernel's own arrays count against the same limit, as on a device. */
void *emu_dynamic_take(size_t bytes, size_t most, size_t *at)
{
    size_t own = 0;
    for (int i = 0; i < n_arrays && arrays[i].at != reinterpret_cast<uintptr_t>(shared + *at); i++)
        own += (arrays[i].bytes + 15) / 16 * 16;
    if (own + bytes > most)
        emu_fail(EMU_LAUNCH_FAILED, "%zu bytes of shared memory beside %zu of the kernel's own, of %zu", bytes, own, most);
    return emu_shared_take(bytes, at);
}

void emu_shared_keep(emu_shared_image *to)
{
    uintptr_t from = reinterpret_cast<uintptr_t>(shared), end = from;
    to->arrays.clear();
    for (int i = 0; i < n_arrays; i++) {
        to->arrays.push_back({arrays[i].at, arrays[i].bytes});
        if (arrays[i].at + arrays[i].bytes > end) end = arrays[i].at + arrays[i].bytes;
    }
    to->bytes.assign(shared, shared + (end - from));
}

void emu_shared_restore(const emu_shared_image &from)
{
    n_arrays = 0;
    for (const auto &a : from.arrays) arrays[n_arrays++] = {a.first, a.second};
    if (!from.bytes.empty()) memcpy(shared, from.bytes.data(), from.bytes.size());
}

EACH bool same_warp_later(uint16_t other, uint32_t synced)
{
    return other >> 5 == emu_is.warp && synced < emu_is.synced[emu_is.warp];
}

[[noreturn]] static __attribute__((cold, noinline)) void race(uintptr_t p, uint16_t other, const char *what, const char *they)
{
    emu_fail(EMU_ILLEGAL_ADDRESS,
             "%s byte %zu of shared memory, which thread %d %s with no barrier between", what,
             (size_t)(p - arrays[0].at), other, they);
}

EACH void read_word(word *w, uintptr_t p, unsigned bytes)
{
    const int t = emu_is.thread;
    if (w->write_epoch == emu_is.epoch && w->writer != t && (w->bytes & bytes) &&
        !same_warp_later(w->writer, w->write_synced))
        race(p, w->writer, "reads", "wrote");
    const bool seen = w->read_epoch == emu_is.epoch && w->readers;
    if (!seen || (w->readers < 3 && same_warp_later(w->reader, w->read_synced)))
        w->readers = 1;
    else if (w->reader == t && w->readers == 1)
        ;
    else if (w->reader >> 5 == emu_is.warp && w->readers < 3)
        w->readers = 2;
    else
        w->readers = 3;
    w->reader = (uint16_t)t;
    w->read_epoch = emu_is.epoch;
    w->read_synced = emu_is.synced[emu_is.warp];
}

EACH void write_word(word *w, uintptr_t p, unsigned bytes)
{
    const int t = emu_is.thread;
    const bool again = w->write_epoch == emu_is.epoch;
    if (again && w->writer != t && (w->bytes & bytes) &&
        !same_warp_later(w->writer, w->write_synced))
        race(p, w->writer, "writes", "wrote");
    /* Readers of several warps are not told apart: one of them may be this thread alone. */
    if (bytes == 15 && w->read_epoch == emu_is.epoch && w->readers &&
        (w->readers == 3 ||
         ((w->reader != t || w->readers == 2) && !same_warp_later(w->reader, w->read_synced))))
        race(p, w->reader, "writes", "read");
    w->bytes = (uint8_t)(again && w->writer == t ? w->bytes | bytes : bytes);
    w->write_epoch = emu_is.epoch;
    w->write_synced = emu_is.synced[emu_is.warp];
    w->writer = (uint16_t)t;
}

/* Those bytes, as bits, of the word at p that are before `end`. */
EACH unsigned bytes_of(uintptr_t p, uintptr_t end)
{
    unsigned low = p & 3, high = end - (p - low) < 4 ? (unsigned)(end - (p - low)) : 4;
    return (1u << high) - (1u << low);
}

static int find_array(uintptr_t p)
{
    int i = 0;
    while (i < n_arrays && !(p - arrays[i].at < arrays[i].bytes)) i++;
    return i;
}

/* Is it shared memory? Then in an array of the block's. */
EACH bool in_shared(uintptr_t p, size_t n, const char *does)
{
    if (p - reinterpret_cast<uintptr_t>(shared) >= sizeof shared) return false;
    int i = last_array;
    if (i >= n_arrays || !(p - arrays[i].at < arrays[i].bytes)) last_array = i = find_array(p);
    if (i == n_arrays || n > arrays[i].bytes - (p - arrays[i].at))
        emu_fail(EMU_ILLEGAL_ADDRESS, "%s %zu bytes outside of the shared arrays", does, n);
    return true;
}

EACH bool touch_shared(uintptr_t p, size_t n, bool write)
{
    const uintptr_t from = reinterpret_cast<uintptr_t>(shared);
    if (!in_shared(p, n, write ? "writes" : "reads")) return false;
    emu_touch_copied(p, n);
    for (uintptr_t q = p, end = p + n; q < end; q = (q & ~(uintptr_t)3) + 4) {
        unsigned bytes = bytes_of(q, end);
        word *w = &words[(q - from) / 4];
        write ? write_word(w, q, bytes) : read_word(w, q, bytes);
    }
    return true;
}

/* ---- all memory ------------------------------------------------------------------------------ */

/* A word of the device's that another thread of this launch wrote must come with a barrier between,
 * if of this block, or with an atomic, if of another. */
EACH void trace_word(emu_trace *t, uintptr_t p, unsigned bytes, bool write)
{
    const uint32_t me = emu_is.number * emu_is.threads + (uint32_t)emu_is.thread;
    if (t->epoch >= emu_is.launch_epoch && t->who != me && (t->bytes & bytes)) {
        const uint16_t thread = (uint16_t)(t->who % emu_is.threads);
        const bool ours = t->epoch >= emu_is.block_epoch;
        if (ours ? t->epoch == emu_is.epoch && !same_warp_later(thread, t->synced)
                 : !emu_is.acquired)
            emu_fail(EMU_ILLEGAL_ADDRESS,
                     "%s a word at 0x%zx that thread %d of block %u wrote in this launch",
                     write ? "writes" : "reads", (size_t)p, thread, t->who / emu_is.threads);
    }
    if (!write) return;
    const bool again = t->epoch == emu_is.epoch && t->who == me;
    t->bytes = (uint8_t)(again ? t->bytes | bytes : bytes);
    t->epoch = emu_is.epoch;
    t->synced = emu_is.synced[emu_is.warp];
    t->who = me;
}

EACH bool touch_device(uintptr_t p, size_t n, bool write)
{
    if (n > emu_memory_behind(p)) return false;
    emu_trace *t = emu_memory_trace(p);
    for (uintptr_t q = p, end = p + n; t && q < end; q = (q & ~(uintptr_t)3) + 4, t++)
        trace_word(t, q, bytes_of(q, end), write);
    return true;
}

/* Bounds alone. */
static __attribute__((noinline)) void touch_loosely(uintptr_t p, size_t n, bool write)
{
    const uintptr_t mine = reinterpret_cast<uintptr_t>(&__ehdr_start);
    if (p - emu_is.stack < emu_is.stack_bytes) return;
    if (in_shared(p, n, "touches") || n <= emu_memory_behind(p)) return;
    if (!write && p >= mine && p + n <= reinterpret_cast<uintptr_t>(&_end)) return;
    char where[160];
    emu_memory_say(p, n, where, sizeof where);
    emu_fail(EMU_ILLEGAL_ADDRESS, "%s %s", write ? "writes" : "reads", where);
}

EACH void touch_any(uintptr_t p, size_t n, bool write)
{
    if (p - emu_is.stack < emu_is.stack_bytes || touch_shared(p, n, write)) return;
    if (!touch_device(p, n, write)) touch_loosely(p, n, write);
}

void emu_touch(uintptr_t p, size_t n, bool write) { touch_any(p, n, write); }

void emu_touch_atomic(uintptr_t p, size_t n)
{
    char where[160];
    if (in_shared(p, n, "changes") || n <= emu_memory_behind(p)) return;
    emu_memory_say(p, n, where, sizeof where);
    emu_fail(EMU_ILLEGAL_ADDRESS, "changes %s", where);
}

void emu_aligned(const void *p, size_t n)
{
    const uintptr_t u = reinterpret_cast<uintptr_t>(p);
    if (u % n) emu_fail(EMU_ILLEGAL_ADDRESS, "%zu bytes at 0x%zx, not aligned", n, (size_t)u);
}

/* The compiler sees that p is a multiple of n: then the words and their bytes are constants. */
EACH void touch(void *p, size_t n, bool write)
{
    const uintptr_t u = reinterpret_cast<uintptr_t>(p);
    if (u % n) emu_aligned(p, n);
    touch_any(u & ~(n - 1), n, write);
}

extern "C" {
#define HOOK(name, n, write)                                                                       \
    void name(void *p) { touch(p, n, write); }
/* A kernel that writes volatile knows of the others. */
#define LOOSE_HOOK(name, n, write)                                                                 \
    void name(void *p)                                                                             \
    {                                                                                              \
        emu_aligned(p, n);                                                                         \
        touch_loosely(reinterpret_cast<uintptr_t>(p), n, write);                                   \
    }
#define HOOKS(n)                                                                                   \
    HOOK(__tsan_read##n, n, false)                                                                 \
    HOOK(__tsan_write##n, n, true)                                                                 \
    LOOSE_HOOK(__tsan_volatile_read##n, n, false)                                                  \
    LOOSE_HOOK(__tsan_volatile_write##n, n, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
/* The GPU has no unaligned access; these are for what the compiler cannot know to be aligned. */
#define LOOSE(n)                                                                                   \
    void __tsan_unaligned_read##n(void *p)                                                         \
    {                                                                                              \
        emu_touch(reinterpret_cast<uintptr_t>(p), n, false);                                       \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p) { emu_touch(reinterpret_cast<uintptr_t>(p), n, true); }
LOOSE(2)
LOOSE(4)
LOOSE(8)
LOOSE(16)
void __tsan_read_range(void *p, size_t n) { emu_touch(reinterpret_cast<uintptr_t>(p), n, false); }
void __tsan_write_range(void *p, size_t n) { emu_touch(reinterpret_cast<uintptr_t>(p), n, true); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
