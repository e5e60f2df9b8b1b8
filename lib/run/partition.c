/* partition.c - from a bound program to segments, every value with its place.
 *
 * Four passes: find the root of every value; split the steps where the engine changes; let what
 * states keep be written where they lie; in each segment place the roots: host memory for what
 * crosses its border, buffers for data and states, and offsets in an
 * arena for the rest (arena.c). A value made and one that dies in the
 * same step never share bytes, save when the op may work in place.
 */
#include "lib/run/partition.h"

#include <string.h>

enum { ALIGN = 64 };

/* ---- roots ----------------------------------------------------------------------------------- */

static void find_roots(zt_partition *partition, const zt_bound *bound)
{
    for (int value_id = 0; value_id < bound->n_values; value_id++) partition->roots[value_id] = value_id;
    for (int step_index = 0; step_index < partition->n_steps; step_index++) {
        const zt_step *step = &partition->steps[step_index];
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (step->out[k] >= 0) partition->roots[step->out[k]] = partition->roots[step->in[k]];
    }
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int pick_engine(const zt_partition *partition, zt_chain *chain, const zt_bound *bound, const zt_step *step, bool strict)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT] = {0};
    bool whole = chain->skip_first;
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = step->in[input] >= 0 ? &bound->type[step->in[input]] : NULL;
    if (zt_op_infer(chain->engines[0]->ctx, step->op, step->attrs, input_types, output_types)) return -1;
    for (int input = 0; input < op_info->n_in && chain->skip_first_for; input++)
        if (step->in[input] >= 0 && chain->skip_first_for[partition->roots[step->in[input]]]) chain->skip_first = true;
    int engine_index = zt_chain_pick(chain, strict, step->op, step->attrs, input_types, output_types);
    chain->skip_first = whole;
    return engine_index;
}

static zt_status split_steps(zt_partition *partition, zt_chain *chain, const zt_bound *bound, bool strict)
{
    int *engine_of = zt_arena_alloc(partition->memory, (size_t)(partition->n_steps + 1) * sizeof *engine_of);
    if (!engine_of) return ZT_ENOMEM;
    for (int step_index = 0; step_index < partition->n_steps; step_index++) {
        bool view = zt_op_info(partition->steps[step_index].op)->def->flags & ZT_OPF_VIEW;
        engine_of[step_index] = view ? (step_index ? engine_of[step_index - 1] : 0)
                                     : pick_engine(partition, chain, bound, &partition->steps[step_index], strict);
        if (engine_of[step_index] < 0) return zt_ctx_status(chain->engines[0]->ctx);
        partition->fallbacks += engine_of[step_index] > 0 && !view;
        partition->n_segments += step_index == 0 || engine_of[step_index] != engine_of[step_index - 1];
    }
    size_t segment_count = (size_t)partition->n_segments;
    partition->segments = zt_arena_alloc(partition->memory, (segment_count + 1) * sizeof *partition->segments);
    if (!partition->segments) return ZT_ENOMEM;
    memset(partition->segments, 0, (segment_count + 1) * sizeof *partition->segments);
    zt_segment *segment = partition->segments - 1;
    for (int step_index = 0; step_index < partition->n_steps; step_index++) {
        if (step_index == 0 || engine_of[step_index] != engine_of[step_index - 1])
            *++segment = (zt_segment){.engine = engine_of[step_index], .first = step_index};
        segment->last = step_index + 1;
    }
    return ZT_OK;
}

/* ---- states updated where they lie ----------------------------------------------------------- */

/* Of each root the last step that reads it; past every step: its old value is wanted at the end. */
static void find_last_reads(const zt_partition *partition, const zt_bound *bound, int *last)
{
    for (int value_id = 0; value_id < bound->n_values; value_id++) last[value_id] = -1;
    for (int step_index = 0; step_index < partition->n_steps; step_index++)
        for (int input = 0; input < zt_op_info(partition->steps[step_index].op)->n_in; input++)
            if (partition->steps[step_index].in[input] >= 0)
                last[partition->roots[partition->steps[step_index].in[input]]] = step_index;
    for (int output_index = 0; output_index < zt_prog_n_outputs(bound->prog); output_index++)
        if (partition->wanted[output_index])
            last[partition->roots[zt_prog_output(bound->prog, output_index)->value]] = partition->n_steps;
    for (int value_id = 0; value_id < bound->n_values; value_id++) {
        const zt_value *value = zt_prog_value(bound->prog, value_id);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0 && partition->roots[value->keep] != value_id)
            last[partition->roots[value->keep]] = partition->n_steps;
    }
}

