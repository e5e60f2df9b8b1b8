/* prepare.c - from a plan to calls with addresses, and to stages that need no barrier inside.
 *
 * A token of a small model is some hundred steps of a microsecond each, so what costs is threads
 * meeting. Steps that follow each other and touch nothing of each other's become one stage; steps
 * with hardly any work are done by thread 0 one after the other, while the others wait once.
 */
#include "lib/engine/cpu/cpu_engine.h"

#include <string.h>

enum {
    LINE = 64,
    SIDE_BY_SIDE = 8, /* calls of a stage at most */
    TINY = 20000,     /* work below which a call is not worth handing out: some microseconds */
    UNEVEN = 4000000  /* work from which there are more parts than threads */
};

/* ---- calls ----------------------------------------------------------------------------------- */

/* The engine's own kernel: a view or a used-up value that got a place apart starts as a copy. */
enum { COPY_ITEM = 64 << 10 };

static void copy_setup(zt_cpu_call *call)
{
    call->items[0] = (int64_t)((zt_type_bytes(&call->in[0].type) + COPY_ITEM - 1) / COPY_ITEM);
}

static void copy_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    size_t first = (size_t)begin * COPY_ITEM, last = (size_t)end * COPY_ITEM;
    size_t bytes = zt_type_bytes(&call->in[0].type);
    (void)phase, (void)local;
    if (last > bytes) last = bytes;
    memmove((char *)call->out[0].data + first, (const char *)call->in[0].data + first, last - first);
}

static const zt_cpu_kernel copy_kernel = {.setup = copy_setup, .run = copy_run};

/* May this input be read in packed form? */
static bool reads_packed(zt_op op, int input)
{
    return zt_op_info(op)->def->weights >> input & 1 || (op == ZT_OP_gather && input == 0);
}

/* What setup wants to know of value v: its type and that it is there. */
static zt_cpu_arg arg_of(const zt_executable *executable, int value, zt_place *place)
{
    *place = (zt_place){0};
    if (value < 0 || executable->plan.place[value].kind == ZT_PLACE_NOWHERE) return (zt_cpu_arg){0};
    *place = executable->plan.place[value];
    return (zt_cpu_arg){.type = executable->plan.type[value], .data = executable->task};
}

/* Does gather read this input's rows from the store? */
static bool is_stored(const zt_executable *executable, const zt_step *step, int input)
{
    int value = step->in[input];
    if (step->op != ZT_OP_gather || input != 0 || executable->plan.place[value].kind != ZT_PLACE_BUF) return false;
    if (!zt_dtype_is_float(executable->plan.type[value].dtype)) return false; /* rows are decoded to f32 */
    return executable->plan.buf[executable->plan.place[value].index]->in_store;
}

/* Tables that any step reads whole are loaded, before a call is made. */
static zt_status load_tables(zt_cpu_engine *engine, const zt_executable *executable)
{
    for (int index = 0; index < executable->plan.n_steps; index++) {
        const zt_step *step = &executable->plan.step[index];
        for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
            if (step->in[k] < 0 || executable->plan.place[step->in[k]].kind != ZT_PLACE_BUF || is_stored(executable, step, k))
                continue;
            zt_ebuf *buffer = executable->plan.buf[executable->plan.place[step->in[k]].index];
            if (buffer->in_store && zt_cpu_load_table(engine, buffer)) return zt_ctx_status(engine->base.ctx);
        }
    }
    return ZT_OK;
}

/* Input k in buffer b: in packed form where the op reads that, else plain; block types then as f32.
 */
static zt_status choose_form(zt_cpu_engine *engine, zt_cpu_arg *arg, zt_op op, int input, zt_ebuf *buffer)
{
    if (!buffer->packed) return ZT_OK;
    arg->packed = reads_packed(op, input) && zt_type_equal(&arg->type, &buffer->type);
    if (arg->packed) return ZT_OK;
    if (!zt_cpu_plain_copy(engine, buffer)) return ZT_ENOMEM;
    if (zt_dtype_get(buffer->type.dtype)->kind == 'Q') arg->type.dtype = ZT_F32;
    return ZT_OK;
}

/* The row's own loop reads no packed form. */
static zt_status unpack_inputs(zt_cpu_engine *engine, const zt_executable *executable, zt_cpu_task *task)
{
    for (int k = 0; k < ZT_MAX_IN; k++) {
        zt_cpu_arg *arg = &task->call.in[k];
        if (!arg->packed) continue;
        arg->packed = false;
        if (!zt_cpu_plain_copy(engine, executable->plan.buf[task->in[k].index])) return ZT_ENOMEM;
        if (zt_dtype_get(arg->type.dtype)->kind == 'Q') arg->type.dtype = ZT_F32;
    }
    return ZT_OK;
}

