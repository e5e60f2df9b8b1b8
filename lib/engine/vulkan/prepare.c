/* prepare.c - from a schedule to tasks, which record.c writes down as one command buffer.
 *
 * A step is the passes of its kernel (passes.c), after a copy where a view or a used-up value has a
 * place apart. All tasks wait for those before them. Inputs, outputs and one error block a task lie in host memory of the
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

static zt_vk_operand operand_of(const zt_executable *executable, int value, zt_vk_arg_kind kind)
{
    zt_vk_operand operand = {.value = value};
    if (value < 0 || executable->schedule.place[value].kind == ZT_PLACE_NOWHERE) return operand;
    operand.kind = kind;
    operand.place = executable->schedule.place[value];
    return operand;
}

/* An operand in an engine's buffer: packed where the kernel reads that, else plain. */
static zt_status choose_form(zt_vk_engine *engine, const zt_executable *executable, const zt_vk_kernel *kernel, int input,
                             zt_vk_operand *operand, zt_vk_call *call)
{
    const zt_type *type = call->in[input];
    bool may = kernel->weights >> input & 1;
    zt_ebuf *buffer = operand->place.kind == ZT_PLACE_BUF ? executable->schedule.buf[operand->place.index] : NULL;
    if (may) call->packed[input] = zt_vk_pack_of(type->dtype);
    if (buffer && buffer->pack && may && zt_type_equal(&buffer->type, type)) {
        operand->pack = buffer->pack;
        return ZT_OK;
    }
    if (may) call->plain[input] = true;
    return buffer && buffer->pack ? zt_vk_plain(engine, buffer) : ZT_OK;
}

typedef struct kernel_tables { /* what kernels' tables hold, gathered to be written at once */
    uint32_t *words;
    size_t word_count, capacity;
} kernel_tables;

/* The call's table, which is freed. */
static zt_status keep_table(zt_vk_engine *engine, zt_vk_call *call, kernel_tables *all)
{
    zt_ctx *ctx = engine->base.ctx;
    size_t need = all->word_count + call->table_words + ALIGN / 4;
    uint32_t *words = all->words;
    if (!call->table) return ZT_OK;
    if (need > all->capacity) {
        all->capacity = need > 2 * all->capacity ? need : 2 * all->capacity;
        words = zt_realloc(ctx, all->words, all->capacity * sizeof *words);
        if (words) all->words = words;
    }
    if (words) {
        memcpy(words + all->word_count, call->table, call->table_words * sizeof *words);
        all->word_count += (call->table_words + ALIGN / 4 - 1) / (ALIGN / 4) * (ALIGN / 4);
    }
    zt_free(ctx, call->table);
    call->table = NULL;
    return words ? ZT_OK : ZT_ENOMEM;
}

static size_t larger_of(size_t first, size_t second) { return first > second ? first : second; }

/* Its operands as the kernel reads them. Inputs of `apart` (bit k) were copied to the outputs of their number. */
static zt_status find_operands(zt_vk_step *step, const zt_vk_kernel *kernel, unsigned apart, zt_vk_call *call)
{
    zt_executable *executable = step->executable;
    const zt_step *of = &executable->schedule.step[step->index];
    const zt_opinfo *info = zt_op_info(of->op);
    zt_status bad = ZT_OK;
    step->many = kernel->many;
    step->n_in = info->n_in;
    step->n_out = info->n_out;
    for (int input = 0; input < info->n_in && !bad; input++) {
        int value = apart >> input & 1 ? of->out[input] : call->in[input] ? of->in[input] : -1;
        step->input[input] = operand_of(executable, value, ZT_VK_ARG_IN);
        if (call->in[input]) bad = choose_form(step->engine, executable, kernel, input, &step->input[input], call);
    }
    for (int output = 0; output < info->n_out; output++) {
        step->output[output] = operand_of(executable, of->out[output], ZT_VK_ARG_OUT);
        call->wanted[output] = step->output[output].kind != ZT_VK_ARG_NONE;
    }
    return bad;
}

