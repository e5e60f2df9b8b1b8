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

static void copy_setup(zt_cpu_call *c)
{
    c->items[0] = (int64_t)((zt_type_bytes(&c->in[0].type) + COPY_ITEM - 1) / COPY_ITEM);
}

static void copy_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    size_t first = (size_t)begin * COPY_ITEM, last = (size_t)end * COPY_ITEM;
    size_t bytes = zt_type_bytes(&c->in[0].type);
    (void)phase, (void)local;
    if (last > bytes) last = bytes;
    memmove((char *)c->out[0].data + first, (const char *)c->in[0].data + first, last - first);
}

static const zt_cpu_kernel copy_kernel = {.setup = copy_setup, .run = copy_run};

/* May this input be read in packed form? */
static bool reads_packed(zt_op op, int input)
{
    return zt_op_info(op)->def->weights >> input & 1 || (op == ZT_OP_gather && input == 0);
}

/* What setup wants to know of value v: its type and that it is there. */
static zt_cpu_arg arg_of(const zt_executable *r, int v, zt_place *place)
{
    *place = (zt_place){0};
    if (v < 0 || r->plan.place[v].kind == ZT_PLACE_NOWHERE) return (zt_cpu_arg){0};
    *place = r->plan.place[v];
    return (zt_cpu_arg){.type = r->plan.type[v], .data = r->task};
}

/* Input k in buffer b: in packed form where the op reads that, else plain; block types then as f32.
 */
static zt_status choose_form(zt_cpu_engine *e, zt_cpu_arg *a, zt_op op, int k, zt_ebuf *b)
{
    if (!b->packed) return ZT_OK;
    a->packed = reads_packed(op, k) && zt_type_equal(&a->type, &b->type);
    if (a->packed) return ZT_OK;
    if (!zt_cpu_plain(e, b)) return ZT_ENOMEM;
    if (zt_dtype_get(b->type.dtype)->kind == 'Q') a->type.dtype = ZT_F32;
    return ZT_OK;
}

/* The row's own loop reads no packed form. */
static zt_status unpack_inputs(zt_cpu_engine *e, const zt_executable *r, zt_cpu_task *t)
{
    for (int k = 0; k < ZT_MAX_IN; k++) {
        zt_cpu_arg *a = &t->call.in[k];
        if (!a->packed) continue;
        a->packed = false;
        if (!zt_cpu_plain(e, r->plan.buf[t->in[k].index])) return ZT_ENOMEM;
        if (zt_dtype_get(a->type.dtype)->kind == 'Q') a->type.dtype = ZT_F32;
    }
    return ZT_OK;
}

/* Operations, and 8 for every value written (where inputs are used up only for what is put in). */
static double work_of(const zt_step *st, const zt_cpu_call *c)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN];
    zt_type out[ZT_MAX_OUT];
    double work = 0;
    for (int k = 0; k < info->n_in; k++) in[k] = c->in[k].data ? &c->in[k].type : NULL;
    for (int k = 0; k < info->n_out; k++) {
        out[k] = c->out[k].type;
        if (c->out[k].data && !info->def->donates) work += 8 * (double)zt_type_count(&out[k]);
    }
    if (info->def->donates) return 8 * zt_op_flops(st->op, st->attrs, in, out);
    return c->out[0].data ? work + zt_op_flops(st->op, st->attrs, in, out) : work;
}

/* The inputs of step s, with their types as kernels see them in *in. */
static zt_status take_inputs(zt_cpu_engine *e, const zt_executable *r, int s, zt_cpu_task *t, int n)
{
    const zt_step *st = &r->plan.step[s];
    zt_status bad = ZT_OK;
    t->step = s;
    for (int k = 0; k < n && !bad; k++) {
        t->call.in[k] = arg_of(r, st->in[k], &t->in[k]);
        if (t->in[k].kind == ZT_PLACE_BUF)
            bad = choose_form(e, &t->call.in[k], st->op, k, r->plan.buf[t->in[k].index]);
    }
    return bad;
}

