/* memory.c - device memory: buffers with addresses, and a pool of small ones by size class.
 *
 * Memory that both sides see is mapped once, for as long as it lives. All of it counts against the
 * context's limit. When there is no more, what waits in the pool is given up first.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { SMALLEST = 4096 };

/* ---- counting -------------------------------------------------------------------------------- */

static void held(zt_vk_engine *e, size_t more, size_t less)
{
    e->report.held += more - less;
    e->report.allocated += more;
    if (e->report.held > e->report.peak) e->report.peak = e->report.held;
}

/* The class whose buffers hold so many bytes, or -1: too large for the pool. */
static int class_of(size_t bytes)
{
    int c = 0;
    while (c < ZT_VK_CLASSES && (size_t)SMALLEST << c < bytes) c++;
    return c < ZT_VK_CLASSES ? c : -1;
}

static bool busy(const zt_vk_engine *e, const zt_vk_mem *m) { return m->used > e->done; }

/* ---- buffers --------------------------------------------------------------------------------- */

static void destroy(zt_vk_engine *e, zt_vk_mem *m)
{
    if (m->buffer) e->vk.DestroyBuffer(e->device, m->buffer, NULL);
    if (m->memory) {
        e->vk.FreeMemory(e->device, m->memory, NULL);
        zt_mem_release(e->base.ctx, m->bytes);
        held(e, 0, m->bytes);
    }
    memset(m, 0, sizeof *m);
}

static zt_status make_buffer(zt_vk_engine *e, size_t bytes, zt_vk_mem *m)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    return zt_vk_check(e->base.ctx, e->vk.CreateBuffer(e->device, &info, NULL, &m->buffer),
                       "CreateBuffer");
}

/* Of the type that the kind wants, or of any that the buffer takes. */
static uint32_t type_for(const zt_vk_engine *e, zt_vk_kind kind, uint32_t allowed)
{
    uint32_t want = e->memory_type[kind];
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t t = (want + i) % 32;
        if (allowed >> t & 1) return t;
    }
    return want;
}

/* Frees what waits in the pool; false: there was nothing. */
static bool give_up_pool(zt_vk_engine *e)
{
    if (e->report.pooled == 0 && e->pool.n_graves == 0) return false;
    zt_vk_sync(&e->base);
    for (int k = 0; k < ZT_VK_KINDS; k++)
        for (int c = 0; c < ZT_VK_CLASSES; c++)
            while (e->pool.n[k][c] > 0) {
                zt_vk_mem *m = &e->pool.free[k][c][--e->pool.n[k][c]];
                e->report.pooled--;
                e->report.pooled_bytes -= m->bytes;
                destroy(e, m);
            }
    return true;
}

/* Room for it under the context's limit, if need be by giving up what waits. */
static void make_room(zt_vk_engine *e, size_t bytes)
{
    zt_mem m = zt_mem_get(e->base.ctx);
    if (m.limit && (m.held > m.limit || bytes > m.limit - m.held)) give_up_pool(e);
}

/* `seen`: the host sees it, by the type that it is really of. */
static zt_status give_memory(zt_vk_engine *e, zt_vk_kind kind, zt_vk_mem *m, bool *seen)
{
    VkMemoryRequirements need;
    e->vk.GetBufferMemoryRequirements(e->device, m->buffer, &need);
    uint32_t type = type_for(e, kind, need.memoryTypeBits);
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = need.size,
                                       .memoryTypeIndex = type};
    zt_status s = zt_mem_reserve(e->base.ctx, m->bytes);
    if (s) return s;
    VkResult r = e->vk.AllocateMemory(e->device, &info, NULL, &m->memory);
    if (r && give_up_pool(e)) r = e->vk.AllocateMemory(e->device, &info, NULL, &m->memory);
    if (r) {
        m->memory = VK_NULL_HANDLE;
        zt_mem_release(e->base.ctx, m->bytes);
        if (r == VK_ERROR_DEVICE_LOST) return zt_vk_lost(e);
        return zt_fail(e->base.ctx, ZT_ENOMEM, "vulkan: %s has no %zu bytes more, %zu are held",
                       e->name, m->bytes, e->report.held);
    }
    held(e, m->bytes, 0);
    *seen = e->seen_types >> type & 1;
    r = e->vk.BindBufferMemory(e->device, m->buffer, m->memory, 0);
    return zt_vk_check(e->base.ctx, r, "BindBufferMemory");
}

