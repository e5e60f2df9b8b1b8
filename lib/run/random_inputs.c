/* random_inputs.c - values for the inputs of a program, drawn from a seed so that the program can run.
 *
 * Floats are drawn from the normal distribution. The range of an integer follows from the ops that read it,
 * by the name of the input that they read it as:
 *
 *     pos          rises from 0: a position in a cache
 *     seq          0: a sequence
 *     table        a permutation: a block table
 *     from, to     one sequence in slot 0: where rows of a recurrence start, and where their states go
 *     i, ids       below the dimension of the op's first input that it indexes
 *     target       below the number of classes
 *     else         below every dimension of the program's declared values
 *
 * A cast or a view of a value has the role of the value.
 */
#include "lib/run/bind_inputs.h"

#include <string.h>

/* How a value of integers is filled; limit: with ZT_FILL_IDS each is below it. */
typedef struct value_role {
    zt_fill fill;
    int64_t limit;
} value_role;

/* The smallest dimension: what is below it indexes any axis of the type. */
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

/* Of a recurrence. */
static value_role start_role(const zt_bound *bound, int step_index)
{
    (void)bound, (void)step_index;
    return (value_role){ZT_FILL_STARTS, 0};
}

static value_role end_role(const zt_bound *bound, int step_index)
{
    (void)bound, (void)step_index;
    return (value_role){ZT_FILL_ENDS, 0};
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
} roles[] = {{"pos", position_role}, {"seq", sequence_role}, {"table", table_role}, {"from", start_role},
             {"to", end_role},       {"i", index_role},      {"ids", index_role},   {"target", class_role}};

/* Does output 0 hold the numbers of input 0, in another type or shape? */
static bool same_numbers(const zt_step *step)
{
    return step->op == ZT_OP_cast || (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW);
}

/* The role of one input of the step; false: its name says nothing. */
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

/* The role of a value, from all steps that read it: a cache's roles go before indices, and of several
 * limits the smallest holds. */
static value_role role_of(const zt_bound *bound, int value_id)
{
    value_role found = {ZT_FILL_ABSENT, INT64_MAX}, candidate;
    int alias = value_id; /* the latest cast or view of the value */
    for (int step_index = 0; step_index < bound->n_steps; step_index++) {
        const zt_step *step = zt_prog_step(bound->prog, step_index);
        for (int input = 0; input < ZT_MAX_IN; input++) {
            if (step->in[input] < 0 || (step->in[input] != value_id && step->in[input] != alias)) continue;
            if (input == 0 && same_numbers(step))
                alias = step->out[0];
            else if (role_at(bound, step_index, input, &candidate) &&
                     (candidate.fill != ZT_FILL_IDS || found.fill == ZT_FILL_ABSENT ||
                      (found.fill == ZT_FILL_IDS && candidate.limit < found.limit)))
                found = candidate;
        }
    }
    return found;
}

/* The limit of an integer whose readers give it no role: the smallest dimension of the program's other
 * declared values. */
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

/* FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo) of a name. */
static uint64_t hash_name(const char *name, uint64_t seed)
{
    uint64_t state = 14695981039346656037u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *name; name++) state = (state ^ (unsigned char)*name) * 1099511628211u;
    return state;
}

void zt_bound_inputs_draw(const zt_bound *bound, int value_id, uint64_t seed, void *destination)
{
    if (!bound || !destination || value_id < 0 || value_id >= bound->n_values) return;
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
    zt_case_fill(&made, 0, hash_name(zt_prog_value(bound->prog, value_id)->name, seed), destination);
}
