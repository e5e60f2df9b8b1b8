/* part.c - some steps of a bound program as a program of their own. */
#include "lib/prog/list.h"

#include <string.h>

typedef struct part_state {
    const zt_bound *bound;
    const zt_prog *source;
    zt_prog *target;
    int first, last;
    int *map;   /* [values of from]: its number in `to`, or -1 */
    int *roots; /* [values of from]: whose memory it is, through views and donations in the part */
    bool *used; /* [values of from]: a step of the part uses up the memory of this root */
} part_state;

static const zt_step *step_at(const part_state *part, int step_index) { return zt_prog_step(part->source, step_index); }

static int donated_count(const zt_step *step) { return zt_op_info(step->op)->def->donates; }

/* Which memories the part uses up. */
static void find_used(part_state *part)
{
    for (int value_id = 0; value_id < part->bound->n_values; value_id++) part->roots[value_id] = value_id;
    for (int step_index = part->first; step_index <= part->last; step_index++) {
        const zt_step *step = step_at(part, step_index);
        for (int donated = 0; donated < donated_count(step); donated++) part->used[part->roots[step->in[donated]]] = true;
        for (int k = 0; k < zt_op_shares(step->op); k++) part->roots[step->out[k]] = part->roots[step->in[k]];
    }
}

/* Declares a value, which a step reads and none of the part makes. */
static zt_status declare_value(part_state *part, int value_id)
{
    const zt_value *value = zt_prog_value(part->source, value_id);
    const zt_type *type = &part->bound->type[value_id];
    zt_value_kind kind = value->kind == ZT_VALUE_DATA                            ? ZT_VALUE_DATA
                         : value->kind == ZT_VALUE_STATE || part->used[value_id] ? ZT_VALUE_STATE
                                                                                 : ZT_VALUE_IN;
    zt_span tensor = kind == ZT_VALUE_DATA ? zt_span_of(value->tensor) : (zt_span){0};
    part->map[value_id] =
        zt_prog_declare(part->target, kind, zt_span_of(value->name), type->dtype, type->rank, type->dim, tensor);
    return part->map[value_id] < 0 ? zt_ctx_status(part->source->ctx) : ZT_OK;
}

/* In the order of the values, as in the whole program. */
static zt_status declare_all(part_state *part)
{
    bool *reads = zt_calloc(part->source->ctx, (size_t)part->bound->n_values + 1, sizeof *reads);
    if (!reads) return ZT_ENOMEM;
    for (int step_index = part->first; step_index <= part->last; step_index++)
        for (int input = 0; input < ZT_MAX_IN; input++)
            if (step_at(part, step_index)->in[input] >= 0) reads[step_at(part, step_index)->in[input]] = true;
    zt_status status = ZT_OK;
    for (int value_id = 0; value_id < part->bound->n_values && !status; value_id++) {
        const zt_value *value = zt_prog_value(part->source, value_id);
        bool inside = value->kind == ZT_VALUE_OP && value->index >= part->first && value->index <= part->last;
        if (reads[value_id] && !inside) status = declare_value(part, value_id);
    }
    zt_free(part->source->ctx, reads);
    return status;
}

static zt_status copy_step(part_state *part, int step_index)
{
    const zt_step *step = step_at(part, step_index);
    const zt_opinfo *op_info = zt_op_info(step->op);
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    const char *names[ZT_MAX_OUT];
    for (int input = 0; input < ZT_MAX_IN; input++) inputs[input] = step->in[input] >= 0 ? part->map[step->in[input]] : ZT_NONE;
    for (int output = 0; output < op_info->n_out; output++)
        names[output] = step->out[output] >= 0 ? zt_prog_value(part->source, step->out[output])->name : "_";
    zt_status status = zt_prog_op(part->target, step->op, part->bound->attrs[step_index], inputs, names, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++)
        if (step->out[output] >= 0) part->map[step->out[output]] = outputs[output];
    return status;
}

/* Is the value, of the whole program, a state of the part? */
static bool is_state(const part_state *part, int value_id)
{
    return part->map[value_id] >= 0 && zt_prog_value(part->target, part->map[value_id])->kind == ZT_VALUE_STATE;
}

