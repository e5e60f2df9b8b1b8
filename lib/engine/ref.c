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

static zt_status must_narrow(zt_engine *e, zt_dtype t)
{
    if (zt_dtype_get(t)->kind != 'Q' || zt_dtype_get(t)->encode) return ZT_OK;
    return zt_fail(e->ctx, ZT_ENOTSUP, "ref cannot hand out values of block type %s",
                   zt_dtype_get(t)->name);
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

static void ref_close(zt_engine *e)
{
    ref_engine *r = (ref_engine *)e;
    zt_free(e->ctx, r->memory);
    zt_free(e->ctx, r);
}

static bool ref_has(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                    const zt_type out[])
{
    (void)e, (void)attrs, (void)in, (void)out;
    return zt_op_info(op)->def->ref != NULL;
}

static size_t ref_value_bytes(zt_engine *e, const zt_type *t)
{
    size_t bytes;
    (void)e;
    return zt_mul_size((size_t)zt_type_count(t), 8, &bytes) ? bytes : SIZE_MAX;
}

static void count_bytes(ref_engine *r, size_t more, size_t less)
{
    r->report.held += more - less;
    r->report.allocated += more;
    if (r->report.held > r->report.peak) r->report.peak = r->report.held;
}

static zt_ebuf *new_buf(zt_engine *e, const zt_type *t)
{
    zt_ebuf *b = zt_calloc(e->ctx, 1, sizeof *b);
    if (!b) return NULL;
    b->type = *t;
    b->bytes = ref_value_bytes(e, t);
    b->data = zt_alloc(e->ctx, b->bytes);
    if (!b->data) {
        zt_free(e->ctx, b);
        return NULL;
    }
    count_bytes((ref_engine *)e, b->bytes, 0);
    ((ref_engine *)e)->report.buffers++;
    return b;
}

static void ref_free(zt_engine *e, zt_ebuf *b)
{
    if (!b) return;
    count_bytes((ref_engine *)e, 0, b->bytes);
    ((ref_engine *)e)->report.buffers--;
    zt_free(e->ctx, b->data);
    zt_free(e->ctx, b);
}

static zt_ebuf *ref_alloc(zt_engine *e, const zt_type *t)
{
    zt_ebuf *b = new_buf(e, t);
    if (b) memset(b->data, 0, b->bytes);
    return b;
}

static zt_status load_chunks(zt_ebuf *b, const zt_store *s, int64_t handle, void *raw,
                             int64_t chunk)
{
    const zt_dtype_info *info = zt_dtype_get(b->type.dtype);
    int64_t count = zt_type_count(&b->type);
    size_t offset = 0;
    for (int64_t at = 0; at < count; at += chunk) {
        int64_t n = count - at < chunk ? count - at : chunk;
        size_t bytes = (size_t)((n + info->block - 1) / info->block) * (size_t)info->block_bytes;
        zt_status st = s->read(s->user, handle, offset, raw, bytes);
        if (st) return st;
        zt_widen(b->type.dtype, raw, (char *)b->data + (size_t)at * 8, n);
        offset += bytes;
    }
    return ZT_OK;
}

static zt_ebuf *ref_load(zt_engine *e, const zt_type *t, const zt_store *s, int64_t handle)
{
    const int64_t chunk = 64 << 10; /* elements; whole blocks of every type */
    zt_ebuf *b = new_buf(e, t);
    void *raw = zt_alloc(e->ctx, (size_t)chunk * sizeof(double));
    if (b && raw && load_chunks(b, s, handle, raw, chunk) == ZT_OK) {
        zt_free(e->ctx, raw);
        return b;
    }
    zt_free(e->ctx, raw);
    ref_free(e, b);
    return NULL;
}

static zt_status ref_upload(zt_engine *e, zt_ebuf *b, const void *host)
{
    (void)e;
    zt_widen(b->type.dtype, host, b->data, zt_type_count(&b->type));
    return ZT_OK;
}

static zt_status ref_download(zt_engine *e, const zt_ebuf *b, void *host)
{
    zt_status s = must_narrow(e, b->type.dtype);
    if (!s) zt_narrow(b->type.dtype, b->data, host, zt_type_count(&b->type));
    return s;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* Room in the engine's memory, from *total on, for each host tensor of one kind. */
static zt_status lay_out(zt_engine *e, zt_executable *r, zt_place_kind kind, int n, int **value,
                         size_t **at, size_t *total)
{
    *value = zt_arena_alloc(r->arena, (size_t)n * sizeof **value);
    *at = zt_arena_alloc(r->arena, (size_t)n * sizeof **at);
    if (!*value || !*at) return ZT_ENOMEM;
    for (int i = 0; i < n; i++) (*value)[i] = -1;
    for (int v = 0; v < r->plan.n_values; v++)
        if (r->plan.place[v].kind == kind) (*value)[r->plan.place[v].index] = v;
    for (int i = 0; i < n; i++) {
        (*at)[i] = *total;
        if ((*value)[i] < 0) continue;
        if (!zt_add_size(*total, ref_value_bytes(e, &r->plan.type[(*value)[i]]), total))
            return zt_fail(e->ctx, ZT_ENOMEM, "the plan's inputs and outputs do not fit in memory");
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

static zt_status prepare(zt_engine *e, zt_executable *r, const zt_run_schedule *plan)
{
    zt_status s = zt_run_schedule_copy(r->arena, plan, &r->plan);
    size_t total;
    if (!s && !zt_add_size(plan->arena_bytes, 63, &total))
        s = zt_fail(e->ctx, ZT_ENOMEM, "an arena of %zu bytes", plan->arena_bytes);
    if (s) return s;
    total &= ~(size_t)63;
    s = lay_out(e, r, ZT_PLACE_IN, plan->n_in, &r->in_value, &r->in_at, &total);
    if (!s) s = lay_out(e, r, ZT_PLACE_OUT, plan->n_out, &r->out_value, &r->out_at, &total);
    for (int o = 0; o < plan->n_out && !s; o++)
        if (r->out_value[o] >= 0) s = must_narrow(e, plan->type[r->out_value[o]].dtype);
    return s ? s : grow_memory((ref_engine *)e, total);
}

static void ref_unprepare(zt_engine *e, zt_executable *r)
{
    if (!r) return;
    zt_arena_free(r->arena);
    zt_free(e->ctx, r);
}

static zt_executable *ref_prepare(zt_engine *e, const zt_run_schedule *plan)
{
    zt_executable *r = zt_calloc(e->ctx, 1, sizeof *r);
    if (!r) return NULL;
    r->arena = zt_arena_new(e->ctx, 0);
    if (r->arena && prepare(e, r, plan) == ZT_OK) return r;
    ref_unprepare(e, r);
    return NULL;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void *place_of(const ref_engine *e, const zt_executable *r, int v)
{
    const zt_place *p = &r->plan.place[v];
    char *memory = e->memory;
    switch (p->kind) {
    case ZT_PLACE_ARENA: return memory + p->offset;
    case ZT_PLACE_IN: return memory + r->in_at[p->index];
    case ZT_PLACE_OUT: return memory + r->out_at[p->index];
    case ZT_PLACE_BUF: return r->plan.buf[p->index]->data;
    case ZT_PLACE_NOWHERE: break;
    }
    return NULL;
}

static zt_arg arg_of(const ref_engine *e, const zt_executable *r, int v)
{
    if (v < 0 || r->plan.place[v].kind == ZT_PLACE_NOWHERE) return (zt_arg){0};
    zt_arg a = {.type = &r->plan.type[v]};
    void *data = place_of(e, r, v);
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

static zt_status run_step(ref_engine *e, const zt_executable *r, int s)
{
    const zt_step *step = &r->plan.step[s];
    const zt_opinfo *info = zt_op_info(step->op);
    zt_arg in[ZT_MAX_IN] = {0}, out[ZT_MAX_OUT] = {0};
    zt_runtime_error t = {0};
    for (int k = 0; k < info->n_in; k++) in[k] = arg_of(e, r, step->in[k]);
    for (int k = 0; k < info->n_out; k++) out[k] = arg_of(e, r, step->out[k]);
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

static zt_status watch_step(ref_engine *e, const zt_executable *r, int s, const zt_watch *watch)
{
    zt_status st = watch->before ? watch->before(watch->user, &r->plan, s) : ZT_OK;
    if (st) return st;
    zt_span span = {.step = s, .begin = zt_seconds()};
    st = run_step(e, r, s);
    span.end = zt_seconds();
    if (!st && watch->after) watch->after(watch->user, &r->plan, s, span.end - span.begin);
    if (!st && watch->span) watch->span(watch->user, &r->plan, &span);
    return st;
}

static zt_status ref_replay(zt_engine *base, zt_executable *r, const void *const *in, void *const *out,
                            const zt_watch *watch)
{
    ref_engine *e = (ref_engine *)base;
    zt_status st = ZT_OK;
    for (int i = 0; i < r->plan.n_in; i++) {
        if (r->in_value[i] < 0) continue;
        const zt_type *t = &r->plan.type[r->in_value[i]];
        zt_widen(t->dtype, in[i], (char *)e->memory + r->in_at[i], zt_type_count(t));
    }
    for (int s = 0; s < r->plan.n_steps && !st; s++)
        st = watch ? watch_step(e, r, s, watch) : run_step(e, r, s);
    for (int o = 0; o < r->plan.n_out && !st; o++) {
        if (r->out_value[o] < 0) continue;
        const zt_type *t = &r->plan.type[r->out_value[o]];
        zt_narrow(t->dtype, (char *)e->memory + r->out_at[o], out[o], zt_type_count(t));
    }
    e->report.replays++;
    return st;
}

static zt_engine_report ref_report(const zt_engine *e) { return ((const ref_engine *)e)->report; }

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
