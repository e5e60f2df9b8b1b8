/* record.c - from tasks to a command buffer: addresses found, barriers between, times where watched. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* The memory a value is in, and where in it. */
static const zt_vk_mem *find(const zt_vk_engine *e, const zt_ready *r, const zt_vk_operand *o,
                             size_t *at)
{
    const zt_place *p = &o->place;
    *at = 0;
    switch (p->kind) {
    case ZT_PLACE_ARENA: *at = p->offset; return &e->arena;
    case ZT_PLACE_IN: *at = r->in_at[p->index]; return &r->host;
    case ZT_PLACE_OUT: *at = r->out_at[p->index]; return &r->host;
    case ZT_PLACE_BUF: {
        const zt_ebuf *b = r->plan.buf[p->index];
        return b->pack && !o->pack ? &b->plain : &b->mem;
    }
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

static void record_copy(zt_vk_engine *e, const zt_ready *r, const zt_vk_task *t)
{
    size_t from_at, to_at;
    const zt_vk_mem *from = find(e, r, &t->operand[0], &from_at);
    const zt_vk_mem *to = find(e, r, &t->operand[1], &to_at);
    const VkBufferCopy region = {from_at, to_at, t->bytes};
    if (t->bytes) e->vk.CmdCopyBuffer(r->commands, from->buffer, to->buffer, 1, &region);
}

static void record_dispatch(zt_vk_engine *e, const zt_ready *r, const zt_vk_task *t)
{
    zt_vk_push push = {{0}, {0}};
    if (!t->pipeline) return; /* nothing to do */
    for (int i = 0; i < t->n_operands; i++) {
        size_t at;
        const zt_vk_mem *m = find(e, r, &t->operand[i], &at);
        if (m) push.at[i] = m->address + at;
        if (i == t->table_at) push.at[i] = r->tables.address + t->table_offset;
    }
    push.at[7] = r->host.address + r->trouble_at + (size_t)(t - r->task) * ZT_VK_TROUBLE;
    memcpy(push.word, t->word, sizeof push.word);
    e->vk.CmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, t->pipeline);
    e->vk.CmdPushConstants(r->commands, e->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push,
                           &push);
    e->vk.CmdDispatch(r->commands, t->groups[0], t->groups[1], t->groups[2]);
}

/* What was written before is read after: by shaders and copies, and by the host at the end. */
static void record_barrier(zt_vk_engine *e, const zt_ready *r, bool last)
{
    const VkPipelineStageFlags work =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = last ? VK_ACCESS_HOST_READ_BIT
                              : VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                    VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    e->vk.CmdPipelineBarrier(r->commands, work, last ? VK_PIPELINE_STAGE_HOST_BIT : work, 0, 1,
                             &all, 0, NULL, 0, NULL);
}

static zt_status begin(zt_vk_engine *e, zt_ready *r)
{
    const VkCommandBufferAllocateInfo one = {.sType =
                                                 VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = e->commands,
                                             .commandBufferCount = 1};
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = 2 * (uint32_t)r->n_tasks};
    zt_ctx *ctx = e->base.ctx;
    zt_status s = ZT_OK;
    if (!r->commands)
        s = zt_vk_check(ctx, e->vk.AllocateCommandBuffers(e->device, &one, &r->commands),
                        "AllocateCommandBuffers");
    if (!s && r->watched && e->tick > 0 && r->n_tasks && !r->times)
        s = zt_vk_check(ctx, e->vk.CreateQueryPool(e->device, &times, NULL, &r->times),
                        "CreateQueryPool");
    return s ? s
             : zt_vk_check(ctx, e->vk.BeginCommandBuffer(r->commands, &info), "BeginCommandBuffer");
}

zt_status zt_vk_record(zt_vk_engine *e, zt_ready *r, bool watched)
{
    r->watched = watched;
    zt_status s = begin(e, r);
    if (s) return s;
    if (watched && r->times)
        e->vk.CmdResetQueryPool(r->commands, r->times, 0, 2 * (uint32_t)r->n_tasks);
    for (int i = 0; i < r->n_tasks; i++) {
        const zt_vk_task *t = &r->task[i];
        if (watched && r->times)
            e->vk.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times,
                                    2 * (uint32_t)i);
        if (t->act == ZT_VK_COPY)
            record_copy(e, r, t);
        else
            record_dispatch(e, r, t);
        record_barrier(e, r, i == r->n_tasks - 1);
        if (watched && r->times)
            e->vk.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times,
                                    2 * (uint32_t)i + 1);
    }
    r->moved = e->moved;
    return zt_vk_check(e->base.ctx, e->vk.EndCommandBuffer(r->commands), "EndCommandBuffer");
}