/* Each state that is used up keeps the last value that is its memory and of its type. */
static zt_status keep_all(part_state *part)
{
    for (int value_id = 0; value_id < part->bound->n_values; value_id++) {
        if (!part->used[value_id] || part->map[value_id] < 0 || !is_state(part, value_id)) continue;
        int latest = -1;
        for (int step_index = part->first; step_index <= part->last; step_index++)
            for (int donated = 0; donated < donated_count(step_at(part, step_index)); donated++)
                if (part->roots[step_at(part, step_index)->out[donated]] == value_id)
                    latest = step_at(part, step_index)->out[donated];
        if (latest < 0 || !zt_type_equal(&part->bound->type[latest], &part->bound->type[value_id])) continue;
        zt_status status = zt_prog_keep(part->target, part->map[value_id], part->map[latest]);
        if (status) return status;
    }
    return ZT_OK;
}

/* Is the value read after the part, or put out or kept at the end? */
static bool leaves_part(const part_state *part, int value_id)
{
    for (int step_index = part->last + 1; step_index < part->bound->n_steps; step_index++)
        for (int input = 0; input < ZT_MAX_IN; input++)
            if (step_at(part, step_index)->in[input] == value_id) return true;
    for (int output_index = 0; output_index < zt_prog_n_outputs(part->source); output_index++)
        if (zt_prog_output(part->source, output_index)->value == value_id) return true;
    for (int state_index = 0; state_index < zt_prog_count(part->source, ZT_VALUE_STATE); state_index++)
        if (zt_prog_value(part->source, zt_prog_nth(part->source, ZT_VALUE_STATE, state_index))->keep == value_id) return true;
    return false;
}

/* What a state keeps need not be put out as well. */
static zt_status put_out(part_state *part)
{
    for (int step_index = part->first; step_index <= part->last; step_index++) {
        for (int output = 0; output < zt_op_info(step_at(part, step_index)->op)->n_out; output++) {
            int value_id = step_at(part, step_index)->out[output];
            if (value_id < 0 || !leaves_part(part, value_id)) continue;
            int root = part->roots[value_id];
            if (is_state(part, root) && zt_prog_value(part->target, part->map[root])->keep == part->map[value_id]) continue;
            zt_status status = zt_prog_out(part->target, zt_prog_value(part->source, value_id)->name, part->map[value_id]);
            if (status) return status;
        }
    }
    return ZT_OK;
}

static zt_status fill_part(part_state *part)
{
    for (int value_id = 0; value_id < part->bound->n_values; value_id++) part->map[value_id] = -1;
    find_used(part);
    zt_status status = ZT_OK;
    if (part->source->file)
        status = zt_prog_set_model(part->target, zt_span_of(part->source->file), zt_span_of(part->source->id));
    if (!status) status = declare_all(part);
    for (int i = part->first; i <= part->last && !status; i++) status = copy_step(part, i);
    if (!status) status = keep_all(part);
    return status ? status : put_out(part);
}

zt_prog *zt_prog_part(const zt_bound *bound, int first, int last)
{
    if (!bound) return NULL;
    zt_ctx *ctx = bound->prog->ctx;
    if (first < 0 || first > last || last >= bound->n_steps) {
        zt_fail(ctx, ZT_EUSAGE, "invalid range of steps %d to %d: the program has steps 0 to %d", first, last,
                bound->n_steps - 1);
        return NULL;
    }
    size_t value_slots = (size_t)bound->n_values + 1;
    part_state part = {.bound = bound,
                       .source = bound->prog,
                       .target = zt_prog_new(ctx),
                       .first = first,
                       .last = last,
                       .map = zt_calloc(ctx, value_slots, sizeof *part.map),
                       .roots = zt_calloc(ctx, value_slots, sizeof *part.roots),
                       .used = zt_calloc(ctx, value_slots, sizeof *part.used)};
    zt_status status = part.target && part.map && part.roots && part.used ? fill_part(&part) : ZT_ENOMEM;
    zt_free(ctx, part.map);
    zt_free(ctx, part.roots);
    zt_free(ctx, part.used);
    if (status == ZT_OK) return part.target;
    zt_prog_free(part.target);
    return NULL;
}
