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

static void find_roots(zt_partition *cut, const zt_bound *bound)
{
    for (int v = 0; v < bound->n_values; v++) cut->root[v] = v;
    for (int s = 0; s < cut->n_steps; s++) {
        const zt_step *step = &cut->step[s];
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (step->out[k] >= 0) cut->root[step->out[k]] = cut->root[step->in[k]];
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int pick_engine(const zt_partition *cut, zt_chain *chain, const zt_bound *bound, const zt_step *step,
                       bool strict)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {0};
    bool whole = chain->apart;
    for (int k = 0; k < info->n_in; k++) input_types[k] = step->in[k] >= 0 ? &bound->type[step->in[k]] : NULL;
    if (zt_op_infer(chain->engine[0]->ctx, step->op, step->attrs, input_types, out)) return -1;
    for (int k = 0; k < info->n_in && chain->apart_from; k++)
        if (step->in[k] >= 0 && chain->apart_from[cut->root[step->in[k]]]) chain->apart = true;
    int at = zt_chain_pick(chain, strict, step->op, step->attrs, input_types, out);
    chain->apart = whole;
    return at;
}

static zt_status cut_steps(zt_partition *cut, zt_chain *chain, const zt_bound *bound, bool strict)
{
    int *engine = zt_arena_alloc(cut->memory, (size_t)(cut->n_steps + 1) * sizeof *engine);
    if (!engine) return ZT_ENOMEM;
    for (int s = 0; s < cut->n_steps; s++) {
        bool view = zt_op_info(cut->step[s].op)->def->flags & ZT_OPF_VIEW;
        engine[s] =
            view ? (s ? engine[s - 1] : 0) : pick_engine(cut, chain, bound, &cut->step[s], strict);
        if (engine[s] < 0) return zt_ctx_status(chain->engine[0]->ctx);
        cut->fallbacks += engine[s] > 0 && !view;
        cut->n_segments += s == 0 || engine[s] != engine[s - 1];
    }
    size_t n = (size_t)cut->n_segments;
    cut->segment = zt_arena_alloc(cut->memory, (n + 1) * sizeof *cut->segment);
    if (!cut->segment) return ZT_ENOMEM;
    memset(cut->segment, 0, (n + 1) * sizeof *cut->segment);
    zt_segment *segment = cut->segment - 1;
    for (int s = 0; s < cut->n_steps; s++) {
        if (s == 0 || engine[s] != engine[s - 1])
            *++segment = (zt_segment){.engine = engine[s], .first = s};
        segment->last = s + 1;
    }
    return ZT_OK;
}

/* ---- states updated where they lie ----------------------------------------------------------- */

/* Of each root the last step that reads it; past every step: its old value is wanted at the end. */
static void find_last_reads(const zt_partition *cut, const zt_bound *bound, int *last)
{
    for (int v = 0; v < bound->n_values; v++) last[v] = -1;
    for (int s = 0; s < cut->n_steps; s++)
        for (int k = 0; k < zt_op_info(cut->step[s].op)->n_in; k++)
            if (cut->step[s].in[k] >= 0) last[cut->root[cut->step[s].in[k]]] = s;
    for (int o = 0; o < zt_prog_n_outputs(bound->prog); o++)
        if (cut->want[o]) last[cut->root[zt_prog_output(bound->prog, o)->value]] = cut->n_steps;
    for (int v = 0; v < bound->n_values; v++) {
        const zt_value *value = zt_prog_value(bound->prog, v);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0 && cut->root[value->keep] != v)
            last[cut->root[value->keep]] = cut->n_steps;
    }
}

/* Does step s bear an output over state x, which it may read? An elementwise op reads no element
 * after writing that one, whichever of its inputs and outputs lie over each other. */
static bool bears(const zt_partition *cut, const zt_bound *bound, int s, int x)
{
    const zt_step *step = &cut->step[s];
    const unsigned both = ZT_OPF_INPLACE | ZT_OPF_ELEMENTWISE;
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
        if (step->in[k] < 0 || cut->root[step->in[k]] != x) continue;
        if ((zt_op_info(step->op)->def->flags & both) != both ||
            !zt_type_equal(&bound->type[step->in[k]], &bound->type[x]))
            return false;
    }
    return true;
}

/* What step s of an engine-0 segment makes and state x keeps becomes x's own memory, where nobody
 * reads x later. Not on an engine whose values are wider than their type: there `keep` rounds. */
