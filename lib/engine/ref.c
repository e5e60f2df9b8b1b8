/* ref.c - the judge: every float value is an f64 and every integer an int64_t, from the conversion
 * of the inputs to that of the outputs, and the ops' own reference loops run on them, one after the
 * other, in one thread. Weights are decoded when they are loaded. Never fast.
 *
 * A value takes 8 bytes an element wherever it is. Prepared schedules share one block of memory (the
 * engine's, as large as the largest of them needs): arena first, then inputs and outputs.
 */
#include "lib/engine/convert.h"
#include "lib/engine/host_part.h"

#include <string.h>

struct zt_ebuf {
    zt_type type;
    size_t bytes;
    void *data; /* double or int64_t, by dtype */
};

typedef struct ref_engine {
    zt_engine base;
    void *memory;
    size_t memory_bytes;
    zt_engine_report report;
} ref_engine;

struct zt_executable {
    zt_arena *arena; /* holds the copies below */
    zt_run_schedule schedule;
    int *input_values, *output_values;      /* [n_in], [n_out]: a value in that place, -1: none */
    size_t *input_offsets, *output_offsets; /* offsets into the engine's memory */
};

/* ---- conversion ------------------------------------------------------------------------------ */

static zt_status must_narrow(zt_engine *engine, zt_dtype dtype)
{
    if (zt_dtype_get(dtype)->kind != 'Q' || zt_dtype_get(dtype)->encode) return ZT_OK;
    return zt_fail(engine->ctx, ZT_ENOTSUP, "engine ref cannot return values of block type %s", zt_dtype_get(dtype)->name);
}

/* ---- the engine and its buffers -------------------------------------------------------------- */

static zt_engine *ref_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    (void)opts; /* one thread, no device */
    ref_engine *ref = zt_calloc(ctx, 1, sizeof *ref);
    if (!ref) return NULL;
    ref->base = (zt_engine){.vt = &zt_engine_ref, .ctx = ctx};
    return &ref->base;
}

static void ref_close(zt_engine *engine)
{
    ref_engine *ref = (ref_engine *)engine;
    zt_free(engine->ctx, ref->memory);
    zt_free(engine->ctx, ref);
}

static bool ref_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                    const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)input_types, (void)output_types;
    return zt_op_info(op)->def->ref != NULL;
}

static size_t ref_value_bytes(zt_engine *engine, const zt_type *type)
{
    size_t bytes;
    (void)engine;
    return zt_mul_size((size_t)zt_type_count(type), 8, &bytes) ? bytes : SIZE_MAX;
}

static void count_bytes(ref_engine *ref, size_t more, size_t less)
{
    ref->report.held += more - less;
    ref->report.allocated += more;
    if (ref->report.held > ref->report.peak) ref->report.peak = ref->report.held;
}

static zt_ebuf *new_buf(zt_engine *engine, const zt_type *type)
{
    zt_ebuf *buffer = zt_calloc(engine->ctx, 1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->type = *type;
    buffer->bytes = ref_value_bytes(engine, type);
    buffer->data = zt_alloc(engine->ctx, buffer->bytes);
    if (!buffer->data) {
        zt_free(engine->ctx, buffer);
        return NULL;
    }
    count_bytes((ref_engine *)engine, buffer->bytes, 0);
    ((ref_engine *)engine)->report.buffers++;
    return buffer;
}

static void ref_free(zt_engine *engine, zt_ebuf *buffer)
{
    if (!buffer) return;
    count_bytes((ref_engine *)engine, 0, buffer->bytes);
    ((ref_engine *)engine)->report.buffers--;
    zt_free(engine->ctx, buffer->data);
    zt_free(engine->ctx, buffer);
}

static zt_ebuf *ref_alloc(zt_engine *engine, const zt_type *type)
{
    zt_ebuf *buffer = new_buf(engine, type);
    if (buffer) memset(buffer->data, 0, buffer->bytes);
    return buffer;
}

static zt_status load_chunks(zt_ebuf *buffer, const zt_store *store, int64_t handle, void *raw, int64_t chunk)
{
    const zt_dtype_info *info = zt_dtype_get(buffer->type.dtype);
    int64_t count = zt_type_count(&buffer->type);
    size_t offset = 0;
    for (int64_t start = 0; start < count; start += chunk) {
        int64_t chunk_count = count - start < chunk ? count - start : chunk;
        size_t bytes = (size_t)((chunk_count + info->block - 1) / info->block) * (size_t)info->block_bytes;
        zt_status status = store->read(store->user, handle, offset, raw, bytes);
        if (status) return status;
        zt_widen(buffer->type.dtype, raw, (char *)buffer->data + (size_t)start * 8, chunk_count);
        offset += bytes;
    }
    return ZT_OK;
}

static zt_ebuf *ref_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    const int64_t chunk = 64 << 10; /* elements; whole blocks of every type */
    zt_ebuf *buffer = new_buf(engine, type);
    void *raw = zt_alloc(engine->ctx, (size_t)chunk * sizeof(double));
    if (buffer && raw && load_chunks(buffer, store, handle, raw, chunk) == ZT_OK) {
        zt_free(engine->ctx, raw);
        return buffer;
    }
    zt_free(engine->ctx, raw);
    ref_free(engine, buffer);
    return NULL;
}

