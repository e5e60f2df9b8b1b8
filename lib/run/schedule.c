/* schedule.c - from a bound program to segments with a memory plan.
 *
 * Four passes: find the root of every value; cut the steps where the engine changes; let what
 * states keep be written where they lie; in each segment place the roots: host memory for what
 * crosses its border, buffers for data and states, and offsets in an
 * arena for the rest (arena.c). A value made and one that dies in the
 * same step never share bytes, save when the op may work in place.
 */
#include "lib/run/schedule.h"

#include <string.h>

enum { ALIGN = 64 };

/* ---- roots ----------------------------------------------------------------------------------- */

static void find_roots(zt_partition *cut, const zt_bound *b)
{
    for (int v = 0; v < b->n_values; v++) cut->root[v] = v;
    for (int s = 0; s < cut->n_steps; s++) {
        const zt_step *st = &cut->step[s];
        for (int k = 0; k < zt_op_shares(st->op); k++)
            if (st->out[k] >= 0) cut->root[st->out[k]] = cut->root[st->in[k]];
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int pick_engine(const zt_partition *cut, zt_chain *chain, const zt_bound *b, const zt_step *st,
                       bool strict)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {0};
    bool whole = chain->apart;
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] >= 0 ? &b->type[st->in[k]] : NULL;
    if (zt_op_infer(chain->engine[0]->ctx, st->op, st->attrs, in, out)) return -1;
    for (int k = 0; k < info->n_in && chain->apart_from; k++)
        if (st->in[k] >= 0 && chain->apart_from[cut->root[st->in[k]]]) chain->apart = true;
    int at = zt_chain_pick(chain, strict, st->op, st->attrs, in, out);
    chain->apart = whole;
    return at;
}

static zt_status cut_steps(zt_partition *cut, zt_chain *chain, const zt_bound *b, bool strict)
{
    int *engine = zt_arena_alloc(cut->memory, (size_t)(cut->n_steps + 1) * sizeof *engine);
    if (!engine) return ZT_ENOMEM;
    for (int s = 0; s < cut->n_steps; s++) {
        bool view = zt_op_info(cut->step[s].op)->def->flags & ZT_OPF_VIEW;
        engine[s] =
            view ? (s ? engine[s - 1] : 0) : pick_engine(cut, chain, b, &cut->step[s], strict);
        if (engine[s] < 0) return zt_ctx_status(chain->engine[0]->ctx);
        cut->fallbacks += engine[s] > 0 && !view;
        cut->n_segments += s == 0 || engine[s] != engine[s - 1];
    }
    size_t n = (size_t)cut->n_segments;
    cut->segment = zt_arena_alloc(cut->memory, (n + 1) * sizeof *cut->segment);
    if (!cut->segment) return ZT_ENOMEM;
    memset(cut->segment, 0, (n + 1) * sizeof *cut->segment);
    zt_segment *g = cut->segment - 1;
    for (int s = 0; s < cut->n_steps; s++) {
        if (s == 0 || engine[s] != engine[s - 1])
            *++g = (zt_segment){.engine = engine[s], .first = s};
        g->last = s + 1;
    }
    return ZT_OK;
}

/* ---- states updated where they lie ----------------------------------------------------------- */

/* Of each root the last step that reads it; past every step: its old value is wanted at the end. */
static void find_last_reads(const zt_partition *cut, const zt_bound *b, int *last)
{
    for (int v = 0; v < b->n_values; v++) last[v] = -1;
    for (int s = 0; s < cut->n_steps; s++)
        for (int k = 0; k < zt_op_info(cut->step[s].op)->n_in; k++)
            if (cut->step[s].in[k] >= 0) last[cut->root[cut->step[s].in[k]]] = s;
    for (int o = 0; o < zt_prog_n_outputs(b->prog); o++)
        if (cut->want[o]) last[cut->root[zt_prog_output(b->prog, o)->value]] = cut->n_steps;
    for (int v = 0; v < b->n_values; v++) {
        const zt_value *val = zt_prog_value(b->prog, v);
        if (val->kind == ZT_VALUE_STATE && val->keep >= 0 && cut->root[val->keep] != v)
            last[cut->root[val->keep]] = cut->n_steps;
    }
}

/* Does step s bear an output over state x, which it may read? An elementwise op reads no element
 * after writing that one, whichever of its inputs and outputs lie over each other. */
static bool bears(const zt_partition *cut, const zt_bound *b, int s, int x)
{
    const zt_step *st = &cut->step[s];
    const unsigned both = ZT_OPF_INPLACE | ZT_OPF_ELEMENTWISE;
    for (int k = 0; k < zt_op_info(st->op)->n_in; k++) {
        if (st->in[k] < 0 || cut->root[st->in[k]] != x) continue;
        if ((zt_op_info(st->op)->def->flags & both) != both ||
            !zt_type_equal(&b->type[st->in[k]], &b->type[x]))
            return false;
    }
    return true;
}

