/* cse.c - the pass cse: what is computed twice is computed once.
 *
 * Two steps are the same when op, attributes and inputs are. Random ops are functions of seed,
 * counter and place, and so no exception. What updates memory in place is never merged, nor what
 * makes a value that is used up later: that memory must stay its own; nor a caller's function,
 * which may do anything. Two `data` of one tensor and type are one.
 */
#include "lib/run/passes/rewrite.h"

#include <string.h>

typedef struct repeat_finder {
    const zt_prog *program;
    int *same;     /* [values]: the value that stands for it; itself as a rule */
    bool *merged;  /* [steps] */
    bool *used_up; /* [values]: a donation takes its memory */
    int *roots;    /* [values] */
    int *slots;    /* [n_slots] of steps, -1: free; open addressing */
    size_t n_slots;
    int found;
} repeat_finder;

static void find_used_up(repeat_finder *finder)
{
    zt_prog_roots(finder->program, finder->roots);
    for (int step_index = 0; step_index < zt_prog_n_steps(finder->program); step_index++) {
        const zt_step *step = zt_prog_step(finder->program, step_index);
        for (int donated = 0; donated < zt_op_info(step->op)->def->donates; donated++)
            finder->used_up[finder->roots[step->in[donated]]] = true;
    }
}

static uint64_t mix_hash(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

static uint64_t step_hash(const repeat_finder *finder, const zt_step *step)
{
    uint64_t hash = mix_hash((uint64_t)step->op, zt_attrs_hash(step->op, step->attrs));
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++)
        hash = mix_hash(hash, (uint64_t)(step->in[input] < 0 ? -1 : finder->same[step->in[input]]));
    return hash;
}

static bool steps_same(const repeat_finder *finder, const zt_step *first, const zt_step *second)
{
    if (first->op != second->op) return false;
    for (int input = 0; input < zt_op_info(first->op)->n_in; input++) {
        if ((first->in[input] < 0) != (second->in[input] < 0)) return false;
        if (first->in[input] >= 0 && finder->same[first->in[input]] != finder->same[second->in[input]]) return false;
    }
    return zt_attrs_same(first->op, first->attrs, second->attrs);
}

static bool may_merge(const repeat_finder *finder, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    if (op_info->def->donates || op_info->def->flags & ZT_OPF_CALLERS) return false;
    for (int output = 0; output < op_info->n_out; output++)
        if (step->out[output] >= 0 && finder->used_up[finder->roots[step->out[output]]]) return false;
    return true;
}

/* Does `first` make all that `step` does. */
static bool makes_all_of(const zt_step *first, const zt_step *step)
{
    for (int output = 0; output < ZT_MAX_OUT; output++)
        if (step->out[output] >= 0 && first->out[output] < 0) return false;
    return true;
}

static void check_step(repeat_finder *finder, int step_index)
{
    const zt_step *step = zt_prog_step(finder->program, step_index);
    if (!may_merge(finder, step)) return;
    size_t slot = step_hash(finder, step) & (finder->n_slots - 1);
    for (; finder->slots[slot] >= 0; slot = (slot + 1) & (finder->n_slots - 1)) {
        const zt_step *first = zt_prog_step(finder->program, finder->slots[slot]);
        if (!steps_same(finder, first, step) || !makes_all_of(first, step)) continue;
        for (int output = 0; output < ZT_MAX_OUT; output++)
            if (step->out[output] >= 0) finder->same[step->out[output]] = finder->same[first->out[output]];
        finder->merged[step_index] = true;
        finder->found++;
        return;
    }
    finder->slots[slot] = step_index;
}

