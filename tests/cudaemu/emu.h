/* emu.h - the emulated GPU: what the files of tests/cudaemu share.
 *
 * libcuda-emu.so is a libcuda over host memory. driver*.cpp have the driver's functions, memory.cpp
 * the device's memory, work.cpp what streams hold, block.cpp runs a block of threads, check.cpp
 * looks at every load and store, prim_emu.cpp has the primitives, sm90.cpp those of prim_sm90.h,
 * tensormap.cpp what they copy by. One launch runs at a time.
 */
#ifndef ZT_EMU_H
#define ZT_EMU_H

#include <stdint.h>
#include <stddef.h>
#include <utility>
#include <vector>

#include "prim_emu.h"

enum {
    EMU_OK = 0,
    EMU_INVALID_VALUE = 1,
    EMU_OUT_OF_MEMORY = 2,
    EMU_NOT_INITIALIZED = 3,
    EMU_INVALID_DEVICE = 101,
    EMU_INVALID_IMAGE = 200,
    EMU_INVALID_CONTEXT = 201,
    EMU_INVALID_HANDLE = 400,
    EMU_NOT_FOUND = 500,
    EMU_NOT_READY = 600,
    EMU_ILLEGAL_ADDRESS = 700,
    EMU_LAUNCH_FAILED = 719,
    EMU_TOO_LARGE = 720, /* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
    EMU_NOT_SUPPORTED = 801,
    EMU_CAPTURE = 900,
    EMU_UNKNOWN = 999
};

enum {
    EMU_THREADS = 1024,           /* a block's most */
    EMU_SHARED_MOST = 227 * 1024, /* bytes of a block's shared memory */
    EMU_SHARED_PLAIN = 48 * 1024  /* and without being asked for by the function's attribute */
};

/* ---- memory.cpp ------------------------------------------------------------------------------ */

int emu_memory_open(size_t bytes);
void emu_memory_close();
int emu_memory_alloc(size_t bytes, uint64_t *at);
int emu_memory_free(uint64_t at);
size_t emu_memory_used();
size_t emu_memory_total();
/* Who wrote a word of device memory last, of four bytes from a multiple of 4 on; null: not kept. */
struct emu_trace {
    uint32_t epoch, synced; /* emu_is.epoch and .synced then */
    uint32_t who;           /* number * threads + thread */
    uint8_t bytes;          /* of the word */
};
struct emu_area {
    uintptr_t at;
    size_t bytes;  /* 0: not in use */
    uint32_t next; /* of those not in use */
};
/* Here, because every load and store looks into it. */
enum : size_t { EMU_PAGE = 4096, EMU_RANGE = (size_t)16 << 30 };
struct emu_memory_map {
    uintptr_t base;
    uint32_t *owner; /* of a page: its area, 0 nobody */
    emu_area *areas;
    emu_trace *traces;
};
extern emu_memory_map emu_map;
static inline emu_area *emu_memory_area(uint64_t at)
{
    if (at - emu_map.base >= EMU_RANGE) return nullptr;
    uint32_t i = emu_map.owner[(at - emu_map.base) / EMU_PAGE];
    return i ? &emu_map.areas[i] : nullptr;
}
/* Bytes from `at` that are allocated, 0: none. */
static inline size_t emu_memory_behind(uint64_t at)
{
    const emu_area *a = emu_memory_area(at);
    return a && at - a->at < a->bytes ? a->bytes - (at - a->at) : 0;
}
static inline emu_trace *emu_memory_trace(uint64_t at)
{
    return emu_map.traces ? &emu_map.traces[(at - emu_map.base) / 4] : nullptr;
}
/* What is wrong with n bytes at p, for the line of a refusal. */
void emu_memory_say(uintptr_t p, size_t n, char *text, size_t room);

/* ---- block.cpp: the block that runs ---------------------------------------------------------- */

typedef struct emu_launch {
    const emu_kernel *kernel;
    const void *args;
    int grid[3], threads;
    size_t dynamic;   /* bytes of shared memory */
    size_t most;      /* of these and the kernel's own arrays */
    bool cooperative; /* all blocks at once: at most EMU_THREADS threads */
} emu_launch;

void emu_seed(uint64_t seed);
uint64_t emu_random();
/* 0, or EMU_ILLEGAL_ADDRESS or EMU_LAUNCH_FAILED, and emu_error() says why. */
int emu_run(const emu_launch *l);
const char *emu_error();
void emu_error_clear();

/* The thread that runs fails: the launch ends, this does not return. */
[[noreturn]] void emu_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A collective of the warp: leaves n bytes (at most EMU_SLOT), waits for all 32 lanes and gives all
 * theirs, EMU_SLOT apart, good until the warp's next but one. kind: its name, the same in all. */
enum { EMU_SLOT = 64 };
const unsigned char *emu_exchange(const char *kind, const void *mine, size_t n);
/* The thread waits, for `what`, until somebody wakes those that do so on `on`. */
void emu_sleep(const char *what, const void *on);
void emu_wake(const void *on);

/* ---- sm90.cpp: copies of boxes and products, as late as they may be -------------------------- */

bool emu_copy_box();     /* one is done, which may wake threads; false: none is left */
bool emu_thread_waits(); /* has its warp products, has the block boxes, that nobody waited for? */
bool emu_block_waits();
void emu_block_forgets();
void emu_touch_copied(uintptr_t p, size_t n); /* of shared memory: fails where a box goes */
void emu_wgmma_mode(const char *mode);        /* "wrong": sums are; "order": theirs is another; "fails"; NULL */

/* ---- check.cpp: what the running block may touch, as block.cpp and prim_emu.cpp tell it ------ */

struct emu_now {
    int thread, warp;
    uintptr_t stack, stack_bytes;       /* of the thread's fiber */
    uint32_t epoch;                     /* barriers passed, ever: one more at each and at each block */
    uint32_t launch_epoch, block_epoch; /* with which they began */
    uint32_t threads, number;           /* of a block; the block's place in the grid */
    bool acquired;                      /* the block has made an atomic: it may know what others wrote */
    uint32_t synced[EMU_THREADS / 32];  /* warp barriers and collectives passed, by warp */
};
extern emu_now emu_is;

uintptr_t emu_shared_base();                     /* a multiple of 1024 */
void emu_check_block();                          /* a block begins: no shared memory yet */
void *emu_shared_take(size_t bytes, size_t *at); /* *at: the thread's bytes so far */
void *emu_dynamic_take(size_t bytes, size_t most, size_t *at);
/* What the block has in shared memory, which another will use. */
struct emu_shared_image {
    std::vector<unsigned char> bytes;
    std::vector<std::pair<uintptr_t, uintptr_t>> arrays;
};
void emu_shared_keep(emu_shared_image *to);
void emu_shared_restore(const emu_shared_image &from);
void emu_touch(uintptr_t p, size_t n, bool write);
void emu_touch_atomic(uintptr_t p, size_t n);

#endif