/* Operations, and 8 for every value written (where inputs are used up only for what is put in). */
static double estimate_work(const zt_step *step, const zt_cpu_call *call)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *in[ZT_MAX_IN];
    zt_type out[ZT_MAX_OUT];
    double work = 0;
    for (int k = 0; k < info->n_in; k++) in[k] = call->in[k].data ? &call->in[k].type : NULL;
    for (int k = 0; k < info->n_out; k++) {
        out[k] = call->out[k].type;
        if (call->out[k].data && !info->def->donates) work += 8 * (double)zt_type_count(&out[k]);
    }
    if (info->def->donates) return 8 * zt_op_flops(step->op, step->attrs, in, out);
    return call->out[0].data ? work + zt_op_flops(step->op, step->attrs, in, out) : work;
}

/* The inputs of step s, with their types as kernels see them in *in. */
static zt_status set_inputs(zt_cpu_engine *engine, const zt_executable *executable, int step_index, zt_cpu_task *task, int count)
{
    const zt_step *step = &executable->plan.step[step_index];
    zt_status status = ZT_OK;
    task->step = step_index;
    for (int k = 0; k < count && !status; k++) {
        task->call.in[k] = arg_of(executable, step->in[k], &task->in[k]);
        if (task->in[k].kind == ZT_PLACE_BUF)
            status = choose_form(engine, &task->call.in[k], step->op, k, executable->plan.buf[task->in[k].index]);
    }
    return status;
}

/* The call that convert_operands.c makes of t's, with operands in f32. */
static zt_status make_inner(zt_cpu_engine *engine, const zt_executable *executable, zt_op op, const zt_type *const in[],
                            zt_cpu_task *task)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *wide_types[ZT_MAX_IN] = {0};
    zt_type wide_in[ZT_MAX_IN], out[ZT_MAX_OUT], wide_out[ZT_MAX_OUT];
    zt_cpu_call *inner = zt_arena_alloc(executable->memory, sizeof *inner);
    if (!inner) return ZT_ENOMEM;
    *inner = task->call;
    for (int k = 0; k < info->n_out; k++) out[k] = inner->out[k].type;
    if (!zt_cpu_widen_types(op, inner->attrs, in, out, wide_in, wide_out))
        return zt_fail(engine->base.ctx, ZT_EBUG, "op %s cannot be widened", info->name);
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k]) continue;
        wide_types[k] = &wide_in[k];
        inner->in[k].type = wide_in[k];
    }
    for (int k = 0; k < info->n_out; k++) inner->out[k].type = wide_out[k];
    inner->kernel = zt_cpu_find(engine, op, inner->attrs, wide_types, wide_out);
    task->call.inner = inner;
    return ZT_OK;
}

/* One call for step s, without addresses. */
static zt_status make_call(zt_cpu_engine *engine, const zt_executable *executable, int step_index, zt_cpu_task *task)
{
    const zt_step *step = &executable->plan.step[step_index];
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {{0}};
    zt_status status = set_inputs(engine, executable, step_index, task, info->n_in);
    for (int k = 0; k < info->n_in; k++) in[k] = task->call.in[k].data ? &executable->plan.type[step->in[k]] : NULL;
    if (!status) status = zt_op_infer(engine->base.ctx, step->op, step->attrs, in, out);
    if (status) return status;
    for (int k = 0; k < info->n_in; k++) in[k] = in[k] ? &task->call.in[k].type : NULL;
    for (int k = 0; k < info->n_out; k++) {
        task->call.out[k] = arg_of(executable, step->out[k], &task->out[k]);
        task->call.out[k].type = out[k];
    }
    task->call.op = step->op;
    task->call.attrs = step->attrs;
    task->call.tile = engine->tile;
    task->call.kernel = zt_cpu_find(engine, step->op, step->attrs, in, out);
    if (!task->call.kernel)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "op %s (step %d): engine cpu has no kernel", info->name, step_index);
    if (step->op == ZT_OP_gather && is_stored(executable, step, 0)) task->call.kernel = &zt_cpu_gather_stored;
    if (task->call.kernel == &zt_cpu_convert_operands) status = make_inner(engine, executable, step->op, in, task);
    if (task->call.kernel == &zt_cpu_plain_loop) status = unpack_inputs(engine, executable, task);
    task->work = estimate_work(step, &task->call);
    return status;
}

