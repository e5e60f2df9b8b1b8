/* driver.h - what the files of the emulated driver's functions share: driver.cpp and driver_*.cpp. */
#ifndef ZT_EMU_DRIVER_H
#define ZT_EMU_DRIVER_H

#include "work.h"

#include <mutex>

#define API extern "C" __attribute__((visibility("default"))) int

enum { PROCESSORS = 4 };

struct emu_context {
    int held;
    /* Of cuCtxCreate: what was current, and what calls gave, before; its own memory. */
    emu_context *before;
    int broken;
    std::vector<uint64_t> memory;
};

extern struct emu_driver {
    std::recursive_mutex lock; /* of every call */
    bool cooperative, unified; /* as the environment says: driver.cpp */
    long fail_alloc;           /* so many allocations on one fails; 0: none */
    int broken;                /* of a launch: what every call gives */
    std::vector<emu_stream *> streams;
    std::vector<std::pair<unsigned char *, size_t>> pinned;
    std::vector<emu_function *> functions;

    bool knows(const emu_stream *s) const;
    int drain(emu_stream *s); /* runs what it holds; what fails is `broken` too */
    int drain_all();
} driver;
extern thread_local emu_context *emu_current;

/* 0, or what the call gives at once. */
int emu_enter(const char *name, bool in_context);
#define ENTER(in_context)                                                                                                        \
    std::lock_guard<std::recursive_mutex> held(driver.lock);                                                                     \
    if (int r = emu_enter(__func__, in_context)) return r

#endif
