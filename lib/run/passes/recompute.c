/* recompute.c - the pass recompute: elementwise values that would wait through the moment when most
 * memory is in use are computed again when they are next read.
 *
 * A gradient reads what its forward part made long before. Where the operands of an elementwise op
 * are there anyway when its value is next read, keeping the value costs memory and computing it
 * again a pass over it; the bits are the same. Round by round the values that wait through the peak
 * are dropped, until none is left that can be; what comes out is taken where the memory of its schedules is at
 * least a tenth smaller. A value that nobody reads before is only moved.
 */
#include "lib/ops/pointwise.h"
#include "lib/run/passes/rewrite.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 256 };

typedef struct wait_state {
    const zt_prog *program;
    zt_bound *bound;
    int *roots;      /* [values] */
    bool *fixed;     /* [values]: not in the arena, or of memory that views or donations share */
    int *last_reads; /* [values]: the step that reads it last, -1: none; of roots */
    int *before;     /* [values]: the last reader up to the peak */
    int *after;      /* [values]: the first reader past the peak */
    int *again;      /* [values]: the step before which it is computed again, -1: never */
    size_t *live;    /* [steps + 1]: changes, then bytes in use */
    int peak, found;
} wait_state;

/* ---- live ranges ----------------------------------------------------------------------------- */

static int made_at(const wait_state *waiting, int value_id)
{
    const zt_value *value = zt_prog_value(waiting->program, value_id);
    return value->kind == ZT_VALUE_OP ? value->index : -1;
}

static void find_fixed(wait_state *waiting)
{
    const zt_prog *program = waiting->program;
    zt_prog_roots(program, waiting->roots);
    for (int value_id = 0; value_id < zt_prog_n_values(program); value_id++) {
        if (made_at(waiting, value_id) < 0) waiting->fixed[value_id] = true;
        if (waiting->roots[value_id] != value_id) waiting->fixed[value_id] = waiting->fixed[waiting->roots[value_id]] = true;
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        waiting->fixed[zt_prog_output(program, output_index)->value] = true;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE); state_index++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, state_index))->keep;
        if (keep >= 0) waiting->fixed[keep] = true;
    }
}

static void find_last(wait_state *waiting)
{
    for (int value_id = 0; value_id < zt_prog_n_values(waiting->program); value_id++) waiting->last_reads[value_id] = -1;
    for (int step_index = 0; step_index < zt_prog_n_steps(waiting->program); step_index++)
        for (int input = 0; input < zt_op_info(zt_prog_step(waiting->program, step_index)->op)->n_in; input++) {
            int value_id = zt_prog_step(waiting->program, step_index)->in[input];
            if (value_id >= 0) waiting->last_reads[waiting->roots[value_id]] = step_index;
        }
}

/* The step at which most bytes are in use. */
static void find_peak(wait_state *waiting)
{
    int step_count = zt_prog_n_steps(waiting->program);
    size_t most = 0, now = 0;
    memset(waiting->live, 0, ((size_t)step_count + 1) * sizeof *waiting->live);
    for (int value_id = 0; value_id < zt_prog_n_values(waiting->program); value_id++) {
        int from = made_at(waiting, value_id);
        if (from < 0 || waiting->roots[value_id] != value_id) continue;
        size_t bytes = zt_type_bytes(&waiting->bound->type[value_id]);
        waiting->live[from] += bytes;
        waiting->live[(waiting->last_reads[value_id] > from ? waiting->last_reads[value_id] : from) + 1] -=
            bytes; /* wraps, and back */
    }
    for (int step_index = 0; step_index < step_count; step_index++) {
        now += waiting->live[step_index];
        if (now > most) waiting->peak = step_index;
        if (now > most) most = now;
    }
}

static void find_readers(wait_state *waiting)
{
    for (int value_id = 0; value_id < zt_prog_n_values(waiting->program); value_id++)
        waiting->before[value_id] = waiting->after[value_id] = -1;
    for (int step_index = 0; step_index < zt_prog_n_steps(waiting->program); step_index++)
        for (int input = 0; input < zt_op_info(zt_prog_step(waiting->program, step_index)->op)->n_in; input++) {
            int value_id = zt_prog_step(waiting->program, step_index)->in[input];
            if (value_id < 0) continue;
            if (step_index <= waiting->peak) waiting->before[value_id] = step_index;
            if (step_index > waiting->peak && waiting->after[value_id] < 0) waiting->after[value_id] = step_index;
        }
}

