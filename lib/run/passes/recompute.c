/* recompute.c - the pass recompute: elementwise values that would wait through the moment when most
 * memory is in use are computed again when they are next read.
 *
 * A gradient reads what its forward part made long before. Where the operands of an elementwise op
 * are there anyway when its value is next read, keeping the value costs memory and computing it
 * again a pass over it; the bits are the same. Round by round the values that wait through the peak
 * are dropped, until none is left that can be; what comes out is taken where the memory plan is at
 * least a tenth smaller. A value that nobody reads before is only moved.
 */
#include "lib/ops/pointwise.h"
#include "lib/run/passes/rewrite.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 256 };

typedef struct waiting {
    const zt_prog *p;
    zt_bound *b;
    int *root;     /* [values] */
    bool *fixed;   /* [values]: not in the arena, or of memory that views or donations share */
    int *last;     /* [values]: the step that reads it last, -1: none; of roots */
    int *before;   /* [values]: the last reader up to the peak */
    int *after;    /* [values]: the first reader past the peak */
    int *again;    /* [values]: the step before which it is computed again, -1: never */
    size_t *live;  /* [steps + 1]: changes, then bytes in use */
    int peak, found;
} waiting;

/* ---- lives ----------------------------------------------------------------------------------- */

static int born(const waiting *w, int v)
{
    const zt_value *value = zt_prog_value(w->p, v);
    return value->kind == ZT_VALUE_OP ? value->index : -1;
}

static void find_fixed(waiting *w)
{
    const zt_prog *program = w->p;
    zt_prog_roots(program, w->root);
    for (int v = 0; v < zt_prog_n_values(program); v++) {
        if (born(w, v) < 0) w->fixed[v] = true;
        if (w->root[v] != v) w->fixed[v] = w->fixed[w->root[v]] = true;
    }
    for (int o = 0; o < zt_prog_n_outputs(program); o++) w->fixed[zt_prog_output(program, o)->value] = true;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE); i++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->keep;
        if (keep >= 0) w->fixed[keep] = true;
    }
}

static void find_last(waiting *w)
{
    for (int v = 0; v < zt_prog_n_values(w->p); v++) w->last[v] = -1;
    for (int s = 0; s < zt_prog_n_steps(w->p); s++)
        for (int k = 0; k < zt_op_info(zt_prog_step(w->p, s)->op)->n_in; k++) {
            int v = zt_prog_step(w->p, s)->in[k];
            if (v >= 0) w->last[w->root[v]] = s;
        }
}

/* The step at which most bytes are in use. */
static void find_peak(waiting *w)
{
    int n = zt_prog_n_steps(w->p);
    size_t most = 0, now = 0;
    memset(w->live, 0, ((size_t)n + 1) * sizeof *w->live);
    for (int v = 0; v < zt_prog_n_values(w->p); v++) {
        int from = born(w, v);
        if (from < 0 || w->root[v] != v) continue;
        size_t bytes = zt_type_bytes(&w->b->type[v]);
        w->live[from] += bytes;
        w->live[(w->last[v] > from ? w->last[v] : from) + 1] -= bytes; /* wraps, and back */
    }
    for (int s = 0; s < n; s++) {
        now += w->live[s];
        if (now > most) w->peak = s;
        if (now > most) most = now;
    }
}

static void find_readers(waiting *w)
{
    for (int v = 0; v < zt_prog_n_values(w->p); v++) w->before[v] = w->after[v] = -1;
    for (int s = 0; s < zt_prog_n_steps(w->p); s++)
        for (int k = 0; k < zt_op_info(zt_prog_step(w->p, s)->op)->n_in; k++) {
            int v = zt_prog_step(w->p, s)->in[k];
            if (v < 0) continue;
            if (s <= w->peak) w->before[v] = s;
            if (s > w->peak && w->after[v] < 0) w->after[v] = s;
        }
}

/* Is there an elementwise value that waits, while all that it is made of waits as long? */
static bool any_waits(const waiting *w)
{
    for (int s = 0; s < zt_prog_n_steps(w->p); s++) {
        const zt_step *step = zt_prog_step(w->p, s);
        int last = w->last[step->out[0]];
        bool all = zt_pointwise_takes(step->op) && !w->fixed[step->out[0]] && last > s + 1;
        for (int k = 0; k < zt_op_info(step->op)->n_in && all; k++) {
            int in = step->in[k];
            all = born(w, in) < 0 || w->last[w->root[in]] > s + 1;
        }
        if (all) return true;
    }
    return false;
}

/* ---- what is computed again ------------------------------------------------------------------ */

/* Is it there at step s anyway? Inputs and data are; a state is only until it is used up. */
static bool there(const waiting *w, int v, int s)
{
    zt_value_kind kind = zt_prog_value(w->p, v)->kind;
    if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) return true;
    return kind == ZT_VALUE_OP && w->root[v] == v && w->last[v] >= s && !w->fixed[v];
}

static bool may_wait_no_more(const waiting *w, int v)
{
    if (w->fixed[v] || born(w, v) >= w->peak || w->after[v] < 0 || w->before[v] == w->peak)
        return false;
    const zt_step *step = zt_prog_step(w->p, born(w, v));
    bool good = zt_pointwise_takes(step->op);
    for (int k = 0; k < zt_op_info(step->op)->n_in && good; k++)
        good = there(w, step->in[k], w->after[v]);
    return good;
}

