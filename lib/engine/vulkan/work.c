/* work.c - what is handed to the device: prepared plans one at a time, waited for; and plans
 * that run ahead of the caller, gathered in batches.
 *
 * A batch is a command buffer being recorded until it is flushed: when the caller says so, when
 * it is full, and before the host looks at anything. There is one queue and a barrier after
 * every command, so that batches run in their order; memory released meanwhile may be given out
 * again to the device, not to the host (zt_vk_mem.used). What a command found wrong is in its
 * trouble block, and told when the host next waits. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* ---- the device lost ------------------------------------------------------------------------- */

zt_status zt_vk_lost(zt_vk_engine *e)
{
    e->lost = true;
    return zt_fail(e->base.ctx, ZT_ESYS, "vulkan: %s: the device is lost, and what it held with it",
                   e->name);
}

/* A call after which nothing is known of the device's work: every failure loses it. It must not
 * work on memory that goes now, which only this call can still tell. */
static zt_status done_or_lost(zt_vk_engine *e, VkResult r, const char *call)
{
    if (r == VK_SUCCESS) return ZT_OK;
    e->vk.DeviceWaitIdle(e->device);
    if (r == VK_ERROR_DEVICE_LOST) return zt_vk_lost(e);
    e->lost = true;
    return zt_vk_check(e->base.ctx, r, call);
}

/* ---- handing over ---------------------------------------------------------------------------- */

static zt_status hand_over(zt_vk_engine *e, VkCommandBuffer c, VkFence fence)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &c};
    if (e->lost) return zt_vk_lost(e);
    VkResult r = e->vk.QueueSubmit(e->queue, 1, &info, fence);
    if (r == VK_ERROR_DEVICE_LOST) return zt_vk_lost(e);
    if (!r) e->report.submits++;
    return zt_vk_check(e->base.ctx, r, "QueueSubmit");
}

static zt_status wait_for(zt_vk_engine *e, VkFence fence)
{
    if (e->lost) return zt_vk_lost(e);
    zt_status s = done_or_lost(
        e, e->vk.WaitForFences(e->device, 1, &fence, VK_TRUE, UINT64_MAX), "WaitForFences");
    return s ? s : done_or_lost(e, e->vk.ResetFences(e->device, 1, &fence), "ResetFences");
}

zt_status zt_vk_submit(zt_vk_engine *e, VkCommandBuffer c)
{
    zt_status s = zt_vk_sync(&e->base);
    if (!s) s = hand_over(e, c, e->fence);
    return s ? s : wait_for(e, e->fence);
}

/* ---- batches --------------------------------------------------------------------------------- */

static zt_vk_batch *batch_of(zt_vk_engine *e, uint64_t serial)
{
    return &e->batch[serial % ZT_VK_BATCHES];
}

/* What a batch needs, made when it is first begun; what is there after a failure is kept. */
static zt_status equip(zt_vk_engine *e, zt_vk_batch *b)
{
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkCommandBufferAllocateInfo one = {.sType =
                                                 VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = e->commands,
                                             .commandBufferCount = 1};
    zt_ctx *ctx = e->base.ctx;
    zt_status s = ZT_OK;
    if (!b->op) b->op = zt_alloc_array(ctx, ZT_VK_BATCH_MOST, sizeof *b->op);
    if (!b->op) return ZT_ENOMEM;
    if (!b->troubles.buffer)
        s = zt_vk_alloc(e, ZT_VK_HOST_MEM, (size_t)ZT_VK_BATCH_MOST * ZT_VK_TROUBLE, &b->troubles);
    if (!s && !b->fence)
        s = zt_vk_check(ctx, e->vk.CreateFence(e->device, &fence, NULL, &b->fence), "CreateFence");
    if (!s && !b->commands)
        s = zt_vk_check(ctx, e->vk.AllocateCommandBuffers(e->device, &one, &b->commands),
                        "AllocateCommandBuffers");
    return s;
}

/* The device is done with it: its troubles are told, its block is clean for the next. */
static zt_status finish(zt_vk_engine *e, zt_vk_batch *b)
{
    zt_status s = b->handed ? wait_for(e, b->fence) : ZT_OK;
    for (uint32_t i = 0; i < b->n && b->handed && !s; i++)
        s = zt_vk_runtime_error(e->base.ctx, b->troubles.map + (size_t)i * ZT_VK_TROUBLE, b->op[i], -1);
    e->done = b->serial;
    b->handed = b->open = false;
    b->n = 0;
    return s;
}

