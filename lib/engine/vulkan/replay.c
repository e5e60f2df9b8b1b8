/* replay.c - one replay: inputs into the executable's host memory, one submit, outputs out of it. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

/* ---- runtime errors -------------------------------------------------------------------------------- */

static const char *const error_words[] = {NULL, "index", "position", "sequence", "block"};

zt_status zt_vk_runtime_error(zt_ctx *ctx, const uint8_t *block, zt_op op, int step)
{
    int32_t all[6]; /* lock, kind, row, part, value, limit: shaders/call.glsl */
    char where[32] = "";
    memcpy(all, block, sizeof all);
    int32_t kind = all[1], value = all[4], limit = all[5];
    if (kind == 0) return ZT_OK;
    const char *name = zt_op_info(op)->name;
    const char *what = error_words[kind > 0 && kind <= 4 ? kind : 1];
    if (step >= 0) snprintf(where, sizeof where, " (step %d)", step);
    if (value < 0)
        return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %d is below 0", name, where, what, value);
    return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %d is not below %d", name, where, what, value,
                   limit);
}

static zt_status find_runtime_error(const zt_vk_engine *engine, const zt_executable *executable)
{
    const uint8_t *block = executable->host.map + executable->errors_at;
    zt_status status = ZT_OK;
    for (int i = 0; i < executable->n_tasks && !status; i++)
        status = zt_vk_runtime_error(engine->base.ctx, block + (size_t)i * ZT_VK_ERROR_BYTES,
                          executable->schedule.step[executable->task[i].step].op, executable->task[i].step);
    return status;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* All steps are asked before any runs: they run in one go. */
static zt_status ask_before(zt_executable *executable, const zt_watch *watch)
{
    zt_status status = ZT_OK;
    for (int i = 0; watch->before && i < executable->schedule.n_steps && !status; i++)
        status = watch->before(watch->user, &executable->schedule, i);
    return status;
}

/* Their times, laid so that the first begins with `submitted`. */
static zt_status report_times(zt_vk_engine *engine, zt_executable *executable, const zt_watch *watch, double submitted)
{
    uint64_t first = 0;
    if (!watch->after && !watch->span) return ZT_OK;
    double *seconds = zt_calloc(engine->base.ctx, (size_t)executable->schedule.n_steps + 1, sizeof *seconds);
    if (!seconds) return ZT_ENOMEM;
    for (int i = 0; i < executable->n_tasks && executable->times; i++) {
        uint64_t stamps[2] = {0};
        if (engine->vk.GetQueryPoolResults(engine->device, executable->times, 2 * (uint32_t)i, 2, sizeof stamps, stamps,
                                      sizeof *stamps, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
            continue;
        if (i == 0) first = stamps[0];
        zt_span span = {.step = executable->task[i].step,
                        .begin = submitted + (double)(stamps[0] - first) * engine->tick,
                        .end = submitted + (double)(stamps[1] - first) * engine->tick};
        seconds[span.step] += (double)(stamps[1] - stamps[0]) * engine->tick;
        if (watch->span) watch->span(watch->user, &executable->schedule, &span);
    }
    for (int i = 0; watch->after && i < executable->schedule.n_steps; i++)
        watch->after(watch->user, &executable->schedule, i, seconds[i]);
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
    for (int i = 0; i < executable->schedule.n_in; i++)
        if (executable->in.bytes[i]) memcpy(executable->host.map + executable->in.at[i], inputs[i], executable->in.bytes[i]);
    memset(executable->host.map + executable->errors_at, 0, (size_t)executable->n_tasks * ZT_VK_ERROR_BYTES);
    double submitted = watch ? zt_seconds() : 0;
    if (executable->n_tasks) status = zt_vk_submit(engine, executable->commands);
    if (!status) status = find_runtime_error(engine, executable);
    for (int i = 0; i < executable->schedule.n_out && !status; i++)
        if (executable->out.bytes[i]) memcpy(outputs[i], executable->host.map + executable->out.at[i], executable->out.bytes[i]);
    engine->report.downloads += executable->schedule.n_out > 0;
    engine->report.replays++;
    engine->report.kernels += (uint64_t)executable->n_tasks;
    return status || !watch ? status : report_times(engine, executable, watch, submitted);
}
