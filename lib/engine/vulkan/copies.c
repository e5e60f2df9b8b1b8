/* copies.c - between host and device. Memory that both sides see is copied to and from by the host, when the
 * device is done with it; the rest goes through a ring of staging buffers and commands of work.c: the host
 * fills one while the device copies another, and waits only for a buffer that is still in use. What is small goes to the
 * device with the next command that needs it: an input, the ops on it and the copy of the result are one submit.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

typedef struct staged { /* bytes of a staging buffer */
    zt_vk_mem *memory;  /* NULL: an error */
    size_t offset;
} staged;

/* Of the last buffer of the ring what is left, else the next buffer, when the device is done with it. */
static staged take_staging(zt_vk_engine *engine, size_t byte_count)
{
    if (engine->staged > 0 && byte_count <= ZT_VK_STAGING_BYTES - engine->staging_filled) {
        staged left = {&engine->staging[(engine->staged - 1) % ZT_VK_STAGINGS], engine->staging_filled};
        engine->staging_filled += byte_count;
        return left;
    }
    zt_vk_mem *next = &engine->staging[engine->staged % ZT_VK_STAGINGS];
    zt_status status =
        next->buffer ? zt_vk_wait(engine, next->used) : zt_vk_alloc(engine, ZT_VK_HOST_MEM, ZT_VK_STAGING_BYTES, next);
    if (status) return (staged){0};
    engine->staged++;
    engine->staging_filled = byte_count;
    return (staged){next, 0};
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
        part = part_of(byte_count, done);
        staged place = take_staging(engine, part);
        if (!place.memory) return zt_ctx_status(engine->base.ctx);
        memcpy(place.memory->map + place.offset, (const char *)source + done, part);
        status = zt_vk_enqueue_copy(engine, place.memory, place.offset, to, offset + done, part);
        if (!status && part == ZT_VK_STAGING_BYTES) status = zt_vk_flush(&engine->base);
    }
    return status;
}

/* As many parts as there are buffers are on the way at once. */
static zt_status read_apart(zt_vk_engine *engine, zt_vk_mem *from, size_t offset, char *destination, size_t byte_count)
{
    staged on_the_way[ZT_VK_STAGINGS];
    size_t asked = 0, done = 0;
    for (unsigned first = 0, count = 0; done < byte_count;) {
        while (count < ZT_VK_STAGINGS && asked < byte_count) {
            const size_t part = part_of(byte_count, asked);
            staged place = on_the_way[(first + count++) % ZT_VK_STAGINGS] = take_staging(engine, part);
            if (!place.memory || zt_vk_enqueue_copy(engine, from, offset + asked, place.memory, place.offset, part) ||
                zt_vk_flush(&engine->base))
                return zt_ctx_status(engine->base.ctx);
            asked += part;
        }
        const staged place = on_the_way[first++ % ZT_VK_STAGINGS];
        count--;
        if (zt_vk_wait(engine, place.memory->used)) return zt_ctx_status(engine->base.ctx);
        memcpy(destination + done, place.memory->map + place.offset, part_of(byte_count, done));
        done += part_of(byte_count, done);
    }
    return ZT_OK;
}

zt_status zt_vk_read(zt_vk_engine *engine, const zt_vk_mem *from, size_t offset, void *destination, size_t byte_count)
{
    if (!from->map && byte_count) {
        zt_vk_mem memory = *from;
        engine->report.downloads++;
        return read_apart(engine, &memory, offset, destination, byte_count);
    }
    zt_status status = zt_vk_sync(&engine->base);
    if (status) return status;
    engine->report.downloads++;
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