/* Does the step bear an output over the state, which it may read? An elementwise op reads no element
 * after writing that one, whichever of its inputs and outputs lie over each other. */
static bool can_overwrite(const zt_partition *partition, const zt_bound *bound, int step_index, int state_id)
{
    const zt_step *step = &partition->steps[step_index];
    const unsigned both = ZT_OPF_INPLACE | ZT_OPF_ELEMENTWISE;
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++) {
        if (step->in[input] < 0 || partition->roots[step->in[input]] != state_id) continue;
        if ((zt_op_info(step->op)->def->flags & both) != both ||
            !zt_type_equal(&bound->type[step->in[input]], &bound->type[state_id]))
            return false;
    }
    return true;
}

/* What the step of an engine-0 segment makes and the state keeps becomes the state's own memory, where nobody
 * reads the state later. Not on an engine whose values are wider than their type: there `keep` rounds. */
static void take_state(zt_partition *partition, const zt_bound *bound, zt_engine *engine, int step_index, int state_id, int last)
{
    int kept = zt_prog_value(bound->prog, state_id)->keep;
    if (last > step_index || !can_overwrite(partition, bound, step_index, state_id) ||
        !zt_type_equal(&bound->type[kept], &bound->type[state_id]) ||
        engine->vt->value_bytes(engine, &bound->type[state_id]) != zt_type_bytes(&bound->type[state_id]))
        return;
    for (int other = 0; other < bound->n_values; other++)
        if (partition->roots[other] == kept) partition->roots[other] = state_id;
}

static zt_status take_states(zt_partition *partition, const zt_chain *chain, const zt_bound *bound)
{
    size_t value_slots = (size_t)bound->n_values + 1;
    int *last = zt_arena_alloc(partition->memory, value_slots * sizeof *last);
    int *keeper = zt_arena_alloc(partition->memory, value_slots * sizeof *keeper); /* [values]: the state, or -1 */
    if (!last || !keeper) return ZT_ENOMEM;
    find_last_reads(partition, bound, last);
    memset(keeper, -1, value_slots * sizeof *keeper);
    for (int state_id = bound->n_values - 1; state_id >= 0; state_id--) {
        const zt_value *value = zt_prog_value(bound->prog, state_id);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) keeper[value->keep] = state_id;
    }
    for (int segment_index = 0; segment_index < partition->n_segments; segment_index++) {
        const zt_segment *segment = &partition->segments[segment_index];
        for (int step_index = segment->first; step_index < segment->last && segment->engine == 0; step_index++)
            for (int output = 0; output < zt_op_info(partition->steps[step_index].op)->n_out; output++) {
                int value_id = partition->steps[step_index].out[output];
                if (value_id >= 0 && partition->roots[value_id] == value_id && keeper[value_id] >= 0)
                    take_state(partition, bound, chain->engines[0], step_index, keeper[value_id], last[keeper[value_id]]);
            }
    }
    return ZT_OK;
}

/* ---- live ranges ----------------------------------------------------------------------------- */

/* Past every step: the value is wanted on the host when the program ends. */
static void keep_to_end(int *last_use, const int *root, int value, int n_steps)
{
    if (value >= 0) last_use[root[value]] = n_steps;
}

