/* random_inputs.c - values for the inputs of a program, made up from a seed so that the program can run.
 *
 * Floats are normal. What an integer may be depends on who reads it, which the name of that op's
 * input tells: `pos`, `seq` and `table` are those of a cache, `i` and `target` are places in the
 * op's first input. Reshaped, cast or cut it is still the same number.
 */
#include "lib/run/bind_inputs.h"

#include <string.h>

/* How an integer is filled, and for FILL_IDS what it must stay below. */
typedef struct value_role {
    zt_fill fill;
    int64_t limit;
} value_role;

/* An index into all of type, whatever its axis. */
static int64_t least_dim(const zt_type *type)
{
    int64_t least = INT32_MAX;
    for (int axis = 0; axis < type->rank; axis++)
        if (type->dim[axis] < least) least = type->dim[axis];
    return least;
}

static value_role position_role(const zt_bound *bound, int step_index)
{
    (void)bound, (void)step_index;
    return (value_role){ZT_FILL_RISING, 0};
}

static value_role sequence_role(const zt_bound *bound, int step_index)
{
    (void)bound, (void)step_index;
    return (value_role){ZT_FILL_ZERO, 0};
}

static value_role table_role(const zt_bound *bound, int step_index)
{
    (void)bound, (void)step_index;
    return (value_role){ZT_FILL_PERM, 0};
}

static value_role index_role(const zt_bound *bound, int step_index)
{
    const zt_step *step = zt_prog_step(bound->prog, step_index);
    const zt_one_hot_attrs *hot = bound->attrs[step_index];
    if (step->op == ZT_OP_one_hot) return (value_role){ZT_FILL_IDS, hot->depth};
    const zt_type *indexed = &bound->type[step->in[0]];
    bool rows = step->op == ZT_OP_gather || step->op == ZT_OP_scatter_add;
    return (value_role){ZT_FILL_IDS, rows && indexed->rank ? indexed->dim[0] : least_dim(indexed)};
}

static value_role class_role(const zt_bound *bound, int step_index)
{
    const zt_type *logits = &bound->type[zt_prog_step(bound->prog, step_index)->in[0]];
    return (value_role){ZT_FILL_IDS, logits->rank ? logits->dim[logits->rank > 1] : 1};
}

static const struct {
    const char *name; /* of an op's input */
    value_role (*role)(const zt_bound *bound, int step_index);
} roles[] = {{"pos", position_role}, {"seq", sequence_role}, {"table", table_role},
             {"i", index_role},      {"ids", index_role},    {"target", class_role}};

/* Is output 0 the numbers of input 0 in another form? */
static bool same_numbers(const zt_step *step)
{
    return step->op == ZT_OP_cast || (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW);
}

/* What the step takes its input_index-th input for; false: it does not tell. */
static bool role_at(const zt_bound *bound, int step_index, int input_index, value_role *found)
{
    const char *name = zt_op_info(zt_prog_step(bound->prog, step_index)->op)->in_name[input_index];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].name, name) != 0) continue;
        *found = roles[i].role(bound, step_index);
        return true;
    }
    return false;
}

/* Who reads a value says what it may be: of several limits the least, and positions before indices. */
static value_role role_of(const zt_bound *bound, int value_id)
{
    value_role found = {ZT_FILL_ABSENT, INT64_MAX}, candidate;
    int alias = value_id; /* v in another form: the last one made */
    for (int step_index = 0; step_index < bound->n_steps; step_index++) {
        const zt_step *step = zt_prog_step(bound->prog, step_index);
        for (int k = 0; k < ZT_MAX_IN; k++) {
            if (step->in[k] < 0 || (step->in[k] != value_id && step->in[k] != alias)) continue;
            if (k == 0 && same_numbers(step))
                alias = step->out[0];
            else if (role_at(bound, step_index, k, &candidate) &&
                     (candidate.fill != ZT_FILL_IDS || found.fill == ZT_FILL_ABSENT ||
                      (found.fill == ZT_FILL_IDS && candidate.limit < found.limit)))
                found = candidate;
        }
    }
    return found;
}

/* Of an integer of which nobody tells what it is for: below each dimension of the program's other
 * values that are not made by ops. */
static int64_t limit_for(const zt_bound *bound, int value_id)
{
    int64_t least = INT32_MAX;
    for (int i = 0; i < bound->n_values; i++) {
        if (i == value_id || zt_prog_value(bound->prog, i)->kind == ZT_VALUE_OP) continue;
        int64_t dim = least_dim(&bound->type[i]);
        if (dim < least) least = dim;
    }
    return least;
}

/* FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo): a name as a number. */
static uint64_t hash_name(const char *name, uint64_t seed)
{
    uint64_t state = 14695981039346656037u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *name; name++) state = (state ^ (unsigned char)*name) * 1099511628211u;
    return state;
}

void zt_bound_inputs_draw(const zt_bound *bound, int value_id, uint64_t seed, void *dst)
{
    const zt_type *type = &bound->type[value_id];
    zt_case made = {.in = {*type}, .fill = {ZT_FILL_NORMAL}};
    if (!zt_dtype_is_float(type->dtype)) {
        value_role found = role_of(bound, value_id);
        bool rotates = type->rank == 2 && type->dim[0] > 1 && type->dim[0] <= type->dim[1];
        if (found.fill == ZT_FILL_PERM && !rotates) found = (value_role){ZT_FILL_RISING, 0};
        if (found.fill == ZT_FILL_ABSENT) found = (value_role){ZT_FILL_IDS, limit_for(bound, value_id)};
        if (zt_dtype_get(type->dtype)->kind == 'B') found = (value_role){ZT_FILL_IDS, 2};
        made.fill[0] = found.fill;
        made.limit[0] = found.fill == ZT_FILL_IDS && found.limit < 1 ? 1 : found.limit;
    }
    zt_case_fill(&made, 0, hash_name(zt_prog_value(bound->prog, value_id)->name, seed), dst);
}
