/* copies.c - between host and device. Memory that both sides see is copied to and from by the host;
 * the rest goes through a staging buffer and a command. All that was asked of the device before is
 * done then, and its troubles are told.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { STAGING = 4 << 20 };

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

/* Where the device does not work on it, nothing need be waited for. */
static zt_status at_rest(zt_vk_engine *e, const zt_vk_mem *m)
{
    return m->used > e->done ? zt_vk_sync(&e->base) : ZT_OK;
}

zt_status zt_vk_write(zt_vk_engine *e, const zt_vk_mem *to, size_t at, const void *src, size_t n)
{
    zt_status s = at_rest(e, to);
    if (!s && to->map) {
        if (n) memcpy(to->map + at, src, n);
        return ZT_OK;
    }
    if (!s) s = want_staging(e);
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
    zt_status s = zt_vk_sync(&e->base);
    if (s) return s;
    e->report.downloads++;
    if (from->map) {
        if (n) memcpy(dst, from->map + at, n);
        return ZT_OK;
    }
    s = want_staging(e);
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
    zt_status s = at_rest(e, m);
    if (!s && m->map) {
        memset(m->map, 0, m->bytes);
        return ZT_OK;
    }
    if (!s) s = begin(e);
    if (s) return s;
    e->vk.CmdFillBuffer(e->transfer, m->buffer, 0, VK_WHOLE_SIZE, 0);
    return finish(e);
}