static void find_last_uses(const zt_partition *partition, const zt_bound *bound, int *first_made, int *last_use)
{
    for (int value_id = 0; value_id < bound->n_values; value_id++) first_made[value_id] = last_use[value_id] = -1;
    for (int step_index = 0; step_index < partition->n_steps; step_index++) {
        const zt_step *step = &partition->steps[step_index];
        const zt_opinfo *op_info = zt_op_info(step->op);
        for (int input = 0; input < op_info->n_in; input++)
            if (step->in[input] >= 0) last_use[partition->roots[step->in[input]]] = step_index;
        for (int output = 0; output < op_info->n_out; output++) {
            if (step->out[output] < 0) continue;
            int root = partition->roots[step->out[output]];
            if (first_made[root] < 0 && root == step->out[output]) first_made[root] = step_index;
            if (last_use[root] < step_index) last_use[root] = step_index;
        }
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(bound->prog); output_index++)
        if (partition->wanted[output_index])
            keep_to_end(last_use, partition->roots, zt_prog_output(bound->prog, output_index)->value, partition->n_steps);
    for (int value_id = 0; value_id < bound->n_values; value_id++) {
        const zt_value *value = zt_prog_value(bound->prog, value_id);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0 && partition->roots[value->keep] != value_id)
            keep_to_end(last_use, partition->roots, value->keep, partition->n_steps);
    }
}

/* ---- placing --------------------------------------------------------------------------------- */

static zt_status place_arena(zt_partition *partition, zt_segment *segment, const zt_bound *bound, zt_live_range *ranges,
                             int range_count, const zt_plan_layout *layout)
{
    zt_status status = layout ? zt_plan_layout_apply(layout, partition, (int)(segment - partition->segments), bound, ranges,
                                                     range_count, &segment->arena_bytes, &segment->liveness_bytes)
                              : zt_live_ranges_place(partition->memory, ranges, range_count, segment->first, segment->last,
                                                     &segment->arena_bytes, &segment->liveness_bytes);
    for (int range_index = 0; range_index < range_count && !status; range_index++)
        segment->places[ranges[range_index].root] = (zt_place){.kind = ZT_PLACE_ARENA, .offset = ranges[range_index].offset};
    return status;
}

static void place_once(zt_segment *segment, int root, zt_place_kind kind, int *list, int *count)
{
    if (segment->places[root].kind != ZT_PLACE_NOWHERE) return;
    segment->places[root] = (zt_place){.kind = kind, .index = *count};
    list[(*count)++] = root;
}

/* Does the step read the root other than as its input k? */
static bool read_twice(const zt_partition *partition, const zt_step *step, int k, int root)
{
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++)
        if (input != k && step->in[input] >= 0 && partition->roots[step->in[input]] == root) return true;
    return false;
}

/* An op that may work in place takes over input 0 when that dies here and is of the output's type;
 * an elementwise one any such input: it reads no element after writing that one. */
static zt_live_range *find_range_to_extend(const zt_partition *partition, const zt_bound *bound, int step_index,
                                           const int *last_use, zt_live_range *ranges, const int *range_of)
{
    const zt_step *step = &partition->steps[step_index];
    const zt_opinfo *op_info = zt_op_info(step->op);
    if (!(op_info->def->flags & ZT_OPF_INPLACE)) return NULL;
    int candidate_count = op_info->def->flags & ZT_OPF_ELEMENTWISE ? op_info->n_in : 1;
    for (int k = 0; k < candidate_count; k++) {
        int root = step->in[k] < 0 ? -1 : partition->roots[step->in[k]];
        if (root < 0 || range_of[root] < 0 || last_use[root] != step_index || read_twice(partition, step, k, root)) continue;
        if (zt_type_equal(&bound->type[step->in[k]], &bound->type[step->out[0]])) return &ranges[range_of[root]];
    }
    return NULL;
}

typedef struct placing_work {
    int *first_made, *last_use, *range_of;
    zt_live_range *ranges;
} placing_work;

