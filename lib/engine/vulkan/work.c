/* work.c - what is handed to the device: executables one at a time, waited for; and executables
 * that run ahead of the caller, gathered in batches, with the copies of copies.c.
 *
 * A batch is a command buffer being recorded until it is flushed: when the caller says so, when
 * it is full, and before the host looks at anything. There is one queue and a barrier after
 * every command, so that batches run in their order; memory released meanwhile may be given out
 * again to the device, not to the host (zt_vk_mem.used). What a command found wrong is in its
 * error block, and reported when the host next waits. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* ---- the device lost ------------------------------------------------------------------------- */

zt_status zt_vk_lost(zt_vk_engine *engine)
{
    engine->lost = true;
    return zt_fail(engine->base.ctx, ZT_ESYS, "vulkan: %s: device lost, with all data on it", engine->name);
}

/* A call after which nothing is known of the device's work: every failure loses it. It must not
 * work on memory that goes now, which only this call can still tell. */
static zt_status done_or_lost(zt_vk_engine *engine, VkResult result, const char *call)
{
    if (result == VK_SUCCESS) return ZT_OK;
    engine->vk.DeviceWaitIdle(engine->device);
    if (result == VK_ERROR_DEVICE_LOST) return zt_vk_lost(engine);
    engine->lost = true;
    return zt_vk_check(engine->base.ctx, result, call);
}

/* ---- handing over ---------------------------------------------------------------------------- */

static zt_status hand_over(zt_vk_engine *engine, uint32_t count, const VkCommandBuffer *commands, VkFence fence)
{
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = count, .pCommandBuffers = commands};
    if (engine->lost) return zt_vk_lost(engine);
    VkResult result = engine->vk.QueueSubmit(engine->queue, 1, &info, fence);
    if (result == VK_ERROR_DEVICE_LOST) return zt_vk_lost(engine);
    if (!result) engine->report.submits++;
    return zt_vk_check(engine->base.ctx, result, "QueueSubmit");
}

static zt_status wait_for(zt_vk_engine *engine, VkFence fence)
{
    if (engine->lost) return zt_vk_lost(engine);
    zt_status status =
        done_or_lost(engine, engine->vk.WaitForFences(engine->device, 1, &fence, VK_TRUE, UINT64_MAX), "WaitForFences");
    return status ? status : done_or_lost(engine, engine->vk.ResetFences(engine->device, 1, &fence), "ResetFences");
}

/* ---- batches --------------------------------------------------------------------------------- */

static zt_vk_batch *batch_of(zt_vk_engine *engine, uint64_t serial) { return &engine->batch[serial % ZT_VK_BATCHES]; }

/* What a batch needs, made when it is first begun; what is there after a failure is kept. */
static zt_status equip_batch(zt_vk_engine *engine, zt_vk_batch *batch)
{
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkCommandBufferAllocateInfo one = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = engine->commands, .commandBufferCount = 1};
    zt_ctx *ctx = engine->base.ctx;
    zt_status status = ZT_OK;
    if (!batch->op) batch->op = zt_alloc_array(ctx, ZT_VK_BATCH_MOST, sizeof *batch->op);
    if (!batch->op) return ZT_ENOMEM;
    if (!batch->errors.buffer)
        status = zt_vk_alloc(engine, ZT_VK_HOST_MEM, (size_t)ZT_VK_BATCH_MOST * ZT_VK_ERROR_BYTES, &batch->errors);
    if (!status && !batch->fence)
        status = zt_vk_check(ctx, engine->vk.CreateFence(engine->device, &fence, NULL, &batch->fence), "CreateFence");
    if (!status && !batch->commands)
        status =
            zt_vk_check(ctx, engine->vk.AllocateCommandBuffers(engine->device, &one, &batch->commands), "AllocateCommandBuffers");
    return status;
}

