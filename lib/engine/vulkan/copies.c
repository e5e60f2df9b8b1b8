/* copies.c - between host and device. Memory that both sides see is copied to and from by the host, when the
 * device is done with it; the rest goes through a ring of staging buffers and commands of work.c: the host
 * fills one while the device copies another, and waits only for a buffer that is still in use.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* The next buffer of the ring, when the device is done with it. NULL: an error. */
static zt_vk_mem *take_staging(zt_vk_engine *engine)
{
    zt_vk_mem *staging = &engine->staging[engine->staged++ % ZT_VK_STAGINGS];
    zt_status status =
        staging->buffer ? zt_vk_wait(engine, staging->used) : zt_vk_alloc(engine, ZT_VK_HOST_MEM, ZT_VK_STAGING_BYTES, staging);
    return status ? NULL : staging;
}

static size_t part_of(size_t byte_count, size_t done)
{
    return byte_count - done < ZT_VK_STAGING_BYTES ? byte_count - done : ZT_VK_STAGING_BYTES;
}

zt_status zt_vk_write(zt_vk_engine *engine, zt_vk_mem *to, size_t offset, const void *source, size_t byte_count)
{
    zt_status status = to->map ? zt_vk_wait(engine, to->used) : ZT_OK;
    if (!status && to->map) {
        if (byte_count) memcpy(to->map + offset, source, byte_count);
        return ZT_OK;
    }
    for (size_t done = 0, part; done < byte_count && !status; done += part) {
        zt_vk_mem *staging = take_staging(engine);
        if (!staging) return zt_ctx_status(engine->base.ctx);
        part = part_of(byte_count, done);
        memcpy(staging->map, (const char *)source + done, part);
        status = zt_vk_enqueue_copy(engine, staging, 0, to, offset + done, part);
        if (!status) status = zt_vk_flush(&engine->base);
    }
    return status;
}

/* As many parts as there are buffers are on the way at once. */
static zt_status read_apart(zt_vk_engine *engine, zt_vk_mem *from, size_t offset, char *destination, size_t byte_count)
{
    zt_vk_mem *on_the_way[ZT_VK_STAGINGS];
    size_t asked = 0, done = 0;
    for (unsigned first = 0, count = 0; done < byte_count;) {
        while (count < ZT_VK_STAGINGS && asked < byte_count) {
            zt_vk_mem *staging = on_the_way[(first + count++) % ZT_VK_STAGINGS] = take_staging(engine);
            if (!staging || zt_vk_enqueue_copy(engine, from, offset + asked, staging, 0, part_of(byte_count, asked)) ||
                zt_vk_flush(&engine->base))
                return zt_ctx_status(engine->base.ctx);
            asked += part_of(byte_count, asked);
        }
        zt_vk_mem *staging = on_the_way[first++ % ZT_VK_STAGINGS];
        count--;
        if (zt_vk_wait(engine, staging->used)) return zt_ctx_status(engine->base.ctx);
        memcpy(destination + done, staging->map, part_of(byte_count, done));
        done += part_of(byte_count, done);
    }
    return ZT_OK;
}

zt_status zt_vk_read(zt_vk_engine *engine, const zt_vk_mem *from, size_t offset, void *destination, size_t byte_count)
{
    zt_status status = zt_vk_sync(&engine->base);
    if (status) return status;
    engine->report.downloads++;
    if (!from->map) {
        zt_vk_mem memory = *from;
        return read_apart(engine, &memory, offset, destination, byte_count);
    }
    if (byte_count) memcpy(destination, from->map + offset, byte_count);
    return ZT_OK;
}

zt_status zt_vk_clear(zt_vk_engine *engine, zt_vk_mem *memory)
{
    if (!memory->map) return zt_vk_enqueue_fill(engine, memory);
    zt_status status = zt_vk_wait(engine, memory->used);
    if (!status) memset(memory->map, 0, memory->bytes);
    return status;
}