/* The call that convert_operands.c makes of t's, with operands in f32. */
static zt_status make_inner(zt_cpu_engine *e, const zt_executable *r, zt_op op,
                            const zt_type *const in[],
                            zt_cpu_task *t)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *with[ZT_MAX_IN] = {0};
    zt_type wide_in[ZT_MAX_IN], out[ZT_MAX_OUT], wide_out[ZT_MAX_OUT];
    zt_cpu_call *c = zt_arena_alloc(r->memory, sizeof *c);
    if (!c) return ZT_ENOMEM;
    *c = t->call;
    for (int k = 0; k < info->n_out; k++) out[k] = c->out[k].type;
    if (!zt_cpu_widened(op, c->attrs, in, out, wide_in, wide_out))
        return zt_fail(e->base.ctx, ZT_EBUG, "op %s is not to be widened", info->name);
    for (int k = 0; k < info->n_in; k++) {
        if (!in[k]) continue;
        with[k] = &wide_in[k];
        c->in[k].type = wide_in[k];
    }
    for (int k = 0; k < info->n_out; k++) c->out[k].type = wide_out[k];
    c->kernel = zt_cpu_find(e, op, c->attrs, with, wide_out);
    t->call.inner = c;
    return ZT_OK;
}

/* One call for step s, without addresses. */
static zt_status make_call(zt_cpu_engine *e, const zt_executable *r, int s, zt_cpu_task *t)
{
    const zt_step *st = &r->plan.step[s];
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {{0}};
    zt_status bad = take_inputs(e, r, s, t, info->n_in);
    for (int k = 0; k < info->n_in; k++)
        in[k] = t->call.in[k].data ? &r->plan.type[st->in[k]] : NULL;
    if (!bad) bad = zt_op_infer(e->base.ctx, st->op, st->attrs, in, out);
    if (bad) return bad;
    for (int k = 0; k < info->n_in; k++) in[k] = in[k] ? &t->call.in[k].type : NULL;
    for (int k = 0; k < info->n_out; k++) {
        t->call.out[k] = arg_of(r, st->out[k], &t->out[k]);
        t->call.out[k].type = out[k];
    }
    t->call.op = st->op;
    t->call.attrs = st->attrs;
    t->call.tile = e->tile;
    t->call.kernel = zt_cpu_find(e, st->op, st->attrs, in, out);
    if (!t->call.kernel)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "op %s (step %d): cpu has no kernel for it",
                       info->name, s);
    if (t->call.kernel == &zt_cpu_convert_operands) bad = make_inner(e, r, st->op, in, t);
    if (t->call.kernel == &zt_cpu_plain_loop) bad = unpack_inputs(e, r, t);
    t->work = work_of(st, &t->call);
    return bad;
}

/* Input k to output k. */
static zt_status make_copy(zt_cpu_engine *e, const zt_executable *r, int s, int k, zt_cpu_task *t)
{
    const zt_step *st = &r->plan.step[s];
    zt_status bad = ZT_OK;
    t->step = s;
    t->call.in[0] = arg_of(r, st->in[k], &t->in[0]);
    if (t->in[0].kind == ZT_PLACE_BUF)
        bad = choose_form(e, &t->call.in[0], st->op, k, r->plan.buf[t->in[0].index]);
    t->call.kernel = &copy_kernel;
    t->call.out[0] = arg_of(r, st->out[k], &t->out[0]);
    t->work = (double)zt_type_bytes(&t->call.in[0].type);
    return bad;
}

/* Has output k the memory of input k, but a place of its own? */
static bool is_apart(const zt_executable *r, const zt_step *st, int k)
{
    return st->out[k] >= 0 && r->plan.place[st->out[k]].kind != ZT_PLACE_NOWHERE &&
           !zt_place_same(&r->plan.place[st->in[k]], &r->plan.place[st->out[k]]);
}

