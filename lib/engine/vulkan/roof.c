/* roof.c - the roofline of the device, measured by shaders/roof.comp: bytes moved and multiply-adds a second. A dispatch is
 * recorded as often as makes a sample long; the best of some samples counts. */
#include "lib/engine/vulkan/vk.h"

enum { SAMPLES = 3, MOST_DISPATCHES = 256, ROUNDS = 64, INVOCATIONS = 1 << 16 };
static const size_t BYTES = (size_t)32 << 20;
static const double LONG_ENOUGH = 0.01; /* seconds of a sample */

typedef struct roof_trial {
    zt_vk_engine *engine;
    VkCommandBuffer commands;
    VkPipeline pipeline;
    zt_vk_call call;
    zt_vk_push push;
} roof_trial;

static zt_status record_dispatches(roof_trial *trial, int count)
{
    zt_vk_engine *engine = trial->engine;
    zt_ctx *ctx = engine->base.ctx;
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    zt_status status = zt_vk_check(ctx, engine->vk.BeginCommandBuffer(trial->commands, &info), "BeginCommandBuffer");
    if (status) return status;
    engine->vk.CmdBindPipeline(trial->commands, VK_PIPELINE_BIND_POINT_COMPUTE, trial->pipeline);
    engine->vk.CmdPushConstants(trial->commands, engine->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof trial->push,
                                &trial->push);
    for (int i = 0; i < count; i++) {
        engine->vk.CmdDispatch(trial->commands, trial->call.groups[0], trial->call.groups[1], 1);
        zt_vk_record_barrier(engine, trial->commands, false);
    }
    return zt_vk_check(ctx, engine->vk.EndCommandBuffer(trial->commands), "EndCommandBuffer");
}

static zt_status time_submit(roof_trial *trial, double *seconds)
{
    double start = zt_seconds();
    zt_status status = zt_vk_submit(trial->engine, trial->commands);
    *seconds = zt_seconds() - start;
    return status;
}

/* Dispatches a second. */
static zt_status best_rate(roof_trial *trial, double *rate)
{
    double seconds = 0;
    int count = 1;
    zt_status status = record_dispatches(trial, count);
    if (!status) status = time_submit(trial, &seconds);
    if (!status) status = time_submit(trial, &seconds);
    for (; !status && seconds < LONG_ENOUGH && count < MOST_DISPATCHES; count *= 2) {
        status = record_dispatches(trial, 2 * count);
        if (!status) status = time_submit(trial, &seconds);
    }
    *rate = 0;
    for (int i = 0; i < SAMPLES && !status; i++) {
        status = time_submit(trial, &seconds);
        if (!status && seconds > 0 && count / seconds > *rate) *rate = count / seconds;
    }
    return status;
}

static zt_status measure(roof_trial *trial, bool computes, double *rate)
{
    zt_vk_engine *engine = trial->engine;
    trial->call = (zt_vk_call){.shader = ZT_VK_SHADER_roof, .spec = {computes}};
    trial->push.word[0] = computes ? INVOCATIONS : (uint32_t)(BYTES / 16);
    trial->push.word[1] = ROUNDS;
    zt_vk_spread(engine, &trial->call, trial->push.word[0], 64);
    trial->pipeline = zt_vk_pipeline(engine, &trial->call);
    zt_status status = trial->pipeline ? best_rate(trial, rate) : zt_ctx_status(engine->base.ctx);
    *rate *= computes ? 2.0 * 64 * ROUNDS * INVOCATIONS : 2.0 * (double)BYTES;
    return status;
}

zt_status zt_vk_rates(zt_engine *base, double *moved, double *computed)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    const VkCommandBufferAllocateInfo one = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = engine->commands, .commandBufferCount = 1};
    roof_trial trial = {.engine = engine};
    zt_vk_mem from = {0}, to = {0};
    *moved = *computed = 0;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, BYTES, &from);
    if (!status) status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, BYTES, &to);
    if (!status) status = zt_vk_clear(engine, &from);
    trial.push.at[0] = from.address;
    trial.push.at[1] = to.address;
    if (!status)
        status = zt_vk_check(base->ctx, engine->vk.AllocateCommandBuffers(engine->device, &one, &trial.commands),
                             "AllocateCommandBuffers");
    if (!status) status = measure(&trial, false, moved);
    if (!status) status = measure(&trial, true, computed);
    if (trial.commands) engine->vk.FreeCommandBuffers(engine->device, engine->commands, 1, &trial.commands);
    zt_vk_release(engine, &from);
    zt_vk_release(engine, &to);
    return status;
}
