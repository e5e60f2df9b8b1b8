/* replay.c - one replay: inputs into the plan's host memory, one submit, outputs out of it. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

/* ---- troubles -------------------------------------------------------------------------------- */

static const char *const trouble_words[] = {NULL, "index", "position", "sequence", "block"};

zt_status zt_vk_runtime_error(zt_ctx *ctx, const uint8_t *block, zt_op op, int step)
{
    int32_t all[6]; /* lock, kind, row, part, value, limit: shaders/call.glsl */
    char where[32] = "";
    memcpy(all, block, sizeof all);
    int32_t kind = all[1], value = all[4], limit = all[5];
    if (kind == 0) return ZT_OK;
    const char *name = zt_op_info(op)->name;
    const char *what = trouble_words[kind > 0 && kind <= 4 ? kind : 1];
    if (step >= 0) snprintf(where, sizeof where, " (step %d)", step);
    if (value < 0)
        return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %d is below 0", name, where, what, value);
    return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %d is not below %d", name, where, what, value,
                   limit);
}

static zt_status find_trouble(const zt_vk_engine *e, const zt_executable *r)
{
    const uint8_t *block = r->host.map + r->trouble_at;
    zt_status s = ZT_OK;
    for (int i = 0; i < r->n_tasks && !s; i++)
        s = zt_vk_runtime_error(e->base.ctx, block + (size_t)i * ZT_VK_TROUBLE,
                          r->plan.step[r->task[i].step].op, r->task[i].step);
    return s;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* All steps are asked before any runs: they run in one go. */
static zt_status ask_before(zt_executable *r, const zt_watch *watch)
{
    zt_status s = ZT_OK;
    for (int i = 0; watch->before && i < r->plan.n_steps && !s; i++)
        s = watch->before(watch->user, &r->plan, i);
    return s;
}

/* Their times, laid so that the first begins with `submitted`. */
static zt_status tell_after(zt_vk_engine *e, zt_executable *r, const zt_watch *watch, double submitted)
{
    uint64_t first = 0;
    if (!watch->after && !watch->span) return ZT_OK;
    double *seconds = zt_calloc(e->base.ctx, (size_t)r->plan.n_steps + 1, sizeof *seconds);
    if (!seconds) return ZT_ENOMEM;
    for (int i = 0; i < r->n_tasks && r->times; i++) {
        uint64_t t[2] = {0};
        if (e->vk.GetQueryPoolResults(e->device, r->times, 2 * (uint32_t)i, 2, sizeof t, t,
                                      sizeof *t, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
            continue;
        if (i == 0) first = t[0];
        zt_span span = {.step = r->task[i].step,
                        .begin = submitted + (double)(t[0] - first) * e->tick,
                        .end = submitted + (double)(t[1] - first) * e->tick};
        seconds[span.step] += (double)(t[1] - t[0]) * e->tick;
        if (watch->span) watch->span(watch->user, &r->plan, &span);
    }
    for (int i = 0; watch->after && i < r->plan.n_steps; i++)
        watch->after(watch->user, &r->plan, i, seconds[i]);
    zt_free(e->base.ctx, seconds);
    return ZT_OK;
}

/* ---- the replay ------------------------------------------------------------------------------ */

zt_status zt_vk_replay(zt_engine *base, zt_executable *r, const void *const *in, void *const *out,
                       const zt_watch *watch)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_status s = zt_vk_sync(base);
    if (!s && watch) s = ask_before(r, watch);
    if (!s && (r->moved != e->moved || r->watched != (watch != NULL)))
        s = zt_vk_record(e, r, watch != NULL);
    if (s) return s;
    for (int i = 0; i < r->plan.n_in; i++)
        if (r->in.bytes[i]) memcpy(r->host.map + r->in.at[i], in[i], r->in.bytes[i]);
    memset(r->host.map + r->trouble_at, 0, (size_t)r->n_tasks * ZT_VK_TROUBLE);
    double submitted = watch ? zt_seconds() : 0;
    if (r->n_tasks) s = zt_vk_submit(e, r->commands);
    if (!s) s = find_trouble(e, r);
    for (int i = 0; i < r->plan.n_out && !s; i++)
        if (r->out.bytes[i]) memcpy(out[i], r->host.map + r->out.at[i], r->out.bytes[i]);
    e->report.downloads += r->plan.n_out > 0;
    e->report.replays++;
    e->report.kernels += (uint64_t)r->n_tasks;
    return s || !watch ? s : tell_after(e, r, watch, submitted);
}
