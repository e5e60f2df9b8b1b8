/* prepare.c - from a plan to tasks, which replay.c captures as one graph.
 *
 * Each step is asked once, with addresses that mean nothing, what it needs: kernels, scratch,
 * tables. What all of them need is made here, so that a replay allocates nothing.
 */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

enum { ALIGN = 256 };

static size_t up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- memory of the plan ---------------------------------------------------------------------- */

static zt_status lay_out(zt_cu_engine *e, zt_executable *r, zt_place_kind kind, int n, zt_layout *l,
                         size_t *total)
{
    return zt_run_schedule_lay_out(e->base.ctx, r->memory, &r->plan, kind, n, ALIGN, l, total);
}

static zt_status want_arena(zt_cu_engine *e, size_t bytes)
{
    if (e->arena.at && bytes <= e->arena.bytes) return ZT_OK;
    zt_cu_mem fresh;
    zt_status s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, bytes, &fresh);
    if (s) return s;
    zt_cu_release(e, &e->arena); /* nothing lives there between steps of the stream */
    e->arena = fresh;
    e->moved++;
    return ZT_OK;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Where a value is; 0: nowhere. */
static zt_cu_ptr address(const zt_cu_engine *e, const zt_executable *r, int v, const zt_cu_where *w,
                         bool packed)
{
    if (v < 0) return 0;
    const zt_place *p = &r->plan.place[v];
    switch (p->kind) {
    case ZT_PLACE_ARENA: return e->arena.at + p->offset;
    case ZT_PLACE_IN: return w->in ? w->in[p->index]->mem.at : r->device.at + r->in.at[p->index];
    case ZT_PLACE_OUT:
        return w->out ? w->out[p->index]->mem.at : r->device.at + r->out.at[p->index];
    case ZT_PLACE_BUF: {
        const zt_ebuf *b = r->plan.buf[p->index];
        return b->pack && !packed ? b->plain.at : b->mem.at;
    }
    case ZT_PLACE_NOWHERE: break;
    }
    return 0;
}

static bool is_there(const zt_executable *r, int v)
{
    return v >= 0 && r->plan.place[v].kind != ZT_PLACE_NOWHERE;
}

static const zt_ebuf *buffer_of(const zt_executable *r, int v)
{
    bool is = v >= 0 && r->plan.place[v].kind == ZT_PLACE_BUF;
    return is ? r->plan.buf[r->plan.place[v].index] : NULL;
}

/* The call of a task, but for addresses: the same when it is sized and when it runs. */
static void describe(zt_cu_engine *e, const zt_executable *r, const zt_cu_task *t, zt_cu_call *c)
{
    const zt_step *st = &r->plan.step[t->step];
    const zt_opinfo *info = zt_op_info(st->op);
    *c = (zt_cu_call){.e = e, .op = st->op, .attrs = st->attrs};
    for (int k = 0; k < info->n_in; k++) {
        if (!is_there(r, st->in[k])) continue;
        c->in[k] = &r->plan.type[st->in[k]];
        const zt_ebuf *b = buffer_of(r, st->in[k]);
        if (t->packed[k]) c->packed[k] = b->pack;
        if (b && b->model) c->model |= 1u << k;
    }
    for (int k = 0; k < info->n_out; k++)
        if (is_there(r, st->out[k])) c->out[k] = &r->plan.type[st->out[k]];
}

/* ---- a task run, or captured ----------------------------------------------------------------- */