/* The device is done with it: its runtime errors are reported. */
static zt_status finish_batch(zt_vk_engine *engine, zt_vk_batch *batch)
{
    zt_status status = batch->handed && !batch->waited ? wait_for(engine, batch->fence) : ZT_OK;
    for (uint32_t i = 0; i < batch->n && batch->handed && !status; i++)
        status = zt_vk_runtime_error(engine->base.ctx, batch->errors.map + (size_t)i * ZT_VK_ERROR_BYTES, batch->op[i], -1);
    engine->done = batch->serial;
    batch->handed = batch->open = batch->waited = false;
    batch->n = 0;
    return status;
}

/* The batch that is being recorded, with room for `command_count` commands more; NULL: not to be had. The
 * oldest of all is waited for where they are all with the device. */
static zt_vk_batch *begin_batch(zt_vk_engine *engine, uint32_t command_count)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    zt_vk_batch *batch = batch_of(engine, engine->serial);
    if (batch->open && batch->n + command_count > ZT_VK_BATCH_MOST && zt_vk_flush(&engine->base)) return NULL;
    if (batch->open) return batch;
    batch = batch_of(engine, engine->serial + 1);
    if (batch->serial > engine->done) {
        zt_status status = finish_batch(engine, batch);
        zt_vk_bury(engine);
        if (status) return NULL;
    }
    if (equip_batch(engine, batch) ||
        zt_vk_check(engine->base.ctx, engine->vk.BeginCommandBuffer(batch->commands, &info), "BeginCommandBuffer"))
        return NULL;
    zt_vk_clear_errors(batch->errors.map, ZT_VK_BATCH_MOST);
    batch->serial = ++engine->serial;
    batch->open = true;
    return batch;
}

static void mark_used(zt_vk_mem *memory, uint64_t serial)
{
    if (memory->buffer) memory->used = serial;
}

static void mark_all_used(zt_vk_engine *engine, zt_executable *executable, zt_ebuf *const *inputs, zt_ebuf *const *outputs)
{
    for (int input = 0; input < executable->schedule.n_in; input++) mark_used(&inputs[input]->mem, engine->serial);
    for (int output = 0; output < executable->schedule.n_out; output++) mark_used(&outputs[output]->mem, engine->serial);
    for (int i = 0; i < executable->schedule.n_bufs; i++) {
        mark_used(&executable->schedule.buf[i]->mem, engine->serial);
        mark_used(&executable->schedule.buf[i]->plain, engine->serial);
    }
    mark_used(&executable->tables, engine->serial);
    mark_used(&engine->arena, engine->serial);
}

zt_status zt_vk_enqueue(zt_engine *base, zt_executable *executable, zt_ebuf *const *inputs, zt_ebuf *const *outputs)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    if (engine->lost) return zt_vk_lost(engine);
    if (executable->n_tasks > ZT_VK_BATCH_MOST)
        return zt_fail(base->ctx, ZT_ENOTSUP, "vulkan: a plan of %d commands", executable->n_tasks);
    zt_vk_batch *batch = begin_batch(engine, (uint32_t)executable->n_tasks);
    if (!batch) return zt_ctx_status(base->ctx);
    const zt_vk_place place = {.commands = batch->commands,
                               .inputs = inputs,
                               .outputs = outputs,
                               .errors = batch->errors.address + (size_t)batch->n * ZT_VK_ERROR_BYTES};
    for (int task_index = 0; task_index < executable->n_tasks; task_index++) {
        batch->op[batch->n++] = executable->schedule.step[executable->task[task_index].step].op;
        zt_vk_record_task(engine, executable, task_index, &place);
        zt_vk_record_barrier(engine, batch->commands, false);
    }
    mark_all_used(engine, executable, inputs, outputs);
    engine->report.kernels += (uint64_t)executable->n_tasks;
    engine->report.replays++;
    return ZT_OK;
}

/* A command of the engine's own in the batch being recorded; NULL: an error. */
static zt_vk_batch *begin_command(zt_vk_engine *engine)
{
    zt_vk_batch *batch = engine->lost ? NULL : begin_batch(engine, 1);
    if (engine->lost) zt_vk_lost(engine);
    if (batch) batch->op[batch->n++] = ZT_OP_COUNT; /* none, and so its error block stays empty */
    return batch;
}