/* Input k to output k. */
static zt_status make_copy(zt_cpu_engine *engine, const zt_executable *executable, int step_index, int operand, zt_cpu_task *task)
{
    const zt_step *step = &executable->plan.step[step_index];
    zt_status status = ZT_OK;
    task->step = step_index;
    task->call.in[0] = arg_of(executable, step->in[operand], &task->in[0]);
    if (task->in[0].kind == ZT_PLACE_BUF)
        status = choose_form(engine, &task->call.in[0], step->op, operand, executable->plan.buf[task->in[0].index]);
    task->call.kernel = &copy_kernel;
    task->call.out[0] = arg_of(executable, step->out[operand], &task->out[0]);
    task->work = (double)zt_type_bytes(&task->call.in[0].type);
    return status;
}

/* Has output k the memory of input k, but a place of its own? */
static bool has_own_place(const zt_executable *executable, const zt_step *step, int operand)
{
    return step->out[operand] >= 0 && executable->plan.place[step->out[operand]].kind != ZT_PLACE_NOWHERE &&
           !zt_place_same(&executable->plan.place[step->in[operand]], &executable->plan.place[step->out[operand]]);
}

static zt_status make_calls(zt_cpu_engine *engine, zt_executable *executable)
{
    if (load_tables(engine, executable)) return zt_ctx_status(engine->base.ctx);
    for (int step_index = 0; step_index < executable->plan.n_steps; step_index++) {
        const zt_step *step = &executable->plan.step[step_index];
        int shares = zt_op_shares(step->op);
        zt_status status = ZT_OK;
        for (int k = 0; k < shares && !status; k++)
            if (has_own_place(executable, step, k))
                status = make_copy(engine, executable, step_index, k, &executable->task[executable->n_tasks++]);
        if (status) return status;
        if (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW) continue;
        zt_cpu_task *task = &executable->task[executable->n_tasks++];
        status = make_call(engine, executable, step_index, task);
        if (status) return status;
        for (int k = 0; k < shares; k++)
            if (has_own_place(executable, step, k)) task->in[k] = task->out[k];
    }
    return ZT_OK;
}