static zt_status place_step(zt_partition *partition, zt_segment *segment, const zt_bound *bound, zt_engine *engine,
                            int step_index, placing_work *work, int *range_count)
{
    const zt_step *step = &partition->steps[step_index];
    const zt_opinfo *op_info = zt_op_info(step->op);
    for (int input = 0; input < op_info->n_in; input++) {
        if (step->in[input] < 0) continue;
        int root = partition->roots[step->in[input]];
        zt_value_kind kind = zt_prog_value(bound->prog, root)->kind;
        if (kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE)
            place_once(segment, root, ZT_PLACE_BUF, segment->buffers, &segment->n_buffers);
        else if (kind == ZT_VALUE_IN || work->first_made[root] < segment->first)
            place_once(segment, root, ZT_PLACE_IN, segment->inputs, &segment->n_inputs);
    }
    for (int output = 0; output < op_info->n_out; output++) {
        int root = step->out[output];
        if (root < 0) continue;
        if (zt_prog_value(bound->prog, partition->roots[root])->kind == ZT_VALUE_STATE)
            place_once(segment, partition->roots[root], ZT_PLACE_BUF, segment->buffers, &segment->n_buffers);
        if (partition->roots[root] != root) continue;
        if (work->last_use[root] >= segment->last) {
            place_once(segment, root, ZT_PLACE_OUT, segment->outputs, &segment->n_outputs);
            continue;
        }
        zt_live_range *over =
            output == 0 ? find_range_to_extend(partition, bound, step_index, work->last_use, work->ranges, work->range_of) : NULL;
        if (over) {
            work->range_of[root] = (int)(over - work->ranges);
            segment->over[root] = over->root;
            over->dies = work->last_use[root];
            continue;
        }
        size_t bytes = engine->vt->value_bytes(engine, &bound->type[root]);
        if (!zt_add_size(bytes, ALIGN - 1, &bytes))
            return zt_fail(engine->ctx, ZT_ENOMEM, "step %d: value too large (%zu bytes)", step_index, bytes);
        work->range_of[root] = *range_count;
        work->ranges[(*range_count)++] = (zt_live_range){
            .root = root, .born = step_index, .dies = work->last_use[root], .bytes = bytes & ~(size_t)(ALIGN - 1)};
    }
    return ZT_OK;
}

static zt_status place_segment(zt_partition *partition, zt_segment *segment, const zt_bound *bound, zt_engine *engine,
                               placing_work *work, const zt_plan_layout *layout)
{
    size_t value_slots = (size_t)bound->n_values + 1;
    int range_count = 0;
    segment->places = zt_arena_alloc(partition->memory, value_slots * sizeof *segment->places);
    segment->inputs = zt_arena_alloc(partition->memory, value_slots * sizeof(int));
    segment->outputs = zt_arena_alloc(partition->memory, value_slots * sizeof(int));
    segment->buffers = zt_arena_alloc(partition->memory, value_slots * sizeof(int));
    segment->over = zt_arena_alloc(partition->memory, value_slots * sizeof(int));
    if (!segment->over || !segment->places || !segment->inputs || !segment->outputs || !segment->buffers) return ZT_ENOMEM;
    memset(segment->places, 0, value_slots * sizeof *segment->places);
    for (int value_id = 0; value_id < bound->n_values; value_id++) work->range_of[value_id] = segment->over[value_id] = -1;
    for (int step_index = segment->first; step_index < segment->last; step_index++) {
        zt_status status = place_step(partition, segment, bound, engine, step_index, work, &range_count);
        if (status) return status;
    }
    zt_status status = place_arena(partition, segment, bound, work->ranges, range_count, layout);
    if (status) return status;
    for (int value_id = 0; value_id < bound->n_values; value_id++)
        if (segment->over[value_id] >= 0) segment->places[value_id] = segment->places[segment->over[value_id]];
    for (int value_id = 0; value_id < bound->n_values; value_id++)
        segment->places[value_id] = segment->places[partition->roots[value_id]];
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Which values are wanted outputs, or what a state keeps: others only if something reads them. */
static void note_wanted(const zt_partition *partition, const zt_bound *bound, bool *needed)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(bound->prog); output_index++)
        if (partition->wanted[output_index]) needed[zt_prog_output(bound->prog, output_index)->value] = true;
    for (int value_id = 0; value_id < bound->n_values; value_id++) {
        const zt_value *value = zt_prog_value(bound->prog, value_id);
        if (value->kind == ZT_VALUE_STATE && value->keep >= 0) needed[value->keep] = true;
    }
}

/* Is one of its values needed, or does it write into a state? Then so are its inputs. Where every
 * output is wanted, every step runs, for its runtime errors too. */