static zt_status create(zt_vk_engine *e, zt_vk_kind kind, size_t bytes, zt_vk_mem *m)
{
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    make_room(e, bytes);
    zt_status s = e->lost ? zt_vk_lost(e) : make_buffer(e, bytes, m);
    bool seen = false;
    if (!s) s = give_memory(e, kind, m, &seen);
    if (!s && kind == ZT_VK_HOST_MEM && !seen)
        s = zt_fail(e->base.ctx, ZT_ENOTSUP, "vulkan: %s shares no memory with the host", e->name);
    if (!s && seen) {
        void *p = NULL;
        VkResult r = e->vk.MapMemory(e->device, m->memory, 0, VK_WHOLE_SIZE, 0, &p);
        s = zt_vk_check(e->base.ctx, r, "MapMemory");
        m->map = p;
    }
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = m->buffer};
    if (!s) m->address = e->vk.GetBufferDeviceAddress(e->device, &where);
    if (s) destroy(e, m);
    return s;
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* One that waits, preferably one that the device is done with; of the host's kind no other. */
static bool take(zt_vk_engine *e, zt_vk_kind kind, int c, zt_vk_mem *out)
{
    zt_vk_mem *list = e->pool.free[kind][c];
    int n = e->pool.n[kind][c], i = n - 1;
    while (i >= 0 && busy(e, &list[i])) i--;
    if (i < 0 && kind == ZT_VK_DEVICE_MEM) i = n - 1;
    if (i < 0) return false;
    *out = list[i];
    list[i] = list[--e->pool.n[kind][c]];
    e->report.pooled--;
    e->report.pooled_bytes -= out->bytes;
    return true;
}

zt_status zt_vk_alloc(zt_vk_engine *e, zt_vk_kind kind, size_t bytes, zt_vk_mem *out)
{
    int c = class_of(bytes);
    zt_status s = ZT_OK;
    memset(out, 0, sizeof *out);
    if (bytes > SIZE_MAX - 64)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "vulkan: %zu bytes wanted", bytes);
    if (c < 0) {
        s = create(e, kind, (bytes + 63) & ~(size_t)63, out);
    } else if (take(e, kind, c, out)) {
        e->report.pool_hits++;
    } else {
        e->report.pool_misses++;
        s = create(e, kind, (size_t)SMALLEST << c, out);
        if (!s) out->pooled = 1 + c + (kind == ZT_VK_HOST_MEM ? ZT_VK_CLASSES : 0);
        e->report.pool_allocated += !s;
    }
    e->report.buffers += !s;
    return s;
}

static bool keep(zt_vk_engine *e, const zt_vk_mem *m)
{
    if (m->pooled == 0 || e->report.pooled_bytes + m->bytes > ZT_VK_POOL_BYTES) return false;
    int kind = (m->pooled - 1) / ZT_VK_CLASSES, c = (m->pooled - 1) % ZT_VK_CLASSES;
    if (e->pool.n[kind][c] == ZT_VK_POOL_EACH) return false;
    e->pool.free[kind][c][e->pool.n[kind][c]++] = *m;
    e->report.pooled++;
    e->report.pooled_bytes += m->bytes;
    return true;
}

/* What the device works on is freed later; where too many wait for that, it is waited for. */
static void free_when_done(zt_vk_engine *e, zt_vk_mem *m)
{
    if (busy(e, m) && e->pool.n_graves < ZT_VK_GRAVES) {
        e->pool.grave[e->pool.n_graves++] = *m;
        return;
    }
    if (busy(e, m)) zt_vk_sync(&e->base);
    destroy(e, m);
}

void zt_vk_release(zt_vk_engine *e, zt_vk_mem *m)
{
    if (!m->buffer) return;
    e->report.buffers--;
    e->report.pool_released += m->pooled > 0;
    if (!keep(e, m)) free_when_done(e, m);
    memset(m, 0, sizeof *m);
}

void zt_vk_bury(zt_vk_engine *e)
{
    int left = 0;
    for (int i = 0; i < e->pool.n_graves; i++)
        if (busy(e, &e->pool.grave[i]))
            e->pool.grave[left++] = e->pool.grave[i];
        else
            destroy(e, &e->pool.grave[i]);
    e->pool.n_graves = left;
}

void zt_vk_pool_close(zt_vk_engine *e)
{
    give_up_pool(e);
    zt_vk_bury(e);
}
