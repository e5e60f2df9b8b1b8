/* memory.c - device memory and pinned memory of the host, and a pool of both by size class.
 *
 * What is released waits in its class. Device memory may be given out again at once, as all that
 * uses it is in one stream; pinned memory is released only when nothing is under way to or from it.
 * All of it counts against the context's limit. When there is no more, what waits in the pool is
 * given up first.
 */
#include "lib/engine/cuda/cu.h"
#include "lib/engine/device_memory.h"

#include <string.h>

enum { ALIGN = 256 };

/* ---- of the driver --------------------------------------------------------------------------- */

/* Waits, so that nothing works on what goes; what steps found wrong stays for the next sync. */
static void wait_idle(zt_cu_engine *engine)
{
    if (engine->pending && !engine->lost && engine->cu.StreamSynchronize(engine->stream)) engine->lost = true;
}

static void destroy_memory(zt_cu_engine *engine, zt_cu_mem *memory)
{
    if (memory->address && memory->host)
        engine->cu.MemFreeHost(memory->host);
    else if (memory->address)
        engine->cu.MemFree(memory->address);
    if (memory->address) {
        zt_mem_release(engine->base.ctx, memory->bytes);
        zt_count_held(&engine->report, 0, memory->bytes);
    }
    memset(memory, 0, sizeof *memory);
}

/* Frees what waits in the pool; false: there was nothing. */
static bool give_up_pool(zt_cu_engine *engine)
{
    if (engine->report.pooled == 0) return false;
    wait_idle(engine);
    for (int k = 0; k < ZT_CU_KINDS; k++)
        for (int size_class = 0; size_class < ZT_CU_CLASSES; size_class++)
            while (engine->pool.count[k][size_class] > 0) {
                zt_cu_mem *memory = &engine->pool.free[k][size_class][--engine->pool.count[k][size_class]];
                zt_count_unpooled(&engine->report, memory->bytes);
                destroy_memory(engine, memory);
            }
    return true;
}

/* Pinned memory of one address space: the device may be given its address too. */
static int ask_driver(zt_cu_engine *engine, zt_cu_kind kind, zt_cu_mem *memory)
{
    void *pinned = NULL;
    if (kind == ZT_CU_DEVICE_MEM) return engine->cu.MemAlloc(&memory->address, memory->bytes);
    int result = engine->cu.MemHostAlloc(&pinned, memory->bytes, 0);
    /* Inputs go over in one copy, with the gaps that their alignment leaves. */
    if (result == ZT_CU_SUCCESS) memset(pinned, 0, memory->bytes);
    memory->host = pinned;
    memory->address = (zt_cu_ptr)(uintptr_t)pinned;
    return result;
}

static zt_status create_memory(zt_cu_engine *engine, zt_cu_kind kind, size_t bytes, zt_cu_mem *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->bytes = bytes;
    if (engine->lost) return zt_cu_lost(engine);
    if (zt_exceeds_limit(engine->base.ctx, bytes)) give_up_pool(engine);
    zt_status status = zt_mem_reserve(engine->base.ctx, bytes);
    if (status) return status;
    int result = ask_driver(engine, kind, memory);
    if (result == ZT_CU_OUT_OF_MEMORY && give_up_pool(engine)) result = ask_driver(engine, kind, memory);
    if (result == ZT_CU_SUCCESS) {
        zt_count_held(&engine->report, bytes, 0);
        return ZT_OK;
    }
    memset(memory, 0, sizeof *memory);
    zt_mem_release(engine->base.ctx, bytes);
    if (result == ZT_CU_OUT_OF_MEMORY)
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "%s: %s: out of device memory: requested %zu bytes, %zu in use",
                       engine->base.vt->name, engine->name, bytes, engine->report.held);
    return zt_cu_try(engine, result, kind == ZT_CU_DEVICE_MEM ? "MemAlloc" : "MemHostAlloc");
}

/* ---- the pool -------------------------------------------------------------------------------- */

static bool take_pooled(zt_cu_engine *engine, zt_cu_kind kind, int size_class, zt_cu_mem *out)
{
    int *free_count = &engine->pool.count[kind][size_class];
    if (*free_count == 0) return false;
    *out = engine->pool.free[kind][size_class][--*free_count];
    zt_count_unpooled(&engine->report, out->bytes);
    return true;
}

zt_status zt_cu_alloc(zt_cu_engine *engine, zt_cu_kind kind, size_t bytes, zt_cu_mem *out)
{
    int size_class = zt_size_class(bytes, ZT_CU_CLASSES);
    zt_status status = ZT_OK;
    memset(out, 0, sizeof *out);
    if (bytes > SIZE_MAX - ALIGN)
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "%s: out of memory: requested %zu bytes", engine->base.vt->name, bytes);
    if (size_class < 0) {
        status = create_memory(engine, kind, (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1), out);
    } else if (take_pooled(engine, kind, size_class, out)) {
        engine->report.pool_hits++;
    } else {
        engine->report.pool_misses++;
        status = create_memory(engine, kind, zt_size_class_bytes(size_class), out);
        if (!status) out->pooled = 1 + size_class + (kind == ZT_CU_HOST_MEM ? ZT_CU_CLASSES : 0);
        engine->report.pool_allocated += !status;
    }
    engine->report.buffers += !status;
    return status;
}

static bool keep_pooled(zt_cu_engine *engine, const zt_cu_mem *memory)
{
    if (memory->pooled == 0 || engine->report.pooled_bytes + memory->bytes > ZT_CU_POOL_BYTES) return false;
    int kind = (memory->pooled - 1) / ZT_CU_CLASSES, size_class = (memory->pooled - 1) % ZT_CU_CLASSES;
    if (engine->pool.count[kind][size_class] == ZT_CU_POOL_EACH) return false;
    engine->pool.free[kind][size_class][engine->pool.count[kind][size_class]++] = *memory;
    zt_count_pooled(&engine->report, memory->bytes);
    return true;
}

void zt_cu_release(zt_cu_engine *engine, zt_cu_mem *memory)
{
    if (!memory->address) return;
    engine->report.buffers--;
    engine->report.pool_released += memory->pooled > 0;
    if (!keep_pooled(engine, memory)) {
        wait_idle(engine);
        destroy_memory(engine, memory);
    }
    memset(memory, 0, sizeof *memory);
}

void zt_cu_pool_close(zt_cu_engine *engine) { give_up_pool(engine); }
