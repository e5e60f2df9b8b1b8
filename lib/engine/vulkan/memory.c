/* memory.c - device memory: buffers with addresses, a pool of small ones by size class, and copies
 * between host and device.
 *
 * Memory that both sides see is mapped once, for as long as it lives, and copied to and from by the
 * host; the rest goes through a staging buffer and a command.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { SMALLEST = 4096, STAGING = 4 << 20 };

/* ---- counting -------------------------------------------------------------------------------- */

static void held(zt_vk_engine *e, size_t more, size_t less)
{
    e->report.held += more - less;
    if (e->report.held > e->report.peak) e->report.peak = e->report.held;
}

/* The class whose buffers hold so many bytes, or -1: too large for the pool. */
static int class_of(size_t bytes)
{
    int c = 0;
    while (c < ZT_VK_CLASSES && (size_t)SMALLEST << c < bytes) c++;
    return c < ZT_VK_CLASSES ? c : -1;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void destroy(zt_vk_engine *e, zt_vk_mem *m)
{
    if (m->buffer) e->vk.DestroyBuffer(e->device, m->buffer, NULL);
    if (m->memory) e->vk.FreeMemory(e->device, m->memory, NULL);
    if (m->memory) held(e, 0, m->bytes);
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
    VkResult r = e->vk.AllocateMemory(e->device, &info, NULL, &m->memory);
    if (r)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "vulkan: %s has no %zu bytes more, %zu are held",
                       e->name, m->bytes, e->report.held);
    held(e, m->bytes, 0);
    *seen = e->seen_types >> type & 1;
    r = e->vk.BindBufferMemory(e->device, m->buffer, m->memory, 0);
    return zt_vk_check(e->base.ctx, r, "BindBufferMemory");
}

static zt_status create(zt_vk_engine *e, zt_vk_kind kind, size_t bytes, zt_vk_mem *m)
{
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    zt_status s = make_buffer(e, bytes, m);
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

zt_status zt_vk_alloc(zt_vk_engine *e, zt_vk_kind kind, size_t bytes, zt_vk_mem *out)
{
    int c = class_of(bytes);
    if (c < 0) return create(e, kind, (bytes + 63) & ~(size_t)63, out);
    int *n = &e->pool.n[kind][c];
    if (*n > 0) {
        *out = e->pool.free[kind][c][--*n];
        e->report.pool_hits++;
        return ZT_OK;
    }
    e->report.pool_misses++;
    zt_status s = create(e, kind, (size_t)SMALLEST << c, out);
    if (!s) out->pooled = 1 + c + (kind == ZT_VK_HOST_MEM ? ZT_VK_CLASSES : 0);
    return s;
}

void zt_vk_release(zt_vk_engine *e, zt_vk_mem *m)
{
    if (!m->buffer) return;
    int kind = (m->pooled - 1) / ZT_VK_CLASSES, c = (m->pooled - 1) % ZT_VK_CLASSES;
    if (m->pooled == 0 || e->pool.n[kind][c] == ZT_VK_POOL_EACH) {
        destroy(e, m);
        return;
    }
    e->pool.free[kind][c][e->pool.n[kind][c]++] = *m;
    memset(m, 0, sizeof *m);
}

void zt_vk_pool_clear(zt_vk_engine *e)
{
    for (int k = 0; k < ZT_VK_KINDS; k++)
        for (int c = 0; c < ZT_VK_CLASSES; c++)
            while (e->pool.n[k][c] > 0) destroy(e, &e->pool.free[k][c][--e->pool.n[k][c]]);
}

/* ---- copies ---------------------------------------------------------------------------------- */

zt_status zt_vk_submit(zt_vk_engine *e, VkCommandBuffer c)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &c};
    zt_ctx *ctx = e->base.ctx;
    zt_status s = zt_vk_check(ctx, e->vk.QueueSubmit(e->queue, 1, &info, e->fence), "QueueSubmit");
    if (s) return s;
    e->report.submits++;
    s = zt_vk_check(ctx, e->vk.WaitForFences(e->device, 1, &e->fence, VK_TRUE, UINT64_MAX),
                    "WaitForFences");
    return s ? s : zt_vk_check(ctx, e->vk.ResetFences(e->device, 1, &e->fence), "ResetFences");
}

static zt_status begin(zt_vk_engine *e)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    return zt_vk_check(e->base.ctx, e->vk.BeginCommandBuffer(e->transfer, &info),
                       "BeginCommandBuffer");
}

static zt_status finish(zt_vk_engine *e)
{
    zt_status s = zt_vk_check(e->base.ctx, e->vk.EndCommandBuffer(e->transfer), "EndCommandBuffer");
    return s ? s : zt_vk_submit(e, e->transfer);
}

static zt_status copy(zt_vk_engine *e, VkBuffer from, size_t from_at, VkBuffer to, size_t to_at,
                      size_t n)
{
    const VkBufferCopy region = {from_at, to_at, n};
    zt_status s = begin(e);
    if (s) return s;
    e->vk.CmdCopyBuffer(e->transfer, from, to, 1, &region);
    return finish(e);
}

static zt_status want_staging(zt_vk_engine *e)
{
    return e->staging.buffer ? ZT_OK : zt_vk_alloc(e, ZT_VK_HOST_MEM, STAGING, &e->staging);
}

zt_status zt_vk_write(zt_vk_engine *e, const zt_vk_mem *to, size_t at, const void *src, size_t n)
{
    if (to->map) {
        if (n) memcpy(to->map + at, src, n);
        return ZT_OK;
    }
    zt_status s = want_staging(e);
    for (size_t done = 0; done < n && !s;) {
        size_t part = n - done < STAGING ? n - done : STAGING;
        memcpy(e->staging.map, (const char *)src + done, part);
        s = copy(e, e->staging.buffer, 0, to->buffer, at + done, part);
        done += part;
    }
    return s;
}

zt_status zt_vk_read(zt_vk_engine *e, const zt_vk_mem *from, size_t at, void *dst, size_t n)
{
    e->report.downloads++;
    if (from->map) {
        if (n) memcpy(dst, from->map + at, n);
        return ZT_OK;
    }
    zt_status s = want_staging(e);
    for (size_t done = 0; done < n && !s;) {
        size_t part = n - done < STAGING ? n - done : STAGING;
        s = copy(e, from->buffer, at + done, e->staging.buffer, 0, part);
        if (!s) memcpy((char *)dst + done, e->staging.map, part);
        done += part;
    }
    return s;
}

zt_status zt_vk_clear(zt_vk_engine *e, const zt_vk_mem *m)
{
    if (m->map) {
        memset(m->map, 0, m->bytes);
        return ZT_OK;
    }
    zt_status s = begin(e);
    if (s) return s;
    e->vk.CmdFillBuffer(e->transfer, m->buffer, 0, VK_WHOLE_SIZE, 0);
    return finish(e);
}
