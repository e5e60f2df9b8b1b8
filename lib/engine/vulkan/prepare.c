/* prepare.c - from a plan to tasks, which record.c writes down as one command buffer.
 *
 * A step is a dispatch, or a copy where a view or a used-up value has a place apart. All tasks wait
 * for those before them. Inputs, outputs and one trouble block a task lie in host memory of the
 * plan's own, which the device reads and writes; so a replay is one submit, whatever memory the
 * caller has.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { ALIGN = 64 };

static size_t up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- memory of the plan ---------------------------------------------------------------------- */

static zt_status lay_out(zt_vk_engine *engine, zt_executable *executable, zt_place_kind kind, int n, zt_layout *l,
                         size_t *total)
{
    return zt_run_schedule_lay_out(engine->base.ctx, executable->memory, &executable->plan, kind, n, ALIGN, l, total);
}

static zt_status want_arena(zt_vk_engine *engine, size_t bytes)
{
    if (engine->arena.buffer && bytes <= engine->arena.bytes) return ZT_OK;
    zt_vk_mem fresh;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, bytes, &fresh);
    if (status) return status;
    zt_vk_release(engine, &engine->arena); /* nothing lives there between replays */
    engine->arena = fresh;
    engine->moved++;
    return ZT_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static zt_vk_operand operand_of(const zt_executable *executable, int v)
{
    return (zt_vk_operand){.place = v < 0 ? (zt_place){0} : executable->plan.place[v]};
}

static void add_copy(zt_executable *executable, int s, int k)
{
    const zt_step *step = &executable->plan.step[s];
    zt_vk_task *task = &executable->task[executable->n_tasks++];
    *task = (zt_vk_task){.act = ZT_VK_COPY, .step = s, .n_operands = 2, .table_at = -1};
    task->operand[0] = operand_of(executable, step->in[k]);
    task->operand[1] = operand_of(executable, step->out[k]);
    task->bytes = zt_type_bytes(&executable->plan.type[step->in[k]]);
}

/* Operand k in an engine's buffer: packed where the kernel reads that, else plain. */
static zt_status choose_form(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_kernel *k, int i,
                             const zt_type *type, zt_vk_operand *o, zt_vk_call *call)
{
    bool may = k->weight == i + 1;
    zt_ebuf *buffer = o->place.kind == ZT_PLACE_BUF ? executable->plan.buf[o->place.index] : NULL;
    if (may) call->packed = zt_vk_pack_of(type->dtype);
    if (buffer && buffer->pack && may && zt_type_equal(&buffer->type, type)) {
        o->pack = buffer->pack;
        return ZT_OK;
    }
    if (may) call->plain = true;
    return buffer && buffer->pack ? zt_vk_plain(engine, buffer) : ZT_OK;
}

typedef struct tables { /* what kernels' tables hold, gathered to be written at once */
    uint32_t *word;
    size_t n, room;
} tables;

static zt_status keep_table(zt_vk_engine *engine, zt_vk_call *call, tables *all, zt_vk_task *task)
{
    size_t need = all->n + call->table_words + ALIGN / 4;
    if (need > all->room) {
        size_t room = need > 2 * all->room ? need : 2 * all->room;
        uint32_t *more = zt_realloc(engine->base.ctx, all->word, room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        all->word = more;
        all->room = room;
    }
    task->table_offset = all->n * sizeof *all->word;
    memcpy(all->word + all->n, call->table, call->table_words * sizeof *call->table);
    all->n += (call->table_words + ALIGN / 4 - 1) / (ALIGN / 4) * (ALIGN / 4);
    return ZT_OK;
}

static zt_status finish_task(zt_vk_engine *engine, zt_vk_call *call, tables *all, zt_vk_task *task)
{
    zt_status status = call->table ? keep_table(engine, call, all, task) : ZT_OK;
    zt_free(engine->base.ctx, call->table);
    if (status) return status;
    memcpy(task->groups, call->groups, sizeof task->groups);
    memcpy(task->word, call->word, sizeof task->word);
    if (!task->groups[0] || !task->groups[1]) return ZT_OK;
    for (int d = 0; d < 3; d++)
        if (task->groups[d] > engine->groups[d])
            return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: %u workgroups of %u",
                           task->groups[d], engine->groups[d]);
    task->pipeline = zt_vk_pipeline(engine, call);
    return task->pipeline ? ZT_OK : zt_ctx_status(engine->base.ctx);
}

