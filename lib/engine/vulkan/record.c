/* record.c - from tasks to a command buffer: addresses, barriers between, times where watched. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* The memory a value is in, and where in it. */
static const zt_vk_mem *find_value(const zt_vk_engine *engine, const zt_executable *executable, const zt_vk_operand *operand,
                                   const zt_vk_place *where, size_t *offset)
{
    const zt_place *placed = &operand->place;
    switch (placed->kind) {
    case ZT_PLACE_ARENA: *offset = placed->offset; return &engine->arena;
    case ZT_PLACE_IN:
        if (where->inputs) return &where->inputs[placed->index]->mem;
        *offset = executable->in.at[placed->index];
        return &executable->host;
    case ZT_PLACE_OUT:
        if (where->outputs) return &where->outputs[placed->index]->mem;
        *offset = executable->out.at[placed->index];
        return &executable->host;
    case ZT_PLACE_BUF: {
        const zt_ebuf *buffer = executable->schedule.buf[placed->index];
        return buffer->pack && !operand->pack ? &buffer->plain : &buffer->mem;
    }
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

/* The same of an argument; NULL: it is absent. */
static const zt_vk_mem *find_memory(const zt_vk_engine *engine, const zt_executable *executable, const zt_vk_operand *operand,
                                    const zt_vk_place *where, size_t *offset)
{
    const zt_vk_mem *memory = NULL;
    *offset = 0;
    switch (operand->kind) {
    case ZT_VK_ARG_NONE: break;
    case ZT_VK_ARG_IN:
    case ZT_VK_ARG_OUT: memory = find_value(engine, executable, operand, where, offset); break;
    case ZT_VK_ARG_SCRATCH:
        *offset = executable->scratch_at;
        memory = &engine->arena;
        break;
    case ZT_VK_ARG_KEPT:
        *offset = executable->kept_at;
        memory = &engine->arena;
        break;
    case ZT_VK_ARG_TABLE: memory = &executable->tables; break;
    }
    *offset += operand->offset;
    return memory;
}

static void record_copy(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_task *task, const zt_vk_place *place)
{
    size_t from_at, to_at;
    const zt_vk_mem *from = find_memory(engine, executable, &task->operand[0], place, &from_at);
    const zt_vk_mem *target = find_memory(engine, executable, &task->operand[1], place, &to_at);
    const VkBufferCopy region = {from_at, to_at, task->bytes};
    if (task->bytes && from && target) engine->vk.CmdCopyBuffer(place->commands, from->buffer, target->buffer, 1, &region);
}

static void record_fill(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_task *task, const zt_vk_place *place)
{
    size_t offset;
    const zt_vk_mem *memory = find_memory(engine, executable, &task->operand[0], place, &offset);
    if (memory) engine->vk.CmdFillBuffer(place->commands, memory->buffer, offset, task->bytes, task->word[0]);
}

static void record_dispatch(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_task *task,
                            const zt_vk_place *place)
{
    zt_vk_push push = {{0}, {0}};
    memcpy(push.word, task->word, sizeof push.word);
    for (int i = 0; i < task->n_operands; i++) {
        size_t offset;
        const zt_vk_mem *memory = find_memory(engine, executable, &task->operand[i], place, &offset);
        uint64_t address = memory ? memory->address + offset : 0;
        if (i < ZT_VK_FEW)
            push.at[i] = address;
        else
            memcpy(push.word + 2 * (i - ZT_VK_FEW), &address, sizeof address);
    }
    push.at[ZT_VK_FEW] = place->errors + (size_t)(task - executable->task) * ZT_VK_ERROR_BYTES;
    engine->vk.CmdBindPipeline(place->commands, VK_PIPELINE_BIND_POINT_COMPUTE, task->pipeline);
    engine->vk.CmdPushConstants(place->commands, engine->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    engine->vk.CmdDispatch(place->commands, task->groups[0], task->groups[1], task->groups[2]);
}

void zt_vk_record_task(zt_vk_engine *engine, const zt_executable *executable, int task, const zt_vk_place *place)
{
    static void (*const act[])(zt_vk_engine *, const zt_executable *, const zt_vk_task *,
                               const zt_vk_place *) = {record_dispatch, record_copy, record_fill};
    act[executable->task[task].act](engine, executable, &executable->task[task], place);
}

void zt_vk_record_barrier(zt_vk_engine *engine, VkCommandBuffer commands, bool last)
{
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags ours =
        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                 .dstAccessMask = last ? ours | VK_ACCESS_HOST_READ_BIT : ours};
    engine->vk.CmdPipelineBarrier(commands, work, last ? work | VK_PIPELINE_STAGE_HOST_BIT : work, 0, 1, &all, 0, NULL, 0, NULL);
}

static zt_status begin_commands(zt_vk_engine *engine, zt_executable *executable)
{
    const VkCommandBufferAllocateInfo one = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = engine->commands, .commandBufferCount = 1};
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = 2 * (uint32_t)executable->n_tasks};
    zt_ctx *ctx = engine->base.ctx;
    zt_status status = ZT_OK;
    if (!executable->commands)
        status = zt_vk_check(ctx, engine->vk.AllocateCommandBuffers(engine->device, &one, &executable->commands),
                             "AllocateCommandBuffers");
    if (!status && executable->watched && engine->tick > 0 && executable->n_tasks && !executable->times)
        status =
            zt_vk_check(ctx, engine->vk.CreateQueryPool(engine->device, &times, NULL, &executable->times), "CreateQueryPool");
    return status ? status : zt_vk_check(ctx, engine->vk.BeginCommandBuffer(executable->commands, &info), "BeginCommandBuffer");
}

zt_status zt_vk_record(zt_vk_engine *engine, zt_executable *executable, bool watched)
{
    executable->watched = watched;
    executable->moved = UINT64_MAX; /* until all is written down */
    zt_status status = begin_commands(engine, executable);
    if (status) return status;
    if (watched && executable->times)
        engine->vk.CmdResetQueryPool(executable->commands, executable->times, 0, 2 * (uint32_t)executable->n_tasks);
    const zt_vk_place place = {.commands = executable->commands, .errors = executable->host.address + executable->errors_at};
    for (int task_index = 0; task_index < executable->n_tasks; task_index++) {
        if (watched && executable->times)
            engine->vk.CmdWriteTimestamp(executable->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, executable->times,
                                         2 * (uint32_t)task_index);
        zt_vk_record_task(engine, executable, task_index, &place);
        zt_vk_record_barrier(engine, executable->commands, task_index == executable->n_tasks - 1);
        if (watched && executable->times)
            engine->vk.CmdWriteTimestamp(executable->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, executable->times,
                                         2 * (uint32_t)task_index + 1);
    }
    status = zt_vk_check(engine->base.ctx, engine->vk.EndCommandBuffer(executable->commands), "EndCommandBuffer");
    if (!status) executable->moved = engine->moved;
    return status;
}