static zt_status merge_data(repeat_finder *finder, zt_ctx *ctx)
{
    int64_t was;
    zt_map *seen = zt_map_new(ctx, (size_t)zt_prog_count(finder->program, ZT_VALUE_DATA) + 1);
    zt_status status = seen ? ZT_OK : ZT_ENOMEM;
    for (int data_index = 0; data_index < zt_prog_count(finder->program, ZT_VALUE_DATA) && !status; data_index++) {
        int value_id = zt_prog_nth(finder->program, ZT_VALUE_DATA, data_index);
        const zt_value *value = zt_prog_value(finder->program, value_id);
        size_t name_length = strlen(value->tensor);
        if (!zt_map_get(seen, value->tensor, name_length, &was)) {
            status = zt_map_put(seen, value->tensor, name_length, value_id);
        } else if (zt_type_equal(&zt_prog_value(finder->program, (int)was)->type, &value->type)) {
            finder->same[value_id] = (int)was;
            finder->found++;
        }
    }
    zt_map_free(seen);
    return status;
}

static zt_status merge_steps(zt_ctx *ctx, const repeat_finder *finder, zt_prog **rewritten)
{
    zt_rewrite rewrite;
    zt_status status = zt_rewrite_begin(&rewrite, ctx, finder->program);
    for (int data_index = 0; data_index < zt_prog_count(finder->program, ZT_VALUE_DATA) && !status; data_index++) {
        int value_id = zt_prog_nth(finder->program, ZT_VALUE_DATA, data_index);
        rewrite.map[value_id] = rewrite.map[finder->same[value_id]];
    }
    for (int step_index = 0; step_index < zt_prog_n_steps(finder->program) && !status; step_index++) {
        const zt_step *step = zt_prog_step(finder->program, step_index);
        if (!finder->merged[step_index]) status = zt_rewrite_copy(&rewrite, step_index, NULL);
        for (int output = 0; output < ZT_MAX_OUT && finder->merged[step_index]; output++)
            if (step->out[output] >= 0) rewrite.map[step->out[output]] = rewrite.map[finder->same[step->out[output]]];
    }
    return zt_rewrite_end(&rewrite, status, rewritten);
}

static zt_status find_repeats(repeat_finder *finder, zt_ctx *ctx)
{
    for (int value_id = 0; value_id < zt_prog_n_values(finder->program); value_id++) finder->same[value_id] = value_id;
    memset(finder->slots, 0xff, finder->n_slots * sizeof *finder->slots);
    find_used_up(finder);
    zt_status status = merge_data(finder, ctx);
    for (int step_index = 0; step_index < zt_prog_n_steps(finder->program) && !status; step_index++)
        check_step(finder, step_index);
    return status;
}

static zt_status run_cse_pass(zt_ctx *ctx, const zt_prog *program, const zt_pass_opts *options, zt_prog **rewritten)
{
    size_t values = (size_t)zt_prog_n_values(program) + 1, steps = (size_t)zt_prog_n_steps(program) + 1;
    repeat_finder finder = {.program = program, .n_slots = 64};
    (void)options;
    while (finder.n_slots < 2 * steps) finder.n_slots *= 2;
    finder.same = zt_alloc_array(ctx, values, sizeof *finder.same);
    finder.roots = zt_alloc_array(ctx, values, sizeof *finder.roots);
    finder.used_up = zt_calloc(ctx, values, sizeof *finder.used_up);
    finder.merged = zt_calloc(ctx, steps, sizeof *finder.merged);
    finder.slots = zt_alloc_array(ctx, finder.n_slots, sizeof *finder.slots);
    bool room = finder.same && finder.roots && finder.used_up && finder.merged && finder.slots;
    zt_status status = room ? find_repeats(&finder, ctx) : ZT_ENOMEM;
    if (!status && finder.found) status = merge_steps(ctx, &finder, rewritten);
    zt_free(ctx, finder.same);
    zt_free(ctx, finder.roots);
    zt_free(ctx, finder.used_up);
    zt_free(ctx, finder.merged);
    zt_free(ctx, finder.slots);
    return status;
}

const zt_pass zt_pass_cse = {
    .name = "cse",
    .help = "common subexpression elimination",
    .run = run_cse_pass,
};