/* Is there an elementwise value that waits, while all that it is made of waits as long? */
static bool any_waits(const wait_state *waiting)
{
    for (int step_index = 0; step_index < zt_prog_n_steps(waiting->program); step_index++) {
        const zt_step *step = zt_prog_step(waiting->program, step_index);
        int last = waiting->last_reads[step->out[0]];
        bool all = zt_pointwise_takes(step->op) && !waiting->fixed[step->out[0]] && last > step_index + 1;
        for (int k = 0; k < zt_op_info(step->op)->n_in && all; k++) {
            int input = step->in[k];
            all = made_at(waiting, input) < 0 || waiting->last_reads[waiting->roots[input]] > step_index + 1;
        }
        if (all) return true;
    }
    return false;
}

/* ---- what is computed again ------------------------------------------------------------------ */

/* Is it there at the step anyway? Inputs and data are; a state is only until it is used up. */
static bool is_there(const wait_state *waiting, int value_id, int step_index)
{
    zt_value_kind kind = zt_prog_value(waiting->program, value_id)->kind;
    if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) return true;
    return kind == ZT_VALUE_OP && waiting->roots[value_id] == value_id && waiting->last_reads[value_id] >= step_index &&
           !waiting->fixed[value_id];
}

static bool may_wait_no_more(const wait_state *waiting, int value_id)
{
    if (waiting->fixed[value_id] || made_at(waiting, value_id) >= waiting->peak || waiting->after[value_id] < 0 ||
        waiting->before[value_id] == waiting->peak)
        return false;
    const zt_step *step = zt_prog_step(waiting->program, made_at(waiting, value_id));
    bool good = zt_pointwise_takes(step->op);
    for (int input = 0; input < zt_op_info(step->op)->n_in && good; input++)
        good = is_there(waiting, step->in[input], waiting->after[value_id]);
    return good;
}

/* Later values first: theirs are more readers of the values before. */
static void choose_values(wait_state *waiting)
{
    waiting->found = 0;
    for (int value_id = 0; value_id < zt_prog_n_values(waiting->program); value_id++) waiting->again[value_id] = -1;
    for (int value_id = zt_prog_n_values(waiting->program); value_id-- > 0;) {
        if (!may_wait_no_more(waiting, value_id)) continue;
        const zt_step *step = zt_prog_step(waiting->program, made_at(waiting, value_id));
        waiting->again[value_id] = waiting->after[value_id];
        waiting->found++;
        for (int k = 0; k < zt_op_info(step->op)->n_in; k++) {
            int input = step->in[k];
            if (waiting->after[input] < 0 || waiting->after[input] > waiting->again[value_id])
                waiting->after[input] = waiting->again[value_id];
        }
    }
}

/* ---- the new program ------------------------------------------------------------------------- */

/* A name that neither program has: "h.2", "h.3" ... */
static void name_again(const zt_rewrite *rewrite, int value_id, char name[64])
{
    const char *was = zt_prog_value(rewrite->source, value_id)->name;
    for (int i = 2;; i++) {
        if (strlen(was) < 40)
            snprintf(name, 64, "%s.%d", was, i);
        else
            snprintf(name, 64, "again.%d", i + value_id);
        if (zt_prog_find(rewrite->source, name) < 0 && zt_prog_find(rewrite->target, name) < 0) return;
    }
}

static zt_status compute_again(zt_rewrite *rewrite, const wait_state *waiting, int value_id)
{
    const zt_step *step = zt_prog_step(waiting->program, made_at(waiting, value_id));
    const char *names[ZT_MAX_OUT] = {0};
    char name[64];
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    if (waiting->before[value_id] < 0) return zt_rewrite_copy(rewrite, made_at(waiting, value_id), NULL);
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) inputs[input] = rewrite->map[step->in[input]];
    name_again(rewrite, value_id, name);
    names[0] = name;
    zt_status status = zt_prog_op(rewrite->target, step->op, step->attrs, inputs, names, outputs);
    if (!status) rewrite->map[value_id] = outputs[0];
    return status;
}