static zt_status make_calls(zt_cpu_engine *e, zt_executable *r)
{
    for (int s = 0; s < r->plan.n_steps; s++) {
        const zt_step *st = &r->plan.step[s];
        int shares = zt_op_shares(st->op);
        zt_status bad = ZT_OK;
        for (int k = 0; k < shares && !bad; k++)
            if (is_apart(r, st, k)) bad = make_copy(e, r, s, k, &r->task[r->n_tasks++]);
        if (bad) return bad;
        if (zt_op_info(st->op)->def->flags & ZT_OPF_VIEW) continue;
        zt_cpu_task *t = &r->task[r->n_tasks++];
        bad = make_call(e, r, s, t);
        if (bad) return bad;
        for (int k = 0; k < shares; k++)
            if (is_apart(r, st, k)) t->in[k] = t->out[k];
    }
    return ZT_OK;
}

static zt_status set_up(zt_cpu_engine *e, zt_executable *r)
{
    size_t keep = 0;
    for (int i = 0; i < r->n_tasks; i++) {
        zt_cpu_call *c = &r->task[i].call;
        c->n_phases = 1;
        c->kernel->setup(c);
        if (!zt_add_size(keep, (c->keep_bytes + LINE - 1) / LINE * LINE, &keep))
            return zt_fail(e->base.ctx, ZT_ENOMEM, "tables of %zu bytes", c->keep_bytes);
    }
    r->keep = zt_alloc(e->base.ctx, keep);
    if (!r->keep) return ZT_ENOMEM;
    zt_cpu_held(e, keep, 0);
    r->keep_bytes = keep;
    for (size_t i = 0, at = 0; i < (size_t)r->n_tasks; i++) {
        zt_cpu_call *c = &r->task[i].call;
        if (c->keep_bytes) c->keep = r->keep + at;
        at += (c->keep_bytes + LINE - 1) / LINE * LINE;
        if (c->kernel->prime) c->kernel->prime(c);
    }
    return ZT_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static bool overlap(const zt_place *a, const zt_type *ta, const zt_place *b, const zt_type *tb)
{
    if (a->kind != b->kind || a->kind == ZT_PLACE_NOWHERE || a->index != b->index) return false;
    if (a->kind != ZT_PLACE_ARENA) return true;
    return a->offset < b->offset + zt_type_bytes(tb) && b->offset < a->offset + zt_type_bytes(ta);
}

/* Does b write what a reads or writes? */
static bool disturbs(const zt_cpu_task *b, const zt_cpu_task *a)
{
    for (int o = 0; o < ZT_MAX_OUT; o++) {
        const zt_type *t = &b->call.out[o].type;
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (overlap(&b->out[o], t, &a->in[k], &a->call.in[k].type)) return true;
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (overlap(&b->out[o], t, &a->out[k], &a->call.out[k].type)) return true;
    }
    return false;
}

static bool fits_beside(const zt_executable *r, const zt_cpu_stage *g, int i)
{
    if (g->n >= SIDE_BY_SIDE) return false;
    for (int k = g->first; k < g->first + g->n; k++)
        if (disturbs(&r->task[i], &r->task[k]) || disturbs(&r->task[k], &r->task[i])) return false;
    return true;
}

static void make_stages(zt_executable *r)
{
    for (int i = 0; i < r->n_tasks; i++) {
        zt_cpu_stage *g = r->n_stages ? &r->stage[r->n_stages - 1] : NULL;
        bool solo = r->task[i].work < TINY;
        if (g && (g->solo ? solo : fits_beside(r, g, i)))
            g->n++;
        else
            r->stage[r->n_stages++] = (zt_cpu_stage){i, 1, solo};
    }
}

/* Shared scratch: calls of a stage side by side, those of a solo one in the same place. What two
 * calls would fill alike is filled once. */
static void share_scratch(zt_executable *r, const zt_cpu_stage *g, size_t *most)
{
    size_t at = 0;
    for (int i = g->first; i < g->first + g->n; i++) {
        zt_cpu_task *t = &r->task[i];
        const zt_cpu_task *twin = NULL;
        for (int k = g->first; k < i && !g->solo && !twin; k++)
            if (t->call.kernel->alike && r->task[k].call.kernel == t->call.kernel &&
                zt_place_same(&t->in[0], &r->task[k].in[0]) &&
                t->call.kernel->alike(&r->task[k].call, &t->call))
                twin = &r->task[k];
        if (twin) {
            t->shared_at = twin->shared_at;
            t->call.items[0] = 0;
            continue;
        }
        t->shared_at = g->solo ? 0 : at;
        at = t->shared_at + (t->call.shared_bytes + LINE - 1) / LINE * LINE;
        if (at > *most) *most = at;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Parts that a phase of a call is cut into. */
static int64_t parts_of(const zt_cpu_task *t, int phase, int threads)
{
    int64_t items = phase < t->call.n_phases ? t->call.items[phase] : 0;
    int64_t each = t->call.kernel->uneven ? 32 : 8;
    int64_t parts = threads == 1 ? 1 : t->work < UNEVEN ? threads : each * threads;
    return items < parts ? items : parts;
}

static int phases_of(const zt_executable *r, const zt_cpu_stage *g)
{
    int phases = 1;
    for (int i = g->first; i < g->first + g->n; i++)
        if (r->task[i].call.n_phases > phases) phases = r->task[i].call.n_phases;
    return g->solo ? 1 : phases;
}

/* The parts of one phase of a stage, into `part` unless that is NULL; returns how many. */
static int64_t cut(const zt_executable *r, const zt_cpu_stage *g, int phase, int threads,
                   zt_cpu_part *part)
{
    int64_t n = 0;
    if (g->solo) {
        if (part) *part = (zt_cpu_part){.task = g->first, .n = g->n};
        return 1;
    }
    for (int i = g->first; i < g->first + g->n; i++) {
        const zt_cpu_task *t = &r->task[i];
        int64_t parts = parts_of(t, phase, threads);
        for (int64_t k = 0; k < parts; k++, n++)
            if (part)
                part[n] = (zt_cpu_part){.task = i,
                                        .phase = phase,
                                        .begin = t->call.items[phase] * k / parts,
                                        .end = t->call.items[phase] * (k + 1) / parts};
    }
    return n;
}

static zt_status make_rounds(zt_cpu_engine *e, zt_executable *r)
{
    int threads = zt_pool_size(e->pool);
    size_t rounds = 0, parts = 0;
    for (int i = 0; i < r->n_stages; i++)
        for (int p = 0; p < phases_of(r, &r->stage[i]); p++, rounds++)
            parts += (size_t)cut(r, &r->stage[i], p, threads, NULL);
    zt_cpu_part *part = r->part = zt_calloc(e->base.ctx, parts + 1, sizeof *part);
    r->round = zt_calloc(e->base.ctx, rounds + 1, sizeof *r->round);
    if (!part || !r->round) return ZT_ENOMEM;
    for (int i = 0; i < r->n_stages; i++) {
        for (int p = 0; p < phases_of(r, &r->stage[i]); p++) {
            int64_t n = cut(r, &r->stage[i], p, threads, part);
            if (n) r->round[r->n_rounds++] = (zt_cpu_round){.n = (int32_t)n, .part = part};
            part += n;
        }
    }
    return ZT_OK;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void resolve(const zt_cpu_engine *e, const zt_executable *r, const zt_place *p, zt_cpu_arg *a)
{
    if (p->kind == ZT_PLACE_ARENA) a->data = e->scratch + p->offset;
    if (p->kind == ZT_PLACE_BUF) {
        const zt_ebuf *b = r->plan.buf[p->index];
        a->data = b->packed && !a->packed ? b->plain : b->data;
    }
}

void zt_cpu_resolve(zt_cpu_engine *e, zt_executable *r)
{
    for (int i = 0; i < r->n_tasks; i++) {
        zt_cpu_task *t = &r->task[i];
        for (int k = 0; k < ZT_MAX_IN; k++) resolve(e, r, &t->in[k], &t->call.in[k]);
        for (int k = 0; k < ZT_MAX_OUT; k++) resolve(e, r, &t->out[k], &t->call.out[k]);
        t->call.shared = e->scratch + e->arena_bytes + t->shared_at;
    }
    r->moved = e->moved;
}

/* Which arguments are host memory, to be set at every replay. */
static zt_status list_hosts(zt_executable *r)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < r->n_tasks; i++) {
            zt_cpu_task *t = &r->task[i];
            for (int k = 0; k < ZT_MAX_IN + ZT_MAX_OUT; k++) {
                bool out = k >= ZT_MAX_IN;
                const zt_place *p = out ? &t->out[k - ZT_MAX_IN] : &t->in[k];
                if (p->kind != ZT_PLACE_IN && p->kind != ZT_PLACE_OUT) continue;
                if (pass)
                    r->host[r->n_hosts++] =
                        (zt_cpu_host){out ? &t->call.out[k - ZT_MAX_IN].data : &t->call.in[k].data,
                                      p->kind == ZT_PLACE_OUT, p->index};
                else
                    n++;
            }
        }
        if (!pass) r->host = zt_arena_alloc(r->memory, n * sizeof *r->host + 1);
        if (!r->host) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status prepare(zt_cpu_engine *e, zt_executable *r, const zt_run_schedule *plan)
{
    size_t n = (size_t)plan->n_steps + 1, shared = 0, local = 0;
    zt_status bad = zt_run_schedule_copy(r->memory, plan, &r->plan);
    if (bad) return bad;
    r->task = zt_calloc(e->base.ctx, (1 + ZT_MAX_DONATED) * n, sizeof *r->task); /* with copies */
    r->stage = zt_arena_alloc(r->memory, (1 + ZT_MAX_DONATED) * n * sizeof *r->stage);
    if (!r->task || !r->stage) return ZT_ENOMEM;
    bad = make_calls(e, r);
    if (!bad) bad = set_up(e, r);
    if (bad) return bad;
    make_stages(r);
    for (int g = 0; g < r->n_stages; g++) share_scratch(r, &r->stage[g], &shared);
    for (int i = 0; i < r->n_tasks; i++)
        if (r->task[i].call.local_bytes > local) local = r->task[i].call.local_bytes;
    bad = make_rounds(e, r);
    if (!bad) bad = list_hosts(r);
    if (!bad) bad = zt_cpu_reserve(e, plan->arena_bytes, shared, local);
    if (!bad) zt_cpu_resolve(e, r);
    return bad ? bad : zt_cpu_prefetch_next(e, r);
}

void zt_cpu_unprepare(zt_engine *base, zt_executable *r)
{
    if (!r) return;
    zt_cpu_held((zt_cpu_engine *)base, 0, r->keep_bytes);
    zt_free(base->ctx, r->keep);
    zt_free(base->ctx, r->part);
    zt_free(base->ctx, r->round);
    zt_free(base->ctx, r->task);
    zt_arena_free(r->memory);
    zt_free(base->ctx, r);
}

zt_executable *zt_cpu_prepare(zt_engine *base, const zt_run_schedule *plan)
{
    zt_executable *r = zt_calloc(base->ctx, 1, sizeof *r);
    if (!r) return NULL;
    r->memory = zt_arena_new(base->ctx, 0);
    if (r->memory && prepare((zt_cpu_engine *)base, r, plan) == ZT_OK) return r;
    zt_cpu_unprepare(base, r);
    return NULL;
}
