/* plan.c - plans of an engine's own. */
#include "lib/engine/engine.h"

#include <string.h>

static void *copy(zt_arena *arena, const void *src, size_t n, size_t size)
{
    void *p = zt_arena_alloc(arena, n * size + 1);
    if (p && n) memcpy(p, src, n * size);
    return p;
}

zt_status zt_run_schedule_copy(zt_arena *arena, const zt_run_schedule *plan, zt_run_schedule *q)
{
    *q = *plan;
    q->type = copy(arena, plan->type, (size_t)plan->n_values, sizeof *plan->type);
    q->place = copy(arena, plan->place, (size_t)plan->n_values, sizeof *plan->place);
    q->buf = copy(arena, plan->buf, (size_t)plan->n_bufs, sizeof *plan->buf);
    zt_step *step = copy(arena, plan->step, (size_t)plan->n_steps, sizeof *plan->step);
    q->step = step;
    if (!q->type || !q->place || !q->buf || !step) return ZT_ENOMEM;
    for (int s = 0; s < plan->n_steps; s++) {
        const zt_opinfo *info = zt_op_info(step[s].op);
        const void *attrs = step[s].attrs ? step[s].attrs : info->defaults;
        step[s].attrs = zt_op_attrs_copy(arena, step[s].op, attrs);
        if (!step[s].attrs) return ZT_ENOMEM;
    }
    return ZT_OK;
}

bool zt_place_same(const zt_place *a, const zt_place *b)
{
    return a->kind == b->kind && a->index == b->index && a->offset == b->offset;
}