zt_status zt_cu_run_task(zt_cu_engine *e, const zt_executable *r, int task, const zt_cu_where *w)
{
    const zt_cu_task *t = &r->task[task];
    const zt_step *st = &r->plan.step[t->step];
    const zt_opinfo *info = zt_op_info(st->op);
    zt_status s = ZT_OK;
    zt_cu_call c;
    describe(e, r, t, &c);
    c.tape = w->tape;
    c.sizing = w->tape && !w->tape->plays;
    for (int k = 0; k < info->n_out; k++) c.y[k] = address(e, r, st->out[k], w, false);
    for (int k = 0; k < info->n_in; k++)
        c.x[k] = t->apart >> k & 1 ? c.y[k] : address(e, r, st->in[k], w, t->packed[k]);
    for (int k = 0; k < zt_op_shares(st->op) && !s; k++)
        if (t->apart >> k & 1)
            s = zt_cu_move(&c, c.y[k], address(e, r, st->in[k], w, false),
                           zt_type_bytes(&r->plan.type[st->in[k]]));
    c.trouble = w->troubles + (size_t)task * sizeof(zt_cu_runtime_error);
    c.scratch = e->arena.at + up(r->plan.arena_bytes);
    c.tables = r->tables.at;
    c.table_bytes = t->table_at;
    return s || !t->row ? s : t->row->emit(&c);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Input k in an engine's buffer: packed where the row reads that, else plain. */
static zt_status choose_form(zt_cu_engine *e, const zt_executable *r, zt_cu_task *t, int k, int v)
{
    zt_ebuf *b = (zt_ebuf *)(uintptr_t)buffer_of(r, v);
    if (!b || !b->pack) return ZT_OK;
    t->packed[k] = t->row && t->row->weights >> k & 1 && zt_type_equal(&b->type, &r->plan.type[v]);
    return t->packed[k] ? ZT_OK : zt_cu_plain(e, b);
}

static zt_status find_row(zt_cu_engine *e, const zt_executable *r, zt_cu_task *t)
{
    const zt_step *st = &r->plan.step[t->step];
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {{0}};
    if (info->def->flags & ZT_OPF_VIEW) return ZT_OK;
    for (int k = 0; k < info->n_in; k++)
        in[k] = is_there(r, st->in[k]) ? &r->plan.type[st->in[k]] : NULL;
    zt_status s = zt_op_infer(e->base.ctx, st->op, st->attrs, in, out);
    if (!s) t->row = zt_cu_find(e, st->op, st->attrs, in, out);
    if (s || t->row) return s;
    return zt_fail(e->base.ctx, ZT_ENOTSUP, "op %s (step %d): %s has no kernel for it", info->name,
                   t->step, e->base.vt->name);
}

/* What all steps need, gathered. */
static zt_status size_task(zt_cu_engine *e, zt_executable *r, zt_cu_task *t, zt_cu_call *all)
{
    zt_cu_call c;
    describe(e, r, t, &c);
    c.sizing = true;
    for (int k = 0; k < ZT_MAX_IN; k++) c.x[k] = c.in[k] ? ALIGN : 0;
    for (int k = 0; k < ZT_MAX_OUT; k++) c.y[k] = c.out[k] ? ALIGN : 0;
    c.trouble = ALIGN;
    t->table_at = c.table_bytes = all->table_bytes;
    c.table = all->table;
    c.table_room = all->table_room;
    zt_status s = t->row ? t->row->emit(&c) : ZT_OK;
    all->table = c.table;
    all->table_room = c.table_room;
    all->table_bytes = c.table_bytes;
    if (r->scratch_bytes < c.scratch_bytes) r->scratch_bytes = c.scratch_bytes;
    r->launches += c.launches;
    return s;
}

static zt_status make_tasks(zt_cu_engine *e, zt_executable *r, zt_cu_call *all)
{
    r->task = zt_arena_alloc(r->memory, (size_t)(r->plan.n_steps + 1) * sizeof *r->task);
    if (!r->task) return ZT_ENOMEM;
    for (int i = 0; i < r->plan.n_steps; i++) {
        const zt_step *st = &r->plan.step[i];
        zt_cu_task *t = &r->task[r->n_tasks++];
        *t = (zt_cu_task){.step = i};
        for (int k = 0; k < zt_op_shares(st->op); k++)
            if (is_there(r, st->out[k]) &&
                !zt_place_same(&r->plan.place[st->in[k]], &r->plan.place[st->out[k]]))
                t->apart |= 1u << k;
        zt_status s = find_row(e, r, t);
        for (int k = 0; k < zt_op_info(st->op)->n_in && !s; k++)
            s = choose_form(e, r, t, k, st->in[k]);
        if (!s) s = size_task(e, r, t, all);
        if (s) return s;
    }
    return ZT_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Memory for inputs and outputs, and one error block a task. Each error block holds the address
 * of a flag word, which a kernel sets when it writes an error. */
static zt_status make_io(zt_cu_engine *e, zt_executable *r)
{
    size_t blocks = (size_t)r->n_tasks * sizeof(zt_cu_runtime_error), whole = r->flag_at + ALIGN;
    r->trouble_at = whole;
    zt_status s = zt_cu_alloc(e, ZT_CU_HOST_MEM, whole, &r->host);
    if (!s) s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, whole + blocks, &r->device);
    if (!s) memset(r->host.host, 0, whole);
    if (!s) s = zt_cu_clear(e, r->device.at + r->flag_at, ALIGN);
    return s ? s : zt_cu_clear_runtime_errors(e, r->device.at + r->trouble_at, r->n_tasks,
                                        r->device.at + r->flag_at);
}

static zt_status prepare(zt_cu_engine *e, zt_executable *r, const zt_run_schedule *plan)
{
    zt_cu_call all = {0};
    size_t total = 0;
    zt_status s = zt_run_schedule_copy(r->memory, plan, &r->plan);
    if (!s) s = lay_out(e, r, ZT_PLACE_IN, plan->n_in, &r->in, &total);
    r->in_total = total;
    if (!s) s = lay_out(e, r, ZT_PLACE_OUT, plan->n_out, &r->out, &total);
    r->flag_at = total;
    if (!s) s = make_tasks(e, r, &all);
    if (!s && all.table_bytes) {
        s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, all.table_bytes, &r->tables);
        if (!s) s = zt_cu_write(e, r->tables.at, all.table, all.table_bytes);
    }
    zt_free(e->base.ctx, all.table);
    if (!s && !plan->queued) s = make_io(e, r);
    if (!s) s = want_arena(e, up(plan->arena_bytes) + r->scratch_bytes);
    return s || plan->queued ? s : zt_cu_capture(e, r);
}

zt_executable *zt_cu_prepare(zt_engine *base, const zt_run_schedule *plan)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_executable *r = zt_cu_enter(e) ? NULL : zt_calloc(base->ctx, 1, sizeof *r);
    if (!r) return NULL;
    e->plans++;
    r->memory = zt_arena_new(base->ctx, 0);
    if (r->memory && prepare(e, r, plan) == ZT_OK) return r;
    zt_cu_unprepare(base, r);
    return NULL;
}

void zt_cu_unprepare(zt_engine *base, zt_executable *r)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    if (!r) return;
    e->cu.CtxSetCurrent(e->context);
    if (r->exec) e->cu.GraphExecDestroy(r->exec);
    for (int i = 0; r->times && i <= r->n_tasks; i++)
        if (r->times[i]) e->cu.EventDestroy(r->times[i]);
    zt_free(base->ctx, r->times);
    zt_cu_release(e, &r->host);
    zt_cu_release(e, &r->device);
    zt_cu_release(e, &r->tables);
    if (r->tape) zt_cu_persistent_kernel_free(e, r->tape);
    if (--e->plans == 0) zt_cu_release(e, &e->arena);
    zt_arena_free(r->memory);
    zt_free(base->ctx, r);
}