static bool is_live(const zt_step *step, bool all, bool *needed)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    bool live = all || op_info->def->donates;
    for (int output = 0; output < op_info->n_out; output++) live = live || (step->out[output] >= 0 && needed[step->out[output]]);
    for (int input = 0; input < op_info->n_in; input++)
        if (live && step->in[input] >= 0) needed[step->in[input]] = true;
    return live;
}

static zt_status copy_live_steps(zt_partition *partition, const zt_bound *bound, void *const *outputs)
{
    int n_out = zt_prog_n_outputs(bound->prog);
    size_t n_values = (size_t)bound->n_values + 1, n_steps = (size_t)bound->n_steps + 1;
    partition->roots = zt_arena_alloc(partition->memory, n_values * sizeof *partition->roots);
    partition->steps = zt_arena_alloc(partition->memory, n_steps * sizeof *partition->steps);
    partition->wanted = zt_arena_alloc(partition->memory, (size_t)n_out + 1);
    bool *needed = zt_arena_alloc(partition->memory, n_values);
    bool *live = zt_arena_alloc(partition->memory, n_steps);
    if (!partition->roots || !partition->steps || !partition->wanted || !needed || !live) return ZT_ENOMEM;
    bool all = true;
    for (int output_index = 0; output_index < n_out; output_index++) {
        partition->wanted[output_index] = !outputs || outputs[output_index];
        all = all && partition->wanted[output_index];
    }
    memset(needed, 0, n_values);
    note_wanted(partition, bound, needed);
    for (int step_index = bound->n_steps; step_index-- > 0;)
        live[step_index] = is_live(zt_prog_step(bound->prog, step_index), all, needed);
    for (int step_index = 0; step_index < bound->n_steps; step_index++) {
        if (!live[step_index]) continue;
        partition->steps[partition->n_steps] = *zt_prog_step(bound->prog, step_index);
        partition->steps[partition->n_steps++].attrs = bound->attrs[step_index];
    }
    return ZT_OK;
}

static zt_status make_partition(zt_partition *partition, zt_chain *chain, const zt_bound *bound, bool strict,
                                void *const *outputs, const zt_plan_layout *layout)
{
    size_t value_slots = (size_t)bound->n_values + 1;
    zt_status status = copy_live_steps(partition, bound, outputs);
    if (status) return status;
    find_roots(partition, bound);
    status = split_steps(partition, chain, bound, strict);
    if (!status && layout) status = zt_plan_layout_parts(layout, partition, chain);
    if (!status) status = take_states(partition, chain, bound);
    if (status) return status;
    placing_work work = {.first_made = zt_arena_alloc(partition->memory, value_slots * sizeof(int)),
                         .last_use = zt_arena_alloc(partition->memory, value_slots * sizeof(int)),
                         .range_of = zt_arena_alloc(partition->memory, value_slots * sizeof(int)),
                         .ranges = zt_arena_alloc(partition->memory, value_slots * sizeof(zt_live_range))};
    if (!work.first_made || !work.last_use || !work.range_of || !work.ranges) return ZT_ENOMEM;
    find_last_uses(partition, bound, work.first_made, work.last_use);
    for (int segment_index = 0; segment_index < partition->n_segments && !status; segment_index++)
        status = place_segment(partition, &partition->segments[segment_index], bound,
                               chain->engines[partition->segments[segment_index].engine], &work, layout);
    return status;
}

zt_status zt_partition_make(zt_partition *partition, zt_chain *chain, const zt_bound *bound, bool strict, void *const *outputs,
                            const zt_plan_layout *layout)
{
    memset(partition, 0, sizeof *partition);
    partition->memory = zt_arena_new(chain->engines[0]->ctx, 1 << 18);
    if (!partition->memory) return ZT_ENOMEM;
    zt_status status = make_partition(partition, chain, bound, strict, outputs, layout);
    if (status) zt_partition_free(partition);
    return status;
}

void zt_partition_free(zt_partition *partition)
{
    zt_arena_free(partition->memory);
    memset(partition, 0, sizeof *partition);
}