/* Values that are computed again before step s, in order: `next` links them, from first[s] on. */
static zt_status rewrite_program(zt_ctx *ctx, const wait_state *waiting, zt_prog **rewritten)
{
    int step_count = zt_prog_n_steps(waiting->program), value_count = zt_prog_n_values(waiting->program);
    zt_rewrite rewrite;
    int *first = zt_alloc_array(ctx, (size_t)step_count + 1, sizeof *first);
    int *next = zt_alloc_array(ctx, (size_t)value_count + 1, sizeof *next);
    zt_status status = first && next ? zt_rewrite_begin(&rewrite, ctx, waiting->program) : ZT_ENOMEM;
    bool begun = first && next;
    for (int step_index = 0; step_index < step_count && !status; step_index++) first[step_index] = -1;
    for (int value_id = value_count; value_id-- > 0 && !status;)
        if (waiting->again[value_id] >= 0) {
            next[value_id] = first[waiting->again[value_id]];
            first[waiting->again[value_id]] = value_id;
        }
    for (int step_index = 0; step_index < step_count && !status; step_index++) {
        int made = zt_prog_step(waiting->program, step_index)->out[0];
        for (int value_id = first[step_index]; value_id >= 0 && !status; value_id = next[value_id])
            status = compute_again(&rewrite, waiting, value_id);
        bool moved = waiting->again[made] >= 0 && waiting->before[made] < 0;
        if (!status && !moved) status = zt_rewrite_copy(&rewrite, step_index, NULL);
    }
    if (begun) status = zt_rewrite_end(&rewrite, status, rewritten);
    zt_free(ctx, first);
    zt_free(ctx, next);
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* One round: *out NULL where nothing can be dropped. */
static zt_status round_of(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    size_t values = (size_t)zt_prog_n_values(program) + 1, steps = (size_t)zt_prog_n_steps(program) + 2;
    wait_state waiting = {.program = program};
    waiting.roots = zt_alloc_array(ctx, values, sizeof *waiting.roots);
    waiting.fixed = zt_calloc(ctx, values, sizeof *waiting.fixed);
    waiting.last_reads = zt_alloc_array(ctx, values, sizeof *waiting.last_reads);
    waiting.before = zt_alloc_array(ctx, values, sizeof *waiting.before);
    waiting.after = zt_alloc_array(ctx, values, sizeof *waiting.after);
    waiting.again = zt_alloc_array(ctx, values, sizeof *waiting.again);
    waiting.live = zt_alloc_array(ctx, steps, sizeof *waiting.live);
    zt_status status = zt_ctx_status(ctx);
    *rewritten = NULL;
    if (!status) {
        find_fixed(&waiting);
        find_last(&waiting);
        if (any_waits(&waiting)) waiting.bound = zt_prog_bind(program, options->sample, options->n_sample);
        status = zt_ctx_status(ctx);
    }
    if (!status && waiting.bound) {
        find_peak(&waiting);
        find_readers(&waiting);
        choose_values(&waiting);
        if (waiting.found) status = rewrite_program(ctx, &waiting, rewritten);
    }
    void *const all[] = {waiting.roots, waiting.fixed, waiting.last_reads, waiting.before,
                         waiting.after, waiting.again, waiting.live};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) zt_free(ctx, all[i]);
    zt_bound_free(waiting.bound);
    return status;
}

static zt_status take_if_smaller(const zt_prog *program, const zt_pass_opts *options, zt_prog *best, zt_prog **smaller)
{
    zt_pass_figures before, after;
    zt_status status = zt_pass_measure(program, options, &before);
    if (!status) status = zt_pass_measure(best, options, &after);
    if (!status && after.arena <= before.arena - before.arena / 10)
        *smaller = best;
    else
        zt_prog_free(best);
    return status;
}

static zt_status run_recompute_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    zt_prog *best = NULL;
    zt_status status = ZT_OK;
    if (!options->engine || zt_prog_n_symbols(program) > options->n_sample) return ZT_OK;
    for (int i = 0; i < ROUNDS && !status; i++) {
        zt_prog *better;
        status = round_of(ctx, best ? best : program, options, &better);
        if (!better) break;
        zt_prog_free(best);
        best = better;
    }
    if (!status && best) return take_if_smaller(program, options, best, rewritten);
    zt_prog_free(best);
    return status;
}

const zt_pass zt_pass_recompute = {
    .name = "recompute",
    .help = "rematerialization: recompute cheap values instead of keeping them",
    .run = run_recompute_pass,
};
