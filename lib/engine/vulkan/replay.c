/* replay.c - one replay: inputs into the executable's host memory, one submit, outputs out of it. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

/* ---- runtime errors -------------------------------------------------------------------------------- */

static const char *const error_words[] = {NULL,
                                          "index",
                                          "position",
                                          "sequence",
                                          "block",
                                          "length",
                                          "target",
                                          "expert",
                                          "state slot",
                                          "integer division by zero",
                                          "negative integer exponent"};

zt_status zt_vk_runtime_error(zt_ctx *ctx, const uint8_t *block, zt_op op, int step)
{
    int32_t all[7]; /* lock, kind, row, part, value, limit, the value's upper word: shaders/call.glsl */
    char where[32] = "";
    memcpy(all, block, sizeof all);
    int32_t kind = all[1], limit = all[5];
    long long value = (long long)((uint64_t)(uint32_t)all[6] << 32 | (uint32_t)all[4]);
    if (kind == 0) return ZT_OK;
    const char *name = zt_op_info(op)->name;
    const char *what = error_words[kind > 0 && kind < (int)(sizeof error_words / sizeof error_words[0]) ? kind : 1];
    if (step >= 0) snprintf(where, sizeof where, " (step %d)", step);
    if (limit < 0) return zt_fail(ctx, ZT_EDATA, "op %s%s: %s", name, where, what);
    if (value < 0)
        return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is out of range: must be nonnegative", name, where, what, value);
    return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is out of range: must be less than %d", name, where, what, value, limit);
}

static zt_status find_runtime_error(const zt_vk_engine *engine, const zt_executable *executable)
{
    const uint8_t *block = executable->host.map + executable->errors_at;
    zt_status status = ZT_OK;
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++)
        status = zt_vk_runtime_error(engine->base.ctx, block + (size_t)task_index * ZT_VK_ERROR_BYTES,
                                     executable->schedule.step[executable->task[task_index].step].op,
                                     executable->task[task_index].step);
    return status;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* All steps are asked before any runs: they run in one go. */
static zt_status ask_before(zt_executable *executable, const zt_watch *watch)
{
    zt_status status = ZT_OK;
    for (int step_index = 0; watch->before && step_index < executable->schedule.n_steps && !status; step_index++)
        status = watch->before(watch->user, &executable->schedule, step_index);
    return status;
}

/* Their times, laid so that the first begins with `submitted`. */
static zt_status report_times(zt_vk_engine *engine, zt_executable *executable, const zt_watch *watch, double submitted)
{
    uint64_t first = 0;
    if (!watch->after && !watch->span) return ZT_OK;
    double *seconds = zt_calloc(engine->base.ctx, (size_t)executable->schedule.n_steps + 1, sizeof *seconds);
    if (!seconds) return ZT_ENOMEM;
    for (int task_index = 0; task_index < executable->n_tasks && executable->times; task_index++) {
        uint64_t stamps[2] = {0};
        if (engine->vk.GetQueryPoolResults(engine->device, executable->times, 2 * (uint32_t)task_index, 2, sizeof stamps, stamps,
                                           sizeof *stamps, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
            continue;
        if (task_index == 0) first = stamps[0];
        zt_span span = {.step = executable->task[task_index].step,
                        .begin = submitted + (double)(stamps[0] - first) * engine->tick,
                        .end = submitted + (double)(stamps[1] - first) * engine->tick};
        seconds[span.step] += (double)(stamps[1] - stamps[0]) * engine->tick;
        if (watch->span) watch->span(watch->user, &executable->schedule, &span);
    }
    for (int step_index = 0; watch->after && step_index < executable->schedule.n_steps; step_index++)
        watch->after(watch->user, &executable->schedule, step_index, seconds[step_index]);
    zt_free(engine->base.ctx, seconds);
    return ZT_OK;
}

/* ---- the replay ------------------------------------------------------------------------------ */

zt_status zt_vk_replay(zt_engine *base, zt_executable *executable, const void *const *inputs, void *const *outputs,
                       const zt_watch *watch)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_status status = zt_vk_sync(base);
    if (!status && watch) status = ask_before(executable, watch);
    if (!status && (executable->moved != engine->moved || executable->watched != (watch != NULL)))
        status = zt_vk_record(engine, executable, watch != NULL);
    if (status) return status;
    for (int input = 0; input < executable->schedule.n_in; input++)
        if (executable->in.bytes[input])
            memcpy(executable->host.map + executable->in.at[input], inputs[input], executable->in.bytes[input]);
    memset(executable->host.map + executable->errors_at, 0, (size_t)executable->n_tasks * ZT_VK_ERROR_BYTES);
    double submitted = watch ? zt_seconds() : 0;
    if (executable->n_tasks) status = zt_vk_submit(engine, executable->commands);
    if (!status) status = find_runtime_error(engine, executable);
    for (int output = 0; output < executable->schedule.n_out && !status; output++)
        if (executable->out.bytes[output])
            memcpy(outputs[output], executable->host.map + executable->out.at[output], executable->out.bytes[output]);
    engine->report.downloads += executable->schedule.n_out > 0;
    engine->report.replays++;
    engine->report.kernels += (uint64_t)executable->n_tasks;
    return status || !watch ? status : report_times(engine, executable, watch, submitted);
}
