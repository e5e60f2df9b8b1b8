/* ref.c - the judge: every float value is an f64 and every integer an int64_t, from the conversion
 * of the inputs to that of the outputs, and the ops' own reference loops run on them, one after the
 * other, in one thread. Weights are decoded when they are loaded. Never fast.
 *
 * A value takes 8 bytes an element wherever it is. Prepared plans share one block of memory (the
 * engine's, as large as the largest of them needs): arena first, then inputs and outputs.
 */
#include "lib/engine/convert.h"
#include "lib/engine/engine.h"

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
    zt_run_schedule plan;
    int *in_value, *out_value; /* [n_in], [n_out]: a value in that place, -1: none */
    size_t *in_at, *out_at;    /* offsets into the engine's memory */
};

/* ---- conversion ------------------------------------------------------------------------------ */

static zt_status must_narrow(zt_engine *engine, zt_dtype dtype)
{
    if (zt_dtype_get(dtype)->kind != 'Q' || zt_dtype_get(dtype)->encode) return ZT_OK;
    return zt_fail(engine->ctx, ZT_ENOTSUP, "ref cannot hand out values of block type %s",
                   zt_dtype_get(dtype)->name);
}

/* ---- the engine and its buffers -------------------------------------------------------------- */

static zt_engine *ref_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    (void)opts; /* one thread, no device */
    ref_engine *r = zt_calloc(ctx, 1, sizeof *r);
    if (!r) return NULL;
    r->base = (zt_engine){.vt = &zt_engine_ref, .ctx = ctx};
    return &r->base;
}

static void ref_close(zt_engine *engine)
{
    ref_engine *r = (ref_engine *)engine;
    zt_free(engine->ctx, r->memory);
    zt_free(engine->ctx, r);
}

static bool ref_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                    const zt_type out[])
{
    (void)engine, (void)attrs, (void)input_types, (void)out;
    return zt_op_info(op)->def->ref != NULL;
}

static size_t ref_value_bytes(zt_engine *engine, const zt_type *type)
{
    size_t bytes;
    (void)engine;
    return zt_mul_size((size_t)zt_type_count(type), 8, &bytes) ? bytes : SIZE_MAX;
}