static void take_state(zt_partition *cut, const zt_bound *bound, zt_engine *engine, int s, int x, int last)
{
    int v = zt_prog_value(bound->prog, x)->keep;
    if (last > s || !bears(cut, bound, s, x) || !zt_type_equal(&bound->type[v], &bound->type[x]) ||
        engine->vt->value_bytes(engine, &bound->type[x]) != zt_type_bytes(&bound->type[x]))
        return;
    for (int u = 0; u < bound->n_values; u++)
        if (cut->root[u] == v) cut->root[u] = x;
}

static zt_status take_states(zt_partition *cut, const zt_chain *chain, const zt_bound *bound)
{
    size_t n = (size_t)bound->n_values + 1;
    int *last = zt_arena_alloc(cut->memory, n * sizeof *last);
    int *keeper = zt_arena_alloc(cut->memory, n * sizeof *keeper); /* [values]: the state, or -1 */
    if (!last || !keeper) return ZT_ENOMEM;
    find_last_reads(cut, bound, last);
    memset(keeper, -1, n * sizeof *keeper);
    for (int x = bound->n_values - 1; x >= 0; x--) {
        const zt_value *value = zt_prog_value(bound->prog, x);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) keeper[value->keep] = x;
    }
    for (int i = 0; i < cut->n_segments; i++) {
        const zt_segment *segment = &cut->segment[i];
        for (int s = segment->first; s < segment->last && segment->engine == 0; s++)
            for (int k = 0; k < zt_op_info(cut->step[s].op)->n_out; k++) {
                int v = cut->step[s].out[k];
                if (v >= 0 && cut->root[v] == v && keeper[v] >= 0)
                    take_state(cut, bound, chain->engine[0], s, keeper[v], last[keeper[v]]);
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

static void find_last_uses(const zt_partition *cut, const zt_bound *bound, int *made, int *last_use)
{
    for (int v = 0; v < bound->n_values; v++) made[v] = last_use[v] = -1;
    for (int s = 0; s < cut->n_steps; s++) {
        const zt_step *step = &cut->step[s];
        const zt_opinfo *info = zt_op_info(step->op);
        for (int k = 0; k < info->n_in; k++)
            if (step->in[k] >= 0) last_use[cut->root[step->in[k]]] = s;
        for (int k = 0; k < info->n_out; k++) {
            if (step->out[k] < 0) continue;
            int r = cut->root[step->out[k]];
            if (made[r] < 0 && r == step->out[k]) made[r] = s;
            if (last_use[r] < s) last_use[r] = s;
        }
    }
    for (int o = 0; o < zt_prog_n_outputs(bound->prog); o++)
        if (cut->want[o])
            want(last_use, cut->root, zt_prog_output(bound->prog, o)->value, cut->n_steps);
    for (int v = 0; v < bound->n_values; v++) {
        const zt_value *value = zt_prog_value(bound->prog, v);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0 && cut->root[value->keep] != v)
            want(last_use, cut->root, value->keep, cut->n_steps);
    }
}

/* ---- placing --------------------------------------------------------------------------------- */

static zt_status place_arena(zt_partition *cut, zt_segment *segment, const zt_bound *bound, zt_live_range *lives, int n,
                             const zt_plan_layout *stated)
{
    zt_status status = stated ? zt_plan_layout_apply(stated, cut, (int)(segment - cut->segment), bound, lives, n,
                                           &segment->arena_bytes, &segment->liveness_bytes)
                         : zt_live_ranges_place(cut->memory, lives, n, segment->first, segment->last,
                                          &segment->arena_bytes, &segment->liveness_bytes);
    for (int i = 0; i < n && !status; i++)
        segment->place[lives[i].root] = (zt_place){.kind = ZT_PLACE_ARENA, .offset = lives[i].offset};
    return status;
}

static void place_at(zt_segment *segment, int root, zt_place_kind kind, int *list, int *n)
{
    if (segment->place[root].kind != ZT_PLACE_NOWHERE) return;
    segment->place[root] = (zt_place){.kind = kind, .index = *n};
    list[(*n)++] = root;
}

/* Does the step read root r other than as its input k? */
static bool read_twice(const zt_partition *cut, const zt_step *step, int k, int r)
{
    for (int i = 0; i < zt_op_info(step->op)->n_in; i++)
        if (i != k && step->in[i] >= 0 && cut->root[step->in[i]] == r) return true;
    return false;
}

/* An op that may work in place takes over input 0 when that dies here and is of the output's type;
 * an elementwise one any such input: it reads no element after writing that one. */
static zt_live_range *life_to_extend(const zt_partition *cut, const zt_bound *bound, int s, const int *last_use,
                               zt_live_range *lives, const int *life_of)
{
    const zt_step *step = &cut->step[s];
    const zt_opinfo *info = zt_op_info(step->op);
    if (!(info->def->flags & ZT_OPF_INPLACE)) return NULL;
    int n = info->def->flags & ZT_OPF_ELEMENTWISE ? info->n_in : 1;
    for (int k = 0; k < n; k++) {
        int r = step->in[k] < 0 ? -1 : cut->root[step->in[k]];
        if (r < 0 || life_of[r] < 0 || last_use[r] != s || read_twice(cut, step, k, r)) continue;
        if (zt_type_equal(&bound->type[step->in[k]], &bound->type[step->out[0]])) return &lives[life_of[r]];
    }
    return NULL;
}

typedef struct work {
    int *made, *last_use, *life_of;
    zt_live_range *lives;
} work;

static zt_status place_step(zt_partition *cut, zt_segment *segment, const zt_bound *bound, zt_engine *engine, int s,
                            work *w, int *n_lives)
{
    const zt_step *step = &cut->step[s];
    const zt_opinfo *info = zt_op_info(step->op);
    for (int k = 0; k < info->n_in; k++) {
        if (step->in[k] < 0) continue;
        int r = cut->root[step->in[k]];
        zt_value_kind kind = zt_prog_value(bound->prog, r)->kind;
        if (kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE)
            place_at(segment, r, ZT_PLACE_BUF, segment->buf, &segment->n_bufs);
        else if (kind == ZT_VALUE_IN || w->made[r] < segment->first)
            place_at(segment, r, ZT_PLACE_IN, segment->in, &segment->n_in);
    }
    for (int k = 0; k < info->n_out; k++) {
        int r = step->out[k];
        if (r < 0) continue;
        if (zt_prog_value(bound->prog, cut->root[r])->kind == ZT_VALUE_STATE)
            place_at(segment, cut->root[r], ZT_PLACE_BUF, segment->buf, &segment->n_bufs);
        if (cut->root[r] != r) continue;
        if (w->last_use[r] >= segment->last) {
            place_at(segment, r, ZT_PLACE_OUT, segment->out, &segment->n_out);
            continue;
        }
        zt_live_range *over =
            k == 0 ? life_to_extend(cut, bound, s, w->last_use, w->lives, w->life_of) : NULL;
        if (over) {
            w->life_of[r] = (int)(over - w->lives);
            segment->over[r] = over->root;
            over->dies = w->last_use[r];
            continue;
        }
        size_t bytes = engine->vt->value_bytes(engine, &bound->type[r]);
        if (!zt_add_size(bytes, ALIGN - 1, &bytes))
            return zt_fail(engine->ctx, ZT_ENOMEM, "step %d: a value of %zu bytes", s, bytes);
        w->life_of[r] = *n_lives;
        w->lives[(*n_lives)++] = (zt_live_range){.root = r, .born = s, .dies = w->last_use[r],
                                        .bytes = bytes & ~(size_t)(ALIGN - 1)};
    }
    return ZT_OK;
}

static zt_status place_segment(zt_partition *cut, zt_segment *segment, const zt_bound *bound, zt_engine *engine, work *w,
                               const zt_plan_layout *stated)
{
    size_t n = (size_t)bound->n_values + 1;
    int n_lives = 0;
    segment->place = zt_arena_alloc(cut->memory, n * sizeof *segment->place);
    segment->in = zt_arena_alloc(cut->memory, n * sizeof(int));
    segment->out = zt_arena_alloc(cut->memory, n * sizeof(int));
    segment->buf = zt_arena_alloc(cut->memory, n * sizeof(int));
    segment->over = zt_arena_alloc(cut->memory, n * sizeof(int));
    if (!segment->over || !segment->place || !segment->in || !segment->out || !segment->buf) return ZT_ENOMEM;
    memset(segment->place, 0, n * sizeof *segment->place);
    for (int v = 0; v < bound->n_values; v++) w->life_of[v] = segment->over[v] = -1;
    for (int s = segment->first; s < segment->last; s++) {
        zt_status status = place_step(cut, segment, bound, engine, s, w, &n_lives);
        if (status) return status;
    }
    zt_status status = place_arena(cut, segment, bound, w->lives, n_lives, stated);
    if (status) return status;
    for (int v = 0; v < bound->n_values; v++)
        if (segment->over[v] >= 0) segment->place[v] = segment->place[segment->over[v]];
    for (int v = 0; v < bound->n_values; v++) segment->place[v] = segment->place[cut->root[v]];
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Which values are wanted outputs, or what a state keeps: others only if something reads them. */
static void note_wanted(const zt_partition *cut, const zt_bound *bound, bool *needed)
{
    for (int o = 0; o < zt_prog_n_outputs(bound->prog); o++)
        if (cut->want[o]) needed[zt_prog_output(bound->prog, o)->value] = true;
    for (int v = 0; v < bound->n_values; v++) {
        const zt_value *value = zt_prog_value(bound->prog, v);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) needed[value->keep] = true;
    }
}

/* Is one of its values needed, or does it write into a state? Then so are its inputs. Where every
 * output is wanted, every step runs, for its troubles too. */
static bool is_live(const zt_step *step, bool all, bool *needed)
{
    const zt_opinfo *info = zt_op_info(step->op);
    bool live = all || info->def->donates;
    for (int k = 0; k < info->n_out; k++) live = live || (step->out[k] >= 0 && needed[step->out[k]]);
    for (int k = 0; k < info->n_in; k++)
        if (live && step->in[k] >= 0) needed[step->in[k]] = true;
    return live;
}

static zt_status copy_steps(zt_partition *cut, const zt_bound *bound, void *const *outputs)
{
    int n_out = zt_prog_n_outputs(bound->prog);
    size_t n_values = (size_t)bound->n_values + 1, n_steps = (size_t)bound->n_steps + 1;
    cut->root = zt_arena_alloc(cut->memory, n_values * sizeof *cut->root);
    cut->step = zt_arena_alloc(cut->memory, n_steps * sizeof *cut->step);
    cut->want = zt_arena_alloc(cut->memory, (size_t)n_out + 1);
    bool *needed = zt_arena_alloc(cut->memory, n_values);
    bool *live = zt_arena_alloc(cut->memory, n_steps);
    if (!cut->root || !cut->step || !cut->want || !needed || !live) return ZT_ENOMEM;
    bool all = true;
    for (int o = 0; o < n_out; o++) {
        cut->want[o] = !outputs || outputs[o];
        all = all && cut->want[o];
    }
    memset(needed, 0, n_values);
    note_wanted(cut, bound, needed);
    for (int s = bound->n_steps; s-- > 0;) live[s] = is_live(zt_prog_step(bound->prog, s), all, needed);
    for (int s = 0; s < bound->n_steps; s++) {
        if (!live[s]) continue;
        cut->step[cut->n_steps] = *zt_prog_step(bound->prog, s);
        cut->step[cut->n_steps++].attrs = bound->attrs[s];
    }
    return ZT_OK;
}

static zt_status make(zt_partition *cut, zt_chain *chain, const zt_bound *bound, bool strict,
                      void *const *outputs, const zt_plan_layout *stated)
{
    size_t n = (size_t)bound->n_values + 1;
    zt_status status = copy_steps(cut, bound, outputs);
    if (status) return status;
    find_roots(cut, bound);
    status = cut_steps(cut, chain, bound, strict);
    if (!status && stated) status = zt_plan_layout_parts(stated, cut, chain);
    if (!status) status = take_states(cut, chain, bound);
    if (status) return status;
    work w = {.made = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .last_use = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .life_of = zt_arena_alloc(cut->memory, n * sizeof(int)),
              .lives = zt_arena_alloc(cut->memory, n * sizeof(zt_live_range))};
    if (!w.made || !w.last_use || !w.life_of || !w.lives) return ZT_ENOMEM;
    find_last_uses(cut, bound, w.made, w.last_use);
    for (int i = 0; i < cut->n_segments && !status; i++)
        status = place_segment(cut, &cut->segment[i], bound, chain->engine[cut->segment[i].engine], &w,
                           stated);
    return status;
}

zt_status zt_partition_make(zt_partition *cut, zt_chain *chain, const zt_bound *bound, bool strict,
                      void *const *outputs, const zt_plan_layout *stated)
{
    memset(cut, 0, sizeof *cut);
    cut->memory = zt_arena_new(chain->engine[0]->ctx, 1 << 18);
    if (!cut->memory) return ZT_ENOMEM;
    zt_status status = make(cut, chain, bound, strict, outputs, stated);
    if (status) zt_partition_free(cut);
    return status;
}

void zt_partition_free(zt_partition *cut)
{
    zt_arena_free(cut->memory);
    memset(cut, 0, sizeof *cut);
}