/* Dispatch before a kernel's own: input 0, at `from`, into the scratch, which then is `from`. */
static zt_status add_before(zt_vk_engine *engine, zt_executable *executable, int s, const zt_vk_kernel *kernel,
                            zt_vk_call c, zt_vk_operand *from)
{
    kernel->before(engine, &c);
    if (c.scratch_bytes == 0) return ZT_OK;
    const zt_vk_call *last = &executable->scratch;
    int value = executable->plan.step[s].in[0];
    bool there = executable->scratch_of == value && last->shader == c.shader &&
                 !memcmp(last->spec, c.spec, sizeof c.spec) &&
                 !memcmp(last->word, c.word, sizeof c.word);
    zt_vk_operand scratch = {.place = {.kind = ZT_PLACE_ARENA, .offset = up(executable->plan.arena_bytes)}};
    if (executable->scratch_bytes < c.scratch_bytes) executable->scratch_bytes = c.scratch_bytes;
    zt_vk_task *task = &executable->task[executable->n_tasks];
    *task = (zt_vk_task){.act = ZT_VK_DISPATCH, .step = s, .n_operands = 2, .table_at = -1};
    task->operand[0] = *from;
    task->operand[1] = *from = scratch;
    if (there) return ZT_OK;
    executable->n_tasks++;
    executable->scratch = c;
    executable->scratch_of = value;
    return finish_task(engine, &c, NULL, task);
}

/* Operands: inputs, the step's table if it has one, outputs. Inputs of `apart` (bit k) were copied
 * to the outputs of their number. */
static zt_status add_dispatch(zt_vk_engine *engine, zt_executable *executable, int s, unsigned apart, tables *all)
{
    const zt_step *step = &executable->plan.step[s];
    const zt_opinfo *info = zt_op_info(step->op);
    zt_vk_task task = {.act = ZT_VK_DISPATCH, .step = s, .table_at = -1}, *t = &task;
    zt_vk_call c = {.attrs = step->attrs};
    zt_type out[ZT_MAX_OUT] = {{0}};
    for (int k = 0; k < info->n_in; k++) {
        bool is = step->in[k] >= 0 && executable->plan.place[step->in[k]].kind != ZT_PLACE_NOWHERE;
        c.in[k] = is ? &executable->plan.type[step->in[k]] : NULL;
    }
    c.spec[ZT_VK_FLOATS] = c.in[0] ? zt_vk_floats(c.in[0]->dtype) : 0;
    zt_status bad = zt_op_infer(engine->base.ctx, step->op, step->attrs, c.in, out);
    const zt_vk_kernel *kernel = bad ? NULL : zt_vk_find(engine, step->op, step->attrs, c.in, out);
    if (!bad && !kernel)
        bad = zt_fail(engine->base.ctx, ZT_ENOTSUP, "op %s (step %d): vulkan has no kernel for it",
                      info->name, s);
    const int most = kernel && kernel->many ? ZT_VK_MANY : ZT_VK_FEW;
    for (int k = 0; k < info->n_in && t->n_operands < most && !bad; k++) {
        zt_vk_operand *o = &t->operand[t->n_operands++];
        *o = operand_of(executable, apart >> k & 1 ? step->out[k] : c.in[k] ? step->in[k] : -1);
        if (c.in[k]) bad = choose_form(engine, executable, kernel, k, c.in[k], o, &c);
    }
    c.out = out;
    for (int k = 0; k < info->n_out; k++)
        c.wanted[k] = step->out[k] >= 0 && executable->plan.place[step->out[k]].kind != ZT_PLACE_NOWHERE;
    if (!bad && kernel->before) bad = add_before(engine, executable, s, kernel, c, &t->operand[0]);
    if (!bad) bad = kernel->set(engine, &c);
    if (bad) return bad;
    if (c.table) t->table_at = t->n_operands++;
    for (int k = 0; k < info->n_out && t->n_operands < most; k++)
        t->operand[t->n_operands++] = operand_of(executable, step->out[k]);
    bad = finish_task(engine, &c, all, t);
    executable->task[executable->n_tasks++] = task;
    return bad;
}