/* The batch that is being recorded, with room for `n` commands more; NULL: not to be had. The
 * oldest of all is waited for where they are all with the device. */
static zt_vk_batch *begin(zt_vk_engine *e, uint32_t n)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    zt_vk_batch *b = batch_of(e, e->serial);
    if (b->open && b->n + n > ZT_VK_BATCH_MOST && zt_vk_flush(&e->base)) return NULL;
    if (b->open) return b;
    b = batch_of(e, e->serial + 1);
    if (b->serial > e->done) {
        zt_status s = finish(e, b);
        zt_vk_bury(e);
        if (s) return NULL;
    }
    if (equip(e, b) || zt_vk_check(e->base.ctx, e->vk.BeginCommandBuffer(b->commands, &info),
                                   "BeginCommandBuffer"))
        return NULL;
    memset(b->troubles.map, 0, (size_t)ZT_VK_BATCH_MOST * ZT_VK_TROUBLE);
    b->serial = ++e->serial;
    b->open = true;
    return b;
}

static void mark(zt_vk_mem *m, uint64_t serial)
{
    if (m->buffer) m->used = serial;
}

static void mark_all(zt_vk_engine *e, zt_executable *r, zt_ebuf *const *in, zt_ebuf *const *out)
{
    for (int i = 0; i < r->plan.n_in; i++) mark(&in[i]->mem, e->serial);
    for (int i = 0; i < r->plan.n_out; i++) mark(&out[i]->mem, e->serial);
    for (int i = 0; i < r->plan.n_bufs; i++) {
        mark(&r->plan.buf[i]->mem, e->serial);
        mark(&r->plan.buf[i]->plain, e->serial);
    }
    mark(&r->tables, e->serial);
    mark(&e->arena, e->serial);
}

zt_status zt_vk_enqueue(zt_engine *base, zt_executable *r, zt_ebuf *const *in, zt_ebuf *const *out)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    if (e->lost) return zt_vk_lost(e);
    if (r->n_tasks > ZT_VK_BATCH_MOST)
        return zt_fail(base->ctx, ZT_ENOTSUP, "vulkan: a plan of %d commands", r->n_tasks);
    zt_vk_batch *b = begin(e, (uint32_t)r->n_tasks);
    if (!b) return zt_ctx_status(base->ctx);
    const zt_vk_place p = {.commands = b->commands,
                           .in = in,
                           .out = out,
                           .troubles = b->troubles.address + (size_t)b->n * ZT_VK_TROUBLE};
    for (int i = 0; i < r->n_tasks; i++) {
        b->op[b->n++] = r->plan.step[r->task[i].step].op;
        zt_vk_record_task(e, r, i, &p);
        zt_vk_record_barrier(e, b->commands, false);
    }
    mark_all(e, r, in, out);
    e->report.kernels += (uint64_t)r->n_tasks;
    e->report.replays++;
    return ZT_OK;
}

zt_status zt_vk_flush(zt_engine *base)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_vk_batch *b = batch_of(e, e->serial);
    if (!b->open) return ZT_OK;
    b->open = false;
    zt_vk_record_barrier(e, b->commands, true);
    zt_status s = zt_vk_check(base->ctx, e->vk.EndCommandBuffer(b->commands), "EndCommandBuffer");
    if (!s) s = hand_over(e, b->commands, b->fence);
    b->handed = s == ZT_OK;
    return s;
}

zt_status zt_vk_sync(zt_engine *base)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    if (e->done == e->serial) return ZT_OK;
    zt_status s = zt_vk_flush(base);
    while (e->done < e->serial) {
        zt_status its = finish(e, batch_of(e, e->done + 1));
        s = s ? s : its;
    }
    zt_vk_bury(e);
    return s;
}

void zt_vk_batches_close(zt_vk_engine *e)
{
    for (int i = 0; i < ZT_VK_BATCHES; i++) {
        zt_vk_batch *b = &e->batch[i];
        zt_vk_release(e, &b->troubles);
        zt_free(e->base.ctx, b->op);
        if (b->fence) e->vk.DestroyFence(e->device, b->fence, NULL);
    }
}