static zt_status set_up_calls(zt_cpu_engine *engine, zt_executable *executable)
{
    size_t keep = 0;
    for (int i = 0; i < executable->n_tasks; i++) {
        zt_cpu_call *call = &executable->task[i].call;
        call->n_phases = 1;
        call->kernel->setup(call);
        if (!zt_add_size(keep, (call->keep_bytes + LINE - 1) / LINE * LINE, &keep))
            return zt_fail(engine->base.ctx, ZT_ENOMEM, "tables too large (%zu bytes)", call->keep_bytes);
    }
    executable->keep = zt_alloc(engine->base.ctx, keep);
    if (!executable->keep) return ZT_ENOMEM;
    zt_cpu_count_bytes(engine, keep, 0);
    executable->keep_bytes = keep;
    for (size_t i = 0, at = 0; i < (size_t)executable->n_tasks; i++) {
        zt_cpu_call *call = &executable->task[i].call;
        if (call->keep_bytes) call->keep = executable->keep + at;
        at += (call->keep_bytes + LINE - 1) / LINE * LINE;
        if (call->kernel->prime) call->kernel->prime(call);
    }
    return ZT_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static bool places_overlap(const zt_place *a, const zt_type *type_a, const zt_place *b, const zt_type *type_b)
{
    if (a->kind != b->kind || a->kind == ZT_PLACE_NOWHERE || a->index != b->index) return false;
    if (a->kind != ZT_PLACE_ARENA) return true;
    return a->offset < b->offset + zt_type_bytes(type_b) && b->offset < a->offset + zt_type_bytes(type_a);
}

/* Does b write what a reads or writes? */
static bool disturbs(const zt_cpu_task *writer, const zt_cpu_task *reader)
{
    for (int output = 0; output < ZT_MAX_OUT; output++) {
        const zt_type *type = &writer->call.out[output].type;
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (places_overlap(&writer->out[output], type, &reader->in[k], &reader->call.in[k].type)) return true;
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (places_overlap(&writer->out[output], type, &reader->out[k], &reader->call.out[k].type)) return true;
    }
    return false;
}

static bool fits_beside(const zt_executable *executable, const zt_cpu_stage *stage, int i)
{
    if (stage->call_count >= SIDE_BY_SIDE) return false;
    for (int k = stage->first; k < stage->first + stage->call_count; k++)
        if (disturbs(&executable->task[i], &executable->task[k]) || disturbs(&executable->task[k], &executable->task[i]))
            return false;
    return true;
}

static void make_stages(zt_executable *executable)
{
    for (int i = 0; i < executable->n_tasks; i++) {
        zt_cpu_stage *stage = executable->n_stages ? &executable->stage[executable->n_stages - 1] : NULL;
        bool solo = executable->task[i].work < TINY;
        if (stage && (stage->solo ? solo : fits_beside(executable, stage, i)))
            stage->call_count++;
        else
            executable->stage[executable->n_stages++] = (zt_cpu_stage){i, 1, solo};
    }
}

/* Shared scratch: calls of a stage side by side, those of a solo one in the same place. What two
 * calls would fill alike is filled once. */
static void share_scratch(zt_executable *executable, const zt_cpu_stage *stage, size_t *most)
{
    size_t at = 0;
    for (int i = stage->first; i < stage->first + stage->call_count; i++) {
        zt_cpu_task *task = &executable->task[i];
        const zt_cpu_task *twin = NULL;
        for (int k = stage->first; k < i && !stage->solo && !twin; k++)
            if (task->call.kernel->same_first_phase && executable->task[k].call.kernel == task->call.kernel &&
                zt_place_same(&task->in[0], &executable->task[k].in[0]) &&
                task->call.kernel->same_first_phase(&executable->task[k].call, &task->call))
                twin = &executable->task[k];
        if (twin) {
            task->shared_at = twin->shared_at;
            task->call.items[0] = 0;
            continue;
        }
        task->shared_at = stage->solo ? 0 : at;
        at = task->shared_at + (task->call.shared_bytes + LINE - 1) / LINE * LINE;
        if (at > *most) *most = at;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Parts that a phase of a call is cut into. */
static int64_t parts_of(const zt_cpu_task *task, int phase, int threads)
{
    int64_t items = phase < task->call.n_phases ? task->call.items[phase] : 0;
    int64_t per_thread = task->call.kernel->uneven ? 32 : 8;
    int64_t parts = threads == 1 ? 1 : task->work < UNEVEN ? threads : per_thread * threads;
    return items < parts ? items : parts;
}

static int phases_of(const zt_executable *executable, const zt_cpu_stage *stage)
{
    int phases = 1;
    for (int i = stage->first; i < stage->first + stage->call_count; i++)
        if (executable->task[i].call.n_phases > phases) phases = executable->task[i].call.n_phases;
    return stage->solo ? 1 : phases;
}

/* The parts of one phase of a stage, into `part` unless that is NULL; returns how many. */
static int64_t cut_phase(const zt_executable *executable, const zt_cpu_stage *stage, int phase, int threads, zt_cpu_part *part)
{
    int64_t count = 0;
    if (stage->solo) {
        if (part) *part = (zt_cpu_part){.task = stage->first, .call_count = stage->call_count};
        return 1;
    }
    for (int i = stage->first; i < stage->first + stage->call_count; i++) {
        const zt_cpu_task *task = &executable->task[i];
        int64_t parts = parts_of(task, phase, threads);
        for (int64_t k = 0; k < parts; k++, count++)
            if (part)
                part[count] = (zt_cpu_part){.task = i,
                                            .phase = phase,
                                            .begin = task->call.items[phase] * k / parts,
                                            .end = task->call.items[phase] * (k + 1) / parts};
    }
    return count;
}

static zt_status make_rounds(zt_cpu_engine *engine, zt_executable *executable)
{
    int threads = zt_pool_size(engine->pool);
    size_t rounds = 0, parts = 0;
    for (int i = 0; i < executable->n_stages; i++)
        for (int phase = 0; phase < phases_of(executable, &executable->stage[i]); phase++, rounds++)
            parts += (size_t)cut_phase(executable, &executable->stage[i], phase, threads, NULL);
    zt_cpu_part *part = executable->part = zt_calloc(engine->base.ctx, parts + 1, sizeof *part);
    executable->round = zt_calloc(engine->base.ctx, rounds + 1, sizeof *executable->round);
    if (!part || !executable->round) return ZT_ENOMEM;
    for (int i = 0; i < executable->n_stages; i++) {
        for (int phase = 0; phase < phases_of(executable, &executable->stage[i]); phase++) {
            int64_t count = cut_phase(executable, &executable->stage[i], phase, threads, part);
            if (count) executable->round[executable->n_rounds++] = (zt_cpu_round){.part_count = (int32_t)count, .part = part};
            part += count;
        }
    }
    return ZT_OK;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void set_address(const zt_cpu_engine *engine, const zt_executable *executable, const zt_place *place, zt_cpu_arg *arg)
{
    if (place->kind == ZT_PLACE_ARENA) arg->data = engine->scratch + place->offset;
    if (place->kind == ZT_PLACE_BUF) {
        const zt_ebuf *buffer = executable->plan.buf[place->index];
        arg->data = buffer->packed && !arg->packed ? buffer->plain : buffer->data;
    }
}

void zt_cpu_resolve(zt_cpu_engine *engine, zt_executable *executable)
{
    for (int i = 0; i < executable->n_tasks; i++) {
        zt_cpu_task *task = &executable->task[i];
        for (int k = 0; k < ZT_MAX_IN; k++) set_address(engine, executable, &task->in[k], &task->call.in[k]);
        for (int k = 0; k < ZT_MAX_OUT; k++) set_address(engine, executable, &task->out[k], &task->call.out[k]);
        if (task->call.kernel == &zt_cpu_gather_stored) task->call.in[0].data = executable->plan.buf[task->in[0].index];
        task->call.shared = engine->scratch + engine->arena_bytes + task->shared_at;
    }
    executable->moved = engine->moved;
}

/* Which arguments are host memory, to be set at every replay. */
static zt_status list_hosts(zt_executable *executable)
{
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < executable->n_tasks; i++) {
            zt_cpu_task *task = &executable->task[i];
            for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
                bool out = k >= ZT_MAX_IN;
                const zt_place *place = out ? &task->out[k - ZT_MAX_IN] : &task->in[k];
                if (place->kind != ZT_PLACE_IN && place->kind != ZT_PLACE_OUT) continue;
                if (pass)
                    executable->host[executable->n_hosts++] =
                        (zt_cpu_host){out ? &task->call.out[k - ZT_MAX_IN].data : &task->call.in[k].data,
                                      place->kind == ZT_PLACE_OUT, place->index};
                else
                    count++;
            }
        }
        if (!pass) executable->host = zt_arena_alloc(executable->memory, count * sizeof *executable->host + 1);
        if (!executable->host) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status prepare_schedule(zt_cpu_engine *engine, zt_executable *executable, const zt_run_schedule *plan)
{
    size_t steps = (size_t)plan->n_steps + 1, shared = 0, local = 0;
    zt_status status = zt_run_schedule_copy(executable->memory, plan, &executable->plan);
    if (status) return status;
    executable->task = zt_calloc(engine->base.ctx, (1 + ZT_MAX_DONATED) * steps, sizeof *executable->task); /* with copies */
    executable->stage = zt_arena_alloc(executable->memory, (1 + ZT_MAX_DONATED) * steps * sizeof *executable->stage);
    if (!executable->task || !executable->stage) return ZT_ENOMEM;
    status = make_calls(engine, executable);
    if (!status) status = set_up_calls(engine, executable);
    if (status) return status;
    make_stages(executable);
    for (int stage = 0; stage < executable->n_stages; stage++) share_scratch(executable, &executable->stage[stage], &shared);
    for (int i = 0; i < executable->n_tasks; i++)
        if (executable->task[i].call.local_bytes > local) local = executable->task[i].call.local_bytes;
    status = make_rounds(engine, executable);
    if (!status) status = list_hosts(executable);
    if (!status) status = zt_cpu_reserve(engine, plan->arena_bytes, shared, local);
    if (!status) zt_cpu_resolve(engine, executable);
    return status ? status : zt_cpu_list_prefetches(engine, executable);
}

void zt_cpu_unprepare(zt_engine *base, zt_executable *executable)
{
    if (!executable) return;
    zt_cpu_count_bytes((zt_cpu_engine *)base, 0, executable->keep_bytes);
    zt_free(base->ctx, executable->keep);
    zt_free(base->ctx, executable->part);
    zt_free(base->ctx, executable->round);
    zt_free(base->ctx, executable->task);
    zt_arena_free(executable->memory);
    zt_free(base->ctx, executable);
}

zt_executable *zt_cpu_prepare(zt_engine *base, const zt_run_schedule *plan)
{
    zt_executable *executable = zt_calloc(base->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    executable->memory = zt_arena_new(base->ctx, 0);
    if (executable->memory && prepare_schedule((zt_cpu_engine *)base, executable, plan) == ZT_OK) return executable;
    zt_cpu_unprepare(base, executable);
    return NULL;
}
