/* copies.c - between host and device, through two pieces of pinned memory in turn: one is on its
 * way while the other is filled in. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

enum { HALF = 4 << 20 };

static zt_status make_halves(zt_cu_engine *engine)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < ZT_CU_HALVES && !status; i++) {
        if (!engine->halves[i].memory.address) status = zt_cu_alloc(engine, ZT_CU_HOST_MEM, HALF, &engine->halves[i].memory);
        if (!status && !engine->halves[i].done) /* 2: no time is taken */
            status = zt_cu_try(engine, engine->cu.EventCreate(&engine->halves[i].done, 2), "EventCreate");
    }
    return status;
}

void zt_cu_halves_close(zt_cu_engine *engine)
{
    for (int i = 0; i < ZT_CU_HALVES; i++) {
        if (engine->halves[i].done) engine->cu.EventDestroy(engine->halves[i].done);
        engine->halves[i].done = NULL;
        zt_cu_release(engine, &engine->halves[i].memory);
    }
}

/* The half whose turn it is, once what it held is on the device. */
static zt_status next_half(zt_cu_engine *engine)
{
    zt_status status = make_halves(engine);
    if (!status && engine->halves[engine->next_half].used)
        status = zt_cu_done(engine, engine->cu.EventSynchronize(engine->halves[engine->next_half].done), "EventSynchronize");
    if (!status) engine->halves[engine->next_half].used = false;
    return status;
}

uint8_t *zt_cu_half(zt_cu_engine *engine, size_t *byte_count)
{
    if (*byte_count > HALF) *byte_count = HALF;
    return next_half(engine) ? NULL : engine->halves[engine->next_half].memory.host;
}

zt_status zt_cu_half_send(zt_cu_engine *engine, zt_cu_ptr target, size_t byte_count)
{
    int i = engine->next_half;
    zt_status status = zt_cu_try(
        engine, engine->cu.MemcpyHtoDAsync(target, engine->halves[i].memory.host, byte_count, engine->stream), "MemcpyHtoDAsync");
    if (status) return status;
    engine->pending = true;
    engine->halves[i].used = true;
    engine->next_half = (i + 1) % ZT_CU_HALVES;
    return zt_cu_try(engine, engine->cu.EventRecord(engine->halves[i].done, engine->stream), "EventRecord");
}

zt_status zt_cu_write(zt_cu_engine *engine, zt_cu_ptr target, const void *source, size_t byte_count)
{
    zt_status status = ZT_OK;
    for (size_t offset = 0; offset < byte_count && !status;) {
        size_t part = byte_count - offset;
        uint8_t *staging = zt_cu_half(engine, &part);
        if (!staging) return zt_ctx_status(engine->base.ctx);
        memcpy(staging, (const char *)source + offset, part);
        status = zt_cu_half_send(engine, target + offset, part);
        offset += part;
    }
    return status;
}

zt_status zt_cu_read(zt_cu_engine *engine, zt_cu_ptr from, void *destination, size_t byte_count)
{
    zt_status status = zt_cu_sync(&engine->base);
    if (!status) engine->report.downloads++;
    for (size_t offset = 0; offset < byte_count && !status;) {
        size_t part = byte_count - offset;
        uint8_t *staging = zt_cu_half(engine, &part);
        if (!staging) return zt_ctx_status(engine->base.ctx);
        status = zt_cu_try(engine, engine->cu.MemcpyDtoHAsync(staging, from + offset, part, engine->stream), "MemcpyDtoHAsync");
        if (!status) status = zt_cu_done(engine, engine->cu.StreamSynchronize(engine->stream), "StreamSynchronize");
        if (!status) memcpy((char *)destination + offset, staging, part);
        offset += part;
    }
    return status;
}

zt_status zt_cu_clear(zt_cu_engine *engine, zt_cu_ptr address, size_t byte_count)
{
    if (byte_count == 0) return ZT_OK;
    engine->pending = true;
    return zt_cu_try(engine, engine->cu.MemsetD8Async(address, 0, byte_count, engine->stream), "MemsetD8Async");
}
