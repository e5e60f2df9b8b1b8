/* copies.c - between host and device. Memory that both sides see is copied to and from by the host;
 * the rest goes through a staging buffer and a command. All that was asked of the device before is
 * done then, and its troubles are told.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { STAGING = 4 << 20 };

static zt_status begin(zt_vk_engine *engine)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    return zt_vk_check(engine->base.ctx, engine->vk.BeginCommandBuffer(engine->transfer, &info),
                       "BeginCommandBuffer");
}

static zt_status finish(zt_vk_engine *engine)
{
    zt_status status = zt_vk_check(engine->base.ctx, engine->vk.EndCommandBuffer(engine->transfer), "EndCommandBuffer");
    return status ? status : zt_vk_submit(engine, engine->transfer);
}

static zt_status copy(zt_vk_engine *engine, VkBuffer from, size_t from_at, VkBuffer to, size_t to_at,
                      size_t n)
{
    const VkBufferCopy region = {from_at, to_at, n};
    zt_status status = begin(engine);
    if (status) return status;
    engine->vk.CmdCopyBuffer(engine->transfer, from, to, 1, &region);
    return finish(engine);
}

static zt_status want_staging(zt_vk_engine *engine)
{
    return engine->staging.buffer ? ZT_OK : zt_vk_alloc(engine, ZT_VK_HOST_MEM, STAGING, &engine->staging);
}

/* Where the device does not work on it, nothing need be waited for. */
static zt_status at_rest(zt_vk_engine *engine, const zt_vk_mem *memory)
{
    return memory->used > engine->done ? zt_vk_sync(&engine->base) : ZT_OK;
}

zt_status zt_vk_write(zt_vk_engine *engine, const zt_vk_mem *to, size_t at, const void *src, size_t n)
{
    zt_status status = at_rest(engine, to);
    if (!status && to->map) {
        if (n) memcpy(to->map + at, src, n);
        return ZT_OK;
    }
    if (!status) status = want_staging(engine);
    for (size_t done = 0; done < n && !status;) {
        size_t part = n - done < STAGING ? n - done : STAGING;
        memcpy(engine->staging.map, (const char *)src + done, part);
        status = copy(engine, engine->staging.buffer, 0, to->buffer, at + done, part);
        done += part;
    }
    return status;
}

zt_status zt_vk_read(zt_vk_engine *engine, const zt_vk_mem *from, size_t at, void *dst, size_t n)
{
    zt_status status = zt_vk_sync(&engine->base);
    if (status) return status;
    engine->report.downloads++;
    if (from->map) {
        if (n) memcpy(dst, from->map + at, n);
        return ZT_OK;
    }
    status = want_staging(engine);
    for (size_t done = 0; done < n && !status;) {
        size_t part = n - done < STAGING ? n - done : STAGING;
        status = copy(engine, from->buffer, at + done, engine->staging.buffer, 0, part);
        if (!status) memcpy((char *)dst + done, engine->staging.map, part);
        done += part;
    }
    return status;
}

zt_status zt_vk_clear(zt_vk_engine *engine, const zt_vk_mem *memory)
{
    zt_status status = at_rest(engine, memory);
    if (!status && memory->map) {
        memset(memory->map, 0, memory->bytes);
        return ZT_OK;
    }
    if (!status) status = begin(engine);
    if (status) return status;
    engine->vk.CmdFillBuffer(engine->transfer, memory->buffer, 0, VK_WHOLE_SIZE, 0);
    return finish(engine);
}