static zt_status make_tasks(zt_vk_engine *engine, zt_executable *executable, tables *all)
{
    int most = (2 + ZT_MAX_DONATED) * executable->plan.n_steps + 1;
    executable->task = zt_arena_alloc(executable->memory, (size_t)most * sizeof *executable->task);
    if (!executable->task) return ZT_ENOMEM;
    for (int s = 0; s < executable->plan.n_steps; s++) {
        const zt_step *step = &executable->plan.step[s];
        unsigned apart = 0;
        for (int k = 0; k < zt_op_shares(step->op); k++) {
            if (step->out[k] < 0 || executable->plan.place[step->out[k]].kind == ZT_PLACE_NOWHERE ||
                zt_place_same(&executable->plan.place[step->in[k]], &executable->plan.place[step->out[k]]))
                continue;
            add_copy(executable, s, k);
            apart |= 1u << k;
        }
        bool view = zt_op_info(step->op)->def->flags & ZT_OPF_VIEW;
        zt_status bad = view ? ZT_OK : add_dispatch(engine, executable, s, apart, all);
        if (bad) return bad;
    }
    return ZT_OK;
}

static zt_status write_tables(zt_vk_engine *engine, zt_executable *executable, const tables *all)
{
    if (all->n == 0) return ZT_OK;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, all->n * sizeof *all->word, &executable->tables);
    return status ? status : zt_vk_write(engine, &executable->tables, 0, all->word, all->n * sizeof *all->word);
}

static zt_status prepare(zt_vk_engine *engine, zt_executable *executable, const zt_run_schedule *plan)
{
    size_t total = 0;
    tables all = {0};
    zt_status status = zt_run_schedule_copy(executable->memory, plan, &executable->plan);
    if (!status) status = lay_out(engine, executable, ZT_PLACE_IN, plan->n_in, &executable->in, &total);
    if (!status) status = lay_out(engine, executable, ZT_PLACE_OUT, plan->n_out, &executable->out, &total);
    executable->scratch_of = -1;
    if (!status) status = make_tasks(engine, executable, &all);
    if (!status) status = write_tables(engine, executable, &all);
    zt_free(engine->base.ctx, all.word);
    executable->trouble_at = total;
    if (!status && !plan->queued)
        status = zt_vk_alloc(engine, ZT_VK_HOST_MEM, total + (size_t)executable->n_tasks * ZT_VK_TROUBLE, &executable->host);
    if (!status) status = want_arena(engine, up(plan->arena_bytes) + executable->scratch_bytes);
    return status || plan->queued ? status : zt_vk_record(engine, executable, false);
}

zt_executable *zt_vk_prepare(zt_engine *base, const zt_run_schedule *plan)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_executable *executable = zt_calloc(base->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    engine->plans++;
    executable->memory = zt_arena_new(base->ctx, 0);
    if (executable->memory && prepare(engine, executable, plan) == ZT_OK) return executable;
    zt_vk_unprepare(base, executable);
    return NULL;
}

void zt_vk_unprepare(zt_engine *base, zt_executable *executable)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    if (!executable) return;
    if (executable->commands) engine->vk.FreeCommandBuffers(engine->device, engine->commands, 1, &executable->commands);
    if (executable->times) engine->vk.DestroyQueryPool(engine->device, executable->times, NULL);
    zt_vk_release(engine, &executable->host);
    zt_vk_release(engine, &executable->tables);
    if (--engine->plans == 0) zt_vk_release(engine, &engine->arena);
    zt_arena_free(executable->memory);
    zt_free(base->ctx, executable);
}
