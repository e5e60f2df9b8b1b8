/* passes.c - the tasks that a kernel describes for a step: dispatches with scratch between them, fills, copies. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { ALIGN = 64, FIRST_TASKS = 16 };

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- operands -------------------------------------------------------------------------------- */

zt_vk_arg zt_vk_scratch(zt_vk_call *call, size_t bytes)
{
    zt_vk_arg arg = {ZT_VK_ARG_SCRATCH, 0, call->step->scratch_bytes};
    call->step->scratch_bytes += round_up(bytes + !bytes);
    return arg;
}

zt_vk_arg zt_vk_kept(zt_vk_call *call, size_t bytes)
{
    call->step->kept_bytes = round_up(bytes + !bytes);
    return (zt_vk_arg){ZT_VK_ARG_KEPT, 0, 0};
}

void zt_vk_args(zt_vk_call *call, const zt_vk_arg *arg, int count)
{
    call->n_args = count;
    memcpy(call->arg, arg, (size_t)(count < ZT_VK_MANY ? count : ZT_VK_MANY) * sizeof *arg);
}

static zt_vk_operand find_operand(const zt_vk_step *step, zt_vk_arg arg)
{
    zt_vk_operand operand = {.kind = arg.kind, .value = -1};
    if (arg.kind == ZT_VK_ARG_IN && arg.index >= 0 && arg.index < step->n_in) operand = step->input[arg.index];
    if (arg.kind == ZT_VK_ARG_OUT && arg.index >= 0 && arg.index < step->n_out) operand = step->output[arg.index];
    operand.offset = arg.offset + (arg.kind == ZT_VK_ARG_TABLE ? step->table_at : 0);
    return operand;
}

/* Inputs, the table, outputs: as many as the pass takes. */
static void name_all(const zt_vk_step *step, zt_vk_call *call)
{
    const int most = step->many ? ZT_VK_MANY : ZT_VK_FEW;
    int count = 0;
    for (int input = 0; input < step->n_in && count < most; input++) call->arg[count++] = zt_vk_in(input);
    if (call->table && count < most) call->arg[count++] = zt_vk_table(0);
    for (int output = 0; output < step->n_out && count < most; output++) call->arg[count++] = zt_vk_out(output);
    call->n_args = count;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

zt_vk_task *zt_vk_add_task(zt_vk_step *step, zt_vk_act act)
{
    zt_executable *executable = step->executable;
    if (executable->n_tasks == executable->room_tasks) {
        int room = executable->room_tasks ? 2 * executable->room_tasks : FIRST_TASKS;
        zt_vk_task *more = zt_realloc(step->engine->base.ctx, executable->task, (size_t)room * sizeof *more);
        if (!more) return NULL;
        executable->task = more;
        executable->room_tasks = room;
    }
    zt_vk_task *task = &executable->task[executable->n_tasks++];
    memset(task, 0, sizeof *task);
    task->act = act;
    task->step = step->index;
    return task;
}

static zt_status fill_task(zt_vk_engine *engine, const zt_vk_call *call, zt_vk_task *task)
{
    const zt_vk_step *step = call->step;
    if (call->n_args > ZT_VK_MANY)
        return zt_fail(engine->base.ctx, ZT_EBUG, "engine vulkan: %d operands of a pass", call->n_args);
    task->n_operands = call->n_args;
    for (int i = 0; i < call->n_args; i++) task->operand[i] = find_operand(step, call->arg[i]);
    memcpy(task->groups, call->groups, sizeof task->groups);
    memcpy(task->word, call->word, sizeof task->word);
    for (int axis = 0; axis < 3; axis++)
        if (task->groups[axis] > engine->groups[axis])
            return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: too many workgroups (%u): at most %u",
                           task->groups[axis], engine->groups[axis]);
    task->pipeline = zt_vk_pipeline(engine, call);
    return task->pipeline ? ZT_OK : zt_ctx_status(engine->base.ctx);
}

static void empty_pass(zt_vk_call *call)
{
    memset(call->spec, 0, sizeof call->spec);
    memset(call->word, 0, sizeof call->word);
    memset(call->groups, 0, sizeof call->groups);
    call->n_body = call->n_args = 0;
    call->spec[ZT_VK_FLOATS] = call->in[0] ? zt_vk_floats(call->in[0]->dtype) : 0;
}

zt_status zt_vk_then(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_status status = ZT_OK;
    if (call->groups[0] && call->groups[1] && call->groups[2]) {
        if (!call->n_args) name_all(call->step, call);
        zt_vk_task *task = zt_vk_add_task(call->step, ZT_VK_DISPATCH);
        status = task ? fill_task(engine, call, task) : ZT_ENOMEM;
    }
    empty_pass(call);
    return status;
}

static bool is_same_operand(const zt_vk_operand *first, const zt_vk_operand *second)
{
    return first->kind == second->kind && first->value == second->value && zt_place_same(&first->place, &second->place) &&
           first->pack == second->pack && first->offset == second->offset;
}

static bool is_same_pass(const zt_vk_task *first, const zt_vk_task *second)
{
    bool same = first->pipeline == second->pipeline && first->n_operands == second->n_operands &&
                !memcmp(first->word, second->word, sizeof first->word) &&
                !memcmp(first->groups, second->groups, sizeof first->groups);
    for (int i = 0; i < first->n_operands && same; i++) same = is_same_operand(&first->operand[i], &second->operand[i]);
    return same;
}

zt_status zt_vk_once(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_executable *executable = call->step->executable;
    const int before = executable->n_tasks, kept = executable->kept_task;
    zt_status status = zt_vk_then(engine, call);
    if (status || executable->n_tasks == before) return status;
    if (kept >= 0 && is_same_pass(&executable->task[kept], &executable->task[before]))
        executable->n_tasks = before;
    else
        executable->kept_task = before;
    return ZT_OK;
}

zt_status zt_vk_fill(zt_vk_call *call, zt_vk_arg to, size_t bytes, uint32_t word)
{
    zt_vk_task *task = bytes ? zt_vk_add_task(call->step, ZT_VK_FILL) : NULL;
    if (!task) return bytes ? ZT_ENOMEM : ZT_OK;
    task->n_operands = 1;
    task->operand[0] = find_operand(call->step, to);
    task->bytes = (bytes + 3) & ~(size_t)3;
    task->word[0] = word;
    return ZT_OK;
}

zt_status zt_vk_copy(zt_vk_call *call, zt_vk_arg to, zt_vk_arg from, size_t bytes)
{
    zt_vk_task *task = bytes ? zt_vk_add_task(call->step, ZT_VK_COPY) : NULL;
    if (!task) return bytes ? ZT_ENOMEM : ZT_OK;
    task->n_operands = 2;
    task->operand[0] = find_operand(call->step, from);
    task->operand[1] = find_operand(call->step, to);
    task->bytes = bytes;
    return ZT_OK;
}
