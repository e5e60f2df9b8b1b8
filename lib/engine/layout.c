/* layout.c - inputs and outputs of a plan, one behind the other. */
#include "lib/engine/layout.h"

#include <string.h>

zt_status zt_run_schedule_lay_out(zt_ctx *ctx, zt_arena *arena, const zt_run_schedule *plan, zt_place_kind kind, int n,
                          size_t align, zt_layout *out, size_t *total)
{
    out->at = zt_arena_alloc(arena, (size_t)(n + 1) * sizeof *out->at);
    out->bytes = zt_arena_alloc(arena, (size_t)(n + 1) * sizeof *out->bytes);
    if (!out->at || !out->bytes) return ZT_ENOMEM;
    memset(out->bytes, 0, (size_t)(n + 1) * sizeof *out->bytes);
    for (int v = 0; v < plan->n_values; v++)
        if (plan->place[v].kind == kind)
            out->bytes[plan->place[v].index] = zt_type_bytes(&plan->type[v]);
    for (int i = 0; i < n; i++) {
        size_t bytes = out->bytes[i];
        out->at[i] = *total;
        if (bytes > SIZE_MAX - align || !zt_add_size(*total, (bytes + align - 1) & ~(align - 1), total))
            return zt_fail(ctx, ZT_ENOMEM, "the plan's inputs and outputs are too large");
    }
    return ZT_OK;
}
