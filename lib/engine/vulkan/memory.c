/* memory.c - device memory: buffers with addresses, and a pool of small ones by size class.
 *
 * Memory that both sides see is mapped once, for as long as it lives. All of it counts against the
 * context's limit. When there is no more, what waits in the pool is given up first.
 */
#include "lib/engine/device_memory.h"
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static bool is_busy(const zt_vk_engine *engine, const zt_vk_mem *memory) { return memory->used > engine->done; }

/* ---- buffers --------------------------------------------------------------------------------- */

static void destroy_memory(zt_vk_engine *engine, zt_vk_mem *memory)
{
    if (memory->buffer) engine->vk.DestroyBuffer(engine->device, memory->buffer, NULL);
    if (memory->memory) {
        engine->vk.FreeMemory(engine->device, memory->memory, NULL);
        zt_mem_release(engine->base.ctx, memory->bytes);
        zt_count_held(&engine->report, 0, memory->bytes);
    }
    memset(memory, 0, sizeof *memory);
}

static zt_status make_buffer(zt_vk_engine *engine, size_t bytes, zt_vk_mem *memory)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = bytes,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    return zt_vk_check(engine->base.ctx, engine->vk.CreateBuffer(engine->device, &info, NULL, &memory->buffer), "CreateBuffer");
}

/* Of the type that the kind wants, or of any that the buffer takes. */
static uint32_t type_for(const zt_vk_engine *engine, zt_vk_kind kind, uint32_t allowed)
{
    uint32_t want = engine->memory_type[kind];
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t type = (want + i) % 32;
        if (allowed >> type & 1) return type;
    }
    return want;
}

/* Frees what waits in the pool; false: there was nothing. */
static bool give_up_pool(zt_vk_engine *engine)
{
    if (engine->report.pooled == 0 && engine->pool.n_graves == 0) return false;
    zt_vk_sync(&engine->base);
    for (int k = 0; k < ZT_VK_KINDS; k++)
        for (int size_class = 0; size_class < ZT_VK_CLASSES; size_class++)
            while (engine->pool.n[k][size_class] > 0) {
                zt_vk_mem *memory = &engine->pool.free[k][size_class][--engine->pool.n[k][size_class]];
                zt_count_unpooled(&engine->report, memory->bytes);
                destroy_memory(engine, memory);
            }
    return true;
}

/* `seen`: the host sees it, by the type that it is really of. */
static zt_status give_memory(zt_vk_engine *engine, zt_vk_kind kind, zt_vk_mem *memory, bool *seen)
{
    VkMemoryRequirements need;
    engine->vk.GetBufferMemoryRequirements(engine->device, memory->buffer, &need);
    uint32_t type = type_for(engine, kind, need.memoryTypeBits);
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags, .allocationSize = need.size, .memoryTypeIndex = type};
    zt_status status = zt_mem_reserve(engine->base.ctx, memory->bytes);
    if (status) return status;
    VkResult result = engine->vk.AllocateMemory(engine->device, &info, NULL, &memory->memory);
    if (result && give_up_pool(engine)) result = engine->vk.AllocateMemory(engine->device, &info, NULL, &memory->memory);
    if (result) {
        memory->memory = VK_NULL_HANDLE;
        zt_mem_release(engine->base.ctx, memory->bytes);
        if (result == VK_ERROR_DEVICE_LOST) return zt_vk_lost(engine);
        return zt_fail(engine->base.ctx, ZT_ENOMEM, "vulkan: %s: out of device memory: requested %zu bytes, %zu in use",
                       engine->name, memory->bytes, engine->report.held);
    }
    zt_count_held(&engine->report, memory->bytes, 0);
    *seen = engine->seen_types >> type & 1;
    result = engine->vk.BindBufferMemory(engine->device, memory->buffer, memory->memory, 0);
    return zt_vk_check(engine->base.ctx, result, "BindBufferMemory");
}

