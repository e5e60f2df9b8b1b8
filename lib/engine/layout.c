/* layout.c - inputs and outputs of a plan, one behind the other. */
#include "lib/engine/layout.h"

#include <string.h>

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
