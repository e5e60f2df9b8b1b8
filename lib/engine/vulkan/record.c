/* record.c - from tasks to a command buffer: addresses, barriers between, times where watched. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* The memory a value is in, and where in it. */
static const zt_vk_mem *find(const zt_vk_engine *e, const zt_executable *r, const zt_vk_operand *o,
                             const zt_vk_place *w, size_t *at)
{
    const zt_place *p = &o->place;
    *at = 0;
    switch (p->kind) {
    case ZT_PLACE_ARENA: *at = p->offset; return &e->arena;
    case ZT_PLACE_IN:
        if (w->in) return &w->in[p->index]->mem;
        *at = r->in.at[p->index];
        return &r->host;
    case ZT_PLACE_OUT:
        if (w->out) return &w->out[p->index]->mem;
        *at = r->out.at[p->index];
        return &r->host;
    case ZT_PLACE_BUF: {
        const zt_ebuf *b = r->plan.buf[p->index];
        return b->pack && !o->pack ? &b->plain : &b->mem;
    }
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

static void record_copy(zt_vk_engine *e, const zt_executable *r, const zt_vk_task *t,
                        const zt_vk_place *p)
{
    size_t from_at, to_at;
    const zt_vk_mem *from = find(e, r, &t->operand[0], p, &from_at);
    const zt_vk_mem *to = find(e, r, &t->operand[1], p, &to_at);
    const VkBufferCopy region = {from_at, to_at, t->bytes};
    if (t->bytes) e->vk.CmdCopyBuffer(p->commands, from->buffer, to->buffer, 1, &region);
}

static void record_dispatch(zt_vk_engine *e, const zt_executable *r, const zt_vk_task *t,
                            const zt_vk_place *p)
{
    zt_vk_push push = {{0}, {0}};
    if (!t->pipeline) return; /* nothing to do */
    memcpy(push.word, t->word, sizeof push.word);
    for (int i = 0; i < t->n_operands; i++) {
        size_t at;
        const zt_vk_mem *m = find(e, r, &t->operand[i], p, &at);
        uint64_t address = m ? m->address + at : 0;
        if (i == t->table_at) address = r->tables.address + t->table_offset;
        if (i < ZT_VK_FEW)
            push.at[i] = address;
        else
            memcpy(push.word + 2 * (i - ZT_VK_FEW), &address, sizeof address);
    }
    push.at[ZT_VK_FEW] = p->troubles + (size_t)(t - r->task) * ZT_VK_TROUBLE;
    e->vk.CmdBindPipeline(p->commands, VK_PIPELINE_BIND_POINT_COMPUTE, t->pipeline);
    e->vk.CmdPushConstants(p->commands, e->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push,
                           &push);
    e->vk.CmdDispatch(p->commands, t->groups[0], t->groups[1], t->groups[2]);
}

void zt_vk_record_task(zt_vk_engine *e, const zt_executable *r, int task, const zt_vk_place *p)
{
    static void (*const act[])(zt_vk_engine *, const zt_executable *, const zt_vk_task *,
                               const zt_vk_place *) = {record_dispatch, record_copy};
    act[r->task[task].act](e, r, &r->task[task], p);
}

void zt_vk_record_barrier(zt_vk_engine *e, VkCommandBuffer commands, bool last)
{
    const VkPipelineStageFlags work =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags ours = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = last ? ours | VK_ACCESS_HOST_READ_BIT : ours};
    e->vk.CmdPipelineBarrier(commands, work, last ? work | VK_PIPELINE_STAGE_HOST_BIT : work, 0, 1,
                             &all, 0, NULL, 0, NULL);
}

static zt_status begin(zt_vk_engine *e, zt_executable *r)
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

zt_status zt_vk_record(zt_vk_engine *e, zt_executable *r, bool watched)
{
    r->watched = watched;
    r->moved = UINT64_MAX; /* until all is written down */
    zt_status s = begin(e, r);
    if (s) return s;
    if (watched && r->times)
        e->vk.CmdResetQueryPool(r->commands, r->times, 0, 2 * (uint32_t)r->n_tasks);
    const zt_vk_place p = {.commands = r->commands, .troubles = r->host.address + r->trouble_at};
    for (int i = 0; i < r->n_tasks; i++) {
        if (watched && r->times)
            e->vk.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times,
                                    2 * (uint32_t)i);
        zt_vk_record_task(e, r, i, &p);
        zt_vk_record_barrier(e, r->commands, i == r->n_tasks - 1);
        if (watched && r->times)
            e->vk.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times,
                                    2 * (uint32_t)i + 1);
    }
    s = zt_vk_check(e->base.ctx, e->vk.EndCommandBuffer(r->commands), "EndCommandBuffer");
    if (!s) r->moved = e->moved;
    return s;
}