static zt_status ref_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    (void)engine;
    zt_widen(buffer->type.dtype, host, buffer->data, zt_type_count(&buffer->type));
    return ZT_OK;
}

static zt_status ref_download(zt_engine *engine, const zt_ebuf *buffer, void *host)
{
    zt_status status = must_narrow(engine, buffer->type.dtype);
    if (!status) zt_narrow(buffer->type.dtype, buffer->data, host, zt_type_count(&buffer->type));
    return status;
}

static zt_status ref_write_part(zt_engine *engine, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host)
{
    (void)engine;
    return zt_host_write_part(buffer->data, offset, bytes, host);
}

static zt_status ref_read_part(zt_engine *engine, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host)
{
    (void)engine;
    return zt_host_read_part(buffer->data, offset, bytes, host);
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Room in the engine's memory, from *total on, for each host tensor of one kind. */
static zt_status lay_out(zt_engine *engine, zt_executable *executable, zt_place_kind kind, int count, int **value,
                         size_t **offsets, size_t *total)
{
    *value = zt_arena_alloc(executable->arena, (size_t)count * sizeof **value);
    *offsets = zt_arena_alloc(executable->arena, (size_t)count * sizeof **offsets);
    if (!*value || !*offsets) return ZT_ENOMEM;
    for (int i = 0; i < count; i++) (*value)[i] = -1;
    for (int value_id = 0; value_id < executable->schedule.n_values; value_id++)
        if (executable->schedule.place[value_id].kind == kind) (*value)[executable->schedule.place[value_id].index] = value_id;
    for (int i = 0; i < count; i++) {
        (*offsets)[i] = *total;
        if ((*value)[i] < 0) continue;
        if (!zt_add_size(*total, ref_value_bytes(engine, &executable->schedule.type[(*value)[i]]), total))
            return zt_fail(engine->ctx, ZT_ENOMEM, "the plan's inputs and outputs do not fit in memory");
    }
    return ZT_OK;
}

static zt_status grow_memory(ref_engine *ref, size_t bytes)
{
    if (ref->memory && bytes <= ref->memory_bytes) return ZT_OK;
    void *memory = zt_alloc(ref->base.ctx, bytes);
    if (!memory) return ZT_ENOMEM;
    zt_free(ref->base.ctx, ref->memory); /* nothing lives there between replays */
    count_bytes(ref, bytes, ref->memory_bytes);
    ref->memory = memory;
    ref->memory_bytes = bytes;
    return ZT_OK;
}

static zt_status fill_executable(zt_engine *engine, zt_executable *executable, const zt_run_schedule *schedule)
{
    zt_status status = zt_run_schedule_copy(executable->arena, schedule, &executable->schedule);
    size_t total;
    if (!status && !zt_add_size(schedule->arena_bytes, 63, &total))
        status = zt_fail(engine->ctx, ZT_ENOMEM, "arena too large (%zu bytes)", schedule->arena_bytes);
    if (status) return status;
    total &= ~(size_t)63;
    status =
        lay_out(engine, executable, ZT_PLACE_IN, schedule->n_in, &executable->input_values, &executable->input_offsets, &total);
    if (!status)
        status = lay_out(engine, executable, ZT_PLACE_OUT, schedule->n_out, &executable->output_values,
                         &executable->output_offsets, &total);
    for (int output_index = 0; output_index < schedule->n_out && !status; output_index++)
        if (executable->output_values[output_index] >= 0)
            status = must_narrow(engine, schedule->type[executable->output_values[output_index]].dtype);
    return status ? status : grow_memory((ref_engine *)engine, total);
}

static void ref_unprepare(zt_engine *engine, zt_executable *executable)
{
    if (!executable) return;
    zt_arena_free(executable->arena);
    zt_free(engine->ctx, executable);
}

static zt_executable *ref_prepare(zt_engine *engine, const zt_run_schedule *schedule)
{
    zt_executable *executable = zt_calloc(engine->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    executable->arena = zt_arena_new(engine->ctx, 0);
    if (executable->arena && fill_executable(engine, executable, schedule) == ZT_OK) return executable;
    ref_unprepare(engine, executable);
    return NULL;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void *place_of(const ref_engine *ref, const zt_executable *executable, int value_id)
{
    const zt_place *place = &executable->schedule.place[value_id];
    char *memory = ref->memory;
    switch (place->kind) {
    case ZT_PLACE_ARENA: return memory + place->offset;
    case ZT_PLACE_IN: return memory + executable->input_offsets[place->index];
    case ZT_PLACE_OUT: return memory + executable->output_offsets[place->index];
    case ZT_PLACE_BUF: return executable->schedule.buf[place->index]->data;
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

static zt_arg arg_of(const ref_engine *ref, const zt_executable *executable, int value_id)
{
    if (value_id < 0 || executable->schedule.place[value_id].kind == ZT_PLACE_NOWHERE) return (zt_arg){0};
    zt_arg arg = {.type = &executable->schedule.type[value_id]};
    void *data = place_of(ref, executable, value_id);
    if (zt_dtype_is_float(arg.type->dtype))
        arg.f = data;
    else
        arg.i = data;
    return arg;
}

/* A view or a donated value usually has its input's place; elsewhere it starts as a copy. */
static void start_as_input(const zt_arg *input, const zt_arg *output)
{
    const void *from = input->f ? (const void *)input->f : input->i;
    void *destination = output->f ? (void *)output->f : output->i;
    if (from != destination && destination) memmove(destination, from, (size_t)zt_type_count(input->type) * 8);
}

static zt_status run_step(ref_engine *ref, const zt_executable *executable, int step_index)
{
    const zt_step *step = &executable->schedule.step[step_index];
    const zt_opinfo *op_info = zt_op_info(step->op);
    zt_arg inputs[ZT_MAX_IN] = {0}, outputs[ZT_MAX_OUT] = {0};
    zt_runtime_error failure = {0};
    for (int input = 0; input < op_info->n_in; input++) inputs[input] = arg_of(ref, executable, step->in[input]);
    for (int output = 0; output < op_info->n_out; output++) outputs[output] = arg_of(ref, executable, step->out[output]);
    for (int k = 0; k < zt_op_shares(step->op); k++) start_as_input(&inputs[k], &outputs[k]);
    if (!(op_info->def->flags & ZT_OPF_VIEW)) op_info->def->ref(step->attrs, inputs, outputs, &failure);
    ref->report.kernels++;
    if (!failure.what) return ZT_OK;
    if (failure.limit < 0)
        return zt_fail(ref->base.ctx, ZT_EDATA, "op %s (step %d): %s", op_info->name, step_index, failure.what);
    if (failure.value < 0)
        return zt_fail(ref->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is out of range: must be nonnegative", op_info->name,
                       step_index, failure.what, (long long)failure.value);
    return zt_fail(ref->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is out of range: must be less than %lld", op_info->name,
                   step_index, failure.what, (long long)failure.value, (long long)failure.limit);
}

static zt_status watch_step(ref_engine *ref, const zt_executable *executable, int step_index, const zt_watch *watch)
{
    zt_status status = watch->before ? watch->before(watch->user, &executable->schedule, step_index) : ZT_OK;
    if (status) return status;
    zt_span span = {.step = step_index, .begin = zt_seconds()};
    status = run_step(ref, executable, step_index);
    span.end = zt_seconds();
    if (!status && watch->after) watch->after(watch->user, &executable->schedule, step_index, span.end - span.begin);
    if (!status && watch->span) watch->span(watch->user, &executable->schedule, &span);
    return status;
}

static zt_status ref_replay(zt_engine *base, zt_executable *executable, const void *const *inputs, void *const *outputs,
                            const zt_watch *watch)
{
    ref_engine *ref = (ref_engine *)base;
    zt_status status = ZT_OK;
    for (int input = 0; input < executable->schedule.n_in; input++) {
        if (executable->input_values[input] < 0) continue;
        const zt_type *type = &executable->schedule.type[executable->input_values[input]];
        zt_widen(type->dtype, inputs[input], (char *)ref->memory + executable->input_offsets[input], zt_type_count(type));
    }
    for (int step_index = 0; step_index < executable->schedule.n_steps && !status; step_index++)
        status = watch ? watch_step(ref, executable, step_index, watch) : run_step(ref, executable, step_index);
    for (int output_index = 0; output_index < executable->schedule.n_out && !status; output_index++) {
        if (executable->output_values[output_index] < 0) continue;
        const zt_type *type = &executable->schedule.type[executable->output_values[output_index]];
        zt_narrow(type->dtype, (char *)ref->memory + executable->output_offsets[output_index], outputs[output_index],
                  zt_type_count(type));
    }
    ref->report.replays++;
    return status;
}

static zt_engine_report ref_report(const zt_engine *engine) { return ((const ref_engine *)engine)->report; }

const zt_engine_vt zt_engine_ref = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .has = ref_has,
    .value_bytes = ref_value_bytes,
    .alloc = ref_alloc,
    .load = ref_load,
    .free = ref_free,
    .upload = ref_upload,
    .download = ref_download,
    .write_part = ref_write_part,
    .read_part = ref_read_part,
    .prepare = ref_prepare,
    .unprepare = ref_unprepare,
    .replay = ref_replay,
    .report = ref_report,
};