static void count_bytes(ref_engine *r, size_t more, size_t less)
{
    r->report.held += more - less;
    r->report.allocated += more;
    if (r->report.held > r->report.peak) r->report.peak = r->report.held;
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

static zt_status load_chunks(zt_ebuf *buffer, const zt_store *store, int64_t handle, void *raw,
                             int64_t chunk)
{
    const zt_dtype_info *info = zt_dtype_get(buffer->type.dtype);
    int64_t count = zt_type_count(&buffer->type);
    size_t offset = 0;
    for (int64_t at = 0; at < count; at += chunk) {
        int64_t n = count - at < chunk ? count - at : chunk;
        size_t bytes = (size_t)((n + info->block - 1) / info->block) * (size_t)info->block_bytes;
        zt_status status = store->read(store->user, handle, offset, raw, bytes);
        if (status) return status;
        zt_widen(buffer->type.dtype, raw, (char *)buffer->data + (size_t)at * 8, n);
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

/* ---- prepare --------------------------------------------------------------------------------- */

/* Room in the engine's memory, from *total on, for each host tensor of one kind. */
static zt_status lay_out(zt_engine *engine, zt_executable *executable, zt_place_kind kind, int n, int **value,
                         size_t **at, size_t *total)
{
    *value = zt_arena_alloc(executable->arena, (size_t)n * sizeof **value);
    *at = zt_arena_alloc(executable->arena, (size_t)n * sizeof **at);
    if (!*value || !*at) return ZT_ENOMEM;
    for (int i = 0; i < n; i++) (*value)[i] = -1;
    for (int v = 0; v < executable->plan.n_values; v++)
        if (executable->plan.place[v].kind == kind) (*value)[executable->plan.place[v].index] = v;
    for (int i = 0; i < n; i++) {
        (*at)[i] = *total;
        if ((*value)[i] < 0) continue;
        if (!zt_add_size(*total, ref_value_bytes(engine, &executable->plan.type[(*value)[i]]), total))
            return zt_fail(engine->ctx, ZT_ENOMEM, "the plan's inputs and outputs do not fit in memory");
    }
    return ZT_OK;
}

static zt_status grow_memory(ref_engine *e, size_t bytes)
{
    if (e->memory && bytes <= e->memory_bytes) return ZT_OK;
    void *memory = zt_alloc(e->base.ctx, bytes);
    if (!memory) return ZT_ENOMEM;
    zt_free(e->base.ctx, e->memory); /* nothing lives there between replays */
    count_bytes(e, bytes, e->memory_bytes);
    e->memory = memory;
    e->memory_bytes = bytes;
    return ZT_OK;
}

static zt_status prepare(zt_engine *engine, zt_executable *executable, const zt_run_schedule *plan)
{
    zt_status status = zt_run_schedule_copy(executable->arena, plan, &executable->plan);
    size_t total;
    if (!status && !zt_add_size(plan->arena_bytes, 63, &total))
        status = zt_fail(engine->ctx, ZT_ENOMEM, "an arena of %zu bytes", plan->arena_bytes);
    if (status) return status;
    total &= ~(size_t)63;
    status = lay_out(engine, executable, ZT_PLACE_IN, plan->n_in, &executable->in_value, &executable->in_at, &total);
    if (!status)
        status = lay_out(engine, executable, ZT_PLACE_OUT, plan->n_out, &executable->out_value, &executable->out_at, &total);
    for (int o = 0; o < plan->n_out && !status; o++)
        if (executable->out_value[o] >= 0) status = must_narrow(engine, plan->type[executable->out_value[o]].dtype);
    return status ? status : grow_memory((ref_engine *)engine, total);
}

static void ref_unprepare(zt_engine *engine, zt_executable *executable)
{
    if (!executable) return;
    zt_arena_free(executable->arena);
    zt_free(engine->ctx, executable);
}

static zt_executable *ref_prepare(zt_engine *engine, const zt_run_schedule *plan)
{
    zt_executable *executable = zt_calloc(engine->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    executable->arena = zt_arena_new(engine->ctx, 0);
    if (executable->arena && prepare(engine, executable, plan) == ZT_OK) return executable;
    ref_unprepare(engine, executable);
    return NULL;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void *place_of(const ref_engine *e, const zt_executable *executable, int v)
{
    const zt_place *p = &executable->plan.place[v];
    char *memory = e->memory;
    switch (p->kind) {
    case ZT_PLACE_ARENA: return memory + p->offset;
    case ZT_PLACE_IN: return memory + executable->in_at[p->index];
    case ZT_PLACE_OUT: return memory + executable->out_at[p->index];
    case ZT_PLACE_BUF: return executable->plan.buf[p->index]->data;
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

static zt_arg arg_of(const ref_engine *e, const zt_executable *executable, int v)
{
    if (v < 0 || executable->plan.place[v].kind == ZT_PLACE_NOWHERE) return (zt_arg){0};
    zt_arg a = {.type = &executable->plan.type[v]};
    void *data = place_of(e, executable, v);
    if (zt_dtype_is_float(a.type->dtype))
        a.f = data;
    else
        a.i = data;
    return a;
}

/* A view or a donated value usually has its input's place; elsewhere it starts as a copy. */
static void start_as_input(const zt_arg *in, const zt_arg *out)
{
    const void *from = in->f ? (const void *)in->f : in->i;
    void *to = out->f ? (void *)out->f : out->i;
    if (from != to && to) memmove(to, from, (size_t)zt_type_count(in->type) * 8);
}

static zt_status run_step(ref_engine *e, const zt_executable *executable, int s)
{
    const zt_step *step = &executable->plan.step[s];
    const zt_opinfo *info = zt_op_info(step->op);
    zt_arg in[ZT_MAX_IN] = {0}, out[ZT_MAX_OUT] = {0};
    zt_runtime_error t = {0};
    for (int k = 0; k < info->n_in; k++) in[k] = arg_of(e, executable, step->in[k]);
    for (int k = 0; k < info->n_out; k++) out[k] = arg_of(e, executable, step->out[k]);
    for (int k = 0; k < zt_op_shares(step->op); k++) start_as_input(&in[k], &out[k]);
    if (!(info->def->flags & ZT_OPF_VIEW)) info->def->ref(step->attrs, in, out, &t);
    e->report.kernels++;
    if (!t.what) return ZT_OK;
    if (t.limit < 0)
        return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s", info->name, s, t.what);
    if (t.value < 0)
        return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is below 0", info->name, s,
                       t.what, (long long)t.value);
    return zt_fail(e->base.ctx, ZT_EDATA, "op %s (step %d): %s %lld is not below %lld", info->name,
                   s, t.what, (long long)t.value, (long long)t.limit);
}

static zt_status watch_step(ref_engine *e, const zt_executable *executable, int s, const zt_watch *watch)
{
    zt_status status = watch->before ? watch->before(watch->user, &executable->plan, s) : ZT_OK;
    if (status) return status;
    zt_span span = {.step = s, .begin = zt_seconds()};
    status = run_step(e, executable, s);
    span.end = zt_seconds();
    if (!status && watch->after) watch->after(watch->user, &executable->plan, s, span.end - span.begin);
    if (!status && watch->span) watch->span(watch->user, &executable->plan, &span);
    return status;
}

static zt_status ref_replay(zt_engine *base, zt_executable *executable, const void *const *inputs, void *const *outputs,
                            const zt_watch *watch)
{
    ref_engine *e = (ref_engine *)base;
    zt_status status = ZT_OK;
    for (int i = 0; i < executable->plan.n_in; i++) {
        if (executable->in_value[i] < 0) continue;
        const zt_type *type = &executable->plan.type[executable->in_value[i]];
        zt_widen(type->dtype, inputs[i], (char *)e->memory + executable->in_at[i], zt_type_count(type));
    }
    for (int s = 0; s < executable->plan.n_steps && !status; s++)
        status = watch ? watch_step(e, executable, s, watch) : run_step(e, executable, s);
    for (int o = 0; o < executable->plan.n_out && !status; o++) {
        if (executable->out_value[o] < 0) continue;
        const zt_type *type = &executable->plan.type[executable->out_value[o]];
        zt_narrow(type->dtype, (char *)e->memory + executable->out_at[o], outputs[o], zt_type_count(type));
    }
    e->report.replays++;
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
    .prepare = ref_prepare,
    .unprepare = ref_unprepare,
    .replay = ref_replay,
    .report = ref_report,
};
