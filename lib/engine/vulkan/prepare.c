/* prepare.c - from a schedule to tasks, which record.c writes down as one command buffer.
 *
 * A step is a dispatch, or a copy where a view or a used-up value has a place apart. All tasks wait
 * for those before them. Inputs, outputs and one error block a task lie in host memory of the
 * executable's own, which the device reads and writes; so a replay is one submit, whatever memory the
 * caller has.
 */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { ALIGN = 64 };

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- memory of the executable ---------------------------------------------------------------- */

static zt_status lay_out(zt_vk_engine *engine, zt_executable *executable, zt_place_kind kind, int count, zt_layout *layout,
                         size_t *total)
{
    return zt_run_schedule_lay_out(engine->base.ctx, executable->memory, &executable->schedule, kind, count, ALIGN, layout,
                                   total);
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

static zt_vk_operand operand_of(const zt_executable *executable, int value_id)
{
    return (zt_vk_operand){.place = value_id < 0 ? (zt_place){0} : executable->schedule.place[value_id]};
}

static void add_copy(zt_executable *executable, int step_index, int output_index)
{
    const zt_step *step = &executable->schedule.step[step_index];
    zt_vk_task *task = &executable->task[executable->n_tasks++];
    *task = (zt_vk_task){.act = ZT_VK_COPY, .step = step_index, .n_operands = 2, .table_at = -1};
    task->operand[0] = operand_of(executable, step->in[output_index]);
    task->operand[1] = operand_of(executable, step->out[output_index]);
    task->bytes = zt_type_bytes(&executable->schedule.type[step->in[output_index]]);
}

/* An operand in an engine's buffer: packed where the kernel reads that, else plain. */
static zt_status choose_form(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_kernel *kernel, int operand_index,
                             const zt_type *type, zt_vk_operand *operand, zt_vk_call *call)
{
    bool may = kernel->weight == operand_index + 1;
    zt_ebuf *buffer = operand->place.kind == ZT_PLACE_BUF ? executable->schedule.buf[operand->place.index] : NULL;
    if (may) call->packed = zt_vk_pack_of(type->dtype);
    if (buffer && buffer->pack && may && zt_type_equal(&buffer->type, type)) {
        operand->pack = buffer->pack;
        return ZT_OK;
    }
    if (may) call->plain = true;
    return buffer && buffer->pack ? zt_vk_plain(engine, buffer) : ZT_OK;
}

typedef struct kernel_tables { /* what kernels' tables hold, gathered to be written at once */
    uint32_t *words;
    size_t word_count, capacity;
} kernel_tables;

static zt_status keep_table(zt_vk_engine *engine, zt_vk_call *call, kernel_tables *all, zt_vk_task *task)
{
    size_t need = all->word_count + call->table_words + ALIGN / 4;
    if (need > all->capacity) {
        size_t room = need > 2 * all->capacity ? need : 2 * all->capacity;
        uint32_t *more = zt_realloc(engine->base.ctx, all->words, room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        all->words = more;
        all->capacity = room;
    }
    task->table_offset = all->word_count * sizeof *all->words;
    memcpy(all->words + all->word_count, call->table, call->table_words * sizeof *call->table);
    all->word_count += (call->table_words + ALIGN / 4 - 1) / (ALIGN / 4) * (ALIGN / 4);
    return ZT_OK;
}

static zt_status finish_task(zt_vk_engine *engine, zt_vk_call *call, kernel_tables *all_tables, zt_vk_task *task)
{
    zt_status status = call->table ? keep_table(engine, call, all_tables, task) : ZT_OK;
    zt_free(engine->base.ctx, call->table);
    if (status) return status;
    memcpy(task->groups, call->groups, sizeof task->groups);
    memcpy(task->word, call->word, sizeof task->word);
    if (!task->groups[0] || !task->groups[1]) return ZT_OK;
    for (int axis = 0; axis < 3; axis++)
        if (task->groups[axis] > engine->groups[axis])
            return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: too many workgroups (%u): at most %u",
                           task->groups[axis], engine->groups[axis]);
    task->pipeline = zt_vk_pipeline(engine, call);
    return task->pipeline ? ZT_OK : zt_ctx_status(engine->base.ctx);
}

/* Dispatch before a kernel's own: input 0, at `from`, into the scratch, which then is `from`. */
static zt_status add_before(zt_vk_engine *engine, zt_executable *executable, int step_index, const zt_vk_kernel *kernel,
                            zt_vk_call call, zt_vk_operand *from)
{
    kernel->before(engine, &call);
    if (call.scratch_bytes == 0) return ZT_OK;
    const zt_vk_call *last = &executable->scratch;
    int value = executable->schedule.step[step_index].in[0];
    bool there = executable->scratch_of == value && last->shader == call.shader &&
                 !memcmp(last->spec, call.spec, sizeof call.spec) && !memcmp(last->word, call.word, sizeof call.word);
    zt_vk_operand scratch = {.place = {.kind = ZT_PLACE_ARENA, .offset = round_up(executable->schedule.arena_bytes)}};
    if (executable->scratch_bytes < call.scratch_bytes) executable->scratch_bytes = call.scratch_bytes;
    zt_vk_task *task = &executable->task[executable->n_tasks];
    *task = (zt_vk_task){.act = ZT_VK_DISPATCH, .step = step_index, .n_operands = 2, .table_at = -1};
    task->operand[0] = *from;
    task->operand[1] = *from = scratch;
    if (there) return ZT_OK;
    executable->n_tasks++;
    executable->scratch = call;
    executable->scratch_of = value;
    return finish_task(engine, &call, NULL, task);
}

/* Operands: inputs, the step's table if it has one, outputs. Inputs of `apart` (bit k) were copied
 * to the outputs of their number. */
static zt_status add_dispatch(zt_vk_engine *engine, zt_executable *executable, int step_index, unsigned apart,
                              kernel_tables *all_tables)
{
    const zt_step *step = &executable->schedule.step[step_index];
    const zt_opinfo *info = zt_op_info(step->op);
    zt_vk_task task = {.act = ZT_VK_DISPATCH, .step = step_index, .table_at = -1}, *dispatch = &task;
    zt_vk_call call = {.attrs = step->attrs};
    zt_type out[ZT_MAX_OUT] = {{0}};
    for (int input = 0; input < info->n_in; input++) {
        bool present = step->in[input] >= 0 && executable->schedule.place[step->in[input]].kind != ZT_PLACE_NOWHERE;
        call.in[input] = present ? &executable->schedule.type[step->in[input]] : NULL;
    }
    call.spec[ZT_VK_FLOATS] = call.in[0] ? zt_vk_floats(call.in[0]->dtype) : 0;
    zt_status bad = zt_op_infer(engine->base.ctx, step->op, step->attrs, call.in, out);
    const zt_vk_kernel *kernel = bad ? NULL : zt_vk_find(engine, step->op, step->attrs, call.in, out);
    if (!bad && !kernel)
        bad = zt_fail(engine->base.ctx, ZT_ENOTSUP, "op %s (step %d): engine vulkan has no kernel", info->name, step_index);
    const int most = kernel && kernel->many ? ZT_VK_MANY : ZT_VK_FEW;
    for (int input = 0; input < info->n_in && dispatch->n_operands < most && !bad; input++) {
        zt_vk_operand *operand = &dispatch->operand[dispatch->n_operands++];
        *operand = operand_of(executable, apart >> input & 1 ? step->out[input] : call.in[input] ? step->in[input] : -1);
        if (call.in[input]) bad = choose_form(engine, executable, kernel, input, call.in[input], operand, &call);
    }
    call.out = out;
    for (int output = 0; output < info->n_out; output++)
        call.wanted[output] = step->out[output] >= 0 && executable->schedule.place[step->out[output]].kind != ZT_PLACE_NOWHERE;
    if (!bad && kernel->before) bad = add_before(engine, executable, step_index, kernel, call, &dispatch->operand[0]);
    if (!bad) bad = kernel->set(engine, &call);
    if (bad) return bad;
    if (call.table) dispatch->table_at = dispatch->n_operands++;
    for (int output = 0; output < info->n_out && dispatch->n_operands < most; output++)
        dispatch->operand[dispatch->n_operands++] = operand_of(executable, step->out[output]);
    bad = finish_task(engine, &call, all_tables, dispatch);
    executable->task[executable->n_tasks++] = task;
    return bad;
}

static zt_status make_tasks(zt_vk_engine *engine, zt_executable *executable, kernel_tables *all_tables)
{
    int most = (2 + ZT_MAX_DONATED) * executable->schedule.n_steps + 1;
    executable->task = zt_arena_alloc(executable->memory, (size_t)most * sizeof *executable->task);
    if (!executable->task) return ZT_ENOMEM;
    for (int step_index = 0; step_index < executable->schedule.n_steps; step_index++) {
        const zt_step *step = &executable->schedule.step[step_index];
        unsigned apart = 0;
        for (int k = 0; k < zt_op_shares(step->op); k++) {
            if (step->out[k] < 0 || executable->schedule.place[step->out[k]].kind == ZT_PLACE_NOWHERE ||
                zt_place_same(&executable->schedule.place[step->in[k]], &executable->schedule.place[step->out[k]]))
                continue;
            add_copy(executable, step_index, k);
            apart |= 1u << k;
        }
        bool view = zt_op_info(step->op)->def->flags & ZT_OPF_VIEW;
        zt_status bad = view ? ZT_OK : add_dispatch(engine, executable, step_index, apart, all_tables);
        if (bad) return bad;
    }
    return ZT_OK;
}

static zt_status write_tables(zt_vk_engine *engine, zt_executable *executable, const kernel_tables *all)
{
    if (all->word_count == 0) return ZT_OK;
    zt_status status = zt_vk_alloc(engine, ZT_VK_DEVICE_MEM, all->word_count * sizeof *all->words, &executable->tables);
    return status ? status : zt_vk_write(engine, &executable->tables, 0, all->words, all->word_count * sizeof *all->words);
}

static zt_status fill_executable(zt_vk_engine *engine, zt_executable *executable, const zt_run_schedule *schedule)
{
    size_t total = 0;
    kernel_tables all = {0};
    zt_status status = zt_run_schedule_copy(executable->memory, schedule, &executable->schedule);
    if (!status) status = lay_out(engine, executable, ZT_PLACE_IN, schedule->n_in, &executable->in, &total);
    if (!status) status = lay_out(engine, executable, ZT_PLACE_OUT, schedule->n_out, &executable->out, &total);
    executable->scratch_of = -1;
    if (!status) status = make_tasks(engine, executable, &all);
    if (!status) status = write_tables(engine, executable, &all);
    zt_free(engine->base.ctx, all.words);
    executable->errors_at = total;
    if (!status && !schedule->queued)
        status = zt_vk_alloc(engine, ZT_VK_HOST_MEM, total + (size_t)executable->n_tasks * ZT_VK_ERROR_BYTES, &executable->host);
    if (!status) status = want_arena(engine, round_up(schedule->arena_bytes) + executable->scratch_bytes);
    return status || schedule->queued ? status : zt_vk_record(engine, executable, false);
}

zt_executable *zt_vk_prepare(zt_engine *base, const zt_run_schedule *schedule)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_executable *executable = zt_calloc(base->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    engine->executables++;
    executable->memory = zt_arena_new(base->ctx, 0);
    if (executable->memory && fill_executable(engine, executable, schedule) == ZT_OK) return executable;
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
    if (--engine->executables == 0) zt_vk_release(engine, &engine->arena);
    zt_arena_free(executable->memory);
    zt_free(base->ctx, executable);
}