zt_status zt_vk_enqueue_copy(zt_vk_engine *engine, zt_vk_mem *from, size_t from_at, zt_vk_mem *to, size_t to_at,
                             size_t byte_count)
{
    const VkBufferCopy region = {from_at, to_at, byte_count};
    zt_vk_batch *batch = begin_command(engine);
    if (!batch) return zt_ctx_status(engine->base.ctx);
    engine->vk.CmdCopyBuffer(batch->commands, from->buffer, to->buffer, 1, &region);
    zt_vk_record_barrier(engine, batch->commands, false);
    from->used = to->used = engine->serial;
    return ZT_OK;
}

zt_status zt_vk_enqueue_fill(zt_vk_engine *engine, zt_vk_mem *to)
{
    zt_vk_batch *batch = begin_command(engine);
    if (!batch) return zt_ctx_status(engine->base.ctx);
    engine->vk.CmdFillBuffer(batch->commands, to->buffer, 0, VK_WHOLE_SIZE, 0);
    zt_vk_record_barrier(engine, batch->commands, false);
    to->used = engine->serial;
    return ZT_OK;
}

/* Its last command is recorded. */
static zt_status end_batch(zt_vk_engine *engine, zt_vk_batch *batch)
{
    batch->open = false;
    zt_vk_record_barrier(engine, batch->commands, true);
    return zt_vk_check(engine->base.ctx, engine->vk.EndCommandBuffer(batch->commands), "EndCommandBuffer");
}

zt_status zt_vk_flush(zt_engine *base)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_vk_batch *batch = batch_of(engine, engine->serial);
    if (!batch->open) return ZT_OK;
    zt_status status = end_batch(engine, batch);
    if (!status) status = hand_over(engine, 1, &batch->commands, batch->fence);
    batch->handed = status == ZT_OK;
    return status;
}

/* All batches up to `serial`, which are with the device or were given up. */
static zt_status finish_batches(zt_vk_engine *engine, uint64_t serial)
{
    zt_status status = ZT_OK;
    while (engine->done < serial) {
        zt_status its = finish_batch(engine, batch_of(engine, engine->done + 1));
        status = status ? status : its;
    }
    zt_vk_bury(engine);
    return status;
}

zt_status zt_vk_wait(zt_vk_engine *engine, uint64_t serial)
{
    if (engine->done >= serial) return ZT_OK;
    zt_status status = serial == engine->serial ? zt_vk_flush(&engine->base) : ZT_OK;
    zt_status its = finish_batches(engine, serial);
    return status ? status : its;
}

/* The batch that is being recorded goes along: copies of inputs and the program that reads them are one submit. */
zt_status zt_vk_submit(zt_vk_engine *engine, VkCommandBuffer commands)
{
    zt_vk_batch *batch = batch_of(engine, engine->serial);
    const bool along = batch->open;
    zt_status status = finish_batches(engine, engine->serial - (along ? 1 : 0));
    if (!status && along) status = end_batch(engine, batch);
    if (!status)
        status =
            hand_over(engine, along ? 2 : 1, along ? (VkCommandBuffer[]){batch->commands, commands} : &commands, engine->fence);
    if (!status) batch->handed = batch->waited = along;
    if (!status) status = wait_for(engine, engine->fence);
    zt_status its = along && !batch->open ? finish_batches(engine, engine->serial) : ZT_OK;
    return status ? status : its;
}

zt_status zt_vk_sync(zt_engine *base)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    return zt_vk_wait(engine, engine->serial);
}

void zt_vk_batches_close(zt_vk_engine *engine)
{
    for (int i = 0; i < ZT_VK_BATCHES; i++) {
        zt_vk_batch *batch = &engine->batch[i];
        zt_vk_release(engine, &batch->errors);
        zt_free(engine->base.ctx, batch->op);
        if (batch->fence) engine->vk.DestroyFence(engine->device, batch->fence, NULL);
    }
}
