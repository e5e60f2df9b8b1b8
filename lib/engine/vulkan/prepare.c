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

static zt_status lay_out(zt_vk_engine *e, zt_executable *r, zt_place_kind kind, int n, zt_layout *l,
                         size_t *total)
{
    return zt_run_schedule_lay_out(e->base.ctx, r->memory, &r->plan, kind, n, ALIGN, l, total);
}

static zt_status want_arena(zt_vk_engine *e, size_t bytes)
{
    if (e->arena.buffer && bytes <= e->arena.bytes) return ZT_OK;
    zt_vk_mem fresh;
    zt_status s = zt_vk_alloc(e, ZT_VK_DEVICE_MEM, bytes, &fresh);
    if (s) return s;
    zt_vk_release(e, &e->arena); /* nothing lives there between replays */
    e->arena = fresh;
    e->moved++;
    return ZT_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static zt_vk_operand operand_of(const zt_executable *r, int v)
{
    return (zt_vk_operand){.place = v < 0 ? (zt_place){0} : r->plan.place[v]};
}

static void add_copy(zt_executable *r, int s, int k)
{
    const zt_step *st = &r->plan.step[s];
    zt_vk_task *t = &r->task[r->n_tasks++];
    *t = (zt_vk_task){.act = ZT_VK_COPY, .step = s, .n_operands = 2, .table_at = -1};
    t->operand[0] = operand_of(r, st->in[k]);
    t->operand[1] = operand_of(r, st->out[k]);
    t->bytes = zt_type_bytes(&r->plan.type[st->in[k]]);
}

/* Operand k in an engine's buffer: packed where the kernel reads that, else plain. */
static zt_status choose_form(zt_vk_engine *e, const zt_executable *r, const zt_vk_kernel *k, int i,
                             const zt_type *type, zt_vk_operand *o, zt_vk_call *c)
{
    bool may = k->weight == i + 1;
    zt_ebuf *b = o->place.kind == ZT_PLACE_BUF ? r->plan.buf[o->place.index] : NULL;
    if (may) c->packed = zt_vk_pack_of(type->dtype);
    if (b && b->pack && may && zt_type_equal(&b->type, type)) {
        o->pack = b->pack;
        return ZT_OK;
    }
    if (may) c->plain = true;
    return b && b->pack ? zt_vk_plain(e, b) : ZT_OK;
}

typedef struct tables { /* what kernels' tables hold, gathered to be written at once */
    uint32_t *word;
    size_t n, room;
} tables;

static zt_status keep_table(zt_vk_engine *e, zt_vk_call *c, tables *all, zt_vk_task *t)
{
    size_t need = all->n + c->table_words + ALIGN / 4;
    if (need > all->room) {
        size_t room = need > 2 * all->room ? need : 2 * all->room;
        uint32_t *more = zt_realloc(e->base.ctx, all->word, room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        all->word = more;
        all->room = room;
    }
    t->table_offset = all->n * sizeof *all->word;
    memcpy(all->word + all->n, c->table, c->table_words * sizeof *c->table);
    all->n += (c->table_words + ALIGN / 4 - 1) / (ALIGN / 4) * (ALIGN / 4);
    return ZT_OK;
}

static zt_status finish_task(zt_vk_engine *e, zt_vk_call *c, tables *all, zt_vk_task *t)
{
    zt_status s = c->table ? keep_table(e, c, all, t) : ZT_OK;
    zt_free(e->base.ctx, c->table);
    if (s) return s;
    memcpy(t->groups, c->groups, sizeof t->groups);
    memcpy(t->word, c->word, sizeof t->word);
    if (!t->groups[0] || !t->groups[1]) return ZT_OK;
    for (int d = 0; d < 3; d++)
        if (t->groups[d] > e->groups[d])
            return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: %u workgroups of %u",
                           t->groups[d], e->groups[d]);
    t->pipeline = zt_vk_pipeline(e, c);
    return t->pipeline ? ZT_OK : zt_ctx_status(e->base.ctx);
}

/* Dispatch before a kernel's own: input 0, at `from`, into the scratch, which then is `from`. */
static zt_status add_before(zt_vk_engine *e, zt_executable *r, int s, const zt_vk_kernel *kernel,
                            zt_vk_call c, zt_vk_operand *from)
{
    kernel->before(e, &c);
    if (c.scratch_bytes == 0) return ZT_OK;
    const zt_vk_call *last = &r->scratch;
    int value = r->plan.step[s].in[0];
    bool there = r->scratch_of == value && last->shader == c.shader &&
                 !memcmp(last->spec, c.spec, sizeof c.spec) &&
                 !memcmp(last->word, c.word, sizeof c.word);
    zt_vk_operand scratch = {.place = {.kind = ZT_PLACE_ARENA, .offset = up(r->plan.arena_bytes)}};
    if (r->scratch_bytes < c.scratch_bytes) r->scratch_bytes = c.scratch_bytes;
    zt_vk_task *t = &r->task[r->n_tasks];
    *t = (zt_vk_task){.act = ZT_VK_DISPATCH, .step = s, .n_operands = 2, .table_at = -1};
    t->operand[0] = *from;
    t->operand[1] = *from = scratch;
    if (there) return ZT_OK;
    r->n_tasks++;
    r->scratch = c;
    r->scratch_of = value;
    return finish_task(e, &c, NULL, t);
}

/* Operands: inputs, the step's table if it has one, outputs. Inputs of `apart` (bit k) were copied
 * to the outputs of their number. */
static zt_status add_dispatch(zt_vk_engine *e, zt_executable *r, int s, unsigned apart, tables *all)
{
    const zt_step *st = &r->plan.step[s];
    const zt_opinfo *info = zt_op_info(st->op);
    zt_vk_task task = {.act = ZT_VK_DISPATCH, .step = s, .table_at = -1}, *t = &task;
    zt_vk_call c = {.attrs = st->attrs};
    zt_type out[ZT_MAX_OUT] = {{0}};
    for (int k = 0; k < info->n_in; k++) {
        bool is = st->in[k] >= 0 && r->plan.place[st->in[k]].kind != ZT_PLACE_NOWHERE;
        c.in[k] = is ? &r->plan.type[st->in[k]] : NULL;
    }
    c.spec[ZT_VK_FLOATS] = c.in[0] ? zt_vk_floats(c.in[0]->dtype) : 0;
    zt_status bad = zt_op_infer(e->base.ctx, st->op, st->attrs, c.in, out);
    const zt_vk_kernel *kernel = bad ? NULL : zt_vk_find(e, st->op, st->attrs, c.in, out);
    if (!bad && !kernel)
        bad = zt_fail(e->base.ctx, ZT_ENOTSUP, "op %s (step %d): vulkan has no kernel for it",
                      info->name, s);
    const int most = kernel && kernel->many ? ZT_VK_MANY : ZT_VK_FEW;
    for (int k = 0; k < info->n_in && t->n_operands < most && !bad; k++) {
        zt_vk_operand *o = &t->operand[t->n_operands++];
        *o = operand_of(r, apart >> k & 1 ? st->out[k] : c.in[k] ? st->in[k] : -1);
        if (c.in[k]) bad = choose_form(e, r, kernel, k, c.in[k], o, &c);
    }
    c.out = out;
    for (int k = 0; k < info->n_out; k++)
        c.wanted[k] = st->out[k] >= 0 && r->plan.place[st->out[k]].kind != ZT_PLACE_NOWHERE;
    if (!bad && kernel->before) bad = add_before(e, r, s, kernel, c, &t->operand[0]);
    if (!bad) bad = kernel->set(e, &c);
    if (bad) return bad;
    if (c.table) t->table_at = t->n_operands++;
    for (int k = 0; k < info->n_out && t->n_operands < most; k++)
        t->operand[t->n_operands++] = operand_of(r, st->out[k]);
    bad = finish_task(e, &c, all, t);
    r->task[r->n_tasks++] = task;
    return bad;
}

static zt_status make_tasks(zt_vk_engine *e, zt_executable *r, tables *all)
{
    int most = (2 + ZT_MAX_DONATED) * r->plan.n_steps + 1;
    r->task = zt_arena_alloc(r->memory, (size_t)most * sizeof *r->task);
    if (!r->task) return ZT_ENOMEM;
    for (int s = 0; s < r->plan.n_steps; s++) {
        const zt_step *st = &r->plan.step[s];
        unsigned apart = 0;
        for (int k = 0; k < zt_op_shares(st->op); k++) {
            if (st->out[k] < 0 || r->plan.place[st->out[k]].kind == ZT_PLACE_NOWHERE ||
                zt_place_same(&r->plan.place[st->in[k]], &r->plan.place[st->out[k]]))
                continue;
            add_copy(r, s, k);
            apart |= 1u << k;
        }
        bool view = zt_op_info(st->op)->def->flags & ZT_OPF_VIEW;
        zt_status bad = view ? ZT_OK : add_dispatch(e, r, s, apart, all);
        if (bad) return bad;
    }
    return ZT_OK;
}

static zt_status write_tables(zt_vk_engine *e, zt_executable *r, const tables *all)
{
    if (all->n == 0) return ZT_OK;
    zt_status s = zt_vk_alloc(e, ZT_VK_DEVICE_MEM, all->n * sizeof *all->word, &r->tables);
    return s ? s : zt_vk_write(e, &r->tables, 0, all->word, all->n * sizeof *all->word);
}

static zt_status prepare(zt_vk_engine *e, zt_executable *r, const zt_run_schedule *plan)
{
    size_t total = 0;
    tables all = {0};
    zt_status s = zt_run_schedule_copy(r->memory, plan, &r->plan);
    if (!s) s = lay_out(e, r, ZT_PLACE_IN, plan->n_in, &r->in, &total);
    if (!s) s = lay_out(e, r, ZT_PLACE_OUT, plan->n_out, &r->out, &total);
    r->scratch_of = -1;
    if (!s) s = make_tasks(e, r, &all);
    if (!s) s = write_tables(e, r, &all);
    zt_free(e->base.ctx, all.word);
    r->trouble_at = total;
    if (!s && !plan->queued)
        s = zt_vk_alloc(e, ZT_VK_HOST_MEM, total + (size_t)r->n_tasks * ZT_VK_TROUBLE, &r->host);
    if (!s) s = want_arena(e, up(plan->arena_bytes) + r->scratch_bytes);
    return s || plan->queued ? s : zt_vk_record(e, r, false);
}

zt_executable *zt_vk_prepare(zt_engine *base, const zt_run_schedule *plan)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_executable *r = zt_calloc(base->ctx, 1, sizeof *r);
    if (!r) return NULL;
    e->plans++;
    r->memory = zt_arena_new(base->ctx, 0);
    if (r->memory && prepare(e, r, plan) == ZT_OK) return r;
    zt_vk_unprepare(base, r);
    return NULL;
}

void zt_vk_unprepare(zt_engine *base, zt_executable *r)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    if (!r) return;
    if (r->commands) e->vk.FreeCommandBuffers(e->device, e->commands, 1, &r->commands);
    if (r->times) e->vk.DestroyQueryPool(e->device, r->times, NULL);
    zt_vk_release(e, &r->host);
    zt_vk_release(e, &r->tables);
    if (--e->plans == 0) zt_vk_release(e, &e->arena);
    zt_arena_free(r->memory);
    zt_free(base->ctx, r);
}