/* What step s of an engine-0 segment makes and state x keeps becomes x's own memory, where nobody
 * reads x later. Not on an engine whose values are wider than their type: there `keep` rounds. */
static void take_state(zt_partition *cut, const zt_bound *b, zt_engine *e, int s, int x, int last)
{
    int v = zt_prog_value(b->prog, x)->keep;
    if (last > s || !bears(cut, b, s, x) || !zt_type_equal(&b->type[v], &b->type[x]) ||
        e->vt->value_bytes(e, &b->type[x]) != zt_type_bytes(&b->type[x]))
        return;
    for (int u = 0; u < b->n_values; u++)
        if (cut->root[u] == v) cut->root[u] = x;
}

static zt_status take_states(zt_partition *cut, const zt_chain *chain, const zt_bound *b)
{
    size_t n = (size_t)b->n_values + 1;
    int *last = zt_arena_alloc(cut->memory, n * sizeof *last);
    int *keeper = zt_arena_alloc(cut->memory, n * sizeof *keeper); /* [values]: the state, or -1 */
    if (!last || !keeper) return ZT_ENOMEM;
    find_last_reads(cut, b, last);
    memset(keeper, -1, n * sizeof *keeper);
    for (int x = b->n_values - 1; x >= 0; x--) {
        const zt_value *val = zt_prog_value(b->prog, x);
        if (val->kind == ZT_VALUE_STATE && val->keep >= 0) keeper[val->keep] = x;
    }
    for (int i = 0; i < cut->n_segments; i++) {
        const zt_segment *g = &cut->segment[i];
        for (int s = g->first; s < g->last && g->engine == 0; s++)
            for (int k = 0; k < zt_op_info(cut->step[s].op)->n_out; k++) {
                int v = cut->step[s].out[k];
                if (v >= 0 && cut->root[v] == v && keeper[v] >= 0)
                    take_state(cut, b, chain->engine[0], s, keeper[v], last[keeper[v]]);
            }
    }
    return ZT_OK;
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* Past every step: the value is wanted on the host when the program ends. */
static void want(int *last_use, const int *root, int value, int n_steps)
{
    if (value >= 0) last_use[root[value]] = n_steps;
}

static void find_last_uses(const zt_partition *cut, const zt_bound *b, int *made, int *last_use)
{
    for (int v = 0; v < b->n_values; v++) made[v] = last_use[v] = -1;
    for (int s = 0; s < cut->n_steps; s++) {
        const zt_step *st = &cut->step[s];
        const zt_opinfo *info = zt_op_info(st->op);
        for (int k = 0; k < info->n_in; k++)
            if (st->in[k] >= 0) last_use[cut->root[st->in[k]]] = s;
        for (int k = 0; k < info->n_out; k++) {
            if (st->out[k] < 0) continue;
            int r = cut->root[st->out[k]];
            if (made[r] < 0 && r == st->out[k]) made[r] = s;
            if (last_use[r] < s) last_use[r] = s;
        }
    }
    for (int o = 0; o < zt_prog_n_outputs(b->prog); o++)
        if (cut->want[o])
            want(last_use, cut->root, zt_prog_output(b->prog, o)->value, cut->n_steps);
    for (int v = 0; v < b->n_values; v++) {
        const zt_value *val = zt_prog_value(b->prog, v);
        if (val->kind == ZT_VALUE_STATE && val->keep >= 0 && cut->root[val->keep] != v)
            want(last_use, cut->root, val->keep, cut->n_steps);
    }
}

/* ---- placing --------------------------------------------------------------------------------- */

static zt_status place_arena(zt_partition *cut, zt_segment *g, const zt_bound *b, zt_live_range *lives, int n,
                             const zt_plan_layout *stated)
{
    zt_status s = stated ? zt_plan_layout_apply(stated, cut, (int)(g - cut->segment), b, lives, n,
                                           &g->arena_bytes, &g->liveness_bytes)
                         : zt_live_ranges_place(cut->memory, lives, n, g->first, g->last,
                                          &g->arena_bytes, &g->liveness_bytes);
    for (int i = 0; i < n && !s; i++)
        g->place[lives[i].root] = (zt_place){.kind = ZT_PLACE_ARENA, .offset = lives[i].offset};
    return s;
}

static void place_at(zt_segment *g, int root, zt_place_kind kind, int *list, int *n)
{
    if (g->place[root].kind != ZT_PLACE_NOWHERE) return;
    g->place[root] = (zt_place){.kind = kind, .index = *n};
    list[(*n)++] = root;
}

/* Does the step read root r other than as its input k? */
static bool read_twice(const zt_partition *cut, const zt_step *st, int k, int r)
{
    for (int i = 0; i < zt_op_info(st->op)->n_in; i++)
        if (i != k && st->in[i] >= 0 && cut->root[st->in[i]] == r) return true;
    return false;
}

/* An op that may work in place takes over input 0 when that dies here and is of the output's type;
 * an elementwise one any such input: it reads no element after writing that one. */
static zt_live_range *life_to_extend(const zt_partition *cut, const zt_bound *b, int s, const int *last_use,
                               zt_live_range *lives, const int *life_of)
{
    const zt_step *st = &cut->step[s];
    const zt_opinfo *info = zt_op_info(st->op);
    if (!(info->def->flags & ZT_OPF_INPLACE)) return NULL;
    int n = info->def->flags & ZT_OPF_ELEMENTWISE ? info->n_in : 1;
    for (int k = 0; k < n; k++) {
        int r = st->in[k] < 0 ? -1 : cut->root[st->in[k]];
        if (r < 0 || life_of[r] < 0 || last_use[r] != s || read_twice(cut, st, k, r)) continue;
        if (zt_type_equal(&b->type[st->in[k]], &b->type[st->out[0]])) return &lives[life_of[r]];
    }
    return NULL;
}

typedef struct work {
    int *made, *last_use, *life_of;
    zt_live_range *lives;
} work;

static zt_status place_step(zt_partition *cut, zt_segment *g, const zt_bound *b, zt_engine *e, int s,
                            work *w, int *n_lives)
{
    const zt_step *st = &cut->step[s];
    const zt_opinfo *info = zt_op_info(st->op);
    for (int k = 0; k < info->n_in; k++) {
        if (st->in[k] < 0) continue;
        int r = cut->root[st->in[k]];
        zt_value_kind kind = zt_prog_value(b->prog, r)->kind;
        if (kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE)
            place_at(g, r, ZT_PLACE_BUF, g->buf, &g->n_bufs);
        else if (kind == ZT_VALUE_IN || w->made[r] < g->first)
            place_at(g, r, ZT_PLACE_IN, g->in, &g->n_in);
    }
    for (int k = 0; k < info->n_out; k++) {
        int r = st->out[k];
        if (r < 0) continue;
        if (zt_prog_value(b->prog, cut->root[r])->kind == ZT_VALUE_STATE)
            place_at(g, cut->root[r], ZT_PLACE_BUF, g->buf, &g->n_bufs);
        if (cut->root[r] != r) continue;
        if (w->last_use[r] >= g->last) {
            place_at(g, r, ZT_PLACE_OUT, g->out, &g->n_out);
            continue;
        }
        zt_live_range *over =
            k == 0 ? life_to_extend(cut, b, s, w->last_use, w->lives, w->life_of) : NULL;
        if (over) {
            w->life_of[r] = (int)(over - w->lives);
            g->over[r] = over->root;
            over->dies = w->last_use[r];
            continue;
        }
        size_t bytes = e->vt->value_bytes(e, &b->type[r]);
        if (!zt_add_size(bytes, ALIGN - 1, &bytes))
            return zt_fail(e->ctx, ZT_ENOMEM, "step %d: a value of %zu bytes", s, bytes);
        w->life_of[r] = *n_lives;
        w->lives[(*n_lives)++] = (zt_live_range){.root = r, .born = s, .dies = w->last_use[r],
                                        .bytes = bytes & ~(size_t)(ALIGN - 1)};
    }
    return ZT_OK;
}

static zt_status place_segment(zt_partition *cut, zt_segment *g, const zt_bound *b, zt_engine *e, work *w,
                               const zt_plan_layout *stated)
{
    size_t n = (size_t)b->n_values + 1;
    int n_lives = 0;
    g->place = zt_arena_alloc(cut->memory, n * sizeof *g->place);
    g->in = zt_arena_alloc(cut->memory, n * sizeof(int));
    g->out = zt_arena_alloc(cut->memory, n * sizeof(int));
    g->buf = zt_arena_alloc(cut->memory, n * sizeof(int));
    g->over = zt_arena_alloc(cut->memory, n * sizeof(int));
    if (!g->over || !g->place || !g->in || !g->out || !g->buf) return ZT_ENOMEM;
    memset(g->place, 0, n * sizeof *g->place);
    for (int v = 0; v < b->n_values; v++) w->life_of[v] = g->over[v] = -1;
    for (int s = g->first; s < g->last; s++) {
        zt_status st = place_step(cut, g, b, e, s, w, &n_lives);
        if (st) return st;
    }
    zt_status st = place_arena(cut, g, b, w->lives, n_lives, stated);
    if (st) return st;
    for (int v = 0; v < b->n_values; v++)
        if (g->over[v] >= 0) g->place[v] = g->place[g->over[v]];
    for (int v = 0; v < b->n_values; v++) g->place[v] = g->place[cut->root[v]];
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Which values are wanted outputs, or what a state keeps: others only if something reads them. */
static void note_wanted(const zt_partition *cut, const zt_bound *b, bool *needed)
{
    for (int o = 0; o < zt_prog_n_outputs(b->prog); o++)
        if (cut->want[o]) needed[zt_prog_output(b->prog, o)->value] = true;
    for (int v = 0; v < b->n_values; v++) {
        const zt_value *val = zt_prog_value(b->prog, v);
        if (val->kind == ZT_VALUE_STATE && val->keep >= 0) needed[val->keep] = true;
    }
}

/* Is one of its values needed, or does it write into a state? Then so are its inputs. Where every
 * output is wanted, every step runs, for its troubles too. */
static bool is_live(const zt_step *st, bool all, bool *needed)
{
    const zt_opinfo *info = zt_op_info(st->op);
    bool live = all || info->def->donates;
    for (int k = 0; k < info->n_out; k++) live = live || (st->out[k] >= 0 && needed[st->out[k]]);
    for (int k = 0; k < info->n_in; k++)
        if (live && st->in[k] >= 0) needed[st->in[k]] = true;
    return live;
}

static zt_status copy_steps(zt_partition *cut, const zt_bound *b, void *const *out)
{
    int n_out = zt_prog_n_outputs(b->prog);
    size_t n_values = (size_t)b->n_values + 1, n_steps = (size_t)b->n_steps + 1;
    cut->root = zt_arena_alloc(cut->memory, n_values * sizeof *cut->root);
    cut->step = zt_arena_alloc(cut->memory, n_steps * sizeof *cut->step);
    cut->want = zt_arena_alloc(cut->memory, (size_t)n_out + 1);
    bool *needed = zt_arena_alloc(cut->memory, n_values);
    bool *live = zt_arena_alloc(cut->memory, n_steps);
    if (!cut->root || !cut->step || !cut->want || !needed || !live) return ZT_ENOMEM;
    bool all = true;
    for (int o = 0; o < n_out; o++) {
        cut->want[o] = !out || out[o];
        all = all && cut->want[o];
    }
    memset(needed, 0, n_values);
    note_wanted(cut, b, needed);
    for (int s = b->n_steps; s-- > 0;) live[s] = is_live(zt_prog_step(b->prog, s), all, needed);
    for (int s = 0; s < b->n_steps; s++) {
        if (!live[s]) continue;
        cut->step[cut->n_steps] = *zt_prog_step(b->prog, s);
        cut->step[cut->n_steps++].attrs = b->attrs[s];
    }
    return ZT_OK;
}

static zt_status make(zt_partition *cut, zt_chain *chain, const zt_bound *b, bool strict,
                      void *const *out, const zt_plan_layout *stated)
{
    size_t n = (size_t)b->n_values + 1;
    zt_status st = copy_steps(cut, b, out);
    if (st) return st;
    find_roots(cut, b);
    st = cut_steps(cut, chain, b, strict);
    if (!st && stated) st = zt_plan_layout_parts(stated, cut, chain);
    if (!st) st = take_states(cut, chain, b);
    if (st) return st;
    work w = {.made = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .last_use = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .life_of = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .lives = zt_arena_alloc(cut->memory, n * sizeof(zt_live_range))};
    if (!w.made || !w.last_use || !w.life_of || !w.lives) return ZT_ENOMEM;
    find_last_uses(cut, b, w.made, w.last_use);
    for (int i = 0; i < cut->n_segments && !st; i++)
        st = place_segment(cut, &cut->segment[i], b, chain->engine[cut->segment[i].engine], &w,
                           stated);
    return st;
}

zt_status zt_partition_make(zt_partition *cut, zt_chain *chain, const zt_bound *b, bool strict,
                      void *const *out, const zt_plan_layout *stated)
{
    memset(cut, 0, sizeof *cut);
    cut->memory = zt_arena_new(chain->engine[0]->ctx, 1 << 18);
    if (!cut->memory) return ZT_ENOMEM;
    zt_status st = make(cut, chain, b, strict, out, stated);
    if (st) zt_partition_free(cut);
    return st;
}

void zt_partition_free(zt_partition *cut)
{
    zt_arena_free(cut->memory);
    memset(cut, 0, sizeof *cut);
}
