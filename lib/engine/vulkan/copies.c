/* copies.c - between host and device. Memory that both sides see is copied to and from by the host;
 * the rest goes through a staging buffer and a command. All that was asked of the device before is
 * done then, and its runtime errors are reported.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { STAGING = 4 << 20 };

static zt_status begin_copy(zt_vk_engine *engine)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    return zt_vk_check(engine->base.ctx, engine->vk.BeginCommandBuffer(engine->transfer, &info), "BeginCommandBuffer");
}

static zt_status submit_copy(zt_vk_engine *engine)
{
    zt_status status = zt_vk_check(engine->base.ctx, engine->vk.EndCommandBuffer(engine->transfer), "EndCommandBuffer");
    return status ? status : zt_vk_submit(engine, engine->transfer);
}

static zt_status copy_buffer(zt_vk_engine *engine, VkBuffer from, size_t from_at, VkBuffer to, size_t to_at, size_t byte_count)
{
    const VkBufferCopy region = {from_at, to_at, byte_count};
    zt_status status = begin_copy(engine);
    if (status) return status;
    engine->vk.CmdCopyBuffer(engine->transfer, from, to, 1, &region);
    return submit_copy(engine);
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

zt_status zt_vk_write(zt_vk_engine *engine, const zt_vk_mem *to, size_t offset, const void *source, size_t byte_count)
{
    zt_status status = at_rest(engine, to);
    if (!status && to->map) {
        if (byte_count) memcpy(to->map + offset, source, byte_count);
        return ZT_OK;
    }
    if (!status) status = want_staging(engine);
    for (size_t done = 0; done < byte_count && !status;) {
        size_t part = byte_count - done < STAGING ? byte_count - done : STAGING;
        memcpy(engine->staging.map, (const char *)source + done, part);
        status = copy_buffer(engine, engine->staging.buffer, 0, to->buffer, offset + done, part);
        done += part;
    }
    return status;
}

zt_status zt_vk_read(zt_vk_engine *engine, const zt_vk_mem *from, size_t offset, void *destination, size_t byte_count)
{
    zt_status status = zt_vk_sync(&engine->base);
    if (status) return status;
    engine->report.downloads++;
    if (from->map) {
        if (byte_count) memcpy(destination, from->map + offset, byte_count);
        return ZT_OK;
    }
    status = want_staging(engine);
    for (size_t done = 0; done < byte_count && !status;) {
        size_t part = byte_count - done < STAGING ? byte_count - done : STAGING;
        status = copy_buffer(engine, from->buffer, offset + done, engine->staging.buffer, 0, part);
        if (!status) memcpy((char *)destination + done, engine->staging.map, part);
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
    if (!status) status = begin_copy(engine);
    if (status) return status;
    engine->vk.CmdFillBuffer(engine->transfer, memory->buffer, 0, VK_WHOLE_SIZE, 0);
    return submit_copy(engine);
}
