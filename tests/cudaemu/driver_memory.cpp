/* driver_memory.cpp - the emulated driver's memory, of the device and pinned, and copies. */
#include "driver.h"

#include <algorithm>
#include <new>
#include <string.h>

static bool fails_to_alloc() { return driver.fail_alloc > 0 && --driver.fail_alloc == 0; }

API cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
    ENTER(true);
    if (fails_to_alloc()) return EMU_OUT_OF_MEMORY;
    int r = emu_memory_alloc(bytes, at);
    if (!r && emu_current->before) emu_current->memory.push_back(*at);
    return r;
}
API cuMemFree_v2(uint64_t at)
{
    ENTER(true);
    auto &own = emu_current->memory;
    own.erase(std::remove(own.begin(), own.end(), at), own.end());
    int r = driver.drain_all(), freed = emu_memory_free(at);
    return r ? r : freed;
}
API cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
    ENTER(true);
    if (!bytes) return EMU_INVALID_VALUE;
    uint64_t at = 0;
    if (fails_to_alloc()) return EMU_OUT_OF_MEMORY;
    if (int r = driver.unified ? emu_memory_alloc(bytes, &at) : EMU_OK) return r;
    auto *made = driver.unified ? reinterpret_cast<unsigned char *>(at)
                                : new (std::nothrow) unsigned char[bytes];
    if (!made) return EMU_OUT_OF_MEMORY;
    memset(made, 0xFF, bytes);
    driver.pinned.push_back({made, bytes});
    *p = made;
    return EMU_OK;
}
API cuMemFreeHost(void *p)
{
    ENTER(true);
    int r = driver.drain_all();
    for (size_t i = 0; i < driver.pinned.size(); i++)
        if (driver.pinned[i].first == p) {
            if (driver.unified)
                emu_memory_free(reinterpret_cast<uint64_t>(p));
            else
                delete[] driver.pinned[i].first;
            driver.pinned.erase(driver.pinned.begin() + (long)i);
            return r;
        }
    return EMU_INVALID_VALUE;
}
API cuMemGetInfo_v2(size_t *left, size_t *whole)
{
    ENTER(true);
    *whole = emu_memory_total();
    *left = *whole - emu_memory_used();
    return EMU_OK;
}

static bool is_pinned(const void *p, size_t n)
{
    for (const auto &a : driver.pinned) {
        auto at = static_cast<const unsigned char *>(p) - a.first;
        if (at >= 0 && (size_t)at < a.second) return n <= a.second - (size_t)at;
    }
    return false;
}

static int add_copy(emu_stream *s, void *to, const void *from, size_t n, unsigned char devices)
{
    emu_command c = {};
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::COPY;
    c.to = to;
    c.from = from;
    c.n = n;
    c.value = devices;
    /* Pageable memory: read now; written now. */
    bool pageable = (devices == 1 && !is_pinned(from, n)) || (devices == 2 && !is_pinned(to, n));
    if (pageable && s->capturing) return EMU_CAPTURE;
    if (pageable && devices == 1) {
        auto bytes = static_cast<const unsigned char *>(from);
        c.bytes = std::make_shared<std::vector<unsigned char>>(bytes, bytes + n);
    }
    emu_add(s, c);
    return pageable && devices == 2 ? driver.drain(s) : EMU_OK;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, reinterpret_cast<void *>(to), from, n, 1);
}
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, to, reinterpret_cast<void *>(from), n, 2);
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, emu_stream *s)
{
    ENTER(true);
    return add_copy(s, reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n, 3);
}
API cuMemsetD8Async(uint64_t at, unsigned char v, size_t n, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::SET;
    c.to = reinterpret_cast<void *>(at);
    c.n = n;
    c.value = v;
    emu_add(s, c);
    return EMU_OK;
}
