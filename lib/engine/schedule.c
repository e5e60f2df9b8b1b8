/* schedule.c - what engines do with the schedules that they are given: copy them, and lay out their
 * inputs and outputs. */
#include "lib/engine/schedule.h"

#include <string.h>

static void *copy_array(zt_arena *arena, const void *source, size_t count, size_t size)
{
    void *copied = zt_arena_alloc(arena, count * size + 1);
    if (copied && count) memcpy(copied, source, count * size);
    return copied;
}

zt_status zt_run_schedule_copy(zt_arena *arena, const zt_run_schedule *schedule, zt_run_schedule *copy)
{
    if (!arena || !schedule || !copy) return ZT_EUSAGE;
    *copy = *schedule;
    copy->type = copy_array(arena, schedule->type, (size_t)schedule->n_values, sizeof *schedule->type);
    copy->place = copy_array(arena, schedule->place, (size_t)schedule->n_values, sizeof *schedule->place);
    copy->buf = copy_array(arena, schedule->buf, (size_t)schedule->n_bufs, sizeof *schedule->buf);
    zt_step *step = copy_array(arena, schedule->step, (size_t)schedule->n_steps, sizeof *schedule->step);
    copy->step = step;
    if (!copy->type || !copy->place || !copy->buf || !step) return ZT_ENOMEM;
    for (int step_index = 0; step_index < schedule->n_steps; step_index++) {
        const zt_opinfo *op_info = zt_op_info(step[step_index].op);
        const void *attrs = step[step_index].attrs ? step[step_index].attrs : op_info->defaults;
        step[step_index].attrs = zt_op_attrs_copy(arena, step[step_index].op, attrs);
        if (!step[step_index].attrs) return ZT_ENOMEM;
    }
    return ZT_OK;
}

bool zt_place_same(const zt_place *first, const zt_place *second)
{
    if (!first || !second) return false;
    return first->kind == second->kind && first->index == second->index && first->offset == second->offset;
}

zt_status zt_run_schedule_lay_out(zt_ctx *ctx, zt_arena *arena, const zt_run_schedule *schedule, zt_place_kind kind, int count,
                                  size_t align, zt_layout *layout, size_t *total)
{
    layout->at = zt_arena_alloc(arena, (size_t)(count + 1) * sizeof *layout->at);
    layout->bytes = zt_arena_alloc(arena, (size_t)(count + 1) * sizeof *layout->bytes);
    if (!layout->at || !layout->bytes) return ZT_ENOMEM;
    memset(layout->bytes, 0, (size_t)(count + 1) * sizeof *layout->bytes);
    for (int value_id = 0; value_id < schedule->n_values; value_id++)
        if (schedule->place[value_id].kind == kind)
            layout->bytes[schedule->place[value_id].index] = zt_type_bytes(&schedule->type[value_id]);
    for (int i = 0; i < count; i++) {
        size_t bytes = layout->bytes[i];
        layout->at[i] = *total;
        if (bytes > SIZE_MAX - align || !zt_add_size(*total, (bytes + align - 1) & ~(align - 1), total))
            return zt_fail(ctx, ZT_ENOMEM, "the plan's inputs and outputs are too large");
    }
    return ZT_OK;
}
