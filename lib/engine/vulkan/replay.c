/* replay.c - one replay: inputs into the executable's host memory, one submit, outputs out of it. */
#include "lib/engine/vulkan/vk.h"

#include <stddef.h>
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

/* As shaders/call.glsl writes them. */
typedef struct error_record {
    uint32_t kind, row, part;
    int32_t value, limit, high; /* high: the upper word of the value */
} error_record;

typedef struct error_block {
    uint32_t count, first_row, first_key, unused;
    error_record record[ZT_VK_RECORDS];
} error_block;

_Static_assert(sizeof(error_block) <= ZT_VK_ERROR_BYTES, "a block has room for its records");

void zt_vk_clear_errors(uint8_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) memset(blocks + i * ZT_VK_ERROR_BYTES, 0, offsetof(error_block, record));
}

static bool is_before(const error_record *a, const error_record *b)
{
    return a->row != b->row ? a->row < b->row : a->part < b->part;
}

zt_status zt_vk_runtime_error(zt_ctx *ctx, const uint8_t *block, zt_op op, int step)
{
    error_block all;
    char where[32] = "";
    memcpy(&all.count, block, sizeof all.count);
    if (all.count == 0) return ZT_OK;
    memcpy(&all, block, sizeof all);
    const error_record *first = &all.record[0];
    for (uint32_t i = 1; i < all.count && i < ZT_VK_RECORDS; i++)
        if (is_before(&all.record[i], first)) first = &all.record[i];
    const uint32_t kind = first->kind;
    const int32_t limit = first->limit;
    long long value = (long long)((uint64_t)(uint32_t)first->high << 32 | (uint32_t)first->value);
    const char *name = zt_op_info(op)->name;
    const char *what = error_words[kind > 0 && kind < sizeof error_words / sizeof error_words[0] ? kind : 1];
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
    /* Its own memory is free: replays are waited for. What runs ahead of it comes before it on the device. */
    zt_status status = watch || executable->n_tasks == 0 || engine->lost ? zt_vk_sync(base) : ZT_OK;
    if (!status && watch) status = ask_before(executable, watch);
    if (!status && (executable->moved != engine->moved || executable->watched != (watch != NULL)))
        status = zt_vk_record(engine, executable, watch != NULL);
    if (status) return status;
    for (int input = 0; input < executable->schedule.n_in; input++)
        if (executable->in.bytes[input])
            memcpy(executable->host.map + executable->in.at[input], inputs[input], executable->in.bytes[input]);
    zt_vk_clear_errors(executable->host.map + executable->errors_at, (size_t)executable->n_tasks);
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