/* The passes of the step's kernel. */
static zt_status add_passes(zt_vk_step *step, unsigned apart, kernel_tables *all_tables)
{
    zt_vk_engine *engine = step->engine;
    zt_executable *executable = step->executable;
    const zt_step *of = &executable->schedule.step[step->index];
    const zt_opinfo *info = zt_op_info(of->op);
    zt_vk_call call = {.attrs = of->attrs, .step = step};
    zt_type out[ZT_MAX_OUT] = {{0}};
    for (int input = 0; input < info->n_in; input++) {
        bool present = of->in[input] >= 0 && executable->schedule.place[of->in[input]].kind != ZT_PLACE_NOWHERE;
        call.in[input] = present ? &executable->schedule.type[of->in[input]] : NULL;
    }
    call.spec[ZT_VK_FLOATS] = call.in[0] ? zt_vk_floats(call.in[0]->dtype) : 0;
    zt_status bad = zt_op_infer(engine->base.ctx, of->op, of->attrs, call.in, out);
    const zt_vk_kernel *kernel = bad ? NULL : zt_vk_find(engine, of->op, of->attrs, call.in, out);
    if (!bad && !kernel)
        bad = zt_fail(engine->base.ctx, ZT_ENOTSUP, "op %s (step %d): engine vulkan has no kernel", info->name, step->index);
    call.out = out;
    if (!bad) bad = find_operands(step, kernel, apart, &call);
    step->table_at = all_tables->word_count * sizeof *all_tables->words;
    if (!bad) bad = kernel->set(engine, &call);
    if (!bad) bad = zt_vk_then(engine, &call);
    zt_status kept = keep_table(engine, &call, all_tables);
    executable->scratch_bytes = larger_of(executable->scratch_bytes, step->scratch_bytes);
    executable->kept_bytes = larger_of(executable->kept_bytes, step->kept_bytes);
    return bad ? bad : kept;
}

/* A value that a step uses up and that lies apart from the output is copied there first. */
static zt_status add_copies(zt_vk_step *step, unsigned *apart)
{
    const zt_run_schedule *schedule = &step->executable->schedule;
    const zt_step *of = &schedule->step[step->index];
    for (int k = 0; k < zt_op_shares(of->op); k++) {
        if (of->out[k] < 0 || schedule->place[of->out[k]].kind == ZT_PLACE_NOWHERE ||
            zt_place_same(&schedule->place[of->in[k]], &schedule->place[of->out[k]]))
            continue;
        zt_vk_task *task = zt_vk_add_task(step, ZT_VK_COPY);
        if (!task) return ZT_ENOMEM;
        task->n_operands = 2;
        task->operand[0] = operand_of(step->executable, of->in[k], ZT_VK_ARG_IN);
        task->operand[1] = operand_of(step->executable, of->out[k], ZT_VK_ARG_OUT);
        task->bytes = zt_type_bytes(&schedule->type[of->in[k]]);
        *apart |= 1u << k;
    }
    return ZT_OK;
}

static zt_status make_tasks(zt_vk_engine *engine, zt_executable *executable, kernel_tables *all_tables)
{
    zt_status bad = ZT_OK;
    executable->kept_task = -1;
    for (int step_index = 0; step_index < executable->schedule.n_steps && !bad; step_index++) {
        zt_vk_step step = {.engine = engine, .executable = executable, .index = step_index};
        bool view = zt_op_info(executable->schedule.step[step_index].op)->def->flags & ZT_OPF_VIEW;
        unsigned apart = 0;
        bad = add_copies(&step, &apart);
        if (!bad && !view) bad = add_passes(&step, apart, all_tables);
    }
    executable->scratch_at = round_up(executable->schedule.arena_bytes);
    executable->kept_at = executable->scratch_at + executable->scratch_bytes;
    return bad;
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
    if (!status) status = make_tasks(engine, executable, &all);
    if (!status) status = write_tables(engine, executable, &all);
    zt_free(engine->base.ctx, all.words);
    executable->errors_at = total;
    if (!status && !schedule->queued)
        status = zt_vk_alloc(engine, ZT_VK_HOST_MEM, total + (size_t)executable->n_tasks * ZT_VK_ERROR_BYTES, &executable->host);
    if (!status) status = want_arena(engine, executable->kept_at + executable->kept_bytes);
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
    zt_free(base->ctx, executable->task);
    zt_arena_free(executable->memory);
    zt_free(base->ctx, executable);
}
