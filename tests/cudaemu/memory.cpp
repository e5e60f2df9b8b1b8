/* memory.cpp - the emulated device's memory: one range of addresses, in pages.
 *
 * An allocation begins on a page and is followed by at least one that is nobody's; its exact end is
 * known, so that a load one byte behind it is found. Addresses are given out once around before one
 * comes again: what was freed stays nobody's for long. New memory is full of 0xFF, NaN in floats.
 */
#include "emu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum : size_t { PAGE = EMU_PAGE, RANGE = EMU_RANGE, MOST = 1 << 20 };

typedef emu_area area;

emu_memory_map emu_map;
static uintptr_t &base = emu_map.base, cursor;
static uint32_t *&owner = emu_map.owner;
static area *&areas = emu_map.areas;
static emu_trace *&traces = emu_map.traces;
static uint32_t n_areas, free_areas;
static size_t used, total;

static void *reserve(size_t bytes, int protection)
{
    void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

int emu_memory_open(size_t bytes)
{
    total = bytes;
    if (base) return EMU_OK;
    base = cursor = reinterpret_cast<uintptr_t>(reserve(RANGE, PROT_NONE));
    owner = static_cast<uint32_t *>(reserve(RANGE / PAGE * sizeof *owner, PROT_READ | PROT_WRITE));
    traces = static_cast<emu_trace *>(
        reserve(RANGE / 4 * sizeof *traces, PROT_READ | PROT_WRITE)); /* or without */
    areas = static_cast<area *>(reserve(MOST * sizeof *areas, PROT_READ | PROT_WRITE));
    return base && owner && areas ? EMU_OK : EMU_OUT_OF_MEMORY;
}

size_t emu_memory_used() { return used; }
size_t emu_memory_total() { return total; }

static area *area_of(uintptr_t p) { return emu_memory_area(p); }

/* `pages` of nobody's and one more, from the cursor on; 0: there are none. */
static uintptr_t find(size_t pages)
{
    uintptr_t from = cursor, end = base + RANGE;
    for (int twice = 0; twice < 2; twice++, from = base) {
        size_t run = 0;
        for (uintptr_t p = from; p < end; p += PAGE) {
            const area *a = area_of(p);
            if (a) {
                p = a->at + (a->bytes - 1) / PAGE * PAGE;
                run = 0;
            } else if (++run > pages) {
                return p - pages * PAGE;
            }
        }
    }
    return 0;
}

int emu_memory_alloc(size_t bytes, uint64_t *at)
{
    if (!bytes) return EMU_INVALID_VALUE;
    if (bytes > total - used || (!free_areas && n_areas + 2 > MOST)) return EMU_OUT_OF_MEMORY;
    size_t pages = (bytes + PAGE - 1) / PAGE;
    uintptr_t p = find(pages);
    if (!p || mprotect(reinterpret_cast<void *>(p), pages * PAGE, PROT_READ | PROT_WRITE))
        return EMU_OUT_OF_MEMORY;
    memset(reinterpret_cast<void *>(p), 0xFF, bytes);
    uint32_t i = free_areas ? free_areas : ++n_areas;
    if (free_areas) free_areas = areas[i].next;
    areas[i] = {p, bytes, 0};
    for (size_t k = 0; k < pages; k++) owner[(p - base) / PAGE + k] = i;
    cursor = p + (pages + 1) * PAGE < base + RANGE ? p + (pages + 1) * PAGE : base;
    used += bytes;
    *at = p;
    return EMU_OK;
}

int emu_memory_free(uint64_t at)
{
    if (!at) return EMU_OK;
    area *a = area_of(at);
    if (!a || a->at != at) return EMU_INVALID_VALUE;
    size_t pages = (a->bytes + PAGE - 1) / PAGE;
    void *p = reinterpret_cast<void *>(a->at);
    madvise(p, pages * PAGE, MADV_DONTNEED);
    mprotect(p, pages * PAGE, PROT_NONE);
    for (size_t k = 0; k < pages; k++) owner[(at - base) / PAGE + k] = 0;
    used -= a->bytes;
    a->bytes = 0;
    a->next = free_areas;
    free_areas = (uint32_t)(a - areas);
    return EMU_OK;
}

/* The context is gone, and all that was allocated in it. */
void emu_memory_close()
{
    for (uint32_t i = 1; i <= n_areas; i++)
        if (areas[i].bytes) emu_memory_free(areas[i].at);
}

void emu_memory_say(uintptr_t p, size_t n, char *text, size_t room)
{
    uintptr_t q = p;
    const area *a = area_of(p);
    for (int i = 0; i < 256 && !a && q - base < RANGE && q >= base + PAGE; i++)
        a = area_of(q -= PAGE);
    if (!a)
        snprintf(text, room, "%zu bytes at 0x%zx, where nothing is allocated", n, (size_t)p);
    else
        snprintf(text, room, "%zu bytes at byte %zu of an allocation of %zu", n,
                 (size_t)(p - a->at), a->bytes);
}
