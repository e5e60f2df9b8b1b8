/* memory.c - device memory and pinned memory of the host, and a pool of both by size class.
 *
 * What is released waits in its class. Device memory may be given out again at once, as all that
 * uses it is in one stream; pinned memory is released only when nothing is under way to or from it.
 * All of it counts against the context's limit. When there is no more, what waits in the pool is
 * given up first.
 */
#include "lib/engine/cuda/cu.h"

#include <string.h>

enum { SMALLEST = 4096, ALIGN = 256 };

/* ---- counting -------------------------------------------------------------------------------- */

static void held(zt_cu_engine *e, size_t more, size_t less)
{
    e->report.held += more - less;
    e->report.allocated += more;
    if (e->report.held > e->report.peak) e->report.peak = e->report.held;
}

/* The class whose buffers hold so many bytes, or -1: too large for the pool. */
static int class_of(size_t bytes)
{
    int c = 0;
    while (c < ZT_CU_CLASSES && (size_t)SMALLEST << c < bytes) c++;
    return c < ZT_CU_CLASSES ? c : -1;
}

/* ---- of the driver --------------------------------------------------------------------------- */

/* Waits, so that nothing works on what goes; what steps found wrong stays for the next sync. */
static void rest(zt_cu_engine *e)
{
    if (e->pending && !e->lost && e->cu.StreamSynchronize(e->stream)) e->lost = true;
}

static void destroy(zt_cu_engine *e, zt_cu_mem *m)
{
    if (m->at && m->host)
        e->cu.MemFreeHost(m->host);
    else if (m->at)
        e->cu.MemFree(m->at);
    if (m->at) {
        zt_mem_release(e->base.ctx, m->bytes);
        held(e, 0, m->bytes);
    }
    memset(m, 0, sizeof *m);
}

/* Frees what waits in the pool; false: there was nothing. */
static bool give_up_pool(zt_cu_engine *e)
{
    if (e->report.pooled == 0) return false;
    rest(e);
    for (int k = 0; k < ZT_CU_KINDS; k++)
        for (int c = 0; c < ZT_CU_CLASSES; c++)
            while (e->pool.n[k][c] > 0) {
                zt_cu_mem *m = &e->pool.free[k][c][--e->pool.n[k][c]];
                e->report.pooled--;
                e->report.pooled_bytes -= m->bytes;
                destroy(e, m);
            }
    return true;
}

/* Room for it under the context's limit, if need be by giving up what waits. */
static void make_room(zt_cu_engine *e, size_t bytes)
{
    zt_mem m = zt_mem_get(e->base.ctx);
    if (m.limit && (m.held > m.limit || bytes > m.limit - m.held)) give_up_pool(e);
}

/* Pinned memory of one address space: the device may be given its address too. */
static int ask_driver(zt_cu_engine *e, zt_cu_kind kind, zt_cu_mem *m)
{
    void *p = NULL;
    if (kind == ZT_CU_DEVICE_MEM) return e->cu.MemAlloc(&m->at, m->bytes);
    int r = e->cu.MemHostAlloc(&p, m->bytes, 0);
    m->host = p;
    m->at = (zt_cu_ptr)(uintptr_t)p;
    return r;
}

static zt_status create(zt_cu_engine *e, zt_cu_kind kind, size_t bytes, zt_cu_mem *m)
{
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    if (e->lost) return zt_cu_lost(e);
    make_room(e, bytes);
    zt_status s = zt_mem_reserve(e->base.ctx, bytes);
    if (s) return s;
    int r = ask_driver(e, kind, m);
    if (r == ZT_CU_OUT_OF_MEMORY && give_up_pool(e)) r = ask_driver(e, kind, m);
    if (r == ZT_CU_SUCCESS) {
        held(e, bytes, 0);
        return ZT_OK;
    }
    memset(m, 0, sizeof *m);
    zt_mem_release(e->base.ctx, bytes);
    if (r == ZT_CU_OUT_OF_MEMORY)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "%s: %s has no %zu bytes more, %zu are held",
                       e->base.vt->name, e->name, bytes, e->report.held);
    return zt_cu_try(e, r, kind == ZT_CU_DEVICE_MEM ? "MemAlloc" : "MemHostAlloc");
}

/* ---- the pool -------------------------------------------------------------------------------- */

static bool take(zt_cu_engine *e, zt_cu_kind kind, int c, zt_cu_mem *out)
{
    int *n = &e->pool.n[kind][c];
    if (*n == 0) return false;
    *out = e->pool.free[kind][c][--*n];
    e->report.pooled--;
    e->report.pooled_bytes -= out->bytes;
    return true;
}

zt_status zt_cu_alloc(zt_cu_engine *e, zt_cu_kind kind, size_t bytes, zt_cu_mem *out)
{
    int c = class_of(bytes);
    zt_status s = ZT_OK;
    memset(out, 0, sizeof *out);
    if (bytes > SIZE_MAX - ALIGN)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "%s: %zu bytes wanted", e->base.vt->name,
                       bytes);
    if (c < 0) {
        s = create(e, kind, (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1), out);
    } else if (take(e, kind, c, out)) {
        e->report.pool_hits++;
    } else {
        e->report.pool_misses++;
        s = create(e, kind, (size_t)SMALLEST << c, out);
        if (!s) out->pooled = 1 + c + (kind == ZT_CU_HOST_MEM ? ZT_CU_CLASSES : 0);
        e->report.pool_allocated += !s;
    }
    e->report.buffers += !s;
    return s;
}

static bool keep(zt_cu_engine *e, const zt_cu_mem *m)
{
    if (m->pooled == 0 || e->report.pooled_bytes + m->bytes > ZT_CU_POOL_BYTES) return false;
    int kind = (m->pooled - 1) / ZT_CU_CLASSES, c = (m->pooled - 1) % ZT_CU_CLASSES;
    if (e->pool.n[kind][c] == ZT_CU_POOL_EACH) return false;
    e->pool.free[kind][c][e->pool.n[kind][c]++] = *m;
    e->report.pooled++;
    e->report.pooled_bytes += m->bytes;
    return true;
}

void zt_cu_release(zt_cu_engine *e, zt_cu_mem *m)
{
    if (!m->at) return;
    e->report.buffers--;
    e->report.pool_released += m->pooled > 0;
    if (!keep(e, m)) {
        rest(e);
        destroy(e, m);
    }
    memset(m, 0, sizeof *m);
}

void zt_cu_pool_close(zt_cu_engine *e) { give_up_pool(e); }
