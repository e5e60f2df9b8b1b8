/* copies.c - between host and device, through two pieces of pinned memory in turn: one is on its
 * way while the other is filled in. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

enum { HALF = 4 << 20 };

static zt_status make_halves(zt_cu_engine *e)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < ZT_CU_HALVES && !s; i++) {
        if (!e->half[i].mem.at) s = zt_cu_alloc(e, ZT_CU_HOST_MEM, HALF, &e->half[i].mem);
        if (!s && !e->half[i].done) /* 2: no time is taken */
            s = zt_cu_try(e, e->cu.EventCreate(&e->half[i].done, 2), "EventCreate");
    }
    return s;
}

void zt_cu_halves_close(zt_cu_engine *e)
{
    for (int i = 0; i < ZT_CU_HALVES; i++) {
        if (e->half[i].done) e->cu.EventDestroy(e->half[i].done);
        e->half[i].done = NULL;
        zt_cu_release(e, &e->half[i].mem);
    }
}

/* The half whose turn it is, once what it held is on the device. */
static zt_status next_half(zt_cu_engine *e)
{
    zt_status s = make_halves(e);
    if (!s && e->half[e->next_half].used)
        s = zt_cu_done(e, e->cu.EventSynchronize(e->half[e->next_half].done), "EventSynchronize");
    if (!s) e->half[e->next_half].used = false;
    return s;
}

uint8_t *zt_cu_half(zt_cu_engine *e, size_t *n)
{
    if (*n > HALF) *n = HALF;
    return next_half(e) ? NULL : e->half[e->next_half].mem.host;
}

zt_status zt_cu_half_send(zt_cu_engine *e, zt_cu_ptr to, size_t n)
{
    int i = e->next_half;
    zt_status s = zt_cu_try(
        e, e->cu.MemcpyHtoDAsync(to, e->half[i].mem.host, n, e->stream), "MemcpyHtoDAsync");
    if (s) return s;
    e->pending = true;
    e->half[i].used = true;
    e->next_half = (i + 1) % ZT_CU_HALVES;
    return zt_cu_try(e, e->cu.EventRecord(e->half[i].done, e->stream), "EventRecord");
}

zt_status zt_cu_write(zt_cu_engine *e, zt_cu_ptr to, const void *src, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t at = 0; at < n && !s;) {
        size_t part = n - at;
        uint8_t *p = zt_cu_half(e, &part);
        if (!p) return zt_ctx_status(e->base.ctx);
        memcpy(p, (const char *)src + at, part);
        s = zt_cu_half_send(e, to + at, part);
        at += part;
    }
    return s;
}

zt_status zt_cu_read(zt_cu_engine *e, zt_cu_ptr from, void *dst, size_t n)
{
    zt_status s = zt_cu_sync(&e->base);
    if (!s) e->report.downloads++;
    for (size_t at = 0; at < n && !s;) {
        size_t part = n - at;
        uint8_t *p = zt_cu_half(e, &part);
        if (!p) return zt_ctx_status(e->base.ctx);
        s = zt_cu_try(e, e->cu.MemcpyDtoHAsync(p, from + at, part, e->stream), "MemcpyDtoHAsync");
        if (!s) s = zt_cu_done(e, e->cu.StreamSynchronize(e->stream), "StreamSynchronize");
        if (!s) memcpy((char *)dst + at, p, part);
        at += part;
    }
    return s;
}

zt_status zt_cu_clear(zt_cu_engine *e, zt_cu_ptr at, size_t n)
{
    if (n == 0) return ZT_OK;
    e->pending = true;
    return zt_cu_try(e, e->cu.MemsetD8Async(at, 0, n, e->stream), "MemsetD8Async");
}