/* Later values first: theirs are more readers of the values before. */
static void choose(waiting *w)
{
    w->found = 0;
    for (int v = 0; v < zt_prog_n_values(w->p); v++) w->again[v] = -1;
    for (int v = zt_prog_n_values(w->p); v-- > 0;) {
        if (!may_wait_no_more(w, v)) continue;
        const zt_step *step = zt_prog_step(w->p, born(w, v));
        w->again[v] = w->after[v];
        w->found++;
        for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
            int in = step->in[k];
            if (w->after[in] < 0 || w->after[in] > w->again[v]) w->after[in] = w->again[v];
        }
    }
}

/* ---- the new program ------------------------------------------------------------------------- */

/* A name that neither program has: "h.2", "h.3" ... */
static void name_again(const zt_rewrite *rw, int v, char name[64])
{
    const char *was = zt_prog_value(rw->from, v)->name;
    for (int i = 2;; i++) {
        if (strlen(was) < 40)
            snprintf(name, 64, "%s.%d", was, i);
        else
            snprintf(name, 64, "again.%d", i + v);
        if (zt_prog_find(rw->from, name) < 0 && zt_prog_find(rw->to, name) < 0) return;
    }
}

static zt_status compute_again(zt_rewrite *rw, const waiting *w, int v)
{
    const zt_step *step = zt_prog_step(w->p, born(w, v));
    const char *names[ZT_MAX_OUT] = {0};
    char name[64];
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    if (w->before[v] < 0) return zt_rewrite_copy(rw, born(w, v), NULL);
    for (int k = 0; k < zt_op_info(step->op)->n_in; k++) inputs[k] = rw->map[step->in[k]];
    name_again(rw, v, name);
    names[0] = name;
    zt_status status = zt_prog_op(rw->to, step->op, step->attrs, inputs, names, outputs);
    if (!status) rw->map[v] = outputs[0];
    return status;
}

/* Values that are computed again before step s, in order: `next` links them, from first[s] on. */
static zt_status rewrite(zt_ctx *ctx, const waiting *w, zt_prog **out)
{
    int n = zt_prog_n_steps(w->p), values = zt_prog_n_values(w->p);
    zt_rewrite rw;
    int *first = zt_alloc_array(ctx, (size_t)n + 1, sizeof *first);
    int *next = zt_alloc_array(ctx, (size_t)values + 1, sizeof *next);
    zt_status status = first && next ? zt_rewrite_begin(&rw, ctx, w->p) : ZT_ENOMEM;
    bool begun = first && next;
    for (int i = 0; i < n && !status; i++) first[i] = -1;
    for (int v = values; v-- > 0 && !status;)
        if (w->again[v] >= 0) {
            next[v] = first[w->again[v]];
            first[w->again[v]] = v;
        }
    for (int i = 0; i < n && !status; i++) {
        int made = zt_prog_step(w->p, i)->out[0];
        for (int v = first[i]; v >= 0 && !status; v = next[v]) status = compute_again(&rw, w, v);
        bool moved = w->again[made] >= 0 && w->before[made] < 0;
        if (!status && !moved) status = zt_rewrite_copy(&rw, i, NULL);
    }
    if (begun) status = zt_rewrite_end(&rw, status, out);
    zt_free(ctx, first);
    zt_free(ctx, next);
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* One round: *out NULL where nothing can be dropped. */
static zt_status round_of(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    size_t values = (size_t)zt_prog_n_values(program) + 1, steps = (size_t)zt_prog_n_steps(program) + 2;
    waiting w = {.p = program};
    w.root = zt_alloc_array(ctx, values, sizeof *w.root);
    w.fixed = zt_calloc(ctx, values, sizeof *w.fixed);
    w.last = zt_alloc_array(ctx, values, sizeof *w.last);
    w.before = zt_alloc_array(ctx, values, sizeof *w.before);
    w.after = zt_alloc_array(ctx, values, sizeof *w.after);
    w.again = zt_alloc_array(ctx, values, sizeof *w.again);
    w.live = zt_alloc_array(ctx, steps, sizeof *w.live);
    zt_status status = zt_ctx_status(ctx);
    *out = NULL;
    if (!status) {
        find_fixed(&w);
        find_last(&w);
        if (any_waits(&w)) w.b = zt_prog_bind(program, opts->sample, opts->n_sample);
        status = zt_ctx_status(ctx);
    }
    if (!status && w.b) {
        find_peak(&w);
        find_readers(&w);
        choose(&w);
        if (w.found) status = rewrite(ctx, &w, out);
    }
    void *const all[] = {w.root, w.fixed, w.last, w.before, w.after, w.again, w.live};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    zt_bound_free(w.b);
    return status;
}

static zt_status take_if_smaller(const zt_prog *program, const zt_pass_opts *opts, zt_prog *best,
                                 zt_prog **out)
{
    zt_pass_figures was, is;
    zt_status status = zt_pass_measure(program, opts, &was);
    if (!status) status = zt_pass_measure(best, opts, &is);
    if (!status && is.arena <= was.arena - was.arena / 10)
        *out = best;
    else
        zt_prog_free(best);
    return status;
}

static zt_status run(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *opts, zt_prog **out)
{
    zt_prog *best = NULL;
    zt_status status = ZT_OK;
    if (!opts->engine || zt_prog_n_symbols(program) > opts->n_sample) return ZT_OK;
    for (int i = 0; i < ROUNDS && !status; i++) {
        zt_prog *better;
        status = round_of(ctx, best ? best : program, opts, &better);
        if (!better) break;
        zt_prog_free(best);
        best = better;
    }
    if (!status && best) return take_if_smaller(program, opts, best, out);
    zt_prog_free(best);
    return status;
}

const zt_pass zt_pass_recompute = {
    .name = "recompute",
    .help = "compute cheap values again rather than keep them",
    .run = run,
};