static zt_status create_memory(zt_vk_engine *engine, zt_vk_kind kind, size_t bytes, zt_vk_mem *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->bytes = bytes;
    if (zt_exceeds_limit(engine->base.ctx, bytes)) give_up_pool(engine);
    zt_status status = engine->lost ? zt_vk_lost(engine) : make_buffer(engine, bytes, memory);
    bool seen = false;
    if (!status) status = give_memory(engine, kind, memory, &seen);
    if (!status && kind == ZT_VK_HOST_MEM && !seen)
        status = zt_fail(engine->base.ctx, ZT_ENOTSUP, "vulkan: %s shares no memory with the host", engine->name);
    if (!status && seen) {
        void *mapped = NULL;
        VkResult result = engine->vk.MapMemory(engine->device, memory->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        status = zt_vk_check(engine->base.ctx, result, "MapMemory");
        memory->map = mapped;
    }
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = memory->buffer};
    if (!status) memory->address = engine->vk.GetBufferDeviceAddress(engine->device, &where);
    if (status) destroy_memory(engine, memory);
    return status;
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* One that waits, preferably one that the device is done with; of the host's kind no other. */
static bool take_pooled(zt_vk_engine *engine, zt_vk_kind kind, int size_class, zt_vk_mem *out)
{
    zt_vk_mem *list = engine->pool.free[kind][size_class];
    int free_count = engine->pool.n[kind][size_class], slot = free_count - 1;
    while (slot >= 0 && is_busy(engine, &list[slot])) slot--;
    if (slot < 0 && kind == ZT_VK_DEVICE_MEM) slot = free_count - 1;
    if (slot < 0) return false;
    *out = list[slot];
    list[slot] = list[--engine->pool.n[kind][size_class]];
    zt_count_unpooled(&engine->report, out->bytes);
    return true;
}

zt_status zt_vk_alloc(zt_vk_engine *engine, zt_vk_kind kind, size_t bytes, zt_vk_mem *out)
{
    int size_class = zt_size_class(bytes, ZT_VK_CLASSES);
    zt_status status = ZT_OK;
    memset(out, 0, sizeof *out);
    if (bytes > SIZE_MAX - 64) return zt_fail(engine->base.ctx, ZT_ENOMEM, "vulkan: out of memory: requested %zu bytes", bytes);
    if (size_class < 0) {
        status = create_memory(engine, kind, (bytes + 63) & ~(size_t)63, out);
    } else if (take_pooled(engine, kind, size_class, out)) {
        engine->report.pool_hits++;
    } else {
        engine->report.pool_misses++;
        status = create_memory(engine, kind, zt_size_class_bytes(size_class), out);
        if (!status) out->pooled = 1 + size_class + (kind == ZT_VK_HOST_MEM ? ZT_VK_CLASSES : 0);
        engine->report.pool_allocated += !status;
    }
    engine->report.buffers += !status;
    return status;
}

static bool keep_pooled(zt_vk_engine *engine, const zt_vk_mem *memory)
{
    if (memory->pooled == 0 || engine->report.pooled_bytes + memory->bytes > ZT_VK_POOL_BYTES) return false;
    int kind = (memory->pooled - 1) / ZT_VK_CLASSES, size_class = (memory->pooled - 1) % ZT_VK_CLASSES;
    if (engine->pool.n[kind][size_class] == ZT_VK_POOL_EACH) return false;
    engine->pool.free[kind][size_class][engine->pool.n[kind][size_class]++] = *memory;
    zt_count_pooled(&engine->report, memory->bytes);
    return true;
}

/* What the device works on is freed later; where too many wait for that, it is waited for. */
static void free_when_done(zt_vk_engine *engine, zt_vk_mem *memory)
{
    if (is_busy(engine, memory) && engine->pool.n_graves < ZT_VK_GRAVES) {
        engine->pool.grave[engine->pool.n_graves++] = *memory;
        return;
    }
    if (is_busy(engine, memory)) zt_vk_sync(&engine->base);
    destroy_memory(engine, memory);
}

void zt_vk_release(zt_vk_engine *engine, zt_vk_mem *memory)
{
    if (!memory->buffer) return;
    engine->report.buffers--;
    engine->report.pool_released += memory->pooled > 0;
    if (!keep_pooled(engine, memory)) free_when_done(engine, memory);
    memset(memory, 0, sizeof *memory);
}

void zt_vk_bury(zt_vk_engine *engine)
{
    int left = 0;
    for (int i = 0; i < engine->pool.n_graves; i++)
        if (is_busy(engine, &engine->pool.grave[i]))
            engine->pool.grave[left++] = engine->pool.grave[i];
        else
            destroy_memory(engine, &engine->pool.grave[i]);
    engine->pool.n_graves = left;
}

void zt_vk_pool_close(zt_vk_engine *engine)
{
    give_up_pool(engine);
    zt_vk_bury(engine);
}
