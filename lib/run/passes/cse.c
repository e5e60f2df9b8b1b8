/* cse.c - the pass cse: what is computed twice is computed once.
 *
 * Two steps are the same when op, attributes and inputs are. Random ops are functions of seed,
 * counter and place, and so no exception. What updates memory in place is never merged, nor what
 * makes a value that is used up later: that memory must stay its own; nor a caller's function,
 * which may do anything. Two `data` of one tensor and type are one.
 */
#include "lib/run/passes/rewrite.h"

#include <string.h>

typedef struct finder {
    const zt_prog *p;
    int *same;     /* [values]: the value that stands for it; itself as a rule */
    bool *merged;  /* [steps] */
    bool *used_up; /* [values]: a donation takes its memory */
    int *root;     /* [values] */
    int *slot;     /* [n_slots] of steps, -1: free; open addressing */
    size_t n_slots;
    int found;
} finder;

static void find_used_up(finder *f)
{
    zt_prog_roots(f->p, f->root);
    for (int s = 0; s < zt_prog_n_steps(f->p); s++) {
        const zt_step *step = zt_prog_step(f->p, s);
        for (int k = 0; k < zt_op_info(step->op)->def->donates; k++)
            f->used_up[f->root[step->in[k]]] = true;
    }
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static uint64_t step_hash(const finder *f, const zt_step *step)
{
    uint64_t h = mix((uint64_t)step->op, zt_attrs_hash(step->op, step->attrs));
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++)
        h = mix(h, (uint64_t)(step->in[k] < 0 ? -1 : f->same[step->in[k]]));
    return h;
}

static bool steps_same(const finder *f, const zt_step *a, const zt_step *b)
{
    if (a->op != b->op) return false;
    for (int k = 0; k < zt_op_info(a->op)->n_in; k++) {
        if ((a->in[k] < 0) != (b->in[k] < 0)) return false;
        if (a->in[k] >= 0 && f->same[a->in[k]] != f->same[b->in[k]]) return false;
    }
    return zt_attrs_same(a->op, a->attrs, b->attrs);
}

static bool may_merge(const finder *f, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    if (info->def->donates || info->def->flags & ZT_OPF_CALLERS) return false;
    for (int k = 0; k < info->n_out; k++)
        if (step->out[k] >= 0 && f->used_up[f->root[step->out[k]]]) return false;
    return true;
}

/* Does `first` make all that `st` does. */
static bool covers(const zt_step *first, const zt_step *step)
{
    for (int k = 0; k < ZT_MAX_OUT; k++)
        if (step->out[k] >= 0 && first->out[k] < 0) return false;
    return true;
}

static void look_at(finder *f, int s)
{
    const zt_step *step = zt_prog_step(f->p, s);
    if (!may_merge(f, step)) return;
    size_t at = step_hash(f, step) & (f->n_slots - 1);
    for (; f->slot[at] >= 0; at = (at + 1) & (f->n_slots - 1)) {
        const zt_step *first = zt_prog_step(f->p, f->slot[at]);
        if (!steps_same(f, first, step) || !covers(first, step)) continue;
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (step->out[k] >= 0) f->same[step->out[k]] = f->same[first->out[k]];
        f->merged[s] = true;
        f->found++;
        return;
    }
    f->slot[at] = s;
}

static zt_status merge_data(finder *f, zt_ctx *ctx)
{
    int64_t was;
    zt_map *seen = zt_map_new(ctx, (size_t)zt_prog_count(f->p, ZT_VALUE_DATA) + 1);
    zt_status status = seen ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < zt_prog_count(f->p, ZT_VALUE_DATA) && !status; i++) {
        int v = zt_prog_nth(f->p, ZT_VALUE_DATA, i);
        const zt_value *value = zt_prog_value(f->p, v);
        size_t n = strlen(value->tensor);
        if (!zt_map_get(seen, value->tensor, n, &was)) {
            status = zt_map_put(seen, value->tensor, n, v);
        } else if (zt_type_equal(&zt_prog_value(f->p, (int)was)->type, &value->type)) {
            f->same[v] = (int)was;
            f->found++;
        }
    }
    zt_map_free(seen);
    return status;
}

static zt_status merge(zt_ctx *ctx, const finder *f, zt_prog **out)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, f->p);
    for (int i = 0; i < zt_prog_count(f->p, ZT_VALUE_DATA) && !status; i++) {
        int v = zt_prog_nth(f->p, ZT_VALUE_DATA, i);
        rewrite.map[v] = rewrite.map[f->same[v]];
    }
    for (int i = 0; i < zt_prog_n_steps(f->p) && !status; i++) {
        const zt_step *step = zt_prog_step(f->p, i);
        if (!f->merged[i]) status = zt_rewrite_copy(&rewrite, i, NULL);
        for (int k = 0; k < ZT_MAX_OUT && f->merged[i]; k++)
            if (step->out[k] >= 0) rewrite.map[step->out[k]] = rewrite.map[f->same[step->out[k]]];
    }
    return zt_rewrite_end(&rewrite, status, out);
}

static zt_status find(finder *f, zt_ctx *ctx)
{
    for (int v = 0; v < zt_prog_n_values(f->p); v++) f->same[v] = v;
    memset(f->slot, 0xff, f->n_slots * sizeof *f->slot);
    find_used_up(f);
    zt_status status = merge_data(f, ctx);
    for (int i = 0; i < zt_prog_n_steps(f->p) && !status; i++) look_at(f, i);
    return status;
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    size_t values = (size_t)zt_prog_n_values(program) + 1, steps = (size_t)zt_prog_n_steps(program) + 1;
    finder f = {.p = program, .n_slots = 64};
    (void)opts;
    while (f.n_slots < 2 * steps) f.n_slots *= 2;
    f.same = zt_alloc_array(ctx, values, sizeof *f.same);
    f.root = zt_alloc_array(ctx, values, sizeof *f.root);
    f.used_up = zt_calloc(ctx, values, sizeof *f.used_up);
    f.merged = zt_calloc(ctx, steps, sizeof *f.merged);
    f.slot = zt_alloc_array(ctx, f.n_slots, sizeof *f.slot);
    bool room = f.same && f.root && f.used_up && f.merged && f.slot;
    zt_status status = room ? find(&f, ctx) : ZT_ENOMEM;
    if (!status && f.found) status = merge(ctx, &f, out);
    zt_free(ctx, f.same);
    zt_free(ctx, f.root);
    zt_free(ctx, f.used_up);
    zt_free(ctx, f.merged);
    zt_free(ctx, f.slot);
    return status;
}

const zt_pass zt_pass_cse = {
    .name = "cse",
    .help = "compute once what is computed twice",
    .run = run,
};
